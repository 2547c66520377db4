"""A kernel that walks a whole context next to one that cuts it into partitions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
import pandas as pd

from explainers.stories.block_table import block_table, paging
from explainers.stories.block_table.paging import Paged
from explainers.story import probed, stage
from explainers.story.frames import Frame, Lines
from explainers.story.glossary import count, phase_title, short
from kernels.build.occupancy import MACHINES
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace import steps as cutting


class Lane(TypedDict):
    """The progress of a block at the end of a step.

    phase: the current phase, or done.
    first, end: its tokens.
    k, v: the tokens of K and V so far.
    state: whether its m and l are there.
    """

    phase: str
    first: int
    end: int
    k: int
    v: int
    state: bool


class PartitionsFrame(Frame):
    """A step of both kernels.

    sentences: of each.
    v1: the one block of the kernel without partitions.
    v2: the blocks of the kernel with partitions.
    reduce: the phase of the second launch, None before it, or done.
    lines_v1, lines_v2: Frame.lines of each kernel.
    """

    sentences: list[str]
    v1: Lane
    v2: list[Lane]
    reduce: str | None
    lines_v1: Lines
    lines_v2: Lines


class Part(TypedDict):
    """A logged partition: tokens first to end, m, l, and weight e^(m_i - m)."""

    partition: int
    first: int
    end: int
    m: float
    l: float
    weight: float


class PartitionsMeta(TypedDict):
    """The fields of the view.

    length: tokens of the context.
    v1, v2: {"m", "l"} of the whole context by each kernel.
    name: of the sequence.
    head: the query head.
    multiprocessors: SMs of the GPU.
    """

    frames: list[PartitionsFrame]
    length: int
    parts: list[Part]
    v1: dict[str, float]
    v2: dict[str, float]
    name: str
    head: int
    multiprocessors: int


DOING = {
    "load_q": "loading Q",
    "softmax": "computing m and l",
    "write_part": "writing m, l and outputs",
    "write": "writing O",
}


@dataclass(frozen=True)
class BlockStep:
    """A step of a block.

    tokens: (first, end) of its loads of K or V, None without a load.
    lines: its source lines.
    """

    phase: str
    tokens: tuple[int, int] | None
    lines: Lines


@dataclass(frozen=True)
class Steps:
    """Both kernels on one clock. Step n is every block's n-th step.

    The second launch of V2 starts after all its partitions.
    """

    one: list[BlockStep]
    two: dict[int, list[BlockStep]]
    reduce: list[BlockStep]
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
        """Returns the frame of a step of the clock."""
        v1 = _lane(self.one, number, 0, self.length)
        v2 = [self._partition(lane, partition, number) for partition, lane in self.two.items()]
        of_reduce = number - self.parts_done  # the step of the second launch
        reduce = None if of_reduce < 0 else _phase(self.reduce, of_reduce)
        sentences = [f"V1: one block, {self._doing(v1)}.", self._v2_sentence(v2, reduce)]
        return {
            "tile": number,
            "title": f"Step {number + 1}",
            "sentence": " ".join(sentences),
            "sentences": sentences,
            "v1": v1,
            "v2": v2,
            "reduce": reduce,
            "lines_v1": _lines(self.one, number),
            "lines_v2": self._sum_lines(number) if reduce is None else _lines(self.reduce, of_reduce),
        }

    def _partition(self, lane: list[BlockStep], partition: int, number: int) -> Lane:
        first = partition * self.size
        return _lane(lane, number, first, min(self.length, first + self.size))

    def _sum_lines(self, number: int) -> Lines:
        total: Lines = {}
        for lane in self.two.values():
            for line, times in _lines(lane, number).items():
                total[line] = total.get(line, 0) + times
        return total

    def _v2_sentence(self, lanes: list[Lane], reduce: str | None) -> str:
        if reduce is None:
            doing = {self._doing(lane, brief=True) for lane in lanes}
            return f"V2: {count(len(lanes), 'block')}, {' and '.join(sorted(doing))}."
        if reduce == "combine":
            return f"V2's second kernel scales each part by e^(m_i - m) and adds: l = {short(self.v2['l'])}."
        if reduce == "write":
            return "V2's second kernel scales and adds the outputs, divides by l and writes O."
        return "V2 is done." if reduce == "done" else f"V2's second kernel: {phase_title(reduce).lower()}."

    def _doing(self, lane: Lane, brief: bool = False) -> str:
        phase = lane["phase"]
        if phase == "done":
            return "done"
        if phase in ("walk_k", "walk_v"):
            return _walking(lane, brief)
        if phase == "softmax" and not brief:
            return f"m = {short(self.v1['m'])} and l = {short(self.v1['l'])}"
        return DOING.get(phase) or phase_title(phase).lower()


def _walking(lane: Lane, brief: bool) -> str:
    """Returns the progress of a block through K or V."""
    of_k = lane["phase"] == "walk_k"
    name, end = ("K", lane["k"]) if of_k else ("V", lane["v"])
    if brief:
        return f"reading {name}"
    return f"reading {name}, {end - lane['first']} of {lane['end'] - lane['first']} tokens so far"


def _phase(lane: list[BlockStep], number: int) -> str:
    return lane[number].phase if number < len(lane) else "done"


def _lines(lane: list[BlockStep], number: int) -> Lines:
    return lane[number].lines if number < len(lane) else {}


def _lane(lane: list[BlockStep], number: int, first: int, end: int) -> Lane:
    """Returns the state of a block at the end of a step: its phase, and its progress through K and V."""
    walked = {"walk_k": first, "walk_v": first}
    so_far = lane[: number + 1]
    for step in so_far:
        if step.tokens and step.phase in walked:
            walked[step.phase] = min(end, max(walked[step.phase], step.tokens[1]))
    return {
        "phase": _phase(lane, number),
        "first": first,
        "end": end,
        "k": walked["walk_k"],
        "v": walked["walk_v"],
        "state": any(step.phase == "softmax" for step in so_far),
    }


NEEDS = {"weight": ("partition",), "m": ("partition",), "l": ("partition",), "m_all": (), "l_all": ()}
WANTS = tuple(NEEDS)
SMS = MACHINES["sm_90"].multiprocessors  # where no GPU is known


@dataclass(frozen=True)
class Comparison:
    """Both kernels over one query head.

    frames: one for each step.
    parts: one for each partition, as logged.
    v1, v2: {"m", "l"} of the whole context, as each kernel logged it.
    difference: the largest difference between the outputs.
    """

    frames: list[PartitionsFrame]
    parts: list[Part]
    v1: dict[str, float]
    v2: dict[str, float]
    difference: float

    @property
    def table(self) -> pd.DataFrame:
        """Returns the parts as a table: partition, first, end, m, l, weight."""
        return pd.DataFrame(self.parts)


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel (V2) walks pages in partitions, and logs their m, l and weights."""
    return block_table.accepts(spec) and probed.logs(spec, NEEDS) and spec.constant_of("partition") is not None


