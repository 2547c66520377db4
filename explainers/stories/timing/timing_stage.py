"""The timing story's stage: one large chart with a switch of metric. Its clock follows the sizes of a sweep."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import altair as alt
import pandas as pd

from explainers.charts.chart_view import chart_view
from explainers.models import recorded_times
from explainers.stories.timing import (
    chart_texts,
    size_charts,
    sweep_rows,
    time_sentences,
    timing_tables,
    trends,
    wording,
)
from explainers.stories.timing.timed_row import TimedRow
from explainers.stories.timing.timing_questions import questions
from explainers.story import glossary, stage
from explainers.story.glossary import count, figure, short
from explainers.story.stage import Block
from kernels.measure.datasheets import peaks
from kernels.measure.peers import PAGED
from kernels.measure.reports import roofs_said
from kernels.recordings.tables import Provenance


@dataclass(frozen=True)
class Shown:
    """The shown part of a sweep.

    part: the rows of a sweep over `field`.
    field: the swept field.
    title: the sweep in words.
    baseline: a label, or sweep_rows.ITSELF.
    hidden: labels that the page does not draw.
    where: source -> Provenance.
    measured: the sources with times from this machine, now.
    """

    part: pd.DataFrame
    field: str
    title: str
    baseline: str
    hidden: tuple[str, ...]
    where: Mapping[str, Provenance]
    measured: tuple[str, ...]

    @property
    def rows(self) -> pd.DataFrame:
        """The drawn rows with a time, compared with the baseline."""
        rows = sweep_rows.compared(self.part, self.field, self.baseline)
        return rows[~rows.label.isin(self.hidden)]

    @property
    def name(self) -> str:
        """The baseline in words."""
        return sweep_rows.baseline_name(self.baseline, self.part, self.field)


def stage_of(shown: Shown, others: bool, here: list[Block]) -> stage.Stage:
    """Returns the whole stage.

    others: whether kernels without sizes have a time.
    here: the controls for measuring on this machine.
    """
    rows, field, part = shown.rows, shown.field, shown.part
    sizes, drawn = recorded_times.sizes(part, field), part[~part.label.isin(shown.hidden)]
    frames = [
        {"title": wording.sized(field, value), "tile": number, "sentence": _size_sentence(shown, rows, drawn, value)}
        for number, value in enumerate(sizes)
    ]
    tabs = [stage.Tab("now", "Time on this GPU", here)] if here else []
    tabs += [stage.Tab("figures", "Every figure"), stage.Tab("duels", "Against cuDNN")]
    tabs += [stage.Tab("missing", "No time, and why"), stage.Tab("take", "Take it along")]
    tabs += [stage.Tab("others", "Other kernels")] if others else []
    return stage.Stage(
        headline=f"{time_sentences.state_of(part).capitalize()} times. {shown.title}",
        frames=frames,
        views=_views(shown, rows),
        state=_states(shown, rows, sizes),
        tabs=tabs,
        provenance=replace(provenance(shown.where, shown.measured), problem=_problem(part, field)),
        questions=questions(rows, field, shown.name, sizes),
        step=len(sizes) - 1,
    )


def _problem(part: pd.DataFrame, swept: str) -> str:
    """The sizes, type and mask that all points of a sweep share, in words."""
    names = [name for name in ("seq_len", "batch", "num_heads", "head_dim", "dtype", "causal") if name in part]
    shared = [name for name in names if name != swept and part[name].nunique(dropna=False) == 1]
    first = part.iloc[0]
    return stage.sizes_said({name: first[name] for name in shared if not pd.isna(first[name])})


def _size_sentence(shown: Shown, rows: pd.DataFrame, drawn: pd.DataFrame, value: float) -> str:
    """Returns the times at one size, and the state of the chip. drawn: also rows without a time."""
    times = time_sentences.size_sentence(rows, shown.field, value, shown.baseline, drawn)
    state = time_sentences.state_sentence(rows[rows[shown.field] == value], shown.baseline)
    step = time_sentences.step_sentence(rows, shown.field, value)
    return " ".join(part for part in (times, step, state) if part)


def nothing_yet(said: str, others: bool, here: list[Block]) -> stage.Stage:
    """Returns the stage for a table in which no sweep has two sizes."""
    tabs = [stage.Tab("now", "Time on this GPU", here)] if here else []
    tabs += [stage.Tab("others", "Other kernels")] if others else []
    return stage.Stage("Times", [], [], tabs=tabs, summary=said, side=[stage.note(said)])


def _views(shown: Shown, rows: pd.DataFrame) -> list[stage.View]:
    labels, title = sweep_rows.labels(shown.part), wording.title_of(shown.part)
    colours = sweep_rows.colours(labels)
    drawn = [label for label in labels if label not in shown.hidden]
    far = {kind: trends.left_out(kind, rows, shown.field) for kind in chart_texts.CHARTS}
    has_floor = recorded_times.FLOOR in drawn and recorded_times.is_paged(title)
    floor = f" {wording.FLOOR_SAID}" if has_floor else ""
    return [
        chart_view(
            kind,
            heading,
            charts(shown, rows, kind),
            chart_texts.ALT[kind],
            " ".join([chart_texts.note(kind, set(rows["name"])), *_absent(kind, shown, rows)]) + floor,
            size_charts.at_steps(kind, shown.part, shown.field),
            {recorded_times.shown_name(one, title): colours[one] for one in drawn if one not in far[kind]},
        )
        for kind, heading in chart_texts.CHARTS.items()
    ]


def _absent(kind: str, shown: Shown, rows: pd.DataFrame) -> list[str]:
    """Returns sentences on the lines that a chart leaves out, and on the sizes without a time."""
    far, title = trends.left_out(kind, rows, shown.field), wording.title_of(shown.part)
    names = ", ".join(recorded_times.shown_name(label, title) for label in far)
    how = "slower than half the baseline at most" if kind == "speedup" else "far slower at all"
    drawn = shown.part[shown.part.label.isin(rows.label) & ~shown.part.label.isin([*far, *shown.hidden])]
    missing = timing_tables.without_time(drawn, shown.field) if kind not in ("ladder", "roofline") else drawn[:0]
    each = "; ".join(f"{row.name} at {row.places} ({row.status})" for row in missing.itertuples(index=False))
    return [
        *([f"Not drawn, {how} sizes: {names}."] if far else []),
        *([f"A cross: no time. {each}."] if each else []),
    ]


def charts(shown: Shown, rows: pd.DataFrame, kind: str) -> alt.LayerChart:
    """Returns one of the charts."""
    roofs = {source: entry.roofs for source, entry in shown.where.items() if entry.roofs}
    known = {entry.device: peaks(entry.device) for entry in shown.where.values()}
    sheets = {device: found for device, found in known.items() if found}
    return size_charts.chart(kind, rows, shown.field, shown.baseline, roofs, shown.part, shown.name, sheets)


def _states(shown: Shown, rows: pd.DataFrame, sizes: list[float]) -> list[stage.State]:
    """Returns the strip: each line's time at the step, then the other figures."""
    several = rows[["device", "source"]].drop_duplicates().shape[0] > 1
    colours, found = sweep_rows.colours(sweep_rows.labels(shown.part)), []
    for (device, source), own in rows.groupby(["device", "source"], sort=False):
        figures_at = {(row.label, getattr(row, shown.field)): _figures(row) for row in own.itertuples()}
        for label in (name for name in sweep_rows.labels(shown.part) if name in set(own.label)):
            said = [figures_at.get((label, v), "no time") for v in sizes]
            name = recorded_times.shown_name(label, wording.title_of(own)) + (
                f", {source}, {device}" if several else ""
            )
            found.append(stage.State(name, said, colour=colours[label]))
    return found


