"""The CPU shim: it gives what the GPU gives, and stops with a message where the GPU would hang, read wrongly or be
undefined."""

import ctypes
import subprocess

import numpy as np
import pytest

from kernels.build import Mode, build, cpp_compiler
from kernels.catalog import DEVICE, KERNELS, SHIM, current, load_kernel
from kernels.core.dtypes import DTYPES
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import RunError
from kernels.families.lab.patterns import RolesProblem
from kernels.families.paged.problem import PagedProblem
from kernels.run import execute
from kernels.run.backends import cpu

DENSE = KERNELS["03_flash"].problem_type
PROBLEM = DENSE(seq_len=50, num_heads=1)


def outputs(kernel, problem=PROBLEM, reversed_order=False, settings=()):
    made, plan, arrays = execute.prepare(Request(kernel, problem, settings), Mode.TIMED)
    cpu.launch(made, plan, arrays, Scope(), reversed_order=reversed_order)
    return np.concatenate([arrays[tensor.name].ravel().astype(np.float64) for tensor in problem.outputs])


# ---- barriers ----


def barriers(kernel):
    """(file, which) for every __syncthreads of a kernel's own files."""
    own = [name for name, _ in kernel.files if not (DEVICE / name).exists()]
    text = dict(kernel.files)
    return [(name, which) for name in own for which in range(text[name].count("__syncthreads();"))]


def without_barrier(kernel, folder, file, which):
    for name, text in kernel.files:
        if not (DEVICE / name).exists():
            parts = text.split("__syncthreads();")
            left = "__syncthreads();".join(parts[: which + 1]) + ";" + "__syncthreads();".join(parts[which + 1 :])
            (folder / name).write_text(left if name == file else text)
    return load_kernel(folder / kernel.files[0][0])


RACY = [  # without -m slow, each of 03_flash and the last of every other kernel
    pytest.param(
        kernel,
        *place,
        problem,
        settings,
        id=f"{kernel.name}-{place[0]}-{place[1]}",
        marks=[] if kernel.family == "dense" or place == barriers(kernel)[-1] else pytest.mark.slow,
    )
    for kernel, problem, settings in (
        (KERNELS["03_flash"], PROBLEM, ()),
        (KERNELS["lab_roles"], RolesProblem(), ()),
        *((kernel, PagedProblem((70, 41)), (("WARPS", 4),)) for kernel in current().of_problem(PagedProblem).values()),
    )
    for place in barriers(kernel)
]


def test_the_barriers_are_found():
    found = {name: len(barriers(KERNELS[name])) for name in ("03_flash", "lab_roles", "paged_v1", "paged_v2")}
    assert found["03_flash"] == 3 and found["lab_roles"] == 2 and min(found["paged_v1"], found["paged_v2"]) >= 4


@pytest.mark.parametrize(("kernel", "file", "which", "problem", "settings"), RACY)
def test_a_removed_syncthreads_changes_the_output(tmp_path, kernel, file, which, problem, settings):
    racy = without_barrier(kernel, tmp_path, file, which)
    right = outputs(kernel, problem, settings=settings)
    runs = [outputs(racy, problem, reversed_order, settings) for reversed_order in (False, True)]
    assert not all(np.array_equal(right, output, equal_nan=True) for output in runs)


def test_a_removed_wait_for_copies_changes_the_output(variant):
    kernel = KERNELS["lab_access"]
    case = next(c for c in kernel.problem_type.check_cases(kernel) if "cp_async" in str(c.problem))
    forgetful = variant("lab_access", "cp_async_wait();", "")
    right = outputs(kernel, case.problem, settings=case.settings)
    assert np.array_equal(right, outputs(kernel, case.problem, True, case.settings))
    assert not np.array_equal(right, outputs(forgetful, case.problem, True, case.settings), equal_nan=True)


# ---- the small number types ----

CONVERT = """#include "common.cuh"
extern "C" void both(int n, const float* v, {type}* small, float* back) {{
  for (int i = 0; i < n; ++i) small[i] = from_float<{type}>(v[i]), back[i] = to_float(small[i]);
}}
"""
SMALL = ("float16", "bfloat16", "float8_e4m3")


def bits_of(dtype):
    return np.uint8 if DTYPES[dtype].bytes == 1 else np.uint16


def numbers(dtype):
    """Every number of the type, its neighbours as floats, what lies halfway between two, floats of all sizes, and the
    ends of the range."""
    codes = np.arange(2 ** (8 * DTYPES[dtype].bytes)).astype(bits_of(dtype))
    exact = np.sort(codes.view(DTYPES[dtype].numpy).astype(np.float32))
    exact = exact[np.isfinite(exact)]
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        spread = 2.0 ** rng.integers(-40, 40, 50_000)
        drawn = (rng.standard_normal(50_000) * spread).astype(np.float32)
        halfway = exact[:-1] + (exact[1:] - exact[:-1]) / 2
        beside = [np.nextafter(part, np.float32(to)) for part in (exact, halfway) for to in (-np.inf, np.inf)]
    ends = np.float32([448, 464, 465, 480, 65504, 65519, 65520, 1e9, 3.4e38, 2**-10, 2**-150, -0.0, np.inf, np.nan])
    return np.concatenate([exact, *beside, halfway, drawn, ends, -ends])


def as_numpy(v, dtype):
    """The floats in the type; past float8's largest number its largest, as the GPU does."""
    kind = DTYPES[dtype].numpy
    with np.errstate(all="ignore"):
        return (np.clip(v, -448, 448) if dtype == "float8_e4m3" else v).astype(kind)


