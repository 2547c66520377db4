"""Chains of launches: their cases, torch's chain, and a table that goes on after a break."""

import numpy as np
import pytest
import torch

from kernels.catalog import current
from kernels.core.reference import on_device, on_host
from kernels.core.tolerance import max_abs_error
from kernels.measure import chains
from kernels.measure.chains import COLUMNS, COMPILED
from kernels.recordings import tables
from kernels.run import workers
from kernels.run.backends import Device

GPU = Device("gpu", "Small GPU", "sm_90a", 232448, "580", 132)


def test_a_fused_kernel_takes_turns_with_the_kernel_of_more_launches_that_it_changes():
    for case in chains.cases():
        assert len(case.separate.launch_texts) > len(case.fused.launch_texts)
        assert case.fused.changed_from == case.separate.name and case.separate.solves_class(type(case.problem))
    assert {case.problem.tokens for case in chains.cases()} == {1, 16, 64, 8192}
    assert {case.problem.dtype for case in chains.cases()} == {"float16", "bfloat16"}


@pytest.mark.parametrize("kind", sorted({case.fused.problem_type for case in chains.cases()}, key=str))
def test_the_chain_in_torch_has_the_outputs_of_the_problem(kind):
    for problem in (kind(), kind(dtype="bfloat16")):
        given = {name: on_device(array, "cpu") for name, array in problem.inputs().items()}
        made, true, torchs = problem.torch_chain()(**given), problem.truth(), problem.yardstick()
        for tensor in problem.outputs:
            array = on_host(made[tensor.name])
            allowed = 2 * max_abs_error(torchs[tensor.name], true[tensor.name]) + 1e-6
            assert array.shape == tensor.shape and max_abs_error(array, true[tensor.name]) <= allowed


def test_torch_s_chain_writes_the_cache_in_place():
    kind = current().kernels["rope_write"].problem_type
    given = {name: on_device(array, "cpu") for name, array in kind().inputs().items()}
    before = given["k_cache"].clone()
    made = kind().torch_chain()(**given)
    assert made["k_cache"] is given["k_cache"] and not torch.equal(before, given["k_cache"])


class Submitted:
    """In place of a worker: a row for each contestant of the case."""

    def __init__(self):
        self.asked = []

    def __call__(self, function, case, **rest):
        self.asked.append(case)
        self.rows = [row(case, spec) for spec in case.kernels]
        self.rows.append(self.rows[-1] | {"name": COMPILED, "code_hash": None, "settings": None})
        return self

    def result(self):
        if len(self.asked) == 2:
            raise KeyboardInterrupt
        return self.rows


def row(case, spec):
    settings = chains.settings_text(spec.settings_for(case.problem).items())
    made = {"fused": case.fused.name, "name": spec.name, "code_hash": spec.code_hash, "settings": settings}
    return dict.fromkeys(COLUMNS) | made | {"problem": chains.problem_text(case.problem), "us": 2.0, "status": "ok"}


def test_a_break_loses_one_case_and_the_next_call_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    asked = [case for case in chains.cases() if case.fused.name == "rope_write"][:3]
    monkeypatch.setattr(chains, "cases", lambda: asked)
    submit = Submitted()
    monkeypatch.setattr(workers, "submit", submit)
    with pytest.raises(KeyboardInterrupt):
        chains.record(GPU)
    chains.record(GPU)
    assert [case.key for case in submit.asked] == [asked[n].key for n in (0, 1, 1, 2)]
    rows, where = chains.recorded(asked[0].fused)
    assert len(rows) == 9 and where.device == "Small GPU" and np.all(rows.us == 2)


def test_a_time_of_other_constants_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    case = next(case for case in chains.cases() if case.fused.name == "rope_write")
    rows = [row(case, spec) | {"settings": "TOKENS=16"} for spec in case.kernels]
    chains._write(tables.path_of(chains.KIND, GPU.name), GPU, {case.key: case}, {case.key: rows})
    assert chains.recorded(case.fused) is None
