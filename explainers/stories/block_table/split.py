"""The picture `split`: how fast K and V arrive at few blocks and at many, and how the results of many become one.

Times are recorded, and rates follow from them. The blocks of an SM, and how they share the pipe, follow from the rules
of app/stage/views/split_rule.js. The merge has the run's partitions.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypedDict

import pandas as pd

from explainers.models.memory_levels import plateaus
from explainers.stories.block_table import sharing
from explainers.stories.block_table.paging import WORDS
from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.words import Names, Row
from kernels.core.remembered import of_recordings
from kernels.recordings import tables

MERGE = ("parts", "merged")  # the steps of the run
TIMELINE = ("waits", "asks")  # the modelled steps
MOST = 8  # blocks of an SM in the model. Registers allow 9 of these kernels at once


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
    """V1 and V2 with so many contexts of so many tokens.

    us: recorded times. blocks: of each. rate: bytes of K and V that arrive at all blocks, repeats too, by the
    time, in TB/s. parts: partitions of a context.
    """

    tokens: int
    contexts: int
    us: list[float]
    blocks: list[int]
    rate: list[float]
    parts: int


class Asks(TypedDict):
    """A block of V1 that waits for memory.

    cycles, ns: the recorded wait of a load from device memory.
    bytes: those on their way for a block, by Little's law: the recorded rate of `long` x this wait / blocks.
    most: blocks of an SM.
    seen: recorded rates of V1, each with its blocks for each SM.
    """

    cycles: float
    ns: float
    bytes: float
    most: int
    seen: list[tuple[float, float]]


class SplitMeta(TypedDict):
    """The fields of the view `split`.

    phases: the kind of each step: whole, waits, asks, cut, parts, merged or hand. Without recordings those of the run.
    tokens: of the run's context.
    m, l: of all tokens. v1_l: the l of V1.
    sms: of the GPU. size: tokens of a partition in the recordings.
    longer, more: recorded times at rising lengths, and at rising numbers of contexts. Empty without recordings.
    long: few long contexts. asks: their blocks, and how others share the pipe.
    best: the largest rate of all recordings of these kernels, and of the one for grouped heads.
    source, modelled, ran: the sources of the times, of the pipe of an SM, and of the parts, in words.
    provenances: the source of each step. None: the page's.
    words: the sentences under a hand. {name} stands for a value.
    """

    frames: list[Frame]
    phases: list[str]
    tokens: int
    parts: list[Part]
    m: float
    l: float
    v1_l: float
    sms: int
    size: int
    longer: list[Timed]
    more: list[Timed]
    long: Timed | None
    asks: Asks | None
    best: float
    source: str
    modelled: str
    ran: str
    provenances: list[dict[str, str] | None]
    words: dict[str, str]


def view(data: Names, kernels: tuple[str, str]) -> stage.View:
    """The picture. data: of partitions.py. kernels: the names of V1 and of V2."""
    found = recorded(*kernels)
    steps = _steps(data, found)
    asks = asks_of(found, data["multiprocessors"])
    names = {**data, **found, "asks": asks, "view": "split"}
    meta: SplitMeta = {
        "frames": WORDS.frames(steps, names),
        "phases": [step["phase"] for step in steps],
        "tokens": data["length"],
        "parts": data["parts"],
        "m": data["v2"]["m"],
        "l": data["v2"]["l"],
        "v1_l": data["v1"]["l"],
        "sms": data["multiprocessors"],
        "size": found.get("size", data["size"]),
        "longer": found.get("longer", []),
        "more": found.get("more", []),
        "long": found.get("long"),
        "asks": asks,
        "best": found.get("best", 0.0),
        "source": WORDS.say("split_source", found) if found else "",
        "modelled": WORDS.say("split_modelled", names) if found else "",
        "ran": WORDS.say("split_ran", data),
        "provenances": [],
        "words": WORDS.table("split"),
    }
    recorded_at = {"label": "recorded", "said": WORDS.say("split_times", found) if found else ""}
    modelled = {"label": "modelled", "said": WORDS.say("little", names) if found else ""}
    meta["provenances"] = [
        None if phase in MERGE else modelled if phase in TIMELINE else recorded_at for phase in meta["phases"]
    ]
    return stage.View("split", "split", "Partitions", {**meta, "clock": True, "state": []})


def asks_of(found: Row, sms: int) -> Asks | None:
    """A waiting block of V1. None without recordings. found: of `recorded`."""
    if not found:
        return None
    (rate, _), (blocks, _) = found["long"]["rate"], found["long"]["blocks"]
    seen = [one for one in found["more"] if one["blocks"][0] > blocks and one["blocks"][0] <= MOST * sms]
    return {
        "cycles": found["cycles"],
        "ns": found["ns"],
        "bytes": 1000 * rate * found["ns"] / blocks,  # 1 TB/s is 1,000 bytes in a nanosecond
        "most": MOST,
        "seen": [(one["blocks"][0] / sms, one["rate"][0]) for one in (found["long"], *seen)],
    }


def questions(data: Names, kernels: tuple[str, str]) -> list[stage.Question]:
    """The questions about the steps of the picture."""
    found, parts = recorded(*kernels), data["parts"]
    low = min(parts[:-1], key=lambda part: part["weight"], default=None)  # the last one is narrow

    def each(timed: Row | None) -> Row | None:
        """Recorded times with the blocks for each SM, of V1 and of V2."""
        return timed and {**timed, "each": [round(blocks / data["multiprocessors"]) for blocks in timed["blocks"]]}

    step_of = {step["phase"]: n for n, step in enumerate(_steps(data, found))}
    names = {**data, **{key: each(found.get(key)) for key in ("long", "short", "one_part")}}
    return WORDS.questions({**names, "view": "split", "low": low, "step_of": step_of}, len(step_of) - 1)


def _steps(data: Names, found: Row) -> list[Row]:
    """A row for each step, with the lines of V1 and of V2 at it."""
    cut, walks = list(data["cut"].values()), ("walk_k", "walk_v")
    v1, v2 = (
        _lines(step for lane in lanes for step in lane if step["phase"] in walks) for lanes in ([data["whole"]], cut)
    )
    own = _lines(step for lane in cut for step in lane if step["phase"] not in walks)
    merge: dict[str, tuple[dict[str, int], dict[str, int]]] = {
        "parts": ({}, own),
        "merged": ({}, _lines(data["second"])),
    }
    whole: dict[str, tuple[dict[str, int], dict[str, int]]] = dict.fromkeys(("whole", *TIMELINE), (v1, {}))
    lit = {**whole, "cut": (v1, v2), **merge, "hand": (v1, v2)} if found else merge
    return [{"phase": phase, "tile": -1, "v1_lines": one, "v2_lines": other} for phase, (one, other) in lit.items()]


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
    long: the last one of longer. short: the one of more with as many tokens. one_part: the longest one in one part, if
    V2 is slower there. best: the largest rate of these.
    cycles, ns: the wait of a load from device memory of the same GPU. heads, size: query heads, and tokens of a
    partition. device, date. Empty without recordings of all this.
    """
    waits = {
        where.device: plateaus(made).set_index("level").loc["Device memory"]
        for made, where in tables.recorded("hierarchy").values()
    }
    for made, where in tables.recorded("bench").values():
        rows = tables.of_present_code(made, where).query("status == 'ok'").dropna(subset=["seq_len"])
        of = {name: rows[rows.name == name].drop_duplicates("problem", keep="last") for name in (whole, cut)}
        pairs = of[whole].merge(of[cut], on="problem", suffixes=("", "_cut"))
        if not len(pairs) or where.device not in waits:
            continue
        size = int(pairs.settings_cut.str.extract(r"PARTITION=(\d+)", expand=False).astype(int).iloc[0])
        timed = [_timed(row, size) for _, row in pairs.iterrows()]
        at = pd.DataFrame(timed)
        contexts, tokens = (at[key].mode().iloc[-1] for key in ("contexts", "tokens"))
        longer = sorted((one for one in timed if one["contexts"] == contexts), key=lambda one: one["tokens"])
        more = sorted((one for one in timed if one["tokens"] == tokens), key=lambda one: one["contexts"])
        all_tokens = longer[-1]["tokens"] * contexts
        for short in (one for one in more if one["tokens"] * one["contexts"] == all_tokens):
            return {
                **{"longer": longer, "more": more, "long": longer[-1], "short": short},
                "one_part": next(
                    (one for one in longer[::-1] if one["parts"] == 1 and one["us"][1] > one["us"][0]), None
                ),
                "best": max(
                    sharing.best(WORDS.table("kernels")["grouped"]), *(max(one["rate"]) for one in [*longer, *more])
                ),
                **{key: float(waits[where.device][key]) for key in ("cycles", "ns")},
                **{"heads": int(pairs.num_heads.iloc[0]), "size": size},
                **{"device": stage.gpu_name(where.device), "date": where.date},
            }
    return {}


def _timed(row: "pd.Series[float]", size: int) -> Timed:
    problem: Mapping[str, list[int]] = json.loads(str(row["problem"]))
    tokens, contexts = int(row["seq_len"]), len(problem["context_lens"])
    parts, blocks = -(-tokens // size), int(row["num_heads"]) * contexts
    number = 4 if row["dtype"] == "float32" else 2  # bytes
    read = 2 * blocks * tokens * int(row["head_dim"]) * number  # K and V, by all blocks
    us = [float(row["median_us"]), float(row["median_us_cut"])]
    rate = [read / one / 1e6 for one in us]
    return Timed(tokens=tokens, contexts=contexts, parts=parts, us=us, blocks=[blocks, blocks * parts], rate=rate)
