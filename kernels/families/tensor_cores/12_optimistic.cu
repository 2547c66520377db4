/*
title = "FlashAttention, optimistic"
idea = """any reference m gives the softmax in exact arithmetic. So each tile's exponentials use the m of the tiles \
before, while its weights stay small. Otherwise the tile takes its own max."""
changed_from = "11_overlap"
changed = "no maximum while recent tiles kept small weights. P has two sets of registers. Long query tiles come first."
costs = """a weight above 1 is rounded. The exact loop's largest weight is 1 and needs no rounding. A refused tile \
costs a second softmax."""
limits = "fp16 or bf16. HEAD_DIM 64 or 128. Only sm_90a. One block per multiprocessor."
source = """Shah et al. 2024, "FlashAttention-3", arXiv:2407.08608. PTX ISA 8.0, sections on wgmma, mbarrier and \
cp.async.bulk.tensor."""
family = "tensor_cores"
rung = 12
requires = "sm_90a for wgmma and setmaxnreg"
tensor_products = 1
rounds = "true"
tuned = [{when = "head_dim == 64 and min(seq_len, keys) >= 2048", BLOCK_Q = 192, BLOCK_KV = 96}]  # fit long sequences
scratch.counter = {shape = [1], axes = ["count"], dtype = "int32", initial = "restored"}
# constants: meaning and effect in optimistic.cuh, overlap.cuh, warp_roles.cuh, wgmma_tiles.cuh and their includes
constants."BLOCK_Q, BLOCK_KV, STAGES, Q_STAGES, MULTIPROCESSORS, PING_PONG, THRESHOLD, SHARE, STREAK" = {}
constants."SUBTRACT_MAX, RESCALE, V_STRIDE" = {}

[[conditions]]
must = "head_dim < 256"
message = "P in two sets of registers leaves no room for heads of {head_dim} numbers. Choose 128 or 64, or 11_overlap."

[[conditions]]
must = "head_dim < 128 or BLOCK_Q < 192 or BLOCK_KV == 64"
message = """Three warpgroups have 160 registers for each thread. With heads of {head_dim} numbers they hold tiles of \
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
    "int32 keys", "int32 offset", "int32 q_row", "int32 q_head", "int32 kv_row", "int32 kv_head",
    "int32 max(1, min(batch * num_heads, 8388608 // (keys * head_dim)))", "float32 scale",
  ]},
]
*/
#include "overlap.cuh"
#include "optimistic.cuh"

// The arguments of the kernel apart from its tensors
struct Sizes {
  int query_tiles;  // of all heads
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  int near;  // heads whose K and V share 32 MB of the L2 cache
  float scale;
};

// The largest sum of this lane's weights in a tile, if the tiles before brought l. Weights of at most 1 always pass:
// none is larger than the row's largest weight, exactly 1.
__device__ __forceinline__ float largest_sum(float l) { return fminf(THRESHOLD, fmaxf(1.f, l * (1.f / SHARE))); }

