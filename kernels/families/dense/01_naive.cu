/*
title = "Naive"
idea = "one thread per score. S and P are written to global memory, and everything is read from there."
changed = "nothing, this is the baseline."
costs = "K and V are read once for each query row (N times in all), and S and P take N x N floats each."
limits = "fp32. HEAD_DIM 32, 64 or 128. Global memory for 2 N^2 floats per head."
source = "Vaswani et al. 2017, \"Attention Is All You Need\", equation 1."
family = "dense"
rung = 1

[constants]  # meaning and effect: common.cuh
"BLOCK_Q, BLOCK_KV" = {default = 16, values = [8, 16, 32]}
SUBTRACT_MAX = {}

[scratch]
"s, p" = {shape = ["batch", "num_heads", "seq_len", "seq_len"], axes = ["batch", "head", "query", "key"]}

[[launches]]
entry = "scores"
grid = ["ceil_div(seq_len, BLOCK_KV)", "ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["BLOCK_KV", "BLOCK_Q"]
args = ["q", "k", "s", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
blocks_per_item = "ceil_div(seq_len, BLOCK_KV)"

[[launches]]
entry = "softmax"
grid = [1, "ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = [32, "BLOCK_Q"]
args = ["s", "p", "int32 seq_len", "int32 causal"]
item = "query tile"

[[launches]]
entry = "output"
grid = ["head_dim // BLOCK_KV", "ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["BLOCK_KV", "BLOCK_Q"]
args = ["p", "v", "o", "int32 seq_len", "int32 causal"]
item = "query tile"
blocks_per_item = "head_dim // BLOCK_KV"
*/
#include "softmax.cuh"

// S = scale * Q @ K^T   [seq_len, seq_len] of each head. A thread computes one score, a block BLOCK_Q x BLOCK_KV.
//   Q_gmem, K_gmem  [batch * num_heads, seq_len, HEAD_DIM]
//   S_gmem          [batch * num_heads, seq_len, seq_len]
extern "C" __global__ void scores(const float* Q_gmem, const float* K_gmem, float* S_gmem, int seq_len, int causal,
                                  float scale PROBE_PARAM) {
  const int row = blockIdx.y * BLOCK_Q + threadIdx.y;   // query
  const int col = blockIdx.x * BLOCK_KV + threadIdx.x;  // key
  const int tile = blockIdx.x;
  if (row >= seq_len || col >= seq_len || (causal && col > row)) return;
  PROBE_BEGIN();
  PROBE_MARK(tile_begin, tile);
  PROBE_MARK(scores, tile);
  const size_t head = (size_t)blockIdx.z * seq_len;
  const size_t q = (head + row) * HEAD_DIM, k = (head + col) * HEAD_DIM, s = (head + row) * seq_len + col;

  float dot = 0.f;
  for (int part = 0; part < HEAD_DIM; part += 32) {  // 32 dims at a time, because shorter sums round less
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int d = part; d < part + 32; d += 4) {
      PROBE_LOAD(Q_gmem, q + d, 16);
      const float4 q4 = ldg<float4>(&Q_gmem[q + d]);
      PROBE_LOAD(K_gmem, k + d, 16);
      const float4 k4 = ldg<float4>(&K_gmem[k + d]);
      sum = fma4(q4, k4, sum);
    }
    dot += add4(sum);
  }
  const float score = scale * dot;
  PROBE_VALUE(score, row, col, score);
  PROBE_STORE(S_gmem, s, 4);
  stg<float>(&S_gmem[s], score);
  PROBE_MARK(tile_end, tile);
}

// P = softmax(S), row by row   [seq_len, seq_len] of each head. A block has one warp for each of its BLOCK_Q rows.
//   S_gmem, P_gmem  [batch * num_heads, seq_len, seq_len]
extern "C" __global__ void softmax(const float* S_gmem, float* P_gmem, int seq_len, int causal PROBE_PARAM) {
  const int row = blockIdx.y * BLOCK_Q + threadIdx.y;
  if (row >= seq_len) return;
  const int keys = causal ? row + 1 : seq_len;
  const size_t s = ((size_t)blockIdx.z * seq_len + row) * seq_len;
  PROBE_BEGIN();
  softmax_row(S_gmem, P_gmem, s, row, keys PROBE_PASS);
}

// O = P @ V   [seq_len, HEAD_DIM] of each head. A thread computes one number of O, a block BLOCK_Q x BLOCK_KV.
//   P_gmem  [batch * num_heads, seq_len, seq_len]
//   V_gmem  [batch * num_heads, seq_len, HEAD_DIM]
//   O_gmem  [batch * num_heads, seq_len, HEAD_DIM]
extern "C" __global__ void output(const float* P_gmem, const float* V_gmem, float* O_gmem, int seq_len,
                                  int causal PROBE_PARAM) {
  const int row = blockIdx.y * BLOCK_Q + threadIdx.y;
  const int dim = blockIdx.x * BLOCK_KV + threadIdx.x;
  if (row >= seq_len) return;
  const int keys = causal ? row + 1 : seq_len;
  const size_t head = (size_t)blockIdx.z * seq_len;
  const size_t p = (head + row) * seq_len, v = head * HEAD_DIM + dim, o = (head + row) * HEAD_DIM + dim;
  PROBE_BEGIN();

  PROBE_MARK(output, row);
  float sum = 0.f;
  for (int col = 0; col < keys; ++col) {
    PROBE_LOAD(P_gmem, p + col, 4);
    const float p_col = ldg<float>(&P_gmem[p + col]);
    PROBE_LOAD(V_gmem, v + (size_t)col * HEAD_DIM, 4);
    sum = fmaf(p_col, ldg<float>(&V_gmem[v + (size_t)col * HEAD_DIM]), sum);
  }
  PROBE_VALUE(o, row, dim, sum);
  PROBE_STORE(O_gmem, o, 4);
  stg<float>(&O_gmem[o], sum);
}
