"""The cases of the dense kernels for tensor cores: checks, recordings, sweeps, counters and timelines."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import ClassVar

from kernels.core.fields import fields_of
from kernels.core.problem import Case, Problem, Sweeps
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.families.tensor_cores.fields import CLIMBS

LENGTHS = (1, 2, 17, 63, 65, 100, 129, 200, 257)
SCALES = (1.0, 0.1, 5.0, 30.0)
HEADS = ((1, 1), (2, 2), (4, 2), (3, 1))  # query heads and KV heads
LONGEST = 3000

SWEEPS: list[tuple[list[tuple[str, list]], Mapping[str, object]]] = [
    ([("seq_len", [512, 1024, 2048, 4096, 8192])], {}),
    ([("seq_len", [512, 1024, 2048, 4096, 8192])], {"causal": "true"}),
    ([("seq_len", [1024, 4096, 8192])], {"head_dim": 64, "num_heads": 32}),
]
"""(sweeps, fields held) pairs of a bench."""


class SixteenBitCases(Problem):
    """The cases of the dense kernels for tensor cores, a base of their problem.

    recorded_length: queries of most recorded runs.
    """

    recorded_length: ClassVar[int] = 192

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return SWEEPS

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Lengths, head_dims, masks, types, grouped heads, layouts and kinds of scores.

        Some problems have more queries than keys, some have fewer, and one has 3,000 tokens. Then follows each value
        of each constant. What-if constants stay at their defaults, because they break the kernel. The list leaves out
        problems that the kernel's conditions refuse.
        """
        cases = []
        dims, dtypes = (fields_of(kernel.problem_type)[name].metadata["allowed"] for name in ("head_dim", "dtype"))
        for number, (n, d, causal) in enumerate(product(LENGTHS, dims, (False, True))):
            heads, kv_heads = HEADS[number % 4] if n <= 100 else (1, 1)
            cases.append(
                Case(
                    kernel.problem_type(
                        n,
                        d,
                        number % 2 + 1 if n <= 100 else 1,
                        heads,
                        causal,
                        dtypes[number // 2 % len(dtypes)],
                        SCALES[number // 3 % 4],
                        number,
                        kv_heads,
                        layout=("bhsd", "bshd")[number // 4 % 2],
                    )
                )
            )
        plain = kernel.problem_type(200, 64, num_heads=1)
        for number, (queries, keys, causal) in enumerate(
            ((40, 200, True), (40, 200, False), (200, 40, True), (200, 40, False), (1, 300, True), (130, 129, True))
        ):
            made = replace(
                plain, seq_len=queries, seq_len_kv=keys, causal=causal, dtype=dtypes[number % len(dtypes)], seed=number
            )
            cases.append(Case(made))
        for number, (scores, causal) in enumerate(product(("rising", "sink", "low_rank"), (False, True))):
            made = replace(
                plain, head_dim=(64, 128)[number % 2], scores=scores, causal=causal, score_scale=2.0, seed=number
            )
            cases.append(Case(made))
        for number, scores in enumerate(CLIMBS):
            made = replace(plain, seq_len=100, seq_len_kv=400, head_dim=(64, 128)[number], scores=scores, seed=number)
            cases.append(Case(replace(made, dtype=dtypes[number % len(dtypes)], causal=bool(number))))
        cases.append(Case(replace(plain, seq_len=LONGEST, causal=True)))
        values = [(c.name, v) for c in kernel.constants if not c.what_if for v in c.values if v != c.default]
        for number, setting in enumerate(values):
            for n, causal in ((65, False), (200, True)):
                made = replace(plain, seq_len=n, head_dim=(64, 128)[number % 2], causal=causal, seed=number)
                cases.append(Case(made, (setting,)))
        return made_for(kernel, cases)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The first head of a few problems: small tiles, causal, ragged with heads of 128, and every what-if build."""
        length = cls.recorded_length
        default, small = kernel.problem_type(length, num_heads=1), small_tiles(kernel)
        ragged = replace(default, seq_len=length // 2 + 4, head_dim=128)
        cases = [Case(problem, small) for problem in (default, replace(default, causal=True), ragged)]
        if any(
            c.name == "STREAK" for c in kernel.constants
        ):  # so many tiles of keys that the kernel skips the max of some
            cases.append(Case(replace(default, seq_len=64, seq_len_kv=1024, score_scale=0.5), small))
        for c in kernel.what_ifs:
            shown = replace(default, seq_len=length * 2 // 3, score_scale=c.shows_at)
            cases += [Case(shown, (*small, (c.name, v))) for v in c.values if v != c.default]
        return [
            replace(case, scope=Scope(0, kernel.plan(case.problem, case.settings).items))
            for case in made_for(kernel, cases)
        ]

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Both masks and both head_dims."""
        shapes = ((128, 64, False), (100, 64, True), (256, 128, False))
        cases = [Case(kernel.problem_type(n, d, causal=causal)) for n, d, causal in shapes]
        return made_for(kernel, cases)

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Both masks at 2,048 tokens, with heads of 64."""
        return [Case(kernel.problem_type(2048, 64, num_heads=8, causal=causal)) for causal in (False, True)]

    @classmethod
    def pipeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Both masks at 4,096 tokens, with heads of 128 and 64: the sizes of the compared times."""
        sizes = ((128, False), (128, True), (64, False))
        return made_for(
            kernel, [Case(kernel.problem_type(4096, d, num_heads=16, causal=causal)) for d, causal in sizes]
        )


def small_tiles(kernel: KernelSpec) -> tuple[tuple[str, int], ...]:
    """The smallest tile sizes of the kernel, unless they are its defaults."""
    return tuple(
        (c.name, min(c.values)) for c in kernel.constants_of("query_rows", "key_rows") if min(c.values) != c.default
    )


def made_for(kernel: KernelSpec, cases: list[Case]) -> list[Case]:
    """The possible cases under the kernel's conditions. A case without constants takes the tuned ones."""
    made = []
    for case in cases:
        settings = tuple(kernel.settings_for(case.problem, case.settings).items())
        try:
            kernel.plan(case.problem, settings)
        except ProblemError:
            continue
        made.append(replace(case, settings=settings))
    return made
