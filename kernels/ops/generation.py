"""A loop that generates text over a paged KV cache, with a prompt that requests share.

The model is a small Llama-like decoder with random weights, so its text is noise. The scheduler and the block manager
of kernels/kv_cache decide what runs and where each key lies. The operators do the rest: attention for a prompt,
reshape_and_cache for new keys, paged_decode for the next token of all running requests.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from kernels.errors import ProblemError
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.manager import Change, KVCache
from kernels.kv_cache.scheduler import Step, Visit, serve
from kernels.ops.attention import attention
from kernels.ops.paged import paged_decode, reshape_and_cache

Tensor = torch.Tensor
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [tokens, heads, head_dim], k and v [tokens, kv_heads, head_dim]) -> o, of q's shape"""
Chosen = tuple[tuple[str, str], ...]  # (request, character)
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 2, 64, 4, 2, 64
FIRST, VOCABULARY = 32, 95  # a token is a printable character of ASCII
SEED = 0


@dataclass(frozen=True)
class Generation:
    """The text of a loop.

    prompts: request -> its whole prompt, with the shared beginning.
    texts: request -> its generated text.
    reused: request -> tokens of its beginning that another request had written, so they are not computed again.
    chosen: for each step, each request's character from this step.
    equal: whether torch's attention over contiguous keys generates the same texts. None if it made them.
    """

    prompts: dict[str, str]
    texts: dict[str, str]
    reused: dict[str, int]
    chosen: tuple[Chosen, ...]
    equal: bool | None


class Decoder:
    """A decoder like Llama: RMS norms, rotary positions, grouped heads, a gated MLP. Its weights are random."""

    def __init__(self, device: str) -> None:
        made = torch.Generator().manual_seed(SEED)

        def weight(rows: int, columns: int) -> Tensor:
            return (torch.randn(rows, columns, generator=made) * columns**-0.5).to(device)

        width, kv_width = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
        sizes = {"q": (width, HIDDEN), "k": (kv_width, HIDDEN), "v": (kv_width, HIDDEN), "o": (HIDDEN, width)}
        sizes |= {"gate": (4 * HIDDEN, HIDDEN), "up": (4 * HIDDEN, HIDDEN), "down": (HIDDEN, 4 * HIDDEN)}
        self.embedding, self.head = weight(VOCABULARY, HIDDEN), weight(VOCABULARY, HIDDEN)
        self.layers = [{name: weight(*size) for name, size in sizes.items()} for _ in range(LAYERS)]

    def __call__(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """The logits [tokens, vocabulary] of tokens at their positions. `attend` knows the keys before them."""
        x = self.embedding[tokens]
        for number, w in enumerate(self.layers):
            y = _norm(x)
            q, k, v = ((y @ w[name].T).unflatten(-1, (-1, HEAD_DIM)) for name in "qkv")
            o = attend(number, _rotated(q, positions), _rotated(k, positions), v)
            x = x + o.flatten(-2) @ w["o"].T
            y = _norm(x)
            x = x + (torch.nn.functional.silu(y @ w["gate"].T) * (y @ w["up"].T)) @ w["down"].T
        return _norm(x) @ self.head.T


def _norm(x: Tensor) -> Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:])


