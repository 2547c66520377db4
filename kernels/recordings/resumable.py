"""Measuring in groups, with a record after each. After a break, the next call goes on with the next group."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Progress = Callable[[int, int, str], None]
"""Takes the number of keys so far, the number of all keys, and the name of the next group."""


def silent(done: int, of: int, name: str) -> None:
    """A Progress without output."""


@dataclass(frozen=True)
class Group(Generic[Key, Value]):
    """A group of values, measured together.

    name: for the progress.
    keys: of its values.
    measure: returns key -> value. A failed key is missing from the result.
    """

    name: str
    keys: Sequence[Key]
    measure: Callable[[], Mapping[Key, Value]]


def resume(
    groups: Sequence[Group[Key, Value]],
    kept: Mapping[Key, Value],
    write: Callable[[Mapping[Key, Value]], object],
    progress: Progress = silent,
) -> None:
    """Measures each group with a missing value, and writes all values after each group."""
    found = dict(kept)
    total = len({*found, *(key for group in groups for key in group.keys)})
    for group in groups:
        if all(key in kept for key in group.keys):
            continue
        progress(len(found), total, group.name)
        found |= group.measure()
        write(found)
    progress(total, total, "")
