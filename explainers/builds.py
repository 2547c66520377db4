"""Which build of a kernel a page shows, as the choices of the Source page."""

from dataclasses import replace
from functools import cache
from typing import Any

from kernels.build import Mode
from kernels.core.fields import fields_of, write_value
from kernels.core.request import Request
from kernels.errors import ProblemError


def source_link(request: Request, mode: Mode = Mode.PROBED) -> dict[str, str]:
    """The choices with which the Source page shows the request's build: of the problem what a build depends on, and
    every constant as it was built."""
    fields = {name: getattr(request.problem, name) for name in sorted(fields_of_build(request.kernel.problem_type))}
    given = {**fields, **request.constants, "build": mode.value}
    return {"kernel": request.kernel.name, **{name: write_value(value) for name, value in given.items()}}


@cache
def fields_of_build(problem_type: Any) -> frozenset[str]:
    """The fields of a problem that its builds depend on: those whose values change the compile-time constants that
    follow from it."""
    begin, found = problem_type(), set()
    for name, field in fields_of(problem_type).items():
        limits = field.metadata
        others = limits["allowed"] or (
            () if isinstance(field.default, (tuple, str)) else (limits["low"], limits["high"])
        )
        for value in others:
            try:
                changed = replace(begin, **{name: value}).defines != begin.defines
            except ProblemError:  # not with the other fields at their defaults
                continue
            if changed:
                found.add(name)
                break
    return frozenset(found)
