"""Occupancy: what limits the blocks on a multiprocessor, resource by resource, and what other tiles would give; the
timeline of a grid."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.stories.occupancy import grid
from explainers.stories.tiling.tiling import listed
from explainers.story import stage
from explainers.story.frames import GridFrame, MultiprocessorMeta, Resource, ResourceFrame, ResourceLaunch
from explainers.story.glossary import count
from kernels.build.occupancy import REGISTERS, Machine, Needs, Occupancy, needs
from kernels.core.spec import KernelSpec
from kernels.measure.timelines import Timeline

# ---- what limits the blocks ----


def frames(found: Sequence[Occupancy], machine: Machine, multiprocessors: int, name: str) -> list[ResourceFrame]:
    """For each launch a step for each resource, and one for what they leave together."""
    made: list[ResourceFrame] = []
    for number, o in enumerate(found):
        block = needs(o.threads, o.registers, o.shared_bytes, machine)
        said = _resource_sentences(o, block, machine)
        where = f"{o.entry} · " if len(found) > 1 else ""
        for shown, resource in enumerate(o.limits, 1):
            made.append(_frame(number, shown, f"{where}{resource}", said[resource]))
        made.append(_frame(number, len(o.limits) + 1, f"{where}together", sentence(o, machine, multiprocessors, name)))
    return made


def view(
    found: Sequence[Occupancy], machine: Machine, multiprocessors: int, name: str
) -> tuple[MultiprocessorMeta, list[ResourceFrame]]:
    """What the view `multiprocessor` draws, and the frames. name: of the GPU."""
    launches: list[ResourceLaunch] = []
    for o in found:
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
        launches.append({"entry": o.entry, "warps": block.warps, "blocks": o.blocks, "resources": resources})
    return {"gpu": name, "launches": launches}, frames(found, machine, multiprocessors, name)


def states(found: Sequence[Occupancy], machine: Machine, made: Sequence[ResourceFrame]) -> list[stage.State]:
    """The strip: the blocks and the warps that the resources so far allow, and the limit. The limit is open until all
    resources of a launch are counted."""
    so_far = [dict(list(found[f["launch"]].limits.items())[: f["shown"]]) for f in made]
    blocks = [min(allowed.values()) for allowed in so_far]
    each = [-(-found[f["launch"]].threads // 32) for f in made]
    limit = [
        listed(list(o.limiters)) if f["shown"] >= len(o.limits) else f"open: {f['shown']} of {len(o.limits)} counted"
        for f, o in ((f, found[f["launch"]]) for f in made)
    ]
    return [
        stage.State("blocks so far", blocks, of=machine.blocks),
        stage.State("warps so far", [b * w for b, w in zip(blocks, each)], of=machine.warps),
        stage.State("limited by", limit),
    ]


def _frame(launch: int, shown: int, title: str, said: str) -> ResourceFrame:
    return {"tile": launch, "title": title, "sentence": said, "launch": launch, "shown": shown}


def _resource_sentences(o: Occupancy, block: Needs, machine: Machine) -> dict[str, str]:
    """For each resource what one block takes of it, and how many blocks that allows."""
    warps, per_block = count(block.warps, "warp"), block.warps * block.registers_per_warp
    exact = o.registers * 32
    rounded = "" if exact == block.registers_per_warp else f", rounded up to {block.registers_per_warp:,}"
    registers = (
        f"Registers: {o.registers} a thread × 32 threads are {exact:,} a warp{rounded}; {warps} take {per_block:,}. "
        f"Of {REGISTERS:,} each fourth holds whole warps, {block.warps_by_registers} in all; "
        f"{block.warps_by_registers} / {block.warps} = {count(o.limits['registers'], 'block')}."
    )
    shared = (
        f"Shared memory: {o.shared_bytes:,} bytes and {machine.reserved_bytes:,} of CUDA's own, rounded up to "
        f"{block.shared_bytes:,} for a block; "
    )
    if o.shared_bytes > machine.shared_bytes_per_block:
        shared += f"one block may have {machine.shared_bytes_per_block:,}: none fits."
    elif block.shared_bytes:
        fits = count(o.limits["shared memory"], "block")
        shared += f"{machine.shared_bytes:,} / {block.shared_bytes:,} = {fits}."
    else:
        shared = "Shared memory: a block takes none, so it sets no limit."
    return {
        "warps": f"Warps: a block of {o.threads:,} threads is {warps}; {machine.warps} / {block.warps} = "
        f"{count(o.limits['warps'], 'block')}.",
        "blocks": f"Blocks: a multiprocessor keeps at most {machine.blocks}, whatever they take.",
        "registers": registers,
        "shared memory": shared,
    }


def launches_table(found: Sequence[Occupancy]) -> pd.DataFrame:
    """A row per launch: its block, its registers, what each resource allows, and what is left."""
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
    """One launch's occupancy in words. name: of the GPU."""
    if not o.blocks:
        why = f"{o.limited_by} does not allow it. Choose smaller tiles."
        return f"{o.entry}: not one block fits on a multiprocessor of {name}: {why}"
    at_once = o.blocks * multiprocessors
    text = (
        f"{o.entry}: a multiprocessor of {name} holds {o.blocks} blocks of {o.threads} threads, {o.warps} of "
        f"{machine.warps} warps ({o.percent:.0f} %); {o.limited_by} "
        f"{'is' if o.limited_by == 'shared memory' else 'are'} the limit. "
    )
    if o.grid_blocks <= at_once:
        return (
            text
            + f"The grid's {o.grid_blocks:,} blocks fit at once on {multiprocessors} multiprocessors, "
            + f"which would hold {at_once:,}."
        )
    last = o.grid_blocks % at_once or at_once
    return (
        text
        + f"The grid's {o.grid_blocks:,} blocks make {o.waves:.2f} waves of {at_once:,}; the last one has {last:,}."
    )


