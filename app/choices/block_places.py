"""The traced blocks of a kernel with query tiles and key tiles: one of each kind, of one head and one tile number."""

from app.choices import places
from app.choices.page import Correction, Descriptions, Page, State
from explainers.models import gradients
from explainers.story import axes, picture
from kernels.core.request import Request
from kernels.core.scope import Scope

OWN = {
    "at_batch": places.number("which sequence of the batch"),
    "at_head": places.number("which head of K and V"),
    "at_tile": places.number("which tile of that head"),
}


def _kinds(request: Request) -> list[str]:
    return list(dict.fromkeys(launch.item for launch in request.plan.launches))


def limits(page: Page, state: State) -> dict[str, int]:
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


LABELS = {"at_batch": "batch", "at_head": "KV head", "at_tile": "tile"}


def describe(page: Page, state: State) -> Descriptions:
    return places.describe(page, state, limits, LABELS)


def correct(page: Page, state: State) -> list[Correction]:
    return places.correct(page, state, limits)


HOOKS = {"own": OWN, "correct": correct, "describe": describe}  # of a Page
