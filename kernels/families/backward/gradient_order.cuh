/*
[constants.DETERMINISTIC]
default = 0
values = [0, 1]
meaning = "1: key tiles add to a tile of dQ in fixed order, so each run returns equal bits, 3 to 20 % slower on an H200"
[scratch.turns]
axes = ["tile"]
shape = ["1 + DETERMINISTIC * batch * num_heads * ceil_div(seq_len, BLOCK_Q)"]
dtype = "int32"
initial = "restored"
[scratch.dq_sums]
axes = ["batch", "head", "query_tile", "number"]
shape = ["batch", "num_heads", "ceil_div(seq_len, BLOCK_Q)", "BLOCK_Q * head_dim"]
initial = "cleared"
[launches.prepare]
item = "query rows"
block = [256]
grid = ["ceil_div(seq_len, BLOCK_Q) * BLOCK_Q // 64", "batch * num_heads"]
args = ["o", "do", "lse", "starts", "dq_sums", {struct = [
  "int32 num_heads", "int32 seq_len", "int32 q_row", "int32 q_head", "float32 scale"]}]
*/
// The order of the adds to a tile of dQ. With DETERMINISTIC a tile of dQ has a turn, the number of key tiles that have
// added to it: key tile 0 adds first. Two threads next to the producer wait for turns and pass them on, so that no
// consumer waits for the L2 cache.
//
// Blocks take their numbers from a counter as they start. A block waits only for lower numbers, so it waits for blocks
// that run or have ended: no deadlock.
#pragma once
#include "gradient_rows.cuh"

__device__ __forceinline__ void take_number(const Tiles& tiles, int* turns_gmem PROBE_REF) {
  int* const number_smem = tiles.number;
  if (DETERMINISTIC && threadIdx.x == 0) {
    const int number = atomic_next(turns_gmem, gridDim.x * gridDim.y * gridDim.z - 1);
    PROBE_STORE(number_smem, 0, 4);
    sts<int>(number_smem, number);
  }
}
// After a __syncthreads
__device__ __forceinline__ Place ordered_place(const Tiles& tiles, int kv_heads PROBE_REF) {
  if (!DETERMINISTIC) return Place(blockIdx.x, blockIdx.y, blockIdx.z, kv_heads);
  int* const number_smem = tiles.number;
  PROBE_LOAD(number_smem, 0, 4);
  const int number = lds<int>(number_smem), line = number / gridDim.x;
  return Place(number % gridDim.x, line % gridDim.y, line / gridDim.y, kv_heads);
}

// Waits for the turn of each step, and opens `turn` for the consumers.
//   turns_gmem  [batch * num_heads, query_tiles]
__device__ __forceinline__ void wait_for_turns(const Tiles& tiles, const int* turns_gmem, const Work& work,
                                               const Sizes& z) {
  const int key_tile = work.first_key / BLOCK_KV;  // all tiles before it see the same queries, and add first
  Step step(work, z);
  NO_UNROLL for (int n = 0; n < work.steps; ++n, step.next(work, z)) {
    if (n > 0) barrier_wait(tiles.seen, n - 1 & 1);
    wait_for_turn(&turns_gmem[tile_of(step.head, step.tile, z)], key_tile);
    barrier_arrive(tiles.turn);
  }
}
// Passes the turn of each step on when all warps have added. The last key tile that sees a tile leaves 0.
__device__ __forceinline__ void pass_turns(const Tiles& tiles, int* turns_gmem, const Work& work, const Sizes& z) {
  Step step(work, z);
  NO_UNROLL for (int n = 0; n < work.steps; ++n, step.next(work, z)) {
    barrier_wait(tiles.added, n & 1);
    barrier_arrive(tiles.seen);
    const int seen_keys = CAUSAL ? min(z.keys, (step.tile + 1) * BLOCK_Q + z.offset) : z.keys;
    pass_turn(&turns_gmem[tile_of(step.head, step.tile, z)], (seen_keys - 1) / BLOCK_KV);
  }
}
// Zeroes the sums of dQ for 64 query rows of a head, by 256 threads.
//   sums_gmem  [batch * num_heads, query_tiles, Q_TILE]
__device__ __forceinline__ void clear_sums(float* dQ_sums_gmem, const Rows& z PROBE_REF) {
  const int first_row = blockIdx.x * 64;
  const long long to = tile_of(blockIdx.y, 0, z) * Q_TILE + (long long)first_row * HEAD_DIM + 4 * threadIdx.x;
  PROBE_MARK(clear, first_row);
  UNROLL for (int i = 0; i < 64 * HEAD_DIM; i += 1024) {
    PROBE_STORE(dQ_sums_gmem, to + i, 16);
    stg<float4>(&dQ_sums_gmem[to + i], make_float4(0.f, 0.f, 0.f, 0.f));
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
