"""Measured tables with their provenance: kernels/recordings/data/<kind>/<GPU>.csv, one file for each GPU.

A file's first line is a # and JSON: the format's version, the SHA-256 of the rest, and the fields of Provenance. The
rest is CSV. `measure` lists the kinds. This module needs no GPU, torch or CuPy.
"""

import datetime
import hashlib
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from kernels.errors import TraceError
from kernels.recordings import DATA, same_code

FOLDER = DATA
FORMAT = 2  # of a table's file. Format 1 had no version, and the columns heads, kv_heads and head_size

REMEDY = "Restore it, or measure it again with this program (python -m kernels record, on a GPU)"


@dataclass(frozen=True)
class Provenance:
    """The origin of a table. A field is empty if its kind does not use it.

    device: the GPU's name. driver: its version. date: ISO.
    compiler: such as NVRTC 13.0. torch: its version.
    codes: kernel -> code_hash of the measured source.
    roofs: the machine's own ceilings (protocol.roofs).
    more: the fields of only one kind of table.
    """

    device: str
    driver: str
    date: str
    compiler: str = ""
    torch: str = ""
    codes: dict[str, str] = field(default_factory=dict)
    roofs: dict[str, float] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """The JSON of a provenance: the fields with a value, and the fields of `more`."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "more" and getattr(self, f.name)}
        return {**said, **self.more}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> "Provenance":
        """The reverse of as_json. TypeError if device, driver or date is missing."""
        own = {f.name for f in fields(cls)} - {"more"}
        more = {name: value for name, value in said.items() if name not in own}
        return cls(**{name: value for name, value in said.items() if name in own}, more=more)


class Gpu(Protocol):
    """A GPU with its name and driver, such as a run.backends.Device."""

    @property
    def name(self) -> str:
        """The GPU's name."""

    @property
    def driver(self) -> str:
        """The driver's version."""


def provenance(device: Gpu, codes: dict[str, str] | None = None, **said: object) -> Provenance:
    """The Provenance of today's measurement on a device. said: its other fields, and the fields of its kind."""
    here = {"device": device.name, "driver": device.driver, "date": datetime.date.today().isoformat()}
    return Provenance.from_json({**here, "codes": codes or {}, **said})


def path_of(kind: str, device: str) -> Path:
    """The file of a recorded kind of table for a GPU."""
    return FOLDER / kind / f"{file_name(device)}.csv"


def file_name(text: str) -> str:
    """A text as the name of a file or folder."""
    return re.sub(r"[^\w.-]+", "_", text).strip("_")


def save(table: pd.DataFrame, path: str | Path, where: Provenance) -> Path:
    """Writes the table and its Provenance. Returns the path. A reader never meets half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    rows = table.to_csv(index=False, lineterminator="\n")
    said = {"format": FORMAT, "sha256": _digest(rows), **where.as_json()}
    part.write_text(f"# {json.dumps(said)}\n{rows}")
    part.replace(path)
    return path


def load(path: str | Path) -> tuple[pd.DataFrame, Provenance]:
    """(table, Provenance) of a file from `save`. TraceError for anything else, or for another format."""
    path = Path(path)
    try:
        state = path.stat()
        return _load(path, state.st_mtime_ns, state.st_size)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        said = f"{'/'.join(path.parts[-2:])} is not a table of measurements: {str(error).rstrip('.')}. {REMEDY}."
        raise TraceError(said) from None


@lru_cache(maxsize=64)
def _load(path: Path, changed: int, size: int) -> tuple[pd.DataFrame, Provenance]:
    """`load`, remembered until the file changes."""
    with path.open(newline="") as file:
        said = json.loads(file.readline().removeprefix("# "))
        check_format(said, path)
        rows = file.read()
    if said.pop("sha256", _digest(rows)) != _digest(rows):
        raise ValueError("its rows are not as they were written")
    return _with_present_codes(pd.read_csv(io.StringIO(rows)), Provenance.from_json(said))


def _with_present_codes(table: pd.DataFrame, where: Provenance) -> tuple[pd.DataFrame, Provenance]:
    """A table with the code hashes of today's source for the measured machine code (same_code.py)."""
    codes = {name: same_code.present(code) for name, code in where.codes.items()}
    if "code_hash" in table:
        table = table.assign(code_hash=table.code_hash.map(same_code.present, na_action="ignore"))
    return table, replace(where, codes=codes)


def _digest(rows: str) -> str:
    return hashlib.sha256(rows.encode()).hexdigest()


def check_format(said: dict[str, Any], path: Path) -> None:
    """Takes the version out of a file's JSON. TraceError for another version than this program's."""
    found = said.pop("format", 1)
    if found != FORMAT:
        raise TraceError(
            f"{path.name} has format {found}, and this program reads format {FORMAT}. Measure it again with this "
            "program (python -m kernels record, on a GPU), or read it with the program that wrote it."
        )


# ---- recorded tables ----


def recorded(kind: str) -> dict[str, tuple[pd.DataFrame, Provenance]]:
    """GPU name -> (table, Provenance) of every readable recorded table of a kind, the newest first. `left_out` gives
    the reasons for others."""
    return dict(sorted(_look(kind)[0].items(), key=lambda item: item[1][1].date, reverse=True))


def of_present_code(kind: str) -> tuple[pd.DataFrame, Provenance] | None:
    """(rows, Provenance) of the newest recorded table with rows (name, code_hash) of kernels' present code. None
    without one."""
    from kernels import catalog

    here = {name: spec.code_hash for name, spec in catalog.current().kernels.items()}
    for table, where in recorded(kind).values():
        present = table[table.code_hash == table["name"].map(here)].reset_index(drop=True)
        if len(present):
            return present, where
    return None


def left_out(kind: str) -> list[str]:
    """Why recorded tables of a kind are not shown, a sentence for each: of another format, or not readable."""
    return _look(kind)[1]


def unreadable() -> list[str]:
    """Why recorded tables of any kind cannot be read, a sentence for each."""
    reasons = []
    for path in sorted(FOLDER.rglob("*.csv")):
        try:
            load(path)
        except TraceError as error:
            reasons.append(str(error))
    return reasons


def _look(kind: str) -> tuple[dict[str, tuple[pd.DataFrame, Provenance]], list[str]]:
    found, reasons = {}, []
    for path in sorted((FOLDER / kind).glob("*.csv")):
        try:
            table, where = load(path)
            found[where.device] = table, where
        except TraceError as error:
            reasons.append(str(error))
    return found, reasons


def changed_code(codes: dict[str, str], kernels: Iterable[str] = ()) -> list[str]:
    """The kernels among `codes` (all if `kernels` is empty) with another code in the catalogue today."""
    from kernels import catalog

    specs = catalog.current().kernels
    names = list(kernels) or list(codes)
    return [name for name in names if name not in specs or codes.get(name) != specs[name].code_hash]
