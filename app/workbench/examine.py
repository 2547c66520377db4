"""Examines a draft in a worker: reads its opening comment, compiles it, runs it and checks it."""

import time
from dataclasses import asdict, dataclass, field

from app.workbench import drafts, proposing
from app.workbench.diagnostics import LONGEST, MOST, Diagnostic, of_error, of_fault, of_verdict, plain
from app.workbench.wrong import line_of_wrong
from kernels import exercises
from kernels.core.problem import Case
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, WarpglassError
from kernels.run import check
from kernels.run.backends import cpu

FEW, EASY = 6, 400_000  # problems after a pause in typing, of at most so many steps of the CPU
WRONG = {False: 1, True: 3}  # wrong problems, after which the rest is left out: of a few, or of all
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
    if proposing.is_bare(text):
        proposal, reason = proposing.proposal(text)
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
    chosen = cases if whole else _few(cases)
    until, done, wrong, place = time.monotonic() + SECONDS[whole], 0, 0, 0
    for case in chosen:
        verdicts = check.check_case(kernel, case, "cpu")
        done += 1
        found.add(*(of_fault(fault, kernel.name) for verdict in verdicts for fault in verdict.faults))
        missed = [verdict for verdict in verdicts if not verdict.ok]
        wrong += bool(missed)
        if missed and not any(verdict.faults for verdict in missed):
            place = place or line_of_wrong(kernel, case) if missed[0].errors else 0
            found.add(of_verdict(missed[0], kernel, place))
        stopped = missed and not missed[0].errors
        if stopped or wrong == WRONG[whole] or time.monotonic() > until:
            break
    if wrong:
        return False, f"{wrong} of {done} {'problem' if done == 1 else 'problems'} failed. The check has {len(cases)}."
    return True, f"{done} of {len(cases)} problems agree with float64."


def _few(cases: list[Case]) -> list[Case]:
    """Some of the easy problems, from the first to the last, or the easiest."""
    easy = [case for case in cases if case.problem.cpu_steps <= EASY]
    easy = easy or [min(cases, key=lambda case: case.problem.cpu_steps)]
    return easy[:: -(-len(easy) // FEW)]
