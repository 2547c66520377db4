"""The data of the questions about the backward, from the trace and from the outputs of two runs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from explainers.models import gradients
from explainers.stories.backward import products
from explainers.stories.backward.frames import BackwardFrame
from explainers.story.stage import Question
from kernels.run.results import Run

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


def questions(seen: Seen) -> list[Question]:
    """The way back to P, the gradients in registers, the five products, and the bits of two runs."""
    request, frames = seen.run.request, seen.frames
    n, keys, d = gradients.sizes(request)
    tensors = gradients.tensors(request)
    first = {product.made: seen.first(product.made) for product in gradients.PRODUCTS}
    own = [f for f in frames if f["launch"] == frames[first["dV"]]["launch"]]
    grows = [part for part in gradients.GRADIENTS if len({f["state"][part] for f in own} - {-1}) > 1]
    made = {part for f in frames for part in f["made"]}
    found = changed(seen) if seen.again else {}
    differ = [part for part, number in found.items() if number]
    dq = f"{found['dQ']:,} of the {tensors['dQ'].size:,} numbers of dQ differ in their last bits." if found else ""
    names = {
        "n": n,
        "d": d,
        "recomputes": products.recomputes(frames),
        "p_bytes": n * keys * tensors["Q"].itemsize,
        "formulas": FORMULAS,
        "panel": [fact["said"] for fact in products.facts(request, frames)],
        "first": first,
        "before_p": max(0, seen.first("P") - 1),
        "held": [part for part in grows if part != "dQ"],
        "tiles": len({f["tile"] for f in own} - {-1}),
        "key_spans": len({tuple(f["keys"]) for f in own if f["keys"] and f["made"]}),
        "all_products": {product.made for product in gradients.PRODUCTS} <= made,
        "s_launches": len({f["launch"] for f in frames if "S" in f["made"]}),
        "only_dq": differ == ["dQ"],
        "same_bits": bool(found) and not differ and not gradients.any_order(request),
        "dq_differs": dq,
        "adds": gradients.adds(request),
        "in_turn": IN_TURN,
    }
    return products.WORDS.questions(names, 0)


def changed(seen: Seen) -> dict[str, int]:
    """Gradient -> how many of its numbers have other bits after the second run."""
    of = gradients.tensors(seen.run.request)
    found = {}
    for part in gradients.GRADIENTS:
        once, again = (np.ascontiguousarray(a[of[part].name]) for a in (seen.run.arrays, seen.again))
        kind = f"u{once.itemsize}"
        found[part] = int((once.view(kind) != again.view(kind)).sum())
    return found
