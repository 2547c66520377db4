/*
title = "Backward in one loop"
idea = "each tile of P and dS serves all three gradients. Blocks add their parts of dQ by atomics."
changed_from = "backward_2_two_loops"
changed = """dQ comes from the loop of dK and dV. Atomics add its parts to sums that start at zero, and a last launch \
scales the sums."""
costs = """the blocks add in any order, so the last bits of dQ change from run to run. Each key tile adds to all rows \
of dQ."""
limits = "fp32. HEAD_DIM 32, 64 or 128."
source = """Dao 2023, "FlashAttention-2", arXiv:2307.08691, algorithm 2: the loop order and the atomic adds to dQ."""
family = "backward"
rung = 3
scratch.delta = {shape = ["batch", "num_heads", "seq_len"], axes = ["batch", "head", "query"]}
constants."WARPS, PAD" = {}  # meaning: backward_tiles.cuh

[scratch.sums]
shape = ["batch", "num_heads", "seq_len", "head_dim"]
axes = ["batch", "head", "query", "dim"]
initial = "zero"

[[launches]]
entry = "delta"
item = "query tile"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = ["32 * WARPS"]
args = [
  "o", "do", "delta",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]

[[launches]]
entry = "gradients"
item = "key tile"
grid = ["ceil_div(keys, 32)", "batch * kv_heads"]
block = ["32 * WARPS"]
shared_bytes = "4 * (128 * (HEAD_DIM + PAD) + 2 * 32 * 32)"
args = [
  "q", "k", "v", "lse", "do", "delta", "dk", "dv", "sums",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]

[[launches]]
entry = "query_gradients"
item = "query tile"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = ["32 * WARPS"]
args = [
  "sums", "dq",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]
*/
#include "add.cuh"
#include "backward_tiles.cuh"

// delta = rowsum(dO * O)   [seq_len] of each head. A block computes a tile of rows, a warp one row after another.
//   O_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  DELTA_gmem  [batch, num_heads, seq_len]
extern "C" __global__ void __launch_bounds__(THREADS)
delta(const float* O_gmem, const float* dO_gmem, float* DELTA_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  const int first_row = blockIdx.x * TILE, end = min(first_row + TILE, z.seq_len);
  PROBE_BEGIN();
  for (int row = first_row + threadIdx.x / 32; row < end; row += WARPS) {
    delta_row(O_gmem, dO_gmem, DELTA_gmem, z, Head(z, blockIdx.y), row PROBE_PASS);
  }
}

