"""Questions about a walk through a mask. Their keys come from the lists and the trace."""

from typing import Any

import numpy as np

from explainers.stories.sparsity.block_mask import Entry
from explainers.stories.sparsity.frames import SparsityFrame
from explainers.stories.sparsity.mask_frames import FACTOR, SAME, number_text, power_text
from explainers.stories.sparsity.mask_walk import Walk
from explainers.story.glossary import count
from explainers.story.questions import options
from explainers.story.stage import MEASURED, Question


def questions(walk: Walk) -> list[Question]:
    """Returns the questions before the walk."""
    found: list[Question] = []
    columns, listed = walk.lists.kv_indices.shape[1], len(walk.entries)
    block = walk.lists.block_kv * (sum(walk.loaded) // max(1, sum(_keys(walk, e) for e in walk.entries)))
    if listed and all(walk.loaded):
        text = (
            f"Query block {walk.place.tile} could meet {columns} key blocks. How many bytes of K and V does the kernel "
            "load for it?"
        )
        are = "is" if listed == 1 else "are"
        why = f"{count(listed, 'block')} of {columns} {are} in its list; the probes logged {sum(walk.loaded):,} bytes."
        wrong = {f"{n * block:,}" for n in (columns, listed + 1, max(1, listed - 1))} - {f"{sum(walk.loaded):,}"}
        order = sorted({*wrong, f"{sum(walk.loaded):,}"}, key=lambda text: int(text.replace(",", "")))
        more: dict[str, Any] = {"step": len(walk.frames) - 1, "view": "mask", "veils": ("strip", "sentence", "tabs")}
        found += options("loaded", text, f"{sum(walk.loaded):,}", wrong, why, order, **more)
    partial = [n for n, f in enumerate(walk.frames) if f["kind"] == "partial" and _is_masked(walk, f)]
    if partial:
        frame, width = walk.frames[partial[0]], walk.lists.block_kv
        text = (
            f"Block {frame['column']} is partial, and row {walk.row} sees {frame['seen']} of its {width} keys. How "
            "many of its keys do the tensor cores multiply with the row?"
        )
        why = (
            f"All {width}: the block is loaded and multiplied whole, and the mask hides {width - frame['seen']} scores "
            f"afterwards. The trace has {count(frame['seen'], 'score')} of row {walk.row} here."
        )
        wrong = {str(frame["seen"]), str(width // 2), "0"} - {str(width)}
        order = sorted({*wrong, str(width)}, key=int)
        found += options(
            "hidden", text, str(width), wrong, why, order, step=partial[0], view="mask", veils=("sentence", "tabs")
        )
    risen = [n for n, f in enumerate(walk.frames) if f["entry"] > 0 and _is_higher(f)]
    frame = walk.frames[risen[0]] if risen else walk.frames[0]
    factor = float(np.exp(frame["m_before"] - frame["m"])) if risen else 0.0
    if frame["rescale"] is not None and np.isclose(frame["rescale"], factor, rtol=FACTOR):
        text = (
            f"In block {frame['column']} row {walk.row}'s max rises from {number_text(frame['m_before'])} to "
            f"{number_text(frame['m'])}. By what is l multiplied?"
        )
        why = f"{power_text(frame['m_before'], frame['m'])}; the trace has {number_text(float(frame['rescale']))}."
        veils = ("sentence", "strip", "picture", "tabs")
        more = {"step": risen[0], "view": "mask", "veils": veils, "tolerance": MEASURED}
        found.append(Question("rescaled", text, "number", float(f"{frame['rescale']:.3g}"), why, **more))
    return found


def _is_masked(walk: Walk, frame: SparsityFrame) -> bool:
    """Whether the mask hides scores of the frame's block from the row, and the kernel scored only the others.

    The block has no key past the last one.
    """
    first, width = frame["column"] * walk.lists.block_kv, walk.lists.block_kv
    scores = walk.scores[first : first + width]
    scored = int(np.count_nonzero(~np.isnan(scores)))
    return len(scores) == width and frame["seen"] == scored < width


def _is_higher(frame: SparsityFrame) -> bool:
    """Whether the row's max rises in a frame, and m with it."""
    highest = frame["m"] if frame["tile_max"] is None else frame["tile_max"]
    return frame["m"] > frame["m_before"] > -np.inf and bool(np.isclose(frame["m"], highest, rtol=SAME))


def _keys(walk: Walk, entry: Entry) -> int:
    """Returns the keys of a block, fewer in the last one."""
    return min(walk.lists.block_kv, len(walk.scores) - entry.column * walk.lists.block_kv)
