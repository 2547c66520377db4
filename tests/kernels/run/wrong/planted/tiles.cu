/*
title = "Tiles"
idea = "a thread has a query row, and walks over tiles of 32 keys in shared memory."
changed = "nothing."
costs = "K and V are read once for each 32 queries."
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
#include <math.h>

#define TILE 32
#define MOST 128  // head_dim

// O = softmax(scale * Q @ K^T) @ V   [seq_len, head_dim] of each head
__global__ void attention(const float* Q, const float* K, const float* V, float* O, int seq_len, int head_dim,
                          int causal, float scale) {
  __shared__ float K_smem[TILE][MOST];  // all lanes read one element at a time: a broadcast
  __shared__ float V_smem[TILE][MOST];
  const int row = blockIdx.x * TILE + threadIdx.x;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  float q[MOST], o[MOST], s[TILE];
  for (int d = 0; d < head_dim; ++d) {
    q[d] = row < seq_len ? Q[head + row * head_dim + d] : 0.0f;
    o[d] = 0.0f;
  }

  float m = -INFINITY, l = 0.0f;  // the running max and sum of the row
  for (int first = 0; first < seq_len; first += TILE) {
    for (int i = threadIdx.x; i < TILE * head_dim; i += TILE) {
      const bool inside = first + i / head_dim < seq_len;
      K_smem[i / head_dim][i % head_dim] = inside ? K[head + first * head_dim + i] : 0.0f;
      V_smem[i / head_dim][i % head_dim] = inside ? V[head + first * head_dim + i] : 0.0f;
    }
    __syncthreads();

    // S = scale * Q @ K^T, and the new max
    float m_new = m;
    for (int c = 0; c < TILE; ++c) {
      float sum[4] = {};  // shorter sums round less
      for (int d = 0; d < head_dim; ++d) sum[d % 4] = fmaf(q[d], K_smem[c][d], sum[d % 4]);
      const bool seen = first + c < seq_len && !(causal && first + c > row);
      s[c] = seen ? scale * ((sum[0] + sum[1]) + (sum[2] + sum[3])) : -INFINITY;
      m_new = fmaxf(m_new, s[c]);
    }

    // P = exp(S - m), and l and O in the new scale
    const float rescale = m_new == -INFINITY ? 1.0f : expf(m - m_new);
    l *= rescale;
    for (int d = 0; d < head_dim; ++d) o[d] *= rescale;
    for (int c = 0; c < TILE; ++c) {
      const float p = s[c] == -INFINITY ? 0.0f : expf(s[c] - m_new);
      l += p;
      for (int d = 0; d < head_dim; ++d) o[d] = fmaf(p, V_smem[c][d], o[d]);
    }
    m = m_new;
    __syncthreads();  // so that no lane overwrites a tile that another still reads
  }
  if (row < seq_len)
    for (int d = 0; d < head_dim; ++d) O[head + row * head_dim + d] = o[d] / l;
}
