"""Times of chains of launches, in recordings/data/chains/: a fused kernel, the separate kernels that it replaces, and
torch.compile of the same operations.

Each runs in a *stream*, where all launches are in the queue before the first starts, and in one CUDA *graph* of many
chains. Both with a hot L2 (every chain uses the same arrays) and a cold one (its arrays were last used more than twice
the L2 ago). All contestants of a problem take turns. The chain's outputs are judged against float64 first.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core.problem import Problem, inputs_of
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import worst
from kernels.errors import PeerUnavailable, WarpglassError
from kernels.measure import chain_runs, judging
from kernels.measure.bench_rows import problem_text, settings_text
from kernels.measure.chain_runs import COMPILED, SETS, Chain, Turn
from kernels.measure.in_worker import in_worker
from kernels.recordings import tables
from kernels.recordings.tables import RecordedTable, Row, by
from kernels.run.backends import Device, gpu

KIND = "chains"
L2 = ("hot", "cold")
TIME_LIMIT = 300.0  # seconds for one problem
COLUMNS = (
    *("fused", "name", "mode", "l2", "status", "reason", "launches", "us", "sustained_us", "clock", "power"),
    *("rounds", "sustained_rounds", "spans", "settings", "code_hash", "title", "problem"),
)
"""fused: the fused kernel of the comparison. name: this kernel, or torch.compile.
mode: stream or graph. l2: hot or cold. launches: of one chain.
us, sustained_us: of one chain, the median of the rounds, rested and on a chip at work (graphs only).
clock, power: MHz and W meanwhile.
rounds, sustained_rounds: JSON, us of each round. Equal places in two rows of a problem and an L2 are a raw pair.
spans: JSON, [start, end] of each launch in us from the start of the first, by the timeline build, with a hot L2.
Other columns are as in bench_rows.COLUMNS."""


@dataclass(frozen=True)
class Case:
    """A fused kernel and its separate kernels on a problem."""

    fused: KernelSpec
    separate: KernelSpec
    problem: Problem

    @property
    def kernels(self) -> tuple[KernelSpec, KernelSpec]:
        return self.separate, self.fused


def cases() -> list[Case]:
    """Every fused kernel on the problems that its class declares."""
    there = catalog.current()
    return [
        Case(spec, separate, problem)
        for spec in there.kernels.values()
        if (separate := there.separate_of(spec)) is not None
        for problem in spec.problem_type.chain_problems()
    ]


@dataclass
class Side:
    """One contestant after its judgment.

    chain: ready to run, None without a time.
    turns: (mode, L2) -> its times.
    """

    name: str
    status: str = "ok"
    reason: str = ""
    chain: Chain | None = None
    turns: dict[tuple[str, str], Turn] = field(default_factory=dict)


def meet(case: Case) -> list[Row]:
    """The rows of a case. Runs in the GPU's worker."""
    with gpu.errors():
        problem, inputs = case.problem, inputs_of(case.problem)
        sides = []
        for spec in case.kernels:
            request = Request(spec, problem, tuple(spec.settings_for(problem).items()), backend="gpu")
            sides.append(_side(spec.name, problem, partial(chain_runs.Ours, request, inputs)))
        sides.append(_side(COMPILED, problem, partial(chain_runs.Compiled, problem, inputs)))
        for l2 in L2:
            _take_turns([side for side in sides if side.chain], l2)
        return [row for side in sides for row in _rows(case, side)]


def _side(name: str, problem: Problem, made: Callable[[], Chain]) -> Side:
    """A contestant, judged. It gets no time if it cannot run, or if its outputs are wrong."""
    try:
        with gpu.errors():
            chain = made()
            outputs = chain.first_run()
    except gpu.StickyError:
        raise
    except (PeerUnavailable, WarpglassError) as error:
        return Side(name, "unavailable", str(error))
    status, reason = judging.verdict(name, worst(judging.judged(problem, outputs)))
    if name == COMPILED and status == "wrong":
        status = "less accurate" if "rounding" in reason else status
    return Side(name, status, reason, chain if status != "wrong" else None)


def _take_turns(sides: Sequence[Side], l2: str) -> None:
    for mode, make in chain_runs.MODES.items():
        runs = [make(side.chain.runs(SETS if l2 == "cold" else 1)) for side in sides if side.chain]
        for side, turn in zip(sides, chain_runs.in_turns(runs, sustained=mode == "graph")):
            side.turns[mode, l2] = turn


def _rows(case: Case, side: Side) -> Iterator[Row]:
    spec = catalog.current().kernels.get(side.name)
    made: dict[str, object] = {"fused": case.fused.name, "name": side.name, "status": side.status}
    made |= {"reason": side.reason or None, "title": case.problem.title, "problem": problem_text(case.problem)}
    made |= {"launches": side.chain.launches if side.chain else None}
    if spec:
        made |= {"code_hash": spec.code_hash, "settings": settings_text(spec.settings_for(case.problem).items())}
    if not side.turns:
        yield dict.fromkeys(COLUMNS) | made
    for (mode, l2), turn in side.turns.items():
        spans = side.chain.spans(mode) if side.chain and l2 == "hot" else []
        times: dict[str, object] = {"us": _median(turn.rounds), "sustained_us": _median(turn.sustained), **turn.state}
        times |= {"rounds": json.dumps(turn.rounds), "sustained_rounds": json.dumps(turn.sustained)}
        yield dict.fromkeys(COLUMNS) | made | times | {"mode": mode, "l2": l2, "spans": json.dumps(spans)}


def _median(values: Sequence[float]) -> float | None:
    return round(float(np.median(values)), 3) if values else None


# ---- the table ----


def _all_cases(device: Device, _: object) -> tuple[list[tables.Case], dict[str, Any]]:
    made = []
    for case in cases():
        names = (*(spec.name for spec in case.kernels), COMPILED)
        keys = [(case.fused.name, problem_text(case.problem), name) for name in names]
        made.append(tables.Case(f"{case.fused.name}, {case.problem.size}", keys, partial(_turn, case)))
    return made, {"torch": metadata.version("torch"), "protocol": chain_runs.PROTOCOL}


def _turn(case: Case, _: object) -> list[Row]:
    return in_worker("Chains", meet, case, limit=TIME_LIMIT)


def _present(made: pd.DataFrame, where: tables.Provenance) -> pd.DataFrame:
    """The rows of the cases, without kernels of another code or with other constants."""
    parts = [made.iloc[:0]]
    for case in cases():
        rows = made[(made.fused == case.fused.name) & (made.problem == problem_text(case.problem))]
        for spec in case.kernels:
            settings = settings_text(spec.settings_for(case.problem).items())
            stale = (rows.code_hash != spec.code_hash) | (rows.settings.fillna("") != settings)
            rows = rows[(rows["name"] != spec.name) | ~stale]
        parts.append(rows)
    return pd.concat(parts)


TABLE = RecordedTable(KIND, by("fused", "problem", "name"), _all_cases, COLUMNS, _present)


def recorded(spec: KernelSpec) -> tuple[pd.DataFrame, tables.Provenance] | None:
    """The recorded rows of a fused kernel with the present code and constants of both kernels, of the newest table.
    None without one."""
    for made, where in TABLE.recorded().values():
        if len(rows := made[made.fused == spec.name]):
            return rows.reset_index(drop=True), where
    return None
