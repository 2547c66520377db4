"""The steps of a ring for its picture: products and copies, then the merge of one row."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np
import pandas as pd

from explainers.stories.ring.rounds import Merge, Moved, Round, followed, pieces, rounds
from explainers.story.frames import Frame, Number
from explainers.story.glossary import listed, short
from kernels.run.results import Run

SHOWN = 16  # dims of O in the picture
PRODUCTS, MERGE = ("score",), ("m_before", "m_after", "l_after", "o_after")


class Device(TypedDict):
    """A device in a step.

    part: of the keys it holds.
    share: its pairs over those of the busiest device.
    cells: [row piece, key piece] of the pairs.
    """

    part: int
    pairs: int
    share: float
    cells: list[list[int]]


class Merged(TypedDict):
    """The values of a row: before, of this step, after. o: the first dims, before and after."""

    m: list[Number]
    l: list[Number]
    shares: list[float]
    before: list[float]
    after: list[float]


class RingFrame(Frame):
    """One frame.

    step: of the ring.
    kind: products, or merge.
    devices: of the step. moves: [source, target, part] of its copies.
    merged: the followed row, or None.
    """

    step: int
    kind: str
    devices: list[Device]
    moves: list[list[int]]
    merged: Merged | None


class RingMeta(TypedDict):
    """What the picture needs before its first step.

    pieces: of the sequence on each device. size: rows of a piece. bytes: of all copies between two devices in a step.
    device, row: of the followed row. place: this row in the whole sequence.
    heads: whether the devices have whole heads.
    """

    pieces: list[list[int]]
    size: int
    bytes: int
    device: int
    row: int
    place: int
    heads: bool
    frames: list[RingFrame]


@dataclass(frozen=True)
class Walk:
    """A run as rounds and frames."""

    run: Run

    @cached_property
    def rounds(self) -> list[Round]:
        return rounds(self.run)

    @cached_property
    def followed(self) -> tuple[int, int, list[Merge]]:
        return followed(self.run)

    @cached_property
    def place(self) -> int:
        """The followed row in the whole sequence."""
        device, row, _ = self.followed
        plan, kernel = self.run.request.plan, self.run.request.kernel
        launch = next(launch for launch in plan.launches if launch.device == device)
        return int(self.run.request.problem.rows_of(kernel.tensor_in(launch, "Q"))[row])

    @cached_property
    def gathers(self) -> bool:
        """Whether the copies only collect outputs."""
        return len(self.rounds) == 1 and bool(self.rounds[0].moves)

    @cached_property
    def frames(self) -> list[RingFrame]:
        size, _ = pieces(self.run)
        _, _, merges = self.followed
        of_step = {merge.step: merge for merge in merges}
        found = list[RingFrame]()
        for step, one in enumerate(self.rounds):
            devices = [
                _device(work.part, work.pairs, one.most, work.rows // size, work.keys // size) for work in one.works
            ]
            moves = [[move.source, move.target, move.part] for move in one.moves]
            found.append(
                {
                    "tile": step,
                    "step": step,
                    "devices": devices,
                    "kind": "products",
                    "title": f"Step {step}: products",
                    "sentence": _products(one, step, self.gathers),
                    "lines": self._lines(step, PRODUCTS),
                    "moves": moves,
                    "merged": None,
                }
            )
            if step in of_step:
                what = "merge" if of_step[step].shares else "m, l and O"
                merged: RingFrame = {**found[-1], "kind": "merge", "title": f"Step {step}: {what}", "moves": []}
                merged["sentence"] = self._merged(of_step[step])
                if of_step[step].shares:
                    merged["lines"] = self._lines(step, MERGE)
                merged["merged"] = _values(of_step[step])
                found.append(merged)
        return found

    def _merged(self, merge: Merge) -> str:
        if merge.shares is None:
            last = " and divides O by l" if merge is self.followed[2][-1] else ""
            return f"Query {self.place} has met one part: GPU {self.followed[0]} keeps m = {short(merge.m[2])}{last}."
        earlier, now = merge.shares
        if earlier == 1.0 and now == 1.0:
            if merge.m[0] == merge.m[2]:
                return f"Query {self.place} keeps its m. Both parts count in full."
            return f"Query {self.place}: m grows to {short(merge.m[2])}, and no part is scaled."
        if earlier < now:
            return (
                f"Query {self.place}: m grows to {short(merge.m[2])}. The earlier l and O count {short(earlier)} times."
            )
        return f"Query {self.place}: m stays {short(merge.m[2])}. This step's l and O count {short(now)} times."

    def _lines(self, step: int, events: tuple[str, ...]) -> dict[str, int]:
        """The lines that compute the logged values of a step."""
        launches = [work.launch for work in self.rounds[step].works if work.launch >= 0]
        logged = self._sites
        mine = logged[logged.launch.isin(launches) & logged.event.isin(events)]
        counts = mine.groupby(["file", "line"]).size().items()
        return {self.run.sites.find(file, line).place: int(n) for (file, line), n in counts}

    @cached_property
    def _sites(self) -> pd.DataFrame:
        return self.run.trace.frame("launch", "event", "file", "line")

    def meta(self) -> RingMeta:
        size, own = pieces(self.run)
        device, row, _ = self.followed
        sent = max((move.bytes for one in self.rounds for move in one.moves), default=0)
        return {
            "pieces": own,
            "size": size,
            "bytes": sent,
            "device": device,
            "row": row,
            "place": self.place,
            "heads": len(own) > 1 and own[0] == own[1],
            "frames": self.frames,
        }


def _device(part: int, pairs: int, most: int, rows: np.ndarray, keys: np.ndarray) -> Device:
    cells = np.unique(np.stack([rows, keys], 1), axis=0) if len(rows) else np.zeros((0, 2), int)
    return {"part": part, "pairs": pairs, "share": pairs / most if most else 0.0, "cells": cells.tolist()}


def _values(merge: Merge) -> Merged:
    return {
        "m": list(merge.m),
        "l": list(merge.l),
        "shares": list(merge.shares or ()),
        "before": merge.o_before[:SHOWN],
        "after": merge.o_after[:SHOWN],
    }


def _products(one: Round, step: int, gathers: bool) -> str:
    if gathers:
        outputs = f"{len(one.moves)} outputs move" if len(one.moves) > 1 else "its output moves"
        return f"Each GPU computes its own heads. Then {outputs} to GPU 0, {one.moves[0].bytes:,} bytes each."
    if idle := [f"GPU {device}" for device in one.idle]:
        verb = "waits" if len(idle) == 1 else "wait"
        return f"{listed(idle)} {verb}, because all keys there come after the queries. The other GPUs multiply."
    if not one.moves:
        last = "the last part of the keys" if step else "all keys"
        return f"Every GPU multiplies its queries with {last}. No copy is left."
    sent_ = f"{one.moves[0].bytes:,} bytes of K and V"
    return f"Every GPU multiplies one part of the keys. Meanwhile it copies {sent_} to the next GPU."


def sent(one: Round, device: int) -> int:
    """Bytes that a device sends in a step."""
    moves: tuple[Moved, ...] = one.moves
    return sum(move.bytes for move in moves if move.source == device)
