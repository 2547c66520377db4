"""One version of a kernel: its check on one problem, its run on the CPU, and ptxas's report."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain

import numpy as np
import pandas as pd

from kernels.build import DEFAULT_ARCH, EntryFacts, Mode, build
from kernels.core.cases import fitting_cases
from kernels.core.problem import Case, Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError
from kernels.errors import BackendUnavailable, BuildError, ProblemError, RunError, WarpglassError
from kernels.run import execute, options, workers
from kernels.run.backends import cpu
from kernels.run.check import Verdict, check_case
from kernels.run.plain import launches
from kernels.run.plain.tables import traffic
from kernels.run.results import Run
from kernels.run.wrong.telling import evidence_of, once
from kernels.trace.memory.traced import requests

MOST_ROWS = 800_000  # of the trace of a whole run. A longer run is counted for its first item
RIGHT, UNJUDGED = "right", "no fault found"


@dataclass(frozen=True)
class Version:
    """One version of a kernel.

    name: of its file, for people.
    text: its source.
    error: the reason why it has no run, or None.
    request: of its run, or None if its comment cannot be read.
    verdicts: of both builds on one problem (run/check.py), or () after an error.
    run: on the CPU, of the request's scope. None if it stopped.
    arrays: outputs and scratch memory after it, in the order of the launches' arguments.
    entries: ptxas's facts of each kernel, or (). note: the reason.
    time_us: the median on a GPU, or None without one."""

    name: str
    text: str
    error: WarpglassError | None = None
    request: Request | None = None
    verdicts: tuple[Verdict, ...] = ()
    run: Run | None = None
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    entries: tuple[EntryFacts, ...] = ()
    note: str = ""
    time_us: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether it ran without a fault, and right where a truth is known."""
        return bool(self.verdicts) and all(verdict.ok for verdict in self.verdicts)

    @property
    def errors(self) -> tuple[OutputError, ...]:
        """The errors of the first build with a wrong output, else of the first build."""
        judged = [verdict for verdict in self.verdicts if verdict.errors]
        missed = [verdict for verdict in judged if any(not error.ok for error in verdict.errors)]
        return (missed or judged)[0].errors if judged else ()

    @property
    def verdict(self) -> str:
        """In a few words."""
        if isinstance(self.error, BuildError):
            return "does not compile"
        if isinstance(self.error, RunError):
            return "stopped"
        if self.error:
            return "refused"
        if self.is_right:
            return RIGHT if self.errors else UNJUDGED
        wrong = ", ".join(
            f"{e.output} off by {e.largest:.3g}, allowed {e.allowed:.3g}" for e in self.errors if not e.ok
        )
        faults = ", ".join(dict.fromkeys(f.kind for v in self.verdicts for f in v.faults if f.level == "error"))
        return f"wrong: {'; '.join(filter(None, (wrong, faults)))}" if wrong or faults else "wrong"

    @property
    def reasons(self) -> list[str]:
        """The sentences about a wrong version or an error, each with its line, the most telling first."""
        if self.error:
            return [str(self.error)]
        missed = [verdict for verdict in self.verdicts if not verdict.ok]
        told = list[str]()
        for one in once(e for v in missed for e in evidence_of(v.faults, v.reason)):
            if not any(one.text in other for other in told):  # a reason quotes its fault
                told.append(one.text)
        return told or list(dict.fromkeys(verdict.message for verdict in missed if verdict.message))

    @cached_property
    def costs(self) -> pd.DataFrame:
        """The requests of warps with their wavefronts and sectors (trace/memory/traced.py). Empty without a run."""
        return requests(self.run.trace).costs if self.run else pd.DataFrame()

    @cached_property
    def bytes(self) -> dict[tuple[str, str, str], int]:
        """(tensor, space, kind) -> moved bytes."""
        rows = traffic(self.run.trace).itertuples() if self.run else ()
        return {(str(row.tensor), str(row.space), str(row.kind)): int(row.bytes) for row in rows}

    @property
    def whole(self) -> bool:
        """Whether the trace has all items."""
        return bool(self.run and self.run.request.scope == Scope.everything(self.run.request.plan))

    @property
    def rows_of_all(self) -> int:
        """The rows of a whole trace, estimated from those of the first items."""
        if not self.run:
            return 0
        plan = self.run.request.plan
        return (self.run.trace.table.num_rows + self.run.trace.lost) * plan.items_of(plan.item)


