/*
title = "A flash kernel with a key for each lane"
idea = "a lane reads its own row of the key tile. The width of a row decides the bank of each lane."
changed = "nothing, this is an exercise."
costs = "one more number for each row of the key tile."
limits = "fp32. head_dim 32 or 64."
source = "CUDA C++ Best Practices Guide, section \"Shared Memory and Memory Banks\"."
family = "dense"

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, 4)", "batch * num_heads"]
block = [32, 4]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"
*/
#define ROWS 4  // of a block, a warp for each
#define TILE 32
#define MAX_DIM 64

// O = softmax(scale * Q @ K^T) @ V   [seq_len, head_dim] of each head. A warp computes one row. A lane has one key of
// each tile, and one or two columns of O.
//   Q, K, V, O  [batch * num_heads, seq_len, head_dim]
extern "C" __global__ void flash(const float* Q, const float* K, const float* V, float* O, int seq_len, int head_dim,
                                 int causal, float scale) {
  __shared__ float q_rows[ROWS][MAX_DIM];
  __shared__ float k_tile[TILE][MAX_DIM + 1], v_tile[TILE][MAX_DIM];
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  const int row = blockIdx.x * ROWS + warp;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  for (int d = lane; d < head_dim; d += 32) q_rows[warp][d] = row < seq_len ? Q[head + row * head_dim + d] : 0.f;
  float m = -INFINITY, l = 0.f, acc[MAX_DIM / 32] = {};

  for (int start = 0; start < seq_len; start += TILE) {
    for (int i = thread; i < TILE * head_dim; i += 32 * ROWS) {
      const int r = i / head_dim, d = i % head_dim;
      const bool inside = start + r < seq_len;
      k_tile[r][d] = inside ? K[head + (start + r) * head_dim + d] : 0.f;
      v_tile[r][d] = inside ? V[head + (start + r) * head_dim + d] : 0.f;
    }
    __syncthreads();

    // S of the lane's own key
    const int key = start + lane;
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) s = fmaf(q_rows[warp][d], k_tile[lane][d], s);
    s = key < seq_len && !(causal && key > row) ? s * scale : -INFINITY;

    float m_new = s;
    for (int step = 16; step > 0; step /= 2) m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, step));
    m_new = fmaxf(m, m_new);
    const float alpha = expf(m - m_new), p = expf(s - m_new);
    float sum = p;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    l = l * alpha + sum;
    m = m_new;

    for (int c = 0; c < head_dim / 32; ++c) acc[c] *= alpha;
    for (int j = 0; j < TILE; ++j) {
      const float weight = __shfl_sync(0xffffffff, p, j);
      for (int c = 0; c < head_dim / 32; ++c) acc[c] = fmaf(weight, v_tile[j][c * 32 + lane], acc[c]);
    }
    __syncthreads();  // so that no thread overwrites the tile while another still reads it
  }

  for (int c = 0; c < head_dim / 32 && row < seq_len; ++c) O[head + row * head_dim + c * 32 + lane] = acc[c] / l;
}
