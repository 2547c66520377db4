"""The place of a what-if's effect: the scale of the scores and the row with a wrong output, found by runs."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from explainers.stories.online_softmax.softmax_steps import WRONG
from explainers.story import picture
from explainers.story.base import Runner
from explainers.story.glossary import short
from explainers.story.picture import query_rows, tensor_at
from kernels.core import reference
from kernels.core.dtypes import element_type
from kernels.errors import WarpglassError
from kernels.run.results import Run

LARGER = (1.0, 2.0, 4.0)  # times the scale from which the effect shows


def wrong_rows(run: Run) -> dict[int, float]:
    """Row of the query tile -> its largest error, for each row with a wrong output. Infinite for NaN."""
    head, first, end = query_rows(run.request)
    q, k, v, o = (picture.matrix(run, place, head) for place in "QKVO")
    problem, offset = run.request.problem, picture.mask_offset(run.request)
    rounding = 2.0 ** (1 - element_type(tensor_at(run.request, "O").dtype).digits)
    found = {}
    for row in range(first, end):
        sees = row + offset + 1 if problem.causal else len(k)
        if sees < 1:
            continue
        scores = reference.scores(q[row : row + 1], k, problem.sizes["scale"], False)[0][:sees]
        due = reference.softmax(scores) @ v[:sees].astype(np.float64)
        error = float(np.abs(o[row] - due).max())
        if not error <= (WRONG + rounding) * max(1.0, float(np.abs(due).max())):
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
