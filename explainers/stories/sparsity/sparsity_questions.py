"""Questions about a walk through a mask. Their keys come from the lists and the trace."""

import numpy as np

from explainers.stories.sparsity.frames import SparsityFrame
from explainers.stories.sparsity.mask_walk import Walk
from explainers.story.glossary import count
from explainers.story.questions import idea
from explainers.story.stage import Question

SKIPS = (
    "never touched",
    "never loaded",
    "skipped",
    "was not loaded",
    "were not loaded",
    "are not loaded",
)  # what says it


def questions(walk: Walk) -> list[Question]:
    """Returns the questions before the walk."""
    return [*_skipped(walk), *_partial(walk)]


def _skipped(walk: Walk) -> list[Question]:
    """Returns the question on a key block outside the list."""
    columns, listed, total = walk.lists.kv_indices.shape[1], len(walk.entries), sum(walk.loaded)
    absent = sorted(set(range(columns)) - {entry.column for entry in walk.entries})
    if not absent or not listed or not all(walk.loaded):
        return []
    block, tile = absent[0], walk.place.tile
    return [
        idea(
            "skipped",
            f"No query of block {tile} sees a key of key block {block}. How does the kernel treat that block?",
            "It never loads the block",
            {
                "It loads the block, and hides all its scores": (
                    f"That happens in partial blocks only. The run reads no byte of block {block}."
                ),
                "It multiplies the values of the block by 0": (
                    f"A weight of 0 needs a score first. The trace has no score of block {block}."
                ),
                "It loads the keys of the block, but not the values": (
                    f"The run reads no byte of block {block}, neither of K nor of V."
                ),
            },
            f"Block {block} is not in the list of query block {tile}. The kernel loads the {listed} listed blocks, "
            f"{total:,} bytes, and no other.",
            step=len(walk.frames) - 1,
            view="mask",
            hides=[*SKIPS, f"needs {listed} of {columns} key blocks"],
            covers=[{"part": "entry"}],
            shows={"part": "block", "row": tile, "col": block},
        )
    ]


def _partial(walk: Walk) -> list[Question]:
    """Returns the question on the computed scores of the first partial block."""
    partial = [n for n, frame in enumerate(walk.frames) if frame["kind"] == "partial" and _is_masked(walk, frame)]
    if not partial or not all(walk.loaded):
        return []
    step, width = partial[0], walk.lists.block_kv
    frame = walk.frames[step]
    seen, column = frame["seen"], frame["column"]
    hidden = count(width - seen, "score")
    return [
        idea(
            "partial",
            f"Block {column} is partial: row {walk.row} sees {seen} of its {width} keys. "
            "Which scores does the kernel compute?",
            f"All {width} scores, and then it hides {width - seen}",
            {
                f"Only the {seen} scores that count": (
                    f"The block is loaded and multiplied whole: {walk.loaded[frame['entry']]:,} bytes of K and V."
                ),
                "No score, as a partial block is skipped": (
                    f"Then row {walk.row} would lose {seen} keys. A skipped block has no key that a query sees."
                ),
                f"A smaller block with {seen} keys": (
                    f"All blocks have {width} keys. Smaller blocks would skip more, with longer lists."
                ),
            },
            f"The product takes the whole block, and the mask hides {hidden} afterwards. "
            "A hidden pair costs as much as a seen one, so a good mask has few partial blocks.",
            step=step,
            view="mask",
            hides=["faint: hidden", "computed whole"],
            veils=("headline",),
            shows={"part": "block", "row": walk.place.tile, "col": column},
        )
    ]


def _is_masked(walk: Walk, frame: SparsityFrame) -> bool:
    """Whether the mask hides scores of the frame's block from the row, and the kernel scored only the others.

    The block has no key past the last one.
    """
    first, width = frame["column"] * walk.lists.block_kv, walk.lists.block_kv
    scores = walk.scores[first : first + width]
    scored = int(np.count_nonzero(~np.isnan(scores)))
    return len(scores) == width and frame["seen"] == scored < width
