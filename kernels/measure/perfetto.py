"""A Pipeline as a file of Perfetto (https://ui.perfetto.dev). Each writer of each block has a track, with its bars as
slices with keys and source line. Each kind of work in flight has a track next to it."""

from typing import Any

import pandas as pd

from kernels.errors import BackendUnavailable
from kernels.measure.pipeline_bars import bars, in_flight, keys_of
from kernels.measure.pipelines import Pipeline


def encode(made: Pipeline) -> bytes:
    """The file's bytes. BackendUnavailable without the perfetto wheel."""
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except ImportError as error:
        raise BackendUnavailable(
            f"The perfetto wheel could not be loaded ({error}). Install requirements.txt."
        ) from None
    builder, slices = TraceProtoBuilder(), list[tuple[int, int, Any]]()
    numbers = iter(range(1, 2**62))

    def track(name: str, parent: int = 0) -> int:
        packet, uuid = builder.add_packet(), next(numbers)
        packet.track_descriptor.uuid, packet.track_descriptor.name = uuid, name
        if parent:
            packet.track_descriptor.parent_uuid = parent
        return uuid

    def add(uuid: int, shown: pd.DataFrame) -> None:
        for row in shown.to_dict("records"):
            slices.append((round(row["start_ns"]), uuid, row))
            slices.append((round(row["end_ns"]), uuid, None))

    keys = keys_of(made.marks)
    for (launch, block), there in made.writers.groupby(["launch", "block"]):
        of_block = track(f"launch {launch}, block {block}, multiprocessor {there.sm.iloc[0]}")
        shown = bars(made, int(block), int(launch))
        flight = in_flight(shown)
        for writer, mine in shown.groupby("writer"):
            role = next((r for r in mine.role if r), "")
            own = track(f"{made.noun} {writer}{f', {role}' if role else ''}", of_block)
            add(own, mine)
            for event, on_its_way in flight[flight.writer == writer].groupby("event"):
                add(track(f"{event} in flight", own), on_its_way)
    for at, uuid, row in sorted(slices, key=lambda s: (s[0], s[2] is not None)):  # ends come before starts
        packet = builder.add_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = at, 1
        event = packet.track_event
        event.track_uuid = uuid
        event.type = TrackEvent.TYPE_SLICE_END if row is None else TrackEvent.TYPE_SLICE_BEGIN
        if row is None:
            continue
        event.name = row["event"]
        for name, value in [("line", row["place"])] + [(k, row[k]) for k in keys if not pd.isna(row[k])]:
            said = event.debug_annotations.add()
            said.name = name
            if isinstance(value, str):
                said.string_value = value
            else:
                said.int_value = int(value)
    return builder.serialize()
