"""Questions about the max of an ordinary softmax, and about a broken build."""

from collections.abc import Sequence

from explainers.stories.online_softmax.frames import RowFrame
from explainers.story.questions import idea
from explainers.story.stage import Question

NAMES = {
    "scores": "the scores",
    "max": "the max m",
    "rescale": "the rescale factor",
    "weights": "the weights",
    "sum": "the sum l",
    "output": "the output O so far",
    "final": "the finished row",
}


def ordinary_row(frames: Sequence[RowFrame], first_wrong: int | None, ordinary: bool) -> list[Question]:
    """The questions about a row. Their answers come from the logged values."""
    if first_wrong is not None:
        return _first_wrong(frames, first_wrong)
    keys = max(frame["keys"] for frame in frames)
    return [_before_max(frames, keys)] if ordinary else []


def _first_wrong(frames: Sequence[RowFrame], first_wrong: int) -> list[Question]:
    """A question about the first wrong number of a broken build."""
    frame = frames[first_wrong]
    right = NAMES[frame["group"]]
    before = {NAMES[f["group"]] for f in frames[:first_wrong]} - {right}
    later = {NAMES[f["group"]] for f in frames[first_wrong:]} - {right} - before
    wrong = dict.fromkeys(sorted(later), f"It is wrong too, but later than {right}.")
    wrong |= dict.fromkeys(sorted(before), f"It still agrees with float64 before {right} goes wrong.")
    if not wrong:
        return []
    text = "This build is broken on purpose. Which number is the first to differ from float64 by more than rounding?"
    why = f"It is wrong from step {first_wrong + 1} on. {frame['sentence']}"
    veils = ("sentence", "strip", "headline", "tabs")
    first_three = dict(list(wrong.items())[:3])
    return [idea("first_wrong", text, right, first_three, why, step=first_wrong, view="row", veils=veils)]


def _before_max(frames: Sequence[RowFrame], keys: int) -> Question:
    """A question about the first weight of an ordinary softmax."""
    wrong = {
        "After the first score": "Its weight is e^(score - max), and the max may still rise.",
        "After the first tile": "A later tile can bring a larger score. This kernel has no way to correct a weight.",
    }
    why = f"The max of the row is known after all {keys} scores. So the kernel stores them and reads them again."
    step = next((n for n, f in enumerate(frames) if f["group"] == "max"), 0)
    text = "The kernel computes the scores of a row, tile by tile. When can it compute the first weight?"
    right = "After the last score of the row"
    return idea("before_max", text, right, wrong, why, step=step, view="row", veils=("sentence",))
