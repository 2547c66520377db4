"""The traced blocks of a kernel with query tiles and key tiles: one of each kind, of one head and one tile number."""

from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State
from explainers.models import gradients
from explainers.story import axes, picture
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError


def _number(meaning: str) -> Choice:
    return Choice(0, low=0, high=10**6, meaning=meaning)


OWN = {
    "at_batch": _number("which sequence of the batch"),
    "at_head": _number("which head of K and V"),
    "at_tile": _number("which tile of that head"),
}


def _kinds(request: Request) -> list[str]:
    """The kinds of items of the plan."""
    return list(dict.fromkeys(launch.item for launch in request.plan.launches))


def limits(page: Page, state: State) -> dict[str, int]:
    """name -> the largest value of each choice."""
    request = page.request_of(state)
    k = picture.tensor_at(request, "K")
    batches = axes.length(k, "batch")
    tiles = max(gradients.tiles_of(request, item) for item in _kinds(request))
    return {"at_batch": batches - 1, "at_head": axes.heads(k) // batches - 1, "at_tile": tiles - 1}


def request(page: Page, state: State, backend: str) -> Request:
    """The Request with one block of each kind in its scope. ProblemError."""
    whole = page.request_of(state)
    kv_heads = limits(page, state)["at_head"] + 1
    head = state["at_batch"] * kv_heads + state["at_head"]
    first = {}
    for item in _kinds(whole):
        of_head = head * gradients.heads_of(whole, item) // axes.heads(picture.tensor_at(whole, "K"))
        first[item] = gradients.item_of(whole, item, of_head, state["at_tile"])
    others = tuple((item, at, 1) for item, at in first.items() if item != whole.plan.item)
    scope = Scope(first[whole.plan.item], 1, others)
    return Request(whole.kernel, whole.problem, whole.settings, scope, backend)


def describe(page: Page, state: State) -> Descriptions:
    """The labels and the limits of the places."""
    labels = {"at_batch": "batch", "at_head": "KV head", "at_tile": "tile"}
    return {
        name: {"high": high, "label": labels[name], "disabled": "" if high else "there is only one"}
        for name, high in limits(page, state).items()
    }


def correct(page: Page, state: State) -> list[Correction]:
    """Replaces places that a smaller problem does not have by the first one, in place."""
    try:
        high = limits(page, state)
    except ProblemError:
        return []  # the page reports the error of the problem
    corrections = []
    for name, most in high.items():
        if state[name] > most:
            corrections.append(Correction(name, f"{name} is {state[name]}. Here it can be 0 to {most}."))
            state[name] = 0
    return corrections
