"""Questions about the backward: the way back to P, the gradients in registers, the five products, and the bits of two
runs. The keys come from the trace and from the outputs of the two runs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from explainers.models import gradients
from explainers.stories.backward import facts, products
from explainers.stories.backward.frames import BackwardFrame
from explainers.story.glossary import count, listed
from explainers.story.questions import Where, idea
from explainers.story.stage import Question
from kernels.run.results import Run

VIEW = "tiles"
IN_TURN = "Each block waits for its turn to add to dQ, so the order is fixed."
FORMULAS = [product.said for product in gradients.PRODUCTS]


class Seen(NamedTuple):
    """A run as the questions see it.

    again: the arrays of the second run, empty for a recorded run.
    """

    run: Run
    frames: Sequence[BackwardFrame]
    again: Mapping[str, np.ndarray]

    def first(self, part: str) -> int:
        """The first step that makes a part, or step 0."""
        own = (n for n, f in enumerate(self.frames) if part in f["made"] and not f["whole"])
        return next(own, 0)

    def before(self, part: str) -> int:
        """The step before the first one that makes a part."""
        return max(0, self.first(part) - 1)


def questions(seen: Seen) -> list[Question]:
    """All questions about a run."""
    return [*_recomputed(seen), *_in_registers(seen), *_products(seen), *_bits(seen)]


def _recomputed(seen: Seen) -> list[Question]:
    """A question about the way back to P."""
    n, keys, _ = gradients.sizes(seen.run.request)
    if not products.recomputes(seen.frames):
        return []
    size = n * keys * gradients.tensors(seen.run.request)["Q"].itemsize
    wrong = {
        "It reads P from global memory": f"The trace reads no P. One head of it would take {size:,} bytes.",
        "It runs the online softmax again": "It needs no running max and no sum: LSE has both in one number.",
        "It keeps P in registers since the forward pass": "The forward has ended, and its registers are gone.",
    }
    why = f"LSE takes {4 * n:,} bytes for all queries of a head. With it, each score gives its weight at once."
    told = facts.texts(seen.run.request, seen.frames)
    where: Where = {
        "step": seen.before("P"),
        "view": VIEW,
        "veils": ("sentence", "headline", "tabs"),
        "hides": [*FORMULAS[:1], "P = exp(S - LSE)", "P: not in global memory", *told],
        "shows": {"tensor": "LSE", "strip": True},
    }
    text = (
        "All gradients need the attention weights P. The forward pass stored LSE, the log of each row's sum of exp(S), "
        "but no P. How does the block get its tile of P?"
    )
    return [idea("recomputed", text, "It computes S again, and P = exp(S - LSE)", wrong, why, **where)]


def _in_registers(seen: Seen) -> list[Question]:
    """A question about the gradients that stay in registers while the block keeps one key tile."""
    step = seen.first("dV")
    own = [f for f in seen.frames if f["launch"] == seen.frames[step]["launch"]]
    grows = [part for part in gradients.GRADIENTS if len({f["state"][part] for f in own} - {-1}) > 1]
    held = [part for part in grows if part != "dQ"]
    tiles = len({f["tile"] for f in own} - {-1})
    spans = {tuple(f["keys"]) for f in own if f["keys"] and f["made"]}
    if not held or tiles < 2 or len(spans) != 1:
        return []
    n, _, d = gradients.sizes(seen.run.request)
    right = "Those of its keys: dK and dV"
    visits = f"The block visits {tiles} query tiles, and each has different rows of dQ."
    wrong = {
        "That of its queries: dQ": f"{visits} The old rows would have to leave the registers.",
        "All three": f"dQ of all queries takes {4 * n * d:,} bytes, and longer texts take more.",
        "None of them": f"The trace writes {listed(held)} once, after {tiles} tiles. In between they are on the chip.",
    }
    why = f"The keys stay for {tiles} tiles, so their sums stay too. The rows of dQ change with each tile."
    told = facts.texts(seen.run.request, seen.frames)
    where: Where = {
        "step": seen.first("dK"),
        "view": VIEW,
        "veils": ("sentence", "headline", "tabs", "strip"),
        "hides": [*FORMULAS[2:], *told],
        "shows": {"tensor": held[0], "box": held[0]},
    }
    text = "The block keeps one key tile, and walks over all queries. Which gradients can stay in its registers?"
    return [idea("registers", text, right, wrong, why, **where)]


def _products(seen: Seen) -> list[Question]:
    """A question about the number of products of a tile."""
    made = {part for f in seen.frames for part in f["made"]}
    if not {product.made for product in gradients.PRODUCTS} <= made:
        return []
    launches = {f["launch"] for f in seen.frames if "S" in f["made"]}
    extra = len(launches) - 1
    wrong = {
        "Each of its five inputs needs a product": "Q, K, V, O and dO enter as they are. O is only in delta.",
        "It runs the forward's two products, and then three": "It needs one of the two again: S. It never makes O.",
        "Each gradient needs the products of both loops": "A gradient is one product. The rest is S and dP.",
    }
    why = "S comes back, dP is the way through V, and each gradient is one product: 1 + 1 + 3."
    if extra:
        why += f" This kernel makes S in {count(len(launches), 'launch', 'launches')}, so it makes more than five."
    told = facts.texts(seen.run.request, seen.frames)
    where: Where = {
        "step": seen.first("dK"),
        "view": VIEW,
        "veils": ("sentence", "headline", "tabs", "strip"),
        "hides": [*FORMULAS, *told],
        "shows": {"tensor": "dS", "box": "dS"},
    }
    text = "The forward makes two products for a tile, S and O. Why does the backward need five?"
    right = "It makes S again, then dP, and one for each gradient"
    return [idea("products", text, right, wrong, why, **where)]


def changed(seen: Seen) -> dict[str, int]:
    """Gradient -> how many of its numbers have other bits after the second run."""
    of = gradients.tensors(seen.run.request)
    found = {}
    for part in gradients.GRADIENTS:
        once, again = (np.ascontiguousarray(a[of[part].name]) for a in (seen.run.arrays, seen.again))
        kind = f"u{once.itemsize}"
        found[part] = int((once.view(kind) != again.view(kind)).sum())
    return found


def _bits(seen: Seen) -> list[Question]:
    """A question about the outputs with other last bits in a second run."""
    if not seen.again:
        return []
    found = changed(seen)
    differ = [part for part, number in found.items() if number]
    options = {(): "None of them", ("dQ",): "Only dQ", ("dV", "dK"): "Only dK and dV", ("dV", "dK", "dQ"): "All three"}
    if tuple(differ) not in options or (gradients.any_order(seen.run.request) and not differ):
        return []
    right = options[tuple(differ)]
    sizes = {part: seen.run.arrays[gradients.tensors(seen.run.request)[part].name].size for part in gradients.GRADIENTS}
    said = {
        p: f"{found[p]:,} of the {sizes[p]:,} numbers of {p} differ in their last bits." for p in gradients.GRADIENTS
    }
    equal = "A number of dK or dV comes from one block, always in the same order."
    adds = gradients.adds(seen.run.request)
    ordered = IN_TURN if adds else "Each query tile has one block here, and its loop has one order."
    wrong = {
        "None of them": " ".join(said[part] for part in differ),
        "Only dQ": equal if differ else ordered,
        "Only dK and dV": equal + (f" But {said['dQ']}" if "dQ" in differ else ""),
        "All three": equal,
    }
    wrong.pop(right)
    why = (
        f"{said['dQ']} Many blocks add to a row of dQ, in any order. "
        f"A sum of rounded numbers depends on its order. {equal}"
        if differ == ["dQ"]
        else f"Both runs gave equal bits. {equal} {IN_TURN if adds else 'dQ has a loop of its own.'}"
    )
    told = facts.texts(seen.run.request, seen.frames)
    where: Where = {
        "step": seen.first("dQ"),
        "view": VIEW,
        "veils": ("sentence", "headline", "tabs", "strip"),
        "hides": told,
        "shows": {"tensor": "dQ", "strip": True},
    }
    text = (
        "The kernel runs twice, the second time with its blocks in the opposite order. Which gradients get other bits?"
    )
    return [idea("bits", text, right, wrong, why, list(options.values()), **where)]
