/*
title = "FlashAttention, optimistic"
idea = """any reference m gives the softmax in exact arithmetic. So each tile's exponentials use the m of the tiles before, while \
its weights stay small. Otherwise the tile takes its own max."""
changed_from = "11_overlap"
changed = "no maximum while recent tiles kept small weights; P in two sets of registers; long query tiles first."
costs = "a weight above 1 is rounded. The exact loop's largest weight is 1 and needs no rounding. A refused tile costs a second softmax."
limits = "fp16 or bf16; HEAD_DIM 64 or 128; only sm_90a; one block per multiprocessor."
source = """Shah et al. 2024, "FlashAttention-3", arXiv:2407.08608; \
PTX ISA 8.0, sections on wgmma, mbarrier and cp.async.bulk.tensor."""
family = "tensor_cores"
rung = 12
requires = "sm_90a"
tensor_products = 1

[constants.BLOCK_Q]
default = 128
values = [64, 128, 192]
meaning = "query rows per tile, 64 for each warpgroup that computes"

[constants.BLOCK_KV]
default = 128
values = [64, 96, 128]
meaning = "keys per tile"

[constants.STAGES]
default = 2
values = [1, 2]
meaning = "how many tiles of K, and of V, are in shared memory or on their way"

[constants.Q_STAGES]
default = 2
values = [1, 2]
meaning = "how many query tiles are in shared memory or on their way"

[constants.MULTIPROCESSORS]
default = 132
values = [114, 132]
meaning = "blocks launched at most: one for each multiprocessor of an H100 SXM or H200 (132), of an H100 PCIe (114)"

[constants.PING_PONG]
default = 1
values = [0, 1]
meaning = "whether warpgroups take turns: 0: each sets off its products when it has its scores"

[constants.THRESHOLD]
default = 8192
values = [64, 8192]
meaning = "a larger sum of a lane's weights in a row refuses the tile, so that no weight overflows fp16"

[constants.SHARE]
default = 2
values = [1, 2, 4]
meaning = "a lane's sum above 1 and above 1/SHARE of its sum so far refuses the tile, so that no rounded weight dominates its row"

[constants.STREAK]
default = 2
values = [0, 1, 2, 4]
meaning = "after a refusal, so many tiles in a row must fit before the warp skips the max again"

[constants.SUBTRACT_MAX]
default = 1
values = [1, 0]
meaning = "subtract the row's max before the exponential"
what_if = "No max subtraction"
effect = "e^score passes the largest fp16, 65,504, once a score passes 11, and of bfloat16 once it passes 88; the row becomes NaN."
shows_at = 5.0

[constants.RESCALE]
default = 1
values = [1, 0]
meaning = "rescale l and O when the max moves"
what_if = "No rescaling"
effect = "after the max rises, what l and O held before still counts against the old max, so they come out too large."

[constants.V_STRIDE]
default = 1024
values = [1024, 512]
meaning = "bytes between groups of eight keys of V, as the tensor cores are told"
what_if = "A wrong stride"
effect = "the tensor cores step 512 bytes where the next eight keys lie 1,024 on: weights meet the values of other keys."

# 192 rows and 96 keys seldom divide a short sequence.
[[tuned]]
when = "head_dim == 64 and min(seq_len, keys) >= 2048"
BLOCK_Q = 192
BLOCK_KV = 96

[[conditions]]
must = "head_dim < 256"
message = "P in two sets of registers leaves no room for heads of {head_dim} numbers. Choose 128 or 64, or 11_overlap."
[[conditions]]
must = "head_dim < 128 or BLOCK_Q < 192 or BLOCK_KV == 64"
message = "Three warpgroups have 160 registers for each thread: with heads of {head_dim} numbers they hold tiles of 64 keys, not {BLOCK_KV}. Choose BLOCK_KV=64 or BLOCK_Q=128."

[scratch.counter]
shape = [1]
axes = ["count"]
dtype = "int32"
initial = "restored"

[[launches]]
entry = "flash"
grid = ["min(MULTIPROCESSORS, ceil_div(seq_len, BLOCK_Q) * batch * num_heads)"]
block = ["2 * BLOCK_Q + 128"]
shared_bytes = "2 * (Q_STAGES * BLOCK_Q + 2 * STAGES * BLOCK_KV) * head_dim + 8 * (4 * Q_STAGES + 4 * STAGES)"
args = [
  {map = "q", box = {batch = 1, head = 1, query = "BLOCK_Q", dim = 64}, swizzle = 128},
  {map = "k", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  {map = "v", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  "o", "lse", "counter",
  {struct = ["int32 ceil_div(seq_len, BLOCK_Q) * batch * num_heads", "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head", "int32 kv_row", "int32 kv_head", "int32 max(1, min(batch * num_heads, 8388608 // (keys * head_dim)))", "float32 scale"]},
]
item = "query tile"
*/
#include "wgmma_tiles.cuh"
#define WARPGROUPS (BLOCK_Q / 64)          // that compute; one more loads
#define THREADS (128 * (WARPGROUPS + 1))

