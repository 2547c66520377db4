"""The walk through the launches of both sides: a step for each tensor that moves between memory and chip."""

from explainers.stories.fusion.frames import FusionMeta, MoveFrame
from explainers.stories.fusion.ledger import NEVER, SIDES, Ledger, Move
from explainers.story.glossary import count, listed

VERBS = {"load": "reads", "store": "writes"}


def frames_of(ledger: Ledger) -> list[MoveFrame]:
    """The steps of the separate launches, then of the fused one, then the two sums."""
    frames, so_far, first = list[MoveFrame](), [0, 0], len(ledger.entries[0])
    tensors = list(ledger.tensors)
    for move in ledger.moves:
        so_far[move.side] += move.bytes
        column = move.launch + move.side * first
        entry = ledger.entries[move.side][move.launch]
        frames.append(
            {
                "tile": column,
                "title": f"{entry} {VERBS[move.kind]} {move.tensor}",
                "sentence": sentence(ledger, move),
                "details": f"{count(move.accesses, 'access', 'accesses')}, {SIDES[move.side]} kernel.",
                "launch": column,
                "tensor": tensors.index(move.tensor),
                "kind": move.kind,
                "bytes": move.bytes,
                "so_far": list(so_far),
                "separate_lines": move.lines if move.side == 0 else {},
                "fused_lines": move.lines if move.side == 1 else {},
            }
        )
    last: MoveFrame = {
        "tile": len(ledger.entries[0]) + len(ledger.entries[1]),
        "title": "Both sums",
        "sentence": sums(ledger),
        "launch": -1,
        "tensor": -1,
        "kind": "",
        "bytes": 0,
        "so_far": list(so_far),
        "separate_lines": {},
        "fused_lines": {},
    }
    return [*frames, last]


def sentence(ledger: Ledger, move: Move) -> str:
    """A step in words."""
    launches = ledger.entries[move.side]
    who = f"Launch {move.launch + 1}, {launches[move.launch]}," if len(launches) > 1 else "The fused launch"
    said = f"{who} {VERBS[move.kind]} {move.tensor}: {move.bytes:,} bytes."
    kept = ledger.kept(move.tensor)
    if move.side == 0 and kept:
        if move.kind == "store":
            return f"{said} The next launch needs it."
        if any(m.kind == "store" and m.tensor == move.tensor and m.side == 0 for m in ledger.moves):
            return f"{said} An earlier launch wrote it."
    if move.side == 1 and kept and move.kind == "store":
        return f"{said} It keeps the numbers in registers and does not read them again."
    return said


def sums(ledger: Ledger) -> str:
    """The last step in words."""
    before, after = ledger.totals
    share = 100 * (before - after) / before
    return f"The separate launches move {before:,} bytes, and the fused one {share:.2g} % less."


def result(ledger: Ledger) -> str:
    """Both sums in a sentence, and the tensors that never went to memory."""
    before, after = ledger.totals
    said = f"Fused, the bytes fall from {before:,} to {after:,}."
    never = [tensor for tensor in ledger.tensors if ledger.kept(tensor) == NEVER]
    again = [tensor for tensor in ledger.saved if tensor not in never]
    if never:
        return f"{said} {listed(never)} never {'goes' if len(never) == 1 else 'go'} to memory."
    return f"{said} It does not read {listed(again)} again." if again else said


def meta_of(ledger: Ledger, frames: list[MoveFrame]) -> FusionMeta:
    """The meta of the view `fusion`."""
    columns = [(side, n, entry) for side, entries in enumerate(ledger.entries) for n, entry in enumerate(entries)]
    return {
        "tensors": [
            {"name": name, "bytes": tensor.nbytes, "kept": ledger.kept(name)} for name, tensor in ledger.tensors.items()
        ],
        "launches": [{"side": s, "entry": entry, "bytes": ledger.bytes(s, launch=n)} for s, n, entry in columns],
        "kernels": list(ledger.kernels),
        "totals": ledger.totals,
        "frames": frames,
    }
