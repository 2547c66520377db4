"""The times of two kernels at the same problems, and the verdict: the faster side, the ratio, problem and builds.

A time belongs to a build: a kernel with its constants. If the requested build has no time, the kernel's default
constants replace it, and the column `asked` shows the replacement.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO, SOURCES
from explainers.models.recorded_times import LOG, equal_line, size_axis
from explainers.story import stage
from explainers.story.glossary import microseconds, short
from explainers.story.words import Row, Words
from kernels.core.fields import write_value
from kernels.core.problem import Problem, Size
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure.bench_rows import SIZES, settings_text
from kernels.measure.reports import RATIO

WORDS = Words.of(str(__package__))
SIDES = "AB"
KIND = ("head_dim", "causal", "dtype")
SAID = ("seq_len", "batch", "num_heads", *KIND)
OTHER = 8.0  # distance of two problems for a different dtype or mask
SHORT = 24  # most characters of a value in a sentence
P = TypeVar("P", bound=Problem)


class PairRow(Protocol):
    """A row of `times`: two times of one problem. Columns of B end in _b.

    problem: its fields as JSON. seq_len: NaN for a problem without sizes.
    settings: A's constants as text.
    ratio, ratio_low, ratio_high: A's time over B's, with its spread.
    asked: whether both builds have the requests' constants.
    """

    title: str
    problem: str
    seq_len: float
    causal: bool
    median_us: float
    median_us_b: float
    tflops: float
    roof_percent: float
    roof_percent_b: float
    roof: str
    roof_b: str
    settings: str
    settings_b: str
    ratio: float
    ratio_low: float
    ratio_high: float
    asked: bool
    source: str
    device: str
    date: str


def times(table: pd.DataFrame, requests: Sequence[Request]) -> pd.DataFrame:
    """The rows of a bench table with a time of both kernels, one for each problem.

    Each has the ratio A / B, its spread, and `asked`: whether both rows have the requests' constants. If a kernel has
    no such row, its default constants replace it. Two builds of one kernel differ by their constants.
    """
    timed, same = table[table.status == "ok"], ["problem", "l2", "source", "device"]
    sides = []
    for request in requests:
        own = timed[timed.name == request.kernel.name]
        own = own.assign(asked=own.settings == settings_text(request.constants.items()))
        if requests[0].kernel == requests[1].kernel:
            own = own[own.asked]
        first = own.sort_values(["asked", "own_settings"], ascending=False, kind="stable")
        sides.append(first.drop_duplicates(same))
    both = sides[0].merge(sides[1], on=[*same, "date"], suffixes=("", "_b"))
    ratios = {f"ratio{end}": both[above] / both[f"{below}_b"] for end, (above, below) in RATIO.items()}
    both = both.assign(asked=both.asked & both.asked_b, **ratios)
    return both.sort_values(["seq_len", "batch", "num_heads", "head_dim"], kind="stable", ignore_index=True)


def nearest(both: pd.DataFrame, problem: Problem) -> PairRow | None:
    """The row of `times` with the nearest problem, None of an empty table.

    The factors between sizes decide, or the work for a problem without sizes of a bench.
    """
    return min(both.itertuples(), key=lambda row: distance_of(row, problem), default=None)


def of_page(both: pd.DataFrame, problem: Problem) -> PairRow | None:
    """The one row of `times` for all parts of a page, None of an empty table.

    It is the picture's own problem, if it was timed. Else it is the longest run, as it fills a GPU, of the runs
    nearest to the picture's head_dim, mask and type.
    """
    row = nearest(both, problem)
    if row is None or distance_of(row, problem) == 0:
        return row
    sizes = {name: size for name, size in problem.bench_columns.items() if name in KIND}
    rows = [(sum(_apart(getattr(one, name), size) for name, size in sizes.items()), one) for one in both.itertuples()]
    least = min(apart for apart, _ in rows)
    return max((one for apart, one in rows if apart == least), key=lambda one: float(one.median_us))


def distance_of(row: PairRow, problem: Problem) -> float:
    """The distance of a row's problem from a problem."""
    sizes, work = problem.bench_columns, problem.work
    if sizes:
        return sum(_apart(getattr(row, name), sizes[name]) for name in SIZES if name in sizes)
    if not work:
        return 0.0 if problem_of(row, problem.problem_type) == problem else 1.0
    timed_flops = row.tflops * row.median_us * 1e6  # TFLOP/s times us
    return abs(math.log2(timed_flops / work.flops))


