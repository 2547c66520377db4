"""Raw probe records -> Trace: a tidy Arrow table with its provenance, and how many records were lost. Parquet in and out."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kernels.errors import TraceError
from kernels.probes import MAX_KEYS, RECORD

_METADATA = b"warpglass"
_FIXED_BEFORE = {"launch": pa.int32(), "block": pa.int32(), "thread": pa.int32(), "warp": pa.int32(), "lane": pa.int32(),
                 "seq": pa.int32(), "line": pa.int32(), "event": pa.dictionary(pa.int32(), pa.string())}
_FIXED_AFTER = {"value": pa.float32(), "space": pa.dictionary(pa.int32(), pa.string()),
                "tensor": pa.dictionary(pa.int32(), pa.string()), "offset": pa.int64(), "bytes": pa.int32()}


@dataclass(frozen=True)
class RawRecords:
    """What one launch left in its probe buffer. records: [threads, capacity] of probes.RECORD, thread by thread in block
    order from `first_block`; counts: [threads], how many each thread had to say, which may be more than it could keep."""

    launch: int
    first_block: int
    threads_per_block: int
    records: np.ndarray
    counts: np.ndarray

    @property
    def lost(self):
        return int(np.maximum(self.counts.astype(np.int64) - self.records.shape[1], 0).sum())


@dataclass(frozen=True)
class Trace:
    """What a probed run logged.

    table columns: launch (0, 1, ... in order), block (x fastest, of its launch), thread, warp, lane, seq (per thread), line
    (of the probe in the .cu), event, one int32 column per key name (null where the event has no such key), value (float32;
    values only), space, tensor, offset (bytes from the tensor's base) and bytes (accesses only).
    lost: records that did not fit. provenance: kernel, problem, backend, device and so on, as text.
    """

    table: pa.Table
    lost: int
    provenance: dict = field(default_factory=dict)

    @property
    def keys(self):
        """The names of the key columns."""
        return tuple(name for name in self.table.column_names if name not in _FIXED_BEFORE and name not in _FIXED_AFTER)

    def frame(self, *columns):
        """The table, or some of its columns, as pandas; keys as nullable floats where they have nulls."""
        return (self.table.select(columns) if columns else self.table).to_pandas()

    def save(self, path):
        metadata = {_METADATA: json.dumps({"lost": self.lost, **self.provenance}, sort_keys=True).encode()}
        pq.write_table(self.table.replace_schema_metadata(metadata), path, compression="zstd")

    @classmethod
    def load(cls, path):
        """A trace from a Parquet file that `save` wrote; TraceError if it is anything else."""
        path = Path(path)
        try:
            table = pq.read_table(path)
            provenance = json.loads(table.schema.metadata[_METADATA])
            lost = int(provenance.pop("lost"))
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise TraceError(f"{path.name} is not a Warpglass trace: {error}") from None
        wanted = {**_FIXED_BEFORE, **_FIXED_AFTER}
        wrong = [name for name, kind in wanted.items() if name not in table.column_names or table.schema.field(name).type != kind]
        if wrong:
            raise TraceError(f"{path.name} is not a Warpglass trace: no proper column {', '.join(wrong)}")
        return cls(table.replace_schema_metadata(None), lost, provenance)


def decode(raw_records, sites, provenance=None):
    """A Trace from the RawRecords of each launch. `sites` is probes.sites of the source that ran."""
    key_names = list(dict.fromkeys(key for site in sites.values() for key in site.keys))
    tables = [_decode_launch(raw, sites, key_names) for raw in raw_records]
    return Trace(pa.concat_tables(tables), sum(raw.lost for raw in raw_records), provenance or {})


def _decode_launch(raw, sites, key_names):
    records, kept, seq = _flatten(raw)
    line = records["line"].astype(np.int32)
    order = sorted(sites)  # from here on a site is its place in this list
    site_of_line = np.full(max(order, default=0) + 2, -1, np.intp)
    site_of_line[order] = np.arange(len(order))
    site = site_of_line.take(line, mode="clip")
    if len(site) and site.min() < 0:
        raise TraceError("the records name lines that hold no probe: the source changed under the run, or memory was overwritten")
    listed = [sites[number] for number in order]
    not_value = np.array([s.kind != "value" for s in listed], bool).take(site)
    not_access = np.array([s.space is None for s in listed], bool).take(site)
    slots = np.arange(len(kept), dtype=np.int32)
    block = np.repeat(slots // raw.threads_per_block + np.int32(raw.first_block), kept)
    thread = np.repeat(slots % np.int32(raw.threads_per_block), kept)
    payload = records["payload"].copy()
    columns = {
        "launch": np.full(len(records), raw.launch, np.int32), "block": block, "thread": thread,
        "warp": thread >> 5, "lane": thread & 31, "seq": seq, "line": line, "event": _words([s.event for s in listed], site),
        **_key_columns(records["keys"], payload, site, listed, key_names),
        "value": pa.array(payload.astype(np.uint32).view(np.float32), mask=not_value),  # the low word
        "space": _words([s.space for s in listed], site, not_access), "tensor": _words([s.tensor for s in listed], site, not_access),
        "offset": pa.array(payload.view(np.int64), mask=not_access),
        "bytes": pa.array(np.array([s.bytes for s in listed], np.int32).take(site), mask=not_access),
    }
    kinds = {**_FIXED_BEFORE, **{key: pa.int32() for key in key_names}, **_FIXED_AFTER}
    return pa.table({name: columns[name] for name in kinds}, schema=pa.schema(kinds))


def _flatten(raw):
    """The kept records one after another, thread by thread; how many each thread kept; each record's number in its thread."""
    capacity = raw.records.shape[1]
    kept = np.minimum(raw.counts, capacity).astype(np.int64)
    used = int(kept.max(initial=0))
    if len(kept) and kept.min() == used:  # all threads said equally much: nothing to leave out
        return raw.records[:, :used].reshape(-1), kept, np.tile(np.arange(used, dtype=np.int32), len(kept))
    whole = raw.records.view(np.complex128)  # 16 bytes that NumPy moves as one
    records = whole[:, :used][np.arange(used) < kept[:, None]].view(RECORD)
    return records, kept, (np.arange(len(records)) - np.repeat(np.cumsum(kept) - kept, kept)).astype(np.int32)


def _words(texts, site, missing=None):
    """An Arrow dictionary array of each record's text; `missing` marks the records whose site has none."""
    words = sorted({text for text in texts if text is not None})
    codes = np.array([words.index(text) if text is not None else 0 for text in texts], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes.take(site), mask=missing), pa.array(words, pa.string()))


def _key_columns(words, payload, site, listed, key_names):
    """One int32 array per key name, null where the record's site has no such key. Keys 0 and 1 lie in the record's key word, 2 and
    3 in the payload's high word."""
    keyed = np.flatnonzero(np.array([bool(s.keys) for s in listed]).take(site))
    site, low, high = site[keyed], words[keyed], (payload[keyed] >> np.uint64(32)).astype(np.uint32)
    columns = {}
    for name in key_names:
        values, missing = np.zeros(len(words), np.int32), np.ones(len(words), bool)
        for at in range(MAX_KEYS["value"]):
            here = np.array([s.keys[at:at + 1] == (name,) for s in listed])
            if here.any():
                chosen = here.take(site)
                word = (low if at < 2 else high)[chosen]
                values[keyed[chosen]] = word >> np.uint32(16) if at % 2 else word & np.uint32(0xFFFF)
                missing[keyed[chosen]] = False
        columns[name] = pa.array(values, mask=missing)
    return columns


assert RECORD.itemsize == 16, "cuda/probe.cuh writes records of 16 bytes"
