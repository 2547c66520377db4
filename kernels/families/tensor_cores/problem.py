"""The problem of the dense kernels for tensor cores: attention over Q, K and V of 16 bits, with grouped heads, lengths
of its own for queries and keys, and either of the usual orders in memory."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from kernels.build import own_values
from kernels.core import reference
from kernels.core.call import Call, attention_sizes
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field
from kernels.core.heads import Head
from kernels.core.problem import Size, Work
from kernels.core.tensors import Role, Tensor
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.tensor_cores.cases import SixteenBitCases
from kernels.families.tensor_cores.fields import CLIMB_KEYS, CLIMBS, DTYPES, LOW_RANK, ORDERS, SCORES

_GROUPED: Mapping[str, tuple[str, ...]] = {
    "keys": ("nk", "kvlen", "seqlenk", "seqlenkv", "kvseqlen"),
    "kv_heads": ("hk", "kvh", "numkvheads", "nkvheads"),
    "num_heads // kv_heads": ("group", "groupsize"),
    "offset": ("shift", "causaloffset"),
    "lse": ("l", "logsumexp", "softmaxlse"),
}
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "q": ("query", "queries"),
    "k": ("key",),
    "v": ("value", "values"),
    "o": ("out", "output", "result"),
    "seq_len": ("n", "s", "t", "nq", "seqlen", "seq", "length", "len", "seqlenq", "nctx", "row", "rows"),
    "head_dim": ("d", "dim", "headsize", "dhead", "hd"),
    "batch": ("b", "bs", "batchsize", "batches"),
    "num_heads": ("h", "nh", "heads", "nheads", "head"),
    "batch * num_heads": ("bh", "nbh", "batchheads"),
    "scale": ("softmaxscale", "smscale", "scaling", "sc"),
    "causal": ("iscausal", "usecausal"),
    "s": ("scores", "score", "qk", "logits"),
    "p": ("probs", "probabilities", "att", "attn", "attention", "weights"),
    "m": ("rowmax", "maxes", "max"),
    "l": ("rowsum", "sums", "sum", "denominator"),
    **_GROUPED,
}
FOLDED: Mapping[str, str] = {"num_heads": "batch * num_heads"}
_ROW = (("batch", "batch"), ("head", "num_heads"), ("query", "seq_len"))
_MATRIX = (*_ROW, ("key", "keys"))
INTERMEDIATES: Mapping[str, tuple[tuple[str, str], ...]] = {"s": _MATRIX, "p": _MATRIX, "m": _ROW, "l": _ROW}


@lru_cache(maxsize=1)
def _rounded(problem: "SixteenBitProblem") -> dict[str, np.ndarray]:
    """The last problem's numbers: inputs, float64 and torch's answer all begin with them, and drawing takes seconds."""
    kind = element_type(problem.dtype).numpy
    return {name: array.astype(kind) for name, array in problem._drawn().items()}


@dataclass(frozen=True)
class SixteenBitProblem(SixteenBitCases):
    """Attention over random Q [batch, num_heads, seq_len, head_dim] and K, V [batch, num_kv_heads, seq_len_kv,
    head_dim].

    Numbers have 16 bits and sums are float32. Each group of num_heads / num_kv_heads neighbouring query heads reads one
    KV head.

    The causal mask ends at the last key, as in FlashAttention: query i sees the keys up to i + seq_len_kv - seq_len. A
    query without keys has output 0 and lse -inf. lse is the natural logarithm of the sum of e^score, float32.

    Values of `scores`:
    random: normal, of standard deviation `score_scale`.
    rising: larger from key to key, with a new running max in every tile.
    sink: the first key far above all others.
    low_rank: Q and K from 4 directions.
    climb_5, climb_9.5: random, plus 5 or 9.5 times `score_scale` for each earlier tile of 128 keys.
    values_...: Q, K and V from the file of a watched call (build/own_values.py).
    """

    seq_len: int = problem_field(160, "queries per head", low=1, high=65536)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(64, 128, 256))
    batch: int = problem_field(1, "independent sequences", low=1, high=64)
    num_heads: int = problem_field(2, "query heads", low=1, high=128)
    causal: bool = problem_field(False, "each query sees only the keys up to itself", allowed=(False, True))
    dtype: str = problem_field("float16", "type of Q, K, V and O, with float32 sums", allowed=DTYPES)
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1000.0)
    seed: int = problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)
    num_kv_heads: int = problem_field(0, "KV heads, a divisor of num_heads, or 0 for as many", low=0, high=128)
    seq_len_kv: int = problem_field(0, "keys per head, or 0 for as many as queries", low=0, high=65536)
    layout: str = problem_field("bhsd", "order in memory: b batch, h head, s row, d dim", allowed=tuple(ORDERS))
    scores: str = problem_field("random", "how the scores are distributed", allowed=SCORES, also=own_values.PATTERN)

    title: ClassVar[str] = "Attention in 16 bits"
    remedy: ClassVar[str] = "Choose a smaller seq_len, batch or num_heads."
    operator: ClassVar[str] = "attention"
    valued: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = SPELLINGS
    folded: ClassVar[Mapping[str, str]] = FOLDED
    intermediates: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = INTERMEDIATES
    picture: ClassVar[Mapping[str, str]] = {"q": "Q", "k": "K", "v": "V", "s": "S", "p": "P", "o": "O"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_kv_heads and self.num_heads % self.num_kv_heads:
            raise ProblemError(
                f"num_heads is {self.num_heads} and num_kv_heads {self.num_kv_heads}, and "
                "num_heads must be a multiple of num_kv_heads."
            )

    @property
    def keys(self) -> int:
        """Keys per head."""
        return self.seq_len_kv or self.seq_len

    @property
    def kv_heads(self) -> int:
        return self.num_kv_heads or self.num_heads

    @property
    def offset(self) -> int:
        """Query i sees the keys up to i + offset."""
        return self.keys - self.seq_len

    @property
    def scale(self) -> float:
        """The factor on Q @ K^T: 1 / sqrt(head_dim)."""
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def score_count(self) -> int:
        """How many (query, key) pairs are attended, over all heads."""
        n, keys = self.seq_len, self.keys
        if not self.causal:
            return self.batch * self.num_heads * n * keys
        blind = max(0, -self.offset)  # the first queries, which see no key
        first = max(0, self.offset) + 1  # keys of the first query that sees any
        return self.batch * self.num_heads * (first + keys) * (n - blind) // 2

    def in_memory(self, sizes: tuple) -> tuple:
        """Sizes, or names, given as batch, head, row, dim: in the order of memory."""
        return tuple(sizes[axis] for axis in ORDERS[self.layout])

    def logical(self, array: np.ndarray) -> np.ndarray:
        """A tensor of this problem as [batch, head, row, dim], and back: a view."""
        return array.transpose(ORDERS[self.layout])

    def tensors(self) -> tuple[Tensor, ...]:
        """q, k, v and o in `layout`'s order, and lse [batch, num_heads, seq_len]."""

        def tensor(name: str, heads: int, rows: int, axis: str, role: Role = Role.INPUT) -> Tensor:
            shape, axes = (self.batch, heads, rows, self.head_dim), ("batch", "head", axis, "dim")
            return Tensor(name, self.in_memory(shape), self.dtype, self.in_memory(axes), role)

        return (
            tensor("q", self.num_heads, self.seq_len, "query"),
            tensor("k", self.kv_heads, self.keys, "key"),
            tensor("v", self.kv_heads, self.keys, "key"),
            tensor("o", self.num_heads, self.seq_len, "query", Role.OUTPUT),
            Tensor(
                "lse", (self.batch, self.num_heads, self.seq_len), "float32", ("batch", "head", "query"), Role.OUTPUT
            ),
        )

    @property
    def sizes(self) -> dict[str, object]:
        """keys, kv_heads, offset and scale, and the steps in elements from row to row and from head to head, for Q and
        O and for K and V."""
        steps = (self.num_heads * self.head_dim, self.head_dim), (self.kv_heads * self.head_dim, self.head_dim)
        if self.layout == "bhsd":
            steps = (self.head_dim, self.seq_len * self.head_dim), (self.head_dim, self.keys * self.head_dim)
        (q_row, q_head), (kv_row, kv_head) = steps
        strides = {"q_row": q_row, "q_head": q_head, "kv_row": kv_row, "kv_head": kv_head}
        return {"keys": self.keys, "kv_heads": self.kv_heads, "offset": self.offset, "scale": self.scale, **strides}

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "BF16": int(self.dtype == "bfloat16"), "CAUSAL": int(self.causal)}

    @property
    def cpu_steps(self) -> int:
        """The multiply-adds of the two matrix products."""
        return 2 * self.score_count * self.head_dim

    @property
    def work(self) -> Work:
        """A multiply-add has two floating-point operations. A token is a query of a sequence."""
        return Work(2 * self.cpu_steps, self.batch * self.seq_len, {})

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty if queries and keys differ in number, or if the scores are not random."""
        if self.offset or self.scores != "random":
            return {}
        heads = {"num_heads": self.num_heads, "num_kv_heads": self.kv_heads}
        rest: dict[str, Size] = {"head_dim": self.head_dim, "causal": self.causal, "dtype": self.dtype}
        return {"seq_len": self.seq_len, "batch": self.batch, **heads, **rest}

    @property
    def size(self) -> str:
        keys = f", {self.keys} keys" if self.offset else ""
        return f"seq_len {self.seq_len}{keys}, batch {self.batch}, num_heads {self.num_heads}"

    @property
    def shared_remedy(self) -> str:
        return f"Choose smaller tiles or a smaller head_dim (now {self.head_dim})."

    def _drawn(self) -> dict[str, np.ndarray]:
        """q, k, v as [batch, head, row, dim] in float32, not yet rounded to `dtype`."""
        rng = np.random.default_rng(self.seed)
        shapes = {"q": (self.num_heads, self.seq_len), "k": (self.kv_heads, self.keys), "v": (self.kv_heads, self.keys)}
        sizes = {name: (self.batch, heads, rows, self.head_dim) for name, (heads, rows) in shapes.items()}
        if own_values.is_name(self.scores):
            drawn = own_values.load(self.scores, sizes)
        else:
            drawn = {name: rng.standard_normal(size, dtype=np.float32) for name, size in sizes.items()}
        if self.scores == "low_rank":
            basis = rng.standard_normal((LOW_RANK, self.head_dim), dtype=np.float32)
            for name in ("q", "k"):
                drawn[name] = drawn[name][..., :LOW_RANK] @ basis / np.float32(math.sqrt(LOW_RANK))
        if self.scores == "rising":
            drawn["q"] = np.abs(drawn["q"])
            drawn["k"] = np.abs(drawn["k"]) * np.linspace(0.05, 3, self.keys, dtype=np.float32)[:, None]
        if self.scores == "sink":
            drawn["k"][:, :, 0] = 1
            drawn["q"] = drawn["q"] + 10 / np.float32(math.sqrt(self.head_dim))
        if self.scores in CLIMBS:  # a tile's number is exact in 16 bits up to 256
            drawn["k"][..., 0] = np.arange(self.keys) // CLIMB_KEYS
            drawn["q"][..., 0] = CLIMBS[self.scores] / self.scale
        drawn["q"] *= np.float32(self.score_scale)
        return drawn

    def with_values(self, name: str) -> Self | None:
        return replace(self, scores=name)

    def _rounded(self) -> dict[str, np.ndarray]:
        """The same, rounded to `dtype`. Nobody writes into them."""
        return _rounded(self)

    def inputs(self) -> dict[str, np.ndarray]:
        """q, k, v in `dtype` and `layout`. Equal problems give equal arrays."""
        return {name: np.array(self.logical(array), order="C") for name, array in self._rounded().items()}

    def unrounded(self) -> dict[str, np.ndarray]:
        """q, k, v in float32 and `layout`. A DenseProblem with equal fields draws equal numbers."""
        return {name: np.ascontiguousarray(self.logical(array)) for name, array in self._drawn().items()}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o and lse in float64.

        on_gpu: compute a long sequence on the GPU, because the CPU takes minutes.
        """
        q, k, v = self._rounded().values()
        o, lse = reference.grouped_attention(q, k, v, self.scale, self.causal, on_gpu)
        return {"o": self.logical(o), "lse": lse}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """o by torch's scaled_dot_product_attention in `dtype`, and lse from scores in float32."""
        q, k, v = self._rounded().values()
        o, lse = reference.torch_grouped_attention(q, k, v, self.scale, self.causal, device)
        return {"o": self.logical(o), "lse": lse}

    def largest_terms(self) -> dict[str, float]:
        """The largest |V| for O. For lse, the largest score, which is at most the largest |Q| |K|."""
        q, k, v = (np.abs(array.astype(np.float32)) for array in self._rounded().values())
        longest = [float(np.sqrt((array**2).sum(-1)).max()) for array in (q, k)]
        return {"o": float(v.max()), "lse": self.scale * longest[0] * longest[1] + math.log(self.keys)}

    def heads(self) -> Iterator[Head]:
        q, k, v = (array.astype(np.float64) for array in self._rounded().values())
        group, shape = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
        seen = np.tri(*shape, self.offset, dtype=bool) if self.causal else np.ones(shape, bool)
        for batch, head in np.ndindex(q.shape[:2]):
            keys, values = k[batch, head // group], v[batch, head // group]
            yield Head(
                "o", (batch, head), reference.scores(q[batch, head], keys, self.scale, causal=False), values, seen
            )

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        if self.causal and self.offset:
            raise PeerUnavailable("torch's causal mask starts with the first key. This one ends at the last.")
        options: dict[str, object] = {
            "is_causal": self.causal,
            "scale": self.scale,
            "enable_gqa": self.kv_heads < self.num_heads,
        }
        return [self.logical(inputs[name]) for name in ("q", "k", "v")], options

    @classmethod
    def from_call(cls, call: Call) -> Self:
        call.only("causal")
        if call.has("sink"):
            raise ProblemError("Its kernels have no sink.")
        return cls(**attention_sizes(call))

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "A few tiles": {},
            "Whole tiles": {"seq_len": 192},
            "Tiles that do not fit": {"seq_len": 100},
            "Causal": {"causal": True},
            "Less than a tile": {"seq_len": 48},
            "Grouped heads, bfloat16": {"num_heads": 4, "num_kv_heads": 2, "dtype": "bfloat16"},
            "Scores that rise from key to key": {"seq_len": 256, "scores": "rising"},
            "Fewer queries than keys, causal": {"seq_len": 40, "seq_len_kv": 200, "causal": True},
            "512 tokens, heads of 128, causal": {"seq_len": 512, "head_dim": 128, "causal": True},
        }

    @classmethod
    def bench_default(cls) -> "SixteenBitProblem":
        return cls(seq_len=4096, head_dim=128, batch=4, num_heads=16)
