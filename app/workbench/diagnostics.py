"""Diagnostics: messages with their lines, from the opening comment, the compiler, the shim and the check."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.workbench.places import place
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, FrontMatterError, ProblemError, RunError, WarpglassError
from kernels.run.check import Verdict
from kernels.run.plain.faults import Fault

MOST = 50  # messages of one answer
LONGEST = 600  # characters of a message
_IN_LOG = re.compile(r"(?<![^\s:])([^\s:]++):(\d++):(\d++): (fatal error|error|warning): (.*)")
_WORDS = re.compile(r"(?:line|it|the|there|a|an|no) ")
_OUR_FOLDERS = re.compile(r"(?<![^\s:'\"(`])/[^\s:]*/(?=[\w.-]+\.(?:cuh?|h|cpp|so)\b)")


@dataclass(frozen=True)
class Diagnostic:
    """A message at a line.

    line, column: from 1. Column 0 stands for the whole line.
    severity: error, warning or info.
    source: front matter, compiler, shim or check.
    """

    line: int
    column: int
    severity: str
    source: str
    message: str


def of_error(error: WarpglassError, name: str, text: str) -> list[Diagnostic]:
    """The messages of an error. name: of the draft. text: of the draft."""
    if isinstance(error, BuildError) and (found := list(_of_log(error.log, name))):
        return found[:MOST]
    message = str(error)
    line, column = place(text, re.sub(rf"^{name}\.cu:? ?", "", message))
    return [Diagnostic(line, column, "error", _source_of(error), plain(message, name))]


def of_fault(fault: Fault, name: str) -> Diagnostic:
    """The message of a fault, at its first line in the draft."""
    own = fault.file in ("", f"{name}.cu")
    line = fault.lines[0] if fault.lines and own else 1
    return Diagnostic(line, 0, "error" if fault.level == "error" else "info", "shim", plain(fault.text, name))


def of_verdict(verdict: Verdict, kernel: KernelSpec, line: int) -> Diagnostic:
    """The message of a wrong result. line: the write of the first wrong element, or 0."""
    wrong = [error for error in verdict.errors if not error.ok]
    sizes = verdict.problem.size if verdict.problem else ""
    said = verdict.message or "; ".join(f"{e.output} is wrong: {e.said}, allowed {e.allowed:.3g}" for e in wrong)
    said = f"{said.rstrip('.')} ({sizes})."
    if verdict.reason:
        first = verdict.reason.first
        line = first.line if first and first.file == kernel.path.name else line
        likely = "" if verdict.reason.kind == "unknown" else "Likely: "
        said = f"{said} {likely}{verdict.reason.sentence}"
    return Diagnostic(line or entry_line(kernel), 0, "error", "check", plain(said, kernel.name))


def entry_line(kernel: KernelSpec) -> int:
    """The line of the first launch's function."""
    entry = kernel.launch_texts[0].entry.partition("<")[0]
    start = kernel.source.find("*/")
    found = re.compile(rf"\b{re.escape(entry)}\s*\(").search(kernel.source, max(0, start))
    return 1 + kernel.source.count("\n", 0, found.start()) if found else 1


def plain(message: str, name: str) -> str:
    """A message without the draft's name, without our folders, and not too long."""
    message = re.sub(rf"^{name}\.cu(?: line \d+|:(?: line \d+:)?)?:? *", "", message)
    message = re.sub(rf"\b{name}\.cu(?::| line )(\d+)", r"line \1", message)
    message = _OUR_FOLDERS.sub("", message).replace(f"{name}.cu", "this file").replace(name, "this kernel")
    if _WORDS.match(message):  # and no identifier
        message = f"{message[0].upper()}{message[1:]}"
    return message[:LONGEST]


def _of_log(log: str, name: str) -> Iterator[Diagnostic]:
    """The messages of a compiler's log that have a line of the draft."""
    seen = set[tuple[str, str]]()
    for file, line, column, kind, said in _IN_LOG.findall(log):
        if file.rpartition("/")[2] == f"{name}.cu" and (line, said) not in seen:
            seen.add((line, said))
            severity = "warning" if kind == "warning" else "error"
            yield Diagnostic(int(line), int(column), severity, "compiler", plain(said, name))


def _source_of(error: WarpglassError) -> str:
    if isinstance(error, BuildError):
        return "compiler"
    if isinstance(error, RunError):
        return "shim"
    return "front matter" if isinstance(error, FrontMatterError | ProblemError) else "check"
