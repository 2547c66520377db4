"""The picture `places`: a thread and its memories, each as far as its wait and as large as its bytes, at a true scale.

Waits are recorded or measured. The GPU gives the sizes.
"""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple, TypedDict

import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.models.memory_levels import (
    KIB,
    MIB,
    bytes_said,
    edges,
    levels_met,
    plateaus,
    short_name,
    waits,
)
from explainers.stories.memory_hierarchy.level_charts import far_half
from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.words import Names, Row, Words
from kernels.build.occupancy import REGISTERS
from kernels.measure.hierarchy import Measured

WORDS = Words.of(str(__package__), "places.toml")
STEPS = ("begin", "near", "l2", "far", "race", "data", "hand")
ON_SM, IN_GLOBAL = ("shared", "through_l1"), ("through_l1", "from_l2")
# step -> spaces. Else of all three
LOADS = {"near": ON_SM, **dict.fromkeys(("l2", "far", "data", "hand"), IN_GLOBAL)}
WAITS = ("Shared memory", "L1 cache", "L2 cache", "Device memory")  # the levels with a wait, the nearest first
TENSORS = (8192, 16, 128, 2)  # tokens, heads, dims, and bytes of a number: Q, K, V or O of a request at one layer
HUES = ("grey", "green", "sky", "blue", "purple")  # of the registers and of these levels


class Chip(NamedTuple):
    """Bytes of a GPU: the shared memory of an SM and L2, as CUDA reports them, and device memory, as NVIDIA sells it.

    said: device memory in words. sms: its SMs, or 0 if unknown.
    """

    shared: int
    l2: int
    memory: float
    said: str
    sms: int = 0


CHIPS = {
    "H100": Chip(228 * KIB, 50 * MIB, 80e9, "80 GB", 132),
    "H200": Chip(228 * KIB, 60 * MIB, 141e9, "141 GB", 132),
}


class Level(TypedDict):
    """A memory.

    holds: its contents, in few words.
    shares: what it is a part of, in words, or "".
    code: its read in CUDA C++.
    bytes, size: its size, and in words.
    cycles, wait: of a load, and in words. 0 for the registers.
    now: the step that shows its wait.
    """

    name: str
    holds: str
    shares: str
    code: str
    bytes: float
    size: str
    cycles: float
    wait: str
    now: int
    colour: str


class Size(TypedDict):
    """An amount of data that one thread visits in random order, with its wait for a load.

    home: the number of the nearest level that holds all of it.
    said: a sentence.
    """

    bytes: int
    size: str
    cycles: float
    wait: str
    home: int
    said: str


class Ended(TypedDict):
    """The end of L2. fits: the most bytes with its wait. full, early: the end of its size and of its wait, in words."""

    bytes: float
    fits: int
    cycles: float
    full: str
    early: str


class Tensors(TypedDict):
    """Q, K, V and O of a request. bytes: of one array. said: the tokens, and the bytes of the four arrays."""

    bytes: int
    said: str


class Processors(TypedDict):
    """The SMs of the chip. sms: their number, or 0. said: lines about an SM and a cycle."""

    sms: int
    said: list[str]


class PlacesMeta(TypedDict):
    """The fields of the view `places`.

    recorded: the source of the waits.
    scaled, ring: what is to scale, and what a ring means, in words.
    chip: the number of SMs, or 0, and the words SM and cycle explained.
    l2: its size, its wait, and words at the end of its size.
    tensors: the contents of device memory.
    """

    frames: list[Frame]
    levels: list[Level]
    sizes: list[Size]
    recorded: str
    scaled: str
    ring: str
    chip: Processors
    l2: Ended
    tensors: Tensors


