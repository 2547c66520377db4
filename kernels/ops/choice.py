"""The kernel of a call: the fastest by recorded times of all kernels that fit its types, its shapes and the device.

The table of measured choices comes first (kernels/measure/choices.py), with constants too. If it has no case, the
kernel's nearest recorded time counts. A build that may round a row's largest weight comes last: name its kernel.

Nothing here names a kernel. A problem's class makes its problem from the call, the opening comment of a .cu declares
its limits, and the tables of kernels/recordings/ have the times.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernels import catalog
from kernels.core.call import Call
from kernels.core.fields import MOST_OF_A_CALL, of_a_call
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import NoKernel, ProblemError, WarpglassError
from kernels.measure import choices
from kernels.measure.nearest_times import Recorded, nearest
from kernels.run import execute
from kernels.run.backends import Device


@dataclass(frozen=True)
class Choice:
    """The kernel of a call.

    kernel, problem, settings: the kernel, the problem of the call, and the kernel's constants.
    refused: kernel -> the reason against it, for kernels of the same operator.
    recorded: by the kernel's nearest recorded problem, or None.
    """

    kernel: KernelSpec
    problem: Problem
    settings: tuple[tuple[str, int], ...]
    refused: tuple[tuple[str, str], ...]
    recorded: Recorded | None

    @property
    def defines(self) -> dict[str, int]:
        """The constants of the build."""
        return {**self.problem.defines, **dict(self.settings)}


def choose(call: Call, device: Device, kernel: str = "") -> Choice:
    """The Choice for a call. kernel: the name of the only kernel, or the path of a .cu, or "" for the fastest.

    Raises NoKernel with the reason against each kernel of the operator.
    """
    specs = [catalog.find(kernel)] if kernel else list(catalog.current().kernels.values())
    specs = [spec for spec in specs if kernel or spec.problem_type.operator == call.operator]
    made = {kind: _problem(kind, call, bool(kernel)) for kind in {spec.problem_type for spec in specs}}
    problems = {spec: one for spec in specs if isinstance(one := made[spec.problem_type], Problem)}
    refused = {spec.name: str(made[spec.problem_type]) for spec in specs if spec not in problems}
    for spec, variant in _in_order(problems, device, bool(kernel)):
        try:
            return replace(checked(spec, problems[spec], device, variant), refused=tuple(refused.items()))
        except WarpglassError as error:
            refused[spec.name] = str(error)
    raise NoKernel(_reasons(call, device, refused))


def checked(spec: KernelSpec, problem: Problem, device: Device, variant: choices.Variant = ()) -> Choice:
    """The Choice of a kernel for a problem. Raises ProblemError if it cannot run on the device.

    variant: constants other than the tuned ones.
    """
    try:
        settings = tuple(spec.settings_for(problem, variant, device.shared_bytes_per_block).items())
        execute.check_possible(Request(spec, problem, settings, backend=device.backend), device)
    except OverflowError:
        raise ProblemError(f"A size of the call is above {MOST_OF_A_CALL:,}, the kernel's int.") from None
    _check_rows(spec, problem)
    return Choice(spec, problem, settings, (), nearest(spec, problem, device))


def _check_rows(spec: KernelSpec, problem: Problem) -> None:
    """Raises ProblemError for more rows of a tensor than the kernels count in an int."""
    for tensor in problem.tensors():
        rows = math.prod(tensor.shape[:-1])
        if rows > MOST_OF_A_CALL:
            raise ProblemError(
                f"{tensor.name} has {rows:,} rows, and {spec.name} counts up to {MOST_OF_A_CALL:,}. Split the batch."
            )


def _problem(kind: type[Problem], call: Call, named: bool) -> Problem | str:
    """The problem of the call, or the reason against problems of this class. A named kernel may lack an output."""
    if kind.operator != call.operator:
        belongs = f"belongs to the operator {kind.operator}" if kind.operator else "has no operator"
        return f"The kernel's problem, {kind.title}, {belongs}."
    try:
        with of_a_call():
            problem = kind.from_call(call)
        absent = [name for name in call.outputs if name not in {tensor.name for tensor in problem.outputs}]
        return problem if named or not absent else f"Its kernels write no {', '.join(absent)}. Name one with kernel=."
    except WarpglassError as error:
        return str(error)


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


def _in_order(
    problems: dict[KernelSpec, Problem], device: Device, named: bool
) -> Iterator[tuple[KernelSpec, choices.Variant]]:
    """The kernels, the fastest first: the measured choice with its constants, then all others. Builds that
    may round a row's largest weight come last, unless the kernel is named."""
    found = dict.fromkeys(_by_time(problems, device))
    return iter(found if named else sorted(found, key=lambda one: choices.may_round(one[0], problems[one[0]], one[1])))


def _by_time(problems: dict[KernelSpec, Problem], device: Device) -> Iterator[tuple[KernelSpec, choices.Variant]]:
    by_name = {spec.name: spec for spec in problems}
    for problem in dict.fromkeys(problems.values()):
        for measured in choices.fastest(problem, device):
            if measured.name in by_name:
                yield by_name[measured.name], measured.variant
    for spec in sorted(problems, key=lambda spec: _rank(spec, problems[spec], device)):
        yield from ((spec, variant) for variant in choices.variants(spec))


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
    found = nearest(spec, problem, device)
    return found.us if found else math.inf, -spec.rung
