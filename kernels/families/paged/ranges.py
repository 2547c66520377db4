"""The problem of the kernels that read a paged KV cache in equal ranges.

It adds features of serving engines to paged decoding: bfloat16, an fp8 cache with a scale for each KV head, a soft cap,
a sliding window, and lse as an output. CascadeProblem has sequences with the same first pages, read once for several
sequences.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, product
from typing import Any, ClassVar, Self

import numpy as np

from kernels.core.call import Call
from kernels.core.cases import Settings, traced, values
from kernels.core.dtypes import element_type
from kernels.core.fields import check_fields, problem_field
from kernels.core.paged import CacheCall, CacheUse
from kernels.core.problem import Case, Size, Sweeps
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.attention import SCALES
from kernels.families.paged.fields import CACHE_DTYPES, FP8, RANGE_BLOCK_SIZES, RANGE_DTYPES, RANGE_HEAD_DIMS
from kernels.families.paged.plan import SHORTEST, ranges_of
from kernels.families.paged.problem import PagedProblem, decode_fields
from kernels.kv_cache import scenarios
from kernels.kv_cache.work_list import FIELDS, WorkList, work_list

MOST_GROUP = 16
MULTIPROCESSORS = 132  # of an H100 SXM or H200
MUCH = 300 * 10**6  # bytes of K and V in one call from which they no longer leave the L2 first from the start
UNCHANGED = 128 * 2**20  # bytes that they then leave the L2's order as it is
HEADS = ((4, 2), (4, 4), (8, 1), (3, 1), (14, 2), (16, 1), (32, 8), (5, 1))  # query heads, KV heads
CAPS, WINDOWS = (0.0, 20.0, 0.0, 50.0), (0, 0, 1, 40, 300)
UNEVEN = (1, 17, 5000, 16384) * 16  # contexts of very different lengths

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


class CasesSoFar:
    """The cases of a kernel so far. Each case takes its number as its seed."""

    def __init__(self, kernel: KernelSpec) -> None:
        self.kernel = kernel
        self.cases: list[Case] = []

    @property
    def count(self) -> int:
        return len(self.cases)

    def add(self, lens: tuple[int, ...], *shape: object, settings: Settings = (), **more: Any) -> None:
        problem = self.kernel.problem_type(lens, *shape, seed=self.count, **more)
        self.cases.append(Case(problem, settings))

    def add_groups(self, lens: tuple[int, ...], **more: Any) -> None:
        """Every number of query heads for one KV head. A problem without a prefix has ALiBi now and then."""
        for group in range(1, 17):
            n = self.count
            shape = (group, 1, RANGE_HEAD_DIMS[n % 2], RANGE_BLOCK_SIZES[n % 4], RANGE_DTYPES[n // 2 % 2])
            alibi: dict[str, Any] = {} if "prefix" in more else {"alibi": n % 3 == 0}
            self.add(lens, *shape, **alibi, **more)


@dataclass(frozen=True)
class RangesProblem(PagedProblem):
    """Decoding as in PagedProblem, over a work list of equal ranges (kv_cache/work_list.py).

    The score of a token is scale * q . k plus ALiBi's slope times the distance. With a soft cap, soft_cap * tanh(scale
    * q . k / soft_cap) replaces scale * q . k. lse is the natural logarithm of the sum of e^score, float32.

    window: a query sees the last `window` tokens of its sequence, with its own token. 0 for all.
    cache_dtype: float8_e4m3 for a cache of 8 bits. A stored number times k_scale (v_scale) gives its value.
    k_scale, v_scale: [num_kv_heads] float32, the largest |K| (|V|) of the KV head over 448."""

    context_lens: tuple = problem_field((40, 5, 70), "tokens of each sequence", low=1, high=65536)
    block_size: int = problem_field(16, "slots per page", allowed=RANGE_BLOCK_SIZES)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=RANGE_HEAD_DIMS)
    dtype: str = problem_field("float16", "type of Q and O, and of the cache, with float32 sums", allowed=RANGE_DTYPES)
    ranges: int = problem_field(0, "equal ranges of pages, or 0 for an H200's number", low=0, high=65535)
    soft_cap: float = problem_field(0.0, "the largest |score|, by tanh, or 0 for none", low=0.0, high=1000.0)
    window: int = problem_field(0, "the last tokens, visible to a query, or 0 for all", low=0, high=65536)
    cache_dtype: str = problem_field("", "type of the cache if it differs from Q's", allowed=CACHE_DTYPES)

    title: ClassVar[str] = "Decoding in ranges, paged KV cache"
    cache_use: ClassVar[CacheUse | None] = CacheUse("attend", most_group=MOST_GROUP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group > MOST_GROUP:
            raise ProblemError(
                f"num_heads is {self.num_heads} and num_kv_heads {self.num_kv_heads}, {self.group} query heads for a "
                f"KV head. It can be at most {MOST_GROUP}."
            )
        if self.cache_dtype and self.block_size < 16:
            raise ProblemError(
                f"block_size is {self.block_size} and cache_dtype {self.cache_dtype}. A page of 8-bit numbers needs 16 "
                "slots at least."
            )

    @cached_property
    def work_list(self) -> WorkList:
        lens = np.array(self.context_lens)
        firsts = self.begins // self.block_size
        pages = -(-lens // self.block_size) - firsts
        return work_list(firsts, pages, lens, self.range_count_of(int(pages.sum())))

    def range_count_of(self, pages: int) -> int:
        """The number of ranges for this number of pages."""
        return self.ranges or ranges_of(pages * self.block_size, self.most_ranges)

    @property
    def most_ranges(self) -> int:
        """The number of ranges for long contexts."""
        return max(1, MULTIPROCESSORS // self.num_kv_heads)

    @property
    def read_bytes(self) -> int:
        """Bytes of K and V in the pages of the work list, for all KV heads."""
        return 2 * int(self.work_list.units[:, 2].sum()) * self.num_kv_heads * self.layout.page_bytes

    def tensors(self) -> tuple[Tensor, ...]:
        *given, o = super().tensors()
        scales = (Tensor(name, (self.num_kv_heads,), "float32", ("kv_head",)) for name in ("k_scale", "v_scale"))
        units = Tensor("units", self.work_list.units.shape, "int32", ("unit", "field"))
        lse = Tensor("lse", self.shape[:2], "float32", ("sequence", "head"), Role.OUTPUT)
        return (*given, *scales, units, o, lse)

    @property
    def sizes(self) -> dict[str, object]:
        """PagedProblem's sizes.

        range_count, slots: of the work list.
        unchanged_bytes: bytes that the kernel reads before it tells the L2 to drop bytes first."""
        made = self.work_list
        much = UNCHANGED if self.read_bytes > MUCH else 0
        return {**super().sizes, "range_count": made.ranges, "slots": made.slots, "unchanged_bytes": much}

    @property
    def defines(self) -> dict[str, int]:
        return {
            "HEAD_DIM": self.head_dim,
            "BLOCK_SIZE": self.block_size,
            "GROUP": self.group,
            "C_BYTES": element_type(self.stored).bytes,
            "BF16": int(self.dtype == "bfloat16"),
            "FP8": int(bool(self.cache_dtype)),
            "ALIBI": int(self.alibi),
            "SOFT_CAP": int(self.soft_cap > 0),
            "WINDOW": int(self.window > 0),
        }

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty if the contexts differ, or if scores are more than scale * q . k."""
        return {} if self.soft_cap or self.window or self.cache_dtype or self.alibi else super().bench_columns

    @property
    def shared_remedy(self) -> str:
        return "Choose fewer STAGES."

    def inputs(self) -> dict[str, np.ndarray]:
        k_scale, v_scale = self.scales
        return {**super().inputs(), "k_scale": k_scale, "v_scale": v_scale, "units": self.work_list.units}

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        """PagedProblem's inputs. Raises PeerUnavailable for features that torch's attention lacks."""
        if self.soft_cap or self.window or self.cache_dtype:
            raise PeerUnavailable("torch's attention has no soft cap, window or cache of another type.")
        return super().peer_inputs(inputs)

    def cache_call(self, inputs: dict[str, np.ndarray]) -> CacheCall:
        call, k_scale, v_scale = super().cache_call(inputs), inputs["k_scale"], inputs["v_scale"]
        return replace(call, soft_cap=self.soft_cap, window=self.window, k_scale=k_scale, v_scale=v_scale)

    @classmethod
    def from_call(cls, call: Call) -> Self:
        call.only("window", "soft_cap")
        cache, fields = call.given("k_cache").dtype, decode_fields(call)
        options = {name: call.option(name, 0) for name in ("window", "soft_cap")}
        return cls(**{**fields, **options, "cache_dtype": cache if cache != fields["dtype"] else ""})

    def made(self) -> dict[str, np.ndarray]:
        """No slopes, and scales of 1 where the call has none."""
        ones = np.ones(self.num_kv_heads, np.float32)
        return {**super().made(), "k_scale": ones, "v_scale": ones}

    def of_step(self, lengths: np.ndarray) -> tuple[dict[str, np.ndarray], tuple[tuple[str, float], ...]]:
        size, window = self.block_size, self.window
        firsts = (np.maximum(0, lengths - window) if window else np.zeros_like(lengths)) // size
        pages = -(-lengths // size) - firsts
        made = work_list(firsts, pages, lengths, self.range_count_of(int(pages.sum())))
        most = made.ranges + len(lengths)  # more partials than this number of ranges ever has
        read = 2 * int(pages.sum()) * self.num_kv_heads * self.layout.page_bytes
        much = UNCHANGED if read > MUCH else 0
        return {"units": made.units}, (("range_count", made.ranges), ("slots", most), ("unchanged_bytes", much))

    def of_device_step(self) -> tuple[dict[str, int], tuple[tuple[str, float], ...]]:
        most = self.most_ranges
        options = {"most_ranges": most, "block_size": self.block_size, "window": self.window}
        return options, (("range_count", most), ("slots", most + self.num_seqs + 1))

    # ---- cases ----

    @classmethod
    def bench_default(cls) -> Self:
        return cls((4096,) * 8, 32, 8, 128, 16, "float16")

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return SWEEPS

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Context lengths near the end of a page, in every layout, and every group of 1 to 16 heads. The problems cover
        additions to scores, 8-bit caches, one token next to 16,384, one range up to more ranges than pages, forked
        caches, and each value of each constant."""
        found = CasesSoFar(kernel)
        limits: dict[str, Any]
        for head_dim, size, dtype in product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES, RANGE_DTYPES):
            n = found.count
            shape, scale = (*HEADS[n % len(HEADS)], head_dim, size, dtype), SCALES[n % 4]
            found.add((1, size - 1, size, size + 1), *shape, alibi=n % 3 == 0, score_scale=scale, ranges=n % 4)
            limits = {"soft_cap": CAPS[n % 4], "window": WINDOWS[n % 5]}
            found.add((100, 1, 33, 257, 64), *shape, alibi=n % 4 == 1, ranges=1 + n % 7, **limits)
        found.add_groups((150, 40), ranges=3)
        for n, (head_dim, size, dtype) in enumerate(product(RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES[1:], RANGE_DTYPES)):
            limits = {"soft_cap": CAPS[n % 4], "window": WINDOWS[(n + 2) % 5], "ranges": 1 + n % 5}
            shape = (*HEADS[n % len(HEADS)], head_dim, size, dtype)
            found.add((1, 100, 65, 300), *shape, cache_dtype=FP8, alibi=n % 4 == 3, **limits)
        for n, ranges in enumerate((0, 1, 2, 7, 1000)):
            sizes = (8, 2, RANGE_HEAD_DIMS[n % 2], RANGE_BLOCK_SIZES[n % 4])
            found.add((700, 3, 81), *sizes, ranges=ranges, score_scale=SCALES[n % 4])
        found.add((16384, 1), 2, 1, 64, 16, ranges=9)
        found.add((1, 16384), 2, 1, 64, 64, "bfloat16", ranges=7, window=5000)
        found.add((2,) * 40, 4, 2, 64, 16, ranges=6)
        for setting in values(kernel, defaults=True):
            n = found.count
            found.add((290, 70, 600), 8, 2, 64, RANGE_BLOCK_SIZES[n % 4], settings=(setting,), ranges=1 + n % 4)
        forked = scenarios.PRESETS["shared_prompt"].states(16)[-1][0]
        eight_bits = {"num_kv_heads": 4, "cache_dtype": FP8, "ranges": 4}
        problems = cls.of_cache(forked), cls.of_cache(forked.shuffled(3), **eight_bits)
        return [*found.cases, *map(Case, problems)]

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The last moment of each preset in SHOWN_RANGES ranges, with a cache of 16 bits and of 8 bits."""
        made: list[Case] = []
        for preset, kind in product(scenarios.PRESETS.values(), CACHE_DTYPES):
            cache = preset.states(16)[-1][0]
            with suppress(ProblemError):  # nothing is shared in that one
                made.append(Case(cls.of_cache(cache, ranges=scenarios.SHOWN_RANGES, cache_dtype=kind)))
        return traced(kernel, made)

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(cls()), Case(cls((300, 17), 8, 2, 128, 32, "float16"))]


FAMILIES = (1, 1, 1, 2, 3, 3)  # of six sequences with the pages of TABLES
TABLES = ((0, 1, 2, 3), (0, 1, 4), (0, 1, 5, 6), (7, 8), (9, 10), (9, 11, 12))
COLUMNS = 64  # query heads of a KV head for which a page of a prefix is read at once
PARTITION, PARTITIONS, SLOT, SEQ = (FIELDS.index(name) for name in ("partition", "partitions", "slot", "seq"))


@dataclass(frozen=True)
class CascadeProblem(RangesProblem):
    """RangesProblem over sequences that share a prefix: neighbours in the batch, of one family, whose block tables
    begin with the same pages. Each keeps at least one page to itself.

    prefix: without block tables, the tokens that all sequences share, of which the whole pages are shared. No ALiBi and
    no window, since a token's distance to the query is another in every sequence."""

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
        """Every layout, and every group of 1 to 16 heads. The problems cover 3 to 70 sequences, prefixes of one page to
        nearly all pages, several families, 8-bit caches, soft caps, and each value of each constant."""
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
