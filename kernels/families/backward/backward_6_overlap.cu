/*
title = "Backward, overlapped"
idea = "dP runs on the tensor cores while the threads compute exp, because S of the tile started one tile before."
changed_from = "backward_5_hopper"
changed = "up to three products at once, two tiles of dS, dQ added from registers."
in_order = "DETERMINISTIC"
costs = "S, dP, dK, dV and dQ in 240 registers. The L2 cache adds 32 KB a step, five sixths of the products' time."
limits = "fp16 or bf16. HEAD_DIM 64 or 128. Only sm_90a. One block per SM. dQ varies unless DETERMINISTIC is 1."
source = "Shah et al. 2024, FlashAttention-3, arXiv:2407.08608. The fixed order: FlashAttention's pull request 1893."
family = "backward"
problem = "gradients_16"
rung = 6
requires = "sm_90a for wgmma and setmaxnreg"
tensor_products = 1
tuned = [{when = "head_dim == 128", BLOCK_Q = 64},  # then two blocks for each SM if causal, else one
  {when = "kv_heads < min(num_heads, ceil_div(128 + 128 * causal, batch * ceil_div(keys, 128)))", QUERY_HEADS = 1},
  {when = "kv_heads < ceil_div(128 + 128 * causal, batch * ceil_div(keys, 128)) <= num_heads // 2", QUERY_HEADS = 2},
  {when = "kv_heads < ceil_div(128 + 128 * causal, batch * ceil_div(keys, 128)) <= num_heads // 4", QUERY_HEADS = 4},
  {when = "kv_heads < ceil_div(128 - 128 * causal, batch * ceil_div(keys, 128)) <= num_heads // 8", QUERY_HEADS = 8},
  {when = "kv_heads < ceil_div(128 - 128 * causal, batch * ceil_div(keys, 128)) <= num_heads // 16", QUERY_HEADS = 16},
  {when = "causal * num_heads > 4 * kv_heads and keys > 8192", QUERY_HEADS = 4}]  # for the L2 cache
constants."BLOCK_Q, BLOCK_KV, STAGES, DETERMINISTIC, QUERY_HEADS" = {}  # gradient_tiles, _rows, _order, _parts.cuh
scratch."turns, starts, dq_sums, kv_parts" = {}

[[conditions]]
must = "BLOCK_Q * head_dim == 8192"
message = "dQ needs BLOCK_Q={8192 // head_dim}, not {BLOCK_Q}."

[[launches]]
entry = "prepare"

[[launches]]
entry = "gradients"
item = "key tile"
heads = "batch * kv_heads * ceil_div(num_heads // kv_heads, QUERY_HEADS or num_heads)"
grid = [
  """min(batch * kv_heads * ceil_div(num_heads // kv_heads, QUERY_HEADS or num_heads), max(1, max(256, causal * \
    DETERMINISTIC * 65536 // head_dim) // ceil_div(keys, BLOCK_KV)))""",
  "ceil_div(keys, BLOCK_KV)",
  """ceil_div(batch * kv_heads * ceil_div(num_heads // kv_heads, QUERY_HEADS or num_heads), max(1, max(256, causal * \
    DETERMINISTIC * 65536 // head_dim) // ceil_div(keys, BLOCK_KV)))""",
]
block = ["2 * BLOCK_KV + 128"]
shared_bytes = "4 * BLOCK_KV * (head_dim + BLOCK_Q) + 64 + STAGES * (16 * BLOCK_Q + 32792)"
args = [
  {map = "q", box = {batch = 1, head = 1, query = "BLOCK_Q", dim = 64}, swizzle = 128},
  {map = "k", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  {map = "v", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  {map = "do", box = {batch = 1, head = 1, query = "BLOCK_Q", dim = 64}, swizzle = 128},
  {map = "starts", box = {head = 1, query_tile = 1, sum = 1, start = "2 * BLOCK_Q"}},
  "dq_sums", "turns", "dk", "dv", "int32 batch * kv_heads",
  {struct = [
    "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
    "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
  "kv_parts",
]

[[launches]]
entry = "finish"

[[launches]]
entry = "add_parts"
*/
#include "gradient_order.cuh"
#include "gradient_parts.cuh"

extern "C" __global__ void __launch_bounds__(256)
prepare(const T* O_gmem, const T* dO_gmem, const float* LSE_gmem, float* starts_gmem, float* dQ_sums_gmem,
        const __grid_constant__ Rows z PROBE_PARAM) {
  PROBE_BEGIN();
  prepare_rows(O_gmem, dO_gmem, LSE_gmem, starts_gmem, z PROBE_PASS);
  clear_sums(dQ_sums_gmem, z PROBE_PASS);
}