def _figures(row: TimedRow) -> str:
    """Returns the known figures of a point: time, TFLOP/s, GB/s and bytes."""
    said = [glossary.microseconds(row.median_us)]
    said += [f"{short(row.tflops, 3)} TFLOP/s"] if pd.notna(row.tflops) else []
    said += [f"{figure(row.gb_per_s, 3)} GB/s"] if pd.notna(row.gb_per_s) else []
    said += [f"{figure(row.peak_bytes / 1e6, 3)} MB"] if pd.notna(row.peak_bytes) else []
    return ", ".join(said)


def provenance(where: Mapping[str, Provenance], measured: tuple[str, ...]) -> stage.Provenance:
    """Returns the provenance of every source, with its roofs."""
    said = []
    for name, entry in where.items():
        label = "Measured" if name in measured else "Recorded"
        torch = f", torch {entry.torch}" if entry.torch else ""
        roofs = f" Roofs measured there: {roofs_said(entry.roofs)}." if entry.roofs else ""
        stated = peaks(entry.device)
        sheet = f" Datasheet: {stated.said}." if stated else ""
        said.append(f"{label} on {entry.device}, driver {entry.driver}{torch}, {entry.date}.{roofs}{sheet}")
    places = dict.fromkeys(stage.place(entry.device, entry.date) for entry in where.values())
    return stage.Provenance("measured" if measured else "recorded", " ".join(said), place=" and ".join(places))


