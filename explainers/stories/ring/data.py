"""A run over several GPUs as tables: the work of each GPU in each round, the copies, the met keys, and a row's merges.

Every order of the same work is a run of its own. A round ends with its busiest GPU, and a pair of a query and a key
counts as one unit of time.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from explainers.story.base import Runner
from explainers.story.words import Row
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import WarpglassError
from kernels.run.results import Run

LEAST = 1e-3  # a smaller factor would show the rounding of O, not O
THIS = "this"  # the name of the only order
SHOWN = 4  # numbers of O in the picture
MERGED = ("m_before", "m_step", "m_after", "l_before", "l_step", "l_after", "o_after", "share_before", "share_step")


def rows_of(run: Run) -> list[np.ndarray]:
    """The queries of each GPU, as rows of the whole sequence."""
    plan, problem, kernel = run.request.plan, run.request.problem, run.request.kernel
    first = [next(launch for launch in plan.launches if launch.device == gpu) for gpu in range(plan.devices)]
    return [problem.rows_of(kernel.tensor_in(launch, "Q")) for launch in first]


def piece_of(run: Run) -> int:
    """The rows of the smallest piece of the sequence that a GPU has in one."""
    return min(len(part) for rows in rows_of(run) for part in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1))


def tables(run: Run) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The work of each GPU in each round, the copies between two GPUs, and the multiplied pairs of a query and a key.

    work: round, gpu. launch: its number, or -1 if the GPU waits. part: the GPU that first had the keys. source: the GPU
        that sent them in the round before, or -1. pairs: their number, as logged. sent: bytes of its copies.
    copies: round, source, target, part, bytes.
    pairs: round, gpu, part. query, key: of the whole sequence.
    """
    plan, problem, kernel = run.request.plan, run.request.problem, run.request.kernel
    logged = run.trace.frame("launch", "event", "row", "col")
    by_launch = {int(str(n)): group for n, group in logged[logged.event == "score"].groupby("launch")}
    gpu_of = {tensor.name: tensor.device for tensor in plan.tensors}
    owner, arrived = dict(gpu_of), {gpu: (gpu, -1) for gpu in range(plan.devices)}
    work, copies, pairs = [], [], []
    for step in sorted({step.step for step in plan.steps}):
        launches = {launch.device: (n, launch) for n, launch in enumerate(plan.launches) if launch.step == step}
        for gpu in range(plan.devices):
            number, launch = launches.get(gpu, (-1, None))
            met = by_launch.get(number, logged[:0])
            part = owner[kernel.tensor_in(launch, "K")] if launch else arrived[gpu][0]
            row = {"round": step, "gpu": gpu, "part": part}
            work.append({**row, "source": arrived[gpu][1], "launch": number, "pairs": len(met)})
            if launch and len(met):
                keys = next(t.name for t in plan.tensors if t.device == part and t.axes[2:3] == ("key",))
                query = problem.rows_of(kernel.tensor_in(launch, "Q"))[met["row"].to_numpy(int)]
                key = problem.rows_of(keys)[met["col"].to_numpy(int)]
                pairs.append(pd.DataFrame({**row, "query": query, "key": key}))
        now = [copy for copy in plan.copies if copy.step == step]
        for copy in now:
            row = {"round": step, "source": gpu_of[copy.source], "target": gpu_of[copy.target]}
            copies.append({**row, "part": owner[copy.source], "bytes": plan.tensor(copy.source).nbytes})
        arrived |= {gpu_of[copy.target]: (owner[copy.source], gpu_of[copy.source]) for copy in now}
        owner |= {copy.target: owner[copy.source] for copy in now}
    columns = ["round", "source", "target", "part"]
    moved = pd.DataFrame(copies, columns=[*columns, "bytes"]).groupby(columns, as_index=False).bytes.sum()
    table = pd.DataFrame(work)
    sent = moved.groupby(["round", "source"]).bytes.sum()
    table["sent"] = [int(sent.get((row.round, row.gpu), 0)) for row in table.itertuples()]
    return table, moved, pd.concat(pairs, ignore_index=True)


