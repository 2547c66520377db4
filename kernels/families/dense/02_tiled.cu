/*
title = "Tiled"
idea = "a block copies tiles of Q, K, V and P into shared memory once, and all its threads read them there."
changed_from = "01_naive"
changed = "scores and output go through shared tiles. The softmax pass stays the same."
costs = "K and V are still read once for each query tile. S and P still take N x N floats each, out and back."
limits = "fp32. HEAD_DIM 32, 64 or 128. BLOCK_Q x BLOCK_KV threads per block, at most 1024."
source = "Kirk and Hwu, \"Programming Massively Parallel Processors\", chapter on tiling for memory locality."
family = "dense"
rung = 2
scratch."s, p" = {shape = ["batch", "num_heads", "seq_len", "seq_len"], axes = ["batch", "head", "query", "key"]}

[constants]  # meaning and effect: common.cuh
"BLOCK_Q, BLOCK_KV" = {default = 16, values = [8, 16, 32]}
"PAD_K, SUBTRACT_MAX" = {}

[[launches]]
entry = "scores"
grid = ["ceil_div(seq_len, BLOCK_KV)", "ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["BLOCK_KV", "BLOCK_Q"]
shared_bytes = "4 * (BLOCK_Q * HEAD_DIM + BLOCK_KV * (HEAD_DIM + PAD_K))"
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
grid = [1, "ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["BLOCK_KV", "BLOCK_Q"]
shared_bytes = "4 * (BLOCK_KV * HEAD_DIM + BLOCK_Q * BLOCK_KV)"
args = ["p", "v", "o", "int32 seq_len", "int32 causal"]
item = "query tile"
*/
#include "softmax.cuh"
#define THREADS (BLOCK_Q * BLOCK_KV)

// S = scale * Q @ K^T   [seq_len, seq_len] of each head. A thread computes one score, a block BLOCK_Q x BLOCK_KV.
//   Q_gmem, K_gmem  [batch * num_heads, seq_len, HEAD_DIM]
//   S_gmem          [batch * num_heads, seq_len, seq_len]
extern "C" __global__ void __launch_bounds__(THREADS)
scores(const float* Q_gmem, const float* K_gmem, float* S_gmem, int seq_len, int causal, float scale PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                         // [BLOCK_Q, HEAD_DIM]
  float* K_smem = Q_smem + BLOCK_Q * HEAD_DIM;  // [BLOCK_KV, HEAD_DIM + PAD_K]
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * BLOCK_KV + tx;
  const int tile = blockIdx.x, first_row = blockIdx.y * BLOCK_Q, first_col = tile * BLOCK_KV;
  const int row = first_row + ty, col = first_col + tx;
  if (causal && first_col >= first_row + BLOCK_Q) return;  // no key of the tile is visible
  const size_t head = (size_t)blockIdx.z * seq_len;
  PROBE_BEGIN();
  PROBE_MARK(tile_begin, tile);

  PROBE_MARK(load_tile, tile);
  for (int i = thread * 4; i < BLOCK_Q * HEAD_DIM; i += THREADS * 4) {
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_row + i / HEAD_DIM < seq_len) {
      PROBE_LOAD(Q_gmem, (head + first_row) * HEAD_DIM + i, 16);
      q4 = ldg<float4>(&Q_gmem[(head + first_row) * HEAD_DIM + i]);
    }
    PROBE_STORE(Q_smem, i, 16);
    sts<float4>(&Q_smem[i], q4);
  }
  for (int i = thread * 4; i < BLOCK_KV * HEAD_DIM; i += THREADS * 4) {
    float4 k4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_col + i / HEAD_DIM < seq_len) {
      PROBE_LOAD(K_gmem, (head + first_col) * HEAD_DIM + i, 16);
      k4 = ldg<float4>(&K_gmem[(head + first_col) * HEAD_DIM + i]);
    }
    PROBE_STORE(K_smem, i + i / HEAD_DIM * PAD_K, 16);
    sts<float4>(&K_smem[i + i / HEAD_DIM * PAD_K], k4);
  }
  __syncthreads();

  PROBE_MARK(scores, tile);
  float dot = 0.f;
  for (int part = 0; part < HEAD_DIM; part += 32) {  // 32 dims at a time, because shorter sums round less
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int d = part; d < part + 32; d += 4) {
      PROBE_LOAD(Q_smem, ty * HEAD_DIM + d, 16);
      const float4 q4 = lds<float4>(&Q_smem[ty * HEAD_DIM + d]);
      PROBE_LOAD(K_smem, tx * (HEAD_DIM + PAD_K) + d, 16);
      const float4 k4 = lds<float4>(&K_smem[tx * (HEAD_DIM + PAD_K) + d]);
      sum = fma4(q4, k4, sum);
    }
    dot += add4(sum);
  }
  const float score = scale * dot;
  if (row < seq_len && col < seq_len && !(causal && col > row)) {
    PROBE_VALUE(score, row, col, score);
    PROBE_STORE(S_gmem, (head + row) * seq_len + col, 4);
    stg<float>(&S_gmem[(head + row) * seq_len + col], score);
  }
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

