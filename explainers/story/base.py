"""The base of every story, and the way to write a new one.

A story is one folder, `explainers/stories/<path>/`, with a subclass of `Story` and one object of it in `story.py`:

    class RowValues(Story[Request]):
        WANTS = ("l",)

        def refusal(self, spec):
            return probed.without_events(spec, {"l": ("row",)})

        def stage(self, subject, runner):
            run = runner.run(subject)
            frames = frames_of(run)
            return stage.of_request(
                subject, frames, [view(frames)], state=strip(frames), provenance=runner.provenance(run)
            )

    STORY = RowValues()

`app/stories/<path>.py` adds title, order and choices of the page. A test is the last new file. No list names the
stories. Start from a copy of `explainers/stories/skeleton/` and of `app/stories/skeleton.py`.

The types of frames are TypedDicts next to the story. `stage.State` is an entry of the strip of state. Questions to the
reader come from `explainers.story.questions`.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from explainers.story.stage import Block, Provenance, Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError
from kernels.errors import WarpglassError
from kernels.run.results import Run, Traffic

Subject = TypeVar("Subject")  # the subject of a page: frozen and picklable, with Requests and plain numbers


class Runner(Protocol):
    """Makes the runs of a story. The app's runner is the module app.parts.running."""

    def run(self, request: Request, /) -> Run:
        """The Run of a request."""

    def run_to_fault(self, request: Request, /) -> Run:
        """The Run of a plain kernel with a fault: if a launch stops, its records until then."""

    def outputs_again(self, request: Request, /) -> Mapping[str, np.ndarray]:
        """The arrays of a second run: on the CPU with blocks and threads in the opposite order."""

    def traffic(self, request: Request, /) -> Traffic:
        """The Traffic of a request."""

    def errors(self, run: Run, /) -> tuple[OutputError, ...]:
        """Each output's error against float64."""

    def provenance(self, run: Run, /) -> Provenance:
        """The source of a run's values, with the error of its worst output."""

    def broken(self, run: Run, /) -> tuple[str, str]:
        """The effect of a build that is broken on purpose, in a sentence, and its tone. Two empty texts for any other
        build."""

    def traffic_of_each(self, requests: list[Request], /) -> tuple[list[tuple[Request, Traffic]], list[str]]:
        """Each request with its Traffic, and a sentence for each request without one."""

    def not_compared(self, request: Request, error: WarpglassError, /) -> str:
        """The sentence on a kernel that failed."""

    def live_gpu(self) -> tuple[int, str] | None:
        """Multiprocessors and name of this machine's GPU, or None."""


Part = Callable[[Subject, Runner], list[Block]]


class Story(Generic[Subject]):
    """Explains one idea on the runs of kernels."""

    WANTS: ClassVar[tuple[str, ...]] = ()  # its events. The default kernel of its page logs most of them.

    def refusal(self, spec: KernelSpec) -> str:
        """The reason against a kernel in a sentence, or an empty text.

        It reads events, keys, axes and the declared parts of the tensors, never the name of a kernel.
        """
        return ""

    def accepts(self, spec: KernelSpec) -> bool:
        """Whether the story can show a kernel."""
        return not self.refusal(spec)

    def stage(self, subject: Subject, runner: Runner) -> Stage:
        """The whole page of a subject. A worker makes it. WarpglassError says why it cannot be made."""
        raise NotImplementedError

    def parts(self) -> Mapping[str, Part[Subject]]:
        """Id of a tab -> its function. The function makes the blocks when the reader opens the tab."""
        return {}
