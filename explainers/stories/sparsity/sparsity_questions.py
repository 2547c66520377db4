"""Questions about a walk through a mask. Their keys come from the lists and the trace."""

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
    return [*_loaded(walk), *_hidden(walk), *_rescaled(walk)]


def _loaded(walk: Walk) -> list[Question]:
    """Returns the question on the bytes of K and V for the query block."""
    columns, listed, total = walk.lists.kv_indices.shape[1], len(walk.entries), sum(walk.loaded)
    if not listed or not all(walk.loaded):
        return []
    block = walk.lists.block_kv * (total // max(1, sum(_keys(walk, entry) for entry in walk.entries)))
    text = (
        f"Query block {walk.place.tile} could meet {columns} key blocks. How many bytes of K and V does the kernel "
        "load for it?"
    )
    are = "is" if listed == 1 else "are"
    why = f"{count(listed, 'block')} of {columns} {are} in its list; the probes logged {total:,} bytes."
    wrong = {n * block for n in (columns, listed + 1, max(1, listed - 1))} - {total}
    order = [f"{size:,}" for size in sorted({*wrong, total})]
    step, veils = len(walk.frames) - 1, ("strip", "sentence", "tabs")
    others = {f"{size:,}" for size in wrong}
    return options("loaded", text, f"{total:,}", others, why, order, step=step, view="mask", veils=veils)


def _hidden(walk: Walk) -> list[Question]:
    """Returns the question on the multiplied keys of the first partial block."""
    partial = [n for n, frame in enumerate(walk.frames) if frame["kind"] == "partial" and _is_masked(walk, frame)]
    if not partial:
        return []
    step, width = partial[0], walk.lists.block_kv
    frame = walk.frames[step]
    seen = frame["seen"]
    text = (
        f"Block {frame['column']} is partial, and row {walk.row} sees {seen} of its {width} keys. How "
        "many of its keys do the tensor cores multiply with the row?"
    )
    why = (
        f"All {width}: the block is loaded and multiplied whole, and the mask hides {width - seen} scores "
        f"afterwards. The trace has {count(seen, 'score')} of row {walk.row} here."
    )
    wrong = {seen, width // 2, 0} - {width}
    order = [str(n) for n in sorted({*wrong, width})]
    others = {str(n) for n in wrong}
    return options("hidden", text, str(width), others, why, order, step=step, view="mask", veils=("sentence", "tabs"))


def _rescaled(walk: Walk) -> list[Question]:
    """Returns the question on the factor of l at the first risen max."""
    risen = [n for n, frame in enumerate(walk.frames) if frame["entry"] > 0 and _is_higher(frame)]
    if not risen:
        return []
    frame = walk.frames[risen[0]]
    before, after, factor = frame["m_before"], frame["m"], frame["rescale"]
    if factor is None or not np.isclose(factor, float(np.exp(before - after)), rtol=FACTOR):
        return []
    text = (
        f"In block {frame['column']} row {walk.row}'s max rises from {number_text(before)} to {number_text(after)}. By "
        "what is l multiplied?"
    )
    why = f"{power_text(before, after)}; the trace has {number_text(float(factor))}."
    question = Question(
        "rescaled",
        text,
        "number",
        float(f"{factor:.3g}"),
        why,
        step=risen[0],
        view="mask",
        tolerance=MEASURED,
        veils=("sentence", "strip", "picture", "tabs"),
    )
    return [question]


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
