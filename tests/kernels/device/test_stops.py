"""Each error of the CPU shim names line, tensor and index, in the timed and in the probed build."""

import re

import pytest

from kernels.catalog import load_kernel
from kernels.core.request import Request
from kernels.errors import RunError
from kernels.families.lab.patterns import RolesProblem
from kernels.run import execute
from kernels.run.backends import cpu

RUNS = pytest.mark.parametrize("run", [execute.run_timed_build, execute.run], ids=["timed", "probed"])


def stopped(kernel, run=execute.run):
    with pytest.raises(RunError, match="small was stopped on the CPU at block") as error:
        run(Request(kernel, RolesProblem()))
    return str(error.value)


def at(kernel, text):
    """small.cu:N, the first line of the kernel that holds the text."""
    lines = dict(kernel.files)["small.cu"].splitlines()
    return f"small.cu:{next(n for n, line in enumerate(lines, 1) if text in line)}"


# ---- accesses ----


@RUNS
@pytest.mark.parametrize(
    ("probe", "access", "element"),
    [
        ("PROBE_STORE(O_gmem, 70, 4);", "stg<float>(&O_gmem[70], 1.f);", r"o\[70\], and o has 64 elements"),
        ("PROBE_STORE(O_gmem, -3, 4);", "stg<float>(&O_gmem[-3], 1.f);", r"o\[-3\], and o has 64 elements"),
        ("PROBE_LOAD(X_gmem, 257, 4);", "O_gmem[0] = ldg<float>(&X_gmem[257]);", r"x\[257\], and x has 256 elements"),
    ],
)
def test_an_illegal_global_address_names_tensor_index_and_line(small_kernel, run, probe, access, element):
    kernel = small_kernel(f"  {probe}\n  {access}")
    said = stopped(kernel, run)
    place = f"at {at(kernel, access)}, after {at(kernel, probe)} (the last probe: {probe[:-1]})"
    assert re.search(f"outside every buffer of this launch: (the nearest is )?{element}", said) and place in said


@RUNS
def test_an_access_outside_shared_memory_or_not_aligned_names_tensor_and_line(small_kernel, run):
    kernel = small_kernel("  PROBE_STORE(S_smem, 300, 4);\n  sts<float>(&S_smem[300], 1.f);")
    said = stopped(kernel, run)
    assert "a shared store of 4 bytes at offset 1200; the block has 1024 bytes" in said
    assert f"at {at(kernel, 'sts<float>')}, after" in said and "PROBE_STORE(S_smem, 300, 4)" in said
    assert ("(S_smem[300])" in said) == (run is execute.run)  # only the probed build knows that the probe means it
    kernel = small_kernel("  PROBE_LOAD(X_gmem, 3, 16);\n  O_gmem[0] = ldg<float4>(&X_gmem[3]).x;")
    said = stopped(kernel, run)
    assert f"a global load of 16 bytes at x[3] is not aligned to its width; at {at(kernel, 'ldg<float4>')}" in said


def test_an_access_without_probes_or_in_a_header_names_its_line_and_whole_warps_may_part(small_kernel):
    kernel = small_kernel("  stg<float>(&O_gmem[64], 1.f);")
    said = stopped(kernel, execute.run_timed_build)
    assert "o[64], and o has 64 elements" in said and said.endswith(f"; at {at(kernel, 'stg<float>')}")
    header = "#pragma once\n__device__ inline void put(float* p) {\n  stg<float>(p, 1.f);\n}\n"
    kernel = small_kernel("  PROBE_MARK(begin, tiles);\n  put(&O_gmem[99]);", above='#include "put.cuh"', put=header)
    said = stopped(kernel, execute.run_timed_build)
    assert f"at put.cuh:3, after {at(kernel, 'PROBE_MARK')}" in said and "o[99]" in said
    kernel = small_kernel("  if (threadIdx.x < 32)\n    __syncthreads();\n  else\n    __syncthreads();", threads=64)
    execute.run(Request(kernel, RolesProblem()))


@pytest.mark.parametrize(
    ("probe", "access", "made", "logged"),
    [
        ("PROBE_STORE(O_gmem, 5, 4);", "stg<float>(&O_gmem[6], 1.f);", "store of 4 bytes at o[6]", "O_gmem[5]"),
        ("PROBE_STORE(S_smem, 5, 4);", "sts<float>(&S_smem[7], 1.f);",
         "store of 4 bytes at S_smem[7] (offset 28 of shared memory)", "S_smem[5]"),
    ],
)  # fmt: skip
def test_a_probe_that_lies_names_both_elements(small_kernel, probe, access, made, logged):
    kernel = small_kernel(f"  {probe}\n  {access}")
    said = stopped(kernel)
    assert f"a {made} has no probe before it that says so (the last one logged a store of 4 bytes at {logged})" in said
    assert f"at {at(kernel, access)}, after {at(kernel, probe)}" in said and "0x" not in said


# ---- barriers ----


