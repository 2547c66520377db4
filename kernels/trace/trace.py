"""Decodes raw probe records to a Trace: a tidy Arrow table with its provenance, its Parquet form and its compact form.

The compact form is for recordings. Close numbers are next to each other, and the columns that follow from a record's
probe are left out. Its rows are sorted by event, keys, launch, block, warp, seq and lane. If two kernels log equal
values for equal keys, their columns of values are equal. A trace's own order is by launch, block, thread and seq.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kernels.errors import TraceError
from kernels.trace.probes import AFTER_KEYS, BEFORE_KEYS, MAX_KEYS, OUT_OF_RANGE, RECORD, Sites

FORMAT = 2
"""The version of the Parquet form. Format 1 had no version, no file and no role."""
_METADATA = b"warpglass"
_WORDS = pa.dictionary(pa.int32(), pa.string())
_TYPES = {name: pa.int32() for name in (*BEFORE_KEYS, "bytes")}
_TYPES |= {name: _WORDS for name in ("file", "event", "role", "space", "tensor")}
_TYPES |= {"value": pa.float32(), "offset": pa.int64()}


@dataclass(frozen=True)
class RawRecords:
    """The probe buffer of one launch.

    records: [threads, capacity] of probes.RECORD, thread by thread in block order from `first_block`.
    counts: [threads], the records of each thread, kept or not."""

    launch: int
    first_block: int
    threads_per_block: int
    records: np.ndarray
    counts: np.ndarray

    @property
    def lost(self) -> int:
        return int(np.maximum(self.counts.astype(np.int64) - self.records.shape[1], 0).sum())


@dataclass(frozen=True)
class Trace:
    """The records of a probed run.

    table: a row for each record, thread by thread, with these columns:
        launch: 0, 1, ... in order.
        block: of the launch, x fastest.
        thread, warp, lane: of the block, of the block, of the warp.
        seq: the record's number in its thread.
        role: of the thread then, or null before any PROBE_ROLE.
        A column of int32 for each key, null for an event without it.
        value: float32, only for values.
        space, tensor, offset, bytes: only for accesses. The offset is in bytes from the tensor's base.
    lost: the number of records without room.
    provenance: kernel, problem, backend, device and so on, as text."""

    table: pa.Table
    lost: int
    provenance: dict[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(name for name in self.table.column_names if name not in _TYPES)

    def frame(self, *columns: str) -> pd.DataFrame:
        """The table, or some of its columns, as pandas. A key with nulls becomes float."""
        return (self.table.select(columns) if columns else self.table).to_pandas()

    def save(self, path: str | Path | BinaryIO) -> None:
        """Writes the trace as Parquet. The same trace always gives the same bytes."""
        metadata = json.dumps({"format": FORMAT, "lost": self.lost, **self.provenance}, sort_keys=True)
        pq.write_table(self.table.replace_schema_metadata({_METADATA: metadata.encode()}), path, compression="zstd")

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """The trace in a Parquet file of `save`. Raises TraceError for another file or version."""
        path = Path(path)
        try:
            table = pq.read_table(path)
            provenance = json.loads(table.schema.metadata[_METADATA])
            lost, version = int(provenance.pop("lost")), provenance.pop("format", 1)
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError, AttributeError) as error:
            raise TraceError(f"{path.name} is not a Warpglass trace: {str(error).rstrip('.')}. {_anew(path)}") from None
        if version != FORMAT:
            raise TraceError(
                f"{path.name} is a trace of format {version}. This Warpglass reads format {FORMAT}. {_anew(path)}"
            )
        wrong = [n for n, kind in _TYPES.items() if n not in table.column_names or table.schema.field(n).type != kind]
        if wrong:
            named = ", ".join(wrong)
            raise TraceError(f"{path.name} is not a Warpglass trace: no proper column {named}. {_anew(path)}")
        return cls(table.replace_schema_metadata(None), lost, provenance)


def _anew(path: Path) -> str:
    return (
        f"Make it anew with python -m kernels run KERNEL --trace {path.name}, or a recording with python -m kernels "
        "record."
    )


def decode(raw_records: Sequence[RawRecords], sites: Sites, provenance: Mapping[str, str] | None = None) -> Trace:
    """A Trace from the RawRecords of each launch.

    sites: of the compiled source (probes.sites_of).
    Raises TraceError for a key out of range, or for records of another source."""
    tables = [_decode_launch(raw, sites) for raw in raw_records]
    return Trace(pa.concat_tables(tables), sum(raw.lost for raw in raw_records), dict(provenance or {}))


def _decode_launch(raw: RawRecords, sites: Sites) -> pa.Table:
    records, kept, seq = _flatten(raw)
    place = _places(records, sites)
    slots = np.arange(len(kept), dtype=np.int32)
    payload = records["payload"].copy()
    positions = {
        "launch": np.full(len(records), raw.launch, np.int32),
        "block": np.repeat(slots // raw.threads_per_block + np.int32(raw.first_block), kept),
        "thread": np.repeat(slots % np.int32(raw.threads_per_block), kept),
        "seq": seq,
    }
    keys = _key_columns(records["keys"], payload, place, sites)
    low_words = payload.astype(np.uint32).view(np.float32)
    return assemble(positions, place, keys, low_words, payload.view(np.int64), sites)


def assemble(
    positions: Mapping[str, np.ndarray],
    place: np.ndarray,
    keys: Mapping[str, pa.Array],
    value: np.ndarray,
    offset: np.ndarray,
    sites: Sites,
) -> pa.Table:
    """The table of a Trace from records in its order, thread by thread.

    positions: launch, block, thread and seq, int32 [records].
    place: the number of each record's probe in `sites`.
    keys: name -> int32 column, null where the probe has no such key.
    value: float32 [records], read where the probe logs a value.
    offset: int64 [records], read where the probe logs an access."""
    not_value = np.array([s.kind != "value" for s in sites], bool).take(place)
    not_access = np.array([s.kind != "access" for s in sites], bool).take(place)
    thread = positions["thread"]
    columns = {
        **positions,
        "warp": thread >> 5,
        "lane": thread & 31,
        "file": _words([s.file for s in sites], place),
        "line": np.array([s.line for s in sites], np.int32).take(place),
        "event": _words([s.event for s in sites], place),
        "role": _roles(place, positions["seq"], sites),
        **keys,
        "value": pa.array(value, mask=not_value),
        "space": _words([s.space for s in sites], place, not_access),
        "tensor": _words([s.tensor for s in sites], place, not_access),
        "offset": pa.array(offset, mask=not_access),
        "bytes": pa.array(np.array([s.bytes for s in sites], np.int32).take(place), mask=not_access),
    }
    types = {name: _TYPES.get(name, pa.int32()) for name in (*BEFORE_KEYS, *sites.keys, *AFTER_KEYS)}
    return pa.table({name: columns[name] for name in types}, schema=pa.schema(types))


def _flatten(raw: RawRecords) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The kept records thread by thread, the records of each thread, and each record's number in its thread."""
    capacity = raw.records.shape[1]
    kept = np.minimum(raw.counts, capacity).astype(np.int64)
    used = int(kept.max(initial=0))
    if len(kept) and kept.min() == used:  # all threads have equally many records
        return raw.records[:, :used].reshape(-1), kept, np.tile(np.arange(used, dtype=np.int32), len(kept))
    whole = raw.records.view(np.complex128)  # 16 bytes that NumPy moves as one
    records = whole[:, :used][np.arange(used) < kept[:, None]].view(RECORD)
    return records, kept, (np.arange(len(records)) - np.repeat(np.cumsum(kept) - kept, kept)).astype(np.int32)


