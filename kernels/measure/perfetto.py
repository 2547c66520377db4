"""A Pipeline as a file of Perfetto (https://ui.perfetto.dev). Each writer of each block has a track, with its bars as
slices with keys and source line. Each kind of work in flight has a track next to it."""

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from kernels.errors import BackendUnavailable
from kernels.measure.pipeline_bars import bars, in_flight
from kernels.measure.pipelines import Pipeline, keys_of

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

Bar = Mapping[Hashable, str | float]


class _Tracks:
    """Tracks of a file under construction, and their slices in the order of time."""

    def __init__(self, builder: "TraceProtoBuilder") -> None:
        self.builder = builder
        self.slices: list[tuple[int, int, Bar | None]] = []  # ns, track, the bar or None at its end
        self._made = 0

    def add(self, name: str, parent: int = 0) -> int:
        """A new track's number."""
        self._made += 1
        described = self.builder.add_packet().track_descriptor
        described.uuid, described.name = self._made, name
        if parent:
            described.parent_uuid = parent
        return self._made

    def fill(self, track: int, shown: pd.DataFrame) -> None:
        """Adds each bar of `shown` to a track."""
        for row in shown.to_dict("records"):
            self.slices += [(round(row["start_ns"]), track, row), (round(row["end_ns"]), track, None)]

    def ordered(self) -> list[tuple[int, int, Bar | None]]:
        """All slices by time. Ends come before starts."""
        return sorted(self.slices, key=lambda s: (s[0], s[2] is not None))


def encode(made: Pipeline) -> bytes:
    """The file's bytes. BackendUnavailable without the perfetto wheel."""
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except ImportError as error:
        raise BackendUnavailable(
            f"The perfetto wheel could not be loaded ({error}). Run: pip install -r app/requirements.txt"
        ) from None
    tracks = _Tracks(TraceProtoBuilder())
    for (launch, block), there in made.writers.groupby(["launch", "block"]):
        of_block = tracks.add(f"launch {launch}, block {block}, multiprocessor {there.sm.iloc[0]}")
        _fill_block(tracks, of_block, made, int(launch), int(block))
    keys = keys_of(made.marks)
    for at, track, row in tracks.ordered():
        packet = tracks.builder.add_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = at, 1
        event = packet.track_event
        event.track_uuid = track
        event.type = TrackEvent.TYPE_SLICE_END if row is None else TrackEvent.TYPE_SLICE_BEGIN
        if row is not None:
            event.name = str(row["event"])
            _annotate(event, {"line": row["place"], **{key: row[key] for key in keys if not pd.isna(row[key])}})
    return tracks.builder.serialize()


def _fill_block(tracks: _Tracks, of_block: int, made: Pipeline, launch: int, block: int) -> None:
    """A track for each writer of a block, and under it one for each kind of work in flight."""
    shown = bars(made, block, launch)
    flight = in_flight(shown)
    for writer, mine in shown.groupby("writer"):
        role = next((r for r in mine.role if r), "")
        own = tracks.add(f"{made.noun} {writer}{f', {role}' if role else ''}", of_block)
        tracks.fill(own, mine)
        for event, on_its_way in flight[flight.writer == writer].groupby("event"):
            tracks.fill(tracks.add(f"{event} in flight", own), on_its_way)


def _annotate(event: "TrackEvent", values: Bar) -> None:
    """Adds names and values to a slice."""
    for name, value in values.items():
        said = event.debug_annotations.add()
        said.name = str(name)
        if isinstance(value, str):
            said.string_value = value
        else:
            said.int_value = int(value)
