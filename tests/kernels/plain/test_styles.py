"""Parts of CUDA C++ on the CPU against NumPy: wmma, half2, asynchronous copies, groups, templates, fp8."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from kernels.build import Mode, build
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.plain import launches

F16 = np.float16
TRUTHS = {
    "wmma_product": lambda x: (
        2 * (x.reshape(16, 16).astype(F16).astype(float) @ x.reshape(16, 16).astype(F16))[:4].ravel()
    ),
    "half2_sums": lambda x: (lambda h: (h[0] * F16(0.5) + h[1] * F16(0.5)).sum(-1, dtype=F16))(
        x.astype(F16).reshape(2, 64, 2)
    ),
    "pipelined": lambda x: x.reshape(4, 64).sum(0)[::-1],
    "group_copy": lambda x: x[63::-1][:64],
    "cooperative": lambda x: x[:64] + x[63::-1][:64],
    "instance<float, 64>": lambda x: x[63::-1][:64],
    "fp8_values": lambda x: x[:64].astype(ml_dtypes.float8_e4m3fn).astype(np.float32),
}


@lru_cache
def _built(file, mode):
    kernel = load_kernel(Path(__file__).parent / "planted" / f"{file}.cu")
    request = Request(kernel, sample(kernel).problem, (), Scope(), "cpu")
    return request, *execute.prepare(request, mode)[:2]


def _file_of(entry):
    return "products" if entry == "wmma_product" else "styles"


def _plan_of(plan, entry):
    return replace(plan, launches=tuple(step for step in plan.launches if step.entry == entry))


@pytest.mark.parametrize("reversed_order", [False, True])
@pytest.mark.parametrize("entry", TRUTHS)
def test_a_style_gives_numpys_answer_without_a_fault(entry, reversed_order):
    request, built, plan = _built(_file_of(entry), Mode.PROBED)
    arrays = execute.start_arrays(request)
    found = launches.launch(built, _plan_of(plan, entry), arrays, Scope(), [1 << 16], reversed_order)
    assert not found.faults
    np.testing.assert_allclose(arrays["o"].ravel()[:64], TRUTHS[entry](arrays["x"].ravel()), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("entry", TRUTHS)
def test_the_timed_build_gives_numpys_answer(entry):
    request, built, plan = _built(_file_of(entry), Mode.TIMED)
    arrays = execute.start_arrays(request)
    cpu.launch(built, _plan_of(plan, entry), arrays, Scope(), reversed_order=True)
    np.testing.assert_allclose(arrays["o"].ravel()[:64], TRUTHS[entry](arrays["x"].ravel()), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("file", ["styles", "products"])
def test_nvrtc_compiles_all_styles(file):
    kernel = load_kernel(Path(__file__).parent / "planted" / f"{file}.cu")
    request = Request(kernel, sample(kernel).problem, (), Scope(), "cpu")
    facts = build(kernel, request.defines, Mode.TIMED, "sm_90a").facts
    assert {fact.entry for fact in facts} == {entry for entry in TRUTHS if _file_of(entry) == file}
