"""The cases of the paged kernels and of the kernels that write a cache."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from kernels.core.problem import Case, Problem, Sweeps
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.families.paged.fields import BLOCK_SIZES, DTYPES, HEAD_DIMS
from kernels.kv_cache import scenarios

HEADS = ((4, 4), (8, 2), (4, 1), (32, 8), (6, 3), (8, 1), (1, 1))  # query heads, KV heads
SCALES = (1.0, 0.1, 5.0, 30.0)
RAGGED = (2000, 30, 400, 90, 1000, 10, 60, 200)  # tokens of each sequence
LAYOUTS = tuple(product(HEAD_DIMS, BLOCK_SIZES, DTYPES))

SWEEPS: list[tuple[list[tuple[str, list]], Mapping[str, object]]] = [
    ([("seq_len", [256, 512, 1024, 2048, 4096, 8192])], {"batch": 4}),
    ([("batch", [1, 4, 8, 16, 32])], {}),
]
"""(sweeps, fields held) pairs of a bench of paged attention."""


def _recorded_problems(kernel: KernelSpec) -> Iterator[Any]:
    """The last moment of each preset, as allocated and shuffled."""
    for scenario in scenarios.PRESETS.values():
        cache = scenario.states(16)[-1][0]
        yield kernel.problem_type.of_cache(cache)
        yield kernel.problem_type.of_cache(cache.shuffled(scenarios.SHUFFLE_SEED))


def _recorded_head_problems(kernel: KernelSpec) -> Iterator[Any]:
    """For the comparison of heads: the same moments with as many KV heads as query heads, and with one."""
    for scenario in scenarios.PRESETS.values():
        problem = kernel.problem_type.of_cache(scenario.states(16)[-1][0])
        yield from (replace(problem, num_kv_heads=kv_heads) for kv_heads in (problem.num_heads, 1))


class PagedCases(Problem):
    """The cases of the paged kernels, a base of their problem."""

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return SWEEPS

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Context lengths near the end of a page and of a partition, in every layout.

        The problems cover ALiBi, ragged batches, every ratio of heads, each value of each constant, and a forked cache.
        """
        cases: list[Case] = []
        for head_dim, block_size, dtype in LAYOUTS:
            for lens in ((1, block_size - 1, block_size, block_size + 1), (100, 1, 33, 257, 64)):
                n = len(cases)
                shape = (*HEADS[n % len(HEADS)], head_dim, block_size, dtype)
                cases.append(
                    Case(kernel.problem_type(lens, *shape, alibi=n % 3 == 0, score_scale=SCALES[n % 4], seed=n))
                )
        for long in ((511,), (512,), (513,), (2049,), (2049, 1, 512)):
            for heads, dtype in zip(((8, 2), (4, 1), (32, 8)), ("float32", "float16", "float16")):
                n = len(cases)
                shape = (*heads, HEAD_DIMS[n % 5], BLOCK_SIZES[n % 3], dtype)
                cases.append(Case(kernel.problem_type(long, *shape, alibi=n % 2 == 0, seed=n)))
        for name, value in ((c.name, v) for c in kernel.constants for v in c.values):
            n = len(cases)
            shape = (8, 2, HEAD_DIMS[n % 5], BLOCK_SIZES[n % 3], DTYPES[n % 2])
            cases.append(Case(kernel.problem_type((70, 1, 600, 33), *shape, seed=n), ((name, value),)))
        forked = scenarios.PRESETS["shared_prompt"].states(16)[-1][0]
        shuffled = kernel.problem_type.of_cache(forked.shuffled(3), num_kv_heads=4, dtype="float16")
        return [*cases, Case(kernel.problem_type.of_cache(forked)), Case(shuffled)]

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The last moment of each preset, as allocated and shuffled.

        A kernel with partitions takes small ones. For other kernels, the moments also have other numbers of KV heads.
        """
        cuts = kernel.constant_of("partition")
        settings = ((cuts.name, scenarios.SHOWN_PARTITION),) if cuts else ()
        problems = [*_recorded_problems(kernel), *([] if cuts else _recorded_head_problems(kernel))]
        return [Case(p, settings, Scope(0, kernel.plan(p, settings).items)) for p in problems]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """A ragged batch: one long context keeps its blocks busy after the others end."""
        return [Case(kernel.problem_type(RAGGED, 8, 2, 128))]


class WriteCases(Problem):
    """The cases of the kernels that write new tokens, a base of their problem."""

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every layout, with random slots and padding."""
        cases = []
        for n, layout in enumerate(LAYOUTS):
            slots = np.random.default_rng(n).permutation(7 * layout[1])[: 1 + n % 40]
            slots[::5][1:] = -1
            cases.append(Case(kernel.problem_type(HEADS[n % len(HEADS)][1], *layout, 7, n, tuple(slots.tolist()))))
        return cases


class CopyCases(Problem):
    """The cases of the kernel that copies pages, a base of its problem."""

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every layout, with one to four pages and one page copied twice."""
        cases = []
        for n, layout in enumerate(LAYOUTS):
            pages = np.random.default_rng(n).permutation(9).tolist()
            copies = (*zip(pages[: 1 + n % 3], pages[4:]), (pages[0], pages[8]))
            cases.append(Case(kernel.problem_type(HEADS[n % len(HEADS)][1], *layout, 9, n, copies)))
        return cases
