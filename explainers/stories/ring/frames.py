"""The steps of a ring for its picture: products and copies, then the merge of one row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np
import pandas as pd

from explainers.stories.ring.orders import Order
from explainers.stories.ring.rounds import Merge, Moved, Round, followed, pieces, rounds
from explainers.story.frames import Frame, Number
from explainers.story.glossary import listed, short
from kernels.core.tensors import Tensor
from kernels.run.results import Run

SHOWN = 16  # dims of O in the picture
LEAST = 1e-3  # a smaller factor would show the rounding of O, not O
PRODUCTS, MERGE = ("score",), ("m_after", "l_after", "o_after")


class Device(TypedDict):
    """A device in a step.

    part: of the keys it holds.
    cells: [row piece, key piece] of the pairs.
    """

    part: int
    pairs: int
    cells: list[list[int]]


class Merged(TypedDict):
    """The values of a row: before, of this step, after.

    before, own, after: the first dims of O, not divided by l. before, after: as logged.
    own: of this step, derived from both. Empty if its factor is below LEAST.
    output: the same dims of the output, at the last merge.
    """

    m: list[Number]
    l: list[Number]
    shares: list[float]
    before: list[float]
    own: list[float]
    after: list[float]
    output: list[float]


class RingFrame(Frame):
    """One frame.

    step: of the ring.
    kind: products, or merge.
    devices: of the step.
    moves: [source, target, part] of its copies. A merge has those of its step.
    merged: the followed row, or None.
    """

    step: int
    kind: str
    devices: list[Device]
    moves: list[list[int]]
    merged: Merged | None


class RingMeta(TypedDict):
    """The facts of a ring before its first step.

    pieces: of the sequence on each device. size: rows of a piece. bytes: of all copies between two devices in a step.
    device, row: of the followed row. place: this row in the whole sequence.
    heads: whether the devices have whole heads.
    gpus: their number, whether they are virtual, and their order, or "" for one.
    label: what a GPU has in its memory.
    masked: whether a query meets no later key.
    dims: the numbers of a row of O.
    """

    pieces: list[list[int]]
    size: int
    bytes: int
    device: int
    row: int
    place: int
    heads: bool
    gpus: str
    label: str
    masked: bool
    dims: int
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
            devices = [_device(work.part, work.pairs, work.rows // size, work.keys // size) for work in one.works]
            name = f"Round {step + 1} of {len(self.rounds)}"
            moves = [[move.source, move.target, move.part] for move in one.moves]
            found.append(
                {
                    "tile": step,
                    "step": step,
                    "devices": devices,
                    "kind": "products",
                    "title": f"{name}: products",
                    "sentence": _products(one, step, self.gathers),
                    "lines": self._lines(step, PRODUCTS),
                    "moves": moves,
                    "merged": None,
                }
            )
            if step in of_step:
                what = "merge" if of_step[step].shares else "m, l and O"
                merged: RingFrame = {**found[-1], "kind": "merge", "title": f"{name}: {what}"}
                merged["sentence"] = self._merged(of_step[step])
                if of_step[step].shares:
                    merged["lines"] = self._lines(step, MERGE)
                merged["merged"] = self._values(of_step[step], of_step[step] is merges[-1])
                found.append(merged)
        return found

    def _merged(self, merge: Merge) -> str:
        who, last = f"Query {self.place}", merge is self.followed[2][-1]
        error = f"{self.run.max_abs_error:.1g}"
        ends = (
            f" Then GPU {self.followed[0]} divides O by l. Outputs are within {error} of the exact ones in float64."
            if last
            else ""
        )
        if merge.shares is None:
            kept = (
                "" if last else f" GPU {self.followed[0]} keeps m, l and O, and goes on when the next part has arrived."
            )
            return f"{who} has met one part of the keys: its m is {short(merge.m[2])}.{kept}{ends}"
        earlier, now = merge.shares
        if earlier == 1.0 and now == 1.0:
            if merge.m[0] == merge.m[2]:
                return f"{who} keeps its m, so both parts count in full.{ends}"
            return f"{who}: m grows to {short(merge.m[2])}, and no part is scaled.{ends}"
        before, own, after = (short(float(m or 0)) for m in merge.m)
        why = "" if last else " Two sums can be added only under one m, so"
        if earlier < now:
            whose = "Its earlier l and O take" if last else " its earlier l and O take"
            said = f"{who} meets a larger score, so m grows to {after}.{why or ' '}"
            return f"{said}{whose} the factor e^({before} - {after}) = {earlier:.3g}.{ends}"
        whose = "This part takes" if last else " this part takes"
        said = f"{who} meets no larger score, so m stays {after}.{why or ' '}"
        return f"{said}{whose} the factor e^({own} - {after}) = {now:.3g}.{ends}"

    def _values(self, merge: Merge, last: bool) -> Merged:
        """The values of a merge."""
        earlier, now = merge.shares or (0.0, 1.0)
        before, after = merge.o_before[:SHOWN], merge.o_after[:SHOWN]
        pairs = zip(before or [0.0] * len(after), after) if now >= LEAST else ()
        return {
            "m": list(merge.m),
            "l": list(merge.l),
            "shares": list(merge.shares or ()),
            "before": before,
            "own": [(end - earlier * start) / now for start, end in pairs],
            "after": after,
            "output": self._output(merge) if last else [],
        }

    def _output(self, merge: Merge) -> list[float]:
        """The first dims of the followed row in the output."""
        launch = self.run.request.plan.launches[merge.launch]
        output = self.run.arrays[self.run.request.kernel.tensor_in(launch, "O")]
        return [float(value) for value in output[0, 0, self.followed[1], :SHOWN]]

    def _lines(self, step: int, events: tuple[str, ...]) -> dict[str, int]:
        """The lines that compute the logged values of a step, without counts: one line computes many values."""
        launches = [work.launch for work in self.rounds[step].works if work.launch >= 0]
        logged = self._sites
        mine = logged[logged.launch.isin(launches) & logged.event.isin(events)]
        places = mine[["file", "line"]].drop_duplicates().itertuples(index=False)
        return {self.run.sites.find(file, line).place: 1 for file, line in places}

    @cached_property
    def _sites(self) -> pd.DataFrame:
        return self.run.trace.frame("launch", "event", "file", "line")

    def meta(self, orders: Sequence[Order] = ()) -> RingMeta:
        size, own = pieces(self.run)
        device, row, _ = self.followed
        sent = max((move.bytes for one in self.rounds for move in one.moves), default=0)
        plan, kernel = self.run.request.plan, self.run.request.kernel
        q, k = (plan.tensor(kernel.tensor_in(plan.launches[0], part)) for part in "QK")
        whole = len(own) > 1 and own[0] == own[1]
        virtual = "virtual " if self.run.provenance == "executed" else ""
        order = orders[[one.own for one in orders].index(True)].name if len(orders) > 1 else ""
        where = f"{plan.devices} {virtual}GPUs{f' in {order} order' if order else ''}" if plan.devices > 1 else ""
        held = f"K and V {_shape(k)}"
        if sent and not whole:
            held = f"two buffers for K and V {_shape(k)}: in use and arriving"
        return {
            "pieces": own,
            "size": size,
            "bytes": sent,
            "device": device,
            "row": row,
            "place": self.place,
            "heads": whole,
            "gpus": where,
            "label": f"Each has Q {_shape(q)}, its m, l and O, and {held}.",
            "masked": self.run.request.problem.causal,
            "dims": q.shape[-1],
            "frames": self.frames,
        }


def _shape(tensor: Tensor) -> str:
    """The shape without batch, and without a single head."""
    return str([n for n in tensor.shape[1:-2] if n > 1] + [*tensor.shape[-2:]])


def _device(part: int, pairs: int, rows: np.ndarray, keys: np.ndarray) -> Device:
    cells = np.unique(np.stack([rows, keys], 1), axis=0) if len(rows) else np.zeros((0, 2), int)
    return {"part": part, "pairs": pairs, "cells": cells.tolist()}


def _products(one: Round, step: int, gathers: bool) -> str:
    if gathers:
        outputs = f"{len(one.moves)} outputs move" if len(one.moves) > 1 else "its output moves"
        return f"Each GPU computes its own heads. Then {outputs} to GPU 0, {one.moves[0].bytes:,} bytes each."
    sends = ""
    if one.moves:
        sends = f" Meanwhile it sends this K and V, {one.moves[0].bytes:,} bytes, to a second buffer of the next GPU."
    if idle := [f"GPU {device}" for device in one.idle]:
        verb, its = ("waits", "its") if len(idle) == 1 else ("wait", "their")
        return (
            f"{listed(idle)} {verb}: all {its} keys now come after {its} queries, so the mask hides them. "
            "The other GPUs multiply."
        )
    if len(one.works) == 1:
        return "The only GPU multiplies its queries with all keys. With more GPUs, each one has a part of both."
    if not step:
        return f"No GPU stores all keys. Each one multiplies its queries with its own K and V.{sends}"
    last = "" if one.moves else " This part is each GPU's last one, so no copy is left."
    return f"Each GPU multiplies its queries with the K and V that came in the last round.{sends}{last}"


def sent(one: Round, device: int) -> int:
    """Bytes that a device sends in a step."""
    moves: tuple[Moved, ...] = one.moves
    return sum(move.bytes for move in moves if move.source == device)
