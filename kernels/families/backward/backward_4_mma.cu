/*
title = "Backward on tensor cores"
idea = """a warp has 32 keys of a transposed tile of scores and half of its queries. So P and dS leave the first two \
products in the registers where the products for dV and dK want them. The other half comes from shared memory."""
changed_from = "backward_3_one_loop"
changed = """16 bits, and all five products are mma.sync. Tiles of Q and dO come by cp.async. Four sums of dQ are one \
atomic add, in the order of the lanes. Causal: the longest blocks first, so no long block starts late."""
costs = "all warps meet twice a tile. P and dS are rounded to 16 bits. A block needs most of its SM."
limits = "fp16 or bf16. HEAD_DIM 64 or 128. sm_80 or later."
source = """Dao 2023, "FlashAttention-2", arXiv:2307.08691. 08_pipeline's tiles."""
family = "backward"
problem = "gradients_16"
rung = 4
requires = "sm_80 for mma.m16n8k16 and cp.async"
tensor_products = 1
tuned = [{when = "head_dim == 64", BLOCK_Q = 128}]
constants."BLOCK_Q, BLOCK_KV, STAGES" = {}  # meaning: backward_mma.cuh

[scratch.stats]
shape = ["batch", "num_heads", "ceil_div(seq_len, BLOCK_Q)", "2", "BLOCK_Q"]
axes = ["batch", "head", "query_tile", "statistic", "query"]

[scratch.sums]
shape = ["batch", "num_heads", "ceil_div(seq_len, BLOCK_Q)", "BLOCK_Q * head_dim"]
axes = ["batch", "head", "query_tile", "number"]
initial = "zero"

[[conditions]]
must = "head_dim * BLOCK_Q >= 32 * BLOCK_KV"
message = "A warp needs 16 dims of dQ. Choose a smaller BLOCK_KV than {BLOCK_KV}, or a larger BLOCK_Q than {BLOCK_Q}."

[[conditions]]
must = "head_dim * BLOCK_Q <= 8192"
message = "BLOCK_Q={BLOCK_Q} takes too many registers. Choose a smaller one."

[[launches]]
entry = "statistics"
item = "query tile"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["2 * BLOCK_KV"]
args = [
  "o", "do", "lse", "stats",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]

[[launches]]
entry = "gradients"
item = "key tile"
heads = "batch * kv_heads"
grid = [
  "min(1 + causal * (batch * kv_heads - 1), ceil_div(264, ceil_div(keys, BLOCK_KV)))", "ceil_div(keys, BLOCK_KV)",
  "ceil_div(batch * kv_heads, min(1 + causal * (batch * kv_heads - 1), ceil_div(264, ceil_div(keys, BLOCK_KV))))",
]
block = ["2 * BLOCK_KV"]
shared_bytes = "4 * (BLOCK_KV + STAGES * BLOCK_Q) * head_dim + 4 * BLOCK_KV * BLOCK_Q + 8 * STAGES * BLOCK_Q"
args = [
  "q", "k", "v", "do", "stats", "dk", "dv", "sums", "int32 batch * kv_heads",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]

[[launches]]
entry = "query_gradients"
item = "query tile"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["2 * BLOCK_KV"]
args = [
  "sums", "dq",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]
*/
#include "backward_mma_products.cuh"

// LSE and delta = rowsum(dO * O)   [seq_len] of each head, tile by tile
//   O_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  STATS_gmem  [batch, num_heads, query tiles, 2, BLOCK_Q]
extern "C" __global__ void __launch_bounds__(THREADS)
statistics(const T* O_gmem, const T* dO_gmem, const float* LSE_gmem, float* STATS_gmem,
           const __grid_constant__ Sizes z PROBE_PARAM) {
  PROBE_BEGIN();
  write_statistics(O_gmem, dO_gmem, LSE_gmem, STATS_gmem, z, blockIdx.x, gridDim.x, blockIdx.y PROBE_PASS);
}

