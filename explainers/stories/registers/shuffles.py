"""The picture `shuffles`: the few lanes of a row, their registers, and the shuffles that find the row's max and sum."""

from functools import cache
from typing import TypedDict

import numpy as np

from explainers.models.tiling import Tiling
from explainers.stories.registers.holders import weight_bytes
from explainers.stories.registers.lanes import Lanes
from explainers.story import glossary, picture, stage
from explainers.story.frames import Frame
from explainers.story.words import Row, Words
from kernels import catalog
from kernels.core.remembered import of_recordings
from kernels.core.request import Request
from kernels.measure import pattern_cycles
from kernels.recordings import tables
from kernels.run.results import Run

WORDS = Words.of(str(__package__))
# memory: the same max through shared memory. warp: a row for all its lanes
FIRST = ("row", "own", "shuffle 1", "shuffle 2", "memory", "warp", "weights", "sum")
MODELLED = ("memory", "warp")
MOST_TILES, MOST_SLOTS, LANES, WARP = 13, 8, 4, 32
TIMED = {"seq_len": 4096, "batch": 1, "num_heads": 8, "head_dim": 64}  # the problem of the stop's gain


class Reductions(TypedDict):
    """The recorded cycles in which a warp adds 32 numbers.

    cycles, said, ways: by shuffles, and by shared memory.
    title: what is timed, on which GPU and day.
    """

    cycles: list[float]
    said: list[str]
    ways: list[str]
    title: str


class Gain(TypedDict):
    """Recorded times of one pass as it was, with padded rows, and with rows in registers.

    us, said, names: of the three.
    factors: how many times faster than the one before, "" for the first.
    times: the last factor.
    notes: the other changes, and where it was recorded, as lines.
    """

    us: list[float]
    said: list[str]
    names: list[str]
    factors: list[str]
    times: float
    notes: list[str]


class ShufflesMeta(TypedDict):
    """The fields of the view `lanes` with shuffles.

    row: the chosen one.
    row0, rows, keys: of the query tile.
    tile: first and last key of the first key tile.
    phases: of the steps.
    shared: the tensors in the block's shared memory.
    reductions, gain: recorded, or None.
    words: the sentences under a hand, with {names} of values.
    provenances: the source of each step. None: the page's.

    Columns: thread, s, p, m, l as in LanesMeta.
    """

    frames: list[Frame]
    kernel: str
    row: int
    row0: int
    rows: int
    keys: int
    tile: list[int]
    phases: list[str]
    shared: list[str]
    reductions: Reductions | None
    gain: Gain | None
    words: dict[str, str]
    provenances: list[dict[str, str] | None]


def view(run: Run, tiles: Tiling, made: Lanes | None, row: int) -> stage.View | None:
    """The picture, or None unless four lanes of one warp share each row, and no score leaves the registers."""
    if made is None or any(map(weight_bytes, [tiles] * len(tiles.frames), tiles.frames)) or not _fits(tiles, made):
        return None
    gain = recorded_gain()
    steps = _steps(tiles, made, row - made.row0, gain)
    modelled = {"label": "modelled", "said": WORDS.say("modelled", {})}
    provenances = dict.fromkeys(MODELLED, modelled)
    if gain:
        provenances["gain"] = {"label": "recorded", "said": " ".join(gain["notes"])}
    meta: ShufflesMeta = {
        "frames": WORDS.frames(steps, {}),
        "kernel": run.request.kernel.name,
        "row": row,
        "row0": made.row0,
        "rows": made.thread.shape[0],
        "keys": made.thread.shape[1],
        "tile": [*made.tiles[0]],
        "phases": [step["phase"] for step in steps],
        "shared": [one for one in picture.in_order(run.request) if any(one in f["resident"] for f in tiles.frames)],
        "reductions": recorded_reductions(),
        "gain": gain,
        "words": WORDS.table("hand"),
        "provenances": [provenances.get(step["phase"]) for step in steps],
    }
    columns = {"thread": made.thread, "s": tiles.scores, "p": made.p, "m": made.m, "l": made.l}
    return stage.View("shuffles", "lanes", "Lanes of a row", {**meta, "clock": True, "state": []}, columns)


