"""The problems of the backward: the gradients of attention over random Q, K, V and dO."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar

import numpy as np

from kernels.build import own_values
from kernels.core import reference
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field
from kernels.core.problem import Size, Sweeps, Work
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.backward.cases import GradientCases
from kernels.families.backward.gradients import Four, exact_gradients, torch_gradients
from kernels.families.tensor_cores.fields import DTYPES
from kernels.families.tensor_cores.problem import SixteenBitProblem

MOST_ON_CPU = 2**28  # scores of a forward that the CPU computes in about ten seconds
MANY_TOKENS = 16384  # batch * seq_len of the bench
WIDTH = 2048  # num_heads * head_dim of the bench
GRADIENT_STREAM = 2  # of the seed: dO


@lru_cache(maxsize=1)
def _given(problem: "GradientProblem") -> dict[str, np.ndarray]:
    """The last problem's inputs as [batch, head, row, dim]. Nobody writes into them."""
    return problem._computed()


@dataclass(frozen=True)
class GradientProblem(GradientCases, SixteenBitProblem):
    """The gradients dQ, dK and dV of attention, from Q, K, V, O, lse and dO, in fp32.

    Q, K and V are as in SixteenBitProblem, with the same masks, grouped heads, layouts and `scores`. dO is normal
    with standard deviation 1. O and lse are exact and rounded once, O to `dtype` and lse to fp32, so only the backward
    is judged.

    dK and dV of a KV head are sums over its query heads. A query without keys has O 0, lse -inf and dQ 0.
    """

    seq_len: int = problem_field(128, "queries per head", low=1, high=65536)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(32, 64, 128))
    dtype: str = problem_field("float32", "type of all tensors", allowed=("float32",))

    title: ClassVar[str] = "Gradients of attention"
    operator: ClassVar[str] = "attention_backward"
    valued: ClassVar[tuple[str, ...]] = ("q", "k", "v", "do")
    gradients: ClassVar[bool] = True
    picture: ClassVar[Mapping[str, str]] = {
        **{"q": "Q", "k": "K", "v": "V", "s": "S", "p": "P", "o": "O"},
        **{"do": "dO", "dp": "dP", "ds": "dS", "delta": "delta", "dq": "dQ", "dk": "dK", "dv": "dV"},
    }

    def tensors(self) -> tuple[Tensor, ...]:
        """q, k, v, o, lse and do, then dq, dk and dv, each of the shape, axes and type of q, k or v."""
        of = {t.name: t for t in super().tensors()}

        def like(name: str, other: str, role: Role) -> Tensor:
            return Tensor(name, of[other].shape, of[other].dtype, of[other].axes, role)

        given = [like(name, name, Role.INPUT) for name in of]
        gradients = [like(f"d{name}", name, Role.OUTPUT) for name in "qkv"]
        return (*given, like("do", "o", Role.INPUT), *gradients)

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "CAUSAL": int(self.causal)}

    @property
    def cpu_steps(self) -> int:
        """The multiply-adds of the five matrix products."""
        return 5 * self.score_count * self.head_dim

    @property
    def work(self) -> Work:
        """A multiply-add has two floating-point operations. Products that a kernel repeats count once."""
        return Work(2 * self.cpu_steps, self.batch * self.seq_len, {})

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty: times of the backward are not times of the forward with these sizes."""
        return {}

    def _computed(self) -> dict[str, np.ndarray]:
        """q, k, v, o, lse and do as [batch, head, row, dim], in their own types."""
        given, kind = self._rounded(), element_type(self.dtype).numpy
        q, k, v = given.values()
        o, lse = reference.grouped_attention(q, k, v, self.scale, self.causal, self._too_long)
        if own_values.is_name(self.scores):
            do = own_values.load(self.scores, {"do": o.shape})["do"]
        else:
            do = np.random.default_rng((self.seed, GRADIENT_STREAM)).standard_normal(o.shape, dtype=np.float32)
        return {**given, "o": o.astype(kind), "lse": lse.astype(np.float32), "do": do.astype(kind)}

    @property
    def _too_long(self) -> bool:
        """Whether a GPU computes O and lse, because the CPU takes minutes."""
        if self.score_count < MOST_ON_CPU:
            return False
        import torch

        return torch.cuda.is_available()

    def _of_formula(self) -> Four:
        given = _given(self)
        return given["q"], given["k"], given["v"], given["do"]

    def _named(self, gradients: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        return {f"d{name}": self.logical(array) for name, array in zip("qkv", gradients)}

    def inputs(self) -> dict[str, np.ndarray]:
        """q, k, v, o and do in `dtype` and `layout`, and lse. Equal problems give equal arrays."""
        return {
            name: array.copy() if name == "lse" else np.array(self.logical(array), order="C")
            for name, array in _given(self).items()
        }

    def unrounded(self) -> dict[str, np.ndarray]:
        """The inputs in float32. O and lse belong to the rounded Q, K and V."""
        widened = {name: array.astype(np.float32) for name, array in self.inputs().items()}
        return {**widened, **super().unrounded()}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """dq, dk and dv in float64, from Q, K, V and dO only.

        on_gpu: compute a long sequence on the GPU, because the CPU takes minutes.
        """
        return self._named(exact_gradients(self._of_formula(), self.scale, self.causal, "cuda" if on_gpu else "cpu"))

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """dq, dk and dv by torch's backward of scaled_dot_product_attention in `dtype`, from the same O and lse."""
        given = _given(self)
        made = torch_gradients(self._of_formula(), given["o"], given["lse"], self.scale, self.causal, device)
        return self._named(made)

    def largest_terms(self) -> dict[str, float]:
        """A term of dV is P dO, with P at most 1. P = e^(S - lse) takes the rounding of S, which is about lse if P is
        large. A term of dQ or dK is scale dS K or scale dS Q.

        dS = P * (dP - mean of dP, weighted by P) is at most half the largest |dP|, which is at most |dO| |V|.
        """
        q, k, v, do = (np.abs(a.astype(np.float32)) for a in self._of_formula())
        longest = [float(np.sqrt((a**2).sum(-1)).max()) for a in (do, v)]
        ds, lse = self.scale * longest[0] * longest[1] / 2, np.abs(_given(self)["lse"])
        rounding = max(1.0, float(lse[np.isfinite(lse)].max()))
        return {"dq": ds * float(k.max()), "dk": ds * float(q.max()), "dv": rounding * float(do.max())}

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        """q, k, v and do. A peer's own forward makes its O and lse."""
        arrays, options = super().peer_inputs(inputs)
        return [*arrays, self.logical(inputs["do"])], options

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "A few tiles": {},
            "Causal": {"causal": True},
            "Tiles that do not fit": {"seq_len": 100},
            "Grouped heads": {"seq_len": 96, "num_heads": 4, "num_kv_heads": 2},
            "Fewer queries than keys, causal": {"seq_len": 40, "seq_len_kv": 200, "causal": True},
            "Heads of 128": {"head_dim": 128},
        }

    @classmethod
    def bench_default(cls) -> "GradientProblem":
        return cls(seq_len=1024, num_heads=16)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        """Lengths up to 4,096 under both masks: an fp32 rung takes long."""
        return [([("seq_len", [512, 1024, 2048, 4096]), ("causal", ["false", "true"])], {})]


