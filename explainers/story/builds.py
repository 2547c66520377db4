"""Which build of a kernel a page shows, as the choices of the Source page."""

from dataclasses import Field, replace
from functools import cache
from typing import Any

from kernels.build import Mode
from kernels.core.fields import fields_of, write_value
from kernels.core.request import Request
from kernels.errors import ProblemError


def source_link(request: Request, mode: Mode = Mode.PROBED) -> dict[str, str]:
    """The choices with which the Source page shows the request's build: of the problem what a build depends on, or all
    of it where that does not go with the other fields' defaults; and every constant as it was built."""
    kind: Any = request.kernel.problem_type
    fields = {name: request.problem.values()[name] for name in sorted(fields_of_build(kind))}
    try:
        kind(**fields)
    except ProblemError:
        fields = request.problem.values()
    given = {**fields, **request.constants, "build": mode.value}
    return {"kernel": request.kernel.name, **{name: write_value(value) for name, value in given.items()}}


@cache
def fields_of_build(problem_type: Any) -> frozenset[str]:
    """The fields of a problem that its builds depend on: those whose values change the compile-time constants that
    follow from it."""
    begin, found = problem_type(), set()
    for name, field in fields_of(problem_type).items():
        for value in _others(field):
            try:
                changed = replace(begin, **{name: value}).defines != begin.defines
            except ProblemError:  # not with the other fields at their defaults
                continue
            if changed:
                found.add(name)
                break
    return frozenset(found)


def _others(field: Field[Any]) -> tuple[Any, ...]:
    """Values to try in a field's place: all that it may hold, or of a number its bounds, and twice the default, which
    goes with the other fields' where a bound does not."""
    limits, default = field.metadata, field.default
    if limits["allowed"]:
        return limits["allowed"]
    return (limits["low"], limits["high"], 2 * default) if isinstance(default, (int, float)) else ()
