/*
title = "Double buffering"
idea = "copies of the next tiles run while the threads add this one, if shared memory has a stage for each."
changed_from = "lab_tiles_load"
changed = "cp.async copies without registers, and tile t goes to stage t % STAGES."
costs = "a tile of shared memory for each stage."
limits = "128 threads. Tiles of 512, 1,024 or 2,048 floats."
source = "NVIDIA, \"CUDA C++ Programming Guide\", asynchronous data copies."
family = "lab"
problem = "stages"
why = [
  "The copy of a tile starts only after the sum of the last one, so the threads wait for memory each time.",
  "The next tile comes during the sum of this one. So the longer of copy and sum sets the pace.",
  "Two tiles come during a sum. On an H100, this helps with one pass over a tile (rounds), but not with four.",
]
waits = ["memory", "copy or sum", "copy or sum"]
rung = 27
requires = "sm_80 for cp.async"

[constants.STAGES]
default = 2
values = [1, 2, 3]
names = ["No double buffer", "Two stages", "Three stages"]
meaning = "tiles in shared memory: one that is added, the others on their way"

[[launches]]
entry = "lab_tiles_stages"
grid = [1]
block = [128]
shared_bytes = "4 * TILE * STAGES"
args = ["x", "o", "clocks", "int32 tiles", "int32 rounds"]
*/
#include "mma.cuh"

// O and the tensors are those of lab_tiles_load.
extern "C" __global__ void lab_tiles_stages(const float* X_gmem, float* O_gmem, long long* clocks_gmem, int tiles,
                                            int rounds PROBE_PARAM) {
  DYNAMIC_SMEM(float, X_smem);  // [STAGES, TILE]
  const int thread = threadIdx.x;
  PROBE_BEGIN();
  // This thread's copies of a tile form a group, empty after the last tile.
  auto request = [&](int tile) {
    if (tile < tiles) PROBE_MARK(copy, tile);
#pragma unroll
    for (int i = 0; i < TILE / 512 && tile < tiles; ++i) {
      const int at = 4 * (128 * i + thread), to = tile % STAGES * TILE + at;
      PROBE_LOAD(X_gmem, tile * TILE + at, 16, tile);
      PROBE_CP_ASYNC_L2(X_smem, to, 16, tile);
      cp_async_l2(&X_smem[to], &X_gmem[tile * TILE + at]);
    }
    cp_async_commit();
  };
  float total = 0.f;
  PROBE_MARK(start, tiles);
  if (thread == 0) {
    PROBE_STORE(clocks_gmem, 0, 8);
    stg<long long>(&clocks_gmem[0], clock_cycles());
  }
  for (int tile = 0; tile < STAGES; ++tile) request(tile);
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait_group<STAGES - 1>();
    PROBE_MARK(meet, tile);
    __syncthreads();  // the tile is there
    PROBE_MARK(sum, tile);
    for (int n = 0; n < rounds; ++n) {
#pragma unroll
      for (int i = 0; i < TILE / 128; ++i) {
        const int at = tile % STAGES * TILE + 128 * i + thread;
        PROBE_LOAD(X_smem, at, 4, tile);
        total += lds<float>(&X_smem[at]);
      }
    }
    PROBE_MARK(meet, tile);
    __syncthreads();  // its stage is free
    request(tile + STAGES);
    if (thread > 0) continue;
    PROBE_STORE(clocks_gmem, tile + 1, 8);
    stg<long long>(&clocks_gmem[tile + 1], clock_cycles());
  }
  PROBE_STORE(O_gmem, thread, 4);
  stg<float>(&O_gmem[thread], total);
}
