/*
title = "A block for each row"
idea = "the scores of a row are in shared memory, and its max and sum are reductions."
changed = "nothing."
costs = "K and V are read once for each query."
limits = "fp32."
source = "the tests."
family = "dense"

[[launches]]
entry = "rows"
grid = ["seq_len", "batch * num_heads"]
block = [64]
shared_bytes = "seq_len * 4"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"
*/
#define T 64

__global__ void rows(const float* q, const float* k, const float* v, float* o, int seq_len, int head_dim, int causal,
                     float scale) {
  extern __shared__ float w[];
  __shared__ float red[T];
  const int row = blockIdx.x, t = threadIdx.x;
  const size_t base = (size_t)blockIdx.y * seq_len * head_dim;
  const int keys = causal ? row + 1 : seq_len;
  float best = -INFINITY;
  for (int j = t; j < keys; j += T) {
    float part[4] = {};
    for (int d = 0; d < head_dim; ++d) part[d % 4] += q[base + row * head_dim + d] * k[base + j * head_dim + d];
    w[j] = scale * ((part[0] + part[1]) + (part[2] + part[3]));
    best = fmaxf(best, w[j]);
  }
  red[t] = best;
  __syncthreads();  // the maxima are there
  for (int half = T / 2; half > 0; half /= 2) {
    if (t < half) red[t] = fmaxf(red[t], red[t + half]);
    __syncthreads();  // a step of the max
  }
  const float m = red[0];
  __syncthreads();  // all have read the max
  float sum = 0.f;
  for (int j = t; j < keys; j += T) {
    w[j] = expf(w[j] - m);
    sum += w[j];
  }
  red[t] = sum;
  __syncthreads();  // the sums are there
  for (int half = T / 2; half > 0; half /= 2) {
    if (t < half) red[t] += red[t + half];
    __syncthreads();  // a step of the sum
  }
  const float l = red[0];
  for (int d = t; d < head_dim; d += T) {
    float acc = 0.f;
    for (int j = 0; j < keys; ++j) acc += w[j] * v[base + j * head_dim + d];
    o[base + row * head_dim + d] = acc / l;
  }
}
