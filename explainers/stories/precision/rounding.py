"""The sources of a kernel's error: one query tile replayed in float64, with the kernel's own numbers put in stage by
stage.

Stage 0 is float64 from Q, K and V as they were drawn. Each later stage takes one more thing from the run, and
computes the rest in float64. See STAGES:

inputs: Q, K and V rounded to their type.
scores: S as logged.
exponential: weights and rescale factors as logged. Their sum is float64.
weights: the operands of the product with V, rounded to V's type.
sum: l as logged.
output: O before the division, as logged.
write: O / l in float32, rounded to O's type.

The change of a stage is its part of the error, so the parts add up. The last stage is computed, not copied.
`left_over` is the distance from it to the kernel's own O.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from explainers.models import softmax_rows
from explainers.story import axes, picture, probed
from kernels.core import reference
from kernels.core.dtypes import element_type
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

STAGES = ("exact", "inputs", "scores", "exponential", "weights", "sum", "output", "write")
WANTS = softmax_rows.WANTS
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


# ---- the replay ----


def same_numbers(one: Request, other: Request) -> bool:
    """Whether two requests are of the same problem but for the types: the same Q, K and V as drawn, the same mask."""
    if picture.mask_offset(one) != picture.mask_offset(other):
        return False
    if one.problem.causal != other.problem.causal:
        return False
    if axes.heads(picture.tensor_at(one, "O")) != axes.heads(picture.tensor_at(other, "O")):
        return False
    return all(np.array_equal(a, b) for a, b in zip(_drawn(one), _drawn(other)))


def replay(run: Run) -> Replay:
    """The Replay of a Run of one query tile."""
    return _Replaying(run).replay()


def _carried(values: np.ndarray, present: np.ndarray) -> np.ndarray:
    """[rows, tiles, ...]: a tile without a value has the value of the tile before."""
    for tile in range(1, values.shape[1]):
        values[:, tile] = np.where(present[:, tile], values[:, tile], values[:, tile - 1])
    return values


def _drawn(request: Request) -> list[np.ndarray]:
    """Q, K and V of the traced head before they are rounded to their type, float64 [rows, dim]."""
    arrays, head = request.problem.unrounded(), picture.query_rows(request)[0]
    heads = axes.heads(picture.tensor_at(request, "O"))
    tensors = [picture.tensor_at(request, place) for place in "QKV"]
    return [axes.matrix(t, arrays[t.name], head, heads).astype(np.float64) for t in tensors]


class _Stage(NamedTuple):
    """The values of a stage.

    scores, weights: [rows, keys], final.
    lse: [rows, tiles], the logarithm of the sum after each tile.
    o: [rows, tiles, dims], O / l after each tile.
    """

    scores: np.ndarray
    weights: np.ndarray
    lse: np.ndarray
    o: np.ndarray


def _over(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient. 0 for a row without keys."""
    return np.where(denominator == 0, 0.0, numerator / denominator)