// O = P @ V   [seq_len, HEAD_DIM] of each head. A block computes BLOCK_Q rows in a loop over tiles of BLOCK_KV keys.
//   P_gmem  [batch * num_heads, seq_len, seq_len]
//   V_gmem  [batch * num_heads, seq_len, HEAD_DIM]
//   O_gmem  [batch * num_heads, seq_len, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(THREADS)
output(const float* P_gmem, const float* V_gmem, float* O_gmem, int seq_len, int causal PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float* V_smem = smem;                          // [BLOCK_KV, HEAD_DIM]
  float* P_smem = V_smem + BLOCK_KV * HEAD_DIM;  // [BLOCK_Q, BLOCK_KV]
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * BLOCK_KV + tx;
  const int first_row = blockIdx.y * BLOCK_Q, row = first_row + ty;
  const int row_keys = row < seq_len ? (causal ? row + 1 : seq_len) : 0;
  const int keys = causal ? min(first_row + BLOCK_Q, seq_len) : seq_len;
  const size_t head = (size_t)blockIdx.z * seq_len;
  PROBE_BEGIN();

  float O_rmem[HEAD_DIM / BLOCK_KV] = {};  // the dims of its row that this thread sums: tx, tx + BLOCK_KV, ...
  for (int tile = 0; tile * BLOCK_KV < keys; ++tile) {
    PROBE_MARK(tile_begin, tile);
    PROBE_MARK(load_tile, tile);
    const int first_col = tile * BLOCK_KV;
    for (int i = thread * 4; i < BLOCK_KV * HEAD_DIM; i += THREADS * 4) {
      float4 v4 = make_float4(0.f, 0.f, 0.f, 0.f);
      if (first_col + i / HEAD_DIM < seq_len) {
        PROBE_LOAD(V_gmem, (head + first_col) * HEAD_DIM + i, 16);
        v4 = ldg<float4>(&V_gmem[(head + first_col) * HEAD_DIM + i]);
      }
      PROBE_STORE(V_smem, i, 16);
      sts<float4>(&V_smem[i], v4);
    }
    float p = 0.f;
    if (first_col + tx < row_keys) {
      PROBE_LOAD(P_gmem, (head + row) * seq_len + first_col + tx, 4);
      p = ldg<float>(&P_gmem[(head + row) * seq_len + first_col + tx]);
    }
    PROBE_STORE(P_smem, thread, 4);
    sts<float>(&P_smem[thread], p);
    __syncthreads();

    PROBE_MARK(output, tile);
    for (int c = 0; c < BLOCK_KV; ++c) {
      PROBE_LOAD(P_smem, ty * BLOCK_KV + c, 4);
      const float p_col = lds<float>(&P_smem[ty * BLOCK_KV + c]);
      for (int j = 0; j < HEAD_DIM / BLOCK_KV; ++j) {
        PROBE_LOAD(V_smem, c * HEAD_DIM + j * BLOCK_KV + tx, 4);
        O_rmem[j] = fmaf(p_col, lds<float>(&V_smem[c * HEAD_DIM + j * BLOCK_KV + tx]), O_rmem[j]);
      }
    }
    for (int j = 0, dim = tx; j < HEAD_DIM / BLOCK_KV; ++j, dim += BLOCK_KV) {
      if (row < seq_len) PROBE_VALUE(o, row, tile, dim, O_rmem[j]);
    }
    __syncthreads();  // so that no thread overwrites the tiles while another still reads them
    PROBE_MARK(tile_end, tile);
  }

  PROBE_MARK(write, row);
  for (int j = 0, dim = tx; j < HEAD_DIM / BLOCK_KV && row < seq_len; ++j, dim += BLOCK_KV) {
    PROBE_STORE(O_gmem, (head + row) * HEAD_DIM + dim, 4);
    stg<float>(&O_gmem[(head + row) * HEAD_DIM + dim], O_rmem[j]);
  }
}