def _batch_for_length(problem: "GradientProblem", length: int) -> dict[str, object]:
    """The fields for sequences of this length that have MANY_TOKENS tokens together.

    Raises ProblemError if these are no whole number of sequences.
    """
    if length < 1 or MANY_TOKENS % length:
        raise ProblemError(f"{MANY_TOKENS:,} tokens are no whole number of sequences of {length}.")
    return {"seq_len": length, "batch": MANY_TOKENS // length}


@dataclass(frozen=True)
class SixteenBitGradientProblem(GradientProblem):
    """The same in fp16 or bf16, with sums in fp32."""

    seq_len: int = problem_field(96, "queries per head", low=1, high=65536)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(64, 128))
    dtype: str = problem_field("float16", "type of all tensors but lse, with float32 sums", allowed=DTYPES)

    title: ClassVar[str] = "Gradients of attention in 16 bits"
    duels_from: ClassVar[int] = 4
    recorded_length: ClassVar[int] = 130
    duel_constants: ClassVar[tuple[str, ...]] = ("DETERMINISTIC",)
    derived_fields: ClassVar[Mapping[str, Callable[[Any, int], dict[str, object]]]] = {"length": _batch_for_length}

    @property
    def defines(self) -> dict[str, int]:
        return {**super().defines, "BF16": int(self.dtype == "bfloat16")}

    @classmethod
    def bench_default(cls) -> "SixteenBitGradientProblem":
        return cls(seq_len=4096, head_dim=128, batch=4, num_heads=16)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        """Lengths of MANY_TOKENS tokens together and heads of WIDTH numbers together, under both masks, in both types,
        with heads of 128 and of 64."""
        lengths = [1024, 2048, 4096, 8192, 16384]
        return [
            (
                [("length", lengths), ("causal", ["false", "true"])],
                {"head_dim": d, "num_heads": WIDTH // d, "dtype": dtype},
            )
            for d in (128, 64)
            for dtype in DTYPES
        ]

    @classmethod
    def duel_problems(cls) -> list["SixteenBitGradientProblem"]:
        """MANY_TOKENS tokens in sequences of 4,096 to 16,384, heads of WIDTH numbers together, under both masks. Also
        fp16 at 4,096 and 16,384 tokens, Llama 3's 64 query and 8 KV heads, and one sequence of 2,048 to 16,384 tokens
        with 32 heads on 32 to 1 KV heads. Python may enqueue shorter ones more slowly than the GPU runs them."""
        made = []
        for dtype, head_dim, causal in product(("bfloat16", "float16"), (128, 64), (False, True)):
            for length in (4096, 8192, 16384) if dtype == "bfloat16" else (4096, 16384):
                batch, heads = MANY_TOKENS // length, WIDTH // head_dim
                made.append(cls(length, head_dim, batch, heads, causal, dtype))
        made += [cls(4096, 128, 1, 64, causal, "bfloat16", num_kv_heads=8) for causal in (False, True)]
        few = ((2048, 0), (2048, 8), (2048, 1), (4096, 1), (16384, 4))  # tokens, KV heads
        for (length, kv_heads), (head_dim, causal) in product(few, ((128, False), (128, True), (64, True))):
            made.append(cls(length, head_dim, 1, 32, causal, "bfloat16", num_kv_heads=kv_heads))
        return made