// dV = P^T @ dO and dK = scale * dS^T @ Q   [keys, HEAD_DIM] of each KV head. A block computes a tile of keys in a loop
// over the tiles of queries of all query heads of its KV head. A warp adds up ROWS keys, each lane its own dims.
//   Q_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  LSE_gmem, DELTA_gmem  [batch, num_heads, seq_len]
//   K_gmem, V_gmem, dK_gmem, dV_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   SUMS_gmem  [batch, num_heads, seq_len, HEAD_DIM]: dS @ K, to which the blocks of all keys add
extern "C" __global__ void __launch_bounds__(THREADS, 2)
gradients(const float* Q_gmem, const float* K_gmem, const float* V_gmem, const float* LSE_gmem,
          const float* dO_gmem, const float* DELTA_gmem, float* dK_gmem, float* dV_gmem, float* SUMS_gmem,
          const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float *Q_smem = smem, *dO_smem = Q_smem + TILE * STRIDE;                   // [TILE, STRIDE]
  float *K_smem = dO_smem + TILE * STRIDE, *V_smem = K_smem + TILE * STRIDE;
  float *P_smem = V_smem + TILE * STRIDE, *dS_smem = P_smem + TILE * TILE;   // [TILE keys, TILE queries]
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS, first_col = blockIdx.x * TILE;
  const Head first_head(z, blockIdx.y * z.group());
  PROBE_BEGIN();
  PROBE_MARK(load_keys, first_col);
  load_keys(K_gmem, K_smem, z, first_head, first_col PROBE_PASS);
  load_values(V_gmem, V_smem, z, first_head, first_col PROBE_PASS);

  float P_rmem[ROWS], dS_rmem[ROWS], dV_rmem[ROWS][DIMS] = {}, dK_rmem[ROWS][DIMS] = {};
  for (int query_head = blockIdx.y * z.group(); query_head < (blockIdx.y + 1) * z.group(); ++query_head) {
    const Head head(z, query_head);
    for (int first_row = z.first_row(first_col) / TILE * TILE; first_row < z.seq_len; first_row += TILE) {
      const int tile = first_row / TILE;
      PROBE_MARK(tile_begin, tile);
      PROBE_MARK(load_tile, tile);
      load_queries(Q_gmem, dO_gmem, Q_smem, dO_smem, z, head, first_row PROBE_PASS);
      __syncthreads();

      PROBE_MARK(score_gradients, tile);
      weights(P_rmem, Q_smem, K_smem, LSE_gmem, z, head, first_row, first_col PROBE_PASS);
      score_gradients(dS_rmem, P_rmem, dO_smem, V_smem, DELTA_gmem, z, head, first_row, first_col PROBE_PASS);
      UNROLL for (int r = 0; r < ROWS; ++r) {
        PROBE_STORE(P_smem, (own + r) * TILE + lane, 4);
        sts<float>(&P_smem[(own + r) * TILE + lane], P_rmem[r]);
        PROBE_STORE(dS_smem, (own + r) * TILE + lane, 4);
        sts<float>(&dS_smem[(own + r) * TILE + lane], dS_rmem[r]);
      }
      __syncthreads();  // a warp reads its queries of all keys

      PROBE_MARK(key_value_sums, tile);
      float dV_tile[ROWS][DIMS] = {}, dK_tile[ROWS][DIMS] = {};
      for (int i = 0; i < TILE; ++i) {
        float p[ROWS], ds[ROWS];
        UNROLL for (int r = 0; r < ROWS; ++r) {
          PROBE_LOAD(P_smem, (own + r) * TILE + i, 4);
          p[r] = lds<float>(&P_smem[(own + r) * TILE + i]);
          PROBE_LOAD(dS_smem, (own + r) * TILE + i, 4);
          ds[r] = lds<float>(&dS_smem[(own + r) * TILE + i]);
        }
        UNROLL for (int j = 0; j < DIMS; ++j) {
          PROBE_LOAD(dO_smem, i * STRIDE + lane + 32 * j, 4);
          const float grad = lds<float>(&dO_smem[i * STRIDE + lane + 32 * j]);
          PROBE_LOAD(Q_smem, i * STRIDE + lane + 32 * j, 4);
          const float q = lds<float>(&Q_smem[i * STRIDE + lane + 32 * j]);
          UNROLL for (int r = 0; r < ROWS; ++r) dV_tile[r][j] = fmaf(p[r], grad, dV_tile[r][j]);
          UNROLL for (int r = 0; r < ROWS; ++r) dK_tile[r][j] = fmaf(ds[r], q, dK_tile[r][j]);
        }
      }
      add_tile(dV_rmem, dV_tile);
      add_tile(dK_rmem, dK_tile);
      log_dv(dV_rmem, first_col + own, tile, z PROBE_PASS);
      log_dk(dK_rmem, first_col + own, tile, z PROBE_PASS);

      PROBE_MARK(query_sums, tile);
      float dQ_rmem[ROWS][DIMS] = {};  // of this block's keys
      for (int i = 0; i < TILE; ++i) {
        float ds[ROWS];
        UNROLL for (int r = 0; r < ROWS; ++r) {
          PROBE_LOAD(dS_smem, i * TILE + own + r, 4);
          ds[r] = lds<float>(&dS_smem[i * TILE + own + r]);
        }
        UNROLL for (int j = 0; j < DIMS; ++j) {
          PROBE_LOAD(K_smem, i * STRIDE + lane + 32 * j, 4);
          const float k = lds<float>(&K_smem[i * STRIDE + lane + 32 * j]);
          UNROLL for (int r = 0; r < ROWS; ++r) dQ_rmem[r][j] = fmaf(ds[r], k, dQ_rmem[r][j]);
        }
      }
      log_dq_part(dQ_rmem, first_row + own, blockIdx.x, z PROBE_PASS);
      UNROLL for (int r = 0; r < ROWS; ++r) {
        const int row = first_row + own + r;
        UNROLL for (int j = 0; j < DIMS && row < z.seq_len; ++j) {
          const long long to = (head.row + row) * HEAD_DIM + lane + 32 * j;
          PROBE_STORE(SUMS_gmem, to, 4);
          global_add(&SUMS_gmem[to], dQ_rmem[r][j]);
        }
      }
      __syncthreads();  // so that no warp overwrites the tiles while another still reads them
      PROBE_MARK(tile_end, tile);
    }
  }

  PROBE_MARK(write_dk_dv, first_col);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const int col = first_col + own + r;
    UNROLL for (int j = 0; j < DIMS && col < z.keys; ++j) {
      const long long to = first_head.kv + (long long)col * z.kv_row + lane + 32 * j;
      PROBE_STORE(dV_gmem, to, 4);
      stg<float>(&dV_gmem[to], dV_rmem[r][j]);
      PROBE_STORE(dK_gmem, to, 4);
      stg<float>(&dK_gmem[to], z.scale * dK_rmem[r][j]);
    }
  }
}

// dQ = scale * sums   [seq_len, HEAD_DIM] of each head
extern "C" __global__ void __launch_bounds__(THREADS, 2)
query_gradients(const float* SUMS_gmem, float* dQ_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  const int first_row = blockIdx.x * TILE;
  const Head head(z, blockIdx.y);
  PROBE_BEGIN();
  PROBE_MARK(write_dq, first_row);
  for (int i = threadIdx.x; i < TILE * HEAD_DIM; i += THREADS) {
    const int row = first_row + i / HEAD_DIM, dim = i % HEAD_DIM;
    if (row >= z.seq_len) return;
    PROBE_LOAD(SUMS_gmem, (head.row + row) * HEAD_DIM + dim, 4);
    const float dq = z.scale * ldg<float>(&SUMS_gmem[(head.row + row) * HEAD_DIM + dim]);
    PROBE_VALUE(dq, row, dim, dq);
    PROBE_STORE(dQ_gmem, head.q + (long long)row * z.q_row + dim, 4);
    stg<float>(&dQ_gmem[head.q + (long long)row * z.q_row + dim], dq);
  }
}
