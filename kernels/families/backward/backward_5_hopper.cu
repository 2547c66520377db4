/*
title = "Backward on Hopper"
idea = """one thread requests tiles by TMA, and two warpgroups multiply by wgmma, with P and dS from their registers. \
Bulk copies add whole tiles of dQ in the L2 cache."""
changed_from = "backward_4_mma"
changed = """a producer and consumers in place of equal warps, wgmma in place of mma.sync. The sums of S start at \
-LSE / scale and those of dP at -delta, so nothing is subtracted. Causal: from the last query tile back."""
costs = "every product waits for the one before. A tile of dQ passes through shared memory before it is added."
limits = "fp16 or bf16. HEAD_DIM 64 or 128. Only sm_90a. One block per SM. dQ differs from run to run."
source = "Shah et al. 2024, FlashAttention-3, arXiv:2407.08608. PTX ISA 8.1: wgmma, stmatrix, cp.reduce.async.bulk."
family = "backward"
problem = "gradients_16"
rung = 5
requires = "sm_90a for wgmma and setmaxnreg"
tensor_products = 1
tuned = [{when = "head_dim == 128", BLOCK_Q = 64}]
constants."BLOCK_Q, BLOCK_KV, STAGES" = {}  # meaning: gradient_tiles.cuh

[scratch.starts]
shape = ["batch * num_heads", "ceil_div(seq_len, BLOCK_Q)", 2, "2 * BLOCK_Q"]
axes = ["head", "query_tile", "sum", "start"]

[scratch.dq_sums]
shape = ["batch", "num_heads", "ceil_div(seq_len, BLOCK_Q)", "BLOCK_Q * head_dim"]
axes = ["batch", "head", "query_tile", "number"]
initial = "zero"

[[conditions]]
must = "BLOCK_Q * head_dim == 8192"
message = "dQ needs BLOCK_Q={8192 // head_dim}, not {BLOCK_Q}."

[[launches]]
entry = "prepare"
item = "query rows"
grid = ["ceil_div(seq_len, BLOCK_Q) * BLOCK_Q // 64", "batch * num_heads"]
block = [256]
args = [
  "o", "do", "lse", "starts",
  {struct = ["int32 num_heads", "int32 seq_len", "int32 q_row", "int32 q_head", "float32 scale"]},
]

[[launches]]
entry = "gradients"
item = "key tile"
heads = "batch * kv_heads"
grid = [
  "min(1 + causal * (batch * kv_heads - 1), ceil_div(264, ceil_div(keys, BLOCK_KV)))", "ceil_div(keys, BLOCK_KV)",
  "ceil_div(batch * kv_heads, min(1 + causal * (batch * kv_heads - 1), ceil_div(264, ceil_div(keys, BLOCK_KV))))",
]
block = ["2 * BLOCK_KV + 128"]
shared_bytes = "4 * BLOCK_KV * head_dim + STAGES * (32792 + 16 * BLOCK_Q) + 2 * BLOCK_Q * BLOCK_KV + 32808"
args = [
  {map = "q", box = {batch = 1, head = 1, query = "BLOCK_Q", dim = 64}, swizzle = 128},
  {map = "k", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  {map = "v", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  {map = "do", box = {batch = 1, head = 1, query = "BLOCK_Q", dim = 64}, swizzle = 128},
  {map = "starts", box = {head = 1, query_tile = 1, sum = 1, start = "2 * BLOCK_Q"}},
  "dq_sums", "dk", "dv", "int32 batch * kv_heads",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]

[[launches]]
entry = "finish"
item = "query rows"
grid = ["ceil_div(seq_len, 64)", "batch * num_heads"]
block = [128]
args = [
  "dq_sums", "dq",
  {struct = ["int32 num_heads", "int32 seq_len", "int32 q_row", "int32 q_head", "float32 scale"]},
]
*/
#include "gradient_rows.cuh"

extern "C" __global__ void __launch_bounds__(256)
prepare(const T* O_gmem, const T* dO_gmem, const float* LSE_gmem, float* starts_gmem,
        const __grid_constant__ Rows z PROBE_PARAM) {
  PROBE_BEGIN();
  prepare_rows(O_gmem, dO_gmem, LSE_gmem, starts_gmem, z PROBE_PASS);
}

