"""The memory hierarchy: measured latency and bandwidth against the working set, next to the textbook's figures.

The steps of the clock are the working sets of the chain.
"""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from explainers.charts.chart_view import chart_view
from explainers.stories.memory_hierarchy.level_charts import COLOURS, NOTES, bandwidth_chart, latency_chart
from explainers.stories.memory_hierarchy.levels_tab import levels_tab
from explainers.stories.memory_hierarchy.memory_levels import (
    MIB,
    SPACES,
    Edge,
    bytes_said,
    edges,
    latencies,
    levels_met,
    machine_of,
    nearest_bandwidth,
    plateaus,
    sizes,
)
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
    walks = "walk" in probed.marks(spec) and "working_set" in fields_of(problem)
    return walks and any(tensor.axes == ("clock",) for tensor in problem().tensors())


WANTS = ("walk",)


def frames(table: pd.DataFrame, lines: dict[str, str]) -> list[dict[str, object]]:
    """Returns a frame for each working set. lines: space -> source line of its load."""
    found, levels, known = [], levels_met(table), latencies(table)
    for number, size in enumerate(sizes(table)):
        figures = {space: known[space, size] for space in SPACES if (space, size) in known}
        lit = {lines[space]: 1 for space in figures if space in lines}
        said = size_sentence(size, figures, levels[size])
        found.append({"title": bytes_said(size), "tile": number, "lines": lit, "sentence": said})
    return found


def size_sentence(size: int, figures: dict[str, tuple[float, float]], level: str) -> str:
    """Returns the cost of a chain over a working set, and its level. figures: space -> (cycles, ns)."""
    others = {"a load that skips the L1": figures.get("from_l2"), "a load from shared memory": figures.get("shared")}
    rest = " and ".join(f"{load} takes {found[0]:.0f} cycles" for load, found in others.items() if found)
    if "through_l1" not in figures:
        return f"Working set {bytes_said(size)}: {rest}."
    cycles, ns = figures["through_l1"]
    said = f"Working set {bytes_said(size)}: {cycles:.0f} cycles a load ({ns:.0f} ns); {level}."
    return f"{said} {rest[0].upper()}{rest[1:]}." if rest else said


def states(table: pd.DataFrame) -> list[stage.State]:
    """Returns the strip: cycles, ns, GB/s and the level of the step."""
    at, known = sizes(table), latencies(table)

    def figures(space: str, which: int = 0) -> list[float | None]:
        return [round(known[space, size][which], 1) if (space, size) in known else None for size in at]

    bandwidth = [nearest_bandwidth(table, size) for size in at]
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
    latency, bandwidth = latency_chart(shown, table, machine), bandwidth_chart(shown, table)
    views = [
        _view("latency", "Latency", latency, "Cycles of one load against the working set", at),
        _view("bandwidth", "Bandwidth", bandwidth, "GB/s of the whole GPU against the working set", at),
    ]
    said = (
        f"{label.capitalize()} on {measured.device}, driver {measured.driver}, {measured.date}: median of {RUNS} runs."
    )
    tabs = [stage.Tab("now", "Measure on this GPU", list(here))] if here else []
    return stage.Stage(
        headline=stage.headline(spec),
        frames=steps,
        views=views,
        codes=[stage.code(probed.sample(spec), steps)],
        state=states(table),
        tabs=[*tabs, stage.Tab("levels", "The levels", levels_tab(measured, label))],
        provenance=stage.Provenance(label, said),
        questions=questions(table, measured.device),
    )


def _view(kind: str, title: str, chart: alt.LayerChart, about: str, at: Sequence[int]) -> stage.View:
    return chart_view(kind, title, chart, about, NOTES[kind], at, COLOURS)


def questions(table: pd.DataFrame, device: str) -> list[stage.Question]:
    """Returns questions on the distance of the L2 and on the end of the L1."""
    cycles, known = plateaus(table).set_index("level").cycles, edges(table)
    l1, l2 = cycles["L1 cache"], cycles["L2 cache"]
    found = [_question_of_distance(table, device, l1, l2)] if pd.notna(l1) and pd.notna(l2) else []
    return [*found, _question_of_end(table, known[0])] if known else found


def _question_of_distance(table: pd.DataFrame, device: str, l1: float, l2: float) -> stage.Question:
    beyond_l1 = next((n for n, size in enumerate(sizes(table)) if size >= MIB), 0)
    return stage.Question(
        "l2_over_l1",
        "How many times as long does a load wait for the L2 as for the L1?",
        "number",
        round(float(l2 / l1), 1),
        f"On {device} it is {l2:.0f} cycles and {l1:.0f}: {l2 / l1:.1f} times.",
        step=beyond_l1,
        unit="times",
        view="latency",
        tolerance=stage.MEASURED,
        veils=("sentence", "strip", "tabs"),
    )


def _question_of_end(table: pd.DataFrame, l1: Edge) -> stage.Question:
    inside = max((n for n, size in enumerate(sizes(table)) if size <= l1.fits), default=0)
    return stage.Question(
        "l1_holds",
        "Up to which working set does every load of the chain find its data in the L1?",
        "options",
        1,
        f"{frames(table, {})[inside]['sentence']} The next one measured is slower.",
        options=[bytes_said(size) for size in (l1.fits // 16, l1.fits, l1.fits * 16)],
        step=inside,
        view="latency",
        veils=("sentence", "strip", "picture", "tabs"),
    )