// Does the tile again with its own max, as 11_overlap. Returns true if it would have fitted the m of the tiles before.
__device__ __forceinline__ bool again_with_max(float (&S_rmem)[BLOCK_KV / 2], float (&m)[2], float (&l)[2],
                                               float (&rescale)[2], const Fragment& at PROBE_REF) {
  const float before[2] = {l[0], l[1]};
  softmax_tile(S_rmem, m, l, rescale, at PROBE_PASS);
  // Against the m before, the tile's weights add up to (l - rescale * before) / rescale.
  const bool fits = l[0] <= rescale[0] * (before[0] + largest_sum(before[0])) &&
                    l[1] <= rescale[1] * (before[1] + largest_sum(before[1]));
  return __all_sync(0xffffffffu, fits);
}

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
    if (WARPGROUPS > 1) give_registers<WARPGROUPS == 3 ? 32 : 40>();
    if (threadIdx.x > 0) return;
    PROBE_ROLE(producer);
    auto work_at = [&](int number) { return longest_first(number, z); };
    produce(rings, Q_turn, Q_map, K_map, V_map, counter_gmem, z, work_at PROBE_PASS);
    return;
  }

  if (WARPGROUPS > 1) take_registers<WARPGROUPS == 3 ? 160 : 232>();
  PROBE_ROLE(consumer);
  const int group_row = (warpgroup - 1) * 64, warp_row = group_row + threadIdx.x / 32 % 4 * 16;
  const unsigned long long Q_operand = rows_operand(&Q_smem[group_row * 64]);
  const unsigned long long K_operand = rows_operand(K_smem), V_operand = values_operand(V_smem);
  float S_rmem[BLOCK_KV / 2], O_rmem[HEAD_DIM / 2], m[2], l[2], rescale[2];
  unsigned P_even_rmem[BLOCK_KV / 4], P_odd_rmem[BLOCK_KV / 4];
  Turn<STAGES> K_turn, V_turn;
  // S = Q @ K^T   [64, BLOCK_KV] of this warpgroup
  auto multiply_keys = [&](int tile) {
    PROBE_MARK(scores, tile);
    const unsigned long long q = operand_at(Q_operand, Q_turn.stage * BLOCK_Q * HEAD_DIM * 2);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(K_smem, K_turn.stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_scores(S_rmem, q, operand_at(K_operand, K_turn.stage * TILE * 2));
  };
  // O += P @ V   [64, HEAD_DIM]
  auto multiply_values = [&](int tile, unsigned (&P_rmem)[BLOCK_KV / 4]) {
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
    softmax_tile(S_rmem, m, l, rescale, fragment(tile) PROBE_PASS);
    pack(P_even_rmem, S_rmem);
    int streak = 0;  // tiles in a row that fit against the m of the tiles before
    auto step = [&](unsigned (&P_rmem)[BLOCK_KV / 4], unsigned (&P_next_rmem)[BLOCK_KV / 4]) {
      PROBE_MARK(tile_begin, tile);
      barrier_wait(&rings.K_full[K_turn.stage], K_turn.parity);
      ping_pong.wait();
      multiply_keys(tile);
      multiply_values(tile - 1, P_rmem);
      ping_pong.pass(tile + 1 < work.tiles);
      product_wait<1>();
      take_scores(tile);
      bool takes_max = true;
      if (streak >= STREAK) {
        float sum[2];
        weigh(P_next_rmem, sum, S_rmem, m, z.scale);
        PROBE_MARK(check_sums, tile);
        takes_max = __any_sync(0xffffffffu, sum[0] > largest_sum(l[0]) || sum[1] > largest_sum(l[1]));
        if (takes_max) {
          log_refused(sum, fragment(tile) PROBE_PASS);
        } else {
          l[0] += sum[0], l[1] += sum[1];
          log_accepted(S_rmem, m, l, fragment(tile) PROBE_PASS);
        }
      }
      if (takes_max) streak = again_with_max(S_rmem, m, l, rescale, fragment(tile) PROBE_PASS) ? streak + 1 : 0;
      settle(P_next_rmem);
      keep_order(S_rmem, &rings.V_full[V_turn.stage], V_turn.parity);
      product_wait<0>();
      settle(P_rmem);
      take_outputs(tile - 1);
      if (takes_max) {
        pack(P_next_rmem, S_rmem);
        rescale_moved_rows(O_rmem, rescale);
      }
      ++tile;
    };
    tile = 1;
    NO_UNROLL while (tile + 1 < work.tiles) step(P_even_rmem, P_odd_rmem), step(P_odd_rmem, P_even_rmem);
    if (tile < work.tiles) {
      step(P_even_rmem, P_odd_rmem);
      UNROLL for (int i = 0; i < BLOCK_KV / 4; ++i) P_even_rmem[i] = P_odd_rmem[i];
    }
    release(&rings.Q_free[Q_turn.stage]), Q_turn.next();
    multiply_values(work.tiles - 1, P_even_rmem);
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
