/*
title = "Roles"
idea = "a block's warps play two roles: one copies tiles of X into shared memory, the others add up the tile before."
changed_from = "lab_columns"
changed = "warps no longer do the same: a producer and its consumers meet at one barrier per tile."
costs = "two tiles of shared memory: the producer fills one, the consumers read the other. A barrier per tile."
limits = "at most 31 consumers."
source = "Warpglass. The pattern is CUTLASS's warp specialisation."
family = "lab"
problem = "roles"
rung = 8

[[launches]]
entry = "lab_roles"
grid = [1]
block = ["32 * (1 + consumers)"]
shared_bytes = "2 * 4 * tile_size"
args = ["x", "o", "int32 tiles", "int32 tile_size"]
item = "block"
*/
#include "common.cuh"

// O[slot] = the sum of X[tile, i] over all tiles and over i = slot, slot + slots, slot + 2 slots, ...
//   X [tiles, tile_size]    O [slots], a slot for each lane of the consumers
extern "C" __global__ void lab_roles(const float* X_gmem, float* O_gmem, int tiles, int tile_size PROBE_PARAM) {
  DYNAMIC_SMEM(float, X_smem);  // [2, tile_size]: tile t is in half t % 2
  PROBE_BEGIN();
  if (threadIdx.x < 32) {
    PROBE_ROLE(producer);
    for (int tile = 0; tile < tiles; ++tile) {
      PROBE_MARK(copy, tile);
      for (int i = threadIdx.x; i < tile_size; i += 32) {
        const int from = tile * tile_size + i, to = tile % 2 * tile_size + i;
        PROBE_LOAD(X_gmem, from, 4, tile);
        const float x = ldg<float>(&X_gmem[from]);
        PROBE_STORE(X_smem, to, 4, tile);
        sts<float>(&X_smem[to], x);
      }
      __syncthreads();  // the tile is there, and the tile before it has been read
    }
  } else {
    PROBE_ROLE(consumer);
    const int slot = threadIdx.x - 32, slots = blockDim.x - 32;
    float total = 0.f;
    for (int tile = 0; tile < tiles; ++tile) {
      __syncthreads();
      PROBE_MARK(sum, tile);
      for (int i = slot; i < tile_size; i += slots) {
        const int at = tile % 2 * tile_size + i;
        PROBE_LOAD(X_smem, at, 4, tile);
        total += lds<float>(&X_smem[at]);
      }
      PROBE_VALUE(total, slot, tile, total);
    }
    PROBE_MARK(write, slot);
    PROBE_STORE(O_gmem, slot, 4);
    stg<float>(&O_gmem[slot], total);
  }
}
