"""Planted faults of seven kinds, each one edit of a right kernel. check names each fault with a line of the edit, and
has no fault for the right twin on the same problem.

rows, tiles and copies are in CUDA's own names, 02_tiled and 08_pipeline have written probes.
"""

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from kernels.catalog import KERNELS, load_kernel
from kernels.core.problem import Case
from kernels.families.dense import DenseProblem
from kernels.families.dense.problem import LOW_LENGTH, LOW_SCALE, LOW_SEEDS
from kernels.run.check import check_case
from kernels.run.wrong.telling import evidence_of, once

PLANTED = Path(__file__).parent / "planted"
STARTER = Path(__file__).parents[4] / "app" / "workbench" / "starter.cu"
FULL, CAUSAL = (DenseProblem(40, 64, 1, 2, causal, seed=3) for causal in (False, True))
LOW = DenseProblem(LOW_LENGTH, 32, 2, 2, True, LOW_SCALE, LOW_SEEDS[32])


PROBLEMS = {"full": FULL, "causal": CAUSAL, "low": LOW, "default": KERNELS["08_pipeline"].problem_type()}


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    group: its kind, in words.
    kernel: a file of planted, or a name of the catalogue.
    old, new: the edit, at the first place of `old`.
    kinds: the kinds of evidence that name it, or none for any.
    lines: parts of lines, of which the evidence names at least one.
    problem: a key of PROBLEMS.
    quick: whether each run of the tests has it."""

    name: str
    group: str
    kernel: str
    old: str
    new: str
    kinds: list[str]
    lines: list[str]
    problem: str = "full"
    quick: bool = False


FAULTS = [Fault(**one) for one in tomllib.loads((PLANTED / "faults.toml").read_text())["fault"]]


def text_of(kernel):
    if kernel == "tiles":
        return STARTER.read_text()
    return (KERNELS[kernel].path if kernel in KERNELS else PLANTED / f"{kernel}.cu").read_text()


def evidence(path, problem):
    return once(
        one
        for verdict in check_case(load_kernel(path), Case(problem), "cpu")
        for one in evidence_of(verdict.faults, verdict.reason)
    )


@lru_cache
def of_right(kernel, problem, folder):
    """The evidence of the right twin."""
    path = Path(folder) / f"right_{kernel}.cu"
    path.write_text(text_of(kernel))
    return evidence(path, problem)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the headers of the kernels of the catalogue."""
    made = tmp_path_factory.mktemp("planted")
    for name in ("02_tiled", "08_pipeline"):
        for header in KERNELS[name].path.parent.glob("*.cuh"):
            (made / header.name).write_text(header.read_text())
    return str(made)


def test_there_are_thirty_faults_of_different_names_and_each_edit_has_its_place():
    assert len(FAULTS) == len({fault.name for fault in FAULTS}) == 30
    assert len({fault.group for fault in FAULTS}) == len({fault.group for fault in FAULTS if fault.quick}) == 7
    assert not [fault.name for fault in FAULTS if fault.old not in text_of(fault.kernel)]


@pytest.mark.parametrize(
    "fault",
    [pytest.param(one, id=one.name, marks=[] if one.quick else pytest.mark.slow) for one in FAULTS],
)
def test_a_planted_fault_is_named_with_its_line_and_its_right_twin_has_none(fault, folder):
    assert of_right(fault.kernel, PROBLEMS[fault.problem], folder) == ()
    path = Path(folder) / "faulty.cu"
    path.write_text(text_of(fault.kernel).replace(fault.old, fault.new, 1))
    found = evidence(path, PROBLEMS[fault.problem])
    lines = path.read_text().splitlines()
    good = [
        one
        for one in found
        if (not fault.kinds or one.kind in fault.kinds)
        and (not fault.lines or any(part in lines[line - 1] for line in one.lines for part in fault.lines))
    ]
    assert found and good, (found, [(line, lines[line - 1]) for one in found for line in one.lines])
