"""How fast: one large chart with a switch of metric. The steps are the sizes of a sweep, recorded on named GPUs or
measured on this one."""

from dataclasses import dataclass, replace

import pandas as pd

from explainers.charts.layers import chart_view
from explainers.models.recorded_times import FLOOR, shown_name
from explainers.stories.timing import charts, duels, rungs, sweeps
from explainers.stories.timing import shown as tables_of
from explainers.stories.timing.shown import Shown
from explainers.stories.timing.sweeps import NOW, WORDS, as_fast, why
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import figure, microseconds, short
from explainers.story.stage import Block, Stage, Tab
from explainers.story.words import Row
from kernels import catalog
from kernels.core.fields import fields_of, write_value
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.measure import bench, choices, gradient_duels
from kernels.measure import duels as timed_duels
from kernels.measure.bench_rows import Now
from kernels.measure.datasheets import peaks
from kernels.measure.peers import PAGED, TENSOR_PRODUCTS
from kernels.measure.reports import roofs_said
from kernels.recordings import tables

CHARTS = WORDS.table("charts")  # kind -> title
SAID = 2  # kernels in a step's sentence
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
    taught: (name, number and title, link) of the stops of the course.
    """

    sources: tuple[str, ...]
    at: sweeps.Stamp
    now: Now
    sweep: str
    baseline: str
    hidden: tuple[str, ...]
    gpu: str
    gpus: tuple[tuple[str, str], ...]
    chosen: tuple[str, ...]
    taught: tuple[tuple[str, str, str], ...] = ()


class Times(Story[Sources]):
    """The lines of one sweep. It runs no kernel."""

    def stage(self, subject: Sources, runner: Runner) -> Stage:
        known = sweeps.known(subject.sources, subject.now)
        here = [Tab("now", "Time on this GPU", [_form(subject)])] if subject.gpu else []
        sizeless = known.table.seq_len.isna() & (known.table.status == "ok")
        others = [Tab("others", "Other kernels")] if sizeless.any() else []
        if not known.sweeps:
            said = " ".join([WORDS.say("nothing_yet", {"empty": not len(known.table)}), *bench.not_recorded()])
            return Stage("Times", [], [], tabs=[*here, *others], summary=said, side=[stage.note(said)])
        met = gradient_duels.recorded()
        turns = [Tab("turns", duels.titles(met[0]))] if met else []
        made = stage_of(shown_of(subject))
        ladder, asked = rungs.views({name: (said, link) for name, said, link in subject.taught})
        made = replace(made, views=[*made.views, *ladder], questions=asked, tabs=[*here, *made.tabs, *turns, *others])
        return stage.warned(made, tables.left_out(bench.KIND))

    def parts(self) -> dict[str, Part[Sources]]:
        none = [stage.note("No such table of the present code is recorded.")]
        return {
            "figures": lambda subject, runner: figures(shown_of(subject)),
            "missing": lambda subject, runner: missing(shown_of(subject), bench.not_recorded()),
            "others": lambda subject, runner: [
                stage.table(
                    tables_of.without_sizes(sweeps.known(subject.sources, subject.now).table), WORDS.say("others", {})
                )
            ],
            "duels": lambda subject, runner: (
                duels.blocks(*found, sweeps.not_timed(found[0].peer)) if (found := timed_duels.recorded()) else none
            ),
            "choice": lambda subject, runner: (
                duels.choice_blocks(*found) if (found := choices.TABLE.newest()) else none
            ),
            "turns": lambda subject, runner: duels.blocks(*found) if (found := gradient_duels.recorded()) else none,
        }


def shown_of(sources: Sources) -> Shown:
    """The shown part of the chosen sweep. Raises ProblemError without a sweep."""
    known = sweeps.known(sources.sources, sources.now)
    # the sweep may be forgotten, or recorded anew
    sweep = known.sweeps.get(sources.sweep) or next(iter(known.sweeps.values()), None)
    if sweep is None:
        raise ProblemError("No sweep has two sizes yet. Measure one, or record one with python -m kernels bench.")
    return Shown(sweep, sources.baseline, sources.hidden, known.where)


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


def stage_of(shown: Shown) -> Stage:
    part, last = shown.sweep.part, len(shown.sweep.sizes) - 1
    names = ("seq_len", "batch", "num_heads", "head_dim", "dtype", "causal")  # that all points of the sweep share
    shared = [name for name in names if name != shown.field and part[name].nunique(dropna=False) == 1]
    first = part.iloc[0]
    problem = stage.sizes_said({name: first[name] for name in shared if not pd.isna(first[name])})
    return Stage(
        headline=f"{shown.state.capitalize()} times. {shown.sweep.title}",
        frames=WORDS.frames([_step(shown, tile, value) for tile, value in enumerate(shown.sweep.sizes)], {}),
        views=[_view(shown, kind) for kind in CHARTS],
        state=_strip(shown),
        tabs=[Tab(*tab) for tab in WORDS.table("tabs").items()],
        provenance=replace(provenance(shown), problem=problem),
        step=last,
    )


def _step(shown: Shown, tile: int, value: float) -> Row:
    """The times of our two fastest kernels at a size next to the baseline, the lines without a time, the time of our
    fastest kernel at the size before, and the state of the chip."""
    field, rows, where = shown.field, shown.rows, shown.sweep.at(value)
    here = rows[rows[field] == value].sort_values("median_us", kind="stable")
    missing = shown.drawn[(shown.drawn[field] == value) & (shown.drawn.status != "ok")]
    each: list[Row] = []
    if len(here):
        missing = missing[(missing.kind == "kernel") | missing.label.isin(rows.label)]
        fastest = here.iloc[0]
        if here.device.nunique() > 1 or here.source.nunique() > 1:
            here = here[(here.device == fastest.device) & (here.source == fastest.source)]
            where += f" on {fastest.device}{' now' if fastest.source == 'measured' else ''}"
        base, others = here[here.label == shown.baseline], here[here.label != shown.baseline]
        kernels = others[others.kind == "kernel"]
        best = (kernels if len(kernels) else others).head(SAID)
        for row in (best if len(best) else here.head(1)).itertuples():
            name = f"{shown.name} ({microseconds(base.iloc[0].median_us)})" if len(base) and not each else shown.name
            alone = best.empty or pd.isna(row.speedup) or (base.empty and row.speedup == 1)
            beside = "" if alone else as_fast(row.speedup, row.speedup_low, row.speedup_high, name)
            each.append({"name": shown.sweep.named(row.label), "time": microseconds(row.median_us), "beside": beside})
    reasons: dict[str, dict[str, None]] = {}
    for row in missing.itertuples():
        reasons.setdefault(why(row), {})[shown.sweep.named(row.label)] = None
    step: Row = {"tile": tile, "at": shown.sweep.at(value), "where": where, "each": each, "missing": reasons}
    return step | {"then": _then(shown, value), "state": tables_of.state_sentence(shown, value)}


def _then(shown: Shown, value: float) -> Row | None:
    """Our fastest kernel's time at a size next to its time at the size before. None if the problem grows with the
    field, or the field is a constant."""
    field, rows = shown.field, shown.rows
    before = max((size for size in rows[field] if size < value), default=None)
    ours = rows[(rows[field] == value) & (rows.kind == "kernel")]
    if shown.sweep.of_constant or field in sweeps.GROWING or before is None or ours.empty:
        return None
    row = ours.loc[ours.median_us.idxmin()]
    same = (rows.label == row.label) & (rows.device == row.device) & (rows.source == row.source)
    then = rows[same & (rows[field] == before)].median_us
    if then.empty:
        return None
    ratio = as_fast(then.iloc[0] / row.median_us, name=f"at {shown.sweep.at(before)}")
    return {"as_fast": ratio, "time": microseconds(then.iloc[0])}


def _view(shown: Shown, kind: str) -> stage.View:
    sweep, rows, flat = shown.sweep, shown.rows, kind in ("ladder", "roofline")  # these two have no steps
    far = sweeps.left_out(kind, rows, shown.field)
    drawn = [label for label in sweep.labels if label not in shown.hidden]
    gaps = shown.drawn[shown.drawn.label.isin(rows.label) & ~shown.drawn.label.isin(far)]
    note = {
        "kind": kind,
        "note": WORDS.table("notes")[kind],
        "far": [sweep.named(label) for label in far],
        "missing": [] if flat else tables_of.without_time(gaps, shown.field).to_dict("records"),
        "floor": WORDS.say("floor", {}) if FLOOR in drawn and sweep.paged else "",
        "products": made_of_products(set(rows["name"])) if kind == "roofline" else {},
    }
    about = WORDS.table("alt")[kind], WORDS.say("note", note)
    colours = {sweep.named(label): sweep.colours[label] for label in drawn if label not in far}
    at = [] if flat else sweep.sizes
    return chart_view(kind, CHARTS[kind], charts.chart(shown, kind), *about, at=at, colours=colours)


def made_of_products(names: set[str]) -> dict[int, list[str]]:
    """Number of 16-bit products for one fp32 product -> these kernels and peers in words, if it is above 1."""
    kernels = {
        name: spec.tensor_products for name, spec in catalog.current().kernels.items() if spec.tensor_products > 1
    }
    found: dict[int, list[str]] = {}
    for name, products in (kernels | TENSOR_PRODUCTS).items():
        if name in names:
            found.setdefault(products, []).append(shown_name(name))
    return dict(sorted(found.items()))


def _strip(shown: Shown) -> list[stage.State]:
    """Each line's time at the step, then its TFLOP/s, GB/s and bytes, if they are known."""
    found, sweep = [], shown.sweep
    for (device, source), own in shown.rows.groupby(["device", "source"], sort=False):
        at = {}
        for row in own.itertuples():
            known = [microseconds(row.median_us)]
            known += [f"{short(row.tflops, 3)} TFLOP/s"] if pd.notna(row.tflops) else []
            known += [f"{figure(row.gb_per_s, 3)} GB/s"] if pd.notna(row.gb_per_s) else []
            known += [f"{figure(row.peak_bytes / 1e6, 3)} MB"] if pd.notna(row.peak_bytes) else []
            at[row.label, getattr(row, shown.field)] = ", ".join(known)
        where = f", {source}, {device}" if shown.several else ""
        for label in (label for label in sweep.labels if label in set(own.label)):
            values = [at.get((label, value), "no time") for value in sweep.sizes]
            found.append(stage.State(sweep.named(label) + where, values, colour=sweep.colours[label]))
    return found


