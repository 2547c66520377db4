/*
title = "Static shared memory"
idea = "a block holds 32 query rows, and a tile of 32 keys in static shared memory."
changed = "nothing."
costs = "K and V are read once for each block of 32 queries."
limits = "fp32. head_dim up to 128."
source = "the tests."
family = "dense"

[[launches]]
entry = "attention"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include <cuda_runtime.h>
#include <float.h>

#define TILE 32
#define MAX_DIM 128

extern "C" __global__ void attention(const float* __restrict__ Q, const float* __restrict__ K,
                                     const float* __restrict__ V, float* __restrict__ O, int seq_len, int head_dim,
                                     int causal, float scale) {
  __shared__ float k_tile[TILE][MAX_DIM + 1];
  __shared__ float v_tile[TILE][MAX_DIM];

  const int row = blockIdx.x * TILE + threadIdx.x;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  float m = -FLT_MAX, l = 0.0f;
  float q[MAX_DIM], acc[MAX_DIM];
  for (int d = 0; d < head_dim; ++d) {
    q[d] = row < seq_len ? Q[head + row * head_dim + d] : 0.0f;
    acc[d] = 0.0f;
  }

  for (int start = 0; start < seq_len; start += TILE) {
    for (int i = threadIdx.x; i < TILE * head_dim; i += blockDim.x) {
      const int r = i / head_dim, d = i % head_dim;
      const bool inside = start + r < seq_len;
      k_tile[r][d] = inside ? K[head + (start + r) * head_dim + d] : 0.0f;
      v_tile[r][d] = inside ? V[head + (start + r) * head_dim + d] : 0.0f;
    }
    __syncthreads();
    for (int j = 0; j < TILE; ++j) {
      const int col = start + j;
      if (col >= seq_len || (causal && col > row)) break;
      float sums[4] = {};  // four short sums round less than one of head_dim terms
      for (int d = 0; d < head_dim; ++d) sums[d % 4] = fmaf(q[d], k_tile[j][d], sums[d % 4]);
      const float s = scale * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
      const float m_new = fmaxf(m, s);
      const float alpha = expf(m - m_new);
      const float p = expf(s - m_new);
      l = l * alpha + p;
      for (int d = 0; d < head_dim; ++d) acc[d] = acc[d] * alpha + p * v_tile[j][d];
      m = m_new;
    }
    __syncthreads();
  }
  if (row < seq_len)
    for (int d = 0; d < head_dim; ++d) O[head + row * head_dim + d] = acc[d] / l;
}
