"""The CPU shim: it gives what the GPU gives, and stops with a message where the GPU would hang, read wrongly or be undefined."""

import ctypes
import subprocess

import numpy as np
import pytest
from faulty import spec

from kernels import build, check, execute
from kernels.backends import cpu
from kernels.build import Mode
from kernels.catalog import KERNELS, PAGED
from kernels.errors import RunError
from kernels.execute import Request, Scope, run
from kernels.paged import PagedProblem
from kernels.problem import AttentionProblem

PROBLEM = AttentionProblem(seq_len=50, heads=1)


def outputs(kernel, problem=PROBLEM, reversed_order=False, settings=()):
    """The kernel's outputs, one array."""
    made, plan, arrays = execute.prepare(Request(kernel, problem, settings), Mode.TIMED)
    cpu.launch(made, plan, arrays, Scope(), reversed_order=reversed_order)
    return np.concatenate([arrays[name].ravel() for name in problem.outputs])


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("other", [False, True])
def test_reversed_lane_order_gives_the_same_output(kernel, other):
    if kernel.problem_type is AttentionProblem:
        problem, settings = AttentionProblem(seq_len=50, heads=2, causal=other), ()
    else:
        problem, settings = check.grid(kernel)[-1 if other else 0]
    forward = outputs(kernel, problem, settings=settings)
    assert np.isfinite(forward).all()
    assert np.array_equal(forward, outputs(kernel, problem, reversed_order=True, settings=settings))


@pytest.mark.parametrize("name", PAGED)
@pytest.mark.parametrize("which", range(4))
def test_a_removed_syncthreads_changes_a_paged_output(variant, name, which):
    source = KERNELS[name].source
    parts = source.split("__syncthreads();")
    assert len(parts) >= 5
    problem, settings = PagedProblem((70, 41)), (("WARPS", 4),)
    racy = variant(name, source, "__syncthreads();".join(parts[:which + 1]) + ";" + "__syncthreads();".join(parts[which + 1:]))
    right, runs = outputs(KERNELS[name], problem), [outputs(racy, problem, reversed_order, settings) for reversed_order in (False, True)]
    assert not all(np.array_equal(right, o, equal_nan=True) for o in runs)


def test_half_precision_rounds_as_numpy_does(tmp_path):
    """Every half to float and back; floats of all sizes, halfway cases, the ends of the range."""
    unit, library = tmp_path / "half.cpp", tmp_path / "half.so"
    unit.write_text('#include "common.cuh"\nextern "C" void both(int n, const float* v, half* h, float* back) '
                    "{ for (int i = 0; i < n; ++i) h[i] = to_half(v[i]), back[i] = to_float(h[i]); }\n")
    subprocess.run([*build.cpp_compiler(), "-std=c++17", "-O2", "-fPIC", "-shared", f"-I{build.HERE / 'cuda'}", f"-I{build.HERE / 'simt'}", str(unit),
                    "-o", str(library)], check=True)
    exact = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        drawn = (rng.standard_normal(50_000) * 2.0 ** rng.integers(-32, 20, 50_000)).astype(np.float32)
        halfway = exact[:-1] + (exact[1:] - exact[:-1]) / 2
        v = np.concatenate([exact, np.nextafter(exact, np.float32(9e9)), halfway, drawn, np.float32([65519, 65520, 1e9, -0.0])])
        wanted = v.astype(np.float16)
    h, back = np.zeros(len(v), np.float16), np.zeros(len(v), np.float32)
    ctypes.CDLL(str(library)).both(len(v), *(a.ctypes.data_as(ctypes.c_void_p) for a in (v, h, back)))
    assert np.array_equal(h, wanted, equal_nan=True) and np.array_equal(np.signbit(h[~np.isnan(h)]), np.signbit(wanted[~np.isnan(h)]))
    assert np.array_equal(back, wanted.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("which", range(3))
def test_a_removed_syncthreads_changes_the_output(variant, which):
    source = KERNELS["03_flash"].source
    racy = variant("03_flash", source, _without_barrier(source, which))
    forward, backward = outputs(racy), outputs(racy, reversed_order=True)
    assert not np.array_equal(forward, backward, equal_nan=True) or not np.array_equal(forward, outputs(KERNELS["03_flash"]))


def _without_barrier(source, which):
    parts = source.split("__syncthreads();")
    assert len(parts) == 4
    return "__syncthreads();".join(parts[:which + 1]) + ";" + "__syncthreads();".join(parts[which + 1:])


@pytest.mark.parametrize(("name", "message"), [
    ("illegal", r"illegal address: a global store of 4 bytes outside every buffer"),
    ("deadlock", r"deadlock: 32 of 64 threads wait at __syncthreads"),
    ("lying", r"a store of 4 bytes at .* has no probe before it that says so"),
    ("uninitialised", r"illegal address: a shared load of 4 bytes at offset 0; the block has 0 bytes"),
])
def test_a_faulty_kernel_is_stopped_with_block_thread_and_reason(name, message):
    with pytest.raises(RunError, match=rf"broken was stopped on the CPU at block \(0, 0, 0\).*{message}"):
        run(Request(spec(name), PROBLEM))