def view(measured: Measured, label: str, data: Names, lines: Mapping[str, str]) -> list[stage.View]:
    """The picture in a list. An empty list while the table lacks a level.

    label: measured or recorded. data: of the story's texts. lines: space -> FILE:LINE of its load.
    """
    if not data["known"]:
        return []
    table = measured.table
    cycles = plateaus(table).set_index("level").cycles
    ends = {edge.level: edge.fits for edge in edges(table)}
    lit = {
        step: {lines[space]: 1 for space in LOADS.get(step, (*ON_SM, *IN_GLOBAL)) if space in lines} for step in STEPS
    }
    steps: list[Row] = [{"phase": step, "tile": -1, "lines": lit[step]} for step in STEPS]
    sizes = sizes_of(table)
    levels = levels_of(measured, cycles.to_dict(), ends)
    sms = next((chip.sms for name, chip in CHIPS.items() if name in measured.device), 0)
    l2 = next(level for level in levels if level["name"] == "L2 cache")
    meta: PlacesMeta = {
        "frames": WORDS.frames(steps, {**data, "least": sizes[0]["size"]}),
        "levels": levels,
        "scaled": WORDS.say("scaled", {}),
        "ring": WORDS.say("ring", {}),
        "chip": {"sms": sms, "said": [WORDS.say("sm", {"sms": sms}), WORDS.say("cycle", {})]},
        "l2": {
            "bytes": l2["bytes"],
            "cycles": l2["cycles"],
            "full": WORDS.say("full", {"size": l2["size"]}),
            "fits": ends["L2 cache"],
            "early": WORDS.say("early", {"fits": bytes_said(ends["L2 cache"]), "far_half": bool(far_half(table))}),
        },
        "tensors": {
            "bytes": prod(TENSORS),
            "said": WORDS.say("tensors", {"tokens": TENSORS[0], "size": bytes_said(4 * prod(TENSORS))}),
        },
        "sizes": sizes,
        "recorded": WORDS.say(
            "recorded", {"label": label, "device": stage.gpu_name(measured.device), "date": measured.date}
        ),
    }
    return [stage.View("places", "places", "Where bytes live", {**meta, "clock": True, "state": []})]


def levels_of(measured: Measured, cycles: Mapping[str, float], ends: Mapping[str, int]) -> list[Level]:
    """The levels, the nearest first. cycles: level -> its wait. ends: cache -> the most bytes that fit."""
    # of another GPU the table shows what fits at least
    sizes = measured.table.groupby("space").working_set.max()
    least = Chip(int(sizes["shared"]), ends["L2 cache"], sizes.max(), f"{bytes_said(sizes.max())} or more")
    chip = next((chip for name, chip in CHIPS.items() if name in measured.device), least)
    bytes_of: dict[str, tuple[float, str]] = {
        "Registers": (4 * REGISTERS, bytes_said(4 * REGISTERS)),
        "Shared memory": (chip.shared, bytes_said(chip.shared)),
        "L1 cache": (ends["L1 cache"], bytes_said(ends["L1 cache"])),
        "L2 cache": (chip.l2, bytes_said(chip.l2)),
        "Device memory": (chip.memory, chip.said),
    }
    holds, shares, where, code = (WORDS.table(name) for name in ("holds", "shares", "where", "code"))
    now = {"Registers": 1, **dict(zip(WAITS, (1, 1, 2, 3)))}
    return [
        {
            "name": level,
            "holds": holds[level],
            "shares": shares.get(level, "") if chip is not least else "",
            "code": code[level],
            "bytes": bytes_of[level][0],
            "size": " ".join(filter(None, (bytes_of[level][1], where[level]))),
            "cycles": float(cycles[level]) if level in WAITS else 0.0,
            "wait": f"{cycles[level]:.0f} cycles" if level in WAITS else WORDS.say("no_wait", {}),
            "now": now[level],
            "colour": OKABE_ITO[hue],
        }
        for level, hue in zip(bytes_of, HUES)
    ]


def sizes_of(table: pd.DataFrame) -> list[Size]:
    """A row for each chain through L1."""
    met, far = levels_met(table), bool(far_half(table))
    homes = {short_name(level): n for n, level in enumerate(("Registers", *WAITS))}
    found: list[Size] = []
    for (space, size), wait in sorted(waits(table).items()):
        if space != "through_l1":
            continue
        partly, _, level = met[size].partition("in ")
        names: Row = {"size": bytes_said(size), "partly": bool(partly), "level": level, "wait": f"{wait:.0f} cycles"}
        found.append(
            {
                "bytes": size,
                "size": names["size"],
                "cycles": wait,
                "wait": names["wait"],
                "home": homes[level] + bool(partly),
                "said": WORDS.say("hand", names | {"far_half": far}),
            }
        )
    return found
