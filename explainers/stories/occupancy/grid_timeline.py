"""The timeline of a grid: when each block ran, and on which SM."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.models import grid, schedules
from explainers.models.frames import GridFrame
from explainers.story import stage
from explainers.story.glossary import short
from kernels.measure.timelines import Timeline


def _running(table: pd.DataFrame, moments: np.ndarray) -> np.ndarray:
    """Returns the number of running blocks at each moment (ns)."""
    begun, ended = (np.searchsorted(np.sort(times), moments, "right") for times in (table.start_ns, table.end_ns))
    return begun - ended


def timeline_facts(timeline: Timeline) -> dict[str, float]:
    """Returns figures of all launches together.

    blocks: their number.
    us: the time from the first start to the last end.
    at_once: the most running blocks.
    shortest_us, median_us, longest_us: the times of single blocks.
    busy: the mean share of SMs with a running block.
    tail_us: the time at the end with fewer than half of the SMs busy.
    multiprocessors: the number of SMs with a block.
    """
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
    """Returns the timeline in sentences, with its numbers."""
    text = (
        f"{facts['blocks']:,} blocks ran on {facts['multiprocessors']} of {timeline.multiprocessors} SMs "
        f"in {facts['us']:,.0f} µs, up to {facts['at_once']:,} at once. The longest block took "
        f"{facts['longest_us']:,.1f} µs, {facts['longest_us'] / facts['shortest_us']:,.0f} times the shortest. "
    )
    if timeline.left:
        text += f"{timeline.left:,} more blocks had nothing to do and left at once. "
    return text + (
        f"On average {100 * facts['busy']:.0f} % of the SMs had a block. In the last "
        f"{facts['tail_us']:,.0f} µs ({100 * facts['tail_us'] / facts['us']:.0f} %) fewer than half did."
    )


def running_chart(timeline: Timeline, made: Sequence[GridFrame]) -> alt.TopLevelMixin:
    """Returns the running blocks at each moment, with a rule at the step. made: the frames of grid.explain."""
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


FACTS = {  # names on the page
    "blocks": "blocks that ran",
    "us": "µs from the first begin to the last end",
    "at_once": "most blocks at once",
    "shortest_us": "shortest block, µs",
    "median_us": "median block, µs",
    "longest_us": "longest block, µs",
    "busy": "mean share of SMs with a block",
    "tail_us": "µs at the end in which fewer than half had one",
    "multiprocessors": "SMs that had a block",
}


def timeline_stage(timeline: Timeline, label: str) -> stage.Stage:
    """Returns the whole stage of a timeline. label: the build and its problem."""
    request, facts = timeline.request, timeline_facts(timeline)
    shown = grid.explain(request, schedules.recorded(timeline), traced=False)
    said = (
        f"{timeline.provenance.capitalize()} on {timeline.device}, {timeline.date}: {label}. Each block's first thread "
        "noted its SM and the GPU's global timer, in steps of 32 ns. It did so at the place of its first probe and at "
        "its end. This build has only these notes, so it gives no kernel's time. Launches follow one another."
    )
    chart = stage.chart(
        running_chart(timeline, shown.frames),
        "Blocks running at each moment. A rule marks the step",
        "",
        "Blocks running",
    )
    rows = pd.DataFrame([(FACTS[name], short(value)) for name, value in facts.items()], columns=["of all launches", ""])
    return stage.Stage(
        headline=stage.headline(request.kernel),
        frames=shown.frames,
        views=[stage.View("grid", "grid", "Whole grid", shown.meta, shown.columns)],
        state=shown.states,
        provenance=stage.Provenance(timeline.provenance, said, place=stage.place(timeline.device, timeline.date)),
        tabs=[stage.Tab("facts", "Every figure", [stage.table(rows)])],
        summary=timeline_sentence(timeline, facts),
        side=[chart],
    )
