"""How fast: one large chart with a switch of metric. The steps are the sizes of a sweep, recorded on named GPUs or
measured on this one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import altair as alt
import pandas as pd

from explainers.charts.chart_view import chart_view
from explainers.models import recorded_times
from explainers.models.recorded_times import shown_name
from explainers.stories.timing import duels, size_charts, sweep_rows, times, timing_tables, wording
from explainers.stories.timing.wording import WORDS, TimedRow
from explainers.story import questions, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import figure, microseconds, short
from explainers.story.stage import Block, Stage
from explainers.story.words import Row
from kernels import catalog
from kernels.core.fields import fields_of, write_value
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.measure import bench, gradient_duels
from kernels.measure import duels as timed_duels
from kernels.measure.datasheets import peaks
from kernels.measure.peers import PAGED, TENSOR_PRODUCTS
from kernels.measure.reports import roofs_said
from kernels.recordings import tables
from kernels.recordings.tables import Provenance

CHARTS = WORDS.table("charts")  # kind -> title
SAID = 2  # kernels in a step's sentence
FACTORS: Mapping[float, str] = {
    1: "As before",
    2: "Twice as much",
    4: "Four times as much",
    8: "Eight times as much",
}  # per doubling
SPEEDS = {  # of our fastest kernel over the baseline
    0.5: "It takes about twice as long",
    1: "It takes about as long",
    2: "It takes about half as long",
    8: "It takes about an eighth as long",
}
SHARES = (10, 25, 50, 90)  # percent of a roof
VALUES = {  # of well-known sizes, in the form for a sweep
    "seq_len": "128, 256, 512, 1024, 2048, 4096",
    "width": "512, 768, 1024, 2048",
    "num_heads": "8, 12, 16, 32",
    "batch": "1, 4, 8, 16, 32",
    "head_dim": "32, 64, 128",
}


@dataclass(frozen=True)
class Sources:
    """The shown times.

    sources: the names of their GPUs; empty for all.
    at: the state of the recordings.
    now: the results of this GPU.
    sweep: the key of the chosen sweep.
    baseline: the line for comparisons.
    hidden: the lines out of the chart.
    gpu: the name of this machine's GPU, or "".
    gpus: (id, name) of each GPU, if the machine has several.
    chosen: the kernels that the form for a sweep selects at first.
    """

    sources: tuple[str, ...]
    at: times.Stamp
    now: times.Now
    sweep: str
    baseline: str
    hidden: tuple[str, ...]
    gpu: str
    gpus: tuple[tuple[str, str], ...]
    chosen: tuple[str, ...]


@dataclass(frozen=True)
class Shown:
    """The shown part of a sweep.

    part: the rows of a sweep over `field`.
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


class Times(Story[Sources]):
    """The lines of one sweep. It runs no kernel."""

    def stage(self, subject: Sources, runner: Runner) -> Stage:
        known = times.known(subject.sources, subject.now)
        here = [_form(subject)] if subject.gpu else []
        others = len(timing_tables.sizeless(known.table)) > 0
        if not known.found:
            said = " ".join([WORDS.say("nothing_yet", {"empty": not len(known.table)}), *bench.not_recorded()])
            tabs = [stage.Tab("now", "Time on this GPU", here)] if here else []
            tabs += [stage.Tab("others", "Other kernels")] if others else []
            return Stage("Times", [], [], tabs=tabs, summary=said, side=[stage.note(said)])
        made = stage_of(shown_of(subject), others, here)
        if found := gradient_duels.recorded():
            tab = stage.Tab("turns", duels.titles(found[0]))
            made = replace(made, tabs=[*made.tabs[:-1], tab, made.tabs[-1]])
        return stage.warned(made, tables.left_out(bench.KIND))

    def parts(self) -> dict[str, Part[Sources]]:
        none = [stage.note("No duel of the present code is recorded.")]
        return {
            "figures": lambda subject, runner: figures(shown_of(subject)),
            "missing": lambda subject, runner: missing(shown_of(subject), bench.not_recorded()),
            "others": lambda subject, runner: [
                stage.table(
                    timing_tables.without_sizes(times.known(subject.sources, subject.now).table),
                    WORDS.say("others", {}),
                )
            ],
            "duels": lambda subject, runner: duels.blocks(*found) if (found := timed_duels.recorded()) else none,
            "turns": lambda subject, runner: duels.turns(*found) if (found := gradient_duels.recorded()) else none,
        }


