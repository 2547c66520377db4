"""The readers of other profilers' files: round trips, sentences for bad files, and 2,000 mutated ones."""

import gzip
import json
import random
import re
import struct
import zlib

import profiler_files as files
import pytest

from kernels.errors import TraceError
from kernels.measure.elsewhere import opening
from kernels.measure.elsewhere import record as limits
from kernels.measure.elsewhere.record import Stalls, Trace

MADE = {
    "iket.json": files.iket,
    "documented.json": files.iket_documented,
    "flashinfer.pftrace": files.flashinfer,
    "old.nanotrace": files.nanotrace_old,
    "new.nanotrace": files.nanotrace,
    "events.json": files.events,
}
REPORT = files.ncu(
    "/tmp/attention.cu",
    [
        (12, "float s = 0;", [(0x100, "MOV R1, R2", {"wait": 2})]),
        (
            14,
            "  s += q[d] * k[d];",
            [
                (0x110, "LDG.E R4, [R2]", {"long_sb": 70, "wait": 10, "selected": 9}),
                (0x120, "FFMA R0, R4, R5, R0", {"long_sb": 20, "short_sb": 5, "math": 3, "barrier": 1}),
            ],
        ),
    ],
)


def bars_of(trace):
    """block -> [(warp, name, start, end)], with the numbers of the groups and lanes."""
    found = {}
    for group, own in trace.bars.groupby("group", sort=False):
        block = int(re.search(r"(?:blk|[Bb]lock \(?)(\d+)", group)[1])
        rows = [
            (int(re.search(r"\d+", lane)[0]), re.sub(r" \d+$", "", kind), start, end)
            for _, lane, kind, start, end in own.itertuples(index=False)
        ]
        found[block] = sorted(rows)
    return found


@pytest.mark.parametrize("name", MADE)
def test_the_bars_of_a_file_come_back_with_their_blocks_lanes_and_times(name):
    trace = opening.trace(MADE[name](), f"C:\\traces\\{name}")
    assert bars_of(trace) == files.times()
    assert trace.file == name and trace.clock and trace.writer


def test_each_writer_is_named_with_its_clock():
    said = {name: opening.trace(make(), name) for name, make in MADE.items()}
    assert {name: trace.writer for name, trace in said.items()} == {
        "iket.json": "IKET",
        "documented.json": "IKET",
        "flashinfer.pftrace": "FlashInfer's profiler",
        "old.nanotrace": "nanotrace",
        "new.nanotrace": "nanotrace",
        "events.json": "JSON trace events",
    }
    assert said["new.nanotrace"].clock == "the GPU's %globaltimer"
    assert "32 ns" in said["iket.json"].clock
    assert said["iket.json"].left_out == "markers (1)"
    assert said["new.nanotrace"].left_out == "events without a length (1)"


def test_labels_of_json_events_are_filled_by_their_arguments():
    assert {"load K 0", "load V 1"} < set(opening.trace(files.events(), "x").bars.kind)


@pytest.mark.parametrize("make", [files.nanotrace, files.nanotrace_old])
def test_a_nanotrace_has_the_same_bars_packed_and_plain_and_fills_its_labels(make):
    packed, plain = (opening.trace(make(compress=compress), "x") for compress in (True, False))
    assert packed.bars.equals(plain.bars)
    assert {"load K 0", "load V 1"} < set(packed.bars.kind)


def test_ticks_of_a_clock_become_nanoseconds():
    slow = opening.trace(files.nanotrace(hertz=500_000_000), "x")
    assert bars_of(slow)[3] == [(0, "load K", 0.0, 256.0)]


def test_iket_reads_graphs_and_lifetimes_of_warps():
    graph = opening.trace(files.iket(graph=True), "x")
    assert bars_of(graph) == files.times()
    alive = opening.trace(files.iket(lifetimes=[(0, 1, 32, 480)]), "x")
    own = alive.bars[alive.bars.kind == "warp lifetime"]
    assert [(row.lane, row.start_ns, row.end_ns) for row in own.itertuples()] == [("warp 1", 0, 448)]


def test_a_packed_perfetto_file_is_read():
    assert bars_of(opening.trace(files.flashinfer(packed=True), "x.pftrace.gz")) == files.times()


def test_a_bar_that_ends_before_it_starts_is_left_out_and_said():
    trace = opening.trace(files.iket([*files.BARS, (0, 0, "torn", 500, 400)]), "x")
    assert "torn" not in set(trace.bars.kind) and "bars with an end before their start (1)" in trace.left_out