// dV = P^T @ dO, dK = scale * dS^T @ Q   [keys, HEAD_DIM] of a KV head. A warp adds up 32 keys and half of the dims.
//   Q_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  STATS_gmem  [batch, num_heads, query tiles, 2, BLOCK_Q]
//   K_gmem, V_gmem, dK_gmem, dV_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   SUMS_gmem  [batch, num_heads, query tiles, WARPS, 2, DIMS / 8, 32 lanes, 4]: dS @ K, to which all blocks add
extern "C" __global__ void __launch_bounds__(THREADS, 1)
gradients(const T* Q_gmem, const T* K_gmem, const T* V_gmem, const T* dO_gmem, const float* STATS_gmem, T* dK_gmem,
          T* dV_gmem, float* SUMS_gmem, int kv_heads, const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(T, smem);
  T *K_smem = smem, *V_smem = K_smem + KV_TILE;                      // [BLOCK_KV, HEAD_DIM]
  T *Q_smem = V_smem + KV_TILE, *dO_smem = Q_smem + STAGES * Q_TILE;  // [STAGES, BLOCK_Q, HEAD_DIM]
  T *P_smem = dO_smem + STAGES * Q_TILE, *dS_smem = P_smem + DS_TILE;  // [BLOCK_KV, BLOCK_Q]
  float* STATS_smem = reinterpret_cast<float*>(dS_smem + DS_TILE);   // [STAGES, 2, BLOCK_Q]
  const Place place(blockIdx.x, blockIdx.y, blockIdx.z, kv_heads);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_col = place.tile * BLOCK_KV;
  const int warp_key = warp % KEY_WARPS * 32, half = warp / KEY_WARPS;
  const int own_query = half * HALF_Q, other_query = HALF_Q - own_query, warp_col = first_col + warp_key;
  const int end_head = (place.kv + 1) * z.group(), end_tile = (z.seq_len + BLOCK_Q - 1) / BLOCK_Q;
  const int first_tile = z.first_row(first_col) / BLOCK_Q;
  const Head first_head(z, place.kv * z.group());
  PROBE_BEGIN();
  if (!place.exists()) return;

  Walk at{place.kv * z.group(), first_tile, first_tile, end_tile, first_head.q};
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    fetch(Q_gmem, dO_gmem, STATS_gmem, Q_smem, dO_smem, STATS_smem, z, at.after(stage, z), end_head, stage PROBE_PASS);
  }
  PROBE_MARK(load_keys, first_col);
  load_keys_and_values(K_gmem, V_gmem, K_smem, V_smem, z, first_head, first_col PROBE_PASS);

  // The start of this lane's row of the first 16 dims or queries. XOR with d or n gives dim d or query n.
  const int kv_lane = smem_index(warp_key + lane % 16, lane / 16 * 8);                          // A: keys
  const int row_lane = smem_index(own_query + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);      // B: queries
  const int sum_lane = smem_index(lane % 16, half * HALF_D + lane / 16 * 8);  // B: dims, summed over queries
  const int store_lane = ds_index(warp_key + lane / 4, own_query + 2 * (lane % 4));
  const int load_lane = ds_index(warp_key + lane % 16, other_query + lane / 16 * 8);            // A: keys

  float dK_rmem[2][HALF_D / 2] = {}, dV_rmem[2][HALF_D / 2] = {}, dQ_rmem[2][DIMS / 2];
  long long sums = 0;  // where dQ is added
  // dV += P^T @ dO and dK += dS^T @ Q   [32, HALF_D] of this warp. ldmatrix transposes 16 queries x 16 dims. Meanwhile
  // sums of dQ leave, from number `add` on.
  auto add_products = [&](const unsigned (&P)[2][4], const unsigned (&dS)[2][4], int stage, int query, int add) {
    UNROLL for (int d = 0; d < HALF_D; d += 16) {
      const int from = query * HEAD_DIM + ((stage + sum_lane) ^ d);
      unsigned Q_rmem[4], dO_rmem[4];
      PROBE_LDMATRIX(dO_smem, from, 16);
      ldmatrix_trans(dO_rmem, &dO_smem[from]);
      PROBE_LDMATRIX(Q_smem, from, 16);
      ldmatrix_trans(Q_rmem, &Q_smem[from]);
      multiply(dV_rmem, d, P, dO_rmem);  // logged: dv
      multiply(dK_rmem, d, dS, Q_rmem);  // logged: dk
      UNROLL for (int i = add + d / 16; i < DIMS / 4; i += HALF_Q * HALF_D / 256) {
        add_sums(SUMS_gmem, dQ_rmem, sums, i PROBE_PASS);
      }
    }
  };

  int step = 0;
  NO_UNROLL for (; at.query_head < end_head; ++step, at = at.after(1, z)) {
    const int tile = at.tile, first_row = tile * BLOCK_Q, stage = step % STAGES * Q_TILE;
    const Fragment fragments[2] = {{first_row + own_query, warp_col, tile, z},
                                   {first_row + own_query, warp_col + 16, tile, z}};
    PROBE_MARK(tile_begin, tile);
    cp_async_wait_group<STAGES - 2>();  // until this thread's copies of the step have landed
    __syncthreads();  // all copies have landed, and the Q, dO, P and dS of the step before are free
    fetch(Q_gmem, dO_gmem, STATS_gmem, Q_smem, dO_smem, STATS_smem, z, at.after(STAGES - 1, z), end_head,
          (step + STAGES - 1) % STAGES PROBE_PASS);  // into the stage of the step before

    // S^T = K @ Q^T   [32, HALF_Q] of this warp. ldmatrix reads 16 keys x 16 dims and 16 queries x 16 dims.
    PROBE_MARK(scores, tile);
    float S_rmem[2][HALF_Q / 2] = {};
    UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned K_rmem[2][4];
      UNROLL for (int part = 0; part < 2; ++part) {
        const int from = (kv_lane ^ d) + part * 16 * HEAD_DIM;
        PROBE_LDMATRIX(K_smem, from, 16);
        ldmatrix(K_rmem[part], &K_smem[from]);
      }
      UNROLL for (int n = 0; n < HALF_Q; n += 16) {
        const int from = n * HEAD_DIM + ((stage + row_lane) ^ d);
        unsigned Q_rmem[4];
        PROBE_LDMATRIX(Q_smem, from, 16);
        ldmatrix(Q_rmem, &Q_smem[from]);
        multiply(S_rmem, n, K_rmem, Q_rmem);  // logged: score
      }
    }
    UNROLL for (int part = 0; part < 2; ++part) {
      mask(S_rmem[part], fragments[part], first_col);
      log_scores(S_rmem[part], fragments[part] PROBE_PASS);
    }

    // dP^T = V @ dO^T   [32, HALF_Q] of this warp. Meanwhile P = exp(S - LSE), in place of S.
    PROBE_MARK(weight_gradients, tile);
    float dP_rmem[2][HALF_Q / 2] = {};
    const int stats = step % STAGES * STATS + own_query;
    UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned V_rmem[2][4];
      UNROLL for (int part = 0; part < 2; ++part) {
        const int from = (kv_lane ^ d) + part * 16 * HEAD_DIM;
        PROBE_LDMATRIX(V_smem, from, 16);
        ldmatrix(V_rmem[part], &V_smem[from]);
      }
      UNROLL for (int n = 0; n < HALF_Q; n += 16) {
        const int from = n * HEAD_DIM + ((stage + row_lane) ^ d);
        unsigned dO_rmem[4];
        PROBE_LDMATRIX(dO_smem, from, 16);
        ldmatrix(dO_rmem, &dO_smem[from]);
        multiply(dP_rmem, n, V_rmem, dO_rmem);  // logged: dp
      }
      UNROLL for (int i = d * HALF_Q / 8 / HEAD_DIM; i < (d + 16) * HALF_Q / 8 / HEAD_DIM; ++i) {
        weights(S_rmem, i, STATS_smem, stats, z.scale * LOG2_E PROBE_PASS);
      }
    }

    PROBE_MARK(score_gradients, tile);
    UNROLL for (int part = 0; part < 2; ++part) log_gradients(dP_rmem[part], fragments[part] PROBE_PASS);
    score_gradients(S_rmem, dP_rmem, STATS_smem, stats + BLOCK_Q PROBE_PASS);
    unsigned P_rmem[2][HALF_Q / 4], dS_rmem[2][HALF_Q / 4], P[2][4], dS[2][4];
    UNROLL for (int part = 0; part < 2; ++part) {
      log_weights(S_rmem[part], dP_rmem[part], fragments[part] PROBE_PASS);
      pack(P_rmem[part], S_rmem[part]);
      pack(dS_rmem[part], dP_rmem[part]);
      store_tiles(P_smem, dS_smem, store_lane + part * 16 * BLOCK_Q, P_rmem[part], dS_rmem[part] PROBE_PASS);
    }

    PROBE_MARK(key_value_sums, tile);  // of the queries of this warp
    UNROLL for (int n = 0; n < HALF_Q; n += 16) {
      take(P, P_rmem, n), take(dS, dS_rmem, n);
      add_products(P, dS, stage, own_query + n, DIMS / 4);
    }
    __syncthreads();  // P and dS are complete

    // dQ part = dS @ K   [32, DIMS] of this warp
    PROBE_MARK(query_sums, tile);
    const int warp_query = warp % QUERY_WARPS * 32, first_dim = warp / QUERY_WARPS * DIMS;
    multiply_keys(dQ_rmem, dS_smem, K_smem, warp_query, first_dim PROBE_PASS);
    log_query_part(dQ_rmem, first_row + warp_query, first_dim, place.tile, z PROBE_PASS);

    PROBE_MARK(key_value_sums, tile);  // of the queries of the other warp. Meanwhile the sums of dQ leave.
    sums = sums_index(at.query_head, tile, end_tile);
    UNROLL for (int n = 0; n < HALF_Q; n += 16) {
      load_tiles(P, dS, P_smem, dS_smem, load_lane ^ n PROBE_PASS);
      add_products(P, dS, stage, other_query + n, n * HALF_D / 256);
    }
    UNROLL for (int part = 0; part < 2; ++part) {
      log_sums(dK_rmem[part], dV_rmem[part], fragments[part], half * HALF_D PROBE_PASS);
    }
    PROBE_MARK(tile_end, tile);
  }

  PROBE_MARK(write_dk_dv, first_col);
  write_key_gradients(dK_gmem, dV_gmem, dK_rmem, dV_rmem, z, first_head, warp_col, half * HALF_D PROBE_PASS);
}

// dQ = scale * sums   [seq_len, HEAD_DIM] of each head
extern "C" __global__ void __launch_bounds__(THREADS)
query_gradients(const float* SUMS_gmem, T* dQ_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  const int first_row = blockIdx.x * BLOCK_Q;
  PROBE_BEGIN();
  PROBE_MARK(write_dq, first_row);
  write_query_gradients(SUMS_gmem, dQ_gmem, z, blockIdx.x, gridDim.x, blockIdx.y PROBE_PASS);
}
