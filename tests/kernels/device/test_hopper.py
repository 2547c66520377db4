"""Hopper's instructions in the CPU shim: each gives what the GPU gives, each wait that is left out shows, and what
cannot go on says who waits for what. And every one of them compiles for sm_90a."""

import numpy as np
import pytest

from kernels.build import CPU, Mode, build
from kernels.catalog import load_kernel
from kernels.core.dtypes import DTYPES
from kernels.core.launch import Launch, Plan, TensorMap
from kernels.core.request import Scope
from kernels.core.tensors import Role, Tensor
from kernels.run.backends import cpu

KERNEL = """/*
title = "Small"
idea = "a few lines that a test runs."
changed = "nothing; it stands alone."
costs = "nothing that is worth counting."
limits = "it computes nothing of its problem."
source = "the tests."
family = "lab"
problem = "roles"

[[launches]]
entry = "small"
grid = [1]
block = [128]
args = ["x", "x", "x", "x", "o", "o"]
*/
#include "hopper.cuh"
{above}
extern "C" __global__ void small(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map,
                                 const unsigned short* A_gmem, const unsigned short* B_gmem, float* O_gmem,
                                 int* N_gmem PROBE_PARAM) {{
  DYNAMIC_SMEM(unsigned char, smem);
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, warpgroup = thread / 128;
  PROBE_BEGIN();
{body}
}}
"""
ROWS, BYTES = 4, 64 * 1024


class Small:
    """A kernel of a few lines on one block. Its body may use A_map and B_map, smem, O_gmem (float [64, 256]) and
    N_gmem (int [64]); thread, lane, warp, warpgroup."""

    def __init__(self, folder, body, above="", threads=128, mode=Mode.TIMED):
        path = folder / "small.cu"
        path.write_text(KERNEL.format(above=above, body=body))
        self.spec, self.threads = load_kernel(path), threads
        self.build = build(self.spec, {}, mode, CPU)

    def run(self, a=None, b=None, boxes=((1, 1, 64, 64), (1, 1, 64, 64)), swizzle=128, backwards=False, shared=BYTES):
        """(o, n): what the kernel wrote. a, b: arrays of four dimensions, of 16 bits."""
        a = np.zeros((1, 1, 64, 64), np.float16) if a is None else a
        b = a if b is None else b
        arrays = {"a": a, "b": b, "o": np.full((64, 256), np.nan, np.float32), "n": np.zeros(64, np.int32)}
        names = {np.dtype(kind.numpy): name for name, kind in DTYPES.items()}
        tensors = tuple(
            Tensor(name, array.shape, names[array.dtype], tuple("wxyz"[-array.ndim :]), Role.INPUT)
            for name, array in arrays.items()
        )
        args = (TensorMap("a", boxes[0], swizzle), TensorMap("b", boxes[1], swizzle), "a", "b", "o", "n")
        plan = Plan((Launch("small", (1, 1, 1), (self.threads, 1, 1), shared, args, "block"),), tensors)
        probed = [1024] if self.build.mode is Mode.PROBED else None
        cpu.launch(self.build, plan, arrays, Scope(), probed, reversed_order=backwards)
        return arrays["o"], arrays["n"]


@pytest.fixture
def small(tmp_path):
    """small(body, ...) -> Small"""
    return lambda body, **rest: Small(tmp_path, body, **rest)


def random(dtype, *shape):
    return np.random.default_rng(0).standard_normal(shape).astype(DTYPES[dtype].numpy)


# ---- products ----

# O = A @ B^T, both [rows, 64], each brought by one box; four products of 16 columns each
SHARED = """
  Barrier* full = reinterpret_cast<Barrier*>(smem + 48 * 1024);
  if (thread == 0) barrier_init(full, 1), barrier_init_done();
  __syncthreads();
  if (thread == 0) {{
    barrier_expect(full, (64 + {n}) * 128);
    tma_load(smem, &A_map, full, 0, 0, 0, 0);
    tma_load(smem + 8192, &B_map, full, 0, 0, 0, 0);
  }}
  barrier_wait(full, 0);
  float C[{n} / 2];
  const unsigned long long a = operand(smem, 0, 1024), b = operand(smem + 8192, 0, 1024);
  product_begin();
  for (int k = 0; k < 4; ++k) Product<{type}, {n}>::shared(C, operand_at(a, 32 * k), operand_at(b, 32 * k), k > 0);
  product_end();
  product_wait<0>();
  settle(C);
{write}"""
WRITE = """  for (int i = 0; i < {n} / 8; ++i)
    for (int h = 0; h < 2; ++h)
      for (int e = 0; e < 2; ++e)
        stg<float>(&O_gmem[(warp * 16 + lane / 4 + 8 * h) * 256 + 8 * i + 2 * (lane % 4) + e], C[4 * i + 2 * h + e]);
"""


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [64, 96, 128, 256])
def test_a_product_of_operands_in_shared_memory(small, n, dtype, backwards):
    a, b = random(dtype, 1, 1, 64, 64), random(dtype, 1, 1, n, 64)
    kernel = small(SHARED.format(n=n, type=DTYPES[dtype].c_type, write=WRITE.format(n=n)))
    found, _ = kernel.run(a, b, ((1, 1, 64, 64), (1, 1, n, 64)), backwards=backwards)
    exact = a[0, 0].astype(np.float64) @ b[0, 0].astype(np.float64).T
    assert np.abs(found[:, :n] - exact).max() < 4 * 2**-24 * np.abs(exact).max()


# O = A @ B, A [64, 64] from registers as mma_m16n8k16 deals it, B [64, N] in panels of 64 columns, a box each
REGISTERS = """
  Barrier* full = reinterpret_cast<Barrier*>(smem + 48 * 1024);
  if (thread == 0) barrier_init(full, 1), barrier_init_done();
  __syncthreads();
  if (thread == 0) {{
    barrier_expect(full, ({n} + 63) / 64 * 64 * 128);
    for (int panel = 0; panel < ({n} + 63) / 64; ++panel)
      tma_load(smem + panel * 64 * 128, &B_map, full, 64 * panel, 0, 0, 0);
  }}
  unsigned A[4][4];
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < 4; ++i) {{
      const int at = (warp * 16 + lane / 4 + i % 2 * 8) * 64 + 16 * k + 2 * (lane % 4) + i / 2 * 8;
      A[k][i] = A_gmem[at] | (unsigned)A_gmem[at + 1] << 16;
    }}
  barrier_wait(full, 0);
  float C[{n} / 2];
  for (int i = 0; i < {n} / 2; ++i) C[i] = 1;
  const unsigned long long b = operand(smem, 64 * 128, 1024);
  product_begin();
  for (int k = 0; k < 4; ++k) Product<{type}, {n}>::registers(C, A[k], operand_at(b, k * 16 * 128), 1);
  product_end();
  product_wait<0>();
  settle(C);
{write}"""


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [64, 96, 128, 256])
def test_a_product_of_registers_and_a_transposed_operand_in_shared_memory(small, n, dtype, backwards):
    a, b = random(dtype, 1, 1, 64, 64), random(dtype, 1, 1, 64, n)
    kernel = small(REGISTERS.format(n=n, type=DTYPES[dtype].c_type, write=WRITE.format(n=n)))
    found, _ = kernel.run(a, b, backwards=backwards)
    exact = 1 + a[0, 0].astype(np.float64) @ b[0, 0].astype(np.float64)
    assert np.abs(found[:, :n] - exact).max() < 4 * 2**-24 * np.abs(exact).max()
