"""A kernel that walks a whole context (V1) beside one that cuts it into partitions (V2), for one query head: what each
thread block has done by each step, each partition's m and l, and how the second launch combines them. When V2 is worth
it: partition_blocks.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.block_table import block_table, paging
from explainers.stories.block_table.paging import Paged
from explainers.story import probed, stage
from explainers.story.frames import Lane, Lines, Part, PartitionsFrame, PartitionsMeta
from explainers.story.glossary import count, phase_title
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.probes import sites_of

SIZE = "PARTITION"  # the constant that says how many tokens a partition has
NEEDS = {"weight": ("partition",), "m": ("partition",), "l": ("partition",), "m_all": (), "l_all": ()}
WANTS = tuple(NEEDS)
MOST_PARTS = 8  # partitions that the strip lists; the tab has all
DOING = {
    "load_q": "loading Q",
    "softmax": "computing m and l",
    "write_part": "writing m, l and sums",
    "write": "writing O",
}


@dataclass(frozen=True)
class Comparison:
    """frames: one per step, for the browser. parts: one per partition, as logged. v1, v2: {"m", "l"} of the whole
    context, as logged by each kernel. difference: the largest between the two outputs."""

    frames: list[PartitionsFrame]
    parts: list[Part]
    v1: dict[str, float]
    v2: dict[str, float]
    difference: float

    @property
    def table(self) -> pd.DataFrame:
        """parts as a table: partition, first, end, m, l, weight."""
        return pd.DataFrame(self.parts)


def accepts(spec: KernelSpec) -> bool:
    """V2: a walk through pages in partitions, whose m, l and weights are logged."""
    return block_table.accepts(spec) and probed.logs(spec, NEEDS) and any(c.name == SIZE for c in spec.constants)


def accepts_whole(spec: KernelSpec) -> bool:
    """V1: a walk through pages by one block for each query head."""
    return block_table.accepts(spec) and not accepts(spec) and probed.sample(spec).plan.launches[0].blocks_per_item == 1


def compare(run_v1: Run, run_v2: Run, name: str) -> Comparison:
    """The Comparison of a Run of each kernel on the same problem, both over the same query head of the sequence called
    `name`."""
    paged = Paged(run_v1.request)
    sequence, head = paged.place
    length, size = int(paging.lengths(run_v1)[sequence]), run_v2.request.constants[SIZE]
    (one, values_v1), (two, values_v2) = (_lanes(run) for run in (run_v1, run_v2))
    reduce = two.pop(-1)
    two = {number: lane for number, lane in two.items() if len(lane) > 1}  # a partition without tokens leaves at once
    parts = _parts(values_v2, length, size)
    v1 = {key: _value(values_v1, key) for key in ("m", "l")}
    v2 = {key: _value(values_v2, f"{key}_all") for key in ("m", "l")}
    story = _Steps(one[0], two, reduce, parts, v1, v2, length, size)
    output = paged.o[1].name
    o1, o2 = (run.arrays[output][sequence, head].astype(np.float64) for run in (run_v1, run_v2))
    return Comparison([story.frame(n) for n in range(story.count)], parts, v1, v2, float(np.abs(o1 - o2).max()))


def view(story: Comparison, length: int, name: str, head: int) -> PartitionsMeta:
    """What the view `partitions` draws. length: tokens of the context; name: of the sequence; head: the query head."""
    return {
        "frames": story.frames,
        "length": length,
        "parts": story.parts,
        "v1": story.v1,
        "v2": story.v2,
        "name": name,
        "head": head,
    }


def stage_of(
    run_v1: Run, run_v2: Run, name: str, provenance: stage.Provenance, tabs: Sequence[stage.Tab] = ()
) -> stage.Stage:
    """The whole stage: both kernels on one clock, over the same query head of the sequence called `name`."""
    story = compare(run_v1, run_v2, name)
    sequence, head = Paged(run_v1.request).place
    made = view(story, int(paging.lengths(run_v1)[sequence]), name, head)
    requests = [run.request for run in (run_v1, run_v2)]
    lit = [f"lines_v{n}" for n in (1, 2)]
    return stage.Stage(
        headline="V1 gives a whole context to one thread block; V2 cuts it into partitions, one block each, and a "
        "second kernel combines them by their m and l.",
        frames=story.frames,
        views=[stage.View("partitions", "partitions", "V1 beside V2", made)],
        codes=[stage.code(request, story.frames, lit[n], side=n) for n, request in enumerate(requests)],
        state=states(story),
        tabs=[stage.Tab("parts", "Partitions", parts_blocks(story, run_v2)), *tabs],
        provenance=provenance,
    )


def states(story: Comparison) -> list[stage.State]:
    """The strip: m and l of both kernels and the weights of the first partitions, each from the step on in which it is
    known."""
    known = [f["v1"]["state"] for f in story.frames]
    combined = [f["reduce"] is not None for f in story.frames]

    def state(name: str, number: float, since: Sequence[bool], side: int, digits: int = 4) -> stage.State:
        return stage.State(name, [f"{number:.{digits}g}" if yes else None for yes in since], side=side)

    whole = [
        state(f"{kernel} {key}", values[key], since, side)
        for side, (kernel, values, since) in enumerate((("V1", story.v1, known), ("V2", story.v2, combined)))
        for key in ("m", "l")
    ]
    parts = story.parts[:MOST_PARTS]
    return whole + [state(f"weight {part['partition']}", part["weight"], combined, 1, 3) for part in parts]


def parts_blocks(story: Comparison, run_v2: Run) -> list[stage.Block]:
    """Every partition with its numbers, and how they make those of the whole."""
    table = story.table.assign(tokens=[f"{p['first']} to {p['end'] - 1}" for p in story.parts])
    table = table.assign(**{"l_i e^(m_i - m)": table.l * table.weight})
    names = {"m": "m_i", "l": "l_i", "weight": "e^(m_i - m)"}
    table = table[["partition", "tokens", *names, "l_i e^(m_i - m)"]].rename(columns=names)
    whole = [
        {"partition": name, "tokens": "all", "m_i": values["m"], "l_i": values["l"], "e^(m_i - m)": None}
        | {"l_i e^(m_i - m)": total}
        for name, values, total in (("V2 in all", story.v2, story.v2["l"]), ("V1", story.v1, None))
    ]
    table = pd.concat([table.astype({"partition": str}), pd.DataFrame(whole, dtype=object)], ignore_index=True)
    size, default = run_v2.request.constants[SIZE], run_v2.request.kernel.settings()[SIZE]
    return [
        stage.table(table, "As logged: m = max m_i;  l = \u03a3 l_i e^(m_i - m);  O = \u03a3 O_i e^(m_i - m) / l"),
        stage.text(
            "Step n is every block's n-th step; a step is not a time. Largest difference between the two outputs of "
            f"this query head: {story.difference:.2g}. V2 here cuts at {size} tokens, so that short contexts too are "
            f"cut; its default is {default}."
        ),
    ]


def _lanes(run: Run) -> tuple[dict[int, list[dict[str, Any]]], pd.DataFrame]:
    """({block within the item, or -1 for the second launch: its steps as dicts of phase, tokens and lines}, the value
    records)."""
    sites, paged = sites_of(run.request), Paged(run.request)
    cut, blocks = cutting.cut(run.trace, sites), run.request.plan.launches[0].blocks_per_item
    frame = run.trace.frame()
    frame = frame.assign(step=cut.of_record, **{name: frame[name].astype(str) for name in ("event", "tensor", "space")})
    caches = [paged.k[0], paged.v[0]]
    loads = frame[(frame.space == "global") & frame.tensor.isin(caches) & (frame.step >= 0)]
    # A load of V names the first of the tokens that it brings; one of K brings a single token.
    brings = np.where(loads.tensor == paged.v[0], 16 // paged.v[1].itemsize, 1)
    first, end = loads.groupby("step").token.min(), loads.assign(end=loads.token + brings).groupby("step").end.max()
    lit = cutting.lit_lines(run.trace, cut, sites)
    lanes: dict[int, list[dict[str, Any]]] = {}
    for number, step in cut.table.iterrows():
        lane = lanes.setdefault(-1 if step.launch else int(step.block) % blocks, [])
        span = [int(first[number]), int(end[number])] if number in first.index else None
        lane.append({"phase": step.phase, "tokens": span, "lines": lit[number]})
    return lanes, frame[frame.value.notna()]


def _parts(values: pd.DataFrame, length: int, size: int) -> list[Part]:
    weights = values[values.event == "weight"]
    by_partition = dict(sorted(zip(weights.partition.astype(int), weights.value.astype(float))))
    found: list[Part] = []
    for partition, weight in by_partition.items():
        m, l = (
            float(values[(values.event == key) & (values.partition == partition)].value.iloc[0]) for key in ("m", "l")
        )
        first, end = partition * size, min(length, (partition + 1) * size)
        found.append({"partition": partition, "first": first, "end": end, "m": m, "l": l, "weight": weight})
    return found


def _value(values: pd.DataFrame, event: str) -> float:
    return float(values[values.event == event].value.iloc[0])


@dataclass(frozen=True)
class _Steps:
    """Both kernels on one clock: step n is every block's n-th step; the second launch of V2 begins when all its
    partitions are done."""

    one: list[dict[str, Any]]
    two: dict[int, list[dict[str, Any]]]
    reduce: list[dict[str, Any]]
    parts: list[Part]
    v1: dict[str, float]
    v2: dict[str, float]
    length: int
    size: int

    @property
    def parts_done(self) -> int:
        return max(len(lane) for lane in self.two.values())

    @property
    def count(self) -> int:
        return max(len(self.one), self.parts_done + len(self.reduce))

    def frame(self, number: int) -> PartitionsFrame:
        v1 = _lane(self.one, number, 0, self.length)
        v2 = [_lane(lane, number, p * self.size, min(self.length, (p + 1) * self.size)) for p, lane in self.two.items()]
        at = number - self.parts_done
        reduce = None if at < 0 else self.reduce[at]["phase"] if at < len(self.reduce) else "done"
        return {
            "tile": number,
            "title": f"Step {number + 1}",
            "sentence": " ".join(sentences := [f"V1: {self._said_v1(v1)}.", self._said_v2(v2, reduce)]),
            "sentences": sentences,
            "v1": v1,
            "v2": v2,
            "reduce": reduce,
            "lines_v1": _lines(self.one, number),
            "lines_v2": self._sum_lines(number) if at < 0 else _lines(self.reduce, at),
        }

    def _sum_lines(self, number: int) -> Lines:
        total: Lines = {}
        for lane in self.two.values():
            for line, times in _lines(lane, number).items():
                total[line] = total.get(line, 0) + times
        return total

    def _said_v1(self, lane: Lane) -> str:
        return f"one block, {self._doing(lane)}"

    def _said_v2(self, lanes: list[Lane], reduce: str | None) -> str:
        if reduce is None:
            doing = {self._doing(lane, brief=True) for lane in lanes}
            return f"V2: {count(len(lanes), 'block')}, {' and '.join(sorted(doing))}."
        if reduce == "combine":
            terms = [f"{part['l']:.4g} x {part['weight']:.3g}" for part in self.parts]
            sum_ = " + ".join(terms[:4]) + (" + ..." if len(terms) > 4 else "")
            return f"V2's second kernel: m = {self.v2['m']:.4g}, l = {sum_} = {self.v2['l']:.4g}."
        if reduce == "write":
            return "V2's second kernel adds the partial outputs, each times its e^(m_i - m), divides by l and writes O."
        return "V2 is done." if reduce == "done" else f"V2's second kernel: {phase_title(reduce).lower()}."

    def _doing(self, lane: Lane, brief: bool = False) -> str:
        if lane["phase"] == "done":
            return "done"
        if lane["phase"] in ("walk_k", "walk_v"):
            walked = (lane["k"] if lane["phase"] == "walk_k" else lane["v"]) - lane["first"]
            far = "" if brief else f", {walked} of {lane['end'] - lane['first']} tokens so far"
            return f"walking {lane['phase'][-1].upper()}{far}"
        if lane["phase"] == "softmax" and not brief:
            return f"m = {self.v1['m']:.4g} and l = {self.v1['l']:.4g}"
        return DOING.get(lane["phase"]) or phase_title(lane["phase"]).lower()


def _lines(lane: list[dict[str, Any]], number: int) -> Lines:
    return lane[number]["lines"] if number < len(lane) else {}


def _lane(lane: list[dict[str, Any]], number: int, first: int, end: int) -> Lane:
    """What a block has done by the end of a step: its phase, and how far it has come through K and V."""
    done = {"walk_k": first, "walk_v": first}
    for step in lane[: number + 1]:
        if step["tokens"] and step["phase"] in done:
            done[step["phase"]] = min(end, max(done[step["phase"]], step["tokens"][1]))
    phase = lane[number]["phase"] if number < len(lane) else "done"
    state = any(step["phase"] == "softmax" for step in lane[: number + 1])
    return {"phase": phase, "first": first, "end": end, "k": done["walk_k"], "v": done["walk_v"], "state": state}
