"""Any kernel: every step, every tensor and every value of any kernel that writes a trace, known to a story or not."""

from app.choices import State, items
from app.choices.pages import ANY_KERNEL
from app.parts import running, tabs
from app.parts.story import Story
from explainers.stories.any_kernel import generic
from explainers.story.stage import Stage
from kernels.core.request import Request


def what(state: State, backend: str) -> Request:
    return items.request(ANY_KERNEL, state, backend)


def make(request: Request) -> Stage:
    run = running.run(request)
    return generic.stage_of(run, running.provenance(run))


STORY = Story(
    path="any_kernel",
    title="Any kernel",
    look="Every tensor and every value that a kernel logs is here, also of a kernel that no other page knows. "
    "Step through it and see what it reads, what it writes and what it logs.",
    asked=ANY_KERNEL,
    what=what,
    make=make,
    parts={"builds": tabs.builds, "data": tabs.data},
    narrowed=items.narrowed,
)
