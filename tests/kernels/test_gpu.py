"""What only a GPU can show: pytest -m gpu"""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from faulty import spec

from kernels import bench, check, execute, measure, peers, workers
from kernels.catalog import ATTENTION, CACHE, KERNELS, PAGED
from kernels.errors import RunError
from kernels.execute import Request, Scope
from kernels.paged import PagedProblem
from kernels.problem import AttentionProblem

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]
ROOT = Path(__file__).parents[2]
LARGE = {"attention": (AttentionProblem(seq_len=1024, head_dim=64, heads=8), AttentionProblem(seq_len=2049, head_dim=128, heads=3, batch=2, causal=True),
         AttentionProblem(seq_len=4096, head_dim=32, heads=2, score_scale=10.0)),
         "paged": (PagedProblem((8192, 1, 4000), 32, 8, 128, dtype="float16"), PagedProblem((16384,), 8, 8, 128, 32), PagedProblem((1500,) * 64, 8, 1, 256, 8)),
         "cache": ()}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_both_builds_agree_with_float64(kernel):
    for problem, settings in [*check.grid(kernel), *((p, ()) for p in LARGE.get(kernel.family, ()))]:
        for verdict in check.check_problem(kernel, problem, settings, "gpu"):
            assert verdict.ok, verdict


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("problem", [AttentionProblem(), AttentionProblem(seq_len=65, head_dim=128, heads=3, batch=2, causal=True),
                                     AttentionProblem(seq_len=100, head_dim=64, score_scale=5.0)], ids=["64", "65c", "100"])
def test_gpu_and_cpu_traces_are_the_same(name, problem):
    same_trace(Request(KERNELS[name], problem))


@pytest.mark.parametrize("name", [*PAGED, *CACHE])
@pytest.mark.parametrize("changes", [{}, {"dtype": "float16", "head_size": 80, "block_size": 8}, {"head_size": 256, "block_size": 32}], ids=str)
def test_gpu_and_cpu_traces_of_the_paged_kernels_are_the_same(name, changes):
    spec = KERNELS[name]
    same_trace(Request(spec, spec.problem_type(**changes), (("PARTITION", 32),) if name == "paged_v2" else ()))


def same_trace(request):
    """Over everything: all columns equal, values within 1e-5."""
    scope = Scope(0, request.plan.items)
    gpu, cpu = (execute.run(replace(request, scope=scope, backend=backend)).trace.table for backend in ("gpu", "cpu"))
    for column in set(gpu.column_names) - {"value"}:
        assert gpu[column].combine_chunks().equals(cpu[column].combine_chunks()), column
    a, b = (table["value"].fill_null(0).to_numpy() for table in (gpu, cpu))
    assert np.allclose(a, b, rtol=1e-5, atol=1e-5)


def test_the_reference_is_the_same_on_both_processors():
    from kernels import reference

    for problem in (AttentionProblem(seq_len=100, batch=2), AttentionProblem(seq_len=3000, head_dim=64, causal=True, score_scale=5.0)):
        a = (*problem.inputs().values(), problem.scale, problem.causal)
        assert np.allclose(reference.attention(*a), reference.attention_on_gpu(*a), rtol=1e-12, atol=1e-12)


def test_m_and_l_are_those_of_the_prefix_in_float64():
    from kernels import reference

    problem = AttentionProblem(seq_len=100, head_dim=64, heads=1)
    run = execute.run(Request(KERNELS["03_flash"], problem, (), Scope(0, 7), "gpu"))
    frame = run.trace.frame("event", "row", "tile", "value")
    s = reference.scores(run.arrays["q"], run.arrays["k"], problem.scale, False)[0, 0]
    for row in range(100):
        m, l = (frame[(frame.event == name) & (frame.row == row)].value.to_numpy() for name in ("m", "l"))
        true_m, true_l = reference.prefix_max_and_sum(s[row], np.minimum(np.arange(1, 8) * 16, 100))
        assert np.allclose(m, true_m, rtol=1e-5) and np.allclose(l, true_l, rtol=1e-5)


