"""The memory hierarchy: measured latency and bandwidth against the working set, where each cache ends, the plateaus,
and the textbook's figures beside them. The clock's steps are the chain's working sets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from explainers.charts.inline import Inline
from explainers.charts.palette import AXIS, OKABE_ITO
from explainers.stories.bank_conflicts import bank_conflicts
from explainers.stories.block_table import block_table
from explainers.stories.coalescing import coalescing
from explainers.stories.registers import threads
from explainers.stories.tiling import tiling
from explainers.stories.timing.timing_charts import decades, named_ends
from explainers.story import probed, stage
from explainers.story.stage import Block
from kernels.build.occupancy import MACHINES, Machine, arch_named
from kernels.core.fields import fields_of, write_value
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure.hierarchy import RUNS, Measured
from kernels.trace.probes import sites_of

KIB, MIB = 2**10, 2**20
SPACES = {  # where the loads of a chase or a stream go -> in words
    "shared": "shared memory",
    "through_l1": "global, through L1",
    "from_l2": "global, past L1",
    "copy": "copy, read + written",
}
COLOURS = dict(zip(SPACES.values(), (OKABE_ITO[name] for name in ("green", "blue", "orange", "purple"))))
# name, textbook latency in cycles, latency: (space, from, to), bandwidth: (space, from, to); bytes of the working set
LEVELS = (
    ("Registers", 1, None, None),
    ("Shared memory", 20, ("shared", KIB, 256 * KIB), ("shared", 0, 2**40)),
    ("L1 cache", 28, ("through_l1", KIB, 128 * KIB), ("through_l1", 0, 26 * MIB)),
    ("L2 cache", 200, ("from_l2", 512 * KIB, 16 * MIB), ("from_l2", 0, 44 * MIB)),
    ("Device memory", 400, ("from_l2", 128 * MIB, 2**40), ("from_l2", 128 * MIB, 2**40)),
)


def labelled(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The measured rows with what the charts need: where (the space's name), source (recorded or measured)."""
    return table.assign(where=table.space.map(SPACES), source=source)


def beside(measured: Measured, now: pd.DataFrame) -> pd.DataFrame:
    """The rows of the charts: those that were just measured (none, or some), and those that are recorded, each
    labelled."""
    recorded = labelled(measured.table, f"recorded, {measured.device}")
    return recorded if now.empty else pd.concat([labelled(now, "measured now"), recorded])


def plateaus(table: pd.DataFrame) -> pd.DataFrame:
    """Per level: textbook cycles, and of the rows in its range the median cycles, ns and GB/s; None where nothing was
    measured."""
    rows = []
    for name, textbook, latency, bandwidth in LEVELS:
        row = {"level": name, "textbook cycles": textbook, "cycles": None, "ns": None, "GB/s": None}
        row |= _medians(table, "latency", latency, {"cycles": "cycles", "ns": "ns"})
        rows.append(row | _medians(table, "bandwidth", bandwidth, {"GB/s": "gb_per_s"}))
    copies = table[(table.kind == "bandwidth") & (table.space == "copy")]
    copied = copies.gb_per_s.max() if len(copies) else None
    rows.append({"level": "Device memory, copy", "textbook cycles": None, "cycles": None, "ns": None, "GB/s": copied})
    return pd.DataFrame(rows)


def _medians(
    table: pd.DataFrame, kind: str, wanted: tuple[str, int, int] | None, names: dict[str, str]
) -> dict[str, float | None]:
    """Shown name -> the median of its column over the rows of a kind, a space and a range of working sets; wanted None:
    nothing."""
    if not wanted:
        return {}
    space, low, high = wanted
    part = table[(table.kind == kind) & (table.space == space) & table.working_set.between(low, high)]
    return {shown: part[column].median() if len(part) else None for shown, column in names.items()}


def as_text(levels: pd.DataFrame) -> pd.DataFrame:
    """The plateaus as a table of texts, nothing where nothing was measured."""
    formats = {"textbook cycles": "{:.0f}", "cycles": "{:.1f}", "ns": "{:.1f}", "GB/s": "{:,.0f}"}
    texts = {name: ["" if pd.isna(v) else form.format(v) for v in levels[name]] for name, form in formats.items()}
    return levels.assign(**texts)


