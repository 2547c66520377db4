"""The times of two kernels at the same problems: the verdict, and their ratio with its spread.

A time belongs to a build: a kernel with its constants. If the requested build has no time, the kernel's default
constants replace it, and the column `asked` of `times` shows the replacement.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO, SOURCES
from explainers.stories.timing.chart_layers import LOG, size_axis
from explainers.stories.timing.size_charts import equal_line
from explainers.stories.timing.wording import microseconds
from kernels.core.fields import fields_of, write_value
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure.reports import RATIO
from kernels.measure.rows import SIZES, settings_text

SHORT = 24  # most characters of a value in a sentence
OTHER = 8.0  # distance of two problems for a different dtype or mask


@dataclass(frozen=True)
class Verdict:
    """The comparison of two times.

    said: one line.
    tone: as in stage.Stage.
    row: the row of `times`, None without a time.
    """

    said: str
    tone: str = "info"
    row: Any = None


def times(table: pd.DataFrame, requests: Sequence[Request]) -> pd.DataFrame:
    """Returns the rows of a bench table with a time of both kernels, one for each problem.

    Each has the ratio A / B, its spread, and `asked`: whether both rows have the requests' constants. If a kernel
    has no
    such row, its default constants replace it. Two builds of one kernel differ by their constants.
    """
    timed = table[table.status == "ok"]
    sides, same = [], requests[0].kernel == requests[1].kernel
    for request in requests:
        own = timed[timed.name == request.kernel.name]
        own = own.assign(asked=own.settings == settings_text(request.constants.items()))
        own = own[own.asked] if same else own.sort_values(["asked", "own_settings"], ascending=False, kind="stable")
        sides.append(own.drop_duplicates(["problem", "l2", "source", "device"]))
    both = sides[0].merge(sides[1], on=["problem", "l2", "source", "device", "date"], suffixes=("", "_b"))
    both = both.assign(asked=both.asked & both.asked_b)
    both = both.assign(**{f"ratio{end}": both[above] / both[f"{below}_b"] for end, (above, below) in RATIO.items()})
    return both.sort_values(["seq_len", "batch", "num_heads", "head_dim"], kind="stable", ignore_index=True)


def nearest(both: pd.DataFrame, problem: Any) -> Any:
    """Returns the row of `times` with the nearest problem, None of an empty table.

    The factors between sizes decide, or the work for a problem without sizes of a bench.
    """
    if both.empty:
        return None
    sizes, work = problem.bench_columns, problem.work

    def far(row: Any) -> float:
        if sizes:
            return sum(_apart(getattr(row, name), sizes[name]) for name in SIZES if name in sizes)
        if not work:
            return 0.0 if problem_of(row, type(problem)) == problem else 1.0
        return abs(math.log2(row.tflops * row.median_us * 1e6 / work.flops))  # TFLOP/s times us: the timed work

    return min(both.itertuples(), key=far)


def _apart(a: Any, b: Any) -> float:
    if isinstance(b, (str, bool)):
        return OTHER * (str(a) != str(b))
    return abs(math.log2(float(a) / float(b)))


def problem_of(row: Any, kind: Any) -> Any:
    """Returns the problem of a timed row. kind: its class."""
    return kind(**json.loads(row.problem))


def settings_of(row: Any, side: int) -> dict[str, int]:
    """Returns the constants of a side's build in a row of `times`."""
    text = (row.settings, row.settings_b)[side]
    pairs = [pair.split("=") for pair in text.split()] if isinstance(text, str) else []
    return {name: int(value) for name, value in pairs}


def build_text(kernel: KernelSpec, settings: Any) -> str:
    """Returns a build as kernel and constants. A what-if appears only if it breaks the build."""
    chosen = kernel.settings(settings)
    plain = [(c.name, chosen[c.name]) for c in kernel.constants if not c.what_if or chosen[c.name] != c.default]
    return " ".join([kernel.name, settings_text(plain)]).strip()


SETS = "As timed sets {}"


def verdict(
    both: pd.DataFrame,
    requests: Sequence[Request],
    broken: str,
    absent: str,
    broken_tone: str = "bad",
    sets: str = SETS,
) -> Verdict:
    """Returns the faster side, the ratio with its spread, the problem and the timed builds, for the nearest row.

    broken: a sentence on sides with a what-if, and its tone. Such a side gets no time.
    absent: the reason for a missing time.
    sets: the effect of the choice As timed, with {} for its problem or builds. "" on a page without this choice.
    """
    if broken:
        return Verdict(f"{broken} A what-if build gets no time.", broken_tone)
    if requests[0].problem != requests[1].problem:
        found = [row for row in problem_differences(requests) if max(map(len, row)) <= SHORT]
        a, b = (", ".join(f"{row[0]} {row[n]}" for row in found) or "a problem" for n in (1, 2))
        return Verdict(
            f"Neither is called faster: A has {a} and B {b}{'' if found else ' of its own'}. No time is of both."
        )
    if requests[0].kernel == requests[1].kernel and requests[0].constants == requests[1].constants:
        return Verdict(
            "A and B are the same build. Choose another kernel, or another constant under More, for one of them."
        )
    row = nearest(both, requests[0].problem)
    if row is None:
        return Verdict(f"Neither is called faster: no problem has a time of both. {absent}".strip())
    builds = [build_text(request.kernel, settings_of(row, side)) for side, request in enumerate(requests)]
    then = f"; {sets}" if sets and requests[0].backend != "recorded" else ""
    if not row.asked:
        stands = f"The stage shows other builds{then.format('these')}."
    elif problem_of(row, type(requests[0].problem)) != requests[0].problem:
        stands = f"The stage shows these builds on another problem{then.format('this one')}."
    else:
        stands = "The stage shows these builds on this problem."
    said = [ratio_sentence(row), shapes_sentence(both, row), f"A is {builds[0]}; B is {builds[1]}.", stands]
    return Verdict(" ".join(part for part in said if part), "info", row)