def _places(records: np.ndarray, sites: Sites) -> np.ndarray:
    """The site's number of each record. Raises TraceError for a key out of range, or a record without a site."""
    words = records["site"].copy()
    place = sites.index_of_words(words)
    if not len(place) or place.min() >= 0:
        return place
    refused = np.flatnonzero(words & np.uint32(OUT_OF_RANGE))
    if len(refused):
        record = records[refused[0]]
        site = {site.word: site for site in sites}.get(int(record["site"]) ^ OUT_OF_RANGE)
        if site:
            number, value = int(record["keys"]), int(record["payload"].view(np.int64))
            key = site.keys[number] if number < len(site.keys) else f"key {number}"
            raise TraceError(
                f"{site.file}:{site.line}: the key {key} of the probe {site.event} was {value:,}. A key must be a "
                "whole number from 0 to 65,535. Choose a smaller problem or a scope of earlier items, or log a "
                "smaller number in its place."
            )
    raise TraceError(
        "The records name lines that hold no probe: the source changed under the run, or memory was overwritten. Run "
        "it again."
    )


def _words(texts: Iterable[str | None], place: np.ndarray, missing: np.ndarray | None = None) -> pa.DictionaryArray:
    """An Arrow dictionary array of each record's text. missing: the records without a text."""
    listed = list(texts)
    words = sorted({text for text in listed if text is not None})
    codes = np.array([words.index(text) if text is not None else 0 for text in listed], np.int32)
    taken = codes.take(place) if len(words) > 1 else np.zeros(len(place), np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(taken, mask=missing), pa.array(words, pa.string()))


