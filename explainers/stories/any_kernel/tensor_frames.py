"""The frames of any kernel: each step's tensors and values, with a sentence."""

import numpy as np
import pandas as pd

from explainers.stories.any_kernel.frames import (
    Logged,
    TensorsFrame,
    TouchedTensor,
)
from explainers.stories.any_kernel.records import Records
from explainers.story.glossary import UNORDERED, count, listed, phase_title, short
from kernels.trace.kinds import kind_of
from kernels.trace.probes import Site
from kernels.trace.steps import StepRow, Steps


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