def _fits(tiles: Tiling, made: Lanes) -> bool:
    """Whether four lanes of one warp hold equal parts of each row of each tile, with all values logged."""
    if {"S", "P"} & set(tiles.places.values()) or not np.isfinite([*made.m.flat, *made.l.flat, *made.p.flat]).all():
        return False
    widths = {last - first + 1 for first, last in made.tiles}
    if len(widths) != 1 or (made.thread < 0).any() or not 0 < len(made.tiles) <= MOST_TILES:
        return False
    for first, last in made.tiles:
        part = np.sort(made.thread[:, first : last + 1], axis=1)
        if part.shape[1] % LANES or part.shape[1] > LANES * MOST_SLOTS:
            return False
        lanes = part[:, :: part.shape[1] // LANES]  # each one as often, four neighbours of one warp
        if (np.repeat(lanes, part.shape[1] // LANES, axis=1) != part).any() or (np.diff(lanes) != 1).any():
            return False
        if (lanes[:, 0] % LANES).any():
            return False
    return True


def _steps(tiles: Tiling, made: Lanes, row: int, gain: Gain | None) -> list[Row]:
    """The first tile in detail, the recorded gain, and the reader's hand."""
    first, last = made.tiles[0]
    scored, weighed = (int(steps[row, first : last + 1].max()) for steps in (made.scored, made.weighed))

    def step(phase: str) -> Row:
        lines = tiles.frames[scored if phase == "row" else weighed].get("lines", {})
        times = gain["times"] if gain else 0.0
        return {"phase": phase, "tile": 0, "keys": last - first + 1, "times": times, "lines": lines}

    return [step(phase) for phase in (*FIRST, *(("gain",) if gain else ()), "hand")]


@of_recordings(cache)
def recorded_reductions() -> Reductions | None:
    """From the fastest way of each kernel for the numbers of a warp. None without a recording of both."""
    specs = [catalog.current().kernels[name] for name in WORDS.table("kernels").values()]
    ways = [
        [
            found
            for _, settings in pattern_cycles.ways(spec)
            if (found := pattern_cycles.cycles(Request(spec, spec.problem_type(numbers=WARP), settings, backend="cpu")))
        ]
        for spec in specs
    ]
    if not all(ways):
        return None
    best = [min(found, key=lambda one: one.cycles) for found in ways]
    place = stage.place(best[0].device, best[0].date)
    return {
        "cycles": [one.cycles for one in best],
        "said": [WORDS.say("cycles", {"cycles": one.cycles}) for one in best],
        "ways": [*WORDS.table("ways").values()],
        "title": WORDS.say("reductions", {"numbers": WARP, "place": place}),
    }


@of_recordings(cache)
def recorded_gain() -> Gain | None:
    """From the newest table with all the rungs, each with its fastest tiles. None without one."""
    rungs = [rung.split() for rung in WORDS.table("settings").values()]
    for made, where in tables.recorded("bench").values():
        rows = tables.of_present_code(made, where).query("status == 'ok' and causal != True")
        rows = rows[(rows[list(TIMED)] == list(TIMED.values())).all(axis=1)]
        us = [
            float(rows.median_us[(rows["name"] == name) & rows.settings.str.contains(f"{setting} ")].min())
            for name, setting in rungs
        ]
        if np.isnan(us).any():
            continue
        factors = [before / now for before, now in zip(us, us[1:])]
        names = {"place": stage.place(where.device, where.date), "sizes": stage.sizes_said(TIMED)}
        return {
            "us": us,
            "said": [glossary.amount(one, glossary.MICROSECONDS) for one in us],
            "names": [*WORDS.table("rungs").values()],
            "factors": ["", *(WORDS.say("factor", {"times": times}) for times in factors)],
            "times": factors[-1],
            "notes": [WORDS.say("also", {}), WORDS.say("place", names)],
        }
    return None
