"""A step of a query tile in a plain sentence or two. The exact rows and bytes are in the frame's details."""

import pandas as pd

from explainers.stories.tiling.accesses import Access
from explainers.story.frames import Rect
from explainers.story.glossary import count, listed, short
from kernels.trace.kinds import READS, WRITES
from kernels.trace.steps import StepRow

# the work of a phase that reads stored scores or weights
WORK = {
    "row_max": "finds the max of each row",
    "row_sum": "adds up e^(score - max) in each row",
    "divide": "divides each weight by its row's sum",
    "output": "adds weights times V to O",
    "check_sums": "checks the sums of the weights",
    "combine": "merges the parts",
}


def sentence(
    step: StepRow,
    accesses: list[Access],
    scores: Rect | None,
    values: pd.DataFrame | None,
    keys: tuple[int, int] | None,
    seen: dict[str, list[str]],
) -> str:
    """The step in words. The words of an earlier step follow its new keys.

    scores: the rectangle of its scores, or None.
    values: its value records, or None.
    keys: its first and last key, or None.
    seen: the words of the earlier steps, each with its keys. This step joins them.
    """
    who = f"The {step.role}" if step.role else "The block"
    reads, writes = _names(accesses, "global", "load"), _names(accesses, "global", "store")
    boxes, kept = _names(accesses, "shared", "tma_smem"), _kept(accesses)
    fed = _names(accesses, "shared", "product")
    used = _names(accesses, "shared", *(event for event in READS if event != "product"))
    done = []
    if boxes:
        done.append(f"asks the copy engine (TMA) for {listed(reads or boxes)}")
    elif reads and kept:
        done.append(f"copies {listed(reads)} from global to shared memory")
    elif reads:
        done.append(f"reads {listed(reads)} from global memory")
    if used:
        done.append(f"reads {listed(used)} from shared memory")
    if fed:
        done.append(f"lets the tensor cores read {listed(fed)} from shared memory")
    work = _work(step, scores, values)
    done += [work] if work else []
    first = f"{who} {listed(done)}." if done else ""
    more = [f"keeps {listed(kept)} in shared memory"] if kept and not reads and not boxes else []
    more += [f"writes {listed(writes)} to global memory"] if writes else []
    second = f"{'It' if first else who} {listed(more)}." if more else ""
    said = " ".join(filter(None, [first, second])) or f"{who} moves no data."
    before, now = seen.get(said, ()), _where(step, keys)
    seen[said] = [*before, now]
    if before and now in before:
        said = said.replace("The block", "A second block", 1)
    elif before and now:
        said = f"Now {now}: {said[0].lower()}{said[1:]}"
        if keys and scores and work:
            said = said.replace(work, "computes their scores")
    return " ".join(filter(None, [said, _first_row(step, values)]))


def _where(step: StepRow, keys: tuple[int, int] | None) -> str:
    """The keys of the step, or its tile, or an empty text."""
    if keys:
        return f"keys {keys[0]} to {keys[1]}"
    return f"key tile {step.tile}" if step.tile >= 0 else ""


def _work(step: StepRow, scores: Rect | None, values: pd.DataFrame | None) -> str:
    """The arithmetic of the step, or an empty text."""
    if scores and step.phase.startswith("scores"):
        first, last, low, high = scores
        queries, keys = count(last - first + 1, "query", "queries"), count(high - low + 1, "key")
        return f"computes the scores of {queries} with {keys}"
    if step.phase == "softmax":
        return (
            "takes weights against the m of earlier tiles" if values is None else "updates max m and sum l of each row"
        )
    if step.phase == "output_done":
        return "has O so far from the tensor cores"
    return WORK.get(step.phase, "")


def _names(accesses: list[Access], space: str, *kinds: str) -> list[str]:
    return list(dict.fromkeys(a.tensor for a in accesses if a.space == space and a.kind in kinds))


def _kept(accesses: list[Access]) -> list[str]:
    return _names(accesses, "shared", *(event for event in WRITES if event != "tma_smem"))


def _first_row(step: StepRow, values: pd.DataFrame | None) -> str:
    """The new max of the first row in a sentence, or an empty text."""
    if values is None or step.phase not in ("softmax", "check_sums"):
        return ""
    m = values[(values.event == "m") & values.row.notna()]
    return "" if m.empty else f"In row {int(m.row.iloc[0])}, m is now {short(float(m.value.iloc[0]))}."