def distance(a: Problem, b: Problem) -> float:
    """The distance of two problems: the factors between their sizes."""
    sizes, others = a.bench_columns, b.bench_columns
    return sum(_apart(sizes[name], others[name]) for name in SIZES if name in sizes and name in others)


def _apart(a: Size, b: Size) -> float:
    if isinstance(b, (str, bool)):
        return OTHER * (str(a) != str(b))
    return abs(math.log2(float(a) / float(b)))


def problem_of(row: PairRow, kind: type[P]) -> P:
    """The problem of a timed row. kind: its class."""
    return kind(**json.loads(row.problem))


def settings_of(row: PairRow, side: int) -> dict[str, int]:
    """The constants of a side's build in a row of `times`."""
    text = (row.settings, row.settings_b)[side]
    pairs = [pair.split("=") for pair in text.split()] if isinstance(text, str) else []
    return {name: int(value) for name, value in pairs}


def is_even(row: PairRow) -> bool:
    """Whether the spread of a row's ratio includes 1."""
    return row.ratio_low <= 1 <= row.ratio_high


def problem_said(row: PairRow) -> str:
    """The problem of a row of `times` in words."""
    return row.title if pd.isna(row.seq_len) else stage.sizes_said({name: getattr(row, name) for name in SAID})


def build_text(kernel: KernelSpec, settings: Mapping[str, int] | Iterable[tuple[str, int]]) -> str:
    """A build as kernel and constants. A what-if appears only if it breaks the build."""
    chosen = kernel.settings(settings)
    plain = [(c.name, chosen[c.name]) for c in kernel.constants if not c.what_if or chosen[c.name] != c.default]
    return " ".join([kernel.name, settings_text(plain)]).strip()


# ---- the verdict ----


@dataclass(frozen=True)
class Verdict:
    """The comparison of two times.

    said, tone: one line, and its tone as in stage.Stage.
    row: the row of `times`, None without a time.
    details: the timed builds, and the builds on the stage.
    """

    said: str
    tone: str = "info"
    row: PairRow | None = None
    details: str = ""


def verdict(
    both: pd.DataFrame, requests: Sequence[Request], broken: str, absent: str, tone: str = "bad", sets: str = ""
) -> Verdict:
    """The faster side, the ratio with its spread, the problem and the timed builds, for the page's row.

    broken, tone: a sentence on sides with a what-if. Such a side gets no time.
    absent: the reason for a missing time.
    sets: the effect of the choice As timed (`as_timed`).
    """
    a, b = requests
    row = of_page(both, a.problem)
    names: Row = {"broken": broken, "absent": absent, "two": a.problem != b.problem, "row": row is not None}
    names["same"] = a.kernel == b.kernel and a.constants == b.constants
    names["fields"] = [found for found in problem_differences(requests) if max(map(len, found)) <= SHORT]
    if broken or names["two"] or names["same"] or row is None:
        return Verdict(WORDS.say("verdict", names), tone if broken else "info")
    names |= {**ratio_of(row), **range_of(both), "sets": sets, "asked": row.asked}
    names["least"] = row.ratio == (both.ratio.min() if row.ratio >= 1 else both.ratio.max())
    names["elsewhere"] = problem_of(row, a.problem.problem_type) != a.problem
    names["builds"] = [build_text(request.kernel, settings_of(row, side)) for side, request in enumerate(requests)]
    details = f"{WORDS.say('ratio', names)} {WORDS.say('details', names)}"
    return Verdict(WORDS.say("verdict", names), "info", row, details)