def test_a_report_has_the_samples_of_each_line_by_reason():
    stalls = opening.stalls(REPORT, "report.csv")
    assert stalls.total == 120
    rows = stalls.lines.values.tolist()
    path = "/tmp/attention.cu"
    text = "s += q[d] * k[d];"
    assert rows == [
        [path, 12, "float s = 0;", "", 2],
        [path, 12, "float s = 0;", "wait", 2],
        *([path, 14, text, reason, n] for reason, n in (("", 118), ("long_sb", 90), ("wait", 10))),
        *([path, 14, text, reason, n] for reason, n in (("short_sb", 5), ("math", 3), ("barrier", 1))),
    ]
    assert stalls.instructions.empty


def test_a_report_of_instructions_alone_and_one_of_powershell_are_read():
    sass = files.ncu_sass([("MOV R1, R2", {"wait": 1234}), ("EXIT", {})])
    stalls = opening.stalls(sass.replace(b'"1234"', b'"1,234"'), "sass.csv")
    assert stalls.total == 1234 and stalls.lines.empty
    assert stalls.instructions.values.tolist() == [
        ["attention(float *)", 0, "MOV R1, R2", "", 1234],
        ["attention(float *)", 0, "MOV R1, R2", "wait", 1234],
        ["attention(float *)", 1, "EXIT", "", 0],
    ]
    again = opening.stalls(sass.decode().encode("utf-16"), "sass.csv")
    assert again.instructions.equals(stalls.instructions)


def test_an_instruction_of_an_inlined_function_counts_once():
    part = [(7, "return a + b;", [(0x100, "FADD R0, R1, R2", {"wait": 5})])]
    both = files.ncu("/a.cu", part) + files.ncu("/b.cuh", part)
    stalls = opening.stalls(both, "x.csv")
    assert stalls.total == 5 and set(stalls.lines.path) == {"/a.cu", "/b.cuh"}


BAD = [
    (b"", "is empty"),
    (b"GIF89a, a picture", "starts with b'GIF89a, a pictur'"),
    (b"{", "cannot be read as JSON"),
    (b"[" * 100_000, "cannot be read as JSON"),
    (b'{"launches": [{"ranges": [{"rangeName": "a", "startTs": 1e9, "endTs": 2, "warpLocs": []}]}]}', "holds no bar"),
    (files.iket().replace(b'"startTs": 1785326265766439584', b'"startTs": "soon"'), "startTs of launch 0 is 'soon'"),
    (files.iket().replace(b'"rangeNameIdx": 2', b'"rangeNameIdx": 9'), "rangeNameIdx of launch 0 is 9"),
    (files.iket([]), "holds no bar with a start and an end"),
    (b'[{"ph": "X", "ts": NaN, "dur": 1}]', "ts of event 0 is nan"),
    (files.flashinfer()[:-3], "ends too early"),
    (b"\x0a\x02\xff\xff", "the packet at byte 0 is damaged"),
    (b"\x0a\x81\x80\x40", "the packet at byte 0 has 1,048,577 bytes"),
    (b"NTRACE4\0\x05\0\0\0\x01\0\0\0" + bytes(16), "has version 5.0 of nanotrace"),
    (files.nanotrace()[:60], "ends too early"),
    (b"nanotrace\0\x01\0\0\0" + bytes(24) + b"\xff" * 4 + bytes(16), "holds more than 100,000 events"),
    (files.nanotrace_old(compress=False)[:-4], "ends too early"),
    (b"nanotrace\0\x01\x01" + b"not zlib", "cannot be unpacked"),
    (files.nanotrace(hertz=0), "has no frequency"),
    (gzip.compress(b"x" * 100)[:20], "cannot be unpacked"),
    (REPORT, "is the Source page of Nsight Compute as CSV. Open it on the page Source"),
]


@pytest.mark.parametrize(("data", "said"), BAD, ids=[said for _, said in BAD])
def test_a_bad_trace_gets_a_sentence_with_its_value_and_a_remedy(data, said):
    with pytest.raises(TraceError) as caught:
        opening.trace(data, "bad")
    sentences = str(caught.value)
    assert said in sentences and sentences.startswith("bad") and len(sentences) < 400
    assert sentences.count(". ") >= 1 or "JSON" in sentences


BAD_REPORTS = [
    (b"", "is empty"),
    (files.iket(), "Open the Source page of Nsight Compute"),
    (b'"Kernel Name","x"\n', 'has no table with "Line No" or "Address"'),
    (REPORT.replace(b'"70"', b'"many"'), "a count of samples is 'many'"),
    (REPORT.replace(b'"70"', b'"-7"'), "a count of samples is '-7'"),
    (REPORT.replace(b'"14"', b'"14b"'), "Line No is '14b'"),
    (files.ncu("/a.cu", [(1, "int i;", [(0x100, "EXIT", {})])]), "has no sample of a warp"),
    (b'"Line No","Source","Address","Source"\n"' + b"x" * 200_000 + b'"\n', "cannot be read as CSV"),
]


