"""Measuring in groups, with a record after each: if the work is broken off, the next call goes on where it was."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Progress = Callable[[int, int, str], None]
"""Takes the number of keys so far, the number of all keys, and the name of the next group."""


def silent(done: int, of: int, name: str) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True)
class Group(Generic[Key, Value]):
    """What is measured together.

    name: for the progress.
    keys: those of its values.
    measure: returns key -> value. A key without a value is missing from the record.
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
    """Measures each group that has a key without a kept value, and writes all values after each."""
    found = dict(kept)
    total = len({*found, *(key for group in groups for key in group.keys)})
    for group in groups:
        if all(key in kept for key in group.keys):
            continue
        progress(len(found), total, group.name)
        found |= group.measure()
        write(found)
    progress(total, total, "")
