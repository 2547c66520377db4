"""Grades an answer to an exercise by the real check, on hidden problems, in the jail.

Each grade draws new problems with new inputs. The decisive run of a problem comes first, with NaN in its outputs. No
truth and no earlier output of the problem exists then, so that an answer can copy none. The reference comes after it.
"""

import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from kernels.build import Mode, build
from kernels.build.plain import watching
from kernels.catalog import DEVICE, SHIM, current, load_kernel
from kernels.core.problem import Case, Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.sources import MOST_BYTES, read_files
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, BuildError, FrontMatterError, ProblemError, RunError, RunTimeout
from kernels.exercises.exercise import FOLDER, Exercise, Limit, find
from kernels.jail import setting
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.check import Verdict, check_case
from kernels.run.wrong.telling import BUILD, ENDLESS, HIDDEN, Evidence, evidence_of, once
from kernels.trace.automatic import BARRIER
from kernels.trace.memory.traced import requests
from kernels.trace.trace import Trace

SPACES = {"sectors": "global", "wavefronts": "shared"}
GLOBAL, SHARED, CONFLICT = OF_ACCESS = ("global memory", "shared memory", "bank conflict")
"""The kinds of evidence."""


@dataclass(frozen=True)
class Count:
    """A count of an answer on one problem.

    found, allowed: of all its requests.
    line, tensor: with the largest part.
    of_line, requests: the count and the requests of this line and tensor.
    conflicts: of all its requests of shared memory."""

    limit: Limit
    found: int
    allowed: int
    line: int
    tensor: str
    of_line: int
    requests: int
    conflicts: int

    @property
    def ok(self) -> bool:
        return self.found <= self.allowed

    @property
    def kind(self) -> str:
        """The kind of evidence, if the count is too large."""
        if self.limit.count == "sectors":
            return GLOBAL
        return CONFLICT if self.found - self.conflicts <= self.allowed else SHARED

    @property
    def said(self) -> str:
        return f"{self.found:,} {self.limit.count} of {self.allowed:,}"

    @property
    def text(self) -> str:
        name = f"{self.limit.count} of {SPACES[self.limit.count]} memory"
        times = f"{self.limit.times:g} times " if self.limit.times != 1 else ""
        least = f"At most {self.allowed:,} are allowed, {times}the count of {self.limit.of or 'the solution'}."
        each = f"{self.of_line / self.requests:.3g} for each request"
        line = f"Line {self.line} takes the most, for {self.tensor}: {self.of_line:,}, or {each}."
        return f"The answer takes {self.found:,} {name}. {least} {line}"


def traced(kernel: KernelSpec, problem: Problem) -> Trace:
    trace = execute.run(Request(kernel, problem, (), Scope.everything(kernel.plan(problem)), "cpu")).trace
    assert not trace.lost, "the hidden problems are small"
    return trace