def sentence(levels: pd.DataFrame, device: str) -> str:
    """What the plateaus say, with their numbers."""
    at = levels.set_index("level")
    l1, l2, far = (at.cycles[name] for name in ("L1 cache", "L2 cache", "Device memory"))
    if pd.isna(l1) or pd.isna(l2) or pd.isna(far):
        return f"Only a part of {device} has been measured so far."
    return (
        f"On {device} a load waits {at.cycles['Shared memory']:.0f} cycles for shared memory, {l1:.0f} for L1, "
        f"{l2:.0f} for L2 and {far:.0f} "
        f"for device memory: L2 is {l2 / l1:.1f} times as far as L1, device memory {far / l1:.1f} times."
    )


# ---- where a cache ends ----


class Edge(NamedTuple):
    """Where a level ends. fits: the largest working set that has the level's own figure; leaves: the smallest that was
    measured above it, None if none was. Bytes."""

    level: str
    fits: int
    leaves: int | None


ROW = 20  # pixels between the names of two caches
NEAR = 0.1  # of the plateau: what is this near has the level's own figure


def kernels_that_meet() -> list[Block]:
    """For each level the story in which a kernel meets it, with its kernel, its problem and the step that shows it."""
    rung, paged = threads.first(probed.accepting(tiling).values()), probed.first(block_table)
    banks, sectors, tiled = (probed.first(module) for module in (bank_conflicts, coalescing, tiling))
    first = {"step": "1"}  # Registers opens by itself where a row is held
    shown = [  # level, story, its kernel, what is seen there, what else is chosen
        ("Registers", "registers", rung, "scores that never leave the registers", {}),
        ("Shared memory", "bank_conflicts", banks, "32 lanes that want the same bank of it", first),
        ("L1 cache", "coalescing", sectors, "how many sectors a load of a warp brings", first),
        ("L2 cache", "block_table", paged, "a KV cache whose pages lie anywhere", {"view": "walk", "step": "2"}),
        ("Device memory", "tiling", tiled, "a tile that a kernel fetches from it", {"step": "2"}),
    ]
    made = []
    for level, path, kernel, said, more in shown:
        fields = {} if path == "block_table" else _fields(kernel)  # there the scenario says the problem
        made.append(stage.link(f"{level}: {said}, in {kernel.name}", path, {"kernel": kernel.name, **fields, **more}))
    return made


def _fields(kernel: KernelSpec) -> dict[str, str]:
    problem = kernel.problem_type()
    return {name: write_value(getattr(problem, name)) for name in fields_of(kernel.problem_type)}


def accepts(spec: KernelSpec) -> bool:
    """A kernel that walks a working set of a chosen size and notes the clock."""
    problem = spec.problem_type
    walks = "walk" in probed.marks(spec) and "working_set" in fields_of(problem)
    return walks and any(tensor.axes == ("clock",) for tensor in problem().tensors())


WANTS = ("walk",)


def edges(table: pd.DataFrame, kind: str = "latency") -> list[Edge]:
    """Where the caches end, by what was measured.

    Rule: the level's figure is the median over its plateau (LEVELS); from the plateau's first working set on, `fits` is
    the last within a tenth of it, and `leaves` the next one.
    """
    column = "cycles" if kind == "latency" else "gb_per_s"
    found = []
    for name, _, *wanted in LEVELS:
        of_kind = wanted[0] if kind == "latency" else wanted[1]
        if not name.endswith("cache") or not of_kind:
            continue
        space, low, high = of_kind
        rows = table[(table.kind == kind) & (table.space == space)].sort_values("working_set")
        plateau = rows[rows.working_set.between(low, high)][column].median()
        rows = rows[rows.working_set >= low]
        off = (rows[column] / plateau - 1).abs() > NEAR
        if len(rows) and not off.iloc[0]:
            leaves = rows.working_set[off].min()
            fits = rows.working_set[~off & (rows.working_set < (leaves if off.any() else float("inf")))].max()
            found.append(Edge(name, int(fits), int(leaves) if off.any() else None))
    return found


def machine_of(device: str) -> Machine | None:
    """What CUDA's table of compute capabilities says of a GPU of that name."""
    return MACHINES.get(arch_named(device))


