/*
title = "A producer warp and two consumer warps"
idea = "each consumer warp arrives at the barrier of an empty stage, also for a tile that it masks."
changed = "nothing, this is an exercise."
costs = "K and V are read once for each block of 64 rows."
limits = "fp32. sm_90 and later."
source = "vLLM PR 26026. tilelang issue 2566. CUTLASS issue 2404."
family = "dense"

[[launches]]
entry = "roles"
grid = ["ceil_div(seq_len, 64)", "batch * num_heads"]
block = [96]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"

[watch]
"wait(&empty, (tile" = "passed[of = warp, tile] = lane"
"arrive(&empty);" = "arrived[of = warp, tile] = lane"
*/
#include <cstdint>
#define TILE 16

__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(uint64_t* bar, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}
__device__ void arrive(uint64_t* bar) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(at(bar)) : "memory");
}
__device__ void wait(uint64_t* bar, int parity) {
  unsigned over = 0;
  while (!over)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                 : "=r"(over) : "r"(at(bar)), "r"(parity) : "memory");
}

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head. Warp 0 copies. Warps 1 and 2 compute.
extern "C" __global__ void roles(const float* Q, const float* K, const float* V, float* O, int seq_len, int causal,
                                 float scale) {
  __shared__ float k_tile[TILE * HEAD_DIM], v_tile[TILE * HEAD_DIM];
  __shared__ uint64_t full, empty;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = (seq_len + TILE - 1) / TILE;
  const size_t head = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  if (threadIdx.x == 0) init(&full, 32), init(&empty, 64);
  __syncthreads();

  if (warp == 0) {  // the producer
    for (int tile = 0; tile < tiles; ++tile) {
      wait(&empty, (tile + 1) % 2);
      for (int i = lane; i < min(TILE, seq_len - tile * TILE) * HEAD_DIM; i += 32) {
        k_tile[i] = K[head + tile * TILE * HEAD_DIM + i];
        v_tile[i] = V[head + tile * TILE * HEAD_DIM + i];
      }
      arrive(&full);
    }
    return;
  }

  const int row = blockIdx.x * 64 + threadIdx.x - 32, last = blockIdx.x * 64 + warp * 32 - 1;  // row of the warp
  float acc[HEAD_DIM] = {}, m = -INFINITY, l = 0.f;
  for (int tile = 0; tile < tiles; ++tile) {
    wait(&full, tile % 2);
    if (!causal || tile * TILE <= last) {  // else the warp sees no key of the tile
      for (int j = 0; j < TILE && row < seq_len; ++j) {
        const int key = tile * TILE + j;
        if (key >= seq_len || (causal && key > row)) break;
        float s = 0.f;
        for (int d = 0; d < HEAD_DIM; ++d) s = fmaf(Q[head + row * HEAD_DIM + d], k_tile[j * HEAD_DIM + d], s);
        const float m_new = fmaxf(m, s * scale);
        const float alpha = expf(m - m_new), p = expf(s * scale - m_new);
        l = l * alpha + p;
        for (int d = 0; d < HEAD_DIM; ++d) acc[d] = acc[d] * alpha + p * v_tile[j * HEAD_DIM + d];
        m = m_new;
      }
    }
    arrive(&empty);
  }
  for (int d = 0; d < HEAD_DIM && row < seq_len; ++d) O[head + row * HEAD_DIM + d] = acc[d] / l;
}
