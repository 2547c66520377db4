"""Memory: measured latency and bandwidth against the working set. The steps are the working sets at the ends of the
plateaus."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import altair as alt
import pandas as pd

from explainers.charts.layers import chart_view
from explainers.models.memory_levels import (
    SPACES,
    bandwidths,
    beside,
    bytes_said,
    edges,
    labelled,
    latencies,
    levels_met,
    machine_of,
    nearest_bandwidth,
    nothing,
    plateaus,
    short_name,
    stairs,
    waits,
)
from explainers.stories.memory_hierarchy import places
from explainers.stories.memory_hierarchy.level_charts import COLOURS, FAR, bandwidth_chart, far_half, latency_chart
from explainers.stories.memory_hierarchy.tabs import broadcast_blocks, levels_tab, shapes_blocks
from explainers.story import probed, stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Block, Stage
from explainers.story.words import Row, Words
from kernels import catalog
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable
from kernels.measure import hierarchy as timed
from kernels.measure.bench_rows import Now
from kernels.measure.hierarchy import RUNS, Measured
from kernels.recordings import tables
from kernels.trace.probes import sites_of

WORDS = Words.of(str(__package__))
IN_STRIP = ("Shared memory", "L1 cache", "L2 cache", "Device memory")
FEW_USE = ("constant", "texture")  # spaces with a picture of their own
OTHERS = {  # a space in the strip -> its name
    "from_l2": "past L1",
    "shared": "shared memory",
    "constant": "constant memory",
    "texture": "texture",
}


@dataclass(frozen=True)
class Figures:
    """The shown figures.

    source: the GPU of the recording; empty for the latest one.
    at: the state of the recordings.
    now: the points of this machine, or None to show a recording.
    measured: the number of points that this machine has measured.
    gpu: the name of this machine's GPU, or "".
    """

    source: str
    at: tuple[tuple[str, int], ...]
    now: Now | None
    measured: int
    gpu: str


class Levels(Story[Figures]):
    """The levels of the memory, by a chase and a stream."""

    WANTS = ("walk",)

    def refusal(self, spec: KernelSpec) -> str:
        problem = spec.problem_type
        walks = "walk" in probed.marks(spec) and {"working_set", "space"} <= set(fields_of(problem))
        if walks and any(tensor.axes == ("clock",) for tensor in problem().tensors()):
            return ""
        return f"{spec.name} does not walk a working set between two clocks."

    def stage(self, subject: Figures, runner: Runner) -> Stage:
        spec, here, gpu = probed.first(self), list[Block](), subject.gpu
        if gpu:
            about = f"Measures every point of both charts on {gpu}, one after the other. Each point shows at once."
            meta = {"what": "hierarchy", "gpu": gpu, "about": about, "measured": subject.measured}
            here = [stage.live("measure", meta)]
        measured = _shown(subject)
        if measured is None or nothing(measured.table):
            tabs, why = [stage.Tab("now", "Measure on this GPU", here)] if here else [], "Nothing was measured yet."
            try:
                timed.recorded()
            except BackendUnavailable as error:
                why = str(error)
            return Stage(stage.headline(spec), [], [], [stage.code(probed.sample(spec), [])], tabs=tabs, summary=why)
        label, latest = ("measured" if subject.now else "recorded"), _latest()
        rows = labelled(measured.table, label)
        if subject.now and latest:
            rows = beside(latest, measured.table)
        return stage.warned(stage_of(measured, rows, label, spec, here), tables.left_out(timed.HIERARCHY))


def _shown(figures: Figures) -> Measured | None:
    """The table of the figures, or None."""
    now, latest = figures.now, _latest()
    if now is None:
        return timed.recorded(figures.source) if figures.source else latest
    table = pd.DataFrame(now.records())
    wanted = list(latest.table.columns) if latest else [*table.columns]
    return Measured(table.reindex(columns=wanted), now.device, now.driver, now.date, "")


def _latest() -> Measured | None:
    try:
        return timed.recorded()
    except BackendUnavailable:
        return None


# ---- data ----


def data_of(table: pd.DataFrame) -> Row:
    """The numbers of the texts and questions. known: whether the levels and the ends of both caches are measured.

    shared, l1, l2, far: cycles of the levels. fits: what L1 holds. spill: the number of the first chain with the wait
        for L2.
    """
    cycles, known = plateaus(table).set_index("level").cycles, edges(table)
    names = dict(zip(("shared", "l1", "l2", "far"), IN_STRIP))
    figures: Row = {name: cycles[level] for name, level in names.items()}
    chain = [wait for (space, _), wait in sorted(waits(table).items()) if space == "through_l1"]
    complete = not cycles[list(IN_STRIP)].isna().any()
    figures["waits"] = WORDS.say("waits", figures) if complete else ""
    return figures | {
        "known": len(known) == 2 and complete,
        "lesson": WORDS.say("lesson", figures) if complete else "",
        "fits": bytes_said(known[0].fits) if known else "",
        "spill": next((n for n, wait in enumerate(chain) if wait == figures["l2"]), 0),
        "far_half": bool(far_half(table)),
    }


def steps_of(table: pd.DataFrame, lines: dict[str, str]) -> list[Row]:
    """A row for each step. lines: space -> FILE:LINE of its load. A step has that of its first space.

    Columns: size, level. load, past, shared: cycles of a load through L1, past it and from shared memory, or None.
        in_flight: kB that the whole GPU can read during one load from device memory, at the last step.
    """
    levels, known, fits = levels_met(table), waits(table), {edge.fits for edge in edges(table)}
    far, sizes, rows = plateaus(table).set_index("level").loc["Device memory"], stairs(table), []
    in_flight = far.ns * far["GB/s"] / 1e3
    for number, size in enumerate(sizes):
        main = next((s for s in ("through_l1", *SPACES) if (s, size) in known and s in lines), "")
        load, past, shared = (known.get((s, size)) for s in ("through_l1", "from_l2", "shared"))
        rows.append(
            {
                "tile": number,
                "lines": {lines[main]: 1} if main else {},
                "size": bytes_said(size),
                "first": not number,
                "level": levels.get(size, ""),
                "load": load,
                "past": past,
                "shared": shared,
                "ends_here": size in fits,
                "in_flight": None if size != sizes[-1] or pd.isna(in_flight) else in_flight,
            }
        )
    return rows


def bandwidth_frames(table: pd.DataFrame, line: str = "") -> list[dict[str, object]]:
    """A frame for each step of the picture of bandwidth. line: that of the stream's load."""
    found, at, reads = list[dict[str, object]](), bandwidths(table), WORDS.table("reads")
    for number, size in enumerate(stairs(table, "bandwidth")):
        level = next((edge.level for edge in edges(table, "bandwidth") if size <= edge.fits), "beyond")
        row: dict[str, object] = {"size": bytes_said(size), "reads": reads[level]}
        row |= {"through": at.get(("through_l1", size)), "past": at.get(("from_l2", size))}
        said, lines = WORDS.say("read", row), {line: 1} if line else {}
        found.append({"title": f"{row['size']} of data", "tile": number, "lines": lines, "sentence": said})
    return found


