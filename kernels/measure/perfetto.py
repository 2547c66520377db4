"""A Pipeline as a file of Perfetto (https://ui.perfetto.dev). Each writer of each block has a track, with its bars as
slices with keys and source line. Each kind of work in flight has a track next to it."""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager

import pandas as pd

from kernels.errors import BackendUnavailable
from kernels.measure.pipeline_bars import bars, in_flight
from kernels.measure.pipelines import Pipeline, keys_of

Bar = Mapping[Hashable, str | float]


@contextmanager
def wheel() -> Iterator[None]:
    """Within it, an import of the perfetto wheel that fails raises BackendUnavailable."""
    try:
        yield
    except ImportError as error:
        raise BackendUnavailable(
            f"The perfetto wheel could not be loaded ({error}). Run: pip install -r app/requirements.txt"
        ) from None


def encode(made: Pipeline) -> bytes:
    """The file's bytes. BackendUnavailable without the perfetto wheel."""
    with wheel():
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    builder = TraceProtoBuilder()
    tracks = 0
    ends: list[tuple[int, int, Bar | None]] = []  # ns, track, the bar at its start and None at its end

    def track(name: str, parent: int = 0, shown: pd.DataFrame | None = None) -> int:
        """The number of a new track, with these bars."""
        nonlocal tracks
        tracks += 1
        described = builder.add_packet().track_descriptor
        described.uuid, described.name = tracks, name
        if parent:
            described.parent_uuid = parent
        for row in [] if shown is None else shown.to_dict("records"):
            ends.extend([(round(row["start_ns"]), tracks, row), (round(row["end_ns"]), tracks, None)])
        return tracks

    for (launch, block), there in made.writers.groupby(["launch", "block"]):
        of_block = track(f"launch {launch}, block {block}, multiprocessor {there.sm.iloc[0]}")
        shown = bars(made, int(block), int(launch))
        flight = in_flight(shown)
        for writer, mine in shown.groupby("writer"):
            role = next((r for r in mine.role if r), "")
            own = track(f"{made.noun} {writer}{f', {role}' if role else ''}", of_block, mine)
            for event, on_its_way in flight[flight.writer == writer].groupby("event"):
                track(f"{event} in flight", own, on_its_way)

    keys = keys_of(made.marks)
    for at, number, row in sorted(ends, key=lambda end: (end[0], end[2] is not None)):  # ends come before starts
        packet = builder.add_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = at, 1
        packet.track_event.track_uuid = number
        packet.track_event.type = TrackEvent.TYPE_SLICE_END if row is None else TrackEvent.TYPE_SLICE_BEGIN
        if row is None:
            continue
        packet.track_event.name = str(row["event"])
        for name, value in {"line": row["place"], **{key: row[key] for key in keys if not pd.isna(row[key])}}.items():
            noted = packet.track_event.debug_annotations.add()
            noted.name = str(name)
            if isinstance(value, str):
                noted.string_value = value
            else:
                noted.int_value = int(value)
    return builder.serialize()
