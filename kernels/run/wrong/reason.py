"""The reason of a wrong result."""

from dataclasses import dataclass

KINDS = {
    "scale": "the scale",
    "rescale": "the rescale of l and O",
    "max": "the running max",
    "sum": "a sum",
    "weights": "the function of the weights",
    "bound": "a bound",
    "mask": "the mask",
    "lanes": "the map of lanes",
    "stride": "a stride",
    "barrier": "a missing barrier",
    "atomic": "a missing atomic",
    "unwritten": "a missing write",
    "nan": "rows without numbers",
    "rounding": "roundings",
    "unknown": "no known mistake",
}
"""A kind of mistake -> its name in a sentence."""


@dataclass(frozen=True)
class First:
    """The first wrong intermediate of the probes, in the order S, m, l, P, O.

    row, tile, key: its place. None for a place that the probe does not give.
    value, truth: of the kernel, and in float64.
    """

    name: str
    event: str
    file: str
    line: int
    head: tuple[int, ...]
    row: int
    tile: int | None
    key: int | None
    warp: int
    lane: int
    value: float
    truth: float

    @property
    def text(self) -> str:
        place = f"row {self.row}" if len(self.head) else "one row"
        place += f", tile {self.tile}" if self.tile is not None else ""
        place += f", key {self.key}" if self.key is not None else ""
        where = f"line {self.line} of lane {self.lane}"
        return f"The first wrong value is {self.name} of {place}, from {where}: {self.value:.4g}, not {self.truth:.4g}."


@dataclass(frozen=True)
class Reason:
    """Why a result is wrong.

    text: a sentence with the evidence.
    index: the first wrong element of the output, or ().
    first: the first wrong intermediate, if probes show it.
    """

    kind: str
    text: str
    index: tuple[int, ...] = ()
    first: First | None = None

    @property
    def sentence(self) -> str:
        return f"{self.text} {self.first.text}" if self.first else self.text

    def as_json(self) -> dict[str, object]:
        first = {**vars(self.first), "head": list(self.first.head)} if self.first else None
        return {"kind": self.kind, "text": self.text, "index": list(self.index), "first": first}
