"""The time of a kernel for a problem by recordings: that of its nearest recorded problem, scaled by the ratio of the
work. Operators take only exact builds, so the table of choices replaces times of the bench of builds that may round.
A kernel without a time of the bench has its times there, too."""

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from kernels.build import DEFAULT_ARCH
from kernels.core.problem import Problem
from kernels.core.remembered import of_recordings
from kernels.core.spec import KernelSpec
from kernels.measure import choices
from kernels.measure.bench_rows import figures, pairs_of
from kernels.measure.protocol import Point, plan_bytes
from kernels.recordings import tables
from kernels.run.backends import Device

SHARED_MAX = 227 * 1024  # bytes of a block on Hopper
NEAR = 4.0
MISMATCH = {"dtype": 16.0, "head_dim": 4.0, "causal": 1.0}  # how far apart two problems are, in doublings of the work

SIXTEEN_BITS = {"float16", "bfloat16"}  # with equal rates of the tensor cores


class Recorded(NamedTuple):
    """A time by recordings.

    us: the nearest recorded time, scaled by the ratio of the work.
    roof, roof_percent: the lower roof at the recorded problem, and the reached share.
    is_near: whether the work is at most NEAR times more or less, so that the time means something."""

    us: float
    roof: str
    roof_percent: float
    is_near: bool


def nearest(spec: KernelSpec, problem: Problem, device: Device) -> Recorded | None:
    """The recorded time of the kernel's nearest problem, scaled by the ratio of the work. None without a record."""
    best, found = math.inf, None
    for fields, flops, median_us, roof, percent in _times(spec, device.name):
        work = problem.work
        ratio = work.flops / flops if work and work.flops and flops else 1.0
        own = problem.values()
        apart = sum(cost for name, cost in MISMATCH.items() if fields.get(name) != own.get(name))
        if {fields.get("dtype"), own.get("dtype")} == SIXTEEN_BITS:
            apart += choices.OTHER_TYPE - MISMATCH["dtype"]
        apart += abs(math.log2(ratio))
        if apart < best:
            best, found = apart, Recorded(median_us * ratio, roof, percent, 1 / NEAR <= ratio <= NEAR)
    return found


def recorded_device() -> Device:
    """The GPU of the newest recorded times, for a choice on a machine without a GPU."""
    name = next(iter(tables.recorded("bench")), "a GPU")
    return Device("gpu", name, DEFAULT_ARCH, SHARED_MAX)


Time = tuple[dict[str, object], float, float, str, float]


def _times(spec: KernelSpec, device: str) -> Iterator[Time]:
    """(fields of the problem, flops, us, roof, its share in per cent) of each time of the kernel on the device, else on
    any GPU."""
    recorded = tables.recorded("bench")
    found = recorded.get(device) or next(iter(recorded.values()), None)
    if found is None:
        return
    rows, where = found
    own = rows[(rows["name"] == spec.name) & (rows["code_hash"] == spec.code_hash) & (rows["status"] == "ok")]
    rounds = [_may_round(spec, *pair) for pair in zip(own.problem, own.settings.fillna(""))]
    exact = _of_choices(spec, where.device, tuple(where.roofs.items())) if own.empty or any(rounds) else []
    columns = ("problem", "tflops", "median_us", "roof", "roof_percent")
    for rounded, problem, tflops, us, roof, percent in zip(rounds, *(own[name] for name in columns)):
        if not (rounded and exact):
            flops = float(tflops) * float(us) * 1e6 if tflops == tflops else 0.0
            yield json.loads(problem), flops, float(us), str(roof), float(percent)
    yield from exact


@lru_cache(maxsize=256)
def _may_round(spec: KernelSpec, problem: str, settings: str) -> bool:
    """Whether a recorded build may round a row's largest weight."""
    if not spec.rounds:
        return False
    return spec.may_round(spec.problem_type(**json.loads(problem)), spec.settings(pairs_of(settings)))


@of_recordings(lru_cache(maxsize=64))
def _of_choices(spec: KernelSpec, device: str, roofs: tuple[tuple[str, float], ...]) -> list[Time]:
    """The same of the kernel's fastest exact build on each problem of the table of choices."""
    recorded, made = choices.TABLE.recorded().get(device), dict[str, Time]()
    if recorded is None:
        return []
    rows = choices.timed(recorded[0])
    rows = rows[rows["name"] == spec.name]
    for text, variant, us in zip(rows.problem, rows.variant.fillna(""), rows.us):
        problem = spec.problem_type(**json.loads(text))
        settings = spec.settings_for(problem, pairs_of(variant))
        if text not in made and not spec.may_round(problem, settings):
            moved = plan_bytes(spec.plan(problem, settings), problem.work.touched)
            reached = figures(Point(spec.name, problem), us, moved, dict(roofs))
            made[text] = (
                problem.values(),
                problem.work.flops,
                us,
                str(reached["roof"]),
                float(str(reached["roof_percent"])),
            )
    return list(made.values())
