"""Timing: sweeps of times, live on this GPU or recorded on named ones: one large chart with a switch of metric."""

import json
from functools import lru_cache
from typing import Any

import vl_convert

from app.choices.page import Page, State
from app.choices.pages import two_rungs
from app.measured import measuring
from app.parts.explained import story_of
from app.store import disk, vega
from app.stories.timing import choices
from explainers.stories.timing import chart_texts, story, times, timing_stage, timing_tables
from explainers.stories.timing.story import Sources
from explainers.story import stage
from explainers.story.stage import Block
from kernels.catalog import Catalog
from kernels.measure import reports
from kernels.run import workers

WIDTH, SCALE = 900, 2  # of a chart as an image


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
    sources = choices.sources(state)
    name, chosen = (gpu.name, two_rungs(page.catalog)) if gpu else ("", ())
    return Sources(sources, times.stamp(), now, key, baseline, hidden, name, several, chosen)


def take_tab(sources: Sources) -> list[Block]:
    """The shown rows as CSV and JSON, the report, and every chart as an image."""
    shown = story.shown_of(sources)
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
    return stage.download(label, disk.offer_file(data, name), name)


def _alone(spec: dict[str, Any], title: str) -> dict[str, object]:
    """A chart outside the page: without the step's rule, with a title and room for the names of lines."""
    params = [p | {"value": 0} for p in spec["params"]]
    padding = 8  # the names at the ends are fitted in
    more = {"params": params, "width": WIDTH, "padding": padding, "background": "white"}
    return spec | more | {"title": {"text": title, "anchor": "start"}}


STORY = story_of(
    story.STORY,
    path="timing",
    title="How fast",
    look="Step through the sizes. A point above 1 is faster than the baseline, a point below is slower. "
    "A build has a time only if its output passed against float64. A gap in a line is a size without a time.",
    page=page,
    subject=subject,
    order=130,
    request_tabs=False,
    pictures=tuple(chart_texts.CHARTS),
    parts={"take": take_tab},
    made_on="cpu",
)
