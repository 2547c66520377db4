"""The opening of the backward: one whole tile, with all its products, before the first step."""

from collections.abc import Mapping, Sequence

from explainers.models import gradients
from explainers.stories.backward.frames import BackwardFrame

SENTENCE = (
    "The backward pass gets dO: how the loss changes with each output O. "
    "Five products per tile turn it into dQ, dK and dV."
)


def opening(frames: Sequence[BackwardFrame], states: Mapping[str, list[list[int]]]) -> list[BackwardFrame]:
    """A frame with the numbers of the first tile. An empty list for a kernel that computes no P or dS."""
    first = next((f for f in frames if "P" in f["made"] and f["queries"] and f["keys"]), None)
    if first is None or not any("dS" in f["made"] for f in frames):
        return []
    spans = {True: first["keys"], False: first["queries"]}
    shown = {part: bool(own) and own[0][:2] == spans[gradients.along_keys(part)] for part, own in states.items()}
    whole: BackwardFrame = {
        **first,
        "tile": -1,
        "title": "One whole tile",
        "phase": "",
        "made": [part for part in gradients.ORDER if part != "delta"],
        "done": list(gradients.SQUARES),
        "holds": [*gradients.WHOLE[:5], "LSE", "delta"],
        "touched": [],
        "state": {part: 0 if shown[part] else -1 for part in states},
        "bytes": {},
        "lines": {},
        "sentence": SENTENCE,
        "ready": "",
        "flying": [],
        "whole": True,
    }
    whole.pop("details", None)
    return [whole]