def partition_of(request: Request) -> int:
    """Returns the tokens of a partition, 0 for a kernel without partitions."""
    return request.value_of("partition") or 0


def accepts_whole(spec: KernelSpec) -> bool:
    """Whether the kernel (V1) walks pages with one block for each query head."""
    return block_table.accepts(spec) and not accepts(spec) and probed.sample(spec).plan.launches[0].blocks_per_item == 1


def compare(run_v1: Run, run_v2: Run, name: str) -> Comparison:
    """Returns the Comparison of two Runs of one problem, over one query head of one sequence. name: the sequence."""
    paged = Paged(run_v1.request)
    sequence, head = paged.place
    length, size = int(paging.lengths(run_v1)[sequence]), partition_of(run_v2.request)
    (one, values_v1), (two, values_v2) = (_lanes(run) for run in (run_v1, run_v2))
    reduce = two.pop(-1)
    two = {number: lane for number, lane in two.items() if len(lane) > 1}  # a partition without tokens exits at once
    parts = _parts(values_v2, length, size)
    v1 = {key: _value(values_v1, key) for key in ("m", "l")}
    v2 = {key: _value(values_v2, f"{key}_all") for key in ("m", "l")}
    story = Steps(one[0], two, reduce, parts, v1, v2, length, size)
    output = paged.o[1].name
    o1, o2 = (run.arrays[output][sequence, head].astype(np.float64) for run in (run_v1, run_v2))
    return Comparison([story.frame(n) for n in range(story.count)], parts, v1, v2, float(np.abs(o1 - o2).max()))


def view(story: Comparison, length: int, name: str, head: int, multiprocessors: int = SMS) -> PartitionsMeta:
    """Returns the meta of the view `partitions`.

    length: tokens of the context.
    name: the sequence.
    head: the query head.
    multiprocessors: SMs of the GPU.
    """
    return {
        "frames": story.frames,
        "length": length,
        "parts": story.parts,
        "v1": story.v1,
        "v2": story.v2,
        "name": name,
        "head": head,
        "multiprocessors": multiprocessors,
    }


