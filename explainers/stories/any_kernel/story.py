"""The story of any kernel: every step, tensor and logged value of a kernel with a trace."""

import numpy as np
import pandas as pd

from explainers.models import generic
from explainers.stories.any_kernel import call_tab
from explainers.stories.any_kernel.bytes_tab import bytes_tab
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Stage
from kernels.core.dtypes import widened
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor
from kernels.run.results import Run


def stage_of(run: Run, provenance: stage.Provenance) -> stage.Stage:
    """The whole stage of a run."""
    story = generic.explain(run)
    nothing = "These blocks logged no step: the kernel marks none, or none was reached."
    if not len(run.sites):
        nothing = "This kernel has no probes, so it logs no step and no value. Its tensors are as the run left them."
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[stage.View("tensors", "tensors", "Tensors and values", *generic.view(story))],
        codes=[stage.code(run.request, story.frames)],
        state=generic.states(story),
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


class AnyKernel(Story[Request]):
    """A run without a view of its own."""

    def refusal(self, spec: KernelSpec) -> str:
        """Repeated launches. A kernel without probes shows its tensors."""
        if not spec.repeats:
            return ""
        return f"{spec.name} repeats its launches with other tensors, so one probe has several tensors."

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        return stage_of(run, runner.provenance(run))

    def parts(self) -> dict[str, Part[Request]]:
        return {"bytes": bytes_tab, "call": call_tab.call_tab}


STORY = AnyKernel()
