"""Links a reason of Compare to its story, at the right step."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from app.choices.links import read_link
from app.parts import running
from app.parts.story import Story
from app.stories import any_kernel, bank_conflicts, occupancy, registers, tiling
from explainers.models import generic
from explainers.models import tiling as tiles
from explainers.stories.bank_conflicts import bank_walk, padding
from explainers.story import stage
from explainers.story.stage import Block
from kernels.build.occupancy import limits, machine
from kernels.build.product import DEFAULT_ARCH
from kernels.catalog import current
from kernels.core.fields import write_value
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace.memory import traced


class Shown(NamedTuple):
    """The picture of a reason.

    story: with the picture.
    opened: the choices and the tab to open.
    step: run -> the step of the picture.
    of_timed: whether the story shows the timed problem, in place of the run's problem.
    """

    story: Story
    opened: dict[str, str]
    step: Callable[[Run], int]
    of_timed: bool = False


def link(side: str, reason: str, run: Run, timed: Problem, arch: str) -> Block | None:
    """The link from a side's build to the story of a reason. None for a kernel without this story."""
    shown, request = SHOWN_BY[reason], run.request
    page = shown.story.page(current())
    if request.kernel.name not in page.kernels:
        return None
    first = request.scope.first
    problem = timed if shown.of_timed else request.problem
    chosen = {"kernel": request.kernel.name, **problem.values(), **request.constants}
    chosen |= {"at_item": first, "at_tile": first, "arch": arch}
    if reason == "wavefronts":
        chosen["line"] = "{}:{}".format(*_costly_line(request))
    state, _ = read_link(page, {"kernel": request.kernel.name})
    query = {name: write_value(value) for name, value in chosen.items() if name in page.choices(state)}
    step = str(1 + _step_of(reason, request))
    return stage.link(f"{side} in {shown.story.title}", shown.story.path, {**query, **shown.opened, "step": step})


@lru_cache(maxsize=64)
def _step_of(reason: str, request: Request) -> int:
    return SHOWN_BY[reason].step(running.run(request))


def _largest(amounts: Sequence[float]) -> int:
    """The first place of the largest amount, or 0."""
    return max(range(len(amounts)), key=lambda n: amounts[n], default=0)


def _step_of_bytes(run: Run) -> int:
    """The step that moves most bytes."""
    moved = [sum(frame["bytes"].values()) for frame in tiles.explain(run).frames]
    return _largest([now - before for before, now in zip([0, *moved], moved)])


def _step_of_wavefronts(run: Run) -> int:
    """The first step of the access with most wavefronts, on the most expensive line. Each wavefront is a step. A
    build with remedies has the build without them next to it."""
    sides = padding.before_and_after(run.request)
    shown = sides[:1] if sides[0] == run.request else sides  # a remedy takes no more wavefronts
    runs = [running.run(request) for request in shown]
    accesses = [frame["access"] for frame in bank_walk.explain(runs, _costly_line(run.request)).frames]
    return _largest([accesses.count(access) for access in accesses])


def _step_of_limits(run: Run) -> int:
    """The step of the first launch after those of its single resources: the blocks that they allow together."""
    return len(limits(32, 32, 0, machine(DEFAULT_ARCH)))


@lru_cache(maxsize=64)
def _costly_line(request: Request) -> traced.Place:
    """File and line of the probe with most wavefronts in shared memory."""
    costs = traced.requests(running.run(request).trace, space="shared").costs
    file, line = costs.groupby(["file", "line"], observed=True).wavefronts.sum().idxmax()
    return traced.Place(str(file), int(line))


SHOWN_BY = {
    "wavefronts": Shown(bank_conflicts.STORY, {"view": "attention"}, _step_of_wavefronts),
    "bytes": Shown(tiling.STORY, {"tab": "bytes"}, _step_of_bytes),
    "arithmetic": Shown(
        registers.STORY, {}, lambda run: _largest([f["phase"] == "scores" for f in tiles.explain(run).frames])
    ),
    "multiprocessors": Shown(occupancy.STORY, {}, _step_of_limits, of_timed=True),
    "warps": Shown(occupancy.STORY, {}, _step_of_limits, of_timed=True),
    "launches": Shown(any_kernel.STORY, {}, lambda run: _largest([f["launch"] for f in generic.explain(run).frames])),
}
