"""Patterns: the ways of one pattern, one after another, such as eight ways to add 256 numbers."""

import re
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
from explainers.story.glossary import count, figure, logged
from explainers.story.stage import Block, Code, Stage, State, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.measure import pattern_cycles
from kernels.measure.pattern_cycles import Cycles
from kernels.trace.memory.model import LANES

WORDS = {
    FULL: "a number",
    READ: "read now",
    WRITTEN: "written now",
    HELD: "in a register",
    COMING: "on its way",
    FREE: "free or done with",
}
TOLD = {FREE: "waits, or no longer needed", WRITTEN: "read, then written"}  # in place of WORDS, for additions
MEANINGS = {
    "wavefront": "a pass through shared memory. Each of its 32 banks gives one word in a pass",
    "barrier": "every thread waits until the slowest has come",
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


def counts_of(way: Shown, together: Sequence[Shown]) -> list[tuple[str, str, str]]:
    """The derived figures of a way: the number, its noun and its meaning."""
    walk = way.walk
    waves = _counted(walk, "wavefront")
    if not walk.stages:
        chain = f"{walk.longest:,}", "in a chain", "the wavefronts that the busiest warp of each step waits for"
        return [waves, chain, _counted(walk, "barrier")]
    if max(other.walk.stages for other in together) == 1:
        return [_counted(walk, "request"), _counted(walk, "sector"), waves]
    tiles = sum(READ in move["places"] for move in walk.moves)
    alone = f"{walk.alone} of {tiles}", "tiles alone", "added while no copy runs"
    return [alone, waves]


def _counted(walk: Walk, name: str) -> tuple[str, str, str]:
    number = getattr(walk, f"{name}s")
    return f"{number:,}", count(number, name).partition(" ")[2], MEANINGS[name]


def meta_of(shown: Sequence[Shown], frames: list[PatternFrame]) -> PatternsMeta:
    """The content of the view."""
    ways: list[Way] = [
        {
            "name": way.name,
            "moves": way.walk.moves,
            "counts": counts_of(way, shown),
            "heads": heads(way.walk),
            "why": why(way),
            "cycles": f"{figure(way.cycles.cycles)} cycles" if way.cycles else "cycles not recorded",
            "time": way.cycles.cycles if way.cycles else 0.0,
            "sum": way.walk.moves[-1]["pairs"][1] if way.walk.moves[-1]["pairs"] else -1,
        }
        for way in shown
    ]
    seen = {state for way in ways for move in way["moves"] for state in move["places"]}
    named = WORDS if shown[0].walk.stages else WORDS | TOLD
    words = {state: said for state, said in named.items() if state in seen}
    return {"ways": ways, "frames": frames, "note": note(shown), "words": words}


def heads(walk: Walk) -> tuple[str, str]:
    """The words over the threads and over the places of a way."""
    warps = -(-len(walk.moves[0]["threads"]) // LANES)
    threads = f"threads: {count(warps, 'row')} = {count(warps, 'warp')} of {LANES}"
    if walk.stages:
        return threads, "shared memory: a cell is 128 bytes"
    held = any(HELD in move["places"] for move in walk.moves)
    return threads, f"numbers: a column is a {'lane' if held else 'bank'}"


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
    why = "A kernel computes on tiles in shared memory" if walks[0].stages else "Softmax needs the sum of each row"
    said = f"{why}. {count(len(shown), 'way')} for one block to {task}"
    known = sorted(((way.cycles.cycles, way) for way in shown if way.cycles), key=lambda one: one[0])
    if len(known) < 2:
        return f"{said}."
    (least, first), (most, last) = known[0], known[-1]
    few, many = len(last.walk.moves), len(first.walk.moves)
    if few > min(len(walk.moves) for walk in walks) or few == many:
        return f"{said}: {figure(least)} to {figure(most)} cycles."
    steps = f"“{last.name}” needs {count(few, 'step')} and {figure(most)} cycles"
    return f"{said}. Few steps are not few cycles: {steps}, “{first.name}” {many} steps and {figure(least)} cycles."


def note(shown: Sequence[Shown]) -> str:
    """The source of the figures."""
    known = next((way.cycles for way in shown if way.cycles), None)
    measured = known and _place(known.device, known.date)
    kept = {way.traced: None for way in shown if way.traced}
    here = [way.name for way in shown if not way.traced]
    traces = " and ".join("on that GPU" if place == measured else f"on {place}" for place in kept)
    counts = "Counts derived from traces" + (f" recorded {traces}" if traces else "")
    counts += f" (“{here[0]}”: run here)." if traces and len(here) == 1 else "."
    if known is None:
        return f"{counts} No cycles are recorded for this problem."
    gpu = re.sub(r" \d+GB.*", "", known.device)
    return f"Cycles {known.label} on {gpu}, one block alone. {counts}"


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
    said += f", in {count(_warps(move), 'warp')}. {_cost(move)}" if move["working"] > 1 else f". {_cost(move)}"
    total = "" if way.walk.total is None else f": {logged(way.walk.total)}"
    return f"{said} The sum is complete{total}." if last else said


def _cost(move: Move) -> str:
    """The reason for the wavefronts of an addition."""
    waves, accesses, said = move["wavefronts"], move["accesses"], count(move["wavefronts"], "wavefront")
    if not move["pairs"]:
        return "The sums go to one word of global memory, in the L2 cache."
    if move["working"] > 1 and HELD in move["places"] and READ not in move["places"]:
        shuffled = "A shuffle brings each lane another lane's register."
        return f"{shuffled} Shared memory takes {said}." if waves else shuffled
    each = f"{figure(accesses / _warps(move), 2)} accesses"
    if waves > move["ideal"]:
        turns = f"each needs {figure(waves / accesses, 2)} wavefronts"
        return f"Each warp makes {each}. Words share banks, so {turns} on average: {waves}."
    if waves > accesses:
        return f"Each lane reads several words: {said}."
    if move["working"] == 1:
        return f"It takes {said}."
    return f"Each warp makes {each}, and no two words share a bank: {said}."


def _warps(move: Move) -> int:
    """The warps at work."""
    threads = move["threads"]
    return sum("1" in threads[first : first + LANES] for first in range(0, len(threads), LANES))


def _during(move: Move) -> str:
    """The work of copies during a step of a tile."""
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
    threads = len(moves[0]["threads"])
    return [
        State("threads at work", [f"{move['working']} of {threads}" for move in moves]),
        State("wavefronts so far", [f"{n} of {way.walk.wavefronts}" for n, (way, _) in zip(so_far, at)]),
    ]


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
            "in a chain": way.walk.longest,
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
