"""A query tile replayed in float64, with the errors of each stage of rounding."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explainers.story import picture
from kernels.core.dtypes import element_type
from kernels.core.request import Request

STAGES = ("exact", "inputs", "scores", "exponential", "weights", "sum", "output", "write")
SAME = 0.01  # of the error: the allowed difference from the kernel's own output
Edges = list[tuple[int, int]]


@dataclass(frozen=True)
class Replay:
    """The errors of one query tile after each stage.

    label: the type of the kernel's computation.
    rows: first and end of the query tile.
    edges: first and end of each key tile. One tile of all keys for a kernel with one max and sum for the whole row.
    moved: Q, K, V -> the largest change of an element by rounding to its type.

    The errors are float64, one entry for each of STAGES. They are 0 without an error, and NaN without a value, for
    example for a hidden key.

    score: [stages, rows, keys].
    weight: [stages, rows, keys], of a key's final share of its row.
    sum: [stages, rows, tiles], of the running sum, relative, against any max.
    tile: [stages, rows, tiles], the largest error of O / l after that tile.
    o: [stages, rows, dims].
    left_over: [rows, dims], the kernel's O minus the last stage.
    exact: [rows, dims], O in float64 from the numbers as drawn.
    """

    label: str
    request: Request
    rows: tuple[int, int]
    edges: Edges
    score: np.ndarray
    weight: np.ndarray
    sum: np.ndarray
    tile: np.ndarray
    o: np.ndarray
    left_over: np.ndarray
    exact: np.ndarray
    moved: dict[str, float]

    @cached_property
    def parts(self) -> np.ndarray:
        """The change of O by each stage, [stages, rows, dims]. Stage 0 changes nothing."""
        with np.errstate(invalid="ignore"):
            return np.diff(self.o, axis=0, prepend=0.0)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The root mean square of each part, [stages]."""
        return np.array([rms(part) for part in self.parts])

    @cached_property
    def so_far(self) -> np.ndarray:
        """The root mean square of O's error after each stage, [stages]."""
        return np.array([rms(error) for error in self.o])

    @cached_property
    def shares(self) -> np.ndarray:
        """The share of each part in the final squared error, by covariance. The shares add up to 1. A share below 0
        takes back some of the other errors. NaN without an error, or without a finite one."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return (self.parts * self.o[-1]).sum((1, 2)) / (self.o[-1] ** 2).sum()

    @property
    def ends_there(self) -> bool:
        """Whether the replay ends at the kernel's own O. False for NaN and infinity, as nothing follows from them."""
        return rms(self.left_over) <= SAME * rms(self.o[-1]) or not math.isfinite(rms(self.o[-1]))

    def worst_rows(self) -> np.ndarray:
        """The tile's rows, counted in their head, the row with the largest error of O first. A row with NaN is the
        worst."""
        largest = np.abs(self.o[-1]).max(1)
        order = np.argsort(-np.where(np.isfinite(largest), largest, np.inf), kind="stable")
        return self.rows[0] + order


def rms(values: np.ndarray) -> float:
    """Root mean square. NaN or infinity stay."""
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def rounded_to(values: np.ndarray, dtype: str) -> np.ndarray:
    """float32 numbers rounded to a type, as float64."""
    return values.astype(np.float32).astype(element_type(dtype).numpy).astype(np.float64)


def label_of(request: Request) -> str:
    """The type of a kernel's computation: the type of Q, or of the parts of a number if a kernel makes one product of
    several."""
    dtype, products = picture.tensor_at(request, "Q").dtype, request.kernel.tensor_products
    if products <= 1:
        return dtype
    return f"{dtype} as {(math.isqrt(8 * products + 1) - 1) // 2} bfloat16"  # n parts have n (n + 1) / 2 products