def _roles(place: np.ndarray, seq: np.ndarray, sites: Sites) -> pa.Array:
    """The role of each record's thread at that time: the thread's last PROBE_ROLE, up to this record."""
    names = [site.event if site.kind == "role" else None for site in sites]
    if not any(names):
        return pa.nulls(len(place), _WORDS)
    starts = (seq == 0) | np.array([name is not None for name in names]).take(place)
    last = place[np.maximum.accumulate(np.where(starts, np.arange(len(place)), 0))]
    return _words(names, last, np.array([name is None for name in names]).take(last))


def _key_columns(words: np.ndarray, payload: np.ndarray, place: np.ndarray, sites: Sites) -> dict[str, pa.Array]:
    """An int32 array for each key, null for records without it. Keys 0 and 1 are in the record's key word, keys 2 and 3
    in the payload's high word."""
    keyed = np.flatnonzero(np.array([bool(s.keys) for s in sites], bool).take(place))
    place, low, high = place[keyed], words[keyed], (payload[keyed] >> np.uint64(32)).astype(np.uint32)
    columns = {}
    for name in sites.keys:
        values, missing = np.zeros(len(words), np.int32), np.ones(len(words), bool)
        for at in range(MAX_KEYS["value"]):
            with_key = np.array([s.keys[at : at + 1] == (name,) for s in sites])
            if with_key.any():
                chosen = with_key.take(place)
                word = (low if at < 2 else high)[chosen]
                values[keyed[chosen]] = word >> np.uint32(16) if at % 2 else word & np.uint32(0xFFFF)
                missing[keyed[chosen]] = False
        columns[name] = pa.array(values, mask=missing)
    return columns


assert RECORD.itemsize == 16, "device/probe.cuh writes records of 16 bytes"


POSITIONS = ("launch", "block", "thread", "seq")
Columns = dict[str, pa.Array]


def compact(trace: Trace, sites: Sites) -> tuple[Columns, pa.Array]:
    """(columns, values) of a trace: one row of columns per record, and the values of the records that have one.

    columns: launch, block, thread, seq, probe (its number in `sites`), each key, offset.
    values: float32, in the order of the columns' rows."""
    table = trace.table.combine_chunks()
    place = sites.index(table)
    columns = {name: _array(table[name]) for name in (*POSITIONS, *sites.keys, "offset")}
    columns["probe"] = pa.array(place.astype(np.int32))
    launch, block, thread, seq = (columns[name].to_numpy() for name in POSITIONS)
    events = sorted({site.event for site in sites})
    event = np.array([events.index(site.event) for site in sites], np.int32).take(columns["probe"].to_numpy())
    keys = [columns[name].fill_null(-1).to_numpy() for name in sorted(sites.keys)]
    order = pa.array(np.lexsort((thread & 31, seq, thread >> 5, block, launch, *reversed(keys), event)))
    values = _array(table["value"]).take(order).drop_null()
    return {name: column.take(order) for name, column in columns.items()}, values


def restore(columns: pa.Table, values: pa.Array, probes: Sequence[int], sites: Sites) -> pa.Table:
    """The table of the Trace behind the result of `compact`.

    probes: the present number in `sites` of each probe of the columns. A change of the source may have moved it."""
    place = np.array(probes, np.int64).take(columns["probe"].to_numpy())
    value = np.zeros(len(place), np.float32)
    value[np.array([site.kind == "value" for site in sites], bool).take(place)] = values.to_numpy()
    positions = {name: columns[name].to_numpy() for name in POSITIONS}
    number = positions["launch"].astype(np.int64)
    for part in (positions[name] for name in ("block", "thread", "seq")):
        number = number * (int(part.max(initial=0)) + 1) + part
    order = np.argsort(number)  # of one number per record: faster than of four
    keys = {name: _array(columns[name]).take(pa.array(order)) for name in sites.keys}
    offset = columns["offset"].fill_null(0).to_numpy()
    positions = {name: column[order] for name, column in positions.items()}
    return assemble(positions, place[order], keys, value[order], offset[order], sites)


def _array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
