"""The memory hierarchy: measured latency and bandwidth against the working set.

The steps of the clock are the working sets at the ends of the plateaus.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace

import altair as alt
import pandas as pd

from explainers.charts.chart_view import chart_view
from explainers.stories.memory_hierarchy.broadcast_tab import broadcast_blocks
from explainers.stories.memory_hierarchy.level_charts import (
    COLOURS,
    DASHED,
    FAR,
    NOTES,
    bandwidth_chart,
    far_half,
    latency_chart,
)
from explainers.stories.memory_hierarchy.level_questions import questions
from explainers.stories.memory_hierarchy.levels_tab import lesson, levels_tab
from explainers.stories.memory_hierarchy.memory_levels import (
    SPACES,
    bandwidths,
    bytes_said,
    edges,
    latencies,
    levels_met,
    machine_of,
    nearest_bandwidth,
    plateaus,
    short_name,
    stairs,
)
from explainers.stories.memory_hierarchy.shapes_tab import shapes_blocks
from explainers.story import probed, stage
from explainers.story.stage import Block
from kernels import catalog
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure.hierarchy import RUNS, Measured
from kernels.trace.probes import Site, sites_of


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel walks a working set of a chosen size and logs the clock."""
    problem = spec.problem_type
    walks = "walk" in probed.marks(spec) and {"working_set", "space"} <= set(fields_of(problem))
    return walks and any(tensor.axes == ("clock",) for tensor in problem().tensors())


def streams(spec: KernelSpec) -> bool:
    """Whether the kernel reads a space in several passes."""
    return "walk" in probed.marks(spec) and {"passes", "space"} <= set(fields_of(spec.problem_type))


WANTS = ("walk",)
OTHERS = {  # a space in the strip -> its name
    "from_l2": "past L1",
    "shared": "shared memory",
    "constant": "constant memory",
    "texture": "texture",
}
IN_STRIP = ("Shared memory", "L1 cache", "L2 cache", "Device memory")
FEW_USE = ("constant", "texture")  # spaces with a picture of their own
WHY = {  # the level of a load -> the reason for its cycles
    "in L1": "All of it fits in L1, the cache of one SM.",
    "partly in L1": "L1 holds only a part of it, and L2 brings the rest.",
    "in L2": "It does not fit in L1, so the load goes on to L2, the cache of all SMs.",
    "partly in L2": "L2 holds only a part of it, and device memory brings the rest.",
    "in device memory": "It does not fit in L2, so the load goes to device memory, outside the chip.",
}
CHAIN = "One thread follows a chain: each load brings the address of the next."
FAR_HALF = {
    "partly in L2": "It is slower than a near part of L2, but faster than device memory. Likely, these loads go to the "
    "half of L2 that is farther from this SM."
}  # if these sizes are a plateau
READS = {  # the end of the L1 of all SMs, of L2 and of device memory -> the source of a stream
    "L1 cache": "Each SM finds its part in its own L1, or in L2 if its loads go past L1.",
    "L2 cache": "The L1 caches hold at most a part of it, and L2 brings the rest.",
    "": "The caches hold at most a part of it, and device memory brings the rest.",
}


def frames(table: pd.DataFrame, lines: dict[str, str]) -> list[dict[str, object]]:
    """Returns a frame for each step. lines: space -> source line of its load. A frame has that of its first space."""
    found, levels, known, fits = [], levels_met(table), latencies(table), {edge.fits for edge in edges(table)}
    steps, why = stairs(table), WHY | (FAR_HALF if far_half(table) else {})
    for number, size in enumerate(steps):
        figures = {space: known[space, size] for space in SPACES if (space, size) in known}
        main = next((space for space in ("through_l1", *figures) if space in figures and space in lines), "")
        lit = {lines[main]: 1} if main else {}
        said = size_sentence(size, figures, why.get(levels[size], ""))
        if "through_l1" in figures:
            said += _beside(figures, levels[size]) if size not in fits else " More data takes longer."
        if not number:
            said = f"{CHAIN} {said}"
        if size == steps[-1]:
            said += _in_flight(table)
        found.append({"title": f"{bytes_said(size)} of data", "tile": number, "lines": lit, "sentence": said})
    return found