def limits_chart(o: Occupancy, before: int = 0) -> alt.TopLevelMixin:
    """Blocks per multiprocessor that each resource allows one launch, on a scale of its own, from the step on that
    counts it; the least is what there is, and once all are counted every resource that allows no more is marked.
    before: how many steps other launches have before this one's."""
    names, last = list(o.limits), before + len(o.limits) + 1
    rows = pd.DataFrame(
        [
            {"resource": name, "blocks": allowed, "what": what, "from": at, "to": until}
            for n, (name, allowed) in enumerate(o.limits.items(), 1)
            for what, at, until in (
                ("would allow", before + n, last),
                ("the limit" if name in o.limiters else "would allow", last, 10**6),
            )
        ]
    )
    scale = alt.Scale(domain=["the limit", "would allow"], range=[OKABE_ITO["vermillion"], OKABE_ITO["sky"]])
    y = alt.Y("resource:N", title=None, scale=alt.Scale(domain=names))
    across = alt.Scale(domain=[0, 1.1 * max(1, *o.limits.values())])  # room for the number at its end
    x = alt.X("blocks:Q", title="blocks per multiprocessor", axis=alt.Axis(tickMinStep=1), scale=across)
    bars = alt.Chart(rows).mark_bar()
    colour = alt.Color("what:N", title=None, legend=alt.Legend(orient="top"), scale=scale)
    drawn = bars.encode(x=x, y=y, color=colour, tooltip=["resource:N", "blocks:Q"])
    numbers = alt.Chart(rows).mark_text(align="left", dx=4).encode(x=x, y=y, text="blocks:Q")
    now = "datum.from <= step && step < datum.to"
    shown = alt.layer(drawn.transform_filter(now), numbers.transform_filter(now))
    return shown.add_params(alt.param(name="step", value=1)).properties(height=130)


def alternatives_table(found: Sequence[tuple[dict[str, int], Occupancy | str]], now: dict[str, int]) -> pd.DataFrame:
    """What other sizes of a block would give (occupancy.alternatives): a row per choice, the present one marked."""
    rows = []
    varied = [name for name in now if len({settings.get(name) for settings, _ in found}) > 1]
    for settings, result in found:
        row: dict[str, Any] = {name: settings[name] for name in varied}
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


# ---- the timeline ----


def _running(table: pd.DataFrame, moments: np.ndarray) -> np.ndarray:
    """How many of these blocks are running at each moment (ns)."""
    begun, ended = (np.searchsorted(np.sort(times), moments, "right") for times in (table.start_ns, table.end_ns))
    return begun - ended


def timeline_facts(timeline: Timeline) -> dict[str, float]:
    """Of all launches together: blocks, us from the first start to the last end, most blocks at once, blocks' shortest,
    median and longest us, busy: mean share of the multiprocessors that ran a block, tail_us: from when fewer than half
    of them did to the end."""
    table = timeline.table
    length, end = (table.end_ns - table.start_ns).to_numpy(), table.end_ns.max()
    grid = np.linspace(0, end, 400, endpoint=False) + end / 800
    busy = np.zeros(len(grid))
    for _, part in table.groupby("sm"):
        busy += _running(part, grid) > 0
    full = np.flatnonzero(busy >= timeline.multiprocessors / 2)
    tail = end - grid[full[-1]] if len(full) else end
    return {
        "blocks": len(table),
        "us": end / 1000,
        "at_once": int(_running(table, grid).max()),
        "shortest_us": length.min() / 1000,
        "median_us": float(np.median(length)) / 1000,
        "longest_us": length.max() / 1000,
        "busy": float(busy.mean() / timeline.multiprocessors),
        "tail_us": tail / 1000,
        "multiprocessors": int(table.sm.nunique()),
    }


def timeline_sentence(timeline: Timeline, facts: dict[str, float]) -> str:
    """What the timeline shows, with its numbers."""
    text = (
        f"{facts['blocks']:,} blocks ran on {facts['multiprocessors']} of {timeline.multiprocessors} multiprocessors "
        f"in {facts['us']:,.0f} µs, up to {facts['at_once']:,} at once. The longest block took "
        f"{facts['longest_us']:,.1f} µs, {facts['longest_us'] / facts['shortest_us']:,.0f} times the shortest. "
    )
    if timeline.left:
        text += f"{timeline.left:,} more blocks had nothing to do and left at once. "
    return text + (
        f"On average {100 * facts['busy']:.0f} % of the multiprocessors had a block; in the last "
        f"{facts['tail_us']:,.0f} µs ({100 * facts['tail_us'] / facts['us']:.0f} %) fewer than half did."
    )


