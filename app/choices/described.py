"""Choices as the toolbar draws them: plain data, one entry for each. Nothing here decides anything."""

from collections.abc import Mapping
from typing import Any

from app.choices import presets
from app.choices.asked import NONE, Asked, State, kernel_name
from app.choices.choice import Choice
from kernels.core.fields import write_value
from kernels.core.spec import KernelSpec
from kernels.run.backends import Survey

Described = dict[
    str, Any
]  # name, label, kind (select, many, number, text or toggle), value, group, and what narrows it
TITLES = {"gpu": "This GPU", "cpu": "The CPU", "recorded": "Recorded"}


def describe(asked: Asked, state: State, survey: Survey, narrowed: Mapping[str, Mapping[str, Any]]) -> list[Described]:
    """Every choice of a page, in the toolbar's order. Groups: kernel, preset, what_if, own (the story's), place,
    problem, build and run."""
    known = asked.known(state)
    fields = asked.fields(state) if asked.kernels else {}
    found: list[Described] = []
    for name, choice in known.items():
        entry = _entry(name, choice, state[name], _group(asked, name, fields))
        entry |= _special(asked, state, survey, name)
        entry |= {k: _plain(v) for k, v in narrowed.get(name, {}).items()}
        if not entry.pop("hidden", choice.late):
            found.append(entry)
    if asked.kernels and not narrowed.get("preset", {}).get("hidden") and (named := presets.of(asked, state)):
        found.append({**named, **narrowed.get("preset", {})})
    order = ("kernel", "preset", "what_if", "own", "place", "problem", "build", "run")
    return sorted(found, key=lambda entry: order.index(entry["group"]))


def select(name: str, label: str, value: str, options: Mapping[str, str], group: str = "own") -> Described:
    """A choice that no Choice describes: of what is recorded, or of what only a run tells. options: value -> label."""
    listed = [{"value": v, "label": said} for v, said in options.items()]
    return {
        "name": name,
        "label": label,
        "kind": "select",
        "value": value,
        "options": listed,
        "group": group,
        "help": "",
    }


def _group(asked: Asked, name: str, fields: Mapping[str, Any]) -> str:
    if name in map(kernel_name, asked.sides):
        return "kernel"
    if name.startswith("at_") or name == "row":
        return "place"
    return next((g for g, names in (("what_if", ["what_if"]), ("run", ["backend"]), ("own", asked.own),
                                    ("problem", fields)) if name in names), "build")  # fmt: skip


def _entry(name: str, choice: Choice, value: Any, group: str) -> Described:
    entry: Described = {
        "name": name,
        "label": name,
        "value": write_value(value),
        "group": group,
        "help": choice.meaning,
    }
    if isinstance(choice.begin, bool):
        return entry | {"kind": "toggle"}
    if isinstance(choice.begin, tuple) or isinstance(choice.begin, str) and choice.allowed is None:
        return entry | {"kind": "text"}
    if choice.allowed is not None:
        return entry | {
            "kind": "select",
            "options": [{"value": write_value(v), "label": write_value(v)} for v in choice.allowed],
        }
    return entry | {"kind": "number", "low": choice.low, "high": choice.high, "whole": isinstance(choice.begin, int)}


def _special(asked: Asked, state: State, survey: Survey, name: str) -> Described:
    """What the names of kernels, what-ifs and backends are called."""
    if name == "backend":
        titles = {n: f"{TITLES[n]}: {device.name}" for n, device in survey.devices.items()}
        auto = {"value": "auto", "label": f"Automatic: {titles[survey.pick().backend]}"}
        missing = [{"value": n, "label": TITLES[n], "why": why} for n, why in survey.reasons.items()]
        return {"label": "Run on", "options": [auto, *({"value": n, "label": t} for n, t in titles.items()), *missing]}
    if name == "what_if":
        given = {c.name: c for c in asked.spec_of(state).what_ifs}
        options = [{"value": NONE, "label": "As written"}]
        options += [{"value": n, "label": c.what_if, "help": _effect(c)} for n, c in given.items()]
        return {"label": "What if", "options": options}
    for side in asked.sides if asked.kernels else ():
        if name == kernel_name(side):
            specs = asked.kernels_of(side, state)
            return {"label": f"Kernel {side.upper()}".strip(), "options": kernel_options(specs)}
    return {}


def _effect(constant: Any) -> str:
    shows = f" It shows from score_scale {constant.shows_at:g} on." if constant.shows_at > 1 else ""
    return f"Broken on purpose: {constant.effect}{shows}"


def option(value: Any, label: str = "", why: str = "", help: str = "") -> Described:
    """An option of a list. why: it cannot be chosen, and this is the reason."""
    made = {"value": write_value(value), "label": label or write_value(value)}
    return made | {name: said for name, said in (("why", why), ("help", help)) if said}


def kernel_options(specs: Mapping[str, KernelSpec]) -> list[Described]:
    """The options of a choice of kernels."""
    return [option(name, f"{name} {spec.title}", help=spec.idea) for name, spec in specs.items()]


def _plain(value: Any) -> Any:
    return [option(v, said) for v, said in value.items()] if isinstance(value, Mapping) else value
