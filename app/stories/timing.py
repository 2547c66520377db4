"""How fast: sweeps of times, live on this GPU or recorded on named ones: one large chart with a switch of metric."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import urlencode

import vl_convert

from app import course
from app.choices.choice import Choice
from app.choices.page import Correction, Description, Descriptions, Page, State
from app.choices.pages import two_rungs
from app.measured import measuring
from app.parts.explained import story_of
from app.store import disk, vega
from explainers.stories.timing import charts, story, sweeps
from explainers.stories.timing.story import Sources
from explainers.stories.timing.sweeps import Known
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


def listed_in(state: State, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in state[name].split("|") if one))


def known_of(state: State) -> Known:
    return sweeps.known(listed_in(state, "gpus"), measuring.times())


def key_of(state: State, known: Known) -> str:
    """The key of the chosen sweep, by default the one of the fastest row; empty without a sweep."""
    chosen = sweeps.find(known.sweeps, state["sweep"]) if state["sweep"] else ""
    return chosen or known.fastest


def correct(page: Page, state: State) -> list[Correction]:
    """Replaces unknown names by the defaults, in place."""
    moved = _only(state, "gpus", sweeps.sources(measuring.times()))
    known = known_of(state)
    key = sweeps.find(known.sweeps, state["sweep"]) if state["sweep"] else ""
    if key is None:
        moved.append(Correction("sweep", f"sweep is {quoted(state['sweep'])}. Here no sweep has this name."))
    state["sweep"] = key or ""
    sweep = known.sweeps.get(key_of(state, known))
    labels, against = (sweep.labels, sweep.baselines) if sweep else ([], [])
    _rename(state, partial(sweeps.drawn_layout, present=labels))
    if state["baseline"] and state["baseline"] not in against:
        said = f"baseline is {quoted(state['baseline'])}. Here it can be one of {', '.join(against)}."
        moved.append(Correction("baseline", said))
        state["baseline"] = ""
    moved += _only(state, "hide", labels)
    if labels and {*listed_in(state, "hide")} >= {*labels}:
        moved.append(Correction("hide", "hide names every line. One line must stay, so the chart shows all lines."))
        state["hide"] = ""
    return moved


def _rename(state: State, named: Callable[[str], str]) -> None:
    """Gives the lines that the baseline and the hidden ones name their other names, in place."""
    for name in ("baseline", "hide"):
        state[name] = "|".join(map(named, state[name].split("|")))


def _only(state: State, name: str, allowed: list[str]) -> list[Correction]:
    """Drops unknown names from a list of names."""
    named = listed_in(state, name)
    state[name] = "|".join(one for one in named if one in allowed)
    known = ", ".join(allowed) or "nothing"
    return [
        Correction(name, f"{name} names {quoted(one)}. Here it can name {known}.")
        for one in named
        if one not in allowed
    ]


def adapt(page: Page, state: State, name: str) -> None:
    """Takes the sweep of a part of its name, and the baseline of another sweep or of other sources. Known lines stay
    hidden. Raises ProblemError for an unknown part."""
    known = known_of(state)
    if name in PARTS:
        state["sweep"] = _with_part(known, key_of(state, known), name, state[name])
        state[name] = ""
    if name in ("gpus", "sweep", *PARTS) and (sweep := known.sweeps.get(key_of(state, known))):
        _rename(state, partial(sweeps.drawn_layout, present=sweep.labels))
        state["baseline"] = state["baseline"] if state["baseline"] in sweep.baselines else ""
        state["hide"] = "|".join(one for one in listed_in(state, "hide") if one in sweep.labels)


def _with_part(known: Known, shown: str, part: str, text: str) -> str:
    """The sweep with that part of its name, and with most of the other parts of the shown sweep."""
    if part in ("along", "constant") and text in known.names:
        return text
    own, field = known.names[shown], known.sweeps[shown].field
    wanted = own if part == "constant" else own._replace(**{part: text})  # without a constant: the same problem
    named = {key: name for key, name in known.names.items() if name.kind == wanted.kind}
    if part != "kind":
        named = {key: name for key, name in named.items() if name.problem == wanted.problem}
    if not named or part == "along":
        raise ProblemError(f"{part} is {quoted(text)}. Here no sweep has this name.")

    def alike(key: str) -> tuple[bool, ...]:
        sweep = known.sweeps[key]
        return not sweep.of_constant, sweep.field == field, named[key].problem == wanted.problem

    return max(named, key=alike)


def _parts(known: Known, key: str) -> Descriptions:
    """The parts of a sweep's name as choices: its kind, its problem, and what varies. Sweeps of constants are under
    the choices of the build."""
    own, constant = known.names[key], known.sweeps[key].of_constant
    of_kind = [name for name in known.names.values() if name.kind == own.kind]
    along = {k: name.along for k, name in known.names.items() if (name.kind, name.problem) == own[:2]}
    constants = {k: text for k, text in along.items() if known.sweeps[k].of_constant}
    options: dict[str, tuple[str, str, Mapping[str, str]]] = {
        "kind": ("Kind", own.kind, {name.kind: name.kind for name in known.names.values()}),
        "problem": ("Problem", own.problem, {name.problem: name.problem for name in of_kind}),
        "along": ("Sweep", key, {k: text for k, text in along.items() if k not in constants or k == key}),
        "constant": ("Sweep of a constant", key if constant else "", {"": "none", **constants}),
    }
    found: Descriptions = {
        name: {"label": label, "value": value, "options": of, "kind": "select", "hidden": len(of) < 2}
        for name, (label, value, of) in options.items()
    }
    return found | {"constant": found["constant"] | {"group": "build"}}


def describe(page: Page, state: State) -> Descriptions:
    """The choices as the tables allow them."""
    known, names = known_of(state), sweeps.sources(measuring.times())
    key = key_of(state, known)
    chosen = listed_in(state, "gpus") or tuple(names)
    found: Descriptions = {"gpus": {"label": "Times from"} | _many(names, [n for n in names if n in chosen], str)}
    if not key:
        return found | {name: {"hidden": True} for name in ("baseline", "hide")}
    sweep = known.sweeps[key]
    baselines = {one: sweep.baseline_name(one) for one in sweep.baselines}
    baseline = {"label": "Baseline", "value": state["baseline"] or sweep.baselines[0], "options": baselines}
    on = [label for label in sweep.labels if label not in listed_in(state, "hide")]
    found |= {"baseline": baseline | {"kind": "select", "hidden": False}}
    return _parts(known, key) | found | {"hide": {"label": "Lines"} | _many(sweep.labels, on, sweep.named, off=True)}


def _many(names: list[str], on: list[str], named: Callable[[str], str], off: bool = False) -> Description:
    """A choice of several options. Each option has its state, and the value of the choice after a press.

    off: whether the choice names the options that are off. Else it names the ones that are on, or nothing for all.
    """
    options = []
    for one in names:
        after = [n for n in names if (n in on) != (n == one)]
        value = [n for n in names if n not in after] if off else [] if after == names else after
        why = "" if after else "One line must stay."
        options.append({"value": one, "label": named(one), "on": one in on, "to": "|".join(value), "why": why})
    return {"kind": "many", "options": options, "hidden": len(names) < 2}


# ---- the page ----


def subject(page: Page, state: State, backend: str) -> Sources:
    survey, known = workers.survey(), known_of(state)
    gpu = survey.devices.get("gpu")
    several = tuple((one.id, one.name) for one in survey.gpus) if len(survey.gpus) > 1 else ()
    key = key_of(state, known)
    baseline = state["baseline"] or (known.sweeps[key].baselines[0] if key else "")
    name, chosen = (gpu.name, two_rungs(page.catalog)) if gpu else ("", ())
    shown = listed_in(state, "gpus"), sweeps.stamp(), measuring.times(), key, baseline, listed_in(state, "hide")
    return Sources(*shown, name, several, chosen, taught())


def taught() -> tuple[tuple[str, str, str], ...]:
    """(name, number and title, link) of the numbered stops of the course."""
    return tuple(
        (stop.name, f"{stop.number} {stop.title}", f"{stop.story}?{urlencode({'stop': stop.name, **stop.choices})}")
        for stop in course.stops()
        if not stop.shelf
    )


def take_tab(sources: Sources) -> list[Block]:
    """The shown rows as CSV and JSON, the report, and every chart as an image."""
    shown = story.shown_of(sources)
    rows = shown.rows.reset_index(drop=True)
    where = {name: entry.as_json() for name, entry in shown.where.items()}
    content = {"provenance": where, "baseline": shown.baseline, "rows": reports.records(rows)}
    files = [
        _file("CSV", "times.csv", rows.drop(columns=["problem"]).to_csv(index=False).encode()),
        _file("JSON", "times.json", json.dumps(content, indent=1).encode()),
        _file("Report (Markdown)", "report.md", story.report(shown).encode()),
    ]
    images = []
    for kind, title in story.CHARTS.items():
        spec = charts.chart(shown, kind).to_dict()
        # outside the page: without the step's rule, with a title and room for the names at the ends of lines
        spec |= {"params": [p | {"value": 0} for p in spec["params"]], "width": WIDTH, "padding": 8}
        spec |= {"background": "white", "title": {"text": shown.sweep.title, "anchor": "start"}}
        png = vl_convert.vegalite_to_png(spec, vl_version=vega.VERSION, scale=SCALE)
        svg = vl_convert.vegalite_to_svg(spec, vl_version=vega.VERSION).encode()
        images.append([_file(f"{title}, PNG", f"{kind}.png", png), _file(f"{title}, SVG", f"{kind}.svg", svg)])
    said = stage.heading("The times"), stage.heading("The charts as images")
    return [said[0], stage.row(*([file] for file in files)), said[1], stage.row(*images)]


def _file(label: str, name: str, data: bytes) -> Block:
    name = f"warpglass-{name}"
    return stage.download(label, disk.offer_file(data, name), name)


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
    pictures=("rungs", *story.CHARTS),
    parts={"take": take_tab},
    made_on="cpu",
)