@pytest.mark.parametrize(("data", "said"), BAD_REPORTS, ids=[said for _, said in BAD_REPORTS])
def test_a_bad_report_gets_a_sentence_with_its_value_and_a_remedy(data, said):
    with pytest.raises(TraceError) as caught:
        opening.stalls(data, "bad.csv")
    assert said in str(caught.value) and len(str(caught.value)) < 400


def test_large_files_are_refused_before_they_take_memory(monkeypatch):
    with pytest.raises(TraceError, match="has 33,554,433 bytes. At most 32 MB are read"):
        opening.trace(bytes(limits.MOST_BYTES + 1), "x")
    bomb = zlib.compress(bytes(limits.MOST_BYTES + 1))
    assert len(bomb) < 40_000
    with pytest.raises(TraceError, match="unpacks to more than 32 MB"):
        opening.trace(gzip.compress(bytes(limits.MOST_BYTES + 1)), "x")
    with pytest.raises(TraceError, match="unpacks to more than 32 MB"):
        opening.trace(b"nanotrace\0\x01\x01" + bomb, "x")
    head = struct.pack("<2H2BH2Q", 4, 0, 1, 1, 0, 1, len(bomb))
    with pytest.raises(TraceError, match="unpacks to more than 32 MB"):
        opening.trace(b"NTRACE4\0" + head + bomb, "x")
    with pytest.raises(TraceError, match="holds about 4,000,001 values"):
        opening.trace(b"[" + b"0," * 4_000_000, "x")
    monkeypatch.setattr("kernels.measure.elsewhere.record.MOST_EVENTS", 3)
    with pytest.raises(TraceError, match="holds more than 3 events. Trace fewer blocks"):
        opening.trace(files.iket(), "x")


def mutated(data, rand):
    """Some bytes changed, left out, doubled or cut, or a number replaced by a large or odd one."""
    made = bytearray(data)
    for _ in range(rand.choice((1, 1, 2, 5, 20))):
        at, size = rand.randrange(len(made) + 1), rand.choice((1, 1, 2, 4, 8, 40))
        way = rand.randrange(6)
        if way == 0:
            made[at : at + size] = rand.randbytes(size)
        elif way == 1:
            del made[at : at + size]
        elif way == 2:
            made[at:at] = made[at : at + size]
        elif way == 3:
            made[at : at + size] = rand.choice(
                (b"\xff" * size, b"\0" * size, b"-1", b"1e400", b"null", b'"', b"[", b"{")
            )
        elif way == 4:
            del made[at:]
        else:
            other = rand.randrange(len(made) + 1)
            made[at : at + size] = made[other : other + size]
    return bytes(made)


def repacked(data, rand):
    """A nanotrace whose unpacked content is mutated: bytes of the packed one would seldom get past the check sum."""
    if data.startswith(b"NTRACE4") and data[13] == 1:
        body = mutated(zlib.decompress(data[32:]), rand)
        stored = zlib.compress(body, 1)
        return data[:16] + struct.pack("<2Q", len(body), len(stored)) + stored
    if data.startswith(b"nanotrace") and data[11] == 1:
        return data[:12] + zlib.compress(mutated(zlib.decompress(data[12:]), rand), 1)
    return mutated(data, rand)


def test_2000_mutated_files_give_a_result_or_a_sentence():
    """250 of each of eight kinds of files."""
    rand, ends = random.Random(51), {"read": 0, "refused": 0}
    kinds = [*((opening.trace, make()) for make in MADE.values()), (opening.stalls, REPORT)]
    kinds.append((opening.stalls, files.ncu_sass([("MOV R1, R2", {"wait": 3}), ("EXIT", {"math": 1})])))
    for n in range(2000):
        open_it, data = kinds[n % len(kinds)]
        try:
            made = open_it((repacked if n % 3 else mutated)(data, rand), f"{n}")
        except TraceError as error:
            assert str(error) and len(str(error)) < 600 and "\n" not in str(error), str(error)
            ends["refused"] += 1
        else:
            assert isinstance(made, (Trace, Stalls))
            if isinstance(made, Trace):
                assert (made.bars.end_ns >= made.bars.start_ns).all() and made.bars.start_ns.min() == 0
            ends["read"] += 1
    assert min(ends.values()) > 200  # both ways are met


def test_json_of_another_program_is_refused():
    with pytest.raises(TraceError, match="Open JSON of IKET"):
        opening.trace(json.dumps({"hello": 1}).encode(), "x")
