"""The story of any kernel with a trace: its steps, and every tensor and logged value of the run.

A tensor is a matrix by its last two axes, a value a matrix by its last two keys. The picture shows one slice of the
    other axes or keys, the first one in the run. Elements follow from the logged addresses: element = offset / the
    tensor's bytes per element.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.any_kernel import call_tab
from explainers.stories.any_kernel.frames import (
    Logged,
    ShownTensor,
    ShownValue,
    TensorsFrame,
    TensorsMeta,
)
from explainers.stories.any_kernel.records import Records, touches_of
from explainers.stories.any_kernel.tensor_frames import frames_of, logged_by_step, not_finite
from explainers.stories.any_kernel.windows import shown_tensor, shown_value, touched_by_step, values_of, window_of
from explainers.story import axes, stage
from explainers.story.glossary import short
from kernels.core.dtypes import widened
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.probes import Sites
from kernels.trace.steps import Steps

WANTS: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generic:
    """The frames, tensors and values for the browser (frames.py).

    columns: their arrays, with the names of frames.py.
    """

    frames: list[TensorsFrame]
    tensors: list[ShownTensor]
    values: list[ShownValue]
    columns: dict[str, np.ndarray] = field(repr=False)


def accepts(spec: KernelSpec) -> bool:
    """Whether the page shows a kernel."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel with repeated launches. A kernel without probes shows its tensors."""
    if not spec.repeats:
        return ""
    return f"{spec.name} repeats its launches with other tensors, so one probe has several tensors."


def explain(run: Run) -> Generic:
    """The Generic of any Run with a trace."""
    request, sites = run.request, run.sites
    steps = _steps(run, sites)
    known = axes.tensors(request)
    keep = steps.of_record >= 0
    records = Records(run.trace.table.filter(keep), steps.of_record[keep], sites.index(run.trace.table)[keep], sites)
    touches = touches_of(request, records, known)
    windows = {symbol: window_of(tensor, touches.get(symbol)) for symbol, tensor in known.items()}
    shown = [shown_tensor(symbol, tensor, windows[symbol], run) for symbol, tensor in known.items()]
    columns = {
        f"tensor_{n}": values_of(tensor, windows[symbol], run) for n, (symbol, tensor) in enumerate(known.items())
    }
    values = []
    logged = records.values()
    for number, (event, keys) in enumerate(records.events().items()):
        made, arrays = shown_value(event, keys, logged[logged.event == event])
        values.append(made)
        columns |= {f"value_{number}{end}": array for end, array in arrays.items()}
    drawn = touched_by_step(touches, windows, known, len(steps.table))
    lit = cutting.lit_lines(run.trace, steps, sites)
    return Generic(
        frames_of(steps, records, logged_by_step(logged, len(steps.table)), drawn, lit), shown, values, columns
    )


def view(story: Generic) -> tuple[TensorsMeta, dict[str, np.ndarray]]:
    """The meta and the columns of the view `tensors`."""
    return {"tensors": story.tensors, "values": story.values, "frames": story.frames}, story.columns


def stage_of(run: Run, provenance: stage.Provenance) -> stage.Stage:
    """The whole stage of a run."""
    story = explain(run)
    nothing = "These blocks logged no step: the kernel marks none, or none was reached."
    if not len(run.sites):
        nothing = "This kernel has no probes, so it logs no step and no value. Its tensors are as the run left them."
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[stage.View("tensors", "tensors", "Tensors and values", *view(story))],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=[
            stage.Tab("tensors", "Its tensors", _tensors(run)),
            stage.Tab("bytes", "Bytes"),
            *([stage.Tab("call", "As a call")] if run.request.problem.operator else []),
            stage.Tab("builds", "Builds"),
            stage.Tab("data", "Data and labels"),
        ],
        provenance=provenance,
        summary=as_call(run.request) if story.frames else nothing,
    )


def as_call(request: Request) -> str:
    """The fastest rung and the bytes of a call of an operator, or an empty text without a near time."""
    said = call_tab.fastest(request) if request.problem.operator else ""
    return f"{said} {call_tab.moved(request)}" if said else ""


def states(story: Generic) -> list[stage.State]:
    """The strip: the reads, writes and logged values of each step."""

    def moved(kind: str) -> tuple[list[int], list[str]]:
        parts = [[t for t in f["touched"] if t["kind"] == kind] for f in story.frames]
        return [sum(t["bytes"] for t in p) for p in parts], [
            ", ".join(f"{t['tensor']} {t['bytes']:,}" for t in p) or "nothing" for p in parts
        ]

    (read, of), (written, to) = moved("load"), moved("store")
    logs = ["; ".join(f"{one['event']} {one['count']:,}×{_span(one)}" for one in f["logged"]) for f in story.frames]
    return [
        stage.State("reads", read, "B", colour="load"),
        stage.State("reads from", of),
        stage.State("writes", written, "B", colour="store"),
        stage.State("writes to", to),
        stage.State("logs", [said or "nothing" for said in logs]),
    ]


