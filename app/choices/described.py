"""Choices as the toolbar draws them: plain data, one entry for each choice. Nothing here decides anything."""

from collections.abc import Mapping

from app.choices import presets
from app.choices.choice import Choice
from app.choices.labels import plain
from app.choices.page import NONE, Description, Descriptions, Page, State, kernel_name
from kernels.core.fields import write_value
from kernels.core.launch import Constant
from kernels.core.spec import KernelSpec
from kernels.run.backends import Survey

TITLES = {"gpu": "This GPU", "cpu": "The CPU", "recorded": "Recorded"}
GROUPS = ("kernel", "preset", "what_if", "own", "place", "problem", "build", "run")  # in the toolbar's order


def describe(page: Page, state: State, survey: Survey, own: Descriptions) -> list[Description]:
    """The description of every choice of a page, in the toolbar's order.

    own: the page's own parts of the descriptions.
    """
    fields = page.fields(state) if page.kernels else {}
    found: list[Description] = []
    for name, choice in page.choices(state).items():
        entry = _entry(name, choice, state[name], _group(page, name, fields))
        entry |= _special(page, state, survey, name)
        entry |= {key: _as_options(value) for key, value in own.get(name, {}).items()}
        if entry["label"] == name:
            entry["plain"] = plain(name)
        if not entry.pop("hidden", choice.late):
            found.append(entry)
    of_preset = own.get("preset", {})
    if page.kernels and not of_preset.get("hidden") and (preset := presets.of(page, state)):
        found.append({**preset, **of_preset})
    return sorted(found, key=lambda entry: GROUPS.index(entry["group"]))


def select(name: str, label: str, value: str, options: Mapping[str, str], group: str = "own") -> Description:
    """A choice without a Choice: its options come from recordings or from a run.

    options: value -> label.
    """
    entry: Description = {"name": name, "label": label, "kind": "select", "value": value}
    entry["options"] = [{"value": text, "label": said} for text, said in options.items()]
    return entry | {"group": group, "help": ""}


def _group(page: Page, name: str, fields: Mapping[str, Choice]) -> str:
    if name in map(kernel_name, page.sides):
        return "kernel"
    if name.startswith("at_") or name == "row":
        return "place"
    members = {"what_if": ["what_if"], "run": ["backend"], "own": page.own, "problem": fields}
    return next((group for group, names in members.items() if name in names), "build")


def _entry(name: str, choice: Choice, value: object, group: str) -> Description:
    entry: Description = {"name": name, "label": name, "value": write_value(value), "group": group}
    entry["help"] = choice.meaning
    if isinstance(choice.default, bool):
        return entry | {"kind": "toggle"}
    if isinstance(choice.default, tuple) or isinstance(choice.default, str) and choice.allowed is None:
        return entry | {"kind": "text"}
    if choice.allowed is not None:
        values = choice.allowed if value in choice.allowed else (*choice.allowed, value)  # by a link (Choice.also)
        alone = bool(choice.also) and len(values) == 1  # only a link gives another value
        return entry | {"kind": "select", "options": [option(allowed) for allowed in values], "hidden": alone}
    return entry | {"kind": "number", "low": choice.low, "high": choice.high, "whole": isinstance(choice.default, int)}


def _special(page: Page, state: State, survey: Survey, name: str) -> Description:
    """The labels of kernels, what-ifs and backends."""
    if name == "backend":
        return {"label": "Run on", "options": _backends(survey, bool(page.kernels) and page.kernel_of(state).plain)}
    if name == "what_if":
        what_ifs = [{"value": c.name, "label": c.what_if, "help": _effect(c)} for c in page.kernel_of(state).what_ifs]
        return {"label": "What if", "options": [{"value": NONE, "label": "As written"}, *what_ifs]}
    for side in page.sides if page.kernels else ():
        if name == kernel_name(side):
            kernels = page.kernels_of(side, state)
            return {"label": f"Kernel {side.upper()}".strip(), "options": kernel_options(kernels)}
    return {}


def _backends(survey: Survey, plain: bool) -> list[Description]:
    titles = {name: f"{TITLES[name]}: {device.name}" for name, device in survey.devices.items()}
    automatic = {"value": "auto", "label": f"Automatic: {titles[survey.pick('auto', plain).backend]}"}
    usable = [{"value": name, "label": title} for name, title in titles.items()]
    missing = [{"value": name, "label": TITLES[name], "why": why} for name, why in survey.reasons.items()]
    return [automatic, *usable, *missing]


def _effect(constant: Constant) -> str:
    shows = f" It shows from score_scale {constant.shows_at:g} on." if constant.shows_at > 1 else ""
    return f"Broken on purpose: {constant.effect}{shows}"


def option(value: object, label: str = "", why: str = "", help: str = "") -> Description:
    """An option of a list.

    why: the reason why it cannot be chosen.
    """
    entry: Description = {"value": write_value(value), "label": label or write_value(value)}
    return entry | {name: text for name, text in (("why", why), ("help", help)) if text}


def kernel_options(kernels: Mapping[str, KernelSpec]) -> list[Description]:
    """The options of a choice of kernels."""
    return [option(name, f"{name} {kernel.title}", help=kernel.idea) for name, kernel in kernels.items()]


def _as_options(value: object) -> object:
    """A mapping of values to labels, as a list of options. Other values stay unchanged."""
    return [option(text, label) for text, label in value.items()] if isinstance(value, Mapping) else value
