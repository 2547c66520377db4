/*
title = "Backward on tensor cores"
idea = """a warp has 16 keys of a transposed tile of scores. So P and dS leave the first two products in the registers \
where the products for dV and dK want them. Only dS goes through shared memory, for dQ."""
changed_from = "backward_3_one_loop"
changed = """16 bits, and all five products are mma.sync. The next tile of Q and dO comes during the products of this \
one (cp.async). Four sums of dQ are one atomic add, in the order of the lanes."""
costs = """all warps meet once a tile. P and dS are rounded to 16 bits. A block needs most of the shared memory and \
registers of its SM."""
limits = "fp16 or bf16. HEAD_DIM 64 or 128. sm_80 or later."
source = """Dao 2023, "FlashAttention-2", arXiv:2307.08691. 08_pipeline's tiles."""
family = "backward"
problem = "gradients_16"
rung = 4
requires = "sm_80"
tensor_products = 1
conditions = [
  {must = "head_dim * BLOCK_Q >= 32 * BLOCK_KV", message = """A warp needs 16 dims of dQ. Choose a smaller BLOCK_KV \
than {BLOCK_KV}, or a larger BLOCK_Q than {BLOCK_Q}."""},
  {must = "head_dim * BLOCK_Q <= 8192", message = "BLOCK_Q={BLOCK_Q} takes too many registers. Choose a smaller one."},
]
constants."BLOCK_Q, BLOCK_KV, STAGES" = {}  # meaning: backward_mma.cuh
scratch.stats = {axes = ["batch", "head", "query_tile", "statistic", "query"], shape = [
  "batch", "num_heads", "ceil_div(seq_len, BLOCK_Q)", "2", "BLOCK_Q"]}
scratch.sums = {axes = ["batch", "head", "query_tile", "number"], initial = "zero", shape = [
  "batch", "num_heads", "ceil_div(seq_len, BLOCK_Q)", "BLOCK_Q * head_dim"]}
launches = [{entry = "statistics", item = "query tile", block = ["2 * BLOCK_KV"], grid = [
  "ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"], args = ["o", "do", "lse", "stats", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row",
  "int32 q_head", "int32 kv_row", "int32 kv_head", "float32 scale"]}]},
  {entry = "gradients", item = "key tile", block = ["2 * BLOCK_KV"], shared_bytes = """\
  4 * (BLOCK_KV + STAGES * BLOCK_Q) * head_dim + 4 * BLOCK_KV * BLOCK_Q + 8 * STAGES * BLOCK_Q""", grid = [
  "ceil_div(keys, BLOCK_KV)", "batch * kv_heads"], args = ["q", "k", "v", "do", "stats", "dk", "dv", "sums", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row",
  "int32 q_head", "int32 kv_row", "int32 kv_head", "float32 scale"]}]},
  {entry = "query_gradients", item = "query tile", block = ["2 * BLOCK_KV"], grid = [
  "ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"], args = ["sums", "dq", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row",
  "int32 q_head", "int32 kv_row", "int32 kv_head", "float32 scale"]}]}]
*/
#include "backward_mma.cuh"

// lse and delta = rowsum(dO * O)   [seq_len] of each head, tile by tile
//   O_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  STATS_gmem  [batch, num_heads, query tiles, 2, BLOCK_Q]
extern "C" __global__ void __launch_bounds__(THREADS)
statistics(const T* O_gmem, const T* dO_gmem, const float* LSE_gmem, float* STATS_gmem,
           const __grid_constant__ Sizes z PROBE_PARAM) {
  PROBE_BEGIN();
  write_statistics(O_gmem, dO_gmem, LSE_gmem, STATS_gmem, z, blockIdx.x, gridDim.x, blockIdx.y PROBE_PASS);
}

