"""Both builds of a kernel compared with float64 and with each other, on the cases that its problem names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.core.cases import Cases, cases_of
from kernels.core.problem import Case
from kernels.core.request import Request, Scope
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError, worst
from kernels.errors import FrontMatterError, RunError, RunTimeout, WarpglassError
from kernels.run import execute, options, races, workers
from kernels.run.backends import Device


@dataclass(frozen=True)
class Verdict:
    """One build on one problem. errors: of each output (core/tolerance.py), empty if it did not run; ok: all are
    allowed, and the builds agree; message: why a run failed, if it did; records: how many the probes logged."""

    kernel: str
    build: str
    problem: Any
    settings: tuple[tuple[str, int], ...]
    errors: tuple[OutputError, ...]
    ok: bool
    message: str = ""
    records: int = 0

    @property
    def max_abs_error(self) -> float:
        """Of the output that uses most of what it is allowed; inf if it did not run."""
        return worst(self.errors).largest if self.errors else float("inf")

    @property
    def baseline_max_abs_error(self) -> float:
        """torch's error in that same output."""
        return worst(self.errors).yardstick if self.errors else 0.0

    @property
    def share(self) -> float:
        """The error over what is allowed, of that same output."""
        return worst(self.errors).share if self.errors else float("inf")


def cases(kernel: KernelSpec, device: Device, every: int = 1) -> tuple[list[Case], list[str]]:
    """Every K-th case of a kernel that this device can run, and for those that it cannot the reasons, each once."""
    return _runnable(kernel, cases_of(kernel, "check_cases").possible[::every], device)


def _runnable(kernel: KernelSpec, chosen: list[Case], device: Device) -> tuple[list[Case], list[str]]:
    """As `cases`. A case that has no plan counts as possible: its run then says what is wrong."""
    possible, reasons = [], dict[str, None]()
    for case in chosen:
        try:
            reason = kernel.cannot_run(case.problem, kernel.settings(case.settings), device)
        except FrontMatterError:
            reason = None
        if reason:
            reasons[reason] = None
        else:
            possible.append(case)
    return possible, list(reasons)


def check(
    kernels: Sequence[KernelSpec],
    device: Device,
    every: int,
    time_limit: float,
    progress: Callable[[int, int], None] = lambda done, of: None,
    texts: Sequence[str] = (),
) -> tuple[list[Verdict], list[dict[str, Any]]]:
    """The Verdicts of every K-th case of each kernel, run in the device's workers, and a summary of each kernel. A case
    that fails has a Verdict too, and so has a kernel without any case. progress(done, of) is told of the cases.
    texts: FIELD=VALUE, which every case takes in place of its own."""
    named = {kernel: cases_of(kernel, "check_cases", *options.chosen(kernel, texts)) for kernel in kernels}
    chosen = {kernel: _runnable(kernel, found.possible[::every], device) for kernel, found in named.items()}
    jobs = [
        (
            kernel,
            case,
            workers.submit(
                check_case,
                kernel,
                case,
                device.backend,
                backend=device.backend,
                what=kernel.name,
                time_limit=time_limit,
            ),
        )
        for kernel, (possible, _) in chosen.items()
        for case in possible
    ]
    verdicts = [_without_cases(kernel, found) for kernel, found in named.items() if not found.possible]
    for number, (kernel, case, job) in enumerate(jobs, 1):
        try:
            verdicts += job.result()
        except WarpglassError as error:
            message = f"{type(error).__name__}: {error}"
            verdicts.append(Verdict(kernel.name, "both", case.problem, tuple(case.settings), (), False, message))
        progress(number, len(jobs))
    return verdicts, [
        summary(kernel, len(possible), reasons, verdicts, named[kernel].refused)
        for kernel, (possible, reasons) in chosen.items()
    ]


def _without_cases(kernel: KernelSpec, found: Cases) -> Verdict:
    """The Verdict of a kernel for which no case is left to run."""
    refused = "; ".join(found.refused)
    said = f"{kernel.path.name}: all {found.refused.total()} problems of its check are refused: {refused}"
    return Verdict(kernel.name, "both", None, (), (), False, found.fault or said)


def check_case(kernel: KernelSpec, case: Case, backend: str) -> tuple[Verdict, Verdict]:
    """A Verdict for the probed and the timed build. On the CPU the timed build runs in both thread orders, and a
    difference fails. Runs in a worker."""
    request = Request(kernel, case.problem, tuple(case.settings), Scope(), backend)
    probed, timed = execute.run(request), execute.run_timed_build(request)
    yardsticks = execute.yardstick(request)
    differ = [t.name for t in case.problem.outputs if probed.arrays[t.name].tobytes() != timed[t.name].tobytes()]
    any_order = races.sums_in_any_order(request)
    messages = [f"the timed build's {', '.join(differ)} differs from the probed build's"] * (
        not any_order and any(differ)
    )
    timed_errors = execute.largest_errors(case.problem, timed, backend)
    if backend == "cpu":
        try:
            late = races.late_outputs(request)
        except RunTimeout:
            raise
        except RunError as error:
            messages.append(str(error))
        else:
            messages += filter(None, [races.race(request, timed, late)])
            if any_order:
                late_errors = execute.largest_errors(case.problem, late, backend)
                timed_errors = {name: float(np.maximum(e, late_errors[name])) for name, e in timed_errors.items()}

    def verdict(build: str, largest: dict[str, float], message: str, records: int = 0) -> Verdict:
        errors = execute.judge(largest, yardsticks, case.problem)
        return Verdict(
            kernel.name,
            build,
            case.problem,
            tuple(case.settings),
            errors,
            all(e.ok for e in errors) and not message,
            message,
            records,
        )

    records = probed.trace.table.num_rows + probed.trace.lost
    return (
        verdict("probed", probed.max_abs_errors, "", records),
        verdict("timed", timed_errors, "; ".join(messages)),
    )


def summary(
    kernel: KernelSpec,
    count: int,
    reasons: list[str],
    verdicts: Iterable[Verdict],
    refused: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """What `check` says of one kernel.

    count: its cases; reasons: why it cannot run others here; refused: Cases.refused. worst_ratio: the largest error
    over torch's, where torch errs at all; worst_share: over what is allowed.
    """
    mine = [v for v in verdicts if v.kernel == kernel.name]
    ratios = [e.largest / e.yardstick for v in mine for e in v.errors if e.yardstick]
    return {
        "kernel": kernel.name,
        "problems": count,
        "missed": sum(not v.ok for v in mine),
        "worst_ratio": max(ratios, default=0.0),
        "worst_share": max((v.share for v in mine), default=0.0),
        "records": sum(v.records for v in mine),
        "cannot_run": reasons,
        "refused": dict(refused or {}),
    }
