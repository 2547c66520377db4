"""Occupancy: what limits the blocks on a multiprocessor, what other tile sizes would give; and the timeline of a grid."""

import altair as alt
import numpy as np
import pandas as pd

from explainers.palette import OKABE_ITO
from kernels.occupancy import TILES, Occupancy


def launches_table(found):
    """A row per launch (occupancy.Occupancy): its block, its registers, what each resource allows, and what is left."""
    return pd.DataFrame([{"kernel": o.entry, "grid blocks": o.grid_blocks, "threads": o.threads, "registers": o.registers, "shared bytes": o.shared_bytes,
                          **{f"by {name}": count for name, count in o.limits.items()}, "blocks per SM": o.blocks, "warps per SM": o.warps,
                          "occupancy": f"{o.percent:.0f} %", "limited by": o.limited_by, "waves": round(o.waves, 2)} for o in found])


def sentence(o, machine, multiprocessors, name):
    """One launch's occupancy in words."""
    if not o.blocks:
        return f"{o.entry}: not one block fits on a multiprocessor of {name}: {o.limited_by} does not allow it. Choose smaller tiles."
    at_once = o.blocks * multiprocessors
    text = (f"{o.entry}: a multiprocessor of {name} holds {o.blocks} blocks of {o.threads} threads, {o.warps} of {machine.warps} warps ({o.percent:.0f} %); "
            f"{o.limited_by} {'is' if o.limited_by == 'shared memory' else 'are'} the limit. ")
    if o.grid_blocks <= at_once:
        return text + f"The grid's {o.grid_blocks:,} blocks fit at once on {multiprocessors} multiprocessors, which would hold {at_once:,}."
    last = o.grid_blocks % at_once or at_once
    return text + f"The grid's {o.grid_blocks:,} blocks make {o.waves:.2f} waves of {at_once:,}; the last one has {last:,}."


def limits_chart(found):
    """Blocks per multiprocessor that each resource allows; the least one is what there is."""
    rows = pd.DataFrame([{"kernel": o.entry, "resource": name, "name": f"{o.entry}: {name}", "blocks": count,
                          "what": "the limit" if count == o.blocks else "would allow"} for o in found for name, count in o.limits.items()])
    colour = alt.Color("what:N", title=None, legend=alt.Legend(orient="top"), scale=alt.Scale(domain=["the limit", "would allow"],
                                                                                               range=[OKABE_ITO["vermillion"], OKABE_ITO["sky"]]))
    names, tips = alt.Axis(labelOverlap=False, labelLimit=240), ["kernel:N", "resource:N", "blocks:Q"]
    return alt.Chart(rows).mark_bar().encode(x=alt.X("blocks:Q", title="blocks per multiprocessor"), color=colour,
                                             y=alt.Y("name:N", title=None, sort=None, axis=names), tooltip=tips).properties(height=150 + 26 * len(rows))


def alternatives_table(found, now):
    """What other tile sizes would give: a row per choice, the present one marked."""
    rows = []
    for settings, result in found:
        shown = {name: value for name, value in settings.items() if name in TILES}
        row = {**shown, "now": "now" if all(now[name] == value for name, value in shown.items()) else ""}
        if isinstance(result, Occupancy):
            row |= {"threads": result.threads, "registers": result.registers, "shared bytes": result.shared_bytes, "blocks per SM": result.blocks,
                    "warps per SM": result.warps, "occupancy %": round(result.percent), "limited by": result.limited_by, "waves": round(result.waves, 2)}
        else:
            row |= {"limited by": result}
        rows.append(row)
    return pd.DataFrame(rows)


def timeline_table(timeline):
    """The blocks for the chart: start and end in us, the block's place in its launch from 0 to 1, and the stretch of its multiprocessor's lane that it
    takes (low, high): the first slot that is free when it starts."""
    table = timeline.table.sort_values(["sm", "start_ns", "block"]).reset_index(drop=True)
    slots, free, last_sm = [], [], None
    for sm, start, end in zip(table.sm, table.start_ns, table.end_ns):
        if sm != last_sm:
            free, last_sm = [], sm
        slot = next((n for n, until in enumerate(free) if until <= start), len(free))
        free[slot:slot + 1] = [end]
        slots.append(slot)
    slots, most = np.array(slots), max(slots) + 1
    last = table.groupby("launch").block.transform("max").clip(lower=1)
    return table.assign(start_us=table.start_ns / 1000, end_us=table.end_ns / 1000, place=table.block / last,
                        low=table.sm + 0.9 * slots / most, high=table.sm + 0.9 * (slots + 1) / most)


