"""The rows of a softmax: the kernels that log them, a row in float64, and the rows that a what-if build gets wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from explainers.models import tiling
from explainers.story import picture, probed
from explainers.story.base import Runner
from explainers.story.glossary import short
from explainers.story.picture import query_rows, tensor_at
from kernels.core import reference
from kernels.core.dtypes import element_type
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError, WarpglassError
from kernels.run.results import Run


@dataclass(frozen=True)
class Row:
    """A row of the request's query tile."""

    request: Request
    row: int  # counted in its head
    head: int = 0  # counted over the batch, for a request without query tiles
    walk: str = ""  # the number of a walk over a part of the row's keys, or "" for the first


WRONG = 1e-3  # a relative difference from float64 larger than fp32 rounding


GROUPS = {
    "score": "scores",
    "refused": "refused",
    "tile_max": "max",
    "m": "max",
    "rescale": "rescale",
    "p": "weights",
    "l": "sum",
    "o": "output",
}


NEEDS = {"score": ("row", "col"), "m": ("row",), "p": ("row", "col"), "l": ("row",), "o": ("row", "dim")}


OF_MARKS = {event: keys for event, keys in NEEDS.items() if event != "o"}
"""The values of a plain kernel. Its stores give the row of O in the end."""


WANTS = tuple(event for event in GROUPS if event != "refused")


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel has a picture of attention and logs each row's scores, max, weights, sum and output."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel in a sentence, or an empty text. Marks with the key `head` need no query tiles."""
    found, needs = probed.values(spec), NEEDS
    if spec.plain:  # every value has the keys `head` and `walk` if one has them
        more = tuple(key for key in ("head", "walk") if any(key in found.get(event, ()) for event in OF_MARKS))
        needs = {event: (*keys, *more) for event, keys in OF_MARKS.items()}
    lacking = probed.without_events(spec, needs)
    sample = probed.sample(spec)
    if not spec.plain or "head" not in found.get("score", ()) or picture.by_tiles(sample):
        reason = tiling.refusal(spec) or lacking
        return f"{reason} Or give each marked value the key head." if spec.plain and picture.ITEM in reason else reason
    if probed.has_masks(spec):
        return f"{spec.name} solves a problem with more than a causal mask."
    if not lacking and next(iter(sample.problem.heads()), None) is None:
        return f"{spec.problem_type.__name__} gives no scores of its heads."
    return lacking or picture.without_parts(sample)


def is_ordinary(kernel: KernelSpec) -> bool:
    """Whether the kernel has one m and l for the whole row, and no running ones: its m probe has no key `tile`."""
    return "tile" not in probed.values(kernel)["m"]


def is_optimistic(kernel: KernelSpec) -> bool:
    """Whether the kernel takes weights against a reference m and refuses tiles with too large sums. Such a kernel logs
    its refusals."""
    return "refused" in probed.values(kernel)


def m_name(ordinary: bool, optimistic: bool) -> str:
    """The name of the kernel's m."""
    return "reference m" if optimistic else "max m" if ordinary else "running max m"


@dataclass(frozen=True, eq=False)
class RowTruth:
    """A row."""

    scores: np.ndarray  # of the keys that it sees, float64
    o: np.ndarray  # the kernel's output [head_dim], float32
    o_true: np.ndarray  # float64


def of_row(run: Run, head: int, row: int) -> RowTruth:
    """The truth of a row. head: counted over the batch. ProblemError for a row without keys."""
    if not picture.by_tiles(run.request):
        return _of_head(run, head, row)
    return _of_query(run, [picture.matrix(run, place, head) for place in "QKVO"], row)


def _of_query(run: Run, matrices: list[np.ndarray], row: int) -> RowTruth:
    """The truth by the rows of Q and K. matrices: Q, K, V and O of the head."""
    problem, (q, k, v, o) = run.request.problem, matrices
    sees = row + picture.mask_offset(run.request) + 1 if problem.causal else len(k)
    if sees < 1:
        raise ProblemError(
            f"Row {row} sees no key: its last would be {sees - 1}. Choose row {row - sees + 1} or later."
        )
    scores = reference.scores(q[row : row + 1], k, problem.sizes["scale"], False)[0][:sees]
    return RowTruth(scores, o[row], reference.softmax(scores) @ v[:sees].astype(np.float64))


def _of_head(run: Run, head: int, row: int) -> RowTruth:
    """The truth by the problem's own heads, in whatever order its memory has the keys."""
    problem = run.request.problem
    one = next(islice(problem.heads(), head, None))
    seen = one.seen[row]
    if not seen.any():
        raise ProblemError(f"Row {row} sees no key. Choose another row.")
    scores = one.scores[row, seen]
    made = problem.logical(run.arrays[one.output])[one.at].reshape(len(one.scores), -1)[row]
    return RowTruth(scores, made.astype(np.float32), reference.softmax(scores) @ one.values[seen])


LARGER = (1.0, 2.0, 4.0)  # times the scale from which the effect shows


def wrong_rows(run: Run) -> dict[int, float]:
    """Row of the query tile -> its largest error, for each row with a wrong output. Infinite for NaN."""
    head, first, end = query_rows(run.request)
    matrices = [picture.matrix(run, place, head) for place in "QKVO"]
    rounding = 2.0 ** (1 - element_type(tensor_at(run.request, "O").dtype).digits)
    found = {}
    for row in range(first, end):
        try:
            truth = _of_query(run, matrices, row)
        except ProblemError:  # it sees no key
            continue
        error = float(np.abs(truth.o - truth.o_true).max())
        if not error <= (WRONG + rounding) * max(1.0, float(np.abs(truth.o_true).max())):
            found[row] = error if np.isfinite(error) else np.inf
    return found


def offer(run: Run, runner: Runner, row: int | None = None) -> Mapping[str, object] | None:
    """A change of scale and row that shows the effect of a what-if build, or None if it shows already.

    row: the shown row. None for a page with all rows of the tile.
    """
    if not run.request.broken:
        return None
    now = wrong_rows(run)
    if now if row is None else row in now:
        return None
    first, name = query_rows(run.request)[1], run.request.broken[0].what_if
    scale, rows = _found(run, runner, now)
    if not rows:
        return None
    worst = max(rows, key=lambda number: rows[number])
    effect = "is NaN or infinite" if np.isinf(rows[worst]) else f"is off by {short(rows[worst], 2)}"
    changes: dict[str, str] = {}
    scale_changes = scale != run.request.problem.score_scale
    if scale_changes:
        changes["score_scale"] = f"{scale:g}"
    if row is not None:
        changes["row"] = str(worst - first)
    larger = f"With scores {scale / run.request.problem.score_scale:g} times as large, row" if scale_changes else "Row"
    here = "this row" if row is not None else "these rows"
    text = f"{name} makes no difference in {here}. {larger} {worst} {effect}."
    return {"text": text, "label": "Show the wrong value", "set": changes}


def _found(run: Run, runner: Runner, now: dict[int, float]) -> tuple[float, dict[int, float]]:
    """The smallest tried scale with a wrong row in this tile, and its wrong rows."""
    problem = run.request.problem
    if now:
        return problem.score_scale, now
    from_scale = max(run.request.broken[0].shows_at, problem.score_scale)
    for times in LARGER:
        scale = from_scale * times
        try:
            other = runner.run(replace(run.request, problem=replace(problem, score_scale=scale)))
        except WarpglassError:
            continue  # a scale that the problem refuses, or a run without a recording
        if rows := wrong_rows(other):
            return scale, rows
    return problem.score_scale, {}
