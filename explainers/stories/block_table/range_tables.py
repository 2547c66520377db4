"""Tables next to decoding over a work list: every unit of the list, the merge of partial results, and a cache of 8
bits."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.range_walk import Walked
from explainers.story import stage
from explainers.story.glossary import figure, listed, short
from kernels.core.dtypes import element_type
from kernels.kv_cache.work_list import FIELDS
from kernels.run.results import Run
from kernels.trace.kinds import READS

FP8_MAX = element_type("float8_e4m3").largest


def list_blocks(story: Walked, names: Sequence[str]) -> list[stage.Block]:
    """Returns every unit of every list, as the kernel reads it."""
    rows = []
    for work_list in story.lists:
        for unit in range(len(work_list.table)):
            row = dict(zip(FIELDS, work_list.table[unit].tolist()))
            then = row["next"] if row["next"] >= 0 else None
            kept = work_list.shared or row["partitions"] > 1  # an uncut sequence writes O at once
            sharers = listed([names[s] for s in work_list.sequences(unit)])
            rows.append(
                {
                    "list": "shared prefix" if work_list.shared else "own pages",
                    "unit": unit,
                    "range": work_list.range_of[unit],
                    "sequence": sharers,
                    "first entry": row["first"],
                    "pages": row["pages"],
                    "next unit": then,
                    "partition": row["partition"],
                    "slot": row["slot"] + row["partition"] if kept else None,
                    "followed": story.sequence in work_list.sequences(unit),
                }
            )
    table = pd.DataFrame(rows).convert_dtypes()
    if not any(work_list.shared for work_list in story.lists):
        table = table.drop(columns="list")
    caption = (
        "The work list as the kernel reads it, made on the host before each step. Lit: the units that the steps follow."
    )
    return [stage.table(table, caption, lit="followed")]


def merge_blocks(story: Walked, name: str) -> list[stage.Block]:
    """Returns every partial result of the sequence, and their merge."""
    rows: list[dict[str, object]] = [
        {
            "partition": unit["partition"],
            "range": f"{'prefix range' if story.lists[unit['list']].shared else 'range'} {unit['range']}",
            "tokens": f"{unit['tokens'][0]} to {unit['tokens'][1] - 1}",
            "m_i": unit["m"],
            "l_i": unit["l"],
            "e^(m_i - m)": unit.get("weight", 1.0),
            "l_i e^(m_i - m)": unit["l"] * unit.get("weight", 1.0),
        }
        for unit in story.units
    ]
    total = sum(unit["l"] * unit.get("weight", 1.0) for unit in story.units)
    whole = {
        "partition": None,
        "range": f"all of {name}",
        "tokens": "all",
        "m_i": story.merged["m"],
        "l_i": story.merged["l"],
    }
    table = pd.DataFrame([*rows, whole | {"e^(m_i - m)": None, "l_i e^(m_i - m)": total}]).convert_dtypes()
    said = "Logged: m = max m_i,  l = \u03a3 l_i e^(m_i - m),  O = \u03a3 O_i e^(m_i - m) / l"
    return [stage.table(table, said)]


def cache_blocks(runs: Sequence[Run]) -> list[stage.Block]:
    """Returns the same cache in Q's type and in 8 bits: page size, read bytes, and the error of the output.

    The error is against K and V before rounding.
    """
    rows = [_cache_row(run) for run in runs]
    wide, narrow = rows
    saved = wide["bytes read of K and V"] / narrow["bytes read of K and V"]
    said = (
        f"With 8 bits {figure(saved)} times fewer bytes of K and V are read. A number keeps 4 significant bits. "
        "Its KV head's scale is the largest |K| (|V|) over 448. It is multiplied back: into the softmax scale for K, "
        f"into 1 / l for V. O is off by up to {short(narrow['O off by, at most'])}, with 16 bits by up to "
        f"{short(wide['O off by, at most'])}."
    )
    rule = (
        "Off: against float64 over the original K and V, before the cache rounded them. So it has the rounding of the "
        "cache and of the kernel."
    )
    return [stage.text(said), stage.table(pd.DataFrame(rows), rule)]


def _cache_row(run: Run) -> dict:
    problem, paged = run.request.problem, Paged(run.request)
    frame = run.trace.frame("event", "space", "tensor", "bytes")
    caches = frame[frame.event.isin(READS) & (frame.space == "global") & frame.tensor.isin([paged.k[0], paged.v[0]])]
    exact = problem.attention(dequantised=False)["o"]
    output = run.arrays[paged.o[1].name].astype(np.float64)
    steps = [np.abs(a - b).max() for a, b in zip(problem.scores(), problem.scores(dequantised=False))]
    return {
        "cache": problem.stored,
        "bytes of a page and KV head, K and V": 2 * paged.page_bytes,
        "bytes read of K and V": int(caches.bytes.sum()),
        "a score off by, at most": float(short(float(max(steps)))),
        "O off by, at most": float(np.abs(output - exact).max()),
    }


def rounding_blocks(run: Run) -> list[stage.Block]:
    """Returns new tokens before and after rounding to 8 bits, from a Run of a kernel that writes the cache."""
    problem, arrays = run.request.problem, run.arrays
    rows = [
        {"token": token, "slot": slot}
        | _kept(run, "K", "key", "k_cache", "k_scale", token, slot)
        | _kept(run, "V", "value", "v_cache", "v_scale", token, slot)
        for token, slot in enumerate(problem.slots)
        if slot >= 0
    ]
    scales = "; ".join(
        f"{name} {', '.join(short(float(v)) for v in arrays[scale])}"
        for name, scale in (("K", "k_scale"), ("V", "v_scale"))
    )
    said = (
        "Each number, divided by the scale of its KV head, is rounded to 4 significant bits (fp8 e4m3). Larger numbers "
        f"than 448 become 448. Scales, by KV head: {scales}."
    )
    if any(row[f"{name} cut off at {FP8_MAX:g}"] for row in rows for name in "KV"):
        said += " Some are drawn too small: those heads' largest numbers are cut off."
    rule = "Off: the number in the cache, times the scale, against the original."
    return [stage.text(said, run.provenance), stage.table(pd.DataFrame(rows), rule)]


def _kept(run: Run, name: str, given: str, cache: str, scale: str, token: int, slot: int) -> dict[str, object]:
    """Returns a token's K (V) before the cache and in the cache."""
    came = run.arrays[given][token].astype(np.float64)
    scales = run.arrays[scale].astype(np.float64)[:, None]
    page, position = divmod(slot, run.request.problem.block_size)
    kept = (
        run.arrays[cache][page].astype(np.float64)[:, :, position].reshape(came.shape)
    )  # a slot has all dims in a row
    return {
        f"largest |{name}|": float(short(float(np.abs(came).max()))),
        f"{name} off by, at most": float(short(float(np.abs(kept * scales - came).max()))),
        f"{name} cut off at {FP8_MAX:g}": int((np.abs(came) > FP8_MAX * scales).sum()),
    }
