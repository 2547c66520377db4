"""A problem as a call of its PyTorch operator: the fastest rung by recorded times, the bytes, and the share of the
roof."""

from typing import NamedTuple

import pandas as pd

from explainers.story import stage
from explainers.story.base import Runner
from explainers.story.glossary import BINARY, amount, count, figure
from explainers.story.stage import Block
from kernels.catalog import current
from kernels.core.request import Request
from kernels.errors import WarpglassError
from kernels.measure import nearest_times
from kernels.measure.nearest_times import Recorded


class Rung(NamedTuple):
    """A kernel that solves the problem of a call, and its time by recordings."""

    name: str
    recorded: Recorded | None

    @property
    def us(self) -> float | None:
        """The time, if the recorded problem is near."""
        return self.recorded.us if self.recorded and self.recorded.is_near else None


def call_tab(subject: Request, runner: Runner) -> list[Block]:
    """The rungs for the call, and its bytes."""
    problem, found = subject.problem, rungs(subject)
    first = _fastest(found)
    device = nearest_times.recorded_device().name
    rows = [
        {
            "rung": rung.name,
            "time": "" if rung.us is None else f"{figure(rung.us, 3)} µs",
            "share of its roof": "" if rung.us is None or not rung.recorded else _share(rung.recorded),
        }
        for rung in found
    ]
    said = f"The nearest time of each rung on an {device}, scaled by the ratio of the work. Empty: no near time."
    return [
        stage.heading(f"As a call of {problem.operator}"),
        stage.text(first, "recorded") if first else stage.text(NO_TIME),
        stage.text(moved(subject), "derived"),
        stage.table(pd.DataFrame(rows), said),
    ]


NO_TIME = "No rung has a recorded time near this size. A time of another size would say little."


def rungs(subject: Request) -> list[Rung]:
    """The kernels that solve the problem with their tuned constants, the fastest first, then those without a time."""
    device, problem, made = nearest_times.recorded_device(), subject.problem, list[Rung]()
    for spec in current().kernels.values():
        if not spec.same_problems(subject.kernel):
            continue
        try:
            spec.check_conditions(problem, spec.settings_for(problem))
        except WarpglassError:
            continue
        made.append(Rung(spec.name, nearest_times.nearest(spec, problem, device)))
    return sorted(made, key=lambda rung: (rung.us is None, rung.us or 0.0))


def fastest(subject: Request) -> str:
    """The fastest rung in a sentence, or an empty text without a near time."""
    return _fastest(rungs(subject))


def _fastest(found: list[Rung]) -> str:
    first = next((rung for rung in found if rung.us is not None), None)
    if first is None or first.us is None or first.recorded is None:
        return ""
    device = nearest_times.recorded_device().name
    return (
        f"{first.name} is the fastest rung for this call: about {figure(first.us, 3)} µs on an {device}. "
        f"It reaches {_share(first.recorded)}."
    )


def moved(subject: Request) -> str:
    """The bytes of the inputs and outputs in a sentence."""
    size = subject.problem.call_bytes
    words = amount(size, BINARY[1:2]) if size >= 2**20 else count(size, "byte")
    return f"The call's inputs and outputs have {words}."


def _share(recorded: Recorded) -> str:
    return f"{recorded.roof_percent:.0f} % of the {recorded.roof} roof"