def shown_of(sources: Sources) -> Shown:
    """The shown part of the chosen sweep. Raises ProblemError without a sweep."""
    known = times.known(sources.sources, sources.now)
    # the sweep may be forgotten, or recorded anew
    sweep = sources.sweep if sources.sweep in known.found else next(iter(known.found), None)
    if sweep is None:
        raise ProblemError("No sweep has two sizes yet. Measure one, or record one with python -m kernels bench.")
    field, _ = known.found[sweep]
    part = times.lines(sources.sources, sources.now, sweep).part
    measured = tuple(name for name in known.where if name == times.NOW)
    return Shown(part, field, known.titles[sweep], sources.baseline, sources.hidden, known.where, measured)


def _form(sources: Sources) -> Block:
    """The form for a sweep on this machine's GPU."""
    kernels = [
        {"name": name, "title": spec.title, "fields": sweepable(spec), "on": name in sources.chosen}
        for name, spec in catalog.current().kernels.items()
    ]
    meta = {"what": "sweep", "gpu": sources.gpu, "kernels": kernels, "about": WORDS.say("form", {})}
    return stage.live("measure", meta | {"measured": len(sources.now.rows), "gpus": sources.gpus})


def sweepable(spec: KernelSpec) -> dict[str, str]:
    """The names over which a kernel can be swept -> default values: sizes, fields of the problem, constants."""
    kind = spec.problem_type
    found = dict.fromkeys(kind.derived_fields, "")
    for name, field in fields_of(kind).items():
        if not isinstance(field.default, tuple):
            found[name] = ", ".join(write_value(value) for value in field.metadata["allowed"] or (field.default,))
    found |= {constant.name: ", ".join(map(str, constant.values)) for constant in spec.constants}
    usual = {name: values for name, values in VALUES.items() if name in found}
    return usual | {name: values for name, values in found.items() if name not in VALUES}


# ---- the stage ----


def stage_of(shown: Shown, others: bool, here: list[Block]) -> Stage:
    """others: whether kernels without sizes have a time. here: the controls for measuring on this machine."""
    rows, field, part = shown.rows, shown.field, shown.part
    sizes = recorded_times.sizes(part, field)
    tabs = [stage.Tab("now", "Time on this GPU", here)] if here else []
    tabs += [stage.Tab("figures", "Every figure"), stage.Tab("duels", "Against cuDNN")]
    tabs += [stage.Tab("missing", "No time, and why"), stage.Tab("take", "Take it along")]
    tabs += [stage.Tab("others", "Other kernels")] if others else []
    names = ("seq_len", "batch", "num_heads", "head_dim", "dtype", "causal")  # that all points of the sweep share
    shared = [name for name in names if name in part and name != field and part[name].nunique(dropna=False) == 1]
    first = part.iloc[0]
    problem = stage.sizes_said({name: first[name] for name in shared if not pd.isna(first[name])})
    return Stage(
        headline=f"{timing_tables.state_of(part).capitalize()} times. {shown.title}",
        frames=WORDS.frames(steps_of(shown, rows, sizes), {}),
        views=_views(shown, rows),
        state=_states(shown, rows, sizes),
        tabs=tabs,
        provenance=replace(provenance(shown.where, shown.measured), problem=problem),
        questions=WORDS.questions(asked_of(rows, field, shown.name, sizes), len(sizes) - 1),
        step=len(sizes) - 1,
    )


def steps_of(shown: Shown, rows: pd.DataFrame, sizes: Sequence[float]) -> list[Row]:
    """A row for each size: the times of our two fastest kernels next to the baseline, the lines without a time, the
    time of our fastest kernel at the size before, and the state of the chip."""
    drawn = shown.part[~shown.part.label.isin(shown.hidden)]
    return [
        {
            "tile": tile,
            "where": wording.sized(shown.field, value),
            "times": _times_at(shown, rows, drawn, value),
            "earlier": _earlier(shown.field, rows, sizes[: tile + 1]),
            "state": timing_tables.state_sentence(rows[rows[shown.field] == value], shown.baseline),
        }
        for tile, value in enumerate(sizes)
    ]