def as_timed_said(row: Any, settable: Any, why: str, kind: Any) -> str:
    """Returns the effect of the choice As timed, for `verdict`.

    row: the row of the verdict.
    settable: the row of the choice, None if it is off.
    why: the reason for an off choice.
    kind: the class of both problems.
    """
    if settable is None:
        return f"As timed is off: {why}"
    if row is None or problem_of(settable, kind) == problem_of(row, kind):
        return SETS
    return f"As timed sets the nearest that can run here, {problem_said(settable)}"


def shapes_sentence(both: pd.DataFrame, row: Any) -> str:
    """Returns the number of problems with both times, the row's place, and the range of ratios. "" for one problem."""
    if len(both) < 2:
        return ""
    low, high = float(both.ratio.min()), float(both.ratio.max())
    if low >= 1:
        over = f"B is {low:.3g} to {high:.3g} times as fast as A"
    elif high <= 1:
        over = f"A is {1 / high:.3g} to {1 / low:.3g} times as fast as B"
    else:
        over = f"A's time over B's goes from {low:.3g} to {high:.3g}"
    least = low if row.ratio >= 1 else high
    extreme = f" and the least favourable to {'B' if row.ratio >= 1 else 'A'}" if row.ratio == least else ""
    return f"It is the nearest to the stage's of {len(both)} timed problems{extreme}; over all of them {over}."


def distance(a: Any, b: Any) -> float:
    """Returns the distance of two problems: the factors between their sizes."""
    sizes, others = a.bench_columns, b.bench_columns
    return sum(_apart(sizes[name], others[name]) for name in SIZES if name in sizes and name in others)


def problem_differences(requests: Sequence[Request]) -> list[tuple[str, str, str]]:
    """Returns (field, A's value, B's value) for each different field."""
    a, b = ({name: write_value(getattr(r.problem, name)) for name in fields_of(type(r.problem))} for r in requests)
    return [(name, a[name], b[name]) for name in a if a[name] != b[name]]


def absent(table: pd.DataFrame, requests: Sequence[Request]) -> str:
    """Returns the reasons for a missing common time: sides without a time, or with times elsewhere."""
    same, said = requests[0].kernel == requests[1].kernel, []
    for side, request in zip("AB", requests):
        mine = table[(table.name == request.kernel.name) & (table.status == "ok")]
        own = mine[mine.settings == settings_text(request.constants.items())] if same else mine
        if own.empty:
            name = build_text(request.kernel, request.settings) if same else request.kernel.name
            said.append(f"No time of {side}, {name}, is recorded.")
    return " ".join(said) or "Each has times, but on no problem in common."


def is_even(row: Any) -> bool:
    """Whether the spread of a row's ratio includes 1."""
    return row.ratio_low <= 1 <= row.ratio_high


def ratio_sentence(r: Any) -> str:
    """ "B is 2.3 times (2.1 to 2.5) as fast as A at seq_len 128, ... (recorded, a GPU, a date)."

    If the spread includes 1, neither is faster.
    """
    faster, ratio, low, high = 1, r.ratio, r.ratio_low, r.ratio_high
    if r.ratio < 1:
        faster, ratio, low, high = 0, 1 / r.ratio, 1 / r.ratio_high, 1 / r.ratio_low
    where = f"at {problem_said(r)} ({r.source}, {r.device}, {r.date})"
    if is_even(r):
        low, high = 1 / r.ratio_high, 1 / r.ratio_low
        return f"Neither is faster: B's time is {1 / r.ratio:.3g} of A's ({low:.3g} to {high:.3g}) {where}."
    sides = "AB"
    return f"{sides[faster]} is {ratio:.3g} times ({low:.3g} to {high:.3g}) as fast as {sides[1 - faster]} {where}."


def problem_said(r: Any) -> str:
    """Returns the problem of a row of `times` in words."""
    if pd.isna(r.seq_len):
        return str(r.title)
    sizes = f"seq_len {r.seq_len:g}, batch {r.batch:g}, {r.num_heads:g} heads of {r.head_dim:g}"
    return sizes + (", causal" if r.causal else "") + ("" if r.dtype == "float32" else f", {r.dtype}")


def times_table(both: pd.DataFrame, requests: Sequence[Request]) -> pd.DataFrame:
    """Returns `times` as texts. requests: the two requests."""
    a, b = (request.kernel for request in requests)
    rows = [
        {
            "problem": problem_said(r),
            "A": f"{microseconds(r.median_us)} ({microseconds(r.p10_us)} to {microseconds(r.p90_us)})",
            "B": f"{microseconds(r.median_us_b)} ({microseconds(r.p10_us_b)} to {microseconds(r.p90_us_b)})",
            "A / B": f"{r.ratio:.3g} ({r.ratio_low:.3g} to {r.ratio_high:.3g})",
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
        f"Over the {len(both)} problems on which both have a time, A's time over B's goes from {low.ratio:.3g} "
        f"({problem_said(low)}) to {high.ratio:.3g} ({problem_said(high)}); above 1 B is faster."
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
