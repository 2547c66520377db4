"""Two kernels side by side under one clock, aligned by phase and tile: their steps and pictures."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import numpy as np

from explainers.models import generic, tiling
from explainers.story import marks, probed, stage
from explainers.story.frames import Frame, Lines
from explainers.story.picture import query_rows
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

    @property
    def first_difference(self) -> int:
        """The first step with different sentences, or 0."""
        return next((n for n, (a, b) in enumerate(zip(self.a, self.b)) if a["sentence"] != b["sentence"]), 0)


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


def stage_of(
    runs: Sequence[Run], provenance: stage.Provenance, summary: str, tone: str, tabs: Sequence[stage.Tab]
) -> stage.Stage:
    """The whole stage of two runs. It opens at the first difference. summary, tone: the verdict."""
    requests, queries = [run.request for run in runs], ["", ""]
    if all(tiling.accepts(request.kernel) for request in requests):
        frames, first, views, states = _matrices(runs)
        rows = [end - begin for _, begin, end in map(query_rows, requests)]
        queries = ["", ""] if rows[0] == rows[1] else [f" ({count} queries)" for count in rows]
    else:
        frames, first, views, states = _tensors(runs)
    return stage.Stage(
        headline=" · ".join(f"{side}: {r.kernel.name} {r.kernel.title}" for side, r in zip(SIDES, requests)),
        frames=frames,
        views=views,
        codes=[stage.code(r, frames, f"lines_{SIDES[n].lower()}", n) for n, r in enumerate(requests)],
        state=[
            replace(state, side=n, name=f"{SIDES[n]}: {state.name}{queries[n]}")
            for n, own in enumerate(states)
            for state in own
        ],
        tabs=tabs,
        provenance=provenance,
        summary=summary,
        tone=tone,
        step=first,
    )


Parts = tuple[list[AlignedFrame], int, list[stage.View], list[list[stage.State]]]  # with the first different step


def _matrices(runs: Sequence[Run]) -> Parts:
    stories, views, states = [tiling.explain(run) for run in runs], [], []
    aligned = align(stories[0].frames, stories[1].frames)
    for n, frames in enumerate((aligned.a, aligned.b)):
        story = replace(stories[n], frames=frames)
        views.append(stage.View("matrices", "matrices", "Matrices", *tiling.view(runs[n], story), n))
        states.append([state for state in tiling.states(story) if not isinstance(state.values[0], str)])
    return aligned.frames, aligned.first_difference, views, states


def _tensors(runs: Sequence[Run]) -> Parts:
    stories, views, states = [generic.explain(run) for run in runs], [], []
    aligned = align(stories[0].frames, stories[1].frames)
    for n, frames in enumerate((aligned.a, aligned.b)):
        views.append(stage.View("tensors", "tensors", "Tensors", *generic.view(replace(stories[n], frames=frames)), n))
        so_far = []
        for name, kind in (("read", "load"), ("written", "store")):
            moved = [sum(t["bytes"] for t in frame["touched"] if t["kind"] == kind) for frame in frames]
            so_far.append(stage.State(f"{name} so far", np.cumsum(moved).astype(int).tolist(), "B", colour=kind))
        states.append(so_far)
    return aligned.frames, aligned.first_difference, views, states


def provenance(parts: Sequence[stage.Provenance]) -> stage.Provenance:
    """The provenance of both runs in one."""
    said = [f"{side}: {part.said}" for side, part in zip(SIDES, parts)]
    warnings = [f"{side}: {warning}" for side, part in zip(SIDES, parts) for warning in part.warnings]
    return stage.Provenance(parts[0].label, " ".join(said), warnings)
