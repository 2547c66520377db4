/*
title = "Dynamic shared memory"
idea = "one block per query row: scores in dynamic shared memory, a tree for max and sum."
changed = "nothing."
costs = "K and V are read once for each query row."
limits = "fp32. seq_len floats of shared memory."
source = "the tests."
family = "dense"

[[launches]]
entry = "attention_row"
grid = ["seq_len", "batch * num_heads"]
block = [64]
shared_bytes = "4 * (seq_len + 64)"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query row"
*/
#include <cuda_runtime.h>
#include <math_constants.h>

// The max (or sum) of a value over the block, by a tree in shared memory
__device__ float reduce(float value, float* scratch, bool is_max) {
  const int t = threadIdx.x;
  scratch[t] = value;
  __syncthreads();
  for (int half_size = blockDim.x / 2; half_size > 0; half_size >>= 1) {
    if (t < half_size) {
      const float other = scratch[t + half_size];
      scratch[t] = is_max ? fmaxf(scratch[t], other) : scratch[t] + other;
    }
    __syncthreads();
  }
  const float result = scratch[0];
  __syncthreads();
  return result;
}

__global__ void attention_row(const float* q, const float* k, const float* v, float* o, int seq_len, int head_dim,
                              int causal, float scale) {
  extern __shared__ __align__(16) float smem[];
  float* scores = smem;
  float* scratch = smem + seq_len;

  const int row = blockIdx.x;
  const float* const head_k = k + (size_t)blockIdx.y * seq_len * head_dim;
  const float* const head_v = v + (size_t)blockIdx.y * seq_len * head_dim;
  const float* const my_q = q + ((size_t)blockIdx.y * seq_len + row) * head_dim;
  const int keys = causal ? row + 1 : seq_len;

  float m = -CUDART_INF_F;
  for (int j = threadIdx.x; j < keys; j += blockDim.x) {
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) s += __ldg(my_q + d) * __ldg(&head_k[j * head_dim + d]);
    scores[j] = s * scale;
    m = fmaxf(m, scores[j]);
  }
  m = reduce(m, scratch, true);
  float l = 0.f;
  for (int j = threadIdx.x; j < keys; j += blockDim.x) {
    scores[j] = __expf(scores[j] - m);
    l += scores[j];
  }
  l = reduce(l, scratch, false);
  for (int d = threadIdx.x; d < head_dim; d += blockDim.x) {
    float sum = 0.f;
    for (int j = 0; j < keys; ++j) sum += scores[j] * head_v[j * head_dim + d];
    o[((size_t)blockIdx.y * seq_len + row) * head_dim + d] = __fdividef(sum, l);
  }
}
