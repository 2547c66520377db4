"""The kernel of a call: the fastest by recorded times of all kernels that fit its types, its shapes and the device.

Nothing here names a kernel. A problem's class makes its problem from the call, the opening comment of a .cu declares
its limits, and the tables of kernels/recordings/ have the times.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernels import catalog
from kernels.core.call import Call
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import NoKernel, WarpglassError
from kernels.recordings import tables
from kernels.run import execute
from kernels.run.backends import Device

MISMATCH = {"dtype": 16.0, "head_dim": 4.0, "causal": 1.0}  # how far apart two problems are, in doublings of the work


@dataclass(frozen=True)
class Choice:
    """The kernel of a call.

    kernel, problem, settings: the kernel, the problem of the call, and the kernel's constants.
    refused: kernel -> the reason against it, for kernels of the same operator.
    estimated_us: the time by the nearest recorded time of the kernel, or None without one.
    """

    kernel: KernelSpec
    problem: Problem
    settings: tuple[tuple[str, int], ...]
    refused: tuple[tuple[str, str], ...]
    estimated_us: float | None


def choose(call: Call, device: Device, kernel: str = "") -> Choice:
    """The Choice for a call. kernel: the name of the only kernel, or the path of a .cu, or "" for the fastest.

    Raises NoKernel with the reason against each kernel of the operator.
    """
    specs = [catalog.find(kernel)] if kernel else list(catalog.current().kernels.values())
    specs = [spec for spec in specs if kernel or spec.problem_type.operator == call.operator]
    problems, refused = _problems(specs, call)
    fitting = sorted((spec for spec in specs if spec in problems), key=lambda spec: _rank(spec, problems[spec], device))
    for spec in fitting:
        try:
            return replace(checked(spec, problems[spec], device), refused=tuple(refused.items()))
        except WarpglassError as error:
            refused[spec.name] = str(error)
    raise NoKernel(_reasons(call, device, refused))


def checked(spec: KernelSpec, problem: Problem, device: Device) -> Choice:
    """The Choice of a kernel for a problem. Raises ProblemError if it cannot run on the device."""
    settings = tuple(spec.settings_for(problem).items())
    execute.check_possible(Request(spec, problem, settings, backend=device.backend), device)
    estimate = estimated_us(spec, problem, device)
    return Choice(spec, problem, settings, (), None if math.isinf(estimate) else estimate)


def _problems(specs: list[KernelSpec], call: Call) -> tuple[dict[KernelSpec, Problem], dict[str, str]]:
    """The problem of the call for each kernel, and the reasons of the other kernels."""
    made: dict[type[Problem], Problem | str] = {}
    for kind in {spec.problem_type for spec in specs}:
        try:
            made[kind] = kind.from_call(call) if kind.operator == call.operator else _other_operator(kind)
        except WarpglassError as error:
            made[kind] = str(error)
    problems: dict[KernelSpec, Problem] = {}
    refused: dict[str, str] = {}
    for spec in specs:
        found = made[spec.problem_type]
        if isinstance(found, Problem):
            problems[spec] = found
        else:
            refused[spec.name] = found
    return problems, refused


def _other_operator(kind: type[Problem]) -> str:
    belongs = f"belongs to the operator {kind.operator}" if kind.operator else "has no operator"
    return f"The kernel's problem, {kind.title}, {belongs}."


def _reasons(call: Call, device: Device, refused: dict[str, str]) -> str:
    """The message without a kernel: each reason once, with the kernels that have it."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(name)
    shapes = ", ".join(f"{name} {list(given.shape)} {given.dtype}" for name, given in call.tensors)
    options = "".join(f", {name} {value}" for name, value in call.options)
    said = "".join(f"\n- {', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return f"No kernel fits {call.operator}({shapes}{options}) on {device.name}." + (
        said or " No family of the catalogue has kernels for this operator."
    )


def _rank(spec: KernelSpec, problem: Problem, device: Device) -> tuple[float, float]:
    """Faster kernels come first, then kernels without a time, the highest rung first.

    The CPU has no times. The kernel with the fewest threads takes the least time there.
    """
    if device.backend == "cpu":
        try:
            plan = spec.plan(problem, spec.settings_for(problem))
        except WarpglassError:
            return math.inf, 0.0  # choose() reports the reason
        return float(sum(launch.blocks * launch.threads for launch in plan.launches)), 0.0
    return estimated_us(spec, problem, device), -spec.rung


def estimated_us(spec: KernelSpec, problem: Problem, device: Device) -> float:
    """The recorded time of the kernel's nearest problem, times the ratio of the work. Infinite without a record."""
    best, at = math.inf, math.inf
    for fields, flops, median_us in _times(spec, device.name):
        work = problem.work
        ratio = work.flops / flops if work and work.flops and flops else 1.0
        own = problem.values()
        apart = sum(cost for name, cost in MISMATCH.items() if fields.get(name) != own.get(name))
        apart += abs(math.log2(ratio))
        if apart < best:
            best, at = apart, median_us * ratio
    return at


def _times(spec: KernelSpec, device: str) -> Iterator[tuple[dict[str, object], float, float]]:
    """(fields of the problem, flops, us) of each recorded time of the kernel on the device, else on any GPU."""
    recorded = tables.recorded("bench")
    found = recorded.get(device) or next(iter(recorded.values()), None)
    if found is None:
        return
    rows = found[0]
    own = rows[(rows["name"] == spec.name) & (rows["code_hash"] == spec.code_hash) & (rows["status"] == "ok")]
    for problem, tflops, us in zip(own["problem"], own["tflops"], own["median_us"]):
        yield json.loads(problem), float(tflops) * float(us) * 1e6 if tflops == tflops else 0.0, float(us)
