"""The answers to the five questions about the backward in a few words each, for the panel next to its picture."""

from collections.abc import Sequence

from explainers.stories.backward import parts, products
from explainers.stories.backward.frames import BackwardFrame, Fact
from explainers.story.glossary import count
from kernels.core.request import Request

TWO_LOOPS = len(parts.PRODUCTS) + 2  # S and dP again


def facts(request: Request, frames: Sequence[BackwardFrame]) -> list[Fact]:
    """The recomputed data, the products, the loops, the adds and the equal bits of the kernel."""
    found = [_recomputed(frames), _products(frames), _loops(request, frames), _sums(request), _bits(request)]
    return [fact for fact in found if fact]


def texts(request: Request, frames: Sequence[BackwardFrame]) -> list[str]:
    """All texts of the panel, for questions that it would answer."""
    return [text for fact in facts(request, frames) for text in (fact["said"], fact["why"])]


def _recomputed(frames: Sequence[BackwardFrame]) -> Fact | None:
    if not products.recomputes(frames):
        return None
    return {"said": "Computed again: S and P", "why": "from Q, K and LSE. No P in global memory"}


def _products(frames: Sequence[BackwardFrame]) -> Fact | None:
    made, least = [len(own) for own in products.by_launch(frames)], len(parts.PRODUCTS)
    number, forward = sum(made), products.FORWARD
    if not number:
        return None
    if number <= least:
        why = ": dQ, dK, dP, dV and S again" if number == least else " the forward's"
        return {
            "said": f"{number} products per tile, forward {forward}",
            "why": f"{number / forward:g} times{why}",
        }
    each = " + ".join(str(own) for own in made)
    return {"said": f"{number} products per tile: {each}", "why": f"one loop needs {least}, the forward {forward}"}


def _loops(request: Request, frames: Sequence[BackwardFrame]) -> Fact | None:
    """The loops of the launches with products: rows of the key tiles outside, or of the query tiles."""
    outer = dict[str, str]()
    for frame in frames:
        if frame["whole"]:
            continue
        launch = request.plan.launches[frame["launch"]]
        made = [part for part in parts.GRADIENTS if part in frame["made"]]
        outer |= {part: "keys" if launch.item == parts.KEY_ITEM else "queries" for part in made}
    kinds = set(outer.values())
    if not kinds:
        return None
    if len(kinds) == 1:
        (kind,) = kinds
        inner = {"keys": "queries", "queries": "keys"}[kind]
        return {"said": f"Loops: {kind} outside, {inner} inside", "why": f"each block keeps its {kind}"}
    return {"said": "dV, dK: queries in the inner loop", "why": "dQ: keys in the inner loop"}


def _sums(request: Request) -> Fact:
    if parts.any_order(request):
        return {
            "said": "Atomics add each block's part of dQ",
            "why": f"without them, a second loop: {TWO_LOOPS} products",
        }
    if parts.adds(request):
        return {"said": "Atomics add up dQ, block after block", "why": "a fixed order, so blocks wait"}
    return {"said": "No atomics", "why": "one block has all terms of a sum"}


def _bits(request: Request) -> Fact:
    if parts.any_order(request):
        if parts.few_terms(request):
            only = count(parts.key_tiles(request), "part")
            return {"said": "dQ: not deterministic", "why": f"but equal bits here: only {only}"}
        return {"said": "Not deterministic: dQ", "why": "float sums depend on the order of adds"}
    return {"said": "All gradients are deterministic", "why": "each sum has one fixed order"}
