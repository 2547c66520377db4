"""The cases of the backward kernels: checks, recordings, sweeps, counters and timelines."""

from dataclasses import replace
from itertools import product
from typing import ClassVar

from kernels.core.fields import fields_of
from kernels.core.problem import Case, Problem
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.families.tensor_cores.cases import HEADS, SCALES, made_for, small_tiles
from kernels.families.tensor_cores.fields import SCORES

LENGTHS = (1, 2, 17, 63, 65, 100, 200)
PAIRS = ((40, 200), (200, 40), (1, 300), (130, 129))  # queries and keys that differ
LONGEST = 500


class GradientCases(Problem):
    """The cases of the backward kernels, a base of their problems.

    recorded_length: queries of a recorded run, two tiles. A run of an fp32 rung logs far more than one on tensor cores.
    """

    recorded_length: ClassVar[int] = 36

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Lengths, head_dims, types, masks, grouped heads, layouts and kinds of scores.

        Some problems have more queries than keys, some have fewer, and one has 500 tokens. Then follows each value of
        each constant. What-if constants stay at their defaults, because they break the kernel. The list leaves out
        problems that the kernel's conditions refuse.
        """
        kind = kernel.problem_type
        dims, dtypes = (fields_of(kind)[name].metadata["allowed"] for name in ("head_dim", "dtype"))
        cases = []
        for number, (n, d, dtype, causal) in enumerate(product(LENGTHS, dims, dtypes, (False, True))):
            heads, kv_heads = HEADS[number // 2 % 4] if n <= 65 else (1, 1)
            shape = {"batch": number // 3 % 2 + 1 if n <= 17 else 1, "num_heads": heads, "num_kv_heads": kv_heads}
            layout, scale = ("bhsd", "bshd")[number // 4 % 2], SCALES[number // 3 % 4] if n > 2 else 1.0
            rest = {"dtype": dtype, "causal": causal, "layout": layout, "score_scale": scale, "seed": number}
            cases.append(Case(kind(n, d, **shape, **rest)))
        plain = kind(200, 64, num_heads=1)
        for number, ((queries, keys), causal) in enumerate(product(PAIRS, (False, True))):
            rest = {"causal": causal, "dtype": dtypes[number // 2 % len(dtypes)], "seed": number}
            cases.append(Case(replace(plain, seq_len=queries, seq_len_kv=keys, **rest)))
        for number, (scores, causal) in enumerate(product(SCORES[1:], (False, True))):
            rest = {"causal": causal, "dtype": dtypes[number // 2 % len(dtypes)], "seed": number}
            cases.append(Case(replace(plain, head_dim=(64, 128)[number % 2], scores=scores, score_scale=2.0, **rest)))
        cases.append(Case(replace(plain, seq_len=LONGEST, causal=True)))
        values = [(c.name, v) for c in kernel.constants if not c.what_if for v in c.values if v != c.default]
        for number, setting in enumerate(values):
            grouped = replace(plain, num_heads=3, num_kv_heads=1) if setting[0] == "QUERY_HEADS" else plain
            for n, d, causal in ((65, 128, False), (200, 64, True)):
                cases.append(Case(replace(grouped, seq_len=n, head_dim=d, causal=causal, seed=number), (setting,)))
        return made_for(kernel, cases)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """All blocks of a causal problem of recorded_length queries with small tiles, or with the tuned ones. Then
        every what-if build."""
        default = kernel.problem_type(cls.recorded_length, num_heads=1, causal=True)
        small = tuple(kernel.settings_for(default).items()) if kernel.tuned else small_tiles(kernel)
        cases = [Case(default, small)]
        for c in kernel.what_ifs:
            broken = replace(default, score_scale=c.shows_at)
            cases += [Case(broken, (*small, (c.name, v))) for v in c.values if v != c.default]
        return [
            replace(case, scope=Scope.everything(kernel.plan(case.problem, case.settings)))
            for case in made_for(kernel, cases)
        ]

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Both masks and both head_dims."""
        shapes = ((128, 64, False), (100, 64, True), (128, 128, False))
        return made_for(kernel, [Case(kernel.problem_type(n, d, causal=causal)) for n, d, causal in shapes])

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Both masks at 2,048 tokens, with heads of 64."""
        return [Case(kernel.problem_type(2048, 64, num_heads=8, causal=causal)) for causal in (False, True)]

    @classmethod
    def pipeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Both masks at 2,048 tokens, with heads of 128."""
        sizes = ((128, False), (128, True))
        return made_for(
            kernel, [Case(kernel.problem_type(2048, d, num_heads=16, causal=causal)) for d, causal in sizes]
        )
