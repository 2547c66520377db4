"""The question about the operands of a warpgroup's product. Its answer comes from the probes of the source."""

import pandas as pd

from explainers.stories.pipeline.key_tile_frames import BlockStory
from explainers.story import questions as ask
from explainers.story.stage import Question
from kernels.trace.probes import sites_of

TILE = 2  # the tile of the picture


def questions(story: BlockStory) -> list[Question]:
    """The way of a tile to the tensor cores, for a kernel with wgmma and without ldmatrix."""
    fetches = {site.event for site in sites_of(story.made.request)}
    scores = story.bars[(story.bars.writer == story.leader) & (story.bars.event == "scores")]
    if story.made.noun != "warpgroup" or "product" not in fetches or "ldmatrix" in fetches or scores.empty:
        return []
    bar, rows = scores.iloc[min(TILE, len(scores) - 1)], story.words.rows
    shows: dict[str, object] = {"writer": story.leader, "event": "scores"}
    if pd.notna(bar.tile):
        shows["tile"] = int(bar.tile)
    return [
        ask.idea(
            "operands",
            f"On Hopper GPUs (H100, H200), one wgmma multiplies for a whole warpgroup. "
            f"How do the {rows} reach its tensor cores?",
            "The tensor cores read them from shared memory",
            {
                "First ldmatrix brings them to registers": "This kernel has no ldmatrix. mma.sync needs it.",
                f"Each lane reads its own {rows}": f"No lane reads {rows} in this kernel.",
                "The producer puts them into registers": "The producer's copies end in shared memory.",
            },
            "wgmma takes its second matrix from shared memory only. The registers stay free for sums.",
            step=_step(story, bar),
            view="pipeline",
            shows=shows,
            veils=("tabs",),
        )
    ]


def _step(story: BlockStory, bar: pd.Series) -> int:
    """The step with the bar."""
    return next(n for n, frame in enumerate(story.frames) if frame["span"][0] <= bar.start_ns < frame["span"][1])
