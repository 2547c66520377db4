"""What a command line asks for, as a problem, constants and a scope. Mistakes are ProblemErrors that name the option,
the value and the remedy."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.core.fields import fields_of, former_names, nearest, quoted, shortened
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
            there = [*sorted(known), *sorted(constants)]
            raise ProblemError(
                f"{kernel.name} has no field or constant {quoted(name)}; it has {', '.join(there)}."
                f"{nearest(name, there)}"
            )
        (problem if name in known else settings)[name] = value
    read = kernel.settings(settings)
    return problem, {name: read[name] for name in settings}


def check_output(option: str, path: str | None, *ends: str) -> None:
    """ProblemError if an option names no file that can be written, so that no run is lost. ends: how its name may
    end."""
    if not path:
        return
    file, said = Path(path), f"{option} cannot write {shortened(path)}"
    if not path.endswith(ends):
        raise ProblemError(f"{option} is {quoted(path)}; it must end in {' or '.join(ends)}.")
    try:
        if file.is_dir():
            raise ProblemError(f"{said}: it is a folder. Give the name of a file in it.")
        if not file.parent.is_dir():
            raise ProblemError(
                f"{said}: the folder {shortened(str(file.parent))} does not exist. Make it, or choose another."
            )
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise ProblemError(f"{said}: this user may not. Choose another folder.")
    except (OSError, ValueError) as error:  # a long name, or a NUL in it
        raise ProblemError(f"{said}: {shortened(str(error))}. Choose another name.") from None


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
