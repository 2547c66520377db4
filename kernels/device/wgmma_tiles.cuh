/*
[constants.BLOCK_Q]
default = 128
values = [64, 128, 192]
meaning = "query rows per tile, 64 for each warpgroup that computes"
[constants.BLOCK_KV]
default = 128
values = [64, 96, 128]
meaning = "keys per tile"
[constants.V_STRIDE]
default = 1024
values = [1024, 512]
meaning = "bytes between groups of eight keys of V, in the descriptor for the tensor cores"
what_if = "A wrong stride"
effect = """the tensor cores step 512 bytes, but the next eight keys are 1,024 bytes on. Weights meet the values of \
other keys."""
*/
// Tiles in shared memory, written by TMA and read by wgmma, for Hopper's rungs, and the two products of a warpgroup
// over these tiles. A tile is a sequence of panels of 64 dims (128 bytes, the width of a swizzle).
#pragma once
#include "hopper.cuh"
#include "fragments.cuh"
#define PANELS (HEAD_DIM / 64)
#define TILE (BLOCK_KV * HEAD_DIM)  // elements of a tile of K or V
#ifndef V_STRIDE
#define V_STRIDE 1024
#endif

// The descriptors of Q (64 rows of BLOCK_Q for a warpgroup), K and V for the tensor cores
__device__ __forceinline__ unsigned long long rows_operand(const T* smem) { return operand(smem, 16, 1024); }
__device__ __forceinline__ unsigned long long values_operand(const T* smem) {
  return operand(smem, BLOCK_KV * 128, V_STRIDE);
}

// Starts S = Q @ K^T   [64, BLOCK_KV] of this warpgroup
__device__ __forceinline__ void start_scores(float (&S_rmem)[BLOCK_KV / 2], unsigned long long q,
                                             unsigned long long k) {
  product_begin();
  UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
    const int panel = d / 64 * 64, within = d % 64;
    Product<T, BLOCK_KV>::shared(S_rmem, operand_at(q, (panel * BLOCK_Q + within) * 2),
                                 operand_at(k, (panel * BLOCK_KV + within) * 2), d > 0);
  }
  product_end();
}

// Starts O += P @ V   [64, HEAD_DIM] of this warpgroup
__device__ __forceinline__ void start_outputs(float (&O_rmem)[HEAD_DIM / 2], unsigned (&P_rmem)[BLOCK_KV / 4],
                                              unsigned long long v) {
  settle(P_rmem), settle(O_rmem);
  product_begin();
  UNROLL for (int k = 0; k < BLOCK_KV; k += 16) {
    Product<T, HEAD_DIM>::registers(O_rmem, &P_rmem[k / 4], operand_at(v, k * 128), 1);
  }
  product_end();
}
