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
    capacity = raw.records.shape[1]
    kept = np.minimum(raw.counts, capacity).astype(np.int64)
    used = int(kept.max(initial=0))
    records = raw.records[:, :used][np.arange(used) < kept[:, None]]
    slot = np.repeat(np.arange(len(kept), dtype=np.int32), kept)
    first = np.cumsum(kept) - kept
    seq = (np.arange(len(records)) - np.repeat(first, kept)).astype(np.int32)
    block, thread = np.divmod(slot, np.int32(raw.threads_per_block))
    line = records["line"].astype(np.int32)
    if len(line) and not set(np.unique(line)) <= sites.keys():
        raise TraceError("the records name lines that hold no probe: the source changed under the run, or memory was overwritten")

    size = max(sites, default=0) + 1
    by_line = _SiteTables(sites, size)
    payload = records["payload"]
    is_value, is_access = by_line.is_value[line], by_line.is_access[line]
    columns = {
        "launch": np.full(len(records), raw.launch, np.int32), "block": block + np.int32(raw.first_block), "thread": thread,
        "warp": thread >> 5, "lane": thread & 31, "seq": seq, "line": line, "event": by_line.events(line),
    }
    columns |= _key_columns(records, line, sites, key_names)
    columns["value"] = pa.array((payload & 0xFFFFFFFF).astype(np.uint32).view(np.float32), mask=~is_value)
    columns["space"] = by_line.spaces(line)
    columns["tensor"] = by_line.tensors(line)
    columns["offset"] = pa.array(payload.view(np.int64), mask=~is_access)
    columns["bytes"] = pa.array(by_line.bytes[line], mask=~is_access)
    kinds = {**_FIXED_BEFORE, **{key: pa.int32() for key in key_names}, **_FIXED_AFTER}
    return pa.table({name: columns[name] for name in kinds}, schema=pa.schema(kinds))


class _SiteTables:
    """Facts of each site as arrays indexed by line number."""

    def __init__(self, sites, size):
        self.is_value, self.is_access = np.zeros(size, bool), np.zeros(size, bool)
        self.bytes = np.zeros(size, np.int32)
        for line, site in sites.items():
            self.is_value[line] = site.kind == "value"
            self.is_access[line] = site.space is not None
            self.bytes[line] = site.bytes
        self.events = _dictionary({line: site.event for line, site in sites.items()}, size)
        self.spaces = _dictionary({line: site.space for line, site in sites.items()}, size)
        self.tensors = _dictionary({line: site.tensor for line, site in sites.items()}, size)


def _dictionary(texts, size):
    """A function from an array of lines to an Arrow dictionary array of their texts (None becomes null)."""
    words = sorted({text for text in texts.values() if text is not None})
    codes = np.full(size, -1, np.int32)
    for line, text in texts.items():
        codes[line] = words.index(text) if text is not None else -1
    missing = codes < 0
    dictionary = pa.array(words, pa.string())

    def encode(lines):
        chosen = codes[lines]
        return pa.DictionaryArray.from_arrays(pa.array(chosen, mask=missing[lines] if missing.any() else None), dictionary)

    return encode


def _key_columns(records, line, sites, key_names):
    """One int32 array per key name, null where the record's site has no such key."""
    position = np.full((len(key_names), max(sites, default=0) + 1), -1, np.int8)  # where each line keeps each key
    for number, site in sites.items():
        for at, key in enumerate(site.keys):
            position[key_names.index(key), number] = at
    columns = {}
    for row, name in enumerate(key_names):
        where = position[row][line]
        values = np.zeros(len(records), np.int32)
        for at in range(MAX_KEYS["value"]):
            if at not in position[row]:
                continue
            chosen = np.flatnonzero(where == at)
            word = records["keys"][chosen] if at < 2 else (records["payload"][chosen] >> np.uint64(32)).astype(np.uint32)
            values[chosen] = (word >> np.uint32(16)) if at % 2 else (word & np.uint32(0xFFFF))
        columns[name] = pa.array(values, mask=where < 0)
    return columns


assert RECORD.itemsize == 16, "cuda/probe.cuh writes records of 16 bytes"
