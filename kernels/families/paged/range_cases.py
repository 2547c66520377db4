"""The cases of the kernels over ranges and of those with a shared prefix."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from kernels.core.problem import Case, Problem, Sweeps
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.families.paged.cases import RAGGED
from kernels.families.paged.fields import CACHE_DTYPES, FP8, RANGE_BLOCK_SIZES, RANGE_DTYPES, RANGE_HEAD_DIMS
from kernels.kv_cache import scenarios

HEADS = ((4, 2), (4, 4), (8, 1), (3, 1), (14, 2), (16, 1), (32, 8), (5, 1))  # query heads, KV heads
SCALES = (1.0, 0.1, 5.0, 30.0)
CAPS, WINDOWS = (0.0, 20.0, 0.0, 50.0), (0, 0, 1, 40, 300)
UNEVEN = (1, 17, 5000, 16384) * 16  # contexts of very different lengths
FAMILIES = (1, 1, 1, 2, 3, 3)  # of six sequences with the pages of TABLES
TABLES = ((0, 1, 2, 3), (0, 1, 4), (0, 1, 5, 6), (7, 8), (9, 10), (9, 11, 12))

SWEEPS: list[tuple[list[tuple[str, list]], Mapping[str, object]]] = [
    ([("seq_len", [1024, 4096, 8192, 16384])], {"batch": 8}),
    ([("batch", [1, 8, 64])], {}),
    ([("batch", [1, 8, 64])], {"cache_dtype": FP8}),
    ([("block_size", [8, 16, 32, 64])], {"batch": 64}),
    ([("seq_len", [16, 4096, 16384])], {"batch": 1}),
    ([("head_dim", [64, 128])], {"batch": 64}),
    ([("num_kv_heads", [8, 32])], {"batch": 64}),
    ([("context_lens", [UNEVEN])], {}),
]


class _Found:
    """The cases of a kernel so far. Each case takes its number as its seed."""

    def __init__(self, kernel: KernelSpec) -> None:
        self.kernel = kernel
        self.cases: list[Case] = []

    @property
    def count(self) -> int:
        return len(self.cases)

    @property
    def settings(self) -> list[tuple[str, int]]:
        """Each value of each constant."""
        return [(constant.name, value) for constant in self.kernel.constants for value in constant.values]

    def add(
        self, lens: tuple[int, ...], *shape: object, settings: tuple[tuple[str, int], ...] = (), **more: Any
    ) -> None:
        problem = self.kernel.problem_type(lens, *shape, seed=self.count, **more)
        self.cases.append(Case(problem, settings))


def _add_layouts(found: _Found) -> None:
    """Every layout, with ALiBi, soft caps and windows."""
    for head_dim, size, dtype in product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES, RANGE_DTYPES):
        n = found.count
        shape, scale = (*HEADS[n % len(HEADS)], head_dim, size, dtype), SCALES[n % 4]
        found.add((1, size - 1, size, size + 1), *shape, alibi=n % 3 == 0, score_scale=scale, ranges=n % 4)
        limits: dict[str, Any] = {"soft_cap": CAPS[n % 4], "window": WINDOWS[n % 5]}
        found.add((100, 1, 33, 257, 64), *shape, alibi=n % 4 == 1, ranges=1 + n % 7, **limits)


def _add_groups(found: _Found, lens: tuple[int, ...], **more: Any) -> None:
    """Every number of query heads for one KV head. A problem without a prefix has ALiBi now and then."""
    for group in range(1, 17):
        n = found.count
        shape = (group, 1, RANGE_HEAD_DIMS[n % 2], RANGE_BLOCK_SIZES[n % 4], RANGE_DTYPES[n // 2 % 2])
        alibi: dict[str, Any] = {} if "prefix" in more else {"alibi": n % 3 == 0}
        found.add(lens, *shape, **alibi, **more)


def _add_eight_bits(found: _Found) -> None:
    """8-bit caches in every layout."""
    for n, (head_dim, size, dtype) in enumerate(product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES[1:], RANGE_DTYPES)):
        limits: dict[str, Any] = {"soft_cap": CAPS[n % 4], "window": WINDOWS[(n + 2) % 5], "ranges": 1 + n % 5}
        shape = (*HEADS[n % len(HEADS)], head_dim, size, dtype)
        found.add((1, 100, 65, 300), *shape, cache_dtype=FP8, alibi=n % 4 == 3, **limits)


class RangesCases(Problem):
    """The cases of the kernels over ranges, a base of their problem."""

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return SWEEPS

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Context lengths near the end of a page, in every layout, and every group of 1 to 16 heads.

        The problems cover additions to scores, 8-bit caches, one token next to 16,384, one range up to more ranges
        than pages, forked caches, and each value of each constant.
        """
        found = _Found(kernel)
        _add_layouts(found)
        _add_groups(found, (150, 40), ranges=3)
        _add_eight_bits(found)
        for n, ranges in enumerate((0, 1, 2, 7, 1000)):
            shape = (8, 2, RANGE_HEAD_DIMS[n % 2], RANGE_BLOCK_SIZES[n % 4])
            found.add((700, 3, 81), *shape, ranges=ranges, score_scale=SCALES[n % 4])
        found.add((16384, 1), 2, 1, 64, 16, ranges=9)
        found.add((1, 16384), 2, 1, 64, 64, "bfloat16", ranges=7, window=5000)
        found.add((2,) * 40, 4, 2, 64, 16, ranges=6)
        for setting in found.settings:
            n = found.count
            found.add((290, 70, 600), 8, 2, 64, RANGE_BLOCK_SIZES[n % 4], settings=(setting,), ranges=1 + n % 4)
        forked = scenarios.PRESETS["shared_prompt"].states(16)[-1][0]
        eight_bits = {"num_kv_heads": 4, "cache_dtype": FP8, "ranges": 4}
        problems = (
            kernel.problem_type.of_cache(forked),
            kernel.problem_type.of_cache(forked.shuffled(3), **eight_bits),
        )
        return [*found.cases, *map(Case, problems)]

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The last moment of each preset in SHOWN_RANGES ranges, with a cache of 16 bits and of 8 bits."""
        made: list[Case] = []
        for preset, kind in product(scenarios.PRESETS.values(), CACHE_DTYPES):
            cache = preset.states(16)[-1][0]
            try:
                problem = kernel.problem_type.of_cache(cache, ranges=scenarios.SHOWN_RANGES, cache_dtype=kind)
            except ProblemError:  # nothing is shared in that one
                continue
            made.append(Case(problem, (), Scope.everything(kernel.plan(problem))))
        return made

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        kind = kernel.problem_type
        return [Case(kind()), Case(kind((300, 17), 8, 2, 128, 32, "float16"))]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        """A ragged batch: every range is as long as the others."""
        return [Case(kernel.problem_type(RAGGED, 8, 2, 128))]


class CascadeCases(Problem):
    """The cases of the kernels with a shared prefix, a base of their problem."""

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [([("batch", [4, 16, 64])], {})]

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every layout, and every group of 1 to 16 heads.

        The problems cover 3 to 70 sequences, prefixes of one page to nearly all pages, several families, 8-bit caches,
        soft caps, and each value of each constant.
        """
        found = _Found(kernel)
        for head_dim, size, dtype in product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES, RANGE_DTYPES):
            n = found.count
            shape, scale = (*HEADS[n % len(HEADS)], head_dim, size, dtype), SCALES[n // 2 % 4]
            lens = (size + 1, 2 * size, 150, 2 * size + 1)
            found.add(lens, *shape, prefix=size, ranges=n % 4, score_scale=scale)
            found.add((200, 161, 300), *shape, prefix=150, ranges=1 + n % 7, soft_cap=CAPS[n % 4])
        _add_groups(found, (150, 140, 131, 200), prefix=130, ranges=3)
        for n, (head_dim, size, dtype) in enumerate(product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES[1:], RANGE_DTYPES)):
            more: dict[str, Any] = {"prefix": 200, "soft_cap": CAPS[n % 4], "ranges": 1 + n % 5, "cache_dtype": FP8}
            found.add((210, 300, 257), *HEADS[n % len(HEADS)], head_dim, size, dtype, **more)
        found.add((20,) * 70, 4, 2, 64, 16, prefix=16, ranges=4)  # more than 32 sequences of 2 heads
        found.add((2100, 2049, 2200), 4, 2, 64, prefix=2048)
        found.add((2100, 2049, 2200), 4, 2, 64, prefix=2048, ranges=7)
        for ranges in (1, 4):
            found.add((60, 40, 64, 20, 17, 48), block_tables=TABLES, families=FAMILIES, ranges=ranges)
        for setting in found.settings:
            size = RANGE_BLOCK_SIZES[found.count % 4]
            found.add((290, 270, 600), 8, 2, 64, size, settings=(setting,), prefix=256, ranges=3)
        return found.cases

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(cls())]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(kernel.problem_type((1100, 1040, 1200, 1030), 8, 2, 128, prefix=1024))]
