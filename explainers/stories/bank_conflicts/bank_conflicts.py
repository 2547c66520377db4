"""Bank conflicts: the accesses of a warp to shared memory, plain next to padded or swizzled."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explainers.charts.palette import WAVEFRONTS
from explainers.stories.bank_conflicts.bank_walk import Story, _said
from explainers.stories.bank_conflicts.frames import BanksMeta
from explainers.story import probed, stage
from explainers.story.frames import BankAccess
from explainers.story.glossary import count
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

WANTS = ("walk",)


RULE = (
    "A byte's bank is its address / 4, modulo 32. A wavefront serves at most one word (4 bytes) of each bank; lanes "
    "that want the same word share it.",
    "Up to 4 bytes a lane, all 32 lanes are one pass. 8 bytes a lane take two passes of 16 lanes, 16 bytes four of 8; "
    "an ldmatrix one for each matrix.",
    "A pass takes as many wavefronts as the most different words that it wants of one bank. A pass without an active "
    "lane takes none.",
    "A load's passes merge two by two where every active lane n of the warp wants what lane n XOR 1 wants, or every "
    "one what lane n XOR 2 wants.",
    "A cp.async (through L1) is served like a store, but its lanes do not share words.",
    "Which wavefront serves which word is not known of the hardware: here a bank's words are served in the order of "
    "their addresses. Offsets are from the tensor's own base: another base turns the banks, and changes no count.",
)


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
        questions=questions(story),
    )


TABS = [
    stage.Tab("lines", "Every line"),
    stage.Tab("rule", "The rule"),
    stage.Tab("cycles", "Cycles beside wavefronts"),
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
        found.append(_of_both(story, title, [_both(story, f["access"], name) for f in story.frames]))
    if cycles:
        found.append(_of_both(story, "cycles an access", [cycles] * len(story.frames)))
    return found


def _of_both(story: Story, title: str, values: Sequence[str]) -> stage.State:
    """Returns an entry, with the names of both sides if any value has two."""
    sides = " and ".join(side["name"] for side in story.sides)
    return stage.State(f"{title}, {sides}" if any(" and " in value for value in values) else title, values)


def _both(story: Story, access: int, name: str) -> str:
    values = [str(side["accesses"][access][name]) for side in story.sides]  # type: ignore[literal-required]
    return " and ".join(dict.fromkeys(values) if name == "ideal" else values)


def questions(story: Story) -> list[stage.Question]:
    """Returns the questions before the picture. The trace has the keys."""
    if not story.frames:
        return []
    access, side = story.sides[0]["accesses"][0], story.sides[0]
    last = next(n for n, f in reversed(list(enumerate(story.frames))) if f["access"] == 0)
    where = f" with {side['name']}" if side["name"] else ""
    more: dict[str, Any] = {"unit": "wavefronts", "view": "memory"}
    more["veils"] = ("sentence", "strip", "picture", "tabs")  # the pictures show the number
    text = (
        f"{count(access['active'], 'lane')} of a warp make {access['kind']} of {access['bytes']} bytes each{where}: "
        f"{_wants(access)}. In how many wavefronts does shared memory serve them?"
    )
    why = _said(side["name"], access, 0)
    found = [stage.Question("wavefronts", text, "number", access["wavefronts"], why, **more)]
    if len(story.sides) > 1:
        after = story.sides[1]
        other = after["accesses"][0]
        fewer = other["wavefronts"] < access["wavefronts"]
        saved = f"{other['wavefronts']} instead of {access['wavefronts']}"
        text = f"The same access with {after['name']}: {_wants(other)}. How many wavefronts now?"
        why = f"{_said(after['name'], other, 0)} {'It takes' if fewer else 'Nothing is saved here:'} {saved}."
        found.append(stage.Question("remedy", text, "number", other["wavefronts"], why, step=last, **more))
    return found


def _wants(access: BankAccess) -> str:
    """Returns the words of the first two lanes and the last one: lane 0 from word 0 on, lane 1 from word 32 on, ..."""
    first: dict[int, int] = {}
    for lane, _, _, word, *_ in access["cells"]:
        first[lane] = min(word, first.get(lane, word))
    some = list(first.items())
    said = [f"lane {lane} from word {word:,} on" for lane, word in dict([*some[:2], *some[-1:]]).items()]
    return ", ".join(said) or "none takes part"
