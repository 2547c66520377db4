"""Examines a draft in a worker: reads its opening comment, compiles it, runs it and checks it."""

import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from app.workbench import drafts
from app.workbench.diagnostics import LONGEST, MOST, Diagnostic, of_error, of_fault, of_verdict, plain
from kernels import exercises
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, WarpglassError
from kernels.opening.command import proposed
from kernels.run import check, execute
from kernels.run.backends import cpu

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
    proposal: the text with an opening comment, if it has none, or "".
    """
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
        proposal, reason = _proposal(text)
        if reason:
            found.add(Diagnostic(1, 0, "info", "front matter", plain(reason, file.stem)))
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
    cases, reasons = check.cases(kernel, cpu.device())
    if not cases:
        return False, " ".join(["No problem of the check can run.", *reasons])
    chosen = cases
    if not whole:  # some of the easy problems, from the first to the last, or the easiest
        easy = [case for case in cases if case.problem.cpu_steps <= EASY]
        easy = easy or [min(cases, key=lambda case: case.problem.cpu_steps)]
        chosen = easy[:: -(-len(easy) // FEW)]
    until, done, wrong, place = time.monotonic() + SECONDS[whole], 0, 0, 0
    for case in chosen:
        verdicts = check.check_case(kernel, case, "cpu")
        done += 1
        found.add(*(of_fault(fault, kernel.name) for verdict in verdicts for fault in verdict.faults))
        missed = [verdict for verdict in verdicts if not verdict.ok]
        wrong += bool(missed)
        if missed and not any(verdict.faults for verdict in missed):
            place = place or _line_of_wrong(kernel, case) if missed[0].errors else 0
            found.add(of_verdict(missed[0], kernel, place))
        stopped = missed and not missed[0].errors
        if stopped or wrong == WRONG[whole] or time.monotonic() > until:
            break
    if wrong:
        return False, f"{wrong} of {done} {'problem' if done == 1 else 'problems'} failed. The check has {len(cases)}."
    return True, f"{done} of {len(cases)} problems agree with float64."


def _line_of_wrong(kernel: KernelSpec, case: Case) -> int:
    """The line of the .cu that last wrote the first wrong element of an output, or 0 if the trace does not know it."""
    settings = tuple(case.settings)
    request = Request(kernel, case.problem, settings, Scope.everything(kernel.plan(case.problem, settings)), "cpu")
    run = execute.run(request)
    truth = execute.truth(case.problem, "cpu")
    for error in execute.judge(run.max_abs_errors, execute.yardstick(request), case.problem):
        array = run.arrays[error.output]
        gap = np.abs(array.astype(np.float64) - truth[error.output])
        wrong = np.flatnonzero(~(gap <= error.allowed))  # a NaN is never <=
        if wrong.size:
            offset = int(wrong[0]) * array.itemsize
            frame = run.trace.frame("file", "line", "event", "space", "tensor", "offset", "bytes")
            symbols = [symbol for symbol, of in kernel.tensor_of_symbol.items() if of == error.output]
            hit = (
                frame.event.isin(["store", "atomic"])
                & (frame.space == "global")
                & frame.tensor.isin(symbols)
                & (frame.file == kernel.path.name)
                & (frame.offset <= offset)
                & (offset < frame.offset + frame.bytes)
            )
            lines = frame.line[hit]
            return int(lines.iloc[-1]) if len(lines) else 0
    return 0


def _proposal(text: str) -> tuple[str, str]:
    """The text with a proposed opening comment, and "". Without a proposal: "", and the reason."""
    try:
        made = proposed(Path("my_kernel.cu"), text)
    except WarpglassError as error:
        return "", str(error)
    if made.questions:
        return "", f"A proposal needs an answer first: {' '.join(made.questions)}"
    return made.text_of(text), ""
