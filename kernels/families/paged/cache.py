"""The problems of the kernels that write into a paged KV cache, with their cases.

A bad slot or pair is refused before anything is launched.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from kernels.core.call import Call
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field, seed_field
from kernels.core.paged import Cache, CacheChange, CacheUse
from kernels.core.problem import Case, Problem, Work
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import ProblemError
from kernels.families.paged.fields import (
    FP8,
    FP8_MAX,
    HEADS,
    K_STREAM,
    LAYOUTS,
    OLD_STREAM,
    RANGE_BLOCK_SIZES,
    RANGE_DTYPES,
    RANGE_HEAD_DIMS,
    V_STREAM,
    block_size_field,
    dtype_field,
    head_dim_field,
    random_rows,
)
from kernels.families.paged.problem import MOST_PAGES
from kernels.kv_cache.layout import K_AXES, V_AXES, Layout

SCALE_STREAM = 7  # of the scales, beside the streams of fields.py


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


def to_fp8(numbers: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """numbers [..., num_kv_heads, head_dim] over scales [num_kv_heads] in float32, as the nearest float8_e4m3. A tie
    goes to the even number. Numbers above 448 become 448."""
    over = numbers.astype(np.float32) / scales[:, None].astype(np.float32)
    return np.clip(over, -FP8_MAX, FP8_MAX).astype(element_type(FP8).numpy)


@dataclass(frozen=True)
class _CacheProblem(Problem):
    """Writes into a cache with random numbers. Nothing is rounded, so any error is a miss."""

    num_kv_heads: int = problem_field(2, "KV heads", low=1, high=128)
    head_dim: int = head_dim_field()
    block_size: int = block_size_field()
    dtype: str = dtype_field()
    num_blocks: int = problem_field(8, "pages in the pool", low=1, high=MOST_PAGES)
    seed: int = seed_field()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check()

    def check(self) -> None:
        raise NotImplementedError

    @property
    def layout(self) -> Layout:
        stored = self.cache_use.dtype if self.cache_use else ""
        return Layout(self.num_blocks, self.num_kv_heads, self.head_dim, self.block_size, stored or self.dtype)

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "BLOCK_SIZE": self.block_size, "T_BYTES": element_type(self.dtype).bytes}

    @property
    def size(self) -> str:
        pages = f"{self.num_blocks} pages of {self.block_size} slots"
        return f"{pages}, {self.num_kv_heads} KV heads of {self.head_dim}"

    def _caches(self) -> tuple[Tensor, Tensor]:
        """k_cache and v_cache, which are given as they were and written in part."""
        return (
            Tensor("k_cache", self.layout.k_shape, self.layout.dtype, K_AXES, Role.OUTPUT, Initial.GIVEN),
            Tensor("v_cache", self.layout.v_shape, self.layout.dtype, V_AXES, Role.OUTPUT, Initial.GIVEN),
        )

    def _old(self) -> dict[str, np.ndarray]:
        shapes = enumerate((self.layout.k_shape, self.layout.v_shape))
        draw = partial(random_rows, self.seed, count=self.num_blocks, dtype=self.layout.dtype)
        k, v = (draw(OLD_STREAM + n, shape=shape[1:]) for n, shape in shapes)
        return {"k_cache": k, "v_cache": v}

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> Iterable[Case]:
        return [Case(cls(), (), Scope(0, kernel.plan(cls()).items))]


@dataclass(frozen=True)
class CacheWriteProblem(_CacheProblem):
    """Writes new tokens into their slots. A negative slot is padding."""

    slots: tuple = problem_field(
        (5, 6, 7, 16, -1, 40), "slot of each token: page * block_size + slot in page", low=-1, high=2**31 - 1
    )

    title: ClassVar[str] = "Cache write"
    operator: ClassVar[str] = "reshape_and_cache"
    cache_use: ClassVar[CacheUse | None] = CacheUse("write")
    remedy: ClassVar[str] = "Choose fewer tokens or fewer heads."

    @classmethod
    def of_change(cls, cache: Cache, change: CacheChange, **shape: Any) -> Self | None:
        if not change.written:
            return None
        slots = tuple(slot for _, slot in change.written)
        return cls(slots=slots, block_size=cache.block_size, num_blocks=cache.num_blocks, **shape)

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """The slots only have the right number. The kernel reads the slots of the call."""
        call.only()
        if call.has("k_scale"):
            raise ProblemError("Its kernels have no scales.")
        return cls(**write_fields(call))

    def check(self) -> None:
        if not self.slots:
            raise ProblemError("slots is empty. It must give at least one token's slot.")
        seen: dict[int, int] = {}
        for token, slot in enumerate(self.slots):
            if slot >= self.num_blocks * self.block_size:
                last = self.num_blocks * self.block_size - 1
                raise ProblemError(f"Token {token} has slot {slot}. The cache has slots 0 to {last}.")
            if slot >= 0 and seen.setdefault(slot, token) != token:
                raise ProblemError(f"Tokens {seen[slot]} and {token} both have slot {slot}. A slot holds one token.")

    def tensors(self) -> tuple[Tensor, ...]:
        rows, axes = (len(self.slots), self.num_kv_heads, self.head_dim), ("token", "kv_head", "dim")
        new = (Tensor("key", rows, self.dtype, axes), Tensor("value", rows, self.dtype, axes))
        return (*new, Tensor("slots", (len(self.slots),), "int32", ("token",)), *self._caches())

    @property
    def cpu_steps(self) -> int:
        """The accesses: of every 16 bytes of a token's key a load and a store, of its value a load and a store per
        number."""
        chunks = len(self.slots) * self.num_kv_heads * self.head_dim // self.layout.x
        return chunks * (3 + self.layout.x)

    @property
    def work(self) -> Work:
        tokens = sum(slot >= 0 for slot in self.slots)
        written = tokens * self.num_kv_heads * self.head_dim * self.layout.itemsize
        return Work(0, tokens, {"k_cache": written, "v_cache": written})

    def inputs(self) -> dict[str, np.ndarray]:
        rows = (self.num_kv_heads, self.head_dim)
        key, value = (random_rows(self.seed, s, len(self.slots), rows, self.dtype) for s in (K_STREAM, V_STREAM))
        return {"key": key, "value": value, "slots": np.array(self.slots, np.int32), **self._old()}

    def _stored(self, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The new keys and values as the cache holds them."""
        return arrays["key"], arrays["value"]

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        a = self.inputs()
        real, (key, value) = a["slots"] >= 0, self._stored(a)
        self.layout.write(a["k_cache"], a["v_cache"], a["slots"][real], key[real], value[real])
        return {t.name: a[t.name].astype(np.float64) for t in self.outputs}

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every layout, with random slots and padding."""
        cases = []
        for n, layout in enumerate(LAYOUTS):
            slots = np.random.default_rng(n).permutation(7 * layout[1])[: 1 + n % 40]
            slots[::5][1:] = -1
            cases.append(Case(cls(HEADS[n % len(HEADS)][1], *layout, 7, n, tuple(slots.tolist()))))
        return cases

    @classmethod
    def bench_default(cls) -> Self:
        return cls(8, 128, 16, "float16", 256, slots=tuple(range(0, 4096, 2)))


@dataclass(frozen=True)
class CacheCopyProblem(_CacheProblem):
    """Pages to be copied whole, as a copy on write does."""

    copies: tuple = problem_field(((1, 5), (3, 0)), "pairs of pages: from, to", low=0, high=MOST_PAGES - 1, nested=True)

    title: ClassVar[str] = "Page copy"
    cache_use: ClassVar[CacheUse | None] = CacheUse("copy")
    remedy: ClassVar[str] = "Choose fewer pairs or fewer heads."

    @classmethod
    def of_change(cls, cache: Cache, change: CacheChange, **shape: Any) -> Self | None:
        if not change.copied:
            return None
        return cls(copies=(change.copied,), block_size=cache.block_size, num_blocks=cache.num_blocks, **shape)

    def check(self) -> None:
        if not self.copies:
            raise ProblemError("copies is empty. It must give at least one pair of pages.")
        sources, targets = {pair[0] for pair in self.copies if pair}, set()
        for n, pair in enumerate(self.copies):
            if len(pair) != 2:
                raise ProblemError(f"Pair {n} is {pair}. It must be two pages: from, to.")
            for page in pair:
                if page >= self.num_blocks:
                    raise ProblemError(f"Pair {n} names page {page}. The pool has pages 0 to {self.num_blocks - 1}.")
            if pair[1] in sources or pair[1] in targets:
                raise ProblemError(
                    f"Pair {n} writes page {pair[1]}, which another pair reads or writes. "
                    "The order of blocks is not defined."
                )
            targets.add(pair[1])

    def tensors(self) -> tuple[Tensor, ...]:
        return (*self._caches(), Tensor("copies", (len(self.copies), 2), "int32", ("pair", "end")))

    @property
    def cpu_steps(self) -> int:
        """The accesses: of every 16 bytes of a page a load and a store, in K and in V."""
        return 4 * len(self.copies) * self.num_kv_heads * self.layout.page_bytes // 16

    @property
    def work(self) -> Work:
        """Every page of a pair is read once, or written once."""
        moved = 2 * len(self.copies) * self.num_kv_heads * self.layout.page_bytes
        return Work(0, len(self.copies) * self.block_size, {"k_cache": moved, "v_cache": moved})

    def inputs(self) -> dict[str, np.ndarray]:
        return {"copies": np.array(self.copies, np.int32), **self._old()}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        arrays = self.inputs()
        source, target = arrays["copies"].T
        for t in self.outputs:
            arrays[t.name][target] = arrays[t.name][source]
        return {t.name: arrays[t.name].astype(np.float64) for t in self.outputs}

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every layout, with one to four pages and one page copied twice."""
        cases = []
        for n, layout in enumerate(LAYOUTS):
            pages = np.random.default_rng(n).permutation(9).tolist()
            copies = (*zip(pages[: 1 + n % 3], pages[4:]), (pages[0], pages[8]))
            cases.append(Case(cls(HEADS[n % len(HEADS)][1], *layout, 9, n, copies)))
        return cases

    @classmethod
    def bench_default(cls) -> Self:
        return cls(8, 128, 16, "float16", 512, copies=tuple((n, n + 256) for n in range(256)))


