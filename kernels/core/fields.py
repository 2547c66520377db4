"""The fields of a problem: their limits, their values from numbers or text, and their errors."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, asdict, field, fields
from difflib import get_close_matches
from typing import Any

import numpy as np

from kernels.errors import ProblemError

MOST_SAID = 80  # characters of a value in a message
MOST_OF_A_CALL = 2**31 - 1  # the kernels take sizes as int
_of_a_call: ContextVar[bool] = ContextVar("of_a_call", default=False)


@contextmanager
def of_a_call() -> Iterator[None]:
    """Inside, problems belong to an operator's calls and have no upper limits, which are limits of a page. Only the
    grid, the types and the sizes of the kernels limit a call (ops/choice.py)."""
    before = _of_a_call.set(True)
    try:
        yield
    finally:
        _of_a_call.reset(before)


def problem_field(
    default: Any,
    meaning: str,
    *,
    allowed: tuple[Any, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    nested: bool = False,
    also: str = "",
    later: bool = False,
) -> Any:
    """A dataclass field with its limits in the metadata, for the command line, the pages and the checks.

    low, high: the limits, inclusive. For a tuple, the limits of each element.
    nested: whether it is a tuple of tuples.
    also: a regular expression of further valid texts, such as the name of a file.
    later: whether recordings are older than the field. Their keys name it only with another value than the default."""
    limits = {"allowed": allowed, "low": low, "high": high, "nested": nested or None, "also": also}
    return field(default=default, metadata={"meaning": meaning, **limits, "later": later or None})


def seed_field(meaning: str = "seed of the random inputs") -> Any:
    return problem_field(0, meaning, low=0, high=2**32 - 1)


def check_fields(problem: Any) -> None:
    """Every field of a frozen problem as its type, or ProblemError. Use it as the problem's __post_init__."""
    given = field_values(problem)
    for f in fields(problem):
        object.__setattr__(problem, f.name, check_value(f.name, given[f.name], f.default, f.metadata))


def field_values(instance: Any) -> dict[str, Any]:
    """field -> value of a dataclass's instance, in the order of its fields."""
    return {f.name: getattr(instance, f.name) for f in fields(instance)}


def key_fields(problem: Any) -> dict[str, Any]:
    """A problem's fields and their values as the key of a recording: without `later` fields that have their default."""
    given = asdict(problem)
    return {
        f.name: given[f.name] for f in fields(problem) if not (f.metadata.get("later") and given[f.name] == f.default)
    }


def own_fields(problem: Any) -> dict[str, Any]:
    """The key_fields of a problem, without its own derived values (its `follows`)."""
    given = key_fields(problem)
    short = {name: value for name, value in given.items() if name not in problem.follows}
    return short if len(short) < len(given) and problem.problem_type(**short) == problem else given


def fields_of(problem_type: type) -> dict[str, Field[Any]]:
    return {f.name: f for f in fields(problem_type)}


def check_value(name: str, value: Any, default: Any, limits: Mapping[str, Any]) -> Any:
    """`value` as the type of `default`. ProblemError gives the field, the value and the limits.

    value: a number, a tuple, or text from a URL or a command line: a number, 1,2,3 for a tuple, 1,2;3 for a tuple of
        tuples.
    limits: `allowed` (a tuple of values) and `also`, or `low` and `high` (inclusive, for a tuple of each element)."""
    allowed: Any = limits.get("allowed")
    low: Any = limits.get("low")
    high: Any = limits.get("high")
    if high is not None and _of_a_call.get():
        high = max(high, MOST_OF_A_CALL)
    if isinstance(default, tuple):
        return _check_tuple(name, value, low, high, nested=bool(limits.get("nested")))
    try:
        number = value if isinstance(default, str) else _number(value, default)
    except (ValueError, TypeError, OverflowError):
        raise ProblemError(f"{name} is {quoted(value)}. {_due(default, allowed, low, high)}") from None
    also = limits.get("also")
    if also and isinstance(number, str) and re.fullmatch(also, number):
        return number
    if number not in allowed if allowed else not low <= number <= high:
        raise ProblemError(f"{name} is {shortened(show_value(number))}. {_due(default, allowed, low, high)}")
    return number


def _due(default: Any, allowed: Any, low: Any, high: Any) -> str:
    if allowed:
        return f"It must be one of {', '.join(map(show_value, allowed))}."
    kind = "whole number" if isinstance(default, int) else "number"
    return f"It must be a {kind} from {show_value(low)} to {show_value(high)}."


def write_value(value: object) -> str:
    """A value as text for URLs and text fields. check_value reads it."""
    if isinstance(value, tuple):
        rows = value and isinstance(value[0], tuple)
        return ";".join(write_value(row) for row in value) if rows else ",".join(map(str, value))
    return show_value(value)


def show_value(value: object) -> str:
    """A single value as a message and a URL write it: true, 2.5, float16."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def quoted(value: object) -> str:
    """A value as a message names it: as Python writes it, no longer than a line."""
    return shortened(repr(value))


def shortened(text: str) -> str:
    """A text, or its first MOST_SAID characters and how many there are."""
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}... ({len(text):,} characters)"


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence with a space in front that proposes the nearest known name, or ""."""
    lower = {other.lower(): other for other in known}
    found = get_close_matches(name[:MOST_SAID].lower(), lower, 1)
    return f" Did you mean {lower[found[0]]}?" if found else ""


def _check_tuple(name: str, value: Any, low: int, high: int, nested: bool) -> tuple[Any, ...]:
    """A tuple of whole numbers from low to high, or a tuple of these tuples."""
    if isinstance(value, str):
        value = [part for part in value.split(";" if nested else ",") if part.strip()]
    if not isinstance(value, (tuple, list, np.ndarray)):
        kind = "rows of whole numbers" if nested else "whole numbers"
        raise ProblemError(f"{name} is {quoted(value)}. It must be {kind} from {low} to {high}.")
    if nested:
        return tuple(_check_tuple(f"{name} row {n}", row, low, high, nested=False) for n, row in enumerate(value))
    if all(type(v) is int and low <= v <= high for v in value):  # as in a block table with a million pages
        return tuple(value)
    return tuple(check_value(f"{name}[{n}]", v, 0, {"low": low, "high": high}) for n, v in enumerate(value))


def _number(value: Any, default: Any) -> bool | int | float:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower(), value)
    number = float(value)
    if isinstance(default, float):
        return number
    if not number.is_integer():
        raise ValueError(value)
    whole = int(value if isinstance(value, int) else number)
    return bool(whole) if isinstance(default, bool) and whole in (0, 1) else whole
