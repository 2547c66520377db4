"""The times of two kernels at the same problems: their ratio with its spread, as a table, a sentence and a chart."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from explainers.palette import OKABE_ITO, SOURCES
from explainers.timing import microseconds
from explainers.timing_charts import LOG, equal_line, size_axis
from kernels.core.request import Request
from kernels.timing.compare import RATIO
from kernels.timing.rows import settings_text


def times(table: pd.DataFrame, requests: Sequence[Request]) -> pd.DataFrame:
    """Rows of a bench table at which both requests' kernels have a time: one per problem, with the ratio A / B and its
    spread. Two builds of one kernel are told apart by their constants; two kernels take the rows of any constants,
    which the table names."""
    timed = table[(table.status == "ok") & table.seq_len.notna()]
    sides, same = [], requests[0].kernel == requests[1].kernel
    for request in requests:
        own = timed[timed.name == request.kernel.name]
        if same:
            own = own[own.settings == settings_text(request.constants.items())]
        sides.append(own.drop_duplicates(["problem", "l2", "source", "device"]))
    both = sides[0].merge(sides[1], on=["problem", "l2", "source", "device", "date"], suffixes=("", "_b"))
    return both.assign(**{f"ratio{end}": both[above] / both[f"{below}_b"] for end, (above, below) in RATIO.items()})


def _sizes(r: Any) -> str:
    return f"seq_len {r.seq_len:g}, batch {r.batch:g}, num_heads {r.num_heads:g}, head_dim {r.head_dim:g}"


def _problem(r: Any) -> str:
    return _sizes(r) + (", causal" if r.causal else "")


def times_table(both: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """`times` as texts."""
    rows = [
        {
            "problem": _problem(r),
            f"A: {names[0]}": f"{microseconds(r.median_us)} ({microseconds(r.p10_us)} to {microseconds(r.p90_us)})",
            f"B: {names[1]}": f"{microseconds(r.median_us_b)} ({microseconds(r.p10_us_b)} to "
            f"{microseconds(r.p90_us_b)})",
            "A / B": f"{r.ratio:.3g} ({r.ratio_low:.3g} to {r.ratio_high:.3g})",
            "constants": f"A: {r.settings}; B: {r.settings_b}",
            "from": f"{r.source}, {r.device}, {r.date}",
        }
        for r in both.itertuples()
    ]
    return pd.DataFrame(rows)


def times_sentence(both: pd.DataFrame, names: Sequence[str]) -> str:
    """The ratio at the largest problem with its spread: a measured one where there is one, else recorded."""
    if both.empty:
        return f"No problem has a time of both {names[0]} and {names[1]}."
    now = both[both.source == "measured"]
    r: Any = (now if len(now) else both).sort_values(["seq_len", "batch", "num_heads", "head_dim"]).iloc[-1]
    faster, ratio, low, high = 1, r.ratio, r.ratio_low, r.ratio_high
    if r.ratio < 1:
        faster, ratio, low, high = 0, 1 / r.ratio, 1 / r.ratio_high, 1 / r.ratio_low
    return (
        f"At {_sizes(r)} {names[faster]} is {ratio:.3g} times ({low:.3g} to {high:.3g}) as fast as {names[1 - faster]} "
        f"({r.source}, {r.device})."
    )


def ratio_chart(both: pd.DataFrame) -> alt.LayerChart:
    """A's time over B's at every problem, with its spread, against seq_len."""
    rows = both.assign(where=[_problem(r) for r in both.itertuples()])
    x, sources = size_axis(rows, "seq_len"), ["recorded", "measured"]
    ratios = [alt.Tooltip(f"ratio{end}:Q", format=".4g") for end in RATIO]
    times = [
        alt.Tooltip(f"median_us{end}:Q", title=f"{side}, us", format=",.5g") for side, end in (("A", ""), ("B", "_b"))
    ]
    tips = ["where:N", *ratios, *times, "source:N", "device:N", "date:N"]
    base, low = alt.Chart(rows), alt.Y("ratio_low:Q", scale=LOG, title="A / B")
    spread = base.mark_rule(strokeWidth=5, opacity=0.45, color=OKABE_ITO["blue"]).encode(x=x, y=low, y2="ratio_high:Q")
    colour = alt.Color(
        "source:N",
        title=None,
        scale=alt.Scale(domain=sources, range=[SOURCES[name] for name in sources]),
        legend=alt.Legend(orient="top"),
    )
    points = base.mark_point(filled=True, size=60, opacity=1)
    points = points.encode(x=x, y=alt.Y("ratio:Q", scale=LOG, title="A / B"), tooltip=tips, color=colour)
    return (equal_line() + spread + points).properties(height=300)
