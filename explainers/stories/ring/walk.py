"""A run over several GPUs as the steps of a picture: products and copies, then the merge of one row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from explainers.stories.ring import figures, sentences
from explainers.stories.ring.frames import SHOWN, Device, Merged, RingFrame, RingMeta, ShownCells
from explainers.stories.ring.orders import Order
from explainers.stories.ring.rounds import Merge, Moved, Round, followed, pieces, rounds
from explainers.story.glossary import short
from kernels.core.tensors import Tensor
from kernels.run.results import Run

LEAST = 1e-3  # a smaller factor would show the rounding of O, not O
PRODUCTS, MERGE = ("score",), ("m_after", "l_after", "o_after")


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
        of_step = {merge.step: merge for merge in self.followed[2]}
        found = list[RingFrame]()
        for step, one in enumerate(self.rounds):
            devices = _devices(one, size)
            name = f"Round {step + 1} of {len(self.rounds)}"
            moves = [[move.source, move.target, move.part] for move in one.moves]
            found.append(
                {
                    "tile": step,
                    "step": step,
                    "devices": devices,
                    "kind": "products",
                    "title": f"{name}: products",
                    "sentence": sentences.products(one, step, self.gathers),
                    "lines": self._lines(step, PRODUCTS),
                    "moves": moves,
                    "merged": None,
                    "figures": [],
                }
            )
            if step in of_step:
                found.append(self._merge_frame(found[-1], of_step[step], name))
        return [*self._opening(found[0]), *found, *self._end(found[-1])]

    def _merge_frame(self, products: RingFrame, merge: Merge, name: str) -> RingFrame:
        """The frame after the products of a round."""
        device, _, merges = self.followed
        last = merge is merges[-1]
        end = (
            f" GPU {device} then divides O by l: within {short(self.run.max_abs_error, 1)} of float64." if last else ""
        )
        lines = self._lines(products["step"], MERGE) if merge.shares else products["lines"]
        return {
            **products,
            "kind": "merge",
            "title": f"{name}: {'merge' if merge.shares else 'm, l and O'}",
            "sentence": sentences.merged(merge, f"Query {self.place}", device, end),
            "lines": lines,
            "merged": self._values(merge, last),
        }

    @property
    def _passes(self) -> bool:
        """Whether K and V move from GPU to GPU."""
        return len(self.rounds) > 1

    def _opening(self, first: RingFrame) -> list[RingFrame]:
        """The frame before the first round: why a ring, and when its copies are hidden."""
        if not self._passes:
            return []
        problem, gpus = self.run.request.problem, len(self.rounds[0].works)
        rows = len(problem.rows_of(self.run.request.kernel.tensor_in(self.run.request.plan.launches[0], "Q")))
        rule = figures.hidden(problem.causal, rows)
        opening: RingFrame = {**first, "title": "Why a ring", "sentence": sentences.divided(gpus), "kind": "figures"}
        return [{**opening, "tile": -1, "figures": [figures.why(gpus), *([rule] if rule else [])], "lines": {}}]

    def _end(self, last: RingFrame) -> list[RingFrame]:
        """The frame after the last round: the recorded gain."""
        if not self._passes or not (found := figures.gains()):
            return []
        end: RingFrame = {**last, "title": "The gain", "sentence": figures.gain_said(), "kind": "gain"}
        return [{**end, "tile": len(self.rounds), "figures": found, "merged": None, "lines": {}}]

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
        order = orders[[one.own for one in orders].index(True)].name if len(orders) > 1 else ""
        where = f"{plan.devices} virtual GPUs{f' in {order} order' if order else ''}" if plan.devices > 1 else ""
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
            "shown": min(SHOWN, q.shape[-1]),
            "orders": [one.shown for one in sorted(orders, key=lambda one: not one.own)] if len(orders) > 1 else [],
            "other": _cells(next(one for one in orders if not one.own), size) if len(orders) > 1 else None,
            "frames": self.frames,
        }


def _shape(tensor: Tensor) -> str:
    """The shape without batch, and without a single head."""
    return str([n for n in tensor.shape[1:-2] if n > 1] + [*tensor.shape[-2:]])


def _cells(order: Order, size: int) -> ShownCells:
    """The cells of another order, in pieces of the same size."""
    devices = [_devices(one, size) for one in order.rounds]
    return {
        "name": order.name,
        "pieces": [sorted({row for row, _ in work["cells"]}) for work in devices[0]],
        "devices": devices,
    }


def _devices(one: Round, size: int) -> list[Device]:
    return [_device(work.part, work.pairs, work.rows // size, work.keys // size) for work in one.works]


def _device(part: int, pairs: int, rows: np.ndarray, keys: np.ndarray) -> Device:
    cells = np.unique(np.stack([rows, keys], 1), axis=0) if len(rows) else np.zeros((0, 2), int)
    return {"part": part, "pairs": pairs, "cells": cells.tolist()}


def sent(one: Round, device: int) -> int:
    """Bytes that a device sends in a step."""
    moves: tuple[Moved, ...] = one.moves
    return sum(move.bytes for move in moves if move.source == device)
