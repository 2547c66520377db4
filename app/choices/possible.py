"""Which options go with what else is chosen: an impossible pair cannot be chosen, and the toolbar says why."""

from collections.abc import Mapping

from app.choices.described import option, preset_of, presets
from app.choices.page import Descriptions, Page, State
from kernels.core.remembered import MOST_NUMBERS, numbers_in, remembered
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

Values = tuple[tuple[str, object], ...]


def describe(page: Page, state: State) -> Descriptions:
    """The options of every field and constant, with a reason for each option that the kernel or its problem refuses.
    If it refuses all options, another choice is wrong, and no option has a reason."""
    kernel, fields = page.kernel_of(state), page.fields(state)
    constants = {name: choice for name, choice in page.constants(state).items() if name in kernel.settings()}
    problem = tuple((name, state[name]) for name in fields)
    settings = tuple((name, state[name]) for name in constants)
    if numbers_in(problem) > MOST_NUMBERS:
        return {}  # each option would build the problem again
    found: Descriptions = {}
    for name, choice in {**fields, **constants}.items():
        if choice.allowed is not None:
            whys = _refusals(kernel, problem, settings, name, choice.allowed)
            if any(whys.values()):
                some = {value: "" if value == state[name] or all(whys.values()) else why for value, why in whys.items()}
                found[name] = {"options": [option(value, why=why) for value, why in some.items()]}
    if preset := preset_of(page, state):
        named = tuple((title, tuple(values.items())) for title, values in presets(page, state).items())
        whys = _preset_refusals(kernel, settings, named)
        if not all(whys.values()):
            shown = [o | ({"why": whys[o["value"]]} if whys.get(o["value"]) else {}) for o in preset["options"]]
            found["preset"] = {"options": shown}
    return found


@remembered(1024)
def _refusals(
    kernel: KernelSpec, problem: Values, settings: Values, name: str, allowed: tuple[object, ...]
) -> Mapping[object, str]:
    """Each value of a field or constant -> why it cannot be chosen, or nothing."""
    return {value: _refusal(kernel, _with(problem, name, value), _with(settings, name, value)) for value in allowed}


@remembered(256)
def _preset_refusals(kernel: KernelSpec, settings: Values, named: tuple[tuple[str, Values], ...]) -> Mapping[str, str]:
    """title of each preset -> why it cannot be chosen, or nothing."""
    return {title: _refusal(kernel, values, settings) for title, values in named}


def _with(values: Values, name: str, value: object) -> Values:
    return tuple((other, value if other == name else had) for other, had in values)


def _refusal(kernel: KernelSpec, problem: Values, settings: Values) -> str:
    try:
        kernel.plan(kernel.problem_type(**dict(problem)), settings)
    except ProblemError as error:
        return str(error)
    return ""
