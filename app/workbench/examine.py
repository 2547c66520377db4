"""Examines a draft in a worker: reads its opening comment, compiles it, runs it and checks it."""

import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from app.workbench import drafts
from explainers.story.glossary import short
from kernels import exercises
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, FrontMatterError, ProblemError, RunError, WarpglassError
from kernels.opening.command import proposed
from kernels.run import check
from kernels.run.backends import cpu
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
OUR_FOLDERS = re.compile(r"(?<![^\s:'\"(`])/[^\s:]*/(?=[\w.-]+\.(?:cuh?|h|cpp|so)\b)")


@dataclass(frozen=True)
class Diagnostic:
    """A message at a line.

    line, column: from 1. Column 0 stands for the whole line.
    severity: error, warning or info.
    source: front matter, compiler, shim or check."""

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


def of_verdict(verdict: Verdict, kernel: KernelSpec) -> Diagnostic:
    """The message of a wrong result, at the line of its reason."""
    line = 0
    wrong = [error for error in verdict.errors if not error.ok]
    sizes = verdict.problem.size if verdict.problem else ""
    said = verdict.message or "; ".join(f"{e.output} is wrong: {e.said}, allowed {short(e.allowed, 3)}" for e in wrong)
    said = f"{said.rstrip('.')} ({sizes})."
    if verdict.reason:
        first = verdict.reason.first
        line = first.line if first and first.file == kernel.path.name else verdict.reason.line
        likely = "" if verdict.reason.kind == "unknown" else "Likely: "  # else it has only the first wrong probe
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
    message = OUR_FOLDERS.sub("", message).replace(f"{name}.cu", "this file").replace(name, "this kernel")
    if _WORDS.match(message):  # and no identifier
        message = f"{message[0].upper()}{message[1:]}"
    return message[:LONGEST]


def place(text: str, message: str) -> tuple[int, int]:
    """Line and column of a message about the opening comment, from 1: of the key that it names, else of the comment's
    begin. Column 0 stands for the whole line.

    message: without the name of the file in front."""
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


FEW, EASY = 6, 400_000  # problems after a pause in typing, of at most so many steps of the CPU
WRONG = {False: 1, True: 3}  # wrong problems, after which the rest is left out: of a few, or of all
_OPENING = re.compile(r"\s*/\*[^*]*?\bfamily\s*=")  # the begin of a kernel's opening comment
SECONDS = {False: 8.0, True: 40.0}  # after which no further problem starts: a few, or all


@dataclass
class _Found:
    """The messages so far, each once."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def add(self, *more: Diagnostic) -> None:
        known = set(map(_key, self.diagnostics))
        new = [one for one in more if _key(one) not in known]
        self.diagnostics += new[: MOST - len(self.diagnostics)]


def _key(one: Diagnostic) -> tuple[int, str, str]:
    """What distinguishes a message. A line has one wrong result, as each problem gives other numbers."""
    return one.line, one.source, "" if one.source == "check" else one.message


def examine(text: str, whole: bool, name: str) -> dict[str, object]:
    """The answer for the page: {diagnostics, ok, said, kernel, proposal}.

    whole: check all problems, and not only a few.
    name: of the draft.
    proposal: the text with an opening comment, if it has none, or ""."""
    file = drafts.keep(text, name)  # the worker may be on another host
    found, said, ok, named = _Found(), "", False, ""
    try:
        kernel = drafts.read(file)
        named = kernel.name
        ok, said = _checked(kernel, found, whole)
    except WarpglassError as error:
        found.add(*of_error(error, file.stem, text))
        said = "It does not compile." if isinstance(error, BuildError) else "It does not run."
    proposal = ""
    if not _OPENING.match(text):
        proposal, reason = _proposal(text, file)
        if reason:
            found.add(Diagnostic(1, 0, "info", "front matter", plain(reason, file.stem)))
        elif not named:
            said = "It does not run yet. Press Write the opening comment."
    ok = ok and all(one.severity != "error" for one in found.diagnostics)
    diagnostics = [asdict(one) for one in found.diagnostics]
    return {"diagnostics": diagnostics, "ok": ok, "said": said, "kernel": named, "proposal": proposal}


def graded(name: str, text: str) -> dict[str, object]:
    """The grade of an answer to an exercise, as an answer for the page, with its cases."""
    grade = exercises.grade(name, text)
    entry = 1 + text[: max(0, text.find("__global__"))].count("\n")
    messages = [
        Diagnostic(next(iter(one.lines), entry), 0, "error", one.kind, one.text[:LONGEST]) for one in grade.evidence
    ]
    said = {"diagnostics": [asdict(one) for one in messages], "ok": grade.accepted, "said": grade.said}
    return {**said, "kernel": "", "pages": [], "cases": [asdict(case) for case in grade.cases]}


def _checked(kernel: KernelSpec, found: _Found, whole: bool) -> tuple[bool, str]:
    """Whether no problem is wrong, and a sentence. Raises WarpglassError if it does not compile."""
    found_cases = check.choose(kernel, cpu.device())
    cases, named = found_cases.cases, found_cases.named
    if not cases:
        return False, " ".join(["No problem of the check can run.", *found_cases.cannot_run, *found_cases.refused])
    if not found_cases.is_enough:
        return False, f"Only {found_cases.fitting} of {named} problems fit its conditions, so {check.TOO_FEW}."
    chosen = cases
    if not whole:  # some of the easy problems, from the first to the last, or the easiest
        easy = [case for case in cases if case.problem.cpu_steps <= EASY]
        easy = easy or [min(cases, key=lambda case: case.problem.cpu_steps)]
        chosen = easy[:: -(-len(easy) // FEW)]
    until, done, wrong = time.monotonic() + SECONDS[whole], 0, 0
    for case in chosen:
        verdicts = check.check_case(kernel, case, "cpu")
        done += 1
        found.add(*(of_fault(fault, kernel.name) for verdict in verdicts for fault in verdict.faults))
        missed = [verdict for verdict in verdicts if not verdict.ok]
        wrong += bool(missed)
        if missed and not any(verdict.faults for verdict in missed):
            found.add(of_verdict(missed[0], kernel))
        stopped = missed and not missed[0].errors
        if stopped or wrong == WRONG[whole] or time.monotonic() > until:
            break
    if wrong:
        return False, f"{wrong} of {done} {'problem' if done == 1 else 'problems'} failed. The check has {len(cases)}."
    if not any(case.problem.compared for case in chosen):
        return True, f"No fault found in {done} of {len(cases)} runs. No truth is known, so nobody compared the values."
    return True, f"{'ok' if done == named else 'ok so far'}: {done} of {named} problems checked, all agree."


def _proposal(text: str, file: Path) -> tuple[str, str]:
    """The text with a proposed opening comment, and "". Without a proposal: "", and the reason."""
    try:
        made = proposed(Path("my_kernel.cu"), text, file)
    except WarpglassError as error:
        return "", str(error)
    if made.questions:
        return "", f"A proposal needs an answer first: {' '.join(made.questions)}"
    return made.text_of(text), ""
