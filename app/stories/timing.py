"""Timing: sweeps of times, live on this GPU or recorded on named ones: one large chart with a switch of metric."""

import json
from dataclasses import dataclass
from typing import Any

import vl_convert

from app.choices import State
from app.choices import times as choices
from app.choices.pages import TIMING, TWO_RUNGS
from app.measured import measuring, times
from app.parts.story import Story
from app.store import offered, vega
from explainers.stories.timing import chart_texts, timing_stage, timing_tables
from explainers.stories.timing import duels as told
from explainers.stories.timing.timing_stage import Shown
from explainers.story import stage
from explainers.story.stage import Block, Stage
from kernels.catalog import KERNELS
from kernels.core.fields import fields_of, write_value
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
class Asked:
    """sources: whose times, all if none is named; at: what is recorded; now: what was measured here; gpu: this
    machine's own, if it has one; gpus: (id, name) of each, where there are several."""

    sources: tuple[str, ...]
    at: times.Stamp
    now: measuring.Now
    sweep: str
    baseline: str
    hidden: tuple[str, ...]
    gpu: str
    gpus: tuple[tuple[str, str], ...] = ()


def what(state: State, backend: str) -> Asked:
    survey = workers.survey()
    gpu = survey.devices.get("gpu")
    several = tuple((one.id, one.name) for one in survey.gpus) if len(survey.gpus) > 1 else ()
    now = measuring.times()
    key = choices.sweep_of(state, now)
    baseline = choices.baseline_of(state, now) if key else ""
    hidden = tuple(one for one in state["hide"].split("|") if one)
    return Asked(choices.sources(state), times.stamp(), now, key, baseline, hidden, gpu.name if gpu else "", several)


def make(asked: Asked) -> Stage:
    there, here = times.known(asked.sources, asked.now), _here(asked)
    others = len(timing_tables.sizeless(there.table)) > 0
    if not there.found:
        said = (
            "No sweep has two sizes yet." if len(there.table) else "Nothing is recorded and nothing was measured yet."
        )
        return timing_stage.nothing_yet(" ".join([said, *bench.not_recorded()]), others, here)
    return stage.warned(timing_stage.stage_of(_shown(asked), others, here), tables.left_out(bench.KIND))


def _shown(asked: Asked) -> Shown:
    there = times.known(asked.sources, asked.now)
    sweep = asked.sweep if asked.sweep in there.found else next(iter(there.found), None)  # forgotten, or recorded anew
    if sweep is None:
        raise ProblemError("No sweep has two sizes yet. Measure one, or record one with python -m kernels bench.")
    field, _ = there.found[sweep]
    part = times.lines(asked.sources, asked.now, sweep).part
    measured = tuple(name for name in there.where if name == times.NOW)
    return Shown(part, field, there.titles[sweep], asked.baseline, asked.hidden, there.where, measured)


def _here(asked: Asked) -> list[Block]:
    """What measures on this GPU, where there is one."""
    if not asked.gpu:
        return []
    chosen = dict.fromkeys(TWO_RUNGS)
    kernels = [{"name": n, "title": s.title, "fields": sweepable(n), "on": n in chosen} for n, s in KERNELS.items()]
    about = "Each point is timed once its output has passed against float64; what is done is shown at once."
    meta = {"what": "sweep", "gpu": asked.gpu, "kernels": kernels, "about": about, "measured": len(asked.now.rows)}
    return [stage.live("measure", meta | {"gpus": asked.gpus})]


def sweepable(name: str) -> dict[str, str]:
    """What a kernel can be swept over -> values to begin with: sizes, fields of the problem, constants."""
    spec = KERNELS[name]
    kind = spec.problem_type
    found = dict.fromkeys(kind.derived_fields, "")
    for field_name, f in fields_of(kind).items():
        if not isinstance(f.default, tuple):
            found[field_name] = ", ".join(write_value(v) for v in f.metadata["allowed"] or (f.default,))
    found |= {c.name: ", ".join(map(str, c.values)) for c in spec.constants}
    return {n: v for n, v in VALUES.items() if n in found} | {n: v for n, v in found.items() if n not in VALUES}


# ---- tabs ----


def figures_tab(asked: Asked) -> list[Block]:
    return timing_stage.figures(_shown(asked))


def missing_tab(asked: Asked) -> list[Block]:
    return timing_stage.missing(_shown(asked), bench.not_recorded())


def others_tab(asked: Asked) -> list[Block]:
    return timing_stage.others(times.known(asked.sources, asked.now).table)


def duels_tab(asked: Asked) -> list[Block]:
    found = duels.recorded()
    return told.blocks(*found) if found else [stage.note("No duel of the present code is recorded.")]


def take_tab(asked: Asked) -> list[Block]:
    """The shown rows as CSV and JSON, the report, and every chart as an image."""
    shown = _shown(asked)
    rows = shown.rows.drop(columns=["problem"]).reset_index(drop=True)
    where = {name: entry.as_json() for name, entry in shown.where.items()}
    made = {"provenance": where, "baseline": shown.baseline, "rows": reports.records(shown.rows.reset_index(drop=True))}
    report = timing_tables.report(
        shown.rows, shown.part, shown.field, shown.title, shown.baseline, list(shown.where.values())
    )
    files = [
        ("CSV", "times.csv", rows.to_csv(index=False).encode()),
        ("JSON", "times.json", json.dumps(made, indent=1).encode()),
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


def _alone(spec: dict[str, Any], title: str) -> dict[str, Any]:
    """A chart as it stands without the page: without the step's rule, with a title and room for the lines' names."""
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
    asked=TIMING,
    what=what,
    make=make,
    parts={"figures": figures_tab, "missing": missing_tab, "take": take_tab, "others": others_tab, "duels": duels_tab},
    narrowed=choices.narrowed,
    changed=choices.changed,
    made_on="cpu",
)
