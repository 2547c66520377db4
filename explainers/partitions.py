"""PagedAttention V1 beside V2 for one query head: what each thread block has done by each step, each partition's m and l, and how the
second kernel combines them."""

from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from explainers import steps as cutting
from explainers.palette import AXIS, OKABE_ITO

DOING = {"load_q": "loading Q", "softmax": "computing m and l", "write_part": "writing m, l and sums", "write": "writing O"}


@dataclass(frozen=True)
class Comparison:
    """frames: one dict per step, for the browser. table: one row per partition: partition, tokens, m, l, weight (e^(m_i - m)), all as
    logged. v1, v2: {"m", "l"} of the whole context, as logged by each kernel. difference: the largest between the two outputs."""

    frames: list[dict]
    table: pd.DataFrame
    v1: dict
    v2: dict
    difference: float


def compare(run_v1, run_v2, name):
    """The Comparison of a Run of each kernel on the same problem, both over the same query head of the sequence called `name`."""
    problem, item = run_v1.request.problem, run_v1.request.scope.first
    sequence, head = divmod(item, problem.num_heads)
    length, partition_size = problem.context_lens[sequence], run_v2.request.constants["PARTITION"]
    (one, values_v1), (two, values_v2) = (_lanes(run) for run in (run_v1, run_v2))
    reduce = two.pop(-1)
    two = {number: lane for number, lane in two.items() if len(lane) > 1}  # a partition without tokens leaves at once
    table = _partition_table(values_v2, length, partition_size)
    v1 = {key: _value(values_v1, key) for key in ("m", "l")}
    v2 = {key: _value(values_v2, f"{key}_all") for key in ("m", "l")}
    story = _Steps(one[0], two, reduce, table, v1, v2, length, partition_size, name)
    o1, o2 = (run.arrays["o"][sequence, head].astype(np.float64) for run in (run_v1, run_v2))
    return Comparison([story.frame(n) for n in range(story.count)], table, v1, v2, float(np.abs(o1 - o2).max()))


def _lanes(run):
    """({block within the item, or -1 for the reduce: its steps as dicts of phase, tokens and lines}, the value records)."""
    cut, blocks = cutting.cut(run.trace, run.request.sites), run.request.plan.launches[0].blocks_per_item
    frame = run.trace.frame()
    frame = frame.assign(step=cut.of_record, event=frame.event.astype(str), tensor=frame.tensor.astype(str), space=frame.space.astype(str))
    tokens = frame[(frame.space == "global") & frame.tensor.isin(["K", "V"])].groupby("step").token
    first, last = tokens.min(), tokens.max()
    wide = 16 // np.dtype(run.request.problem.dtype).itemsize
    lit = cutting.lit_lines(run.trace, cut, run.request.sites)
    lanes = {}
    for number, step in cut.table.iterrows():
        lane = lanes.setdefault(-1 if step.launch else int(step.block) % blocks, [])
        span = None
        if number in first.index:
            end = int(last[number]) + (wide if step.phase == "walk_v" else 1)  # a V load names the first of the tokens it brings
            span = [int(first[number]), end]
        lane.append({"phase": step.phase, "tokens": span, "lines": lit[number]})
    return lanes, frame[frame.value.notna()]


def _partition_table(values, length, size):
    weights = values[values.event == "weight"].set_index(values[values.event == "weight"].partition.astype(int)).value
    rows = []
    for partition in sorted(weights.index):
        m, l = (values[(values.event == key) & (values.partition == partition)].value.iloc[0] for key in ("m", "l"))
        rows.append({"partition": partition, "first": partition * size, "end": min(length, (partition + 1) * size), "m": float(m), "l": float(l),
                     "weight": float(weights[partition])})
    return pd.DataFrame(rows)


def _value(values, event):
    return float(values[values.event == event].value.iloc[0])


