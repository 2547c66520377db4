"""Questions about blocks on SMs: their limits, their number and their times."""

from collections.abc import Sequence

import numpy as np

from explainers.models.frames import GridFrame
from explainers.models.schedules import Schedule
from explainers.stories.occupancy.more_registers import twice
from explainers.story.glossary import count, short
from explainers.story.questions import Where, amounts, idea
from explainers.story.stage import Question
from kernels.build.occupancy import REGISTERS, Machine, Occupancy, needs


def block_limits(found: Sequence[Occupancy], on: Machine, gpu: str, view: str = "multiprocessor") -> list[Question]:
    """Questions about the first launch: the use of many warps, and the effect of more registers."""
    o = found[0]
    return [_waiting(o, on, view), *_more_registers(o, on, gpu, view, len(found) == 1)] if o.blocks else []


def _waiting(o: Occupancy, on: Machine, view: str) -> Question:
    wrong = {
        "It waits with it": f"An SM holds {o.warps} warps of this kernel, so another warp is often ready.",
        "It moves the warp to another SM": "A block stays on its SM until it ends.",
        "It runs a later instruction of the same warp": "A warp issues in order: no later instruction starts.",
    }
    if o.warps < 2:
        return Question("waiting", "How many warps does an SM hold?", "number", o.warps, "Only one fits.", view=view)
    return idea(
        "waiting",
        "A warp's next instruction waits hundreds of cycles for memory. How does its SM use this time?",
        "It runs another warp",
        wrong,
        f"The SM holds {o.warps} warps and switches at no cost, so more warps hide more waiting. "
        f"Occupancy is the share of its {on.warps} places that hold a warp: here {100 * o.warps / on.warps:.0f}%.",
        view=view,
        step=len(o.limits),
        hides=[f"While one warp waits for memory, another of the {o.warps} warps runs."],
    )


def _more_registers(o: Occupancy, on: Machine, gpu: str, view: str, alone: bool) -> list[Question]:
    """A question about a build with twice the registers, if a thread can have so many.

    alone: whether it is the only launch. Then the last step shows the answer.
    """
    more = twice(o, on)
    if more is None:
        return []
    block = needs(o.threads, more.registers, o.shared_bytes, on)
    by_registers, each, now = more.limits["registers"], block.registers_per_warp * block.warps, more.blocks
    texts = {n: count(n, "block") for n in (now, o.blocks, 2 * o.blocks, max(0, o.blocks - 2))}
    reason = f"{REGISTERS:,} / {each:,} is {short(REGISTERS / each, 2)}, so {count(by_registers, 'block')} fit."
    limit = " Another resource is still the limit." if now < by_registers else ""
    wrong = {
        text: f"{text[0].upper()}{text[1:]} would need {n * each:,} registers." if n > by_registers else reason
        for n, text in texts.items()
        if n != now
    }
    text = (
        f"An SM of {gpu} holds {count(o.blocks, 'block')} now. How many fit if each thread needs twice the registers?"
    )
    taken = f"A block would take {each:,} registers."
    why = f"{taken} {reason}{limit} Fewer warps are left to hide the waiting."
    hides = [
        f"only {texts[now]} and {count(more.warps, 'warp')}",
        f"{now} of {on.blocks}",
        f"{more.warps} of {on.warps}",
    ]
    where: Where = {"step": len(o.limits) + 1, "view": view, "hides": hides, "covers": [{"what_if": True}]}
    if not alone:
        where = {"step": list(o.limits).index("registers"), "view": view}
    return [idea("registers", text, texts[now], wrong, why, **where)]


def timeline(schedule: Schedule, frames: Sequence[GridFrame], view: str = "grid") -> list[Question]:
    """Questions about a grid with known times: blocks at once, and the last block."""
    table = schedule.table
    begun, ended = np.sort(table.start), np.sort(table.end)
    running = np.searchsorted(begun, begun, "right") - np.searchsorted(ended, begun, "right")
    at_once, moment = int(running.max()), begun[running.argmax()]
    used = int(table.sm.nunique())
    text = f"{count(len(table), 'block')} ran on {count(used, 'SM')}. How many at most at the same time?"
    why = (
        f"At the busiest moment {at_once:,} of the {len(table):,} blocks ran, {short(at_once / used, 3)} on each "
        "SM on average."
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
            f"{schedule.unit}. The median block ran {middle:,.1f}."
        )
        key = {"launch": int(block.launch), "block": int(block.block)}
        text, step = "Click the block that ends last.", len(frames) - 1
        found.append(Question("ends_last", text, "click", key, why, step=step, view=view, veils=("sentence",)))
    return found
