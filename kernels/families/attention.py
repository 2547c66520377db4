"""Attention over random Q, K and V: the common part of dense problems in fp32, in 16 bits, with masks and backward."""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import ClassVar

import numpy as np

from kernels.build import own_values
from kernels.core import reference
from kernels.core.dtypes import element_type
from kernels.core.problem import Head, Problem, Size, Work
from kernels.core.tensors import Role, Tensor
from kernels.errors import PeerUnavailable

DTYPES = ("float16", "bfloat16")
ORDERS = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3)}  # layout -> the axes batch, head, row, dim, outermost first
CLIMBS = {"climb_5": 5.0, "climb_9.5": 9.5}  # the growth of the scores from one tile of CLIMB_KEYS keys to the next
SCORES = ("random", "rising", "sink", "low_rank", *CLIMBS)
UNEVEN = "uneven_values"  # random scores, and rows of V of very different size
LOW_RANK = 4  # directions of Q and K with scores of low_rank
CLIMB_KEYS = 128
UNEVENNESS, MOST_DEVIATIONS = (
    2.0,
    4.0,
)  # a row of V takes the factor e^(UNEVENNESS * normal), at most so many deviations
SCALES = (1.0, 0.1, 5.0, 30.0)  # of the scores of check cases
HEADS = ((1, 1), (2, 2), (4, 2), (3, 1))  # query heads and KV heads of check cases

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "q": ("query", "queries"),
    "k": ("key", "keys"),
    "v": ("value", "values", "val"),
    "o": ("out", "output", "result", "y"),
    "seq_len": (
        *("n", "s", "t", "l", "nq", "seqlen", "seq", "length", "len", "tokens", "sequencelength"),
        *("seqlenq", "nctx", "rows", "row"),
    ),
    "head_dim": ("d", "dim", "headsize", "dhead", "hd", "hs", "dk"),
    "batch": ("b", "bs", "batchsize", "batches", "nbatch"),
    "num_heads": ("h", "nh", "heads", "nheads", "numhead", "head"),
    "batch * num_heads": ("bh", "nbh", "batchheads", "batchhead"),
    "scale": ("softmaxscale", "smscale", "scaling", "sc", "qkscale"),
    "causal": ("iscausal", "usecausal"),
    "s": ("scores", "score", "qk", "logits"),
    "p": ("probs", "probabilities", "att", "attn", "attention", "weights"),
    "m": ("rowmax", "maxes", "max"),
    "l": ("rowsum", "sums", "sum", "denominator"),
    "keys": ("nk", "kvlen", "seqlenk", "seqlenkv", "kvseqlen"),
    "kv_heads": ("hk", "kvh", "numkvheads", "nkvheads"),
    "num_heads // kv_heads": ("group", "groupsize"),
    "offset": ("shift", "causaloffset"),
    "lse": ("l", "logsumexp", "softmaxlse"),
}


def intermediates(keys: str) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """S, P, m and l with their axes. keys: the name of the number of keys."""
    row = (("batch", "batch"), ("head", "num_heads"), ("query", "seq_len"))
    return {"s": (*row, ("key", keys)), "p": (*row, ("key", keys)), "m": row, "l": row}


@lru_cache(maxsize=1)
def _rounded(problem: "AttentionProblem") -> dict[str, np.ndarray]:
    """The last problem's numbers: inputs, float64 and torch's answer all begin with them, and drawing takes seconds."""
    kind = element_type(problem.dtype).numpy
    return {name: array.astype(kind) for name, array in problem._drawn().items()}


EXPONENTIAL = (r"exp|\bex2",)
"""A sign of softmax in the text of a kernel."""


