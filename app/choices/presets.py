"""Problems worth a look, by name: a click sets several fields at once."""

from collections.abc import Mapping

from app.choices.page import Description, Page, State
from kernels.core.fields import write_value

CUSTOM = "custom"


def named(page: Page, state: State) -> dict[str, State]:
    """title -> the fields of a preset. The problem's class declares the presets. Other fields take their defaults."""
    fields = page.fields(state)
    presets = page.kernel_of(state).problem_type.presets()
    defaults = {name: choice.default for name, choice in fields.items() if name != "seed"}
    return {
        title: defaults | {name: value for name, value in values.items() if name in fields}
        for title, values in presets.items()
    }


def of(page: Page, state: State) -> Description | None:
    """The description of the choice of a preset. None for a problem with fewer than two presets."""
    found = named(page, state)
    if len(found) < 2:
        return None
    matching = [title for title, values in found.items() if all(state[name] == v for name, v in values.items())]
    now = next(iter(matching), CUSTOM)
    options = [{"value": title, "label": title, "help": said(values, found)} for title, values in found.items()]
    if now == CUSTOM:
        options.append({"value": CUSTOM, "label": "Your own"})
    entry: Description = {"name": "preset", "label": "Problem", "kind": "select", "value": now, "options": options}
    return entry | {"group": "preset", "help": "a problem worth looking at. Its fields are under More"}


def said(values: State, found: Mapping[str, State]) -> str:
    """The fields of a preset that differ from the first preset, in words."""
    first = next(iter(found.values()))
    differences = [f"{name} {write_value(value)}" for name, value in values.items() if value != first[name]]
    return ", ".join(differences) or "as it begins"