def same_numbers(found, wanted):
    found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    number = ~np.isnan(wanted)
    return np.array_equal(found, wanted, equal_nan=True) and np.array_equal(
        np.signbit(found[number]), np.signbit(wanted[number])
    )


@pytest.mark.parametrize("dtype", SMALL)
def test_the_small_types_round_as_numpy_and_ml_dtypes_do(tmp_path, dtype):
    unit, library = tmp_path / "both.cpp", tmp_path / "both.so"
    unit.write_text(CONVERT.format(type=DTYPES[dtype].c_type))
    folders = (f"-I{DEVICE}", f"-I{SHIM}")
    command = (*cpp_compiler(), "-std=c++17", "-O1", "-fPIC", "-shared", *folders, str(unit), "-o", str(library))
    subprocess.run(command, check=True)
    v = numbers(dtype)
    small, back = np.zeros(len(v), DTYPES[dtype].numpy), np.zeros(len(v), np.float32)
    ctypes.CDLL(str(library)).both(len(v), *(a.ctypes.data_as(ctypes.c_void_p) for a in (v, small, back)))
    assert same_numbers(small, as_numpy(v, dtype))
    assert same_numbers(back, as_numpy(v, dtype))


LOGGED = """  const int part = threadIdx.x;
  for (int i = 0; i < {each}; ++i) {{
    const unsigned bits = ((unsigned)part * {each} + i) * 2654435761u;  // all exponents, and all digits
    const float v = __uint_as_float(bits);
    PROBE_VALUE(rounded, part, i, from_float<{type}>(v));
    const {type} code = {{(decltype({type}::bits))(bits >> 7)}};
    PROBE_VALUE(read, part, i, to_float(code));
  }}
"""


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("backend", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_a_kernel_converts_the_small_types_alike_on_every_backend(small_kernel, dtype, backend):
    threads, each = 32, 256
    body = LOGGED.format(each=each, type=DTYPES[dtype].c_type)
    frame = execute.run(Request(small_kernel(body, threads=threads), RolesProblem(), backend=backend)).trace.frame()
    bits = (np.arange(threads * each, dtype=np.uint64) * 2654435761).astype(np.uint32)
    rounded, read = (frame[frame.event == event].value.to_numpy() for event in ("rounded", "read"))
    assert same_numbers(rounded, as_numpy(bits.view(np.float32), dtype))
    assert same_numbers(read, (bits >> 7).astype(bits_of(dtype)).view(DTYPES[dtype].numpy))


MOVED = """  const int lane = threadIdx.x;
  {type}* T_smem = reinterpret_cast<{type}*>(S_smem);
  const {type}* T_gmem = reinterpret_cast<const {type}*>(X_gmem);
  {type}* R_gmem = reinterpret_cast<{type}*>(O_gmem);
  PROBE_LOAD(T_gmem, lane, {bytes});
  const {type} v = ldg<{type}>(&T_gmem[lane]);
  PROBE_STORE(T_smem, lane, {bytes});
  sts<{type}>(&T_smem[lane], v);
  __syncthreads();
  PROBE_LOAD(T_smem, lane ^ 1, {bytes});
  const {type} w = lds<{type}>(&T_smem[lane ^ 1]);
  PROBE_STORE(R_gmem, lane, {bytes});
  stg<{type}>(&R_gmem[lane], from_float<{type}>(to_float(w)));
"""


@pytest.mark.parametrize("dtype", ["float32", *SMALL])
@pytest.mark.parametrize("backend", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_every_float_type_moves_through_memory(small_kernel, dtype, backend):
    kind = DTYPES[dtype]
    spec_of_type = small_kernel(MOVED.format(type=kind.c_type, bytes=kind.bytes), threads=32)
    arrays = execute.run(Request(spec_of_type, RolesProblem(), backend=backend)).arrays
    given, found = (np.ascontiguousarray(arrays[name]).view(kind.numpy)[:32] for name in ("x", "o"))
    assert same_numbers(found, given[np.arange(32) ^ 1])


@pytest.mark.parametrize("dtype", ["float32", *SMALL])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a"])
def test_every_float_type_compiles_for_old_and_new_architectures(small_kernel, dtype, arch):
    kind = DTYPES[dtype]
    made = build(small_kernel(MOVED.format(type=kind.c_type, bytes=kind.bytes)), {}, Mode.TIMED, arch)
    suffix = {4: "f32", 2: "u16", 1: "u8"}[kind.bytes]
    assert f"ld.global.{suffix}" in made.ptx_path.read_text()
    has_instruction = dtype == "float8_e4m3" and arch != "sm_80"
    assert ("e4m3x2" in made.ptx_path.read_text()) == has_instruction


# ---- what it stops ----


@pytest.mark.parametrize(
    ("probe", "access", "made", "said"),
    [
        ("PROBE_CP_ASYNC(S_smem, 0, 16)", "cp_async_l2(&S_smem[0], &X_gmem[0])", "cp_async_l2", "cp_async"),
        ("PROBE_CP_ASYNC_L2(S_smem, 0, 16)", "cp_async<16>(&S_smem[0], &X_gmem[0])", "cp_async", "cp_async_l2"),
        ("PROBE_LDMATRIX(S_smem, 0, 16)", "lds<float4>(&S_smem[0])", "load", "ldmatrix"),
        ("PROBE_STORE(S_smem, 0, 4)", "lds<float>(&S_smem[0])", "load", "store"),
    ],
)
def test_a_probe_that_says_another_kind_of_access_is_stopped(small_kernel, probe, access, made, said):
    with pytest.raises(RunError, match=rf"a {made} of \d+ bytes at .* no probe .* logged a {said} of"):
        execute.run(Request(small_kernel(f"  {probe};\n  {access};"), RolesProblem()))
