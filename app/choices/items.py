"""The item of a kernel that writes a trace. The plan limits the choice."""

from collections.abc import Callable

from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError

OWN = {"at_item": Choice(0, low=0, high=2**31 - 1, meaning="which item's blocks write a trace")}


def request(page: Page, state: State, backend: str) -> Request:
    """The Request whose scope is the chosen item. ProblemError."""
    return page.request_of(state, backend=backend, scope=Scope(state["at_item"]))


def describe(page: Page, state: State) -> Descriptions:
    """The name and the number of the items."""
    plan = page.request_of(state).plan
    one = f"there is only one {plan.item}" if plan.items == 1 else ""
    return {"at_item": {"label": plan.item, "high": plan.items - 1, "disabled": one}}


def last_of(page: Page, state: State) -> int:
    return page.request_of(state).plan.items - 1


def correct(page: Page, state: State, last_of: Callable[[Page, State], int] = last_of) -> list[Correction]:
    """Replaces an item that a smaller problem does not have by the first item, in place."""
    try:
        last = last_of(page, state)
    except ProblemError:
        return []  # the page reports the error of the problem
    if state["at_item"] <= last:
        return []
    said = f"at_item is {state['at_item']}. Here it can be 0 to {last}."
    state["at_item"] = 0
    return [Correction("at_item", said)]
