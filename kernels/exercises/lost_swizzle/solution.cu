/*
title = "Scores from a swizzled tile"
idea = "the write and each read of a tile exchange the words of a row by the same XOR."
changed = "nothing, this is an exercise."
costs = "K is read once for each row."
limits = "fp32. head_dim is a multiple of 32, at most 64."
source = "tilelang issue 2714. MatmulTutorial issue 14. NVIDIA Fuser issue 170."
family = "dense"
conditions = [
  {must = "head_dim <= 64", message = "The tile has 64 columns."},
  {must = "not causal", message = "It has no causal mask."},
]

[[launches]]
entry = "rows"
grid = ["seq_len", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "float32 scale"]
item = "query row"

[watch]
"s *= scale;" = "score[head = blockIdx.y, row, col = start + lane] = s"
*/
#define TILE 32
#define MAX_DIM 64

// O = softmax(scale * Q @ K^T) @ V   [seq_len, head_dim] of each head. A warp computes one row, a lane one key.
extern "C" __global__ void rows(const float* Q, const float* K, const float* V, float* O, int seq_len, int head_dim,
                                float scale) {
  __shared__ float k_tile[TILE][MAX_DIM];
  const int row = blockIdx.x, lane = threadIdx.x;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  float acc[MAX_DIM / 32] = {}, m = -INFINITY, l = 0.f;

  for (int start = 0; start < seq_len; start += TILE) {
    const int keys = min(TILE, seq_len - start);
    for (int r = 0; r < keys; ++r)
      for (int d = lane; d < head_dim; d += 32) k_tile[r][d ^ r] = K[head + (start + r) * head_dim + d];
    __syncthreads();

    float s = -INFINITY;
    if (lane < keys) {
      s = 0.f;
      for (int d = 0; d < head_dim; ++d) s = fmaf(Q[head + row * head_dim + d], k_tile[lane][d ^ lane], s);
      s *= scale;
    }
    float top = s;
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
    const float m_new = fmaxf(m, top);
    const float alpha = expf(m - m_new), weight = expf(s - m_new);
    l *= alpha;
    for (int c = 0; c < head_dim / 32; ++c) acc[c] *= alpha;
    for (int j = 0; j < keys; ++j) {
      const float p = __shfl_sync(0xffffffff, weight, j);
      l += p;
      for (int c = 0; c < head_dim / 32; ++c) acc[c] += p * V[head + (start + j) * head_dim + c * 32 + lane];
    }
    m = m_new;
    __syncthreads();
  }
  for (int c = 0; c < head_dim / 32; ++c) O[head + row * head_dim + c * 32 + lane] = acc[c] / l;
}
