"""Compares both builds of a kernel with float64 and with each other, on the cases of its problem."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from kernels.build.plain import opt_in
from kernels.core.cases import fitting_cases
from kernels.core.problem import Case, Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError, worst
from kernels.errors import FrontMatterError, RunError, RunTimeout, WarpglassError
from kernels.run import execute, options, races, workers
from kernels.run.backends import Device
from kernels.run.plain import launches
from kernels.run.plain.faults import Fault
from kernels.run.wrong.explain import explain
from kernels.run.wrong.found import Reason
from kernels.run.wrong.telling import evidence_of, once

Summary = dict[str, Any]
"""The summary of a kernel's cases, with JSON's types."""


@dataclass(frozen=True)
class Verdict:
    """One build on one problem.

    errors: of each output (core/tolerance.py), empty without a run.
    ok: whether all errors are within their limits, and the builds agree.
    message: the reason of a failed run.
    faults: of a plain kernel on the CPU.
    reason: of a wrong result, if its signature names one."""

    kernel: str
    build: str
    problem: Problem | None
    settings: tuple[tuple[str, int], ...]
    errors: tuple[OutputError, ...]
    ok: bool
    message: str = ""
    records: int = 0
    faults: tuple[Fault, ...] = ()
    reason: Reason | None = None

    @property
    def max_abs_error(self) -> float:
        return worst(self.errors).largest if self.errors else float("inf")

    @property
    def baseline_max_abs_error(self) -> float:
        return worst(self.errors).yardstick if self.errors else 0.0

    @property
    def share(self) -> float:
        return worst(self.errors).share if self.errors else float("inf")


LEAST = 4  # at least one of so many problems has to fit
TOO_FEW = (
    "this is no check: its conditions refuse the other problems. Loosen [[conditions]], or make the kernel take more "
    "sizes"
)


@dataclass(frozen=True)
class Chosen:
    """The problems of a check.

    cases: to try.
    cannot_run: the reasons of this device against others.
    fitting: the problems that fit the kernel's conditions, of those that the family names (named).
    refused: the sentence of a condition -> its problems.
    fault: the reason, if the family cannot name its problems, else ""."""

    cases: list[Case]
    cannot_run: list[str]
    fitting: int
    named: int
    refused: Mapping[str, int]
    fault: str = ""

    @property
    def is_enough(self) -> bool:
        return LEAST * self.fitting >= self.named


def choose(kernel: KernelSpec, device: Device, every: int = 1, texts: Sequence[str] = ()) -> Chosen:
    """The problems of a kernel's check. A refused problem gives way to a fitting one near it.

    every: only every K-th problem.
    texts: FIELD=VALUE each, in place of each problem's own value."""
    found = fitting_cases(kernel, *options.chosen(kernel, texts))
    possible, reasons = list[Case](), dict[str, None]()
    for case in found.possible[::every]:
        try:
            reason = kernel.cannot_run(case.problem, kernel.settings(case.settings), device)
        except FrontMatterError:  # a case without a plan counts as possible: its run reports the error
            reason = None
        if reason:
            reasons[reason] = None
        else:
            possible.append(case)
    return Chosen(possible, list(reasons), len(found.possible), found.named, found.refused, found.fault)


def cases(kernel: KernelSpec, device: Device, every: int = 1) -> tuple[list[Case], list[str]]:
    """Every K-th case of a kernel for this device, and the reasons of its refused cases, each once."""
    found = choose(kernel, device, every)
    return found.cases, found.cannot_run


def check(
    kernels: Sequence[KernelSpec],
    device: Device,
    every: int,
    time_limit: float,
    progress: Callable[[int, int], None] = lambda done, of: None,
    texts: Sequence[str] = (),
    finished: Callable[[Summary, list[Verdict]], None] = lambda row, verdicts: None,
) -> tuple[list[Verdict], list[Summary]]:
    """The Verdicts of every K-th case of each kernel, from the device's workers, and a summary of each kernel.

    A failed case has a Verdict too, and so has a kernel without a case.
    progress: progress(done, of) after each case.
    texts: FIELD=VALUE each, in place of each case's own value.
    finished: finished(summary, verdicts) after each kernel."""
    chosen = {kernel: choose(kernel, device, every, texts) for kernel in kernels}
    submit = partial(workers.submit, check_case, backend=device.backend, time_limit=time_limit)
    jobs = [
        (kernel, case, submit(kernel, case, device.backend, title=kernel.name))
        for kernel, found in chosen.items()
        for case in found.cases
    ]
    verdicts, summaries, done = list[Verdict](), list[Summary](), 0
    for kernel, found in chosen.items():
        own = list[Verdict]()
        if not found.fitting:
            refused = f"all {found.named} problems of its check are refused: {'; '.join(found.refused)}"
            message = found.fault or f"{kernel.path.name}: {refused}"
            own.append(Verdict(kernel.name, "both", None, (), (), False, message))
        for _, case, job in jobs[done : done + len(found.cases)]:
            try:
                own += job.result()
            except WarpglassError as error:
                message = f"{type(error).__name__}: {error}"
                own.append(Verdict(kernel.name, "both", case.problem, tuple(case.settings), (), False, message))
            done += 1
            progress(done, len(jobs))
        summaries.append(summary(kernel, found, own))
        finished(summaries[-1], own)
        verdicts += own
    return verdicts, summaries


