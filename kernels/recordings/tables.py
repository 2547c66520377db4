"""Measured tables with their provenance: kernels/recordings/data/<kind>/<GPU>.csv, one file for each GPU.

A file's first line is a # and JSON: the format's version, the SHA-256 of the rest, and the fields of Provenance. The
rest is CSV. `measure` lists the kinds. This module needs no GPU, torch or CuPy.
"""

import datetime
import hashlib
import io
import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pandas as pd

from kernels import catalog
from kernels.errors import BackendUnavailable, RunError, TraceError, WarpglassError
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
    more: the fields of only one kind of table."""

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

    @property
    def dates(self) -> str:
        """The dates of the rows: of `earlier` rows, which a new measurement kept, and of `later` rows, which joined."""
        return " and ".join([*self.more.get("earlier", ()), self.date, *self.more.get("later", ())])

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
    table, where = pd.read_csv(io.StringIO(rows)), Provenance.from_json(said)
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


def changed_code(codes: Mapping[str, str]) -> list[str]:
    """The kernels with another code in the catalogue today."""
    specs = catalog.current().kernels
    return [name for name, code in codes.items() if name not in specs or code != specs[name].code_hash]


def of_present_code(table: pd.DataFrame, where: Provenance) -> pd.DataFrame:
    """The rows (name, code_hash) of kernels' present code."""
    here = {name: spec.code_hash for name, spec in catalog.current().kernels.items()}
    return table[table.code_hash == table["name"].map(here)]


