"""The problem of decoding with a shared prefix: sequences with the same first pages, read once for several
sequences."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, product
from typing import Any, ClassVar, Self

import numpy as np

from kernels.core.cases import values
from kernels.core.fields import check_fields, problem_field
from kernels.core.paged import CacheCall, CacheUse
from kernels.core.problem import Case, Size, Sweeps
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.errors import ProblemError
from kernels.families.attention import SCALES
from kernels.families.paged.fields import FP8, RANGE_BLOCK_SIZES, RANGE_DTYPES, RANGE_HEAD_DIMS
from kernels.families.paged.plan import SHORTEST
from kernels.families.paged.ranges import (
    CAPS,
    HEADS,
    MOST_GROUP,
    MULTIPROCESSORS,
    CasesSoFar,
    RangesProblem,
)
from kernels.kv_cache.work_list import FIELDS, WorkList, work_list

FAMILIES = (1, 1, 1, 2, 3, 3)  # of six sequences with the pages of TABLES
TABLES = ((0, 1, 2, 3), (0, 1, 4), (0, 1, 5, 6), (7, 8), (9, 10), (9, 11, 12))
COLUMNS = 64  # query heads of a KV head for which a page of a prefix is read at once
PARTITION, PARTITIONS, SLOT, SEQ = (FIELDS.index(name) for name in ("partition", "partitions", "slot", "seq"))


@dataclass(frozen=True)
class CascadeProblem(RangesProblem):
    """RangesProblem over sequences that share a prefix: neighbours in the batch, of one family, whose block tables
    begin with the same pages. Each keeps at least one page to itself.

    prefix: without block tables, the tokens that all sequences share, of which the whole pages are shared. No ALiBi and
    no window, since a token's distance to the query is another in every sequence.
    """

    context_lens: tuple = problem_field((70, 52, 81, 49), "tokens of each sequence", low=1, high=65536)
    prefix: int = problem_field(48, "shared first tokens of all sequences, for a random placement", low=1, high=65536)

    follows: ClassVar[tuple[str, ...]] = (*RangesProblem.follows, "families")
    title: ClassVar[str] = "Decoding with a shared prefix"
    operator: ClassVar[str] = ""
    cache_use: ClassVar[CacheUse | None] = CacheUse("attend", most_group=MOST_GROUP, prefix_heads=COLUMNS)

    def __post_init__(self) -> None:
        check_fields(self)  # a command line gives them as text, and _share computes with them
        if not self.block_tables and self.context_lens:
            self._share()
        super().__post_init__()
        if self.alibi or self.window:
            raise ProblemError(
                "alibi is on or window is not 0. Over a shared prefix neither is computed. Set them to off and 0."
            )
        if not self.prefix_pages.any():
            raise ProblemError(
                "No two neighbours of the batch share a page and have one of their own. Give a longer prefix, block "
                "tables that begin with the same pages, or take a kernel without a shared prefix."
            )

    def _share(self) -> None:
        """Block tables and one family, where none are given."""
        size = self.block_size
        needed = [-(-length // size) for length in self.context_lens]
        shared = min(self.prefix // size, min(needed) - 1)
        total = shared + sum(count - shared for count in needed)
        pool = max(self.num_blocks, total + 2)
        pages = iter(np.random.default_rng((self.seed, 3)).permutation(pool).tolist())
        first = tuple(next(pages) for _ in range(shared))
        rows = tuple((*first, *(next(pages) for _ in range(count - shared))) for count in needed)
        object.__setattr__(self, "num_blocks", pool)
        object.__setattr__(self, "block_tables", rows)
        object.__setattr__(self, "families", (0,) * len(needed))

    @cached_property
    def prefix_pages(self) -> np.ndarray:
        """How many pages each sequence shares with its neighbours, int [num_seqs]: all that begin every block table of
        its run of equal families, but at least one page remains to each."""
        shared = np.zeros(self.num_seqs, int)
        numbers = self.families or range(self.num_seqs)
        for _, run in groupby(range(self.num_seqs), key=lambda n: numbers[n]):
            members = list(run)
            most = min(-(-self.context_lens[n] // self.block_size) for n in members) - 1
            rows = [self.block_tables[n] for n in members]
            while len(members) > 1 and most and len({row[:most] for row in rows}) > 1:
                most -= 1
            shared[members] = most if len(members) > 1 else 0
        return shared

    @cached_property
    def lists(self) -> tuple[WorkList, WorkList, int]:
        """The work lists of the prefixes and of the rest, and the partitions that any sequence has at most. Of the
        first, seq is the first of `partitions` neighbours whose prefix it is. Sequence n's slots begin at n *
        partitions."""
        shared, group = self.prefix_pages, COLUMNS // self.group
        numbers = self.families or tuple(range(self.num_seqs))
        begins: list[int] = []
        counts: list[int] = []
        for _, run in groupby(np.flatnonzero(shared).tolist(), key=lambda n: numbers[n]):
            members = list(run)
            begins += members[::group]
            counts += [len(members[n : n + group]) for n in range(0, len(members), group)]
        heads, sizes = np.array(begins), np.array(counts)
        lens = np.array(self.context_lens)
        limit = self.ranges or MULTIPROCESSORS // self.num_kv_heads
        shortest = 1 if self.ranges else SHORTEST

        def cut(firsts: np.ndarray, pages: np.ndarray, tokens: np.ndarray) -> WorkList:
            return work_list(firsts, pages, tokens, max(1, min(limit, int(pages.sum()) * self.block_size // shortest)))

        before = cut(np.zeros_like(heads), shared[heads], shared[heads] * self.block_size)
        own = cut(shared, -(-lens // self.block_size) - shared, lens)
        first_parts = np.zeros(self.num_seqs, int)
        for head, size, parts in zip(heads, sizes, np.bincount(before.units[:, SEQ])):
            first_parts[head : head + size] = parts
        seqs = own.units[:, SEQ]
        most = int((first_parts + np.bincount(seqs)).max())
        own.units[:, PARTITION] += first_parts[seqs]
        own.units[:, PARTITIONS] += first_parts[seqs]
        own.units[:, SLOT] = seqs * most
        before.units[:, PARTITIONS] = sizes[before.units[:, SEQ]]
        before.units[:, SEQ] = heads[before.units[:, SEQ]]
        before.units[:, SLOT] = before.units[:, SEQ] * most
        return before, own, most

    @property
    def work_list(self) -> WorkList:  # type: ignore[override]
        """The work list of the pages that each sequence has to itself."""
        return self.lists[1]

    @property
    def read_bytes(self) -> int:
        pages = sum(int(made.units[:, 2].sum()) for made in self.lists[:2])
        return 2 * pages * self.num_kv_heads * self.layout.page_bytes

    def tensors(self) -> tuple[Tensor, ...]:
        *rest, o, lse = super().tensors()
        prefix = Tensor("prefix_units", self.lists[0].units.shape, "int32", ("unit", "field"))
        return (*rest, prefix, o, lse)

    def inputs(self) -> dict[str, np.ndarray]:
        return {**super().inputs(), "prefix_units": self.lists[0].units}

    def cache_call(self, inputs: dict[str, np.ndarray]) -> CacheCall:
        call = super().cache_call(inputs)
        least = int(self.prefix_pages.min())
        shared = len({row[:least] for row in call.tables}) == 1
        return replace(call, prefix=least if shared else 0)

    @property
    def sizes(self) -> dict[str, object]:
        """RangesProblem's; prefix_ranges; partitions, slots from one sequence's to the next one's."""
        before, _, most = self.lists
        return {**super().sizes, "prefix_ranges": before.ranges, "partitions": most}

    @property
    def bench_columns(self) -> dict[str, Size]:
        return {}

    def with_fields(self, **changes: Any) -> Self:
        """A copy with these fields; its pool, block tables and families are made anew unless they are given."""
        return super().with_fields(**{"families": (), **changes})

    @classmethod
    def bench_default(cls) -> Self:
        return cls((4096,) * 16, 32, 8, 128, 16, "float16", prefix=3072)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [([("batch", [4, 16, 64])], {})]

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every layout, and every group of 1 to 16 heads.

        The problems cover 3 to 70 sequences, prefixes of one page to nearly all pages, several families, 8-bit caches,
        soft caps, and each value of each constant.
        """
        found = CasesSoFar(kernel)
        for head_dim, size, dtype in product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES, RANGE_DTYPES):
            n = found.count
            shape, scale = (*HEADS[n % len(HEADS)], head_dim, size, dtype), SCALES[n // 2 % 4]
            lens = (size + 1, 2 * size, 150, 2 * size + 1)
            found.add(lens, *shape, prefix=size, ranges=n % 4, score_scale=scale)
            found.add((200, 161, 300), *shape, prefix=150, ranges=1 + n % 7, soft_cap=CAPS[n % 4])
        found.add_groups((150, 140, 131, 200), prefix=130, ranges=3)
        for n, (head_dim, size, dtype) in enumerate(product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES[1:], RANGE_DTYPES)):
            more: dict[str, Any] = {"prefix": 200, "soft_cap": CAPS[n % 4], "ranges": 1 + n % 5, "cache_dtype": FP8}
            found.add((210, 300, 257), *HEADS[n % len(HEADS)], head_dim, size, dtype, **more)
        found.add((20,) * 70, 4, 2, 64, 16, prefix=16, ranges=4)  # more than 32 sequences of 2 heads
        found.add((2100, 2049, 2200), 4, 2, 64, prefix=2048)
        found.add((2100, 2049, 2200), 4, 2, 64, prefix=2048, ranges=7)
        for ranges in (1, 4):
            found.add((60, 40, 64, 20, 17, 48), block_tables=TABLES, families=FAMILIES, ranges=ranges)
        for setting in values(kernel, defaults=True):
            size = RANGE_BLOCK_SIZES[found.count % 4]
            found.add((290, 270, 600), 8, 2, 64, size, settings=(setting,), prefix=256, ranges=3)
        return found.cases

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(cls())]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(cls((1100, 1040, 1200, 1030), 8, 2, 128, prefix=1024))]
