"""Two kernels side by side under one clock, aligned by phase and tile: their steps and pictures."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import numpy as np

from explainers.models import generic, tiling
from explainers.models.frames import TensorsFrame, TilingFrame
from explainers.story import marks, probed, stage
from explainers.story.frames import Frame, Lines
from explainers.story.picture import query_rows
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run


class AlignedFrame(Frame):
    """A common step of two kernels.

    sentences: of each side. `sentence` is empty.
    lines_a, lines_b: the lines of each side, none for a side without the step.
    """

    sentences: list[str]
    lines_a: Lines
    lines_b: Lines


StepFrame = TypeVar("StepFrame", bound=Frame)  # a frame of any picture
Key = tuple[str, str, int]  # role, phase, and the first key of the tile
Pair = tuple[int | None, int | None]  # the places of one step on both sides
SIDES = "AB"
# The fields of a waiting side's frame, and its further fields before the first step.
_WAITING: dict[str, object] = {"touched": [], "uses": [], "scores": None, "logged": [], "lines": {}}
_NOT_BEGUN: dict[str, object] = {"resident": {}, "bytes": {}, "o": -1}


@dataclass(frozen=True)
class Aligned(Generic[StepFrame]):
    """Two lists of frames on one clock.

    frames: one for each common step.
    a, b: the frame of that side at each step. A waiting side repeats its last frame.
    """

    frames: list[AlignedFrame]
    a: list[StepFrame]
    b: list[StepFrame]


def align(a: Sequence[StepFrame], b: Sequence[StepFrame]) -> Aligned[StepFrame]:
    """Aligns two lists of frames.

    Two steps match if they have one phase and role, and tiles with one first key. Else the other side waits.
    """
    pairs = _pairs(_keys(a), _keys(b))
    of_a = _with_waits(a, [pair[0] for pair in pairs], SIDES[0])
    of_b = _with_waits(b, [pair[1] for pair in pairs], SIDES[1])
    frames = [_common(pair, frame_a, frame_b) for pair, frame_a, frame_b in zip(pairs, of_a, of_b)]
    return Aligned(frames, of_a, of_b)


def _with_waits(frames: Sequence[StepFrame], places: Sequence[int | None], side: str) -> list[StepFrame]:
    found: list[StepFrame] = []
    last: int | None = None
    for position in places:
        found.append(_waiting(frames, last, side) if position is None else frames[position])
        last = last if position is None else position
    return found


def _common(pair: Pair, a: StepFrame, b: StepFrame) -> AlignedFrame:
    stepping = b if pair[0] is None else a
    title = stepping["title"]
    alone = None in pair
    if alone:
        title += f" ({SIDES[pair[0] is None]} alone)"
    return {
        "tile": stepping["tile"],
        "title": title,
        "phase": stepping["phase"],
        "sentence": "",
        "sentences": [a["sentence"], b["sentence"]],
        "lines_a": a["lines"],
        "lines_b": b["lines"],
        "marks": [marks.ALONE] if alone else [],
    }


def _keys(frames: Sequence[StepFrame]) -> list[Key]:
    """role, phase and first key of each frame. The first key is -1 outside all tiles.

    The scores of a tile give its first key. If a tile has none, its number gives the key.
    """
    first_keys: dict[int, int] = {}
    for frame in frames:
        scores = frame.get("scores")
        if isinstance(scores, list):
            tile, key = frame["tile"], scores[2]
            first_keys[tile] = min(first_keys.get(tile, key), key)
    sizes = [key / tile for tile, key in first_keys.items() if tile > 0]
    size = sizes[0] if sizes else 1

    def first_key(tile: int) -> int:
        return first_keys.get(tile, int(tile * size)) if tile >= 0 else -1

    return [(str(frame.get("role", "")), frame["phase"], first_key(frame["tile"])) for frame in frames]


def _pairs(a: list[Key], b: list[Key]) -> list[Pair]:
    pairs: list[Pair] = []
    end_a = end_b = 0
    for block in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
        pairs += [(position, None) for position in range(end_a, block.a)]
        pairs += [(None, position) for position in range(end_b, block.b)]
        pairs += [(block.a + n, block.b + n) for n in range(block.size)]
        end_a, end_b = block.a + block.size, block.b + block.size
    return pairs


def _waiting(frames: Sequence[StepFrame], last: int | None, side: str) -> StepFrame:
    if last is None:
        held, cleared, said = frames[0], _WAITING | _NOT_BEGUN, "has not begun"
    else:
        held, cleared, said = frames[last], _WAITING, f"has done {frames[last]['title']} and waits"
    known = {name: value for name, value in cleared.items() if name in held}
    return cast(StepFrame, {**held, **known, "sentence": f"{side} {said}."})


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel has a probe, and launches that do not repeat."""
    return len(probed.probes(spec)) > 0 and not spec.repeats