def _times_at(shown: Shown, rows: pd.DataFrame, drawn: pd.DataFrame, value: float) -> str:
    """drawn: also rows without a time."""
    field, where, lines = shown.field, wording.sized(shown.field, value), list[dict[str, str]]()
    here = rows[rows[field] == value].sort_values("median_us", kind="stable")
    missing = drawn[(drawn[field] == value) & (drawn.status != "ok")]
    if len(here):
        missing = missing[(missing.kind == "kernel") | missing.label.isin(rows.label)]
        fastest = here.iloc[0]
        if here.device.nunique() > 1 or here.source.nunique() > 1:
            here = here[(here.device == fastest.device) & (here.source == fastest.source)]
            where += f" on {fastest.device}{' now' if fastest.source == 'measured' else ''}"
        base, others = here[here.label == shown.baseline], here[here.label != shown.baseline]
        kernels = others[others.kind == "kernel"]
        for row in (kernels if len(kernels) else others).head(SAID).itertuples():
            name, beside = shown.name, ""
            if len(base) and not lines:
                name += f" ({microseconds(base.iloc[0].median_us)})"
            if not (pd.isna(row.speedup) or (base.empty and row.speedup == 1)):
                beside = wording.beside(row, name)
            lines.append(_line(row, beside))
        lines = lines or [_line(fastest)]
    reasons: dict[str, list[str]] = {}
    for row in missing.itertuples():
        names = reasons.setdefault(wording.why(row), [])
        names += [name for name in [shown_name(row.label, row.title)] if name not in names]
    said = WORDS.say("no_time", {"missing": reasons}) if reasons else ""
    return WORDS.say("size", {"where": where, "lines": lines, "missing": said})


def _line(row: TimedRow, beside: str = "") -> dict[str, str]:
    return {"name": shown_name(row.label, row.title), "time": microseconds(row.median_us), "beside": beside}


def _earlier(field: str, rows: pd.DataFrame, sizes: Sequence[float]) -> str:
    """Our fastest kernel's time at the last of these sizes next to its time at the size before. "" if the problem grows
    with the field, or the field is a constant."""
    value, timed = sizes[-1], [size for size in recorded_times.sizes(rows, field) if size < sizes[-1]]
    ours = rows[(rows[field] == value) & (rows.kind == "kernel")].sort_values("median_us", kind="stable")
    if field not in sweep_rows.SWEPT or field in sweep_rows.GROWING or not timed or ours.empty:
        return ""
    row = ours.iloc[0]
    same = (rows.label == row.label) & (rows.device == row.device) & (rows.source == row.source)
    then = rows[same & (rows[field] == timed[-1])].median_us
    if then.empty:
        return ""
    as_fast = wording.as_fast(then.iloc[0] / row.median_us, name=f"at {wording.sized(field, timed[-1])}")
    return WORDS.say("step", {"as_fast": as_fast, "time": microseconds(then.iloc[0])})


def _views(shown: Shown, rows: pd.DataFrame) -> list[stage.View]:
    labels, title = sweep_rows.labels(shown.part), wording.title_of(shown.part)
    colours = sweep_rows.colours(labels)
    drawn = [label for label in labels if label not in shown.hidden]
    has_floor = recorded_times.FLOOR in drawn and recorded_times.is_paged(title)
    notes, alts, found = WORDS.table("notes"), WORDS.table("alt"), []
    for kind, heading in CHARTS.items():
        far, flat = sweep_rows.left_out(kind, rows, shown.field), kind in ("ladder", "roofline")
        timed = shown.part[shown.part.label.isin(rows.label) & ~shown.part.label.isin([*far, *shown.hidden])]
        missing = timing_tables.without_time(timed[:0] if flat else timed, shown.field).to_dict("records")
        note = {"kind": kind, "note": notes[kind], "far": [shown_name(label, title) for label in far]}
        note |= {"missing": missing, "floor": WORDS.say("floor", {}) if has_floor else ""}
        note |= {"products": made_of_products(set(rows["name"])) if kind == "roofline" else ""}
        found.append(
            chart_view(
                *(kind, heading, charts(shown, rows, kind), alts[kind], WORDS.say("note", note)),
                at=[] if flat else recorded_times.sizes(shown.part, shown.field),  # roofline and ladder have no steps
                colours={shown_name(one, title): colours[one] for one in drawn if one not in far},
            )
        )
    return found


