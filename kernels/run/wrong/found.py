"""The values of a run next to float64, head by head."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kernels.core.problem import Head, Problem

MOST_SCORES = 2**20  # of all heads together
LOOSE = 1e-3  # of the largest truth: a simulated mistake explains a value this close


@dataclass(frozen=True, eq=False)
class Found:
    """One head of a run.

    values: [queries, dim] of the kernel, float64.
    truth: [queries, dim] in float64.
    wrong: [queries, dim], whether a value is beyond its limit.
    loose: how near an explained value is, of the largest truth."""

    head: Head
    values: np.ndarray
    truth: np.ndarray
    wrong: np.ndarray
    loose: float = LOOSE

    @property
    def finite(self) -> np.ndarray:
        return np.isfinite(self.values).all(axis=1)

    def matches(self, other: np.ndarray) -> bool:
        """Whether another computation gives the kernel's values. A row without a visible key may be 0 or no number."""
        empty = ~np.isfinite(other).all(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            limit = self.loose * np.maximum(np.abs(self.truth).max(), np.abs(other).max(axis=1, keepdims=True))
            near = (np.abs(self.values - other) <= limit).all(axis=1)
        wrong = self.wrong.any(axis=1)
        fits = near | empty & (~self.finite | ~self.values.any(axis=1))
        return bool(fits.all()) and bool(near[wrong].any() or not wrong.any())


def heads(
    problem: Problem, arrays: Mapping[str, np.ndarray], allowed: Mapping[str, float], tight: bool = False
) -> list[Found]:
    """The heads of a run, as many as MOST_SCORES allows. Empty if the problem lists none.

    tight: whether a mistake explains only values within the limit, as the truth of small errors is near too."""
    found, scores = [], 0
    for head in problem.heads():
        values = problem.logical(arrays[head.output])[head.at].astype(np.float64)
        values = values.reshape(len(head.scores), -1)
        truth = softmax(head.scores, head.seen) @ head.values
        limit = 2 * allowed[head.output]
        loose = min(LOOSE, limit / max(float(np.abs(truth).max()), 1e-30)) if tight else LOOSE
        found.append(Found(head, values, truth, ~(np.abs(values - truth) <= limit), loose))
        scores += head.scores.size
        if scores > MOST_SCORES:
            break
    return found


def softmax(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The weights of the visible keys. A row without one is NaN."""
    e = exponentials(scores, seen)
    with np.errstate(invalid="ignore", divide="ignore"):
        return e / e.sum(axis=1, keepdims=True)


def exponentials(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """exp(S - m) of the visible keys, else 0."""
    hidden = np.where(seen, scores, -np.inf)
    top = hidden.max(axis=1, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(seen, np.exp(hidden - np.where(np.isfinite(top), top, 0.0)), 0.0)


def all_match(found: list[Found], other: Callable[[Head], np.ndarray]) -> bool:
    return all(one.matches(other(one.head)) for one in islice(found, 8))


KINDS = {
    "scale": "the scale",
    "rescale": "the rescale of l and O",
    "max": "the running max",
    "sum": "a sum",
    "weights": "the function of the weights",
    "bound": "a bound",
    "mask": "the mask",
    "lanes": "the map of lanes",
    "stride": "a stride",
    "barrier": "a missing barrier",
    "divergent": "a barrier in a branch",
    "wait": "a missing wait",
    "atomic": "a missing atomic",
    "unwritten": "a missing write",
    "unset": "a read before a write",
    "zeros": "values of 0",
    "half": "sums in 16 bits",
    "nan": "rows without numbers",
    "rounding": "roundings",
    "unknown": "no known mistake",
}
"""A kind of mistake -> its name in a sentence."""


@dataclass(frozen=True)
class First:
    """The first wrong intermediate of the probes, in the order S, m, l, P, O.

    row, tile, key: its place. None for a place that the probe does not give.
    value, truth: of the kernel, and in float64."""

    name: str
    event: str
    file: str
    line: int
    head: tuple[int, ...]
    row: int
    tile: int | None
    key: int | None
    warp: int
    lane: int
    value: float
    truth: float

    @property
    def text(self) -> str:
        place = f"row {self.row}" if len(self.head) else "one row"
        place += f", tile {self.tile}" if self.tile is not None else ""
        place += f", key {self.key}" if self.key is not None else ""
        where = f"line {self.line} of lane {self.lane}"
        return f"The first wrong value is {self.name} of {place}, from {where}: {self.value:.4g}, not {self.truth:.4g}."


@dataclass(frozen=True)
class Reason:
    """Why a result is wrong.

    text: a sentence with the evidence.
    index: the first wrong element of the output, or ().
    first: the first wrong intermediate, if probes show it.
    line: of the mistake, or of the store of the first wrong element. 0 if it is unknown."""

    kind: str
    text: str
    index: tuple[int, ...] = ()
    first: First | None = None
    line: int = 0

    @property
    def sentence(self) -> str:
        stored = f"Line {self.line} stores the first wrong value." if self.line and not self.text else ""
        return " ".join(filter(None, (self.text, self.first.text if self.first else "", stored)))

    def as_json(self) -> dict[str, object]:
        first = {**vars(self.first), "head": list(self.first.head)} if self.first else None
        return {"kind": self.kind, "text": self.text, "index": list(self.index), "first": first, "line": self.line}