def levels_met(table: pd.DataFrame) -> dict[int, str]:
    """working set -> which level a chain through all of them meets there, in words.

    Rule: it fits a cache up to the cache's edge; above it, a part of it does while the figure is still a tenth below
    the next level's.
    """
    known, cycles = edges(table), plateaus(table).set_index("level").cycles
    chain = table[(table.kind == "latency") & (table.space == "through_l1")].set_index("working_set").cycles
    found = {}
    for size in sizes(table):
        found[size] = "it comes from device memory"
        for number, edge in enumerate(known):
            beyond = known[number + 1].level if number + 1 < len(known) else "Device memory"
            if size <= edge.fits:
                found[size] = f"it fits {_name(edge.level)}"
                break
            if size in chain.index and chain[size] < (1 - NEAR) * cycles[beyond]:
                found[size] = f"a part of it fits {_name(edge.level)}, the rest comes from {_name(beyond)}"
                break
    return found


def _name(level: str) -> str:
    return f"the {level.split()[0]}" if level.endswith("cache") else level.lower()


def _latencies(table: pd.DataFrame) -> dict[tuple[str, int], tuple[float, float]]:
    """(space, working set) -> (cycles, ns) of one load."""
    rows = table[(table.kind == "latency") & table.cycles.notna()]
    return {(r.space, int(r.working_set)): (float(r.cycles), float(r.ns)) for r in rows.itertuples()}


def _nearest_bandwidth(table: pd.DataFrame, size: int) -> tuple[float, int] | None:
    """(GB/s, working set) of the stream through L1 whose working set is nearest, if it is within a half of it."""
    rows = table[(table.kind == "bandwidth") & (table.space == "through_l1")]
    rows = rows[rows.working_set.between(size / 1.5, size * 1.5)]
    if rows.empty:
        return None
    row = rows.loc[(rows.working_set / size - 1).abs().idxmin()]
    return float(row.gb_per_s), int(row.working_set)


def bytes_said(size: float) -> str:
    """A working set with its unit: 64 KiB, 24.8 MiB."""
    unit, name = (2**30, "GiB") if size >= 2**30 else (MIB, "MiB") if size >= MIB else (KIB, "KiB")
    return f"{size / unit:.3g} {name}"


# ---- the stage ----


def nothing(table: pd.DataFrame) -> bool:
    """Whether no chain was measured yet."""
    return not (table.kind == "latency").any()


def sizes(table: pd.DataFrame) -> list[int]:
    """The clock's steps: the working sets of the chains, in order."""
    return sorted(int(v) for v in table[table.kind == "latency"].working_set.unique())


def frames(table: pd.DataFrame, lines: dict[str, str]) -> list[dict[str, Any]]:
    """A frame for each working set. lines: space -> the source line that loads there."""
    made, levels, known = [], levels_met(table), _latencies(table)
    for number, size in enumerate(sizes(table)):
        figures = {space: known[space, size] for space in SPACES if (space, size) in known}
        lit = {lines[space]: 1 for space in figures if space in lines}
        said = size_sentence(size, figures, levels[size])
        made.append({"title": bytes_said(size), "tile": number, "lines": lit, "sentence": said})
    return made


def size_sentence(size: int, figures: dict[str, tuple[float, float]], level: str) -> str:
    """What a chain over that working set takes, and which level it meets. figures: space -> (cycles, ns)."""
    others = {"a load that skips the L1": figures.get("from_l2"), "a load from shared memory": figures.get("shared")}
    rest = " and ".join(f"{load} takes {found[0]:.0f} cycles" for load, found in others.items() if found)
    if "through_l1" not in figures:
        return f"Working set {bytes_said(size)}: {rest}."
    cycles, ns = figures["through_l1"]
    said = f"Working set {bytes_said(size)}: {cycles:.0f} cycles a load ({ns:.0f} ns); {level}."
    return f"{said} {rest[0].upper()}{rest[1:]}." if rest else said


def states(table: pd.DataFrame) -> list[stage.State]:
    """The strip: cycles, ns, GB/s and the level of the step."""
    at, known = sizes(table), _latencies(table)

    def figures(space: str, which: int = 0) -> list[float | None]:
        return [round(known[space, size][which], 1) if (space, size) in known else None for size in at]

    bandwidth = [_nearest_bandwidth(table, size) for size in at]
    said = [f"{b[0]:,.0f} GB/s at {bytes_said(b[1])}" if b else "no stream of this size" for b in bandwidth]
    return [
        stage.State("through L1", figures("through_l1"), "cycles", colour=COLOURS[SPACES["through_l1"]]),
        stage.State("that is", figures("through_l1", 1), "ns"),
        stage.State("past L1", figures("from_l2"), "cycles", colour=COLOURS[SPACES["from_l2"]]),
        stage.State("shared memory", figures("shared"), "cycles", colour=COLOURS[SPACES["shared"]]),
        stage.State("whole GPU reads", said),
        stage.State("level", list(levels_met(table).values())),
    ]


