"""Reads the stops of the course: stops/NN_name.toml, in the order of their numbers.

The address of a stop is its story's link with stop=NAME. Stop has the keys.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kernels.core.fields import nearest, quoted
from kernels.errors import WarpglassError

FOLDER = Path(__file__).parent / "stops"
ACTS = ("Ideas", "Memory", "Serving", "Tensor cores", "Training", "Between kernels", "Judging")
# Of a gain: recorded time, bytes of global memory, latency of a level, cycles in the banks, error of O, sustained time
# against a rival, the rested time, the times of a chain and of a run of launches, sustained time on several GPUs, and
# the cycles of a way of a pattern.
# Counted bytes of the K and V that a kernel reads, least bytes of its launches, sectors of a warp's access, bytes of
# LSE against P, steps of a server, warps of an SM.
RECORDED = ("time", "bytes", "latency", "cycles", "error", "duel", "rested", "chain", "ring", "launches", "pattern")
KINDS = (*RECORDED, "cache", "moved", "sectors", "serving", "stored", "warps")
MOST_QUESTIONS, MOST_WORDS = 3, 20  # of a stop, of its idea
NAME = re.compile(r"(\d\d)_([a-z][a-z_0-9]*)")


class StopError(WarpglassError):
    """A fault in the file of a stop: the file, the key, its value and the remedy."""


@dataclass(frozen=True)
class Link:
    """A link of a stop.

    label: its text.
    link: a moment of ours (PATH?CHOICES), or an address.
    """

    label: str
    link: str


@dataclass(frozen=True)
class Gain:
    """A comparison of a stop's idea (now) with the idea before it (before). gains.py computes it.

    kind: one of KINDS.
    name: of its placeholders, by default its kind.
    kernel, before: the names of the kernels, or of the levels of memory.
    problem, settings: the sizes and the constants of both sides.
    before_problem, before_settings: the sizes and the constants that are different before.
    """

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
    number: its place in the course, from 1.
    title: a short name for the rail.
    act: one of ACTS.
    minutes: the time for a reader.
    story: the path of its page.
    choices: the choices of its page, as texts.
    idea: its idea in one sentence.
    questions: the ids of the story's questions, in order. Empty if the page asks them itself.
    essential: whether a reader in a hurry takes it.
    picture: the id of its first picture, or "".
    wins: the gain in a sentence, with {placeholders} of gains.py.
    gain: the comparisons that give the placeholders.
    small: the reason for a small gain, or "".
    deeper, paper: links for later.
    """

    name: str
    number: int
    title: str
    act: str
    minutes: int
    story: str
    idea: str
    questions: tuple[str, ...]
    choices: Mapping[str, str] = field(default_factory=dict)
    essential: bool = False
    picture: str = ""
    wins: str = ""
    gain: tuple[Gain, ...] = ()
    small: str = ""
    deeper: Link | None = None
    paper: Link | None = None


@cache
def stops() -> tuple[Stop, ...]:
    """All stops, in the order of the course."""
    return read(FOLDER)


def read(folder: Path) -> tuple[Stop, ...]:
    """The stops of a folder. Raises StopError."""
    found = tuple(_stop(path, number) for number, path in enumerate(sorted(folder.glob("*.toml")), 1))
    acts = [ACTS.index(stop.act) for stop in found]
    if acts != sorted(acts):
        stray = next(stop for stop, act, before in zip(found[1:], acts[1:], acts) if act < before)
        raise StopError(
            f"The stop {stray.name} of the act {stray.act} comes after a later act. "
            f"Give its file a number inside its act. The acts are {', '.join(ACTS)}."
        )
    names = [stop.name for stop in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise StopError(f"Two stops have the name {min(twice)}. Rename one of their files.")
    return found


def _stop(path: Path, number: int) -> Stop:
    named = NAME.fullmatch(path.stem)
    if not named:
        raise StopError(f"{path.name} is no name of a stop. Name it NN_name.toml, for example 12_tiles.toml.")
    try:
        given = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise StopError(f"{path.name} is no TOML: {error}. Mend that line.") from error
    return _Reader(path.name, given).stop(named[2], number)


class _Reader:
    """Takes the values of a file, each with its type."""

    def __init__(self, file: str, given: Mapping[str, object], inside: str = ""):
        self.file, self.given, self.inside = file, given, inside

    def stop(self, name: str, number: int) -> Stop:
        self.known(set(Stop.__dataclass_fields__) - {"name", "number"})
        found = Stop(
            name=name,
            number=number,
            title=self.text("title"),
            act=self.one_of("act", ACTS),
            minutes=self.count("minutes"),
            story=self.text("story"),
            idea=self.text("idea"),
            questions=self.texts("questions"),
            choices=self.table("choices"),
            essential=self.flag("essential"),
            picture=self.text("picture", ""),
            wins=self.text("wins", ""),
            gain=self.gains(),
            small=self.text("small", ""),
            deeper=self.link("deeper"),
            paper=self.link("paper"),
        )
        if len(found.questions) > MOST_QUESTIONS:
            self.fail("questions", list(found.questions), f"Name at most {MOST_QUESTIONS} questions of the story")
        if len(found.idea.split()) > MOST_WORDS:
            self.fail("idea", found.idea, f"Write one sentence of at most {MOST_WORDS} words")
        return found

    def fail(self, key: str, value: object, remedy: str) -> None:
        raise StopError(f"{self.file}: {self.inside}{key} is {quoted(value)}. {remedy}.")

    def known(self, keys: set[str]) -> None:
        for key in self.given.keys() - keys:
            raise StopError(
                f"{self.file}: {self.inside}{key} is no key.{nearest(key, keys)} "
                f"The keys are {', '.join(sorted(keys))}."
            )

    def text(self, key: str, default: str | None = None) -> str:
        value = self.given.get(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            self.fail(key, value, "Write a text")
        return str(value)

    def one_of(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in allowed:
            self.fail(key, value, f"Choose one of {', '.join(allowed)}")
        return value

    def count(self, key: str) -> int:
        value = self.given.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.fail(key, value, "Write a whole number from 1")
            return 0
        return value

    def flag(self, key: str) -> bool:
        value = self.given.get(key, False)
        if not isinstance(value, bool):
            self.fail(key, value, "Write true or false")
        return bool(value)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.given.get(key)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.fail(key, value, "Write a list of texts")
            return ()
        return tuple(value)

    def table(self, key: str) -> Mapping[str, str]:
        value = self.given.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            self.fail(key, value, "Write a table of texts, as in a link")
            return {}
        return value

    def link(self, key: str) -> Link | None:
        if key not in self.given:
            return None
        inner = self.within(key, self.given[key])
        inner.known(set(Link.__dataclass_fields__))
        return Link(inner.text("label"), inner.text("link"))

    def gains(self) -> tuple[Gain, ...]:
        value = self.given.get("gain", [])
        return tuple(self.within("gain", one).gain() for one in (value if isinstance(value, list) else [value]))

    def gain(self) -> Gain:
        self.known(set(Gain.__dataclass_fields__))
        kind, kernel = self.one_of("kind", KINDS), self.text("kernel")
        sides = [self.values(key) for key in ("problem", "settings", "before_problem", "before_settings")]
        return Gain(kind, self.text("name", kind), kernel, self.text("before", kernel), *sides)

    def values(self, key: str) -> Mapping[str, object]:
        value = self.given.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, value, "Write a table of names and values")
            return {}
        return value

    def within(self, key: str, value: object) -> "_Reader":
        if not isinstance(value, dict):
            self.fail(key, value, "Write a table")
            return self
        return _Reader(self.file, value, f"{key}.")
