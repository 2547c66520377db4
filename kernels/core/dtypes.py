"""The element types of tensors: one table of their names, NumPy types, C types and precision.

ml_dtypes adds bfloat16 and float8 to NumPy.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class ElementType:
    """One element type.

    c_type: its name in a .cu.
    torch: its name in torch.
    digits: bits of the significand with the hidden bit, or 0 for whole numbers.
    requires: the least architecture of a GPU with its rounding (device/numbers.cuh), or "" for any."""

    name: str
    numpy: np.dtype
    c_type: str
    torch: str
    digits: int
    requires: str = ""

    @property
    def bytes(self) -> int:
        return self.numpy.itemsize

    @property
    def largest(self) -> float:
        return float(ml_dtypes.finfo(self.numpy).max)

    @property
    def is_float(self) -> bool:
        return self.digits > 0


DTYPES = {
    kind.name: kind
    for kind in (
        ElementType("float32", np.dtype(np.float32), "float", "float32", 24),
        ElementType("float16", np.dtype(np.float16), "half", "float16", 11),
        ElementType("bfloat16", np.dtype(ml_dtypes.bfloat16), "bfloat16", "bfloat16", 8, "sm_80"),
        ElementType("float8_e4m3", np.dtype(ml_dtypes.float8_e4m3fn), "fp8_e4m3", "float8_e4m3fn", 4),
        ElementType("int32", np.dtype(np.int32), "int", "int32", 0),
        ElementType("int64", np.dtype(np.int64), "long long", "int64", 0),
        ElementType("uint8", np.dtype(np.uint8), "unsigned char", "uint8", 0),
        ElementType("float64", np.dtype(np.float64), "double", "float64", 53),
        ElementType("uint32", np.dtype(np.uint32), "unsigned", "uint32", 0),
        ElementType("uint64", np.dtype(np.uint64), "unsigned long long", "uint64", 0),
        ElementType("int16", np.dtype(np.int16), "short", "int16", 0),
        ElementType("uint16", np.dtype(np.uint16), "unsigned short", "uint16", 0),
        ElementType("int8", np.dtype(np.int8), "signed char", "int8", 0),
    )
}


def element_type(dtype: str | np.dtype | type) -> ElementType:
    """The ElementType of a name, such as bfloat16, or of a NumPy type. Raises KeyError."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    wanted = np.dtype(dtype)
    for kind in DTYPES.values():
        if kind.numpy == wanted:
            return kind
    raise KeyError(f"{dtype!r} is no element type. There are {', '.join(DTYPES)}")


def widened(array: np.ndarray) -> np.ndarray:
    """The same numbers in a type of npz and Parquet: bfloat16 and float8 as float32, without loss."""
    narrow = array.dtype.kind == "V" or array.dtype.name in ("bfloat16", "float8_e4m3fn")
    return array.astype(np.float32) if narrow else array


def poison(dtype: str) -> float | int:
    """The value of an unwritten output: NaN, or the least whole number."""
    kind = element_type(dtype)
    return float("nan") if kind.is_float else int(np.iinfo(kind.numpy).min)


def unit_in_last_place(value: float, dtype: str = "float32") -> float:
    """The distance between neighbouring numbers of a type at |value|, or 0 at 0 and for whole numbers."""
    digits = element_type(dtype).digits
    if not value or not digits:
        return 0.0
    return float(2.0 ** (np.floor(np.log2(abs(value))) + 1 - digits))