def lines_of(spec: KernelSpec) -> dict[str, str]:
    """space -> FILE:LINE of the load of a chain that stays there.

    Rule: of the loads of the walk, those that stand under a line that asks for SPACE_NAME are that space's; the one
    that stands under none is the space that is left.
    """
    begin = spec.problem_type()
    spaces = fields_of(type(begin))["space"].metadata["allowed"]
    found, left = {}, []
    walking = False
    for site in sites_of(Request(spec, begin)):
        walking = site.event == "walk" if site.kind == "mark" else walking
        if not walking or site.event != "load":
            continue
        above = spec.source.splitlines()[max(0, site.line - 2)]
        asked = next((space for space in spaces if f"SPACE_{space.upper()}" in above), None)
        if asked:
            found[asked] = site.place
        else:
            left.append(site.place)
    rest = [space for space in spaces if space not in found]
    return found | dict(zip(rest, left))


def stage_of(
    measured: Measured, shown: pd.DataFrame, label: str, spec: KernelSpec, here: Sequence[Block]
) -> stage.Stage:
    """The whole stage. measured: the table that is told; shown: the rows of the charts (`beside`); label: measured or
    recorded; here: what measures on this machine."""
    table = measured.table
    made = frames(table, lines_of(spec))
    at, machine = sizes(table), machine_of(measured.device)
    views = [
        _view(
            "latency", "Latency", latency_chart(shown, table, machine), "Cycles of one load against the working set", at
        ),
        _view(
            "bandwidth", "Bandwidth", bandwidth_chart(shown, table), "GB/s of the whole GPU against the working set", at
        ),
    ]
    said = (
        f"{label.capitalize()} on {measured.device}, driver {measured.driver}, {measured.date}: median of {RUNS} runs."
    )
    tabs = [stage.Tab("now", "Measure on this GPU", list(here))] if here else []
    return stage.Stage(
        headline=stage.headline(spec),
        frames=made,
        views=views,
        codes=[stage.code(probed.sample(spec), made)],
        state=states(table),
        tabs=[*tabs, stage.Tab("levels", "The levels", levels_tab(measured, label))],
        provenance=stage.Provenance(label, said),
        questions=questions(table, measured.device),
    )


def _view(kind: str, title: str, chart: alt.LayerChart, about: str, at: list[int]) -> stage.View:
    spec = chart.to_dict(validate=False)  # tests do
    room = max((len(row["said"]) for data in spec["datasets"].values() for row in data if "beside" in row), default=0)
    legend = [[f"background:{colour}", name] for name, colour in COLOURS.items()]
    meta = {
        "spec": spec,
        "alt": about,
        "note": NOTES[kind],
        "at": at,
        "room": room,
        "ends": spec["usermeta"]["ends"],
        "legend": legend,
    }
    return stage.View("chart", kind, title, meta)


NOTES = {
    "latency": "One thread, one load at a time, each waiting for the one before. Grey bands: where the measured figure "
    "leaves a cache's own, as a thread of one multiprocessor sees it; a cache's size may be larger. Dashed: shared "
    "memory of a multiprocessor, from CUDA's table of compute capabilities.",
    "bandwidth": "Every multiprocessor reads its own part over and over: a working set that fits all L1 caches "
    "together, the L2, or neither. Grey bands: where the measured figure leaves a cache's own.",
}


