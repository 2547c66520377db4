"""The verdict on two times: the faster side, the ratio, the problem and the builds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.stories.compare.pair_times import PairRow, is_even, of_page, problem_of, problem_said, settings_of
from explainers.story.glossary import short
from kernels.core.fields import write_value
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.measure.bench_rows import settings_text

SHORT = 24  # most characters of a value in a sentence


@dataclass(frozen=True)
class Verdict:
    """The comparison of two times.

    said: one line.
    tone: as in stage.Stage.
    row: the row of `times`, None without a time.
    details: the timed builds, and the builds on the stage.
    """

    said: str
    tone: str = "info"
    row: PairRow | None = None
    details: str = ""


def build_text(kernel: KernelSpec, settings: Mapping[str, int] | Iterable[tuple[str, int]]) -> str:
    """Returns a build as kernel and constants. A what-if appears only if it breaks the build."""
    chosen = kernel.settings(settings)
    plain = [(c.name, chosen[c.name]) for c in kernel.constants if not c.what_if or chosen[c.name] != c.default]
    return " ".join([kernel.name, settings_text(plain)]).strip()


SETS = "The button As timed sets {}"


def verdict(
    both: pd.DataFrame,
    requests: Sequence[Request],
    broken: str,
    absent: str,
    broken_tone: str = "bad",
    sets: str = SETS,
) -> Verdict:
    """Returns the faster side, the ratio with its spread, the problem and the timed builds, for the page's row.

    broken: a sentence on sides with a what-if, and its tone. Such a side gets no time.
    absent: the reason for a missing time.
    sets: the effect of the choice As timed, with {} for its problem or builds. "" on a page without this choice.
    """
    if broken:
        return Verdict(f"{broken} A what-if build gets no time.", broken_tone)
    a, b = requests
    if a.problem != b.problem:
        return Verdict(f"Neither is called faster: {_two_problems(requests)}. No time is of both.")
    if a.kernel == b.kernel and a.constants == b.constants:
        return Verdict(
            "A and B are the same build. Choose another kernel, or another constant under More, for one side."
        )
    row = of_page(both, a.problem)
    if row is None:
        return Verdict(f"Neither is called faster: no problem has a time of both. {absent}".strip())
    builds = [build_text(request.kernel, settings_of(row, side)) for side, request in enumerate(requests)]
    then = f". {sets}" if sets and a.backend != "recorded" else ""
    if not row.asked:
        on_stage = f"The stage shows other builds{then.format('these')}."
    elif problem_of(row, a.problem.problem_type) != a.problem:
        on_stage = f"The stage shows these builds on another problem{then.format('this one')}."
    else:
        on_stage = "The stage shows these builds on this problem."
    said = " ".join(part for part in (brief_sentence(row), range_over(both)) if part)
    more = " ".join(part for part in (ratio_sentence(row), shapes_sentence(both, row)) if part)
    return Verdict(said, "info", row, f"{more} A is {builds[0]}. B is {builds[1]}. {on_stage}")


def _two_problems(requests: Sequence[Request]) -> str:
    """Returns the short fields in which two problems differ."""
    short = [found for found in problem_differences(requests) if max(map(len, found)) <= SHORT]
    if not short:
        return "A has a problem and B a problem of its own"
    of_a = ", ".join(f"{name} {value}" for name, value, _ in short)
    of_b = ", ".join(f"{name} {value}" for name, _, value in short)
    return f"A has {of_a} and B {of_b}"


def as_timed_said(row: PairRow | None, settable: PairRow | None, why: str, kind: type[Problem]) -> str:
    """Returns the effect of the choice As timed, for `verdict`.

    row: the row of the verdict.
    settable: the row of the choice, None if it is off.
    why: the reason for an off choice.
    kind: the class of both problems.
    """
    if settable is None:
        return f"The button As timed is off: {why}"
    if row is None or problem_of(settable, kind) == problem_of(row, kind):
        return SETS
    return f"The button As timed sets the nearest that can run here, {problem_said(settable)}"


def shapes_sentence(both: pd.DataFrame, row: PairRow) -> str:
    """Returns the number of problems with both times, and the row's place. "" for one problem."""
    if len(both) < 2:
        return ""
    least = both.ratio.min() if row.ratio >= 1 else both.ratio.max()
    extreme = f", and {'B' if row.ratio >= 1 else 'A'} gains least here" if row.ratio == least else ""
    return f"Of {len(both)} timed problems, the whole page uses this one{extreme}."


def range_over(both: pd.DataFrame) -> str:
    """Returns the range of ratios over all problems with both times. "" for one problem."""
    if len(both) < 2:
        return ""
    low, high = float(both.ratio.min()), float(both.ratio.max())
    over = f"Over {len(both)} timed problems,"
    if low >= 1:
        return f"{over} B is {short(low, 3)} to {short(high, 3)} times as fast as A."
    if high <= 1:
        return f"{over} A is {short(1 / high, 3)} to {short(1 / low, 3)} times as fast as B."
    return f"{over} A's time over B's goes from {short(low, 3)} to {short(high, 3)}."


def problem_differences(requests: Sequence[Request]) -> list[tuple[str, str, str]]:
    """Returns (field, A's value, B's value) for each different field."""
    a, b = (request.problem.values() for request in requests)
    return [(name, write_value(a[name]), write_value(b[name])) for name in a if a[name] != b[name]]


def absent(table: pd.DataFrame, requests: Sequence[Request]) -> str:
    """Returns the reasons for a missing common time: sides without a time, or with times elsewhere."""
    same, said = requests[0].kernel == requests[1].kernel, []
    for side, request in zip("AB", requests):
        mine = table[(table.name == request.kernel.name) & (table.status == "ok")]
        own = mine[mine.settings == settings_text(request.constants.items())] if same else mine
        if own.empty:
            name = build_text(request.kernel, request.settings) if same else request.kernel.name
            said.append(f"The bench has no time of {side}, {name}.")
    return " ".join(said) or "Each has times, but on no problem in common."


def brief_sentence(row: PairRow) -> str:
    """ "B is 2.3 times as fast as A at seq_len 128, batch 1, 8 heads of 64." """
    if is_even(row):
        return f"Neither is faster at {problem_said(row)}."
    faster, slower, times = ("A", "B", 1 / row.ratio) if row.ratio < 1 else ("B", "A", row.ratio)
    return f"{faster} is {short(times, 3)} times as fast as {slower} at {problem_said(row)}."


def ratio_sentence(row: PairRow) -> str:
    """ "B is 2.3 times (2.1 to 2.5) as fast as A at seq_len 128, ... (recorded, a GPU, a date)."

    If the spread includes 1, neither is faster.
    """
    where = f"at {problem_said(row)} ({row.source}, {row.device}, {row.date})"
    ratios = (row.ratio, row.ratio_low, row.ratio_high)
    if is_even(row) or row.ratio < 1:
        ratios = (1 / row.ratio, 1 / row.ratio_high, 1 / row.ratio_low)
    times, low, high = (short(ratio, 3) for ratio in ratios)
    if is_even(row):
        return f"Neither is faster: B's time is {times} of A's ({low} to {high}) {where}."
    faster, slower = "AB" if row.ratio < 1 else "BA"
    return f"{faster} is {times} times ({low} to {high}) as fast as {slower} {where}."
