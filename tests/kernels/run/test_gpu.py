"""What only a GPU can show: pytest -m gpu. Launches are in test_launches.py, times in timing/test_timing_on_gpu.py."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from dropped import odd_kernel
from faulty import spec
from same_trace import assert_same

from kernels.build import Mode
from kernels.catalog import KERNELS, current
from kernels.core import reference
from kernels.core.dtypes import DTYPES
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import OutOfMemory, ProblemError, RunError, TooLargeError
from kernels.families.dense import DenseProblem
from kernels.families.paged import PagedProblem
from kernels.run import check, execute, workers
from kernels.run.backends import gpu, gpu_arrays

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[3]
LARGE = {
    DenseProblem: (
        DenseProblem(seq_len=1024, head_dim=64, num_heads=8),
        DenseProblem(seq_len=2049, head_dim=128, num_heads=3, batch=2, causal=True),
        DenseProblem(seq_len=4096, head_dim=32, num_heads=2, score_scale=10.0),
    ),
    PagedProblem: (
        PagedProblem((8192, 1, 4000), 32, 8, 128, dtype="float16"),
        PagedProblem((16384,), 8, 8, 128, 32),
        PagedProblem((1500,) * 64, 8, 1, 256, 8),
    ),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_both_builds_agree_with_float64(kernel):
    possible, reasons = check.cases(kernel, gpu.device())
    if not possible:
        pytest.skip(" ".join(reasons))
    for case in [*possible, *map(Case, LARGE.get(kernel.problem_type, ()))]:
        for verdict in check.check_case(kernel, case, "gpu"):
            assert verdict.ok, verdict


@pytest.mark.parametrize("name", current().of_problem(DenseProblem))
@pytest.mark.parametrize(
    "problem",
    [
        DenseProblem(),
        DenseProblem(seq_len=65, head_dim=128, num_heads=3, batch=2, causal=True),
        DenseProblem(seq_len=100, head_dim=64, score_scale=5.0),
    ],
    ids=["64", "65c", "100"],
)
def test_gpu_and_cpu_traces_are_the_same(name, problem):
    same_trace(Request(KERNELS[name], problem))


def test_gpu_and_cpu_traces_of_the_kernel_for_any_call_are_the_same():
    spec = KERNELS["05b_any_shape"]
    same_trace(Request(spec, spec.problem_type()))


PAGED = (
    {},
    {"dtype": "float16", "head_dim": 80, "block_size": 8},
    {"head_dim": 256, "block_size": 32},
    {"dtype": "bfloat16", "head_dim": 128, "block_size": 64},
    {"cache_dtype": "float8_e4m3", "head_dim": 128},
)


def _paged():
    """(name, changes) of every paged kernel with those changes that its problem takes."""
    for name, changes in product(current().of_family("paged"), PAGED):
        with suppress(ProblemError, TypeError):
            KERNELS[name].problem_type(**changes)
            yield name, changes


@pytest.mark.parametrize(("name", "changes"), list(_paged()), ids=str)
def test_gpu_and_cpu_traces_of_the_paged_kernels_are_the_same(name, changes):
    spec = KERNELS[name]
    same_trace(Request(spec, spec.problem_type(**changes), (("PARTITION", 32),) if name == "paged_v2" else ()))


def test_gpu_and_cpu_traces_and_outputs_of_small_types_and_accumulators_are_the_same(monkeypatch):
    odd = odd_kernel(monkeypatch)
    problem = odd.problem_type(samples=1000)
    same_trace(Request(odd, problem))
    monkeypatch.setattr(execute, "FIRST_CAPACITY", 1)  # so that it is launched twice
    runs = [execute.run(Request(odd, problem, backend=backend)) for backend in ("gpu", "cpu")]
    for name in ("glow", "light"):
        assert runs[0].arrays[name].dtype == runs[1].arrays[name].dtype
        assert np.array_equal(*(run.arrays[name] for run in runs))
    request = Request(odd, problem, backend="gpu")
    made, plan, arrays = execute.prepare(request, Mode.TIMELINE)
    gpu.launch_timeline(made, plan, arrays)
    assert np.array_equal(arrays["light"], runs[0].arrays["light"])
    made, plan, arrays = execute.prepare(request, Mode.TIMED)
    gpu.launch_repeatedly(made, plan, arrays, 5)
    assert np.array_equal(arrays["light"], runs[0].arrays["light"])


def test_fresh_tensors_and_the_reference_are_alike_on_both_and_what_does_not_fit_is_refused():
    for dtype in DTYPES:
        for initial in (Initial.POISON, Initial.ZERO):
            tensor = Tensor("x", (3, 5), dtype, ("row", "column"), Role.SCRATCH, initial)
            assert gpu_arrays.to_numpy(gpu_arrays.fresh(tensor), tensor).tobytes() == tensor.fresh().tobytes()
    with pytest.raises(TooLargeError, match="GiB for its arrays .* free"):
        execute.run(Request(KERNELS["01_naive"], DenseProblem(16384, 128, 64, 64), backend="gpu"))
    assert gpu.free_bytes() > 2**30
    with pytest.raises(OutOfMemory, match="The GPU ran out of memory"), gpu.errors():
        cupy = pytest.importorskip("cupy")
        cupy.empty(2**50, cupy.uint8)
    for problem in (
        DenseProblem(seq_len=100, batch=2),
        DenseProblem(seq_len=3000, head_dim=64, causal=True, score_scale=5.0),
    ):
        assert np.allclose(problem.truth()["o"], problem.truth(on_gpu=True)["o"], rtol=1e-12, atol=1e-12)


def same_trace(request):
    scope = Scope.everything(request.plan)
    assert_same(*(execute.run(replace(request, scope=scope, backend=backend)) for backend in ("gpu", "cpu")))


def test_m_and_l_are_those_of_the_prefix_in_float64():
    problem = DenseProblem(seq_len=100, head_dim=64, num_heads=1)
    run = execute.run(Request(KERNELS["03_flash"], problem, (), Scope(0, 7), "gpu"))
    frame = run.trace.frame("event", "row", "tile", "value")
    s = reference.scores(run.arrays["q"], run.arrays["k"], problem.scale, False)[0, 0]
    for row in range(100):
        m, l = (frame[(frame.event == name) & (frame.row == row)].value.to_numpy() for name in ("m", "l"))
        true_m, true_l = reference.prefix_max_and_sum(s[row], np.minimum(np.arange(1, 8) * 16, 100))
        assert np.allclose(m, true_m, rtol=1e-5) and np.allclose(l, true_l, rtol=1e-5)


def script(code, *prefix):
    return subprocess.run(
        [*prefix, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
    )


RUN = (
    "from kernels.run import execute; from kernels.core.request import Request; from kernels.catalog import "
    "load_kernel; "
    "from kernels.families.dense import DenseProblem; "
)


@pytest.mark.skipif(not shutil.which("compute-sanitizer"), reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("which", range(3))
def test_racecheck_catches_a_removed_syncthreads(variant, which):
    source = KERNELS["03_flash"].source
    parts = source.split("__syncthreads();")
    racy = variant(
        "03_flash",
        source,
        "__syncthreads();".join(parts[: which + 1]) + ";" + "__syncthreads();".join(parts[which + 1 :]),
    )
    run = "execute.run_timed_build(Request(spec, DenseProblem(seq_len=50), backend='gpu'))"
    code = RUN + f"spec = load_kernel({str(racy.path)!r}); {run}"
    done = script(code, "compute-sanitizer", "--tool", "racecheck", "--error-exitcode", "9")
    assert done.returncode == 9 and "hazard" in (done.stdout + done.stderr).lower(), done.stdout + done.stderr


def test_an_illegal_address_ends_its_worker_and_the_next_run_succeeds():
    def submit(request, **options):
        return workers.submit(execute.run, request, backend="gpu", title=request.kernel.name, **options)

    good = Request(KERNELS["03_flash"], DenseProblem(), backend="gpu")
    assert submit(good).result(120).max_abs_error < 1e-6
    with pytest.raises(RunError, match="illegal failed on the GPU with CUDA error ILLEGALADDRESS"):
        submit(Request(spec("illegal"), DenseProblem(seq_len=1), backend="gpu")).result(120)
    assert submit(good).result(120).max_abs_error < 1e-6
    with pytest.raises(RunError, match="endless ran past its limit of 10 s"):
        submit(Request(spec("endless"), DenseProblem(seq_len=1), backend="gpu"), time_limit=10).result(120)
    assert submit(good).result(120).max_abs_error < 1e-6
