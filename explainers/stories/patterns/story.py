"""Patterns: the ways of one pattern, one after another, such as eight ways to add 256 numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from explainers.story.stage import Block, Code, Stage, State, View
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
MEANINGS = {
    "wavefront": "a turn of shared memory, with at most one word of each bank",
    "barrier": "all threads wait there for the last one",
    "request": "a load of a warp from global memory",
    "sector": "32 bytes of global memory",
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
        frames = frames_of(shown)
        starts = {way.name: next(n for n, f in enumerate(frames) if f["way"] == w) for w, way in enumerate(shown)}
        made = Stage(
            headline=stage.headline(chosen.request.kernel),
            frames=frames,
            views=[View("patterns", "ways", "One way after another", meta_of(shown, frames))],
            codes=[code(shown, chosen, frames)],
            state=strip(shown, frames),
            tabs=[stage.Tab("figures", "All figures"), stage.BUILDS, stage.DATA],
            provenance=runner.provenance(run),
            summary=summary(shown),
            step=starts[chosen.name],
            questions=pattern_questions.questions(
                [(way.name, way.walk, way.cycles) for way in shown],
                chosen.name,
                starts,
                list(filter(None, map(why, shown))),
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


def code(shown: Sequence[Shown], chosen: Shown, frames: Sequence[PatternFrame]) -> Code:
    """The kernel of the chosen way, then the kernels of other ways."""
    made = stage.code(chosen.request, frames)
    kernels = {way.request.kernel.name: way.request.kernel for way in shown}
    kernels.pop(chosen.request.kernel.name)
    others = [stage.source_file(kernel.path.name, kernel.source) for kernel in kernels.values()]
    return replace(made, files=[*made.files, *others])


def counts_of(way: Shown, together: Sequence[Shown]) -> list[tuple[str, str]]:
    """The derived figures of a way, each with its meaning."""
    walk = way.walk
    if not walk.stages:
        moved = f"{walk.bytes:,} B", "to and from shared memory"
        return [*(_counted(walk, name) for name in ("wavefront", "barrier")), moved]
    moved = f"{walk.bytes:,} B", "from global memory"
    if max(other.walk.stages for other in together) == 1:
        return [*(_counted(walk, name) for name in ("request", "sector", "wavefront")), moved]
    tiles = sum(READ in move["places"] for move in walk.moves)
    alone = f"{walk.alone} of {tiles} tiles", "added while no copy runs"
    return [alone, moved, _counted(walk, "wavefront")]


def _counted(walk: Walk, name: str) -> tuple[str, str]:
    return count(getattr(walk, f"{name}s"), name), MEANINGS[name]


def meta_of(shown: Sequence[Shown], frames: list[PatternFrame]) -> PatternsMeta:
    """The content of the view."""
    ways: list[Way] = [
        {
            "name": way.name,
            "moves": way.walk.moves,
            "counts": counts_of(way, shown),
            "why": why(way),
            "cycles": f"{figure(way.cycles.cycles)} cycles" if way.cycles else "cycles not recorded",
            "time": way.cycles.cycles if way.cycles else 0.0,
            "sum": way.walk.moves[-1]["pairs"][1] if way.walk.moves[-1]["pairs"] else -1,
        }
        for way in shown
    ]
    seen = {state for way in ways for move in way["moves"] for state in move["places"]}
    words = {state: said for state, said in WORDS.items() if state in seen}
    return {"ways": ways, "frames": frames, "note": note(shown), "words": words, "heads": heads(shown)}


def heads(shown: Sequence[Shown]) -> tuple[str, str]:
    """The words over the threads and over the places."""
    first = shown[0].walk
    warps = -(-len(first.moves[0]["threads"]) // 32)
    threads = f"threads: {count(warps, 'row')} = {count(warps, 'warp')} of 32"
    return threads, "shared memory: a cell is 128 bytes" if first.stages else "numbers: a column is a bank (or lane)"


def why(way: Shown) -> str:
    """The reason for the cycles of a way, or ""."""
    return pattern_cycles.why(way.request.kernel, way.request.settings)


def summary(shown: Sequence[Shown]) -> str:
    """The task, and the range of the cycles. If the slowest way has the fewest steps, this too."""
    walks = [way.walk for way in shown]
    numbers = len(walks[0].moves[0]["places"])
    task = f"add {numbers} numbers"
    if walks[0].stages:
        several = max(walk.stages for walk in walks) > 1
        task = "copy tiles to shared memory and add them" if several else "copy a tile to shared memory"
    said = f"{count(len(shown), 'way')} for one block to {task}"
    known = sorted(((way.cycles.cycles, way) for way in shown if way.cycles), key=lambda one: one[0])
    if len(known) < 2:
        return f"{said}."
    (least, first), (most, last) = known[0], known[-1]
    said += f": {figure(least)} to {figure(most)} cycles."
    few, many = len(last.walk.moves), len(first.walk.moves)
    if few > min(len(walk.moves) for walk in walks) or few == many:
        return said
    steps = f"“{last.name}” needs {count(few, 'step')}, “{first.name}” needs {many}"
    return f"{said} Few steps are not few cycles: {steps}."


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
    runs = f"one block alone on an SM, median of {pattern_cycles.LAUNCHES} launches"
    return f"Cycles {known.label} on {measured}: {runs}. {counts}"


def _place(device: str, date: str) -> str:
    return f"{device.removeprefix('NVIDIA ')}, {date}"


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
            "lines": dict.fromkeys(move["lines"], 1),
            "way": number,
            "move": n,
        }
        for number, way in enumerate(shown)
        for n, move in enumerate(way.walk.moves)
    ]


def sentence(way: Shown, n: int) -> str:
    """A step of a way, and its cost in shared memory."""
    moves = way.walk.moves
    move, last = moves[n], n == len(moves) - 1
    said = f"{way.name}, step {n + 1} of {len(moves)}: {move['title']}"
    if way.walk.stages:
        return f"{said}. {_during(move)}"
    warps = sum("1" in move["threads"][first : first + 32] for first in range(0, len(move["threads"]), 32))
    said += f", in {count(warps, 'warp')}. {_cost(move)}" if move["working"] > 1 else f". {_cost(move)}"
    return f"{said} The sum is complete." if last else said


def _cost(move: Move) -> str:
    """The reason for the wavefronts of an addition."""
    waves, accesses, said = move["wavefronts"], move["accesses"], count(move["wavefronts"], "wavefront")
    if not move["pairs"]:
        return "The sums go to one word of global memory, in the L2 cache."
    if move["working"] > 1 and HELD in move["places"] and READ not in move["places"]:
        shuffled = "A shuffle brings each lane another lane's register."
        return f"{shuffled} Shared memory takes {said}." if waves else shuffled
    if waves > move["ideal"]:
        return f"Words share banks: each access takes {figure(waves / accesses, 2)} wavefronts, {waves} in all."
    if waves > accesses:
        return f"Each lane reads several words: {said}."
    return f"No two words share a bank: {said} in all." if move["working"] > 1 else f"It takes {said}."


def _during(move: Move) -> str:
    """What copies do during a step of a tile."""
    if READ in move["places"]:
        busy = COMING in move["places"]
        return "Copies of later tiles run meanwhile." if busy else "No copy runs meanwhile."
    if COMING in move["places"]:
        return "The bytes arrive later, while the threads go on."
    return f"Their stores take {count(move['wavefronts'], 'wavefront')} of shared memory."


def strip(shown: Sequence[Shown], frames: Sequence[PatternFrame]) -> list[State]:
    """The state of the way of each step."""
    at = [(shown[frame["way"]], frame["move"]) for frame in frames]
    moves = [way.walk.moves[n] for way, n in at]
    so_far = [sum(move["wavefronts"] for move in way.walk.moves[: n + 1]) for way, n in at]
    found = [
        State("threads at work", [move["working"] for move in moves], of=len(moves[0]["threads"])),
        State("wavefronts so far", so_far),
    ]
    if any(way.cycles for way in shown):
        said = [f"{figure(way.cycles.cycles)} ({way.cycles.label})" if way.cycles else "\u2013" for way, _ in at]
        found.append(State("cycles in all", said))
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
