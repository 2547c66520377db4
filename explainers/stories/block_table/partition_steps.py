"""The steps of both kernels on one clock."""

from dataclasses import dataclass
from typing import Any

from explainers.stories.block_table.walk_types import Lane, Part, PartitionsFrame
from explainers.story.frames import Lines
from explainers.story.glossary import count, phase_title

DOING = {
    "load_q": "loading Q",
    "softmax": "computing m and l",
    "write_part": "writing m, l and sums",
    "write": "writing O",
}


@dataclass(frozen=True)
class Steps:
    """Both kernels on one clock. Step n is every block's n-th step.

    The second launch of V2 starts after all its partitions.
    """

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
    """Returns the state of a block at the end of a step: its phase, and its progress through K and V."""
    done = {"walk_k": first, "walk_v": first}
    for step in lane[: number + 1]:
        if step["tokens"] and step["phase"] in done:
            done[step["phase"]] = min(end, max(done[step["phase"]], step["tokens"][1]))
    phase = lane[number]["phase"] if number < len(lane) else "done"
    state = any(step["phase"] == "softmax" for step in lane[: number + 1])
    return {"phase": phase, "first": first, "end": end, "k": done["walk_k"], "v": done["walk_v"], "state": state}
