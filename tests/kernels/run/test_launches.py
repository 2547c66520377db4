"""Launches with clusters, tensor maps and structs, and kernels that a device cannot run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import catalog
from kernels.build import inspection
from kernels.catalog import load_kernel
from kernels.core.cases import cases_of
from kernels.core.launch import TensorMap
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import Tensor
from kernels.errors import FrontMatterError, OutOfMemory, ProblemError, RunError
from kernels.families.dense import DenseProblem
from kernels.run import execute
from kernels.run.backends import Device, cpu, driver, gpu_launches
from kernels.run.workers.worker import death

MAPPED = load_kernel(Path(__file__).parent / "launches" / "mapped.cu")
PROBLEM = DenseProblem(seq_len=50, batch=2, num_heads=3)
HOPPER = Device("gpu", "NVIDIA H200", "sm_90a", 227 * 1024)


@pytest.mark.gpu
@pytest.mark.parametrize("settings", [(), (("ROWS", 32),)])
def test_a_cluster_a_tensor_map_and_a_struct_reach_the_kernel(settings):
    request = Request(MAPPED, PROBLEM, settings, backend="gpu")
    request = replace(request, scope=Scope.everything(request.plan))
    rank = np.arange(PROBLEM.seq_len) // request.constants["ROWS"] % 2
    expected = np.float32(PROBLEM.scale) * PROBLEM.inputs()["q"] + rank[:, None].astype(np.float32)
    assert np.allclose(execute.run_timed_build(request)["o"], expected, rtol=1e-6, atol=1e-6)
    run = execute.run(request)
    assert np.allclose(run.arrays["o"], expected, rtol=1e-6, atol=1e-6)
    assert (run.trace.frame("event").event == "store").sum() == PROBLEM.inputs()["q"].size


def test_a_kernel_that_this_gpu_cannot_run_says_so_before_the_launch_and_is_inspected_all_the_same():
    request = Request(MAPPED, PROBLEM)
    execute.check_possible(request, HOPPER)
    with pytest.raises(ProblemError, match="mapped needs sm_90 or later, and NVIDIA A100 is sm_80. It can still be"):
        execute.check_possible(request, replace(HOPPER, name="NVIDIA A100", target="sm_80"))
    with pytest.raises(ProblemError, match="mapped uses clusters, which the CPU shim does not have. Choose a GPU"):
        execute.run(request)
    facts = inspection.inspect(MAPPED, PROBLEM, (), "sm_90a")
    assert facts["builds"]["timed"]["entries"][0]["shared_bytes"] >= 4 * 16 * 32
    assert cpu.device().backend == "cpu"


def test_an_odd_grid_of_clusters_is_told_and_a_box_by_names_has_its_own_order(tmp_path):
    text = MAPPED.source.replace('"2 * ceil_div(seq_len, 2 * ROWS)"', '"ceil_div(seq_len, ROWS)"')
    (tmp_path / "odd.cu").write_text(text)
    spec, said = (
        load_kernel(tmp_path / "odd.cu"),
        r"odd.cu: launches.mapped: a grid of \(3, 6, 1\) is no whole number of clus",
    )
    with pytest.raises(FrontMatterError, match=said):
        spec.plan(DenseProblem(seq_len=48, batch=2, num_heads=3))
    made = Tensor("x", (2, 10, 3, 64), "float16", ("batch", "key", "head", "dim"))
    by_name = TensorMap("x", (1, 1, 5, 64), 128, ("batch", "head", "key", "dim"))
    assert driver.dimensions(made, by_name) == ([2, 3, 10, 64], [3840, 128, 384, 2])
    assert driver.dimensions(made, TensorMap("x", (1, 5, 1, 64))) == ([2, 10, 3, 64], [3840, 384, 128, 2])
    with pytest.raises(ProblemError, match="its box names batch, key, dim, and the tensor has batch, key, head, dim"):
        driver.dimensions(made, TensorMap("x", (1, 5, 64), 0, ("batch", "key", "dim")))


@pytest.mark.parametrize(
    ("tensor", "asked", "why"),
    [
        (((8, 6), "float32"), TensorMap("x", (8, 4)), "strides of"),
        (((8, 32), "float32"), TensorMap("x", (8, 512)), "a box's sizes are 1 to 256"),
        (((8, 32), "float32"), TensorMap("x", (8,)), "its box"),
        (((8, 32), "bfloat16"), TensorMap("x", (8, 4)), "boxes 8 bytes wide, and they must be multiples of 16"),
        (((8, 64), "float32"), TensorMap("x", (8, 64), 128), "a swizzle of 128"),
        (((1, 1, 1, 1, 1, 32), "float32"), TensorMap("x", (1, 1, 1, 1, 1, 32)), "a map has 1 to 5"),
    ],
)
def test_a_tensor_map_that_cuda_would_refuse_is_refused_with_the_reason(tensor, asked, why):
    shape, dtype = tensor
    made = Tensor("x", shape, dtype, tuple(f"axis{n}" for n in range(len(shape))))
    with pytest.raises(ProblemError, match=f"tensor map of x .* is invalid: .*{why}"):
        driver.tensor_map(made, asked, 0)


def test_what_cuda_says_is_told_apart_by_its_number_and_not_by_its_words():
    assert type(driver.failure(2, "whatever it says")) is OutOfMemory
    assert type(driver.failure(1, "out of memory, it says")) is RunError
    sticky = driver.failure(700, "whatever it says")
    assert isinstance(sticky, driver.StickyError)
    said = death("mine", sticky.exit_code)
    assert type(said) is RunError and "CUDA error ILLEGALADDRESS" in str(said)
    for text in (str(said), str(sticky)):
        assert "CUDA names no line" in text and "--backend cpu" in text and "compute-sanitizer" in text
    assert len({driver.exit_code(status) for status in driver.STICKY}) == len(driver.STICKY)
    assert all(0 < driver.exit_code(status) < 128 for status in driver.STICKY)


# ---- the host's calls from C++ ----


def test_one_stream_and_a_graph_are_plain_and_the_library_has_each_function():
    names = {"launch_one_stream", "launch_graph", "launch_two_streams", "launch_copy_pinned", "launch_dependent"}
    names |= {"launch_grid_barrier", "launch_children", "launch_padded"}
    specs = [catalog.find(name) for name in sorted(names)]
    plans = {spec.name: spec.plan(cases_of(spec, "launch_cases").possible[0].problem) for spec in specs}
    plain = {name for name, plan in plans.items() if gpu_launches.plain(plan)}
    assert plain == {"launch_one_stream", "launch_graph", "launch_padded"}
    library = gpu_launches._library()
    assert all(hasattr(library, name) for name in ("launch_all", "launch_graph", "make_graph", "destroy_graph"))
