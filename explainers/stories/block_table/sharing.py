"""The picture `sharing`: the KV heads that query heads share, what sharing saves, and what it does not.

The sizes are a real model's. Bytes and products follow from the rule of app/stage/views/sharing_rule.js, which a test
compares with the runs.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, TypedDict

from explainers.stories.block_table.paging import WORDS
from explainers.story import glossary, stage
from explainers.story.frames import Frame
from explainers.story.words import Names, Row
from kernels.core.remembered import of_recordings
from kernels.recordings import tables

# guess: what V1 asks for is not drawn yet. times: only with recordings
PHASES = ("own", "shared", "guess", "asks", "once", "times", "hand")
GROUPS = 4  # query heads of a KV head in the question, and in the model
# Llama 3 8B, with two bytes for a number. Source: its published config.json
MODEL = {"layers": 32, "heads": 32, "dim": 128, "item": 2}
TOKENS = 2048


class Bar(TypedDict):
    """A recorded time.

    grouped: whether one block serves all query heads of a KV head. Otherwise each query head has a block: V1.
    kv: number of KV heads.
    us: the time in µs.
    """

    grouped: bool
    kv: int
    us: float


class SharingMeta(TypedDict):
    """The fields of the view `sharing`.

    layers, heads, dim, item: of the model: layers, query heads, size of a head, bytes of a number.
    tokens: of a request.
    kv: KV heads at each step.
    choices: numbers of KV heads for the reader.
    source: of the sizes, in words.
    phases: the name of each step.
    bars: the recorded times, V1's first. times: their source, in words. problem: their problem, in words. Empty
        without recordings.
    provenances: the source of each step.
    words: the sentences under a hand. {name} stands for a value.
    notes: a line under the memory: phase -> text.
    """

    frames: list[Frame]
    layers: int
    heads: int
    dim: int
    item: int
    tokens: int
    kv: list[int]
    choices: list[int]
    source: str
    phases: list[str]
    bars: list[Bar]
    times: str
    problem: str
    provenances: list[dict[str, str]]
    words: dict[str, str]
    notes: dict[str, str]


def view() -> stage.View:
    """The picture."""
    kernels = WORDS.table("kernels")
    grouped, v1 = recorded(kernels["grouped"]), recorded(kernels["v1"])
    phases = [phase for phase in PHASES if grouped or phase != "times"]
    if any(v1.get(field) != grouped.get(field) for field in ("contexts", "tokens", "heads", "device")):
        v1 = {}  # of another problem
    bars: list[Bar] = [
        {"grouped": of is grouped, "kv": kv, "us": of["us"][kv]}
        for of in (v1, grouped)
        for kv in reversed(of.get("heads", []))
    ]
    heads = MODEL["heads"]
    shared = heads // GROUPS
    names = {"view": "sharing", "heads": heads, "shared": shared, "group": GROUPS}
    names |= {"gain": _gain(grouped), "v1_gain": _gain(v1)}
    asked = 2 * MODEL["layers"] * heads * MODEL["dim"] * MODEL["item"] * TOKENS  # bytes of K and V, by all query heads
    names |= {"asked": glossary.amount(asked, glossary.BINARY)}
    meta: SharingMeta = {
        "frames": WORDS.frames([{"phase": phase, "tile": -1} for phase in phases], names),
        "layers": MODEL["layers"],
        "heads": heads,
        "dim": MODEL["dim"],
        "item": MODEL["item"],
        "tokens": TOKENS,
        "kv": [heads, *[shared] * (len(phases) - 1)],
        "choices": [2**n for n in range(heads.bit_length())],
        "source": WORDS.say("sharing_source", MODEL),
        "phases": phases,
        "bars": bars,
        "times": WORDS.say("sharing_times", {**grouped, "v1": v1}) if grouped else "",
        "problem": WORDS.say("sharing_problem", grouped) if grouped else "",
        "provenances": [],
        "words": WORDS.table("sharing"),
        "notes": {phase: WORDS.say(f"sharing_{phase}", names) for phase in ("own", "shared")},
    }
    modelled = {"label": "modelled", "said": meta["source"]}
    times = {"label": "recorded", "said": meta["times"]}
    meta["provenances"] = [times if phase == "times" else modelled for phase in phases]
    return stage.View("sharing", "sharing", "Grouped heads", {**meta, "clock": True, "state": []})


def _gain(timed: Row) -> float | None:
    """How many times as fast a kernel is with the fewest KV heads as with the most. None without recordings."""
    return timed["us"][timed["heads"][-1]] / timed["us"][timed["heads"][0]] if timed else None


def questions(found: Sequence[Names]) -> list[stage.Question]:
    """The questions about the steps of the picture. found: see view."""
    least, full = (choose(found, key=lambda one: one["held"]) for choose in (min, max))
    names = {**MODEL, "view": "sharing", "group": GROUPS, "shared": MODEL["heads"] // GROUPS, "tokens": TOKENS}
    names |= {"least": least, "full": full, "step_of": {name: n for n, name in enumerate(PHASES)}}
    return WORDS.questions(names, len(PHASES) - 1)


@of_recordings(cache)
def recorded(kernel: str) -> Row:
    """Recorded times of a kernel on problems that differ in their KV heads alone.

    heads: the numbers of KV heads, rising. us: KV heads -> µs. contexts, tokens, device, date.
    Empty without recordings.
    """
    for made, where in tables.recorded("bench").values():
        rows = tables.of_present_code(made, where).query("status == 'ok'")
        found: dict[str, dict[int, float]] = {}
        for _, row in rows[rows.name == kernel].dropna(subset=["seq_len"]).iterrows():
            problem: dict[str, Any] = json.loads(str(row["problem"]))
            found.setdefault(json.dumps({**problem, "num_kv_heads": 0}), {})[problem["num_kv_heads"]] = row["median_us"]
        for fields, us in found.items():
            lengths = json.loads(fields)["context_lens"]
            if len(us) == 2 and len(set(lengths)) == 1:
                sizes = {"contexts": len(lengths), "tokens": lengths[0], "heads": sorted(us), "us": us}
                return {**sizes, "device": stage.gpu_name(where.device), "date": where.date}
    return {}


@of_recordings(cache)
def best(kernel: str) -> float:
    """The largest recorded rate in TB/s at which a kernel with one block for each KV head asks for K and V. 0 without
    recordings."""
    rates = [0.0]
    for made, where in tables.recorded("bench").values():
        rows = tables.of_present_code(made, where).query("status == 'ok'")
        for _, row in rows[rows.name == kernel].iterrows():
            problem: dict[str, Any] = json.loads(str(row["problem"]))
            number = 4 if row["dtype"] == "float32" else 2  # bytes
            if not problem.get("cache_dtype"):
                read = 2 * sum(problem["context_lens"]) * problem["num_kv_heads"] * problem["head_dim"] * number
                rates.append(read / float(row["median_us"]) / 1e6)
    return max(rates)
