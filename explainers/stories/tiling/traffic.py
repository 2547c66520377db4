"""The bytes of the story of tiles: each tensor's bytes in global memory, by kernel and by step.

The bytes are counted from logged accesses, in units of the tensor's own size. A cache may serve a read.
"""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import AXIS, TENSORS, kernel_colours
from explainers.models.tiling import Tiling, access_order, pairs
from explainers.stories.tiling.reuse import WORDS
from explainers.story import axes
from explainers.story.glossary import short
from explainers.story.picture import places, tensor_at
from kernels.core.request import Request
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS

Counted = Sequence[tuple[Request, Traffic]]
_VERBS = {"load": "read", "store": "written"}


def comparison(counted: Counted) -> pd.DataFrame:
    """kernel (its title), tensor, kind, bytes, times (bytes / the tensor's size) in global memory.

    counted: whole runs.
    """
    rows = []
    for request, traffic in counted:
        known = axes.tensors(request)
        for t in _of_global_memory(traffic).itertuples():
            if t.tensor in known:
                times = t.bytes / known[t.tensor].nbytes
                rows.append(
                    {
                        "kernel": request.kernel.title,
                        "tensor": t.tensor,
                        "kind": t.kind,
                        "bytes": int(t.bytes),
                        "times": times,
                    }
                )
    return pd.DataFrame(rows, columns=["kernel", "tensor", "kind", "bytes", "times"])


def _of_global_memory(traffic: Traffic) -> pd.DataFrame:
    """tensor, kind (load or store, whatever made it), bytes."""
    table = traffic.table[traffic.table.space == "global"]
    kind = np.where(table.kind.isin(READS), "load", "store")
    return table.assign(kind=kind).groupby(["tensor", "kind"], as_index=False, sort=False).bytes.sum()


def sentence(counted: Counted) -> str:
    """The point of the comparison in a sentence, with its numbers: how often each kernel reads K."""
    said = []
    for request, traffic in counted:
        k = next(symbol for symbol, place in places(request).items() if place == "K")
        table = comparison([(request, traffic)])
        said += [
            f"{row.kernel} {short(row.times, 3)} times"
            for row in table[(table.tensor == k) & (table.kind == "load")].itertuples()
        ]
    heads = axes.heads(tensor_at(counted[0][0], "K"))
    return WORDS.say("reads", {"said": said, "heads": heads, "whole": all(traffic.whole for _, traffic in counted)})


def reuse(counted: Counted) -> pd.DataFrame:
    """kernel, tensor, reuse factor: multiply-adds with an element of Q, K or V, over the elements fetched from global
    memory.

    Derived: each attended (query, key) pair uses every element of its q, k and v once. If the bytes are those of the
        scope's query tiles, so are the pairs. A request without known pairs is left out.
    """
    rows = []
    for request, traffic in counted:
        known, met = axes.tensors(request), pairs(request, traffic.whole)
        table = _of_global_memory(traffic)
        loads = table[table.kind == "load"].set_index("tensor").bytes
        uses = met * axes.length(tensor_at(request, "Q"), "dim")
        inputs = [t for t, place in places(request).items() if place in "QKV" and t in loads and met]
        rows += [
            {"kernel": request.kernel.title, "tensor": t, "reuse": uses / (loads[t] / known[t].itemsize)}
            for t in inputs
        ]
    return pd.DataFrame(rows, columns=["kernel", "tensor", "reuse"])


def cumulative_chart(run: Run, tiling: Tiling) -> alt.LayerChart:
    """Bytes moved to and from global memory so far, by tensor, over the steps. A rule follows the clock without a
    server trip."""
    part = tiling.traffic[tiling.traffic.space == "global"]
    table = part.assign(access=_access_names(part)).pivot_table(
        index="step", columns="access", values="bytes", aggfunc="sum", observed=True
    )
    table = (
        table.reindex(range(len(tiling.frames)))
        .fillna(0)
        .cumsum()
        .reset_index()
        .melt("step", var_name="access", value_name="bytes")
    )
    table["step"] += 1  # as the clock counts
    names = [name for name in access_order([run.request]) if name in set(table["access"])]
    colours = [TENSORS[tiling.places.get(name.split(" ")[0], "other")] for name in names]
    step = alt.param(name="step", value=1)
    last = len(tiling.frames)
    x = alt.X(
        "step:Q",
        title="step",
        axis=alt.Axis(tickMinStep=1, format="d", grid=False),
        scale=alt.Scale(domain=[1, max(last, 2)], nice=False),
    )
    dashes = [[1, 0] if name.endswith("read") else [5, 3] for name in names]
    line = (
        alt.Chart(table)
        .mark_line(interpolate="step-after", strokeWidth=2.5)
        .encode(
            x=x,
            y=alt.Y("bytes:Q", title="bytes so far", axis=alt.Axis(format="~s")),
            color=alt.Color(
                "access:N",
                title=None,
                legend=alt.Legend(orient="top", columns=4),
                scale=alt.Scale(domain=names, range=colours),
            ),
            strokeDash=alt.StrokeDash("access:N", title=None, scale=alt.Scale(domain=names, range=dashes)),
            tooltip=[alt.Tooltip("access:N", title="access"), "step:Q", alt.Tooltip("bytes:Q", format=",")],
        )
    )
    now = alt.Chart(pd.DataFrame({"rule": [0]})).mark_rule(color=AXIS, strokeWidth=1.5)
    now = now.encode(x=alt.XDatum(alt.ExprRef("step"), type="quantitative"))
    return (line + now).add_params(step).properties(height=280)


def chart(counted: Counted) -> alt.Chart:
    """How many times each tensor's size goes between the chip and global memory, kernel beside kernel."""
    table = comparison(counted)
    table = table.assign(access=_access_names(table))
    order = [name for name in access_order([request for request, _ in counted]) if name in set(table.access)]
    kernels = list(dict.fromkeys(table.kernel))
    ticks = [0, 1, *(4**n for n in range(1, 8))]
    x = alt.X(
        "times:Q",
        title="times the tensor's own size (logarithmic)",
        scale=alt.Scale(type="symlog", constant=1),
        axis=alt.Axis(values=ticks, format="d"),
    )
    specs = {request.kernel.title: request.kernel for request, _ in counted}
    scale = alt.Scale(domain=kernels, range=kernel_colours(specs[title] for title in kernels))
    return (
        alt.Chart(table)
        .mark_bar()
        .encode(
            x=x,
            y=alt.Y("access:N", title=None, sort=order),
            yOffset=alt.YOffset("kernel:N", sort=kernels),
            color=alt.Color("kernel:N", title=None, sort=None, legend=alt.Legend(orient="top", columns=3), scale=scale),
            tooltip=[
                "kernel:N",
                alt.Tooltip("access:N", title="access"),
                alt.Tooltip("bytes:Q", format=","),
                alt.Tooltip("times:Q", format=".2f", title="times its size"),
            ],
        )
        .properties(height=90 + max(34, 9 * len(kernels)) * table.access.nunique())
    )


def _access_names(table: pd.DataFrame) -> pd.Series:
    return table.tensor.astype(str) + " " + table.kind.astype(str).map(lambda kind: _VERBS.get(kind, kind))
