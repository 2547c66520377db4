"""The item of a kernel that writes a trace. The plan limits the choice."""

from app.choices import places
from app.choices.choice import Choice
from app.choices.page import Descriptions, Page, State
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


# Of a Page. A smaller problem without the item gets the first one.
HOOKS = {"own": OWN, "correct": lambda page, state: places.correct(page, state, limits), "describe": describe}