def made_of_products(shown: set[str]) -> str:
    """The shown kernels and peers with several 16-bit products for one fp32 product, by their number."""
    every = {name: spec.tensor_products for name, spec in catalog.current().kernels.items() if spec.tensor_products > 1}
    every |= TENSOR_PRODUCTS
    every = {shown_name(name): products for name, products in every.items() if name in shown}
    return "; ".join(
        f"{' and '.join(name for name, n in every.items() if n == products)} by {products}"
        for products in sorted(set(every.values()))
    )


def charts(shown: Shown, rows: pd.DataFrame, kind: str) -> alt.LayerChart:
    roofs = {source: entry.roofs for source, entry in shown.where.items() if entry.roofs}
    known = {entry.device: peaks(entry.device) for entry in shown.where.values()}
    sheets = {device: found for device, found in known.items() if found}
    return size_charts.chart(kind, rows, shown.field, shown.baseline, roofs, shown.part, shown.name, sheets)


def _states(shown: Shown, rows: pd.DataFrame, sizes: list[float]) -> list[stage.State]:
    """The strip: each line's time at the step, then its TFLOP/s, GB/s and bytes, if they are known."""
    several = rows[["device", "source"]].drop_duplicates().shape[0] > 1
    labels, found = sweep_rows.labels(shown.part), []
    colours = sweep_rows.colours(labels)
    for (device, source), own in rows.groupby(["device", "source"], sort=False):
        at = {}
        for row in own.itertuples():
            said = [microseconds(row.median_us)]
            said += [f"{short(row.tflops, 3)} TFLOP/s"] if pd.notna(row.tflops) else []
            said += [f"{figure(row.gb_per_s, 3)} GB/s"] if pd.notna(row.gb_per_s) else []
            said += [f"{figure(row.peak_bytes / 1e6, 3)} MB"] if pd.notna(row.peak_bytes) else []
            at[row.label, getattr(row, shown.field)] = ", ".join(said)
        where = f", {source}, {device}" if several else ""
        for label in (name for name in labels if name in set(own.label)):
            name = shown_name(label, wording.title_of(own)) + where
            found.append(stage.State(name, [at.get((label, v), "no time") for v in sizes], colour=colours[label]))
    return found


def provenance(where: Mapping[str, Provenance], measured: tuple[str, ...]) -> stage.Provenance:
    """The provenance of every source, with its roofs."""
    said = []
    for name, entry in where.items():
        stated = peaks(entry.device)
        row = {"label": "Measured" if name in measured else "Recorded", "sheet": stated.said if stated else ""}
        said.append(WORDS.say("source", vars(entry) | row | {"roofs": roofs_said(entry.roofs) if entry.roofs else ""}))
    places = dict.fromkeys(stage.place(entry.device, entry.date) for entry in where.values())
    return stage.Provenance("measured" if measured else "recorded", " ".join(said), place=" and ".join(places))


# ---- questions ----


