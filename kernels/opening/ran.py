"""A program's run: its launches, the memories behind their pointers, and the contents before the first launch."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernels.core.dtypes import DTYPES
from kernels.errors import RunError
from kernels.opening.matching import POINTED

MOST_KEPT = 3 * 2**20
"""Bytes of a memory's content in the log (program.h)."""
_TYPE = re.compile(r"\bT = ([^\];]+)")


@dataclass(frozen=True)
class Argument:
    """An argument of a launch.

    memory, offset, bytes: the number and size of the memory behind a pointer, and the pointer's place, else -1 and 0.
    zero: whether the memory held only zeros.
    null: whether it is a null pointer.
    raw: the bytes of a value, in hex."""

    value: float | None = None
    memory: int = -1
    bytes: int = 0
    zero: bool = False
    offset: int = 0
    null: bool = False
    raw: str = ""


@dataclass(frozen=True)
class RanLaunch:
    """A launch of a program as it ran, once for equal ones.

    entry: as the text names it. function: its name with the values of a template, or entry.
    shared: dynamic bytes.
    wrote: the numbers of the memories that it changed.
    whole: whether it ran to its end. seconds: of this run."""

    line: int
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    args: tuple[Argument, ...]
    function: str = ""
    wrote: frozenset[int] = frozenset()
    whole: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Memory:
    """A memory with its content before the first launch that takes it.

    A memory that the host fills anew between launches counts anew.
    allocation: its number among the calls of cudaMalloc.
    fresh: whether nobody has written it.
    dtype: by the type of the pointer.
    values: its elements, the first ones of a large memory. Empty if the log has no room."""

    allocation: int
    bytes: int
    fresh: bool
    dtype: str
    values: np.ndarray


@dataclass(frozen=True)
class Ran:
    """A program's run. code: its exit code. printed: its output and errors. memories: by number."""

    launches: tuple[RanLaunch, ...]
    code: int
    printed: str
    memories: tuple[Memory, ...] = ()

    @property
    def is_clear(self) -> bool:
        """Whether each pointer of a launch has its memory."""
        args = (argument for launch in self.launches for argument in launch.args)
        return all(argument.null or argument.memory >= 0 or argument.raw for argument in args)

    @property
    def whole(self) -> bool:
        return all(launch.whole for launch in self.launches)

    @property
    def seconds(self) -> float:
        """The seconds of the launches, each once."""
        return sum(launch.seconds for launch in self.launches)

    @property
    def bytes(self) -> int:
        """The bytes of the memories, each once."""
        return sum({memory.allocation: memory.bytes for memory in self.memories}.values())


def read(lines: Iterable[str], code: int, printed: str) -> Ran:
    """The run of a program's log (program.h). Raises RunError for a line that no run writes."""
    launches, memories = list[RanLaunch](), list[Memory]()
    try:
        for line in lines:
            held: dict[str, Any] = json.loads(line)
            if "allocation" in held:
                if held["memory"] != len(memories):
                    raise ValueError(line)
                memories.append(_memory(held))
            elif "wrote" in held:
                wrote = frozenset(map(int, held["wrote"]))
                whole, seconds = held["whole"] is True, float(held["seconds"])
                launches[-1] = replace(launches[-1], wrote=wrote, whole=whole, seconds=seconds)
            else:
                launches.append(_launch(held, len(memories)))
    except (ValueError, KeyError, TypeError, IndexError):
        raise RunError("The program wrote into the list of its launches.") from None
    return Ran(tuple(launches), code, printed, tuple(memories))


def _launch(held: dict[str, Any], memories: int) -> RanLaunch:
    args = tuple(_argument(one) for one in held["args"])
    if any(one.memory >= memories for one in args):
        raise ValueError(held)
    sizes = tuple(map(int, held["grid"])), tuple(map(int, held["block"]))
    function = str(held["function"]).removeprefix("void ").partition("(")[0]
    return RanLaunch(int(held["line"]), str(held["entry"]), *sizes, int(held["shared"]), args, function)


def _argument(held: dict[str, Any]) -> Argument:
    value = held.get("value")
    return Argument(
        None if value is None else float(value),
        int(held.get("memory", -1)),
        int(held.get("bytes", 0)),
        bool(held.get("zero")),
        int(held.get("offset", 0)),
        bool(held.get("null")),
        str(held.get("raw", "")),
    )


def _memory(held: dict[str, Any]) -> Memory:
    size, found = int(held["bytes"]), _TYPE.search(str(held["type"]))
    dtype = dtype_of(found[1] if found else "")
    data = bytes.fromhex(held["data"])
    kind = DTYPES[dtype].numpy
    if size % kind.itemsize:
        dtype, kind = "uint8", np.dtype(np.uint8)
    values = np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
    return Memory(int(held["allocation"]), size, held["fresh"] is True, dtype, values)


def dtype_known(word: str) -> bool:
    """Whether a word is a type of numbers."""
    return word in POINTED or dtype_of(word) != "uint8"


def dtype_of(c_type: str) -> str:
    """The type of the elements behind a pointer, uint8 for a struct or an unknown type."""
    base = re.sub(r"\b(?:const|volatile|struct)\b", "", c_type).strip()
    if base in POINTED:
        return POINTED[base]
    if vector := re.fullmatch(r"(u?)(char|short|int|long|longlong|float|double)[1-4]", base):
        return dtype_of({"u": "unsigned "}.get(vector[1], "") + {"longlong": "long long"}.get(vector[2], vector[2]))
    return "uint8"