def size_sentence(size: int, figures: dict[str, tuple[float, float]], why: str) -> str:
    """Returns the cycles of a load, and their reason. figures: space -> (cycles, ns)."""
    if "through_l1" not in figures:
        others = {"past L1": figures.get("from_l2"), "from shared memory": figures.get("shared")}
        rest = " and ".join(f"a load {load} takes {found[0]:.0f} cycles" for load, found in others.items() if found)
        return f"With {bytes_said(size)} of data, {rest}."
    cycles, _ = figures["through_l1"]
    return f"With {bytes_said(size)} of data, a load takes {cycles:.0f} cycles. {why}".rstrip()


def _beside(figures: dict[str, tuple[float, float]], level: str) -> str:
    """Returns the cycles of another way to the same data, or "" without one."""
    if level == "in L1" and "from_l2" in figures:
        return f" A load past L1 takes {figures['from_l2'][0]:.0f}."
    return f" From shared memory, it takes {figures['shared'][0]:.0f}." if "shared" in figures else ""


def _in_flight(table: pd.DataFrame) -> str:
    """Returns the bytes that the whole GPU can read during one load from device memory, or ""."""
    far = plateaus(table).set_index("level").loc["Device memory"]
    read = far.ns * far["GB/s"] / 1e3  # kB
    return (
        ""
        if pd.isna(read)
        else f" Meanwhile, the GPU could read {read:,.0f} kB: to hide the wait, kernels keep as much under way."
    )


def bandwidth_frames(table: pd.DataFrame, line: str = "") -> list[dict[str, object]]:
    """Returns a frame for each step of the picture of bandwidth. line: that of the stream's load."""
    found, at = [], bandwidths(table)
    for number, size in enumerate(stairs(table, "bandwidth")):
        why = next((READS[edge.level] for edge in edges(table, "bandwidth") if size <= edge.fits), READS[""])
        streams = {"through L1": at.get(("through_l1", size)), "past L1": at.get(("from_l2", size))}
        known = [f"{read:,.0f} GB/s {way}" for way, read in streams.items() if read]
        said = f"With {bytes_said(size)} of data, all SMs together read {' and '.join(known)}. {why}"
        lines = {line: 1} if line else {}
        found.append({"title": f"{bytes_said(size)} of data", "tile": number, "lines": lines, "sentence": said})
    return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value)


def _bandwidth_states(table: pd.DataFrame) -> list[stage.State]:
    """Returns the strip of the picture of bandwidth: GB/s of each way at its steps."""
    known, at = bandwidths(table), stairs(table, "bandwidth")
    spaces = [space for space in SPACES if any((space, size) in known for size in at)]
    return [
        stage.State(
            SPACES[space], [_rounded(known.get((space, size))) for size in at], "GB/s", colour=COLOURS[SPACES[space]]
        )
        for space in spaces
    ]


def states(table: pd.DataFrame) -> list[stage.State]:
    """Returns the strip: the levels with their cycles next to one another. Everything also has the other figures."""
    at, known, met = stairs(table), latencies(table), levels_met(table)

    def figures(space: str, which: int = 0) -> list[float | None]:
        return [round(known[space, size][which], 1) if (space, size) in known else None for size in at]

    bandwidth = [nearest_bandwidth(table, size) for size in at]
    said = [f"{b[0]:,.0f} GB/s at {bytes_said(b[1])}" if b else "no stream of this size" for b in bandwidth]
    return [
        stage.State("this load", figures("through_l1"), "cycles", colour=COLOURS[SPACES["through_l1"]], deep=True),
        stage.State("in time", figures("through_l1", 1), "ns", deep=True),
        *(
            stage.State(name, figures(space), "cycles", colour=COLOURS[SPACES[space]], deep=True)
            for space, name in OTHERS.items()
            if any(value is not None for value in figures(space))
        ),
        stage.State("whole GPU reads", said, deep=True),
        *_levels(table, [met[size] for size in at]),
    ]


def _levels(table: pd.DataFrame, met: Sequence[str]) -> list[stage.State]:
    """Returns an entry for each measured level: its cycles, with a mark at the steps that lie in it."""
    found, far = [], far_half(table)
    for row in plateaus(table).itertuples():
        if row.level in IN_STRIP and pd.notna(row.cycles):
            said, name = f"{row.cycles:.0f} cycles", short_name(row.level)
            marks = {f"in {name}": f"\u25b8 {said}"} | ({FAR: f"\u25b8 far {far:.0f} cycles"} if far else {})
            values = [marks.get(level, said) if level != FAR or name == "L2" else said for level in met]
            found.append(stage.State(name[0].upper() + name[1:], values))
    return found


