"""A value as bytes: JSON for its shape, and a buffer for each array of numbers.

A message is the length of its JSON (4 bytes), the JSON, and the buffers, each at a multiple of ALIGNED bytes. The JSON
holds None, booleans, numbers and strings directly, and other values as [kind, ...]. If the answer contains a part of
the question, the message holds only the part's number. A message never names code: decode.py makes the values.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from kernels import errors
from kernels.core.dtypes import DTYPES
from kernels.core.spec import KernelSpec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from typing_extensions import Buffer

Json: TypeAlias = "list[Json] | str | int | float | None"
"""The JSON of a message, which has no objects."""
TYPES = {
    name: f"{errors.__package__}.{module}"
    for name, module in {
        "Device": "run.backends",
        "Fault": "run.plain.faults",
        "First": "run.wrong.found",
        "Gpu": "run.workers.devices",
        "Line": "build.disassembly",
        "Listing": "build.disassembly",
        "OutputError": "core.tolerance",
        "Pipeline": "measure.pipelines",
        "Point": "measure.protocol",
        "Reason": "run.wrong.found",
        "Request": "core.request",
        "Run": "run.results",
        "Scope": "core.scope",
        "Survey": "run.backends",
        "Sustained": "measure.load",
        "Timeline": "measure.timelines",
        "LaunchTimes": "measure.launch_times",
        "Timing": "measure.protocol",
        "Trace": "trace.trace",
        "Traffic": "run.results",
        "Verdict": "run.check",
    }.items()
}
"""The dataclasses that may come back, each with its module."""
OURS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
ERRORS: dict[str, type[Exception]] = OURS | {
    kind.__name__: kind
    for kind in (AssertionError, AttributeError, ImportError, IndexError, KeyError, MemoryError, NotImplementedError)
    + (OverflowError, RecursionError, RuntimeError, TypeError, ValueError, ZeroDivisionError)
}
"""The exceptions that may come back. Each other exception comes back as a RuntimeError that names it."""
ARRAYS = {dtype.numpy.name: dtype.numpy for dtype in DTYPES.values()} | {
    name: np.dtype(name) for name in ("bool", "int8", "int16", "uint16", "uint32", "uint64", "float64")
}
COLUMNS = {str(kind): kind for kind in (pa.string(), pa.large_string(), pa.null(), pa.bool_())} | {
    str(kind): kind for kind in (pa.from_numpy_dtype(code) for code in "bhilBHILefd")
}
FRAMES = frozenset(("object", "str", "Int32", "Int64", *ARRAYS))
ALIGNED = 64
LENGTH = struct.Struct("<I")
MOST_JSON = 2**26  # bytes


def encode(value: object, given: object = None) -> list[bytes | memoryview]:
    """The parts of a value's message. given: the question, as its parts may come back. Raises TypeError for a value
    that no message holds."""
    writer = _Writer(given)
    text = json.dumps(writer.write(value), separators=(",", ":")).encode()
    if len(text) > MOST_JSON:
        raise TypeError(f"This result needs {len(text):,} bytes of JSON. A message holds at most {MOST_JSON:,}.")
    parts: list[bytes | memoryview] = [LENGTH.pack(len(text)), text]
    at = LENGTH.size + len(text)
    for buffer in writer.buffers:
        parts += [bytes(-at % ALIGNED), buffer]
        at += -at % ALIGNED + len(buffer)
    return parts


def parts_of(question: object) -> Iterator[object]:
    """The dataclasses in a question, in the same order on both sides."""
    for given in question if isinstance(question, (list, tuple)) else (question,):
        yield from _parts(given)


def _parts(given: object) -> Iterator[object]:
    """The dataclasses in a part of a question. A list or tuple that starts with a number or a word has none."""
    if is_dataclass(given) and not isinstance(given, type):
        yield given
        if not isinstance(given, KernelSpec):
            for field in fields(given):
                yield from _parts(getattr(given, field.name))
    elif isinstance(given, dict):
        yield from _parts(list(given.values()))
    elif isinstance(given, (list, tuple)) and not (given and isinstance(given[0], (int, float, str))):
        for part in given:
            yield from _parts(part)


class _Writer:
    def __init__(self, given: object):
        self.buffers: list[memoryview] = []
        self._question, self._given = given, list[object]()

    def write(self, value: object) -> Json:
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.generic):
            return self.write(value.item())
        if isinstance(value, (int, float)):
            return value
        if isinstance(value, (list, tuple)):
            return ["tuple" if isinstance(value, tuple) else "list", *map(self.write, value)]
        if isinstance(value, dict):
            return ["dict", *([self.write(key), self.write(held)] for key, held in value.items())]
        if isinstance(value, bytes):
            return ["bytes", self._buffer(value)]
        if isinstance(value, Path):
            return ["path", str(value)]
        if isinstance(value, np.ndarray) and value.dtype.name in ARRAYS:
            flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            return ["array", value.dtype.name, list(value.shape), self._buffer(flat.data)]
        if isinstance(value, pa.Table):
            columns = ((name, value[name]) for name in value.column_names)
            return ["table", *([n, *map(self._chunk, c.chunks or [pa.array([], c.type)])] for n, c in columns)]
        if isinstance(value, pd.DataFrame):
            types = [str(kind) for kind in value.dtypes]
            if wrong := set(types) - FRAMES:
                raise TypeError(f"A worker cannot send back a column of the type {wrong.pop()}.")
            plain = value.index.equals(pd.RangeIndex(len(value)))
            table = pa.Table.from_pandas(value, preserve_index=False)
            return ["frame", [*types], self.write(table), None if plain else self.write(value.index.to_numpy())]
        if isinstance(value, Exception):
            return self._error(value)
        if is_dataclass(value) and not isinstance(value, type):
            return self._dataclass(value)
        raise TypeError(f"A worker cannot send back a value of the type {type(value).__name__}.")

    def _buffer(self, data: "Buffer") -> list[Json]:
        """A buffer's number and its bytes."""
        view = memoryview(data).cast("B")
        self.buffers.append(view)
        return [len(self.buffers) - 1, len(view)]

    def _chunk(self, array: pa.Array) -> list[Json]:
        if isinstance(array, pa.DictionaryArray):
            return ["dictionary", self._chunk(array.indices), self._chunk(array.dictionary)]
        if str(array.type) not in COLUMNS:
            raise TypeError(f"A worker cannot send back a column of the type {array.type}.")
        buffers = [None if buffer is None else self._buffer(buffer) for buffer in array.buffers()]
        return [str(array.type), len(array), array.offset, buffers]

    def _error(self, error: Exception) -> list[Json]:
        """Kind, class, arguments, notes. An unlisted subclass comes back as its listed base."""
        names = [kind.__name__ for kind in type(error).__mro__ if OURS.get(kind.__name__) is kind]
        name = names[0] if names else type(error).__name__
        known = ERRORS.get(name) is type(error) or bool(names)
        plain = known and all(isinstance(arg, (str, int, float, type(None))) for arg in error.args)
        args: list[Json] = list(error.args) if plain and not names else [str(error)]
        if not known:
            name, args = "RuntimeError", [f"{name}: {error}"]
        notes: list[Json] = [str(note) for note in getattr(error, "__notes__", ())]
        return ["error", name, args, notes]

    def _dataclass(self, value: "DataclassInstance") -> list[Json]:
        self._given = self._given or list(parts_of(self._question))
        for number, part in enumerate(self._given):
            if part is value or type(part) is type(value) and part == value:
                return ["given", number]
        name = type(value).__name__
        if TYPES.get(name) != type(value).__module__:
            raise TypeError(
                f"A worker cannot send back a value of the type {name}. Add it to TYPES of kernels.run.messages.encode."
            )
        return [name, *(self.write(getattr(value, field.name)) for field in fields(value))]
