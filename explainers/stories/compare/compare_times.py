"""The times of two kernels as a table, a sentence and a chart."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO, SOURCES
from explainers.models.recorded_times import LOG, equal_line, size_axis
from explainers.stories.compare.pair_times import problem_said, settings_of
from explainers.stories.compare.time_verdict import build_text
from explainers.story.glossary import microseconds, short
from kernels.core.request import Request
from kernels.measure.reports import RATIO


def times_table(both: pd.DataFrame, requests: Sequence[Request]) -> pd.DataFrame:
    """Returns `times` as texts. requests: the two requests."""
    a, b = (request.kernel for request in requests)
    rows = [
        {
            "problem": problem_said(r),
            "A": f"{microseconds(r.median_us)} ({microseconds(r.p10_us)} to {microseconds(r.p90_us)})",
            "B": f"{microseconds(r.median_us_b)} ({microseconds(r.p10_us_b)} to {microseconds(r.p90_us_b)})",
            "A / B": f"{short(r.ratio, 3)} ({short(r.ratio_low, 3)} to {short(r.ratio_high, 3)})",
            "A is": build_text(a, settings_of(r, 0)),
            "B is": build_text(b, settings_of(r, 1)),
            "from": f"{r.source}, {r.device}, {r.date}",
        }
        for r in both.itertuples()
    ]
    return pd.DataFrame(rows)


def range_sentence(both: pd.DataFrame) -> str:
    """Returns the range of the ratio over all problems."""
    if len(both) < 2:
        return ""
    rows = sorted(both.itertuples(), key=lambda row: row.ratio)
    low, high = rows[0], rows[-1]
    return (
        f"Over the {len(both)} problems on which both have a time, A's time over B's goes from {short(low.ratio, 3)} "
        f"({problem_said(low)}) to {short(high.ratio, 3)} ({problem_said(high)}). Above 1, B is faster."
    )


def ratio_chart(both: pd.DataFrame) -> alt.LayerChart:
    """Returns A's time over B's at every problem, with its spread, against seq_len."""
    rows = both.assign(where=[problem_said(r) for r in both.itertuples()])
    x, sources = size_axis(rows, "seq_len"), [name for name in ("recorded", "measured") if name in set(both.source)]
    ratios = [alt.Tooltip(f"ratio{end}:Q", format=".4g") for end in RATIO]
    times = [
        alt.Tooltip(f"median_us{end}:Q", title=f"{side}, us", format=",.5g") for side, end in (("A", ""), ("B", "_b"))
    ]
    tips = ["where:N", *ratios, *times, "source:N", "device:N", "date:N"]
    base, low = alt.Chart(rows), alt.Y("ratio_low:Q", scale=LOG, title="A's time / B's time")
    spread = base.mark_rule(strokeWidth=5, opacity=0.45, color=OKABE_ITO["blue"]).encode(x=x, y=low, y2="ratio_high:Q")
    colour = alt.Color(
        "source:N",
        title=None,
        scale=alt.Scale(domain=sources, range=[SOURCES[name] for name in sources]),
        legend=alt.Legend(orient="top"),
    )
    points = base.mark_point(filled=True, size=60, opacity=1)
    points = points.encode(x=x, y=alt.Y("ratio:Q", scale=LOG, title="A's time / B's time"), tooltip=tips, color=colour)
    return (equal_line() + spread + points).properties(height=300)
