"""Questions about a row of a broken kernel, of a kernel with state between tiles, or of ordinary softmax."""

from collections.abc import Sequence

from explainers.stories.online_softmax.frames import RowFrame
from explainers.story.questions import amounts, options
from explainers.story.stage import VEILS, Question


def ordinary_row(frames: Sequence[RowFrame], first_wrong: int | None, ordinary: bool, head_dim: int) -> list[Question]:
    """Questions about the state of a row between tiles, and about the first error of a broken build."""
    found = []
    tiles = sorted({f["tile"] for f in frames if f["tile"] >= 0})
    if first_wrong is not None:
        frame = frames[first_wrong]
        names = {"max": "the max m", "rescale": "the rescale factor", "weights": "the weights", "sum": "the sum l"}
        names |= {"output": "O so far", "final": "the finished row", "scores": "the scores"}
        present = [names[f["group"]] for f in frames]
        step, place = first_wrong, f" in tile {frame['tile']}" if frame["tile"] >= 0 else ""
        why = f"Step {first_wrong + 1}{place}: {frame['sentence']}"
        text = "This build is broken on purpose. Which number is the first to be wrong by more than rounding?"
        found += options("first_wrong", text, names[frame["group"]], present, why, step=step, veils=VEILS)
    if not ordinary and len(tiles) > 1:
        keys = max(f["keys"] for f in frames)
        kept = 2 + head_dim
        why = (
            f"m, l and the {head_dim} numbers of O so far: {kept}. Every score is used in its tile and then gone, so "
            f"{keys} keys or a million make no difference."
        )
        text = (
            "After a tile the kernel goes on to the next. How many numbers of this row must it still know, of "
            f"{keys} keys?"
        )
        last = next(n for n, f in enumerate(frames) if f["tile"] == tiles[0] and f["group"] in ("output", "sum"))
        found += amounts("kept", text, kept, [keys, 2, keys + head_dim, 2 * head_dim], why, "numbers", step=last)
    if ordinary:
        keys = max(f["keys"] for f in frames)
        step = next((n for n, f in enumerate(frames) if f["group"] == "max"), 0)
        why = (
            f"The max of a row is known when all its {keys} scores are: they were written to memory and are read again."
        )
        text = "How many scores of this row must be there before the first weight can be computed?"
        found += amounts("before_max", text, keys, [1, head_dim, keys // 2, keys - 1], why, "scores", step=step)
    return found
