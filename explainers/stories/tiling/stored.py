"""The bytes that a run stores to global memory, and the question about the data that FlashAttention never stores."""

from typing import Unpack

from explainers.story import axes, picture
from explainers.story.questions import Where, idea
from explainers.story.stage import Question
from kernels.run.results import Run
from kernels.trace.kinds import WRITES


def bytes_stored(run: Run) -> dict[str, int]:
    """Part of the picture -> the bytes stored to it in global memory. Other tensors keep their own name."""
    table = run.trace.frame("event", "space", "tensor", "bytes")
    stores = table[(table.space == "global") & table.event.isin(WRITES)]
    places = picture.places(run.request)
    found: dict[str, int] = {}
    for symbol, amount in stores.groupby("tensor", observed=True).bytes.sum().items():
        place = places.get(str(symbol), str(symbol))
        found[place] = found.get(place, 0) + int(amount)
    return found


def scores_size(run: Run) -> int:
    """The bytes of the query tile's scores in the type of O."""
    _, first, end = picture.query_rows(run.request)
    keys = axes.length(picture.tensor_at(run.request, "K"), "key")
    return (end - first) * keys * picture.tensor_at(run.request, "O").itemsize


def never_stored(run: Run, **where: Unpack[Where]) -> list[Question]:
    """The knowledge check on the data that FlashAttention never stores. An empty list for a kernel that stores S or P.

    where: the place of the answer.
    """
    stored = bytes_stored(run)
    if stored.get("S") or stored.get("P") or not stored.get("O"):
        return []
    _, first, end = picture.query_rows(run.request)
    text = (
        "FlashAttention is exact, makes one pass and needs memory for O(N) numbers. Which data does it never store in "
        "global memory?"
    )
    why = (
        "It uses each score in its tile and then forgets it. "
        f"Stored, S and P would take {2 * scores_size(run):,} bytes for these {end - first} queries."
    )
    wrong = {
        "The output O": f"The block stores O at the end: {stored['O']:,} bytes.",
        "The inputs Q, K and V": "They are in global memory from the start. The block only reads them.",
        "None: it stores every step": "The trace has stores to global memory, but none of scores or weights.",
    }
    return [idea("check_never_stored", text, "The scores S and the weights P", wrong, why, **where)]
