/*
title = "Backward, recomputed"
idea = """the forward stored LSE, one number a row, and no P. P = exp(S - LSE) comes back from Q and K \
whenever a gradient needs it. Each gradient has a launch of its own, and each sum stays in one thread."""
changed = "nothing, this is the baseline of the backward."
costs = """S is computed three times and dP twice: 8 products instead of 5."""
limits = "fp32. HEAD_DIM 32, 64 or 128."
source = """Dao et al. 2022, "FlashAttention", arXiv:2205.14135, appendix B: the backward recomputes P from the \
statistics of the softmax."""
family = "backward"
rung = 1
scratch.delta = {shape = ["batch", "num_heads", "seq_len"], axes = ["batch", "head", "query"]}
constants."WARPS, PAD" = {}  # meaning: backward_tiles.cuh

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
entry = "value_gradients"
item = "key tile"
grid = ["ceil_div(keys, 32)", "batch * kv_heads"]
block = ["32 * WARPS"]
shared_bytes = "4 * (96 * (HEAD_DIM + PAD) + 32 * 32)"
args = [
  "q", "k", "lse", "do", "dv",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]

[[launches]]
entry = "key_gradients"
item = "key tile"
grid = ["ceil_div(keys, 32)", "batch * kv_heads"]
block = ["32 * WARPS"]
shared_bytes = "4 * (128 * (HEAD_DIM + PAD) + 32 * 32)"
args = [
  "q", "k", "v", "lse", "do", "delta", "dk",
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
shared_bytes = "4 * (128 * (HEAD_DIM + PAD) + 32 * 32)"
args = [
  "q", "k", "v", "lse", "do", "delta", "dq",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]
*/
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

// dV = P^T @ dO   [keys, HEAD_DIM] of each KV head. A block computes a tile of keys in a loop over the tiles of queries
// of all query heads of its KV head. A warp adds up ROWS keys, each lane its own dims.
//   Q_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, dV_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len]
extern "C" __global__ void __launch_bounds__(THREADS, 2)
value_gradients(const float* Q_gmem, const float* K_gmem, const float* LSE_gmem, const float* dO_gmem, float* dV_gmem,
                const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float *Q_smem = smem, *dO_smem = Q_smem + TILE * STRIDE;                   // [TILE, STRIDE]
  float* K_smem = dO_smem + TILE * STRIDE;
  float* P_smem = K_smem + TILE * STRIDE;                                    // [TILE keys, TILE queries]
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS, first_col = blockIdx.x * TILE;
  const Head first_head(z, blockIdx.y * z.group());
  PROBE_BEGIN();
  PROBE_MARK(load_keys, first_col);
  load_keys(K_gmem, K_smem, z, first_head, first_col PROBE_PASS);

  float P_rmem[ROWS], dV_rmem[ROWS][DIMS] = {};
  for (int query_head = blockIdx.y * z.group(); query_head < (blockIdx.y + 1) * z.group(); ++query_head) {
    const Head head(z, query_head);
    for (int first_row = z.first_row(first_col) / TILE * TILE; first_row < z.seq_len; first_row += TILE) {
      const int tile = first_row / TILE;
      PROBE_MARK(tile_begin, tile);
      PROBE_MARK(load_tile, tile);
      load_queries(Q_gmem, dO_gmem, Q_smem, dO_smem, z, head, first_row PROBE_PASS);
      __syncthreads();

      PROBE_MARK(weights, tile);
      weights(P_rmem, Q_smem, K_smem, LSE_gmem, z, head, first_row, first_col PROBE_PASS);
      UNROLL for (int r = 0; r < ROWS; ++r) {
        PROBE_STORE(P_smem, (own + r) * TILE + lane, 4);
        sts<float>(&P_smem[(own + r) * TILE + lane], P_rmem[r]);
      }
      __syncwarp();  // a warp reads only its own rows

      PROBE_MARK(value_sums, tile);
      float dV_tile[ROWS][DIMS] = {};
      for (int i = 0; i < TILE; ++i) {
        float p[ROWS];
        UNROLL for (int r = 0; r < ROWS; ++r) {
          PROBE_LOAD(P_smem, (own + r) * TILE + i, 4);
          p[r] = lds<float>(&P_smem[(own + r) * TILE + i]);
        }
        UNROLL for (int j = 0; j < DIMS; ++j) {
          PROBE_LOAD(dO_smem, i * STRIDE + lane + 32 * j, 4);
          const float grad = lds<float>(&dO_smem[i * STRIDE + lane + 32 * j]);
          UNROLL for (int r = 0; r < ROWS; ++r) dV_tile[r][j] = fmaf(p[r], grad, dV_tile[r][j]);
        }
      }
      add_tile(dV_rmem, dV_tile);
      log_dv(dV_rmem, first_col + own, tile, z PROBE_PASS);
      __syncthreads();  // so that no warp overwrites the tiles while another still reads them
      PROBE_MARK(tile_end, tile);
    }
  }

  PROBE_MARK(write_dv, first_col);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const int col = first_col + own + r;
    UNROLL for (int j = 0; j < DIMS && col < z.keys; ++j) {
      const long long to = first_head.kv + (long long)col * z.kv_row + lane + 32 * j;
      PROBE_STORE(dV_gmem, to, 4);
      stg<float>(&dV_gmem[to], dV_rmem[r][j]);
    }
  }
}

