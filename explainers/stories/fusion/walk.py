"""The walk through both sides at once: a step for each tensor that moves in a separate launch."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from explainers.stories.fusion.frames import FusionMeta, MoveFrame, ShownMove, ShownTime
from explainers.stories.fusion.ledger import Ledger, Move
from explainers.story.frames import Lines
from explainers.story.glossary import count, listed, short
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.trace.memory.model import SECTOR

VERBS = {"load": "reads", "store": "writes"}
SMALL = 2**22  # bytes that stay in the L2 cache of every GPU in use


@dataclass(frozen=True)
class Step:
    """The moves of one step: of a separate launch, and of the fused kernel. One of them can be missing."""

    separate: Move | None
    fused: Move | None

    @property
    def moves(self) -> list[Move]:
        return [move for move in (self.separate, self.fused) if move]

    @property
    def tensor(self) -> str:
        return self.moves[0].tensor


def steps_of(ledger: Ledger) -> list[Step]:
    """The moves of the separate launches in their order, each with the same move of the fused kernel.

    The fused kernel moves each tensor once, with the first launch that does so.
    """
    left = {(move.kind, move.tensor): move for move in ledger.moves if move.side == 1}
    found = [Step(move, left.pop((move.kind, move.tensor), None)) for move in ledger.moves if move.side == 0]
    return [*found, *(Step(None, move) for move in left.values())]


def frames_of(ledger: Ledger, size: str = "", gap: str = "", largest: str = "") -> list[MoveFrame]:
    """The saved tensors, then the steps, then the time and the reason.

    size: of the problem, in words. gap: on the recorded gap. largest: on its largest problem.
    """
    frames, so_far = list[MoveFrame](), [0, 0]
    for step in steps_of(ledger):
        for move in step.moves:
            so_far[move.side] += move.bytes
        frames.append(_frame(ledger, step, list(so_far)))
    saved = [move for move in ledger.moves if move.side == 0 and move.tensor in ledger.saved]
    first: MoveFrame = {
        "tile": -1,
        "title": "The difference",
        "sentence": f"{difference(ledger)}{f' This run has {size}.' if size else ''}",
        "details": "Lit: the lines that move saved bytes, and the writes that use them in the fused kernel.",
        "tensor": -1,
        "cells": [],
        "so_far": [0, 0],
        "timed": False,
        "separate_lines": uncounted(saved),
        "fused_lines": goes_on(ledger, ledger.saved),
    }
    last: MoveFrame = {**first, "tile": len(ledger.entries[0]) + 1, "so_far": list(so_far)}
    time: MoveFrame = {**last, "title": "The launch itself", "sentence": gap, "timed": True}
    end: MoveFrame = {**last, "title": "Why fusion works", "sentence": reason(ledger)}
    more: MoveFrame = {**time, "title": "The largest size", "sentence": largest}
    return [first, *frames, *([time] if gap else []), *([more] if largest else []), end]


def _frame(ledger: Ledger, step: Step, so_far: list[int]) -> MoveFrame:
    """The frame of a step."""
    fused = len(ledger.entries[0])
    stays = ledger.kept(step.tensor) and not step.fused
    launch = step.separate.launch if step.separate else fused
    who = ledger.entries[0][launch] if step.separate else ledger.entries[1][0]
    return {
        "tile": launch,
        "title": f"{who} {VERBS[step.moves[0].kind]} {step.tensor}",
        "sentence": sentence(ledger, step),
        "details": requests(step),
        "tensor": list(ledger.tensors).index(step.tensor),
        "cells": [*([launch] if step.separate else []), *([fused] if step.fused or stays else [])],
        "so_far": so_far,
        "timed": False,
        "separate_lines": step.separate.lines if step.separate else {},
        "fused_lines": step.fused.lines if step.fused else goes_on(ledger, [step.tensor]) if stays else {},
    }


def goes_on(ledger: Ledger, tensors: Iterable[str]) -> Lines:
    """The lines of the fused kernel that store what it makes of these tensors, later. So none has a count."""
    ends = set[str]().union(*(ledger.ends(tensor) for tensor in tensors))
    return uncounted(m for m in ledger.moves if m.side == 1 and m.kind == "store" and m.tensor in ends)


def uncounted(moves: Iterable[Move]) -> Lines:
    """The lines of some moves of other steps: lit, without a count."""
    return dict.fromkeys(lines_of(moves), 1)


def lines_of(moves: Iterable[Move]) -> Lines:
    """The lines of some moves."""
    found = Counter[str]()
    for move in moves:
        found.update(move.lines)
    return dict(found)


def sentence(ledger: Ledger, step: Step) -> str:
    """A step in words: the bytes of both sides, and why they move or stay."""
    tensor, move, fused = step.tensor, step.separate, step.fused
    if move is None:
        return f"Only the fused kernel {VERBS[step.moves[0].kind]} {tensor}: {step.moves[0].bytes:,} bytes."
    said = f"{ledger.entries[0][move.launch]} {VERBS[move.kind]} {tensor}: {move.bytes:,} bytes."
    kept = ledger.kept(tensor)
    if kept and move.kind == "store":
        own = f"The fused kernel keeps {tensor} {ledger.place} and writes nothing."
        if fused:
            own = f"The fused kernel writes {tensor}, too, and keeps it {ledger.place}."
        return f"{said} The registers of a launch end with it, so the next one needs {tensor} in memory. {own}"
    if kept and not fused:
        small = ledger.tensors[tensor].nbytes <= SMALL
        where = " It comes from the L2 cache (modelled), so these bytes cost little time." if small else ""
        return f"{said}{where} The fused kernel still has it {ledger.place}."
    if not fused:
        return f"{said} The fused kernel has moved these bytes before."
    if fused.bytes > move.bytes and (later := later_readers(ledger, move)):
        return (
            f"{said} {listed(later)} will read the other {fused.bytes - move.bytes:,} later. The fused kernel is ahead "
            "here: it reads all of it at once."
        )
    same = "does the same"
    if fused.bytes != move.bytes:
        same = f"{VERBS[fused.kind]} all of {tensor} now: {fused.bytes:,} bytes"
    return f"{said} The fused kernel {same}.{_often(move)}"


def later_readers(ledger: Ledger, move: Move) -> list[str]:
    """The later separate launches that load the tensor of a load."""
    later = (m for m in ledger.moves if m.side == 0 and m.kind == move.kind == "load" and m.launch > move.launch)
    return [ledger.entries[0][m.launch] for m in later if m.tensor == move.tensor]


def _often(move: Move) -> str:
    """The cost of a step beyond its bytes."""
    if move.kind == "store" and move.sectors * SECTOR >= 2 * move.bytes:
        return (
            f" A thread stores {move.width} bytes at a time, in {move.sectors:,} sectors of {SECTOR} bytes altogether."
        )
    if move.requested >= 2 * move.bytes:
        return f" Threads ask for each byte {short(move.requested / move.bytes)} times, and caches answer."
    return ""


def requests(step: Step) -> str:
    """The requested bytes of each side."""
    sides = (
        f"{name} {move.requested:,}" for name, move in zip(("separate", "fused"), (step.separate, step.fused)) if move
    )
    return f"Bytes of all accesses, repeats included: {', '.join(sides)}."


def reason(ledger: Ledger) -> str:
    """The last step in words: why fusion is possible, and its cost."""
    before, after = ledger.totals
    if after >= before:
        return f"The separate launches move {before:,} bytes, and the fused one {after:,}."
    costs = ledger.kernels[1].costs
    cost = f" The cost: {costs}" if costs else ""
    if not ledger.apart:
        return f"The fused kernel moves fewer bytes of {listed([*ledger.saved])}.{cost}"
    return (
        f"Fusion works because no block needs another block's part of {listed([*ledger.saved])}. A sum over several "
        f"blocks would need a wait of the whole grid.{cost}"
    )


def difference(ledger: Ledger) -> str:
    """The first step in words: the tensor with the most saved bytes, on both sides."""
    if not ledger.saved:
        return "Both kernels move the same tensors. The next steps count their bytes."
    tensor, saved = next(iter(ledger.saved.items()))
    ends = [ledger.entries[0][n] for n in passed(ledger, tensor)]
    said = f"The separate launches move {saved:,} bytes of {tensor} more."
    if len(ends) == 2:
        said = f"{ends[0]} writes {tensor}, and {ends[1]} reads it back, from the L2 cache or device memory."
    return f"{said} The fused kernel keeps it {ledger.place}."


def result(ledger: Ledger) -> str:
    """The fused launches, and the gain."""
    before, after = ledger.totals
    again = [tensor for tensor in ledger.saved if tensor not in ledger.never]
    launches = len(ledger.entries[0]) - len(ledger.entries[1])
    tensors = ledger.never or again
    if not tensors:
        return reason(ledger)
    verb = "stays" if len(tensors) == 1 else "stay"
    stays = f"{listed(tensors)} {verb} {ledger.place}" if ledger.never else f"nothing reads {listed(again)} again"
    fewer = f"{before - after:,} bytes ({(before - after) / before:.0%})"
    saved = f"{count(launches, 'launch', 'launches')} and {fewer}" if launches > 0 else fewer
    return f"In one kernel, {stays}. That saves {saved}."


def meta_of(ledger: Ledger, frames: list[MoveFrame], time: ShownTime | None, meanings: Mapping[str, str]) -> FusionMeta:
    """The meta of the view `fusion`. meanings: of some tensors, by their names."""
    columns = [(side, n, entry) for side, entries in enumerate(ledger.entries) for n, entry in enumerate(entries)]
    return {
        "tensors": [
            {
                "name": name,
                "bytes": tensor.nbytes,
                "kept": ledger.kept(name),
                "shape": f"{[*tensor.shape]} {tensor.dtype}",
                "part": meanings.get(tensor.name) or part_of(tensor),
                "passed": passed(ledger, name),
            }
            for name, tensor in ledger.tensors.items()
        ],
        "launches": [{"side": s, "entry": entry, "bytes": ledger.bytes(s, launch=n)} for s, n, entry in columns],
        "moves": shown_moves(ledger),
        "kernels": [kernel.name for kernel in ledger.kernels],
        "ideas": [idea_of(kernel) for kernel in ledger.kernels],
        "place": ledger.place,
        "totals": ledger.totals,
        "time": time,
        "frames": frames,
    }


def idea_of(kernel: KernelSpec) -> str:
    """Its idea as a sentence. A tensor of one letter keeps its case."""
    first = kernel.idea.split()[0]
    return kernel.idea if len(first) == 1 and first != "a" else kernel.idea[0].upper() + kernel.idea[1:]


def shown_moves(ledger: Ledger) -> list[ShownMove]:
    names = list(ledger.tensors)
    return [
        {
            "column": move.launch + move.side * len(ledger.entries[0]),
            "tensor": names.index(move.tensor),
            "kind": move.kind,
            "step": n,
            "bytes": move.bytes,
            "requested": move.requested,
            "sectors": move.sectors,
        }
        for n, step in enumerate(steps_of(ledger), 1)
        for move in step.moves
    ]


def passed(ledger: Ledger, tensor: str) -> list[int]:
    """The separate launches that write a tensor and read it, or an empty list."""
    moves = {move.kind: move.launch for move in ledger.moves if move.side == 0 and move.tensor == tensor}
    return [moves["store"], moves["load"]] if len(moves) == 2 else []


def part_of(tensor: Tensor) -> str:
    return "between launches" if tensor.role is Role.SCRATCH else tensor.role.value
