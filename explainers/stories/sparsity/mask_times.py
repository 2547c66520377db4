"""Recorded times of masks."""

import json
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.timing.wording import microseconds, shown_name
from explainers.story import stage
from explainers.story.stage import Block
from kernels.core.fields import write_value
from kernels.core.request import Request
from kernels.measure.peers import FLEX

PEERS = ("sdpa_math", "sdpa_efficient", "sdpa_flash", "sdpa_cudnn")  # they compute every pair and add the mask


def recorded(request: Request, times: pd.DataFrame) -> pd.DataFrame:
    """Returns the recorded times of the request's kind of mask, the fastest first.

    Columns: problem (in words), name, median_us, and dense, the fastest of PEERS on that problem (NaN without a time).
    """
    rows = []
    wanted = request.problem.mask
    for row in times[times.status == "ok"].itertuples():
        fields = json.loads(row.problem) if pd.notna(row.problem) else {}
        if fields.get("mask") == wanted:
            rows.append(
                (row.title, problem_said(request, fields), row.name, float(row.median_us), row.device, row.date)
            )
    columns = ["title", "problem", "name", "median_us", "device", "date"]
    found = pd.DataFrame(rows, columns=columns).sort_values("median_us", kind="stable")
    dense = found[found.name.isin(PEERS)].groupby(["title", "problem"]).median_us.min()
    keys = list(zip(found.title, found.problem))
    return found.assign(dense=[dense.get(key, np.nan) for key in keys]).reset_index(drop=True)


def problem_said(request: Request, fields: dict[str, Any]) -> str:
    """Returns a recorded problem in words: its sizes, and the fields of its mask."""
    sizes = f"seq_len {fields['seq_len']:,}, {fields['num_heads']} heads of {fields['head_dim']}"
    looked_at = [f for f in request.problem.mask_fields.get(fields["mask"], ()) if f in fields and f != "drawn"]
    said = [sizes, *(f"{name} {_value(fields[name])}" for name in looked_at), *filter(None, [fields.get("dtype")])]
    if "block_q" in fields:
        said.append(f"blocks of {fields['block_q']} x {fields['block_kv']}")
    return ", ".join(said) + (", causal" if fields.get("causal") else "")


def _value(value: Any) -> str:
    return write_value(tuple(value) if isinstance(value, list) else value)


def time_blocks(request: Request, times: pd.DataFrame) -> list[Block]:
    """Returns the recorded times of this kind of mask, next to SDPA with a dense mask."""
    found = recorded(request, times)
    if found.empty:
        named = write_value(request.problem.mask)
        return [
            stage.note(f"No time is recorded with the mask {named}. Times come from GPUs alone, and never from here.")
        ]
    rows = [
        {
            "problem": "" if n else row.problem,  # said once
            "kernel": shown_name(row.name),
            "time": microseconds(row.median_us),
            "dense / time": "" if np.isnan(row.dense) else f"{row.dense / row.median_us:.3g}",
            "lit": row.name == request.kernel.name,
        }
        for _, same in found.groupby(["title", "problem"], sort=False)
        for n, row in enumerate(same.itertuples())
    ]
    where = ", ".join(sorted({f"{row.device}, {row.date}" for row in found.itertuples()}))
    said = (
        f"Recorded on {where}. dense / time: the fastest of torch's kernels that compute every pair and add the mask."
    )
    return [stage.table(pd.DataFrame(rows), said, lit="lit")]


def csr_times(times: pd.DataFrame) -> list[Block]:
    """Returns the recorded times of random masks by density, and the fastest dense kernel of each type."""
    timed, rows = times[times.status == "ok"], []
    for row in timed.itertuples():
        fields = json.loads(row.problem) if pd.notna(row.problem) else {}
        if fields.get("mask") == "random":
            rows.append({**fields, "name": row.name, "us": row.median_us, "where": f"{row.device}, {row.date}"})
    if not rows:
        return [stage.note("No time is recorded with pairs seen at random.")]
    found = pd.DataFrame(rows).sort_values(["density", "us"], kind="stable")
    one = found.iloc[0]
    sizes = ("seq_len", "num_heads", "head_dim", "batch", "causal")
    same = timed[np.logical_and.reduce([timed[name] == one[name] for name in sizes])].sort_values("median_us")
    dense = same.drop_duplicates("dtype").sort_values("median_us")
    shown = [(f"{row.density:.0%}", shown_name(row.name), "float32", row.us) for row in found.itertuples()]
    shown += [("all", shown_name(row.name), row.dtype, row.median_us) for row in dense.itertuples()]
    table = pd.DataFrame(shown, columns=["pairs seen", "kernel", "type", "time"])
    table = table.assign(lit=table["pairs seen"] == "all", time=[microseconds(us) for us in table.time])
    said = (
        f"seq_len {one.seq_len:,}, {one.num_heads} heads of {one.head_dim}{', causal' if one.causal else ''}; pairs "
        f"seen at random; recorded on {one['where']}."
    )
    if sdpa := [shown_name(name) for name in PEERS if (found["name"] == name).any()]:
        said += f" SDPA's kernels ({', '.join(sdpa)}) compute every pair and add the mask."
    if (found["name"] == FLEX).any():
        said += f" {FLEX} skips blocks in which no pair is seen."
    if len(dense):
        types, pairs = ", ".join(dense.dtype), "those up to the query" if one.causal else "all"
        said += f" all: the fastest dense kernel of each type with a recorded time ({types}); its pairs are {pairs}."
    return [stage.table(table, said, lit="lit")]
