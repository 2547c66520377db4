"""Hopper's instructions in the CPU shim: each gives what the GPU gives, each wait that is left out shows, and what
cannot go on says who waits for what. And every one of them compiles for sm_90a."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from front import of_roles

from kernels.build import CPU, Build, Mode, build
from kernels.catalog import DEVICE, load_kernel
from kernels.core.dtypes import DTYPES
from kernels.core.launch import Launch, Plan, TensorMap
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import BuildError, ProblemError, RunError
from kernels.run.backends import cpu, gpu
from kernels.trace.probes import sites
from kernels.trace.trace import Trace, decode

KERNEL = of_roles("""
requires = "sm_90a"

[[launches]]
entry = "small"
grid = [1]
block = [128]
args = ["x", "x", "x", "x", "o", "o"]
*/
#include "hopper.cuh"
__device__ __forceinline__ void set_up(Barrier* barriers, int count, int arrivals) {{
  if (threadIdx.x == 0) {{
    for (int i = 0; i < count; ++i) barrier_init(&barriers[i], arrivals);
    barrier_init_done();
  }}
  __syncthreads();
}}
extern "C" __global__ void __launch_bounds__({threads}, 1)
small(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map, const unsigned short* A_gmem,
      const unsigned short* B_gmem, float* O_gmem, int* N_gmem PROBE_PARAM) {{
  DYNAMIC_SMEM(unsigned char, smem);
  Barrier* const barriers = reinterpret_cast<Barrier*>(smem + 60 * 1024);
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32 % 4, warpgroup = thread / 128;
  const int chosen = N_gmem[4095];
  PROBE_BEGIN();
{body}
}}
""")
HOPPER = (DEVICE / "hopper.cuh").read_text()
BYTES = 64 * 1024
BOX = (1, 1, 64, 64)
ONE = "  set_up(barriers, 1, 1);\n"
STORE_WORDS = """
  for (int i = thread; i < {words}; i += blockDim.x)
    stg<int>(&N_gmem[i], lds<int>(smem + 4 * i));
"""


@dataclass
class Small:
    """A kernel of a few lines on one block. Its body may use A_map and B_map, A_gmem and B_gmem (16-bit elements),
    smem (64 KiB), barriers (at 60 KiB), O_gmem (float [64, 256]), N_gmem (int [4096]); thread, lane, warp (of its
    warpgroup) and warpgroup. chosen: which of several bodies is run."""

    spec: KernelSpec
    build: Build
    threads: int
    chosen: int = -1
    trace: Trace | None = None

    def run(self, a=None, b=None, boxes=(BOX, BOX), swizzle=128, backwards=False, shared=BYTES):
        """(o, n), what the kernel wrote. a, b: arrays of 16-bit elements; zeros where none are given."""
        a = np.zeros(BOX, np.float16) if a is None else a
        arrays = {"a": a, "b": a if b is None else b}
        arrays |= {"o": np.full((64, 256), np.nan, np.float32), "n": np.full(4096, self.chosen, np.int32)}
        names = {np.dtype(kind.numpy): name for name, kind in DTYPES.items()}
        tensors = tuple(
            Tensor(name, array.shape, names[array.dtype], tuple("vwxyz"[-array.ndim :]), Role.OUTPUT)
            for name, array in arrays.items()
        )
        args = (TensorMap("a", boxes[0], swizzle), TensorMap("b", boxes[1], swizzle), "a", "b", "o", "n")
        plan = Plan((Launch("small", (1, 1, 1), (self.threads, 1, 1), shared, args, "block"),), tensors)
        capacities = [1024] if self.build.mode is Mode.PROBED else None
        if self.build.target == CPU:
            raw = cpu.launch(self.build, plan, arrays, Scope(), capacities, reversed_order=backwards)
        else:
            raw = gpu.launch(self.build, plan, arrays, Scope(), capacities)
        self.trace = decode(raw, sites(self.spec, {})) if raw else None
        return arrays["o"], arrays["n"]


@lru_cache
def small(body, threads=128, mode=Mode.TIMED, backend="cpu"):
    with TemporaryDirectory() as folder:
        path = Path(folder, "small.cu")
        path.write_text(KERNEL.format(body=body, threads=threads))
        spec = load_kernel(path)
    target = CPU if backend == "cpu" else gpu.device().target
    return Small(spec, build(spec, {}, mode, target), threads)


def one_of(bodies, body, **rest):
    """The Small of one of several bodies, all of which are built at once."""
    several = "".join(f"  if (chosen == {n}) {{\n{each}\n  }}\n" for n, each in enumerate(bodies))
    return replace(small(several, **rest), chosen=list(bodies).index(body))


def random(dtype, *shape):
    return np.random.default_rng(0).standard_normal(shape).astype(DTYPES[dtype].numpy)


def same(found, wanted):
    return all(np.array_equal(f, w, equal_nan=True) for f, w in zip(found, wanted))


ORDERS = [("cpu", False), ("cpu", True), pytest.param("gpu", False, marks=pytest.mark.gpu)]

# ---- boxes ----

LOAD = (
    ONE
    + """
  if (thread == 0) {{
    barrier_expect(barriers, {bytes});
    tma_load(smem, &A_map, barriers, {at});
  }}
  barrier_wait(barriers, 0);
