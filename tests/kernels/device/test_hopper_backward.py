"""Hopper's instructions of the backward in the CPU shim: transposed products, stored matrices, bulk adds and turns."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from front import of_roles

from kernels.build import CPU, Mode, build
from kernels.catalog import load_kernel
from kernels.core.dtypes import DTYPES
from kernels.core.launch import Launch, Plan
from kernels.core.scope import Scope
from kernels.core.tensors import Role, Tensor
from kernels.errors import RunError
from kernels.run.backends import cpu, gpu

KERNEL = of_roles("""
requires = "sm_90a"

[[launches]]
entry = "small"
grid = [1]
block = [128]
args = ["x", "x", "o"]
*/
#include "hopper_backward.cuh"
__device__ __forceinline__ int swizzled_place(int row, int column) {
  return row * 64 + (column / 8 ^ row % 8) * 8 + column % 8;
}
extern "C" __global__ void __launch_bounds__(128, 1)
small(const TYPE* A_gmem, const TYPE* B_gmem, float* O_gmem PROBE_PARAM) {
  SWIZZLED_SMEM(TYPE, smem);
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  PROBE_BEGIN();
BODY
}
""")
# O = A^T @ B: A and B [32, 64], swizzled as TMA writes them
PRODUCT = """
  for (int i = thread; i < 32 * 64; i += 128) {
    sts<TYPE>(&smem[swizzled_place(i / 64, i % 64)], ldg<TYPE>(&A_gmem[i]));
    sts<TYPE>(&smem[4096 + swizzled_place(i / 64, i % 64)], ldg<TYPE>(&B_gmem[i]));
  }
  fence_shared();
  __syncthreads();
  float C[32];
  product_begin();
  for (int k = 0; k < 32; k += 16)
    product_turned<TYPE>(C, operand(&smem[k * 64], 16, 1024), operand(&smem[4096 + k * 64], 16, 1024), k > 0);
  product_end();
  product_wait<0>();
  settle(C);
  for (int i = 0; i < 32; ++i)
    stg<float>(&O_gmem[(warp * 16 + lane / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + 2 * (lane % 4) + i % 2], C[i]);
"""
# A warp stores the rows 0 to 15, columns 0 to 15 of A [32, 64] by its own registers, and they come back as O.
STORE = """
  if (warp == 0) {
    unsigned words[4];
    for (int i = 0; i < 4; ++i) {
      const int at = (lane / 4 + i % 2 * 8) * 64 + i / 2 * 8 + 2 * (lane % 4);
      words[i] = A_gmem[at].bits | (unsigned)A_gmem[at + 1].bits << 16;
    }
    store_matrices(&smem[(lane % 16) * 16 + lane / 16 * 8], words);
  }
  __syncthreads();
  for (int i = thread; i < 256; i += 128) stg<float>(&O_gmem[i / 16 * 64 + i % 16], to_float(lds<TYPE>(&smem[i])));
"""
# Twice 512 times 1.5 to the zeros of O, and once 0.25 by each of 128 threads
ADD = """
  float* const sums = reinterpret_cast<float*>(smem);
  for (int i = thread; i < 512; i += 128) sts<float>(&sums[i], 1.5f), stg<float>(&O_gmem[i], 0.f);
  fence_shared();
  __syncthreads();
  if (thread == 0) {
    bulk_add(O_gmem, sums, 2048);
    bulk_add(O_gmem, sums, 2048);
    bulk_add_wait();
  }
  __syncthreads();
  global_add(&O_gmem[4 * thread], make_float4(0.25f, 0.25f, 0.25f, 0.25f));
"""
TURNS = """
  int* const turn = reinterpret_cast<int*>(O_gmem);
  if (thread == 0) stg<int>(turn, FIRST), wait_for_turn(turn, 3), pass_turn(turn, LAST);
"""
ORDERS = [("cpu", False), ("cpu", True), pytest.param("gpu", False, marks=pytest.mark.gpu)]


@lru_cache
def built(body, dtype, backend, includes):
    with TemporaryDirectory() as folder:
        path = Path(folder, "small.cu")
        text = KERNEL.replace("BODY", body).replace("TYPE", DTYPES[dtype].c_type)
        path.write_text(text.replace('#include "hopper_backward.cuh"\n', f'#include "hopper_backward.cuh"\n{includes}'))
        spec = load_kernel(path)
    return build(spec, {}, Mode.TIMED, CPU if backend == "cpu" else gpu.device().target)


def run(body, dtype="float16", backend="cpu", backwards=False, includes=""):
    kind, rng = DTYPES[dtype].numpy, np.random.default_rng(0)
    arrays = {name: rng.integers(-8, 9, (32, 64)).astype(kind) for name in "ab"}
    arrays["o"] = np.full((64, 64), np.nan, np.float32)
    tensors = tuple(Tensor(n, a.shape, dtype, ("row", "dim"), Role.OUTPUT) for n, a in arrays.items())
    tensors = (*tensors[:2], replace(tensors[2], dtype="float32"))
    plan = Plan((Launch("small", (1, 1, 1), (128, 1, 1), 16384, ("a", "b", "o"), "block"),), tensors)
    if backend == "cpu":
        cpu.launch(built(body, dtype, backend, includes), plan, arrays, Scope(), None, reversed_order=backwards)
    else:
        gpu.launch(built(body, dtype, backend, includes), plan, arrays, Scope())
    return tuple(arrays.values())


@pytest.mark.parametrize("backend, backwards", ORDERS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_product_of_two_operands_whose_rows_run_across_the_sum(dtype, backend, backwards):
    a, b, o = run(PRODUCT, dtype, backend, backwards)
    assert np.array_equal(o, a.astype(np.float64).T @ b.astype(np.float64))


@pytest.mark.parametrize("backend, backwards", ORDERS)
def test_matrices_go_to_the_rows_of_their_lanes_and_adds_to_global_memory(backend, backwards):
    a, _, o = run(STORE, backend=backend, backwards=backwards)
    assert np.array_equal(o[:16, :16], a[:16, :16])
    _, _, o = run(ADD, backend=backend, backwards=backwards)
    assert (o.ravel()[:512] == 3.25).all() and np.isnan(o.ravel()[512:]).all()


def test_a_missing_wait_a_missing_turn_and_a_barrier_of_the_grid_stop_the_run():
    late = ADD.replace("    bulk_add_wait();\n", "")
    with pytest.raises(RunError, match="left before its bulk_add of small.cu:[0-9]+ has read shared memory"):
        run(late, backwards=True)
    with pytest.raises(RunError, match="a wait for turn 3, and it is turn 2"):
        run(TURNS.replace("FIRST", "2").replace("LAST", "9"))
    with pytest.raises(RunError, match="grid_barrier next to hopper.cuh"):
        run("grid_barrier(reinterpret_cast<int*>(O_gmem));", includes='#include "launches.cuh"\n')


@pytest.mark.parametrize("backend, backwards", ORDERS)
@pytest.mark.parametrize(("last", "after"), [(9, 4), (3, 0)])
def test_a_turn_is_passed_on_and_the_last_one_leaves_zero(last, after, backend, backwards):
    _, _, o = run(TURNS.replace("FIRST", "3").replace("LAST", str(last)), backend=backend, backwards=backwards)
    assert o.ravel()[:1].view(np.int32)[0] == after
