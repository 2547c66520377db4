"""The tiling story: which part of Q, K^T, S, V and O a block works on at each step, what it holds in shared memory, and the
bytes each tensor costs. Everything comes from the logged addresses; the rules are stated at each function."""

from dataclasses import dataclass
from typing import NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from explainers import steps as cutting
from explainers.glossary import PHASES
from explainers.palette import AXIS, OKABE_ITO, TENSOR
from kernels.probes import READS, WRITES

TENSORS = ("Q", "K", "V", "S", "P", "O")


@dataclass(frozen=True)
class Tiling:
    """frames: one dict per step, for the browser (JSON); its "o" is the index in o_values that shows O after the step, or -1.
    traffic: step, tensor, space, kind, accesses, bytes: the logged accesses, summed. scores: float32 [rows, seq_len], NaN where
    none was logged. o_values: float32 [n, rows, head_dim]. rows: first and end of the query tile. output_blocks: [row0, row1,
    col0, col1, block] of each block's part of this head's O."""

    frames: list[dict]
    traffic: pd.DataFrame
    scores: np.ndarray
    o_values: np.ndarray
    rows: tuple[int, int]
    head: int
    output_blocks: list[list[int]]


def explain(run):
    """The Tiling of a Run whose trace covers one query tile."""
    request, trace, sites = run.request, run.trace, run.request.sites
    problem, (head, *rows) = request.problem, query_rows(request)
    steps = cutting.cut(trace, sites)
    accesses = _accesses(trace, steps, problem, sites)
    values = _values(trace, steps)
    scores = np.full((rows[1] - rows[0], problem.seq_len), np.nan, np.float32)
    s = values[values.event == "score"]
    scores[s.row.astype(int) - rows[0], s.col.astype(int)] = s.value
    o_values, o_of_step = _partial_outputs(values, rows, problem.head_dim, len(steps.table))
    traffic = pd.DataFrame([(step, *a[:5]) for step, made in enumerate(accesses) for a in made],
                           columns=["step", "tensor", "space", "kind", "accesses", "bytes"])
    frames = _frames(steps, accesses, values, o_of_step, cutting.lit_lines(trace, steps, sites))
    return Tiling(frames, traffic, scores, o_values, tuple(rows), head, _output_blocks(request, head))


