/*
title = "A flash kernel that starts at the last tile"
idea = "a causal row sees no key of the last tiles, so its max is -inf there, and it subtracts 0 in place of it."
changed = "nothing, this is an exercise."
costs = "K and V are read once for each row."
limits = "fp32. head_dim 32 or 64."
source = "flashinfer PR 4401. burn PR 4697. Milakov and Gimelshein 2018, arXiv:1805.02867."
family = "dense"
conditions = [
  {must = "head_dim <= 64", message = "A thread holds 64 numbers."},
]

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[watch]
"for (int n = 0; n < tiles" = "tile"
"const float p = " = """
  score[head = blockIdx.y, row, col = key] = s[j]; m[head = blockIdx.y, row] = m_new;
  gap[head = blockIdx.y, row, col = key] = s[j] - top; p[head = blockIdx.y, row, col = key] = p"""
"m = m_new;" = "l[head = blockIdx.y, row] = l"
*/
#define TILE 8
#define MAX_DIM 64

// q . k
__device__ float dot(const float* q, const float* k, int head_dim) {
  float s = 0.f;
  for (int d = 0; d < head_dim; ++d) s = fmaf(q[d], k[d], s);
  return s;
}

// O = softmax(scale * Q @ K^T) @ V   [seq_len, head_dim] of each head. A thread computes one row, from the last keys.
extern "C" __global__ void flash(const float* Q, const float* K, const float* V, float* O, int seq_len, int head_dim,
                                 int causal, float scale) {
  const int row = blockIdx.x * 32 + threadIdx.x, tiles = (seq_len + TILE - 1) / TILE;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  if (row >= seq_len) return;
  float acc[MAX_DIM] = {}, m = -INFINITY, l = 0.f;

  for (int n = 0; n < tiles; ++n) {
    const int first = (tiles - 1 - n) * TILE, keys = min(TILE, seq_len - first);  // of the tile
    float s[TILE], m_new = m;
    for (int j = 0; j < keys; ++j) {
      const int key = first + j;
      const bool seen = !causal || key <= row;
      s[j] = seen ? scale * dot(Q + head + row * head_dim, K + head + key * head_dim, head_dim) : -INFINITY;
      m_new = fmaxf(m_new, s[j]);
    }

    const float top = m_new == -INFINITY ? 0.f : m_new;  // 0 while the row has seen no key
    const float alpha = expf(m - top);
    l *= alpha;
    for (int d = 0; d < head_dim; ++d) acc[d] *= alpha;
    for (int j = 0; j < keys; ++j) {
      const int key = first + j;
      const float p = expf(s[j] - top);
      l += p;
      for (int d = 0; d < head_dim; ++d) acc[d] = fmaf(p, V[head + key * head_dim + d], acc[d]);
    }
    m = m_new;
  }
  for (int d = 0; d < head_dim; ++d) O[head + row * head_dim + d] = acc[d] / l;
}
