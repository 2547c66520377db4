"""Timing: sweeps of times, live on this GPU or recorded on named ones: one large chart with a switch of metric."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import vl_convert

from app.choices.page import Page, State
from app.choices.pages import two_rungs
from app.measured import measuring, times
from app.parts.story import Story
from app.store import offered, vega
from app.stories.timing import choices
from explainers.stories.timing import chart_texts, timing_stage, timing_tables
from explainers.stories.timing import duels as told
from explainers.stories.timing.timing_stage import Shown
from explainers.story import stage
from explainers.story.stage import Block, Stage
from kernels.catalog import Catalog, current
from kernels.core.fields import fields_of, write_value
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.measure import bench, duels, reports
from kernels.recordings import tables
from kernels.run import workers

WIDTH, SCALE = 900, 2  # of a chart as an image
VALUES = {  # of well-known sizes, to begin with
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
    """

    sources: tuple[str, ...]
    at: times.Stamp
    now: measuring.Now
    sweep: str
    baseline: str
    hidden: tuple[str, ...]
    gpu: str
    gpus: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return Page(catalog, own=choices.OWN, correct=choices.correct, adapt=choices.adapt, describe=choices.describe)


def subject(page: Page, state: State, backend: str) -> Sources:
    survey = workers.survey()
    gpu = survey.devices.get("gpu")
    several = tuple((one.id, one.name) for one in survey.gpus) if len(survey.gpus) > 1 else ()
    now = measuring.times()
    key = choices.sweep_of(state, now)
    baseline = choices.baseline_of(state, now) if key else ""
    hidden = tuple(line for line in state["hide"].split("|") if line)
    return Sources(choices.sources(state), times.stamp(), now, key, baseline, hidden, gpu.name if gpu else "", several)


def make(sources: Sources) -> Stage:
    known, measure = times.known(sources.sources, sources.now), _measure(sources)
    others = len(timing_tables.sizeless(known.table)) > 0
    if not known.found:
        reason = "No sweep has two sizes yet."
        if not len(known.table):
            reason = "Nothing is recorded and nothing was measured yet."
        return timing_stage.nothing_yet(" ".join([reason, *bench.not_recorded()]), others, measure)
    return stage.warned(timing_stage.stage_of(_shown(sources), others, measure), tables.left_out(bench.KIND))


def _shown(sources: Sources) -> Shown:
    known = times.known(sources.sources, sources.now)
    # the sweep may be forgotten, or recorded anew
    sweep = sources.sweep if sources.sweep in known.found else next(iter(known.found), None)
    if sweep is None:
        raise ProblemError("No sweep has two sizes yet. Measure one, or record one with python -m kernels bench.")
    field, _ = known.found[sweep]
    part = times.lines(sources.sources, sources.now, sweep).part
    measured = tuple(name for name in known.where if name == times.NOW)
    return Shown(part, field, known.titles[sweep], sources.baseline, sources.hidden, known.where, measured)


def _measure(sources: Sources) -> list[Block]:
    """The form for a measurement on this GPU; empty without a GPU."""
    if not sources.gpu:
        return []
    chosen = two_rungs(current())
    kernels = [
        {"name": name, "title": spec.title, "fields": sweepable(spec), "on": name in chosen}
        for name, spec in current().kernels.items()
    ]
    about = "Each point is timed once its output has passed against float64; what is done is shown at once."
    meta = {"what": "sweep", "gpu": sources.gpu, "kernels": kernels, "about": about, "measured": len(sources.now.rows)}
    return [stage.live("measure", meta | {"gpus": sources.gpus})]


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


# ---- tabs ----


def figures_tab(sources: Sources) -> list[Block]:
    return timing_stage.figures(_shown(sources))


def missing_tab(sources: Sources) -> list[Block]:
    return timing_stage.missing(_shown(sources), bench.not_recorded())


def others_tab(sources: Sources) -> list[Block]:
    return timing_stage.others(times.known(sources.sources, sources.now).table)


def duels_tab(sources: Sources) -> list[Block]:
    found = duels.recorded()
    return told.blocks(*found) if found else [stage.note("No duel of the present code is recorded.")]


def take_tab(sources: Sources) -> list[Block]:
    """The shown rows as CSV and JSON, the report, and every chart as an image."""
    shown = _shown(sources)
    rows = shown.rows.drop(columns=["problem"]).reset_index(drop=True)
    where = {name: entry.as_json() for name, entry in shown.where.items()}
    content = {
        "provenance": where,
        "baseline": shown.baseline,
        "rows": reports.records(shown.rows.reset_index(drop=True)),
    }
    report = timing_tables.report(
        shown.rows, shown.part, shown.field, shown.title, shown.baseline, list(shown.where.values())
    )
    files = [
        ("CSV", "times.csv", rows.to_csv(index=False).encode()),
        ("JSON", "times.json", json.dumps(content, indent=1).encode()),
        ("Report (Markdown)", "report.md", report.encode()),
    ]
    images = []
    for kind, title in chart_texts.CHARTS.items():
        spec = _alone(timing_stage.charts(shown, shown.rows, kind).to_dict(), shown.title)
        png = vl_convert.vegalite_to_png(spec, vl_version=vega.VERSION, scale=SCALE)
        svg = vl_convert.vegalite_to_svg(spec, vl_version=vega.VERSION)
        images += [(f"{title}, PNG", f"{kind}.png", png), (f"{title}, SVG", f"{kind}.svg", svg.encode())]
    return [
        stage.heading("The times"),
        stage.row(*([_file(*file)] for file in files)),
        stage.heading("The charts as images"),
        stage.row(*([_file(*png), _file(*svg)] for png, svg in zip(images[::2], images[1::2]))),
    ]


def _file(label: str, name: str, data: bytes) -> Block:
    name = f"warpglass-{name}"
    return stage.download(label, offered.keep_file(data, name), name)


def _alone(spec: dict[str, Any], title: str) -> dict[str, object]:
    """A chart outside the page: without the step's rule, with a title and room for the names of lines."""
    params = [p | {"value": 0} for p in spec["params"]]
    padding = 8  # the names at the ends are fitted in
    more = {"params": params, "width": WIDTH, "padding": padding, "background": "white"}
    return spec | more | {"title": {"text": title, "anchor": "start"}}


STORY = Story(
    path="timing",
    title="How fast",
    look="Step through the sizes and watch which line is lowest, and where two lines cross. "
    "Only a timed build whose output passed against float64 gets a time; where there is none, the line has a gap and "
    "the reason stands beside it.",
    page=page,
    subject=subject,
    order=130,
    make=make,
    parts={"figures": figures_tab, "missing": missing_tab, "take": take_tab, "others": others_tab, "duels": duels_tab},
    made_on="cpu",
)