def questions(table: pd.DataFrame, device: str) -> list[stage.Question]:
    """How much farther the L2 is than the L1; and which level a working set comes from."""
    at, found = plateaus(table).set_index("level"), []
    l1, l2 = at.cycles["L1 cache"], at.cycles["L2 cache"]
    steps, known = sizes(table), edges(table)
    if pd.notna(l1) and pd.notna(l2):
        found.append(
            stage.Question(
                "l2_over_l1",
                "How many times as long does a load wait for the L2 as for the L1?",
                "number",
                round(float(l2 / l1), 1),
                f"On {device} it is {l2:.0f} cycles and {l1:.0f}: {l2 / l1:.1f} times.",
                step=next((n for n, size in enumerate(steps) if size >= MIB), 0),
                unit="times",
                view="latency",
                tolerance=stage.MEASURED,
                veils=("sentence", "strip", "tabs"),
            )
        )
    if known:
        inside = max((n for n, size in enumerate(steps) if size <= known[0].fits), default=0)
        options = [bytes_said(size) for size in (known[0].fits // 16, known[0].fits, known[0].fits * 16)]
        found.append(
            stage.Question(
                "l1_holds",
                "Up to which working set does every load of the chain find its data in the L1?",
                "options",
                1,
                f"{frames(table, {})[inside]['sentence']} The next one measured is slower.",
                options=options,
                step=inside,
                view="latency",
                veils=("sentence", "strip", "picture", "tabs"),
            )
        )
    return found


def levels_tab(measured: Measured, label: str) -> list[Block]:
    """The plateaus beside the textbook, where each cache ends, and the stories in which kernels meet a level."""
    table, machine = measured.table, machine_of(measured.device)
    levels = plateaus(table)
    ends = []
    for kind, what in (("latency", "One chain of loads"), ("bandwidth", "The stream of the whole GPU")):
        for edge in edges(table, kind):
            beyond = f", and no longer at {bytes_said(edge.leaves)}" if edge.leaves else ""
            ends.append(f"{what} has {_name(edge.level)}'s figure up to {bytes_said(edge.fits)}{beyond}.")
    shared = ""
    if machine:
        shared = (
            f"Shared memory of a multiprocessor of the {machine.gpu}: {bytes_said(machine.shared_bytes)} (CUDA's table "
            "of compute capabilities)."
        )
    caption = (
        f"Cycles, ns, GB/s: {label}, medians over the plateau (latency: L1 up to 128 KiB, L2 from 512 KiB to 16 MiB, "
        "device memory from 128 MiB); timed builds of a pointer chase and of a stream whose output equalled the "
        "reference. A chain's figure holds the address arithmetic too: none in shared memory, two additions in global. "
        "Textbook cycles: the round figures that courses give, of no GPU in particular; they are not measured."
    )
    return [
        stage.text(sentence(levels, measured.device)),
        stage.table(as_text(levels), caption),
        stage.heading("Where each cache ends"),
        *(stage.text(one, "derived") for one in ends),
        *([stage.text(shared)] if machine else []),
        stage.heading("Where kernels meet it"),
        *kernels_that_meet(),
    ]


# ---- the charts ----


def latency_chart(
    rows: pd.DataFrame, told: pd.DataFrame | None = None, machine: Machine | None = None
) -> alt.LayerChart:
    """Cycles of one load in a chain, against the bytes that the chain spans. told: the rows whose caches are marked."""
    shared = machine.shared_bytes if machine else None
    return _chart(rows, rows if told is None else told, "latency", "cycles", "cycles of a load", shared)


def bandwidth_chart(rows: pd.DataFrame, told: pd.DataFrame | None = None) -> alt.LayerChart:
    """Gigabytes per second of the whole GPU, against the bytes that it reads over and over."""
    return _chart(rows, rows if told is None else told, "bandwidth", "gb_per_s", "GB/s, whole GPU", None)


_SIZE = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : datum.value >= 1048576 ? datum.value / 1048576 + "
    "' MiB' : datum.value / 1024 + ' KiB'"
)


def _size_axis(ticks: list[int]) -> alt.Axis:
    return alt.Axis(values=ticks, labelExpr=_SIZE, labelOverlap="greedy", labelSeparation=8, grid=False)


def _chart(
    rows: pd.DataFrame, told: pd.DataFrame, kind: str, value: str, title: str, shared: int | None
) -> alt.LayerChart:
    data, at = Inline(), sizes(told)
    rows = rows[rows.kind == kind].copy()
    step = {size: n for n, size in enumerate(at, 1)}
    rows = rows.assign(line=rows["where"] + ", " + rows.source, step=[step.get(int(v)) for v in rows.working_set])
    smallest, largest = rows.working_set.min(), rows.working_set.max()
    low, high = rows[f"{value}_least"].min() / 1.25, rows[f"{value}_most"].max() * 1.25
    every = 6 if largest > 2**12 * smallest else 2
    ticks = [2**n for n in range(10, 31, every) if smallest / 2 <= 2**n <= largest * 2]
    wide = alt.Scale(type="log", base=2, domain=[float(smallest) / 1.1, float(largest) * 1.1], nice=False)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("working_set:Q", title="working set", scale=wide, axis=_size_axis(ticks))
    y = alt.Y(f"{value}:Q", title=title, scale=scale, axis=alt.Axis(values=decades(low, high), format=",~g"))
    present = [name for name in COLOURS if name in set(rows["where"])]
    colours = alt.Scale(domain=present, range=[COLOURS[name] for name in present])
    colour = alt.Color("where:N", legend=None, scale=colours)
    several = rows.source.nunique() > 1
    shape = alt.Shape(
        "source:N", title=None, legend=alt.Legend(orient="bottom", symbolFillColor=AXIS) if several else None
    )
    tips = [
        alt.Tooltip("where:N", title="loads"),
        alt.Tooltip("size:N", title="working set"),
        alt.Tooltip(f"{value}:Q", format=",.5g", title=f"median, {title}"),
        alt.Tooltip(f"{value}_least:Q", format=",.5g", title="least"),
        alt.Tooltip(f"{value}_most:Q", format=",.5g", title="most"),
        alt.Tooltip("source:N", title="from"),
    ]
    rows = rows.assign(size=rows.working_set.map(bytes_said))
    base, least = data.chart("points", rows), alt.Y(f"{value}_least:Q", scale=scale)
    spread = base.mark_rule(strokeWidth=2).encode(x=x, y=least, y2=f"{value}_most:Q", color=colour)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, detail="line:N")
    larger = alt.when("datum.step == step").then(alt.value(170)).otherwise(alt.value(45))
    points = base.mark_point(filled=True, opacity=1)
    points = points.encode(x=x, y=y, color=colour, shape=shape, size=larger, tooltip=tips)
    at_step = pd.DataFrame(
        [{"working_set": size, "step": n} for size, n in step.items() if smallest <= size <= largest]
    )
    rule = (
        data.chart("steps", at_step)
        .mark_rule(color=AXIS, strokeWidth=1.5)
        .encode(x=x)
        .transform_filter("datum.step == step")
    )
    last = rows.sort_values("working_set").groupby("line", sort=False).tail(1)
    names = named_ends(data, last.assign(said=last.line if several else last["where"]), x, y, (low, high), colour)
    layers = [
        *_marks(data, told, kind, shared, x, largest),
        *([rule] if len(at_step) else []),
        spread,
        line,
        points,
        *names,
    ]
    return data.layered(layers, 360)