"""
)


def box_of(array, box, at):
    """The box whose first element is `at`, the innermost coordinate first; zeros beyond the edges."""
    index = [np.arange(first, first + size) for first, size in zip(at[::-1], box)]
    inside = [(i >= 0) & (i < size) for i, size in zip(index, array.shape)]
    found = array[np.ix_(*(np.where(ok, i, 0) for i, ok in zip(index, inside)))]
    return np.where(np.logical_and.reduce(np.meshgrid(*inside, indexing="ij")), found, 0)


def swizzled(data, swizzle):
    """The bytes as they lie in shared memory: pieces of 16 bytes, moved within their row of `swizzle` bytes."""
    place = np.arange(0, len(data), 16)
    if swizzle:
        place = place ^ (place >> 7 & (swizzle // 16 - 1)) << 4
    made = np.zeros_like(data).reshape(-1, 16)
    made[place // 16] = data.reshape(-1, 16)
    return made.ravel()


BOXES = [
    ((1, 1, 32, 64), 128, (0, 0, 0, 0)),
    ((1, 1, 32, 32), 64, (32, 8, 1, 2)),
    ((2, 1, 16, 16), 32, (16, 3, 2, 1)),
    ((1, 3, 5, 24), 0, (8, 3, 0, 1)),
    ((1, 1, 32, 64), 128, (64, 30, 2, 2)),  # past the last row
    ((1, 2, 32, 64), 128, (96, -5, 2, 0)),  # and before the first, past the last column, past the last head
    ((2, 1, 8, 64), 128, (-32, 45, -1, 3)),
    ((1, 1, 8, 64), 128, (0, 41, 0, 0)),  # nothing of it
]  # box, swizzle, its first element


def loaded(box, swizzle, at):
    size = 2 * int(np.prod(box))
    return LOAD.format(bytes=size, at=", ".join(map(str, at))) + STORE_WORDS.format(words=size // 4)


@pytest.mark.parametrize("backend, backwards", ORDERS)
@pytest.mark.parametrize("box, swizzle, at", BOXES)
def test_a_box_lies_swizzled_in_shared_memory_with_zeros_beyond_the_edges(box, swizzle, at, backend, backwards):
    a, size = random("float16", 4, 3, 41, 128), 2 * int(np.prod(box))
    kernel = one_of([loaded(*each) for each in BOXES], loaded(box, swizzle, at), backend=backend)
    _, found = kernel.run(a, boxes=(box, box), swizzle=swizzle, backwards=backwards)
    wanted = swizzled(np.ascontiguousarray(box_of(a, box, at), np.float16).ravel().view(np.uint8), swizzle)
    assert np.array_equal(found[: size // 4].view(np.uint8), wanted)


def test_a_box_that_nobody_waits_for_has_not_come():
    waited = LOAD.format(bytes=8192, at="0, 0, 0, 0") + STORE_WORDS.format(words=2048)
    late = waited.replace("barrier_wait(barriers, 0);", "__syncthreads();")
    late += "  barrier_wait(barriers, 0);\n"
    a = random("float16", *BOX)
    right = small(waited).run(a)
    assert same(small(waited).run(a, backwards=True), right) and same(small(late).run(a), right)
    assert np.isnan(small(late).run(a, backwards=True)[1][:2048].view(np.float16)).all()


# ---- products ----

# O = A @ B^T, both [rows, 64], each brought by one box; four products of 16 columns each
SHARED = (
    ONE
    + """
  if (thread == 0) {{
    barrier_expect(barriers, (64 + {n}) * 128);
    tma_load(smem, &A_map, barriers, 0, 0, 0, 0);
    tma_load(smem + 8192, &B_map, barriers, 0, 0, 0, 0);
  }}
  float C[{n} / 2];
  for (int i = 0; i < {n} / 2; ++i) C[i] = 7;
  barrier_wait(barriers, 0);
  const unsigned long long a = operand(smem, 0, 1024), b = operand(smem + 8192, 0, 1024);
  product_begin();
  for (int k = 0; k < 4; ++k) Product<{type}, {n}>::shared(C, operand_at(a, 32 * k), operand_at(b, 32 * k), k > 0);
  product_end();
  product_wait<0>();
  settle(C);
"""
)
# O = 7 + A @ B, A [64, 64] from registers as mma_m16n8k16 deals it, B [64, N] in panels of 64 columns, a box each
REGISTERS = (
    ONE
    + """
  if (thread == 0) {{
    barrier_expect(barriers, ({n} + 63) / 64 * 64 * 128);
    for (int panel = 0; panel < ({n} + 63) / 64; ++panel)
      tma_load(smem + panel * 64 * 128, &B_map, barriers, 64 * panel, 0, 0, 0);
  }}
  unsigned A[4][4];
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < 4; ++i) {{
      const int at = (warp * 16 + lane / 4 + i % 2 * 8) * 64 + 16 * k + 2 * (lane % 4) + i / 2 * 8;
      A[k][i] = A_gmem[at] | (unsigned)A_gmem[at + 1] << 16;
    }}
  float C[{n} / 2];
  for (int i = 0; i < {n} / 2; ++i) C[i] = 7;
  barrier_wait(barriers, 0);
  const unsigned long long b = operand(smem, 64 * 128, 1024);
  product_begin();
  for (int k = 0; k < 4; ++k) Product<{type}, {n}>::registers(C, A[k], operand_at(b, k * 16 * 128), 1);
  product_end();
  product_wait<0>();
  settle(C);
  settle(A[3]);
