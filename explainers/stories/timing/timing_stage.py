"""The timing story's stage: one large chart with a switch of metric, whose clock goes over the sizes of a sweep."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from explainers.stories.timing import timing, timing_charts, timing_tables
from explainers.story import stage
from explainers.story.glossary import count, figure
from explainers.story.stage import Block
from kernels.measure.datasheets import peaks
from kernels.measure.peers import PAGED
from kernels.measure.reports import roofs_said
from kernels.recordings.tables import Provenance


@dataclass(frozen=True)
class Shown:
    """What is shown. part: the rows of a sweep over `field`; baseline: a label or timing.ITSELF; hidden: labels that
    are not drawn; where: source -> Provenance; measured: the sources that were measured here, now."""

    part: pd.DataFrame
    field: str
    title: str
    baseline: str
    hidden: tuple[str, ...]
    where: Mapping[str, Provenance]
    measured: tuple[str, ...]

    @property
    def rows(self) -> pd.DataFrame:
        """Those with a time that are drawn, compared with the baseline."""
        rows = timing.compared(self.part, self.field, self.baseline)
        return rows[~rows.label.isin(self.hidden)]

    @property
    def name(self) -> str:
        """The baseline as it is read."""
        return timing.baseline_name(self.baseline, self.part, self.field)


def stage_of(shown: Shown, others: bool, here: list[Block]) -> stage.Stage:
    """The whole stage. others: whether kernels without sizes have a time; here: what measures on this machine."""
    rows, field, part = shown.rows, shown.field, shown.part
    sizes, drawn = timing.sizes(part, field), part[~part.label.isin(shown.hidden)]
    frames = [
        {
            "title": f"{field} {value:,.0f}",
            "tile": number,
            "sentence": " ".join(
                said
                for said in (
                    timing.size_sentence(rows, field, value, shown.baseline, drawn),
                    timing.state_sentence(rows[rows[field] == value], shown.baseline),
                )
                if said
            ),
        }
        for number, value in enumerate(sizes)
    ]
    tabs = [stage.Tab("now", "Time on this GPU", here)] if here else []
    tabs += [stage.Tab("figures", "Every figure"), stage.Tab("duels", "Against cuDNN")]
    tabs += [stage.Tab("missing", "No time, and why"), stage.Tab("take", "Take it along")]
    tabs += [stage.Tab("others", "Other kernels")] if others else []
    return stage.Stage(
        headline=f"{timing.state_of(part).capitalize()} times. {shown.title}",
        frames=frames,
        views=_views(shown, rows),
        state=_states(shown, rows, sizes),
        tabs=tabs,
        provenance=provenance(shown.where, shown.measured),
        questions=questions(shown, rows, sizes),
        step=len(sizes) - 1,
    )


def nothing_yet(said: str, others: bool, here: list[Block]) -> stage.Stage:
    """Where no sweep has two sizes."""
    tabs = [stage.Tab("now", "Time on this GPU", here)] if here else []
    tabs += [stage.Tab("others", "Other kernels")] if others else []
    return stage.Stage("Times", [], [], tabs=tabs, summary=said, side=[stage.note(said)])


def _views(shown: Shown, rows: pd.DataFrame) -> list[stage.View]:
    names = [name for name in timing.labels(shown.part) if name not in shown.hidden]
    colours = timing.colours(timing.labels(shown.part))
    title = timing.title_of(shown.part)
    legend = [[f"background:{colours[name]}", timing.shown_name(name, title)] for name in names]
    floor = f" {timing.FLOOR_SAID}" if timing.FLOOR in names and timing.is_paged(title) else ""
    views = []
    for kind, heading in timing_charts.CHARTS.items():
        spec = charts(shown, rows, kind).to_dict(validate=False)  # tests do
        meta = {
            "spec": spec,
            "alt": timing_charts.ALT[kind],
            "note": timing_charts.NOTES[kind] + floor,
            "at": timing_charts.at_steps(kind, shown.part, shown.field),
            "room": max(
                (len(row["said"]) for data in spec["datasets"].values() for row in data if "beside" in row), default=0
            ),
            "ends": spec["usermeta"]["ends"],
            "legend": legend,
        }
        views.append(stage.View("chart", kind, heading, meta))
    return views


def charts(shown: Shown, rows: pd.DataFrame, kind: str):
    """One of the charts of what is shown."""
    roofs = {source: entry.roofs for source, entry in shown.where.items() if entry.roofs}
    sheets = {entry.device: found for entry in shown.where.values() if (found := peaks(entry.device))}
    return timing_charts.chart(kind, rows, shown.field, shown.baseline, roofs, shown.part, shown.name, sheets)


def _states(shown: Shown, rows: pd.DataFrame, sizes: list[float]) -> list[stage.State]:
    """The strip: each line's figures at the step, a time first and then what the other pictures draw of it."""
    several = rows[["device", "source"]].drop_duplicates().shape[0] > 1
    colours, found = timing.colours(timing.labels(shown.part)), []
    for (device, source), own in rows.groupby(["device", "source"], sort=False):
        there = {(row.label, getattr(row, shown.field)): _figures(row) for row in own.itertuples()}
        for label in (name for name in timing.labels(shown.part) if name in set(own.label)):
            said = [there.get((label, v), "no time") for v in sizes]
            name = timing.shown_name(label, timing.title_of(own)) + (f", {source}, {device}" if several else "")
            found.append(stage.State(name, said, colour=colours[label]))
    return found


