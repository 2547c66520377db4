"""Every step, tensor and logged value of any kernel with a trace.

A tensor is a matrix by its last two axes, a value a matrix by its last two keys. The picture shows one slice of the
    other axes or keys, the first one in the run. Elements follow from the logged addresses: element = offset / the
    tensor's bytes per element.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from explainers.models.frames import Logged, ShownTensor, ShownValue, TensorsFrame, TensorsMeta, TouchedTensor
from explainers.models.tensor_windows import (
    Records,
    shown_tensor,
    shown_value,
    touched_by_step,
    touches_of,
    values_of,
    window_of,
)
from explainers.story import axes, stage
from explainers.story.glossary import UNORDERED, count, listed, phase_title, short
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import kind_of
from kernels.trace.probes import Site, Sites
from kernels.trace.steps import StepRow, Steps


@dataclass(frozen=True)
class Generic:
    """The frames, tensors and values for the browser (frames.py)."""

    frames: list[TensorsFrame]
    tensors: list[ShownTensor]
    values: list[ShownValue]
    columns: dict[str, np.ndarray] = field(repr=False)  # their arrays, with the names of frames.py


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


def frames_of(
    steps: Steps,
    records: Records,
    logged: list[list[Logged]],
    drawn: list[list[TouchedTensor]],
    lit: list[dict[str, int]],
) -> list[TensorsFrame]:
    accesses = records.accesses(len(steps.table))
    made: list[TensorsFrame] = []
    for number, step in enumerate(steps.table.itertuples()):
        tile, phase = (f"Tile {step.tile}" if step.tile >= 0 else ""), phase_title(step.phase)
        made.append(
            {
                "tile": int(step.tile),
                "title": " · ".join(part for part in (tile, step.role, phase) if part),
                "phase": step.phase,
                "launch": int(step.launch),
                "block": int(step.block),
                "role": step.role,
                "touched": drawn[number],
                "logged": logged[number],
                "lines": lit[number],
                "sentence": _sentence(step, accesses[number], logged[number])
                + (f" {UNORDERED}" if number in steps.unordered else ""),
            }
        )
    return made


def logged_by_step(values: pd.DataFrame, steps: int) -> list[list[Logged]]:
    """The logged values of each step."""
    found: list[list[Logged]] = [[] for _ in range(steps)]
    text = values.assign(
        finite=values.value.where(np.isfinite(values.value)), nan=np.isnan(values.value), inf=np.isinf(values.value)
    )
    grouped = text.groupby(["step", "event"], sort=False).agg(
        count=("value", "size"), low=("finite", "min"), high=("finite", "max"), nan=("nan", "sum"), inf=("inf", "sum")
    )
    for (step, event), count_, low, high, nan, inf in grouped.itertuples():
        known = not np.isnan(low)
        one: Logged = {
            "event": event,
            "count": int(count_),
            "low": float(low) if known else None,
            "high": float(high) if known else None,
            "nan": int(nan),
            "inf": int(inf),
        }
        found[step].append(one)
    return found


def _sentence(step: StepRow, accesses: list[tuple[Site, int]], logged: list[Logged]) -> str:
    """The step in a sentence: block, phase, the bytes of each tensor, and the logged values."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for site, times in accesses:
        space = site.space or ""
        of = sums.setdefault((space, kind_of(site.event, space).direction), {})
        of[site.tensor or ""] = of.get(site.tensor or "", 0) + times * site.bytes
    parts = []
    for key, verb, way in (
        (("global", "read"), "reads", "from global memory"),
        (("shared", "write"), "stores", "in shared memory"),
        (("shared", "read"), "reads", "from shared memory"),
        (("shared", "both"), "updates", "in shared memory by atomics"),
        (("global", "both"), "updates", "in global memory by atomics"),
        (("global", "write"), "writes", "to global memory"),
    ):
        if key in sums:
            parts.append(f"{verb} {listed([f'{name} ({size:,} bytes)' for name, size in sums[key].items()])} {way}")
    if logged:
        parts.append(f"logs {listed([_said(one) for one in logged])}")
    phase = phase_title(step.phase)
    places = [
        f"Block {step.block}",
        step.role,
        f"tile {step.tile}" if step.tile >= 0 else "",
        phase[0].lower() + phase[1:],
    ]
    return f"{', '.join(place for place in places if place)}: {listed(parts) if parts else 'touches and logs nothing'}."


def _said(one: Logged) -> str:
    times, odd = count(one["count"], "time"), not_finite(one)
    if one["low"] is None:
        return f"{one['event']} {times}, never finite: {odd}"
    span = short(float(str(one["low"]))) + (
        "" if one["low"] == one["high"] else f" to {short(float(str(one['high'])))}"
    )
    return f"{one['event']} {times} ({span}{', ' + odd if odd else ''})"


def not_finite(one: Logged) -> str:
    """The number of NaN and infinite values in words. Empty if all are finite."""
    counts = ((one["nan"], "NaN"), (one["inf"], "infinite"))
    return " and ".join(f"{number:,} {name}" for number, name in counts if number)
