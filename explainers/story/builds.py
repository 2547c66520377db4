"""Which build of a kernel a page shows, as the choices of the Source page."""

from dataclasses import Field, replace
from functools import cache
from typing import Any

from kernels.build import Mode
from kernels.core.fields import fields_of, write_value
from kernels.core.request import Request
from kernels.errors import ProblemError


def source_link(request: Request, mode: Mode = Mode.PROBED) -> dict[str, str]:
    """The choices of the Source page for the request's build: the problem's fields with an effect on the build, and
    every constant. All fields, if these do not go with the defaults of the others."""
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
    """The problem's fields with an effect on its compile-time constants, and so on its builds."""
    start, found = problem_type(), set()
    for name, field in fields_of(problem_type).items():
        for value in _others(field):
            try:
                changed = replace(start, **{name: value}).defines != start.defines
            except ProblemError:  # not with the other fields at their defaults
                continue
            if changed:
                found.add(name)
                break
    return frozenset(found)


def _others(field: Field) -> tuple[object, ...]:
    """Values to try for a field: its allowed ones, or the bounds of a number and twice its default. Twice the default
    often goes with the other fields when a bound does not."""
    limits, default = field.metadata, field.default
    if limits["allowed"]:
        return limits["allowed"]
    return (limits["low"], limits["high"], 2 * default) if isinstance(default, (int, float)) else ()