class _Steps:
    """Both kernels on one clock: step n is every block's n-th step; the second kernel of V2 begins when all its partitions are done."""

    def __init__(self, one, two, reduce, table, v1, v2, length, size, name):
        self.one, self.two, self.reduce, self.table, self.v1, self.v2 = one, two, reduce, table, v1, v2
        self.length, self.size, self.name = length, size, name
        self.parts_done = max(len(lane) for lane in two.values())
        self.count = max(len(one), self.parts_done + len(reduce))

    def frame(self, number):
        v1, v2 = self._lane(self.one, number, 0, self.length), [
            self._lane(lane, number, p * self.size, min(self.length, (p + 1) * self.size)) for p, lane in self.two.items()]
        at = number - self.parts_done
        reduce = None if at < 0 else self.reduce[min(at, len(self.reduce) - 1)]["phase"] if at < len(self.reduce) else "done"
        lines = {"v1": self._lines(self.one, number), "v2": self._sum_lines(number) if at < 0 else self._lines(self.reduce, at)}
        return {"tile": number, "title": f"Step {number + 1}", "sentence": self._sentence(number, v1, v2, reduce), "v1": v1, "v2": v2, "reduce": reduce,
                "lines_v1": lines["v1"], "lines_v2": lines["v2"]}

    @staticmethod
    def _lines(lane, number):
        return lane[number]["lines"] if number < len(lane) else {}

    def _sum_lines(self, number):
        total = {}
        for lane in self.two.values():
            for line, count in self._lines(lane, number).items():
                total[line] = total.get(line, 0) + count
        return total

    @staticmethod
    def _lane(lane, number, first, end):
        """What a block has done by the end of a step: its phase, and how far it has come through K and V."""
        done = {"walk_k": first, "walk_v": first}
        for step in lane[:number + 1]:
            if step["tokens"]:
                done[step["phase"]] = min(end, max(done[step["phase"]], step["tokens"][1]))
        phase = lane[number]["phase"] if number < len(lane) else "done"
        state = any(step["phase"] == "softmax" for step in lane[:number + 1])
        return {"phase": phase, "first": first, "end": end, "k": done["walk_k"], "v": done["walk_v"], "state": state}

    def _sentence(self, number, v1, v2, reduce):
        said = [f"V1: one block, {self._doing(v1)}."]
        if reduce is None:
            doing = {self._doing(lane, brief=True) for lane in v2}
            said.append(f"V2: {len(v2)} block{'s' if len(v2) > 1 else ''}, {' and '.join(sorted(doing))}.")
        elif reduce == "combine":
            terms = " + ".join(f"{row.l:.4g} x {row.weight:.3g}" for row in self.table.head(4).itertuples()) + (" + ..." if len(self.table) > 4 else "")
            said.append(f"V2's second kernel: m = {self.v2['m']:.4g}, l = {terms} = {self.v2['l']:.4g}.")
        elif reduce == "write":
            said.append("V2's second kernel adds the partial outputs, each times its e^(m_i - m), divides by l and writes O.")
        else:
            said.append("V2 is done.")
        return " ".join(said)

    def _doing(self, lane, brief=False):
        if lane["phase"] == "done":
            return "done"
        if lane["phase"] in ("walk_k", "walk_v"):
            key = lane["phase"][-1]
            count = lane[key] - lane["first"]
            return f"walking {key.upper()}" + ("" if brief else f", {count} of {lane['end'] - lane['first']} tokens so far")
        if lane["phase"] == "softmax" and not brief:
            return f"m = {self.v1['m']:.4g} and l = {self.v1['l']:.4g}"
        return DOING[lane["phase"]]


