/*
title = "cuda::pipeline"
idea = "asynchronous copies fill one of two tiles while the block computes with the other."
changed = "nothing."
costs = "K and V are read once for each block of queries."
limits = "fp32."
source = "the tests."
family = "dense"

[[launches]]
entry = "attention_pipelined<HEAD_DIM>"
grid = ["ceil_div(seq_len, 64)", "batch * num_heads"]
block = [64]
shared_bytes = "2 * 2 * 16 * head_dim * 4"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include <cooperative_groups.h>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

constexpr int kKeys = 16;
constexpr int kStages = 2;

template <int kDim>
__global__ void attention_pipelined(const float* __restrict__ q, const float* __restrict__ k,
                                    const float* __restrict__ v, float* __restrict__ o, int n, int causal,
                                    float scale) {
  extern __shared__ float4 buffers[];
  float* const k_stage[kStages] = {reinterpret_cast<float*>(buffers), reinterpret_cast<float*>(buffers) + kKeys * kDim};
  float* const v_stage[kStages] = {k_stage[1] + kKeys * kDim, k_stage[1] + 2 * kKeys * kDim};

  auto block = cg::this_thread_block();
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();

  const size_t head = static_cast<size_t>(blockIdx.y) * n * kDim;
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int tiles = (n + kKeys - 1) / kKeys;

  // Each thread copies its share of 16 bytes.
  auto fetch = [&](int tile) {
    pipe.producer_acquire();
    if (tile < tiles) {
      const int stage = tile % kStages, keys = min(kKeys, n - tile * kKeys);
      for (int i = threadIdx.x * 4; i < keys * kDim; i += blockDim.x * 4) {
        const size_t from = head + static_cast<size_t>(tile) * kKeys * kDim + i;
        cuda::memcpy_async(k_stage[stage] + i, k + from, cuda::aligned_size_t<16>(16), pipe);
        cuda::memcpy_async(v_stage[stage] + i, v + from, cuda::aligned_size_t<16>(16), pipe);
      }
    }
    pipe.producer_commit();
  };

  float query[kDim], acc[kDim];
  for (int d = 0; d < kDim; ++d) {
    query[d] = row < n ? q[head + static_cast<size_t>(row) * kDim + d] * scale : 0.f;
    acc[d] = 0.f;
  }
  float m = -INFINITY, l = 0.f;

  fetch(0);
  for (int tile = 0; tile < tiles; ++tile) {
    fetch(tile + 1);
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    block.sync();
    const float* ks = k_stage[tile % kStages];
    const float* vs = v_stage[tile % kStages];
    for (int j = 0; j < kKeys; ++j) {
      const int key = tile * kKeys + j;
      if (key >= n || (causal && key > row)) break;
      float s = 0.f;
      for (int d = 0; d < kDim; ++d) s = fmaf(query[d], ks[j * kDim + d], s);
      const float m_new = fmaxf(m, s), alpha = expf(m - m_new), p = expf(s - m_new);
      l = l * alpha + p;
      for (int d = 0; d < kDim; ++d) acc[d] = acc[d] * alpha + p * vs[j * kDim + d];
      m = m_new;
    }
    pipe.consumer_release();
    block.sync();
  }
  if (row < n)
    for (int d = 0; d < kDim; ++d) o[head + static_cast<size_t>(row) * kDim + d] = acc[d] / l;
}
