"""Questions about the times of a sweep. The table has the answers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from explainers.stories.timing import time_sentences, trends, wording
from explainers.story import stage
from explainers.story.stage import Question

FACTORS = (1, 2, 4, 8)  # possible growth of a line per doubling


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
    Growth("growth", "median_us", "as long does {} take", "latency"),
    Growth("memory", "peak_bytes", "as much memory does {} need", "memory"),
)


def questions(rows: pd.DataFrame, field: str, baseline: str, sizes: list[float]) -> list[Question]:
    """Returns questions on speed, distance to the roof, and growth of time and memory.

    rows: the drawn rows, compared with the baseline.
    field, sizes: the swept field and its values.
    baseline: the baseline in words.
    """
    last, step = sizes[-1], len(sizes) - 1
    where = f"At {field} {last:,.0f}"
    at_end = rows[(rows[field] == last) & (rows.kind == "kernel")]
    found = [_slower(at_end, where, baseline, step), _of_roof(at_end, where, step)]
    for growth in GROWTHS:
        grows = trends.growth(rows, field, growth.column)
        timed = {label: times for label, times in grows.items() if label in set(at_end.label)}
        found.append(_growth(growth, field, timed, step))
    return [question for question in found if question]


def _slower(at_end: pd.DataFrame, where: str, baseline: str, step: int) -> Question | None:
    """Returns the question on the fastest kernel behind the baseline."""
    slower = at_end[at_end.speedup_high < 1].sort_values("speedup")
    if slower.empty:
        return None
    row = slower.iloc[-1]
    name = wording.shown_name(row.label)
    return Question(
        "slower",
        f"{where}, how many times slower is {name} than {baseline}?",
        "number",
        round(1 / float(row.speedup), 1),
        f"{name} takes {wording.microseconds(row.median_us)}, {time_sentences.beside(row, baseline)}.",
        step=step,
        unit="times",
        view="speedup",
        tolerance=stage.MEASURED,
        veils=("sentence", "strip", "picture", "tabs"),
    )


def _of_roof(at_end: pd.DataFrame, where: str, step: int) -> Question | None:
    """Returns the question on the fastest kernel's share of its roof."""
    known = at_end[at_end.roof_percent.notna()].sort_values("median_us")
    if known.empty:
        return None
    row = known.iloc[0]
    name = wording.shown_name(row.label)
    return Question(
        "of_roof",
        f"{where}, how many per cent of its roof does {name} reach, the fastest kernel here?",
        "number",
        float(f"{row.roof_percent:.3g}"),
        f"{name} makes {row.tflops:.3g} TFLOP/s: {row.roof_percent:.3g} per cent of {row.roof}.",
        step=step,
        unit="per cent",
        view="roofline",
        tolerance=stage.MEASURED,
        veils=("tabs",),
    )


def _growth(growth: Growth, field: str, grows: Mapping[str, float], step: int) -> Question | None:
    """Returns the question on the line with the fastest growth. grows: label -> factor per doubling."""
    if not grows:
        return None
    label, times = max(grows.items(), key=lambda item: item[1])
    distances = [abs(math.log(factor / times)) for factor in FACTORS]
    return Question(
        growth.id,
        f"When {field} doubles, about how many times {growth.words.format(wording.shown_name(label))}?",
        "options",
        distances.index(min(distances)),
        f"Over the largest sizes it grows {times:.2f} times for each doubling.",
        ["1 time, as before", *(f"{factor} times" for factor in FACTORS[1:])],
        step,
        view=growth.view,
        veils=("picture", "tabs"),
    )
