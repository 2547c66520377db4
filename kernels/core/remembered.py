"""functools.lru_cache for arguments of a bounded size.

A problem may hold a million numbers, so an unlimited cache could take any amount of memory.
"""

import functools
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

Function = Callable[..., Any]
MOST_NUMBERS = 4096  # in the arguments of a kept answer
_of_recordings: list[Function] = []


def of_recordings(remember: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Decorates a function of the recordings on disk. It keeps its answers until `recordings_changed`."""

    def decorate(function: Function) -> Function:
        _of_recordings.append(remember(function))
        return _of_recordings[-1]

    return decorate


def recordings_changed() -> None:
    for kept in _of_recordings:
        kept.cache_clear()  # type: ignore[attr-defined]


def remembered(maxsize: int) -> Callable[[Function], Function]:
    """Decorates a function of hashable arguments. An answer to more than MOST_NUMBERS numbers is not kept."""

    def decorate(function: Function) -> Function:
        kept = functools.lru_cache(maxsize)(function)

        @functools.wraps(function)
        def ask(*args: Any) -> Any:
            return kept(*args) if numbers_in(args) <= MOST_NUMBERS else function(*args)

        ask.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        ask.cache_info = kept.cache_info  # type: ignore[attr-defined]
        return ask

    return decorate


def numbers_in(value: Any) -> int:
    """The count of numbers and characters in a value's tuples, texts and fields of a problem."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, tuple):
        flat = not value or not isinstance(value[0], (tuple, str)) and not is_dataclass(value[0])
        return len(value) if flat else sum(map(numbers_in, value))
    if hasattr(value, "tensors"):
        return sum(numbers_in(getattr(value, name)) for name in value.__dataclass_fields__)
    return 1
