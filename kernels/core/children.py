"""Launches by a kernel (dynamic parallelism): the front matter lists them after their parent, which names them.

A child has no `args`: its parent passes them. A pointer of a child has the name of a pointer of its parent, so that a
probe knows its tensor.
"""

from collections.abc import Sequence
from typing import Any

from kernels.core.signatures import parameters
from kernels.errors import FrontMatterError

CHILD_KEYS = ("entry", "grid", "block", "shared_bytes", "item", "blocks_per_item", "repeat", "when")


def parents_of(file: str, source: str, entries: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Child -> its parent, both by entry. Raises FrontMatterError.

    entries: the tables [[launches]].
    """
    names = [str(entry.get("entry")) for entry in entries]
    found = dict[str, str]()
    for number, entry in enumerate(entries):
        for child in _children(file, f"launches[{number}].children", entry.get("children", [])):
            where = f"{file}: launches[{number}].children"
            if child not in names[number + 1 :]:
                raise FrontMatterError(
                    f"{where} names {child!r}, and no later launch has this entry. List the child after its parent."
                )
            if child in found:
                raise FrontMatterError(f"{where} names {child}, a child of {found[child]}. A child has one parent.")
            found[child] = names[number]
    for number, entry in enumerate(entries):
        if names[number] in found:
            _check_child(file, source, f"launches[{number}]", entry, found)
        elif entry.get("children"):
            _check_parent(file, f"launches[{number}]", entry, names)
    return found


def _children(file: str, where: str, said: object) -> list[str]:
    if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
        raise FrontMatterError(f"{file}: {where} is {said!r}. It must be a list of entries in quotes.")
    return said


def _check_parent(file: str, where: str, entry: dict[str, Any], names: list[str]) -> None:
    if names.count(entry["entry"]) > 1 or entry.get("repeat"):
        raise FrontMatterError(f"{file}: {where} has children and is repeated. Launch a parent once.")


def _check_child(file: str, source: str, where: str, entry: dict[str, Any], parents: dict[str, str]) -> None:
    own, parent = entry["entry"], parents[entry["entry"]]
    if entry.get("children") or parent in parents:
        raise FrontMatterError(f"{file}: {where}: {own} is a child and has children. Let {parent} launch these.")
    for key in entry:
        if key not in CHILD_KEYS:
            raise FrontMatterError(
                f"{file}: {where}.{key}: {parent} launches {own}, so it has only {', '.join(CHILD_KEYS)}. Remove {key}."
            )
    given = {name for kind, name in parameters(source, parent) if kind.endswith("*")}
    for kind, name in parameters(source, own):
        if kind.endswith("*") and name not in given:
            raise FrontMatterError(
                f"{file}: {where}: {own} takes {kind} {name}, and {parent} has no pointer of this name. Give both the "
                "same name."
            )
