/*
title = "A flash kernel for one row per thread"
idea = "a running max and sum replace the second pass over the scores."
changed = "nothing, this is an exercise."
costs = "K and V are read once for each block of 32 rows."
limits = "fp32. head_dim 32 or 64."
source = "Milakov and Gimelshein 2018, arXiv:1805.02867. Dao et al. 2022, \"FlashAttention\", arXiv:2205.14135."
family = "dense"

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"
*/
#define TILE 32
#define MAX_DIM 64

// O = softmax(scale * Q @ K^T) @ V   [seq_len, head_dim] of each head. A thread computes one row, a block 32 rows.
//   Q, K, V, O  [batch * num_heads, seq_len, head_dim]
extern "C" __global__ void flash(const float* Q, const float* K, const float* V, float* O, int seq_len, int head_dim,
                                 int causal, float scale) {
  __shared__ float k_tile[TILE][MAX_DIM], v_tile[TILE][MAX_DIM];
  const int row = blockIdx.x * TILE + threadIdx.x;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  float q[MAX_DIM], acc[MAX_DIM];
  for (int d = 0; d < head_dim; ++d) {
    q[d] = row < seq_len ? Q[head + row * head_dim + d] : 0.f;
    acc[d] = 0.f;
  }
  float m = -INFINITY, l = 0.f;

  for (int start = 0; start < seq_len; start += TILE) {
    for (int i = threadIdx.x; i < TILE * head_dim; i += TILE) {
      const int r = i / head_dim, d = i % head_dim;
      const bool inside = start + r < seq_len;
      k_tile[r][d] = inside ? K[head + (start + r) * head_dim + d] : 0.f;
      v_tile[r][d] = inside ? V[head + (start + r) * head_dim + d] : 0.f;
    }
    __syncthreads();

    for (int j = 0; j < TILE; ++j) {
      const int key = start + j;
      if (key >= seq_len || (causal && key > row)) break;
      float s = 0.f;
      for (int d = 0; d < head_dim; ++d) s = fmaf(q[d], k_tile[j][d], s);
      s *= scale;

      // The online update of m, l and acc by the score s and the value v_tile[j]
      // TODO
    }
    __syncthreads();  // so that no thread overwrites the tile while another still reads it
  }

  for (int d = 0; d < head_dim && row < seq_len; ++d) O[head + row * head_dim + d] = acc[d] / l;
}