// What the kernel works on, but for the tensors.
struct Sizes {
  int query_tiles;  // of all heads
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  int near;  // heads whose K and V share 32 MB of the L2 cache
  float scale;
};

// The work of a number. Only the producer divides; the consumers are told. Where the mask is causal and blocks take several, the
// long ones come first, so that the last to end is short: of `near` heads the last query tiles, then those before them.
__device__ __forceinline__ Work work_of(int number, const Sizes& z) {
  const int count = (z.seq_len + BLOCK_Q - 1) / BLOCK_Q;
  int any_head = number / count, query_tile = number % count;
  if (CAUSAL && z.query_tiles > gridDim.x) {
    const int begin = number / (count * z.near) * z.near, width = min(z.near, z.query_tiles / count - begin), n = number - begin * count;
    any_head = begin + n % width, query_tile = count - 1 - n / width;
  }
  const int first_row = query_tile * BLOCK_Q;
  const int seen = CAUSAL ? max(1, min(z.keys, min(first_row + BLOCK_Q, z.seq_len) + z.offset)) : z.keys;
  const int tiles = number < z.query_tiles ? (seen + BLOCK_KV - 1) / BLOCK_KV : 0;
  return {first_row, any_head % z.num_heads, any_head / z.num_heads, tiles};
}

// P = exp(S - m) against the m of the tiles before, whatever the largest score is; its sums over this lane's columns
__device__ __forceinline__ void weigh(unsigned (&P)[BLOCK_KV / 4], float (&sum)[2], const float (&S)[BLOCK_KV / 2],
                                      const float (&m)[2], float scale) {
  const float to_log2 = scale * LOG2_E;
  const float base[2] = {exponent_base(m[0], to_log2), exponent_base(m[1], to_log2)};
  sum[0] = sum[1] = 0.f;
  UNROLL for (int i = 0; i < BLOCK_KV / 4; ++i) {
    const float left = exp2_approx(fmaf(S[2 * i], to_log2, -base[i % 2]));
    const float right = exp2_approx(fmaf(S[2 * i + 1], to_log2, -base[i % 2]));
    sum[i % 2] += left + right;
    P[i] = pair<T>(left, right);
  }
}

// The largest sum of this lane's weights that a tile may bring, if the tiles before brought l. Weights of at most 1 are
// always taken: none of them is larger than the row's largest weight, which is exactly 1.
__device__ __forceinline__ float largest_sum(float l) { return fminf(THRESHOLD, fmaxf(1.f, l * (1.f / SHARE))); }

__device__ __forceinline__ void log_refused(const float (&sum)[2], const Place& at PROBE_REF) {
#ifdef PROBED
  const int tile = at.tile;
  for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const float refused = ROW_TOTAL(sum[r]);
    if (at.leads && row < at.seq_len) PROBE_VALUE(refused, row, tile, refused);
  }
#endif
}

// l += sum. The probed build also logs the max that the tile skipped.
__device__ __forceinline__ void accept(float (&l)[2], const float (&sum)[2], float (&S)[BLOCK_KV / 2], const float (&m)[2],
                                       const Place& at PROBE_REF) {
  UNROLL for (int r = 0; r < 2; ++r) l[r] += sum[r];
#ifdef PROBED
  const float to_log2 = at.scale * LOG2_E, rescale = 1.f;
  const int tile = at.tile;
  for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const bool row_leader = at.leads && row < at.seq_len;
    float tile_max = -INFINITY;
    UNROLL for (int i = 2 * r; i < BLOCK_KV / 2; i += 4) tile_max = fmaxf(tile_max, fmaxf(S[i], S[i + 1]));
    tile_max = group_max<4>(tile_max);
    if (row_leader) PROBE_VALUE(tile_max, row, tile, at.scale * tile_max);
    if (row_leader) PROBE_VALUE(m, row, tile, at.scale * m[r]);
    if (row_leader) PROBE_VALUE(rescale, row, tile, rescale);
    const float total = ROW_TOTAL(l[r]);
    if (row_leader) PROBE_VALUE(l, row, tile, total);
  }
  UNROLL for (int i = 0; i < BLOCK_KV / 2; ++i) {
    S[i] = exp2_approx(fmaf(S[i], to_log2, -exponent_base(m[i / 2 % 2], to_log2)));
  }
  log_weights(S, at PROBE_PASS);
