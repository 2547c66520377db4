"""What a command line asks for, as a problem, constants and a scope. Mistakes are ProblemErrors that name the option,
the value and the remedy."""

from collections.abc import Sequence
from typing import Any

from kernels.core.fields import fields_of, former_names, quoted
from kernels.core.launch import Plan
from kernels.core.request import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError


def assignments(kernel: KernelSpec, texts: Sequence[str]) -> tuple[Any, tuple[tuple[str, int], ...]]:
    """The problem, and every constant, that --set FIELD=VALUE asks for; what is not chosen is what the kernel is tuned
    to. A field's former name is taken too."""
    problem, settings = chosen(kernel, texts)
    made = kernel.problem_type(**problem)
    return made, tuple(kernel.settings_for(made, settings).items())


def chosen(kernel: KernelSpec, texts: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    """The fields, as text, and the constants that --set FIELD=VALUE gives. Raises ProblemError."""
    problem: dict[str, str] = {}
    settings: dict[str, str] = {}
    known, former, constants = (
        fields_of(kernel.problem_type),
        former_names(kernel.problem_type),
        [c.name for c in kernel.constants],
    )
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ProblemError(f"--set takes FIELD=VALUE; got {quoted(text)}.")
        name = former.get(name, name)
        if name not in known and name not in constants:
            raise ProblemError(
                f"{kernel.name} has no field or constant {quoted(name)}; it has "
                f"{', '.join([*sorted(known), *sorted(constants)])}."
            )
        (problem if name in known else settings)[name] = value
    read = kernel.settings(settings)
    return problem, {name: read[name] for name in settings}


def scope(texts: Sequence[str], plan: Plan) -> Scope:
    """The Scope that --scope FIRST[:COUNT], all, or ITEM=FIRST[:COUNT] ask for; ITEM is a kind of items other than the
    first launch's."""
    found, others = Scope(), {}
    for text in texts:
        item, named, value = text.rpartition("=")
        if text == "all":
            found = Scope.everything(plan)
            others = {name: (first, count) for name, first, count in found.others}
        elif named and item != plan.item:
            others[item] = _range(text, value, item)
        else:
            found = Scope(*_range(text, value, plan.item))
    return Scope(found.first, found.count, tuple((item, *at) for item, at in others.items()))


def _range(text: str, value: str, item: str) -> tuple[int, int]:
    """FIRST and COUNT of FIRST[:COUNT]."""
    first, _, count = value.partition(":")
    if not _is_whole(first) or (count and not _is_whole(count)):
        raise ProblemError(f"--scope is {quoted(text)}; it must be FIRST, FIRST:COUNT ({item}s, whole numbers) or all.")
    return int(first), int(count or 1)


def _is_whole(text: str) -> bool:
    return text.isdecimal() and len(text) < 19  # so that it is an item's number, and Python reads it
