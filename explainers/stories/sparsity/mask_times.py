"""Recorded times of masks."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from explainers.models.recorded_times import shown_name
from explainers.story import stage
from explainers.story.glossary import microseconds, short
from explainers.story.stage import Block
from explainers.story.words import Row, Words
from kernels.core.fields import write_value
from kernels.core.request import Request
from kernels.measure.peers import FLEX

WORDS = Words.of(str(__package__))
Fields = Row  # of a problem, from JSON
PEERS = ("sdpa_math", "sdpa_efficient", "sdpa_flash", "sdpa_cudnn")  # they compute every pair and add the mask
SAME_SIZES = ("seq_len", "num_heads", "head_dim", "batch", "causal")  # sizes of a comparison


def recorded(request: Request, times: pd.DataFrame) -> pd.DataFrame:
    """Returns the recorded times of the request's kind of mask, the fastest first.

    Columns: problem (in words), name, median_us, and dense, the fastest of PEERS on that problem (NaN without a time).
    """
    rows = [
        {
            "title": row.title,
            "problem": problem_said(request, fields),
            "name": row.name,
            "median_us": float(row.median_us),
            "device": row.device,
            "date": row.date,
        }
        for row, fields in _timed(times)
        if fields.get("mask") == request.problem.mask
    ]
    found = pd.DataFrame(rows, columns=["title", "problem", "name", "median_us", "device", "date"])
    found = found.sort_values("median_us", kind="stable")
    dense = found[found.name.isin(PEERS)].groupby(["title", "problem"]).median_us.min()
    keys = zip(found.title, found.problem)
    return found.assign(dense=[dense.get(key, np.nan) for key in keys]).reset_index(drop=True)


def _timed(times: pd.DataFrame) -> Iterator[tuple[Any, Fields]]:
    """Returns each row with a time, and the fields of its problem."""
    for row in times[times.status == "ok"].itertuples():
        yield row, json.loads(row.problem) if pd.notna(row.problem) else {}


def problem_said(request: Request, fields: Fields) -> str:
    """Returns a recorded problem in words: its sizes, and the fields of its mask."""
    sizes = f"seq_len {fields['seq_len']:,}, {fields['num_heads']} heads of {fields['head_dim']}"
    used = [f for f in request.problem.mask_fields.get(fields["mask"], ()) if f in fields and f != "drawn"]
    values = {f: tuple(fields[f]) if isinstance(fields[f], list) else fields[f] for f in used}
    said = [
        sizes,
        *(f"{name} {write_value(value)}" for name, value in values.items()),
        *filter(None, [fields.get("dtype")]),
    ]
    if "block_q" in fields:
        said.append(f"blocks of {fields['block_q']} x {fields['block_kv']}")
    return ", ".join(said) + (", causal" if fields.get("causal") else "")


def time_blocks(request: Request, times: pd.DataFrame) -> list[Block]:
    """Returns the recorded times of this kind of mask, next to SDPA with a dense mask."""
    found = recorded(request, times)
    if found.empty:
        return [stage.note(WORDS.say("no_time", {"mask": write_value(request.problem.mask)}))]
    rows = [
        {
            "problem": "" if n else row.problem,  # said once
            "kernel": shown_name(row.name),
            "time": microseconds(row.median_us),
            "dense / time": "" if np.isnan(row.dense) else short(row.dense / row.median_us, 3),
            "lit": row.name == request.kernel.name,
        }
        for _, same in found.groupby(["title", "problem"], sort=False)
        for n, row in enumerate(same.itertuples())
    ]
    where = ", ".join(sorted({f"{row.device}, {row.date}" for row in found.itertuples()}))
    said = WORDS.say("times", {"where": where})
    return [stage.table(pd.DataFrame(rows), said, lit="lit")]


def csr_times(times: pd.DataFrame) -> list[Block]:
    """Returns the recorded times of random masks by density, and the fastest dense kernel of each type."""
    rows = [
        {**fields, "name": row.name, "us": row.median_us, "where": f"{row.device}, {row.date}"}
        for row, fields in _timed(times)
        if fields.get("mask") == "random"
    ]
    if not rows:
        return [stage.note(WORDS.say("no_random", {}))]
    found = pd.DataFrame(rows).sort_values(["density", "us"], kind="stable")
    dense = _fastest_dense(times[times.status == "ok"], found.iloc[0])
    shown = [
        {"pairs seen": f"{row.density:.0%}", "kernel": shown_name(row.name), "type": "float32", "us": row.us}
        for row in found.itertuples()
    ]
    shown += [
        {"pairs seen": "all", "kernel": shown_name(row.name), "type": row.dtype, "us": row.median_us}
        for row in dense.itertuples()
    ]
    table = pd.DataFrame(shown)
    table = table.assign(time=table.us.map(microseconds), lit=table["pairs seen"] == "all").drop(columns="us")
    names = {
        "one": found.iloc[0].to_dict(),
        "peers": [shown_name(name) for name in PEERS if (found["name"] == name).any()],
        "flex": FLEX if (found["name"] == FLEX).any() else "",
        "types": [*dense.dtype],
    }
    return [stage.table(table, WORDS.say("random", names), lit="lit")]


def _fastest_dense(timed: pd.DataFrame, sizes: pd.Series) -> pd.DataFrame:
    """Returns the fastest row of each type at these sizes, the fastest first."""
    same = np.logical_and.reduce([timed[name] == sizes[name] for name in SAME_SIZES])
    fastest = timed[same].sort_values("median_us").drop_duplicates("dtype")
    return fastest.sort_values("median_us")