def request_of(kernel: KernelSpec, fields: Sequence[str], other: KernelSpec | None = None) -> Request:
    """The request for a kernel. Its problem fits the other kernel too, if one of their check's problems does.

    fields: FIELD=VALUE each. Raises ProblemError."""
    values, settings = options.chosen(kernel, fields)
    default = kernel.problem_type(**values)
    both = [kernel] if other is None or not kernel.same_problems(other) else [kernel, other]

    def fitting(group: Sequence[KernelSpec]) -> Problem | None:
        listed = chain([default], (case.problem for one in both for case in fitting_cases(one, values).possible))
        return next((problem for problem in listed if all(_allows(one, problem) for one in group)), None)

    problem = fitting(both) or fitting([kernel]) or default
    return Request(kernel, problem, tuple(kernel.settings_for(problem, settings).items()), backend="cpu")


@dataclass(frozen=True)
class Source:
    """A text before its run.

    name: of its file, for people.
    kernel: reads the text. Raises WarpglassError."""

    name: str
    text: str
    kernel: Callable[[], KernelSpec]


def versions(
    sources: Sequence[Source], make: Callable[[str, Request], Version], fields: Sequence[str] = ()
) -> list[Version]:
    """The versions of some texts, on one problem if it fits them. A text that cannot be read has its error.

    make: makes a version from its name and request."""
    kernels, errors = dict[Source, KernelSpec](), dict[Source, WarpglassError]()
    for source in sources:
        try:
            kernels[source] = source.kernel()
        except (ProblemError, BuildError) as error:
            errors[source] = error
    found = []
    for source in sources:
        if kernel := kernels.get(source):
            other = next((one for one in kernels.values() if one is not kernel), None)
            found.append(make(source.name, request_of(kernel, fields, other)))
        else:
            found.append(Version(source.name, source.text, errors[source]))
    return found


def _allows(kernel: KernelSpec, problem: Problem) -> bool:
    try:
        kernel.check_conditions(problem, kernel.settings_for(problem))
    except ProblemError:
        return False
    return True


Traced = tuple[Run, dict[str, np.ndarray]]
Ran = tuple[tuple[Verdict, ...], Traced | None]


def in_worker(name: str, request: Request, time_limit: float) -> Version:
    """The version of a kernel, with its first items traced. It compiles while a worker runs it.

    time_limit: seconds of the run."""
    with ThreadPoolExecutor(1) as pool:
        compiling = pool.submit(_compiled, request)
        job = workers.submit(_ran, request, backend="cpu", title=request.kernel.name, time_limit=time_limit)
        return _made(name, request, job.result, compiling.result)


def here(name: str, request: Request, time_limit: float) -> Version:
    """The same in this process, which is a worker."""
    return _made(name, request, partial(cpu.limited, time_limit, _ran, request), partial(_compiled, request))


def _made(
    name: str, request: Request, ran: Callable[[], Ran], compiled: Callable[[], tuple[tuple[EntryFacts, ...], str]]
) -> Version:
    made = Version(name, request.kernel.source, request=request)
    try:
        verdicts, traced = ran()
        run, arrays = traced or (None, {})
        made = replace(made, verdicts=verdicts, run=run, arrays=arrays)
    except (ProblemError, BuildError, RunError) as error:
        made = replace(made, error=error)
    entries, note = compiled()
    return replace(made, entries=entries, note=note)


def _compiled(request: Request) -> tuple[tuple[EntryFacts, ...], str]:
    try:
        launched = {step.entry for step in request.plan.launches}  # a text may have other versions of a kernel
        facts = build(request.kernel, request.defines, Mode.TIMED, DEFAULT_ARCH).facts
        return tuple(one for one in facts if one.entry in launched), ""
    except (BackendUnavailable, BuildError) as error:
        return (), str(error)


def _ran(request: Request) -> Ran:
    verdicts = check_case(request.kernel, Case(request.problem, request.settings), "cpu")
    return verdicts, traced(request) if len(verdicts) > 1 else None  # a stopped run has no second build


def traced(request: Request) -> Traced:
    """A run, and its outputs and scratch memory in the order of the launches' arguments."""
    if launches.is_automatic(request):
        built, plan, probed, arrays = execute.probe_plain(request)
        run = execute.run_of_probe(request, built, plan, probed, arrays)
    else:
        run = execute.run(request)
        arrays, plan = run.arrays, request.plan
    written = {tensor.name for tensor in plan.tensors if tensor.is_written}
    order = dict.fromkeys(name for step in plan.launches for name in step.tensors)
    return run, {name: arrays[name] for name in order if name in written and name in arrays}


def of_all_items(version: Version, trace: Callable[[Request], Traced]) -> Version:
    """The version with a whole trace. trace: calls `traced`, here or in a worker."""
    if version.run is None or version.whole:
        return version
    request = version.run.request
    run, arrays = trace(replace(request, scope=Scope.everything(request.plan)))
    return replace(version, run=run, arrays=arrays)
