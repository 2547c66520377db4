"""Occupancy: how many blocks an SM holds, resource by resource, derived from the real cubin."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.stories.occupancy.frames import MultiprocessorMeta, Resource, ResourceFrame, ResourceLaunch
from explainers.stories.occupancy.more_registers import twice
from explainers.story import stage
from explainers.story.glossary import count, listed
from kernels.build.occupancy import REGISTERS, Machine, Needs, Occupancy, needs
from kernels.core.spec import KernelSpec


def frames(found: Sequence[Occupancy], machine: Machine, name: str) -> list[ResourceFrame]:
    """Returns for each launch a step for each resource, and then a step for all together.

    A single launch has a last step with twice the registers of a thread.
    """
    made: list[ResourceFrame] = []
    for number, o in enumerate(found):
        block = needs(o.threads, o.registers, o.shared_bytes, machine)
        said = _resource_sentences(o, block, machine)
        where = f"{o.entry} \u00b7 " if len(found) > 1 else ""
        for shown, resource in enumerate(o.limits, 1):
            made.append(_frame(number, shown, f"{where}{resource}", said[resource]))
        made.append(_frame(number, len(o.limits) + 1, f"{where}all together", together(o, machine, name)))
    for o in with_twice(found, machine)[len(found) :]:
        said_twice = f"With twice the registers, only {count(o.blocks, 'block')} and {count(o.warps, 'warp')} fit."
        made.append(_frame(len(found), len(o.limits) + 1, "twice the registers", said_twice))
    return made


def with_twice(found: Sequence[Occupancy], machine: Machine) -> list[Occupancy]:
    """Returns the launches, and a single one once more with twice the registers of a thread."""
    more = twice(found[0], machine) if len(found) == 1 else None
    return [*found, *([more] if more else [])]


def together(o: Occupancy, machine: Machine, name: str) -> str:
    """Returns the blocks of an SM, the limit and the use of many warps in sentences. name: the GPU."""
    if not o.blocks:
        return f"No block of {o.entry} fits on an SM of {name}. The limit is {o.limited_by}."
    verb = "is" if o.limited_by == "shared memory" else "are"
    limit = f"{o.limited_by[0].upper()}{o.limited_by[1:]} {verb} the limit."
    held = f"An SM of {name} holds {count(o.blocks, 'block')} of {o.entry} at once. {limit}"
    return f"{held} While one warp waits for memory, another of the {o.warps} warps runs." if o.warps > 1 else held


def view(found: Sequence[Occupancy], machine: Machine, name: str) -> tuple[MultiprocessorMeta, list[ResourceFrame]]:
    """Returns the meta of the view `multiprocessor`, and the frames. name: the GPU."""
    launches: list[ResourceLaunch] = []
    for number, o in enumerate(with_twice(found, machine)):
        block = needs(o.threads, o.registers, o.shared_bytes, machine)
        sizes = {
            "warps": (block.warps, machine.warps, "warps"),
            "blocks": (1, machine.blocks, "blocks"),
            "registers": (block.warps * block.registers_per_warp, REGISTERS, "registers"),
            "shared memory": (block.shared_bytes, machine.shared_bytes, "bytes"),
        }
        resources: list[Resource] = [
            {"name": n, "each": each, "of": of, "unit": unit, "blocks": o.limits[n], "limit": n in o.limiters}
            for n, (each, of, unit) in sizes.items()
        ]
        what_if = "with twice the registers for each thread" if number == len(found) else ""
        one: ResourceLaunch = {
            "entry": o.entry,
            "what_if": what_if,
            "warps": block.warps,
            "blocks": o.blocks,
            "resources": resources,
        }
        launches.append(one)
    return {"gpu": name, "launches": launches}, frames(found, machine, name)


def states(found: Sequence[Occupancy], machine: Machine, steps: Sequence[ResourceFrame]) -> list[stage.State]:
    """Returns the strip: the blocks and warps that the counted resources allow, and the limit."""
    found = with_twice(found, machine)
    so_far = [dict(list(found[f["launch"]].limits.items())[: f["shown"]]) for f in steps]
    blocks = [min(allowed.values()) for allowed in so_far]
    each = [-(-found[f["launch"]].threads // 32) for f in steps]
    return [
        stage.State("blocks so far", blocks, of=machine.blocks),
        stage.State("warps so far", [b * w for b, w in zip(blocks, each)], of=machine.warps),
        stage.State("limited by", [_limit_text(found[step["launch"]], step["shown"]) for step in steps]),
    ]


def _limit_text(o: Occupancy, counted: int) -> str:
    """Returns the limiting resources once all are counted. counted: the number so far."""
    of = len(o.limits)
    return listed(list(o.limiters)) if counted >= of else f"not known yet: {counted} of {of}"


def _frame(launch: int, shown: int, title: str, said: str) -> ResourceFrame:
    return {"tile": launch, "title": title, "sentence": said, "launch": launch, "shown": shown}


def _resource_sentences(o: Occupancy, block: Needs, machine: Machine) -> dict[str, str]:
    """Returns for each resource the need of one block, and the resulting number of blocks."""
    per_block = block.warps * block.registers_per_warp
    allowed = {name: f"That allows {count(blocks, 'block')}." for name, blocks in o.limits.items()}
    warps = f"A block has {count(block.warps, 'warp')}, and an SM holds {machine.warps}."
    registers = f"A block takes {per_block:,} of the SM's {REGISTERS:,} registers."
    return {
        "warps": f"{warps} {allowed['warps']}",
        "blocks": f"An SM holds at most {machine.blocks} blocks, however small they are.",
        "registers": f"{registers} {allowed['registers']}",
        "shared memory": _shared_sentence(o, block, machine, allowed["shared memory"]),
    }


def _shared_sentence(o: Occupancy, block: Needs, machine: Machine, allowed: str) -> str:
    if o.shared_bytes > machine.shared_bytes_per_block:
        most = f"one block may have {machine.shared_bytes_per_block:,}"
        return f"A block needs {o.shared_bytes:,} bytes of shared memory, but {most}. None fits."
    if not block.shared_bytes:
        return "A block takes no shared memory, so this sets no limit."
    return (
        f"A block takes {block.shared_bytes:,} of the SM's {machine.shared_bytes:,} bytes of shared memory. {allowed}"
    )


def _rounding(o: Occupancy, block: Needs, machine: Machine) -> str:
    """Returns the rounding of registers and shared bytes in sentences."""
    exact = o.registers * 32
    return (
        f"{o.entry}: {o.registers} registers for each of 32 threads are {exact:,} for a warp, rounded up to "
        f"{block.registers_per_warp:,}. Each quarter of the SM holds whole warps, so the registers are enough for "
        f"{count(block.warps_by_registers, 'warp')}. A block's {o.shared_bytes:,} shared bytes and "
        f"{machine.reserved_bytes:,} of CUDA's own are rounded up to {block.shared_bytes:,}."
    )


def launches_table(found: Sequence[Occupancy]) -> pd.DataFrame:
    """Returns a row for each launch: its block, its registers, the blocks for each resource, and the result."""
    return pd.DataFrame(
        [
            {
                "kernel": o.entry,
                "grid blocks": o.grid_blocks,
                "threads": o.threads,
                "registers": o.registers,
                "shared bytes": o.shared_bytes,
                **{f"by {name}": count for name, count in o.limits.items()},
                "blocks per SM": o.blocks,
                "warps per SM": o.warps,
                "occupancy": f"{o.percent:.0f} %",
                "limited by": o.limited_by,
                "waves": round(o.waves, 2),
            }
            for o in found
        ]
    )


def sentence(o: Occupancy, machine: Machine, multiprocessors: int, name: str) -> str:
    """Returns one launch's occupancy in words. name: the GPU."""
    if not o.blocks:
        why = f"{o.limited_by} does not allow it. Choose smaller tiles."
        return f"{o.entry}: not one block fits on an SM of {name}: {why}"
    at_once = o.blocks * multiprocessors
    text = (
        f"{o.entry}: an SM of {name} holds {count(o.blocks, 'block')} of {count(o.threads, 'thread')}, {o.warps} of "
        f"{machine.warps} warps ({o.percent:.0f} %). The limit: "
        f"{o.limited_by}. "
    )
    if o.grid_blocks <= at_once:
        return (
            text
            + f"The {multiprocessors} SMs would hold {count(at_once, 'block')} at once. The grid has {o.grid_blocks:,}."
        )
    last = o.grid_blocks % at_once or at_once
    return (
        text
        + f"The grid's {o.grid_blocks:,} blocks make {o.waves:.2f} waves of {at_once:,}. The last one has {last:,}."
    )