def running_chart(timeline: Timeline, made: Sequence[GridFrame]) -> alt.TopLevelMixin:
    """How many blocks are running at each moment; a rule marks the step's. made: grid.explain's frames."""
    moments = np.linspace(0, timeline.table.end_ns.max(), 300)
    table = pd.DataFrame({"us": moments / 1000, "blocks": _running(timeline.table, moments)})
    steps = pd.DataFrame({"us": [f["at"] for f in made], "number": range(1, len(made) + 1)})
    x = alt.X("us:Q", title="µs", scale=alt.Scale(nice=False))
    area = alt.Chart(table).mark_area(
        interpolate="step-after", color=OKABE_ITO["sky"], line={"color": OKABE_ITO["blue"]}
    )
    drawn = area.encode(
        x=x,
        y=alt.Y("blocks:Q", title="blocks running", stack=None),
        tooltip=[alt.Tooltip("us:Q", format=",.1f"), "blocks:Q"],
    )
    step = alt.param(name="step", value=1)
    rule = alt.Chart(steps).mark_rule(strokeWidth=2, color=OKABE_ITO["vermillion"]).encode(x=x)
    return alt.layer(drawn, rule.transform_filter("datum.number == step")).add_params(step).properties(height=180)


# ---- the stages ----

FACTS = {  # what the page calls them
    "blocks": "blocks that ran",
    "us": "µs from the first begin to the last end",
    "at_once": "most blocks at once",
    "shortest_us": "shortest block, µs",
    "median_us": "median block, µs",
    "longest_us": "longest block, µs",
    "busy": "mean share of multiprocessors with a block",
    "tail_us": "µs at the end in which fewer than half had one",
    "multiprocessors": "multiprocessors that had a block",
}


def stage_of(
    kernel: KernelSpec,
    found: Sequence[Occupancy],
    arch: str,
    machine: Machine,
    multiprocessors: int,
    name: str,
    checked: str,
) -> stage.Stage:
    """The whole stage of the limits. name: of the GPU; checked: how right the derivation is known to be."""
    meta, made = view(found, machine, multiprocessors, name)
    said = (
        f"Derived from the registers and shared bytes of the timed build's cubin for {arch}, and the limits of its "
        f"multiprocessor. Nothing is launched for this. {checked}"
    )
    table = launches_table(found).set_index("kernel").T.reset_index(names="")
    before = [sum(len(o.limits) + 1 for o in found[:n]) for n in range(len(found))]
    side = [block for o, steps in zip(found, before) for block in _limits(o, len(found) > 1, steps)]
    facts = [stage.table(table.astype(str), "What a block takes, and what that allows.")]
    return stage.Stage(
        headline=stage.headline(kernel),
        frames=made,
        views=[stage.View("multiprocessor", "multiprocessor", "One multiprocessor", meta)],
        state=states(found, machine, made),
        tabs=[
            stage.Tab("facts", "Every figure", facts),
            stage.Tab("sizes", "Other tile sizes"),
            stage.Tab("builds", "Builds"),
            stage.Tab("labels", "How it is derived", [stage.text(said, "derived")]),
        ],
        provenance=stage.Provenance("derived", said),
        summary=" ".join(sentence(o, machine, multiprocessors, name) for o in found if not o.blocks),
        tone="bad",
        side=side,
    )


def timeline_stage(timeline: Timeline, label: str) -> stage.Stage:
    """The whole stage of a timeline. label: of the build and its problem."""
    request, facts = timeline.request, timeline_facts(timeline)
    made = grid.explain(request, grid.recorded(timeline), traced=False)
    said = (
        f"{timeline.provenance.capitalize()} on {timeline.device}, {timeline.date}: {label}. Each block's first thread "
        "noted its multiprocessor and the GPU's global timer (in steps of 32 ns) where its probes would begin and at "
        "its end, in a build of its own: not a kernel's time. Launches follow one another."
    )
    chart = stage.chart(
        running_chart(timeline, made.frames),
        "Blocks running at each moment; a rule marks the step",
        "",
        "Blocks running",
    )
    rows = pd.DataFrame(
        [(FACTS[name], f"{value:,.4g}") for name, value in facts.items()], columns=["of all launches", ""]
    )
    return stage.Stage(
        headline=stage.headline(request.kernel),
        frames=made.frames,
        views=[stage.View("grid", "grid", "Whole grid", made.meta, made.columns)],
        state=made.states,
        provenance=stage.Provenance(timeline.provenance, said),
        tabs=[stage.Tab("facts", "Every figure", [stage.table(rows)])],
        summary=timeline_sentence(timeline, facts),
        side=[chart],
    )


def _limits(o: Occupancy, several: bool, before: int) -> list[stage.Block]:
    title = f"{o.entry}: blocks that each resource allows" if several else "Blocks that each resource allows"
    return [stage.chart(limits_chart(o, before), "Blocks per multiprocessor that each resource allows", "", title)]
