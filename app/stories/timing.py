"""How fast: sweeps of times, live on this GPU or recorded on named ones: one large chart with a switch of metric."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import vl_convert

from app.choices.choice import Choice
from app.choices.page import Correction, Description, Descriptions, Page, State
from app.choices.pages import two_rungs
from app.measured import measuring
from app.measured.measuring import Now
from app.parts.explained import story_of
from app.store import disk, vega
from explainers.models import recorded_times
from explainers.stories.timing import story, sweep_rows, times, timing_tables, wording
from explainers.stories.timing.story import Sources
from explainers.stories.timing.sweep_rows import SweepName
from explainers.story import stage
from explainers.story.stage import Block
from kernels.core.fields import quoted
from kernels.errors import ProblemError
from kernels.measure import reports
from kernels.run import workers

WIDTH, SCALE = 900, 2  # of a chart as an image
PARTS = ("kind", "problem", "along", "constant")  # of a sweep's name: each leads to a sweep, and a link names only that
OWN = {
    "gpus": Choice("", late=True, meaning="the GPUs whose times the page shows"),
    "sweep": Choice("", late=True, meaning="the field that changes from point to point"),
    **{part: Choice("", late=True) for part in PARTS},
    "baseline": Choice("", late=True, meaning="the line for comparisons"),
    "hide": Choice("", late=True, meaning="the lines out of the chart"),
}


def sources_of(state: State) -> tuple[str, ...]:
    return tuple(one for one in state["gpus"].split("|") if one)


def sweep_of(state: State, now: Now) -> str:
    """The chosen sweep, by default the one of the fastest row; empty without a sweep.

    now: the results of this GPU, which may change during the question.
    """
    known = times.known(sources_of(state), now)
    chosen = sweep_rows.find_sweep(known.found, state["sweep"]) if state["sweep"] else ""
    return chosen or sweep_rows.fastest(known.table, known.found)


def baseline_of(state: State, now: Now) -> str:
    _, against, _ = _lines(state, now)
    return state["baseline"] or next(iter(against), "")


def correct(page: Page, state: State) -> list[Correction]:
    """Replaces unknown names by the defaults, in place."""
    now = measuring.times()
    moved = _only(state, "gpus", times.names(now))
    found = times.known(sources_of(state), now).found
    key = sweep_rows.find_sweep(found, state["sweep"]) if state["sweep"] else ""
    if key is None:
        moved.append(Correction("sweep", f"sweep is {quoted(state['sweep'])}. Here no sweep has this name."))
    state["sweep"] = key or ""
    labels, against, _ = _lines(state, now)
    _rename(state, partial(sweep_rows.drawn_layout, present=labels))
    if state["baseline"] and state["baseline"] not in against:
        said = f"baseline is {quoted(state['baseline'])}. Here it can be one of {', '.join(against)}."
        moved.append(Correction("baseline", said))
        state["baseline"] = ""
    moved += _only(state, "hide", labels)
    if labels and set(state["hide"].split("|")) >= set(labels):
        moved.append(Correction("hide", "hide names every line. One line must stay, so the chart shows all lines."))
        state["hide"] = ""
    return moved


def _rename(state: State, named: Callable[[str], str]) -> None:
    """Gives the lines that the baseline and the hidden ones name their other names, in place."""
    for name in ("baseline", "hide"):
        state[name] = "|".join(map(named, state[name].split("|")))


def _only(state: State, name: str, allowed: list[str]) -> list[Correction]:
    """Drops unknown names from a list of names."""
    named = list(dict.fromkeys(one for one in state[name].split("|") if one))
    lost = [one for one in named if one not in allowed]
    state[name] = "|".join(one for one in named if one in allowed)
    return [
        Correction(name, f"{name} names {quoted(one)}. Here it can name {', '.join(allowed) or 'nothing'}.")
        for one in lost
    ]


def adapt(page: Page, state: State, name: str) -> None:
    """Takes the sweep of a part of its name, and the baseline of another sweep or of other sources. Known lines stay
    hidden. Raises ProblemError for an unknown part."""
    if name in PARTS:
        state["sweep"] = _with_part(state, name)
        state[name] = ""
    if name in ("gpus", "sweep", *PARTS):
        labels, against, _ = _lines(state, measuring.times())
        _rename(state, partial(sweep_rows.drawn_layout, present=labels))
        state["baseline"] = state["baseline"] if state["baseline"] in against else ""
        state["hide"] = "|".join(one for one in state["hide"].split("|") if one in labels)


def _with_part(state: State, part: str) -> str:
    """The sweep with that part of its name, and with most of the other parts of the shown sweep."""
    now, text = measuring.times(), state[part]
    known = times.known(sources_of(state), now)
    if part in ("along", "constant") and text in known.names:
        return text
    shown = sweep_of(state, now)
    own, field = known.names[shown], known.found[shown][0]
    wanted = own if part == "constant" else own._replace(**{part: text})  # without a constant: the same problem

    def alike(key: str) -> tuple[bool, ...]:
        name = known.names[key]
        return not name.constant, known.found[key][0] == field, name.problem == wanted.problem

    named = [key for key, name in known.names.items() if name.kind == wanted.kind]
    if part != "kind":
        named = [key for key in named if known.names[key].problem == wanted.problem]
    if not named or part == "along":
        raise ProblemError(f"{part} is {quoted(text)}. Here no sweep has this name.")
    return max(named, key=alike)


def _parts(names: Mapping[str, SweepName], key: str) -> Descriptions:
    """The parts of a sweep's name as choices: its kind, its problem, and what varies. Sweeps of constants are under
    the choices of the build."""
    own = names[key]
    kinds = dict.fromkeys(name.kind for name in names.values())
    of_kind = {one: name for one, name in names.items() if name.kind == own.kind}
    problems = dict.fromkeys(name.problem for name in of_kind.values())
    along = {one: name for one, name in of_kind.items() if name.problem == own.problem}
    sizes = {one: name.along for one, name in along.items() if not name.constant or one == key}
    constants = {one: name.along for one, name in along.items() if name.constant}
    return {
        "kind": {"label": "Kind", "value": own.kind, "options": {kind: kind for kind in kinds}},
        "problem": {"label": "Problem", "value": own.problem, "options": {problem: problem for problem in problems}},
        "along": {"label": "Sweep", "value": key, "options": sizes},
        "constant": {"label": "Sweep of a constant", "value": key if own.constant else "", "group": "build"}
        | {"options": {"": "none", **constants}},
    }


def describe(page: Page, state: State) -> Descriptions:
    """The choices as the tables allow them."""
    now = measuring.times()
    names, named = times.names(now), times.known(sources_of(state), now)
    labels, against, part = _lines(state, now)
    field = named.found[sweep_of(state, now)][0] if named.found else ""
    said = {one: sweep_rows.baseline_name(one, part, field) for one in against}
    chosen, hidden = sources_of(state) or tuple(names), state["hide"].split("|")
    select = {"hidden": not named.found, "kind": "select"}
    parts = _parts(named.names, sweep_of(state, now)) if named.found else {}
    parts = {name: select | {"hidden": len(part["options"]) < 2} | part for name, part in parts.items()}
    return parts | {
        "gpus": {"hidden": len(names) < 2, "label": "Times from"}
        | _many(names, [n for n in names if n in chosen], False),
        "baseline": select | {"label": "Baseline", "value": baseline_of(state, now), "options": said},
        "hide": {"hidden": len(labels) < 2, "label": "Lines"}
        | _many(labels, [n for n in labels if n not in hidden], True, wording.title_of(part) if labels else ""),
    }


def _many(names: list[str], on: list[str], tells_off: bool, title: str = "") -> Description:
    """A choice of several options. Each option has its state, and the value of the choice after a press.

    tells_off: whether the choice names the options that are off. Otherwise it names those that are on, or nothing for
        all.
    title: of the problem of the lines.
    """
    options = []
    for one in names:
        after = [n for n in names if (n in on) != (n == one)]
        value = [n for n in names if n not in after] if tells_off else [] if after == names else after
        last = "" if after else "One line must stay."
        options.append(
            {
                "value": one,
                "label": recorded_times.shown_name(one, title),
                "on": one in on,
                "to": "|".join(value),
                "why": last,
            }
        )
    return {"kind": "many", "options": options}


def _lines(state: State, now: Now) -> tuple[list[str], list[str], Any]:
    key = sweep_of(state, now)
    return times.lines(sources_of(state), now, key) if key else ([], [], None)


# ---- the page ----


def subject(page: Page, state: State, backend: str) -> Sources:
    survey = workers.survey()
    gpu = survey.devices.get("gpu")
    several = tuple((one.id, one.name) for one in survey.gpus) if len(survey.gpus) > 1 else ()
    now = measuring.times()
    key = sweep_of(state, now)
    baseline = baseline_of(state, now) if key else ""
    hidden = tuple(line for line in state["hide"].split("|") if line)
    sources = sources_of(state)
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
    for kind, title in story.CHARTS.items():
        spec = _alone(story.charts(shown, shown.rows, kind).to_dict(), shown.title)
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
    page=lambda catalog: Page(catalog, own=OWN, correct=correct, adapt=adapt, describe=describe),
    subject=subject,
    order=130,
    request_tabs=False,
    pictures=tuple(story.CHARTS),
    parts={"take": take_tab},
    made_on="cpu",
)
