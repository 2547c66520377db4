"""The picture `buckets`: the words of one access fall into 32 banks, and the reader moves the width of a row.

Its numbers follow from the rule of app/stage/views/buckets_rule.js. The picture calls them modelled.
"""

import re
from functools import cache
from typing import TypedDict

from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.words import Row, Words
from kernels.core.remembered import of_recordings
from kernels.measure import hierarchy
from kernels.recordings import tables
from kernels.run.results import Run
from kernels.trace.memory.model import BANKS

WORDS = Words.of(str(__package__))
STEPS = ("asks", "falls", "turns", "padded", "hand", "swap", "xor")
PADDING = re.compile(r" ?\bPAD\w*=(\d+)")


class BucketsMeta(TypedDict):
    """The fields of the view `buckets`.

    gain: the recorded gain of padding in a sentence, or "".
    words: the sentences under a hand. {name} stands for a value.
    """

    frames: list[Frame]
    gain: str
    words: dict[str, str]


def view(run: Run) -> list[stage.View]:
    """The picture, for the walk over columns without padding. Else an empty list."""
    request = run.request
    if not hierarchy.has_cycles(request.kernel) or request.problem.stride != BANKS:
        return []
    steps: list[Row] = [{"phase": phase, "tile": -1} for phase in STEPS]
    pair = padded_pair()
    meta: BucketsMeta = {
        "frames": WORDS.frames(steps, {}),
        "gain": WORDS.say("gain", pair) if pair else "",
        "words": WORDS.table("hand"),
    }
    said = f"{meta['words']['rule']}. {meta['gain']}"
    own = {"clock": True, "state": [], "provenance": {"label": "modelled", "said": said}}
    return [stage.View("buckets", "buckets", "32 banks", {**meta, **own})]


def questions() -> list[stage.Question]:
    return WORDS.questions({}, len(STEPS) - 1)


@of_recordings(cache)
def padded_pair() -> Row:
    """The newest recorded pair of times of the stop's kernel that differ in padding only, at its longest problem. name,
    tokens, words (of padding), times, device and date. Empty without one."""
    kernel = WORDS.table("kernels")["padded"]
    for made, where in tables.recorded("bench").values():
        rows = tables.of_present_code(made, where).query("status == 'ok' and causal != True")
        rows = rows.assign(padding=rows.settings.str.extract(PADDING, expand=False)).dropna(subset="padding")
        rows["padding"] = rows.padding.astype(int)
        rows["rest"] = rows.settings.str.replace(PADDING, "", regex=True)
        rows = rows[rows.name == kernel]
        plain, padded = rows[(rows.padding == 0) & rows.own_settings], rows[rows.padding > 0]
        pairs = plain.merge(padded, on=["name", "problem", "rest"], suffixes=("", "_padded"))
        if len(pairs):
            best = pairs.sort_values("seq_len").iloc[-1]
            times = float(best.median_us / best.median_us_padded)
            found = {"name": best["name"], "tokens": int(best.seq_len), "words": int(best.padding_padded)}
            return found | {"times": times, "device": where.device.removeprefix("NVIDIA "), "date": where.date}
    return {}
