"""Stall reasons of a report of Nsight Compute, on the lines of a build.

Rule: a file of the report is the file of the build in which at least MATCH of its lines have their text, whatever its
name. Without texts, the names of the files must agree. A report without lines matches by its machine instructions: all
opcodes of a kernel, in order. Each instruction then counts for its line."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypedDict

from explainers.story.glossary import count
from kernels.build.disassembly import Listing, opcode
from kernels.core.spec import KernelSpec
from kernels.measure.elsewhere.packed import MOST_REASONS, Report

MATCH = 0.9
COMPARED = 100  # characters of a line. The report's texts are cut


class LineStalls(TypedDict):
    """The samples of a line.

    share: of all samples.
    reasons: the most frequent stall reasons with their shares of the line's samples.
    tip: the same in numbers of samples.
    """

    share: float
    reasons: str
    tip: str


@dataclass
class Matched:
    """The samples of a report on the lines of a build.

    lines: "FILE:LINE" -> its samples.
    said: what matched, or what the report names instead.
    """

    lines: dict[str, LineStalls] = field(default_factory=dict)
    said: str = ""


def matched(report: Report, kernel: KernelSpec, listing: Listing) -> Matched:
    rows = json.loads(report.rows)
    if rows["lines"]:
        return _by_lines(report, rows["lines"], kernel)
    return _by_instructions(report, rows["instructions"], kernel, listing)


def _by_lines(report: Report, rows: list[list], kernel: KernelSpec) -> Matched:
    files = {name: text.split("\n") for name, text in kernel.files}
    of_path = defaultdict[str, list[list]](list)
    for row in rows:
        of_path[row[0]].append(row)
    counts: dict[str, Counter[str]] = {}
    apart = 0
    for path, own in of_path.items():
        name = _file_of(path, own, files)
        for _, line, text, samples, reasons in own if name else ():
            if text and not _same(files[name], line, text):
                apart += 1
            else:
                counts[f"{name}:{line}"] = Counter({"": samples, **dict(reasons)})
    if not counts:
        named = ", ".join(
            f"{path or 'a file without a name'} ({count(len(own), 'line')})" for path, own in of_path.items()
        )
        return Matched(said=f"{report.file} names {named:.300}. {kernel.name} has no such lines. Choose its kernel.")
    other = f" Left out, with another text here: {count(apart, 'line')}." if apart else ""
    return Matched(_shares(report, counts), _said(report, counts) + other)


def _file_of(path: str, own: list[list], files: dict[str, list[str]]) -> str:
    """The file of the build that a file of the report is, or ""."""
    told = [(line, text) for _, line, text, *_ in own if text.strip()]
    if not told:
        name = path.replace("\\", "/").rpartition("/")[2]
        return name if name in files else ""
    same = {name: sum(_same(lines, line, text) for line, text in told) for name, lines in files.items()}
    best = max(same, key=lambda name: same[name])
    return best if same[best] >= MATCH * len(told) else ""


def _same(lines: list[str], line: int, text: str) -> bool:
    def plain(said: str) -> str:
        return " ".join(said.split()).rstrip("…")[:COMPARED]

    return 0 < line <= len(lines) and plain(lines[line - 1]).startswith(plain(text))


def _by_instructions(report: Report, rows: list[list], kernel: KernelSpec, listing: Listing) -> Matched:
    theirs = defaultdict[str, list[list]](list)
    for row in rows:
        theirs[row[0]].append(row)
    counts = defaultdict[str, Counter[str]](Counter)
    for own in theirs.values():
        for entry in listing.registers:
            lines = [line for line in listing.sass if line.entry == entry]
            if [opcode(line.text) for line in lines] == [opcode(row[1]) for row in own]:
                for line, (*_, samples, reasons) in zip(lines, own):
                    if line.source:
                        counts[f"{line.source[0]}:{line.source[1]}"].update({"": samples, **dict(reasons)})
                break
    if not counts:
        named = ", ".join(f"{name} ({count(len(own), 'instruction')})" for name, own in theirs.items())
        return Matched(
            said=f"{report.file} has instructions of {named:.300}. This build of {kernel.name} has others. Choose the "
            "build and the architecture of the report, or export it with --print-source cuda,sass."
        )
    return Matched(_shares(report, counts), _said(report, counts))


def _shares(report: Report, counts: dict[str, Counter[str]]) -> dict[str, LineStalls]:
    return {place: _line(report, own) for place, own in counts.items() if own[""]}


def _line(report: Report, own: Counter[str]) -> LineStalls:
    reasons = [(name, n) for name, n in own.most_common() if name][:MOST_REASONS]
    spelled = [f"{name.replace('_', ' ')} {n / own['']:.0%}" for name, n in reasons]
    numbers = "".join(f"\n{name}: {n:,} samples" for name, n in reasons)
    return {
        "share": own[""] / report.total,
        "reasons": ", ".join(spelled),
        "tip": f"measured elsewhere: {report.file}\n{own['']:,} of {report.total:,} samples{numbers}",
    }


def _said(report: Report, counts: dict[str, Counter[str]]) -> str:
    met = sum(own[""] for own in counts.values())
    places = _listed({place.rpartition(":")[0] for place in counts})
    return (
        f"Measured elsewhere, by Nsight Compute: {report.file} has {count(report.total, 'sample')} of warps. "
        f"{met / report.total:.0%} are on lines of {places}."
    )


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
