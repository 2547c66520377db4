"""Messages with their lines, from the opening comment, the compiler, the shim and the check."""

import re
from dataclasses import dataclass

from explainers.story.glossary import short
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, FrontMatterError, ProblemError, RunError, WarpglassError
from kernels.run.check import Verdict
from kernels.run.plain.faults import Fault

MOST = 50  # messages of one answer
LONGEST = 600  # characters of a message
_IN_LOG = re.compile(r"(?<![^\s:])([^\s:]++):(\d++):(\d++): (fatal error|error|warning): (.*)")
_WORDS = re.compile(r"(?:line|it|the|there|a|an|no) ")
_TOML = re.compile(r"\(at line (\d+), column (\d+)\)")
_LINE = re.compile(r"\bline (\d+)\b|\.cuh?:(\d+)")
_KEY = re.compile(r"(?:there is no key |the key )?([A-Za-z_]\w*(?:\[\d+\])?(?:\.\w+(?:\[\d+\])?)*)")
_PART = re.compile(r"(\w+)(?:\[(\d+)\])?")
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
    of_log: dict[tuple[str, str], Diagnostic] = {}  # the messages of a compiler's log that have a line of the draft
    for file, line, column, kind, said in _IN_LOG.findall(error.log) if isinstance(error, BuildError) else ():
        if file.rpartition("/")[2] == f"{name}.cu":
            severity = "warning" if kind == "warning" else "error"
            message = Diagnostic(int(line), int(column), severity, "compiler", plain(said, name))
            of_log.setdefault((line, said), message)
    if of_log:
        return list(of_log.values())[:MOST]
    source = "front matter" if isinstance(error, FrontMatterError | ProblemError) else "check"
    if isinstance(error, BuildError | RunError):
        source = "compiler" if isinstance(error, BuildError) else "shim"
    at_line, at_column = place(text, re.sub(rf"^{name}\.cu:? ?", "", str(error)))
    return [Diagnostic(at_line, at_column, "error", source, plain(str(error), name))]


def of_fault(fault: Fault, name: str) -> Diagnostic:
    own = fault.file in ("", f"{name}.cu")
    line = fault.lines[0] if fault.lines and own else 1
    return Diagnostic(line, 0, "error" if fault.level == "error" else "info", "shim", plain(fault.text, name))


def of_verdict(verdict: Verdict, kernel: KernelSpec, line: int) -> Diagnostic:
    """The message of a wrong result. line: the write of the first wrong element, or 0."""
    wrong = [error for error in verdict.errors if not error.ok]
    sizes = verdict.problem.size if verdict.problem else ""
    said = verdict.message or "; ".join(f"{e.output} is wrong: {e.said}, allowed {short(e.allowed, 3)}" for e in wrong)
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


def place(text: str, message: str) -> tuple[int, int]:
    """Line and column of a message about the opening comment, from 1: of the key that it names, else of the comment's
    begin. Column 0 stands for the whole line.

    message: without the name of the file in front.
    """
    opening = re.match(r"\s*/\*", text)
    first = 1 + text.count("\n", 0, opening.end()) if opening else 1
    if found := _TOML.search(message):
        line, column = int(found[1]), int(found[2])
        return (first + line - 1, column if line > 1 else 0)
    if found := _LINE.search(message):
        return int(found[1] or found[2]), 0
    if found := _KEY.match(message):
        return _line_of(text, first, found[1]), 0
    return first, 0


def _line_of(text: str, first: int, key: str) -> int:
    """The line of a key such as launches[0].args. If its last part is missing, the line of its table."""
    lines = text.partition("*/")[0].splitlines()
    at = first
    tables = ""
    for part in _PART.finditer(key):
        name, number = part[1], int(part[2] or 0)
        tables = f"{tables}.{name}" if tables else name
        headers = rf'\s*\[+\s*{re.escape(tables)}\s*\]+|\s*\[\s*{re.escape(tables)}\."?[^\]]*\]'
        table = [n for n, line in enumerate(lines, 1) if n >= at and re.match(headers, line)]
        own = [n for n, line in enumerate(lines, 1) if n >= at and re.match(rf"\s*{re.escape(name)}\s*=", line)]
        if table:
            at = table[min(number, len(table) - 1)]
        elif own:
            at = own[0]
    return at
