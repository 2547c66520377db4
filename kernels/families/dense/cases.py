"""The cases of the dense kernels: checks, recordings, sweeps, counters and timelines."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from kernels.core.problem import Case, Problem, Sweeps
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec

LENGTHS = (1, 2, 17, 31, 33, 63, 65, 100, 129, 257)
LONGER = ((513, 32, True), (520, 64, False), (520, 128, True))  # with what a kernel is tuned to there
SCALES = (1.0, 0.1, 5.0, 30.0)
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


class DenseCases(Problem):
    """The cases of the dense kernels, a base of their problem."""

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return SWEEPS

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Lengths, head_dims and masks, with 1 to 3 sequences, 1 to 4 heads and scores up to 30.

        Longer problems use the tuned constants. Then each value of each constant has problems of several tiles.
        What-if constants stay at their defaults, because they break the kernel.
        """
        cases = []
        for number, (n, d, causal) in enumerate(product(LENGTHS, (32, 64, 128), (False, True))):
            small = n <= 100
            batch, num_heads = (number % 3 + 1, number % 4 + 1) if small else (1, number % 2 + 1)
            cases.append(Case(kernel.problem_type(n, d, batch, num_heads, causal, SCALES[number % 4], number)))
        for number, (n, d, causal) in enumerate(LONGER):
            problem = kernel.problem_type(n, d, causal=causal, seed=number)
            cases.append(Case(problem, tuple(kernel.settings_for(problem).items())))
        values = [(c.name, v) for c in kernel.constants if not c.what_if for v in c.values if v != c.default]
        for number, setting in enumerate(values):
            for n, causal in ((65, False), (100, True)):
                problem = kernel.problem_type(n, (32, 64, 128)[number % 3], causal=causal, seed=number)
                cases.append(Case(problem, tuple(kernel.settings_for(problem, (setting,)).items())))
        return cases

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The first head of a few problems: default, causal, ragged, every what-if build and every padding.

        A kernel with large default tiles takes small ones here, so that a small problem has several tiles.
        """
        default = kernel.problem_type()
        small = tuple((c.name, min(v for v in c.values if v >= SMALL)) for c in _tiles(kernel) if c.default > SMALL)
        ragged = replace(default, seq_len=50, head_dim=64, num_heads=1)
        pairs: list[tuple[Any, tuple]] = [
            (default, small),
            (replace(default, causal=True), small),
            (ragged, small),
        ]
        for c in kernel.what_ifs:
            shown = replace(default, score_scale=c.shows_at)
            pairs += [(shown, (*small, (c.name, v))) for v in c.values if v != c.default]
        pairs += [(default, ((c.name, v),)) for c in _paddings(kernel) for v in c.values if small or v != c.default]
        return [Case(problem, settings, _first_head(kernel, problem, settings)) for problem, settings in pairs]

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every padding at three shapes and both masks; one ragged problem for a kernel without padding."""
        settings = [((c.name, v),) for c in _paddings(kernel) for v in c.values]
        shapes = [(n, d, causal) for causal in (False, True) for n, d in ((64, 32), (100, 64), (48, 128))]
        padded = [
            Case(kernel.problem_type(n, d, causal=causal), chosen) for chosen in settings for n, d, causal in shapes
        ]
        return padded or [Case(kernel.problem_type(seq_len=100))]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Two sizes without a causal mask and three with one, if they launch few enough blocks.

        Each has the defaults, and the tuned constants if they differ.
        """
        sizes = ((512, False), (512, True), (2048, False), (2048, True), (4096, True))
        cases = []
        for n, causal in sizes:
            problem = kernel.problem_type(seq_len=n, head_dim=64, num_heads=8, causal=causal)
            own = tuple((k, v) for k, v in kernel.settings_for(problem).items() if v != kernel.settings()[k])
            if sum(launch.blocks for launch in kernel.plan(problem).launches) <= MOST_BLOCKS:
                cases += [Case(problem), *([Case(problem, own)] if own else [])]
        return cases


def _tiles(kernel: KernelSpec) -> list:
    return list(kernel.constants_of("query_rows", "key_rows"))


def _paddings(kernel: KernelSpec) -> list:
    return list(kernel.constants_of("pad"))


def _first_head(kernel: KernelSpec, problem: Any, settings: tuple) -> Scope:
    return Scope(0, kernel.plan(problem, settings).items // (problem.batch * problem.num_heads))