def _running(table, moments):
    """How many of these blocks are running at each moment (ns)."""
    return np.searchsorted(np.sort(table.start_ns), moments, "right") - np.searchsorted(np.sort(table.end_ns), moments, "right")


def timeline_facts(timeline):
    """Of all launches together: blocks, us from the first start to the last end, most blocks at once, blocks' shortest, median and longest us,
    busy: mean share of the multiprocessors that ran a block, tail_us: from when fewer than half of them did to the end."""
    table = timeline.table
    length, end = (table.end_ns - table.start_ns).to_numpy(), table.end_ns.max()
    grid = np.linspace(0, end, 400, endpoint=False) + end / 800
    busy = np.zeros(len(grid))
    for _, part in table.groupby("sm"):
        busy += _running(part, grid) > 0
    full = np.flatnonzero(busy >= timeline.multiprocessors / 2)
    tail = end - grid[full[-1]] if len(full) else end
    return {"blocks": len(table), "us": end / 1000, "at_once": int(_running(table, grid).max()), "shortest_us": length.min() / 1000,
            "median_us": float(np.median(length)) / 1000, "longest_us": length.max() / 1000,
            "busy": float(busy.mean() / timeline.multiprocessors), "tail_us": tail / 1000,
            "multiprocessors": int(table.sm.nunique())}


def timeline_sentence(timeline, facts):
    """What the timeline shows, with its numbers."""
    text = (f"{facts['blocks']:,} blocks ran on {facts['multiprocessors']} of {timeline.multiprocessors} multiprocessors in {facts['us']:,.0f} µs, up to "
            f"{facts['at_once']:,} at once. The longest block took {facts['longest_us']:,.1f} µs, {facts['longest_us'] / facts['shortest_us']:,.0f} times "
            "the shortest. ")
    if timeline.left:
        text += f"{timeline.left:,} more blocks had nothing to do and left at once. "
    return text + (f"On average {100 * facts['busy']:.0f} % of the multiprocessors had a block; in the last {facts['tail_us']:,.0f} µs "
                   f"({100 * facts['tail_us'] / facts['us']:.0f} %) fewer than half did.")


def timeline_chart(timeline, shown):
    """A lane for each of the first `shown` multiprocessors, a bar for each block, coloured by its place in the grid; blocks that run together
    lie above one another."""
    rows = timeline_table(timeline)
    lanes = alt.Scale(domain=[0, shown], nice=False, reverse=True)
    return alt.Chart(rows[rows.sm < shown]).mark_rect().encode(
        x=alt.X("start_us:Q", title="µs from the first block's start", scale=alt.Scale(nice=False)), x2="end_us:Q",
        y=alt.Y("low:Q", title="multiprocessor", scale=lanes, axis=alt.Axis(grid=False, tickMinStep=1, format="d")), y2="high:Q",
        color=alt.Color("place:Q", title="place in the grid", scale=alt.Scale(scheme="cividis", domain=[0, 1]),
                        legend=alt.Legend(orient="top", format="%", gradientLength=160)),
        tooltip=["launch:Q", "block:Q", "sm:Q", alt.Tooltip("start_us:Q", format=",.2f"), alt.Tooltip("end_us:Q", format=",.2f")]).properties(height=520)


def running_chart(timeline):
    """How many blocks are running at each moment."""
    moments = np.linspace(0, timeline.table.end_ns.max(), 500)
    return alt.Chart(pd.DataFrame({"us": moments / 1000, "blocks": _running(timeline.table, moments)})).mark_area(
        interpolate="step-after", color=OKABE_ITO["sky"], line={"color": OKABE_ITO["blue"]}).encode(
        x=alt.X("us:Q", title="µs", scale=alt.Scale(nice=False)), y=alt.Y("blocks:Q", title="blocks running", stack=None), tooltip=[
            alt.Tooltip("us:Q", format=",.1f"), "blocks:Q"]).properties(height=180)
