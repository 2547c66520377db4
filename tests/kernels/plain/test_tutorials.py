"""Tutorial kernels in CUDA's own names: the unchanged text runs, is right, and logs its accesses."""

from pathlib import Path

import pytest

from kernels.build import Mode, build
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.run.check import check_case

TUTORIALS = sorted((Path(__file__).parent / "tutorials").glob("*.cu"))


def _request(path):
    kernel = load_kernel(path)
    shown = sample(kernel)
    return Request(kernel, shown.problem, tuple(kernel.settings(shown.settings).items()), Scope(), "cpu")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_passes_the_check_and_has_no_fault(path):
    request = _request(path)
    verdicts = check_case(request.kernel, Case(request.problem, request.settings), "cpu")
    assert len(verdicts) == 2
    assert all(v.ok and not v.faults for v in verdicts), [(v.message, v.faults, v.errors) for v in verdicts]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_automatic_probes_log_loads_and_stores_with_their_lines(path):
    request = _request(path)
    trace = execute.run(request).trace
    frame = trace.frame("file", "line", "event", "space", "tensor", "offset", "bytes")
    accesses = frame[frame.space.notna()]
    assert {"load", "store"} <= set(accesses.event)
    assert not trace.lost
    text = path.read_text().splitlines()
    for line in accesses.line.unique():
        assert not text[line - 1].lstrip().startswith("//") and text[line - 1].strip()


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_nvrtc_compiles_the_same_text(path):
    request = _request(path)
    built = build(request.kernel, request.defines, Mode.TIMED, "sm_90a")
    assert {fact.entry for fact in built.facts} == {step.entry for step in request.plan.launches}
