// What Hopper's rungs share: tiles in shared memory as TMA writes and wgmma reads them, panels of 64 dims (128 bytes,
// which is as wide as a swizzle reaches) one after the other, and the two products of a warpgroup over such tiles.
#pragma once
#include "hopper.cuh"
#include "fragments.cuh"
#define PANELS (HEAD_DIM / 64)
#define TILE (BLOCK_KV * HEAD_DIM)  // elements of a tile of K or V
#ifndef V_STRIDE
#define V_STRIDE 1024
#endif

// Which stage is used next, and the parity of its barriers' phase
template <int COUNT> struct Turn {
  int stage = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == COUNT) stage = 0, parity ^= 1;
  }
};

// A query tile of a head, and how many tiles of keys some of its rows see; 0: nothing is left
struct Work {
  int first_row, head, batch, tiles;
};
// One thread writes down for the others what they work on next, in the stage that its Q comes to.
//   work_smem    [stages, 4]
__device__ __forceinline__ void tell(int* work_smem, int stage, const Work& work PROBE_REF) {
  const int said[4] = {work.first_row, work.head, work.batch, work.tiles};
  for (int i = 0; i < 4; ++i) {
    PROBE_STORE(work_smem, 4 * stage + i, 4);
    sts<int>(&work_smem[4 * stage + i], said[i]);
  }
}
// The warp reads it: the lane that frees the stage
__device__ __forceinline__ Work told(const int* work_smem, int stage PROBE_REF) {
  int said[4] = {};
  for (int i = 0; i < 4 && threadIdx.x % 32 == 0; ++i) {
    PROBE_LOAD(work_smem, 4 * stage + i, 4);
    said[i] = lds<int>(&work_smem[4 * stage + i]);
  }
  UNROLL for (int i = 0; i < 4; ++i) said[i] = warp_uniform(said[i]);
  return {said[0], said[1], said[2], said[3]};
}

// Where Q, of which a warpgroup has 64 rows of BLOCK_Q, K and V lie, as the tensor cores are told
__device__ __forceinline__ unsigned long long rows_operand(const T* smem) { return operand(smem, 16, 1024); }
__device__ __forceinline__ unsigned long long values_operand(const T* smem) {
  return operand(smem, BLOCK_KV * 128, V_STRIDE);
}

// Sets off S = Q @ K^T   [64, BLOCK_KV] of this warpgroup
__device__ __forceinline__ void start_scores(float (&S)[BLOCK_KV / 2], unsigned long long q, unsigned long long k) {
  product_begin();
  UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
    const int panel = d / 64 * 64, within = d % 64;
    Product<T, BLOCK_KV>::shared(S, operand_at(q, (panel * BLOCK_Q + within) * 2),
                                 operand_at(k, (panel * BLOCK_KV + within) * 2), d > 0);
  }
  product_end();
}

// Sets off O += P @ V   [64, HEAD_DIM] of this warpgroup
__device__ __forceinline__ void start_outputs(float (&O)[HEAD_DIM / 2], unsigned (&P)[BLOCK_KV / 4],
                                                unsigned long long v) {
  settle(P), settle(O);
  product_begin();
  UNROLL for (int k = 0; k < BLOCK_KV; k += 16) {
    Product<T, HEAD_DIM>::registers(O, &P[k / 4], operand_at(v, k * 128), 1);
  }
  product_end();
}
