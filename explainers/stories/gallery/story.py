"""The gallery: eight public bugs, each with its symptom, its first wrong step, its cause and its cure."""

import difflib
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from explainers.stories.gallery import twins
from explainers.stories.gallery.twins import CAUSE, OUT, STEP, Cell, Grid
from explainers.story import scene, stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Block, Provenance, Stage, View, problem_said
from explainers.story.words import Row, Words
from kernels import exercises
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.exercises import Exercise

WORDS = Words.of(str(__package__))
STEPS = ("symptom", "first", "cause", "cure")
LIT = ("", "left", "left", "both")  # the changed lines with a background at each step
SEEN = ({OUT}, {OUT, STEP}, {OUT, STEP, CAUSE}, {OUT, STEP, CAUSE})  # the parts in colour at each step
CONTEXT = 8  # lines of code before and after a change, if they have room
DEEP = 8  # the most letters before a line
SIDES = ("Faulty", "Right")
COLOURS = {"w": "pale wrong", "r": "pale primary", "c": "pale now", "p": "panel", " ": "background"}


@dataclass(frozen=True)
class Look:
    """The subject of the page. name: of the exercise."""

    name: str


def bugs() -> dict[str, Exercise]:
    """The exercises with a public bug, in order."""
    return {name: one for name, one in exercises.listed().items() if one.bug}


def data_of(exercise: Exercise, runner: Runner) -> Row:
    """Everything that the page shows: both Grids, the changed lines, and the first wrong value for the words."""
    assert exercise.bug
    runs = [runner.run_to_fault(_request(exercise, kernel)) for kernel in (exercise.faulty, exercise.kernel)]
    grids = twins.grids(exercise, *runs)
    message = next((fault.text for fault in runs[0].faults if fault.level == "error"), "")
    wrong = [n for n, cell in enumerate(grids[0].flat) if cell.wrong and cell.part == STEP]
    first = wrong[0] if wrong else 0
    cured = [n for n, cell in enumerate(grids[1].flat) if cell.cured and cell.part == STEP]
    found = re.search(r"phase (\d+): (\d+) of (\d+) arrivals[^;]*; \d+ of", message)
    width = len(grids[0].cells[0])
    named = {
        "row": grids[0].names[first // width],
        "column": grids[0].tops[first % width] if grids[0].tops else "",
        "value": grids[0].flat[first].text,
        "right": grids[1].flat[first].text,
        "count": len(wrong),
    }
    return {
        "name": exercise.name,
        "symptom": exercise.bug.symptom,
        "first": (first, cured[0] if cured else first),
        "named": named,
        "waits": dict(zip(("phase", "missing", "whole"), found.groups())) if found else {},
        "faulty": grids[0],
        "right": grids[1],
        "runs": runs,
        "message": message,
    }


def _request(exercise: Exercise, kernel: KernelSpec) -> Request:
    assert exercise.bug
    problem = exercise.bug.problem_of(kernel)
    return Request(kernel, problem, (), Scope.everything(kernel.plan(problem)), "cpu")


# ---- the picture ----


def picture(exercise: Exercise, data: Row) -> View:
    """Both Grids side by side, above the changed lines."""
    panels = [_cells(data[key], name, at) for key, name, at in zip(("faulty", "right"), SIDES, data["first"])]
    code = scene.Listing(names=(f"{SIDES[0]} code", f"{SIDES[1]} code"), rows=changes(exercise), lit=LIT)
    legend = [("pale wrong", "wrong"), ("pale primary", "right in its place")]
    if any(cell.part == CAUSE for cell in data["faulty"].flat):
        legend.append(("pale now", "its cause"))
    return scene.view("twins", "First wrong step", [panels, [code]], legend=legend)


def _cells(grid: Grid, name: str, first: int) -> scene.Cells:
    """A Grid. first: the number of the cell with a frame, from the second step on."""
    flat = grid.flat
    states = ["".join(_letter(cell, seen) for cell in flat) for seen in SEEN]
    width = len(grid.cells[0])
    places = [
        f"{name}, {grid.names[n // width]}{f', {grid.tops[n % width]}' if grid.tops else ''}" for n in range(len(flat))
    ]
    return scene.Cells(
        part=name.lower(),
        title=[[f"{name}: {grid.title}", name]],
        columns=width,
        states=states,
        colours=COLOURS,
        words={"w": "wrong", "r": "right", "c": "its cause", "p": "", " ": "nothing"},
        axes=grid.axes,
        names=grid.names,
        tops=grid.tops,
        texts=[cell.text for cell in flat],
        tips=[f"{place}: {cell.text or 'nothing'}" for place, cell in zip(places, flat)],
        ringed=[-1, first, first, first],
    )


def _letter(cell: Cell, seen: set[str]) -> str:
    """The letter of COLOURS. seen: the parts in colour."""
    if not cell.text or cell.part not in seen:
        return "p" if cell.text else " "
    if cell.wrong or cell.cured:
        return "w" if cell.wrong else "r"
    return "c" if cell.part == CAUSE else "p"


def changes(exercise: Exercise) -> list[scene.Pair]:
    """The changed lines of the code with CONTEXT, without their common indentation."""
    sides = left, right = exercise.start.splitlines(), exercise.solution.splitlines()
    pairs = list[scene.Pair]()
    for tag, a, b, c, d in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        for n in range(max(b - a, d - c)):
            at = [start + n if start + n < end else None for start, end in ((a, b), (c, d))]
            texts = [None if one is None else side[one] for one, side in zip(at, sides)]
            numbers = [None if one is None else one + 1 for one in at]
            pairs.append(scene.Pair((numbers[0], numbers[1]), (texts[0], texts[1]), tag != "equal"))
    near = {k for n, pair in enumerate(pairs) if pair.changed for k in range(n - CONTEXT, n + CONTEXT + 1)}
    kept = [pair for n, pair in enumerate(pairs) if n in near]
    cut = min((_indent(text) for pair in kept for text in pair.texts if text), default=0)

    def shown(text: str | None) -> str | None:
        return text and " " * min(DEEP, _indent(text) - cut) + text.lstrip()

    return [scene.Pair(pair.numbers, (shown(pair.texts[0]), shown(pair.texts[1])), pair.changed) for pair in kept]


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


# ---- the page ----


def cards(chosen: str) -> Block:
    """The eight bugs, each by its symptom. The chosen one has its sources and its ways out."""
    entries = []
    for name, one in bugs().items():
        assert one.bug
        path, _, query = one.bug.page.partition("?")
        ways = [
            stage.link("Mend it yourself", "workbench", {"exercise": name}),
            stage.link("Step through it", path, dict(parse_qsl(query))),
        ]
        to = stage.link("", "gallery", {"bug": name})
        entries.append(stage.card(one.bug.symptom, to, name == chosen, "After", ways, one.bug.sources))
    return stage.cards("Eight real bugs", entries)


class Gallery(Story[Look]):
    """A public bug, step by step, on a run of a faulty and of a right kernel."""

    def stage(self, subject: Look, runner: Runner) -> Stage:
        exercise = exercises.find(subject.name)
        data = data_of(exercise, runner)
        frames = WORDS.frames([{"at": at, "tile": -1} for at in STEPS], data)
        right = data["runs"][1]
        said = f"Values executed on {right.device}, {right.date}. Both kernels run on the CPU."
        source = Provenance(right.provenance, said, problem=problem_said(right.request.problem))
        return Stage(
            "",
            frames,
            [picture(exercise, data)],
            provenance=source,
            side=[cards(subject.name)],
        )


STORY = Gallery()
