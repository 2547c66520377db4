"""The memory hierarchy: measured latency and bandwidth against the working set, the plateaus, and the textbook's
figures beside them."""

import altair as alt
import pandas as pd

from explainers.palette import AXIS, OKABE_ITO
from kernels.timing.hierarchy import Measured

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
        return f"Of {device} only a part has been measured so far."
    return (
        f"On {device} a load waits {at.cycles['Shared memory']:.0f} cycles for shared memory, {l1:.0f} for L1, "
        f"{l2:.0f} for L2 and {far:.0f} "
        f"for device memory: L2 is {l2 / l1:.1f} times as far as L1, device memory {far / l1:.1f} times."
    )


def latency_chart(table: pd.DataFrame) -> alt.LayerChart:
    """Cycles of one load in a chain, against the bytes that the chain spans."""
    ticks = [16, 32, 64, 128, 256, 512, 1024]
    return _chart(
        table[table.kind == "latency"], "cycles", "cycles per load", alt.Scale(type="log", domain=[16, 1024]), ticks
    )


def bandwidth_chart(table: pd.DataFrame) -> alt.LayerChart:
    """Gigabytes per second of the whole GPU, against the bytes that it reads over and over."""
    ticks = [2000, 4000, 8000, 16000, 32000]
    return _chart(table[table.kind == "bandwidth"], "gb_per_s", "GB/s, whole GPU", alt.Scale(type="log"), ticks)


def _chart(rows: pd.DataFrame, value: str, title: str, scale: alt.Scale, ticks: list[int]) -> alt.LayerChart:
    label = (
        "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : datum.value >= 1048576 ? datum.value / "
        "1048576 + ' MiB' : "
        "datum.value / 1024 + ' KiB'"
    )
    smallest, largest = rows.working_set.min(), rows.working_set.max()
    every = 3 if largest > 2**12 * smallest else 1
    values = [2**n for n in range(10, 31, every) if smallest / 2 <= 2**n <= largest * 2]
    sizes = alt.Axis(values=values, labelExpr=label)
    x = alt.X("working_set:Q", title="working set", scale=alt.Scale(type="log", base=2), axis=sizes)
    y = alt.Y(f"{value}:Q", title=title, scale=scale, axis=alt.Axis(values=ticks))
    present = [name for name in COLOURS if name in set(rows["where"])]
    colour = alt.Color(
        "where:N",
        title=None,
        legend=alt.Legend(orient="top", labelLimit=240, columns=2),
        scale=alt.Scale(domain=present, range=[COLOURS[name] for name in present]),
    )
    legend = (
        alt.Legend(orient="bottom", symbolFillColor=AXIS, symbolStrokeColor=AXIS) if rows.source.nunique() > 1 else None
    )
    shape = alt.Shape("source:N", title=None, legend=legend)
    tips = [
        "where:N",
        "source:N",
        alt.Tooltip("working_set:Q", format=",", title="bytes"),
        alt.Tooltip(f"{value}:Q", format=".5g", title="median"),
        alt.Tooltip(f"{value}_least:Q", format=".5g", title="least"),
        alt.Tooltip(f"{value}_most:Q", format=".5g", title="most"),
    ]
    base, least = alt.Chart(rows), alt.Y(f"{value}_least:Q", scale=scale)
    spread = base.mark_rule(strokeWidth=2).encode(x=x, y=least, y2=f"{value}_most:Q", color=colour)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, detail="source:N")
    points = base.mark_point(filled=True, size=40, opacity=1).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
    return (spread + line + points).properties(height=360)