def shared_words(trace: Trace) -> tuple[str, int, int] | None:
    """Tensor, word and line of the first word that several blocks of a launch use, and not only by atomics or loads.
    The check of races takes a fence and an atomic for an order. No exercise needs one."""
    frame = trace.frame("launch", "block", "space", "tensor", "event", "offset", "bytes", "line")
    frame = frame[frame.space == "global"]
    words = frame.loc[frame.index.repeat((frame.bytes.astype(int) + 3) // 4)]
    words = words.assign(word=words.offset.astype(int) // 4 + words.groupby(level=0).cumcount())
    words = words.assign(plain=words.event != "atomic", writes=words.event != "load").sort_values("word")
    found = words.groupby(["launch", "tensor", "word"], observed=True)
    sums = found.agg(
        blocks=("block", "nunique"), plain=("plain", "any"), writes=("writes", "any"), line=("line", "max")
    )
    mixed = sums[(sums.blocks > 1) & sums.plain & sums.writes]
    if mixed.empty:
        return None
    _, tensor, word = mixed.index[0]
    return str(tensor), int(word), int(mixed.line.iloc[0])


def counts(exercise: Exercise, trace: Trace, problem: Problem) -> Iterator[Count]:
    """The Counts of a right answer on a problem, one for each limit. trace: of the answer."""
    if not exercise.limits:
        return
    own = _by_line(trace)
    others: dict[str, dict[str, pd.DataFrame]] = {}
    for limit in exercise.limits:
        if limit.of not in others:
            solution = FOLDER / exercise.of / "solution.cu"
            kernel = current().kernels[limit.of] if limit.of else load_kernel(solution)
            others[limit.of] = _by_line(traced(kernel, problem))
        name = limit.count
        table = own[name]
        sums = table[table.space == SPACES[name]].groupby(["line", "tensor"])[[name, "requests"]].sum()
        line, tensor = sums[name].idxmax() if len(sums) else (0, "")
        most, asked = map(int, sums.loc[(line, tensor)]) if len(sums) else (0, 1)
        allowed = int(limit.times * others[limit.of][name][name].sum())
        yield Count(limit, int(table[name].sum()), allowed, int(line), tensor, most, asked, int(table.conflicts.sum()))


def _by_line(trace: Trace) -> dict[str, pd.DataFrame]:
    """Count -> Requests.by_line. Records on two sides of a barrier never pair. Lanes that pass a probe unequally often
    pair from their first records or from their last ones. A loop of each lane before the real one would shift the
    pairs, so wavefronts are the larger of both counts."""
    frame = trace.frame("launch", "block", "warp", "lane", "seq", "event").sort_values("seq")
    lane = [frame[name] for name in ("launch", "block", "warp", "lane")]
    apart = (frame.event == BARRIER).groupby(lane, observed=True).cumsum().sort_index().to_numpy()
    both = [requests(trace, apart=apart, from_last=from_last).by_line for from_last in (False, True)]
    return {"sectors": both[0], "wavefronts": max(both, key=lambda table: table.wavefronts.sum())}


SECONDS, ALL_SECONDS = 15.0, 45.0  # of the launches of one problem, and of a grade. A page waits for 60 s
SLACK = 8.0  # an error may be so many times the check's limit, as exercises are not about roundings
_HIDDEN_REMEDY = "Use assignments and CUDA's own functions, and pass no struct of memory to a __noinline__ function."


@dataclass(frozen=True)
class CaseResult:
    """One hidden problem.

    problem: its fields as text.
    ok: whether all runs are right.
    said: the result in a sentence."""

    problem: dict[str, str]
    ok: bool
    said: str


@dataclass(frozen=True)
class Grade:
    """The result of an answer. It is no score.

    accepted: whether all problems are right and no fault is found.
    said: a sentence.
    cases: all hidden problems of this grade. Empty if the answer does not compile.
    evidence: each found fault once, the most telling first.
    jailed: whether the answer ran in the jail. On a machine without one, it runs with its user's rights."""

    exercise: str
    accepted: bool
    said: str
    cases: tuple[CaseResult, ...]
    evidence: tuple[Evidence, ...]
    jailed: bool

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def grade(name: str, text: str) -> Grade:
    """The Grade of an answer. Call it in a worker: it compiles and runs the text.

    name: of the exercise.
    text: of the .cu. Only its device code counts: the launch and the problems are the exercise's own.
    Raises ProblemError for an unknown exercise or too long a text, BackendUnavailable if this server takes no answers.
    """
    if reason := setting.why_no_workbench():
        raise BackendUnavailable(reason)
    exercise = find(name)
    if len(text.encode()) > MOST_BYTES:
        raise ProblemError(f"The answer has more than {MOST_BYTES:,} bytes. Shorten it.")
    with tempfile.TemporaryDirectory(prefix="exercise-") as folder:
        file = Path(folder).resolve() / setting.DRAFTS / name / f"{name}.cu"
        file.parent.mkdir(parents=True)
        file.write_text(text)
        jailed = setting.is_jailed(file)
        try:
            return _graded(exercise, _kernel(exercise, file), jailed)
        except (BuildError, FrontMatterError) as error:
            lines = tuple(int(line) for line in re.findall(r"\.cu(?::|:? line )(\d+)", str(error))[:1])
            evidence = (Evidence(BUILD, str(error), lines),)
            return Grade(exercise.name, False, "It does not compile.", (), evidence, jailed)


def _kernel(exercise: Exercise, file: Path) -> KernelSpec:
    """The answer with the exercise's own front matter. An answer that changes a marked line has no marks."""
    own = exercise.kernel
    answer = replace(own, name=exercise.name, path=file, files=read_files(file, DEVICE, SHIM))
    if not answer.plain:
        raise FrontMatterError(f"{file.name}: it includes common.cuh. An answer is in CUDA's own names. Remove it.")
    try:
        watching.marks(answer)
    except BuildError:
        return replace(answer, watch=())
    return answer


def _graded(exercise: Exercise, kernel: KernelSpec, jailed: bool) -> Grade:
    cases, evidence = list[CaseResult](), list[Evidence]()
    problems, until = exercise.drawn(kernel), time.monotonic() + ALL_SECONDS
    for number, problem in enumerate(problems, 1):
        if (rest := until - time.monotonic()) <= 0:
            late = f"The grade reached its limit of {ALL_SECONDS:g} s before problem {number} of {len(problems)}. "
            evidence.append(Evidence(ENDLESS, late + "Look for a long loop, or give more threads the work."))
            break
        for mode in (Mode.TIMED, Mode.PROBED):  # a compile has limits of its own
            build(kernel, Request(kernel, problem, (), Scope(), "cpu").defines, mode, cpu.device().target)
        result, found, ended = cpu.limited(min(SECONDS, rest), _case, kernel, problem)
        if result.ok:
            result, large = cpu.limited(SECONDS, _counted, exercise, kernel, problem)
            found = [*found, *large]
        cases.append(result)
        evidence += found
        if ended:
            break
    wrong = sum(not case.ok for case in cases)
    said = f"{wrong} of {len(cases)} problems are wrong." if wrong else "All results are right."
    if wrong and evidence and all(one.kind in OF_ACCESS for one in evidence):
        said = f"All results are right, but {wrong} of {len(cases)} problems take too much."
    if evidence and not wrong:
        said = "All results are right, but the runs show a fault."
    return Grade(exercise.name, not evidence and not wrong, said, tuple(cases), once(evidence), jailed)


def _case(kernel: KernelSpec, problem: Problem) -> tuple[CaseResult, list[Evidence], bool]:
    """The result of a problem, its evidence, and whether the other problems are pointless: a loop without an end."""
    request = Request(kernel, problem, (), Scope(), "cpu")
    decisive: dict[str, np.ndarray] | None = None
    with suppress(RunError):  # the check below names the fault
        decisive = execute.run_timed_build(request)
    try:
        verdicts = check_case(kernel, Case(problem), "cpu")
    except RunError as error:
        late = isinstance(error, RunTimeout)
        said = str(error)
        return CaseResult(_fields(problem), False, said), [Evidence(ENDLESS if late else "stopped", said)], late
    ok = all(map(_right, verdicts))
    if ok and decisive is not None:
        errors = execute.judge(
            execute.largest_errors(problem, decisive), execute.yardstick(request), problem, plain=True
        )
        ok = all(error.share <= SLACK for error in errors)
    if not ok:
        evidence = [*_evidence(verdicts)]
        endless = any(fault.kind == ENDLESS for verdict in verdicts for fault in verdict.faults)
        wrong = [any(error.share > SLACK for error in verdict.errors) for verdict in verdicts]
        if wrong == [True, False] and not verdicts[0].message:
            evidence = [Evidence(HIDDEN, "The results are wrong if only recorded accesses count. " + _HIDDEN_REMEDY)]
        return CaseResult(_fields(problem), False, _said(verdicts)), evidence, endless
    return CaseResult(_fields(problem), True, "It agrees with float64."), [*_evidence(verdicts)], False


def _counted(exercise: Exercise, kernel: KernelSpec, problem: Problem) -> tuple[CaseResult, list[Evidence]]:
    """The result of a right answer on a problem, with its counts. The evidence of too large ones, or of no atomic."""
    trace = traced(kernel, problem)
    if mixed := shared_words(trace):
        tensor, word, line = mixed
        text = f"Several blocks use word {word} of {tensor}, and line {line} without an atomic. A fence is no atomic."
        return CaseResult(_fields(problem), False, text), [Evidence("atomic", text, (line,))]
    every = [*counts(exercise, trace, problem)]
    said = " ".join(["It agrees with float64.", *(f"It takes {count.said}." for count in every)])
    large = [Evidence(count.kind, count.text, (count.line,)) for count in every if not count.ok]
    return CaseResult(_fields(problem), not large, said), large


def _right(verdict: Verdict) -> bool:
    """Whether a build is right. New inputs each time would refuse a right answer by luck, without some slack."""
    return not verdict.message and bool(verdict.errors) and all(e.share <= SLACK for e in verdict.errors)


def _fields(problem: Problem) -> dict[str, str]:
    """The fields that a reader needs to know the problem."""
    return {name: text for name, text in problem.texts().items() if text and len(text) < 60}


def _said(verdicts: Iterable[Verdict]) -> str:
    missed = [verdict for verdict in verdicts if not _right(verdict)]
    for verdict in missed:
        wrong = [f"{e.output}: {e.said}, allowed {e.allowed:.3g}" for e in verdict.errors if not e.ok]
        if wrong:
            return f"{'; '.join(wrong)}."
    return missed[0].message if missed else "A run on new inputs is wrong."


def _evidence(verdicts: Iterable[Verdict]) -> Iterable[Evidence]:
    for verdict in verdicts:
        yield from evidence_of(verdict.faults, None if _right(verdict) else verdict.reason)
