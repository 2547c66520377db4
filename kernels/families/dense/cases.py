"""The problems on which the dense kernels are checked, recorded, timed and compared with Nsight Compute's counters."""

from dataclasses import replace
from itertools import product
from typing import Any

from kernels.core.problem import Case
from kernels.core.request import Scope
from kernels.core.spec import KernelSpec
from kernels.families.dense.problem import DenseProblem

LENGTHS = (1, 2, 17, 31, 33, 63, 65, 100, 129, 257)
LONGER = ((513, 32, True), (520, 64, False), (520, 128, True))  # with what a kernel is tuned to there
SCALES = (1.0, 0.1, 5.0, 30.0)
MOST_BLOCKS = 10_000  # of a recorded timeline, which has a row for each block
SMALL = 16  # rows or keys of a tile of which a problem of 64 tokens has several

SWEEPS: list[tuple[list[tuple[str, list]], dict[str, Any]]] = [
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
"""What a bench records: (sweeps, fields that hold for all their points) pairs, each for every kernel that has the
constants among them. The last three are the price of a bank conflict, at every size of a tile."""


def check_cases(kernel: KernelSpec) -> list[Case]:
    """Every length, head_dim and mask, batch 1 to 3, 1 to 4 heads, scores up to 30; longer ones as tuned; then every
    value of every constant, on problems of several tiles. What-if constants are left out, as they break the kernel."""
    cases = []
    for number, (n, d, causal) in enumerate(product(LENGTHS, (32, 64, 128), (False, True))):
        small = n <= 100
        batch, num_heads = (number % 3 + 1, number % 4 + 1) if small else (1, number % 2 + 1)
        cases.append(Case(DenseProblem(n, d, batch, num_heads, causal, SCALES[number % 4], number)))
    for number, (n, d, causal) in enumerate(LONGER):
        problem = DenseProblem(n, d, causal=causal, seed=number)
        cases.append(Case(problem, tuple(kernel.settings_for(problem).items())))
    values = [(c.name, v) for c in kernel.constants if not c.what_if for v in c.values if v != c.default]
    for number, setting in enumerate(values):
        for n, causal in ((65, False), (100, True)):
            problem = DenseProblem(n, (32, 64, 128)[number % 3], causal=causal, seed=number)
            cases.append(Case(problem, tuple(kernel.settings_for(problem, (setting,)).items())))
    return cases


def recorded_cases(kernel: KernelSpec) -> list[Case]:
    """The default problem, causal, a ragged one, every what-if build, and every padding of shared memory; of each its
    first head.

    Kernels whose tiles are large by default are recorded with small ones, so that these small problems have several.
    """
    default = DenseProblem()
    small = tuple((c.name, min(v for v in c.values if v >= SMALL)) for c in _tiles(kernel) if c.default > SMALL)
    ragged = replace(default, seq_len=50, head_dim=64, num_heads=1)
    pairs: list[tuple[DenseProblem, tuple]] = [
        (default, small),
        (replace(default, causal=True), small),
        (ragged, small),
    ]
    for c in kernel.what_ifs:
        shown = replace(default, score_scale=c.shows_at)
        pairs += [(shown, (*small, (c.name, v))) for v in c.values if v != c.default]
    pairs += [(default, ((c.name, v),)) for c in _paddings(kernel) for v in c.values if small or v != c.default]
    return [Case(problem, settings, _first_head(kernel, problem, settings)) for problem, settings in pairs]


def counter_cases(kernel: KernelSpec) -> list[Case]:
    """Every padding, with and without a mask, at three shapes; one ragged problem for a kernel that has no padding."""
    settings = [((c.name, v),) for c in _paddings(kernel) for v in c.values]
    shapes = [(n, d, causal) for causal in (False, True) for n, d in ((64, 32), (100, 64), (48, 128))]
    padded = [Case(DenseProblem(n, d, causal=causal), chosen) for chosen in settings for n, d, causal in shapes]
    return padded or [Case(DenseProblem(seq_len=100))]


def timeline_cases(kernel: KernelSpec) -> list[Case]:
    """Two sizes without a causal mask and three with one; those that do not launch too many blocks. Each with the
    defaults, and with the constants that the kernel would choose and that its times are of, where those are others."""
    sizes = ((512, False), (512, True), (2048, False), (2048, True), (4096, True))
    cases = []
    for n, causal in sizes:
        problem = DenseProblem(seq_len=n, head_dim=64, num_heads=8, causal=causal)
        own = tuple((k, v) for k, v in kernel.settings_for(problem).items() if v != kernel.settings()[k])
        if sum(launch.blocks for launch in kernel.plan(problem).launches) <= MOST_BLOCKS:
            cases += [Case(problem), *([Case(problem, own)] if own else [])]
    return cases


def _tiles(kernel: KernelSpec) -> list:
    return list(kernel.constants_of("query_rows", "key_rows"))


def _paddings(kernel: KernelSpec) -> list:
    return list(kernel.constants_of("pad"))


def _first_head(kernel: KernelSpec, problem: DenseProblem, settings: tuple) -> Scope:
    return Scope(0, kernel.plan(problem, settings).items // (problem.batch * problem.num_heads))
