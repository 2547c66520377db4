"""The problem of writing new tokens into a cache of 8 bits.

Each number over its KV head's scale is rounded to the nearest fp8 (e4m3).
"""

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from kernels.core.call import Call
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field
from kernels.core.paged import CacheUse
from kernels.core.problem import Case, Work
from kernels.core.tensors import Tensor
from kernels.errors import ProblemError
from kernels.families.paged.cache import CacheWriteProblem
from kernels.families.paged.calls import write_fields
from kernels.families.paged.fields import FP8, RANGE_BLOCK_SIZES, RANGE_DTYPES, RANGE_HEAD_DIMS
from kernels.families.paged.ranges import FP8_MAX
from kernels.families.paged.rows import OLD_STREAM, random_rows
from kernels.kv_cache.layout import Layout

SCALE_STREAM = 7  # of the scales, beside the streams of problem.py


def to_fp8(numbers: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """numbers [..., num_kv_heads, head_dim] over scales [num_kv_heads] in float32, as the nearest float8_e4m3.

    A tie goes to the even number. Numbers above 448 become 448.
    """
    over = numbers.astype(np.float32) / scales[:, None].astype(np.float32)
    return np.clip(over, -FP8_MAX, FP8_MAX).astype(element_type(FP8).numpy)


@dataclass(frozen=True)
class Fp8WriteProblem(CacheWriteProblem):
    """Writes new tokens into their slots of a cache of fp8 (e4m3). A negative slot is padding.

    Rounding is exact to the bit, so any error is a miss.

    k_scale, v_scale: [num_kv_heads] float32, by chance half to twice the largest |K| (|V|) over 448. Some numbers are
      therefore above 448.
    """

    head_dim: int = problem_field(64, "numbers per key and value", allowed=RANGE_HEAD_DIMS, formerly="head_size")
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
    def layout(self) -> Layout:
        return Layout(self.num_blocks, self.num_kv_heads, self.head_dim, self.block_size, FP8)

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "BLOCK_SIZE": self.block_size, "BF16": int(self.dtype == "bfloat16")}

    def tensors(self) -> tuple[Tensor, ...]:
        """key and value of the new tokens, their slots, the scales, and the caches in 8 bits."""
        key, value, slots, *caches = super().tensors()
        scales = (Tensor(name, (self.num_kv_heads,), "float32", ("kv_head",)) for name in ("k_scale", "v_scale"))
        caches = [Tensor(t.name, t.shape, FP8, t.axes, t.role, t.initial) for t in caches]
        return (key, value, slots, *scales, *caches)

    @property
    def work(self) -> Work:
        tokens = sum(slot >= 0 for slot in self.slots)
        written = tokens * self.num_kv_heads * self.head_dim
        return Work(0, tokens, {"k_cache": written, "v_cache": written})

    def _old(self) -> dict[str, np.ndarray]:
        shapes = enumerate((self.layout.k_shape, self.layout.v_shape))
        k, v = (random_rows(self.seed, OLD_STREAM + n, self.num_blocks, shape[1:], FP8) for n, shape in shapes)
        return {"k_cache": k, "v_cache": v}

    def inputs(self) -> dict[str, np.ndarray]:
        """CacheWriteProblem's, and k_scale and v_scale."""
        made = super().inputs()
        factors = np.exp2(np.random.default_rng((self.seed, SCALE_STREAM)).uniform(-1, 1, (2, self.num_kv_heads)))
        for name, tokens, factor in zip(("k_scale", "v_scale"), ("key", "value"), factors):
            largest = np.abs(made[tokens].astype(np.float32)).max(axis=(0, 2))
            made[name] = (largest * factor / FP8_MAX).astype(np.float32)
        return made

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """The caches with the new tokens, rounded by ml_dtypes, in their slots."""
        a = self.inputs()
        real = a["slots"] >= 0
        key, value = to_fp8(a["key"], a["k_scale"]), to_fp8(a["value"], a["v_scale"])
        self.layout.write(a["k_cache"], a["v_cache"], a["slots"][real], key[real], value[real])
        return {t.name: a[t.name].astype(np.float64) for t in self.outputs}

    @classmethod
    def check_cases(cls, kernel: Any) -> list[Case]:
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

    @classmethod
    def bench_default(cls) -> "Fp8WriteProblem":
        return cls(8, 128, 16, "float16", 256, slots=tuple(range(0, 4096, 2)))
