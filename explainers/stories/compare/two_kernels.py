"""Two kernels side by side under one clock, aligned by phase and tile: their steps and pictures."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import numpy as np

from explainers.models import generic, tiling
from explainers.stories.compare.pair_times import SIDES
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
    made, done = Aligned[StepFrame]([], [], []), [0, 0]

    def step(n: int | None, m: int | None) -> None:
        """A step with these frames, None for the side that waits."""
        of_a = a[n] if n is not None else _waiting(a, done[0], "A")
        of_b = b[m] if m is not None else _waiting(b, done[1], "B")
        stepping, alone = of_b if n is None else of_a, n is None or m is None
        common: AlignedFrame = {
            "tile": stepping["tile"],
            "title": stepping["title"] + (f" ({'B' if n is None else 'A'} alone)" if alone else ""),
            "phase": stepping["phase"],
            "sentence": "",
            "sentences": [of_a["sentence"], of_b["sentence"]],
            "lines_a": of_a["lines"],
            "lines_b": of_b["lines"],
            "marks": [marks.ALONE] if alone else [],
        }
        made.frames.append(common)
        made.a.append(of_a)
        made.b.append(of_b)
        done[:] = [done[0] + (n is not None), done[1] + (m is not None)]

    for block in difflib.SequenceMatcher(None, _keys(a), _keys(b), autojunk=False).get_matching_blocks():
        for n in range(done[0], block.a):
            step(n, None)
        for m in range(done[1], block.b):
            step(None, m)
        for n in range(block.size):
            step(block.a + n, block.b + n)
    return made


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
    size = next((key / tile for tile, key in first_keys.items() if tile > 0), 1)
    tiles = [frame["tile"] for frame in frames]
    keys = [first_keys.get(tile, int(tile * size)) if tile >= 0 else -1 for tile in tiles]
    return [(str(frame.get("role", "")), frame["phase"], key) for frame, key in zip(frames, keys)]


def _waiting(frames: Sequence[StepFrame], done: int, side: str) -> StepFrame:
    """The frame of a side that waits. done: the number of its steps so far."""
    held, cleared, said = frames[max(0, done - 1)], _WAITING | _NOT_BEGUN, "has not begun"
    if done:
        cleared, said = _WAITING, f"has done {held['title']} and waits"
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
    dense = all(tiling.accepts(request.kernel) for request in requests)
    views, states, first = list[stage.View](), list[list[stage.State]](), 0
    if dense:
        tilings = [tiling.explain(run) for run in runs]
        tiled = align(tilings[0].frames, tilings[1].frames)
        frames, first = tiled.frames, tiled.first_difference
        for n, own in enumerate((tiled.a, tiled.b)):
            story = replace(tilings[n], frames=own)
            views.append(stage.View("matrices", "matrices", "Matrices", *tiling.view(runs[n], story), n))
            states.append([state for state in tiling.states(story) if not isinstance(state.values[0], str)])
        rows = [end - begin for _, begin, end in map(query_rows, requests)]
        queries = ["", ""] if rows[0] == rows[1] else [f" ({count} queries)" for count in rows]
    else:
        walks = [generic.explain(run) for run in runs]
        walked = align(walks[0].frames, walks[1].frames)
        frames, first = walked.frames, walked.first_difference
        for n, steps in enumerate((walked.a, walked.b)):
            view = generic.view(replace(walks[n], frames=steps))
            views.append(stage.View("tensors", "tensors", "Tensors", *view, n))
            so_far = []
            for name, kind in (("read", "load"), ("written", "store")):
                moved = [sum(t["bytes"] for t in step["touched"] if t["kind"] == kind) for step in steps]
                so_far.append(stage.State(f"{name} so far", np.cumsum(moved).astype(int).tolist(), "B", colour=kind))
            states.append(so_far)
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


def provenance(parts: Sequence[stage.Provenance]) -> stage.Provenance:
    """The provenance of both runs in one."""
    said = [f"{side}: {part.said}" for side, part in zip(SIDES, parts)]
    warnings = [f"{side}: {warning}" for side, part in zip(SIDES, parts) for warning in part.warnings]
    return stage.Provenance(parts[0].label, " ".join(said), warnings)
