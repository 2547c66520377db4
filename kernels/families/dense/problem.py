"""The problems of the dense kernels in fp32: self-attention over random Q, K and V, with their cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self

from kernels.core.call import HEADS_FIRST, Call, attention_sizes
from kernels.core.cases import Settings, values, what_ifs
from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case, Sweeps
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.errors import ProblemError
from kernels.families.attention import SCALES, AttentionProblem, intermediates
from kernels.families.tensor_cores.problem import SixteenBitProblem

LENGTHS = (1, 2, 17, 31, 33, 63, 65, 100, 129, 257)
LONGER = ((513, 32, True), (520, 64, False), (520, 128, True))  # with what a kernel is tuned to there
LOW_LENGTH, LOW_SCALE, LOW_SEEDS = 33, 2e5, {32: 1001, 64: 1000, 128: 1000}
"""Of causal problems with scores far below -10,000 in all of a row. The seeds have no two scores near a row's max, so
that each order of sums gives the same output."""
MOST_BLOCKS = 10_000  # of a recorded timeline, which has a row for each block
SMALL = 16  # rows or keys of a tile of which a problem of 64 tokens has several

SWEEPS: list[tuple[list[tuple[str, list]], Mapping[str, object]]] = [
    ([("seq_len", [128, 256, 512, 1024, 2048, 4096, 8192, 16384])], {}),
    ([("seq_len", [512, 1024, 2048, 4096])], {"causal": "true"}),
    ([("width", [512, 768, 1024, 2048])], {}),
    ([("num_heads", [8, 12, 16, 32])], {"head_dim": 128}),
    ([("batch", [1, 4, 8, 16, 32])], {}),
    ([], {"batch": 4, "num_heads": 16, "head_dim": 128, "seq_len": 4096}),
    ([("BLOCK_Q", [8, 16, 32]), ("BLOCK_KV", [8, 16, 32]), ("PAD_K", [0, 4])], {"seq_len": 4096}),
    ([("PAD_QK", [0, 4])], {"seq_len": 4096}),
    ([("PAD", [0, 8])], {"seq_len": 4096}),
]
"""(sweeps, fields held) pairs of a bench, for every kernel with the constants among them.

