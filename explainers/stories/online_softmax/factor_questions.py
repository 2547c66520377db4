"""Questions about a row's m and its rescale factor."""

import numpy as np

from explainers.models.softmax_rows import is_optimistic, is_ordinary
from explainers.stories.online_softmax.frames import RowFrame
from explainers.stories.online_softmax.row_story import RowStory
from explainers.story import stage
from explainers.story.glossary import logged, short
from explainers.story.questions import Where, idea
from kernels.core.spec import KernelSpec


def questions_of(story: RowStory, kernel: KernelSpec) -> list[stage.Question]:
    """The questions about a row. Their answers come from the logged values."""
    return reference_questions(story) if is_optimistic(kernel) else questions(story, is_ordinary(kernel))


def reference_questions(story: RowStory) -> list[stage.Question]:
    """A question about a row with weights against a reference m: the weight of a score above m."""
    above = story.tiles[np.isfinite(story.tiles.m) & (story.tiles.tile_max > story.tiles.m)]
    if above.empty or story.first_wrong is not None:
        return []
    tile = above.iloc[0]
    step = next(
        (n for n, f in enumerate(story.frames) if f["group"] == "weights" and f["tile"] == tile.tile),
        len(story.frames) - 1,
    )
    largest = float(np.exp(tile.tile_max - tile.m))
    text = (
        f"In tile {int(tile.tile)} a score of {short(tile.tile_max)} is above the reference m. "
        f"Yet m stays {short(tile.m)}. How does this change the weight?"
    )
    wrong = {
        "It overflows": f"fp32 ends at 3.4e+38. This weight is {short(largest)}.",
        "The kernel cuts it to 1": f"The trace has a weight of {short(largest)}. Nothing cuts it.",
        "The kernel drops the key": "Each key counts. The result agrees with float64.",
    }
    why = f"The weight is {short(largest)}. The sum l has the same m, so the division at the end sets it right."
    where: Where = {"step": step, "view": "row", "veils": ("sentence", "tabs"), "shows": {"kind": "weight"}}
    return [idea("reference", text, "It is above 1, and that does no harm", wrong, why, **where)]


def questions(story: RowStory, ordinary: bool) -> list[stage.Question]:
    """Questions about a row with a running max. Their answers come from the logged values."""
    risen = [(n, rise) for n, f in enumerate(story.frames) if f["group"] == "max" and (rise := _rise(f))]
    if ordinary or story.first_wrong is not None or not risen:
        return []
    number, (before, m) = risen[0]
    return [_raises(story, number, before, m)]


def _raises(story: RowStory, step: int, before: float, m: float) -> stage.Question:
    """A question about the score that raises the max first."""
    tile = story.frames[step]["tile"]
    at = story.keys[story.keys.tile == tile].score.idxmax()
    key, thing = int(story.keys.key[at]), {"kind": "score", "index": int(at)}
    return stage.Question(
        "raises",
        "Which score is the first to raise the running max of an earlier tile? Click it.",
        "click",
        thing,
        f"Key {key}, in tile {tile}. Its score {short(m)} is above the max so far, {short(before)}.",
        step=step,
        view="row",
        hides=[f"key {key}", logged(m), short(m)],
        shows=thing,
    )


def _rise(frame: RowFrame) -> tuple[float, float] | None:
    """(m before, m) of a step with a rise of m. None for any other step."""
    m, before = frame["m"], frame["m_before"]
    if m is None or before is None or float(m) <= float(before):
        return None
    return float(before), float(m)
