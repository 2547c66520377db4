"""The problem of a launch as it ran: fields from its numbers, and from the sizes of its memory."""

from collections.abc import Mapping

from kernels.core.fields import field_values, fields_of
from kernels.core.problem import Problem
from kernels.opening.matching import Fit, Parameter, changed, shaping, tensor_of
from kernels.opening.program import RanLaunch

MOST_TRIED = 129  # values of a field that no number of the launches gives


def problem_of(fit: Fit, listed: list[Parameter], launches: tuple[RanLaunch, ...]) -> Problem | None:
    """The problem whose numbers and sizes are those of the launches, or None."""
    given, sizes = _given(fit, listed, launches)
    problem = changed(fit.shown, **given) if given else fit.shown
    if problem is None:
        return None
    missing = [name for name in shaping(problem) if name not in given and name not in problem.follows]
    ones = {name: 1 for name in missing if fields_of(problem.problem_type)[name].metadata["low"] == 1}
    problem = changed(problem, **ones) or problem
    if _fits(problem, sizes):
        return problem
    for name in reversed(missing):
        allowed = fields_of(problem.problem_type)[name].metadata["allowed"] or range(1, MOST_TRIED)
        for value in allowed:
            made = changed(problem, **{name: value})
            if made is not None and _fits(made, sizes):
                return made
    return None


def _given(
    fit: Fit, listed: list[Parameter], launches: tuple[RanLaunch, ...]
) -> tuple[dict[str, object], dict[str, int]]:
    known = field_values(fit.shown)
    given, sizes = dict[str, object](), dict[str, int]()
    for launch in launches:
        for one, argument in zip((p for p in listed if p.entry == launch.entry), launch.args):
            if one.is_pointer and one.name in fit.tensors and argument.memory >= 0:
                sizes[fit.tensors[one.name]] = argument.bytes
            meant = "" if one.is_pointer else fit.meaning(one.name)
            if meant in known and argument.value is not None:
                default = known[meant]
                value = argument.value or 0.0
                given[meant] = (
                    bool(value) if isinstance(default, bool) else int(value) if isinstance(default, int) else value
                )
    return given, sizes


def _fits(problem: Problem, sizes: Mapping[str, int]) -> bool:
    return all(tensor_of(problem, name).nbytes == size for name, size in sizes.items())
