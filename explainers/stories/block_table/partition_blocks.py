"""The number of thread blocks with whole contexts (V1) and with partitions (V2), and the sizes at which they fill a
GPU."""

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import AXIS, OKABE_ITO
from explainers.stories.block_table.paging import WORDS, Paged, lengths
from explainers.stories.block_table.partitions import partition_of
from explainers.story import stage
from kernels.run.results import Run

HEADS, PARTITION = 32, 512  # heads of a well-known model, and vLLM's partition
LENGTHS = tuple(2**n for n in range(7, 18))
BATCHES = (1, 4, 16, 64)


def blocks(run_v1: Run, run_v2: Run, multiprocessors: int, device: str) -> list[stage.Block]:
    """The grids of this cache, and the sizes at which each kernel fills a GPU.

    multiprocessors, device: the number of SMs, and the GPU's name.
    """
    names = {"heads": HEADS, "partition": PARTITION, "count": multiprocessors, "device": device}
    first = fill_table(HEADS, PARTITION, multiprocessors).iloc[0]
    names |= {"v1": int(first["V1 blocks"]), "v2_from": int(first["V2 fills it from"])}
    names["enough"] = -(-multiprocessors // HEADS)
    chart = stage.chart(
        blocks_chart(blocks_table(HEADS, PARTITION), multiprocessors),
        "Thread blocks of V1 and V2 against context length, for 1 to 64 sequences, and the number of SMs",
        "V1 has heads x sequences blocks, V2 as many for each partition.",
        f"Thread blocks with {HEADS} query heads, partitions of {PARTITION} tokens",
    )
    filling = "Fills it: at least one block per SM. From: the shortest context length."
    launched = "Grids as launched. A block of V2 without a token of its sequence leaves at once."
    return [
        stage.heading("Thread blocks of this cache"),
        stage.table(grids(run_v1, run_v2), launched),
        stage.heading("Enough blocks to fill the GPU"),
        stage.text(WORDS.say("fill", names), "modelled"),
        stage.row([chart], [stage.table(fill_table(HEADS, PARTITION, multiprocessors), filling)]),
    ]


def grids(run_v1: Run, run_v2: Run) -> pd.DataFrame:
    """Kernel, grid, blocks, blocks with tokens, threads and shared bytes of each launch, from the plans."""
    rows = []
    for run in (run_v1, run_v2):
        request, size = run.request, partition_of(run.request)
        for number, launch in enumerate(request.plan.launches):
            blocks = busy = int(np.prod(launch.grid))
            if size and number == 0:  # a block past the end of its context exits at once
                busy = Paged(request).num_heads * sum(-(-int(length) // size) for length in lengths(run))
            rows.append(
                {
                    "kernel": launch.entry,
                    "grid": " x ".join(map(str, launch.grid)),
                    "blocks": blocks,
                    "with tokens": busy,
                    "threads each": launch.threads,
                    "shared bytes each": launch.shared_bytes,
                }
            )
    return pd.DataFrame(rows)


def blocks_table(heads: int, partition: int) -> pd.DataFrame:
    """Context length, batch, kernel and blocks, by formula."""
    rows = [
        (length, batch, kernel, heads * batch * (1 if kernel == "V1" else -(-length // partition)))
        for length in LENGTHS
        for batch in BATCHES
        for kernel in ("V1", "V2")
    ]
    return pd.DataFrame(rows, columns=["context length", "batch", "kernel", "blocks"])


def blocks_chart(table: pd.DataFrame, multiprocessors: int) -> alt.LayerChart:
    """The thread blocks against context length. The rule is one block per SM."""
    colours = [OKABE_ITO[c] for c in ("vermillion", "orange", "green", "blue")]
    ticks = alt.Axis(values=list(LENGTHS[::2]), format="d", grid=False)
    x = alt.X("context length:Q", scale=alt.Scale(type="log", base=2), axis=ticks)
    powers = alt.Axis(format="~s", grid=False, values=[10**n for n in range(1, 7)])
    y = alt.Y("blocks:Q", title="thread blocks", scale=alt.Scale(type="log"), axis=powers)
    scale = alt.Scale(domain=list(BATCHES), range=colours)
    colour = alt.Color("batch:O", title="sequences", scale=scale, legend=alt.Legend(symbolType="stroke"))
    tip = ["kernel:N", "batch:O", alt.Tooltip("context length:Q", format=","), alt.Tooltip("blocks:Q", format=",")]
    dash = alt.StrokeDash("kernel:N", title="kernel", scale=alt.Scale(domain=["V2", "V1"], range=[[1, 0], [5, 3]]))
    line = alt.Chart(table).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tip)
    points = alt.Chart(table).mark_circle(size=28, opacity=1).encode(x=x, y=y, color=colour, tooltip=tip)
    said = f"{multiprocessors} SMs"
    full = pd.DataFrame({"blocks": [multiprocessors], "context length": [LENGTHS[-1]], "said": [said]})
    rule = alt.Chart(full).mark_rule(color=AXIS, strokeWidth=2).encode(y="blocks:Q")
    label = alt.Chart(full).mark_text(color=AXIS, align="right", baseline="top", dy=4)
    text = label.encode(x=x, y="blocks:Q", text="said:N")
    return (rule + line + points + text).properties(height=300)


def fill_table(heads: int, partition: int, multiprocessors: int) -> pd.DataFrame:
    """Sequences, V1 blocks, whether V1 fills the GPU, and the shortest context for V2 to fill it."""
    rows = []
    for batch in (1, 2, 4, 8, 16, 32, 64):
        blocks = heads * batch
        needed = max(1, -(-multiprocessors // blocks))  # partitions per query head
        rows.append(
            {
                "sequences": batch,
                "V1 blocks": blocks,
                "V1 fills it": "yes" if blocks >= multiprocessors else "no",
                "V2 fills it from": 1 if needed == 1 else (needed - 1) * partition + 1,
                "partitions then": needed,
            }
        )
    return pd.DataFrame(rows)