def states(table: pd.DataFrame) -> list[stage.State]:
    """The strip: the levels with their cycles, marked at the steps in each. Everything also has the other figures."""
    at, met = stairs(table), levels_met(table)
    cycles = waits(table)
    ns = {size: ns for (space, size), (_, ns) in latencies(table).items() if space == "through_l1"}

    def figures(space: str) -> list[int | None]:
        return [round(cycles[space, size]) if (space, size) in cycles else None for size in at]

    bandwidth = [nearest_bandwidth(table, size) for size in at]
    said = [f"{b[0]:,.0f} GB/s at {bytes_said(b[1])}" if b else "no stream of this size" for b in bandwidth]
    found = [
        stage.State("this load", figures("through_l1"), "cycles", colour=COLOURS[SPACES["through_l1"]], deep=True),
        stage.State("in time", [round(ns[size], 1) if size in ns else None for size in at], "ns", deep=True),
        *(
            stage.State(name, figures(space), "cycles", colour=COLOURS[SPACES[space]], deep=True)
            for space, name in OTHERS.items()
            if any(value is not None for value in figures(space))
        ),
        stage.State("whole GPU reads", said, deep=True),
    ]
    far = far_half(table)
    for row in plateaus(table).itertuples():
        if row.level in IN_STRIP and pd.notna(row.cycles):
            wait, name = f"{row.cycles:.0f} cycles", short_name(row.level)
            marks = {f"in {name}": f"\u25b8 {wait}"} | ({FAR: f"\u25b8 far {far:.0f} cycles"} if far else {})
            here = [marks.get(met[size], wait) if met[size] != FAR or name == "L2" else wait for size in at]
            found.append(stage.State(name[0].upper() + name[1:], here))
    return found


