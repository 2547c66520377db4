"""Reads the Source page of Nsight Compute as CSV: `ncu --import x.ncu-rep --page source --csv --print-source cuda,sass`
or `--print-source sass`. The report needs the section SourceCounters.

NVIDIA publishes no definition of this CSV. A public reader of ncu's output has the names of its rows and columns:
MagellaX/StreamAttn, benchmarks/summarize_sm90_paged_source.py and its test. `File Path`, `Function Name` and
`Kernel Name` start a part. A row with `Line No` or `Address` names the columns. The columns
`stall_*` count samples of warps by reason. Columns "(Not Issued)" count a part again, so they are left out. The row of
a source line has the sums of the instructions below it. stall_selected counts warps that issue: it is no stall."""

import csv
import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pandas as pd

from kernels.errors import TraceError
from kernels.measure.elsewhere.record import MOST_EVENTS, Stalls, short, too_many

FILE, NAMES = "File Path", ("Function Name", "Kernel Name")
LINE, ADDRESS, SOURCE = "Line No", "Address", "Source"
SAMPLES = ("# Samples", "Warp Stall Sampling (All Samples)", "Warp Stall Sampling (All Cycles)")
REASON, ISSUED = re.compile(r"stall_(\w+)"), "selected"
GROUPED = re.compile(r"\d{1,3}([,\u00a0\u202f]\d{3})+(\.\d+)?")  # 1,234 and 1 234
MESSAGE = "=="  # ==PROF== and ==WARNING== are of ncu itself
ABSENT = ("", "-", "...", "n/a")
HOW = "Export it with: ncu --import x.ncu-rep --page source --csv --print-source cuda,sass"


def is_mine(data: bytes) -> bool:
    """Whether the text of a CSV has a name of this page near its start."""
    head = text_of(data[:20_000])
    return any(f'"{name}"' in head or f"{name}," in head for name in (FILE, LINE, ADDRESS, *NAMES))


def text_of(data: bytes) -> str:
    """A redirect of PowerShell writes UTF-16."""
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", errors="replace")


@dataclass
class _Columns:
    """The places of a table's columns. reasons: name -> place."""

    line: int | None
    text: int
    address: int | None
    machine: int
    samples: int | None
    reasons: dict[str, int]


@dataclass
class _Reading:
    file: str
    path: str = ""
    kernel: str = ""
    columns: _Columns | None = None
    lines: dict[tuple[str, int], tuple[str, Counter[str]]] = field(default_factory=dict)
    instructions: list[tuple[str, str, Counter[str]]] = field(default_factory=list)
    parts: Counter[tuple[str, str]] = field(default_factory=Counter)  # (kernel, path) -> how often it began
    met: set[tuple[str, int, str]] = field(default_factory=set)  # an inlined instruction is below several lines
    total: int = 0

    def row(self, row: Sequence[str], number: int) -> None:
        if row[0] == FILE:
            self.path, self.columns = short(row[1]) if len(row) > 1 else "", None
        elif row[0] in NAMES:
            self.kernel, self.columns = short(row[1]) if len(row) > 1 else "", None
            self.path = self.path if row[0] == NAMES[0] else ""
        elif SOURCE in row and (LINE in row or ADDRESS in row):
            self.columns = _columns(row)
            self.parts[self.kernel, self.path] += 1
        elif self.columns:
            self._counts(row, self.columns, number)

    def _counts(self, row: Sequence[str], at: _Columns, number: int) -> None:
        def cell(place: int | None) -> str:
            return row[place].strip() if place is not None and place < len(row) else ""

        line, address = cell(at.line), cell(at.address)
        if not line and address in ABSENT:
            return
        found = Counter({name: self._number(cell(n), number) for name, n in at.reasons.items()})
        whole = self._number(cell(at.samples), number) if at.samples is not None else found.total()
        found[""] = whole
        if line:
            if not line.isdecimal() or len(line) > 7:
                raise TraceError(f"{self.file}: {LINE} is {line!r:.40} in row {number:,}. Export the page again.")
            key = self.path, int(line)
            known = self.lines.setdefault(key, (short(cell(at.text)), Counter()))
            known[1].update(found)
            return
        launch = self.parts[self.kernel, self.path]
        if (self.kernel, launch, address) not in self.met:
            self.met.add((self.kernel, launch, address))
            self.total += whole
            self.instructions.append((self.kernel, short(cell(at.machine)), found))
        if max(len(self.instructions), len(self.lines)) > MOST_EVENTS:
            raise too_many(self.file)

    def _number(self, text: str, number: int) -> int:
        """A count of samples. Raises TraceError for another text."""
        if text in ABSENT:
            return 0
        plain = re.sub(r"[,\u00a0\u202f]", "", text) if GROUPED.fullmatch(text) else text
        try:
            found = float(plain)
        except ValueError:
            found = math.nan
        if 0 <= found < 2**53:
            return round(found)
        raise TraceError(
            f"{self.file}: a count of samples is {text!r:.40} in row {number:,}. Export the page with LC_ALL=C."
        )


def read(data: bytes, file: str) -> Stalls:
    """Raises TraceError for other content."""
    reading = _Reading(file)
    for number, row in _rows(data, file):
        if row and not row[0].startswith(MESSAGE):
            reading.row(row, number)
    if not reading.columns:
        raise TraceError(f'{file} has no table with "{LINE}" or "{ADDRESS}". {HOW}')
    if not any(counts[""] for _, counts in (*reading.lines.values(), *(one[1:] for one in reading.instructions))):
        raise TraceError(f"{file} has no sample of a warp. Profile with --section SourceCounters, and export it again.")
    lines = [
        {"path": path, "line": line, "text": text, **one}
        for (path, line), (text, counts) in reading.lines.items()
        for one in _reasons(counts)
    ]
    by_kernel = defaultdict[str, int](int)
    instructions: list[dict[str, object]] = []
    for kernel, text, counts in [] if lines else reading.instructions:
        instructions += [
            {"kernel": kernel, "number": by_kernel[kernel], "text": text, **one} for one in _reasons(counts)
        ]
        by_kernel[kernel] += 1
    total = reading.total or sum(counts[""] for _, counts in reading.lines.values())
    return Stalls(
        file,
        total,
        pd.DataFrame(lines, columns=["path", "line", "text", "reason", "samples"]),
        pd.DataFrame(instructions, columns=["kernel", "number", "text", "reason", "samples"]),
    )


def _reasons(counts: Counter[str]) -> Iterator[dict[str, object]]:
    """All samples as the reason "", then the stall reasons, the one with most samples first."""
    yield {"reason": "", "samples": counts[""]}
    for reason, samples in counts.most_common():
        if samples and reason not in ("", ISSUED):
            yield {"reason": reason, "samples": samples}


def _columns(row: Sequence[str]) -> _Columns:
    names = [name.strip() for name in row]
    sources = [n for n, name in enumerate(names) if name == SOURCE]
    samples = next((names.index(name) for name in SAMPLES if name in names), None)
    reasons = {found[1]: n for n, name in enumerate(names) if (found := REASON.fullmatch(name))}
    line, address = (names.index(name) if name in names else None for name in (LINE, ADDRESS))
    return _Columns(line, sources[0], address, sources[-1], samples, reasons)


def _rows(data: bytes, file: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of the text and their numbers from 1 on."""
    try:
        yield from enumerate(csv.reader(io.StringIO(text_of(data), newline="")), 1)
    except csv.Error as error:
        raise TraceError(f"{file} cannot be read as CSV: {error}. {HOW}") from None
