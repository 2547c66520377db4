"""The picture `trips`: a tile of scores, and the trips to global memory that it saves.

A trip brings one query or one key. Their number follows from the rule of app/stage/views/trips_rule.js, which a test
compares with runs.
"""

from typing import TypedDict

from explainers.models.recorded_times import LENGTH, MAIN, of_problem
from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.glossary import short
from explainers.story.words import Words
from kernels.measure import bench
from kernels.recordings import tables

WORDS = Words.of(str(__package__), "trips.toml")
PHASES = ("score", "alone", "tile", "next", "all", "hand")
SIZES = {"tokens": 32, "side": 16, "dim": 32, "item": 4}  # of the stop's run


class TilesTimed(TypedDict):
    """Recorded times without tiles and with them: of the stop How fast.

    before, now: µs. times: before next to now, in words. said: their problem, card and date.
    """

    before: float
    now: float
    times: str
    said: str


class TripsMeta(TypedDict):
    """The fields of the view `trips`.

    phases: of each frame.
    tokens: queries, and keys.
    side: of a tile: its queries, and its keys.
    choices: sides for the reader. 1 is no tile.
    bytes: of a query or a key.
    words: the sentences under a hand. {name} stands for a value.
    timed: for the step of all tiles, or None without a recording.
    """

    frames: list[Frame]
    phases: list[str]
    tokens: int
    side: int
    choices: list[int]
    bytes: int
    words: dict[str, str]
    timed: TilesTimed | None


def _timed() -> TilesTimed | None:
    sizes = MAIN | {"seq_len": LENGTH}
    for table, where in tables.recorded(bench.KIND).values():
        us = of_problem(table, sizes | {"causal": False}).drop_duplicates("key").set_index("key").median_us
        before, now = (us.get(name) for name in WORDS.table("kernels").values())
        if before and now:
            names = {"device": stage.gpu_name(where.device), "date": where.date}
            said = WORDS.say("timed", names | {"sizes": stage.sizes_said(sizes)})
            return {"before": before, "now": now, "times": short(before / now, 3), "said": said}
    return None


def view() -> stage.View:
    """The picture."""
    meta: TripsMeta = {
        "frames": WORDS.frames([{"phase": phase, "tile": -1} for phase in PHASES], SIZES),
        "phases": list(PHASES),
        "tokens": SIZES["tokens"],
        "side": SIZES["side"],
        "choices": [2**n for n in range(SIZES["tokens"].bit_length())],
        "bytes": SIZES["dim"] * SIZES["item"],
        "words": WORDS.table("hand"),
        "timed": _timed(),
    }
    more = {"clock": True, "state": [], "provenance": {"label": "modelled", "said": meta["words"]["source"]}}
    return stage.View("trips", "trips", "Trips of a tile", {**meta, **more})


def questions() -> list[stage.Question]:
    """The questions about the picture."""
    names = {**SIZES, "step_of": {phase: n for n, phase in enumerate(PHASES)}}
    return WORDS.questions(names, len(PHASES) - 1)