def _marks(
    data: Inline, told: pd.DataFrame, kind: str, shared: int | None, x: alt.X, largest: float
) -> list[alt.Chart]:
    """A band where a cache ends, with its name, and a rule at the shared memory of a multiprocessor."""
    ends = [
        {
            "working_set": edge.fits,
            "to": edge.leaves or largest,
            "said": f"{edge.level.split()[0]} measured: {bytes_said(edge.fits)}",
        }
        for edge in edges(told, kind)
    ]
    layers = []
    if ends:
        base = data.chart("caches", pd.DataFrame(ends))
        layers.append(base.mark_rect(color=AXIS, opacity=0.25).encode(x=x, x2="to:Q"))
        for row, edge in enumerate(reversed(ends)):  # one under the other, the leftmost lowest: bands may be near
            text = base.mark_text(align="right", baseline="top", dx=-5, dy=4 + ROW * row).encode(
                x=x, y=alt.YValue(0), text="said:N"
            )
            layers.append(text.transform_filter(alt.datum.working_set == edge["working_set"]))
    if shared:
        said = f"shared memory: {bytes_said(shared)}"
        base = data.chart("shared", pd.DataFrame([{"working_set": shared, "said": said}]))
        text = base.mark_text(align="right", baseline="top", dx=-12, dy=4 + 2 * ROW)  # no line is left of it
        layers += [
            base.mark_rule(color=AXIS, strokeDash=[4, 4]).encode(x=x),
            text.encode(x=x, y=alt.YValue(0), text="said:N"),
        ]
    return layers
