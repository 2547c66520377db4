"""The runs next to the chosen kernel's: equal numbers in every other type of the kernels."""

from collections.abc import Mapping

from app.choices import block_places, places
from app.choices.page import NONE, Correction, Descriptions, Page, State
from explainers.stories.precision import gradients, precision, replay
from explainers.story import picture, probed
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError


def is_backward(page: Page, state: State) -> bool:
    """Whether the chosen kernel makes gradients. Its places are blocks of keys and of queries."""
    return gradients.is_backward(page.kernel_of(state))


def correct(page: Page, state: State) -> list[Correction]:
    return block_places.correct(page, state) if is_backward(page, state) else places.correct(page, state)


def describe(page: Page, state: State) -> Descriptions:
    return block_places.describe(page, state) if is_backward(page, state) else places.describe(page, state)


def others(page: Page, state: State, backend: str) -> tuple[tuple[Request, ...], tuple[tuple[str, str], ...]]:
    """The requests of the other types, and (type, reason) of each type without one.

    Each request traces the query tile with the first row of the chosen one, without a what-if. Raises ProblemError if
    the chosen request has no such tile.
    """
    chosen = places.request(page, state, backend)
    found: list[Request] = []
    absent: list[tuple[str, str]] = []
    for label, (spec, changes) in precision.of_each_type(probed.accepting(precision, page.kernels).values()).items():
        if label == replay.label_of(chosen):
            continue
        try:
            found.append(_beside(page, state, chosen, spec, changes))
        except WarpglassError as error:
            absent.append((label, error.brief))
    return tuple(found), tuple(absent)


def _beside(page: Page, state: State, chosen: Request, spec: KernelSpec, changes: Mapping[str, object]) -> Request:
    """The chosen request's problem as another kernel solves it."""
    values = chosen.problem.values()
    fields = {name: values[name] for name in fields_of(spec.problem_type) if name in state and name in values}
    settings = tuple(page.settings_of({**state, "what_if": NONE}, kernel=spec).items())
    whole = Request(spec, spec.problem_type(**{**fields, **changes}), settings, Scope(), chosen.backend)
    size, (head, row, _) = places.room(whole), picture.query_rows(chosen)
    return Request(spec, whole.problem, settings, Scope(head * size.tiles + row // size.rows), chosen.backend)
