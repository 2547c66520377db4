"""Patterns: the ways of one pattern, one after another, such as eight ways to add 256 numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from explainers.stories.patterns import moves, pattern_questions
from explainers.stories.patterns.frames import COMING, FREE, FULL, HELD, READ, WRITTEN, PatternFrame, PatternsMeta, Way
from explainers.stories.patterns.moves import Walk
from explainers.stories.patterns.sentences import note, place, sentence, summary
from explainers.stories.patterns.shown import Shown, counts_of
from explainers.story import probed, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import count, figure
from explainers.story.stage import Block, Code, Stage, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.measure import pattern_cycles
from kernels.trace.memory.model import LANES

WORDS = {
    FULL: "a number",
    READ: "read now",
    WRITTEN: "written now",
    HELD: "in a register",
    COMING: "on its way",
    FREE: "free or done with",
}
TOLD = {FREE: "done with", READ: "second load", WRITTEN: "first load, then written"}  # in place of WORDS, for additions


@dataclass(frozen=True)
class Look:
    """The shown ways.

    request: the one with its code.
    ways: (name, request) of each way of the pattern, the chosen one among them.
    """

    request: Request
    ways: tuple[tuple[str, Request], ...]


class Patterns(Story[Look]):
    """The ways of a pattern, step by step."""

    WANTS = ("partial", "add", "fill")

    def refusal(self, spec: KernelSpec) -> str:
        if not pattern_cycles.is_pattern(spec):
            return f"{spec.name} is not a way of a pattern with others."
        walks = {"copy", "sum"} <= set(probed.marks(spec))
        if walks or not probed.without_events(spec, {"partial": ("step", "at", "other")}):
            return ""
        return f"{spec.name} has neither additions (partial) nor tiles (copy, sum) in its trace."

    def stage(self, subject: Look, runner: Runner) -> Stage:
        shown, left = shown_of(subject, runner)
        chosen = next(way for way in shown if way.request == subject.request)
        run = runner.run(chosen.request)
        where, known = runner.provenance(run), chosen.cycles
        frames = frames_of(shown)
        starts = {way.name: next(n for n, f in enumerate(frames) if f["way"] == w) for w, way in enumerate(shown)}
        made = Stage(
            headline=stage.headline(chosen.request.kernel),
            frames=frames,
            views=[View("patterns", "ways", "One way after another", meta_of(shown, frames))],
            codes=[code(shown, chosen, frames)],
            tabs=[stage.Tab("figures", "All figures"), stage.BUILDS, stage.DATA],
            provenance=replace(where, place=stage.place(known.device, known.date) if known else where.place),
            summary=summary(shown),
            step=starts[chosen.name],
            questions=pattern_questions.questions(
                [(way.name, way.walk, way.cycles) for way in shown],
                chosen.name,
                starts,
                [way.why for way in shown if way.why],
            ),
        )
        return stage.warned(made, left)

    def parts(self) -> dict[str, Part[Look]]:
        return {"figures": figures_tab}


def shown_of(look: Look, runner: Runner) -> tuple[list[Shown], list[str]]:
    """The ways that ran, and a sentence for each other one. WarpglassError if the chosen one did not run."""
    shown, left = [], []
    for name, request in look.ways:
        try:
            run = runner.run(request)
            traced = place(run.device, run.date) if run.provenance == "recorded" else ""
            shown.append(Shown(name, request, moves.walk_of(run), pattern_cycles.cycles(request), traced))
        except WarpglassError as error:
            if request == look.request:
                raise
            left.append(f"{name} is not shown. {error}")
    if max(way.walk.stages for way in shown) == 1:  # tiles repeat: one is enough
        for way in shown:
            way.walk.moves[:] = [move for move in way.walk.moves if move["tile"] == 0]
    return shown, left


def code(shown: Sequence[Shown], chosen: Shown, frames: Sequence[PatternFrame]) -> Code:
    """The kernel of the chosen way, then the kernels of other ways."""
    made = stage.code(chosen.request, frames)
    kernels = {way.request.kernel.name: way.request.kernel for way in shown}
    kernels.pop(chosen.request.kernel.name)
    others = [stage.source_file(kernel.path.name, kernel.source) for kernel in kernels.values()]
    return replace(made, files=[*made.files, *others])


def meta_of(shown: Sequence[Shown], frames: list[PatternFrame]) -> PatternsMeta:
    """The content of the view."""
    ways: list[Way] = [
        {
            "name": way.name,
            "build": ", ".join(f"{name} = {value}" for name, value in way.request.settings),
            "moves": way.walk.moves,
            "counts": counts_of(way, shown),
            "heads": heads(way.walk),
            "waits": way.waits,
            "why": way.why,
            "cycles": f"{figure(way.cycles.cycles)} cycles" if way.cycles else "cycles not recorded",
            "time": way.cycles.cycles if way.cycles else 0.0,
            "rate": _rate(way.cycles.per_us) if way.cycles and way.cycles.per_us else "",
            "sum": way.walk.moves[-1]["pairs"][1] if way.walk.moves[-1]["pairs"] else -1,
        }
        for way in shown
    ]
    seen = {state for way in ways for move in way["moves"] for state in move["places"]}
    named = WORDS if shown[0].walk.stages else WORDS | TOLD
    words = {state: said for state, said in named.items() if state in seen}
    return {"ways": ways, "frames": frames, "note": note(shown), "words": words}


def _rate(per_us: float) -> str:
    return figure(per_us, 2)


def heads(walk: Walk) -> tuple[str, str]:
    """The words over the threads and over the places of a way."""
    warps = -(-len(walk.moves[0]["threads"]) // LANES)
    threads = f"threads: {count(warps, 'row')} = {count(warps, 'warp')} of {LANES}"
    if walk.stages:
        return threads, "shared memory: a cell is 128 bytes"
    held = any(HELD in move["places"] for move in walk.moves)
    bank = "numbers: a column is a bank. Its words that a warp loads at once conflict"
    return threads, "numbers: a column is a lane" if held else bank


def origin(shown: Sequence[Shown]) -> str:
    """The runs of the traces."""
    kept = [way.name for way in shown if way.request.backend == "recorded"]
    if not kept or len(kept) == len(shown):
        return ""
    return f" The traces of these ways are recorded: {', '.join(kept)}."


def frames_of(shown: Sequence[Shown]) -> list[PatternFrame]:
    """A frame for each step of each way, one way after another."""
    return [
        {
            "tile": number,
            "title": way.name,
            "sentence": sentence(way, n),
            "lines": dict.fromkeys([*move["lines"], *differing(way)], 1),
            "way": number,
            "move": n,
        }
        for number, way in enumerate(shown)
        for n, move in enumerate(way.walk.moves)
    ]


def differing(way: Shown) -> list[str]:
    """FILE:LINE of the code with the constant whose values are the ways of a kernel."""
    kernel = way.request.kernel
    names = [constant.name for constant in kernel.constants if constant.names]
    start = kernel.source.index("*/")
    at = 0
    found = []
    for number, line in enumerate(kernel.source.splitlines(keepends=True), 1):
        code, at = line.partition("//")[0], at + len(line)
        if at > start + len("*/") and "PROBE" not in code and any(re.search(rf"\b{name}\b", code) for name in names):
            found.append(f"{kernel.path.name}:{number}")
    return found


def figures_tab(look: Look, runner: Runner) -> list[Block]:
    """Every way with its cycles and its counts."""
    shown, left = shown_of(look, runner)
    rows = [
        {
            "way": way.name,
            "kernel": way.request.kernel.name,
            "cycles": way.cycles.cycles if way.cycles else None,
            "least": way.cycles.least if way.cycles else None,
            "most": way.cycles.most if way.cycles else None,
            "steps": len(way.walk.moves),
            "sums per µs, full GPU": way.cycles.per_us if way.cycles else None,
            "waits mainly for": way.waits,
            "wavefronts": way.walk.wavefronts,
            "wavefronts in turn": way.walk.longest,
            "shuffles": way.walk.shuffles,
            "barriers": way.walk.barriers,
            "adds in L2": way.walk.adds,
            "requests of the input": way.walk.requests,
            "sectors of the input": way.walk.sectors,
            "bytes": way.walk.bytes,
            "why": way.why,
            "costs": way.request.kernel.costs,
        }
        for way in shown
    ]
    runs = f"Least and most are medians of {pattern_cycles.LAUNCHES} launches. "
    return [
        stage.table(pd.DataFrame(rows).convert_dtypes(), f"{runs}{note(shown)}{origin(shown)}"),
        *map(stage.note, left),
    ]


STORY = Patterns()
