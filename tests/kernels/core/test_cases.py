"""A kernel's cases: those that its conditions refuse are counted, and keep no other case and no other kernel from its
turn."""

from collections import Counter
from dataclasses import replace

import pytest
from dropped import conditional_kernel

from kernels import catalog
from kernels.catalog import KERNELS, load_kernel
from kernels.core.cases import cases_of, sample
from kernels.errors import FrontMatterError, ProblemError
from kernels.families.dense import DenseProblem
from kernels.measure import record
from kernels.recordings import run_index
from kernels.recordings.requests import requests_of
from kernels.run import check
from kernels.run.backends import cpu

KINDS = ("check_cases", "recorded_cases", "counter_cases", "timeline_cases", "pipeline_cases")


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """mine(must) -> the README's kernel with that condition, the only kernel of the catalogue next to 03_flash."""

    def make(must):
        spec = load_kernel(conditional_kernel(tmp_path, must))
        found = catalog.Catalog({spec.name: spec, "03_flash": KERNELS["03_flash"]})
        monkeypatch.setattr(catalog, "current", lambda: found)
        return spec

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_a_shipped_kernel_with_conditions_has_all_cases_that_its_problem_names(kind):
    for kernel in [kernel for kernel in KERNELS.values() if kernel.conditions]:
        found = cases_of(kernel, kind)
        assert found.possible == list(getattr(kernel.problem_type, kind)(kernel)) and not found.fault


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("must", "causal"), [("not causal", False), ("causal", True)])
def test_refused_cases_are_left_out_and_counted(mine, must, causal, kind):
    kernel = mine(must)
    free = list(getattr(DenseProblem, kind)(replace(kernel, conditions=())))
    found = cases_of(kernel, kind)
    assert found.possible == [case for case in free if case.problem.causal is causal]
    left = len(free) - len(found.possible)
    assert found.refused == Counter({f"It must be that {must}.": left} if left else {})


@pytest.mark.parametrize("must", ["not causal", "causal", "BLOCK_Q == 8"])
def test_a_kernel_that_refuses_a_standard_problem_stops_no_command(mine, must):
    kernel = mine(must)
    shown = sample(kernel)
    assert kernel.plan(shown.problem, shown.settings)
    assert {request.kernel.name for request in requests_of("timeline_cases")} >= {"03_flash"}
    assert requests_of("pipeline_cases")
    assert {spec.name for spec, _ in run_index.cases(catalog.KERNELS.values())} >= {"03_flash"}
    record.missing([kernel, KERNELS["03_flash"]], False)
    possible, _ = check.cases(kernel, cpu.device())
    assert possible and all(case.problem.causal is (must == "causal") for case in possible if "causal" in must)


def test_a_kernel_with_a_condition_plans_by_it_and_makes_equal_cases_one(mine):
    kernel = mine("not causal")
    problem = DenseProblem(causal=True)
    assert replace(kernel, conditions=()).plan(problem)
    with pytest.raises(ProblemError, match="It must be that not causal"):
        kernel.plan(problem)
    found = cases_of(kernel, "check_cases", {"causal": "true"})
    assert not found.possible and found.refused.total() > 40
    found = cases_of(kernel, "check_cases", {"seq_len": "65", "seed": "1"}, {"BLOCK_Q": 8})
    assert {case.problem.seq_len for case in found.possible} == {65} and 1 < len(found.possible) < 67
    assert {case.settings for case in found.possible} == {(("BLOCK_Q", 8),)}
    assert len(set(found.possible)) == len(found.possible)


def test_a_problem_that_cannot_name_its_cases_is_told_with_the_kernels_file(mine, monkeypatch):
    def broken(kernel):
        raise ValueError("no such size")

    kernel = mine("causal")
    monkeypatch.setattr(DenseProblem, "check_cases", broken)
    monkeypatch.setattr(DenseProblem, "recorded_cases", broken)
    said = "not_causal.cu: recorded_cases of family dense fails (ValueError: no such size)"
    assert cases_of(kernel, "recorded_cases").fault.startswith(said)
    assert any(line.startswith(said) for line in record.missing([kernel], False))
    with pytest.raises(FrontMatterError, match="not_causal.cu: check_cases of family dense fails"):
        sample(kernel)