#endif
}

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head, and lse, the logarithm of each row's sum.
//   Q_map, O_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_map, V_map  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len];  counter_gmem  [1] query tiles given out, from 0 to all and from there to 0
extern "C" __global__ void __launch_bounds__(THREADS, 1)
flash(const __grid_constant__ TensorMap Q_map, const __grid_constant__ TensorMap K_map,
      const __grid_constant__ TensorMap V_map, T* O_gmem, float* LSE_gmem, int* counter_gmem,
      const __grid_constant__ Sizes z PROBE_PARAM) {
  SWIZZLED_SMEM(T, smem);
  T* Q_smem = smem;                                    // [Q_STAGES, PANELS, BLOCK_Q, 64]
  T* K_smem = Q_smem + Q_STAGES * BLOCK_Q * HEAD_DIM;  // [STAGES, PANELS, BLOCK_KV, 64]
  T* V_smem = K_smem + STAGES * TILE;                  // [STAGES, PANELS, BLOCK_KV, 64]
  Barrier *Q_full = reinterpret_cast<Barrier*>(V_smem + STAGES * TILE), *Q_free = Q_full + Q_STAGES;
  Barrier *K_full = Q_free + Q_STAGES, *K_free = K_full + STAGES, *V_full = K_free + STAGES, *V_free = V_full + STAGES;
  int* work_smem = reinterpret_cast<int*>(V_free + STAGES);  // [Q_STAGES, 4] what the producer tells the consumers
  const int warpgroup = warp_uniform(threadIdx.x / 128);
  PROBE_BEGIN();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Q_STAGES; ++stage) {
      barrier_init(&Q_full[stage], 1), barrier_init(&Q_free[stage], 4 * WARPGROUPS);  // full: by the producer
    }
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(&K_full[stage], 1), barrier_init(&K_free[stage], 4 * WARPGROUPS);  // free: by each warp that read it
      barrier_init(&V_full[stage], 1), barrier_init(&V_free[stage], 4 * WARPGROUPS);
    }
    barrier_init_done();
  }
  __syncthreads();
  Turn<Q_STAGES> Q_turn;

  if (warpgroup == 0) {
    if (WARPGROUPS > 1) give_registers<WARPGROUPS == 3 ? 32 : 40>();
    if (threadIdx.x > 0) return;
    PROBE_ROLE(producer);
    Turn<STAGES> turn;
    Work work = work_of(blockIdx.x, z);
    NO_UNROLL for (; work.tiles; Q_turn.next()) {
      const int next = gridDim.x + atomic_next(counter_gmem, z.query_tiles - 1);
      const int first_row = work.first_row, batch = work.batch, head = work.head, kv = head / (z.num_heads / z.kv_heads);
#ifdef PROBED
      const T *const Q_gmem = nullptr, *const K_gmem = nullptr, *const V_gmem = nullptr;  // only named by probes
      const Begin begin(z, batch, head);
#endif
      PROBE_MARK(load_q, first_row);
      barrier_wait(&Q_free[Q_turn.stage], Q_turn.parity ^ 1);
      tell(work_smem, Q_turn.stage, work PROBE_PASS);
      barrier_expect(&Q_full[Q_turn.stage], BLOCK_Q * HEAD_DIM * 2);
      for (int panel = 0; panel < PANELS; ++panel) {
        const int to = (Q_turn.stage * PANELS + panel) * BLOCK_Q * 64;
        PROBE_TMA(Q_gmem, begin.q + (long long)first_row * z.q_row + panel * 64, BLOCK_Q * 128, first_row);
        PROBE_TMA_SMEM(Q_smem, to, BLOCK_Q * 128, first_row);
        tma_load(&Q_smem[to], &Q_map, &Q_full[Q_turn.stage], panel * 64, first_row, head, batch);
      }
      NO_UNROLL for (int tile = 0; tile < work.tiles; ++tile, turn.next()) {
        const int first_col = tile * BLOCK_KV, stage = turn.stage;
        PROBE_MARK(prefetch_tile, tile);
        barrier_wait(&K_free[stage], turn.parity ^ 1);
        barrier_expect(&K_full[stage], TILE * 2);
        for (int panel = 0; panel < PANELS; ++panel) {
          const int to = stage * TILE + panel * BLOCK_KV * 64;
          PROBE_TMA(K_gmem, begin.kv + (long long)first_col * z.kv_row + panel * 64, BLOCK_KV * 128, tile);
          PROBE_TMA_SMEM(K_smem, to, BLOCK_KV * 128, tile);
          tma_load(&K_smem[to], &K_map, &K_full[stage], panel * 64, first_col, kv, batch);
        }
        barrier_wait(&V_free[stage], turn.parity ^ 1);
        barrier_expect(&V_full[stage], TILE * 2);
        for (int panel = 0; panel < PANELS; ++panel) {
          const int to = stage * TILE + panel * BLOCK_KV * 64;
          PROBE_TMA(V_gmem, begin.kv + (long long)first_col * z.kv_row + panel * 64, BLOCK_KV * 128, tile);
          PROBE_TMA_SMEM(V_smem, to, BLOCK_KV * 128, tile);
          tma_load(&V_smem[to], &V_map, &V_full[stage], panel * 64, first_col, kv, batch);
        }
      }
      work = work_of(next, z);
    }
    const int stage = Q_turn.stage;
    PROBE_MARK(nothing_left, stage);
    barrier_wait(&Q_free[stage], Q_turn.parity ^ 1);
    tell(work_smem, stage, {} PROBE_PASS);
    barrier_arrive(&Q_full[stage]);  // the consumers read that nothing is left, and end
    return;
  }

  if (WARPGROUPS > 1) take_registers<WARPGROUPS == 3 ? 160 : 232>();
  PROBE_ROLE(consumer);
  const int group_row = (warpgroup - 1) * 64, warp_row = group_row + threadIdx.x / 32 % 4 * 16;
  const unsigned long long Q_operand = rows_operand(&Q_smem[group_row * 64]);
  const unsigned long long K_operand = rows_operand(K_smem), V_operand = values_operand(V_smem);
  float S[BLOCK_KV / 2], O[HEAD_DIM / 2], m[2], l[2], rescale[2];
  unsigned P[BLOCK_KV / 4], P_next[BLOCK_KV / 4];
  Turn<STAGES> K_turn, V_turn;
  auto free = [&](Barrier* barrier) {
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
  };
  // Sets off S = Q @ K^T   [64, BLOCK_KV] of this warpgroup
  auto multiply_keys = [&](int tile) {
    PROBE_MARK(scores, tile);
    const unsigned long long q = operand_at(Q_operand, Q_turn.stage * BLOCK_Q * HEAD_DIM * 2);
    const unsigned long long k = operand_at(K_operand, K_turn.stage * TILE * 2);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(K_smem, K_turn.stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_scores(S, q, k);
  };
  // Sets off O += P @ V   [64, HEAD_DIM]
  auto multiply_values = [&](int tile, unsigned (&P)[BLOCK_KV / 4]) {
    PROBE_MARK(output, tile);
    barrier_wait(&V_full[V_turn.stage], V_turn.parity);
    const unsigned long long v = operand_at(V_operand, V_turn.stage * TILE * 2);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(V_smem, V_turn.stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_outputs(O, P, v);
  };
  // The next query tile, its first product set off. After the last there is a product that nobody reads, but an `if`
  // around it would make ptxas wait after every product.
  auto begin = [&]() {
    const int stage = Q_turn.stage;
    PROBE_MARK(wait_q, stage);
    barrier_wait(&Q_full[stage], Q_turn.parity);
    const Work work = told(work_smem, stage PROBE_PASS);
    if (work.tiles) barrier_wait(&K_full[K_turn.stage], K_turn.parity);
    multiply_keys(0);
    return work;
  };
  Work work = begin();
  NO_UNROLL while (work.tiles) {
    const int first_row = work.first_row;
    auto place = [&](int tile) { return Place(first_row + warp_row, tile, z); };
    const int open = CAUSAL ? min(z.keys, first_row + group_row + z.offset + 1) : z.keys;  // keys that all its rows see
    UNROLL for (int i = 0; i < HEAD_DIM / 2; ++i) O[i] = 0.f;
    m[0] = m[1] = -INFINITY, l[0] = l[1] = 0.f;
    auto take_scores = [&](int tile) {
      PROBE_MARK(scores_done, tile);
      settle(S);
      free(&K_free[K_turn.stage]), K_turn.next();
      if ((tile + 1) * BLOCK_KV > open) hide(S, place(tile));
      log_scores(S, place(tile) PROBE_PASS);
      PROBE_MARK(softmax, tile);
    };
    auto exact = [&](int tile) { softmax_tile(S, m, l, rescale, place(tile) PROBE_PASS); };
    auto take_outputs = [&](int tile) {
      PROBE_MARK(output_done, tile);
      settle(O);
      free(&V_free[V_turn.stage]), V_turn.next();
      log_outputs(O, place(tile) PROBE_PASS);
      PROBE_MARK(tile_end, tile);
    };
    const bool turns = PING_PONG && WARPGROUPS > 1, last_group = warpgroup == WARPGROUPS;
    const int mine = warpgroup, others = last_group ? 1 : warpgroup + 1;   // barriers by number
    if (turns && last_group && work.tiles > 1) named_arrive(others, 256);  // the first group goes first
    int tile = 0;
    PROBE_MARK(tile_begin, tile);
    product_wait<0>();
    take_scores(tile);
    exact(tile);
    pack(P, S);
    int streak = 0;  // tiles in a row that fit against the m of the tiles before
    auto step = [&](unsigned (&P)[BLOCK_KV / 4], unsigned (&P_next)[BLOCK_KV / 4]) {
      PROBE_MARK(tile_begin, tile);
      barrier_wait(&K_full[K_turn.stage], K_turn.parity);
      if (turns) named_sync(mine, 256);
      multiply_keys(tile);
      multiply_values(tile - 1, P);
      if (turns && (!last_group || tile + 1 < work.tiles)) named_arrive(others, 256);
      product_wait<1>();
      take_scores(tile);
      bool takes_max = true;
      if (streak >= STREAK) {
        float sum[2];
        weigh(P_next, sum, S, m, z.scale);
        PROBE_MARK(check_sums, tile);
        takes_max = __any_sync(0xffffffffu, sum[0] > largest_sum(l[0]) || sum[1] > largest_sum(l[1]));
        if (takes_max) {
          log_refused(sum, place(tile) PROBE_PASS);
        } else {
          accept(l, sum, S, m, place(tile) PROBE_PASS);
        }
      }
      if (takes_max) {
        const float before[2] = {l[0], l[1]};
        exact(tile);
        // Against the m before, the tile's weights add up to (l - rescale * before) / rescale.
        const bool fits = l[0] <= rescale[0] * (before[0] + largest_sum(before[0])) &&
                          l[1] <= rescale[1] * (before[1] + largest_sum(before[1]));
        streak = __all_sync(0xffffffffu, fits) ? streak + 1 : 0;
      }
      settle(P_next), settle(S);
      // This phase is over, so nobody waits; but a loop ends a block of instructions, across which ptxas moves nothing.
      // Else it would wait for the products before the exponentials, and not after them.
      barrier_wait(&V_full[V_turn.stage], V_turn.parity);
      product_wait<0>();
      settle(P);
      take_outputs(tile - 1);
      if (takes_max) {
        pack(P_next, S);
        rescale_moved_rows(O, rescale);
      }
      ++tile;
    };
    tile = 1;
    NO_UNROLL while (tile + 1 < work.tiles) step(P, P_next), step(P_next, P);
    if (tile < work.tiles) {
      step(P, P_next);
      UNROLL for (int i = 0; i < BLOCK_KV / 4; ++i) P[i] = P_next[i];
    }
    free(&Q_free[Q_turn.stage]), Q_turn.next();
    multiply_values(work.tiles - 1, P);
    const Work next = begin();
    product_wait<1>();
    take_outputs(work.tiles - 1);

    PROBE_MARK(write, first_row);
    const Begin begin(z, work.batch, work.head);
    write_rows(O_gmem, LSE_gmem, begin, z.q_row, O, m, l, place(0) PROBE_PASS);
    work = next;
  }
  product_wait<0>();
}
