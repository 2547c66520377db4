/*
title = "Asynchronous copies"
idea = "copies fill one of two tiles while the block computes with the other."
changed = "nothing."
costs = "K and V are read once for each block of queries."
limits = "fp32."
source = "the tests."
family = "dense"

[[launches]]
entry = "copies"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
shared_bytes = "2 * 2 * 16 * head_dim * 4"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include <cuda_pipeline.h>

#define TILE 16

__device__ void fetch(float* stage, const float* k, const float* v, int tile, int n, int dim) {
  const int count = min(TILE, n - tile * TILE) * dim;
  for (int i = threadIdx.x * 4; i < count; i += blockDim.x * 4) {
    __pipeline_memcpy_async(stage + i, k + (size_t)tile * TILE * dim + i, 16);
    __pipeline_memcpy_async(stage + TILE * dim + i, v + (size_t)tile * TILE * dim + i, 16);
  }
}

__global__ void copies(const float* q, const float* k, const float* v, float* o, int n, int dim, int causal,
                       float scale) {
  extern __shared__ float4 buffer[];
  float* const stages = reinterpret_cast<float*>(buffer);
  const size_t head = (size_t)blockIdx.y * n * dim;
  const int row = blockIdx.x * blockDim.x + threadIdx.x, tiles = (n + TILE - 1) / TILE;
  float acc[128] = {}, m = -INFINITY, l = 0.f;
  fetch(stages, k + head, v + head, 0, n, dim);
  __pipeline_commit();
  for (int tile = 0; tile < tiles; ++tile) {
    float* const ks = stages + tile % 2 * 2 * TILE * dim;
    if (tile + 1 < tiles) fetch(stages + (tile + 1) % 2 * 2 * TILE * dim, k + head, v + head, tile + 1, n, dim);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();  // the tile is there
    for (int j = 0; j < TILE; ++j) {
      const int key = tile * TILE + j;
      if (row >= n || key >= n || (causal && key > row)) break;
      float part[4] = {};
      for (int d = 0; d < dim; ++d) part[d % 4] += q[head + row * dim + d] * ks[j * dim + d];
      const float s = scale * ((part[0] + part[1]) + (part[2] + part[3]));
      const float m_new = fmaxf(m, s), rescale = expf(m - m_new), p = expf(s - m_new);
      l = l * rescale + p;
      for (int d = 0; d < dim; ++d) acc[d] = acc[d] * rescale + p * ks[TILE * dim + j * dim + d];
      m = m_new;
    }
    __syncthreads();  // all have read the tile
  }
  if (row < n)
    for (int d = 0; d < dim; ++d) o[head + row * dim + d] = acc[d] / l;
}
