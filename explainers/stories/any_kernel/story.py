"""Any kernel: every step, tensor and logged value of a kernel with a trace."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.models import generic
from explainers.story import axes, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import BINARY, amount, count, figure, short
from explainers.story.stage import Block, Stage, Tab
from explainers.story.words import Words
from kernels.catalog import current
from kernels.core.dtypes import widened
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.errors import WarpglassError
from kernels.measure import nearest_times
from kernels.measure.nearest_times import Recorded
from kernels.recordings import tables
from kernels.run.results import Run, Traffic

WORDS = Words.of(str(__package__))


class AnyKernel(Story[Request]):
    """A run without a view of its own. A kernel without probes shows its tensors."""

    def refusal(self, spec: KernelSpec) -> str:
        return WORDS.say("refusal", {"name": spec.name, "repeats": spec.repeats})

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        return stage_of(run, runner.provenance(run))

    def parts(self) -> dict[str, Part[Request]]:
        return {"bytes": bytes_tab, "call": call_tab}


def stage_of(run: Run, provenance: stage.Provenance) -> Stage:
    """The whole stage of a run."""
    story, request = generic.explain(run), run.request
    first = fastest(request) if request.problem.operator else ""
    summary = {
        "probes": len(run.sites),
        "steps": story.frames,
        "fastest": first,
        "moved": moved(request) if first else "",
    }
    call = [Tab("call", "As a call")] if request.problem.operator else []
    tensors = stage.table(pd.DataFrame([_tensor(run, t) for t in request.plan.tensors]), WORDS.say("tensors", {}))
    return stage.of_request(
        request,
        story.frames,
        [stage.View("tensors", "tensors", "Tensors and values", *generic.view(story))],
        state=generic.states(story),
        tabs=[Tab("tensors", "Its tensors", [tensors]), Tab("bytes", "Bytes"), *call, stage.BUILDS, stage.DATA],
        provenance=provenance,
        summary=WORDS.say("summary", summary),
    )


def _tensor(run: Run, tensor: Tensor) -> dict[str, object]:
    """A row of the table of tensors. not finite: how many of its numbers are NaN and infinite."""
    odd = "values not kept"
    if tensor.name in run.arrays:
        numbers = widened(run.arrays[tensor.name])
        floats = numbers.dtype.kind == "f"
        counts = ((np.isnan, "NaN"), (np.isinf, "infinite")) if floats else ()
        named = [f"{number:,} {name}" for is_odd, name in counts if (number := int(is_odd(numbers).sum()))]
        odd = " and ".join(named) or ("none" if floats else "")
    return {
        "tensor": tensor.name,
        "role": tensor.role.value,
        "shape": " × ".join(map(str, tensor.shape)),
        "axes": ", ".join(tensor.axes),
        "type": tensor.dtype,
        "bytes": tensor.nbytes,
        "not finite": odd,
    }


def bytes_tab(subject: Request, runner: Runner) -> list[Block]:
    """The accesses and bytes of each tensor and each array of shared memory, counted over all blocks if they fit."""
    traffic = runner.traffic(subject)
    if not len(traffic.table):
        return [stage.note(WORDS.say("no_bytes", {}))]
    caption = WORDS.say("bytes", {"whole": traffic.whole, "item": subject.plan.item})
    return [stage.heading("Bytes by tensor"), stage.table(by_tensor(subject, traffic), caption)]


def by_tensor(subject: Request, traffic: Traffic) -> pd.DataFrame:
    """A row for each tensor, memory and kind of access. times its size: its bytes over the tensor's own."""
    known = axes.tensors(subject)
    rows = [
        {
            "tensor": row.tensor,
            "memory": row.space,
            "access": row.kind,
            "accesses": int(row.accesses),
            "bytes": int(row.bytes),
            "times its size": short(row.bytes / known[row.tensor].nbytes) if row.space == "global" else "",
        }
        for row in traffic.table.itertuples()
        if row.space == "shared" or row.tensor in known
    ]
    return pd.DataFrame(rows)


# ---- a problem as a call of its PyTorch operator ----


class Rung(NamedTuple):
    """A kernel that solves the problem of a call, and its recorded time if the recorded problem is near."""

    name: str
    recorded: Recorded | None

    @property
    def us(self) -> float | None:
        return self.recorded.us if self.recorded else None

    @property
    def share(self) -> str:
        return f"{self.recorded.roof_percent:.0f} % of the {self.recorded.roof} roof" if self.recorded else ""


def call_tab(subject: Request, runner: Runner) -> list[Block]:
    """The rungs for the call, and its bytes."""
    first = fastest(subject)
    rows = [
        {"rung": rung.name, "time": f"{figure(rung.us, 3)} µs" if rung.us else "", "share of its roof": rung.share}
        for rung in rungs(subject)
    ]
    return [
        stage.heading(f"As a call of {subject.problem.operator}"),
        stage.text(first, "recorded") if first else stage.text(WORDS.say("no_time", {})),
        stage.text(moved(subject), "derived"),
        stage.table(pd.DataFrame(rows), WORDS.say("times", {"device": nearest_times.recorded_device().name})),
    ]


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
        recorded = nearest_times.nearest(spec, problem, device)
        made.append(Rung(spec.name, recorded if recorded and recorded.is_near else None))
    return sorted(made, key=lambda rung: (rung.us is None, rung.us or 0.0))


def fastest(subject: Request) -> str:
    """The fastest rung in a sentence, or an empty text without a near time."""
    first = next(iter(rungs(subject)), None)
    if first is None or first.us is None:
        return ""
    names = {"name": first.name, "us": figure(first.us, 3), "share": first.share}
    date = next((where.dates for _, where in tables.recorded("bench").values()), "")
    return WORDS.say("fastest", names | {"device": nearest_times.recorded_device().name, "date": date})


def recorded_call(subject: Request) -> str:
    """The fastest rung and the bytes of an operator's call in sentences, which need no run."""
    if not subject.problem.operator:
        return ""
    return " ".join(["Recorded:", fastest(subject) or WORDS.say("no_time", {}), moved(subject)])


def moved(subject: Request) -> str:
    """The bytes of the inputs and outputs in a sentence."""
    size = subject.problem.call_bytes
    return WORDS.say("moved", {"size": amount(size, BINARY[1:2]) if size >= 2**20 else count(size, "byte")})


STORY = AnyKernel()
