"""The item of a kernel that writes a trace. The plan limits the choice."""

from collections.abc import Callable

from app.choices import places
from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State
from kernels.core.request import Request
from kernels.core.scope import Scope

OWN = {"at_item": Choice(0, low=0, high=2**31 - 1, meaning="which item's blocks write a trace")}


def limits(page: Page, state: State) -> dict[str, int]:
    return {"at_item": page.request_of(state).plan.items - 1}


def request(page: Page, state: State, backend: str) -> Request:
    """The Request whose scope is the chosen item. ProblemError."""
    return page.request_of(state, backend=backend, scope=Scope(state["at_item"]))


def describe(page: Page, state: State) -> Descriptions:
    plan = page.request_of(state).plan
    one = f"there is only one {plan.item}" if plan.items == 1 else ""
    return {"at_item": {"label": plan.item, "high": plan.items - 1, "disabled": one}}


def correct(page: Page, state: State, limits: Callable[[Page, State], dict[str, int]] = limits) -> list[Correction]:
    """Replaces an item that a smaller problem does not have by the first item, in place."""
    return places.correct(page, state, limits)


HOOKS = {"own": OWN, "correct": correct, "describe": describe}  # of a Page
