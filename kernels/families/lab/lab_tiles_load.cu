/*
title = "Cooperative loading"
idea = "all threads of a block copy a tile together: a load brings WIDTH bytes to registers, a store writes the tile."
changed_from = "lab_roles"
changed = "all warps copy, then all warps add. WIDTH is the number of bytes that a lane moves at once."
costs = "registers for all bytes in flight. Wider loads move the same sectors with fewer instructions."
limits = "128 threads. Tiles of 512, 1,024 or 2,048 floats."
source = "Luitjens, \"Increase Performance with Vectorized Memory Access\", NVIDIA Technical Blog, 2013."
family = "lab"
problem = "load"
why = [
  "A load of a warp brings 128 bytes. So a tile takes many loads, each with its own address and its own store.",
  "A load of a warp brings 512 bytes: as many sectors with a quarter of the instructions.",
]
waits = ["memory", "memory"]
rung = 25

[constants.WIDTH]
default = 4
values = [4, 16]
names = ["One element a thread", "128 bits a thread"]
meaning = "bytes that a lane moves at once"

[[launches]]
entry = "lab_tiles_load"
grid = [1]
block = [128]
shared_bytes = "4 * TILE"
args = ["x", "o", "clocks", "int32 tiles", "int32 rounds"]
*/
#define PAD 0
#define SWIZZLE 0
#include "lab.cuh"

// O[thread] = rounds * the sum of X[tile, i] over all tiles and over i = thread, thread + 128, ...
//   X_gmem       [tiles, TILE]
//   O_gmem       [128]
//   clocks_gmem  [tiles + 1]  the SM's cycle at the start, and after each tile is added
extern "C" __global__ void lab_tiles_load(const float* X_gmem, float* O_gmem, long long* clocks_gmem, int tiles,
                                          int rounds PROBE_PARAM) {
  DYNAMIC_SMEM(float, X_smem);  // [TILE]
  const int thread = threadIdx.x;
  PROBE_BEGIN();
  float total = 0.f;
  PROBE_MARK(start, tiles);
  if (thread == 0) {
    PROBE_STORE(clocks_gmem, 0, 8);
    stg<long long>(&clocks_gmem[0], clock_cycles());
  }
  for (int tile = 0; tile < tiles; ++tile) {
    PROBE_MARK(copy, tile);
    Wide piece[TILE / FLOATS / 128];  // all loads start before the first store waits for one
#pragma unroll
    for (int i = 0; i < TILE / FLOATS / 128; ++i) {
      const int at = (128 * i + thread) * FLOATS;
      PROBE_LOAD(X_gmem, tile * TILE + at, WIDTH, tile);
      piece[i] = ldg<Wide>(&X_gmem[tile * TILE + at]);
    }
#pragma unroll
    for (int i = 0; i < TILE / FLOATS / 128; ++i) {
      const int at = (128 * i + thread) * FLOATS;
      PROBE_STORE(X_smem, at, WIDTH, tile);
      sts<Wide>(&X_smem[at], piece[i]);
    }
    PROBE_MARK(meet, tile);
    __syncthreads();
    PROBE_MARK(sum, tile);
    for (int n = 0; n < rounds; ++n) {
#pragma unroll
      for (int i = 0; i < TILE / 128; ++i) {
        PROBE_LOAD(X_smem, 128 * i + thread, 4, tile);
        total += lds<float>(&X_smem[128 * i + thread]);
      }
    }
    PROBE_MARK(meet, tile);
    __syncthreads();  // before the next tile comes
    if (thread > 0) continue;
    PROBE_STORE(clocks_gmem, tile + 1, 8);
    stg<long long>(&clocks_gmem[tile + 1], clock_cycles());
  }
  PROBE_STORE(O_gmem, thread, 4);
  stg<float>(&O_gmem[thread], total);
}
