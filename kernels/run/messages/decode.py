"""Reads a worker's message and trusts no byte.

A kernel is native code in its worker's process, so it can write any bytes to the worker's socket. The reader makes only
plain values, arrays, tables, and the dataclasses and exceptions in the tables of encode.py. It checks each size, type
and name.
"""

import json
import math
import types
import typing
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from kernels.core.spec import KernelSpec
from kernels.run.messages.encode import (
    ALIGNED,
    ARRAYS,
    COLUMNS,
    ERRORS,
    FRAMES,
    LENGTH,
    MOST_JSON,
    TYPES,
    Json,
    parts_of,
)

if typing.TYPE_CHECKING:
    from typing_extensions import Buffer

T = typing.TypeVar("T")

FEW_CELLS = 2**20  # of a table that needs no check
most_json = MOST_JSON  # accepted bytes of JSON in a message, each with up to 40 bytes of memory


class Unreadable(Exception):
    """Bytes that no worker sends. Its text is the reason."""


def decode(data: "Buffer", given: object = None) -> object:
    """The value of a message. Arrays and tables use the memory of `data`. Raises Unreadable for any other bytes."""
    try:
        view = memoryview(data).cast("B")
        (length,) = LENGTH.unpack(view[: LENGTH.size])
        end = LENGTH.size + length
        if length > most_json:
            raise Unreadable(f"its JSON has {length:,} bytes, and this process accepts {most_json:,}")
        if end > len(view):
            raise Unreadable(f"its JSON has {length:,} bytes, and the message has {len(view):,}")
        return _Reader(view, end, given).read(json.loads(bytes(view[LENGTH.size : end])))
    except Unreadable:
        raise
    except Exception as error:  # each failure comes from the bytes
        raise Unreadable(f"{type(error).__name__}: {error}"[:300]) from None


