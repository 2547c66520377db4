"""The problem of paged attention, with its cases: one query per sequence attends to a context in pages.

The problem refuses a bad block table or context length before a launch, and names the place.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from kernels.build import own_values
from kernels.core import reference
from kernels.core.call import Call, Values
from kernels.core.cases import traced, values
from kernels.core.distinct import distinct
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field, seed_field
from kernels.core.paged import Cache, CacheCall, CacheUse
from kernels.core.problem import Case, Head, Problem, Size, Sweeps, Work, check_groups, inputs_of
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.attention import EXPONENTIAL, SCALES
from kernels.families.paged.fields import (
    BLOCK_SIZES,
    DTYPES,
    FP8_MAX,
    HEAD_DIMS,
    HEADS,
    K_STREAM,
    LAYOUTS,
    Q_STREAM,
    SPELLINGS,
    TABLE_STREAM,
    V_STREAM,
    block_size_field,
    check_slots,
    check_tables,
    check_tokens,
    dtype_field,
    head_dim_field,
    numbers_field,
    renumbered,
    rows_at,
)
from kernels.kv_cache import scenarios
from kernels.kv_cache.layout import K_AXES, V_AXES, Layout

LONGEST_CONTEXT = 65536  # a token's number is a key of its probes, and a key is at most 65,535
MOST_PAGES = 2**20
PAGES_AT_ONCE = 256  # of a cache, where all of it is looked at
RAGGED = (2000, 30, 400, 90, 1000, 10, 60, 200)  # tokens of each sequence


def decode_fields(call: Call) -> dict[str, Any]:
    """The fields of a problem for q [sequence, head, dim], the caches and the block tables of a call."""
    q, k_cache, tables = call.given("q"), call.given("k_cache"), call.given("block_tables")
    size, pool = k_cache.size("slot"), k_cache.size("page")
    pages = min(tables.size("entry"), pool)
    return {
        "context_lens": (pages * size,) * q.size("sequence"),
        "num_heads": q.size("head"),
        "num_kv_heads": k_cache.size("kv_head"),
        "head_dim": q.size("dim"),
        "block_size": size,
        "dtype": q.dtype,
        "num_blocks": pool,
        "block_tables": (tuple(range(pages)),) * q.size("sequence"),
        "families": (1,) * q.size("sequence"),
    }


@dataclass(frozen=True)
class PagedProblem(Problem):
    """Decoding: one query per sequence attends to the sequence's whole context, with K and V in pages.

    The query of a sequence belongs to its last token and has standard deviation `score_scale`. Slots without a token
    hold NaN.

    block_tables: the pages of each sequence. Empty for a random placement by `seed`.
    token_ids: the number of each token of each sequence, which decides its K and V. Empty for different tokens, apart
      from shared pages.
    families: forked sequences have equal numbers and may share pages. Empty for no forks.
    num_blocks: the pool. 0 for a little more than needed.
    numbers: random, or the file of a watched call (build/own_values.py) with its block tables."""

    context_lens: tuple = problem_field((40, 5, 70), "tokens of each sequence", low=1, high=LONGEST_CONTEXT)
    num_heads: int = problem_field(4, "query heads", low=1, high=128)
    num_kv_heads: int = problem_field(2, "KV heads, a divisor of num_heads", low=1, high=128)
    head_dim: int = head_dim_field()
    block_size: int = block_size_field()
    dtype: str = dtype_field()
    alibi: bool = problem_field(False, "add ALiBi's slope times the distance to each score", allowed=(False, True))
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1000.0)
    seed: int = seed_field()
    num_blocks: int = problem_field(0, "pages in the pool, or 0 for a few more than needed", low=0, high=MOST_PAGES)
    block_tables: tuple = problem_field(
        (), "pages of each sequence, in order", low=-(2**31), high=2**31 - 1, nested=True
    )
    token_ids: tuple = problem_field((), "number of each token of each sequence", low=0, high=2**24, nested=True)
    families: tuple = problem_field((), "fork family of each sequence", low=0, high=2**24)
    numbers: str = numbers_field()

    soft_cap = 0.0  # in RangesProblem, the limit of a score. Without a type, as a ClassVar would move its field
    window = 0  # there, the visible last tokens
    operator: ClassVar[str] = "paged_decode"
    follows: ClassVar[tuple[str, ...]] = ("num_blocks", "block_tables")  # fields that are made where they are not given
    title: ClassVar[str] = "Decoding, paged KV cache"
    cache_use: ClassVar[CacheUse | None] = CacheUse("attend")
    picture: ClassVar[Mapping[str, str]] = {"q": "Q", "k_cache": "K", "v_cache": "V", "o": "O"}
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = SPELLINGS
    optional: ClassVar[tuple[str, ...]] = ("alibi_slopes",)
    signs: ClassVar[tuple[str, ...]] = EXPONENTIAL
    remedy: ClassVar[str] = "Choose shorter contexts, fewer sequences or fewer heads."
    derived_fields: ClassVar[Mapping[str, Callable[[Any, int], dict[str, object]]]] = {
        "seq_len": lambda problem, length: {"context_lens": (length,) * problem.num_seqs},
        "batch": lambda problem, count: {"context_lens": problem.context_lens[:1] * count},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.context_lens:
            raise ProblemError("context_lens is empty. It must give at least one sequence's length.")
        check_groups(self.num_heads, self.num_kv_heads)
        needed = [-(-length // self.block_size) for length in self.context_lens]
        if self.has_numbers and not self.block_tables:
            rows = self._kept({"block_tables": (self.num_seqs, max(needed))})["block_tables"].astype(int).tolist()
            tables = tuple(tuple(page for page in row if page >= 0) for row in rows)
            object.__setattr__(self, "block_tables", tables)
        if not self.num_blocks:
            most = max((page + 1 for row in self.block_tables for page in row), default=0)
            object.__setattr__(self, "num_blocks", max(most, sum(needed) + max(2, sum(needed) // 4)))
        if self.num_blocks > MOST_PAGES:
            raise ProblemError(
                f"These contexts and block tables need a pool of {self.num_blocks:,} pages of {self.block_size} slots. "
                f"It can have {MOST_PAGES:,}. {self.remedy}"
            )
        given = bool(self.block_tables)
        if not given:
            if sum(needed) > self.num_blocks:
                raise ProblemError(
                    f"num_blocks is {self.num_blocks}. These contexts need {sum(needed)} pages of {self.block_size} "
                    "slots."
                )
            pages = (
                np.random.default_rng((self.seed, TABLE_STREAM)).permutation(self.num_blocks)[: sum(needed)].tolist()
            )
            tables = tuple(tuple(pages[end - count : end]) for end, count in zip(accumulate(needed), needed))
            object.__setattr__(self, "block_tables", tables)
        for name in ("block_tables", "token_ids", "families"):
            value = getattr(self, name)
            if value and len(value) != self.num_seqs:
                raise ProblemError(f"{name} has {len(value)} rows, and context_lens has {self.num_seqs} sequences.")
        if given:
            check_tables(self.block_tables, self.context_lens, self.families, self.block_size, self.num_blocks)
        check_tokens(self.token_ids, self.context_lens)
        if self.families:  # without them no page is shared
            check_slots(*self.slots_and_tokens, self.block_size)

    @property
    def has_numbers(self) -> bool:
        """Whether the numbers come from the file of a call."""
        return own_values.is_name(self.numbers)

    @property
    def num_seqs(self) -> int:
        return len(self.context_lens)

    @property
    def layout(self) -> Layout:
        return Layout(self.num_blocks, self.num_kv_heads, self.head_dim, self.block_size, self.stored)

    @property
    def stored(self) -> str:
        return self.cache_dtype or self.dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        """[num_seqs, num_heads, head_dim] of Q and O."""
        return (self.num_seqs, self.num_heads, self.head_dim)

    @property
    def group(self) -> int:
        return self.num_heads // self.num_kv_heads

    @property
    def begins(self) -> np.ndarray:
        """The first visible token of each sequence's query, int [num_seqs]."""
        lens = np.array(self.context_lens)
        return np.maximum(0, lens - self.window) if self.window else np.zeros_like(lens)

    @property
    def max_blocks_per_seq(self) -> int:
        return max(map(len, self.block_tables))

    @property
    def scale(self) -> float:
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def slopes(self) -> np.ndarray:
        """ALiBi's slopes 2^(-8 (h + 1) / num_heads), float32, or zeros without ALiBi.

        Source: Press et al. 2021, arXiv:2108.12409."""
        slopes = 2.0 ** (-8.0 * np.arange(1, self.num_heads + 1) / self.num_heads)
        return (slopes if self.alibi else np.zeros(self.num_heads)).astype(np.float32)

    def tensors(self) -> tuple[Tensor, ...]:
        query = ("sequence", "head", "dim")
        return (
            Tensor("q", self.shape, self.dtype, query),
            Tensor("k_cache", self.layout.k_shape, self.stored, K_AXES),
            Tensor("v_cache", self.layout.v_shape, self.stored, V_AXES),
            Tensor("block_tables", (self.num_seqs, self.max_blocks_per_seq), "int32", ("sequence", "entry")),
            Tensor("context_lens", (self.num_seqs,), "int32", ("sequence",)),
            Tensor("alibi_slopes", (self.num_heads,), "float32", ("head",)),
            Tensor("o", self.shape, self.dtype, query, Role.OUTPUT),
        )

    @property
    def sizes(self) -> dict[str, object]:
        return {"scale": self.scale, "num_seqs": self.num_seqs, "max_blocks_per_seq": self.max_blocks_per_seq}

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "BLOCK_SIZE": self.block_size, "T_BYTES": element_type(self.dtype).bytes}

    @property
    def cpu_steps(self) -> int:
        """The multiply-adds of q . K and P @ V."""
        seen = np.array(self.context_lens) - self.begins
        return 2 * int(seen.sum()) * self.num_heads * self.head_dim

    @property
    def work(self) -> Work:
        """The touched bytes of the caches are the slots of visible tokens. A shared slot counts once."""
        rows = np.split(self.slots_and_tokens[0], np.cumsum(self.context_lens)[:-1])
        seen = len(distinct(np.concatenate([row[begin:] for row, begin in zip(rows, self.begins)])))
        held = seen * self.num_kv_heads * self.head_dim * element_type(self.stored).bytes
        return Work(2 * self.cpu_steps, self.num_seqs, {"k_cache": held, "v_cache": held})

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty if the contexts differ in length."""
        if len(set(self.context_lens)) > 1:
            return {}
        heads = {"num_heads": self.num_heads, "num_kv_heads": self.num_kv_heads}
        rest = {"head_dim": self.head_dim, "causal": False, "dtype": self.dtype}
        return {"seq_len": self.context_lens[0], "batch": self.num_seqs, **heads, **rest}

    @property
    def size(self) -> str:
        return f"{self.num_seqs} sequences, {sum(self.context_lens)} tokens, {self.num_heads} heads of {self.head_dim}"

    @property
    def shared_remedy(self) -> str:
        return "Choose a shorter context, or paged_v2, whose shared memory does not grow with it."

    def with_fields(self, **changes: Any) -> Self:
        """A copy with these fields. It places its pool and block tables anew unless the changes give them."""
        return replace(self, **{"num_blocks": 0, "block_tables": (), **changes})

    @classmethod
    def of_cache(cls, cache: Cache, **shape: Any) -> Self:
        if not cache.sequences:
            raise ProblemError("The cache holds no sequence, so there is nothing to attend to. Add one.")
        return cls(
            context_lens=tuple(len(s.tokens) for s in cache.sequences),
            block_tables=tuple(s.table for s in cache.sequences),
            token_ids=tuple(s.tokens for s in cache.sequences),
            families=tuple(s.family for s in cache.sequences),
            num_blocks=cache.num_blocks,
            block_size=cache.block_size,
            **shape,
        )

    @cached_property
    def slots_and_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """Slot and token number of every position of every sequence, one sequence after another."""
        parts = []
        for row, length in zip(self.block_tables, self.context_lens):
            logical, slot = np.divmod(np.arange(length), self.block_size)
            parts.append(np.asarray(row)[logical] * self.block_size + slot)
        slots = np.concatenate(parts).astype(np.int64)
        if self.token_ids:
            return slots, np.concatenate([np.asarray(row, np.int64) for row in self.token_ids])
        return slots, np.unique(slots, return_inverse=True)[1] if self.families else np.arange(len(slots))

    def tokens(self) -> list[np.ndarray]:
        """Per sequence, the number of each of its tokens."""
        return np.split(self.slots_and_tokens[1], np.cumsum(self.context_lens)[:-1])

    def _stored_rows(self, stream: int, scale: np.ndarray) -> np.ndarray:
        """The rows of K or V over their scale, in the cache's type."""
        if not self.cache_dtype:
            return self.rows(stream, self.stored)
        rows = self.rows(stream, "float32")
        rows /= scale[:, None]
        return np.clip(rows, -FP8_MAX, FP8_MAX, out=rows).astype(element_type(self.stored).numpy)

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """The factors of K and V in a cache of 8 bits, float32 [num_kv_heads], or ones for a cache of Q's type."""
        if not self.cache_dtype:
            return np.ones(self.num_kv_heads, np.float32), np.ones(self.num_kv_heads, np.float32)
        drawn = (self.rows(stream, "float32") for stream in (K_STREAM, V_STREAM))
        k, v = (np.abs(rows).max(axis=(0, 2)) / np.float32(FP8_MAX) for rows in drawn)
        return k.astype(np.float32), v.astype(np.float32)

    def inputs(self) -> dict[str, np.ndarray]:
        """q [num_seqs, num_heads, head_dim].

        k_cache, v_cache: kv_cache.layout.Layout, NaN in slots without a token.
        block_tables: [num_seqs, max_blocks_per_seq] int32, -1 after the end of a row.
        context_lens: [num_seqs] int32.
        alibi_slopes: [num_heads] float32."""
        nan = np.array(np.nan, element_type(self.stored).numpy)
        k_cache, v_cache = (np.full(shape, nan) for shape in (self.layout.k_shape, self.layout.v_shape))
        with ThreadPoolExecutor() as pool:  # NumPy draws without holding the interpreter
            q = pool.submit(self.queries)
            k, v = pool.map(self._stored_rows, (K_STREAM, V_STREAM), self.scales)
        self.layout.write(k_cache, v_cache, self.slots_and_tokens[0], k, v)
        tables = np.full((self.num_seqs, self.max_blocks_per_seq), -1, np.int32)
        for row, pages in zip(tables, self.block_tables):
            row[: len(pages)] = pages
        return {
            "q": q.result(),
            "k_cache": k_cache,
            "v_cache": v_cache,
            "block_tables": tables,
            "context_lens": np.array(self.context_lens, np.int32),
            "alibi_slopes": self.slopes,
        }

    def _kept(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
        return own_values.load(self.numbers, shapes)

    def queries(self) -> np.ndarray:
        """q [num_seqs, num_heads, head_dim], in the problem's type."""
        if self.has_numbers:
            return self._kept({"q": self.shape})["q"].astype(element_type(self.dtype).numpy)
        last = np.array([row[-1] for row in self.tokens()])
        drawn = rows_at(self.seed, Q_STREAM, last, (self.num_heads, self.head_dim), "float32")
        return (drawn * np.float32(self.score_scale)).astype(element_type(self.dtype).numpy)

    def rows(self, stream: int, dtype: str) -> np.ndarray:
        """K (stream K_STREAM) or V of every position of every sequence, [positions, num_kv_heads, head_dim]."""
        if self.has_numbers:
            pages = 1 + max(page for row in self.block_tables for page in row)
            shapes = {"k_cache": self.layout.k_shape, "v_cache": self.layout.v_shape}
            caches = self._kept({name: (pages, *shape[1:]) for name, shape in shapes.items()})
            k, v = caches["k_cache"], caches["v_cache"]
            parts = [self.layout.gather(k, v, *place) for place in zip(self.block_tables, self.context_lens)]
            return np.concatenate([part[stream == V_STREAM] for part in parts]).astype(element_type(dtype).numpy)
        ids = self.slots_and_tokens[1]
        return rows_at(self.seed, stream, ids, (self.num_kv_heads, self.head_dim), dtype)

    def seen(self, dequantised: bool = True) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
        """Yields for each sequence q [num_heads, head_dim], K and V of its visible tokens, and the number of the first.

        K, V: [seen, num_kv_heads, head_dim] float32.
        dequantised: the cache's numbers times their scales. Otherwise the numbers as drawn."""
        arrays = self.inputs()
        ends = np.cumsum(self.context_lens)[:-1]
        streams = () if dequantised else (K_STREAM, V_STREAM)
        drawn = [np.split(self.rows(stream, "float32"), ends) for stream in streams]
        for n, (table, length, begin) in enumerate(zip(self.block_tables, self.context_lens, self.begins)):
            pair = self.layout.gather(arrays["k_cache"], arrays["v_cache"], table, length)
            k, v = (
                (rows.astype(np.float32) * scale[:, None] for rows, scale in zip(pair, self.scales))
                if dequantised
                else (rows[n] for rows in drawn)
            )
            yield arrays["q"][n], k[begin:], v[begin:], int(begin)

    def scores(self, dequantised: bool = True) -> Iterable[np.ndarray]:
        """The scores of each sequence's visible tokens, float64 [num_heads, seen]. dequantised: as in seen()."""
        kinds = self.scale, self.slopes, self.soft_cap
        return (reference.decode_scores(q, k, *kinds) for q, k, _, _ in self.seen(dequantised))

    def attention(self, dequantised: bool = True) -> dict[str, np.ndarray]:
        """o and lse in float64. dequantised: as in seen()."""
        kinds = self.scale, self.slopes, self.soft_cap
        rows = [reference.decode_attention(q, k, v, *kinds) for q, k, v, _ in self.seen(dequantised)]
        return dict(zip(("o", "lse"), map(np.stack, zip(*rows))))

    def _outputs(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {tensor.name: arrays[tensor.name] for tensor in self.outputs}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        return self._outputs(self._attention_on("cuda") if on_gpu else self.attention())

    def seen_on(self, device: str) -> Iterator[tuple[Any, Any, Any]]:
        """q, K and V of seen() as torch tensors on a device. The device gathers the pages."""
        import torch

        arrays = inputs_of(self)
        q, *caches = (reference.on_device(arrays[name], device) for name in ("q", "k_cache", "v_cache"))
        bits = [cache.view(torch.uint8) if self.cache_dtype else cache for cache in caches]  # torch gathers no fp8
        scales = [torch.from_numpy(scale).to(device)[:, None] for scale in self.scales]
        for n, (table, length, begin) in enumerate(zip(self.block_tables, self.context_lens, self.begins.tolist())):
            pages = torch.tensor(table[: -(-length // self.block_size)], device=device)
            k, v = (cache[pages] for cache in bits)
            rows = (k.permute(0, 3, 1, 2, 4), v.permute(0, 3, 1, 2))
            shape = (-1, self.num_kv_heads, self.head_dim)
            k, v = (x.reshape(shape)[begin:length].view(cache.dtype) for x, cache in zip(rows, caches))
            yield q[n], k.float() * scales[0], v.float() * scales[1]

    def _attention_on(self, device: str) -> dict[str, np.ndarray]:
        """attention() by torch, still in float64."""
        import torch

        made: list[tuple[Any, Any]] = []
        slopes = torch.from_numpy(self.slopes).to(device, torch.float64).view(self.num_kv_heads, self.group, 1)
        for q, k, v in self.seen_on(device):
            grouped = q.double().view(self.num_kv_heads, self.group, self.head_dim)
            s = self.scale * torch.einsum("kgd,tkd->kgt", grouped, k.double())
            if self.soft_cap:
                s = self.soft_cap * torch.tanh(s / self.soft_cap)
            s += slopes * torch.arange(1 - len(k), 1, device=device)
            made.append((torch.einsum("kgt,tkd->kgd", torch.softmax(s, -1), v.double()), torch.logsumexp(s, -1)))
        o, lse = (torch.stack(rows).cpu().numpy() for rows in zip(*made))
        return {"o": o.reshape(self.shape), "lse": lse.reshape(self.shape[:2])}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """o by torch in the problem's type, and lse from float32 scores. torch uses scaled_dot_product_attention, or
        products, tanh and softmax for a soft cap."""
        import torch

        rows: list[np.ndarray] = []
        lses: list[np.ndarray] = []
        for query, k, v in self.seen_on(device):
            keys, values = (a.to(query.dtype).transpose(0, 1).repeat_interleave(self.group, 0) for a in (k, v))
            bias = torch.from_numpy(self.slopes).to(device)[:, None] * torch.arange(1 - len(k), 1, device=device)
            with torch.inference_mode():
                exact = self.scale * torch.einsum("hd,htd->ht", query.float(), keys.float())
                s = self.scale * (keys @ query[:, :, None])[..., 0]
                if self.soft_cap:
                    exact, s = (self.soft_cap * torch.tanh(x / self.soft_cap) for x in (exact, s))
                    p = torch.softmax((s + bias.to(s.dtype)).float(), -1).to(s.dtype)
                    o = (p[:, None] @ values)[:, 0]
                else:
                    mask = bias.to(query.dtype)[None, :, None] if self.alibi else None
                    o = torch.nn.functional.scaled_dot_product_attention(
                        query[None, :, None], keys[None], values[None], mask, scale=self.scale
                    )[0, :, 0]
                lses.append(torch.logsumexp(exact + bias, -1).cpu().numpy())
            rows.append(reference.on_host(o))
        return self._outputs({"o": np.stack(rows), "lse": np.stack(lses)})

    def largest_terms(self) -> dict[str, float]:
        """The largest |V| for o. For lse, the largest possible score (|Q| |K| and ALiBi's) plus the logarithm of the
        number of terms."""
        arrays = inputs_of(self)
        q = float(np.sqrt((arrays["q"].astype(np.float32) ** 2).sum(-1)).max())
        k = v = 0.0
        for page in range(0, self.num_blocks, PAGES_AT_ONCE):
            pages = slice(page, page + PAGES_AT_ONCE)
            keys, values = (np.nan_to_num(arrays[c][pages].astype(np.float32)) for c in ("k_cache", "v_cache"))
            k = max(k, float((keys**2).sum(axis=(2, 4)).max()))
            v = max(v, float(np.abs(values).max()))
        k, v = math.sqrt(k) * float(self.scales[0].max()), v * float(self.scales[1].max())
        longest = max(self.context_lens)
        lse = self.scale * q * k + float(self.slopes.max()) * longest + math.log(longest)
        return self._outputs({"o": v, "lse": lse})

    def heads(self) -> Iterator[Head]:
        for number, ((_, _, v, _), scores) in enumerate(zip(self.seen(), self.scores())):
            for head, row in enumerate(scores):
                values = v[:, head // self.group].astype(np.float64)
                yield Head("o", (number, head), row[None], values, np.ones((1, len(v)), bool))

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        """q [num_seqs, num_heads, 1, head_dim], and the gathered K and V of each sequence."""
        if self.alibi or len(set(self.context_lens)) > 1:
            raise PeerUnavailable(
                "torch's attention is only asked for contexts of one length without ALiBi, where it needs no mask."
            )
        caches = inputs["k_cache"], inputs["v_cache"]
        pairs = (self.layout.gather(*caches, *place) for place in zip(self.block_tables, self.context_lens))
        k, v = (np.ascontiguousarray(np.stack(rows).transpose(0, 2, 1, 3)) for rows in zip(*pairs))
        return [inputs["q"][:, :, None], k, v], {"scale": self.scale, "enable_gqa": self.group > 1}

    def cache_call(self, inputs: dict[str, np.ndarray]) -> CacheCall:
        """The problem over the cache in pages. Raises PeerUnavailable if engines define it otherwise."""
        if self.alibi:
            raise PeerUnavailable(
                "A paged cache is only asked for without ALiBi, whose slopes every engine has its own."
            )
        needed = (-(-length // self.block_size) for length in self.context_lens)
        tables = tuple(row[:count] for row, count in zip(self.block_tables, needed))
        ones = np.ones(self.num_kv_heads, np.float32)
        q, k, v = (inputs[name] for name in ("q", "k_cache", "v_cache"))
        return CacheCall(q, k, v, tables, self.context_lens, self.block_size, self.scale, ones, ones)

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """All contexts are as long as the tables and the pool allow, and all tables are alike."""
        call.only()
        if call.has("k_scale") or call.has("v_scale"):
            raise ProblemError("Its kernels have no cache of 8 bits.")
        return cls(**decode_fields(call))

    def made(self) -> dict[str, np.ndarray]:
        return {"alibi_slopes": self.slopes}

    def with_values(self, name: str) -> Self | None:
        place = {"num_blocks": self.num_blocks, "block_tables": self.block_tables}
        return None if self.cache_dtype else self.with_fields(numbers=name, **place)

    def of_values(self, values: Values) -> tuple[Self, Mapping[str, np.ndarray]]:
        """The contexts of the call, and its q, its block tables and the pages in them, numbered anew."""
        lens = values.read("context_lens")
        tables, pages = renumbered(values.read("block_tables"), lens, self.block_size)
        arrays = {name: values.read(name, pages) for name in ("k_cache", "v_cache")}
        sized = self.with_fields(context_lens=tuple(lens.tolist()))
        return sized, {"q": values.read("q"), "block_tables": tables, **arrays}

    # ---- cases ----

    @classmethod
    def bench_default(cls) -> Self:
        return cls((1024,) * 8, 32, 8, 128, dtype="float16")

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [
            ([("seq_len", [256, 512, 1024, 2048, 4096, 8192])], {"batch": 4}),
            ([("batch", [1, 4, 8, 16, 32])], {}),
            ([("num_kv_heads", [8, 32])], {"batch": 64, "seq_len": 4096}),  # as a sweep of ranges.py
        ]

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Context lengths near the end of a page and of a partition, in every layout. The problems cover ALiBi, ragged
        batches, every ratio of heads, each value of each constant, and a forked cache."""
        cases: list[Case] = []
        for head_dim, block_size, dtype in LAYOUTS:
            for lens in ((1, block_size - 1, block_size, block_size + 1), (100, 1, 33, 257, 64)):
                n = len(cases)
                shape = (*HEADS[n % len(HEADS)], head_dim, block_size, dtype)
                cases.append(Case(cls(lens, *shape, alibi=n % 3 == 0, score_scale=SCALES[n % 4], seed=n)))
        for long in ((511,), (512,), (513,), (2049,), (2049, 1, 512)):
            for heads, dtype in zip(((8, 2), (4, 1), (32, 8)), ("float32", "float16", "float16")):
                n = len(cases)
                shape = (*heads, HEAD_DIMS[n % 5], BLOCK_SIZES[n % 3], dtype)
                cases.append(Case(cls(long, *shape, alibi=n % 2 == 0, seed=n)))
        for setting in values(kernel, defaults=True):
            n = len(cases)
            shape = (8, 2, HEAD_DIMS[n % 5], BLOCK_SIZES[n % 3], DTYPES[n % 2])
            cases.append(Case(cls((70, 1, 600, 33), *shape, seed=n), (setting,)))
        forked = scenarios.PRESETS["shared_prompt"].states(16)[-1][0]
        shuffled = cls.of_cache(forked.shuffled(3), num_kv_heads=4, dtype="float16")
        return [*cases, Case(cls.of_cache(forked)), Case(shuffled)]

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The last moment of each preset, as allocated and shuffled. A kernel with partitions takes small ones. For
        other kernels, the moments also have other numbers of KV heads."""
        cuts = kernel.constant_of("partition")
        settings = ((cuts.name, scenarios.SHOWN_PARTITION),) if cuts else ()
        problems = []
        for scenario in scenarios.PRESETS.values():
            cache = scenario.states(16)[-1][0]
            problems += [cls.of_cache(cache), cls.of_cache(cache.shuffled(scenarios.SHUFFLE_SEED))]
        if not cuts:  # for the comparison of heads: as many KV heads as query heads, and one
            allocated = problems[::2]
            problems += [replace(p, num_kv_heads=kv_heads) for p in allocated for kv_heads in (p.num_heads, 1)]
        return traced(kernel, [Case(problem, settings) for problem in problems])

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """A ragged batch: one long context keeps its blocks busy after the others end."""
        return [Case(cls(RAGGED, 8, 2, 128))]
