"""The walk through the launches of both sides: a step for each tensor that moves between memory and chip."""

from collections import Counter
from collections.abc import Iterable
from typing import TypedDict

from explainers.stories.fusion.frames import FusionMeta, MoveFrame
from explainers.stories.fusion.ledger import SIDES, Ledger, Move
from explainers.story.frames import Lines
from explainers.story.glossary import count, listed, short
from kernels.core.tensors import Role, Tensor

VERBS = {"load": "reads", "store": "writes"}
WHY = {"load": "It is an input, so it comes from memory.", "store": "It is a result, so it goes to memory."}


def frames_of(ledger: Ledger) -> list[MoveFrame]:
    """The steps of the separate launches, then of the fused one, then the two sums.

    A tensor that never goes to memory has a step of its own, before the fused launch writes.
    """
    frames, so_far = list[MoveFrame](), [0, 0]
    writes = [move for move in ledger.moves if move.side == 1 and move.kind == "store"]
    for move in ledger.moves:
        if writes and move is writes[0]:
            frames += [_stays(ledger, tensor, so_far, lines_of(writes)) for tensor in ledger.never]
        so_far[move.side] += move.bytes
        frames.append(
            {
                **_placed(ledger, move.side, move.launch, move.tensor, so_far),
                "title": f"{ledger.entries[move.side][move.launch]} {VERBS[move.kind]} {move.tensor}",
                "sentence": sentence(ledger, move),
                "details": f"{count(move.accesses, 'access', 'accesses')}, {SIDES[move.side]} kernel.",
                "kind": move.kind,
                "bytes": move.bytes,
                "separate_lines": move.lines if move.side == 0 else {},
                "fused_lines": move.lines if move.side == 1 else {},
            }
        )
    saved = [move for move in ledger.moves if move.side == 0 and move.tensor in ledger.saved]
    last: MoveFrame = {
        "tile": len(ledger.entries[0]) + len(ledger.entries[1]),
        "title": "Both sums",
        "sentence": sums(ledger),
        "details": "Lit: the lines that move saved bytes, and the writes of the fused kernel.",
        "launch": -1,
        "tensor": -1,
        "kind": "",
        "bytes": 0,
        "so_far": list(so_far),
        "separate_lines": lines_of(saved),
        "fused_lines": lines_of(writes),
    }
    return [*frames, last]


class Placed(TypedDict):
    """The fields of a MoveFrame that say where it is."""

    tile: int
    launch: int
    tensor: int
    so_far: list[int]


def _placed(ledger: Ledger, side: int, launch: int, tensor: str, so_far: list[int]) -> Placed:
    column = launch + side * len(ledger.entries[0])
    return {"tile": column, "launch": column, "tensor": list(ledger.tensors).index(tensor), "so_far": list(so_far)}


def _stays(ledger: Ledger, tensor: str, so_far: list[int], lines: Lines) -> MoveFrame:
    """The step of a tensor that stays on the chip. lines: of the writes that follow."""
    return {
        **_placed(ledger, 1, 0, tensor, so_far),
        "title": f"{tensor} stays on the chip",
        "sentence": f"{tensor} stays on the chip, so no byte of it moves. The writes that follow take it from there.",
        "kind": "",
        "bytes": 0,
        "separate_lines": {},
        "fused_lines": lines,
    }


def lines_of(moves: Iterable[Move]) -> Lines:
    """The lines of some moves."""
    found = Counter[str]()
    for move in moves:
        found.update(move.lines)
    return dict(found)


def sentence(ledger: Ledger, move: Move) -> str:
    """A step in words: the bytes, and why they move."""
    launches = ledger.entries[move.side]
    who = f"Launch {move.launch + 1}, {launches[move.launch]}," if len(launches) > 1 else "The fused launch"
    said = f"{who} {VERBS[move.kind]} {move.tensor}: {move.bytes:,} bytes."
    kept = ledger.kept(move.tensor)
    if move.side == 0 and kept:
        if move.kind == "store":
            return f"{said} Registers and shared memory end with their launch, so the next launch needs it in memory."
        if any(m.kind == "store" and m.tensor == move.tensor and m.side == 0 for m in ledger.moves):
            return f"{said} An earlier launch wrote it, and kept nothing on the chip."
    if move.side == 1 and kept and move.kind == "store":
        return f"{said} It keeps the numbers on the chip and does not read them again."
    size = ledger.tensors[move.tensor].nbytes
    if move.kind == "load" and move.bytes > size:
        times = short(move.bytes / size)
        return f"{said} The tensor has only {size:,} bytes, but threads ask for each of them {times} times."
    return f"{said} {WHY[move.kind]}"


def sums(ledger: Ledger) -> str:
    """The last step in words."""
    before, after = ledger.totals
    if after >= before:
        return f"The separate launches move {before:,} bytes, and the fused one {after:,}."
    return f"Fusion saves {before - after:,} of {before:,} bytes. All inputs and results still move."


def result(ledger: Ledger) -> str:
    """The saved bytes and launches in a sentence, and the tensors of the bytes."""
    before, after = ledger.totals
    again = [tensor for tensor in ledger.saved if tensor not in ledger.never]
    why = ""
    if ledger.never:
        stays = "stays" if len(ledger.never) == 1 else "stay"
        why = f": {'' if again else 'only '}{listed(ledger.never)} {stays} on the chip"
    elif again:
        why = f": it does not read {listed(again)} again"
    launches = len(ledger.entries[0]) - len(ledger.entries[1])
    also = f" and {count(launches, 'launch', 'launches')}" if launches > 0 else ""
    return f"Fusion saves {before - after:,} of {before:,} requested bytes{also}{why}."


def meta_of(ledger: Ledger, frames: list[MoveFrame]) -> FusionMeta:
    """The meta of the view `fusion`."""
    columns = [(side, n, entry) for side, entries in enumerate(ledger.entries) for n, entry in enumerate(entries)]
    return {
        "tensors": [
            {"name": name, "bytes": tensor.nbytes, "kept": ledger.kept(name), "shape": said_of(tensor)}
            for name, tensor in ledger.tensors.items()
        ],
        "launches": [{"side": s, "entry": entry, "bytes": ledger.bytes(s, launch=n)} for s, n, entry in columns],
        "kernels": list(ledger.kernels),
        "totals": ledger.totals,
        "frames": frames,
    }


def said_of(tensor: Tensor) -> str:
    """The shape and type of a tensor, and its part."""
    part = "between launches" if tensor.role is Role.SCRATCH else tensor.role.value
    return f"{[*tensor.shape]} {tensor.dtype}, {part}"
