/*
title = "Cooperative grid"
idea = "one cooperative launch: a grid barrier replaces the second and third launch."
changed = "nothing."
costs = "S is written once and read twice."
limits = "fp32. All blocks must fit on the GPU at one time."
source = "the tests."
family = "dense"

[scratch.s]
shape = ["batch", "num_heads", "seq_len", "seq_len"]
axes = ["batch", "head", "query", "key"]

[[launches]]
entry = "attention_in_one_launch"
grid = [6]
block = [64]
args = ["q", "k", "v", "s", "o", "int32 batch * num_heads", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "block"
cooperative = true
*/
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <math_constants.h>

namespace cg = cooperative_groups;

// Sum or max over the block. Every thread gets the result.
template <typename Op>
__device__ float block_all_reduce(cg::thread_block block, float *lanes, float x, Op op) {
  const int t = block.thread_rank();
  lanes[t] = x;
  block.sync();
  for (int stride = block.size() / 2; stride > 0; stride /= 2) {
    if (t < stride) lanes[t] = op(lanes[t], lanes[t + stride]);
    block.sync();
  }
  float result = lanes[0];
  block.sync();
  return result;
}

__global__ void attention_in_one_launch(const float *Q, const float *K, const float *V, float *S, float *O,
                                        int heads, int n, int d, int causal, float scale) {
  __shared__ float lanes[64];
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();

  // Phase 1: the scores, one per thread, in a grid-stride loop
  const size_t total = (size_t)heads * n * n;
  for (size_t i = grid.thread_rank(); i < total; i += grid.size()) {
    const int col = i % n, row = i / n % n;
    const size_t head = i / n / n;
    const float *q = Q + (head * n + row) * d;
    const float *k = K + (head * n + col) * d;
    float dot = 0;
    for (int x = 0; x < d; x++) dot += q[x] * k[x];
    S[i] = causal && col > row ? -CUDART_INF_F : dot * scale;
  }
  grid.sync();

  // Phase 2: the softmax, one row per block
  for (int row = blockIdx.x; row < heads * n; row += gridDim.x) {
    float *s = S + (size_t)row * n;
    float m = -CUDART_INF_F, sum = 0;
    for (int j = threadIdx.x; j < n; j += blockDim.x) m = fmaxf(m, s[j]);
    m = block_all_reduce(block, lanes, m, [](float a, float b) { return fmaxf(a, b); });
    for (int j = threadIdx.x; j < n; j += blockDim.x) sum += s[j] = __expf(s[j] - m);
    sum = block_all_reduce(block, lanes, sum, [](float a, float b) { return a + b; });
    for (int j = threadIdx.x; j < n; j += blockDim.x) s[j] /= sum;
  }
  cg::sync(grid);

  // Phase 3: P times V
  for (size_t i = grid.thread_rank(); i < (size_t)heads * n * d; i += grid.size()) {
    const size_t row = i / d, head = row / n;
    const int col = i % d;
    float acc = 0;
    for (int j = 0; j < n; j++) acc = fmaf(S[row * n + j], V[(head * n + j) * d + col], acc);
    O[i] = acc;
  }
}