def _rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary positions: each pair of numbers turns by an angle that grows with the position."""
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * 10000.0 ** (-torch.arange(half, device=x.device) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


class PagedLoop:
    """The model over its cache in pages. `written`: request -> its tokens in the cache. `next`: its chosen token."""

    def __init__(self, num_blocks: int, block_size: int, device: str) -> None:
        self.model, self.device = Decoder(device), device
        self.cache = KVCache(num_blocks, block_size)
        layout = Layout(num_blocks, KV_HEADS, HEAD_DIM, block_size, "float32")
        self.k = [torch.zeros(layout.k_shape, device=device) for _ in range(LAYERS)]
        self.v = [torch.zeros(layout.v_shape, device=device) for _ in range(LAYERS)]
        self.written: dict[str, list[int]] = {}
        self.next: dict[str, int] = {}

    def step(self, step: Step, own: dict[str, str]) -> dict[str, int]:
        """Plays a step of the scheduler. Returns request -> the token that the model chose. own: as in generate."""
        grown: list[Change] = []
        chosen: dict[str, int] = {}
        for event in step.events:
            self.cache, change = self.cache.apply(event)
            if change.copied:  # the page is shared, and this request is about to write into it
                source, target = change.copied
                for pages in (*self.k, *self.v):
                    pages[target] = pages[source]
            if event.action == "append" and event.name in step.decoded:
                grown.append(change)
                continue
            chosen |= self._decode(grown)
            grown = []
            if event.action == "fork":
                self.written[event.name] = list(self.written[event.parent])
                self.next |= {event.name: self.next[event.parent]} if event.parent in self.next else {}
            elif event.action != "free":
                chosen[event.name] = self._prefill(event.name, _tokens(own[event.name]))
        return chosen | self._decode(grown)

    def _prefill(self, name: str, tokens: list[int]) -> int:
        """Writes the keys of a prompt and attends to all keys of its request. Returns the next token."""
        written = self.written.setdefault(name, [])
        first = len(written)
        written += tokens
        table, size = self.cache.find(name).table, self.cache.block_size
        slots = torch.tensor([self.cache.slot(table, n) for n in range(len(written))], device=self.device)
        page, place = slots // size, slots % size

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            reshape_and_cache(k, v, self.k[layer], self.v[layer], slots[first:])
            k, v = self.k[layer][page, :, :, place].flatten(-2), self.v[layer][page, :, :, place]
            return attention(*(x.transpose(0, 1)[None] for x in (q, k, v)), causal=True)[0][0].transpose(0, 1)

        return self._chosen([name], tokens, range(first, len(written)), attend)[name]

    def _decode(self, grown: Sequence[Change]) -> dict[str, int]:
        """Writes the next token of each request and attends to its pages. All requests are one call."""
        names = [change.event.name for change in grown]
        if not names:
            return {}
        tables = [self.cache.find(name).table for name in names]
        width = max(map(len, tables))
        rows = torch.tensor([[*table, *[0] * (width - len(table))] for table in tables], dtype=torch.int32)
        rows, slots = (x.to(self.device) for x in (rows, torch.tensor([s for c in grown for _, s in c.written])))
        tokens = [self.next[name] for name in names]
        for name, token in zip(names, tokens):
            self.written[name].append(token)
        lengths = [len(self.written[name]) for name in names]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            reshape_and_cache(k, v, self.k[layer], self.v[layer], slots)
            return paged_decode(q, self.k[layer], self.v[layer], rows, lengths)

        return self._chosen(names, tokens, [length - 1 for length in lengths], attend)

    def _chosen(self, names: list[str], tokens: list[int], positions: Sequence[int], attend: Attend) -> dict[str, int]:
        given, places = (torch.tensor(list(numbers), device=self.device) for numbers in (tokens, positions))
        best = dict(zip(names, self.model(given, places, attend)[-len(names) :].argmax(-1).tolist()))
        self.next |= best
        return best


def contiguous(prompt: str, count: int) -> str:
    """The text of the same model by torch's attention over contiguous keys. Each token computes all keys again."""
    model, tokens = Decoder("cpu"), _tokens(prompt)

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return o[0].transpose(0, 1)

    for _ in range(count):
        logits = model(torch.tensor(tokens), torch.arange(len(tokens)), attend)
        tokens.append(int(logits[-1].argmax()))
    return _text(tokens[-count:])


@contextmanager
def _one_thread() -> Iterator[None]:
    """torch on one thread of the CPU: the model is so small that threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
def generate(visits: Sequence[Visit], own: dict[str, str], blocks: int, block_size: int, device: str) -> Generation:
    """The answers of visits. A parent is a prompt without an answer.

    own: request -> its own part of the prompt, with as many characters as its visit has tokens.
    blocks: pages in the pool.
    device: cpu or cuda, or "" for torch's attention in place of the operators, where no kernel can run.
    """
    wrong = [v.name for v in visits if len(own[v.name]) != v.prompt]
    if wrong:
        raise ProblemError(f"The texts of {', '.join(wrong)} have another length than their visits.")
    steps = serve(tuple(visits), blocks, block_size)
    reused = {name: tokens for step in steps for name, tokens in zip(step.admitted, step.begun) if tokens}
    prompts = {v.name: own.get(v.parent, "") + own[v.name] for v in visits}
    texts = plain = {v.name: contiguous(prompts[v.name], v.answer + 1) for v in visits if v.answer}
    if device:
        loop, texts = PagedLoop(blocks, block_size, device), dict.fromkeys(plain, "")
        for step in steps:
            for name, token in loop.step(step, own).items():
                if name in texts:  # a prompt without an answer needs no next token
                    texts[name] += _text([token])
    left = {name: iter(text) for name, text in texts.items()}  # one after the prompt, one in each step of decoding
    named = [[name for name in (*step.decoded, *step.admitted) if name in texts] for step in steps]
    chosen = tuple(tuple((name, next(left[name])) for name in names) for names in named)
    return Generation(prompts, texts, reused, chosen, texts == plain if device else None)


def _tokens(text: str) -> list[int]:
    return [ord(character) - FIRST for character in text]


def _text(tokens: Sequence[int]) -> str:
    return "".join(chr(FIRST + token) for token in tokens)