def grids(request_v1, request_v2):
    """kernel, launch, grid, blocks, threads per block, from the plans; blocks that have tokens to walk counted apart."""
    rows = []
    for request in (request_v1, request_v2):
        lens, size = request.problem.context_lens, request.constants.get("PARTITION")
        for launch in request.plan.launches:
            blocks = int(np.prod(launch.grid))
            busy = request.problem.num_heads * sum(-(-length // size) for length in lens) if launch.entry == "paged_v2" else blocks
            rows.append({"kernel": launch.entry, "grid": " x ".join(map(str, launch.grid)), "blocks": blocks, "with tokens": busy,
                         "threads each": launch.threads, "shared bytes each": launch.shared_bytes})
    return pd.DataFrame(rows)


# ---- enough blocks to fill the GPU ----

LENGTHS = tuple(2**n for n in range(7, 18))
BATCHES = (1, 4, 16, 64)


def blocks_table(heads, partition):
    """context length, batch, kernel, blocks: the grids' sizes by formula."""
    rows = [(length, batch, kernel, heads * batch * (1 if kernel == "V1" else -(-length // partition)))
            for length in LENGTHS for batch in BATCHES for kernel in ("V1", "V2")]
    return pd.DataFrame(rows, columns=["context length", "batch", "kernel", "blocks"])


def blocks_chart(table, multiprocessors):
    """Thread blocks against context length; the rule is one block per multiprocessor."""
    colours = [OKABE_ITO[c] for c in ("vermillion", "orange", "green", "blue")]
    x = alt.X("context length:Q", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=list(LENGTHS[::2]), format="d", grid=False))
    y = alt.Y("blocks:Q", title="thread blocks", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", grid=False, values=[10**n for n in range(1, 7)]))
    colour = alt.Color("batch:O", title="sequences", scale=alt.Scale(domain=list(BATCHES), range=colours), legend=alt.Legend(symbolType="stroke"))
    tip = ["kernel:N", "batch:O", alt.Tooltip("context length:Q", format=","), alt.Tooltip("blocks:Q", format=",")]
    dash = alt.StrokeDash("kernel:N", title="kernel", scale=alt.Scale(domain=["V2", "V1"], range=[[1, 0], [5, 3]]))
    line = alt.Chart(table).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tip)
    points = alt.Chart(table).mark_circle(size=28, opacity=1).encode(x=x, y=y, color=colour, tooltip=tip)
    full = pd.DataFrame({"blocks": [multiprocessors], "context length": [LENGTHS[-1]], "said": [f"{multiprocessors} multiprocessors"]})
    rule = alt.Chart(full).mark_rule(color=AXIS, strokeWidth=2).encode(y="blocks:Q")
    text = alt.Chart(full).mark_text(color=AXIS, align="right", dy=9, fontSize=12).encode(x=x, y="blocks:Q", text="said:N")
    return (rule + line + points + text).properties(height=300)


def fill_table(heads, partition, multiprocessors):
    """sequences, V1 blocks, whether they fill the GPU, and the shortest context at which V2's do."""
    rows = []
    for batch in (1, 2, 4, 8, 16, 32, 64):
        blocks = heads * batch
        needed = max(1, -(-multiprocessors // blocks))  # partitions per query head
        rows.append({"sequences": batch, "V1 blocks": blocks, "V1 fills it": "yes" if blocks >= multiprocessors else "no",
                     "V2 fills it from": 1 if needed == 1 else (needed - 1) * partition + 1, "partitions then": needed})
    return pd.DataFrame(rows)


def fill_sentence(heads, partition, multiprocessors, device):
    """When V2 is worth its second launch, in a sentence with its numbers."""
    first = fill_table(heads, partition, multiprocessors).iloc[0]
    enough = -(-multiprocessors // heads)
    return (f"{device} has {multiprocessors} multiprocessors; with at least one block for each none idles. One sequence of {heads} query heads gives V1 "
            f"{first['V1 blocks']} blocks, at any context length; V2 has at least {multiprocessors} from context length "
            f"{first['V2 fills it from']:,} on. From {enough} sequence{'s' if enough > 1 else ''} on V1 has enough blocks too, though a long context "
            "among short ones still keeps one block busy alone.")