def rows_of(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """The rows of a table, with None in empty places."""
    return table.astype(object).where(table.notna(), None).to_dict("records")


# ---- measuring in cases ----

Row = Mapping[str, Any]
Key = tuple[Hashable, ...]
Progress = Callable[[int, int, str], None]
"""Takes the number of keys so far, the number of all keys, and the name of the next case."""


def silent(done: int, of: int, name: str) -> None:
    """A Progress without output."""


TIMED = ("ok", "less accurate")
"""The statuses of rows with a time. A peer that is less accurate misses float64 by rounding, and its reason says so."""


@dataclass(frozen=True)
class Case:
    """Something that is measured in one go.

    name: for the progress, and for the error of a failed case.
    keys: of its parts.
    turn: takes the missing keys, and measures these parts or all parts."""

    name: str
    keys: Sequence[Key]
    turn: Callable[..., object]


Cases = tuple[Sequence[Case], dict[str, Any]]
"""The cases of a table, and the fields of its Provenance."""


def resume(
    cases: Sequence[Case], known: Collection[Key], keep: Callable[..., object], progress: Progress = silent
) -> list[str]:
    """Measures each case with an unknown key. `keep` takes each result at once, so a break loses one case. Returns the
    failures: the case and the reason."""
    keys, failed = {key for case in cases for key in case.keys}, []
    done = len(keys & {*known})
    for case in cases:
        missing = [key for key in case.keys if key not in known]
        if not missing:
            continue
        progress(done, len(keys), case.name)
        done += len(missing)
        try:
            result = case.turn(missing)
        except BackendUnavailable:
            raise
        except WarpglassError as error:
            failed.append(f"{case.name}: {str(error).rstrip('.')}")
        else:
            keep(result)
    progress(len(keys), len(keys), "")
    return failed


def check_failures(kind: str, failed: Sequence[str]) -> None:
    """RunError with the failures of `resume`, if any."""
    if failed:
        raise RunError(f"{len(failed)} cases of {kind} failed. {'. '.join(failed)}. Run the command again.")


def by(*columns: str) -> Callable[[Row], Key]:
    """A function of a row that gives its values in these columns, "" for an empty one."""
    return lambda row: tuple("" if (value := row.get(name)) is None else value for name in columns)


class Kept(NamedTuple):
    """The rows of a table that stay, by key, and their Provenance."""

    where: Provenance
    rows: dict[Key, list[Row]]


@dataclass(frozen=True)
class RecordedTable:
    """One kind of recorded table. Measuring goes on after a break and loses no present row, also without its case.

    kind: the name of its folder.
    key: the key of a row, such as by("name", "problem"). Rows with equal keys are measured together.
    cases: the Cases of a device in the order of the table. It takes the device, and what is kept. Without the field
        codes, they come from the rows.
    columns: of the file. If empty, they come from the rows.
    present: the rows of a table that count today. By default these rows have the code of today's kernels.
    same: the fields of Provenance that all rows have in common. Rows with another value do not stay.
    whole: whether a row needs no new measurement. By default that is each row without the status failed."""

    kind: str
    key: Callable[[Row], Key]
    cases: Callable[[Any, Kept | None], Cases]
    columns: Sequence[str] = ()
    present: Callable[[pd.DataFrame, Provenance], pd.DataFrame] = of_present_code
    same: tuple[str, ...] = ("driver",)
    whole: Callable[[Row], bool] = lambda row: row.get("status") != "failed"

    def recorded(self) -> dict[str, tuple[pd.DataFrame, Provenance]]:
        """GPU name -> (the present rows, Provenance) of each table with some, the newest first."""
        found = {}
        for device, (table, where) in recorded(self.kind).items():
            if len(rows := self.present(table, where)):
                found[device] = rows.reset_index(drop=True), where
        return found

    def newest(self) -> tuple[pd.DataFrame, Provenance] | None:
        """The first of `recorded`, None without one."""
        return next(iter(self.recorded().values()), None)

    def record(
        self, device: Gpu, progress: Progress = silent, anew: bool = False, only: Collection[str] = ()
    ) -> list[Path]:
        """Measures what this GPU's table lacks, and writes the table after each case. Returns its path. At the end,
        RunError names each case that failed.

        anew: measures everything.
        only: measures the cases of these names, and no others.

        If no row stays, the new table grows in a file of its own, and replaces the recorded one at the end."""
        path = file = path_of(self.kind, device.name)
        begun = None if anew else self._begun(path, device)
        if not begun and path.exists():
            file = path.with_name(f"{path.name}.anew")
            begun = self._begun(file, device)
        rows, (cases, common) = begun or ({}, self.cases(device, None))

        def keep(measured: Iterable[Row]) -> None:
            rows.update(self._by_key(measured))
            keys = dict.fromkeys([*(key for case in cases for key in case.keys), *rows])
            listed = [row for key in keys for row in rows.get(key, ())]
            codes = {row["name"]: row["code_hash"] for row in listed if row.get("code_hash")}
            save(
                pd.DataFrame(listed, columns=list(self.columns) or None),
                file,
                provenance(device, **{"codes": codes, **common}),
            )

        known = {key for key, kept in rows.items() if all(map(self.whole, kept))}
        if only:
            known = {key for case in cases if case.name not in only for key in case.keys}
        failed = resume(cases, known, keep, progress)
        if file != path and file.exists():
            old, _ = self._begun(path, device) or ({}, None)
            rows.update({key: kept for key, kept in old.items() if key not in rows})  # of failed cases
            keep([])
            file.replace(path)
        check_failures(self.kind, failed)
        return [path]

    def _begun(self, file: Path, device: Gpu) -> tuple[dict[Key, list[Row]], Cases] | None:
        """(the rows of a file that stay, `cases`). None if no row stays."""
        try:
            table, where = load(file)
        except TraceError:
            return None
        kept = Kept(where, self._by_key(rows_of(self.present(table, where))))
        cases = self.cases(device, kept)
        now = provenance(device, **cases[1])
        if kept.rows and all(getattr(now, name) == getattr(where, name) for name in self.same):
            return kept.rows, cases
        return None

    def _by_key(self, rows: Iterable[Row]) -> dict[Key, list[Row]]:
        found: dict[Key, list[Row]] = {}
        for row in rows:
            found.setdefault(self.key(row), []).append(row)
        return found
