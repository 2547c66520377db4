"""The picture `split`: one block for a long context against many blocks, and recorded times under the reader's hand.

Its steps show the run's partitions. The times are recorded. The blocks of an SM follow from the rule of
app/stage/views/split_rule.js.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypedDict

import pandas as pd

from explainers.stories.block_table.paging import WORDS
from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.words import Names, Row
from kernels.core.remembered import of_recordings
from kernels.recordings import tables

PHASES = ("whole", "race", "parts", "merged", "hand")
HEADS, LONG = 32, 8192  # query heads of a well-known model, and tokens of a long context


class Part(TypedDict):
    """A partition: its number, its tokens from first to end, its m and l, and its weight e^(m_i - m). output: its first
    sums, not divided by l."""

    partition: int
    first: int
    end: int
    m: float
    l: float
    weight: float
    output: list[float]


class Timed(TypedDict):
    """Recorded times of V1 and V2 in µs for so many contexts of so many tokens, and the blocks of each."""

    tokens: int
    contexts: int
    us: list[float]
    blocks: list[int]


class SplitMeta(TypedDict):
    """The fields of the view `split`.

    tokens: of the context.
    m, l: of all tokens. v1_l: the l of V1.
    sms: of the GPU. size: tokens of a partition in the recordings.
    heads: query heads there. long: tokens of a long context.
    longer, more: recorded times at rising lengths, and at rising numbers of contexts. Empty without recordings.
    source: of the times, in words. times: their place, in words. ran: the source of the parts, in words.
    provenances: the source of each step. None: the page's.
    words: the sentences under a hand. {name} stands for a value.
    """

    frames: list[Frame]
    tokens: int
    parts: list[Part]
    m: float
    l: float
    v1_l: float
    sms: int
    size: int
    heads: int
    long: int
    longer: list[Timed]
    more: list[Timed]
    source: str
    times: str
    ran: str
    provenances: list[dict[str, str] | None]
    words: dict[str, str]


def view(data: Names, kernels: tuple[str, str]) -> stage.View:
    """The picture. data: of partitions.py. kernels: the names of V1 and of V2."""
    found = recorded(*kernels)
    meta: SplitMeta = {
        "frames": WORDS.frames(_steps(data), {**data, "view": "split"}),
        "tokens": data["length"],
        "parts": data["parts"],
        "m": data["v2"]["m"],
        "l": data["v2"]["l"],
        "v1_l": data["v1"]["l"],
        "sms": data["multiprocessors"],
        "longer": found.get("longer", []),
        "more": found.get("more", []),
        "size": found.get("size", data["size"]),
        "heads": found.get("heads", HEADS),
        "long": LONG,
        "source": WORDS.say("split_source", found) if found else "",
        "times": WORDS.say("split_times", found) if found else "",
        "ran": WORDS.say("split_ran", {**data, "recorded": found.get("size", data["size"])}),
        "provenances": [],
        "words": WORDS.table("split"),
    }
    recorded_at = {"whole", "hand"} if found else set()
    meta["provenances"] = [
        {"label": "recorded", "said": meta["times"]} if phase in recorded_at else None for phase in PHASES
    ]
    return stage.View("split", "split", "Partitions", {**meta, "clock": True, "state": []})


def questions(data: Names, kernels: tuple[str, str]) -> list[stage.Question]:
    """The questions about the steps of the picture."""
    found, parts = recorded(*kernels), data["parts"]
    low = min(parts[:-1], key=lambda part: part["weight"], default=None)  # the last one is narrow
    ends = {"won": "longer", "lost": "more"}

    def end(way: str) -> Row | None:
        """The last times of a way. each: blocks for each SM, of V1 and of V2."""
        last = found[way][-1] if found else None
        return last and {**last, "each": [round(blocks / data["multiprocessors"]) for blocks in last["blocks"]]}

    pairs = {name: end(way) for name, way in ends.items()}
    names = {**data, **pairs, "view": "split", "low": low, "step_of": {name: n for n, name in enumerate(PHASES)}}
    return WORDS.questions(names, len(PHASES) - 1)


def _steps(data: Names) -> list[Row]:
    """A row for each step, with the lines of V1 and of V2 at it."""
    cut, walks = list(data["cut"].values()), ("walk_k", "walk_v")
    v1, v2 = (
        _lines(step for lane in lanes for step in lane if step["phase"] in walks) for lanes in ([data["whole"]], cut)
    )
    parts = _lines(step for lane in cut for step in lane if step["phase"] not in walks)
    lit = [(v1, {}), (v1, v2), ({}, parts), ({}, _lines(data["second"])), (v1, v2)]
    return [
        {"phase": phase, "tile": -1, "v1_lines": one, "v2_lines": other} for phase, (one, other) in zip(PHASES, lit)
    ]


def _lines(steps: Iterable[Names]) -> dict[str, int]:
    """How often steps run each line."""
    found: dict[str, int] = {}
    for step in steps:
        for line, times in step["lines"].items():
            found[line] = found.get(line, 0) + times
    return found


@of_recordings(cache)
def recorded(whole: str, cut: str) -> Row:
    """Recorded times of two kernels on equal problems.

    longer: a Timed for each length, of the number of contexts with most lengths. more: one for each number of contexts.
    heads, size: query heads, and tokens of a partition. device, date. Empty without recordings of both.
    """
    for made, where in tables.recorded("bench").values():
        rows = tables.of_present_code(made, where).query("status == 'ok'").dropna(subset=["seq_len"])
        of = {name: rows[rows.name == name].drop_duplicates("problem", keep="last") for name in (whole, cut)}
        pairs = of[whole].merge(of[cut], on="problem", suffixes=("", "_cut"))
        if not len(pairs):
            continue
        size = int(pairs.settings_cut.str.extract(r"PARTITION=(\d+)", expand=False).astype(int).iloc[0])
        timed = [_timed(row, size) for _, row in pairs.iterrows()]
        at = pd.DataFrame(timed)
        contexts, tokens = (at[key].mode().iloc[-1] for key in ("contexts", "tokens"))
        return {
            "longer": sorted((one for one in timed if one["contexts"] == contexts), key=lambda one: one["tokens"]),
            "more": sorted((one for one in timed if one["tokens"] == tokens), key=lambda one: one["contexts"]),
            **{"heads": int(pairs.num_heads.iloc[0]), "size": size},
            **{"device": stage.gpu_name(where.device), "date": where.date},
        }
    return {}


def _timed(row: "pd.Series[float]", size: int) -> Timed:
    problem: Mapping[str, list[int]] = json.loads(str(row["problem"]))
    tokens, contexts = int(row["seq_len"]), len(problem["context_lens"])
    blocks = int(row["num_heads"]) * contexts
    us = [float(row["median_us"]), float(row["median_us_cut"])]
    blocks_of = [blocks, blocks * -(-tokens // size)]
    return {"tokens": tokens, "contexts": contexts, "us": us, "blocks": blocks_of}
