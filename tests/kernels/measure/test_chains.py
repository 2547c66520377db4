"""Chains of launches: their cases, and torch's chain."""

import pandas as pd
import pytest
import torch

from kernels.catalog import current
from kernels.core.reference import on_device, on_host
from kernels.core.tolerance import max_abs_error
from kernels.measure import chains
from kernels.measure.chains import COLUMNS
from kernels.recordings import tables
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


def row(case, spec):
    settings = chains.settings_text(spec.settings_for(case.problem).items())
    made = {"fused": case.fused.name, "name": spec.name, "code_hash": spec.code_hash, "settings": settings}
    return dict.fromkeys(COLUMNS) | made | {"problem": chains.problem_text(case.problem), "us": 2.0, "status": "ok"}


def test_a_time_of_other_constants_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    case = next(case for case in chains.cases() if case.fused.name == "rope_write")
    rows = pd.DataFrame([row(case, spec) for spec in case.kernels])
    path = tables.save(rows, tables.path_of(chains.KIND, GPU.name), tables.provenance(GPU))
    assert len(chains.recorded(case.fused)[0]) == 2
    tables.save(rows.assign(settings="TOKENS=16"), path, tables.provenance(GPU))
    assert chains.recorded(case.fused) is None
