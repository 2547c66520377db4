/*
[constants.DETERMINISTIC]
default = 0
values = [0, 1]
meaning = "1: key tiles add to a tile of dQ in a fixed order, so each run returns equal bits, 2 to 12 % slower (H100)"
*/
// The order of blocks, and of their adds to a tile of dQ. With DETERMINISTIC a tile of dQ has a turn, the number of key
// tiles that have added to it. Two threads next to the producer wait for turns and pass them on, so that no consumer
// waits for the L2 cache.
//
// Blocks take their numbers from a counter as they start. A block waits only for lower numbers, so it waits for blocks
// that run or have ended: no deadlock.
#pragma once
#include "gradient_tiles.cuh"

__device__ __forceinline__ void take_number(const Tiles& tiles, int* turns_gmem PROBE_REF) {
  int* const number_smem = tiles.number;
  if (DETERMINISTIC && threadIdx.x == 0) {
    const int number = atomic_next(turns_gmem, gridDim.x - 1);
    PROBE_STORE(number_smem, 0, 4);
    sts<int>(number_smem, number);
  }
}
// After a __syncthreads
__device__ __forceinline__ int block_number(const Tiles& tiles PROBE_REF) {
  if (!DETERMINISTIC) return blockIdx.x;
  int* const number_smem = tiles.number;
  PROBE_LOAD(number_smem, 0, 4);
  return lds<int>(number_smem);
}
// Full attention: head by head, key tile by key tile. Under a causal mask `near` heads share a section. Its first key
// tiles come first, because they see most queries.
// With DETERMINISTIC neighbours in the order belong to different heads, so the key tiles of a head start one after
// another. Under a causal mask the last key tiles come first: each starts at another query tile, and they rarely meet.
__device__ __forceinline__ Work ordered_work(int number, int near, const Sizes& z) {
  if (!CAUSAL && !DETERMINISTIC) return Work(number % key_tiles(z), number / key_tiles(z), z);
  const int first_head = number / (key_tiles(z) * near) * near;
  const int heads = min(near, (int)gridDim.x / key_tiles(z) - first_head), n = number - first_head * key_tiles(z);
  const bool last_first = CAUSAL && DETERMINISTIC;
  return Work(last_first ? key_tiles(z) - 1 - n / heads : n / heads, first_head + n % heads, z);
}
// The number of key tiles that add to a query tile before this one
__device__ __forceinline__ int turn_of(int tile, const Work& work, const Sizes& z) {
  const int key_tile = work.first_key / BLOCK_KV;
  if (!CAUSAL) return key_tile;
  return min(key_tiles(z) - 1, ((tile + 1) * BLOCK_Q - 1 + z.offset) / BLOCK_KV) - key_tile;
}

// Waits for the turn of each step, and opens `turn` for the consumers.
//   turns_gmem  [batch * num_heads, query_tiles]
__device__ __forceinline__ void wait_for_turns(const Tiles& tiles, const int* turns_gmem, const Work& work,
                                               const Sizes& z) {
  Step step(work);
  NO_UNROLL for (int n = 0; n < work.steps; ++n, step.next(work, z)) {
    if (n > 0) barrier_wait(tiles.seen, n - 1 & 1);
    wait_for_turn(&turns_gmem[tile_of(step.head, step.tile, z)], turn_of(step.tile, work, z));
    barrier_arrive(tiles.turn);
  }
}
// Passes the turn of each step on when all warps have added.
__device__ __forceinline__ void pass_turns(const Tiles& tiles, int* turns_gmem, const Work& work, const Sizes& z) {
  Step step(work);
  NO_UNROLL for (int n = 0; n < work.steps; ++n, step.next(work, z)) {
    barrier_wait(tiles.added, n & 1);
    barrier_arrive(tiles.seen);
    pass_turn(&turns_gmem[tile_of(step.head, step.tile, z)]);
  }
}
// Adds this warpgroup's part to a tile of dQ.
//   sums_gmem  [WARPGROUPS, 8, 128, 4]
__device__ __forceinline__ void add_sums(float* sums_gmem, int group, const float (&dQ_rmem)[32]) {
  UNROLL for (int i = 0; i < 32; i += 4) {
    global_add(&sums_gmem[group * 4096 + i * 128 + threadIdx.x % 128 * 4],
               make_float4(dQ_rmem[i], dQ_rmem[i + 1], dQ_rmem[i + 2], dQ_rmem[i + 3]));
  }
}
