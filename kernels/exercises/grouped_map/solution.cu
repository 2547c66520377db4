/*
title = "Attention with grouped heads"
idea = "neighbouring query heads share a KV head."
changed = "nothing, this is an exercise."
costs = "K and V are read once for each row."
limits = "fp32. head_dim 32 or 64. The layout bhsd."
source = "ONNXim issue 33. jax-js PR 180. Ainslie et al. 2023, arXiv:2305.13245."
family = "dense"
problem = "grouped"
conditions = [
  {must = "head_dim <= 64", message = "A thread holds 64 numbers."},
  {must = "not causal", message = "It has no causal mask."},
  {must = "seq_len_kv in (0, seq_len)", message = "It has as many keys as queries."},
  {must = "dtype == 'float32'", message = "It computes in fp32."},
  {must = "layout == 'bhsd'", message = "Its heads come before its rows."},
]

[[launches]]
entry = "rows"
grid = ["ceil_div(seq_len, 32)", "num_heads", "batch"]
block = [32]
args = ["q", "k", "v", "o", "lse", "int32 seq_len", "int32 head_dim", "int32 num_heads", "int32 kv_heads",
  "float32 scale"]
item = "query tile"

[watch]
"const float m_new = " = "score[head = blockIdx.z * num_heads + h, row, col = key] = s * scale"
*/
#define MAX_DIM 64

// O = softmax(scale * Q @ K^T) @ V, and lse, the logarithm of each row's sum. A thread computes one row.
//   Q, O  [batch, num_heads, seq_len, head_dim]
//   K, V  [batch, kv_heads, seq_len, head_dim]
extern "C" __global__ void rows(const float* Q, const float* K, const float* V, float* O, float* lse, int seq_len,
                                int head_dim, int num_heads, int kv_heads, float scale) {
  const int row = blockIdx.x * 32 + threadIdx.x, h = blockIdx.y, group = num_heads / kv_heads;
  if (row >= seq_len) return;
  const int kv_head = h / group;
  const size_t query = ((size_t)(blockIdx.z * num_heads + h) * seq_len + row) * head_dim;
  const size_t keys = (size_t)(blockIdx.z * kv_heads + kv_head) * seq_len * head_dim;

  float acc[MAX_DIM] = {}, m = -INFINITY, l = 0.f;
  for (int key = 0; key < seq_len; ++key) {
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) s = fmaf(Q[query + d], K[keys + key * head_dim + d], s);
    const float m_new = fmaxf(m, s * scale);
    const float alpha = expf(m - m_new), p = expf(s * scale - m_new);
    l = l * alpha + p;
    for (int d = 0; d < head_dim; ++d) acc[d] = acc[d] * alpha + p * V[keys + key * head_dim + d];
    m = m_new;
  }
  for (int d = 0; d < head_dim; ++d) O[query + d] = acc[d] / l;
  lse[query / head_dim] = m + logf(l);
}