// dK and dV of BLOCK_KV keys of a KV head, and their part of dQ.
//   Q_map, dO_map  [batch, num_heads, seq_len, HEAD_DIM]
//   K_map, V_map, dK_gmem, dV_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   starts_map     [batch * num_heads, query_tiles, 2, STARTS];  dQ_sums_gmem  [batch, num_heads, query_tiles, Q_TILE]
extern "C" __global__ void __launch_bounds__(THREADS, 1)
gradients(const __grid_constant__ TensorMap Q_map, const __grid_constant__ TensorMap K_map,
          const __grid_constant__ TensorMap V_map, const __grid_constant__ TensorMap dO_map,
          const __grid_constant__ TensorMap starts_map, float* dQ_sums_gmem, T* dK_gmem, T* dV_gmem,
          int kv_heads, const __grid_constant__ Sizes z PROBE_PARAM) {
  SWIZZLED_SMEM(T, smem);
  const Tiles tiles(smem, 1, Q_TILE);
  const int warpgroup = warp_uniform(threadIdx.x / 128);
  const Place place(blockIdx.x, blockIdx.y, blockIdx.z, kv_heads);
  PROBE_BEGIN();
  if (!place.exists()) return;
  const Work work(place, z);
  tiles.init_barriers(0, false);

  if (warpgroup == 0) {
    give_registers<24>();
    if (threadIdx.x > 0) return;
    PROBE_ROLE(producer);
    produce(tiles, Q_map, K_map, V_map, dO_map, starts_map, work, z PROBE_PASS);
    return;
  }

  take_registers<240>();
  PROBE_ROLE(consumer);
  const int group = warpgroup - 1, warp_row = threadIdx.x / 32 * 16 - 64;  // of its keys in the block
  const bool leads = threadIdx.x % 128 == 0, adds = threadIdx.x == 128;
#ifdef PROBED
  T *const K_smem = tiles.K, *const Q_smem = tiles.Q, *const dO_smem = tiles.dO;  // only probes name them
#endif
  const ConsumerOperands of(tiles, group);
  float dK_rmem[HEAD_DIM / 2], dV_rmem[HEAD_DIM / 2], S_rmem[BLOCK_Q / 2], dP_rmem[BLOCK_Q / 2], dQ_rmem[32];
  unsigned P_rmem[BLOCK_Q / 4], dS_rmem[BLOCK_Q / 4];
  Step step(work, z);
  Turn<STAGES> turn;
  barrier_wait(tiles.K_full, 0), barrier_wait(tiles.V_full, 0);
  NO_UNROLL for (int n = 0; n < work.steps; ++n, turn.next(), step.next(work, z)) {
    const int tile = step.tile, stage = turn.stage, from = stage * Q_TILE;
    const Fragment at(work.first_key + warp_row, tile, z);
    PROBE_MARK(tile_begin, tile);

    // S^T = K @ Q^T - LSE / scale   [64, BLOCK_Q] of this warpgroup
    PROBE_MARK(scores, tile);
    barrier_wait(&tiles.Q_full[stage], turn.parity);
    take_starts(S_rmem, &tiles.S_starts[stage * STARTS] PROBE_PASS);
    if (leads) PROBE_PRODUCT(Q_smem, from, BLOCK_Q * HEAD_DIM * 2, tile);
    start_scores(S_rmem, of.K_rows, operand_at(of.Q_rows, from * 2));
    product_wait<0>();
    settle(S_rmem);
    // dP^T = V @ dO^T - delta   [64, BLOCK_Q]
    PROBE_MARK(weight_gradients, tile);
    barrier_wait(&tiles.dO_full[stage], turn.parity);
    take_starts(dP_rmem, &tiles.dP_starts[stage * STARTS] PROBE_PASS);
    if (leads) PROBE_PRODUCT(dO_smem, from, BLOCK_Q * HEAD_DIM * 2, tile);
    start_scores(dP_rmem, of.V_rows, operand_at(of.dO_rows, from * 2));
    product_wait<0>();
    settle(dP_rmem);

    PROBE_MARK(weights, tile);
    if (has_hidden(work, tile, z)) hide(S_rmem, at);
    weights(P_rmem, S_rmem, z.scale * LOG2_E);
    log_weights(S_rmem, at PROBE_PASS);
    PROBE_MARK(score_gradients, tile);
    score_gradients(dS_rmem, S_rmem, dP_rmem);
    log_score_gradients(dS_rmem, at PROBE_PASS);
    store_score_gradients(tiles.dS, warp_row, dS_rmem);
    fence_shared();
    if (adds) bulk_add_wait();
    named_sync(1, CONSUMERS);  // dS has come from all keys, and the sums of the tile before have left

    // dV += P^T @ dO   [64, HEAD_DIM], dK += dS^T @ Q   [64, HEAD_DIM]
    PROBE_MARK(value_sums, tile);
    if (leads) PROBE_PRODUCT(dO_smem, from, BLOCK_Q * HEAD_DIM * 2, tile);
    start_gradient(dV_rmem, P_rmem, operand_at(of.dO_columns, from * 2), n > 0);
    PROBE_MARK(key_sums, tile);
    if (leads) PROBE_PRODUCT(Q_smem, from, BLOCK_Q * HEAD_DIM * 2, tile);
    start_gradient(dK_rmem, dS_rmem, operand_at(of.Q_columns, from * 2), n > 0);
    product_wait<0>();
    settle(dV_rmem), settle(dK_rmem), settle(P_rmem), settle(dS_rmem);
    arrive(&tiles.stage_free[stage]);
    // dQ = dS @ K   [64, 64]
    PROBE_MARK(query_sums, tile);
    if (leads) PROBE_PRODUCT(K_smem, of.K_from, BLOCK_KV * 128, tile);
    start_queries(dQ_rmem, of.dS, of.K_columns);
    product_wait<0>();
    settle(dQ_rmem);
    log_query_part(dQ_rmem, group, tile, work.first_key, z PROBE_PASS);
    PROBE_MARK(add, tile);
    store_sums(tiles.sums, group, dQ_rmem PROBE_PASS);
    fence_shared();
    named_sync(2, CONSUMERS);  // the tile of dQ is complete, and all keys of dS have been read
    if (adds) bulk_add(&dQ_sums_gmem[tile_of(step.head, tile, z) * Q_TILE], tiles.sums, Q_TILE * 4);
    PROBE_MARK(tile_end, tile);
  }
  if (adds) bulk_add_wait();

  const int first_key = work.first_key;
  PROBE_MARK(write, first_key);
  write_key_gradients(dK_rmem, dV_rmem, dK_gmem, dV_gmem, work.first_head, first_key + warp_row, z PROBE_PASS);
}

extern "C" __global__ void __launch_bounds__(128)
finish(const float* dQ_sums_gmem, T* dQ_gmem, const __grid_constant__ Rows z PROBE_PARAM) {
  PROBE_BEGIN();
  finish_rows(dQ_sums_gmem, dQ_gmem, z PROBE_PASS);
}