"""
)
WRITE = """
  for (int i = 0; i < {n} / 8; ++i)
    for (int h = 0; h < 2; ++h)
      for (int e = 0; e < 2; ++e)
        stg<float>(&O_gmem[(warp * 16 + lane / 4 + 8 * h) * 256 + 8 * i + 2 * (lane % 4) + e], C[4 * i + 2 * h + e]);
"""


def of(text, n=64, dtype="float16"):
    return (text + WRITE).format(n=n, type=DTYPES[dtype].c_type)


def product_of(text, n, dtype, **rest):
    every = [of(text, each, kind) for kind in ("float16", "bfloat16") for each in (64, 96, 128, 256)]
    return one_of(every, of(text, n, dtype), **rest)


def close(found, exact):
    """Four products are rounded four times."""
    return np.abs(found[:, : exact.shape[1]] - exact).max() <= 4 * 2**-24 * np.abs(exact).max()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [64, 96, 128, 256])
def test_a_product_of_operands_in_shared_memory_or_of_registers_and_a_transposed_operand(n, dtype):
    a, b = random(dtype, 1, 1, 64, 64), random(dtype, 1, 1, n, 64)
    kernel, boxes = product_of(SHARED, n, dtype), (BOX, (1, 1, n, 64))
    found = kernel.run(a, b, boxes)
    assert close(found[0], a[0, 0].astype(np.float64) @ b[0, 0].astype(np.float64).T)
    assert same(kernel.run(a, b, boxes, backwards=True), found)
    a, b = random(dtype, 1, 1, 64, 64), random(dtype, 1, 1, 64, n)
    kernel = product_of(REGISTERS, n, dtype)
    found = kernel.run(a, b)
    assert close(found[0], 7 + a[0, 0].astype(np.float64) @ b[0, 0].astype(np.float64))
    assert same(kernel.run(a, b, backwards=True), found)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [64, 96, 128, 256])
@pytest.mark.parametrize("text", [SHARED, REGISTERS], ids=["shared", "registers"])
def test_the_gpu_and_the_shim_agree_on_products(text, n, dtype):
    """Of small whole numbers, whose sums are exact however they are added up."""
    kind = DTYPES[dtype].numpy
    a = np.random.default_rng(1).integers(-8, 9, (1, 1, 64, 64)).astype(kind)
    b = np.random.default_rng(2).integers(-8, 9, (1, 1, n, 64) if text is SHARED else (1, 1, 64, n)).astype(kind)
    boxes = (BOX, (1, 1, n if text is SHARED else 64, 64))
    runs = [product_of(text, n, dtype, backend=backend).run(a, b, boxes) for backend in ("gpu", "cpu")]
    assert same(*runs)


def test_products_take_what_is_no_number_along():
    a, b = random("float16", *BOX), random("float16", *BOX)
    a[0, 0, 3, 5], a[0, 0, 7, 0], b[0, 0, 2, 9] = np.inf, 2**-24, np.nan
    found, _ = small(of(SHARED)).run(a, b)
    exact = a[0, 0].astype(np.float64) @ b[0, 0].astype(np.float64).T
    assert np.array_equal(np.isnan(found[:, :64]), np.isnan(exact)) and np.isnan(found[:, 2]).all()
    assert np.array_equal(np.isinf(found[:, :64]), np.isinf(exact)) and np.isinf(found[3, 0])


def test_c_is_late_and_a_tile_or_a_register_that_changes_before_the_wait_spoils_the_product():
    a, b = random("float16", *BOX), random("float16", *BOX)
    body = of(SHARED)
    late = body.replace("  product_wait<0>();\n", "") + "  product_wait<0>();\n"
    assert not same(small(body).run(a, b), small(late).run(a, b, backwards=True))
    assert (small(late).run(a, b, backwards=True)[0][:, :64] == 7).all()
    again = "  product_end();\n  if (thread % 32 == 5) sts<float>(smem + 8192 + 2048 * warp, 3.f);\n"
    right, early = of(SHARED), of(SHARED).replace("  product_end();\n", again)
    assert not same(small(right).run(a, b), small(early).run(a, b, backwards=True))
    right = of(REGISTERS)
    early = right.replace("  product_end();\n", "  product_end();\n  A[2][1] ^= 0x4000;\n")
    assert not same(small(right).run(a, b), small(early).run(a, b, backwards=True))


STRIDES = [
    ("operand(smem, 0, 1024)", "operand(smem, 0, 512)"),
    ("operand(smem + 8192, 0, 1024)", "operand(smem + 8192, 0, 2048)"),
    ("operand_at(b, 32 * k)", "operand_at(b, 16 * k)"),
    ("operand(smem, 64 * 128, 1024)", "operand(smem, 64 * 64, 1024)"),
    ("operand(smem, 64 * 128, 1024)", "operand(smem, 64 * 128, 128)"),
]  # right, wrong


@pytest.mark.parametrize("right, wrong", STRIDES)
def test_a_wrong_stride_gives_other_numbers(right, wrong):
    text = SHARED if right in SHARED else REGISTERS
    a, b = random("float16", *BOX), random("float16", *((1, 1, 128, 64) if text is SHARED else (1, 1, 64, 128)))
    boxes, body = (BOX, (1, 1, b.shape[2], 64)), of(text, 128)
    every = [body, *(body.replace(*each) for each in STRIDES if each[0] in body)]
    found = [one_of(every, each).run(a, b, boxes) for each in (body, body.replace(right, wrong))]
    assert not same(*found)


def test_two_groups_of_products_end_one_after_the_other():
    """C is asked for after the first of two groups, D after both."""
    twice = """
  float D[32];
  product_begin();
  Product<half, 64>::shared(D, a, b, 0);
  product_end();
  product_wait<1>();
  N_gmem[thread] = C[0] != 7;
  product_wait<0>();
  settle(D);
  N_gmem[128 + thread] = D[0] != 7;