class _Reader:
    def __init__(self, view: memoryview, at: int, given: object):
        self._view, self._at, self._number = view, at, 0  # the next buffer's earliest place and number
        self._question = given

    def read(self, said: Json) -> object:
        if said is None or isinstance(said, (bool, int, float)):
            return said
        if isinstance(said, str):
            said.encode()  # no half of a surrogate pair
            return said
        if not isinstance(said, list) or not said or not isinstance(said[0], str):
            raise Unreadable(f"{said!r:.60} is no value")
        kind, *parts = said
        if kind in TYPES:
            dataclass, hints = _type(kind)
            named, values = fields(dataclass), [self.read(part) for part in parts]
            for field, value in zip(named, values, strict=True):
                if not fits(value, hints[field.name]):
                    raise Unreadable(f"{kind}.{field.name} is a {type(value).__name__}")
            return dataclass(**{field.name: value for field, value in zip(named, values)})
        if kind not in self.KINDS:
            raise Unreadable(f"{kind!r:.60} is no kind of value")
        return self.KINDS[kind](self, *parts)

    def _list(self, *parts: Json) -> list[object]:
        return [self.read(part) for part in parts]

    def _array(self, name: str, shape: list[int], place: list[int]) -> np.ndarray:
        dtype, data = ARRAYS[name], self._buffer(place)
        if any(_checked(side, int) < 0 for side in shape) or math.prod(shape) * dtype.itemsize != len(data):
            raise Unreadable(f"an array of {name} {shape!r:.60} has {len(data):,} bytes")
        return np.frombuffer(data, dtype).reshape(shape)

    def _table(self, *columns: list[Any]) -> pa.Table:
        arrays = [pa.chunked_array([self._chunk(*chunk) for chunk in chunks]) for _, *chunks in columns]
        table = pa.Table.from_arrays(arrays, [self.read(_checked(name, str)) for name, *_ in columns])
        table.validate(full=True)
        return table

    def _chunk(self, kind: str, *parts: list[Any]) -> pa.Array:
        if kind == "dictionary":
            indices, words = (self._chunk(*part) for part in parts)
            words.validate(full=True)
            return pa.DictionaryArray.from_arrays(indices, words, safe=True)
        length, offset, places = parts
        rows = _checked(length, int)
        if min(rows, _checked(offset, int)) < 0:
            raise Unreadable(f"a column has {length} rows from row {offset} on")
        if rows > max(FEW_CELLS, len(self._view)):  # a column of nulls has no buffer
            raise Unreadable(f"a column has {rows:,} rows, and the message has {len(self._view):,} bytes")
        buffers = [None if place is None else pa.py_buffer(self._buffer(place)) for place in places]
        column = pa.Array.from_buffers(COLUMNS[kind], length, buffers, -1, offset)
        column.validate(full=True)
        return column

    def _frame(self, kinds: list[str], table: list[Json], index: Json) -> pd.DataFrame:
        read = _checked(self.read(_checked(table, list)), pa.Table)
        cells = read.num_rows * read.num_columns  # pandas needs 8 bytes for each
        if cells > max(FEW_CELLS, len(self._view)):
            raise Unreadable(f"a table has {cells:,} cells, and the message has {len(self._view):,} bytes")
        frame = read.to_pandas(ignore_metadata=True)
        if any(kind not in FRAMES for kind in kinds):
            raise Unreadable(f"the columns have the types {kinds!r:.100}")
        frame = frame.astype(dict(zip(frame.columns, kinds, strict=True)))
        for name, kind in zip(frame.columns, kinds):
            if kind == "object":
                frame[name] = frame[name].where(frame[name].notna(), None)
        return frame if index is None else frame.set_index(pd.Index(self.read(index)))

    def _error(self, name: str, args: list[Json], notes: list[Json]) -> Exception:
        if any(not isinstance(arg, (str, int, float, type(None))) for arg in args):
            raise Unreadable(f"an error has the arguments {args!r:.100}")
        error = ERRORS[name](*map(self.read, args))
        for note in notes:
            error.add_note(_checked(self.read(note), str))
        return error

    def _buffer(self, place: list[int]) -> memoryview:
        """The next buffer. Buffers come in order, so none is read twice."""
        number, size = place
        start = self._at + -self._at % ALIGNED
        if _checked(number, int) != self._number or _checked(size, int) < 0 or start + size > len(self._view):
            raise Unreadable(f"buffer {number!r:.20} of {size!r:.20} bytes is not in the message")
        self._number, self._at = self._number + 1, start + size
        return self._view[start : start + size]

    KINDS: typing.ClassVar[dict[str, Callable[..., object]]] = {
        "list": _list,
        "tuple": lambda self, *parts: tuple(self._list(*parts)),
        "dict": lambda self, *pairs: {self.read(key): self.read(value) for key, value in pairs},
        "path": lambda self, text: Path(_checked(text, str)),
        "bytes": lambda self, place: bytes(self._buffer(place)),
        "array": _array,
        "table": _table,
        "frame": _frame,
        "error": _error,
        "given": lambda self, number: list(parts_of(self._question))[max(_checked(number, int), 0)],
    }


def _checked(value: object, kind: type[T]) -> T:
    if type(value) is not kind:
        raise Unreadable(f"{value!r:.60} is no {kind.__name__}")
    return value


@cache
def _type(name: str) -> tuple[type, dict[str, Any]]:
    dataclass = getattr(import_module(TYPES[name]), name)
    return dataclass, typing.get_type_hints(dataclass, localns={"KernelSpec": KernelSpec})


def fits(value: object, hint: Any) -> bool:
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if hint is Any:
        return True
    if kind in (types.UnionType, typing.Union):
        return any(fits(value, one) for one in inner)
    if kind is float:
        return type(value) in (int, float)
    if kind is int:
        return type(value) is int
    if not isinstance(value, kind):
        return False
    if kind is tuple and inner:
        if inner[-1] is Ellipsis:
            return all(fits(one, inner[0]) for one in value)
        return len(value) == len(inner) and all(map(fits, value, inner))
    if kind is list and inner:
        return all(fits(one, inner[0]) for one in value)
    if kind is dict and inner:
        return all(fits(key, inner[0]) and fits(one, inner[1]) for key, one in value.items())
    return True
