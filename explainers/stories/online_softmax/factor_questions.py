"""Questions about a row's m, its rescale factor and its sum."""

import numpy as np

from explainers.stories.online_softmax.frames import RowFrame
from explainers.stories.online_softmax.row_story import RowStory, is_optimistic, is_ordinary
from explainers.story import stage
from explainers.story.questions import Where
from kernels.core.spec import KernelSpec


def questions_of(story: RowStory, kernel: KernelSpec) -> list[stage.Question]:
    """The questions about a row. Their answers come from the logged values."""
    return reference_questions(story) if is_optimistic(kernel) else questions(story, is_ordinary(kernel))


def reference_questions(story: RowStory) -> list[stage.Question]:
    """A question about a row with weights against a reference m: the largest weight in the first tile with a score
    above m."""
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
        f"In tile {int(tile.tile)} the row's largest score is {tile.tile_max:.4g}; the reference m is {tile.m:.4g} and "
        "stays. How large is the largest weight of the tile?"
    )
    why = (
        f"e^({tile.tile_max:.4g} - {tile.m:.4g}) = {largest:.4g}".replace("- -", "+ ")
        + ". A weight above 1 does no harm while it is a small part of its row, so the kernel took no max."
    )
    veils = ("sentence", "strip", "picture", "tabs")
    more: Where = {"step": step, "view": "row", "veils": veils, "tolerance": stage.MEASURED}
    return [stage.Question("reference", text, "number", float(f"{largest:.3g}"), why, **more)]


def questions(story: RowStory, ordinary: bool) -> list[stage.Question]:
    """Questions about a row with a running max. Their answers come from the logged values."""
    risen = [(n, rise) for n, f in enumerate(story.frames) if f["group"] == "max" and (rise := _rise(f))]
    if ordinary or story.first_wrong is not None or not risen:
        return []
    number, (before, m) = risen[0]
    first = story.frames[number]
    after = next((n for n, f in enumerate(story.frames) if n > number and f["group"] == "rescale"), number)
    factor = f"e^({before:.4g} - {m:.4g}) = {np.exp(before - m):.4g}".replace("- -", "+ ")
    options = ["They are thrown away", "They are multiplied by e^(m before - m after)", "They stay as they are"]
    times = "time" if len(risen) == 1 else "times"
    raises = int(story.keys[story.keys.tile == first["tile"]].set_index("key").score.idxmax())
    return [
        stage.Question(
            "moves",
            "How often does this row's running max rise, after its first tile?",
            "number",
            len(risen),
            f"It rises {len(risen)} {times}, first in tile {first['tile']}, from {before:.4g} to {m:.4g}.",
            step=number,
            view="row",
            veils=("strip", "tabs"),
        ),
        stage.Question(
            "raises",
            "Step on until the running max rises for the first time after the first tile, and click the score that "
            "raises it.",
            "click",
            {"kind": "score", "index": raises},
            f"Key {raises}, in tile {first['tile']}: its score {m:.4g} is above the max so far, {before:.4g}.",
            step=number,
            view="row",
            veils=("sentence",),
        ),
        stage.Question(
            "rescale",
            f"In tile {first['tile']} the max rises. What happens to l and O so far?",
            "options",
            1,
            f"They counted against the old max, so they are scaled by {factor}. What is never stored is the row of "
            "scores.",
            options,
            step=after,
            view="row",
            veils=("sentence", "strip", "picture"),
        ),
    ]


def _rise(frame: RowFrame) -> tuple[float, float] | None:
    """(m before, m) of a step with a rise of m. None for any other step."""
    m, before = frame["m"], frame["m_before"]
    if m is None or before is None or float(m) <= float(before):
        return None
    return float(before), float(m)
