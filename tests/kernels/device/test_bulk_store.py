"""The copies from shared to global memory in the CPU shim, and on a GPU: boxes, edges, waits that are left out."""

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from front import of_roles

from kernels.build import CPU, Mode, build
from kernels.catalog import load_kernel
from kernels.core.launch import Launch, Plan, TensorMap
from kernels.core.scope import Scope
from kernels.core.tensors import Role, Tensor
from kernels.errors import RunError
from kernels.run.backends import cpu, gpu

# A box of 16 rows of 64 halves goes to the corner CORNER of O. Its row r, column c holds 64 r + c.
KERNEL = of_roles("""
requires = "sm_90a"

[[launches]]
entry = "small"
grid = [1]
block = [32]
args = ["o"]
*/
#include "bulk_store.cuh"
extern "C" __global__ void small(const __grid_constant__ TensorMap O_map PROBE_PARAM) {
  SWIZZLED_SMEM(half, smem);
  PROBE_BEGIN();
  const half* const O_gmem = nullptr;
  for (int i = threadIdx.x; i < 1024; i += 32) {
    smem[i / 64 * 64 + (i % 64 / 8 ^ i / 64 % 8) * 8 + i % 8] = to_half(i);
  }
  fence_shared();
  __syncwarp();
  if (one_lane()) {
    PROBE_TMA_STORE(O_gmem, OFFSET, 2048);
    tma_store(smem, &O_map, CORNER);
    tma_store_end();
  }
  tma_store_wait();
  __syncwarp();
  smem[threadIdx.x] = to_half(0.f);
}
""")
SHAPE = (2, 3, 40, 128)
ORDERS = [("cpu", False), ("cpu", True), pytest.param("gpu", False, marks=pytest.mark.gpu)]
CORNERS = [(0, 0, 0, 0), (1, 2, 16, 64), (0, 1, 32, 64), (1, 1, 40, 0), (0, 0, 0, 128)]  # the last three pass an edge


@lru_cache
def built(text, backend, mode):
    with TemporaryDirectory() as folder:
        path = Path(folder, "small.cu")
        path.write_text(text)
        return build(load_kernel(path), {}, mode, CPU if backend == "cpu" else gpu.device().target)


def run(corner=(0, 0, 0, 0), backend="cpu", backwards=False, change=("", ""), mode=Mode.TIMED):
    n, head, row, column = corner
    offset = ((n * SHAPE[1] + head) * SHAPE[2] + row) * SHAPE[3] + column
    text = KERNEL.replace("CORNER", f"{column}, {row}, {head}, {n}").replace("OFFSET", str(offset))
    assert change[0] in text
    made = built(text.replace(*change), backend, mode)
    arrays = {"o": np.full(SHAPE, -1, np.float16)}
    tensor = Tensor("o", SHAPE, "float16", ("batch", "head", "row", "dim"), Role.OUTPUT)
    where = TensorMap("o", (1, 1, 16, 64), 128)
    plan = Plan((Launch("small", (1, 1, 1), (32, 1, 1), 4096, (where,), "block"),), (tensor,))
    capacities = [64] if mode is Mode.PROBED else None
    if backend == "cpu":
        cpu.launch(made, plan, arrays, Scope(), capacities, reversed_order=backwards)
    else:
        gpu.launch(made, plan, arrays, Scope(), capacities)
    return arrays["o"]


@pytest.mark.parametrize("backend, backwards", ORDERS)
@pytest.mark.parametrize("corner", CORNERS)
def test_a_box_goes_to_its_place_without_the_part_past_the_edges(corner, backend, backwards):
    n, head, row, column = corner
    wanted = np.full(SHAPE, -1, np.float16)
    place = wanted[n, head, row : row + 16, column : column + 64]
    place[:] = np.arange(1024, dtype=np.float16).reshape(16, 64)[: place.shape[0], : place.shape[1]]
    assert np.array_equal(run(corner, backend, backwards), wanted)


def test_a_box_that_nobody_waits_for_stops_the_run_and_a_late_copy_shows():
    for change, said in (
        (("  tma_store_wait();\n", ""), "left before its tma_store of small.cu:[0-9]+ has read shared memory. tma_st"),
        (("    tma_store_end();\n", ""), "has read shared memory. tma_store_end, then tma_store_wait"),
    ):
        with pytest.raises(RunError, match=said):
            run(change=change, backwards=True)
    late = "  tma_store_wait();\n  __syncwarp();\n  smem[threadIdx.x] = to_half(0.f);\n"
    swapped = "  __syncwarp();\n  smem[threadIdx.x] = to_half(0.f);\n  __syncwarp();\n  tma_store_wait();\n"
    assert not np.array_equal(run(change=(late, swapped), backwards=True), run(backwards=True))


@pytest.mark.parametrize("corner", [(1, 0, -8, 0), (0, 0, 0, -64)])
def test_a_coordinate_below_0_stops_the_run_as_a_gpu_does(corner):
    with pytest.raises(RunError, match="A GPU takes none below 0"):
        run(corner)


def test_a_box_outside_shared_memory_and_a_lying_probe_stop_the_run():
    with pytest.raises(RunError, match="a tma_store of 2048 bytes from offset 3072 of shared memory"):
        run(change=("tma_store(smem,", "tma_store(smem + 1536,"))
    with pytest.raises(RunError, match="a tma_store with a swizzle of 128 bytes from offset 16 of shared memory"):
        run(change=("tma_store(smem,", "tma_store(smem + 8,"))
    run(mode=Mode.PROBED)
    with pytest.raises(RunError, match="a tma_store of 2048 bytes at .* has no probe before it that says so"):
        run(mode=Mode.PROBED, change=("PROBE_TMA_STORE(O_gmem, 0,", "PROBE_TMA_STORE(O_gmem, 64,"))
