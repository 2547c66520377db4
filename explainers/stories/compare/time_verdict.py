"""The verdict on two times: the faster side, the ratio, the problem and the builds, and every time as a table and a
chart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO, SOURCES
from explainers.models.recorded_times import LOG, equal_line, size_axis
from explainers.stories.compare.pair_times import (
    WORDS,
    PairRow,
    is_even,
    of_page,
    problem_of,
    problem_said,
    settings_of,
)
from explainers.story.glossary import microseconds, short
from kernels.core.fields import write_value
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure.bench_rows import settings_text
from kernels.measure.reports import RATIO

SHORT = 24  # most characters of a value in a sentence


@dataclass(frozen=True)
class Verdict:
    """The comparison of two times.

    said: one line.
    tone: as in stage.Stage.
    row: the row of pair_times.times, None without a time.
    details: the timed builds, and the builds on the stage.
    """

    said: str
    tone: str = "info"
    row: PairRow | None = None
    details: str = ""


@dataclass(frozen=True)
class AsTimed:
    """The effect of the choice As timed.

    off: the reason for an off choice.
    nearest: the problem that it sets, if that is not the problem of the verdict.
    """

    off: str = ""
    nearest: str = ""


def build_text(kernel: KernelSpec, settings: Mapping[str, int] | Iterable[tuple[str, int]]) -> str:
    """A build as kernel and constants. A what-if appears only if it breaks the build."""
    chosen = kernel.settings(settings)
    plain = [(c.name, chosen[c.name]) for c in kernel.constants if not c.what_if or chosen[c.name] != c.default]
    return " ".join([kernel.name, settings_text(plain)]).strip()


def verdict(
    both: pd.DataFrame,
    requests: Sequence[Request],
    broken: str,
    absent: str,
    broken_tone: str = "bad",
    sets: AsTimed | None = AsTimed(),
) -> Verdict:
    """The faster side, the ratio with its spread, the problem and the timed builds, for the page's row.

    broken: a sentence on sides with a what-if, and its tone. Such a side gets no time.
    absent: the reason for a missing time.
    sets: the effect of the choice As timed. None on a page without this choice.
    """
    if broken:
        return Verdict(WORDS.say("what_if", {"broken": broken}), broken_tone)
    a, b = requests
    if a.problem != b.problem:
        fields = [found for found in problem_differences(requests) if max(map(len, found)) <= SHORT]
        return Verdict(WORDS.say("two_problems", {"fields": fields}))
    if a.kernel == b.kernel and a.constants == b.constants:
        return Verdict(WORDS.say("one_build", {}))
    row = of_page(both, a.problem)
    if row is None:
        return Verdict(WORDS.say("no_time", {"absent": absent}))
    then = WORDS.say("sets", vars(sets) | {"asked": row.asked}) if sets and a.backend != "recorded" else ""
    elsewhere = problem_of(row, a.problem.problem_type) != a.problem
    names = {
        "ratio": ratio_sentence(row),
        "shapes": shapes_sentence(both, row),
        "builds": [build_text(request.kernel, settings_of(row, side)) for side, request in enumerate(requests)],
        "on_stage": WORDS.say("on_stage", {"asked": row.asked, "elsewhere": elsewhere, "sets": then}),
    }
    said = f"{brief_sentence(row)} {range_over(both)}".strip()
    return Verdict(said, "info", row, WORDS.say("details", names))


def as_timed(row: PairRow | None, settable: PairRow | None, why: str, kind: type[Problem]) -> AsTimed:
    """The effect of the choice As timed.

    row: the row of the verdict.
    settable: the row of the choice, None if it is off.
    why: the reason for an off choice.
    kind: the class of both problems.
    """
    if settable is None:
        return AsTimed(off=why)
    same = row is None or problem_of(settable, kind) == problem_of(row, kind)
    return AsTimed() if same else AsTimed(nearest=problem_said(settable))


def shapes_sentence(both: pd.DataFrame, row: PairRow) -> str:
    """The number of problems with both times, and the row's place. "" for one problem."""
    if len(both) < 2:
        return ""
    least = row.ratio == (both.ratio.min() if row.ratio >= 1 else both.ratio.max())
    return WORDS.say("shapes", {"problems": len(both), "least": least, "faster": "B" if row.ratio >= 1 else "A"})