def _figures(row: Any) -> str:
    """Time, TFLOP/s, GB/s and bytes of a point, as far as they are known."""
    said = [timing.microseconds(row.median_us)]
    said += [f"{row.tflops:.3g} TFLOP/s"] if pd.notna(row.tflops) else []
    said += [f"{figure(row.gb_per_s, 3)} GB/s"] if pd.notna(row.gb_per_s) else []
    said += [f"{figure(row.peak_bytes / 1e6, 3)} MB"] if pd.notna(row.peak_bytes) else []
    return ", ".join(said)


def provenance(where: Mapping[str, Provenance], measured: tuple[str, ...]) -> stage.Provenance:
    """Of every source, with its roofs."""
    said = []
    for name, entry in where.items():
        label = "Measured" if name in measured else "Recorded"
        torch = f", torch {entry.torch}" if entry.torch else ""
        roofs = f" Roofs measured there: {roofs_said(entry.roofs)}." if entry.roofs else ""
        sheet = f" Datasheet: {found.said}." if (found := peaks(entry.device)) else ""
        said.append(f"{label} on {entry.device}, driver {entry.driver}{torch}, {entry.date}.{roofs}{sheet}")
    return stage.Provenance("measured" if measured else "recorded", " ".join(said))


def questions(shown: Shown, rows: pd.DataFrame, sizes: list[float]) -> list[stage.Question]:
    """By how much a kernel is slower than the baseline, how near one comes to its roof, how time and memory grow.
    Answered with the table's own numbers."""
    last, field = sizes[-1], shown.field
    at_end = rows[(rows[field] == last) & (rows.kind == "kernel")]
    where = f"At {field} {last:,.0f}"
    more: dict[str, Any] = {"step": len(sizes) - 1, "tolerance": stage.MEASURED}
    found: list[stage.Question] = []
    slower = at_end[at_end.speedup_high < 1].sort_values("speedup")
    if len(slower):
        row = slower.iloc[-1]  # the fastest of those that are slower
        name = timing.shown_name(row.label)
        text = f"{where}, how many times slower is {name} than {shown.name}?"
        why = f"{name} takes {timing.microseconds(row.median_us)}, {timing.beside(row, shown.name)}."
        key = round(1 / float(row.speedup), 1)
        where_seen: dict[str, Any] = {"unit": "times", "view": "speedup"}
        veils = ("sentence", "strip", "picture", "tabs")
        found.append(stage.Question("slower", text, "number", key, why, **more, **where_seen, veils=veils))
    known = at_end[at_end.roof_percent.notna()].sort_values("median_us")
    if len(known):
        row = known.iloc[0]
        name = timing.shown_name(row.label)
        text = f"{where}, how many per cent of its roof does {name} reach, the fastest kernel here?"
        why = f"{name} makes {row.tflops:.3g} TFLOP/s: {row.roof_percent:.3g} per cent of {row.roof}."
        key = float(f"{row.roof_percent:.3g}")
        where_seen = {"unit": "per cent", "view": "roofline", "veils": ("tabs",)}
        found.append(stage.Question("of_roof", text, "number", key, why, **more, **where_seen))
    for id, column, what, view in (
        ("growth", "median_us", "as long does {} take", "latency"),
        ("memory", "peak_bytes", "as much memory does {} need", "memory"),
    ):
        grows = {k: v for k, v in timing.growth(rows, field, column).items() if k in set(at_end.label)}
        if grows:
            found.append(_growth(id, field, what, view, grows, len(sizes) - 1))
    return found


