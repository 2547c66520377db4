/*
title = "FlashAttention, overlapped"
idea = """the products of one tile run during the exponentials of the next, and two warpgroups take turns on the \
tensor cores (ping-pong)."""
changed_from = "10_warp_roles"
changed = """Q @ K^T of a tile starts together with P @ V of the tile before. That of the next query tile starts \
before the rows of this one are written. A barrier by number passes the tensor cores on. Rows are rescaled only if a \
row's max has moved."""
costs = "S, P and O in registers at once. A second tile of Q in shared memory."
limits = "fp16 or bf16. HEAD_DIM 64, 128 or 256. Only sm_90a. One block per multiprocessor."
source = """Shah et al. 2024, "FlashAttention-3", arXiv:2407.08608. PTX ISA 8.0, sections on wgmma, mbarrier and \
cp.async.bulk.tensor."""
family = "tensor_cores"
rung = 11
requires = "sm_90a for wgmma and setmaxnreg"
tensor_products = 1
tuned = [{when = "head_dim == 64 and min(seq_len, keys) >= 2048", BLOCK_Q = 192, BLOCK_KV = 96},  # fit long sequences
  {when = "head_dim == 256", BLOCK_KV = 64, Q_STAGES = 1}]
scratch.counter = {shape = [1], axes = ["count"], dtype = "int32", initial = "restored"}
# constants: meaning and effect in overlap.cuh, warp_roles.cuh, wgmma_tiles.cuh, fragments.cuh, common.cuh
constants."BLOCK_Q, BLOCK_KV, STAGES, Q_STAGES, MULTIPROCESSORS, PING_PONG, SUBTRACT_MAX, RESCALE, V_STRIDE" = {}

[[conditions]]
must = "head_dim < 256 or (BLOCK_KV == 64 and BLOCK_Q < 192)"
message = """Heads of 256 numbers leave room for tiles of 64 keys and at most 128 queries, not {BLOCK_KV} and \
  {BLOCK_Q}. Choose BLOCK_KV=64 and BLOCK_Q=128."""

[[conditions]]
must = "head_dim < 128 or BLOCK_Q < 192 or BLOCK_KV == 64"
message = """Three warpgroups have 152 registers for each thread. With heads of {head_dim} numbers they hold tiles of \
  64 keys, not {BLOCK_KV}. Choose BLOCK_KV=64 or BLOCK_Q=128."""

[[launches]]
entry = "flash"
item = "query tile"
grid = ["min(MULTIPROCESSORS, ceil_div(seq_len, BLOCK_Q) * batch * num_heads)"]
block = ["2 * BLOCK_Q + 128"]
shared_bytes = "2 * (Q_STAGES * BLOCK_Q + 2 * STAGES * BLOCK_KV) * head_dim + 8 * (4 * Q_STAGES + 4 * STAGES)"
args = [
  {map = "q", box = {batch = 1, head = 1, query = "BLOCK_Q", dim = 64}, swizzle = 128},
  {map = "k", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  {map = "v", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  "o", "lse", "counter",
  {struct = [
    "int32 ceil_div(seq_len, BLOCK_Q) * batch * num_heads", "int32 num_heads", "int32 kv_heads", "int32 seq_len",
    "int32 keys", "int32 offset", "int32 q_row", "int32 q_head", "int32 kv_row", "int32 kv_head", "float32 scale",
  ]},
]
*/
#include "overlap.cuh"

