"""The products of a tile that a kernel makes, counted by launch, and the panel next to the picture."""

from collections.abc import Sequence

from explainers.models import gradients
from explainers.stories.backward.frames import BackwardFrame, Fact
from explainers.story.words import Words
from kernels.core.request import Request

WORDS = Words.of(__package__)
FACTS = {"recomputed": ["S", "P"], "products": ["dP"], "loops": ["dV", "dK"], "sums": ["dQ"], "bits": []}


def by_launch(frames: Sequence[BackwardFrame]) -> list[list[str]]:
    """The products of each launch that makes any."""
    found: dict[int, list[str]] = {}
    for frame in frames:
        if frame["whole"]:
            continue
        own = found.setdefault(frame["launch"], [])
        own += [p.made for p in gradients.PRODUCTS if p.made in frame["made"] and p.made not in own]
    return [made for made in found.values() if made]


def sentence(frames: Sequence[BackwardFrame], idea: str, adds: bool) -> str:
    """The purpose of the backward, its number of products of a tile, and the idea of the kernel.

    idea: of the kernel's front matter. The sentence takes its first sentence.
    adds: whether blocks add their parts of dQ.
    """
    number = sum(len(made) for made in by_launch(frames))
    first = idea.partition(". ")[0].rstrip(".")
    return WORDS.say("summary", {"number": number, "moves_weights": moves_weights(frames), "adds": adds, "idea": first})


def facts(request: Request, frames: Sequence[BackwardFrame]) -> list[Fact]:
    """The recomputed data, the products, the loops, the adds and the equal bits of the kernel."""
    each = [len(made) for made in by_launch(frames)]
    launches = {f["launch"] for f in frames if not f["whole"] and set(f["made"]) & set(gradients.GRADIENTS)}
    kinds = {request.plan.launches[number].item == gradients.KEY_ITEM for number in launches}
    names: dict[str, object] = {
        "recomputes": recomputes(frames),
        "each": each,
        "number": sum(each),
        "outer": sorted("keys" if keys else "queries" for keys in kinds),
        "adds": gradients.adds(request),
        "any_order": gradients.any_order(request),
        "few_terms": gradients.few_terms(request),
        "key_tiles": gradients.key_tiles(request),
    }
    texts = {name: WORDS.say(f"fact_{name}", names) for name in FACTS}
    return [{"said": text, "of": FACTS[name]} for name, text in texts.items() if text]


def recomputes(frames: Sequence[BackwardFrame]) -> bool:
    """Whether the kernel computes P again from Q, K and LSE."""
    return not moves_weights(frames) and "LSE load" in frames[-1]["bytes"]


def moves_weights(frames: Sequence[BackwardFrame]) -> bool:
    """Whether the kernel reads or writes P in global memory."""
    return any(key.startswith("P ") for key in frames[-1]["bytes"])