// dV = P^T @ dO and dK = scale * dS^T @ Q   [keys, HEAD_DIM] of each KV head. A block computes a tile of keys in a loop
// over the tiles of queries of all query heads of its KV head. A warp adds up 16 keys.
//   Q_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  STATS_gmem  [batch, num_heads, query tiles, 2, BLOCK_Q]
//   K_gmem, V_gmem, dK_gmem, dV_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   SUMS_gmem  [batch, num_heads, query tiles, WARPS, 2, DIMS / 8, 32 lanes, 4]: dS @ K, to which all blocks add
extern "C" __global__ void __launch_bounds__(THREADS, 1)
gradients(const T* Q_gmem, const T* K_gmem, const T* V_gmem, const T* dO_gmem, const float* STATS_gmem, T* dK_gmem,
          T* dV_gmem, float* SUMS_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(T, smem);
  T *K_smem = smem, *V_smem = K_smem + KV_TILE;                      // [BLOCK_KV, HEAD_DIM]
  T *Q_smem = V_smem + KV_TILE, *dO_smem = Q_smem + STAGES * Q_TILE;  // [STAGES, BLOCK_Q, HEAD_DIM]
  T* dS_smem = dO_smem + STAGES * Q_TILE;                            // [2, BLOCK_KV, BLOCK_Q]
  float* STATS_smem = reinterpret_cast<float*>(dS_smem + 2 * DS_TILE);  // [STAGES, 2, BLOCK_Q]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_col = blockIdx.x * BLOCK_KV;
  const int warp_col = first_col + warp * 16, end_head = (blockIdx.y + 1) * z.group();
  const int first_tile = z.first_row(first_col) / BLOCK_Q, end_tile = (z.seq_len + BLOCK_Q - 1) / BLOCK_Q;
  PROBE_BEGIN();

  Walk at{(int)blockIdx.y * z.group(), first_tile, first_tile, end_tile};
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    fetch(Q_gmem, dO_gmem, STATS_gmem, Q_smem, dO_smem, STATS_smem, z, at.after(stage), end_head, stage PROBE_PASS);
  }
  PROBE_MARK(load_keys, first_col);
  load_keys_and_values(K_gmem, V_gmem, K_smem, V_smem, z, Head(z, at.query_head), first_col PROBE_PASS);

  // The start of this lane's row of the first 16 dims. XOR with d gives dim d.
  const int kv_lane = smem_index(warp * 16 + lane % 16, lane / 16 * 8);             // A: keys
  const int row_lane = smem_index(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);      // B: queries, summed over dims
  const int sum_lane = smem_index(lane % 16, lane / 16 * 8);                        // B: dims, summed over rows

  // dQ part = dS @ K   [32, DIMS] of this warp, of the step before. ldmatrix transposes 16 keys x 16 queries of dS.
  Walk before = at;
  auto add_query_part = [&](int buffer) {
    const int tile = before.tile, warp_row = tile * BLOCK_Q + warp % QUERY_WARPS * 32;
    const int first_dim = warp / QUERY_WARPS * DIMS;
    PROBE_MARK(query_sums, tile);
    float dQ_rmem[2][DIMS / 2] = {};
    _Pragma("unroll 4") for (int n = 0; n < BLOCK_KV; n += 16) {
      unsigned A_rmem[2][4];
      UNROLL for (int part = 0; part < 2; ++part) {
        const int query = warp % QUERY_WARPS * 32 + part * 16 + lane / 8 % 2 * 8;
        const int from = buffer * DS_TILE + ds_index(n + lane / 16 * 8 + lane % 8, query);
        PROBE_LDMATRIX(dS_smem, from, 16);
        ldmatrix_trans(A_rmem[part], &dS_smem[from]);
      }
      UNROLL for (int d = 0; d < DIMS; d += 16) {
        const int from = n * HEAD_DIM + (sum_lane ^ (first_dim + d));
        unsigned K_rmem[4];
        PROBE_LDMATRIX(K_smem, from, 16);
        ldmatrix_trans(K_rmem, &K_smem[from]);
        UNROLL for (int part = 0; part < 2; ++part) {
          mma<T>(four(dQ_rmem[part], d / 8), A_rmem[part], K_rmem[0], K_rmem[1]);
          mma<T>(four(dQ_rmem[part], d / 8 + 1), A_rmem[part], K_rmem[2], K_rmem[3]);
        }
      }
    }
    log_query_part(dQ_rmem, warp_row, first_dim, blockIdx.x, z PROBE_PASS);
    add_sums(SUMS_gmem, dQ_rmem, sums_index(before.query_head, tile, end_tile) PROBE_PASS);
  };

  float dK_rmem[HEAD_DIM / 2] = {}, dV_rmem[HEAD_DIM / 2] = {};
  int step = 0;
  NO_UNROLL for (; at.query_head < end_head; ++step, at = at.after(1)) {
    const int tile = at.tile, first_row = tile * BLOCK_Q, stage = step % STAGES * Q_TILE;
    const Fragment fragment(first_row, warp_col, tile, z);
    PROBE_MARK(tile_begin, tile);
    cp_async_wait_group<STAGES - 2>();  // until this thread's copies of the step have landed
    __syncthreads();  // all copies have landed, dS of the step before is complete, and its Q and dO are free
    fetch(Q_gmem, dO_gmem, STATS_gmem, Q_smem, dO_smem, STATS_smem, z, at.after(STAGES - 1), end_head,
          (step + STAGES - 1) % STAGES PROBE_PASS);  // into the stage of the step before
    if (step) add_query_part((step - 1) % 2);

    // S^T = K @ Q^T   [16, BLOCK_Q] of this warp. ldmatrix reads 16 keys x 16 dims and 16 queries x 16 dims.
    PROBE_MARK(scores, tile);
    float S_rmem[BLOCK_Q / 2] = {};
    UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned K_rmem[4];
      PROBE_LDMATRIX(K_smem, kv_lane ^ d, 16);
      ldmatrix(K_rmem, &K_smem[kv_lane ^ d]);
      UNROLL for (int n = 0; n < BLOCK_Q; n += 16) {
        const int from = n * HEAD_DIM + ((stage + row_lane) ^ d);
        unsigned Q_rmem[4];
        PROBE_LDMATRIX(Q_smem, from, 16);
        ldmatrix(Q_rmem, &Q_smem[from]);
        mma<T>(four(S_rmem, n / 8), K_rmem, Q_rmem[0], Q_rmem[1]);
        mma<T>(four(S_rmem, n / 8 + 1), K_rmem, Q_rmem[2], Q_rmem[3]);
      }
    }

    // dP^T = V @ dO^T   [16, BLOCK_Q] of this warp
    PROBE_MARK(weight_gradients, tile);
    float dP_rmem[BLOCK_Q / 2] = {};
    UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned V_rmem[4];
      PROBE_LDMATRIX(V_smem, kv_lane ^ d, 16);
      ldmatrix(V_rmem, &V_smem[kv_lane ^ d]);
      UNROLL for (int n = 0; n < BLOCK_Q; n += 16) {
        const int from = n * HEAD_DIM + ((stage + row_lane) ^ d);
        unsigned dO_rmem[4];
        PROBE_LDMATRIX(dO_smem, from, 16);
        ldmatrix(dO_rmem, &dO_smem[from]);
        mma<T>(four(dP_rmem, n / 8), V_rmem, dO_rmem[0], dO_rmem[1]);
        mma<T>(four(dP_rmem, n / 8 + 1), V_rmem, dO_rmem[2], dO_rmem[3]);
      }
    }
    if (first_col + BLOCK_KV > z.keys || (CAUSAL && warp_col + 15 > first_row + z.offset)) {
      UNROLL for (int i = 0; i < BLOCK_Q / 2; ++i) {
        if (!fragment.sees(i)) S_rmem[i] = -INFINITY;
      }
    }
    log_scores(S_rmem, dP_rmem, fragment PROBE_PASS);

    PROBE_MARK(score_gradients, tile);
    unsigned P_rmem[BLOCK_Q / 4], dS_rmem[BLOCK_Q / 4];
    score_gradients(S_rmem, dP_rmem, STATS_smem, step % STAGES * STATS, z.scale PROBE_PASS);
    log_weights(S_rmem, dP_rmem, fragment PROBE_PASS);
    pack(P_rmem, S_rmem);
    pack(dS_rmem, dP_rmem);
    store_ds(dS_smem, step % 2 * DS_TILE, dS_rmem PROBE_PASS);

    // dV += P^T @ dO and dK += dS^T @ Q   [16, HEAD_DIM] of this warp. ldmatrix transposes 16 queries x 16 dims.
    PROBE_MARK(key_value_sums, tile);
    UNROLL for (int n = 0; n < BLOCK_Q; n += 16) {
      UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
        const int from = n * HEAD_DIM + ((stage + sum_lane) ^ d);
        unsigned Q_rmem[4], dO_rmem[4];
        PROBE_LDMATRIX(dO_smem, from, 16);
        ldmatrix_trans(dO_rmem, &dO_smem[from]);
        PROBE_LDMATRIX(Q_smem, from, 16);
        ldmatrix_trans(Q_rmem, &Q_smem[from]);
        mma<T>(four(dV_rmem, d / 8), four(P_rmem, n / 16), dO_rmem[0], dO_rmem[1]);
        mma<T>(four(dV_rmem, d / 8 + 1), four(P_rmem, n / 16), dO_rmem[2], dO_rmem[3]);
        mma<T>(four(dK_rmem, d / 8), four(dS_rmem, n / 16), Q_rmem[0], Q_rmem[1]);
        mma<T>(four(dK_rmem, d / 8 + 1), four(dS_rmem, n / 16), Q_rmem[2], Q_rmem[3]);
      }
    }
    log_sums(dK_rmem, dV_rmem, fragment PROBE_PASS);
    before = at;
    PROBE_MARK(tile_end, tile);
  }
  __syncthreads();
  add_query_part((step - 1) % 2);

  PROBE_MARK(write_dk_dv, first_col);
  write_key_gradients(dK_gmem, dV_gmem, dK_rmem, dV_rmem, z, Head(z, blockIdx.y * z.group()), warp_col PROBE_PASS);
}

// dQ = scale * sums   [seq_len, HEAD_DIM] of each head
extern "C" __global__ void __launch_bounds__(THREADS)
query_gradients(const float* SUMS_gmem, T* dQ_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  const int first_row = blockIdx.x * BLOCK_Q;
  PROBE_BEGIN();
  PROBE_MARK(write_dq, first_row);
  write_query_gradients(SUMS_gmem, dQ_gmem, z, blockIdx.x, gridDim.x, blockIdx.y PROBE_PASS);
}
