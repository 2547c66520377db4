"""The problem of the dense kernels: self-attention over random Q, K and V."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kernels.core import reference
from kernels.core.call import Call
from kernels.core.fields import problem_field
from kernels.core.heads import Head
from kernels.core.problem import Size, Work
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.dense.cases import DenseCases

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "q": ("query", "queries"),
    "k": ("key", "keys"),
    "v": ("value", "values", "val"),
    "o": ("out", "output", "result", "y"),
    "seq_len": (
        "n",
        "s",
        "t",
        "l",
        "seqlen",
        "seq",
        "length",
        "len",
        "tokens",
        "sequencelength",
        "nctx",
        "rows",
        "row",
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
}
FOLDED: Mapping[str, str] = {"num_heads": "batch * num_heads"}
_ROW = (("batch", "batch"), ("head", "num_heads"), ("query", "seq_len"))
_MATRIX = (*_ROW, ("key", "seq_len"))
INTERMEDIATES: Mapping[str, tuple[tuple[str, str], ...]] = {"s": _MATRIX, "p": _MATRIX, "m": _ROW, "l": _ROW}
ROWS, KEYS = ("batch", "head", "query", "dim"), ("batch", "head", "key", "dim")  # the axes of Q and O, and of K and V


def _heads_of_width(problem: "DenseProblem", width: int) -> dict[str, object]:
    """The fields for a model of this width: num_heads heads of head_dim.

    Raises ProblemError if the width is no whole number of heads.
    """
    if width % problem.head_dim:
        raise ProblemError(f"A width of {width} is no whole number of heads of {problem.head_dim}.")
    return {"num_heads": width // problem.head_dim}


@dataclass(frozen=True)
class DenseProblem(DenseCases):
    """Self-attention over random Q, K, V of shape [batch, num_heads, seq_len, head_dim], fp32.

    Q has a normal distribution of standard deviation `score_scale`, K and V one of standard deviation 1. The scores q.k
    / sqrt(head_dim) then have a standard deviation of about `score_scale`.
    """

    seq_len: int = problem_field(64, "queries and keys per head", low=1, high=16384)
    head_dim: int = problem_field(32, "numbers per query, key and value", allowed=(32, 64, 128))
    batch: int = problem_field(1, "independent sequences", low=1, high=64)
    num_heads: int = problem_field(2, "attention heads", low=1, high=64, formerly="heads")
    causal: bool = problem_field(False, "each query sees only the keys up to itself", allowed=(False, True))
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1000.0)
    seed: int = problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)

    title: ClassVar[str] = "Attention"
    operator: ClassVar[str] = "attention"
    remedy: ClassVar[str] = "Choose a smaller seq_len, batch or num_heads."
    picture: ClassVar[Mapping[str, str]] = {"q": "Q", "k": "K", "v": "V", "s": "S", "p": "P", "o": "O"}
    derived_fields: ClassVar[Mapping[str, Callable[[Any, int], dict[str, object]]]] = {"width": _heads_of_width}
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = SPELLINGS
    folded: ClassVar[Mapping[str, str]] = FOLDED
    intermediates: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = INTERMEDIATES

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[batch, num_heads, seq_len, head_dim] of Q, K, V and O."""
        return (self.batch, self.num_heads, self.seq_len, self.head_dim)

    @property
    def scale(self) -> float:
        """The factor on Q @ K^T: 1 / sqrt(head_dim)."""
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def score_count(self) -> int:
        """How many (query, key) pairs are attended, over all heads."""
        n = self.seq_len
        return self.batch * self.num_heads * (n * (n + 1) // 2 if self.causal else n * n)

    def tensors(self) -> tuple[Tensor, ...]:
        """q, k, v and o, all float32 of shape [batch, num_heads, seq_len, head_dim]."""
        given = (Tensor(name, self.shape, "float32", axes) for name, axes in (("q", ROWS), ("k", KEYS), ("v", KEYS)))
        return (*given, Tensor("o", self.shape, "float32", ROWS, Role.OUTPUT))

    @property
    def sizes(self) -> dict[str, object]:
        return {"scale": self.scale}

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim}

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
        heads = {"num_heads": self.num_heads, "num_kv_heads": self.num_heads}
        rest: dict[str, Size] = {"head_dim": self.head_dim, "causal": self.causal, "dtype": "float32"}
        return {"seq_len": self.seq_len, "batch": self.batch, **heads, **rest}

    @property
    def size(self) -> str:
        return f"seq_len {self.seq_len}, batch {self.batch}, num_heads {self.num_heads}"

    @property
    def shared_remedy(self) -> str:
        return f"Choose smaller tiles or a smaller head_dim (now {self.head_dim})."

    def inputs(self) -> dict[str, np.ndarray]:
        """q, k, v as float32 arrays [batch, num_heads, seq_len, head_dim]. Equal problems give equal arrays."""
        rng = np.random.default_rng(self.seed)
        q, k, v = (rng.standard_normal(self.shape, dtype=np.float32) for _ in range(3))
        return {"q": q * np.float32(self.score_scale), "k": k, "v": v}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o in float64.

        on_gpu: compute a long sequence on the GPU, because the CPU takes minutes.
        """
        given = self.inputs()
        arrays = given["q"], given["k"], given["v"]
        if on_gpu:
            return {"o": reference.grouped_attention(*arrays, self.scale, self.causal, on_gpu)[0]}
        return {"o": reference.attention(*arrays, self.scale, self.causal)}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """o by torch's scaled_dot_product_attention in float32."""
        given = self.inputs()
        return {"o": reference.torch_attention(given["q"], given["k"], given["v"], self.scale, self.causal, device)}

    def largest_terms(self) -> dict[str, float]:
        """An element of O is a mean of elements of V, weighted by the softmax, so no term is larger than the largest
        |V|."""
        return {"o": float(np.abs(self.inputs()["v"]).max())}

    def heads(self) -> Iterator[Head]:
        given, n = self.inputs(), self.seq_len
        seen = np.tri(n, n, dtype=bool) if self.causal else np.ones((n, n), bool)
        for at in np.ndindex(self.batch, self.num_heads):
            scores = reference.scores(given["q"][at], given["k"][at], self.scale, causal=False)
            yield Head("o", at, scores, given["v"][at].astype(np.float64), seen)

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        return [inputs[name] for name in ("q", "k", "v")], {"is_causal": self.causal, "scale": self.scale}

    @classmethod
    def from_call(cls, call: Call) -> Self:
        raise ProblemError("Its kernels write no lse, and the operator returns it.")

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "Small, whole tiles": {},
            "Causal": {"causal": True},
            "Tiles that do not fit": {"seq_len": 100},
            "Large scores": {"score_scale": 30.0},
            "Longer, wider": {"seq_len": 128, "head_dim": 64},
            "512 tokens, 8 heads, causal": {"seq_len": 512, "head_dim": 64, "num_heads": 8, "causal": True},
        }

    @classmethod
    def bench_default(cls) -> "DenseProblem":
        return cls(seq_len=1024, head_dim=64, num_heads=8)
