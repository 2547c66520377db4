"""Measurements with tables of rows in one file for each GPU: they are made in a worker, and a file is resumed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from kernels.core.request import Request
from kernels.recordings import packed, tables
from kernels.recordings.request_index import Recordings, matching
from kernels.recordings.requests import RecordedRequest, header_of, name_of
from kernels.recordings.resumable import Group, Progress, resume, silent
from kernels.run.backends import Device

TIME_LIMIT = 600.0  # seconds for one
Stored = tuple[dict[str, Any], dict[str, pd.DataFrame]]
"""The header of a measurement, and its tables by the end of their name: "" or "/KIND"."""


@dataclass(frozen=True)
class Kept:
    """One kind of measurement.

    recordings: of the kind.
    parts: the ends of the names of a measurement's tables.
    make: makes one, in a worker.
    stored: header and tables of a made one.
    """

    recordings: Recordings[Any]
    parts: tuple[str, ...]
    make: Callable[[Request], Any]
    stored: Callable[[Any], Stored]

    def record(self, device: Device, asked: Iterable[Request], progress: Progress = silent, anew: bool = False) -> Path:
        """Makes the missing recordings of `asked` on this GPU and writes the file after each. Returns its path.

        anew: whether recordings of the present code are made again.
        """
        path = self.recordings.folder / f"{tables.file_name(device.name)}.parquet"
        entries = list[RecordedRequest]() if anew else self.recordings.all()
        known = [entry for entry in entries if entry.device == device.name]
        possible = (r for r in asked if not r.kernel.cannot_run(r.problem, r.constants, device))
        missing = [request for request in possible if not matching(known, request)]
        groups = [Group(r.kernel.name, [name_of(r)], partial(self._made, r, device)) for r in missing]
        kept = dict(self._read(entry) for entry in entries if entry.path == path)
        resume(groups, kept, partial(self._write, path), progress)
        return path

    def _made(self, request: Request, device: Device) -> dict[str, Stored]:
        from kernels.run import workers

        job = workers.submit(self.make, request, backend="gpu", title=request.kernel.name, time_limit=TIME_LIMIT)
        made = job.result()
        header, found = self.stored(made)
        own = header_of(request) | header | {"device": device.name, "driver": device.driver, "date": made.date}
        return {name_of(request): (own, found)}

    def _read(self, entry: RecordedRequest) -> tuple[str, Stored]:
        """A recorded measurement of present code, with its name."""
        name = name_of(entry.request, entry.code_hash)
        header = header_of(entry.request) | entry.said | {"code_hash": entry.code_hash}
        header |= {"device": entry.device, "date": entry.date}
        found = entry.read(*(f"{name}{part}" for part in self.parts))
        return name, (header, {part: table.to_pandas() for part, table in zip(self.parts, found)})

    def _write(self, path: Path, kept: Mapping[str, Stored]) -> None:
        listed = sorted(kept.items())
        found = {
            f"{name}{part}": {column: pa.array(table[column].to_numpy()) for column in table}
            for name, (_, parts) in listed
            for part, table in parts.items()
        }
        packed.write(path, found, {f"{self.recordings.noun}s": {name: header for name, (header, _) in listed}})
