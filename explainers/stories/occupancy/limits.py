"""The blocks of a build that an SM holds, resource by resource, derived from the real cubin: tables, steps, picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TypedDict

import pandas as pd

from explainers.story import scene
from explainers.story.glossary import count, listed
from explainers.story.stage import State, View
from explainers.story.words import Names, Row, Words
from kernels.build.occupancy import MACHINES, REGISTERS, Machine, Occupancy, cures, limits, needs
from kernels.core.expressions import ceil_div

WORDS = Words.of(str(__package__))
MOST_REGISTERS = 255  # of a thread
Build = Names  # of `_build`


def data_of(found: Sequence[Occupancy], machine: Machine, multiprocessors: int, gpu: str) -> Row:
    """Every number of the page. found: the occupancy of each launch. multiprocessors, gpu: of the GPU, with an article.

    launches: a _build for each. more: one of the first launch with twice the registers, or {}. It has a step if it is
    the only launch (alone). guesses: numbers of its blocks.
    """
    launches = [_build(o, machine, multiprocessors) for o in found]
    first, more = found[0], twice(found[0], machine)
    return {
        "about": "limits",
        "gpu": gpu,
        "sms": multiprocessors,
        "machine": asdict(machine),
        "launches": launches,
        "alone": len(found) == 1,
        "more": _build(more, machine, multiprocessors) if more else {},
        "guesses": [first.blocks, 2 * first.blocks, max(0, first.blocks - 2)],
    }


def twice(o: Occupancy, machine: Machine) -> Occupancy | None:
    """The same launch with twice the registers. None if no block fits now, or if a thread cannot have so many."""
    registers = 2 * o.registers
    if registers > MOST_REGISTERS or not o.blocks:
        return None
    allowed = limits(o.threads, registers, o.shared_bytes, machine)
    blocks = min(allowed.values())
    warps = blocks * ceil_div(o.threads, 32)
    more = replace(o, registers=registers, limits=allowed, blocks=blocks, warps=warps)
    return replace(more, percent=100 * warps / machine.warps, limited_by=" and ".join(more.limiters))


def _build(o: Occupancy, machine: Machine, multiprocessors: int) -> Build:
    """The fields of an Occupancy, and more.

    block: its Needs. resources: of a block (each) and of an SM (of), with the blocks that each one allows.
    cures: what would fit more blocks.
    at_once: blocks on the whole GPU. rest: blocks of the last wave.
    """
    block, at_once = needs(o.threads, o.registers, o.shared_bytes, machine), o.blocks * multiprocessors
    sizes = {
        "warps": (block.warps, machine.warps),
        "blocks": (1, machine.blocks),
        "registers": (block.warps * block.registers_per_warp, REGISTERS),
        "shared memory": (block.shared_bytes, machine.shared_bytes),
    }
    resources = [
        {"name": name, "each": each, "of": of, "allows": o.limits[name], "limit": name in o.limiters}
        for name, (each, of) in sizes.items()
    ]
    rest = (o.grid_blocks % at_once or at_once) if at_once else 0
    more = [cure._asdict() for cure in cures(o.threads, o.registers, o.shared_bytes, machine)]
    facts = {"block": asdict(block), "resources": resources, "at_once": at_once, "rest": rest, "cures": more}
    return {**asdict(o), **facts}


def steps_of(data: Names) -> list[Row]:
    """A row for each resource of each launch, for all of them together, and for twice the registers.

    Columns: launch. resource: the one that the step counts, or {}. counted: their number so far. limit: in words.
    blocks, warps: on an SM, by the resources so far. what_if: whether the threads have twice the registers.
    """
    rows = []
    builds = [*data["launches"], *([data["more"]] if data["alone"] and data["more"] else [])]
    for tile, launch in enumerate(builds):
        resources, what_if = launch["resources"], launch is data["more"]
        for counted in [4] if what_if else [1, 2, 3, 4, 5]:
            blocks = min(resource["allows"] for resource in resources[:counted])
            rows.append(
                {
                    "tile": tile,
                    "launch": launch,
                    "what_if": what_if,
                    "resource": {} if what_if or counted == 5 else resources[counted - 1],
                    "counted": min(counted, 4),
                    "blocks": blocks,
                    "warps": blocks * launch["block"]["warps"],
                    "limit": listed([r["name"] for r in resources if r["limit"]])
                    if counted >= 4
                    else f"not known yet: {counted} of 4",
                }
            )
    return rows


class FitsMeta(TypedDict):
    """The fields of the view `fits`.

    machines: the limits of an SM, by architecture.
    launches: entry, threads, registers (of a thread) and shared (bytes of a block)."""

    machines: Mapping[str, Names]
    arch: str
    launches: Sequence[Names]


def by_hand(found: Sequence[Occupancy], arch: str) -> FitsMeta:
    launches = [
        {"entry": o.entry, "threads": o.threads, "registers": o.registers, "shared": o.shared_bytes} for o in found
    ]
    return {"machines": {name: asdict(m) for name, m in MACHINES.items()}, "arch": arch, "launches": launches}


def strip(steps: Sequence[Names], machine: Machine) -> list[State]:
    return [
        State("blocks so far", [step["blocks"] for step in steps], of=machine.blocks),
        State("warps so far", [step["warps"] for step in steps], of=machine.warps),
        State("limited by", [step["limit"] for step in steps]),
    ]


def picture(data: Names, steps: Sequence[Names]) -> View:
    """The resources of an SM, filled with blocks as far as each allows, then with as many as all do."""
    panels = []
    for tile in dict.fromkeys(step["tile"] for step in steps):
        shown = [n for n, step in enumerate(steps) if step["tile"] == tile]
        names = {**data, **steps[shown[0]], "number": tile + 1}
        panels.append(
            scene.Bars(
                title=[WORDS.say("sm", names)],
                columns=[("each", "one block needs"), ("of", "an SM has")],
                key="blocks",
                head="blocks on the SM",
                bars=[_bar(place, steps, shown) for place in range(4)],
                shown=shown,
            )
        )
    legend = [("primary", "a block, with its number"), ("now", "frame: the limit")]
    return scene.view("multiprocessor", "One SM", [[panel] for panel in panels], legend=legend)


def _bar(place: int, steps: Sequence[Names], shown: Sequence[int]) -> scene.Bar:
    """The bar of a resource. Before its step it has one block, to predict from. shown: the steps with the bar."""
    launch, what_if = steps[shown[0]]["launch"], steps[shown[0]]["what_if"]
    resource = launch["resources"][place]
    name, each, of = (resource[key] for key in ("name", "each", "of"))
    lengths, pieces, texts = [0.0] * len(steps), [0] * len(steps), [""] * len(steps)
    together = [n for n in shown if not steps[n]["resource"]]
    for n in shown:
        if n in together:
            pieces[n] = launch["blocks"]
            texts[n] = WORDS.say("fits", resource)
        elif place < steps[n]["counted"]:
            pieces[n] = resource["allows"]
            texts[n] = count(pieces[n], "block")
        lengths[n] = min(1.0, (pieces[n] or 1) * each / of)
    return scene.Bar(
        name=name.capitalize(),
        cells=[f"{each:,}", f"{of:,}"],
        value=1.0,
        steps=lengths,
        text=texts,
        pieces=pieces,
        framed=together if resource["limit"] else [],
        now=[n for n in shown if steps[n]["resource"] == resource],
        datum={"resource": name, "launch": steps[shown[0]]["tile"]} | ({"what_if": "registers"} if what_if else {}),
        tip=WORDS.say("need", resource),
    )


# ---- tables ----


def figures(o: Occupancy) -> dict[str, object]:
    return {
        "threads": o.threads,
        "registers": o.registers,
        "shared bytes": o.shared_bytes,
        "local bytes a thread": o.local_bytes,
        **{f"by {name}": blocks for name, blocks in o.limits.items()},
        "blocks per SM": o.blocks,
        "warps per SM": o.warps,
        "occupancy %": round(o.percent),
        "limited by": o.limited_by,
        "waves": round(o.waves, 2),
    }


def launches_table(found: Sequence[Occupancy]) -> pd.DataFrame:
    """A row for each launch: its block, the blocks for each resource, and the result."""
    return pd.DataFrame([{"kernel": o.entry, "grid blocks": o.grid_blocks, **figures(o)} for o in found])


def alternatives_table(found: Sequence[tuple[dict[str, int], Occupancy | str]], now: dict[str, int]) -> pd.DataFrame:
    """A row for each other size of a block (occupancy.alternatives), with a mark at the present one."""
    rows = []
    varied = [name for name in now if len({settings.get(name) for settings, _ in found}) > 1]
    for settings, result in found:
        is_now = all(now[name] == value for name, value in settings.items() if name in now)
        row: dict[str, object] = {**{name: settings[name] for name in varied}, "now": "now" if is_now else ""}
        rows.append(row | (figures(result) if isinstance(result, Occupancy) else {"limited by": result}))
    return pd.DataFrame(rows).convert_dtypes()