def range_over(both: pd.DataFrame) -> str:
    """The range of ratios over all problems with both times. "" for one problem."""
    names = {"problems": len(both), "low": float(both.ratio.min()), "high": float(both.ratio.max())}
    return WORDS.say("range_over", names) if len(both) > 1 else ""


def range_sentence(both: pd.DataFrame) -> str:
    """The range of the ratio over all problems, with the problems at its ends. "" for one problem."""
    if len(both) < 2:
        return ""
    rows = sorted(both.itertuples(), key=lambda row: row.ratio)
    low, high = ({"ratio": row.ratio, "said": problem_said(row)} for row in (rows[0], rows[-1]))
    return WORDS.say("range", {"problems": len(both), "low": low, "high": high})


def problem_differences(requests: Sequence[Request]) -> list[tuple[str, str, str]]:
    """(field, A's value, B's value) for each different field."""
    a, b = (request.problem.values() for request in requests)
    return [(name, write_value(a[name]), write_value(b[name])) for name in a if a[name] != b[name]]


def absent(table: pd.DataFrame, requests: Sequence[Request]) -> str:
    """The reasons for a missing common time: sides without a time, or with times elsewhere."""
    same, sides = requests[0].kernel == requests[1].kernel, []
    for side, request in zip("AB", requests):
        mine = table[(table.name == request.kernel.name) & (table.status == "ok")]
        own = mine[mine.settings == settings_text(request.constants.items())] if same else mine
        if own.empty:
            sides.append((side, build_text(request.kernel, request.settings) if same else request.kernel.name))
    return WORDS.say("absent", {"sides": sides})


def _ratio_names(row: PairRow) -> dict[str, object]:
    """The ratio of a row with its spread, above 1 if one side is faster. If the spread includes 1, neither is."""
    ratios, even = [row.ratio, row.ratio_low, row.ratio_high], is_even(row)
    if even or row.ratio < 1:
        ratios = [1 / row.ratio, 1 / row.ratio_high, 1 / row.ratio_low]
    faster, slower = "AB" if row.ratio < 1 else "BA"
    names = dict(zip(("times", "low", "high"), ratios)) | {"even": even, "faster": faster, "slower": slower}
    return names | {"where": problem_said(row)}


def brief_sentence(row: PairRow) -> str:
    """ "B is 2.3 times as fast as A at seq_len 128, batch 1, 8 heads of 64." """
    return WORDS.say("brief", _ratio_names(row))


def ratio_sentence(row: PairRow) -> str:
    """ "B is 2.3 times (2.1 to 2.5) as fast as A at seq_len 128, ... (recorded, a GPU, a date)." """
    return WORDS.say("ratio", _ratio_names(row) | {"source": row.source, "device": row.device, "date": row.date})


# ---- every time ----


def times_table(both: pd.DataFrame, requests: Sequence[Request]) -> pd.DataFrame:
    """The rows of pair_times.times as texts. requests: the two requests."""
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


def ratio_chart(both: pd.DataFrame) -> alt.LayerChart:
    """A's time over B's at every problem, with its spread, against seq_len."""
    rows = both.assign(where=[problem_said(r) for r in both.itertuples()])
    x, sources = size_axis(rows, "seq_len"), [name for name in ("recorded", "measured") if name in set(both.source)]
    ratios = [alt.Tooltip(f"ratio{end}:Q", format=".4g") for end in RATIO]
    times = [
        alt.Tooltip(f"median_us{end}:Q", title=f"{side}, us", format=",.5g") for side, end in (("A", ""), ("B", "_b"))
    ]
    tips = ["where:N", *ratios, *times, "source:N", "device:N", "date:N"]
    base, low = alt.Chart(rows), alt.Y("ratio_low:Q", scale=LOG, title="A's time / B's time")
    spread = base.mark_rule(strokeWidth=5, opacity=0.45, color=OKABE_ITO["blue"]).encode(x=x, y=low, y2="ratio_high:Q")
    scale = alt.Scale(domain=sources, range=[SOURCES[name] for name in sources])
    colour = alt.Color("source:N", title=None, scale=scale, legend=alt.Legend(orient="top"))
    points = base.mark_point(filled=True, size=60, opacity=1)
    points = points.encode(x=x, y=alt.Y("ratio:Q", scale=LOG, title="A's time / B's time"), tooltip=tips, color=colour)
    return (equal_line() + spread + points).properties(height=300)