def merges(run: Run) -> tuple[Row, list[Row]]:
    """The followed row, which has the most merges, and each of its merges. Of equal rows, the m of this one grows most.

    The row: gpu, row: its place on it. query: its place in the whole sequence.
    A merge: round. m, l: [before, of this part, after]; the first part has no before. factors: of the part before and
        of this one, or (). o: [before, of this part, after], its first numbers, not divided by l. Logged, apart from
        that of this part: it is derived, and empty if its factor is below LEAST. output: the same numbers of the
        output, at the last merge.
    """
    plan, kernel = run.request.plan, run.request.kernel
    logged = run.trace.frame("launch", "block", "event", "row", "dim", "value")
    logged = logged[logged.event.isin(MERGED)]
    logged = logged.assign(gpu=logged.launch.map({n: launch.device for n, launch in enumerate(plan.launches)}))
    logged = logged[logged.block < logged.launch.map({n: launch.grid[0] for n, launch in enumerate(plan.launches)})]
    grown = logged[logged.event == "m_after"].groupby(["gpu", "row"]).value.agg(["count", "min", "max"])
    grown["by"] = grown["max"] - grown["min"]
    gpu, row = (int(part) for part in grown.sort_values(["count", "by"], kind="stable").index[-1])
    found, o = list[Row](), list[float]()
    for name, group in logged[(logged.gpu == gpu) & (logged.row == row)].groupby("launch"):
        launch = plan.launches[int(str(name))]
        value = {str(e): float(v) for e, v in zip(group.event, group.value) if e != "o_after"}
        after = group[group.event == "o_after"].sort_values("dim").value.astype(float).tolist()[:SHOWN]
        factors = (value["share_before"], value["share_step"]) if "share_before" in value else ()
        earlier, now = factors or (0.0, 1.0)
        own = [(end - earlier * start) / now for start, end in zip(o or [0.0] * SHOWN, after)] if now >= LEAST else []
        m, l = ([value.get(f"{key}_{end}") for end in ("before", "step", "after")] for key in "ml")
        if not factors:  # the first part is all so far
            m, l = [None, m[2], m[2]], [None, l[2], l[2]]
        merge = {"round": launch.step, "m": m, "l": l, "factors": factors, "o": [o, own, after], "output": []}
        found.append(merge)
        o, last = after, launch
    output = run.arrays[kernel.tensor_in(last, "O")]
    found[-1]["output"] = [float(value) for value in output[0, 0, row, :SHOWN]]
    return {"gpu": gpu, "row": row, "query": int(rows_of(run)[gpu][row])}, found


# ---- all orders ----


def orders(subject: Request, run: Run, runner: Runner) -> list[Row]:
    """The order of a run and the other orders of its problem, the slowest first. An order without a run is left out.

    name. own: whether it is the order of the run. run. work, copies, pairs: its tables. ends: of each round, in pairs
    of its busiest GPU. waits: of each GPU, the share of the time without work. rows: the queries of each GPU.
    gpu: the one that waits most. met: its pairs, round by round. first: whether it has the first queries.
    """
    runs = {}
    for name, (problem, _) in subject.problem.orders().items():
        request = replace(subject, problem=problem)
        try:
            same = problem == subject.problem
            runs[name] = run if same else runner.run(replace(request, scope=Scope.everything(request.plan)))
        except WarpglassError:  # for example, not recorded
            continue
    found = []
    for name, one in (runs or {THIS: run}).items():
        work, copies, pairs = tables(one)
        grid, rows = work.pivot(index="round", columns="gpu", values="pairs"), rows_of(one)
        ends = [int(end) for end in grid.max(axis=1).cumsum()]
        waits = [float(1 - total / ends[-1]) for total in grid.sum()]
        gpu = waits.index(max(waits))
        order = {"name": name, "own": one is run, "run": one, "work": work, "copies": copies, "pairs": pairs}
        order |= {"ends": ends, "waits": waits, "rows": rows, "gpu": gpu}
        found.append({**order, "met": [int(n) for n in grid[gpu]], "first": 0 in rows[gpu]})
    return sorted(found, key=lambda order: -order["ends"][-1])