class AttentionProblem(Problem):
    """softmax(scale * Q @ K^T) @ V, with Q [batch, num_heads, seq_len, head_dim] and K, V [batch, kv_heads, keys,
    head_dim].

    The causal mask ends at the last key, as in FlashAttention: query i sees the keys up to i + offset. A query without
    keys has output 0 and lse -inf. lse is the natural logarithm of the sum of e^score, float32.

    A derived class declares the fields. A class without a field takes its value here."""

    seq_len: int
    head_dim: int
    batch: int
    num_heads: int
    seed: int
    num_kv_heads: int = 0  # 0 for as many as query heads
    seq_len_kv: int = 0  # 0 for as many as queries
    layout: str = "bhsd"
    scores: str = "random"

    remedy: ClassVar[str] = "Choose a smaller seq_len, batch or num_heads."
    operator: ClassVar[str] = "attention"
    picture: ClassVar[Mapping[str, str]] = {"q": "Q", "k": "K", "v": "V", "s": "S", "p": "P", "o": "O"}
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = SPELLINGS
    optional: ClassVar[tuple[str, ...]] = ("sink",)
    signs: ClassVar[tuple[str, ...]] = EXPONENTIAL
    folded: ClassVar[Mapping[str, str]] = {"num_heads": "batch * num_heads"}
    effective: ClassVar[Mapping[str, str]] = {"num_kv_heads": "kv_heads", "seq_len_kv": "keys"}
    intermediates: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = intermediates("keys")

    # ---- sizes ----

    @property
    def keys(self) -> int:
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

    # ---- tensors and numbers ----

    def in_memory(self, sizes: tuple) -> tuple:
        """Sizes, or names, given as batch, head, row, dim: in the order of memory."""
        return tuple(sizes[axis] for axis in ORDERS[self.layout])

    def logical(self, array: np.ndarray) -> np.ndarray:
        return array.transpose(ORDERS[self.layout])

    def tensors(self) -> tuple[Tensor, ...]:

        def tensor(name: str, heads: int, rows: int, axis: str, role: Role = Role.INPUT) -> Tensor:
            shape, axes = (self.batch, heads, rows, self.head_dim), ("batch", "head", axis, "dim")
            return Tensor(name, self.in_memory(shape), self.dtype, self.in_memory(axes), role)

        rows = (self.batch, self.num_heads, self.seq_len)
        return (
            tensor("q", self.num_heads, self.seq_len, "query"),
            tensor("k", self.kv_heads, self.keys, "key"),
            tensor("v", self.kv_heads, self.keys, "key"),
            tensor("o", self.num_heads, self.seq_len, "query", Role.OUTPUT),
            Tensor("lse", rows, "float32", ("batch", "head", "query"), Role.OUTPUT),
        )

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
        if self.scores == UNEVEN:
            normal = rng.standard_normal((*drawn["v"].shape[:-1], 1), dtype=np.float32)
            drawn["v"] *= np.exp(UNEVENNESS * np.clip(normal, -MOST_DEVIATIONS, MOST_DEVIATIONS))
        drawn["q"] *= np.float32(self.score_scale)
        return drawn

    def _rounded(self) -> dict[str, np.ndarray]:
        """The same, rounded to `dtype`. Nobody writes into them."""
        return _rounded(self)

    def inputs(self) -> dict[str, np.ndarray]:
        """q, k, v in `dtype` and `layout`. Equal problems give equal arrays."""
        return {name: np.array(self.logical(array), order="C") for name, array in self._rounded().items()}

    def unrounded(self) -> dict[str, np.ndarray]:
        return {name: np.ascontiguousarray(self.logical(array)) for name, array in self._drawn().items()}

    def _outputs(self, o: np.ndarray, lse: np.ndarray) -> dict[str, np.ndarray]:
        """o in `layout`, and lse if it is an output."""
        arrays = {"o": self.logical(o), "lse": lse}
        return {tensor.name: arrays[tensor.name] for tensor in self.outputs}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        q, k, v = self._rounded().values()
        return self._outputs(*reference.grouped_attention(q, k, v, self.scale, self.causal, on_gpu))

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """o by torch's scaled_dot_product_attention in `dtype`, and lse from scores in float32."""
        q, k, v = self._rounded().values()
        return self._outputs(*reference.torch_grouped_attention(q, k, v, self.scale, self.causal, device))

    def largest_terms(self) -> dict[str, float]:
        """An element of O is a mean of elements of V, so no term is larger than the largest |V|. For lse, the largest
        score, which is at most the largest |Q| |K|."""
        q, k, v = (np.abs(array.astype(np.float32)) for array in self._rounded().values())
        longest = [float(np.sqrt((array**2).sum(-1)).max()) for array in (q, k)]
        terms = {"o": float(v.max()), "lse": self.scale * longest[0] * longest[1] + math.log(self.keys)}
        return {tensor.name: terms[tensor.name] for tensor in self.outputs}

    @property
    def terms(self) -> int:
        return self.keys

    def heads(self) -> Iterator[Head]:
        q, k, v = (array.astype(np.float64) for array in self._rounded().values())
        group, shape = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
        seen = np.tri(*shape, self.offset, dtype=bool) if self.causal else np.ones(shape, bool)
        for batch, head in np.ndindex(q.shape[:2]):
            keys, values = k[batch, head // group], v[batch, head // group]
            scores = reference.scores(q[batch, head], keys, self.scale, causal=False)
            yield Head("o", (batch, head), scores, values, seen, q[batch, head], keys)

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        if self.causal and self.offset:
            raise PeerUnavailable("torch's causal mask starts with the first key. This one ends at the last.")
        options: dict[str, object] = {"is_causal": self.causal, "scale": self.scale}
        options["enable_gqa"] = self.kv_heads < self.num_heads
        return [self.logical(inputs[name]) for name in ("q", "k", "v")], options