@dataclass(frozen=True)
class Fp8WriteProblem(CacheWriteProblem):
    """Writes new tokens into their slots of a cache of fp8 (e4m3). A negative slot is padding.

    Rounding is exact to the bit, so any error is a miss.

    k_scale, v_scale: [num_kv_heads] float32, by chance half to twice the largest |K| (|V|) over 448. Some numbers are
      therefore above 448."""

    head_dim: int = problem_field(64, "numbers per key and value", allowed=RANGE_HEAD_DIMS)
    block_size: int = problem_field(16, "slots per page", allowed=RANGE_BLOCK_SIZES[1:])
    dtype: str = problem_field("float16", "type of the new keys and values", allowed=RANGE_DTYPES)

    title: ClassVar[str] = "Cache write in 8 bits"
    cache_use: ClassVar[CacheUse | None] = CacheUse("write", dtype=FP8)

    @classmethod
    def from_call(cls, call: Call) -> Self:
        call.only()
        if not call.has("k_scale"):
            raise ProblemError("Its cache has 8 bits and needs k_scale and v_scale.")
        return cls(**write_fields(call))

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "BLOCK_SIZE": self.block_size, "BF16": int(self.dtype == "bfloat16")}

    def tensors(self) -> tuple[Tensor, ...]:
        key, value, slots, *caches = super().tensors()
        scales = (Tensor(name, (self.num_kv_heads,), "float32", ("kv_head",)) for name in ("k_scale", "v_scale"))
        return (key, value, slots, *scales, *caches)

    def inputs(self) -> dict[str, np.ndarray]:
        made = super().inputs()
        factors = np.exp2(np.random.default_rng((self.seed, SCALE_STREAM)).uniform(-1, 1, (2, self.num_kv_heads)))
        for name, tokens, factor in zip(("k_scale", "v_scale"), ("key", "value"), factors):
            largest = np.abs(made[tokens].astype(np.float32)).max(axis=(0, 2))
            made[name] = (largest * factor / FP8_MAX).astype(np.float32)
        return made

    def _stored(self, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return to_fp8(arrays["key"], arrays["k_scale"]), to_fp8(arrays["value"], arrays["v_scale"])

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every layout with 1 to 8 KV heads and random slots. Some slots are padding."""
        cases: list[Case] = []
        for heads, head_dim, size, dtype in product(
            (1, 2, 3, 5, 8), RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES[1:], RANGE_DTYPES
        ):
            n = len(cases)
            slots = np.random.default_rng(n).permutation(5 * size)[: 1 + n % 40]
            slots[::5][1:] = -1
            cases.append(Case(cls(heads, head_dim, size, dtype, 5, n, tuple(slots.tolist()))))
        return cases