@dataclass(frozen=True)
class _Side(Generic[StepFrame]):
    """A side's picture before alignment.

    kind, title: the view.
    frames: the input of `draw`.
    draw: frames -> the view's meta and columns.
    states: frames -> the strip.
    """

    kind: str
    title: str
    frames: Sequence[StepFrame]
    draw: Callable[[list[StepFrame]], tuple[Mapping[str, object], dict[str, np.ndarray]]]
    states: Callable[[list[StepFrame]], list[stage.State]]


def stage_of(
    runs: Sequence[Run], provenance: stage.Provenance, summary: str, tone: str, tabs: Sequence[stage.Tab]
) -> stage.Stage:
    """The whole stage of two runs. summary, tone: the verdict."""
    requests = [run.request for run in runs]
    dense = all(tiling.accepts(request.kernel) for request in requests)
    bare = _bare_stage([_matrices(r) for r in runs]) if dense else _bare_stage([_tensors(r) for r in runs])
    rows = _different_rows(requests) if dense else ("", "")
    return replace(
        bare,
        headline=" · ".join(f"{side}: {r.kernel.name} {r.kernel.title}" for side, r in zip(SIDES, requests)),
        codes=[stage.code(r, bare.frames, f"lines_{SIDES[n].lower()}", n) for n, r in enumerate(requests)],
        state=[replace(s, name=f"{SIDES[s.side]}: {s.name}{rows[s.side]}") for s in bare.state],
        tabs=tabs,
        provenance=provenance,
        summary=summary,
        tone=tone,
    )


def _bare_stage(sides: Sequence[_Side[StepFrame]]) -> stage.Stage:
    """The aligned steps of both sides with their views, states and questions. It opens at the first
    difference."""
    aligned = align(sides[0].frames, sides[1].frames)
    views, states = [], []
    for number, (side, frames) in enumerate(zip(sides, (aligned.a, aligned.b))):
        meta, columns = side.draw(frames)
        views.append(stage.View(side.kind, side.kind, side.title, meta, columns, number))
        states += [replace(state, side=number) for state in side.states(frames)]
    first = next((n for n, (a, b) in enumerate(zip(aligned.a, aligned.b)) if a["sentence"] != b["sentence"]), 0)
    return stage.Stage(headline="", frames=aligned.frames, views=views, state=states, step=first)


def _different_rows(requests: Sequence[Request]) -> tuple[str, str]:
    first, second = (query_rows(request)[2] - query_rows(request)[1] for request in requests)
    return ("", "") if first == second else (f" ({first} queries)", f" ({second} queries)")


def _matrices(run: Run) -> _Side[TilingFrame]:
    story = tiling.explain(run)

    def draw(frames: list[TilingFrame]) -> tuple[Mapping[str, object], dict[str, np.ndarray]]:
        return tiling.view(run, replace(story, frames=frames))

    def states(frames: list[TilingFrame]) -> list[stage.State]:
        shown = tiling.states(replace(story, frames=frames))
        return [state for state in shown if not isinstance(state.values[0], str)]

    return _Side("matrices", "Matrices", story.frames, draw, states)


def _tensors(run: Run) -> _Side[TensorsFrame]:
    story = generic.explain(run)

    def draw(frames: list[TensorsFrame]) -> tuple[Mapping[str, object], dict[str, np.ndarray]]:
        return generic.view(replace(story, frames=frames))

    def states(frames: list[TensorsFrame]) -> list[stage.State]:
        return [
            stage.State("read so far", _bytes_so_far(frames, "load"), "B", colour="load"),
            stage.State("written so far", _bytes_so_far(frames, "store"), "B", colour="store"),
        ]

    return _Side("tensors", "Tensors", story.frames, draw, states)


def _bytes_so_far(frames: list[TensorsFrame], kind: str) -> list[int]:
    moved = [sum(t["bytes"] for t in frame["touched"] if t["kind"] == kind) for frame in frames]
    return np.cumsum(moved).astype(int).tolist()


def provenance(parts: Sequence[stage.Provenance]) -> stage.Provenance:
    """The provenance of both runs in one."""
    said = [f"{side}: {part.said}" for side, part in zip(SIDES, parts)]
    warnings = [f"{side}: {warning}" for side, part in zip(SIDES, parts) for warning in part.warnings]
    return stage.Provenance(parts[0].label, " ".join(said), warnings)
