"""Which of a kernel's items writes a trace, whatever its items are: a choice that the plan bounds."""

from collections.abc import Callable
from typing import Any

from app.choices.asked import Asked, State
from app.choices.choice import Choice
from kernels.core.request import Request, Scope
from kernels.errors import ProblemError

OWN = {"at_item": Choice(0, low=0, high=2**31 - 1, meaning="which item's blocks write a trace")}


def request(asked: Asked, state: State, backend: str) -> Request:
    """The Request whose scope is the chosen item. ProblemError."""
    return asked.request_of(state, backend=backend, scope=Scope(state["at_item"]))


def narrowed(asked: Asked, state: State) -> dict[str, dict[str, Any]]:
    """What the items are called, and how many there are."""
    plan = asked.request_of(state).plan
    one = f"there is only one {plan.item}" if plan.items == 1 else ""
    return {"at_item": {"label": plan.item, "high": plan.items - 1, "disabled": one}}


def last_of(asked: Asked, state: State) -> int:
    return asked.request_of(state).plan.items - 1


def settle(asked: Asked, state: State, last_of: Callable[[Asked, State], int] = last_of) -> list[tuple[str, str]]:
    """Puts an item that a smaller problem has not at the first, in place; (name, sentence) of it."""
    try:
        last = last_of(asked, state)
    except ProblemError:
        return []  # the page says what is wrong with the problem
    if state["at_item"] <= last:
        return []
    said = f"at_item is {state['at_item']}; here it can be 0 to {last}."
    state["at_item"] = 0
    return [("at_item", said)]
