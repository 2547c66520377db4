/*
title = "A flash kernel for any number of rows"
idea = "a thread without a row still loads its part of the tile, and comes to each barrier."
changed = "nothing, this is an exercise."
costs = "K and V are read once for each block of 32 rows."
limits = "fp32. head_dim 32 or 64."
source = "cuCollections PR 522. acts PR 307. lucebox PR 225."
family = "dense"
conditions = [
  {must = "head_dim <= 64", message = "A thread holds 64 numbers."},
  {must = "not causal", message = "It has no causal mask."},
]

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "float32 scale"]
item = "query tile"
*/
#define TILE 32
#define MAX_DIM 64

// O = softmax(scale * Q @ K^T) @ V   [seq_len, head_dim] of each head. A thread computes one row.
extern "C" __global__ void flash(const float* Q, const float* K, const float* V, float* O, int seq_len, int head_dim,
                                 float scale) {
  __shared__ float k_tile[TILE][MAX_DIM], v_tile[TILE][MAX_DIM];
  const int row = blockIdx.x * 32 + threadIdx.x;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  const bool inside = row < seq_len;
  float acc[MAX_DIM] = {}, m = -INFINITY, l = 0.f;

  for (int start = 0; start < seq_len; start += TILE) {
    const int keys = min(TILE, seq_len - start);
    for (int i = threadIdx.x; i < keys * head_dim; i += 32) {
      k_tile[i / head_dim][i % head_dim] = K[head + start * head_dim + i];
      v_tile[i / head_dim][i % head_dim] = V[head + start * head_dim + i];
    }
    __syncthreads();  // the tile is complete
    if (inside) {
      for (int j = 0; j < keys; ++j) {
        float s = 0.f;
        for (int d = 0; d < head_dim; ++d) s = fmaf(Q[head + row * head_dim + d], k_tile[j][d], s);
        const float m_new = fmaxf(m, s * scale);
        const float alpha = expf(m - m_new), p = expf(s * scale - m_new);
        l = l * alpha + p;
        for (int d = 0; d < head_dim; ++d) acc[d] = acc[d] * alpha + p * v_tile[j][d];
        m = m_new;
      }
    }
    __syncthreads();  // the tile is free again
  }
  for (int d = 0; d < head_dim && inside; ++d) O[head + row * head_dim + d] = acc[d] / l;
}
