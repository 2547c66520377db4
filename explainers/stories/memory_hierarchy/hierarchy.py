"""The memory hierarchy: measured latency and bandwidth against the working set, next to the textbook's figures.

The steps of the clock are the working sets of the chain.
"""

from collections.abc import Sequence
from dataclasses import replace

import altair as alt
import pandas as pd

from explainers.charts.chart_view import chart_view
from explainers.stories.memory_hierarchy.broadcast_tab import broadcast_blocks
from explainers.stories.memory_hierarchy.level_charts import COLOURS, NOTES, bandwidth_chart, latency_chart
from explainers.stories.memory_hierarchy.level_questions import questions
from explainers.stories.memory_hierarchy.levels_tab import lesson, levels_tab
from explainers.stories.memory_hierarchy.memory_levels import (
    SPACES,
    bytes_said,
    latencies,
    levels_met,
    machine_of,
    nearest_bandwidth,
    sizes,
)
from explainers.stories.memory_hierarchy.shapes_tab import shapes_blocks
from explainers.story import probed, stage
from explainers.story.stage import Block
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


WANTS = ("walk",)
OTHERS = {  # a space in the strip -> its name
    "from_l2": "skipping L1",
    "shared": "shared memory",
    "constant": "constant memory",
    "texture": "texture",
}
FEW_USE = ("constant", "texture")  # spaces with a picture of their own
PLAIN = {  # a level -> its place, in plain words
    "in L1": "in L1, the cache of one SM",
    "in L2": "in L2, the cache of all SMs",
    "in device memory": "in device memory, outside the chip",
}


def frames(table: pd.DataFrame, lines: dict[str, str]) -> list[dict[str, object]]:
    """Returns a frame for each working set. lines: space -> source line of its load."""
    found, levels, known = [], levels_met(table), latencies(table)
    for number, size in enumerate(sizes(table)):
        figures = {space: known[space, size] for space in SPACES if (space, size) in known}
        lit = {lines[space]: 1 for space in figures if space in lines}
        said = size_sentence(size, figures, levels[size])
        found.append({"title": f"{bytes_said(size)} of data", "tile": number, "lines": lit, "sentence": said})
    return found


def size_sentence(size: int, figures: dict[str, tuple[float, float]], level: str) -> str:
    """Returns the cost of a chain over a working set, and its level. figures: space -> (cycles, ns)."""
    if "through_l1" not in figures:
        others = {"that skips L1": figures.get("from_l2"), "from shared memory": figures.get("shared")}
        rest = " and ".join(f"a load {load} takes {found[0]:.0f} cycles" for load, found in others.items() if found)
        return f"With {bytes_said(size)} of data, {rest}."
    cycles, _ = figures["through_l1"]
    shared = f" From shared memory, it takes {figures['shared'][0]:.0f}." if "shared" in figures else ""
    said = f"With {bytes_said(size)} of data, a load takes {cycles:.0f} cycles: the data is {PLAIN.get(level, level)}."
    return said + shared


def states(table: pd.DataFrame) -> list[stage.State]:
    """Returns the strip: cycles, ns, GB/s and the level of the step."""
    at, known = sizes(table), latencies(table)

    def figures(space: str, which: int = 0) -> list[float | None]:
        return [round(known[space, size][which], 1) if (space, size) in known else None for size in at]

    bandwidth = [nearest_bandwidth(table, size) for size in at]
    said = [f"{b[0]:,.0f} GB/s at {bytes_said(b[1])}" if b else "no stream of this size" for b in bandwidth]
    return [
        stage.State("through L1", figures("through_l1"), "cycles", colour=COLOURS[SPACES["through_l1"]]),
        stage.State("in time", figures("through_l1", 1), "ns", deep=True),
        *(
            stage.State(name, figures(space), "cycles", colour=COLOURS[SPACES[space]], deep=space in FEW_USE)
            for space, name in OTHERS.items()
            if any(value is not None for value in figures(space))
        ),
        stage.State("whole GPU reads", said, deep=True),
        stage.State("level", list(levels_met(table).values())),
    ]


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
    steps = frames(table, lines_of(spec))
    at, machine = sizes(table), machine_of(measured.device)
    few, bandwidth = shown[~shown.space.isin(FEW_USE)], bandwidth_chart(shown, table)
    about = "Cycles of one load for each size of the data"
    others = _view("others", "Constant and texture", latency_chart(shown, table, machine), about, at)
    views = [
        _view("latency", "Latency", latency_chart(few, table), about, at),
        *([others] if len(few) < len(shown) else []),
        _view("bandwidth", "Bandwidth", bandwidth, "GB/s of the whole GPU against the working set", at),
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
        codes=[stage.code(probed.sample(spec), steps)],
        state=states(table),
        tabs=[*tabs, stage.Tab("levels", "The levels", levels_tab(measured, label)), *shared],
        provenance=stage.Provenance(label, said),
        questions=[replace(question, hides=[*question.hides, lesson(table)]) for question in questions(table)],
        summary=lesson(table),
    )


def _view(kind: str, title: str, chart: alt.LayerChart, about: str, at: Sequence[int]) -> stage.View:
    return chart_view(kind, title, chart, about, NOTES[kind], at, COLOURS)
