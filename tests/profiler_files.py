"""Small files of other profilers, made by the rules of their writers. The sources are in the docstrings of
kernels/measure/elsewhere/."""

import csv
import gzip
import io
import json
import struct
import zlib

# (block, warp, name, start, end) of a GPU's timer, in ns. scale nests in mma.
BARS = [
    (0, 0, "load K", 64, 192),
    (0, 0, "load V", 224, 320),
    (0, 1, "mma", 192, 448),
    (0, 1, "scale", 320, 352),
    (3, 0, "load K", 96, 224),
]
ZERO = 1_785_326_265_766_439_520  # ns of the first moment: a float would lose the last digits


def times(bars=BARS):
    """block -> [(lane, name, start, end)] from the first bar of the block on, sorted."""
    found = {}
    for block in dict.fromkeys(bar[0] for bar in bars):
        own = [bar for bar in bars if bar[0] == block]
        first = min(bar[3] for bar in own)
        found[block] = sorted((lane, name, start - first, end - first) for _, lane, name, start, end in own)
    return found


# ---- IKET ----


def iket_documented(bars=BARS):
    def place(block, warp):
        return {"smId": 5 + block, "tpcId": 0, "gpcId": 0, "ctaId": [block, 0, 0], "warpId": warp}

    ranges = [
        {
            "rangeName": name,
            "rangeScope": 0,
            "startTs": ZERO + start,
            "endTs": ZERO + end,
            "warpLocs": [place(block, warp)] * 2,
            "internalEvents": [],
        }
        for block, warp, name, start, end in bars
    ]
    marker = {"markerName": "checkpoint", "timestamp": ZERO + 100, "location": place(0, 0)}
    launch = {"gridId": 0, "kernelName": "attention", "ranges": ranges, "warpLifetimes": []}
    launch["markers"] = [marker | {"payloadType": 0, "payloadVal": 0}]
    return json.dumps({"launches": [launch]}).encode()


def iket(bars=BARS, graph=False, lifetimes=()):
    """As version 4.6 of the wheel on writes it: tables of names and places. lifetimes: (block, warp, start, end)."""
    names = list(dict.fromkeys(bar[2] for bar in bars))
    places = list(dict.fromkeys((block, warp) for block, warp, *_ in bars))
    ranges = [
        {
            "rangeNameIdx": names.index(name),
            "startTs": ZERO + start,
            "endTs": ZERO + end,
            "warpLocIdxs": [places.index((block, warp))] * 2,
            "internalEvents": [{"eventId": 2, "timestamp": ZERO + start}],
            "rangeId": 844017592,
            "rangeType": 2,
            "rangeScope": 0,
            "rangeColor": 4294967295,
        }
        for block, warp, name, start, end in bars
    ]
    launch = {
        "kernelName": "kernel_cutlass__attention__0",
        **{"gridDimX": 4, "gridDimY": 1, "gridDimZ": 1, "blockDimX": 64, "blockDimY": 1, "blockDimZ": 1},
        **{"contextId": 1, "gridId": 1, "ranges": ranges},
        "markers": [{"locIdx": 0, "markerNameIdx": 0, "timestamp": ZERO + 70, "color": 4294967295}],
        "warpLifetimes": [
            {"locIdx": places.index((block, warp)), "startTs": ZERO + start, "endTs": ZERO + end}
            for block, warp, start, end in lifetimes
        ],
    }
    table = [{"ctaId": [block, 0, 0], "gpcId": -1, "smId": 142, "tpcId": -1, "warpId": warp} for block, warp in places]
    root = {"graphLaunches": {"key": [launch]} if graph else {}, "launches": [] if graph else [launch]}
    return json.dumps(root | {"locationTable": table, "stringTable": names}).encode()


# ---- Perfetto: FlashInfer's profiler with tg4perfetto ----