// dK and dV of BLOCK_KV keys of a KV head, or parts of them, and their part of dQ.
//   Q_map, dO_map  [batch, num_heads, seq_len, HEAD_DIM]
//   K_map, V_map, dK_gmem, dV_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   starts_map     [batch * num_heads, query_tiles, 2, STARTS];  dQ_sums_gmem  [batch, num_heads, query_tiles, Q_TILE]
//   turns_gmem     [1 + batch * num_heads * query_tiles] started blocks, and key tiles that have added to a tile of dQ
extern "C" __global__ void __launch_bounds__(THREADS, 1)
gradients(const __grid_constant__ TensorMap Q_map, const __grid_constant__ TensorMap K_map,
          const __grid_constant__ TensorMap V_map, const __grid_constant__ TensorMap dO_map,
          const __grid_constant__ TensorMap starts_map, float* dQ_sums_gmem, int* turns_gmem, T* dK_gmem,
          T* dV_gmem, int kv_heads, const __grid_constant__ Sizes z, float* parts_gmem PROBE_PARAM) {
  SWIZZLED_SMEM(T, smem);
  const Tiles tiles(smem, 2, 0);
  const int warpgroup = warp_uniform(threadIdx.x / 128);
  PROBE_BEGIN();
  take_number(tiles, turns_gmem PROBE_PASS);
  tiles.init_barriers(2, DETERMINISTIC);
  const Place place = ordered_place(tiles, kv_heads * parts_of_head(z) PROBE_PASS);
  if (!place.exists()) return;
  const Work work(place, z);

  if (warpgroup == 0) {
    give_registers<24>();
    if (DETERMINISTIC && threadIdx.x == 32) wait_for_turns(tiles, turns_gmem + 1, work, z);
    if (DETERMINISTIC && threadIdx.x == 64) pass_turns(tiles, turns_gmem + 1, work, z);
    if (threadIdx.x > 0) return;
    PROBE_ROLE(producer);
    produce(tiles, Q_map, K_map, V_map, dO_map, starts_map, work, z PROBE_PASS);
    return;
  }

  take_registers<240>();
  PROBE_ROLE(consumer);
  const int group = warpgroup - 1, warp_row = threadIdx.x / 32 * 16 - 64;  // of its keys in the block
  const bool leads = threadIdx.x % 128 == 0;
#ifdef PROBED
  T *const K_smem = tiles.K, *const Q_smem = tiles.Q, *const dO_smem = tiles.dO;  // only probes name them
#endif
  const ConsumerOperands of(tiles, group);
  float dK_rmem[HEAD_DIM / 2], dV_rmem[HEAD_DIM / 2], S_rmem[BLOCK_Q / 2], dP_rmem[BLOCK_Q / 2];
  unsigned P_rmem[BLOCK_Q / 4], dS_rmem[BLOCK_Q / 4];
  Step step(work, z);
  Turn<STAGES> turn, ahead;  // of this tile, and of the next one's scores
  Turn<2> dS_turn;
  // S^T = K @ Q^T - LSE / scale   [64, BLOCK_Q] of this warpgroup
  auto multiply_keys = [&](int n) {
    PROBE_MARK(scores, n);
    take_starts(S_rmem, &tiles.S_starts[ahead.stage * STARTS] PROBE_PASS);
    if (leads) PROBE_PRODUCT(Q_smem, ahead.stage * Q_TILE, BLOCK_Q * HEAD_DIM * 2, n);
    start_scores(S_rmem, of.K_rows, operand_at(of.Q_rows, ahead.stage * Q_TILE * 2));
    ahead.next();
  };
  barrier_wait(tiles.K_full, 0), barrier_wait(tiles.Q_full, 0);
  multiply_keys(0);
  barrier_wait(tiles.V_full, 0);
  NO_UNROLL for (int n = 0; n < work.steps; ++n, turn.next(), dS_turn.next(), step.next(work, z)) {
    const int tile = step.tile, stage = turn.stage, from = stage * Q_TILE;
    const Fragment at(work.first_key + warp_row, tile, z);
    PROBE_MARK(tile_begin, tile);

    // dP^T = V @ dO^T - delta   [64, BLOCK_Q]
    PROBE_MARK(weight_gradients, tile);
    barrier_wait(&tiles.dO_full[stage], turn.parity);
    take_starts(dP_rmem, &tiles.dP_starts[stage * STARTS] PROBE_PASS);
    if (leads) PROBE_PRODUCT(dO_smem, from, BLOCK_Q * HEAD_DIM * 2, tile);
    start_scores(dP_rmem, of.V_rows, operand_at(of.dO_rows, from * 2));
    product_wait<1>();
    PROBE_MARK(scores_done, tile);
    settle(S_rmem);
    PROBE_MARK(weights, tile);
    if (has_hidden(work, tile, z)) hide(S_rmem, at);
    weights(P_rmem, S_rmem, z.scale * LOG2_E);
    log_weights(S_rmem, at PROBE_PASS);

    // dV += P^T @ dO   [64, HEAD_DIM]
    PROBE_MARK(value_sums, tile);
    if (leads) PROBE_PRODUCT(dO_smem, from, BLOCK_Q * HEAD_DIM * 2, tile);
    start_gradient(dV_rmem, P_rmem, operand_at(of.dO_columns, from * 2), n > 0);
    product_wait<1>();
    PROBE_MARK(weight_gradients_done, tile);
    settle(dP_rmem);
    PROBE_MARK(score_gradients, tile);
    score_gradients(dS_rmem, S_rmem, dP_rmem);
    settle(dS_rmem);
    log_score_gradients(dS_rmem, at PROBE_PASS);
    store_score_gradients(&tiles.dS[dS_turn.stage * S_TILE], warp_row, dS_rmem);
    fence_shared();
    arrive(&tiles.dS_full[dS_turn.stage]);
    product_wait<0>();
    PROBE_MARK(value_sums_done, tile);
    settle(dV_rmem), settle(P_rmem);

    // The next scores, unread after the last tile, but an `if` would make ptxas wait after every product. Then
    // dK += dS^T @ Q   [64, HEAD_DIM], dQ = dS @ K   [64, 64]
    if (n + 1 < work.steps) barrier_wait(&tiles.Q_full[ahead.stage], ahead.parity);
    multiply_keys(n + 1);
    PROBE_MARK(key_sums, tile);
    if (leads) PROBE_PRODUCT(Q_smem, from, BLOCK_Q * HEAD_DIM * 2, tile);
    start_gradient(dK_rmem, dS_rmem, operand_at(of.Q_columns, from * 2), n > 0);
    barrier_wait(&tiles.dS_full[dS_turn.stage], dS_turn.parity);
    PROBE_MARK(query_sums, tile);
    float dQ_rmem[32];
    if (leads) PROBE_PRODUCT(K_smem, of.K_from, BLOCK_KV * 128, tile);
    start_queries(dQ_rmem, operand_at(of.dS, dS_turn.stage * S_TILE * 2), of.K_columns);
    product_wait<1>();
    PROBE_MARK(key_sums_done, tile);
    settle(dK_rmem), settle(dS_rmem);
    arrive(&tiles.stage_free[stage]);
    product_wait<0>();
    PROBE_MARK(query_sums_done, tile);
    settle(dQ_rmem), settle(S_rmem);
    log_query_part(dQ_rmem, group, tile, work.first_key, z PROBE_PASS);
    if (DETERMINISTIC) barrier_wait(tiles.turn, n & 1);
    PROBE_MARK(add, tile);
    add_sums(&dQ_sums_gmem[tile_of(step.head, tile, z) * Q_TILE], group, dQ_rmem);
    if (DETERMINISTIC) arrive(tiles.added);
    PROBE_MARK(tile_end, tile);
  }
  product_wait<0>();
  settle(dV_rmem), settle(dK_rmem);

  const int first_key = work.first_key;
  if (QUERY_HEADS) return write_parts(dK_rmem, dV_rmem, parts_gmem, place, first_key, z PROBE_PASS);
  PROBE_MARK(write, first_key);
  write_key_gradients(dK_rmem, dV_rmem, dK_gmem, dV_gmem, work.first_head, first_key + warp_row, z PROBE_PASS);
}

extern "C" __global__ void __launch_bounds__(128)
finish(const float* dQ_sums_gmem, T* dQ_gmem, const __grid_constant__ Rows z PROBE_PARAM) {
  if (QUERY_HEADS) let_next_launch();
  PROBE_BEGIN();
  finish_rows(dQ_sums_gmem, dQ_gmem, z PROBE_PASS);
}

extern "C" __global__ void __launch_bounds__(128)
add_parts(const float* parts_gmem, T* dK_gmem, T* dV_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  PROBE_BEGIN();
  add_key_parts(parts_gmem, dK_gmem, dV_gmem, z PROBE_PASS);
}