def _span(one: Logged) -> str:
    odd = not_finite(one)
    if one["low"] is None:
        return f" {odd}"
    return f" {short(float(str(one['low'])))} to {short(float(str(one['high'])))}{', ' + odd if odd else ''}"


def _tensors(run: Run) -> list[stage.Block]:
    rows = [
        {
            "tensor": t.name,
            "role": t.role.value,
            "shape": " × ".join(map(str, t.shape)),
            "axes": ", ".join(t.axes),
            "type": t.dtype,
            "bytes": t.nbytes,
            "not finite": _odd(run, t),
        }
        for t in run.request.plan.tensors
    ]
    said = (
        "The tensors after the run, as matrices of the last two axes. The last two keys of a value give its place, as "
        "logged up to the step. The logged addresses give the touched elements: byte offset / bytes of an element."
    )
    return [stage.table(pd.DataFrame(rows), said)]


def _odd(run: Run, tensor: Tensor) -> str:
    """How many of a tensor's numbers are NaN and infinite."""
    if tensor.name not in run.arrays:
        return "values not kept"
    numbers = widened(run.arrays[tensor.name])
    if numbers.dtype.kind != "f":
        return ""
    counts = ((int(np.isnan(numbers).sum()), "NaN"), (int(np.isinf(numbers).sum()), "infinite"))
    return " and ".join(f"{number:,} {name}" for number, name in counts if number) or "none"


def other_views(
    run: Run, tensors: Collection[str], values: Collection[str], steps: Sequence[int] | None = None
) -> list[stage.View]:
    """A picture of the tensors and values outside all other views of a story. An empty list if all have a view.

    tensors: symbols with a view.
    values: events with a view.
    steps: the step of the trace for each frame of the stage, if they differ.
    """
    sites = run.sites
    odd_tensors = set(axes.tensors(run.request)) - set(tensors)
    odd_values = {site.event for site in sites if site.kind == "value"} - set(values)
    if not odd_tensors and not odd_values:
        return []
    story = _only(explain(run), odd_tensors, odd_values)
    if not story.tensors and not story.values:
        return []
    if steps is not None:
        ends = [name for name in story.columns if name.endswith("_step")]
        shown = {name: np.searchsorted(steps, story.columns[name]).astype(np.float32) for name in ends}
        story = Generic([story.frames[n] for n in steps], story.tensors, story.values, story.columns | shown)
    names = [*(t["name"] for t in story.tensors), *(v["event"] for v in story.values)]
    return [stage.View("tensors", "beside", f"Also: {', '.join(names)}", *view(story))]


def _only(story: Generic, symbols: Collection[str], events: Collection[str]) -> Generic:
    """The story with only these tensors and values. Its columns get new numbers."""
    tensors = [n for n, t in enumerate(story.tensors) if t["symbol"] in symbols]
    values = [n for n, v in enumerate(story.values) if v["event"] in events]
    columns = {f"tensor_{at}": story.columns[f"tensor_{n}"] for at, n in enumerate(tensors)}
    for at, n in enumerate(values):
        columns |= {f"value_{at}{end}": story.columns[f"value_{n}{end}"] for end in ("", "_step", "_cell")}
    names = {story.tensors[n]["name"] for n in tensors}
    frames: Any = [
        {
            **f,
            "touched": [t for t in f["touched"] if t["tensor"] in names],
            "logged": [v for v in f["logged"] if v["event"] in events],
        }
        for f in story.frames
    ]
    return Generic(frames, [story.tensors[n] for n in tensors], [story.values[n] for n in values], columns)


def _steps(run: Run, sites: Sites) -> Steps:
    """The steps of the trace. A kernel without marks has one step for each block."""
    steps = cutting.cut(run.trace, sites)
    if len(steps.table) or not run.trace.table.num_rows:
        return steps
    frame = run.trace.frame("launch", "block", "file", "line")
    blocks = frame.groupby(["launch", "block"], sort=False)
    table = blocks.first().reset_index().assign(role="", phase="run", tile=-1)
    return Steps(table[["launch", "block", "role", "phase", "file", "line", "tile"]], blocks.ngroup().to_numpy())
