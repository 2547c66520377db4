"""A worker's answer crosses as bytes that hold values and no code, and the reader refuses any other bytes."""

import json
import math
import random
from dataclasses import is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kernels.catalog import KERNELS
from kernels.core.dtypes import DTYPES
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError
from kernels.errors import OutOfMemory, ProblemError, TraceError
from kernels.families.dense import DenseProblem
from kernels.measure.pipelines import Pipeline
from kernels.measure.protocol import Point, Timing
from kernels.run import execute, workers
from kernels.run.backends import driver
from kernels.run.check import Verdict
from kernels.run.messages import decode as reader
from kernels.run.messages import encode as wire
from kernels.run.messages.decode import Unreadable, decode
from kernels.run.workers import frames

REQUEST = Request(KERNELS["03_flash"], DenseProblem(seq_len=32, head_dim=32))


def crossed(value, given=()):
    return decode(np.frombuffer(b"".join(wire.encode(value, given)), np.uint8).copy(), given)


@pytest.mark.parametrize(
    "value",
    [None, True, 7, -1.5, math.inf, "ä\n", b"\0bytes", [], [1, [2]], (1, (2.0, "x")), {"a": {1: None}, (1, "b"): 2}]
    + [Path("/a/b"), 2**70],
)
def test_plain_values_come_back_equal_and_of_their_type(value):
    found = crossed(value)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back_bit_by_bit_in_every_type(dtype):
    for shape in ((), (0, 3), (2, 3, 4)):
        array = np.arange(math.prod(shape)).reshape(shape).astype(DTYPES[dtype].numpy)
        found = crossed(array)
        assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, shape, array.tobytes())
    strided = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    assert (crossed(strided) == strided).all()


def test_a_run_and_errors_come_back_whole():
    run = execute.run(REQUEST)
    found = crossed(run, (REQUEST,))
    assert found.request is REQUEST and found.max_abs_errors == run.max_abs_errors
    assert found.trace.table.equals(run.trace.table) and found.trace.table.schema == run.trace.table.schema
    assert found.trace.provenance == run.trace.provenance and found.trace.lost == run.trace.lost
    assert all(found.arrays[name].tobytes() == array.tobytes() for name, array in run.arrays.items())
    other = crossed(replace(run, request=replace(REQUEST, scope=Scope(0, 2))), (REQUEST,))
    assert other.request.kernel is REQUEST.kernel and other.request.scope == Scope(0, 2)
    told = ProblemError("a problem")
    told.add_note("where")
    for error in (told, TraceError("x"), OutOfMemory("y"), ValueError("z"), KeyError("k")):
        found = crossed(error)
        assert type(found) is type(error) and str(found) == str(error)
    assert crossed(told).__notes__ == ["where"]
    assert str(crossed(FileNotFoundError(2, "gone", "f"))) == "FileNotFoundError: [Errno 2] gone: 'f'"
    monkey = driver.StickyError("the kernel failed", 100)
    assert type(crossed(monkey)).__name__ == "RunError" and str(crossed(monkey)) == "the kernel failed"


def test_tables_and_what_measures_and_checks_give_come_back():
    traffic = execute.traffic(REQUEST)
    pd.testing.assert_frame_equal(crossed(traffic).table, traffic.table)
    marks = pd.DataFrame({"launch": [0, 0], "ns": [0.1, math.nan], "sm": np.array([1, 2], np.uint32)})
    marks["key"] = pd.array([1, None], "Int64")
    marks["role"] = pd.Series(["a", None], dtype=object)
    made = Pipeline(REQUEST, marks, marks[["sm"]][1:], 32, 0, 1.0, 0.5, 2.0, 1.0, "GPU", "today")
    found = crossed(made, (REQUEST,))
    pd.testing.assert_frame_equal(found.marks, marks)
    pd.testing.assert_frame_equal(found.writers, made.writers)
    point = Point("03_flash", REQUEST.problem, (("BLOCK_Q", 16),))
    error = OutputError("o", np.float64(0.1), 0.2, math.inf)
    timing = Timing(point, "ok", runs=3, median_us=np.float64(1.5), error=error, clock=(1, None))
    assert crossed([timing], ([point],)) == [timing]
    verdict = Verdict("03_flash", "probed", REQUEST.problem, (("BLOCK_Q", 16),), (error,), True)
    assert crossed((verdict, verdict), (REQUEST,)) == (verdict, verdict)


@pytest.mark.parametrize("value", [object(), {1}, REQUEST.problem, np.array([object()]), pa.table({"a": [[1]]})])
def test_another_value_is_not_sent(value):
    with pytest.raises(TypeError, match="A worker cannot send back a (value|column) of the type"):
        wire.encode(value)


def said(value, *buffers):
    text = json.dumps(value).encode()
    whole = wire.LENGTH.pack(len(text)) + text
    for buffer in buffers:
        whole += bytes(-len(whole) % wire.ALIGNED) + buffer
    return whole


