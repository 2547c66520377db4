"""Reads the stops of the course, stops/NN_name.toml in the order of their numbers, and the checks, checks/NN_name.toml.

A stop on a shelf is a page next to the course, with an idea and questions of its own.

The address of a stop is its story's link with stop=NAME. The keys of a file are the fields of Stop, or of Check.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from kernels.core.fields import nearest, quoted
from kernels.errors import WarpglassError

FOLDER = Path(__file__).parent
SHELVES = ("", "Depth", "Beyond one kernel")  # "" is the course
# Of a gain: recorded time, bytes of global memory, latency of a level, cycles in the banks, error of O, sustained time
# against a rival, the rested time, the times of a chain and of a run of launches, and sustained time on several GPUs.
# Counted bytes of the K and V that a kernel reads, least bytes of its launches, sectors of a warp's access, bytes of
# LSE against P, steps of a server, warps of an SM.
RECORDED = ("time", "bytes", "latency", "cycles", "error", "duel", "rested", "chain", "ring", "launches")
KINDS = (*RECORDED, "cache", "moved", "sectors", "serving", "stored", "warps")
MOST_QUESTIONS, MOST_WORDS = 3, 20  # of a stop, of its idea
NAME = re.compile(r"(\d\d)_([a-z][a-z_0-9]*)")


class StopError(WarpglassError):
    """A fault in the file of a stop: the file, the key, its value and the remedy."""


@dataclass(frozen=True)
class Link:
    """A link of a stop.

    label: its text.
    link: a moment of ours (PATH?CHOICES), or an address."""

    label: str
    link: str


@dataclass(frozen=True)
class Gain:
    """A comparison of a stop's idea (now) with the idea before it (before). gains.py computes it.

    kind: one of KINDS.
    name: of its placeholders, by default its kind.
    kernel, before: the names of the kernels, or of the levels of memory.
    problem, settings: the sizes and the constants of both sides.
    before_problem, before_settings: the sizes and the constants that are different before."""

    kind: str
    name: str
    kernel: str
    before: str
    problem: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    before_problem: Mapping[str, object] = field(default_factory=dict)
    before_settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Stop:
    """A stop of the course.

    name: its name in a link.
    number: its place in the course, from 1, and 0 on a shelf.
    title: its name, as its page has it.
    shelf: one of SHELVES.
    minutes: the time for a reader.
    story: the path of its page.
    choices: the choices of its page, as texts.
    idea: its idea in one sentence.
    questions: the ids of the story's questions, in order. Empty if the page asks them itself.
    picture: the id of its first picture, or "".
    wins: the gain in a sentence, with {placeholders} of gains.py.
    gain: the comparisons that give the placeholders.
    small: the reason for a small gain, or "".
    deeper, paper: links for later."""

    name: str
    number: int
    title: str
    minutes: int
    story: str
    idea: str
    questions: tuple[str, ...]
    choices: Mapping[str, str] = field(default_factory=dict)
    shelf: str = ""
    picture: str = ""
    wins: str = ""
    gain: tuple[Gain, ...] = ()
    small: str = ""
    deeper: Link | None = None
    paper: Link | None = None


@dataclass(frozen=True)
class Check:
    """A question with numbers that no stop has.

    name: of its file, without the number.
    stop: the name of the stop with its idea.
    text, why: the question, and the reason for the right option.
    right: the right option.
    wrong: the other options, each with the reason against it."""

    name: str
    stop: str
    text: str
    right: str
    wrong: tuple[tuple[str, str], ...]
    why: str


@cache
def stops() -> tuple[Stop, ...]:
    return read(FOLDER / "stops")


@cache
def checks() -> tuple[Check, ...]:
    return tuple(_from_file(Check, path) for path in sorted((FOLDER / "checks").glob("*.toml")))


def read(folder: Path) -> tuple[Stop, ...]:
    """The stops of the course, then those of each shelf. Raises StopError."""
    unnumbered = (_from_file(Stop, path, number=0) for path in sorted(folder.glob("*.toml")))
    ordered = sorted(unnumbered, key=lambda stop: SHELVES.index(stop.shelf))
    found = tuple(stop if stop.shelf else replace(stop, number=n) for n, stop in enumerate(ordered, 1))
    for stop in found:
        if len(stop.questions) > MOST_QUESTIONS:
            raise StopError(
                f"The stop {stop.name} has the questions {', '.join(stop.questions)}. "
                f"Name at most {MOST_QUESTIONS} questions of the story."
            )
        if len(stop.idea.split()) > MOST_WORDS:
            raise StopError(
                f"The stop {stop.name} has the idea {stop.idea!r}. Write one sentence of at most {MOST_WORDS} words."
            )
    names = [stop.name for stop in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise StopError(f"Two stops have the name {min(twice)}. Rename one of their files.")
    return found


def _from_file(kind: type, path: Path, **known: object) -> Any:
    """The Stop or the Check in a file. Raises StopError."""
    named = NAME.fullmatch(path.stem)
    if not named:
        raise StopError(f"{path.name} is no name of a stop. Name it NN_name.toml, for example 12_tiles.toml.")
    try:
        given = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise StopError(f"{path.name} is no TOML: {error}. Mend that line.") from error
    return _from_table(kind, path.name, "", given, name=named[2], **known)


ALLOWED = {"shelf": SHELVES, "kind": KINDS}  # the values of these keys
TYPES: dict[object, tuple[Callable[[object], bool], str]] = {  # of a field -> whether a value has it, and the remedy
    str: (lambda value: isinstance(value, str) and bool(value.strip()), "Write a text"),
    int: (lambda value: type(value) is int and value >= 1, "Write a whole number from 1"),
    bool: (lambda value: type(value) is bool, "Write true or false"),
    tuple[str, ...]: (lambda value: isinstance(value, list) and _are_texts(value), "Write a list of texts"),
    tuple[tuple[str, str], ...]: (
        lambda value: (
            isinstance(value, list)
            and all(isinstance(one, list) and len(one) == 2 and _are_texts(one) for one in value)
        ),
        "Write a list of pairs: an option, and the reason against it",
    ),
    Mapping[str, str]: (
        lambda value: isinstance(value, dict) and _are_texts(value.values()),
        "Write a table of texts, as in a link",
    ),
    Mapping[str, object]: (lambda value: isinstance(value, dict), "Write a table of names and values"),
}


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(one, str) for one in values)


def _from_table(kind: type, file: str, inside: str, given: object, **known: object) -> Any:
    """A value of a dataclass from a table. Raises StopError.

    inside: the name of the table in the file, with a dot, or "" for the whole file.
    known: the fields that the table does not give."""
    if not isinstance(given, dict):
        raise StopError(f"{file}: {inside[:-1]} is {quoted(given)}. Write a table.")
    types = {name: type for name, type in get_type_hints(kind).items() if name not in known}
    for key in given.keys() - types:
        near = nearest(key, types)
        raise StopError(f"{file}: {inside}{key} is no key.{near} The keys are {', '.join(sorted(types))}.")
    if kind is Gain:
        given = {"name": given.get("kind"), "before": given.get("kernel"), **given}
    values: dict[str, object] = {}
    for each in fields(kind):
        name, value = each.name, given.get(each.name)
        optional = each.default is not MISSING or each.default_factory is not MISSING
        if name in known or (optional and name not in given):
            continue
        if types[name] == Link | None:
            value = _from_table(Link, file, f"{name}.", value)
        elif types[name] == tuple[Gain, ...]:
            value = tuple(
                _from_table(Gain, file, f"{name}.", one) for one in (value if type(value) is list else [value])
            )
        else:
            fits, remedy = TYPES[types[name]]
            if not fits(value):
                raise StopError(f"{file}: {inside}{name} is {quoted(value)}. {remedy}.")
            if value not in ALLOWED.get(name, (value,)):
                remedy = f"Choose one of {', '.join(ALLOWED[name])}"
                raise StopError(f"{file}: {inside}{name} is {quoted(value)}. {remedy}.")
        if isinstance(value, list):
            value = tuple(tuple(one) if isinstance(one, list) else one for one in value)
        values[name] = value
    return kind(**known, **values)
