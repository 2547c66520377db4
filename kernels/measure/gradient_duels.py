"""Duels of the problems that declare them (Problem.duel_problems), in recordings/data/gradient_duels/.

Kernels and the peers of the problem take turns as in duels.py, rested and sustained. A problem declares its problems,
the first of its rungs, and constants whose other values are entries too.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

import pandas as pd

from kernels import catalog
from kernels.core.problem import Problem
from kernels.errors import RunError, TraceError
from kernels.measure import peers
from kernels.measure.bench_rows import Row, problem_text
from kernels.measure.duel_rows import Entry, kept, met, tried
from kernels.measure.meeting import COLUMNS, STATES
from kernels.recordings import tables
from kernels.recordings.resumable import Group, Progress, resume, silent
from kernels.run.backends import Device

KIND = "gradient_duels"


def problems() -> list[Problem]:
    """The declared problems of every class with kernels."""
    kinds = dict.fromkeys(spec.problem_type for spec in catalog.current().kernels.values())
    return [problem for kind in kinds for problem in kind.duel_problems()]


def names(kind: type[Problem]) -> list[str]:
    """The kernels that take part on problems of a class: its rungs from duels_from on."""
    return [name for name, spec in catalog.current().of_problem(kind).items() if spec.rung >= kind.duels_from]


def entries(problem: Problem, kernels: Sequence[str] = ()) -> list[Entry]:
    """(kernel, its constants): each kernel as tuned, and with every other value of each constant of duel_constants."""
    made: list[Entry] = []
    for name in kernels or names(problem.problem_type):
        made += tried(name, catalog.find(name), problem, problem.duel_constants)
    return made


def record(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """Writes this GPU's table after every problem. Returns the path. Unless `anew`, a problem stays if the table has
    all its rows of the present code. At the end, RunError names each problem that failed."""
    path, asked, failed = tables.path_of(KIND, device.name), problems(), list[str]()
    there = {} if anew else _kept(path, asked, device)
    groups = [Group(p.size, [problem_text(p)], partial(_met, p, failed)) for p in asked]
    resume(groups, there, partial(_write, path, device, asked), progress)
    if failed:
        raise RunError(f"{len(failed)} of {len(asked)} problems have no duel. {'. '.join(failed)}. Record them again.")
    return [path]


def _kept(path: Path, asked: Sequence[Problem], device: Device) -> dict[str, list[Row]]:
    """The rows of each problem with all its rows of the present code."""
    try:
        made, where = tables.load(path)
    except TraceError:
        return {}
    present = made.code_hash.isin(_codes(asked).values()) & (where.driver == device.driver)
    return kept(made[present], asked, lambda problem: (entries(problem), peers.asked_of(problem)))


def _met(problem: Problem, failed: list[str]) -> dict[str, list[Row]]:
    return met(problem, entries(problem), peers.asked_of(problem), failed)


def _write(path: Path, device: Device, asked: Sequence[Problem], rows: Mapping[str, Sequence[Row]]) -> None:
    said = ". ".join(f"{s.prefix or 'rested'}: {s.rounds} rounds of {s.seconds:g} s" for s in STATES)
    where = tables.provenance(device, _codes(asked), torch=metadata.version("torch"), protocol=said)
    listed = [row for problem in asked for row in rows.get(problem_text(problem), ())]
    tables.save(pd.DataFrame(listed, columns=list(COLUMNS)), path, where)


def _codes(asked: Sequence[Problem]) -> dict[str, str]:
    kinds = dict.fromkeys(problem.problem_type for problem in asked)
    return {name: catalog.current().kernels[name].code_hash for kind in kinds for name in names(kind)}


def recorded() -> tuple[pd.DataFrame, tables.Provenance] | None:
    """The recorded rows of kernels' present code, with the columns of meeting.COLUMNS."""
    return tables.of_present_code(KIND)