INTEGERS = ["int32", 4, 0, [None, [0, 16]]]


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x80\x04N.",
        wire.LENGTH.pack(2**31) + b"[]",
        said({"a": 1}),
        said([]),
        said(["os.system", "id"]),
        said(["given", 0]),
        said(["path", 3]),
        said(["error", "SystemExit", [], []]),
        said(["error", "ValueError", [["list"]], []]),
        said(["Scope", 0, 1]),
        said(["Scope", "0", 1, ["tuple"]]),
        said(["Trace", ["list"], 0, ["dict"]]),
        said(["Request", None, None, ["tuple"], ["Scope", 0, 1, ["tuple"]], "cpu"]),
        said(["bytes", [0, 9]], b"12345678"),
        said(["bytes", [1, 1]], b"1"),
        said(["bytes", [0, -1]], b"1"),
        said(["list", ["bytes", [0, 1]], ["bytes", [0, 1]]], b"1"),
        said(["array", "object", [1], [0, 8]], bytes(8)),
        said(["array", "float32", [-1, -2], [0, 8]], bytes(8)),
        said(["array", "float32", [2**40], [0, 8]], bytes(8)),
        said(["table", ["a", ["int32", 5, 0, [None, [0, 16]]]]], bytes(16)),
        said(["table", ["a", ["int32", 2, 3, [None, [0, 16]]]]], bytes(16)),
        said(["table", ["a", ["int32", -1, 0, [None, [0, 16]]]]], bytes(16)),
        said(["table", ["a", ["int32", 1, 0, [[0, 16]]]]], bytes(16)),
        said(["table", ["a", ["extension", 1, 0, [None, [0, 16]]]]], bytes(16)),
        said(["table", ["a", ["string", 1, 0, [None, [0, 8], [1, 4]]]]], b"\0\0\0\0\xff\xff\0\0", b"text"),
        said(["table", ["a", ["string", 1, 0, [None, [0, 8], [1, 4]]]]], b"\0\0\0\0\4\0\0\0", b"\xff\xfe\xfd\xfc"),
        said(
            ["table", ["a", ["dictionary", INTEGERS, ["string", 0, 0, [None, [1, 4], [2, 0]]]]]],
            b"\1\0\0\0" * 4,
            bytes(4),
            b"",
        ),
        said(["frame", ["category"], ["table", ["a", INTEGERS]], None], bytes(16)),
        said(["frame", [], ["table", ["a", INTEGERS]], None], bytes(16)),
        said("\ud800"),
        wire.LENGTH.pack(200_000) + b"[" * 200_000,
    ],
)
def test_bytes_that_no_worker_sends_are_refused(message):
    with pytest.raises(Unreadable):
        decode(message)


NULLS = ["null", 2 * 10**8, 0, [None]]


@pytest.mark.parametrize(
    "value", [["table", ["a", NULLS]], ["frame", ["object"], ["table", ["a", NULLS]], None]], ids=["table", "frame"]
)
def test_a_column_without_a_buffer_has_at_most_a_row_for_each_byte_of_the_message(value):
    with pytest.raises(Unreadable, match="a column has 200,000,000 rows, and the message has"):
        decode(said(value))


def test_a_table_has_at_most_a_cell_for_each_byte_of_the_message(monkeypatch):
    rows = 2**20
    columns = [[f"n{n}", ["null", rows, 0, [None]]] for n in range(8)]
    message = said(["list", ["bytes", [0, rows]], ["frame", ["object"] * 8, ["table", *columns], None]], bytes(rows))
    with pytest.raises(Unreadable, match=f"a table has {8 * rows:,} cells, and the message has"):
        decode(message)
    few = pd.DataFrame({"a": [None] * 1000, "b": [None] * 1000}, dtype=object)
    assert crossed(few).equals(few)


def test_the_web_process_bounds_the_json_of_an_answer(monkeypatch):
    monkeypatch.setattr(reader, "most_json", reader.most_json)  # set back at the end
    monkeypatch.setattr(frames, "most_bytes", frames.most_bytes)
    workers.limit_answers(2**28, 1000)
    with pytest.raises(Unreadable, match="its JSON has 1,20[0-9] bytes, and this process accepts 1,000"):
        decode(said("x" * 1200))


def test_bytes_that_were_changed_anywhere_are_refused_or_read_as_plain_values():
    """Neither a crash nor another exception follows."""
    run = execute.run(REQUEST)
    whole, chance = b"".join(wire.encode((True, run, 0.0), (REQUEST,))), random.Random(0)
    head = wire.LENGTH.size + wire.LENGTH.unpack(whole[:4])[0]
    refused = 0
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(head)] = chance.randrange(256)
        try:
            decode(changed, (REQUEST,))
        except Unreadable:
            refused += 1
    assert refused > 200


def test_every_type_and_field_that_may_come_back_is_there():
    for name, module in wire.TYPES.items():
        made, hints = reader._type(name)
        assert made.__module__ == module and set(hints) >= {field for field in made.__dataclass_fields__}
    # A type that is missing shows only on a GPU: a Timing without its Sustained crossed, one with it did not.
    fields_of = {name: getattr(import_module(module), name) for name, module in wire.TYPES.items()}
    asked = {"KernelSpec"}  # always a part of the question
    for name, made in fields_of.items():
        for field, hint in get_type_hints(made, {"KernelSpec": KernelSpec}).items():
            inside = {inner.__name__ for inner in dataclasses_in(hint)}
            assert inside <= {*fields_of, *asked}, (name, field)


def dataclasses_in(hint):
    if is_dataclass(hint):
        yield hint
    for inner in get_args(hint):
        yield from dataclasses_in(inner)
