"""Patterns: the ways of one pattern side by side, such as eight ways to add 256 numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.stories.patterns import moves, pattern_questions
from explainers.stories.patterns.frames import (
    COMING,
    FREE,
    FULL,
    HELD,
    READ,
    WRITTEN,
    Move,
    PatternFrame,
    PatternsMeta,
    Way,
)
from explainers.stories.patterns.moves import Walk
from explainers.story import probed, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import count, figure
from explainers.story.stage import Block, Stage, State, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.measure import pattern_cycles
from kernels.measure.pattern_cycles import Cycles

WORDS = {
    FULL: "a number",
    READ: "read now",
    WRITTEN: "written now",
    HELD: "in a register",
    COMING: "on its way",
    FREE: "free or done with",
}


@dataclass(frozen=True)
class Look:
    """The shown ways.

    request: the one with its code.
    ways: (name, request) of each way of the pattern, the chosen one among them.
    """

    request: Request
    ways: tuple[tuple[str, Request], ...]


@dataclass(frozen=True)
class Shown:
    """A way.

    walk: its steps.
    cycles: None if these are not known.
    traced: the GPU and the day of its recorded trace, or "" for a trace of this page.
    """

    name: str
    request: Request
    walk: Walk
    cycles: Cycles | None
    traced: str


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
        frames = frames_of(shown, chosen)
        made = stage.of_request(
            chosen.request,
            frames,
            [View("patterns", "ways", "Side by side", meta_of(shown, chosen))],
            state=strip(chosen, len(frames)),
            tabs=[stage.Tab("figures", "All figures"), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            summary=slowest(shown),
            questions=pattern_questions.questions(
                [(way.name, way.walk, way.cycles) for way in shown], chosen.name, list(filter(None, map(why, shown)))
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
            traced = _place(run.device, run.date) if run.provenance == "recorded" else ""
            shown.append(Shown(name, request, moves.walk_of(run), pattern_cycles.cycles(request), traced))
        except WarpglassError as error:
            if request == look.request:
                raise
            left.append(f"{name} is not shown. {error}")
    if max(way.walk.stages for way in shown) == 1:  # tiles repeat: one is enough
        for way in shown:
            way.walk.moves[:] = [move for move in way.walk.moves if move["tile"] == 0]
    return shown, left


def counts_of(way: Shown, together: Sequence[Shown]) -> list[str]:
    """The derived figures under a way."""
    walk = way.walk
    if not walk.stages:
        return [count(walk.wavefronts, "wavefront"), count(walk.barriers, "barrier"), f"{walk.bytes:,} B"]
    if max(other.walk.stages for other in together) == 1:
        waves = count(walk.wavefronts, "wavefront")
        return [count(walk.requests, "request"), count(walk.sectors, "sector"), f"{walk.bytes:,} B", waves]
    tiles = sum(READ in move["places"] for move in walk.moves)
    waves = count(walk.wavefronts, "wavefront")
    return [f"{walk.alone} of {tiles} tiles added while no copy runs", f"{walk.bytes:,} B", waves]


def meta_of(shown: Sequence[Shown], chosen: Shown) -> PatternsMeta:
    """The content of the view."""
    ways: list[Way] = [
        {
            "name": way.name,
            "chosen": way is chosen,
            "moves": way.walk.moves,
            "counts": counts_of(way, shown),
            "why": why(way),
            "cycles": f"{figure(way.cycles.cycles)} cycles" if way.cycles else "cycles not recorded",
            "time": way.cycles.cycles if way.cycles else 0.0,
            "done": done_of(way.walk),
        }
        for way in shown
    ]
    seen = {state for way in ways for move in way["moves"] for state in move["places"]}
    words = {state: said for state, said in WORDS.items() if state in seen}
    return {"ways": ways, "note": note(shown), "words": words}


def why(way: Shown) -> str:
    """The reason for the cycles of a way, or ""."""
    return pattern_cycles.why(way.request.kernel, way.request.settings)


def done_of(walk: Walk) -> str:
    """The words after the last step of a way."""
    return f"done after {count(len(walk.moves), 'step')}"


def slowest(shown: Sequence[Shown]) -> str:
    """The sentence on the slowest way, if it has the fewest steps and the fastest one has more. Else ""."""
    known = sorted(((way.cycles.cycles, way) for way in shown if way.cycles), key=lambda one: one[0])
    if len(known) < 2:
        return ""
    (least, first), (most, last) = known[0], known[-1]
    few, many = len(last.walk.moves), len(first.walk.moves)
    if few > min(len(way.walk.moves) for way in shown) or few == many:
        return ""
    return (
        f"A step is not a time. {last.name}: {count(few, 'step')}, {figure(most)} cycles. "
        f"{first.name}: {count(many, 'step')}, {figure(least)} cycles."
    )


def note(shown: Sequence[Shown]) -> str:
    """The source of the figures."""
    known = next((way.cycles for way in shown if way.cycles), None)
    measured = known and _place(known.device, known.date)
    kept = {way.traced: None for way in shown if way.traced}
    here = [way.name for way in shown if not way.traced]
    traces = " and ".join("there" if place == measured else f"on {place}" for place in kept)
    counts = "Counts derived from traces" + (f" recorded {traces}" if traces else "")
    counts += f" ({here[0]}: a run here)." if traces and len(here) == 1 else "."
    if known is None:
        return f"{counts} No cycles are recorded for this problem."
    held = any(HELD in move["places"] for way in shown for move in way.walk.moves)
    space = "global" if shown[0].walk.stages else "shared"
    column = "bank or lane" if held else "bank"
    drawn = f"Row of threads: warp. Column of numbers: {column}. B: bytes to and from {space} memory."
    runs = f"one block, median of {pattern_cycles.LAUNCHES} launches"
    return f"Cycles {known.label} on {measured}: {runs}. {counts} {drawn}"


def _place(device: str, date: str) -> str:
    return f"{device.removeprefix('NVIDIA ')}, {date}"


def origin(shown: Sequence[Shown]) -> str:
    """The runs of the traces."""
    kept = [way.name for way in shown if way.request.backend == "recorded"]
    if not kept or len(kept) == len(shown):
        return ""
    return f" The traces of these ways are recorded: {', '.join(kept)}."


def frames_of(shown: Sequence[Shown], chosen: Shown) -> list[PatternFrame]:
    """A frame for each step of the longest way. The sentence is of the chosen one."""
    longest, own = max(len(way.walk.moves) for way in shown), chosen.walk.moves
    frames: list[PatternFrame] = []
    for number in range(longest):
        move, done = own[min(number, len(own) - 1)], number >= len(own)
        said = f"{chosen.name}, step {number + 1}: {move['title']}{_waves(move, chosen.walk)}."
        if done:
            behind = [way.name for way in shown if len(way.walk.moves) > number]
            still = f"Only “{behind[0]}” still works" if len(behind) == 1 else f"{len(behind)} ways still work"
            said = f"{chosen.name} is done after {count(len(own), 'step')}. {still}."
        lines = {} if done else dict.fromkeys(move["lines"], 1)
        title = f"Step {number + 1}"
        frames.append({"tile": max(0, move["tile"]), "title": title, "sentence": said, "lines": lines, "move": number})
    return frames


def _waves(move: Move, walk: Walk) -> str:
    """The wavefronts of a step, behind its title."""
    if COMING in move["places"] and READ not in move["places"]:
        return ""
    if not move["wavefronts"]:
        return ", without shared memory"
    if walk.stages or walk.wavefronts == move["wavefronts"]:
        return f", in {count(move['wavefronts'], 'wavefront')}"
    return f". This step takes {move['wavefronts']} of the {walk.wavefronts} wavefronts"


def strip(chosen: Shown, steps: int) -> list[State]:
    """The state of the chosen way."""
    own = [chosen.walk.moves[min(n, len(chosen.walk.moves) - 1)] for n in range(steps)]
    done = [n >= len(chosen.walk.moves) for n in range(steps)]
    waves, so_far = 0, []
    for move, over in zip(own, done):
        waves += 0 if over else move["wavefronts"]
        so_far.append(waves)
    threads = len(own[0]["threads"])
    working = [0 if over else move["working"] for move, over in zip(own, done)]
    found = [State("threads at work", working, of=threads), State("wavefronts so far", so_far)]
    if chosen.cycles:
        said = f"{figure(chosen.cycles.cycles)} ({chosen.cycles.label})"
        found.append(State("cycles in all", [said] * steps))
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
            "wavefronts": way.walk.wavefronts,
            "barriers": way.walk.barriers,
            "requests of the input": way.walk.requests,
            "sectors of the input": way.walk.sectors,
            "bytes": way.walk.bytes,
            "why": why(way),
        }
        for way in shown
    ]
    runs = f"Least and most are medians of {pattern_cycles.LAUNCHES} launches. "
    return [
        stage.table(pd.DataFrame(rows).convert_dtypes(), f"{runs}{note(shown)}{origin(shown)}"),
        *map(stage.note, left),
    ]


STORY = Patterns()
