/*
title = "A flash kernel with tiles and wide reads"
idea = "64 rows share each tile, and a thread keeps its row in registers."
changed = "nothing, this is an exercise."
costs = "more than 128 registers for each thread at head_dim 64."
limits = "fp32. head_dim 32 or 64."
source = """Dao et al. 2022, "FlashAttention", arXiv:2205.14135. Volkov 2010, "Better Performance at Lower Occupancy", \
GTC."""
family = "dense"

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, 64)", "batch * num_heads"]
block = [64]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
*/
#define ROWS 64  // of a block, a thread for each
#define TILE 32  // keys

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head. A thread computes one row.
//   Q, K, V, O  [batch * num_heads, seq_len, HEAD_DIM]
extern "C" __global__ void flash(const float* Q, const float* K, const float* V, float* O, int seq_len, int causal,
                                 float scale) {
  __shared__ float4 k_tile[TILE][HEAD_DIM / 4], v_tile[TILE][HEAD_DIM / 4];
  const int row = blockIdx.x * ROWS + threadIdx.x;
  const int keys = causal ? min(blockIdx.x * ROWS + ROWS, seq_len) : seq_len;
  const size_t head = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  float q[HEAD_DIM], acc[HEAD_DIM];
  for (int d = 0; d < HEAD_DIM; d += 4) {
    const float4 q4 = row < seq_len ? *(const float4*)(Q + head + row * HEAD_DIM + d) : float4{};
    q[d] = q4.x, q[d + 1] = q4.y, q[d + 2] = q4.z, q[d + 3] = q4.w;
    acc[d] = acc[d + 1] = acc[d + 2] = acc[d + 3] = 0.f;
  }
  float m = -INFINITY, l = 0.f;

  for (int start = 0; start < keys; start += TILE) {
    for (int i = threadIdx.x; i < TILE * HEAD_DIM / 4; i += ROWS) {
      const int r = i / (HEAD_DIM / 4), d = i % (HEAD_DIM / 4);
      const size_t at = head + (start + r) * HEAD_DIM + 4 * d;
      k_tile[r][d] = start + r < seq_len ? *(const float4*)(K + at) : float4{};
      v_tile[r][d] = start + r < seq_len ? *(const float4*)(V + at) : float4{};
    }
    __syncthreads();

    for (int j = 0; j < TILE; ++j) {
      const int key = start + j;
      if (key >= seq_len || (causal && key > row)) break;
      float s = 0.f;
      for (int d = 0; d < HEAD_DIM / 4; ++d) {
        const float4 k = k_tile[j][d];
        s = fmaf(q[4 * d + 3], k.w, fmaf(q[4 * d + 2], k.z, fmaf(q[4 * d + 1], k.y, fmaf(q[4 * d], k.x, s))));
      }
      s *= scale;
      const float m_new = fmaxf(m, s), alpha = expf(m - m_new), p = expf(s - m_new);
      l = l * alpha + p;
      for (int d = 0; d < HEAD_DIM / 4; ++d) {
        const float4 v = v_tile[j][d];
        acc[4 * d] = fmaf(p, v.x, acc[4 * d] * alpha);
        acc[4 * d + 1] = fmaf(p, v.y, acc[4 * d + 1] * alpha);
        acc[4 * d + 2] = fmaf(p, v.z, acc[4 * d + 2] * alpha);
        acc[4 * d + 3] = fmaf(p, v.w, acc[4 * d + 3] * alpha);
      }
      m = m_new;
    }
    __syncthreads();
  }

  for (int d = 0; d < HEAD_DIM && row < seq_len; d += 4)
    *(float4*)(O + head + row * HEAD_DIM + d) = make_float4(acc[d] / l, acc[d + 1] / l, acc[d + 2] / l, acc[d + 3] / l);
}