def limits_chart(o: Occupancy, before: int = 0, then: Occupancy | None = None) -> alt.TopLevelMixin:
    """Returns the blocks per SM that each resource of one launch allows.

    Each resource comes at its step. The last step marks each resource with the least number of blocks.
    before: the steps of earlier launches.
    then: what the step after the last one shows, or None.
    """
    names, last = list(o.limits), before + len(o.limits) + 1
    each = [(o, name, n, last) for n, name in enumerate(names, before + 1)]
    each += [(o, name, last, last + 1 if then else 10**6) for name in names]
    each += [(then, name, last + 1, 10**6) for name in names] if then else []
    rows = pd.DataFrame(
        [
            {
                "resource": name,
                "blocks": one.limits[name],
                "what": "the limit" if at >= last and name in one.limiters else "would allow",
                "from": at,
                "to": until,
            }
            for one, name, at, until in each
        ]
    )
    scale = alt.Scale(domain=["the limit", "would allow"], range=[OKABE_ITO["vermillion"], OKABE_ITO["sky"]])
    y = alt.Y("resource:N", title=None, scale=alt.Scale(domain=names))
    across = alt.Scale(domain=[0, 1.1 * max(1, *o.limits.values())])  # room for the number at its end
    x = alt.X("blocks:Q", axis=None, scale=across)  # each bar has its number
    bars = alt.Chart(rows).mark_bar()
    colour = alt.Color("what:N", title=None, legend=alt.Legend(orient="top"), scale=scale)
    drawn = bars.encode(x=x, y=y, color=colour, tooltip=["resource:N", "blocks:Q"])
    numbers = alt.Chart(rows).mark_text(align="left", dx=4).encode(x=x, y=y, text="blocks:Q")
    now = "datum.from <= step && step < datum.to"
    shown = alt.layer(drawn.transform_filter(now), numbers.transform_filter(now))
    return shown.add_params(alt.param(name="step", value=1)).properties(height=100)


