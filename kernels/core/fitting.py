"""A problem near a refused one that fits a kernel's conditions: seq_len 33 becomes 64 for `seq_len % 32 == 0`."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, replace
from typing import TYPE_CHECKING, Any

from kernels.core.fields import fields_of
from kernels.core.problem import Case, Problem
from kernels.errors import FrontMatterError, ProblemError

if TYPE_CHECKING:
    from kernels.core.launch import Condition
    from kernels.core.spec import KernelSpec

FARTHEST = 512  # from a refused size to a fitting one
_WORDS = ("and", "or", "not", "in", "True", "False")  # of an expression
_DRAWN = ("seed", "score_scale")  # they change the numbers, and no condition


def fitted(kernel: "KernelSpec", cases: Iterable[Case], held: Collection[str], sizes_only: bool) -> Iterator[Case]:
    """The cases that fit after a change of fields, each with the nearest fitting values.

    held: names of fields that stay.
    sizes_only: whether a field with a list of values, such as dtype or causal, stays too."""
    fields = {
        name: field
        for name, field in fields_of(kernel.problem_type).items()
        if name not in held and name not in _DRAWN and _is_size(field) | (not sizes_only and _listed(field))
    }
    for case in cases:
        with suppress(FrontMatterError):  # a condition without a value for this problem
            settings, problem = kernel.settings(case.settings), case.problem
            for _ in kernel.conditions:  # a change may break a condition that held
                failed = kernel.failed_condition(problem, settings)
                other = next(_changed(kernel, problem, settings, failed, fields), None) if failed else None
                if other is None:
                    break
                problem = other
            if not kernel.failed_condition(problem, settings):
                yield replace(case, problem=problem)


def _is_size(field: Field[Any]) -> bool:
    whole = isinstance(field.default, int) and not isinstance(field.default, bool)
    return whole and not field.metadata.get("allowed")


def _listed(field: Field[Any]) -> bool:
    return bool(field.metadata.get("allowed"))


def _changed(
    kernel: "KernelSpec",
    problem: Problem,
    settings: Mapping[str, int],
    failed: "Condition",
    fields: Mapping[str, Field[Any]],
) -> Iterator[Problem]:
    """The problem with another value of one field, so that the failed condition is no longer the first failed one.
    Near values come first. Only fields of the condition's text change, if it names any. No field changes one of
    constants only."""
    words = re.findall(r"[A-Za-z_]\w*", failed.must)
    if all(word in settings or word in _WORDS for word in words):
        return
    named = [name for name in words if name in fields_of(kernel.problem_type)]
    for name in [name for name in named or fields if name in fields]:
        for value in _values(fields[name], problem.values()[name]):
            try:
                other = problem.with_fields(**{name: value})
            except ProblemError:
                continue
            if kernel.failed_condition(other, settings) != failed:
                yield other


def _values(field: Field[Any], now: object) -> Iterator[object]:
    if allowed := field.metadata.get("allowed"):
        yield from (value for value in allowed if value != now)
    elif isinstance(now, int):
        for by in range(1, FARTHEST + 1):
            yield now + by
            yield now - by