"""
    body = of(SHARED).replace("  product_wait<0>();\n  settle(C);\n", twice)
    a, b = random("float16", *BOX), random("float16", *BOX)
    for backwards in (False, True):
        found, done = small(body).run(a, b, backwards=backwards)
        assert (done[:256] == 1).all()
        assert close(found, a[0, 0].astype(np.float64) @ b[0, 0].astype(np.float64).T)


# ---- warpgroups that play different roles ----

# O[64 t + row, :64] is not kept: N[2 t + w] is the sum over tile t of A of what consumer warpgroup w counts in it
PIPELINE = """
  Barrier *full = barriers, *empty = barriers + 2;
  if (thread == 0) {
    for (int i = 0; i < 2; ++i) barrier_init(&full[i], 1), barrier_init(&empty[i], 8);
    barrier_init_done();
  }
  __syncthreads();
  if (warpgroup == 0) {
    give_registers<24>();
    if (thread == 0)
      for (int t = 0; t < 6; ++t) {
        barrier_wait(&empty[t % 2], t / 2 % 2 ^ 1);
        barrier_expect(&full[t % 2], 8192);
        tma_load(smem + t % 2 * 8192, &A_map, &full[t % 2], 0, 0, 0, t);
      }
  } else {
    take_registers<240>();
    float C[32], sum = 0;
    for (int t = 0; t < 6; ++t) {
      const unsigned long long tile = operand(smem + t % 2 * 8192, 0, 1024);
      barrier_wait(&full[t % 2], t / 2 % 2);
      product_begin();
      for (int k = 0; k < 128; k += 32)
        Product<half, 64>::shared(C, operand_at(tile, k), operand_at(tile, k), k > 0);
      product_end();
      product_wait<0>();
      settle(C);
      if (lane == 0) barrier_arrive(&empty[t % 2]);
      for (int i = 0; i < 32; ++i) sum += (i + 1 + 3 * t) * C[i];
      if (warpgroup == 1) named_sync(1, 256);
      if (warpgroup == 2) named_arrive(1, 256);
      if (warpgroup == 1) sts<float>(smem + 32768 + 4 * (thread % 128), sum);
      if (warpgroup == 1) named_arrive(2, 256);
      if (warpgroup == 2) named_sync(2, 256);
      if (warpgroup == 2) sum += lds<float>(smem + 32768 + 4 * ((thread + 32) % 128));
    }
    stg<float>(&O_gmem[(warpgroup - 1) * 256 + thread % 128], sum);
  }
"""


def tiles():
    return np.random.default_rng(0).integers(-3, 4, (6, 1, 64, 64)).astype(np.float16)


def test_a_pipeline_of_roles_gives_the_same_in_either_order():
    a, kernel = tiles(), small(PIPELINE, threads=384)
    found = kernel.run(a)
    assert same(kernel.run(a, backwards=True), found)
    t = np.arange(6)[:, None]
    products = np.stack([tile[0].astype(np.float64) @ tile[0].astype(np.float64).T for tile in a])
    thread = np.arange(128)
    row, column = thread // 32 * 16 + thread % 32 // 4, 2 * (thread % 4)
    i = np.arange(32)
    mine = products[:, row[:, None] + i // 2 % 2 * 8, column[:, None] + i // 4 * 8 + i % 2]
    wanted = (mine * (i + 1 + 3 * t[:, :, None])).sum(axis=(0, 2))
    assert np.array_equal(found[0][0, :128], wanted)


@pytest.mark.gpu
def test_the_pipeline_runs_alike_on_a_gpu():
    assert same(small(PIPELINE, threads=384, backend="gpu").run(tiles()), small(PIPELINE, threads=384).run(tiles()))


def test_a_block_of_512_threads_has_four_warpgroups_and_all_lanes_count_vote_and_shuffle():
    body = """
  if (warpgroup == 3) take_registers<160>();
  if (warpgroup < 3) named_arrive(7, 512);
  else named_sync(7, 512);
  if (warpgroup == 3) stg<int>(&N_gmem[thread % 128], warp_uniform(warpgroup));
