"""Rotary embedding, its truth and torch's way, and the problems of rotary embedding and cache write with their cases.

Each pair of dims turns by an angle of its token's position. q and k are turned, and k and v go into the pages.
Source: Su et al. 2021, "RoFormer", arXiv:2104.09864.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from kernels.core import reference
from kernels.core.call import Call
from kernels.core.dtypes import element_type
from kernels.core.expressions import ceil_div
from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case, Problem, Sweeps, Work
from kernels.core.reference import on_device, on_host
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import ProblemError
from kernels.families.attention import DTYPES
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.kv_cache.layout import K_AXES, V_AXES, Layout

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

PAIRS = ("halves", "neighbours")
HEADS = ((4, 4), (8, 2), (4, 1), (32, 8), (6, 3), (1, 1))  # query heads, KV heads of check cases
CHAIN_TOKENS = (1, 16, 64, 8192)  # of the recorded times
LLAMA: dict[str, Any] = {"num_heads": 32, "num_kv_heads": 8, "head_dim": 128}  # of Llama 3 8B and Qwen 3 8B
FP8 = "float8_e4m3"
FP8_MAX = element_type(FP8).largest
SPARE = 4  # pages of the pool beyond a prompt


def table(positions: int, head_dim: int, theta: float) -> np.ndarray:
    """cos_sin [positions, head_dim] in float32: head_dim / 2 cosines, then as many sines."""
    turns = theta ** (-np.arange(0, head_dim, 2) / head_dim)
    angles = np.arange(positions)[:, None] * turns
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def turned(x: np.ndarray, cos_sin: np.ndarray, pairs: str) -> np.ndarray:
    """x [..., head_dim], turned in float64. cos_sin [..., head_dim] broadcasts to x."""
    made = np.empty(x.shape)
    _turn(made, x, cos_sin.astype(np.float64), pairs)
    return made


def torch_turned(x: "TorchTensor", cos_sin: "TorchTensor", pairs: str) -> "TorchTensor":
    """The same by torch in the type of x: the table and each operation are rounded to it."""
    made = x.new_empty(x.shape)
    _turn(made, x, cos_sin.to(x.dtype), pairs)
    return made


def _turn(made: Any, x: Any, cos_sin: Any, pairs: str) -> None:
    half = x.shape[-1] // 2
    first, second = slice(0, half), slice(half, None)
    cos, sin = cos_sin[..., first], cos_sin[..., second]
    if pairs == "neighbours":
        first, second = slice(0, None, 2), slice(1, None, 2)
    made[..., first] = x[..., first] * cos - x[..., second] * sin
    made[..., second] = x[..., second] * cos + x[..., first] * sin


@dataclass(frozen=True)
class RotaryProblem(Problem):
    """Rotary embedding of q and k, and the write of k and v into a paged cache.

    Pair i of dims turns by position * theta^(-2 i / head_dim). With `halves` (GPT-NeoX, Hugging Face), the pair is dims
    i and i + head_dim / 2. With `neighbours` (GPT-J), it is dims 2 i and 2 i + 1.

    Prompt: the tokens have positions 0, 1, ... and neighbouring slots in shuffled pages. Decode: each token is the next
    one of another sequence, at a random position and in a random slot. The last `padding` tokens have slot -1."""

    tokens: int = problem_field(4, "new tokens", low=1, high=65536)
    num_heads: int = problem_field(4, "query heads", low=1, high=256)
    num_kv_heads: int = problem_field(2, "KV heads", low=1, high=256)
    head_dim: int = problem_field(128, "numbers per query, key and value", allowed=(64, 128))
    block_size: int = problem_field(16, "slots per page", allowed=(16, 32, 64))
    dtype: str = problem_field("float16", "type of q, k and v", allowed=DTYPES)
    pairs: str = problem_field("halves", "the pairs of dims that turn together", allowed=PAIRS)
    decode: bool = problem_field(False, "each token is of another sequence", allowed=(False, True))
    padding: int = problem_field(0, "tokens at the end without a slot", low=0, high=65536)
    theta: float = problem_field(
        500000.0, "base of the angles: 500,000 in Llama 3, 1,000,000 in Qwen 3", low=1, high=1e9
    )
    seed: int = seed_field()

    title: ClassVar[str] = "Rotary embedding and cache write"
    remedy: ClassVar[str] = "Choose fewer tokens or fewer heads."
    cache_type: ClassVar[str] = ""  # the type of the cache, or that of q
    eps: ClassVar[float] = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding >= self.tokens:
            raise ProblemError(
                f"padding is {self.padding} and tokens {self.tokens}. At least one token needs a slot. Choose a "
                f"padding from 0 to {self.tokens - 1}."
            )

    @property
    def layout(self) -> Layout:
        return Layout(self._pages, self.num_kv_heads, self.head_dim, self.block_size, self.cache_type or self.dtype)

    @property
    def _pages(self) -> int:
        """Pages of the pool. In decode, each sequence has a page of its own."""
        return SPARE + (self.tokens if self.decode else ceil_div(self.tokens, self.block_size))

    @property
    def sizes(self) -> dict[str, object]:
        return {"eps": self.eps}

    @property
    def defines(self) -> dict[str, int]:
        return {
            "HEAD_DIM": self.head_dim,
            "BLOCK_SIZE": self.block_size,
            "T_BYTES": 2,
            "BF16": int(self.dtype == "bfloat16"),
            "NEIGHBOURS": int(self.pairs == "neighbours"),
            "CACHE_BYTES": self.layout.itemsize,
        }

    @property
    def size(self) -> str:
        heads = f"{self.num_heads} query heads and {self.num_kv_heads} KV heads of {self.head_dim}"
        return f"tokens {self.tokens}, {heads}"

    @property
    def _heads(self) -> int:
        return self.num_heads + 2 * self.num_kv_heads

    @property
    def cpu_steps(self) -> int:
        """Each number is read, turned and written."""
        return 6 * self.tokens * self._heads * self.head_dim

    @property
    def work(self) -> Work:
        """q, k and v are read once. The turned q and the cache are written once."""
        head = self.tokens * self.head_dim
        kept = head * self.num_kv_heads * self.layout.itemsize
        moved = {"qkv": 2 * head * self._heads, "q_rotated": 2 * head * self.num_heads}
        return Work(0, self.tokens, {**moved, "k_cache": kept, "v_cache": kept})

    def meanings(self) -> Mapping[str, str]:
        return {
            "qkv": "q, k, v before",
            "cos_sin": "table of angles",
            "positions": "place in the text",
            "slots": "place in the cache",
            "k_cache": "the cache of keys",
            "v_cache": "the cache of values",
        }

    def tensors(self) -> tuple[Tensor, ...]:
        row, layout = ("token", "head", "dim"), self.layout
        last = int(self._positions().max()) + 1
        return (
            Tensor("qkv", (self.tokens, self._heads, self.head_dim), self.dtype, row),
            Tensor("cos_sin", (last, self.head_dim), "float32", ("position", "cos_sin")),
            Tensor("positions", (self.tokens,), "int32", ("token",)),
            Tensor("slots", (self.tokens,), "int32", ("token",)),
            Tensor("q_rotated", (self.tokens, self.num_heads, self.head_dim), self.dtype, row, Role.OUTPUT),
            Tensor("k_cache", layout.k_shape, layout.dtype, K_AXES, Role.OUTPUT, Initial.GIVEN),
            Tensor("v_cache", layout.v_shape, layout.dtype, V_AXES, Role.OUTPUT, Initial.GIVEN),
        )

    def _positions(self) -> np.ndarray:
        """[tokens] int32"""
        if not self.decode:
            return np.arange(self.tokens, dtype=np.int32)
        return np.random.default_rng((self.seed, 1)).integers(0, 1024, self.tokens, np.int32)

    def inputs(self) -> dict[str, np.ndarray]:
        rng, kind = np.random.default_rng(self.seed), element_type(self.dtype).numpy
        qkv = rng.standard_normal((self.tokens, self._heads, self.head_dim), dtype=np.float32).astype(kind)
        positions = self._positions()
        cos_sin = table(int(positions.max()) + 1, self.head_dim, self.theta)
        pages = np.random.default_rng((self.seed, 2)).permutation(self._pages)
        if self.decode:
            slots = pages[: self.tokens] * self.block_size + self._positions() % self.block_size
        else:
            page, place = np.divmod(np.arange(self.tokens), self.block_size)
            slots = pages[page] * self.block_size + place
        slots[self.tokens - self.padding :] = -1
        given = {"qkv": qkv, "cos_sin": cos_sin, "positions": positions, "slots": slots.astype(np.int32)}
        given |= self._more(qkv)
        kind = element_type(self.layout.dtype).numpy
        for name, shape in (("k_cache", self.layout.k_shape), ("v_cache", self.layout.v_shape)):
            given[name] = rng.standard_normal(shape, dtype=np.float32).astype(kind)
        return given

    def _more(self, qkv: np.ndarray) -> dict[str, np.ndarray]:
        return {}

    def _split(self, qkv: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, k = self.num_heads, self.num_heads + self.num_kv_heads
        return qkv[:, :q], qkv[:, q:k], qkv[:, k:]

    def _normed(self, x: np.ndarray, given: Mapping[str, np.ndarray], part: int) -> np.ndarray:
        """x in float64 as it comes to the rotation."""
        return x

    def _stored(
        self, given: Mapping[str, np.ndarray], q: np.ndarray, k: np.ndarray, v: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The outputs in float64, with k and v in their slots."""
        caches = {name: given[name].astype(np.float64) for name in ("k_cache", "v_cache")}
        real = given["slots"] >= 0
        self.layout.write(caches["k_cache"], caches["v_cache"], given["slots"][real], k[real], v[real])
        return {"q_rotated": q, **caches}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        given = self.inputs()
        rows = given["cos_sin"][given["positions"]][:, None]
        q, k, v = self._split(given["qkv"].astype(np.float64))
        q, k = (turned(self._normed(x, given, part), rows, self.pairs) for part, x in enumerate((q, k)))
        return self._stored(given, q, k, v)

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """The chain in torch, as Hugging Face's models have it: each operation is rounded to `dtype`."""
        given = self.inputs()
        tensors = {name: on_device(array, device) for name, array in given.items()}
        parts = self._torch_parts(tensors["qkv"], tensors)
        return self._stored(given, *(on_host(x).astype(np.float64) for x in parts))

    def _torch_parts(self, qkv: "TorchTensor", rest: "Mapping[str, TorchTensor]") -> "tuple[TorchTensor, ...]":
        """The turned q and k, and v."""
        q, k, v = qkv.split([self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        rows = rest["cos_sin"][rest["positions"]][:, None]
        q, k = (torch_turned(self._torch_normed(x, rest, part), rows, self.pairs) for part, x in enumerate((q, k)))
        return q, k, v

    def _torch_normed(self, x: "TorchTensor", rest: "Mapping[str, TorchTensor]", part: int) -> "TorchTensor":
        return x

    def torch_chain(self) -> "Callable[..., dict[str, TorchTensor]]":
        """The chain with a write into the pages. It takes slots of no padding."""

        def chain(qkv: "TorchTensor", slots: "TorchTensor", **rest: "TorchTensor") -> "dict[str, TorchTensor]":
            q, k, v = self._torch_parts(qkv, rest)
            page, place = slots // self.block_size, slots % self.block_size
            pieces = (self.tokens, self.num_kv_heads, -1, 16 // qkv.element_size())
            rest["k_cache"][page, :, :, place] = k.reshape(pieces)
            rest["v_cache"][page, :, :, place] = v
            return {"q_rotated": q, "k_cache": rest["k_cache"], "v_cache": rest["v_cache"]}

        return chain

    def largest_terms(self) -> dict[str, float]:
        return {name: float(np.abs(array).max()) for name, array in self.truth().items()}

    # ---- cases ----

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """One to 40 tokens, both phases and conventions, every page size and type, with and without padding, and each
        count of tokens per warp."""
        cases, settings = list[Case](), kernel.constants[0].values
        for n, (tokens, pairs, decode, head_dim) in enumerate(
            product((1, 3, 8, 17, 40), PAIRS, (False, True), (64, 128))
        ):
            for more in range(2):
                number, size = 2 * n + more, (16, 32, 64)[(n + more) % 3]
                problem = cls(
                    *(tokens, *HEADS[number % len(HEADS)], head_dim, size, DTYPES[(n + more) % 2], pairs, decode),
                    *(number % 3 if tokens > 2 else 0, (500000.0, 10000.0, 1e6)[number % 3], number),
                )
                heads, warps = (kernel.constants[c].values[number % (5 - c)] for c in (1, 2))
                chosen = (("TOKENS", settings[number % len(settings)]), ("HEADS", heads), ("WARPS", warps))
                cases.append(Case(problem, chosen))
        return cases

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "A prompt of four tokens": {},
            "Six sequences decode": {"tokens": 6, "decode": True},
            "Pairs of neighbours": {"pairs": "neighbours"},
            "With padding": {"tokens": 8, "padding": 3},
        }

    @classmethod
    def chain_problems(cls) -> list[Self]:
        """The models decode 1 to 64 sequences, or read a prompt."""
        sizes = [{**LLAMA, "tokens": n, "decode": n < 512} for n in CHAIN_TOKENS]
        kinds = {"bfloat16": sizes, "float16": sizes[:-1]}
        return [cls(**{**size, "dtype": dtype}) for dtype, listed in kinds.items() for size in listed]

    @classmethod
    def bench_default(cls) -> Self:
        return cls(**{"tokens": 8192, **LLAMA})

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [
            ([("tokens", [1, 4, 16, 64])], {**LLAMA, "decode": True}),
            ([("tokens", [256, 1024, 4096, 8192])], LLAMA),
        ]


@dataclass(frozen=True)
class NormRotaryProblem(RotaryProblem):
    """The same with QK-norm first: each head of q and k is divided by the root of its mean square, as in Qwen 3.

    qk_weight: [2, head_dim] in `dtype`, of q and of k, from 0.5 to 1.5"""

    title: ClassVar[str] = "QK-norm, rotary embedding and cache write"

    def tensors(self) -> tuple[Tensor, ...]:
        qkv, *others = super().tensors()
        return (qkv, Tensor("qk_weight", (2, self.head_dim), self.dtype, ("part", "dim")), *others)

    def _more(self, qkv: np.ndarray) -> dict[str, np.ndarray]:
        weights = np.random.default_rng((self.seed, 3)).random((2, self.head_dim)) + 0.5
        return {"qk_weight": weights.astype(element_type(self.dtype).numpy)}

    def _normed(self, x: np.ndarray, given: Mapping[str, np.ndarray], part: int) -> np.ndarray:
        size = np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.eps)
        return x / size * given["qk_weight"][part].astype(np.float64)

    def _torch_normed(self, x: "TorchTensor", rest: "Mapping[str, TorchTensor]", part: int) -> "TorchTensor":
        import torch

        return torch.nn.functional.rms_norm(x, (self.head_dim,), rest["qk_weight"][part], self.eps)


@dataclass(frozen=True)
class Fp8RotaryProblem(RotaryProblem):
    """Rotary embedding, and the write into a cache of fp8 (e4m3): each number over its KV head's scale.

    kv_scale: [2, num_kv_heads] float32, of K and of V: about twice the largest number over 448"""

    title: ClassVar[str] = "Rotary embedding and cache write in 8 bits"
    cache_type: ClassVar[str] = FP8

    def tensors(self) -> tuple[Tensor, ...]:
        *given, q_rotated, k_cache, v_cache = super().tensors()
        scale = Tensor("kv_scale", (2, self.num_kv_heads), "float32", ("part", "kv_head"))
        return (*given, scale, q_rotated, k_cache, v_cache)

    def _more(self, qkv: np.ndarray) -> dict[str, np.ndarray]:
        """A turned number is at most sqrt(2) times the largest one."""
        _, k, v = self._split(qkv.astype(np.float32))
        largest = np.stack([np.abs(x).max(axis=(0, 2)) for x in (k, v)])
        factors = np.exp2(np.random.default_rng((self.seed, 3)).uniform(0.5, 1.5, largest.shape))
        return {"kv_scale": (largest * factors / FP8_MAX).astype(np.float32)}

    def _stored(
        self, given: Mapping[str, np.ndarray], q: np.ndarray, k: np.ndarray, v: np.ndarray
    ) -> dict[str, np.ndarray]:
        scales = given["kv_scale"].astype(np.float64)
        return super()._stored(given, q, k / scales[0][:, None], v / scales[1][:, None])

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """The chain in torch, rounded to fp8 at the end."""
        made = super().yardstick(device)
        for name in ("k_cache", "v_cache"):
            cut = np.clip(made[name], -FP8_MAX, FP8_MAX).astype(np.float32)
            made[name] = cut.astype(element_type(FP8).numpy)
        return made


@dataclass(frozen=True)
class RopeAttentionProblem(SixteenBitProblem):
    """Attention in 16 bits whose kernel turns Q, and K as well unless `keys_turned`. Key j has position j, and query i
    has position i + seq_len_kv - seq_len. Positions before 0 count as 0. cos_sin [keys, head_dim]: head_dim / 2 cosines
    of each position, then as many sines, float32."""

    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(64, 128))
    pairs: str = problem_field("halves", "the pairs of dims that turn together", allowed=PAIRS)
    keys_turned: bool = problem_field(False, "K is stored turned, as in a cache", allowed=(False, True))
    theta: float = problem_field(500000.0, "base of the angles: 500,000 in Llama 3", low=1, high=1e9)

    title: ClassVar[str] = "Attention with rotary embedding"
    operator: ClassVar[str] = ""
    recorded_length: ClassVar[int] = 96
    peer_inputs = Problem.peer_inputs  # torch's attention turns neither q nor k

    @property
    def defines(self) -> dict[str, int]:
        own = {"NEIGHBOURS": int(self.pairs == "neighbours"), "KEYS_TURNED": int(self.keys_turned)}
        return {**super().defines, **own}

    def tensors(self) -> tuple[Tensor, ...]:
        q, k, v, *made = super().tensors()
        return (q, k, v, Tensor("cos_sin", (self.keys, self.head_dim), "float32", ("position", "cos_sin")), *made)

    def inputs(self) -> dict[str, np.ndarray]:
        given = {name: np.array(self.logical(array), order="C") for name, array in super()._rounded().items()}
        return {**given, "cos_sin": table(self.keys, self.head_dim, self.theta)}

    def _rows(self) -> dict[str, np.ndarray]:
        """The rows of the table for q, and for k if the kernel turns it, [rows, head_dim]."""
        rows = table(self.keys, self.head_dim, self.theta)
        of_q = {"q": rows[np.maximum(0, np.arange(self.seq_len) + self.offset)]}
        return of_q if self.keys_turned else {**of_q, "k": rows}

    def _rounded(self) -> dict[str, np.ndarray]:
        """q, k, v [batch, head, row, dim] as attention takes them, q and k turned in float64 and kept in
        float32."""
        given = dict(super()._rounded())
        for name, rows in self._rows().items():
            given[name] = turned(given[name].astype(np.float64), rows, self.pairs).astype(np.float32)
        return given

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """torch's rotation and attention, each operation in `dtype`."""
        given = dict(super()._rounded())
        for name, rows in self._rows().items():
            x, cos_sin = on_device(given[name], device), on_device(rows, device)
            given[name] = on_host(torch_turned(x, cos_sin, self.pairs))
        q, k, v = given.values()
        return self._outputs(*reference.torch_grouped_attention(q, k, v, self.scale, self.causal, device))

    @classmethod
    def from_call(cls, call: Call) -> "RopeAttentionProblem":
        raise ProblemError("The operator attention takes Q and K as they are.")

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Those of attention with heads of 64 and 128, in both conventions, with K unturned and turned."""
        made = []
        for number, case in enumerate(super().check_cases(kernel)):
            problem = replace(
                cast(RopeAttentionProblem, case.problem), pairs=PAIRS[number % 2], keys_turned=number % 5 == 4
            )
            made.append(replace(case, problem=replace(problem, theta=(500000.0, 10000.0)[number % 2])))
        return made

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [([("seq_len", [1024, 4096, 8192])], {"head_dim": 128, "num_heads": 16, "causal": True})]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []

    @classmethod
    def pipeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "A few tiles": {},
            "Pairs of neighbours": {"pairs": "neighbours"},
            "Keys stored turned": {"keys_turned": True},
            "Causal": {"causal": True},
        }
