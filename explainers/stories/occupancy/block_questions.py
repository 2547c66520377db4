"""Questions about blocks on SMs: their limits, their number and their times."""

from collections.abc import Sequence

import numpy as np

from explainers.stories.occupancy.frames import GridFrame
from explainers.stories.occupancy.schedules import Schedule
from explainers.story.glossary import count
from explainers.story.questions import Where, amounts, options
from explainers.story.stage import Question, View
from kernels.build.occupancy import Occupancy


def multiprocessors(view: View) -> list[Question]:
    """A question about the picture `grid`: the number of SMs with work."""
    meta = view.meta
    blocks, used, every = sum(launch["blocks"] for launch in meta["launches"]), meta["multiprocessors"], meta["all"]
    text = (
        f"The whole grid has {count(blocks, 'block')}, and {meta['gpu']} has {every} multiprocessors. How many of "
        "these get a block?"
    )
    how = (
        "In launch order, a block to each in turn" if meta["unit"] == "turn" else "As the timeline of this build has it"
    )
    why = f"{how}: {used} of {every}, and {every - used} have nothing to do."
    wrong = [every, blocks, every // 2, used // 2]
    veils = ("sentence", "strip", "picture")
    return amounts("multiprocessors", text, used, wrong, why, view=view.id, veils=veils)


def block_limits(
    found: Sequence[Occupancy], most_warps: int, gpu: str, step: int, view: str = "multiprocessor"
) -> list[Question]:
    """Questions about the limit of the last launch's blocks, and the number of its warps."""
    o = found[-1]
    where: Where = {"step": step, "view": view, "veils": ("sentence", "strip", "picture", "tabs", "side")}
    limits = ", ".join(f"{name} {blocks}" for name, blocks in o.limits.items())
    why = (
        f"A block of {o.entry} takes {o.threads} threads of {o.registers} registers and {o.shared_bytes:,} bytes of "
        f"shared memory. Blocks that each allows: {limits}. The least counts: {o.blocks}."
    )
    made: list[Question] = []
    if len(o.limiters) == 1:
        text = (
            f"A block of {o.entry} has {o.threads} threads of {o.registers} registers and {o.shared_bytes:,} bytes "
            f"of shared memory. What limits how many fit on a multiprocessor of {gpu}?"
        )
        made += options("limit", text, o.limiters[0], list(o.limits), why, **where)
    text = f"How many blocks of {o.entry} does a multiprocessor of {gpu} hold at once?"
    made.append(Question("blocks", text, "number", o.blocks, why, unit="blocks", **where))
    why = (
        f"{count(o.blocks, 'block')} of {count(-(-o.threads // 32), 'warp')}: {o.warps} of {most_warps} warps, "
        f"{o.percent:.0f} per cent."
    )
    text = f"A multiprocessor of {gpu} can hold {most_warps} warps. How many does it hold of {o.entry}?"
    made.append(Question("warps", text, "number", o.warps, why, unit="warps", **where))
    return made


def timeline(schedule: Schedule, frames: Sequence[GridFrame], view: str = "grid") -> list[Question]:
    """Questions about a grid with known times: blocks at once, and the last block."""
    table = schedule.table
    begun, ended = np.sort(table.start), np.sort(table.end)
    running = np.searchsorted(begun, begun, "right") - np.searchsorted(ended, begun, "right")
    at_once, moment = int(running.max()), begun[running.argmax()]
    used = int(table.sm.nunique())
    text = f"{count(len(table), 'block')} ran on {count(used, 'multiprocessor')}. How many at most at the same time?"
    why = (
        f"At the busiest moment {at_once:,} of the {len(table):,} blocks ran, {at_once / used:.3g} on each "
        "multiprocessor on average."
    )
    wrong = [used, len(table), at_once // 2, 2 * at_once, used // 2]
    step = max((n for n, frame in enumerate(frames) if frame["at"] <= moment), default=0)
    veils = ("sentence", "strip", "headline", "side", "tabs")
    found = amounts("at_once", text, at_once, wrong, why, "blocks", step=step, view=view, veils=veils)
    last = table[table.end == table.end.max()]
    if len(last) == 1 and len(table) > 1:
        block = last.iloc[0]
        took, middle = block.end - block.start, float((table.end - table.start).median())
        why = (
            f"Block {int(block.block):,} ends last, at {block.end:,.1f} {schedule.unit}. It ran {took:,.1f} "
            f"{schedule.unit}; the median block ran {middle:,.1f}."
        )
        key = {"launch": int(block.launch), "block": int(block.block)}
        text, step = "Click the block that ends last.", len(frames) - 1
        found.append(Question("ends_last", text, "click", key, why, step=step, view=view, veils=("sentence",)))
    return found
