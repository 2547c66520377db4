"""The picture `loop`: the pieces of a key tile in three schedules, and the marks of the run in the same form.

The schedules follow from the rule of app/stage/views/loop_rule.js and are modelled. The reader moves the length of the
copy and of the softmax.
"""

from functools import cache
from typing import TypedDict

import pandas as pd

from explainers.stories.pipeline import schedule
from explainers.stories.pipeline.marks import COPIES, BlockStory
from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.words import Row, Words
from kernels.core.remembered import of_recordings
from kernels.measure import pipeline_bars
from kernels.recordings import tables

WORDS = Words.of(str(__package__), "loop.toml")
PHASES = ("pieces", "units", "after", "flight", "turns", "run", "hand")
# The marks whose lines of code are lit at a step. Each other step lights all pieces.
LIT = {"flight": COPIES, "turns": ("producer", "consumer", "scores", "softmax", "output")}
PIECES = (*COPIES, "scores", "softmax", "output")
BYTES = 2  # of a number
EXPONENTIALS = 16  # of an SM of sm_90 in a cycle (CUDA C++ Programming Guide, arithmetic instructions)
FIRST = 3  # key tile of the run at the left edge
MOST = 8  # key tiles of the run in sight
PRODUCTS = ("scores", "output")
PARTS = {"scores": "S", "softmax": "P", "output": "O"}


class LoopBar(TypedDict):
    """A bar of the run.

    unit: tensor or softmax. group: the warpgroup from 0. start, end: of a product, see placed. spent: recorded ns, of a
    product from its start to the wait for it."""

    unit: str
    part: str
    tile: int
    group: int
    start: float
    end: float
    spent: float


class LoopMeta(TypedDict):
    """The fields of the view `loop`.

    copy, product, softmax: whole ns of a key tile's pieces. groups: warpgroups that compute.
    cycle: multiply-adds of the tensor cores of an SM in a cycle, and its exponentials.
    tile: queries and keys of a tile of scores, and the numbers of a key.
    run: bars in ns from the left edge. source: of the run. share: of the block's time with work for the tensor cores.
    provenances: the source of each step. None: the page's, the run.
    rule: the sentence on the model. least: what counts as work in the run.
    words: the sentences under a hand. {name} stands for a value.
    """

    frames: list[Frame]
    copy: float
    product: float
    softmax: float
    groups: int
    cycle: list[int]
    tile: list[int]
    run: list[LoopBar]
    source: str
    share: float
    provenances: list[dict[str, str] | None]
    rule: str
    least: str
    words: dict[str, str]