def _growth(id: str, field: str, what: str, view: str, grows: Mapping[str, float], step: int) -> stage.Question:
    """How the line that grows fastest grows when the size doubles. what: the question's words, {} for its name."""
    label, times = max(grows.items(), key=lambda item: item[1])
    factors = [1, 2, 4, 8]
    key = min(range(len(factors)), key=lambda n: abs(math.log(factors[n] / times)))
    text = f"When {field} doubles, about how many times {what.format(timing.shown_name(label))}?"
    why = f"Over the largest sizes it grows {times:.2f} times for each doubling."
    said = ["1 time, as before", *(f"{n} times" for n in factors[1:])]
    return stage.Question(id, text, "options", key, why, said, step, view=view, veils=("picture", "tabs"))


# ---- tabs ----


def figures(shown: Shown) -> list[Block]:
    """Every figure of what is shown, and what the lines say together."""
    rows, field = shown.rows, shown.field
    if rows.empty:
        return [stage.note("Nothing that is shown has a time.")]
    own = shown.part[shown.part.label.isin(rows.label)]
    last = rows[rows[field] == rows[field].max()]
    state = timing.state_sentence(last, shown.baseline) or "Times are rested."
    said = [timing.sentence(rows, field, shown.baseline), state]
    said += [timing.floor_sentence(rows, field)]
    said += [timing.exponent_sentence(own, field)]
    said += timing.crossing_sentences(timing.crossings(rows, field), field)
    caption = f"{count(len(rows), 'point')}: median, 10th and 90th percentile of the runs, beside {shown.name}."
    if own["name"].isin(PAGED).any():
        caption += " Of FlashInfer's two layouts of a cache, the one that is faster at the largest size with both."
    return [
        *(stage.text(one) for one in said if one),
        stage.table(timing_tables.figures_table(rows, field, shown.name), caption),
    ]


def missing(shown: Shown, not_recorded: list[str]) -> list[Block]:
    """What has no time, and why. not_recorded: sentences on what is not there at all."""
    made = timing_tables.without_time(shown.part, shown.field)
    renamed = made.rename(columns={"name": "kernel", "status": "why", "places": "at", "reason": "in full"})
    table = stage.table(renamed, "A gap in a line is a size without a time.")
    part = shown.part
    dense = part.dtype.isin(["float16", "bfloat16"]).any() and not timing.is_paged(timing.title_of(part))
    absent = timing.not_timed(part["name"]) if dense else []
    every = table if len(made) else stage.text("Every point of this sweep has a time.")
    return [every, *map(stage.note, [*absent, *not_recorded])]


def others(table: pd.DataFrame) -> list[Block]:
    """What has a time and no sizes to be compared by."""
    caption = (
        "What no sweep can show: masks, contexts of several lengths, shared prefixes, 8-bit caches, and what only "
        "moves data. Fields that are as they begin are not named, but for a mask's. GB/s of the bytes that each must "
        "move: torch's kernels get a copy of K and V for every sequence, ours and FlashInfer's the shared pages. A "
        "copy reads and writes; what only reads can go faster than it. The lab's kernels are timed at their smallest, "
        "where a launch costs more than the work."
    )
    return [stage.table(timing_tables.without_sizes(table), caption)]
