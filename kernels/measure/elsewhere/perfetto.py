"""Reads track events of a Perfetto trace. FlashInfer's profiler writes them (flashinfer/profiler/__init__.py,
`export_to_perfetto_trace`, with tg4perfetto's _core.py), and so do IKET (`--postprocess perfetto`, also as
.pftrace.gz) and Warpglass (kernels/measure/perfetto.py).

The format: google/perfetto, protos/perfetto/trace/perfetto_trace.proto, with the rules of TrackEvent: the file is a
message with packets as its field 1, a name can be a number of the packet sequence's interned names, and the end of a
slice ends the newest open one of its track. The proto classes of the perfetto wheel parse one packet after the other.

A group is the innermost track whose name names a block (CTA, block, blk, WG), else the outermost one. FlashInfer's
track "blk3_g1" is the lane g1 of the group blk3."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from kernels.errors import TraceError
from kernels.measure.elsewhere.cursor import Cursor
from kernels.measure.elsewhere.record import MOST_EVENTS, Bars, Trace, short, too_many
from kernels.measure.perfetto import wheel

CLOCK = "its profiler's"
FLASHINFER = "FlashInfer's profiler"
GLOBALTIMER = "the low 32 bits of %globaltimer"
PACKET = 0x0A  # the tag of field 1 with a length
MOST_PACKETS = 4 * MOST_EVENTS  # a slice takes two, and a track one
MOST_PACKET = 2**20  # bytes: a slice takes about 30
MOST_DEPTH = 16  # tracks above a track
BLOCK = re.compile(r"(?i)(?<![a-z])(cta|block|blk|wg)(?![a-z])")
GROUP = re.compile(r"(blk\d+)_(g\d+)")  # a track of FlashInfer
SM = re.compile(r"SM_\d{3}")  # a process of FlashInfer
CLEARED = 1  # SEQ_INCREMENTAL_STATE_CLEARED: the interned names before it no longer count


@dataclass
class _Sequence:
    """The state of a packet sequence: its interned names, and the defaults of its packets."""

    names: dict[int, str] = field(default_factory=dict)
    track: int = 0


@dataclass(frozen=True)
class _Track:
    name: str
    parent: int


def is_mine(data: bytes) -> bool:
    """Whether the first packet of a trace starts the bytes."""
    return data[:1] == bytes([PACKET])


def read(data: bytes, file: str) -> Trace:
    """Raises TraceError for other content, and BackendUnavailable without the perfetto wheel."""
    with wheel():
        from google.protobuf.message import DecodeError
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket
    reading = _Reading(file)
    cursor = Cursor(data, file)
    for n in range(MOST_PACKETS + 1):
        if not cursor.left:
            break
        if n == MOST_PACKETS:
            raise too_many(file)
        at = cursor.at
        if cursor.number(1) != PACKET:
            raise TraceError(f"{file}: byte {at:,} starts no packet of Perfetto. Copy the file again.")
        if (size := cursor.varuint()) > MOST_PACKET:
            raise TraceError(f"{file}: the packet at byte {at:,} has {size:,} bytes. At most {MOST_PACKET:,} are read.")
        try:
            packet = TracePacket.FromString(cursor.take(size))
        except DecodeError:
            raise TraceError(f"{file}: the packet at byte {at:,} is damaged. Copy the file again.") from None
        reading.take(packet)
    return reading.trace()


class _Reading:
    def __init__(self, file: str):
        self.file = file
        self.sequences = defaultdict[int, _Sequence](_Sequence)
        self.tracks: dict[int, _Track] = {}
        self.open = defaultdict[int, list[tuple[str, int]]](list)
        self.made: list[tuple[int, str, int, int]] = []  # track, name, start, end
        self.other = 0

    def take(self, packet: Any) -> None:
        """A packet, in the order of the file."""
        own = self.sequences[packet.trusted_packet_sequence_id]
        if packet.sequence_flags & CLEARED:
            own.names.clear()
        if packet.HasField("compressed_packets"):
            raise TraceError(f"{self.file} holds compressed packets. Write it without compression, and open it again.")
        if any(clock.is_incremental for clock in packet.clock_snapshot.clocks):
            raise TraceError(f"{self.file} has a clock that counts from packet to packet. Such times are not read.")
        if packet.trace_packet_defaults.HasField("track_event_defaults"):
            own.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        for name in packet.interned_data.event_names:
            own.names[name.iid] = short(name.name)
        if packet.HasField("track_descriptor"):
            found = packet.track_descriptor
            name = found.name or found.static_name or found.process.process_name or found.thread.thread_name
            self.tracks[found.uuid] = _Track(short(name), found.parent_uuid)
        if packet.HasField("track_event"):
            self._event(packet.track_event, own, packet.timestamp)

    def _event(self, event: Any, own: _Sequence, time: int) -> None:
        track = event.track_uuid if event.HasField("track_uuid") else own.track
        if event.type == event.TYPE_SLICE_BEGIN:
            name = event.name or own.names.get(event.name_iid, f"name {event.name_iid}")
            self.open[track].append((name, time))
        elif event.type == event.TYPE_SLICE_END and self.open[track]:
            name, start = self.open[track].pop()
            self.made.append((track, name, start, time))
            if len(self.made) > MOST_EVENTS:
                raise too_many(self.file)
        else:
            self.other += 1

    def trace(self) -> Trace:
        ways = {track: self._way(track) for track in dict.fromkeys(track for track, *_ in self.made)}
        flashinfer = bool(ways) and all(
            len(way) == 2 and SM.fullmatch(way[0]) and GROUP.fullmatch(way[1]) for way in ways.values()
        )
        bars = Bars(self.file, *((FLASHINFER, GLOBALTIMER) if flashinfer else ("Perfetto", CLOCK)))
        for track, name, start, end in self.made:
            bars.add(*_place(ways[track]), name, start, end)
        unended = sum(map(len, self.open.values()))
        return bars.trace(bars_without_an_end=unended, events_without_a_length=self.other)

    def _way(self, track: int) -> list[str]:
        """The names from the outermost track to a track. A circle of tracks ends at MOST_DEPTH."""
        names: list[str] = []
        while track in self.tracks and len(names) < MOST_DEPTH:
            names.insert(0, self.tracks[track].name or f"track {track}")
            track = self.tracks[track].parent
        return names or [f"track {track}"]


def _place(way: list[str]) -> tuple[str, str]:
    """The group and the lane of a track."""
    if found := GROUP.fullmatch(way[-1]):
        return ", ".join([found[1], *way[:-1]]), found[2]
    at = next((n for n in reversed(range(len(way))) if BLOCK.search(way[n])), 0)
    return ", ".join(way[: at + 1]), ", ".join(way[at + 1 :]) or way[-1]
