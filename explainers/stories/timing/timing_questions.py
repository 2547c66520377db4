"""Questions about the times of a sweep. The table has the answers."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from explainers.models import recorded_times
from explainers.stories.timing import time_sentences, trends, wording
from explainers.stories.timing.timed_row import TimedRow
from explainers.story import glossary
from explainers.story import questions as made_of
from explainers.story.glossary import short
from explainers.story.stage import Question

FACTORS: Mapping[float, str] = {1: "As before", 2: "Twice as much", 4: "Four times as much", 8: "Eight times as much"}
"""Possible growth of a line per doubling -> its words."""
SPEEDS: Mapping[float, str] = {
    0.5: "It takes about twice as long",
    1: "It takes about as long",
    2: "It takes about half as long",
    8: "It takes about an eighth as long",
}
"""Speed of our fastest kernel over the baseline's -> its words."""
Cover = Mapping[str, object]  # column -> value of the covered points
SHARES = (10, 25, 50, 90)  # percent of a roof
ANY = 1e9  # TFLOP/s, above all roofs
CUT = 1  # the place of the last size in sight while the rival is asked for
VEILS = ("sentence", "strip", "tabs", "headline")


@dataclass(frozen=True)
class Growth:
    """A question on the growth of a column.

    id: of the question.
    column: the column of the times.
    words: the end of the question, with {} for the line's name.
    view: the picture with the answer.
    """

    id: str
    column: str
    words: str
    view: str


GROWTHS = (
    Growth("growth", "median_us", "How much time does our kernel {} take then?", "latency"),
    Growth("memory", "peak_bytes", "How much memory does our kernel {} need then?", "memory"),
)


def questions(rows: pd.DataFrame, field: str, baseline: str, sizes: list[float]) -> list[Question]:
    """Returns questions on speed, distance to the roof, and growth of time and memory.

    rows: the drawn rows, compared with the baseline.
    field, sizes: the swept field and its values.
    baseline: the baseline in words.
    """
    last, step = sizes[-1], len(sizes) - 1
    where = f"At {wording.sized(field, last)}"
    at_end = rows[(rows[field] == last) & (rows.kind == "kernel")].sort_values("median_us")
    later = {field: [sizes[min(CUT, step - 1)] + 1, last]}  # also the trend answers
    sides = [*at_end.label[:1], *rows[[_is(row, baseline) for row in rows.itertuples()]].label[:1]]
    covers: list[Cover] = [{**later, "label": label} for label in sides]
    found = [
        _rival(at_end, where, (_named(rows[rows[field] == last], baseline), baseline), step, covers),
        _of_roof(at_end, where, step),
    ]
    for growth in GROWTHS:
        grows = trends.growth(rows, field, growth.column)
        timed = {label: times for label, times in grows.items() if label in set(at_end.label)}
        found.append(_growth(growth, field, timed, grows, step))
    return [question for question in found if question]


def _rival(at_end: pd.DataFrame, where: str, names: tuple[str, str], step: int, covers: list[Cover]) -> Question | None:
    """Returns the question on our fastest kernel and the baseline.

    names: the baseline with a remark, and without.
    """
    known = at_end[at_end.speedup.notna()]
    if known.empty:
        return None
    row = known.iloc[0]
    name = recorded_times.shown_name(row.label)
    asked, baseline = names
    said = f"{name} takes {glossary.microseconds(row.median_us)}, {time_sentences.beside(row, baseline)}."
    right = SPEEDS[made_of.nearest(SPEEDS, float(row.speedup))]
    return made_of.idea(
        "rival",
        f"{where}, how does our fastest kernel compare with {asked}?",
        right,
        {words: _against(speed, row) for speed, words in SPEEDS.items() if words != right},
        said,
        ordered=list(SPEEDS.values()),
        step=step,
        view="speedup",
        veils=VEILS,
        covers=covers,
    )


def _is(row: TimedRow, line: str) -> bool:
    """Whether a row is of a line."""
    return recorded_times.shown_name(row.label, row.title) == line


def _named(at_end: pd.DataFrame, baseline: str) -> str:
    """Returns the baseline, with a remark if it is the fastest rival."""
    peers = at_end[at_end.kind != "kernel"].sort_values("median_us")
    first = recorded_times.shown_name(peers.label.iloc[0], peers.title.iloc[0]) if len(peers) else ""
    return f"the fastest rival in the chart, {baseline}" if first == baseline else baseline


def _of_roof(at_end: pd.DataFrame, where: str, step: int) -> Question | None:
    """Returns the question on the fastest kernel's share of its roof."""
    known = at_end[at_end.roof_percent.notna()]
    if known.empty:
        return None
    row = known.iloc[0]
    name, share = recorded_times.shown_name(row.label), float(row.roof_percent)
    most = 100 * row.tflops / share
    said = (
        f"{name} reaches {short(row.tflops, 3)} TFLOP/s, {short(share, 2)}% of the roof. "
        f"The roof of {row.roof} was measured at {short(most, 3)}."
    )
    right = min(SHARES, key=lambda percent: abs(percent - share))
    return made_of.idea(
        "of_roof",
        f"{where}, how close does our fastest kernel come to the largest measured rate of this GPU?",
        f"About {right}%",
        {f"About {percent}%": _share(percent, row) for percent in SHARES if percent != right},
        said,
        ordered=[f"About {percent}%" for percent in SHARES],
        step=step,
        view="roofline",
        veils=VEILS,
        covers=[{"tflops": [row.tflops / 2, ANY]}],  # the roof, too: the gap between them is the answer
    )


def _growth(
    growth: Growth, field: str, grows: Mapping[str, float], every: Mapping[str, float], step: int
) -> Question | None:
    """Returns the question on the line with the fastest growth.

    grows: label of a kernel -> factor per doubling.
    every: the same of all lines. The charts say these factors.
    """
    if not grows:
        return None
    label, times = max(grows.items(), key=lambda item: item[1])
    nearest = made_of.nearest(FACTORS, times)
    pairs = "Each of twice as many queries meets twice as many keys. " if (field, nearest) == ("seq_len", 4) else ""
    said = f"{pairs}It grows {short(times, 3)} times for each doubling."
    right = FACTORS[nearest]
    return made_of.idea(
        growth.id,
        f"{wording.doubled(field)} {growth.words.format(recorded_times.shown_name(label))}",
        right,
        {words: _slope(factor, times) for factor, words in FACTORS.items() if words != right},
        said,
        ordered=list(FACTORS.values()),
        step=step,
        view=growth.view,
        veils=VEILS,
        hides=sorted({wording.times_said(factor) for factor in every.values()}),
    )


def _against(speed: float, row: TimedRow) -> str:
    """The reason against a speed over the baseline."""
    due = glossary.microseconds(row.median_us * row.speedup / speed)
    return f"Then it would take {due}. It takes {glossary.microseconds(row.median_us)}."


def _share(percent: float, row: TimedRow) -> str:
    """The reason against a share of the roof."""
    due = row.tflops * percent / row.roof_percent
    return f"That would be {short(due, 3)} TFLOP/s. It reaches {short(row.tflops, 3)}."


def _slope(factor: float, times: float) -> str:
    """The reason against a growth per doubling."""
    return f"It grows {'more' if factor < times else 'less'}: {short(times, 3)} times for each doubling."
