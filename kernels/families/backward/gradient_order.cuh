/*
[constants.DETERMINISTIC]
default = 0
values = [0, 1]
meaning = "1: key tiles add to a tile of dQ in a fixed order, so each run returns equal bits"
*/
// The order of blocks, and of their adds to a tile of dQ. With DETERMINISTIC each warp's part of a tile has a turn, the
// number of key tiles that have added to it.
//
// Blocks take their numbers from a counter as they start. A block waits only for lower numbers, so it waits for blocks
// that run or have ended: no deadlock.
#pragma once
#include "gradient_tiles.cuh"
#define WARPS (CONSUMERS / 32)

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
// tiles come first, because they see most queries. With DETERMINISTIC its last key tiles come first: each starts at
// another query tile, and all go on at the same speed, so no two meet at one tile.
__device__ __forceinline__ Work ordered_work(int number, int near, const Sizes& z) {
  if (!CAUSAL) return Work(number % key_tiles(z), number / key_tiles(z), z);
  const int first_head = number / (key_tiles(z) * near) * near;
  const int heads = min(near, (int)gridDim.x / key_tiles(z) - first_head), n = number - first_head * key_tiles(z);
  return Work(DETERMINISTIC ? key_tiles(z) - 1 - n / heads : n / heads, first_head + n % heads, z);
}

// The turns of a warp. It passes a turn on during the products of the next tile, when its adds have arrived.
struct Turns {
  int* held = nullptr;  // the turn at the last tile, not passed on yet
  __device__ __forceinline__ void pass() {
    if (!DETERMINISTIC) return;
    __syncwarp();
    if (threadIdx.x % 32 == 0 && held) pass_turn(held);
  }
  // Waits until all key tiles before this one have added to the tile.
  __device__ __forceinline__ void wait(int* turns_gmem, const Step& step, const Work& work, const Sizes& z) {
    if (!DETERMINISTIC) return;
    const int key_tile = work.first_key / BLOCK_KV, last_row = (step.tile + 1) * BLOCK_Q - 1;
    const int last_key_tile = min(key_tiles(z) - 1, (last_row + z.offset) / BLOCK_KV);
    held = &turns_gmem[tile_of(step.head, step.tile, z) * WARPS + threadIdx.x / 32 - 4];
    if (threadIdx.x % 32 == 0) wait_for_turn(held, CAUSAL ? last_key_tile - key_tile : key_tile);
    __syncwarp();
  }
};
// Adds this warpgroup's part to a tile of dQ.
//   sums_gmem  [WARPGROUPS, 8, 128, 4]
__device__ __forceinline__ void add_sums(float* sums_gmem, int group, const float (&dQ_rmem)[32]) {
  UNROLL for (int i = 0; i < 32; i += 4) {
    global_add(&sums_gmem[group * 4096 + i * 128 + threadIdx.x % 128 * 4],
               make_float4(dQ_rmem[i], dQ_rmem[i + 1], dQ_rmem[i + 2], dQ_rmem[i + 3]));
  }
}