def lines_of(spec: KernelSpec) -> dict[str, str]:
    """Returns space -> FILE:LINE of the load of a chain in this space.

    Rule: a load of the walk below a line with SPACE_NAME belongs to that space. The remaining load belongs to the
    remaining space.
    """
    spaces = fields_of(spec.problem_type)["space"].metadata["allowed"]
    source = spec.source.splitlines()
    found: dict[str, str] = {}
    others: list[str] = []
    for site in _loads_of_walk(spec):
        line_above = source[max(0, site.line - 2)]
        space = next((space for space in spaces if f"SPACE_{space.upper()}" in line_above), None)
        if space:
            found[space] = site.place
        else:
            others.append(site.place)
    remaining = [space for space in spaces if space not in found]
    return found | dict(zip(remaining, others))


def _loads_of_walk(spec: KernelSpec) -> list[Site]:
    """Returns the probes of loads between the mark `walk` and the next mark."""
    found, walking = [], False
    for site in sites_of(Request(spec, spec.problem_type())):
        if site.kind == "mark":
            walking = site.event == "walk"
        elif walking and site.event == "load":
            found.append(site)
    return found


def stage_of(
    measured: Measured, shown: pd.DataFrame, label: str, spec: KernelSpec, here: Sequence[Block]
) -> stage.Stage:
    """Returns the whole stage.

    measured: the table for sentences and steps.
    shown: the rows of the charts, from `beside`.
    label: measured or recorded.
    spec: the kernel of the chase.
    here: the controls for measuring on this machine.
    """
    table = measured.table
    stream = [one for one in catalog.current().kernels.values() if streams(one)][:1]
    steps = frames(table, lines_of(spec))
    code = stage.code(probed.sample(spec), steps)
    at, machine = stairs(table), machine_of(measured.device)
    few, bandwidth = shown[~shown.space.isin(FEW_USE)], bandwidth_chart(shown, table)
    about = "Cycles of one load for each size of the data"
    source = f"{label.capitalize()} on {measured.device}, {measured.date}, median of {RUNS} runs."
    others = _view(
        "others",
        "Constant and texture",
        latency_chart(shown, table, machine),
        about,
        at,
        DASHED * bool(machine) + source,
    )
    views = [
        _view("latency", "Latency", latency_chart(few, table), about, at, source),
        *([others] if len(few) < len(shown) else []),
        _bandwidth_view(table, bandwidth, source, next((lines_of(one)["through_l1"] for one in stream), "")),
    ]
    said = (
        f"{label.capitalize()} on {measured.device}, driver {measured.driver}, {measured.date}: median of {RUNS} runs."
    )
    tabs = [stage.Tab("now", "Measure on this GPU", list(here))] if here else []
    both = (("broadcast", "One address or many", broadcast_blocks()), ("shapes", "Rows and columns", shapes_blocks()))
    shared = [stage.Tab(kind, title, blocks) for kind, title, blocks in both if blocks]
    return stage.Stage(
        headline=stage.headline(spec),
        frames=steps,
        views=views,
        codes=[replace(code, files=[*code.files, *(stage.source_file(one.path.name, one.source) for one in stream)])],
        state=states(table),
        tabs=[*tabs, stage.Tab("levels", "The levels", levels_tab(measured, label)), *shared],
        provenance=stage.Provenance(label, said, place=stage.place(measured.device, measured.date)),
        questions=[replace(question, hides=[*question.hides, lesson(table)]) for question in questions(table)],
        summary=lesson(table),
    )


def _bandwidth_view(table: pd.DataFrame, chart: alt.LayerChart, source: str, line: str) -> stage.View:
    """Returns the picture of bandwidth, with steps of its own: its streams have other sizes than the chains."""
    about, at = "GB/s of the whole GPU against the size of the data", stairs(table, "bandwidth")
    made = _view("bandwidth", "Bandwidth", chart, about, at, source)
    states = [asdict(state) for state in _bandwidth_states(table)]
    return replace(made, meta={**made.meta, "clock": True, "frames": bandwidth_frames(table, line), "state": states})


def _view(kind: str, title: str, chart: alt.LayerChart, about: str, at: Sequence[int], source: str) -> stage.View:
    rows = [row for table in chart.to_dict(validate=False)["datasets"].values() for row in table]
    drawn = {row["where"] for row in rows if "where" in row}
    colours = {name: colour for name, colour in COLOURS.items() if name in drawn}
    return chart_view(kind, title, chart, about, f"{NOTES[kind]} {source}", at, colours)
