"""An exercise, read from its folder, and its hidden problems: other sizes and other inputs for each grade.

A field of a hidden problem is a value, {from = 33, to = 63} for a whole number in a range, {any = [32, 64]} for a
choice, or a list of these. The inputs have a seed of their own each time.
"""

import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import SystemRandom

from kernels.catalog import load_kernel
from kernels.core.fields import fields_of, nearest
from kernels.core.problem import Problem
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError

FOLDER = Path(__file__).parent
SEEDS = 2**32
_random = SystemRandom()
KEYS = {"title", "idea", "number", "hints", "problems", "limits", "of", "edits", "bug"}


@dataclass(frozen=True)
class Wrong:
    """A typical wrong answer.

    name: in a few words.
    evidence: the kinds of evidence, of which a grade must show one.
    text: of its .cu."""

    name: str
    evidence: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Limit:
    """The largest allowed count of a problem (grading.py).

    count: sectors of global memory, or wavefronts of shared memory.
    of: the kernel whose count is allowed, or "" for the solution.
    times: a factor on this count."""

    count: str
    of: str = ""
    times: float = 1.0


@dataclass(frozen=True)
class Bug:
    """The public bug behind a fault to mend, for the gallery.

    symptom: in a sentence, as a user would report it.
    sources: name and address of each public thread.
    fault: the kind of the check's evidence.
    line: a part of the line of the start that the check names.
    picture: the kind of the gallery's picture.
    problem: the fields of a small problem that shows the fault.
    page: the link of a page that shows the same thing step by step."""

    symptom: str
    sources: tuple[tuple[str, str], ...]
    fault: str
    line: str
    picture: str
    problem: dict[str, object]
    page: str

    def problem_of(self, kernel: KernelSpec) -> Problem:
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in self.problem.items()}
        return kernel.problem_type(**fields)


@dataclass(frozen=True)
class Exercise:
    """An exercise.

    name: of its folder.
    title, idea: a title, and a sentence.
    number: its place in the list.
    task: in Markdown.
    hints: in Markdown, each a further step.
    start, solution: the texts of a .cu. The start is the solution with edits.
    story: of the solution, in Markdown.
    problems: for each hidden problem, its fields as ranges and choices.
    limits: of the counts of a right answer.
    of: the exercise with the solution and the typical wrong answers.
    bug: the public bug, or None."""

    name: str
    title: str
    idea: str
    number: int
    task: str
    hints: tuple[str, ...]
    start: str
    solution: str
    story: str
    problems: tuple[dict[str, object], ...]
    limits: tuple[Limit, ...] = ()
    of: str = ""
    bug: Bug | None = None

    @property
    def kernel(self) -> KernelSpec:
        """The kernel of the solution."""
        return load_kernel(FOLDER / self.of / "solution.cu")

    @property
    def faulty(self) -> KernelSpec:
        """The kernel of the start, with the solution's front matter."""
        own = self.kernel
        files = ((own.files[0][0], self.start), *own.files[1:])
        return replace(own, name=f"{self.name}_start", files=files)

    @property
    def wrong(self) -> tuple[Wrong, ...]:
        listed = tomllib.loads((FOLDER / self.of / "wrong.toml").read_text())["wrong"]
        made = (
            Wrong(one["name"], tuple(one["evidence"]), edited(self.solution, one["edits"], self.name)) for one in listed
        )
        return tuple(wrong for wrong in made if wrong.text != self.start)

    def drawn(self, kernel: KernelSpec) -> list[Problem]:
        problems = []
        for ranges in self.problems:
            fields = {name: _drawn(value) for name, value in ranges.items()}
            if "seed" in fields_of(kernel.problem_type):
                fields["seed"] = _random.randrange(SEEDS)
            problems.append(kernel.problem_type(**fields))
        return problems

    def as_json(self) -> dict[str, object]:
        """The content of a page. The problems stay hidden."""
        return {name: value for name, value in vars(self).items() if name not in ("problems", "limits", "of", "bug")}


def listed() -> dict[str, Exercise]:
    """name -> Exercise, in order."""
    found = [_read(file.parent.name) for file in FOLDER.glob("*/exercise.toml")]
    return {one.name: one for one in sorted(found, key=lambda one: one.number)}


def find(name: str) -> Exercise:
    """The exercise with this name. Raises ProblemError with the known names."""
    known = listed()
    if name not in known:
        raise ProblemError(f"There is no exercise {name!r:.60}. There are {', '.join(known)}.{nearest(name, known)}")
    return known[name]


@lru_cache(maxsize=64)
def _read(name: str) -> Exercise:
    folder = FOLDER / name
    told = tomllib.loads((folder / "exercise.toml").read_text())
    if unknown := set(told) - KEYS:
        raise ProblemError(f"{name}/exercise.toml has the unknown key {min(unknown)}. It may have {sorted(KEYS)}.")
    base = folder.parent / told.get("of", name)
    solution = (base / "solution.cu").read_text()
    return Exercise(
        name,
        told["title"],
        told["idea"],
        told["number"],
        (folder / "task.md").read_text().strip(),
        tuple(told["hints"]),
        edited(solution, told["edits"], name),
        solution,
        (folder / "story.md").read_text().strip(),
        tuple(told["problems"]),
        tuple(Limit(**limit) for limit in told.get("limits", ())),
        base.name,
        Bug(**bug | {"sources": tuple(map(tuple, bug["sources"]))}) if (bug := told.get("bug")) else None,
    )


def edited(text: str, edits: list[list[str]], name: str) -> str:
    """A text with edits, each [old, new]. Raises ProblemError if an edit does not apply once."""
    for old, new in edits:
        if text.count(old) != 1:
            raise ProblemError(f"{name}: {old!r:.80} is {text.count(old)} times in the text. It must be there once.")
        text = text.replace(old, new)
    return text


def _drawn(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(_drawn, value))
    if not isinstance(value, dict):
        return value
    return _random.choice(value["any"]) if "any" in value else _random.randint(value["from"], value["to"])
