"""Two kernels side by side under one clock: their steps, pictures and questions.

compare_times.py reports their times, and compare_reasons.py the reasons for the difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explainers.stories.any_kernel import generic
from explainers.stories.compare.alignment import SIDES, Aligned, align
from explainers.stories.tiling import tiling
from explainers.story import probed, stage
from explainers.story.glossary import phase_title
from explainers.story.picture import query_rows
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

MOST_OPTIONS = 4  # most options of a question


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel has a probe."""
    return len(probed.probes(spec)) > 0


@dataclass(frozen=True)
class _Side:
    """A side's picture before alignment.

    kind, title: the view.
    frames: the input of `draw`.
    draw: frames -> the view's meta and columns.
    states: frames -> the strip.
    """

    kind: str
    title: str
    frames: Sequence[Any]
    draw: Any
    states: Any


def stage_of(
    runs: Sequence[Run], provenance: stage.Provenance, summary: str, tone: str, tabs: Sequence[stage.Tab]
) -> stage.Stage:
    """Returns the whole stage of two runs. summary, tone: the verdict."""
    requests = [run.request for run in runs]
    dense = all(tiling.accepts(request.kernel) for request in requests)
    sides = [_matrices(run) if dense else _tensors(run) for run in runs]
    traced = [query_rows(request)[2] - query_rows(request)[1] if dense else 0 for request in requests]
    of = [f" ({count} queries)" if traced[0] != traced[1] else "" for count in traced]  # without it they are alike
    aligned = align(sides[0].frames, sides[1].frames)
    views, states = [], []
    for number, (side, frames) in enumerate(zip(sides, (aligned.a, aligned.b))):
        meta, columns = side.draw(frames)
        views.append(stage.View(side.kind, side.kind, side.title, meta, columns, number))
        states += [replace(s, name=f"{SIDES[number]}: {s.name}{of[number]}", side=number) for s in side.states(frames)]
    return stage.Stage(
        headline=" · ".join(f"{side}: {r.kernel.name} {r.kernel.title}" for side, r in zip(SIDES, requests)),
        frames=aligned.frames,
        views=views,
        codes=[stage.code(r, aligned.frames, f"lines_{SIDES[n].lower()}", n) for n, r in enumerate(requests)],
        state=states,
        tabs=tabs,
        provenance=provenance,
        summary=summary,
        tone=tone,
        questions=questions(aligned),
    )


def questions(aligned: Aligned) -> list[stage.Question]:
    """Returns a question about the first step of one side without a step of the other, or none."""
    for side, frames in ((1, aligned.b), (0, aligned.a)):
        alone = [n for n, frame in enumerate(aligned.frames) if frame["title"].endswith(f"({SIDES[side]} alone)")]
        titles = list(dict.fromkeys(phase_title(frame["phase"]) for frame in frames))
        if not alone or len(titles) < 2:
            continue
        right = phase_title(frames[alone[0]]["phase"])
        others = [title for title in titles if title != right][: MOST_OPTIONS - 1]
        options = [title for title in titles if title in (right, *others)]
        text = (
            f"At {len(alone)} of the {len(aligned.frames)} steps {SIDES[side]} steps alone and {SIDES[1 - side]} "
            f"waits. What does {SIDES[side]} do the first time?"
        )
        why = f"{right}. {frames[alone[0]]['sentence']}"
        key, veils = options.index(right), ("sentence",)
        return [stage.Question("alone", text, "options", key, why, options, alone[0], veils=veils)]
    return []


def _matrices(run: Run) -> _Side:
    story = tiling.explain(run)

    def draw(frames: list[Any]) -> Any:
        return tiling.view(run, replace(story, frames=frames))

    def states(frames: list[Any]) -> list[stage.State]:
        return [s for s in tiling.states(replace(story, frames=frames)) if not isinstance(s.values[0], str)]

    return _Side("matrices", "Matrices", story.frames, draw, states)


def _tensors(run: Run) -> _Side:
    story = generic.explain(run)

    def states(frames: list[Any]) -> list[stage.State]:
        def so_far(kind: str) -> list[int]:
            moved = [sum(t["bytes"] for t in f["touched"] if t["kind"] == kind) for f in frames]
            return np.cumsum(moved).astype(int).tolist()

        return [
            stage.State("read so far", so_far("load"), "B", colour="load"),
            stage.State("written so far", so_far("store"), "B", colour="store"),
        ]

    return _Side("tensors", "Tensors", story.frames, lambda frames: generic.view(replace(story, frames=frames)), states)


def provenance(parts: Sequence[stage.Provenance]) -> stage.Provenance:
    """Returns the provenance of both runs in one."""
    said = [f"{side}: {part.said}" for side, part in zip(SIDES, parts)]
    warnings = [f"{side}: {warning}" for side, part in zip(SIDES, parts) for warning in part.warnings]
    return stage.Provenance(parts[0].label, " ".join(said), warnings)
