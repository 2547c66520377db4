"""Questions about two pictures of several stories: the threads of a block at a step, and the whole grid."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from explainers.stories.occupancy.block_questions import multiprocessors
from explainers.story.questions import Where, amounts
from explainers.story.stage import Question, Stage, View


def shared_pictures(made: Stage) -> list[Question]:
    """Questions about the pictures `threads` and `grid` of a stage: threads at work in a step, and SMs with work."""
    found: list[Question] = []
    for view in made.views:
        if view.kind == "threads":
            found += _at_work(view, view.meta.get("frames") or made.frames)
        if view.kind == "grid":
            found += multiprocessors(view)
    return found


def _at_work(view: View, frames: Sequence[Any]) -> list[Question]:
    """A question about the step with the fewest threads at work. No count next to the code may give the answer. A
    picture with its own steps takes the first step."""
    meta, ran = view.meta, np.asarray(view.columns["ran"]).reshape(len(view.meta["moments"]), -1)
    busy = [int((ran[moment] >= 0).sum()) for moment in meta["of_frame"]]
    every = [meta["launches"][meta["moments"][moment]["launch"]]["threads"] for moment in meta["of_frame"]]
    present = [n for n, some in enumerate(busy) if some][: 1 if view.meta.get("clock") else None]
    present = [n for n in present if busy[n] not in _counts(frames[n])]
    if not present:
        return []
    step = min(present, key=lambda n: busy[n])
    text = (
        f"Step {step + 1}, {frames[step]['title']}: of how many of the block's {every[step]} threads do the "
        "probes log any work?"
    )
    idle = every[step] - busy[step]
    others = f"nothing is logged of the other {idle}" if idle else "none is idle"
    why = f"The probes log work of {busy[step]} of {every[step]} threads in this step; {others}."
    wrong = [every[step], every[step] // 2, 1, 32]
    where: Where = {"step": step, "view": view.id, "veils": ("picture",)}
    return amounts(f"at_work_{view.id}", text, busy[step], wrong, why, "threads", **where)


def _counts(frame: Any) -> set[int]:
    """The counts next to the lit lines of every code pane at a frame."""
    return {n for key, lines in frame.items() if key.startswith("lines") for n in lines.values()}
