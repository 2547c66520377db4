"""The memory hierarchy: measured latency and bandwidth against the working set, the plateaus, and the textbook's figures beside them."""

import altair as alt
import pandas as pd

from explainers.palette import AXIS, OKABE_ITO

KIB, MIB = 2**10, 2**20
SPACES = {"shared": "shared memory", "through_l1": "global, through L1", "from_l2": "global, past L1", "copy": "copy, read + written"}
COLOURS = {"shared memory": OKABE_ITO["green"], "global, through L1": OKABE_ITO["blue"], "global, past L1": OKABE_ITO["orange"],
           "copy, read + written": OKABE_ITO["purple"]}
LEVELS = (  # name, textbook latency in cycles, latency: (space, from, to), bandwidth: (space, from, to); bytes of the working set
    ("Registers", 1, None, None),
    ("Shared memory", 20, ("shared", KIB, 256 * KIB), ("shared", 0, 2**40)),
    ("L1 cache", 28, ("through_l1", KIB, 128 * KIB), ("through_l1", 0, 26 * MIB)),
    ("L2 cache", 200, ("from_l2", 512 * KIB, 16 * MIB), ("from_l2", 0, 44 * MIB)),
    ("Device memory", 400, ("from_l2", 128 * MIB, 2**40), ("from_l2", 128 * MIB, 2**40)),
)


def labelled(table, source):
    """The measured rows with what the charts need: where (the space's name), source (recorded or measured)."""
    return table.assign(where=table.space.map(SPACES), source=source)


def plateaus(table):
    """Per level: textbook cycles, and of the rows in its range the median cycles, ns and GB/s; None where nothing was measured."""
    rows = []
    for name, textbook, latency, bandwidth in LEVELS:
        row = {"level": name, "textbook cycles": textbook, "cycles": None, "ns": None, "GB/s": None}
        for kind, wanted, names in (("latency", latency, {"cycles": "cycles", "ns": "ns"}), ("bandwidth", bandwidth, {"GB/s": "gb_per_s"})):
            if wanted:
                space, low, high = wanted
                part = table[(table.kind == kind) & (table.space == space) & table.working_set.between(low, high)]
                row |= {shown: part[column].median() if len(part) else None for shown, column in names.items()}
        rows.append(row)
    copies = table[(table.kind == "bandwidth") & (table.space == "copy")]
    rows.append({"level": "Device memory, copy", "textbook cycles": None, "cycles": None, "ns": None, "GB/s": copies.gb_per_s.max() if len(copies) else None})
    return pd.DataFrame(rows)


def as_text(levels):
    """The plateaus as a table of texts, nothing where nothing was measured."""
    formats = {"textbook cycles": "{:.0f}", "cycles": "{:.1f}", "ns": "{:.1f}", "GB/s": "{:,.0f}"}
    return levels.assign(**{name: ["" if pd.isna(v) else form.format(v) for v in levels[name]] for name, form in formats.items()})


def sentence(levels, device):
    """What the plateaus say, with their numbers."""
    at = levels.set_index("level")
    l1, l2, far = (at.cycles[name] for name in ("L1 cache", "L2 cache", "Device memory"))
    if pd.isna(l1) or pd.isna(l2) or pd.isna(far):
        return f"Of {device} only a part has been measured so far."
    return (f"On {device} a load waits {at.cycles['Shared memory']:.0f} cycles for shared memory, {l1:.0f} for L1, {l2:.0f} for L2 and {far:.0f} for device "
            f"memory: L2 is {l2 / l1:.1f} times as far as L1, device memory {far / l1:.1f} times.")


def latency_chart(table):
    """Cycles of one load in a chain, against the bytes that the chain spans."""
    return _chart(table[table.kind == "latency"], "cycles", "cycles per load", alt.Scale(type="log", domain=[16, 1024]), [16, 32, 64, 128, 256, 512, 1024])


def bandwidth_chart(table):
    """Gigabytes per second of the whole GPU, against the bytes that it reads over and over."""
    return _chart(table[table.kind == "bandwidth"], "gb_per_s", "GB/s, whole GPU", alt.Scale(type="log"), [2000, 4000, 8000, 16000, 32000])


def _chart(rows, value, title, scale, ticks):
    label = ("datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : "
             "datum.value / 1024 + ' KiB'")
    smallest, largest = rows.working_set.min(), rows.working_set.max()
    values = [2**n for n in range(10, 31, 3 if largest > 2**12 * smallest else 1) if smallest / 2 <= 2**n <= largest * 2]
    x = alt.X("working_set:Q", title="working set", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=values, labelExpr=label))
    y = alt.Y(f"{value}:Q", title=title, scale=scale, axis=alt.Axis(values=ticks))
    present = [name for name in COLOURS if name in set(rows["where"])]
    colour = alt.Color("where:N", title=None, legend=alt.Legend(orient="top", labelLimit=240, columns=2),
                       scale=alt.Scale(domain=present, range=[COLOURS[name] for name in present]))
    shape = alt.Shape("source:N", title=None, legend=alt.Legend(orient="bottom", symbolFillColor=AXIS, symbolStrokeColor=AXIS)
                      if rows.source.nunique() > 1 else None)
    tips = ["where:N", "source:N", alt.Tooltip("working_set:Q", format=",", title="bytes"), alt.Tooltip(f"{value}:Q", format=".5g", title="median"),
            alt.Tooltip(f"{value}_least:Q", format=".5g", title="least"), alt.Tooltip(f"{value}_most:Q", format=".5g", title="most")]
    base = alt.Chart(rows)
    spread = base.mark_rule(strokeWidth=2).encode(x=x, y=alt.Y(f"{value}_least:Q", scale=scale), y2=f"{value}_most:Q", color=colour)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, detail="source:N")
    points = base.mark_point(filled=True, size=40, opacity=1).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
    return (spread + line + points).properties(height=360)
