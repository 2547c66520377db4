"""Occupancy: what limits the blocks on a multiprocessor, what other tiles would give; the timeline of a grid."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from explainers.palette import OKABE_ITO
from kernels.build.occupancy import Machine, Occupancy
from kernels.timing.timelines import Timeline


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
        f"{machine.warps} warps "
        f"({o.percent:.0f} %); {o.limited_by} {'is' if o.limited_by == 'shared memory' else 'are'} the limit. "
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


def limits_chart(found: Sequence[Occupancy]) -> alt.Chart:
    """Blocks per multiprocessor that each resource allows; the least one is what there is."""
    rows = pd.DataFrame(
        [
            {
                "kernel": o.entry,
                "resource": name,
                "name": f"{o.entry}: {name}",
                "blocks": count,
                "what": "the limit" if count == o.blocks else "would allow",
            }
            for o in found
            for name, count in o.limits.items()
        ]
    )
    scale = alt.Scale(domain=["the limit", "would allow"], range=[OKABE_ITO["vermillion"], OKABE_ITO["sky"]])
    y = alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelOverlap=False, labelLimit=240))
    bars = alt.Chart(rows).mark_bar()
    return bars.encode(
        x=alt.X("blocks:Q", title="blocks per multiprocessor"),
        color=alt.Color("what:N", title=None, legend=alt.Legend(orient="top"), scale=scale),
        y=y,
        tooltip=["kernel:N", "resource:N", "blocks:Q"],
    ).properties(height=150 + 26 * len(rows))


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
    return pd.DataFrame(rows)


def timeline_table(timeline: Timeline) -> pd.DataFrame:
    """The blocks for the chart: start and end in us, the block's place in its launch from 0 to 1, and the stretch of
    its multiprocessor's lane that it takes (low, high): the first slot that is free when it starts."""
    table = timeline.table.sort_values(["sm", "start_ns", "block"]).reset_index(drop=True)
    slots: list[int] = []
    free: list[int] = []
    last_sm = None
    for sm, start, end in zip(table.sm, table.start_ns, table.end_ns):
        if sm != last_sm:
            free, last_sm = [], sm
        slot = next((n for n, until in enumerate(free) if until <= start), len(free))
        free[slot : slot + 1] = [end]
        slots.append(slot)
    taken, most = np.array(slots), max(slots) + 1
    last = table.groupby("launch").block.transform("max").clip(lower=1)
    return table.assign(
        start_us=table.start_ns / 1000,
        end_us=table.end_ns / 1000,
        place=table.block / last,
        low=table.sm + 0.9 * taken / most,
        high=table.sm + 0.9 * (taken + 1) / most,
    )


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
        f"in "
        f"{facts['us']:,.0f} µs, up to {facts['at_once']:,} at once. "
        f"The longest block took {facts['longest_us']:,.1f} "
        f"µs, "
        f"{facts['longest_us'] / facts['shortest_us']:,.0f} times the shortest. "
    )
    if timeline.left:
        text += f"{timeline.left:,} more blocks had nothing to do and left at once. "
    return text + (
        f"On average {100 * facts['busy']:.0f} % of the multiprocessors had a block; in the last "
        f"{facts['tail_us']:,.0f} µs "
        f"({100 * facts['tail_us'] / facts['us']:.0f} %) fewer than half did."
    )


def timeline_chart(timeline: Timeline, shown: int) -> alt.Chart:
    """A lane for each of the first `shown` multiprocessors, a bar for each block, coloured by its place in the grid;
    blocks that run together lie above one another."""
    rows = timeline_table(timeline)
    lanes = alt.Scale(domain=[0, shown], nice=False, reverse=True)
    numbers = alt.Axis(grid=False, tickMinStep=1, format="d")
    colour = alt.Color(
        "place:Q",
        title="place in the grid",
        scale=alt.Scale(scheme="cividis", domain=[0, 1]),
        legend=alt.Legend(orient="top", format="%", gradientLength=160),
    )
    times = [alt.Tooltip("start_us:Q", format=",.2f"), alt.Tooltip("end_us:Q", format=",.2f")]
    bars = alt.Chart(rows[rows.sm < shown]).mark_rect()
    return bars.encode(
        x=alt.X("start_us:Q", title="µs from the first block's start", scale=alt.Scale(nice=False)),
        x2="end_us:Q",
        y=alt.Y("low:Q", title="multiprocessor", scale=lanes, axis=numbers),
        y2="high:Q",
        color=colour,
        tooltip=["launch:Q", "block:Q", "sm:Q", *times],
    ).properties(height=520)


def running_chart(timeline: Timeline) -> alt.Chart:
    """How many blocks are running at each moment."""
    moments = np.linspace(0, timeline.table.end_ns.max(), 500)
    table = pd.DataFrame({"us": moments / 1000, "blocks": _running(timeline.table, moments)})
    area = alt.Chart(table).mark_area(
        interpolate="step-after", color=OKABE_ITO["sky"], line={"color": OKABE_ITO["blue"]}
    )
    return area.encode(
        x=alt.X("us:Q", title="µs", scale=alt.Scale(nice=False)),
        y=alt.Y("blocks:Q", title="blocks running", stack=None),
        tooltip=[alt.Tooltip("us:Q", format=",.1f"), "blocks:Q"],
    ).properties(height=180)
