/*
title = "Global layouts"
idea = "one warp reads 32 elements of global memory in one of five layouts: more or fewer 32-byte sectors."
changed_from = "lab_columns"
changed = "the walk goes over global memory. Sectors count and banks do not."
costs = "next to each other, 32 lanes of 4 bytes touch 4 sectors. With a stride of 8 floats or more they touch 32."
limits = "one warp. The paged layouts hold pieces of 16 bytes, so they need a WIDTH of 16."
source = "NVIDIA, \"CUDA C++ Best Practices Guide\", coalescing. vLLM's layout of the K cache, arXiv:2309.06180."
family = "lab"
problem = "global"
rung = 3

[[launches]]
entry = "lab_global"
grid = [1]
block = [32]
args = ["x", "o", "int32 steps", "int32 stride", "int32 shift", "int32 block_size"]
*/
#define PAD 0
#define SWIZZLE 0
#include "lab.cuh"

// O[lane] = the sum of the lane's numbers
//   X_gmem  [elements, FLOATS]  an element is WIDTH bytes. Their number depends on the layout.
//   O_gmem  [32]                a sum for each lane
//
// LAYOUT, a constant of the build, is the place of element n. families/lab/accesses.py has its values:
//   LAYOUT_ROW_MAJOR    at n: lane after lane
//   LAYOUT_STRIDED      at n * stride
//   LAYOUT_MISALIGNED   at n + shift: lane after lane, from an element inside a sector
//   LAYOUT_PAGED_SPLIT  a K cache [pieces, block_size, 16 bytes]: one piece of neighbouring tokens is contiguous
//   LAYOUT_PAGED_WHOLE  a K cache [block_size, pieces, 16 bytes]: the pieces of one token are contiguous
extern "C" __global__ void lab_global(
    const float* X_gmem, float* O_gmem, int steps, int stride, int shift, int block_size PROBE_PARAM) {
  const int lane = threadIdx.x, pieces = steps * 32 / block_size;
  PROBE_BEGIN();

  float total = 0.f;
  for (int step = 0; step < steps; ++step) {
    PROBE_MARK(walk, step);
    const int n = step * 32 + lane, token = n % block_size, piece = n / block_size;
    int at = n;
    if (LAYOUT == LAYOUT_STRIDED) at = n * stride;
    if (LAYOUT == LAYOUT_MISALIGNED) at = n + shift;
    if (LAYOUT == LAYOUT_PAGED_SPLIT) at = piece * block_size + token;
    if (LAYOUT == LAYOUT_PAGED_WHOLE) at = token * pieces + piece;
    PROBE_LOAD(X_gmem, (size_t)at * FLOATS, WIDTH);
    const Wide x = ldg<Wide>(&X_gmem[(size_t)at * FLOATS]);
    total += sum(x);
  }
  PROBE_MARK(write, steps);
  PROBE_STORE(O_gmem, lane, 4);
  stg<float>(&O_gmem[lane], total);
}