"""
    for backwards in (False, True):
        assert (small(body, threads=512).run(backwards=backwards)[1][:128] == 3).all()
    body = """
  int* next = N_gmem + 100;
  if (thread == 0) next[0] = 0;
  __syncthreads();
  for (int tile = atomic_next(next, 177); tile < 50; tile = atomic_next(next, 177)) N_gmem[tile] = thread;
"""
    for backwards in (False, True):
        _, n = small(body).run(backwards=backwards)
        assert (n[:50] >= 0).all() and n[100] == 0  # 50 tiles and 128 threads that find none: 178 numbers
    body = """
  const unsigned all = 0xffffffffu;
  N_gmem[thread] = (int)__ballot_sync(all, lane % 3 == 0);
  N_gmem[128 + thread] = __any_sync(all, lane == warp) + 2 * __any_sync(all, 0) + 4 * __all_sync(all, lane < 32);
  N_gmem[256 + thread] = 8 * __all_sync(all, lane < 31) + __shfl_up_sync(all, lane, 3) * 100;
  N_gmem[384 + thread] = __shfl_down_sync(all, lane, 5) + 100 * warp_uniform(thread);
"""
    lane, warp = np.arange(128) % 32, np.arange(128) // 32
    for backwards in (False, True):
        n = small(body).run(backwards=backwards)[1][:512].reshape(4, 128)
        assert (n[0].view(np.uint32) == sum(1 << i for i in range(0, 32, 3))).all() and (n[1] == 5).all()
        assert np.array_equal(n[2], 100 * np.where(lane < 3, lane, lane - 3))
        assert np.array_equal(n[3], np.where(lane > 26, lane, lane + 5) + 3200 * warp)


WAITS = [
    "        barrier_wait(&empty[t % 2], t / 2 % 2 ^ 1);\n",
    "        barrier_expect(&full[t % 2], 8192);\n",
    "      barrier_wait(&full[t % 2], t / 2 % 2);\n",
    "      product_begin();\n",
    "      product_end();\n",
    "      product_wait<0>();\n",
    "      if (lane == 0) barrier_arrive(&empty[t % 2]);\n",
    "      if (warpgroup == 1) named_sync(1, 256);\n",
    "      if (warpgroup == 2) named_arrive(1, 256);\n",
    "      if (warpgroup == 1) named_arrive(2, 256);\n",
    "      if (warpgroup == 2) named_sync(2, 256);\n",
    "    barrier_init_done();\n",
    "  __syncthreads();\n",
]


@pytest.mark.parametrize("line", WAITS, ids=str.strip)
def test_each_line_of_the_pipeline_that_is_left_out_shows(line):
    assert PIPELINE.count(line) == 1
    a, right = tiles(), small(PIPELINE, threads=384).run(tiles())
    broken = one_of([PIPELINE.replace(each, "") for each in WAITS], PIPELINE.replace(line, ""), threads=384)
    shown = False
    for backwards in (False, True):
        try:
            shown |= not same(broken.run(a, backwards=backwards), right)
        except RunError:
            shown = True
    assert shown


# ---- what it stops ----

PRODUCT = """
  float C[32];
  const unsigned long long a = operand(smem, 0, 1024);
  product_begin();
  Product<half, 64>::shared(C, a, a, 0);
  product_end();
  product_wait<0>();