// The arguments of the kernel apart from its tensors
struct Sizes {
  int query_tiles;  // of all heads
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  float scale;
};

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head, and lse, the logarithm of each row's sum.
//   Q_map, O_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_map, V_map  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len];  counter_gmem  [1] query tiles given out, from 0 to all, then 0 again
extern "C" __global__ void __launch_bounds__(THREADS, 1)
flash(const __grid_constant__ TensorMap Q_map, const __grid_constant__ TensorMap K_map,
      const __grid_constant__ TensorMap V_map, T* O_gmem, float* LSE_gmem, int* counter_gmem,
      const __grid_constant__ Sizes z PROBE_PARAM) {
  SWIZZLED_SMEM(T, smem);
  const Rings rings(smem);
  T *const Q_smem = rings.Q_smem, *const K_smem = rings.K_smem, *const V_smem = rings.V_smem;
  const int warpgroup = warp_uniform(threadIdx.x / 128);
  PROBE_BEGIN();
  rings.init_barriers();
  Turn<Q_STAGES> Q_turn;

  if (warpgroup == 0) {
    if (WARPGROUPS > 1) give_registers<WARPGROUPS == 3 ? 56 : 40>();
    if (threadIdx.x > 0) return;
    PROBE_ROLE(producer);
    auto work_at = [&](int number) { return in_order(number, z); };
    produce(rings, Q_turn, Q_map, K_map, V_map, counter_gmem, z, work_at PROBE_PASS);
    return;
  }

  if (WARPGROUPS > 1) take_registers<WARPGROUPS == 3 ? 152 : 232>();
  PROBE_ROLE(consumer);
  const int group_row = (warpgroup - 1) * 64, warp_row = group_row + threadIdx.x / 32 % 4 * 16;
  const unsigned long long Q_operand = rows_operand(&Q_smem[group_row * 64]);
  const unsigned long long K_operand = rows_operand(K_smem), V_operand = values_operand(V_smem);
  float S_rmem[BLOCK_KV / 2], O_rmem[HEAD_DIM / 2], m[2], l[2], rescale[2];
  unsigned P_rmem[BLOCK_KV / 4];
  Turn<STAGES> K_turn, V_turn;
  // S = Q @ K^T   [64, BLOCK_KV] of this warpgroup
  auto multiply_keys = [&](int tile) {
    PROBE_MARK(scores, tile);
    const unsigned long long q = operand_at(Q_operand, Q_turn.stage * BLOCK_Q * HEAD_DIM * 2);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(K_smem, K_turn.stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_scores(S_rmem, q, operand_at(K_operand, K_turn.stage * TILE * 2));
  };
  // O += P @ V   [64, HEAD_DIM]
  auto multiply_values = [&](int tile) {
    PROBE_MARK(output, tile);
    barrier_wait(&rings.V_full[V_turn.stage], V_turn.parity);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(V_smem, V_turn.stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_outputs(O_rmem, P_rmem, operand_at(V_operand, V_turn.stage * TILE * 2));
  };
  auto start_query_tile = [&]() {
    const Work work = next_work(rings, Q_turn PROBE_PASS);
    if (work.tiles) barrier_wait(&rings.K_full[K_turn.stage], K_turn.parity);
    multiply_keys(0);  // unread after the last query tile, but an `if` would make ptxas wait after every product
    return work;
  };
  NO_UNROLL for (Work work = start_query_tile(); work.tiles;) {
    const int first_row = work.first_row;
    auto fragment = [&](int tile) { return Fragment(first_row + warp_row, tile, z); };
    const int open = CAUSAL ? min(z.keys, first_row + group_row + z.offset + 1) : z.keys;  // visible to all its rows
    UNROLL for (int i = 0; i < HEAD_DIM / 2; ++i) O_rmem[i] = 0.f;
    m[0] = m[1] = -INFINITY, l[0] = l[1] = 0.f;
    auto take_scores = [&](int tile) {
      PROBE_MARK(scores_done, tile);
      settle(S_rmem);
      release(&rings.K_free[K_turn.stage]), K_turn.next();
      if ((tile + 1) * BLOCK_KV > open) hide(S_rmem, fragment(tile));
      log_scores(S_rmem, fragment(tile) PROBE_PASS);
      PROBE_MARK(softmax, tile);
      softmax_tile(S_rmem, m, l, rescale, fragment(tile) PROBE_PASS);
    };
    auto take_outputs = [&](int tile) {
      PROBE_MARK(output_done, tile);
      settle(O_rmem);
      release(&rings.V_free[V_turn.stage]), V_turn.next();
      log_outputs(O_rmem, fragment(tile) PROBE_PASS);
      PROBE_MARK(tile_end, tile);
    };
    const PingPong ping_pong = PingPong::open(PING_PONG, warpgroup, work.tiles);
    int tile = 0;
    PROBE_MARK(tile_begin, tile);
    product_wait<0>();
    take_scores(tile);
    pack(P_rmem, S_rmem);
    NO_UNROLL for (tile = 1; tile < work.tiles; ++tile) {
      PROBE_MARK(tile_begin, tile);
      barrier_wait(&rings.K_full[K_turn.stage], K_turn.parity);
      ping_pong.wait();
      multiply_keys(tile);
      multiply_values(tile - 1);
      ping_pong.pass(tile + 1 < work.tiles);
      product_wait<1>();
      take_scores(tile);
      keep_order(S_rmem, &rings.V_full[V_turn.stage], V_turn.parity);
      product_wait<0>();
      take_outputs(tile - 1);
      pack(P_rmem, S_rmem);
      rescale_moved_rows(O_rmem, rescale);
    }
    release(&rings.Q_free[Q_turn.stage]), Q_turn.next();
    multiply_values(work.tiles - 1);
    const Work next = start_query_tile();
    product_wait<1>();
    take_outputs(work.tiles - 1);

    PROBE_MARK(write, first_row);
    const HeadStart start(z, work.batch, work.head);
    write_rows(O_gmem, LSE_gmem, start, z.q_row, O_rmem, m, l, fragment(0) PROBE_PASS);
    work = next;
  }
  product_wait<0>();
}
