"""Questions about the unwanted bytes of a request."""

from collections.abc import Sequence

from explainers.story.frames import SectorRequest
from explainers.story.glossary import count
from explainers.story.questions import idea
from explainers.story.stage import Question
from kernels.trace.memory import model


def sectors(requests: Sequence[SectorRequest], view: str = "sectors") -> list[Question]:
    """Questions about the request with the worst use of its sectors: the moved bytes, and the unwanted ones."""
    if not requests:
        return []
    step = min(range(len(requests)), key=lambda n: requests[n]["used"] / requests[n]["sectors"])
    return [*_moved(requests[step], step, view), *_unused(requests[step], step, view)]


def _moved(request: SectorRequest, step: int, view: str) -> list[Question]:
    """The bytes that memory sends for the wanted ones."""
    sectors, used, lanes = request["sectors"], request["used"], request["active"]
    moved, asked = sectors * model.SECTOR, request["active"] * request["bytes"]
    if moved == used:
        return []
    wrong = {f"{used:,} bytes: only the wanted ones": f"Memory sends whole sectors of {model.SECTOR} bytes."}
    if asked not in (used, moved):
        wrong[f"{asked:,} bytes: each lane's own copy"] = "Lanes with the same bytes share them."
    if lanes * model.SECTOR not in (moved, asked):
        wrong[f"{lanes * model.SECTOR:,} bytes: a sector for each lane"] = "Lanes with bytes of one sector share it."
    text = f"{count(lanes, 'lane')} want {used:,} different bytes of {request['tensor']}. How much does memory send?"
    why = f"The bytes are in {count(sectors, 'sector')}, and a sector moves whole: {moved:,} bytes."
    second = (min(offset for offset in request["offsets"] if offset >= 0) // model.LINE + 1) * model.LINE
    return [
        idea(
            "moved",
            text,
            f"{moved:,} bytes: whole sectors",
            wrong,
            why,
            step=step,
            view=view,
            hides=[f"{moved:,}", count(sectors, "sector"), str(sectors), f"{100 * used / moved:.1f}"],
            covers=[{"side": 0, "byte": [second, 2**40]}],
        )
    ]


def _unused(request: SectorRequest, step: int, view: str) -> list[Question]:
    """A click on unwanted bytes, in the first sector with one such run."""
    size = request["bytes"]
    wanted = {byte for offset in request["offsets"] if offset >= 0 for byte in range(offset, offset + size)}
    for sector in sorted({byte // model.SECTOR for byte in wanted}):
        every = range(sector * model.SECTOR, (sector + 1) * model.SECTOR)
        free = [byte for byte in every if byte not in wanted]
        if free and free[-1] - free[0] + 1 == len(free):
            text = (
                f"In step {step + 1}, a whole sector moves: bytes {every[0]:,} to {every[-1]:,} of "
                f"{request['tensor']}. Click a byte that no lane wants."
            )
            why = f"No lane wants bytes {free[0]:,} to {free[-1]:,}. They move for nothing, as a sector moves whole."
            key = {"side": 0, "byte": [free[0], free[-1]]}
            return [Question("unused", text, "click", key, why, step=step, view=view)]
    return []
