"""The problems on which the paged kernels and those that write the cache are checked, recorded and timed."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from kernels.core.problem import Case
from kernels.core.request import Scope
from kernels.core.spec import KernelSpec
from kernels.families.paged.cache import CacheCopyProblem, CacheWriteProblem
from kernels.families.paged.problem import BLOCK_SIZES, DTYPES, HEAD_DIMS, PagedProblem
from kernels.kv_cache import scenarios

HEADS = ((4, 4), (8, 2), (4, 1), (32, 8), (6, 3), (8, 1), (1, 1))  # query heads, KV heads
SCALES = (1.0, 0.1, 5.0, 30.0)
LAYOUTS = tuple(product(HEAD_DIMS, BLOCK_SIZES, DTYPES))

SWEEPS: list[tuple[list[tuple[str, list]], dict[str, Any]]] = [
    ([("seq_len", [256, 512, 1024, 2048, 4096, 8192])], {"batch": 4}),
    ([("batch", [1, 4, 8, 16, 32])], {}),
]
"""What a bench of paged attention records: (sweeps, fields that hold for all their points) pairs."""


def check_cases(kernel: KernelSpec) -> list[Case]:
    """Every context length about a page's and a partition's end; every layout, with and without ALiBi; ragged batches;
    every ratio of heads; then every value of every constant; and a forked cache."""
    cases: list[Case] = []
    for head_dim, block_size, dtype in LAYOUTS:
        for lens in ((1, block_size - 1, block_size, block_size + 1), (100, 1, 33, 257, 64)):
            n = len(cases)
            shape = (*HEADS[n % len(HEADS)], head_dim, block_size, dtype)
            cases.append(Case(PagedProblem(lens, *shape, alibi=n % 3 == 0, score_scale=SCALES[n % 4], seed=n)))
    for long in ((511,), (512,), (513,), (2049,), (2049, 1, 512)):
        for heads, dtype in zip(((8, 2), (4, 1), (32, 8)), ("float32", "float16", "float16")):
            n = len(cases)
            shape = (*heads, HEAD_DIMS[n % 5], BLOCK_SIZES[n % 3], dtype)
            cases.append(Case(PagedProblem(long, *shape, alibi=n % 2 == 0, seed=n)))
    for name, value in ((c.name, v) for c in kernel.constants for v in c.values):
        n = len(cases)
        shape = (8, 2, HEAD_DIMS[n % 5], BLOCK_SIZES[n % 3], DTYPES[n % 2])
        cases.append(Case(PagedProblem((70, 1, 600, 33), *shape, seed=n), ((name, value),)))
    forked = scenarios.PRESETS["shared_prompt"].states(16)[-1][0]
    shuffled = PagedProblem.of_cache(forked.shuffled(3), num_kv_heads=4, dtype="float16")
    return [*cases, Case(PagedProblem.of_cache(forked)), Case(shuffled)]


def recorded_cases(kernel: KernelSpec) -> list[Case]:
    """Each preset's last moment, as allocated and shuffled; contexts are cut into small partitions where the kernel
    cuts them, and where it does not the same moments are recorded with other numbers of KV heads too."""
    cuts = kernel.constant_of("partition")
    settings = ((cuts.name, scenarios.SHOWN_PARTITION),) if cuts else ()
    problems = [*_recorded_problems(), *([] if cuts else _recorded_head_problems())]
    return [Case(p, settings, Scope(0, kernel.plan(p, settings).items)) for p in problems]


def _recorded_problems() -> Iterator[PagedProblem]:
    """The last moment of each preset, as allocated and shuffled."""
    for scenario in scenarios.PRESETS.values():
        cache = scenario.states(16)[-1][0]
        yield PagedProblem.of_cache(cache)
        yield PagedProblem.of_cache(cache.shuffled(scenarios.SHUFFLE_SEED))


def _recorded_head_problems() -> Iterator[PagedProblem]:
    """For the comparison of heads: the same moments with as many KV heads as query heads, and with one."""
    for scenario in scenarios.PRESETS.values():
        problem = PagedProblem.of_cache(scenario.states(16)[-1][0])
        yield from (replace(problem, num_kv_heads=kv_heads) for kv_heads in (problem.num_heads, 1))


def write_cases() -> list[Case]:
    """Every layout; slots at random, some of them padding."""
    cases = []
    for n, layout in enumerate(LAYOUTS):
        slots = np.random.default_rng(n).permutation(7 * layout[1])[: 1 + n % 40]
        slots[::5][1:] = -1
        cases.append(Case(CacheWriteProblem(HEADS[n % len(HEADS)][1], *layout, 7, n, tuple(slots.tolist()))))
    return cases


def copy_cases() -> list[Case]:
    """Every layout; one to four pages, one of them copied twice."""
    cases = []
    for n, layout in enumerate(LAYOUTS):
        pages = np.random.default_rng(n).permutation(9).tolist()
        copies = (*zip(pages[: 1 + n % 3], pages[4:]), (pages[0], pages[8]))
        cases.append(Case(CacheCopyProblem(HEADS[n % len(HEADS)][1], *layout, 9, n, copies)))
    return cases
