"""The tables of a recorded run: reads, writes and shares them."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from kernels.core.remembered import recordings_changed
from kernels.core.request import Request, identity_key
from kernels.errors import TraceError
from kernels.recordings import packed, run_index, same_code
from kernels.recordings.run_index import Recording
from kernels.recordings.tables import file_name
from kernels.trace.probes import sites_of
from kernels.trace.trace import Trace, compact, restore


def read_trace(entry: Recording, request: Request) -> Trace:
    """The recorded trace, with its probes at their lines in the kernel's text now. TraceError if it is damaged."""
    sites = sites_of(request)
    probes = same_code.probes_now(entry.code_hash, len(entry.sites))
    if sum(probe >= 0 for probe in probes) != len(sites):
        raise TraceError(
            f"The recording has {len(entry.sites)} probes, the kernel {len(sites)}. Record it again with "
            "python -m kernels record."
        )
    columns = _table(entry, "trace")
    held = run_index.read_entry(entry.path.with_name(entry.holder)) if entry.holder else entry
    values = _table(held, "values")["value"].combine_chunks()
    try:
        return Trace(restore(columns, values, probes, sites), entry.lost, entry.provenance)
    except run_index.UNREADABLE as error:
        raise run_index.unreadable(entry.path, error) from None


def read_outputs(entry: Recording) -> dict[str, pa.Array]:
    """Output -> its numbers, flat. bfloat16 and float8 are widened to float32."""
    names = [name for name in entry.lengths if name.startswith("outputs.")]
    return {name.removeprefix("outputs."): _table(entry, name)["value"].combine_chunks() for name in names}


def read_traffic(entry: Recording) -> pd.DataFrame:
    """The table of a Traffic."""
    return _table(entry, "traffic").to_pandas()


def _table(entry: Recording, name: str) -> pa.Table:
    try:
        return packed.read(entry.path, entry.lengths, [name])[name]
    except run_index.UNREADABLE as error:
        raise run_index.unreadable(entry.path, error) from None


def write(
    request: Request,
    trace: Trace,
    outputs: Mapping[str, pa.Array],
    traffic: pd.DataFrame,
    base: Path | None = None,
    **said: Any,
) -> Path:
    """Writes a recording, its values included, and returns the file. said: the other fields of Recording."""
    sites = sites_of(request)
    columns, values = compact(trace, sites)
    problem, settings = request.identity
    kernel = request.kernel
    name = f"{kernel.name}-{kernel.code_hash[:8]}-{identity_key(problem, settings)}.parquet"
    entry = Recording(
        kernel=kernel.name,
        code_hash=kernel.code_hash,
        problem=problem,
        settings=settings,
        scope=request.scope,
        sites=tuple((site.file, site.line) for site in sites),
        lost=trace.lost,
        provenance=trace.provenance,
        values_sha256=hashlib.sha256(values.to_numpy(zero_copy_only=False).tobytes()).hexdigest(),
        holder="",
        path=(base or run_index.FOLDER) / file_name(said["device"]) / name,
        **said,
    )
    table = pa.Table.from_pandas(traffic, preserve_index=False)
    counts = {name: table[name].combine_chunks() for name in table.column_names}
    parts = {f"outputs.{name}": {"value": numbers} for name, numbers in outputs.items()}
    packed.write(entry.path, {"trace": columns, "values": {"value": values}, "traffic": counts, **parts}, entry.header)
    recordings_changed()
    return entry.path


def share_values() -> None:
    """Keeps equal values of a GPU's recordings in one file: the holder of the others, or the first."""
    everything = run_index.entries()
    for entry in everything:
        same = [e for e in everything if (e.device, e.values_sha256) == (entry.device, entry.values_sha256)]
        named = {e.holder for e in same}
        holder = next((e for e in same if e.path.name in named), same[0])
        if entry is not holder and not entry.holder and entry.lengths["values"]:
            tables = packed.read(entry.path, entry.lengths, [name for name in entry.lengths if name != "values"])
            parts = {name: {c: table[c].combine_chunks() for c in table.column_names} for name, table in tables.items()}
            packed.write(entry.path, parts, replace(entry, holder=holder.path.name).header)
    recordings_changed()