def flashinfer(bars=BARS, packed=False):
    """block and warp are FlashInfer's block and group. packed: as a .gz file."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    trace, tracks, names = Trace(), {}, {}

    def packet():
        made = trace.packet.add()
        made.trusted_packet_sequence_id, made.sequence_flags = 2, 2
        return made

    first = trace.packet.add()
    first.trusted_packet_sequence_id = 1
    for clock in range(1, 7):
        first.clock_snapshot.clocks.add(clock_id=clock, timestamp=0)
    defaults = packet()
    defaults.sequence_flags = 1
    defaults.trace_packet_defaults.track_event_defaults.track_uuid = 1
    defaults.trace_packet_defaults.timestamp_clock_id = 1

    def track(key, name, parent=0):
        if key not in tracks:
            tracks[key] = 1234567 + len(tracks)
            described = packet().track_descriptor
            described.uuid, described.name = tracks[key], name
            if parent:
                described.parent_uuid = parent
            else:
                described.process.pid, described.process.process_name = len(tracks), name
        return tracks[key]

    ends = [(start, 1, bar) for bar in bars for start in bar[3:4]] + [(bar[4], 0, bar) for bar in bars]
    for time, opens, (block, group, name, *_) in sorted(ends, key=lambda end: end[:2]):
        process = track(("sm", block), f"SM_{5 + block:03d}")
        own = track((block, group), f"blk{block}_g{group}", process)
        event = packet()
        event.timestamp, event.track_event.track_uuid = time, own
        if not opens:
            event.track_event.type = TrackEvent.TYPE_SLICE_END
            continue
        event.track_event.type = TrackEvent.TYPE_SLICE_BEGIN
        if name not in names:
            names[name] = len(names) + 1
            event.interned_data.event_names.add(iid=names[name], name=name)
        event.track_event.name_iid = names[name]
    data = trace.SerializeToString()
    return gzip.compress(data) if packed else data


# ---- nanotrace ----


def _text(size, value):
    return struct.pack(f"<{size}", len(value.encode())) + value.encode()


def nanotrace_old(bars=BARS, compress=True):
    """Version 1, with a lane of a block for each warp."""
    names = list(dict.fromkeys(bar[2] for bar in bars))
    formats = [("Block {blockLinear}", 0), ("Warp {lane}", 0), *((f"{name} {{0}}", 1) for name in names)]
    blocks = list(dict.fromkeys(bar[0] for bar in bars))
    lanes = list(dict.fromkeys(bar[:2] for bar in bars))
    body = _text("H", "attention") + struct.pack("<6I", 4, 1, 1, 0, 0, 0)
    body += struct.pack("<3IQ", len(formats), len(blocks), len(lanes), len(bars))
    for label, parameters in formats:
        body += _text("H", label) + _text("H", label) + struct.pack("<B", parameters)
    for block in blocks:
        body += struct.pack("<2I2H", block, 0, 5 + block, 0)
    for block, warp in lanes:
        own = [bar for bar in bars if bar[:2] == (block, warp)]
        body += struct.pack("<IHI", blocks.index(block), 1, warp) + struct.pack("<I", len(own))
        for n, (*_, name, start, end) in enumerate(own):
            body += struct.pack("<2IHI", start, end - start, 2 + names.index(name), n)
    return b"nanotrace\0" + struct.pack("<2B", 1, compress) + (zlib.compress(body, 6) if compress else body)


def _varuint(value):
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def nanotrace(bars=BARS, compress=True, hertz=10**9):
    """Version 4, with the tracks of a kernel: SM, block, warp."""
    strings, tracks = [""], []

    def interned(text):
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    def track(name, kind, parent, source):
        own = struct.pack("<IIBBHiIQ", 2, interned(name), kind, 0, 0, source, 0, source)
        known = [at for at, one in enumerate(tracks) if one == (parent, own)]
        if not known:
            tracks.append((parent, own))
        return known[0] + 1 if known else len(tracks)

    kernel, events, last = track("attention", 4, 0, 0), b"", {}
    for n, (block, warp, name, start, end) in enumerate(bars):
        of_block = track(f"Block {block}", 6, track(f"SM {5 + block}", 5, kernel, 5 + block), block)
        own = track(f"Warp {warp}", 7, of_block, warp)
        delta = ZERO + start - last.get(own, 0)
        last[own] = ZERO + start
        events += _varuint(own) + _varuint(2 * delta if delta >= 0 else -2 * delta - 1) + _varuint(end - start)
        events += _varuint(interned(f"{name} {{0}}")) + bytes([0x10]) + _varuint(n) + _varuint(1)
    events += _varuint(1) + _varuint(0) + _varuint(0) + _varuint(interned("a bookmark")) + bytes([1])
    arguments = b"".join(_varuint(interned("tile")) + bytes([0]) + _varuint(n) for n in range(len(bars)))
    clocks = struct.pack("<IBBHIIQ", 1, 0, 0, 0, interned("CLOCK_MONOTONIC_RAW"), 0, 10**9)
    clocks += struct.pack("<IBBHIIQ", 2, 3, 0, 0, interned("GPU global timer"), 0, hertz)
    chunks = [
        (1, 1, _text("I", "session") + struct.pack("<2I", 1, 0)),
        (2, len(strings), b"".join(_text("I", text) for text in strings)),
        (3, 2, clocks),
        (4, 1, struct.pack("<2I3Q", 2, 1, ZERO, 0, 0)),
        (5, len(tracks), b"".join(struct.pack("<2Q", n, parent) + own for n, (parent, own) in enumerate(tracks, 1))),
        (6, len(bars) + 1, _varuint(len(bars) + 1) + events),
        (7, len(bars), arguments),
        (99, 1, b"a chunk of a later version"),
    ]
    body = b"".join(struct.pack("<2I2Q", kind, 0, len(data), count) + data for kind, count, data in chunks)
    stored = zlib.compress(body, 1) if compress else body
    head = b"NTRACE4\0" + struct.pack("<2H2BH2Q", 4, 0, 1, int(compress), 0, len(body), len(stored))
    return head + stored


# ---- JSON trace events, as nanotrace's port writes them ----


def events(bars=BARS):
    lanes = list(dict.fromkeys(bar[:2] for bar in bars))
    made = [{"ph": "M", "pid": 0, "tid": 0, "name": "process_name", "args": {"name": "attention"}}]
    for n, (block, warp) in enumerate(lanes):
        thread = {"ph": "M", "pid": 0, "tid": n, "name": "thread_name"}
        made.append(thread | {"args": {"name": f"Block {block} / Warp {warp}"}})
        for bar in (bar for bar in bars if bar[:2] == (block, warp)):
            times = {"ts": bar[3] / 1000.0, "dur": (bar[4] - bar[3]) / 1000.0}
            named = {
                "name": f"{bar[2]} {{0}}",
                "ph": "X",
                "cat": "gpu",
                "args": {"sm_id": 5, "param0": bars.index(bar)},
            }
            made.append(named | times | {"pid": 0, "tid": n})
    return json.dumps(made).encode()


# ---- Nsight Compute ----

REASONS = ("barrier", "long_sb", "math", "selected", "short_sb", "wait")


def _csv(rows):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cells(counts):
    whole = sum(counts.values())
    return [str(whole), str(whole), *(str(counts.get(reason, 0)) for reason in REASONS), str(counts.get("wait", 0))]


COLUMNS = [
    "Warp Stall Sampling (All Samples)",
    "# Samples",
    *(f"stall_{reason}" for reason in REASONS),
    "stall_wait (Not Issued)",
]


def ncu(path, lines, kernel="attention(float *)"):
    """--print-source cuda,sass. lines: (number, text, [(address, instruction, counts), ...])."""
    rows = [["File Path", path], ["Function Name", kernel], ["Line No", "Source", "Address", "Source", *COLUMNS]]
    for number, text, instructions in lines:
        sums = {reason: sum(counts.get(reason, 0) for *_, counts in instructions) for reason in REASONS}
        rows.append([str(number), text, "-", "-", *_cells(sums)])
        rows += [["", "", f"{address:#x}", f"      {sass} ", *_cells(counts)] for address, sass, counts in instructions]
    return b"==PROF== Connected to process 12\n" + _csv(rows)


def ncu_sass(instructions, kernel="attention(float *)"):
    """--print-source sass. instructions: (instruction, counts)."""
    rows = [["Kernel Name", kernel], ["Address", "Source", *COLUMNS]]
    rows += [
        [f"{0x7FC48541D900 + 16 * n:#x}", f"      {sass} ", *_cells(counts)]
        for n, (sass, counts) in enumerate(instructions)
    ]
    return _csv(rows)
