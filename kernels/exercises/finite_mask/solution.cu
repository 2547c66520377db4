/*
title = "A row of attention with a mask"
idea = "a masked score is -inf, so that no seen score is lower."
changed = "nothing, this is an exercise."
costs = "K and V are read once for each row."
limits = "fp32. At most 256 keys."
source = "lattice issue 361. TransformerLens issue 318. flashinfer PR 4401."
family = "dense"
conditions = [
  {must = "seq_len <= 256", message = "S holds 256 keys."},
]

[[launches]]
entry = "rows"
grid = ["seq_len", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query row"

[watch]
"S[key] = masked" = "score[head = blockIdx.y, row, col = key] = S[key]"
"const float p = " = "m[head = blockIdx.y, row] = m; p[head = blockIdx.y, row, col = key] = p"
*/
#define MOST 256  // keys

// O = softmax(scale * Q @ K^T) @ V   [seq_len, head_dim] of each head. A warp computes one row.
extern "C" __global__ void rows(const float* Q, const float* K, const float* V, float* O, int seq_len, int head_dim,
                                int causal, float scale) {
  __shared__ float S[MOST];
  const int row = blockIdx.x, lane = threadIdx.x;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;

  // S = scale * q . k, or the mask   [seq_len]
  float m = -INFINITY;
  for (int key = lane; key < seq_len; key += 32) {
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) s = fmaf(Q[head + row * head_dim + d], K[head + key * head_dim + d], s);
    const bool masked = causal && key > row;
    S[key] = masked ? -INFINITY : s * scale;
    m = fmaxf(m, S[key]);
  }
  for (int step = 16; step > 0; step /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, step));
  __syncthreads();

  // O = exp(S - m) @ V / l. A lane computes some columns.
  for (int d = lane; d < head_dim; d += 32) {
    float l = 0.f, o = 0.f;
    for (int key = 0; key < seq_len; ++key) {
      const float p = expf(S[key] - m);
      l += p;
      o = fmaf(p, V[head + key * head_dim + d], o);
    }
    O[head + row * head_dim + d] = o / l;
  }
}