def alternatives_table(found: Sequence[tuple[dict[str, int], Occupancy | str]], now: dict[str, int]) -> pd.DataFrame:
    """Returns a row for each other size of a block (occupancy.alternatives), with a mark at the present one."""
    rows = []
    varied = [name for name in now if len({settings.get(name) for settings, _ in found}) > 1]
    for settings, result in found:
        row: dict[str, object] = {name: settings[name] for name in varied}
        row["now"] = "now" if all(now[name] == value for name, value in settings.items() if name in now) else ""
        if isinstance(result, Occupancy):
            row |= {
                "threads": result.threads,
                "registers": result.registers,
                "shared bytes": result.shared_bytes,
                "blocks per SM": result.blocks,
                "warps per SM": result.warps,
                "occupancy %": round(result.percent),
                "limited by": result.limited_by,
                "waves": round(result.waves, 2),
            }
        else:
            row |= {"limited by": result}
        rows.append(row)
    return pd.DataFrame(rows).convert_dtypes()


def stage_of(
    kernel: KernelSpec,
    found: Sequence[Occupancy],
    arch: str,
    machine: Machine,
    multiprocessors: int,
    name: str,
    checked: str,
) -> stage.Stage:
    """Returns the whole stage of the limits.

    kernel, arch: the kernel, and the architecture of its cubin.
    found: the occupancy of each launch.
    machine, multiprocessors, name: the limits of an SM, the number of SMs, and the GPU's name.
    checked: the known accuracy of the derivation, in a sentence.
    """
    meta, made = view(found, machine, name)
    said = (
        f"Derived from the registers and shared bytes of the timed build's cubin for {arch}, and the limits of its SM. "
        f"Nothing is launched for this. {checked}"
    )
    table = launches_table(found).set_index("kernel").T.reset_index(names="")
    before = [sum(len(o.limits) + 1 for o in found[:n]) for n in range(len(found))]
    then = next(iter(with_twice(found, machine)[len(found) :]), None)
    side = [block for o, steps in zip(found, before) for block in _limits(o, len(found) > 1, steps, then)]
    grids = [stage.text(sentence(o, machine, multiprocessors, name)) for o in found]
    facts = [stage.table(table.astype(str), "The needs of a block, and the blocks that fit."), *grids]
    rounded = [_rounding(o, needs(o.threads, o.registers, o.shared_bytes, machine), machine) for o in found]
    return stage.Stage(
        headline=stage.headline(kernel),
        frames=made,
        views=[stage.View("multiprocessor", "multiprocessor", "One SM", meta)],
        state=states(found, machine, made),
        tabs=[
            stage.Tab("facts", "Every figure", facts),
            stage.Tab("sizes", "Other tile sizes"),
            stage.Tab("builds", "Builds"),
            stage.Tab("labels", "How it is derived", [stage.text(said, "derived"), *map(stage.text, rounded)]),
        ],
        provenance=stage.Provenance("derived", said),
        summary=" ".join(sentence(o, machine, multiprocessors, name) for o in found if not o.blocks),
        tone="bad",
        side=side,
    )


def _limits(o: Occupancy, several: bool, before: int, then: Occupancy | None) -> list[stage.Block]:
    title = f"{o.entry}: blocks that each resource allows" if several else "Blocks that each resource allows"
    return [stage.chart(limits_chart(o, before, then), "Blocks per SM that each resource allows", "", title)]