def check_case(kernel: KernelSpec, case: Case, backend: str) -> tuple[Verdict, ...]:
    """The Verdicts of the probed and the timed build, in a worker.

    On the CPU, the timed build runs in both thread orders, and a difference is a failure. A plain kernel whose probed
    run stops has no other run: its faults harm the process."""
    request = Request(kernel, case.problem, tuple(case.settings), Scope(), backend)
    refused = [
        Fault("refused launch", "error", said, kernel.path.name, (line,))
        for said, line, _ in opt_in.needs(kernel, request.plan)
        if line
    ]
    if launches.is_automatic(request):
        probe = execute.probe_plain(request)
        if probe[2].stopped:
            message, faults = str(launches.stop(probe[2])), (*probe[2].faults, *refused)
            return (Verdict(kernel.name, "probed", case.problem, request.settings, (), False, message, 0, faults),)
        probed = execute.run_of_probe(request, *probe)
    else:
        probed = execute.run(request)
    timed = execute.run_timed_build(request)
    yardsticks = execute.yardstick(request)
    differ = [t.name for t in case.problem.outputs if probed.arrays[t.name].tobytes() != timed[t.name].tobytes()]
    any_order = races.sums_in_any_order(request)
    messages = []
    if differ and not any_order:
        messages.append(f"the timed build's {', '.join(differ)} differs from the probed build's")
    timed_errors, orders = execute.largest_errors(case.problem, timed, backend, request.plan), ""
    if backend == "cpu":
        try:
            late = races.late_outputs(request)
        except RunTimeout:
            raise
        except RunError as error:
            messages.append(str(error))
        else:
            orders = races.race(request, timed, late)
            messages += [orders] if orders else []
            if any_order:
                late_errors = execute.largest_errors(case.problem, late, backend, request.plan)
                timed_errors = {name: float(np.maximum(e, late_errors[name])) for name, e in timed_errors.items()}

    def verdict(build: str, largest: dict[str, float], message: str, *of_probes: Any) -> Verdict:
        errors = execute.judge(largest, yardsticks, case.problem, kernel.plain)
        ok = all(error.ok for error in errors) and not message
        return Verdict(kernel.name, build, case.problem, tuple(case.settings), errors, ok, message, *of_probes)

    records = probed.trace.table.num_rows + probed.trace.lost
    faults = (*probed.faults, *refused)
    if backend == "cpu" and not kernel.plain:
        faults += races.watched(request)
    probed_faults = launches.errors(faults)
    if not kernel.plain and not records:
        probed_faults.append("It includes common.cuh, and no probe logged a record. Add probes, or remove common.cuh.")
    both = (
        verdict("probed", probed.max_abs_errors, " ".join(probed_faults), records, faults),
        verdict("timed", timed_errors, "; ".join(messages)),
    )
    first = next((number for number, one in enumerate(both) if not one.ok), None)
    if first is None:
        return both
    reason = explain(request, (probed.arrays, timed)[first], both[first].errors, faults, orders)
    return tuple(one if one.ok else replace(one, reason=reason) for one in both)


def summary(kernel: KernelSpec, chosen: Chosen, verdicts: Iterable[Verdict]) -> Summary:
    """`check`'s summary of one kernel, with its JSON keys (formats.md)."""
    own = [verdict for verdict in verdicts if verdict.kernel == kernel.name]
    ratios = [error.largest / error.yardstick for verdict in own for error in verdict.errors if error.yardstick]
    wrong = {(verdict.problem, verdict.settings) for verdict in own if not verdict.ok}
    evidence = [one for v in own if not v.ok for one in evidence_of(v.faults, v.reason)]
    return {
        "kernel": kernel.name,
        "named": chosen.named,
        "problems": len(chosen.cases),
        "enough": chosen.is_enough,
        "wrong": len(wrong),
        "missed": sum(not verdict.ok for verdict in own),
        "likely": [one.as_json() for one in once(evidence)],
        "worst_ratio": max(ratios, default=0.0),
        "worst_share": max((verdict.share for verdict in own), default=0.0),
        "main": kernel.problem_type.own_word(),
        "compared": any(verdict.problem is None or verdict.problem.compared for verdict in own),
        "records": sum(verdict.records for verdict in own),
        "cannot_run": chosen.cannot_run,
        "refused": dict(chosen.refused),
    }