class _Replaying:
    """Reads a run's trace and does the stages."""

    def __init__(self, run: Run) -> None:
        self.run, self.request = run, run.request
        self.head, self.first, self.end = picture.query_rows(run.request)
        self.ordinary = softmax_rows.is_ordinary(run.request.kernel)
        self.q, self.k, self.v = (picture.matrix(run, place, self.head).astype(np.float64) for place in "QKV")
        self.values = run.trace.table.filter(pc.is_valid(run.trace.table["value"]))
        self.own = picture.matrix(run, "O", self.head)[self.first : self.end].astype(np.float64)
        keys = len(self.k)
        size = keys if self.ordinary else picture.block_kv(run.request, keys)
        self.seen = np.ones((self.end - self.first, keys), bool)  # the keys that each row sees
        if self.request.problem.causal:
            rows = np.arange(self.first, self.end)[:, None]
            self.seen = np.arange(keys) <= rows + picture.mask_offset(self.request)
        last = max(1, int(self.seen.any(0).sum()))  # keys of any row of the tile
        self.edges = [(first, min(keys, first + size)) for first in range(0, last, size)]

    def replay(self) -> Replay:
        drawn = _drawn(self.request)
        with np.errstate(all="ignore"):  # NaN and infinity of a broken build belong into the picture
            stages = self._stages(*drawn)
            score, weight, lse, o = (np.array(found) for found in zip(*stages))
            return Replay(
                label=label_of(self.request),
                request=self.request,
                rows=(self.first, self.end),
                edges=self.edges,
                score=np.where(self.seen, score - score[0], np.nan),
                weight=np.where(self.seen, weight - weight[0], np.nan),
                sum=np.where(np.isneginf(lse[0]), np.nan, np.expm1(lse - lse[0])),
                tile=np.where(np.isneginf(lse[0]), np.nan, np.abs(o - o[0]).max(3)),
                o=o[:, :, -1] - o[0, :, -1],
                left_over=self.own - o[-1, :, -1],
                exact=o[0, :, -1],
                moved={
                    place: float(np.abs(given - all_drawn).max())
                    for place, given, all_drawn in zip("QKV", (self.q, self.k, self.v), drawn)
                },
            )

    def _stages(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> list[_Stage]:
        """Every stage. q, k, v: as drawn."""
        scale, rows = float(self.request.problem.sizes["scale"]), slice(self.first, self.end)
        exact = reference.scores(q[rows], k, scale, False)
        given = reference.scores(self.q[rows], self.k, scale, False)
        logged = np.where(self.seen, self._logged("score", "col", len(k)), -np.inf)
        both = (exact, v), (given, self.v), (logged, self.v)
        found = [_Stage(scores, *self._softmax(scores, values)) for scores, values in both]
        return found + self._with_weights(found[-1])

    def _with_weights(self, before: _Stage) -> list[_Stage]:
        """The stages from the exponential on.

        before: the stage of the scores.
        """
        p = np.where(self.seen, self._logged("p", "col", len(self.k)), 0.0)
        taken = rounded_to(p, picture.tensor_at(self.request, "V").dtype)
        m, l = self._of_tile("m", -np.inf), self._of_tile("l")
        factors = np.ones((self.end - self.first, len(self.edges)))  # of the sums before each key tile, [rows, tiles]
        if not self.ordinary:
            row, tile, value = self._records("rescale", "tile")
            factors[row, tile] = value
        scaled = np.ones_like(p)  # the factor of each key's weight after its tile, [rows, keys]: by later tiles
        for number, (first, end) in enumerate(self.edges):
            scaled[:, first:end] = factors[:, number + 1 :].prod(1, keepdims=True)
        sums, plain, rounded = self._sums(p, taken, factors)
        lse, summed = np.log(l) + m, np.log(sums) + m
        if self.ordinary:  # its weights are divided already
            l, summed = np.ones_like(l), before.lse
        o = self._outputs(self.v.shape[1])
        exponential = _Stage(before.scores, _over(p * scaled, sums[:, -1:]), summed, _over(plain, sums[..., None]))
        weights = exponential._replace(weights=_over(taken * scaled, sums[:, -1:]), o=_over(rounded, sums[..., None]))
        summed_up = weights._replace(weights=_over(taken * scaled, l[:, -1:]), lse=lse, o=_over(rounded, l[..., None]))
        output = summed_up._replace(o=_over(o, l[..., None]))
        written = output.o.copy()
        written[:, -1] = self._written(o[:, -1], l[:, -1:])
        return [exponential, weights, summed_up, output, output._replace(o=written)]

    def _written(self, o: np.ndarray, l: np.ndarray) -> np.ndarray:
        """O / l in float32, rounded to O's type, [rows, dims]: by division or by 1 / l, the nearer one to the kernel's
        O."""
        dtype, of_row = picture.tensor_at(self.request, "O").dtype, l.astype(np.float32)
        ways = o.astype(np.float32) / of_row, o.astype(np.float32) * (np.float32(1) / of_row)
        rounded = [np.where(l == 0, 0.0, rounded_to(way, dtype)) for way in ways]
        return min(rounded, key=lambda found: rms(np.nan_to_num(found - self.own)))

    def _softmax(self, scores: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """In float64: weights [rows, keys], log of the sum [rows, tiles] and O [rows, tiles, dims] after each tile."""
        scores = np.where(self.seen, scores, -np.inf)
        lse, o = np.full(len(scores), -np.inf), np.zeros((len(scores), v.shape[1]))
        all_lse, all_o = [], []
        for first, end in self.edges:
            part = scores[:, first:end]
            now = np.logaddexp(lse, np.logaddexp.reduce(part, axis=1))
            top = np.where(np.isneginf(now), 0.0, now)
            o = o * np.exp(lse - top)[:, None] + np.exp(part - top[:, None]) @ v[first:end]
            lse = now
            all_lse.append(lse)
            all_o.append(o)
        weights = np.exp(scores - np.where(np.isneginf(lse), 0.0, lse)[:, None])
        return weights, np.stack(all_lse, 1), np.stack(all_o, 1)

    def _sums(self, p: np.ndarray, taken: np.ndarray, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The online softmax in float64 with the kernel's weights and factors: after each tile the sum of weights
        [rows, tiles], and the sums of weight x V with both weights [rows, tiles, dims]."""
        found = []
        now = [np.zeros(len(p)), np.zeros((len(p), self.v.shape[1])), np.zeros((len(p), self.v.shape[1]))]
        for number, (first, end) in enumerate(self.edges):
            factor, v = factors[:, number], self.v[first:end]
            parts = p[:, first:end].sum(1), p[:, first:end] @ v, taken[:, first:end] @ v
            if number:  # before the first tile there is nothing to scale, whatever the factor
                now = [n * (factor if n.ndim == 1 else factor[:, None]) for n in now]
            now = [n + part for n, part in zip(now, parts)]
            found.append(now)
        sums, plain, rounded = (np.stack(each, 1) for each in zip(*found))
        return sums, plain, rounded

    # ---- the trace ----

    def _logged(self, event: str, key: str, length: int) -> np.ndarray:
        """The logged values under `row` and `key`, [rows, length], NaN without a record."""
        found = np.full((self.end - self.first, length), np.nan)
        row, at, value = self._records(event, key)
        found[row, at] = value
        return found

    def _of_tile(self, event: str, begin: float = 0.0) -> np.ndarray:
        """The logged values of each row after each key tile, [rows, tiles]. A tile without a record has the value
        before."""
        row, tile, value = self._records(event, "row" if self.ordinary else "tile")
        found = np.full((self.end - self.first, len(self.edges)), begin)
        present = np.zeros(found.shape, bool)
        at = row, 0 if self.ordinary else tile
        found[at], present[at] = value, True
        return _carried(found, present)

    def _outputs(self, dims: int) -> np.ndarray:
        """O as logged after each key tile, [rows, tiles, dims]. A tile without a record has the value before."""
        row, dim, value = self._records("o", "dim")
        found = np.zeros((self.end - self.first, len(self.edges), dims))
        present = np.zeros(found.shape, bool)
        at = row, 0 if self.ordinary else self._records("o", "tile")[1], dim
        found[at], present[at] = value, True
        return _carried(found, present)

    def _records(self, event: str, key: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row of the tile, another key and value of an event's records, in their order."""
        table = self.values.filter(pc.equal(self.values["event"], event))
        row, at = (table[name].to_numpy().astype(int) for name in ("row", key))
        return row - self.first, at, table["value"].to_numpy().astype(np.float64)


# ---- the kernels ----


def accepts(spec: KernelSpec) -> bool:
    """The kernels of Online softmax, because the page opens rows there, with scores of Q and K as given."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel: that of Online softmax, or further numbers that change Q and K, such as angles."""
    if reason := softmax_rows.refusal(spec):
        return reason
    other = picture.other_input(probed.sample(spec))
    return f"{spec.name} also reads {other}. This page replays scores of Q and K as they are given." if other else ""


def first(specs: Iterable[KernelSpec]) -> KernelSpec:
    """The first kernel with rounded inputs, or else the last kernel."""
    given = list(specs)
    return next((s for s in given if picture.tensor_at(probed.sample(s), "Q").itemsize < 4), given[-1])


def of_each_type(specs: Iterable[KernelSpec]) -> dict[str, tuple[KernelSpec, dict[str, str]]]:
    """The type of a kernel's computation -> the earliest kernel of that type with most of WANTS, and the problem's
    field with the type, if it has one."""
    found: dict[str, tuple[int, KernelSpec, dict[str, str]]] = {}
    for spec in specs:
        dtype = fields_of(spec.problem_type).get("dtype")
        rank = len({site.event for site in probed.probes(spec)} & set(WANTS))
        for changes in [{"dtype": value} for value in dtype.metadata["allowed"]] if dtype else [{}]:
            label = label_of(replace(probed.sample(spec), problem=spec.problem_type(**changes)))
            if label not in found or rank > found[label][0]:
                found[label] = (rank, spec, changes)
    return {label: (spec, changes) for label, (_, spec, changes) in found.items()}