The last three pairs measure the price of a bank conflict at each tile size."""


def _heads_of_width(problem: "DenseProblem", width: int) -> dict[str, object]:
    """The fields for a model of this width: num_heads heads of head_dim.

    Raises ProblemError if the width is no whole number of heads."""
    if width % problem.head_dim:
        raise ProblemError(f"A width of {width} is no whole number of heads of {problem.head_dim}.")
    return {"num_heads": width // problem.head_dim}


@dataclass(frozen=True)
class DenseProblem(AttentionProblem):
    """Self-attention over random Q, K, V of shape [batch, num_heads, seq_len, head_dim], fp32. Q has a normal
    distribution of standard deviation `score_scale`, K and V one of standard deviation 1. The scores q.k /
    sqrt(head_dim) then have a standard deviation of about `score_scale`."""

    seq_len: int = problem_field(64, "queries and keys per head", low=1, high=16384)
    head_dim: int = problem_field(32, "numbers per query, key and value", allowed=(32, 64, 128))
    batch: int = problem_field(1, "independent sequences", low=1, high=64)
    num_heads: int = problem_field(2, "attention heads", low=1, high=64)
    causal: bool = problem_field(False, "each query sees only the keys up to itself", allowed=(False, True))
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1e6)
    seed: int = seed_field()

    title: ClassVar[str] = "Attention"
    derived_fields: ClassVar[Mapping[str, Callable[[Any, int], dict[str, object]]]] = {"width": _heads_of_width}
    intermediates: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = intermediates("seq_len")

    def tensors(self) -> tuple[Tensor, ...]:
        return super().tensors()[:4]

    @property
    def sizes(self) -> dict[str, object]:
        return {"scale": self.scale}

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim}

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """Raises ProblemError for a call with other than equal heads and equal lengths in float32."""
        call.only("causal")
        sizes = attention_sizes(call)
        fixed = {"dtype": "float32", "num_kv_heads": 0, "seq_len_kv": 0, "layout": HEADS_FIRST}
        other = [f"{name} {sizes[name]}" for name, value in fixed.items() if sizes[name] != value]  # type: ignore[literal-required]
        if other or call.has("sink"):
            raise ProblemError(f"Its kernels do not take {', '.join(other) or 'a sink'}.")
        return cls(**{name: value for name, value in sizes.items() if name not in fixed})  # type: ignore[arg-type]

    # ---- cases ----

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
    def bench_default(cls) -> Self:
        return cls(seq_len=1024, head_dim=64, num_heads=8)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return SWEEPS

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Lengths, head_dims and masks, with 1 to 3 sequences, 1 to 4 heads and scores up to 30. Longer problems use
        the tuned constants. Then each value of each constant has problems of several tiles. A few causal problems have
        rows whose scores are all far below -10,000, so that a masked score of -10,000 wins."""
        cases = []
        for number, (n, d, causal) in enumerate(product(LENGTHS, (32, 64, 128), (False, True))):
            small = n <= 100
            batch, num_heads = (number % 3 + 1, number % 4 + 1) if small else (1, number % 2 + 1)
            scale, seed = SCALES[number % 4], number
            if n == LOW_LENGTH and causal:
                scale, seed = LOW_SCALE, LOW_SEEDS[d]
            cases.append(Case(cls(n, d, batch, num_heads, causal, scale, seed)))
        for number, (n, d, causal) in enumerate(LONGER):
            problem = cls(n, d, causal=causal, seed=number)
            cases.append(Case(problem, tuple(kernel.settings_for(problem).items())))
        for number, setting in enumerate(values(kernel)):
            for n, causal in ((65, False), (100, True)):
                problem = cls(n, (32, 64, 128)[number % 3], causal=causal, seed=number)
                cases.append(Case(problem, tuple(kernel.settings_for(problem, (setting,)).items())))
        return cases

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The first head of a few problems: default, causal, ragged, every what-if build and every padding.

        A kernel with large default tiles takes small ones here, so that a small problem has several tiles."""
        tiles = [c for c in kernel.constants_of("query_rows", "key_rows") if c.default > SMALL]
        small = tuple((c.name, min(v for v in c.values if v >= SMALL)) for c in tiles)
        problems = (cls(), cls(causal=True), cls(seq_len=50, head_dim=64, num_heads=1))
        cases = [*(Case(problem, small) for problem in problems), *what_ifs(kernel, cls(), small)]
        paddings = kernel.constants_of("pad")
        cases += [Case(cls(), ((c.name, v),)) for c in paddings for v in c.values if small or v != c.default]

        def first_head(problem: Any, settings: Settings) -> Scope:
            return Scope(0, kernel.plan(problem, settings).items // (problem.batch * problem.num_heads))

        return [replace(case, scope=first_head(case.problem, case.settings)) for case in cases]

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        paddings = [((c.name, v),) for c in kernel.constants_of("pad") for v in c.values]
        shapes = product((False, True), ((64, 32), (100, 64), (48, 128)))
        problems = [cls(n, d, causal=causal) for causal, (n, d) in shapes]
        return [Case(problem, setting) for setting in paddings for problem in problems] or [Case(cls(seq_len=100))]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Two sizes without a causal mask and three with one, if they launch few enough blocks. Each has the defaults,
        and the tuned constants if they differ."""
        cases = []
        for n, causal in ((512, False), (512, True), (2048, False), (2048, True), (4096, True)):
            problem = cls(seq_len=n, head_dim=64, num_heads=8, causal=causal)
            tuned = tuple((k, v) for k, v in kernel.settings_for(problem).items() if v != kernel.settings()[k])
            if sum(launch.blocks for launch in kernel.plan(problem).launches) <= MOST_BLOCKS:
                cases += [Case(problem), *([Case(problem, tuned)] if tuned else [])]
        return cases


@dataclass(frozen=True)
class GroupedProblem(SixteenBitProblem):
    """SixteenBitProblem in fp32: the same masks, grouped heads, layouts and `scores`."""

    seq_len: int = problem_field(64, "queries per head", low=1, high=65536)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(32, 64, 128))
    dtype: str = problem_field("float32", "type of all tensors", allowed=("float32",))

    title: ClassVar[str] = "Attention in fp32, any shape"
    recorded_length: ClassVar[int] = 48

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim}
