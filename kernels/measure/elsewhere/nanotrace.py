"""Reads .nanotrace files, versions 1 and 4.

The format of version 4: aikitoria/nanotrace, docs/nanotrace.md, written by `TraceSession::Write` in
nanotrace-cuda/src/session.cpp. Version 1, with the sizes of the grid: the same file before version 4, written by
`TraceWriter.write` of b-albar/cutedsl-trace, cutedsl_trace/host.py. Older files say version 1 too, and have no sizes.
They end in the middle of a record, or say that a number is too large.

A group is a block of a kernel, and a lane is a lane of the block. Each group keeps the clock of its tracks: its times
need no other clock, so snapshots of clocks are not read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kernels.errors import TraceError
from kernels.measure.elsewhere.cursor import Cursor, inflated
from kernels.measure.elsewhere.record import MOST_EVENTS, Bars, Trace, short, too_many

T = TypeVar("T")
WRITER = "nanotrace"
OLD, NEW = b"nanotrace\0", b"NTRACE4\0"
CLOCKS = ("CLOCK_MONOTONIC_RAW", "the CPU's counter of cycles", "CUPTI's clock", "the GPU's %globaltimer")
GPU_CLOCK = 3  # its place in CLOCKS
STRINGS, CLOCK, TRACKS, EVENTS, ARGUMENTS = 2, 3, 5, 6, 7  # types of chunks
MOST_RECORDS = 8 * MOST_EVENTS  # of a chunk: an event has a few arguments
BLOCK, MOST_DEPTH = 6, 16  # the kind of a thread block's track; tracks above a track
SLICE, WITH_ARGUMENTS = 0, 0x10  # the kind of an event, and the flag of its arguments
OPTIONAL = ((0x04, 1), (0x08, 1), (WITH_ARGUMENTS, 2), (0x20, 1))  # flag -> the numbers that it adds to an event
SIGNED, FLOATING = 1, 2  # kinds of an argument


def is_mine(data: bytes) -> bool:
    return data.startswith((OLD, NEW))


def read(data: bytes, file: str) -> Trace:
    """Raises TraceError for other content."""
    return _new(data, file) if data.startswith(NEW) else _old(data, file)


def filled(label: str, values: list[int], known: dict[str, int] | None = None) -> str:
    """A label with its places filled: {0} by the first value, {lane} by the known one of that name."""
    for name, value in {**{str(n): value for n, value in enumerate(values)}, **(known or {})}.items():
        label = label.replace(f"{{{name}}}", str(value))
    return label


# ---- version 1 ----


def _old(data: bytes, file: str) -> Trace:
    head = Cursor(data, file)
    head.take(len(OLD))
    version, packed = head.number(1), head.number(1)
    if version != 1 or packed > 1:
        raise TraceError(f"{file} has version {version} of nanotrace, packed as {packed}. Versions 1 and 4 are read.")
    body = Cursor(inflated(data[head.at :], file) if packed else data[head.at :], file)
    kernel, grid = body.text(body.number(2)), [body.number(4) for _ in range(3)]
    body.take(12)  # the size of a cluster
    formats, blocks, tracks, events = body.number(4), body.number(4), body.number(4), body.number(8)
    if events > MOST_EVENTS:
        raise too_many(file)
    labels: list[tuple[str, int]] = []
    for _ in range(_possible(formats, body, 5)):
        label = short(body.text(body.number(2)))
        body.take(body.number(2))  # the text of a tip
        labels.append((label, body.number(1)))
    held: list[tuple[int, int]] = []
    for _ in range(_possible(blocks, body, 12)):
        block, _, sm, _ = body.number(4), body.number(4), body.number(2), body.number(2)  # and its cluster and label
        held.append((block, sm))
    bars = Bars(file, WRITER, CLOCKS[GPU_CLOCK])
    for _ in range(_possible(tracks, body, 14)):
        block, sm = _at(held, body.number(4), file, "block")
        label, count = _at(labels, body.number(2), file, "label")
        lane = filled(label, [], {"lane": body.number(4)})
        lane = filled(lane, [body.number(4) for _ in range(count)])
        place = _coordinates(block, grid)
        for _ in range(_possible(body.number(4), body, 10)):
            start, lasts = body.number(4), body.number(4)
            said, count = _at(labels, body.number(2), file, "label")
            said = filled(said, [body.number(4) for _ in range(count)])
            bars.add(f"{short(kernel)}, block {place}, SM {sm}", lane, said, start, start + lasts)
    return bars.trace()


def _coordinates(block: int, grid: list[int]) -> str:
    wide, high = max(1, grid[0]), max(1, grid[1])
    return f"({block % wide}, {block // wide % high}, {block // (wide * high)})"


def _possible(count: int, cursor: Cursor, least: int) -> int:
    """A count of records of at least so many bytes. Raises TraceError if they do not fit into the rest, or for too
    many."""
    if count > MOST_RECORDS:
        raise too_many(cursor.file)
    if count * least > cursor.left:
        raise TraceError(
            f"{cursor.file} announces {count:,} records at byte {cursor.at:,}, and only {cursor.left:,} bytes follow. "
            "Copy the file again."
        )
    return count


def _at(known: Sequence[T], index: int, file: str, what: str) -> T:
    if index < len(known):
        return known[index]
    raise TraceError(f"{file}: {what} {index} of {len(known)} is named. Write the file again.")


# ---- version 4 ----


@dataclass(frozen=True)
class _Track:
    parent: int
    clock: int
    name: int
    kind: int


@dataclass
class _Session:
    strings: list[str] = field(default_factory=list)
    clocks: dict[int, tuple[int, int]] = field(default_factory=dict)  # id -> its kind and its Hz
    tracks: dict[int, _Track] = field(default_factory=dict)
    arguments: list[int] = field(default_factory=list)


def _new(data: bytes, file: str) -> Trace:
    head = Cursor(data, file)
    head.take(len(NEW))
    major, minor, order, flags = head.number(2), head.number(2), head.number(1), head.number(1)
    if major != 4 or order != 1 or flags > 1:
        raise TraceError(
            f"{file} has version {major}.{minor} of nanotrace, byte order {order} and flags {flags}. "
            "Version 4 in little-endian order is read. Write it with that version."
        )
    head.take(2)
    whole, stored = head.number(8), head.number(8)
    body = head.take(stored)
    body = inflated(body, file) if flags else body
    if len(body) != whole:
        raise TraceError(f"{file} announces {whole:,} bytes of chunks, and has {len(body):,}. Copy the file again.")
    chunks = dict(_chunks(Cursor(body, file)))
    session = _Session()
    for kind, take in ((STRINGS, _strings), (CLOCK, _clocks), (TRACKS, _tracks), (ARGUMENTS, _arguments)):
        if kind in chunks:
            take(session, *chunks[kind])
    if EVENTS not in chunks:
        raise TraceError(f"{file} has no chunk of events. Record events, and open the file again.")
    return _events(session, *chunks[EVENTS], file)


def _chunks(body: Cursor) -> Iterator[tuple[int, tuple[Cursor, int]]]:
    """The type, the payload and the count of records of each chunk. Unknown types are left out by the caller."""
    while body.left:
        kind, _, size, count = body.number(4), body.number(4), body.number(8), body.number(8)
        yield kind, (Cursor(body.take(size), body.file), count)


def _strings(session: _Session, body: Cursor, count: int) -> None:
    session.strings = [short(body.text(body.number(4))) for _ in range(_possible(count, body, 4))]


def _clocks(session: _Session, body: Cursor, count: int) -> None:
    for _ in range(_possible(count, body, 24)):
        name, kind = body.number(4), body.number(1)
        body.take(11)  # flags, reserved bytes, the name and the device
        session.clocks[name] = kind, body.number(8)


def _tracks(session: _Session, body: Cursor, count: int) -> None:
    for _ in range(_possible(count, body, 44)):
        own, parent = body.number(8), body.number(8)
        session.tracks[own] = _Track(parent, body.number(4), body.number(4), body.number(1))
        body.take(19)  # flags, reserved bytes, the order and the id of its source


def _arguments(session: _Session, body: Cursor, count: int) -> None:
    for _ in range(_possible(count, body, 3)):
        body.varuint()  # its name
        kind = body.number(1)
        value = body.number(8) if kind == FLOATING else body.varuint()
        session.arguments.append(_zigzag(value) if kind == SIGNED else value)


def _events(session: _Session, body: Cursor, count: int, file: str) -> Trace:
    if count > MOST_EVENTS:
        raise too_many(file)
    body.varuint()  # the count again
    places = {own: _place(session, own) for own in session.tracks}
    shown = {kind for track in session.tracks.values() if (kind := session.clocks.get(track.clock, (9, 0))[0]) < 4}
    clock = CLOCKS[GPU_CLOCK] if GPU_CLOCK in shown else " and ".join(CLOCKS[kind] for kind in sorted(shown))
    bars, times, other = Bars(file, WRITER, clock or "its own clock"), dict[int, int](), 0
    for _ in range(_possible(count, body, 5)):
        own, delta, lasts, name, flags = body.varuint(), body.varuint(), body.varuint(), body.varuint(), body.number(1)
        numbers = {flag: [body.varuint() for _ in range(more)] for flag, more in OPTIONAL if flags & flag}
        if own not in session.tracks:
            raise TraceError(f"{file}: an event is on track {own}, which the file lacks. Write the file again.")
        times[own] = start = times.get(own, 0) + _zigzag(delta)
        if flags & 3 != SLICE:
            other += 1
            continue
        first, values = numbers.get(WITH_ARGUMENTS, [0, 0])
        label = filled(_at(session.strings, name, file, "text"), session.arguments[first : first + min(values, 8)])
        hertz = session.clocks.get(session.tracks[own].clock, (0, 0))[1]
        if not hertz:
            raise TraceError(f"{file}: the clock of track {own} has no frequency. Write the file again.")
        bars.add(*places[own], label, start, start + lasts, 1e9 / hertz)
    return bars.trace(events_without_a_length=other)


def _place(session: _Session, own: int) -> tuple[str, str]:
    """The group and the lane of a track: the way down to its block, else to its parent, and the rest."""
    way: list[tuple[str, int]] = []
    at = own
    while at in session.tracks and len(way) < MOST_DEPTH:
        track = session.tracks[at]
        name = session.strings[track.name] if track.name < len(session.strings) else f"track {at}"
        way.insert(0, (name, track.kind))
        at = track.parent
    names = [name for name, _ in way]
    cut = next((n + 1 for n, (_, kind) in enumerate(way) if kind == BLOCK), max(1, len(way) - 1))
    return ", ".join(names[:cut]), ", ".join(names[cut:]) or names[-1]


def _zigzag(value: int) -> int:
    return value // 2 if value % 2 == 0 else -(value + 1) // 2
