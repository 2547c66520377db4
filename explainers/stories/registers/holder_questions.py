"""Questions about the lanes of a row."""

from explainers.stories.registers.holders import first_held, holders, weight_bytes, weights_said
from explainers.stories.registers.threads import Threads
from explainers.stories.tiling import tiling
from explainers.story import stage
from explainers.story.glossary import count
from kernels.run.results import Run


def questions(run: Run, tiles: tiling.Tiling, story: Threads, row: int) -> list[stage.Question]:
    """Questions about the mapping of rows to lanes. Their answers come from the launch and the trace."""
    launch = run.request.plan.launches[-1]
    step = first_held(story, row)
    held = holders(story, row)[step]
    made = [
        stage.Question(
            "threads",
            f"This run's last launch has a grid of {launch.grid[0]} x {launch.grid[1] * launch.grid[2]} blocks, and "
            f"each makes "
            f"its part of O. How many threads work on one block's part?",
            "number",
            launch.threads,
            f"A block of {launch.entry} has {launch.threads} threads: {count(-(-launch.threads // 32), 'warp')} of "
            f"32 lanes.",
            step=step,
            view="threads",
            unit="threads",
            veils=("picture", "tabs"),
        )
    ]
    if not held:
        return made
    rects = story.rects[(story.rects.step == step) & (story.rects.kind == "computes")]
    rects = rects[(rects.row0 <= row) & (row <= rects.row1)]
    number = int(rects.thread.nunique())
    made.append(
        stage.Question(
            "lanes",
            f"How many lanes hold row {row}'s part of the first tile?",
            "number",
            number,
            f"{held[0].upper()}{held[1:]}: each of these {number} lanes holds a part of the row.",
            step=step,
            view="threads",
            unit="lanes",
            veils=("strip",),
        )
    )
    where = weights_said(run)
    options = ["In shared memory", "In registers only", "In global memory"]
    right = next(n for n, word in ((2, "global"), (0, "shared"), (1, "registers")) if word in where)
    last = next((n for n, f in enumerate(tiles.frames) if weight_bytes(tiles, f)), step)
    text, veils = "Where do this kernel's weights P lie?", ("sentence", "strip", "headline", "tabs")
    made.append(
        stage.Question("weights", text, "options", right, f"P: {where}.", options, last, view="matrices", veils=veils)
    )
    return made