def query_rows(request):
    """The head (counted over the whole batch), first row and end row of the scope's first query tile."""
    rows, n = request.constants["BLOCK_Q"], request.problem.seq_len
    head, tile = divmod(request.scope.first, -(-n // rows))
    return head, tile * rows, min(n, (tile + 1) * rows)


def _output_blocks(request, head):
    """From the plan: the last launch writes O, its blocks_per_item blocks side by side over head_dim."""
    settings, launch = request.constants, request.plan.launches[-1]
    tiles = request.plan.items // (request.problem.batch * request.problem.heads)
    side, width = launch.blocks_per_item, request.problem.head_dim // launch.blocks_per_item
    return [[t * settings["BLOCK_Q"], min(request.problem.seq_len, (t + 1) * settings["BLOCK_Q"]) - 1, j * width, (j + 1) * width - 1,
             (head * tiles + t) * side + j] for t in range(tiles) for j in range(side)]


class Access(NamedTuple):
    """The accesses of one step to one tensor in one space: how many, their bytes, and the smallest rectangle of elements touched."""

    tensor: str
    space: str
    kind: str
    count: int
    bytes: int
    row0: int
    row1: int
    col0: int
    col1: int


def _accesses(trace, steps, problem, sites):
    """A list of Access for each step.

    Rule: element = offset / 4; in global memory row and column follow from the tensor's row length (head_dim, or seq_len for S and P).
    """
    groups = sorted({(s.tensor, s.space, s.kind, s.bytes) for s in sites.values() if s.space})
    group_of_line = np.full(max(sites) + 1, -1)
    for line, s in sites.items():
        if s.space:
            group_of_line[line] = groups.index((s.tensor, s.space, s.kind, s.bytes))
    group = group_of_line[trace.table["line"].to_numpy()]
    keep = np.flatnonzero((steps.of_record >= 0) & (group >= 0))
    code = steps.of_record[keep] * len(groups) + group[keep]
    order = np.argsort(code, kind="stable")
    code, group = code[order], group[keep][order]
    element = trace.table["offset"].fill_null(0).to_numpy()[keep][order] // 4
    width = np.array([problem.seq_len if g[0] in "SP" else problem.head_dim for g in groups])[group]
    row, col = element // width % problem.seq_len, element % width
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    per_step = [[] for _ in range(len(steps.table))]
    if len(starts):
        counts = np.diff(starts, append=len(code))
        bounds = [function.reduceat(values, starts) for values in (row, col) for function in (np.minimum, np.maximum)]
        for first, count, row0, row1, col0, col1 in zip(starts, counts, *bounds):
            step, g = divmod(int(code[first]), len(groups))
            tensor, space, kind, size = groups[g]
            box = (int(row0), int(row1), int(col0), int(col1) + size // 4 - 1) if space == "global" else (0, 0, 0, 0)
            per_step[step].append(Access(tensor, space, kind, int(count), int(count) * size, *box))
    return per_step


def _values(trace, steps):
    """The value records with their step; keys as floats, NaN where an event has no such key."""
    keep = (steps.of_record >= 0) & trace.table["value"].is_valid().to_numpy()
    frame = trace.table.select(["event", *trace.keys, "value"]).filter(keep).to_pandas()
    frame["event"] = frame.event.astype(str)
    return frame.assign(step=steps.of_record[keep])


def _partial_outputs(values, rows, head_dim, step_count):
    """O as logged after each step that logged it: blocks [n, rows, head_dim] (NaN where not yet), and each step's block or -1."""
    o = values[values.event == "o"]
    blocks, of_step, current = [], np.full(step_count, -1), np.full((rows[1] - rows[0], head_dim), np.nan, np.float32)
    for step, part in o.groupby("step"):
        current = current.copy()
        current[part.row.astype(int) - rows[0], part.dim.astype(int)] = part.value
        of_step[step:] = len(blocks)
        blocks.append(current)
    return np.array(blocks, np.float32).reshape(len(blocks), rows[1] - rows[0], head_dim), of_step


def _frames(steps, accesses, values, o_of_step, lit):
    values_of, value_rects = dict(tuple(values.groupby("step"))), _score_rects(values)
    resident, arrived, frames, where, running = {}, {}, [], None, {}  # arrived: what of a tensor was read last
    for number, step in enumerate(steps.table.itertuples()):
        if (step.launch, step.block) != where:
            resident, arrived, where = {}, {}, (step.launch, step.block)  # shared memory and registers belong to one block
        touched = [a for a in accesses[number] if a.space == "global"]
        arrived.update({a.tensor: list(a[-4:]) for a in touched if a.kind == "load"})
        for a in accesses[number]:
            if a.space == "shared" and a.kind in WRITES:
                rect = arrived.get(a.tensor) or value_rects.get(("p", number))
                resident = {**resident, a.tensor: {"rect": rect, "bytes": a.bytes}}
        for a in touched:
            key = f"{a.tensor} {a.kind}"
            running = {**running, key: running.get(key, 0) + a.bytes}
        frames.append({
            "tile": int(step.tile), "title": _title(step), "block": int(step.block),
            "touched": [{"tensor": a.tensor, "kind": a.kind, "rect": list(a[-4:])} for a in touched], "resident": resident,
            "uses": [a.tensor for a in accesses[number] if a.space == "shared" and a.kind in READS], "scores": value_rects.get(("score", number)),
            "o": int(o_of_step[number]), "bytes": running, "lines": lit[number],
            "sentence": _sentence(step, accesses[number], value_rects.get(("score", number)), values_of.get(number))})
    return frames


def _score_rects(values):
    """(event, step) -> [row0, row1, col0, col1] of the scores and weights logged in that step."""
    part = values[values.event.isin(["score", "p"])]
    if part.empty:
        return {}
    grouped = part.groupby(["event", "step"]).agg(r0=("row", "min"), r1=("row", "max"), c0=("col", "min"), c1=("col", "max"))
    return {key: [int(v) for v in row] for key, row in zip(grouped.index, grouped.to_numpy())}


def _title(step):
    return (f"Tile {step.tile} · " if step.tile >= 0 else "") + PHASES.get(step.phase, step.phase)


def _sentence(step, accesses, score_rect, values):
    """One sentence with the step's own numbers. values: the value records of the step, or None."""
    def moved(space, *kinds):
        return [f"{_place(a) if space == 'global' else a.tensor} ({a.bytes:,} bytes)" for a in accesses if a.space == space and a.kind in kinds]

    reads, writes, kept, from_shared = moved("global", "load"), moved("global", "store"), moved("shared", *WRITES), moved("shared", *READS)
    parts = []
    if reads:
        parts.append(f"reads {_list(reads)} from global memory")
    if kept:
        parts.append(f"copies {_list(kept)} into shared memory" if reads else f"keeps {_list(kept)} in shared memory")
    if from_shared:
        parts.append(f"reads {_list(from_shared)} from shared memory")
    if score_rect and step.phase == "scores":
        r0, r1, c0, c1 = score_rect
        parts.append(f"computes the scores of {_span(r0, r1, 'query', 'queries')} with {_span(c0, c1, 'key', 'keys')}")
    if step.phase == "softmax" and values is not None:
        parts.append("updates each row's running max m and sum l" + _first_row_numbers(values))
    if writes:
        parts.append(f"writes {_list(writes)} to global memory")
    phase = PHASES.get(step.phase, step.phase)
    where = f"Block {step.block}, " + (f"tile {step.tile}, " if step.tile >= 0 else "") + phase[0].lower() + phase[1:]
    return f"{where}: {_list(parts) if parts else 'moves nothing'}."


def _first_row_numbers(values):
    """", in row 16 m becomes 2.41 and l 9.8", from the first row that logged them."""
    m, l = (values[values.event == name] for name in ("m", "l"))
    if m.empty or l.empty:
        return ""
    return f": in row {int(m.row.iloc[0])} m becomes {m.value.iloc[0]:.4g} and l {l.value.iloc[0]:.4g}"


def _place(access):
    rows = _span(access.row0, access.row1)
    return f"{access.tensor} {rows}" + (f", {_span(access.col0, access.col1, 'column', 'columns')}," if access.tensor in "SP" else "")


def _span(first, last, one="row", many="rows"):
    return f"{one} {first}" if first == last else f"{many} {first} to {last}"


def _list(parts):
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


# ---- bytes, kernel beside kernel ----


def traffic_comparison(traffics, problem):
    """kernel, tensor, kind, bytes, times (bytes / the tensor's size) in global memory, from {kernel title: Traffic} of whole runs."""
    sizes = tensor_bytes(problem)
    rows = [{"kernel": title, "tensor": t.tensor, "kind": t.kind, "bytes": int(t.bytes), "times": t.bytes / sizes[t.tensor]}
            for title, traffic in traffics.items() for t in traffic.table[traffic.table.space == "global"].itertuples()]
    return pd.DataFrame(rows, columns=["kernel", "tensor", "kind", "bytes", "times"])


def traffic_sentence(comparison, problem, whole):
    """The point of the comparison in a sentence, with its numbers."""
    k = comparison[(comparison.tensor == "K") & (comparison.kind == "load")]
    said = "; ".join(f"{row.kernel} {row.times:.3g} times" for row in k.itertuples())
    over = f"over all {problem.batch * problem.heads} heads" if whole else "in the traced query tile alone, as the whole run's records would not fit"
    return f"K is read: {said}. Counted from every logged access {over}; a tensor's own size is 1. A read may be served by a cache."


def tensor_bytes(problem):
    """fp32 bytes of each tensor over all heads."""
    matrix = 4 * problem.batch * problem.heads * problem.seq_len
    return {t: matrix * (problem.seq_len if t in "SP" else problem.head_dim) for t in TENSORS}


def reuse(traffics, problem):
    """kernel, tensor, reuse factor: multiply-adds that use an element of Q, K or V, over the elements fetched from global memory.

    Derived: each of the score_count (query, key) pairs uses head_dim elements of Q, of K and of V once.
    """
    uses = problem.score_count * problem.head_dim
    rows = []
    for title, traffic in traffics.items():
        loads = traffic.table[(traffic.table.space == "global") & (traffic.table.kind == "load")].set_index("tensor").bytes
        rows += [{"kernel": title, "tensor": t, "reuse": uses / (loads[t] / 4)} for t in ("Q", "K", "V") if t in loads]
    return pd.DataFrame(rows, columns=["kernel", "tensor", "reuse"])


def cumulative_chart(tiling, clock_selector):
    """Bytes moved to and from global memory so far, by tensor, over the steps; a rule follows the clock (no server trip)."""
    part = tiling.traffic[tiling.traffic.space == "global"]
    table = part.assign(access=_access_names(part)).pivot_table(index="step", columns="access", values="bytes", aggfunc="sum", observed=True)
    table = table.reindex(range(len(tiling.frames))).fillna(0).cumsum().reset_index().melt("step", var_name="access", value_name="bytes")
    names = [name for name in ACCESSES if name in set(table["access"])]
    step = alt.param(name="step", value=0, bind=alt.BindDirect(element=clock_selector, event="input"))
    x = alt.X("step:Q", title="step", axis=alt.Axis(tickMinStep=1, format="d", grid=False), scale=alt.Scale(domain=[0, len(tiling.frames) - 1], nice=False))
    line = alt.Chart(table).mark_line(interpolate="step-after", strokeWidth=2.5).encode(
        x=x, y=alt.Y("bytes:Q", title="bytes so far", axis=alt.Axis(format="~s")),
        color=alt.Color("access:N", title=None, legend=alt.Legend(orient="top", columns=4), scale=alt.Scale(domain=names, range=[TENSOR[n[0]] for n in names])),
        strokeDash=alt.StrokeDash("access:N", title=None, scale=alt.Scale(domain=names, range=[[1, 0] if "read" in n else [5, 3] for n in names])),
        tooltip=[alt.Tooltip("access:N", title="access"), "step:Q", alt.Tooltip("bytes:Q", format=",")])
    now = alt.Chart(pd.DataFrame({"rule": [0]})).mark_rule(color=AXIS, strokeWidth=1.5).encode(x=alt.XDatum(alt.ExprRef("toNumber(step)"), type="quantitative"))
    return (line + now).add_params(step).properties(height=280)


def traffic_chart(comparison):
    """How many times each tensor's size goes between the chip and global memory, kernel beside kernel."""
    table = comparison.assign(access=_access_names(comparison))
    ticks = [0, 1, *(4**n for n in range(1, 8))]
    return alt.Chart(table).mark_bar().encode(
        x=alt.X("times:Q", title="times its own size (logarithmic)", scale=alt.Scale(type="symlog", constant=1), axis=alt.Axis(values=ticks, format="d")),
        y=alt.Y("access:N", title=None, sort=list(ACCESSES)), yOffset=alt.YOffset("kernel:N", sort=list(dict.fromkeys(table.kernel))),
        color=alt.Color("kernel:N", title=None, sort=None, legend=alt.Legend(orient="top"),
                        scale=alt.Scale(domain=list(dict.fromkeys(table.kernel)), range=[OKABE_ITO[c] for c in ("sky", "orange", "vermillion", "green")])),
        tooltip=["kernel:N", alt.Tooltip("access:N", title="access"), alt.Tooltip("bytes:Q", format=","),
                 alt.Tooltip("times:Q", format=".2f", title="times its size")],
    ).properties(height=48 * table.access.nunique())


ACCESSES = ("Q read", "K read", "V read", "S written", "S read", "P written", "P read", "O written")


def _access_names(table):
    return table.tensor.astype(str) + table.kind.astype(str).map({"load": " read", "store": " written"})