// dK = scale * dS^T @ Q   [keys, HEAD_DIM] of each KV head, in the same way
//   Q_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem, dK_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem, DELTA_gmem  [batch, num_heads, seq_len]
extern "C" __global__ void __launch_bounds__(THREADS, 2)
key_gradients(const float* Q_gmem, const float* K_gmem, const float* V_gmem, const float* LSE_gmem,
              const float* dO_gmem, const float* DELTA_gmem, float* dK_gmem,
              const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float *Q_smem = smem, *dO_smem = Q_smem + TILE * STRIDE;                   // [TILE, STRIDE]
  float *K_smem = dO_smem + TILE * STRIDE, *V_smem = K_smem + TILE * STRIDE;
  float* dS_smem = V_smem + TILE * STRIDE;                                   // [TILE keys, TILE queries]
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS, first_col = blockIdx.x * TILE;
  const Head first_head(z, blockIdx.y * z.group());
  PROBE_BEGIN();
  PROBE_MARK(load_keys, first_col);
  load_keys(K_gmem, K_smem, z, first_head, first_col PROBE_PASS);
  load_values(V_gmem, V_smem, z, first_head, first_col PROBE_PASS);

  float P_rmem[ROWS], dS_rmem[ROWS], dK_rmem[ROWS][DIMS] = {};
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
        PROBE_STORE(dS_smem, (own + r) * TILE + lane, 4);
        sts<float>(&dS_smem[(own + r) * TILE + lane], dS_rmem[r]);
      }
      __syncwarp();  // a warp reads only its own rows

      PROBE_MARK(key_sums, tile);
      float dK_tile[ROWS][DIMS] = {};
      for (int i = 0; i < TILE; ++i) {
        float ds[ROWS];
        UNROLL for (int r = 0; r < ROWS; ++r) {
          PROBE_LOAD(dS_smem, (own + r) * TILE + i, 4);
          ds[r] = lds<float>(&dS_smem[(own + r) * TILE + i]);
        }
        UNROLL for (int j = 0; j < DIMS; ++j) {
          PROBE_LOAD(Q_smem, i * STRIDE + lane + 32 * j, 4);
          const float q = lds<float>(&Q_smem[i * STRIDE + lane + 32 * j]);
          UNROLL for (int r = 0; r < ROWS; ++r) dK_tile[r][j] = fmaf(ds[r], q, dK_tile[r][j]);
        }
      }
      add_tile(dK_rmem, dK_tile);
      log_dk(dK_rmem, first_col + own, tile, z PROBE_PASS);
      __syncthreads();  // so that no warp overwrites the tiles while another still reads them
      PROBE_MARK(tile_end, tile);
    }
  }

  PROBE_MARK(write_dk, first_col);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const int col = first_col + own + r;
    UNROLL for (int j = 0; j < DIMS && col < z.keys; ++j) {
      const long long to = first_head.kv + (long long)col * z.kv_row + lane + 32 * j;
      PROBE_STORE(dK_gmem, to, 4);
      stg<float>(&dK_gmem[to], z.scale * dK_rmem[r][j]);
    }
  }
}