"""


def stopped(kernel, message, backwards=False, **rest):
    with pytest.raises(RunError, match=message):
        kernel.run(backwards=backwards, **rest)


OF_BARRIERS = [
    ("  barrier_wait(barriers, 0);", r"barrier_wait at offset 61440 of shared memory, where no barrier was set up"),
    ("  barrier_arrive(barriers + 3);", "barrier_arrive at offset 61464 of shared memory, where no barrier"),
    ("  barrier_init(barriers, 0);", "barrier_init with 0 arrivals"),
    ("  barrier_init(barriers, 1);", "barrier_init a second time"),
    ("  if (thread == 0) barrier_init(barriers, 1), barrier_arrive(barriers);",
     "barrier_arrive before barrier_init_done"),
    ("  barrier_wait((Barrier*)(smem + 65536), 0);", "a barrier at offset 65536 of shared memory; the block"),
    ("  barrier_wait((Barrier*)(smem + 12), 0);", "a barrier of 8 bytes at offset 12 of shared memory is"),
    ("  set_up(barriers, 1, 3);\n  sts<int>(barriers, 0);\n  barrier_arrive(barriers);",
     "something was written over it"),
    (ONE + "  barrier_wait(barriers, 2);", "parity 2; it is 0 or 1"),
    (ONE + "  if (thread == 0) barrier_expect(barriers, 64), barrier_arrive(barriers);",
     r"barrier 0, in the order of barrier_init \(offset 61440 of shared memory, phase 0, parity 0\): it has all "
     r"its 1 arrivals, and this is one more; it waits for bytes, 0 of 64 came"),
    (ONE + "  if (thread == 0) barrier_expect(barriers, 1 << 20);", "barrier_expect of 1048576 bytes"),
]  # fmt: skip


@pytest.mark.parametrize("body, message", OF_BARRIERS)
def test_a_barrier_that_is_used_wrongly_is_told(body, message):
    stopped(one_of([each for each, _ in OF_BARRIERS], body), message)


@pytest.mark.parametrize("backwards", [False, True])
def test_bytes_that_do_not_match_are_told(backwards):
    short = LOAD.format(bytes=4096, at="0, 0, 0, 0")
    stopped(small(short), "barrier 0, .*: 8192 bytes came, and 4096 are expected", backwards)
    long = LOAD.format(bytes=9000, at="0, 0, 0, 0")
    stopped(
        small(long),
        r"deadlock: warpgroup 0 at barrier_wait of barrier 0, in the order of barrier_init \(offset 61440 of shared "
        r"memory, phase 0, parity 0\): 0 of 1 arrivals and 808 of 9000 bytes are missing",
        backwards,
    )


OF_PLACES = [
    ("tma_load(smem + 512, ", "a swizzle of 128 bytes to offset 512 of shared memory, which is no multiple of 1024"),
    ("tma_load(smem + 57 * 1024, ", "illegal address: a tma_load of 8192 bytes to offset 58368 of shared memory"),
    ("tma_load((void*)N_gmem, ", "illegal address: a tma_load of 8192 bytes"),
    ("tma_load(smem - 1024, ", "illegal address: a tma_load of 8192 bytes to offset -1024"),
]


@pytest.mark.parametrize("load, message", OF_PLACES)
def test_a_box_that_has_no_place_is_told(load, message):
    whole = LOAD.format(bytes=8192, at="0, 0, 0, 0")
    every = [whole.replace("tma_load(smem, ", each) for each, _ in OF_PLACES]
    stopped(one_of(every, whole.replace("tma_load(smem, ", load)), message)


def test_a_map_of_other_dimensions_or_a_block_that_ends_before_its_boxes_is_told():
    kernel = small(LOAD.format(bytes=8192, at="0, 0, 0, 0"))
    flat = np.zeros((64, 64), np.float16)
    stopped(kernel, "a tensor map of 2 dimensions; tma_load takes four", a=flat, boxes=((64, 64), (64, 64)))
    narrow = (1, 1, 64, 32)
    stopped(kernel, "rows of 64 bytes and a swizzle of 128", boxes=(narrow, narrow))
    kernel = small("")
    with pytest.raises(ProblemError, match="tensor map of a .* strides of .* multiples of 16. Choose another problem"):
        kernel.run(np.zeros((1, 2, 64, 60), np.float16), boxes=((1, 1, 64, 32), BOX))
    with pytest.raises(ProblemError, match="a box's sizes are 1 to 256"):
        kernel.run(boxes=((1, 1, 512, 64), BOX))
    body = LOAD.format(bytes=8192, at="0, 0, 0, 0").replace("  barrier_wait(barriers, 0);\n", "")
    said = r"barrier 0, .*: all threads have left, and boxes are still on their way to it.* of small.cu:\d+"
    stopped(small(body), said, True)


OF_PRODUCTS = [
    ("  product_begin();\n", "", "a product outside product_begin and product_end"),
    ("  product_end();\n", "", "product_wait<0> before product_end has closed the group"),
    ("operand(smem, 0, 1024)", "operand(smem, 0, 65536)",
     r"row 8, column 0 of operand A of a product lies at offset 65536 of shared memory; the block has 65536 bytes "
     r"\(the operand begins at 0, leading 0, stride 65536\)"),
    ("operand(smem, 0, 1024)", "operand(smem + 512, 0, 1024)", "begins at offset 512 of shared memory, inside a"),
    ("operand(smem, 0, 1024)", "operand(smem, 0, 1 << 18)", "operand A of a product is 0x4000400000000000, whi"),
    ("operand(smem, 0, 1024)", "operand((void*)N_gmem, 0, 1024)", "illegal address: an operand at offset"),
    ("  Product", "  if (warp < 3) Product", "product 0 of warpgroup 0 was asked for by 96 of its 128 threads; t"),
    ("  Product", "  if (thread == 77) Product<half, 64>::shared(C, a, operand_at(a, 32), 0);\n  else Product",
     r"product 0 of warpgroup 0 differs from that of thread 0: .* B 0x[0-9a-f]+2 and 0x[0-9a-f]+0"),
    ("  Product", "  if (thread < 64) Product<bfloat16, 64>::shared(C, a, a, 0);\n  else Product", "differs"),
    ("  product_wait<0>", "  if (thread == 9) product_wait<1>();\n  else product_wait<0>",
     r"product_wait<1> after 1 groups of products, where thread 0 of the same warpgroup came to product_wait<0>"),
]  # fmt: skip


@pytest.mark.parametrize("wrong, right, message", OF_PRODUCTS)
def test_a_product_that_is_asked_for_wrongly_is_told(wrong, right, message):
    assert wrong in PRODUCT
    every = [PRODUCT.replace(*each) for *each, _ in OF_PRODUCTS]
    stopped(one_of(every, PRODUCT.replace(wrong, right)), message)


def test_a_product_by_less_than_a_warpgroup_registers_and_a_counter_out_of_range_are_told():
    stopped(small(PRODUCT, threads=96), "product_begin needs a warpgroup, 128 threads; the block's last has 96")
    said = r"deadlock: warps 0 to 2 at product_wait<0> for warp 3 of warpgroup 0; 32 of 128 threads have left"
    stopped(small("  if (warp == 3) return;\n" + PRODUCT), said)
    endless = PRODUCT.replace("  product_begin", "  for (int i = 0; i < 65; ++i) {\n  product_begin")
    endless = endless.replace("  product_end();\n", "  product_end();\n  }\n")
    stopped(small(endless), "64 products of this thread are not waited for", True)
    with pytest.raises(BuildError, match="small.cu|warpgroup.h"):
        small("  take_registers<260>();")
    stopped(
        small("  atomic_next(N_gmem + 5000, 1);"), "illegal address: a global store of 4 bytes outside every buffer"
    )


OF_MEETINGS = [
    ("  named_sync(0, 128);", "named_sync with barrier 0; they are numbered 1 to 15"),
    ("  named_sync(16, 128);", "named_sync with barrier 16"),
    ("  named_sync(1, 100);", r"named_sync\(1, 100\): a barrier takes whole warps"),
    ("  named_arrive(1, 256);", r"named_arrive\(1, 256\): .* no more than the block's 128 threads"),
    ("  named_sync(3, thread == 5 ? 64 : 128);", r"named_sync\(3, 64\): those who came before said 128 threads"),
    ("  for (int i = 0; i < 2; ++i) named_arrive(3, 128);", "this thread has come to the barrier before"),
    ("  if (warp == 2) return;\n  named_sync(5, 128);",
     r"deadlock: warps 0 to 1, 3 at named_sync\(5, 128\), to which 96 threads came; 32 of 128 threads have left"),
    ("  if (warp == 2) give_registers<40>();\n  __syncthreads();",
     r"deadlock: warp 2 at give_registers<40> for warps 0 to 1, 3 of warpgroup 0; warps 0 to 1, 3 at __syncthr"),
    ("  if (warp == 2) give_registers<40>();\n  else give_registers<24>();",
     "give_registers<40> after 0 groups of products, where thread 0 of the same warpgroup came to give_registers<"),
    ("  if (thread == 3) return;\n  set_up(barriers, 2, 5);\n  if (thread < 2) barrier_arrive(&barriers[1]);\n"
     "  if (thread > 64) barrier_wait(&barriers[thread > 70], 0);\n"
     "  else if (thread > 62) barrier_wait(&barriers[1], 1);",
     r"deadlock: threads 65 to 70 at barrier_wait of barrier 0, .* 5 of 5 arrivals and 0 of 0 bytes are missing; "
     r"threads 71 to 127 at barrier_wait of barrier 1, .*offset 61448 .* 3 of 5 arrivals .*; 65 of 128 threads"),
]  # fmt: skip


@pytest.mark.parametrize("body, message", OF_MEETINGS)
def test_threads_that_do_not_meet_are_told(body, message):
    stopped(one_of([each for each, _ in OF_MEETINGS], body), message)


# ---- probes ----

PROBED = """
  const int tile = 2;
  const half* T_gmem = nullptr;
  const half* T_smem = reinterpret_cast<const half*>(smem);
  set_up(barriers, 1, 1);
  if (thread == 0) {
    barrier_expect(barriers, 2 * 64 * 128);
    PROBE_TMA(A_gmem, 3 * 64 * 64, 64 * 128, tile);
    PROBE_TMA_SMEM(T_smem, 0, 64 * 128, tile);
    tma_load(smem, &A_map, barriers, 0, 0, 0, 3);
    PROBE_TMA(T_gmem, 5 * 64 * 64, 64 * 128);
    PROBE_TMA_SMEM(T_smem, 4096, 64 * 128);
    tma_load(smem + 8192, &A_map, barriers, 0, 0, 0, 5);
  }
  barrier_wait(barriers, 0);
  float C[32];
  const unsigned long long a = operand(smem, 0, 1024), b = operand(smem + 8192, 0, 1024);
  if (thread == 32) PROBE_PRODUCT(T_smem, 4096, 4 * 32 * 64, tile);
  product_begin();
  for (int k = 0; k < 4; ++k) Product<half, 64>::shared(C, operand_at(a, 32 * k), operand_at(b, 32 * k), k > 0);
  product_end();
  product_wait<0>();
  settle(C);