def script(code, *prefix):
    return subprocess.run([*prefix, sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=300,
                          env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"})


RUN = "from kernels import execute; from kernels.execute import Request; from kernels.problem import AttentionProblem; from kernels.catalog import KERNELS; " \
      "from dataclasses import replace; from pathlib import Path; "


@pytest.mark.skipif(not shutil.which("compute-sanitizer"), reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("which", range(3))
def test_racecheck_catches_a_removed_syncthreads(variant, which):
    source = KERNELS["03_flash"].source
    parts = source.split("__syncthreads();")
    racy = variant("03_flash", source, "__syncthreads();".join(parts[:which + 1]) + ";" + "__syncthreads();".join(parts[which + 1:]))
    code = RUN + f"spec = replace(KERNELS['03_flash'], folder=Path({str(racy.folder)!r})); " \
                 "execute.run_timed_build(Request(spec, AttentionProblem(seq_len=50), backend='gpu'))"
    done = script(code, "compute-sanitizer", "--tool", "racecheck", "--error-exitcode", "9")
    assert done.returncode == 9 and "hazard" in (done.stdout + done.stderr).lower(), done.stdout + done.stderr


@pytest.mark.skipif(not workers.pebble, reason="pebble is not installed: without worker processes there is nothing to replace")
def test_an_illegal_address_ends_its_worker_and_the_next_run_succeeds():
    def submit(request, **options):
        return workers.submit(execute.run, request, backend="gpu", what=request.kernel.name, **options)

    good = Request(KERNELS["03_flash"], AttentionProblem(), backend="gpu")
    assert submit(good).result(120).max_abs_error < 1e-6
    with pytest.raises(RunError, match="illegal failed on the GPU with CUDA error ILLEGALADDRESS"):
        submit(Request(spec("illegal"), AttentionProblem(seq_len=1), backend="gpu")).result(120)
    assert submit(good).result(120).max_abs_error < 1e-6
    with pytest.raises(RunError, match="endless ran past its limit of 10 s"):
        submit(Request(spec("endless"), AttentionProblem(seq_len=1), backend="gpu"), time_limit=10).result(120)
    assert submit(good).result(120).max_abs_error < 1e-6


# ---- times; none is compared with another here ----


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_gets_a_time_after_its_output_passed(name):
    (point,) = bench.points([name])
    made = measure.measure(point)
    assert made.status == "ok", made.reason
    assert 0 < made.p10_us <= made.median_us <= made.p90_us and made.runs >= measure.LEAST_RUNS
    assert made.max_abs_error <= 2 * made.baseline_max_abs_error
    assert made.peak_bytes >= made.point.problem.input_bytes - 512 if name in ATTENTION else made.peak_bytes > 0
    row = bench.row(made, measure.roofs())
    assert row["status"] == "ok" and (row["gb_per_s"] is None) == (getattr(point.problem, "work", None) is None)


@pytest.mark.parametrize("constant", ["RESCALE", "SUBTRACT_MAX"])
def test_a_what_if_build_gets_no_time(constant):
    (point,) = bench.points(["04_flash_registers"], [], [(constant, "0"), ("score_scale", "30")])
    made = measure.measure(point)
    assert made.status == "wrong" and made.median_us is None and "A wrong kernel gets no time. It is built broken on purpose" in made.reason


def test_peers_are_timed_or_say_why_they_cannot():
    made = {p.name: measure.measure(p) for p in bench.points(["03_flash"], [("seq_len", ["300"])], with_peers=True) if p.is_peer}
    assert set(made) == set(peers.PEERS)
    assert made["sdpa_efficient"].status == "ok"  # it is torch's own choice in fp32, and so the yardstick
    assert made["sdpa_math"].status in ("ok", "wrong")  # which it may miss by more than twice, as at seq_len 512
    for name in ("sdpa_flash", "sdpa_cudnn"):
        assert made[name].status == "unavailable" and f"torch says of {name}" in made[name].reason
    half = {p.name: measure.measure(p).status for p in bench.points(["paged_v1"], [("batch", ["2"])], with_peers=True) if p.is_peer}
    assert half["sdpa_flash"] == "ok"


def test_what_is_too_large_is_skipped_before_it_is_allocated():
    (point,) = bench.points(["01_naive"], [], [("seq_len", "16384"), ("batch", "64"), ("heads", "64"), ("head_dim", "128")])
    made = measure.measure(point)
    assert made.status == "skipped" and "Choose a smaller seq_len" in made.reason
