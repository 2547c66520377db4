"""A fault of a kernel, with its lines, and its sentence."""

import re
from dataclasses import dataclass

import numpy as np

from kernels.build.plain.lines import Lines

FINDING = np.dtype(
    [
        *((name, "<u4") for name in ("kind", "place1", "place2", "region", "block1", "block2", "thread1", "thread2")),
        *((name, "<u4") for name in ("writes", "same", "count", "_")),
        ("offset", "<i8"),
    ]
)
"""struct Finding of device/simt/cuda/shadow.h."""
RACE, WARP_RACE, BLOCK_RACE, UNWRITTEN, DIVERGENT, LEFT_EARLY, MISALIGNED, STATIC, UNLOGGED, ASYNC = range(10)
KINDS = (
    *("race", "warp race", "block race", "unwritten read", "divergent barrier", "early exit", "misaligned access"),
    *("static", "hidden store", "missing wait"),
)
STOPS = (
    ("race: ", "race"),
    ("illegal address", "out of bounds"),
    ("missing wait", "missing wait"),
    ("is not aligned", "misaligned access"),
    ("the first value without a number", "no number"),
    ("time limit is over", "endless loop"),
    ("divergent barrier", "divergent barrier"),
    ("deadlock", "deadlock"),
    ("left the kernel", "deadlock"),
    ("leaves it out", "wrong mask"),
    ("the assertion", "failed assertion"),
    ("stack overflow", "stack overflow"),
)
"""A part of the message of a stopped launch -> the kind of its fault."""


@dataclass(frozen=True)
class Fault:
    """A fault of a kernel.

    kind: one of KINDS, or of STOPS.
    level: error, or note for a habit that today's GPUs forgive.
    file, lines: its places, the earlier access first.
    tensor, index: the tensor or shared array, and the element, or "" and ()."""

    kind: str
    level: str
    text: str
    file: str
    lines: tuple[int, ...]
    tensor: str = ""
    index: tuple[int, ...] = ()
    count: int = 1

    def as_json(self) -> dict[str, object]:
        return {**vars(self), "lines": list(self.lines), "index": list(self.index)}


@dataclass(frozen=True)
class Region:
    """A tensor or a shared array.

    shape: of a tensor, or () for a shared array.
    element: its bytes.
    reach: the bytes up to the end of the farthest access. written: whether the kernel stored into it."""

    name: str
    shared: bool
    element: int
    shape: tuple[int, ...] = ()
    reach: int = 0
    written: bool = False

    def index(self, offset: int) -> tuple[int, ...]:
        flat = offset // max(1, self.element)
        return tuple(int(i) for i in np.unravel_index(flat, self.shape)) if self.shape else (flat,)


def of_finding(found: np.void, lines: Lines, regions: list[Region]) -> Fault:
    file, first = lines.site(int(found["place1"]))
    _, second = lines.site(int(found["place2"]))
    number = int(found["region"])
    region = regions[number] if number < len(regions) else Region("", False, 1)
    index = region.index(int(found["offset"])) if region.name else ()
    word = f"{region.name}[{', '.join(map(str, index))}]"
    kind = int(found["kind"])
    forgiven = kind in (LEFT_EARLY, STATIC) or (kind in (RACE, WARP_RACE, BLOCK_RACE) and found["same"])
    level = "note" if forgiven else "error"
    text = _text(kind, found, word, first, second)
    places = tuple(dict.fromkeys(line for line in (first, second) if line))
    return Fault(KINDS[kind], level, text, file, places, region.name, index, int(found["count"]))


def _text(kind: int, found: np.void, word: str, first: int, second: int) -> str:
    if kind in (RACE, WARP_RACE, BLOCK_RACE):
        writes = int(found["writes"])
        other = {RACE: "another warp", WARP_RACE: "another lane", BLOCK_RACE: "another block"}[kind]
        remedy = {
            RACE: "No barrier is between them.",
            WARP_RACE: "No __syncwarp is between them.",
            BLOCK_RACE: "Blocks have no order. Use an atomic, or a second launch.",
        }[kind]
        if writes == 3:
            same = f"line {first} writes {word}, and so does {other}" if first == second else ""
            return f"{same or f'line {first} writes {word}, and line {second} of {other} writes it too'}. {remedy}"
        if writes == 2:
            return f"line {first} writes {word}, and line {second} of {other} reads it. {remedy}"
        return f"line {second} writes {word}, and line {first} of {other} may still read it. {remedy}"
    if kind == ASYNC:
        does = "reads" if int(found["writes"]) == 2 else "writes"
        return (
            f"line {first} copies {word} asynchronously, and line {second} {does} it. No wait for the copy is between "
            "them."
        )
    if kind == UNWRITTEN:
        return f"line {first} reads {word}, and no thread has written it."
    if kind == STATIC:
        where = f"line {first}" if first else "The kernel"
        return f"{where} writes a static or __device__ variable. A run does not record its accesses."
    if kind == UNLOGGED:
        return f"A store to {word} has no record. Store with an assignment or with CUDA's own functions."
    threads = f"thread {found['thread1']}", f"thread {found['thread2']}"
    if kind == LEFT_EARLY:
        return f"line {first} is a barrier, and {threads[1]} left at line {second}. All threads must come to a barrier."
    if first == second or not second:
        return f"line {first} is a barrier for {threads[0]}, and {threads[1]} never comes to it."
    return f"{threads[0]} waits at the barrier of line {first}, and {threads[1]} is elsewhere, at line {second}."


def of_stop(message: str) -> Fault:
    kind = next((kind for part, kind in STOPS if part in message), "stopped")
    places = re.findall(r"(?<!\S)(\S+\.cuh?):(\d+)", message)
    lines = tuple(dict.fromkeys(int(line) for _, line in places))
    tensor = re.search(r"\b(\w++)\[(-?\d++)\]", message) if kind == "out of bounds" else None
    found = (tensor[1], (int(tensor[2]),)) if tensor else ("", ())
    return Fault(kind, "error", message, places[0][0] if places else "", lines, *found)