def lines_of(spec: KernelSpec) -> dict[str, str]:
    """space -> FILE:LINE of the load of a chain in this space.

    Rule: a load of the walk below a line with SPACE_NAME belongs to that space. The remaining load belongs to the
    remaining space.
    """
    spaces = fields_of(spec.problem_type)["space"].metadata["allowed"]
    source = spec.source.splitlines()
    found, others = dict[str, str](), list[str]()
    walking = False
    for site in sites_of(Request(spec, spec.problem_type())):
        if site.kind == "mark":
            walking = site.event == "walk"
        if site.event != "load" or not walking:
            continue
        line_above = source[max(0, site.line - 2)]
        space = next((space for space in spaces if f"SPACE_{space.upper()}" in line_above), None)
        if space:
            found[space] = site.place
        else:
            others.append(site.place)
    remaining = [space for space in spaces if space not in found]
    return found | dict(zip(remaining, others))


# ---- the page ----


def stage_of(
    measured: Measured, shown: pd.DataFrame, label: str, spec: KernelSpec, here: Sequence[Block]
) -> stage.Stage:
    """The whole stage.

    measured: the table for sentences and steps.
    shown: the rows of the charts, from `beside`.
    label: measured or recorded.
    spec: the kernel of the chase.
    here: the controls for measuring on this machine.
    """
    table = measured.table
    data = data_of(table)
    stream = [
        one
        for one in catalog.current().kernels.values()
        if "walk" in probed.marks(one) and {"passes", "space"} <= set(fields_of(one.problem_type))
    ][:1]
    lines = lines_of(spec)
    steps = WORDS.frames(steps_of(table, lines), data)
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
        f"{WORDS.table('notes')['dashed']} {source}" if machine else source,
    )
    views = [
        *places.view(measured, label, data, lines),
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
        tabs=[*tabs, stage.Tab("levels", "The levels", levels_tab(measured, label, data)), *shared],
        provenance=stage.Provenance(label, said, place=stage.place(measured.device, measured.date)),
        questions=WORDS.questions(data, 0),
        summary=data["lesson"],
    )


def _bandwidth_view(table: pd.DataFrame, chart: alt.LayerChart, source: str, line: str) -> stage.View:
    """The picture of bandwidth, with steps of its own: its streams have other sizes than the chains."""
    about, at = "GB/s of the whole GPU against the size of the data", stairs(table, "bandwidth")
    made, known = _view("bandwidth", "Bandwidth", chart, about, at, source), bandwidths(table)
    rates = {s: [known.get((s, size)) for size in at] for s in SPACES}
    strip = [
        asdict(stage.State(name, [r and round(r) for r in rates[s]], "GB/s", colour=COLOURS[name]))
        for s, name in SPACES.items()
        if any(rates[s])
    ]
    return replace(made, meta={**made.meta, "clock": True, "frames": bandwidth_frames(table, line), "state": strip})


def _view(kind: str, title: str, chart: alt.LayerChart, about: str, at: Sequence[int], source: str) -> stage.View:
    rows = [row for table in chart.to_dict(validate=False)["datasets"].values() for row in table]
    drawn = {row["where"] for row in rows if "where" in row}
    colours = {name: colour for name, colour in COLOURS.items() if name in drawn}
    return chart_view(kind, title, chart, about, f"{WORDS.table('notes')[kind]} {source}", at, colours)


STORY = Levels()
