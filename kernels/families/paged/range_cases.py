"""The cases of the kernels over ranges and of those with a shared prefix."""

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

SWEEPS: list[tuple[list[tuple[str, list]], dict[str, Any]]] = [
    ([("seq_len", [1024, 4096, 8192, 16384])], {"batch": 8}),
    ([("batch", [1, 8, 64])], {}),
    ([("batch", [1, 8, 64])], {"cache_dtype": FP8}),
    ([("block_size", [8, 16, 32, 64])], {"batch": 64}),
    ([("seq_len", [16, 4096, 16384])], {"batch": 1}),
    ([("head_dim", [64, 128])], {"batch": 64}),
    ([("num_kv_heads", [8, 32])], {"batch": 64}),
    ([("context_lens", [UNEVEN])], {}),
]


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
        cases: list[Case] = []

        def add(lens: tuple[int, ...], *shape: Any, settings: Any = (), **more: Any) -> None:
            cases.append(Case(kernel.problem_type(lens, *shape, seed=len(cases), **more), settings))

        for head_dim, size, dtype in product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES, RANGE_DTYPES):
            n = len(cases)
            shape, scale = (*HEADS[n % len(HEADS)], head_dim, size, dtype), SCALES[n % 4]
            add((1, size - 1, size, size + 1), *shape, alibi=n % 3 == 0, score_scale=scale, ranges=n % 4)
            add(
                (100, 1, 33, 257, 64),
                *shape,
                alibi=n % 4 == 1,
                ranges=1 + n % 7,
                soft_cap=CAPS[n % 4],
                window=WINDOWS[n % 5],
            )
        for group in range(1, 17):
            n = len(cases)
            add(
                (150, 40),
                group,
                1,
                RANGE_HEAD_DIMS[n % 2],
                RANGE_BLOCK_SIZES[n % 4],
                RANGE_DTYPES[n // 2 % 2],
                alibi=n % 3 == 0,
                ranges=3,
            )
        for n, (head_dim, size, dtype) in enumerate(product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES[1:], RANGE_DTYPES)):
            more: dict[str, Any] = {
                "alibi": n % 4 == 3,
                "soft_cap": CAPS[n % 4],
                "window": WINDOWS[(n + 2) % 5],
                "ranges": 1 + n % 5,
            }
            add((1, 100, 65, 300), *HEADS[n % len(HEADS)], head_dim, size, dtype, cache_dtype=FP8, **more)
        for n, ranges in enumerate((0, 1, 2, 7, 1000)):
            add(
                (700, 3, 81),
                8,
                2,
                RANGE_HEAD_DIMS[n % 2],
                RANGE_BLOCK_SIZES[n % 4],
                ranges=ranges,
                score_scale=SCALES[n % 4],
            )
        add((16384, 1), 2, 1, 64, 16, ranges=9)
        add((1, 16384), 2, 1, 64, 64, "bfloat16", ranges=7, window=5000)
        add((2,) * 40, 4, 2, 64, 16, ranges=6)
        for name, value in ((c.name, v) for c in kernel.constants for v in c.values):
            n = len(cases)
            add((290, 70, 600), 8, 2, 64, RANGE_BLOCK_SIZES[n % 4], settings=((name, value),), ranges=1 + n % 4)
        forked = scenarios.PRESETS["shared_prompt"].states(16)[-1][0]
        for cache, fields in ((forked, {}), (forked.shuffled(3), {"num_kv_heads": 4, "cache_dtype": FP8, "ranges": 4})):
            cases.append(Case(kernel.problem_type.of_cache(cache, **fields)))
        return cases

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
        cases: list[Case] = []

        def add(lens: tuple[int, ...], *shape: Any, settings: Any = (), **more: Any) -> None:
            cases.append(Case(kernel.problem_type(lens, *shape, seed=len(cases), **more), settings))

        for head_dim, size, dtype in product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES, RANGE_DTYPES):
            n = len(cases)
            shape = (*HEADS[n % len(HEADS)], head_dim, size, dtype)
            add(
                (size + 1, 2 * size, 150, 2 * size + 1),
                *shape,
                prefix=size,
                ranges=n % 4,
                score_scale=SCALES[n // 2 % 4],
            )
            add((200, 161, 300), *shape, prefix=150, ranges=1 + n % 7, soft_cap=CAPS[n % 4])
        for group in range(1, 17):
            n = len(cases)
            add(
                (150, 140, 131, 200),
                group,
                1,
                RANGE_HEAD_DIMS[n % 2],
                RANGE_BLOCK_SIZES[n % 4],
                RANGE_DTYPES[n // 2 % 2],
                prefix=130,
                ranges=3,
            )
        for n, (head_dim, size, dtype) in enumerate(product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES[1:], RANGE_DTYPES)):
            more = {"prefix": 200, "soft_cap": CAPS[n % 4], "ranges": 1 + n % 5, "cache_dtype": FP8}
            add((210, 300, 257), *HEADS[n % len(HEADS)], head_dim, size, dtype, **more)
        add((20,) * 70, 4, 2, 64, 16, prefix=16, ranges=4)  # more than 32 sequences of 2 heads
        add((2100, 2049, 2200), 4, 2, 64, prefix=2048)
        add((2100, 2049, 2200), 4, 2, 64, prefix=2048, ranges=7)
        families = (1, 1, 1, 2, 3, 3)
        tables = ((0, 1, 2, 3), (0, 1, 4), (0, 1, 5, 6), (7, 8), (9, 10), (9, 11, 12))
        for ranges in (1, 4):
            add((60, 40, 64, 20, 17, 48), block_tables=tables, families=families, ranges=ranges)
        for name, value in ((c.name, v) for c in kernel.constants for v in c.values):
            add(
                (290, 270, 600),
                8,
                2,
                64,
                RANGE_BLOCK_SIZES[len(cases) % 4],
                settings=((name, value),),
                prefix=256,
                ranges=3,
            )
        return cases

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(cls())]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(kernel.problem_type((1100, 1040, 1200, 1030), 8, 2, 128, prefix=1024))]
