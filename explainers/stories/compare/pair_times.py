"""The timed rows of two kernels at the same problems.

A time belongs to a build: a kernel with its constants. If the requested build has no time, the kernel's default
constants replace it, and the column `asked` shows the replacement.
"""

import json
import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

import pandas as pd

from explainers.story import stage
from explainers.story.words import Words
from kernels.core.problem import Problem, Size
from kernels.core.request import Request
from kernels.measure.bench_rows import SIZES, settings_text
from kernels.measure.reports import RATIO

WORDS = Words.of(str(__package__))
KIND = ("head_dim", "causal", "dtype")
SAID = ("seq_len", "batch", "num_heads", *KIND)
OTHER = 8.0  # distance of two problems for a different dtype or mask
P = TypeVar("P", bound=Problem)
SAME = ["problem", "l2", "source", "device"]  # columns of two times of one problem


class PairRow(Protocol):
    """A row of `times`: two times of one problem. Columns of B end in _b.

    title, problem: the kind of problem, and its fields as JSON.
    seq_len, batch, num_heads, head_dim, causal, dtype: its sizes. seq_len is NaN for a problem without sizes.
    median_us, p10_us, p90_us: the time of A. tflops: its rate. roof, roof_percent: a roof and its share.
    settings, own_settings: A's constants as text, and whether they are the kernel's own.
    ratio, ratio_low, ratio_high: A's time over B's, with its spread.
    asked: whether both builds have the requests' constants.
    l2: cold or warm.
    source, device, date: the origin.
    """

    title: str
    problem: str
    seq_len: float
    batch: float
    num_heads: float
    head_dim: float
    causal: bool
    dtype: str
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
    l2: str
    source: str
    device: str
    date: str


def times(table: pd.DataFrame, requests: Sequence[Request]) -> pd.DataFrame:
    """The rows of a bench table with a time of both kernels, one for each problem.

    Each has the ratio A / B, its spread, and `asked`: whether both rows have the requests' constants. If a kernel has
    no such row, its default constants replace it. Two builds of one kernel differ by their constants.
    """
    timed = table[table.status == "ok"]
    one_kernel = requests[0].kernel == requests[1].kernel
    a, b = (_builds_of(timed, request, one_kernel) for request in requests)
    both = a.merge(b, on=["problem", "l2", "source", "device", "date"], suffixes=("", "_b"))
    both = both.assign(asked=both.asked & both.asked_b)
    ratios = {f"ratio{end}": both[above] / both[f"{below}_b"] for end, (above, below) in RATIO.items()}
    both = both.assign(**ratios)
    return both.sort_values(["seq_len", "batch", "num_heads", "head_dim"], kind="stable", ignore_index=True)


def _builds_of(timed: pd.DataFrame, request: Request, exactly: bool) -> pd.DataFrame:
    """one timed build of the request's kernel for each problem.

    exactly: whether only the request's constants count. Else its row, or the kernel's own build, comes first.
    """
    own = timed[timed.name == request.kernel.name]
    own = own.assign(asked=own.settings == settings_text(request.constants.items()))
    if exactly:
        return own[own.asked].drop_duplicates(SAME)
    return own.sort_values(["asked", "own_settings"], ascending=False, kind="stable").drop_duplicates(SAME)


def nearest(both: pd.DataFrame, problem: Problem) -> PairRow | None:
    """The row of `times` with the nearest problem, None of an empty table.

    The factors between sizes decide, or the work for a problem without sizes of a bench.
    """
    if both.empty:
        return None
    return min(both.itertuples(), key=lambda row: distance_of(row, problem))


def of_page(both: pd.DataFrame, problem: Problem) -> PairRow | None:
    """The one row of `times` for all parts of a page, None of an empty table.

    It is the picture's own problem, if it was timed. Else it is the longest run, as it fills a GPU, of those that are
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


def distance(a: Problem, b: Problem) -> float:
    """The distance of two problems: the factors between their sizes."""
    sizes, others = a.bench_columns, b.bench_columns
    return sum(_apart(sizes[name], others[name]) for name in SIZES if name in sizes and name in others)


def is_even(row: PairRow) -> bool:
    """Whether the spread of a row's ratio includes 1."""
    return row.ratio_low <= 1 <= row.ratio_high


def problem_said(row: PairRow) -> str:
    """The problem of a row of `times` in words."""
    if pd.isna(row.seq_len):
        return str(row.title)
    return stage.sizes_said({name: getattr(row, name) for name in SAID})
