"""The problems of calls of the operators paged_decode and reshape_and_cache."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from kernels.core.call import Call, Values
from kernels.core.problem import Problem
from kernels.errors import ProblemError
from kernels.families.paged import kept
from kernels.kv_cache.work_list import work_list


class DecodeCalls(Problem):
    """Problems of paged_decode. A plan serves any contexts up to the width of the block tables."""

    operator: ClassVar[str] = "paged_decode"
    block_size: int
    block_tables: tuple[tuple[int, ...], ...]
    num_blocks: int
    num_kv_heads: int
    window: int

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """All contexts are as long as the tables and the pool allow, and all tables are alike."""
        call.only("lengths")
        if call.has("k_scale") or call.has("v_scale"):
            raise ProblemError("Its kernels have no cache of 8 bits.")
        return cls(**decode_fields(call))

    def made(self) -> dict[str, np.ndarray]:
        return {"alibi_slopes": self.slopes}  # type: ignore[attr-defined]

    def with_values(self, name: str) -> Self | None:
        place = {"num_blocks": self.num_blocks, "block_tables": self.block_tables}
        return None if self.cache_dtype else self.with_fields(numbers=name, **place)

    def of_values(self, values: Values) -> tuple[Self, Mapping[str, np.ndarray]]:
        """The contexts of the call, and its q, its block tables and the pages in them, numbered anew."""
        lens = values.read("context_lens")
        tables, pages = kept.renumbered(values.read("block_tables"), lens, self.block_size)
        arrays = {name: values.read(name, pages) for name in ("k_cache", "v_cache")}
        sized = self.with_fields(context_lens=tuple(lens.tolist()))
        return sized, {"q": values.read("q"), "block_tables": tables, **arrays}


class RangeCalls(DecodeCalls):
    """The same with a work list, which the CPU makes for each step."""

    @classmethod
    def from_call(cls, call: Call) -> Self:
        call.only("lengths", "window", "soft_cap")
        if not call.option("lengths", False):
            raise ProblemError("Its work list is made on the CPU. Pass context_lens on the CPU.")
        cache, fields = call.given("k_cache").dtype, decode_fields(call)
        more = {"cache_dtype": cache if cache != fields["dtype"] else ""}
        options = {name: call.option(name, 0) for name in ("window", "soft_cap")}
        return cls(**fields, **more, **options)

    def made(self) -> dict[str, np.ndarray]:
        """No slopes, and scales of 1 where the call has none."""
        ones = np.ones(self.num_kv_heads, np.float32)
        return {**super().made(), "k_scale": ones, "v_scale": ones}

    def of_step(self, lengths: np.ndarray) -> tuple[dict[str, np.ndarray], tuple[tuple[str, float], ...]]:
        size, window = self.block_size, self.window
        firsts = (np.maximum(0, lengths - window) if window else np.zeros_like(lengths)) // size
        pages = -(-lengths // size) - firsts
        made = work_list(firsts, pages, lengths, self.range_count_of(int(pages.sum())))  # type: ignore[attr-defined]
        most = made.ranges + len(lengths)  # more partials than this number of ranges ever has
        return {"units": made.units}, (("range_count", made.ranges), ("slots", most))


def decode_fields(call: Call) -> dict[str, Any]:
    """The fields of a problem for q [sequence, head, dim], the caches and the block tables of a call."""
    q, k_cache, tables = call.given("q"), call.given("k_cache"), call.given("block_tables")
    size, pool = k_cache.size("slot"), k_cache.size("page")
    pages = min(tables.size("entry"), pool)
    return {
        "context_lens": (pages * size,) * q.size("sequence"),
        "num_heads": q.size("head"),
        "num_kv_heads": k_cache.size("kv_head"),
        "head_dim": q.size("dim"),
        "block_size": size,
        "dtype": q.dtype,
        "num_blocks": pool,
        "block_tables": (tuple(range(pages)),) * q.size("sequence"),
        "families": (1,) * q.size("sequence"),
    }


def write_fields(call: Call) -> dict[str, Any]:
    """The fields of a problem for key [token, kv_head, dim] and the caches of a call."""
    key, k_cache = call.given("key"), call.given("k_cache")
    return {
        "num_kv_heads": key.size("kv_head"),
        "head_dim": key.size("dim"),
        "block_size": k_cache.size("slot"),
        "dtype": key.dtype,
        "num_blocks": k_cache.size("page"),
        "slots": tuple(range(key.size("token"))),
    }
