"""The problem of the dense kernels for tensor cores, with its cases: attention over Q, K and V of 16 bits, with grouped
heads, lengths of its own for queries and keys, and either of the usual orders in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self

from kernels.build import own_values
from kernels.core.call import Call, attention_sizes
from kernels.core.cases import Settings, small_tiles, traced, tuned, values, what_ifs
from kernels.core.fields import fields_of, problem_field, seed_field
from kernels.core.problem import Case, Sweeps, check_groups
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.families.attention import CLIMBS, DTYPES, HEADS, ORDERS, SCALES, SCORES, UNEVEN, AttentionProblem

LENGTHS = (1, 2, 17, 63, 65, 100, 129, 200, 257)
PAIRS = ((40, 200, True), (40, 200, False), (200, 40, True), (200, 40, False), (1, 300, True), (130, 129, True))
LONGEST = 3000
LOW_LENGTH = 17
LOW = {("float32", 32): (2e5, 1000), ("float32", 64): (2e5, 1001), ("float32", 128): (2e5, 1000)}
"""(dtype, head_dim) of causal problems -> score_scale and seed. All scores of a row are far below -10,000, so that a
masked score of -10,000 wins. No two scores are near a row's max, so that each order of sums gives the same output. In
16 bits, the rounding of a weight would be an error there."""
KINDS = (*SCORES, UNEVEN)


@dataclass(frozen=True)
class SixteenBitProblem(AttentionProblem):
    """Attention over random Q [batch, num_heads, seq_len, head_dim] and K, V [batch, num_kv_heads, seq_len_kv,
    head_dim].

    Numbers have 16 bits and sums are float32. Each group of num_heads / num_kv_heads neighbouring query heads reads one
    KV head.

    Values of `scores`:
    random: normal, of standard deviation `score_scale`.
    rising: larger from key to key, with a new running max in every tile.
    sink: the first key far above all others.
    low_rank: Q and K from 4 directions.
    climb_5, climb_9.5: random, plus 5 or 9.5 times `score_scale` for each earlier tile of 128 keys.
    uneven_values: random, and each row of V times e^(2 normal).
    values_...: Q, K and V from the file of a watched call (build/own_values.py)."""

    seq_len: int = problem_field(160, "queries per head", low=1, high=65536)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(64, 128, 256))
    batch: int = problem_field(1, "independent sequences", low=1, high=64)
    num_heads: int = problem_field(2, "query heads", low=1, high=128)
    causal: bool = problem_field(False, "each query sees only the keys up to itself", allowed=(False, True))
    dtype: str = problem_field("float16", "type of Q, K, V and O, with float32 sums", allowed=DTYPES)
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1e6)
    seed: int = seed_field()
    num_kv_heads: int = problem_field(0, "KV heads, a divisor of num_heads, or 0 for as many", low=0, high=128)
    seq_len_kv: int = problem_field(0, "keys per head, or 0 for as many as queries", low=0, high=65536)
    layout: str = problem_field("bhsd", "order in memory: b batch, h head, s row, d dim", allowed=tuple(ORDERS))
    scores: str = problem_field("random", "how the scores are distributed", allowed=KINDS, also=own_values.PATTERN)

    title: ClassVar[str] = "Attention in 16 bits"
    valued: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    recorded_length: ClassVar[int] = 192  # queries of most recorded runs

    def __post_init__(self) -> None:
        super().__post_init__()
        check_groups(self.num_heads, self.kv_heads)

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

    def with_values(self, name: str) -> Self | None:
        return replace(self, scores=name)

    @classmethod
    def from_call(cls, call: Call) -> Self:
        call.only("causal")
        if call.has("sink"):
            raise ProblemError("Its kernels have no sink.")
        return cls(**attention_sizes(call))

    # ---- cases ----

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
    def bench_default(cls) -> Self:
        return cls(seq_len=4096, head_dim=128, batch=4, num_heads=16)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [
            ([("seq_len", [512, 1024, 2048, 4096, 8192])], {}),
            ([("seq_len", [512, 1024, 2048, 4096, 8192])], {"causal": "true"}),
            ([("seq_len", [1024, 4096, 8192])], {"head_dim": 64, "num_heads": 32}),
        ]

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Lengths, head_dims, masks, types, grouped heads, layouts and kinds of scores. Some problems have more queries
        than keys, some have fewer, and one has 3,000 tokens. Then follows each value of each constant. The list leaves
        out problems that the kernel's conditions refuse."""
        dims, dtypes = (fields_of(cls)[name].metadata["allowed"] for name in ("head_dim", "dtype"))
        cases: list[Case] = []

        def add(n: int, d: int, settings: Settings = (), **fields: Any) -> None:
            cases.append(Case(cls(n, d, **{"num_heads": 1, **fields}), settings))

        for number, (n, d, causal) in enumerate(product(LENGTHS, dims, (False, True))):
            heads, kv_heads = HEADS[number % 4] if n <= 100 else (1, 1)
            fields: dict[str, Any] = {
                "num_heads": heads,
                "num_kv_heads": kv_heads,
                "batch": number % 2 + 1 if n <= 100 else 1,
            }
            fields |= {"dtype": dtypes[number // 2 % len(dtypes)], "layout": ("bhsd", "bshd")[number // 4 % 2]}
            scale, seed = SCALES[number // 3 % 4], number
            if n == LOW_LENGTH and causal:
                scale, seed = LOW.get((fields["dtype"], d), (scale, seed))
            add(n, d, causal=causal, score_scale=scale, seed=seed, **fields)
        for number, (queries, keys, causal) in enumerate(PAIRS):
            add(queries, 64, seq_len_kv=keys, causal=causal, dtype=dtypes[number % len(dtypes)], seed=number)
        for number, (scores, causal) in enumerate(product(("rising", "sink", "low_rank"), (False, True))):
            add(200, (64, 128)[number % 2], scores=scores, causal=causal, score_scale=2.0, seed=number)
        for number, scores in enumerate(CLIMBS):
            fields = {"seq_len_kv": 400, "dtype": dtypes[number % len(dtypes)], "causal": bool(number)}
            add(100, (64, 128)[number], scores=scores, seed=number, **fields)
        add(LONGEST, 64, causal=True)
        for number, setting in enumerate(values(kernel)):
            for n, causal in ((65, False), (200, True)):
                add(n, (64, 128)[number % 2], (setting,), causal=causal, seed=number)
        return tuned(kernel, cases)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        length = cls.recorded_length
        default, small = cls(length, num_heads=1), small_tiles(kernel)
        problems = [default, replace(default, causal=True), replace(default, seq_len=length // 2 + 4, head_dim=128)]
        if any(c.name == "STREAK" for c in kernel.constants):  # so many tiles that the kernel skips the max of some
            problems.append(replace(default, seq_len=64, seq_len_kv=1024, score_scale=0.5))
        cases = [Case(problem, small) for problem in problems]
        return traced(kernel, tuned(kernel, cases + what_ifs(kernel, replace(default, seq_len=length * 2 // 3), small)))

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        shapes = ((128, 64, False), (100, 64, True), (256, 128, False))
        return tuned(kernel, [Case(cls(n, d, causal=causal)) for n, d, causal in shapes])

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(cls(2048, 64, num_heads=8, causal=causal)) for causal in (False, True)]

    @classmethod
    def pipeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        sizes = ((128, False), (128, True), (64, False))
        return tuned(kernel, [Case(cls(4096, d, num_heads=16, causal=causal)) for d, causal in sizes])
