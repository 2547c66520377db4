"""A run over several devices, step by step: the part that each device holds, its work, and the copies meanwhile."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernels.core.devices import waits_of_copy
from kernels.core.launch import Launch
from kernels.run.results import Run


@dataclass(frozen=True)
class Work:
    """A device in a step.

    launch: the number of its launch, or -1 if it waits.
    part: the device whose keys it holds.
    pairs: multiplied pairs of a query and a key, as logged.
    rows, keys: the queries and keys of these pairs in the whole sequence.
    """

    device: int
    launch: int
    part: int
    pairs: int
    rows: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True)
class Moved:
    """The copies from one device to another in a step.

    part: the device of the copied tensors' first owner.
    waits: whether they wait for launches.
    """

    source: int
    target: int
    part: int
    bytes: int
    waits: bool


@dataclass(frozen=True)
class Round:
    """A step: the work of each device, and the copies."""

    works: tuple[Work, ...]
    moves: tuple[Moved, ...]

    @property
    def most(self) -> int:
        """The pairs of the busiest device."""
        return max(work.pairs for work in self.works)

    @property
    def idle(self) -> list[int]:
        """The devices without a launch."""
        return [work.device for work in self.works if work.launch < 0]


def rounds(run: Run) -> list[Round]:
    """The steps of a run."""
    plan = run.request.plan
    scores = run.trace.frame("launch", "event", "row", "col")
    by_launch = {int(str(n)): group for n, group in scores[scores.event == "score"].groupby("launch")}
    devices = {tensor.name: tensor.device for tensor in plan.tensors}
    owner, found = dict(devices), list[Round]()
    steps = sorted({step.step for step in plan.steps})
    for step in steps:
        launches = {launch.device: (n, launch) for n, launch in enumerate(plan.launches) if launch.step == step}
        works = [_work(run, device, launches.get(device), owner, by_launch) for device in range(plan.devices)]
        if step and any(work.launch < 0 for work in works):
            held = {move.target: move.part for move in found[-1].moves}
            works = [_waiting(work, held) for work in works]
        moves = dict[tuple[int, int], Moved]()
        for n, copy in enumerate(plan.copies):
            if copy.step != step:
                continue
            ends = devices[copy.source], devices[copy.target]
            before = moves.get(ends)
            size = plan.tensor(copy.source).nbytes + (before.bytes if before else 0)
            waits = bool(waits_of_copy(plan, n).launches)
            moves[ends] = Moved(*ends, owner[copy.source], size, waits)
        owner |= {copy.target: owner[copy.source] for copy in plan.copies if copy.step == step}
        found.append(Round(tuple(works), tuple(moves.values())))
    return found


def _work(
    run: Run,
    device: int,
    found: tuple[int, Launch] | None,
    owner: dict[str, int],
    by_launch: dict[int, pd.DataFrame],
) -> Work:
    """The Work of a device with this launch."""
    if found is None:
        return Work(device, -1, device, 0, np.zeros(0, int), np.zeros(0, int))
    number, launch = found
    problem, kernel = run.request.problem, run.request.kernel
    pairs = by_launch.get(number)
    part = owner[kernel.tensor_in(launch, "K")]
    if pairs is None:
        return Work(device, number, part, 0, np.zeros(0, int), np.zeros(0, int))
    origin = next(t.name for t in run.request.plan.tensors if t.device == part and t.axes[2:3] == ("key",))
    rows = problem.rows_of(kernel.tensor_in(launch, "Q"))[pairs["row"].to_numpy(int)]
    keys = problem.rows_of(origin)[pairs["col"].to_numpy(int)]
    return Work(device, number, part, len(pairs), rows, keys)


def _waiting(work: Work, held: dict[int, int]) -> Work:
    """The same, with the part that came to a device without a launch."""
    if work.launch >= 0:
        return work
    return Work(work.device, -1, held.get(work.device, work.part), 0, work.rows, work.keys)


def pieces(run: Run) -> tuple[int, list[list[int]]]:
    """The rows of a piece, and the pieces of the sequence on each device."""
    plan, problem, kernel = run.request.plan, run.request.problem, run.request.kernel
    first = [next(launch for launch in plan.launches if launch.device == device) for device in range(plan.devices)]
    rows = [problem.rows_of(kernel.tensor_in(launch, "Q")) for launch in first]
    size = int(min(len(run_) for own in rows for run_ in np.split(own, np.flatnonzero(np.diff(own) != 1) + 1)))
    return size, [sorted({int(row) // size for row in own}) for own in rows]


@dataclass(frozen=True)
class Merge:
    """The merge of a row in a step.

    m, l: before, of this step, after. None before the first step.
    shares: the factors of the part before and of this step, or None.
    o_before, o_after: not divided by l.
    """

    step: int
    launch: int
    m: tuple[float | None, float | None, float]
    l: tuple[float | None, float | None, float]
    shares: tuple[float, float] | None
    o_before: list[float]
    o_after: list[float]


def followed(run: Run) -> tuple[int, int, list[Merge]]:
    """(device, its row, merges) of the row with most merges. Of equal rows, the one whose m grows most."""
    plan = run.request.plan
    logged = run.trace.frame("launch", "block", "event", "row", "dim", "value")
    launches = pd.Series({n: launch.device for n, launch in enumerate(plan.launches)})
    logged = logged[
        logged.event.isin(
            ["m_before", "m_step", "m_after", "l_before", "l_step", "l_after", "o_after", "share_before", "share_step"]
        )
    ]
    logged = logged.assign(device=logged.launch.map(launches))
    ends = logged[logged.event == "m_after"]
    heads = logged.launch.map({n: launch.grid[0] for n, launch in enumerate(plan.launches)})
    logged = logged[(logged.block < heads)]  # of the first head
    grown = ends[ends.index.isin(logged.index)].groupby(["device", "row"]).value.agg(["count", "min", "max"])
    grown["by"] = grown["max"] - grown["min"]
    device, row = grown.sort_values(["count", "by"], kind="stable").index[-1]
    mine = logged[(logged.device == device) & (logged.row == row)]
    merges, o = list[Merge](), list[float]()
    for name, group in mine.groupby("launch"):
        launch = int(str(name))
        value = {str(e): float(v) for e, v in zip(group.event, group.value) if e != "o_after"}
        after = group[group.event == "o_after"].sort_values("dim").value.astype(float).tolist()
        shares = (value["share_before"], value["share_step"]) if "share_before" in value else None
        merges.append(
            Merge(
                plan.launches[launch].step,
                launch,
                (value.get("m_before"), value.get("m_step"), value["m_after"]),
                (value.get("l_before"), value.get("l_step"), value["l_after"]),
                shares,
                o,
                after,
            )
        )
        o = after
    return int(device), int(row), merges
