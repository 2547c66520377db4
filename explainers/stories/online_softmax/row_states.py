"""The strip of a row: m, l and the rescale factor next to float64."""

import numpy as np

from explainers.models.softmax_rows import WRONG, m_name
from explainers.stories.online_softmax.frames import RowFrame
from explainers.stories.online_softmax.row_story import RowStory
from explainers.stories.online_softmax.softmax_steps import text_of
from explainers.story import stage
from explainers.story.frames import Number


def states(story: RowStory, ordinary: bool, optimistic: bool) -> list[stage.State]:
    """The strip: m, l and the rescale factor as logged, each next to float64, and whether the row agrees so far. The m
    of an optimistic kernel is a reference and need not be the max. The factor in float64 comes from the float64 scores
    nearest to the kernel's m."""
    due: dict[str, list[Number]] = {"m": [], "l": []}
    factors: list[tuple[Number, Number]] = []
    now: dict[str, Number] = {"m": None, "l": None}
    scores = story.keys.score_true.to_numpy()
    for frame in story.frames:
        before, m, factor = frame["m_before"], frame["m"], frame["rescale"]
        exact = None
        if factor is not None and before is not None and m is not None:
            exact = float(np.exp(_in_float64(float(before), scores) - _in_float64(float(m), scores)))
        now |= {"m": frame["m_true"]} if frame["group"] == "max" and frame["m"] is not None else {}
        if frame["group"] == "sum":
            now["l"] = frame["l_true"]
        elif exact is not None and frame["tile"] > 0 and now["l"] is not None:
            now["l"] = float(now["l"]) * exact
        for name in due:
            due[name].append(now[name])
        factors.append((factor, exact))
    running = "" if ordinary else "running "
    agrees = story.first_wrong is None
    found = [
        stage.State(m_name(ordinary, optimistic), [_number(f["m"]) for f in story.frames], colour="S"),
        stage.State("max in float64" if optimistic else "m in float64", [text_of(v) for v in due["m"]], deep=agrees),
        stage.State(f"{running}sum l", [_number(_counted(f)) for f in story.frames], colour="P"),
        stage.State("l in float64", [text_of(v) for v in due["l"]], deep=agrees),
    ]
    if not ordinary:
        found += [
            stage.State("rescale factor", [text_of(v) for v, _ in factors]),
            stage.State("factor in float64", [text_of(v) for _, v in factors], deep=agrees),
        ]
    return [*found, stage.State("this row", _verdicts(story))]


def _in_float64(m: float, scores: np.ndarray) -> float:
    """The float64 score for a logged m: the nearest one, within rounding. Another m of a what-if build, for example 0,
    stays as it is.

    scores: of the row, in float64.
    """
    if not np.isfinite(m):
        return float(m)
    near = float(scores[np.argmin(np.abs(scores - m))])
    return near if abs(near - m) <= WRONG * max(1.0, abs(m)) else float(m)


def _verdicts(story: RowStory) -> list[str]:
    """For each frame, in few words, whether the row agrees with float64."""
    wrong, last = story.first_wrong, len(story.frames) - 1
    end = "no difference here" if story.tone == "info" else "agrees with float64"
    said = [end if n == last else "agrees so far" for n in range(last + 1)]
    return [s if wrong is None or n < wrong else f"wrong since step {wrong + 1}" for n, s in enumerate(said)]


def _counted(frame: RowFrame) -> Number:
    """l as the picture shows it: the logged l times the factor since (derived)."""
    l, factor = frame["l"], frame["l_factor"]
    return l if l is None or factor == 1.0 else float(l) * factor


def _number(value: Number) -> Number:
    """A number of the strip. NaN and infinity get names."""
    return value if value is None or np.isfinite(value) else text_of(value)
