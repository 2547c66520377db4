"""The lines of an instrumented build: the place of each machine address, read from its DWARF table by readelf."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernels.build import child

ROW = np.dtype([("pc", "<u4"), ("place", "<u4")])
"""struct LineRow of device/simt/cuda/places.h."""
LINE_BITS = 20
SECONDS = 120.0  # for readelf
_ROW = re.compile(r"^(\S+)\s+(\d+|-)\s+0x([0-9a-f]+)")


@dataclass(frozen=True)
class Lines:
    """The line table of a build. rows: [n] of ROW, by address. files: their names, the number 0 unused."""

    rows: np.ndarray
    files: tuple[str, ...]

    def site(self, place: int) -> tuple[str, int]:
        """File and line of a place, or ("", 0)."""
        return (self.files[place >> LINE_BITS], place & (1 << LINE_BITS) - 1) if place else ("", 0)

    def place(self, file: str, line: int) -> int:
        return self.files.index(file) << LINE_BITS | line


def file_of(library: Path) -> Path:
    return library.with_suffix(".lines")


def write(library: Path, names: list[str], file: Path) -> None:
    """Reads the table of a library. names: the kernel's files, the only ones with places."""
    files = ["", *names]
    command = ["readelf", "-W", "--debug-dump=decodedline"]
    said = child.tool(command, library, SECONDS, f"the lines of {library.name}")
    rows = set[tuple[int, int]]()
    for path, line, address in (row.groups() for row in map(_ROW.match, said.splitlines()) if row):
        name = Path(path).name
        number = files.index(name) if name in files else 0
        rows.add((int(address, 16), number << LINE_BITS | int(line) if number and line != "-" else 0))
    latest = dict(sorted(rows))  # of several rows for an address, one of the kernel's own
    file.write_text(json.dumps({"files": files, "rows": sorted(latest.items())}))


def read(library: Path) -> Lines:
    held = json.loads(file_of(library).read_text())
    return Lines(np.array([tuple(row) for row in held["rows"]], ROW), tuple(held["files"]))