def views(story: BlockStory) -> list[stage.View]:
    """The picture, if the model of the block exists. Else an empty list."""
    model, made = schedule.model_of(story), story.made
    share = pipeline_bars.multiplying(made, story.block)
    rate = level(made.device)
    if model is None or share is None or not rate:
        return []
    request = made.request
    keys = int(request.value_of("key_rows") or 0)
    size = 2 * keys * request.problem.head_dim * BYTES
    # whole ns, so that the numbers in sight add up
    copy = round(rate["ns"] + size / (rate["GB/s"] / (int(made.blocks.sm.max()) + 1)))
    product, softmax = round(model.product), round(model.softmax)
    names = {
        **{"groups": model.groups, "product": product, "softmax": softmax, "copy": copy},
        **{"size": size, "share": share, "rate": rate, "kernel": story.name},
        **{"provenance": made.provenance, "device": made.device.removeprefix("NVIDIA "), "date": made.date},
    }
    steps: list[Row] = [{"phase": phase, "tile": -1, "lines": lines(story, phase)} for phase in PHASES]
    rule = WORDS.say("rule", names)
    modelled = {"label": "modelled", "said": rule}
    meta: LoopMeta = {
        "frames": WORDS.frames(steps, names),
        "copy": copy,
        "product": product,
        "softmax": softmax,
        "groups": model.groups,
        "tile": [int(request.value_of("query_rows") or 0), keys, request.problem.head_dim],
        "cycle": [int(pipeline_bars.TENSOR_FLOPS["wgmma"]) // 2, EXPONENTIALS],
        "run": run(story, model.product),
        "source": WORDS.say("source", names),
        "share": share,
        "provenances": [None if phase == "run" else modelled for phase in PHASES],
        "rule": rule,
        "least": WORDS.say("least", names),
        "words": WORDS.table("hand"),
    }
    return [stage.View("loop", "loop", "One loop, three schedules", {**meta, "clock": True, "state": []})]


def lines(story: BlockStory, phase: str) -> dict[str, int]:
    """The lines of code of a step: FILE:LINE -> 1."""
    events = LIT.get(phase, PIECES)
    return {str(place): 1 for place in story.bars[story.bars.event.isin(events)].place.unique()}


def questions() -> list[stage.Question]:
    return WORDS.questions({}, len(PHASES) - 1)


@of_recordings(cache)
def level(gpu: str) -> Row:
    """The recorded L2 cache of this GPU, or else of the newest table: GB/s of the whole GPU, and ns of a load. Empty
    without one."""
    found = tables.recorded("hierarchy")
    if not found:
        return {}
    table, where = found.get(gpu) or next(iter(found.values()))
    rows = table[table.space == "from_l2"]
    rates, loads = rows[rows.kind == "bandwidth"].gb_per_s, rows[rows.kind == "latency"].ns
    place = {"device": where.device.removeprefix("NVIDIA "), "date": where.date}
    return {"GB/s": float(rates.max()), "ns": float(loads.min()), **place}


def run(story: BlockStory, product: float) -> list[LoopBar]:
    """The products and the softmaxes of the block, from a key tile near the start on. product: ns of one, alone."""
    softmax = story.bars[story.bars.event == "softmax"]
    groups = sorted(int(n) for n in softmax.writer.unique())
    begin, end = story.steps[min(FIRST, len(story.steps) - 1)]["span"][0], float("inf")
    if len(story.steps) > FIRST + MOST:
        end = story.steps[FIRST + MOST]["span"][0]
    bars = pd.concat([softmax.assign(from_ns=softmax.start_ns, to_ns=softmax.end_ns), placed(story, product)])
    return [
        {
            "unit": "softmax" if bar.event == "softmax" else "tensor",
            "part": PARTS[bar.event],
            "tile": int(bar.tile),
            "group": groups.index(int(bar.writer)),
            "start": bar.from_ns - begin,
            "end": bar.to_ns - begin,
            "spent": bar.end_ns - bar.start_ns,
        }
        for bar in bars.itertuples()
        if bar.to_ns > begin and bar.from_ns < end
    ]


def placed(story: BlockStory, product: float) -> pd.DataFrame:
    """The bars of the products, from_ns and to_ns: when each runs on the tensor cores.

    Rule: a product has all tensor cores, as in the model, after the products before it. If its warpgroup waits for it
    at once, it ends with this wait. An output in flight follows the last product of its warpgroup."""
    flying = story.flight[story.flight.event.isin(PRODUCTS)]
    bars = story.bars[story.bars.event.isin(PRODUCTS)] if flying.empty else flying
    bars, wanted, last = bars.sort_values("start_ns"), list[float](), dict[int, float]()
    for bar in bars.itertuples():
        waited = flying.empty or bar.event == "scores"
        wanted.append(bar.end_ns - product if waited else max(bar.start_ns, last.get(bar.writer, 0.0)))
        last[bar.writer] = wanted[-1] + product
    bars = bars.assign(from_ns=wanted).sort_values("from_ns", kind="stable")
    starts = list[float]()
    for start in bars.from_ns:
        starts.append(max(start, starts[-1] + product) if starts else start)
    return bars.assign(from_ns=starts, to_ns=[start + product for start in starts])