def asked_of(rows: pd.DataFrame, field: str, baseline: str, sizes: list[float]) -> Row:
    """The data of the questions: speed, distance to the roof, and growth of time and memory. None: no question.

    rows: the drawn rows, compared with the baseline.
    baseline: in words.
    """
    last, step = sizes[-1], len(sizes) - 1
    ours = rows[(rows[field] == last) & (rows.kind == "kernel")].sort_values("median_us")
    later = {field: [sizes[min(1, step - 1)] + 1, last]}  # also the trend answers
    base = rows[[shown_name(row.label, row.title) == baseline for row in rows.itertuples()]]
    covers = [{**later, "label": label} for label in (*ours.label[:1], *base.label[:1])]
    names: Row = {"last": wording.sized(field, last), "doubled": wording.doubled(field), "rival": None}
    if len(known := ours[ours.speedup.notna()]):
        row = known.iloc[0]
        peers = rows[(rows[field] == last) & (rows.kind != "kernel")].sort_values("median_us")
        first = shown_name(peers.label.iloc[0], peers.title.iloc[0]) if len(peers) else ""
        right = SPEEDS[questions.nearest(SPEEDS, float(row.speedup))]
        due = {words: microseconds(row.median_us * row.speedup / speed) for speed, words in SPEEDS.items()}
        names["rival"] = {
            "name": shown_name(row.label),
            "time": microseconds(row.median_us),
            "beside": wording.beside(row, baseline),
            "first": first == baseline,
            "right": right,
            "wrong": {words: us for words, us in due.items() if words != right},
            "covers": covers,
        }
    return names | {
        "baseline": baseline,
        "roof": _of_roof(ours[ours.roof_percent.notna()]),
        "growth": _growth(rows, field, "median_us", set(ours.label)),
        "memory": _growth(rows, field, "peak_bytes", set(ours.label)),
    }


def _of_roof(known: pd.DataFrame) -> Row | None:
    """The fastest kernel's share of its roof."""
    if known.empty:
        return None
    row = known.iloc[0]
    share = float(row.roof_percent)
    right = min(SHARES, key=lambda percent: abs(percent - share))
    found = {"name": shown_name(row.label), "tflops": row.tflops, "share": share, "roof": row.roof}
    due = {f"About {percent}%": row.tflops * percent / row.roof_percent for percent in SHARES if percent != right}
    return found | {"most": 100 * row.tflops / share, "right": f"About {right}%", "wrong": due}


def _growth(rows: pd.DataFrame, field: str, column: str, ours: set[str]) -> Row | None:
    """The kernel with the fastest growth of a column per doubling. hides: the factors that the charts show."""
    grows = sweep_rows.growth(rows, field, column)
    timed = {label: times for label, times in grows.items() if label in ours}
    if not timed:
        return None
    label, factor = max(timed.items(), key=lambda item: item[1])
    nearest = questions.nearest(FACTORS, factor)
    return {
        "name": shown_name(label),
        "times": factor,
        "squared": (field, nearest) == ("seq_len", 4),
        "right": FACTORS[nearest],
        "wrong": {words: "more" if one < factor else "less" for one, words in FACTORS.items() if one != nearest},
        "hides": sorted({wording.times_said(one) for one in grows.values()}),
    }


# ---- tabs ----


def figures(shown: Shown) -> list[Block]:
    """Every shown figure, and the sentences about the lines."""
    rows, field = shown.rows, shown.field
    if rows.empty:
        return [stage.note("Nothing that is shown has a time.")]
    own = shown.part[shown.part.label.isin(rows.label)]
    said = [
        timing_tables.sentence(rows, field, shown.baseline),
        timing_tables.state_sentence(rows[rows[field] == rows[field].max()], shown.baseline) or "Times are rested.",
        timing_tables.floor_sentence(rows, field),
        timing_tables.exponent_sentence(own, field),
        *timing_tables.crossing_sentences(rows, field),
    ]
    names = {"points": len(rows), "name": shown.name, "of_pages": own["name"].isin(PAGED).any()}
    table = timing_tables.figures_table(rows, field, shown.name)
    return [*(stage.text(one) for one in said if one), stage.table(table, WORDS.say("figures", names))]


def missing(shown: Shown, not_recorded: list[str]) -> list[Block]:
    """The points without a time, and the reasons. not_recorded: sentences about kernels without any record."""
    without_time, part = timing_tables.without_time(shown.part, shown.field), shown.part
    renamed = without_time.rename(columns={"name": "kernel", "status": "why", "places": "at", "reason": "in full"})
    table = stage.table(renamed, "A gap in a line is a size without a time.")
    dense = part.dtype.isin(["float16", "bfloat16"]).any() and not recorded_times.is_paged(wording.title_of(part))
    absent = wording.not_timed(part["name"]) if dense else []
    every = table if len(without_time) else stage.text("Every point of this sweep has a time.")
    return [every, *map(stage.note, [*absent, *not_recorded])]


STORY = Times()