"""


@pytest.mark.parametrize("backend, backwards", ORDERS)
def test_boxes_and_products_are_logged(backend, backwards):
    kernel = small(PROBED, mode=Mode.PROBED, backend=backend)
    kernel.run(tiles(), backwards=backwards)
    frame = kernel.trace.frame("thread", "event", "tensor", "space", "offset", "bytes", "tile")
    assert frame.astype({"tile": float}).fillna(-1).values.tolist() == [
        [0, "tma", "A", "global", 3 * 8192, 8192, 2],
        [0, "tma_smem", "T", "shared", 0, 8192, 2],
        [0, "tma", "T", "global", 5 * 8192, 8192, -1],
        [0, "tma_smem", "T", "shared", 8192, 8192, -1],
        [32, "product", "T", "shared", 8192, 8192, 2],
    ]


def test_one_probe_may_stand_before_each_product():
    each = PROBED.replace("  if (thread == 32) PROBE_PRODUCT(T_smem, 4096, 4 * 32 * 64, tile);\n", "")
    probe = "for (int k = 0; k < 4; ++k) {\n  PROBE_PRODUCT(T_smem, 4096 + 16 * k, 32 * 64);\n  Product"
    each = each.replace("for (int k = 0; k < 4; ++k) Product", probe).replace("k > 0);\n", "k > 0);\n  }\n")
    kernel = small(each, mode=Mode.PROBED)
    kernel.run(tiles())
    frame = kernel.trace.frame()
    products = frame[(frame.event == "product") & (frame.thread == 99)]
    assert products.offset.tolist() == [8192, 8192 + 32, 8192 + 64, 8192 + 96] and (products.bytes == 2048).all()


OF_PROBES = [
    ("PROBE_TMA(A_gmem, 3 * 64 * 64, ", "PROBE_TMA(A_gmem, 3 * 64 * 64 + 8, ", "a tma of 8192 bytes at .* has no"),
    ("PROBE_TMA(T_gmem, 5 * 64 * 64, ", "PROBE_TMA(T_gmem, 4 * 64 * 64, ", "a tma of 8192 bytes at .* has no"),
    ("64 * 64, 64 * 128, tile);", "64 * 64, 64 * 64, tile);", "the last one logged a tma of 4096 bytes"),
    ("T_smem, 0, ", "T_smem, 8, ", "a tma_smem of 8192 bytes at .* has no probe before it"),
    ("    PROBE_TMA_SMEM(T_smem, 4096, 64 * 128);\n", "", "a tma_smem of 8192 bytes at .* has no probe before it"),
    ("    PROBE_TMA(T_gmem, 5 * 64 * 64, 64 * 128);\n", "", "a tma of 8192 bytes at .* has no probe before it"),
    ("PROBE_TMA(A_gmem", "PROBE_LOAD(A_gmem", "the last one logged a load of 8192 bytes"),
    ("  if (thread == 32) PROBE_PRODUCT(T_smem, 4096, 4 * 32 * 64, tile);\n", "",
     "product 0 of warpgroup 0 has no probe before it: a PROBE_PRODUCT of its operand B"),
    ("PRODUCT(T_smem, 4096,", "PRODUCT(T_smem, 4080,",
     "a product that reads 2048 bytes of operand B at .* has no probe before it"),
    ("4 * 32 * 64", "3 * 32 * 64", "product 3 of warpgroup 0 has no probe before it"),
    ("4 * 32 * 64", "5 * 32 * 64", "the last probe logged a product of 10240 bytes, and products read 8192 of"),
    ("PROBE_PRODUCT(", "PROBE_LOAD(", "the last one logged a load of 8192 bytes"),
]  # fmt: skip


@pytest.mark.parametrize("right, wrong, message", OF_PROBES)
def test_a_probe_of_a_box_or_a_product_that_lies_is_told(right, wrong, message):
    assert right in PROBED
    every = [PROBED.replace(*each) for *each, _ in OF_PROBES]
    stopped(one_of(every, PROBED.replace(right, wrong), mode=Mode.PROBED), message, a=tiles())


# ---- the GPU's half ----

COUNTED = "  if (thread == 0) N_gmem[0] = atomic_next(N_gmem + 500, warp_uniform(warp));\n"


def compiled(folder, body, threads, mode=Mode.TIMED):
    (folder / "small.cu").write_text(KERNEL.format(body=body, threads=threads))
    return build(load_kernel(folder / "small.cu"), {}, mode, "sm_90a")


def test_the_kernels_of_these_tests_hold_everything_that_the_header_gives():
    given = set(re.findall(r"^(?:template <[^>]*> )?__device__ __forceinline__ .*?\b(\w+)\(", HOPPER, re.M))
    assert len(given) == 18 and given <= set(re.findall(r"\w+", PIPELINE + COUNTED + KERNEL))


@pytest.mark.parametrize("body, mode", [(PIPELINE + COUNTED, Mode.TIMED), (PROBED, Mode.PROBED)], ids=["all", "probed"])
def test_everything_compiles_for_hopper_and_no_product_is_serialised(tmp_path, body, mode):
    assert "C75" not in compiled(tmp_path, body, 384, mode).log


@pytest.mark.parametrize("text", [SHARED, REGISTERS], ids=["shared", "registers"])
def test_every_product_compiles_for_hopper_as_one_instruction(tmp_path, text):
    kinds, sizes = {"float16": "f16", "bfloat16": "bf16"}, (64, 96, 128, 256)
    every = [of(text, n, dtype) for dtype in kinds for n in sizes]
    made = compiled(tmp_path, "".join(f"  if (chosen == {n}) {{\n{one}\n  }}\n" for n, one in enumerate(every)), 128)
    assert "C75" not in made.log
    listing = made.ptx_path.read_text()
    for kind in kinds.values():
        assert all(f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{kind}.{kind}" in listing for n in sizes)
