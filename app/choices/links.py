"""Reads the choices of a page from the parameters of a link."""

from collections.abc import Mapping

from app.choices.page import Page, State, constant_name, kernel_name
from kernels.core.fields import nearest, quoted, shortened, show_value
from kernels.errors import ProblemError


def read_link(page: Page, params: Mapping[str, str]) -> tuple[State, list[str]]:
    """(state, refusals): the choices of a link, and a sentence for each parameter that the page does not take."""
    kernels, refusals = _read_kernels(page, params)
    choices = page.choices(kernels)
    state = {name: choice.default for name, choice in choices.items()} | kernels
    taken = [name for name in kernels if name in params]
    for name, text in params.items():
        if name in kernels:
            continue
        try:
            if name in choices:
                state[name] = choices[name].read(name, text)
                taken.append(name)
            else:
                raise ProblemError(f"{shortened(name)} is not a choice of this page.{nearest(name, choices)}")
        except ProblemError as error:
            refusals.append(str(error))
    for name, value in _elsewhere(page, params).items():
        if name in params and state[name] != value:
            refusals.append(f"{name} is {show_value(state[name])}. The kernel of the link needs {show_value(value)}.")
        state[name] = value
    for side in page.sides if page.kernels else ():
        _tune(page, state, side, taken)
    corrections = page.correct(page, state)
    refusals += dict.fromkeys(correction.sentence for correction in corrections if correction.name in taken)
    return state, refusals


def _tune(page: Page, state: State, side: str, taken: list[str]) -> None:
    """Gives a side's constants that the link does not name their tuned values, in place, if the kernel refuses the
    problem with their defaults."""
    kernel = page.kernel_of(state, side)
    try:
        problem = page.problem_of(state, side)
    except ProblemError:
        return  # the page reports the error of the problem
    try:
        kernel.check_conditions(problem, page.settings_of(state, side))
    except ProblemError:
        for name, value in kernel.settings_for(problem).items():
            choice = constant_name(side, name)
            if choice in state and choice not in taken:
                state[choice] = value


def _read_kernels(page: Page, params: Mapping[str, str]) -> tuple[State, list[str]]:
    """The kernel of each side, and a sentence for each kernel that the page does not show."""
    state: State = {}
    refusals: list[str] = []
    for side in page.sides if page.kernels else ():
        choice, options = kernel_name(side), page.kernels_of(side, state)
        if choice not in params:
            state[choice] = page.best_first(params, side, options, state)
            continue
        name = params[choice]
        if name in options or _elsewhere(page, params):
            state[choice] = name if name in options else page.first_of(side, options, state)
            continue
        other = page.catalog.kernels.get(name)
        refusal = page.refusal(other) if other else ""
        reason = f" {refusal}" if refusal else nearest(name, options)
        refusals.append(f"{choice} is {quoted(name)}. It must be one of {', '.join(options)}.{reason}")
        state[choice] = (page.instead(other) if other else "") or page.first_of(side, options, state)
    return state, refusals


def _elsewhere(page: Page, params: Mapping[str, str]) -> Mapping[str, object]:
    """The choices that show the kernel of a link, if the kernel is not among the page's."""
    name = params.get(kernel_name(page.sides[0]), "")
    return page.elsewhere(page.catalog.kernels[name]) if name in page.catalog.kernels else {}
