"""The picture `race`: attention that stores the scores against attention that keeps one tile.

Bytes follow from the rule of app/stage/views/race_rule.js and are modelled. Times and memory are recorded: two
products and a softmax of torch, and its FlashAttention-2.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypedDict

import pandas as pd

from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.words import Row, Words
from kernels.core.remembered import of_recordings
from kernels.recordings import tables
from kernels.recordings.tables import Provenance

WORDS = Words.of(str(__package__), "race_words.toml")
HEIGHT = 128  # queries of a tile of FlashAttention-2 at this head_dim. Other heights have no time.
PEERS = {"unfused": "unfused", "sdpa_flash": "flash"}  # attention as written, and one that keeps a tile: 16 bits
BEGIN, GROWN = 2048, 8192  # tokens of the race, and of its end
PHASES = ("words", "begin", "scores", "weights", "output", "grown", "times", "hand")
SHORT = ("words", "scores", "weights", "gone")  # of the start page


class Job(TypedDict):
    """The sizes of the recorded problem."""

    batch: int
    heads: int
    dim: int
    bytes: int  # of a number


JOB: Job = {"batch": 4, "heads": 16, "dim": 128, "bytes": 2}


class Raced(TypedDict):
    """The recorded figures of a length.

    unfused, flash: ms of one forward pass.
    held: peak bytes of device memory of unfused and flash.
    """

    tokens: int
    causal: bool
    unfused: float
    flash: float
    held: list[float]


class RaceMeta(TypedDict):
    """The fields of the view `race`.

    phases: of each frame.
    height: of the tiles with recorded times.
    parts: tensor -> its name and meaning.
    example: words of a short text.
    words: the sentences under a hand. {name} stands for a value.
    recorded, where: the source of times and memory, in a sentence and in short, or "".
    """

    frames: list[Frame]
    phases: list[str]
    job: Job
    height: int
    begin: int
    grown: int
    times: list[Raced]
    parts: dict[str, str]
    example: list[str]
    words: dict[str, str]
    recorded: str
    where: str


def view(phases: Sequence[str] = PHASES) -> stage.View:
    """The picture. Without recordings it has no times."""
    times, where = raced()
    ratio = next((t["unfused"] / t["flash"] for t in times if t["tokens"] == GROWN and not t["causal"]), 0.0)
    names: Row = {"ratio": ratio, "begin": BEGIN, "grown": GROWN, "fewer": _fewer(BEGIN)}
    there = [phase for phase in phases if phase != "times" or ratio]
    steps: list[Row] = [{"phase": phase, "tile": -1} for phase in there]
    place = _place(where) if where else {}
    meta: RaceMeta = {
        "frames": WORDS.frames(steps, names),
        "phases": there,
        "job": JOB,
        "height": HEIGHT,
        "begin": BEGIN if "grown" in phases else GROWN,  # the start page has one scale of bytes from its first step
        "grown": GROWN,
        "times": times,
        "parts": WORDS.table("parts"),
        "example": WORDS.say("example", {}).split(),
        "words": WORDS.table("hand"),
        "recorded": WORDS.say("recorded", place) if where else "",
        "where": WORDS.say("where", place) if where else "",
    }
    more = {"clock": True, "state": [], "provenance": {"label": "modelled", "said": said_from(meta)}}
    return stage.View("race", "race", "The race", {**meta, **more})


def said_from(meta: Mapping[str, Any]) -> str:
    """The source of the picture's figures, in sentences."""
    return f"{WORDS.say('rule', {})} {meta['recorded']}".strip()


def said_at_start() -> str:
    """The same in short, for the start page."""
    _, where = raced()
    return WORDS.say("start", _place(where)) if where else WORDS.say("rule", {})


def questions() -> list[stage.Question]:
    """The questions about the picture of the course."""
    return WORDS.questions({"at": {phase: n for n, phase in enumerate(view().meta["phases"])}}, len(PHASES) - 1)


def _place(where: Provenance) -> Row:
    """The device and the date of a recording."""
    return {"device": stage.gpu_name(where.device), "date": where.date}


def _fewer(tokens: int) -> float:
    """How many times fewer bytes the way moves that keeps a tile, by the rule of race_rule.js."""
    shared = 2 * tokens * JOB["dim"] + 2 * tokens * JOB["dim"] * -(-tokens // HEIGHT)  # Q and O, K and V for each tile
    return (shared + 4 * tokens * tokens) / shared


@of_recordings(cache)
def raced() -> tuple[list[Raced], Provenance | None]:
    """The newest recorded times of JOB, by length and mask, and their source."""
    for made, where in tables.recorded("bench").values():
        own = made[made.status.isin(tables.TIMED) & made.name.isin(PEERS) & (made.dtype == "float16")]
        own = own[(own.batch == JOB["batch"]) & (own.num_heads == JOB["heads"]) & (own.head_dim == JOB["dim"])]
        own = own[own.num_kv_heads == own.num_heads].drop_duplicates(["name", "seq_len", "causal"], keep="last")
        wide = own.pivot(index=["seq_len", "causal"], columns="name", values=["median_us", "peak_bytes"])
        if not set(PEERS) <= set(own.name):
            continue
        wide = wide.dropna(subset=[("median_us", name) for name in PEERS])
        if len(wide):
            return [_raced(key, row) for key, row in zip(wide.index, wide.iloc)], where
    return [], None


def _raced(key: tuple[float, bool], row: pd.Series) -> Raced:
    unfused, flash = (float(row["median_us", name]) / 1e3 for name in PEERS)
    held = [float(row["peak_bytes", name]) for name in PEERS]
    return {
        "tokens": int(key[0]),
        "causal": bool(key[1]),
        "unfused": unfused,
        "flash": flash,
        "held": held,
    }