// dQ = scale * dS @ K   [seq_len, HEAD_DIM] of each head. A block computes a tile of queries in a loop over the tiles
// of keys. A warp adds up ROWS queries, each lane its own dims.
//   Q_gmem, dO_gmem, dQ_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem, DELTA_gmem  [batch, num_heads, seq_len]
extern "C" __global__ void __launch_bounds__(THREADS, 2)
query_gradients(const float* Q_gmem, const float* K_gmem, const float* V_gmem, const float* LSE_gmem,
                const float* dO_gmem, const float* DELTA_gmem, float* dQ_gmem,
                const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float *Q_smem = smem, *dO_smem = Q_smem + TILE * STRIDE;                   // [TILE, STRIDE]
  float *K_smem = dO_smem + TILE * STRIDE, *V_smem = K_smem + TILE * STRIDE;
  float* dS_smem = V_smem + TILE * STRIDE;                                   // [TILE keys, TILE queries]
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS, first_row = blockIdx.x * TILE;
  const int seen = z.end_col(min(first_row + TILE, z.seq_len) - 1);
  const Head head(z, blockIdx.y);
  PROBE_BEGIN();
  PROBE_MARK(load_q, first_row);
  load_queries(Q_gmem, dO_gmem, Q_smem, dO_smem, z, head, first_row PROBE_PASS);

  float P_rmem[ROWS], dS_rmem[ROWS], dQ_rmem[ROWS][DIMS] = {};
  for (int first_col = 0; first_col < seen; first_col += TILE) {
    const int tile = first_col / TILE;
    PROBE_MARK(tile_begin, tile);
    PROBE_MARK(load_tile, tile);
    load_keys(K_gmem, K_smem, z, head, first_col PROBE_PASS);
    load_values(V_gmem, V_smem, z, head, first_col PROBE_PASS);
    __syncthreads();

    PROBE_MARK(score_gradients, tile);
    weights(P_rmem, Q_smem, K_smem, LSE_gmem, z, head, first_row, first_col PROBE_PASS);
    score_gradients(dS_rmem, P_rmem, dO_smem, V_smem, DELTA_gmem, z, head, first_row, first_col PROBE_PASS);
    UNROLL for (int r = 0; r < ROWS; ++r) {
      PROBE_STORE(dS_smem, (own + r) * TILE + lane, 4);
      sts<float>(&dS_smem[(own + r) * TILE + lane], dS_rmem[r]);
    }
    __syncthreads();  // a warp reads its queries of all keys

    PROBE_MARK(query_sums, tile);
    float dQ_tile[ROWS][DIMS] = {};
    for (int i = 0; i < TILE; ++i) {
      float ds[ROWS];
      UNROLL for (int r = 0; r < ROWS; ++r) {
        PROBE_LOAD(dS_smem, i * TILE + own + r, 4);
        ds[r] = lds<float>(&dS_smem[i * TILE + own + r]);
      }
      UNROLL for (int j = 0; j < DIMS; ++j) {
        PROBE_LOAD(K_smem, i * STRIDE + lane + 32 * j, 4);
        const float k = lds<float>(&K_smem[i * STRIDE + lane + 32 * j]);
        UNROLL for (int r = 0; r < ROWS; ++r) dQ_tile[r][j] = fmaf(ds[r], k, dQ_tile[r][j]);
      }
    }
    add_tile(dQ_rmem, dQ_tile);
    log_dq(dQ_rmem, first_row + own, tile, z PROBE_PASS);
    __syncthreads();  // so that no warp overwrites the tiles while another still reads them
    PROBE_MARK(tile_end, tile);
  }

  PROBE_MARK(write_dq, first_row);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const int row = first_row + own + r;
    UNROLL for (int j = 0; j < DIMS && row < z.seq_len; ++j) {
      const long long to = head.q + (long long)row * z.q_row + lane + 32 * j;
      PROBE_STORE(dQ_gmem, to, 4);
      stg<float>(&dQ_gmem[to], z.scale * dQ_rmem[r][j]);
    }
  }
}
