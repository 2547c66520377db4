"""Reads the new checks of the last stop: checks/NN_name.toml, one for each act, with numbers that no stop has."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.course.stop import ACTS, StopError

FOLDER = Path(__file__).parent / "checks"
KEYS = {"act", "stop", "text", "right", "wrong", "why"}


@dataclass(frozen=True)
class Check:
    """A question of the last stop.

    name: of its file, without the number.
    act: one of ACTS.
    stop: the name of the stop with its idea.
    text, why: the question, and the reason for the right option.
    right: the right option.
    wrong: the other options, each with the reason against it.
    """

    name: str
    act: str
    stop: str
    text: str
    right: str
    wrong: tuple[tuple[str, str], ...]
    why: str


@cache
def checks() -> tuple[Check, ...]:
    """All new checks, in the order of the course."""
    return read(FOLDER)


def read(folder: Path) -> tuple[Check, ...]:
    """The checks of a folder. Raises StopError."""
    return tuple(_check(path) for path in sorted(folder.glob("*.toml")))


def _check(path: Path) -> Check:
    given = tomllib.loads(path.read_text())
    if given.keys() != KEYS:
        raise StopError(f"{path.name} has the keys {', '.join(given)}. Write {', '.join(sorted(KEYS))}.")
    if given["act"] not in ACTS:
        raise StopError(f"{path.name}: act is {given['act']}. Choose one of {', '.join(ACTS)}.")
    wrong = tuple((str(option), str(reason)) for option, reason in given.pop("wrong"))
    return Check(path.stem[3:], wrong=wrong, **given)
