"""The story of any kernel: every step, tensor and logged value of a kernel with a trace."""

from explainers.stories.any_kernel import generic
from explainers.stories.any_kernel.bytes_tab import bytes_tab
from explainers.stories.any_kernel.call_tab import call_tab
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec


class AnyKernel(Story[Request]):
    """A run without a view of its own."""

    def refusal(self, spec: KernelSpec) -> str:
        return generic.refusal(spec)

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        return generic.stage_of(run, runner.provenance(run))

    def parts(self) -> dict[str, Part[Request]]:
        return {"bytes": bytes_tab, "call": call_tab}


STORY = AnyKernel()
