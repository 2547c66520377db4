"""Bank conflicts: the accesses of a warp to shared memory, plain next to padded or swizzled."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from explainers.charts.palette import WAVEFRONTS
from explainers.stories.bank_conflicts.bank_questions import questions
from explainers.stories.bank_conflicts.bank_walk import Story
from explainers.stories.bank_conflicts.frames import BanksMeta
from explainers.story import probed, stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

WANTS = ("walk",)


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel has a probe of a shared-memory access."""
    return probed.accesses(spec, "shared")


def stage_of(
    story: Story,
    runs: Sequence[Run],
    provenance: stage.Provenance,
    cycles: str = "",
    late: Sequence[Mapping[str, object]] = (),
    told: Sequence[str] = (),
    *,
    chosen: Request,
) -> stage.Stage:
    """Returns the whole stage.

    story, runs: from `explain`, and its argument.
    cycles: the cycles of an access on each side, and their source.
    late, told: the choices and notes that only the run gives.
    chosen: the request of the page. The other side is its comparison.
    """
    meta: BanksMeta = {"sides": story.sides}
    views = [
        stage.View("tile_memory", "memory", "The tile in memory", meta),
        stage.View("banks", "banks", "Lanes and banks", meta),
    ]
    return stage.of_request(
        chosen,
        story.frames,
        views,
        state=states(story, cycles),
        tabs=TABS,
        provenance=provenance,
        late=late,
        told=told,
        questions=questions(story, cycles),
    )


def swizzled_view(story: Story, shown: Story) -> list[stage.View]:
    """Returns the picture of the tile in memory with a swizzle, with steps of its own that name the swizzle.

    An empty list unless its steps are those of `shown`.
    """
    alike = [frame["access"] for frame in story.frames] == [frame["access"] for frame in shown.frames]
    strip = [asdict(state) for state in states(story, "")]
    meta: dict[str, object] = {"sides": story.sides, "frames": story.frames, "clock": True, "state": strip}
    return [stage.View("tile_memory", "swizzled", "The swizzled tile", meta)] if alike else []


TABS = [
    stage.Tab("lines", "Every line"),
    stage.Tab("rule", "The rule"),
    stage.Tab("cycles", "Cycles beside wavefronts"),
    stage.Tab("ncu", "Beside ncu"),
    stage.Tab("builds", "Builds"),
    stage.Tab("data", "Data and labels"),
]


def states(story: Story, cycles: str) -> list[stage.State]:
    """Returns the strip: wavefronts so far on each side, and the cost of the access. A group of equal accesses counts
    once."""
    found: list[stage.State] = []
    for side, colour in zip(story.sides, ("conflict", "before")):
        sums = np.cumsum([0] + [a["wavefronts"] for a in side["accesses"]])
        so_far = [
            int(sums[f["access"]]) + min(f["wavefront"] + 1, side["accesses"][f["access"]]["wavefronts"])
            for f in story.frames
        ]
        title = f"wavefronts so far{', ' if side['name'] else ''}{side['name']}"
        found.append(stage.State(title, so_far, colour=WAVEFRONTS[colour]))
    for title, name in (("this access takes", "wavefronts"), ("at best", "ideal"), ("conflicts", "conflicts")):
        values = [_both(story, f["access"], name) for f in story.frames]
        found.append(_of_both(story, title, values, deep=name != "wavefronts"))
    if cycles:
        found.append(_of_both(story, "cycles an access", [cycles] * len(story.frames)))
    return found


def _of_both(story: Story, title: str, values: Sequence[str], deep: bool = False) -> stage.State:
    """Returns an entry, with the names of both sides if any value has two."""
    sides = " and ".join(side["name"] for side in story.sides)
    named = f"{title}, {sides}" if any(" and " in value for value in values) else title
    return stage.State(named, values, deep=deep)


def _both(story: Story, access: int, name: str) -> str:
    values = [str(side["accesses"][access][name]) for side in story.sides]  # type: ignore[literal-required]
    return " and ".join(dict.fromkeys(values) if name == "ideal" else values)