def provenance(shown: Shown) -> stage.Provenance:
    """The provenance of every source, with its roofs."""
    said = []
    for name, entry in shown.where.items():
        stated = peaks(entry.device)
        row = {"label": "Measured" if name == NOW else "Recorded", "sheet": stated.said if stated else ""}
        said.append(WORDS.say("source", vars(entry) | row | {"roofs": roofs_said(entry.roofs) if entry.roofs else ""}))
    places = dict.fromkeys(stage.place(entry.device, entry.date) for entry in shown.where.values())
    label = "measured" if NOW in shown.where else "recorded"
    return stage.Provenance(label, " ".join(said), place=" and ".join(places))


# ---- tabs ----


def figures(shown: Shown) -> list[Block]:
    """Every shown figure, and the sentences about the lines."""
    if shown.rows.empty:
        return [stage.note("Nothing that is shown has a time.")]
    names = {"points": len(shown.rows), "name": shown.name, "of_pages": shown.rows["name"].isin(PAGED).any()}
    table = stage.table(tables_of.figures_table(shown), WORDS.say("figures", names))
    return [*(stage.text(one) for one in tables_of.sentences(shown) if one), table]


def missing(shown: Shown, not_recorded: list[str]) -> list[Block]:
    """The points without a time, and the reasons. not_recorded: sentences about kernels without any record."""
    part = shown.sweep.part
    without_time = tables_of.without_time(part, shown.field)
    renamed = without_time.rename(columns={"name": "kernel", "status": "why", "places": "at", "reason": "in full"})
    table = stage.table(renamed, "A gap in a line is a size without a time.")
    dense = part.dtype.isin(["float16", "bfloat16"]).any() and not shown.sweep.paged
    absent = sweeps.not_timed(part["name"]) if dense else []
    every = table if len(without_time) else stage.text("Every point of this sweep has a time.")
    return [every, *map(stage.note, [*absent, *not_recorded])]


def report(shown: Shown) -> str:
    """A page of Markdown: the source, the figures, the lines without a time, and the method."""
    rows, gaps = shown.rows, tables_of.without_time(shown.sweep.part, shown.field)
    lines = [f"# {shown.sweep.title}", "", provenance(shown).said, "", *filter(None, tables_of.sentences(shown))]
    table = tables_of.figures_table(shown)
    lines += ["", f"Compared with {shown.name}.", ""]
    for row in [table.columns, ["---"] * len(table.columns), *table.itertuples(index=False)]:
        lines.append("| " + " | ".join(str(value).replace("|", "/") for value in row) + " |")
    lines += ["", "## No time", ""] if len(gaps) else []
    lines += [f"- {r.name} ({r.status}, {r.places}): {r.reason}" for r in gaps.itertuples()]
    runs = {"least": int(rows.runs.min()), "most": int(rows.runs.max()), "cold": (rows.l2 == "cold").all()}
    return "\n".join([*lines, "", "## How", "", WORDS.say("method", runs), ""])


STORY = Times()
