/*
title = "Two launches"
idea = "the scores go to global memory in one launch, softmax and the product with V in a second."
changed = "nothing."
costs = "S is written and read once."
limits = "fp32."
source = "the tests."
family = "dense"

[scratch.s]
shape = ["batch", "num_heads", "seq_len", "seq_len"]
axes = ["batch", "head", "query", "key"]

[[launches]]
entry = "scores"
grid = ["ceil_div(seq_len, 16)", "ceil_div(seq_len, 16)", "batch * num_heads"]
block = [16, 16]
args = ["q", "k", "s", "int32 seq_len", "int32 head_dim", "float32 scale"]

[[launches]]
entry = "softmax_times_v"
grid = ["seq_len", "batch * num_heads"]
block = ["head_dim"]
args = ["s", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal"]
item = "query row"
*/
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

constexpr int T = 16;

// S = scale * Q K^T
__global__ void scores(const float *Q, const float *K, float *S, int seq_len, int head_dim, float scale) {
  __shared__ float q[T][T + 1], k[T][T + 1];
  const int col = blockIdx.x * T + threadIdx.x, row = blockIdx.y * T + threadIdx.y;
  const float *q_head = Q + (size_t)blockIdx.z * seq_len * head_dim;
  const float *k_head = K + (size_t)blockIdx.z * seq_len * head_dim;
  float sum = 0;
  for (int d0 = 0; d0 < head_dim; d0 += T) {
    const int k_row = blockIdx.x * T + threadIdx.y;
    q[threadIdx.y][threadIdx.x] = row < seq_len ? q_head[row * head_dim + d0 + threadIdx.x] : 0.f;
    k[threadIdx.y][threadIdx.x] = k_row < seq_len ? k_head[k_row * head_dim + d0 + threadIdx.x] : 0.f;
    __syncthreads();
    for (int d = 0; d < T; d++) sum += q[threadIdx.y][d] * k[threadIdx.x][d];
    __syncthreads();
  }
  if (row < seq_len && col < seq_len) S[((size_t)blockIdx.z * seq_len + row) * seq_len + col] = sum * scale;
}

// A thread computes one dim of a row.
__global__ void softmax_times_v(const float *S, const float *V, float *O, int seq_len, int head_dim, int causal) {
  const int row = blockIdx.x, d = threadIdx.x;
  const float *s = S + ((size_t)blockIdx.y * seq_len + row) * seq_len;
  const float *v = V + (size_t)blockIdx.y * seq_len * head_dim;
  const int keys = causal ? row + 1 : seq_len;
  float m = -INFINITY, l = 0, acc = 0;
  for (int j = 0; j < keys; j++) m = max(m, s[j]);
  for (int j = 0; j < keys; j++) {
    const float p = exp(s[j] - m);
    l += p;
    acc += p * v[j * head_dim + d];
  }
  O[((size_t)blockIdx.y * seq_len + row) * head_dim + d] = acc / l;
}

void attention(const float *q, const float *k, const float *v, float *s, float *o, int heads, int n, int d) {
  scores<<<dim3((n + T - 1) / T, (n + T - 1) / T, heads), dim3(T, T)>>>(q, k, s, n, d, 1.f / sqrtf(d));
  softmax_times_v<<<dim3(n, heads), d>>>(s, v, o, n, d, 0);
  cudaDeviceSynchronize();
}