def figures(shown: Shown) -> list[Block]:
    """Returns every shown figure, and the sentences about the lines."""
    rows, field = shown.rows, shown.field
    if rows.empty:
        return [stage.note("Nothing that is shown has a time.")]
    own = shown.part[shown.part.label.isin(rows.label)]
    last = rows[rows[field] == rows[field].max()]
    state = time_sentences.state_sentence(last, shown.baseline) or "Times are rested."
    said = [time_sentences.sentence(rows, field, shown.baseline), state]
    said += [time_sentences.floor_sentence(rows, field)]
    said += [time_sentences.exponent_sentence(own, field)]
    said += time_sentences.crossing_sentences(trends.crossings(rows, field), field)
    caption = f"{count(len(rows), 'point')}: median, 10th and 90th percentile of the runs, beside {shown.name}."
    if own["name"].isin(PAGED).any():
        caption += " Of FlashInfer's two layouts of a cache, the one that is faster at the largest size with both."
    return [
        *(stage.text(one) for one in said if one),
        stage.table(timing_tables.figures_table(rows, field, shown.name), caption),
    ]


def missing(shown: Shown, not_recorded: list[str]) -> list[Block]:
    """Returns the points without a time, and the reasons.

    not_recorded: sentences about kernels without any record.
    """
    without_time = timing_tables.without_time(shown.part, shown.field)
    renamed = without_time.rename(columns={"name": "kernel", "status": "why", "places": "at", "reason": "in full"})
    table = stage.table(renamed, "A gap in a line is a size without a time.")
    part = shown.part
    dense = part.dtype.isin(["float16", "bfloat16"]).any() and not recorded_times.is_paged(wording.title_of(part))
    absent = wording.not_timed(part["name"]) if dense else []
    every = table if len(without_time) else stage.text("Every point of this sweep has a time.")
    return [every, *map(stage.note, [*absent, *not_recorded])]


def others(table: pd.DataFrame) -> list[Block]:
    """Returns the times of problems without sizes."""
    caption = (
        "These fit no sweep: masks, contexts of several lengths, shared prefixes, 8-bit caches, and kernels that only "
        "move data. Fields that are as they begin are not named, but for a mask's. GB/s of the bytes that each must "
        "move: torch's kernels get a copy of K and V for every sequence, ours and FlashInfer's the shared pages. A "
        "copy reads and writes. A kernel that only reads can go faster. The lab's kernels are timed at their smallest, "
        "where a launch costs more than the work."
    )
    return [stage.table(timing_tables.without_sizes(table), caption)]
