"""Questions about the unwanted bytes of a request."""

from collections.abc import Sequence

from explainers.story.frames import SectorRequest
from explainers.story.glossary import count
from explainers.story.questions import amounts
from explainers.story.stage import Question
from kernels.trace.memory import model


def sectors(requests: Sequence[SectorRequest], veils: Sequence[str], view: str = "sectors") -> list[Question]:
    """Questions about the request with the worst use of its sectors: wanted and unwanted bytes.

    veils: parts of the page with the answer.
    """
    if not requests:
        return []
    step = min(range(len(requests)), key=lambda n: requests[n]["used"] / requests[n]["sectors"])
    request = requests[step]
    moved, used = request["sectors"] * model.SECTOR, request["used"]
    lanes, asked = request["active"], request["active"] * request["bytes"]
    again = f", asked for {asked / used:.3g} times over" if asked > used else ""
    why = (
        f"{count(request['sectors'], 'sector')} of {model.SECTOR} bytes move. The lanes ask for {used:,} different "
        f"bytes{again}: {100 * used / moved:.3g} per cent of what is moved."
    )
    text = (
        f"Step {step + 1}: {count(lanes, 'lane')} ask for {request['bytes']} bytes each of {request['tensor']}, and "
        f"{moved:,} bytes are moved. How many of these does any lane want?"
    )
    wrong = [asked, moved, request["bytes"], moved // 2, used // 2]
    found = amounts("wanted", text, used, wrong, why, "bytes", step=step, view=view, veils=veils)
    return [*found, *_unused(request, step, view)]


def _unused(request: SectorRequest, step: int, view: str) -> list[Question]:
    """A click on unwanted bytes, in the first sector with one such run."""
    size = request["bytes"]
    wanted = {byte for offset in request["offsets"] if offset >= 0 for byte in range(offset, offset + size)}
    for sector in sorted({byte // model.SECTOR for byte in wanted}):
        every = range(sector * model.SECTOR, (sector + 1) * model.SECTOR)
        free = [byte for byte in every if byte not in wanted]
        if free and free[-1] - free[0] + 1 == len(free):
            text = (
                f"Step {step + 1}: sector {sector:,}, bytes {every[0]:,} to {every[-1]:,} of "
                f"{request['tensor']}, is moved whole. Click a byte of it that no lane asks for."
            )
            why = (
                f"Bytes {free[0]:,} to {free[-1]:,} of {request['tensor']}: no lane asks for them, so "
                f"{count(len(free), 'byte')} moved for nothing."
            )
            key = {"side": 0, "byte": [free[0], free[-1]]}
            return [Question("unused", text, "click", key, why, step=step, view=view)]
    return []
