"""The answers to the five questions about the backward in a sentence each, for the panel next to its picture."""

from collections.abc import Sequence

from explainers.models import gradients
from explainers.stories.backward import products
from explainers.stories.backward.frames import BackwardFrame, Fact
from kernels.core.request import Request

TWO_LOOPS = len(gradients.PRODUCTS) + 2  # S and dP again


def facts(request: Request, frames: Sequence[BackwardFrame]) -> list[Fact]:
    """The recomputed data, the products, the loops, the adds and the equal bits of the kernel."""
    found = [_recomputed(frames), _products(frames), _loops(request, frames), _sums(request), _bits(request)]
    return [fact for fact in found if fact]


def texts(request: Request, frames: Sequence[BackwardFrame]) -> list[str]:
    """All texts of the panel, for questions that it would answer."""
    return [fact["said"] for fact in facts(request, frames)]


def _recomputed(frames: Sequence[BackwardFrame]) -> Fact | None:
    if not products.recomputes(frames):
        return None
    return {"said": "The forward stored LSE, not P. So each tile of S and P is computed again.", "of": ["S", "P"]}


def _products(frames: Sequence[BackwardFrame]) -> Fact | None:
    made, least = [len(own) for own in products.by_launch(frames)], len(gradients.PRODUCTS)
    number, forward = sum(made), products.FORWARD
    if not number:
        return None
    if number == least and products.recomputes(frames):
        said = f"The 4 factors of Q Kᵀ and P V have 4 gradients. S comes again: {number} products."
    elif number <= least:
        said = f"A tile takes {number} products. The forward takes {forward}."
    else:
        each = " + ".join(str(own) for own in made)
        said = f"A tile takes {each} products. One loop would take {least}, and the forward takes {forward}."
    return {"said": said, "of": ["dP"]}


def _loops(request: Request, frames: Sequence[BackwardFrame]) -> Fact | None:
    """The loops of the launches with products: rows of the key tiles outside, or of the query tiles."""
    outer = dict[str, str]()
    for frame in frames:
        if frame["whole"]:
            continue
        launch = request.plan.launches[frame["launch"]]
        made = [part for part in gradients.GRADIENTS if part in frame["made"]]
        outer |= {part: "keys" if launch.item == gradients.KEY_ITEM else "queries" for part in made}
    kinds = set(outer.values())
    if not kinds:
        return None
    if kinds == {"keys"}:
        said = "A block keeps its keys and loops over queries, so dK and dV stay in registers."
    elif kinds == {"queries"}:
        said = "A block keeps its queries and loops over keys, so dQ stays in registers."
    else:
        said = "For dV and dK, a block loops over the queries. For dQ, it loops over the keys."
    return {"said": said, "of": ["dV", "dK"]}


def _sums(request: Request) -> Fact:
    if gradients.any_order(request):
        said = f"Atomics add up dQ. A second loop instead makes S and dP again: {TWO_LOOPS} products."
    elif gradients.adds(request):
        said = "Atomics add up dQ block after block. The fixed order makes blocks wait."
    else:
        said = "No atomics: one block has all terms of a sum."
    return {"said": said, "of": ["dQ"]}


def _bits(request: Request) -> Fact:
    if not gradients.any_order(request):
        said = "All gradients are deterministic, because each sum has one fixed order."
    elif gradients.few_terms(request):
        number = gradients.key_tiles(request)
        equal = ": a + b = b + a" if number > 1 else ""
        said = f"From 3 parts on, the bits of dQ depend on their order. Here {number}{equal}."
    else:
        said = "dQ is not deterministic: float sums depend on the order of the blocks' adds."
    return {"said": said, "of": []}
