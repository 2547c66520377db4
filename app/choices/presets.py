"""Problems worth looking at, by name: a click sets several fields at once."""

from collections.abc import Mapping
from typing import Any

from app.choices.asked import Asked, State
from kernels.core.fields import write_value

CUSTOM = "custom"


def named(asked: Asked, state: State) -> dict[str, dict[str, Any]]:
    """title -> the fields that it sets; the others go to where they begin. From the problem's class, as far as the page
    asks for these fields."""
    fields = asked.fields(state)
    given: Mapping[str, Mapping[str, Any]] = asked.spec_of(state).problem_type.presets()
    begin = {name: choice.begin for name, choice in fields.items() if name != "seed"}
    return {title: begin | {n: v for n, v in values.items() if n in fields} for title, values in given.items()}


def of(asked: Asked, state: State) -> dict[str, Any] | None:
    """The description of that choice; None where there is nothing to choose."""
    found = named(asked, state)
    if len(found) < 2:
        return None
    now = next((title for title, values in found.items() if all(state[n] == v for n, v in values.items())), CUSTOM)
    options = [{"value": title, "label": title, "help": said(values, found)} for title, values in found.items()]
    if now == CUSTOM:
        options.append({"value": CUSTOM, "label": "Your own"})
    return {"name": "preset", "label": "Problem", "kind": "select", "value": now, "options": options, "group": "preset",
            "help": "a problem worth looking at; its fields are under More"}  # fmt: skip


def said(values: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> str:
    first = next(iter(found.values()))
    return ", ".join(f"{name} {write_value(v)}" for name, v in values.items() if v != first[name]) or "as it begins"
