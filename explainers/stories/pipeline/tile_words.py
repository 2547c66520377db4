"""The words of a pipeline: the tiles that a block walks over, the tensors of their copies, and the outputs that a block
keeps. They follow from the kernel's declared launches and parts.
"""

from typing import NamedTuple

from explainers.story import axes, picture
from explainers.story.glossary import listed, phase_title
from kernels.core.tensors import Role
from kernels.measure.pipelines import Pipeline
from kernels.trace.probes import sites_of


class TileWords(NamedTuple):
    """The words of a block's steps.

    tile: such as key tile.
    rows: the plural of its rows, such as keys.
    outer: the loop around the tiles: query tile, or head.
    copied: the tensors in shared memory with these rows, such as K and V.
    kept: the outputs that a block writes once, such as O.
    between: the work between two products.
    last: the last product of a tile.
    """

    tile: str
    rows: str
    outer: str
    copied: str
    kept: str
    between: str
    last: str


def words_of(made: Pipeline) -> TileWords:
    request, walked = made.request, made.walked
    kept = "key" if walked == "query" else "query"
    known, places = axes.tensors(request), picture.places(request)
    shared = {site.tensor for site in sites_of(request) if site.space == "shared"}
    copied = [places[s] for s, t in known.items() if s in places and s in shared and walked in t.axes]
    outputs = [places[s] for s, t in known.items() if s in places and t.role is Role.OUTPUT and kept in t.axes]
    of_copies, of_outputs = (listed(found) if found else "" for found in (copied, outputs))
    if walked == "query":
        return TileWords("query tile", "queries", "Head", of_copies, of_outputs, "exponentials", "sums")
    return TileWords("key tile", "keys", "Query tile", of_copies, of_outputs, "softmax", "output")


PARTS = {
    **{"weights": "P", "weight_gradients": "dP", "score_gradients": "dS"},
    **{"value_sums": "dV", "key_sums": "dK", "query_sums": "dQ", "key_value_sums": "dV, dK"},
}
"""Mark of the backward -> the part that the writer makes from there on."""
SHORT = {"P": ["softmax", "P"], "S": ["scores", "S"], "O": ["output", "O"], "K": ["copy"], "wait": ["wait"]}
KINDS = {
    **{"scores": "S", "walk_k": "S", "weight_gradients": "S"},
    **{"softmax": "P", "check_sums": "P", "weights": "P", "score_gradients": "P"},
    **{"output": "O", "walk_v": "O", "value_sums": "O", "key_sums": "O", "query_sums": "O", "key_value_sums": "O"},
    "load_q": "Q",
}
LEGEND = {
    **{
        "Q": "copies of Q",
        "K": "copies of K and V: start and waits",
        "S": "scores (S)",
        "P": "softmax (P)",
        "O": "output (O)",
    },
    "other": "the rest",
}
BACKWARD_LEGEND = {
    **{"Q": "copies of Q", "K": "copies", "S": "products for S and dP", "P": "P and dS"},
    **{"O": "products for dV, dK and dQ", "other": "the rest"},
}
WAITS = ("wait", "nothing_left")  # the first words of the marks of a waiting writer


def title(event: str, words: TileWords) -> str:
    """A mark in words."""
    return f"Write {words.kept}" if event == "write" and words.kept else phase_title(event)


def short(event: str) -> list[str]:
    """Shorter words for a narrow bar, the longest first."""
    part = PARTS.get(event.removesuffix("_done"))
    return [part] if part else SHORT.get(kind(event), [])


def is_wait(event: str) -> bool:
    return event.startswith(WAITS)


def kind(event: str) -> str:
    """The colour of a bar: Q, K, S, P, O, other, or wait."""
    name = event.removesuffix("_done")
    if is_wait(name):
        return "wait"
    return KINDS.get(name, "K" if "load" in name or "prefetch" in name else "other")


def legend(words: TileWords) -> dict[str, str]:
    """Kind -> its meaning."""
    return BACKWARD_LEGEND if words.rows == "queries" else LEGEND
