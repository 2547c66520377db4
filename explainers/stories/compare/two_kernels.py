"""Two kernels side by side under one clock: their steps, pictures and questions.

compare_times.py reports their times, and compare_reasons.py the reasons for the difference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from explainers.models import generic, tiling
from explainers.models.frames import TensorsFrame, TilingFrame
from explainers.stories.compare.alignment import SIDES, Aligned, StepFrame, align
from explainers.story import probed, stage
from explainers.story.glossary import phase_title
from explainers.story.picture import query_rows
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

MOST_OPTIONS = 4  # most options of a question


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
    """Returns the whole stage of two runs. summary, tone: the verdict."""
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
    """Returns the aligned steps of both sides with their views, states and questions. It opens at the first
    difference."""
    aligned = align(sides[0].frames, sides[1].frames)
    views, states = [], []
    for number, (side, frames) in enumerate(zip(sides, (aligned.a, aligned.b))):
        meta, columns = side.draw(frames)
        views.append(stage.View(side.kind, side.kind, side.title, meta, columns, number))
        states += [replace(state, side=number) for state in side.states(frames)]
    first = next((n for n, (a, b) in enumerate(zip(aligned.a, aligned.b)) if a["sentence"] != b["sentence"]), 0)
    asked = questions(aligned)
    return stage.Stage(headline="", frames=aligned.frames, views=views, state=states, questions=asked, step=first)


def _different_rows(requests: Sequence[Request]) -> tuple[str, str]:
    """Returns the traced queries of each side in words, "" if both have as many."""
    first, second = (query_rows(request)[2] - query_rows(request)[1] for request in requests)
    return ("", "") if first == second else (f" ({first} queries)", f" ({second} queries)")


def questions(aligned: Aligned[StepFrame]) -> list[stage.Question]:
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
            f"At {len(alone)} of the {len(aligned.frames)} steps only {SIDES[side]} moves, and {SIDES[1 - side]} "
            f"waits. In which phase is {SIDES[side]} the first time?"
        )
        why = f"{right}. {frames[alone[0]]['sentence']}"
        key, veils = options.index(right), ("sentence",)
        return [stage.Question("alone", text, "options", key, why, options, alone[0], veils=veils)]
    return []


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
    """Returns the bytes that all steps up to each one load or store."""
    moved = [sum(t["bytes"] for t in frame["touched"] if t["kind"] == kind) for frame in frames]
    return np.cumsum(moved).astype(int).tolist()


def provenance(parts: Sequence[stage.Provenance]) -> stage.Provenance:
    """Returns the provenance of both runs in one."""
    said = [f"{side}: {part.said}" for side, part in zip(SIDES, parts)]
    warnings = [f"{side}: {warning}" for side, part in zip(SIDES, parts) for warning in part.warnings]
    return stage.Provenance(parts[0].label, " ".join(said), warnings)
