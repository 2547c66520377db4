"""The steps of both kernels on one clock."""

from dataclasses import dataclass

from explainers.stories.block_table.walk_types import Lane, Part, PartitionsFrame
from explainers.story.frames import Lines
from explainers.story.glossary import count, phase_title, short

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
