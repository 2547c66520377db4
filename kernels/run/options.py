"""Command-line options as a problem, constants and a scope.

A wrong option raises ProblemError. Its message gives the option, the value and the remedy.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from kernels.core.fields import fields_of, nearest, quoted, shortened
from kernels.core.launch import Plan
from kernels.core.problem import Problem
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError


def assignments(
    kernel: KernelSpec, texts: Sequence[str], shared_bytes: int | None = None
) -> tuple[Problem, tuple[tuple[str, int], ...]]:
    """The problem and all constants for the values of --set.

    texts: FIELD=VALUE each. Other constants get the kernel's tuned values that fit
    into `shared_bytes` of a block."""
    values, settings = chosen(kernel, texts)
    problem = kernel.problem_type(**values)
    return problem, tuple(kernel.settings_for(problem, settings, shared_bytes).items())


def chosen(kernel: KernelSpec, texts: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    """The values of --set: the fields of the problem as text, and the constants. Raises ProblemError."""
    fields = fields_of(kernel.problem_type)
    constants = [constant.name for constant in kernel.constants]
    values: dict[str, str] = {}
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ProblemError(f"--set takes FIELD=VALUE, not {quoted(text)}.")
        if name in fields:
            values[name] = value
        elif name in constants:
            settings[name] = value
        else:
            known = [*sorted(fields), *sorted(constants)]
            raise ProblemError(
                f"{kernel.name} has no field or constant {quoted(name)}. It has {', '.join(known)}."
                f"{nearest(name, known)}"
            )
    numbers = kernel.settings(settings)
    return values, {name: numbers[name] for name in settings}


def check_output(option: str, path: str | None, *ends: str) -> None:
    """Raises ProblemError before the run if the option's file cannot be written.

    option: its name, for the message.
    ends: the valid endings of the file's name."""
    if not path:
        return
    file, refusal = Path(path), f"{option} cannot write {shortened(path)}"
    if not path.endswith(ends):
        raise ProblemError(f"{option} is {quoted(path)}. It must end in {' or '.join(ends)}.")
    try:
        if file.is_dir():
            raise ProblemError(f"{refusal}: it is a folder. Give the name of a file in it.")
        if not file.parent.is_dir():
            folder = shortened(str(file.parent))
            raise ProblemError(f"{refusal}: the folder {folder} does not exist. Make it, or choose another.")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise ProblemError(f"{refusal}: this user may not. Choose another folder.")
    except (OSError, ValueError) as error:  # a long name, or a NUL in the name
        raise ProblemError(f"{refusal}: {shortened(str(error))}. Choose another name.") from None


def write(path: str, save: Callable[[], object]) -> None:
    """Calls save, which writes a file of an option. Raises ProblemError in place of OSError."""
    try:
        save()
    except OSError as error:
        raise ProblemError(f"cannot write {path}: {error.strerror or error}") from None


def scope(texts: Sequence[str], plan: Plan) -> Scope:
    """The Scope for the values of --scope.

    texts: FIRST[:COUNT] counts items of the first launch. ITEM=FIRST[:COUNT] counts items of another kind. "all" is
    everything."""
    found = Scope()
    others: dict[str, tuple[int, int]] = {}
    for text in texts:
        item, named, value = text.rpartition("=")
        if text == "all":
            found = Scope.everything(plan)
            others = {name: (first, count) for name, first, count in found.others}
        elif named and item != plan.item:
            others[item] = _range(text, value, item)
        else:
            found = Scope(*_range(text, value, plan.item))
    return Scope(found.first, found.count, tuple((item, first, count) for item, (first, count) in others.items()))


def _range(text: str, value: str, item: str) -> tuple[int, int]:
    first, _, count = value.partition(":")
    if not _is_whole(first) or (count and not _is_whole(count)):
        raise ProblemError(f"--scope is {quoted(text)}. It must be FIRST, FIRST:COUNT ({item}s, whole numbers) or all.")
    return int(first), int(count or 1)


def _is_whole(text: str) -> bool:
    return text.isdecimal() and len(text) < 19