def as_timed(row: PairRow | None, settable: PairRow | None, off: str, kind: type[Problem]) -> str:
    """The effect of the choice As timed in words.

    row: of the verdict. settable: of the choice, None if it is off. off: the reason. kind: the class of both problems.
    """
    same = row is None or settable is None or problem_of(settable, kind) == problem_of(row, kind)
    nearest = "" if same or settable is None else problem_said(settable)
    return WORDS.say("sets", {"off": off, "nearest": nearest, "asked": row is not None and row.asked})


def problem_differences(requests: Sequence[Request]) -> list[tuple[str, str, str]]:
    """(field, A's value, B's value) for each different field."""
    a, b = (request.problem.values() for request in requests)
    return [(name, write_value(a[name]), write_value(b[name])) for name in a if a[name] != b[name]]


def absent(table: pd.DataFrame, requests: Sequence[Request]) -> str:
    """The reasons for a missing common time: sides without a time, or with times elsewhere."""
    same, sides = requests[0].kernel == requests[1].kernel, []
    for side, request in zip(SIDES, requests):
        mine = table[(table.name == request.kernel.name) & (table.status == "ok")]
        own = mine[mine.settings == settings_text(request.constants.items())] if same else mine
        if own.empty:
            sides.append((side, build_text(request.kernel, request.settings) if same else request.kernel.name))
    return WORDS.say("absent", {"sides": sides})


def ratio_of(row: PairRow) -> Row:
    """The data of the ratio's sentences. The ratio is above 1 if one side is faster, and B's time over A's if the
    spread includes 1."""
    ratios, even = [row.ratio, row.ratio_low, row.ratio_high], is_even(row)
    if even or row.ratio < 1:
        ratios = [1 / row.ratio, 1 / row.ratio_high, 1 / row.ratio_low]
    faster, slower = "AB" if row.ratio < 1 else "BA"
    names = dict(zip(("times", "low", "high"), ratios)) | {"even": even, "faster": faster, "slower": slower}
    return names | {"where": problem_said(row), "source": row.source, "device": row.device, "date": row.date}


def ratio_sentence(row: PairRow) -> str:
    """B is 2.3 times (2.1 to 2.5) as fast as A at 128 tokens, ... (recorded, a GPU, a date)."""
    return WORDS.say("ratio", ratio_of(row))


def range_of(both: pd.DataFrame) -> Row:
    """The data of the sentences about all problems with both times: their number, and the problems at both ends."""
    rows = sorted(both.itertuples(), key=lambda row: row.ratio)
    ends = [{"ratio": row.ratio, "said": problem_said(row)} for row in (rows[0], rows[-1])]
    return {"problems": len(rows), "ends": ends}


# ---- every time ----


def times_table(both: pd.DataFrame, requests: Sequence[Request]) -> pd.DataFrame:
    """The rows of `times` as texts."""
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
    tips = ["where:N", *(alt.Tooltip(f"ratio{end}:Q", format=".4g") for end in RATIO)]
    ends = zip(SIDES, ("", "_b"))
    tips += [alt.Tooltip(f"median_us{end}:Q", title=f"{side}, µs", format=",.5g") for side, end in ends]
    base, low = alt.Chart(rows), alt.Y("ratio_low:Q", scale=LOG, title="A's time / B's time")
    spread = base.mark_rule(strokeWidth=5, opacity=0.45, color=OKABE_ITO["blue"]).encode(x=x, y=low, y2="ratio_high:Q")
    scale = alt.Scale(domain=sources, range=[SOURCES[name] for name in sources])
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=x,
        y=alt.Y("ratio:Q", scale=LOG, title="A's time / B's time"),
        tooltip=[*tips, "source:N", "device:N", "date:N"],
        color=alt.Color("source:N", title=None, scale=scale, legend=alt.Legend(orient="top")),
    )
    return (equal_line() + spread + points).properties(height=300)
