/*
title = "Bulk copy"
idea = "one thread requests a whole tile from the copy engine. No register and no other thread takes part."
changed_from = "lab_tiles_load"
changed = "one request in place of a load and a store of every thread. A barrier in shared memory counts the bytes."
costs = "a barrier to initialise. The tile starts at a multiple of 16 bytes, and has a multiple of 16 bytes."
limits = "Hopper and later. 128 threads. Tiles of 512, 1,024 or 2,048 floats."
source = "NVIDIA, PTX ISA, cp.async.bulk and mbarrier."
family = "lab"
problem = "load"
why = ["One thread requests the tile, and no register holds it. But here all threads only wait for it."]
waits = ["memory"]
rung = 26
requires = "sm_90 for cp.async.bulk and mbarrier"

[[launches]]
entry = "lab_tiles_bulk"
grid = [1]
block = [128]
shared_bytes = "4 * TILE + 16"
args = ["x", "o", "clocks", "int32 tiles", "int32 rounds"]
*/
#include "bulk.cuh"

// O and the tensors are those of lab_tiles_load.
extern "C" __global__ void lab_tiles_bulk(const float* X_gmem, float* O_gmem, long long* clocks_gmem, int tiles,
                                          int rounds PROBE_PARAM) {
  DYNAMIC_SMEM(float, X_smem);  // [TILE]
  Barrier* const full = reinterpret_cast<Barrier*>(X_smem + TILE);
  const int thread = threadIdx.x;
  PROBE_BEGIN();
  if (thread == 0) {
    barrier_init(full, 1);
    barrier_init_done();
  }
  __syncthreads();
  float total = 0.f;
  PROBE_MARK(start, tiles);
  if (thread == 0) {
    PROBE_STORE(clocks_gmem, 0, 8);
    stg<long long>(&clocks_gmem[0], clock_cycles());
  }
  for (int tile = 0; tile < tiles; ++tile) {
    PROBE_MARK(copy, tile);
    if (thread < 32 && one_lane()) {
      barrier_expect(full, 4 * TILE);
      PROBE_TMA(X_gmem, tile * TILE, 4 * TILE, tile);
      PROBE_TMA_SMEM(X_smem, 0, 4 * TILE, tile);
      bulk_load(X_smem, &X_gmem[tile * TILE], 4 * TILE, full, keep_unchanged());
    }
    barrier_wait(full, tile % 2);
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