def stage_of(
    run_v1: Run,
    run_v2: Run,
    name: str,
    provenance: stage.Provenance,
    tabs: Sequence[stage.Tab] = (),
    multiprocessors: int = SMS,
) -> stage.Stage:
    """Returns the whole stage of both kernels on one clock, over one query head of one sequence.

    name: the sequence.
    multiprocessors: SMs of the GPU.
    """
    story = compare(run_v1, run_v2, name)
    sequence, head = Paged(run_v1.request).place
    compared = view(story, int(paging.lengths(run_v1)[sequence]), name, head, multiprocessors)
    requests = [run.request for run in (run_v1, run_v2)]
    lit = [f"lines_v{n}" for n in (1, 2)]
    return stage.Stage(
        headline="V1 gives a whole context to one thread block. V2 cuts it into partitions, with a block for each.",
        frames=story.frames,
        views=[stage.View("partitions", "partitions", "V1 and V2", compared)],
        codes=[stage.code(request, story.frames, lit[n], side=n) for n, request in enumerate(requests)],
        state=states(story),
        tabs=[stage.Tab("parts", "Partitions", parts_blocks(story, run_v2)), *tabs],
        provenance=provenance,
        summary=gain_sentence(story, name, compared["length"]),
    )


def gain_sentence(story: Comparison, name: str, length: int) -> str:
    """Returns the gain of V2 in steps in a sentence."""
    last = len(story.frames)
    v1 = next((n for n, frame in enumerate(story.frames) if frame["v1"]["phase"] == "done"), last)
    v2 = next((n for n, frame in enumerate(story.frames) if frame["reduce"] == "done"), last)
    blocks = count(len(story.parts), "block")
    if v2 < v1:
        return (
            f"V2 shares the {length} tokens of {name} among {blocks}. Drawn in steps, it needs {v2} in place of {v1}."
        )
    cost = f"its second kernel costs more: {v2} steps against {v1}." if v2 > v1 else f"both need {v1} steps."
    return f"The {length} tokens of {name} are too few for V2. It has {blocks}, but {cost}"


def states(story: Comparison) -> list[stage.State]:
    """Returns the strip: m and l of both kernels, each from its step on."""
    known = [f["v1"]["state"] for f in story.frames]
    combined = [f["reduce"] is not None for f in story.frames]

    def state(name: str, number: float, since: Sequence[bool], side: int) -> stage.State:
        return stage.State(name, [short(number) if yes else None for yes in since], side=side)

    return [
        state(f"{kernel} {key}", values[key], since, side)
        for side, (kernel, values, since) in enumerate((("V1", story.v1, known), ("V2", story.v2, combined)))
        for key in ("m", "l")
    ]


def parts_blocks(story: Comparison, run_v2: Run) -> list[stage.Block]:
    """Returns every partition with its numbers, and their sum."""
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
    size, default = partition_of(run_v2.request), partition_of(replace(run_v2.request, settings=()))
    return [
        stage.table(table, "Logged: m = max m_i,  l = \u03a3 l_i e^(m_i - m),  O = \u03a3 O_i e^(m_i - m) / l"),
        stage.text(
            "In step n each block takes its own step n. A step is not a time. The two outputs of this query head "
            f"differ by at most {short(story.difference, 2)}. Here V2 cuts at {size} tokens, so that a short context "
            f"has partitions, too. Its default is {default}."
        ),
    ]


def _lanes(run: Run) -> tuple[dict[int, list[BlockStep]], pd.DataFrame]:
    """Returns the steps of each block, and the records with values.

    The key of a block is its number within the item, or -1 in the second launch.
    """
    sites, paged = run.sites, Paged(run.request)
    cut, blocks = cutting.cut(run.trace, sites), run.request.plan.launches[0].blocks_per_item
    frame = run.trace.frame()
    frame = frame.assign(step=cut.of_record, **{name: frame[name].astype(str) for name in ("event", "tensor", "space")})
    caches = [paged.k[0], paged.v[0]]
    loads = frame[(frame.space == "global") & frame.tensor.isin(caches) & (frame.step >= 0)]
    # A load of V names its first token. A load of K has one token.
    brings = np.where(loads.tensor == paged.v[0], 16 // paged.v[1].itemsize, 1)
    first, end = loads.groupby("step").token.min(), loads.assign(end=loads.token + brings).groupby("step").end.max()
    lit = cutting.lit_lines(run.trace, cut, sites)
    lanes: dict[int, list[BlockStep]] = {}
    for number, step in cut.table.iterrows():
        lane = lanes.setdefault(-1 if step.launch else int(step.block) % blocks, [])
        tokens = (int(first[number]), int(end[number])) if number in first.index else None
        lane.append(BlockStep(step.phase, tokens, lit[number]))
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


def asked(made: stage.Stage) -> dict[str, object]:
    """The names for the questions about the merge, and the contexts that V2 helps.

    low: the partition with the least weight, without the last one: the picture has no room for it.
    merged: the first step of the second kernel.
    """
    meta: PartitionsMeta = made.views[0].meta
    parts, frames = meta["parts"], meta["frames"]
    merged = next((n for n, f in enumerate(frames) if f["reduce"] is not None), len(frames) - 1)
    low = min(parts[:-1], key=lambda part: part["weight"], default=None)
    return {
        **{"view": "partitions", "parts": parts, "low": low, "merged": merged, "m": meta["v2"]["m"]},
        **{"length": meta["length"], "last": len(frames) - 1},
    }
