/*
title = "Wrong results"
idea = "each instance of one kernel has one typical mistake."
changed = "nothing."
costs = "nothing that matters."
limits = "fp32. head_dim up to 64."
source = "the tests."
family = "dense"

[[launches]]
entry = "attention<0>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<1>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<2>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<3>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<4>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<5>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<6>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<7>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<8>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<9>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<10>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<11>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<12>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<13>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<14>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<15>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<16>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[[launches]]
entry = "attention<17>"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"
*/
#define TILE 32
#define MAX_DIM 64

enum { RIGHT, SCALE, NO_RESCALE, OLD_O, OLD_L, LAST_TILE, ZEROS_COUNT, LATE_MASK, EARLY_MASK, LANE_MAP, REDUCTION, STRIDE,
       VALUES, BARRIER, TANH, M_STAYS, UNDIVIDED, UNWRITTEN, LAST };

template <int MISTAKE>
__global__ void attention(const float* Q, const float* K, const float* V, float* O, int seq_len, int head_dim,
                          int causal, float scale) {
  __shared__ float k_tile[TILE][MAX_DIM], v_tile[TILE][MAX_DIM];
  const int row = blockIdx.x * TILE + threadIdx.x;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  float m = -INFINITY, l = 0.0f;
  float q[MAX_DIM], acc[MAX_DIM];
  for (int d = 0; d < head_dim; ++d) {
    q[d] = row < seq_len ? Q[head + row * head_dim + d] : 0.0f;
    acc[d] = 0.0f;
  }
  const int end = MISTAKE == LAST_TILE ? seq_len / TILE * TILE : seq_len;
  for (int start = 0; start < end; start += TILE) {
    for (int i = threadIdx.x; i < TILE * head_dim; i += blockDim.x) {
      const int r = i / head_dim, d = i % head_dim;
      const bool inside = start + r < seq_len;
      k_tile[r][d] = inside ? K[head + (start + r) * head_dim + d] : 0.0f;
      v_tile[MISTAKE == VALUES ? (r + 1) % TILE : r][d] = inside ? V[head + (start + r) * head_dim + d] : 0.0f;
    }
    if (MISTAKE != BARRIER) __syncthreads();
    for (int j = 0; j < TILE; ++j) {
      const int col = start + j;
      if (col >= seq_len && MISTAKE != ZEROS_COUNT) break;
      if (causal && (MISTAKE == EARLY_MASK ? col >= row : MISTAKE == LATE_MASK ? col > row + 1 : col > row)) break;
      float s = 0.0f;
      for (int d = 0; d < head_dim; ++d) s = fmaf(q[d], k_tile[j][d], s);
      s *= MISTAKE == SCALE ? 1.0f : scale;
      const float m_new = MISTAKE == M_STAYS && m > -INFINITY ? m : fmaxf(m, s);
      const float alpha = expf(m - m_new);
      const float p = MISTAKE == TANH ? tanhf(s) : expf(s - m_new);
      const bool old_l = MISTAKE == NO_RESCALE || MISTAKE == OLD_L || MISTAKE == TANH;
      const bool old_o = MISTAKE == NO_RESCALE || MISTAKE == OLD_O || MISTAKE == TANH;
      if (MISTAKE != REDUCTION || j % 4 == 0) l = (old_l ? l : l * alpha) + p;
      else l *= alpha;
      for (int d = 0; d < head_dim; ++d) acc[d] = (old_o ? acc[d] : acc[d] * alpha) + p * v_tile[j][d];
      m = m_new;
    }
    __syncthreads();
  }
  if (row >= seq_len) return;
  for (int d = 0; d < head_dim; ++d) {
    const int to = MISTAKE == STRIDE ? (row + 1) % seq_len : row;
    const int column = MISTAKE == LANE_MAP && d % 32 == 3 ? d - 1 : d;
    if (MISTAKE == UNWRITTEN && d == 5) continue;
    O[head + to * head_dim + d] = MISTAKE == UNDIVIDED ? acc[column] : acc[column] / l;
  }
}
