"""Patterns: the ways of one pattern side by side, such as eight ways to add 256 numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.stories.patterns import moves, pattern_questions
from explainers.stories.patterns.frames import COMING, FREE, FULL, HELD, READ, WRITTEN, PatternFrame, PatternsMeta, Way
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
    """A way with its steps and its cycles, or None if these are not known."""

    name: str
    request: Request
    walk: Walk
    cycles: Cycles | None


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
            questions=pattern_questions.questions([(way.name, way.walk, way.cycles) for way in shown], chosen.name),
        )
        return stage.warned(made, left)

    def parts(self) -> dict[str, Part[Look]]:
        return {"figures": figures_tab}


def shown_of(look: Look, runner: Runner) -> tuple[list[Shown], list[str]]:
    """The ways that ran, and a sentence for each other one. WarpglassError if the chosen one did not run."""
    shown, left = [], []
    for name, request in look.ways:
        try:
            shown.append(Shown(name, request, moves.walk_of(runner.run(request)), pattern_cycles.cycles(request)))
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
            "why": pattern_cycles.why(way.request.kernel, way.request.settings),
            "cycles": f"{figure(way.cycles.cycles)} cycles" if way.cycles else "cycles not recorded",
            "time": way.cycles.cycles if way.cycles else 0.0,
            "done": done_of(way.walk),
        }
        for way in shown
    ]
    seen = {state for way in ways for move in way["moves"] for state in move["places"]}
    words = {state: said for state, said in WORDS.items() if state in seen}
    return {"ways": ways, "note": note(shown), "words": words}


def done_of(walk: Walk) -> str:
    """The words after the last step of a way."""
    if len(walk.moves) == 1 and walk.waiting > 1:
        return f"1 step: {walk.waiting} adds, one by one"
    return f"done after {count(len(walk.moves), 'step')}"


def slowest(shown: Sequence[Shown]) -> str:
    """The sentence on the slowest way, if it has the fewest steps and its additions wait for one address. Else ""."""
    known = [(way.cycles.cycles, way) for way in shown if way.cycles]
    if len(known) < 2:
        return ""
    last = max(known, key=lambda one: one[0])[1]
    steps = len(last.walk.moves)
    if last.walk.waiting < 2 or steps > min(len(way.walk.moves) for way in shown):
        return ""
    taken = "one step" if steps == 1 else count(steps, "step")
    name = last.name.partition(",")[0].lower()
    return f"A step is not a time. The {name} take {taken}, but {last.walk.waiting} additions wait for one address."


def note(shown: Sequence[Shown]) -> str:
    """The source of the figures."""
    known = next((way.cycles for way in shown if way.cycles), None)
    if known is None:
        return "Counts derived from the trace. No cycles are recorded for this problem."
    device = known.device.removeprefix("NVIDIA ")
    held = any(HELD in move["places"] for way in shown for move in way.walk.moves)
    space = "global" if shown[0].walk.stages else "shared"
    column = "a bank or lane" if held else "a bank"
    drawn = f"A row of threads: a warp. A column of numbers: {column}. B: bytes of {space} memory."
    return f"Cycles {known.label} on {device}, {known.date}. Counts derived from traces. {drawn}"


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
        waves = f", in {count(move['wavefronts'], 'wavefront')}" if move["wavefronts"] else ", without shared memory"
        waves += f" of {chosen.walk.wavefronts} in all" if move["wavefronts"] and not chosen.walk.stages else ""
        waves = "" if COMING in move["places"] and READ not in move["places"] else waves
        said = f"{chosen.name}, step {number + 1}: {move['title']}{waves}."
        if done:
            behind = sum(len(way.walk.moves) > number for way in shown)
            said = f"{chosen.name} is done after {len(own)} steps. {count(behind, 'way')} still works."
            said = said.replace("ways still works", "ways still work")
        lines = {} if done else dict.fromkeys(move["lines"], 1)
        title = f"Step {number + 1}"
        frames.append({"tile": max(0, move["tile"]), "title": title, "sentence": said, "lines": lines, "move": number})
    return frames


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
            "why": pattern_cycles.why(way.request.kernel, way.request.settings),
        }
        for way in shown
    ]
    runs = f"Least and most are medians of {pattern_cycles.LAUNCHES} launches. "
    return [
        stage.table(pd.DataFrame(rows).convert_dtypes(), f"{runs}{note(shown)}{origin(shown)}"),
        *map(stage.note, left),
    ]


STORY = Patterns()