@RUNS
def test_a_deadlock_and_a_divergent_barrier_name_the_lines_of_all_that_wait(small_kernel, run):
    body = "  if (threadIdx.x < 32) __syncthreads();\n  else if (threadIdx.x < 48) __syncwarp();\n  else return;"
    kernel = small_kernel(body, threads=64)
    said = stopped(kernel, run)
    assert "deadlock: 32 of 64 threads wait at __syncthreads, 16 have left" in said
    assert f"warp 0 at __syncthreads at {at(kernel, '__syncthreads')}" in said
    assert f"threads 32 to 47 in a __syncwarp of lanes 0xffffffff at {at(kernel, '__syncwarp')}" in said
    kernel = small_kernel("  if (threadIdx.x < 33) __syncwarp();\n  else\n    __syncthreads();", threads=64)
    said = stopped(kernel, run)
    assert "deadlock: 31 of 64 threads wait at __syncthreads, 32 have left" in said
    assert f"thread 32 in a __syncwarp of lanes 0xffffffff at {at(kernel, '__syncwarp();')}" in said
    assert f"threads 33 to 63 at __syncthreads at {at(kernel, '    __syncthreads();')}" in said
    kernel = small_kernel("  if (threadIdx.x < 10)\n    __syncthreads();\n  else\n  __syncthreads();", threads=64)
    said = stopped(kernel, run)
    lines = [n for n, line in enumerate(dict(kernel.files)["small.cu"].splitlines(), 1) if "__syncthreads();" in line]
    assert "divergent barrier: threads of warp 0 come to __syncthreads at different lines" in said
    assert f"threads 0 to 9 at __syncthreads at small.cu:{lines[0]}" in said
    assert f"threads 10 to 63 at __syncthreads at small.cu:{lines[1]}" in said


# ---- the end of the process ----

FILL = "  PROBE_MARK(fill, tiles);\n  float many[{floats}];\n"
COPY = "  for (int i = 0; i < {floats}; ++i) many[i] = X_gmem[i % 256];\n"
SUM = "  float sum = 0;\n  for (int i = 0; i < {floats}; ++i) sum += many[(i * 7) % {floats}];\n  O_gmem[0] = sum;"
RECURSE = "__device__ __attribute__((noinline)) int down(volatile int n) { return n ? down(n - 1) + n : 0; }"


@RUNS
@pytest.mark.parametrize("kilobytes", [68, 300])
def test_locals_that_outgrow_the_stack_are_a_stack_overflow(small_kernel, run, kilobytes):
    kernel = small_kernel((FILL + COPY + SUM).format(floats=kilobytes * 256), threads=4)
    said = stopped(kernel, run)
    assert "stack overflow" in said and "more than 64 KB" in said and "shared memory" in said
    assert "thread (0, 0, 0)" in said and "smaller problem" not in said


def test_a_recursion_without_end_is_a_stack_overflow_after_the_last_probe(small_kernel):
    kernel = small_kernel("  PROBE_MARK(fill, tiles);\n  O_gmem[0] = down(1 << 30);", above=RECURSE)
    for run in (execute.run_timed_build, execute.run):
        said = stopped(kernel, run)
        assert "stack overflow" in said and f"after {at(kernel, 'PROBE_MARK')}" in said


@RUNS
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("((volatile float*)8192)[tiles] = 1.f;", r"SIGSEGV, .*address 0x2010: the nearest is (.)\[-\d+\], and \1 has"),
        ("O_gmem[0] = 7 / (tiles - 4);", "SIGFPE, a division of whole numbers by zero"),
        ("__builtin_trap();", "ended with a trap"),
        ("exit(3);", r"the kernel itself ended the process: it calls exit\(3\)"),
        ("std::abort();", r"the kernel itself ended the process: it calls abort\(\)"),
        ("_exit(3);", r"the kernel itself ended the process: it calls _exit\(3\)"),
    ],
)
def test_a_kernel_that_ends_the_process_ends_only_its_launch(small_kernel, run, body, message):
    if "SIGFPE" in message and cpu.platform.machine() != "x86_64":
        pytest.skip("Only x86-64 traps a division by zero.")
    kernel = small_kernel(f"  PROBE_MARK(begin, tiles);\n  {body}", threads=2)
    said = stopped(kernel, run)
    assert re.search(rf"thread \(0, 0, 0\): .*{message}", said), said
    assert f"{at(kernel, 'PROBE_MARK')}" in said and "smaller problem" not in said


def test_stacks_are_reused_by_the_next_launch(small_kernel, tmp_path, monkeypatch):
    monkeypatch.setattr(cpu, "_kept_stacks", [])
    kernel = small_kernel("  O_gmem[threadIdx.x] = 1.f;", threads=64)
    execute.run_timed_build(Request(kernel, RolesProblem()))
    kept = list(cpu._kept_stacks)
    execute.run_timed_build(Request(load_kernel(tmp_path / "small.cu"), RolesProblem()))
    assert cpu._kept_stacks == kept and len(kept) == 1
