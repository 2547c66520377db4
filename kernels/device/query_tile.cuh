/*
[constants.STAGES]
default = 2
values = [2, 3, 4]
meaning = "tiles of K, and of V, in shared memory or on their way"
[constants.Q_STAGES]
default = 2
values = [2, 3, 4]
meaning = "query tiles in shared memory or on their way"
[constants.OPTIMISTIC]
default = 0
values = [0, 1]
meaning = "whether tiles take the m of the tiles before, as in 12_optimistic. With 0 each tile takes its own max."
[constants.NEAR]
default = 0
values = [0, 1, 4, 8, 16, 32, 64]
meaning = "heads that share the L2 cache, if the mask is causal. With 0 as many as have 32 MB of K and V, at most 32."
[constants.LAST]
default = 4
values = [0, 2, 4, 8]
meaning = "rounds of query tiles at the end whose heads share one order, the longest tile first"
*/
// What a query tile costs besides its key tiles: a number from the counter, copies that start late, comparisons with
// the mask, a store that the warp waits for.
#pragma once
#include "bulk_store.cuh"
#include "overlap.cuh"

// The work of a number. If the mask is causal and blocks take several query tiles, the long ones come first among
// `near` heads, so that few heads are in the L2 cache at once. The last heads, at least `last`, are one group, so that
// the last tiles of the launch are the shortest.
template <class Sizes> __device__ __forceinline__ Work longest_first_of_group(int number, const Sizes& z) {
  const int count = (z.seq_len + BLOCK_Q - 1) / BLOCK_Q;  // query tiles of a head
  int any_head = number / count, query_tile = number % count;
  if (CAUSAL && gridDim.x < z.query_tiles && number < z.query_tiles) {
    const int all = z.query_tiles / count, last_head = max(0, all - z.last) / z.near * z.near;
    const bool is_last = any_head >= last_head;
    const int first_head = is_last ? last_head : any_head / z.near * z.near;
    const int heads = is_last ? all - last_head : z.near;
    const int n = number - first_head * count;
    any_head = first_head + n % heads, query_tile = count - 1 - n / heads;
  }
  return work_of(number, any_head, query_tile, z);
}

// A tile of K or V that the producer requests
struct KeyTile {
  int tile, kv_head, first_col;
  Work work;
  template <class Sizes>
  __device__ __forceinline__ KeyTile(int tile, const Work& work, const Sizes& z)
      : tile(tile), kv_head(work.head / (z.num_heads / z.kv_heads)), first_col(tile * BLOCK_KV), work(work) {}
};

// Copies a tile of K as soon as its stage is free.
template <class Sizes>
__device__ __forceinline__ void load_keys(const Rings& rings, const TensorMap& K_map, Turn<STAGES>& turn,
                                          const KeyTile& of, const Sizes& z PROBE_REF) {
  const int tile = of.tile, stage = turn.stage;
  T* const K_smem = rings.K_smem;
#ifdef PROBED
  const T* const K_gmem = nullptr;  // only probes name it
  const HeadStart start(z, of.work.batch, of.work.head);
#endif
  PROBE_MARK(prefetch, tile);
  barrier_wait(&rings.K_free[stage], turn.parity ^ 1);
  barrier_expect(&rings.K_full[stage], TILE * 2);
  for (int panel = 0; panel < PANELS; ++panel) {
    const int to = stage * TILE + panel * BLOCK_KV * 64;
    PROBE_TMA(K_gmem, start.kv + (long long)of.first_col * z.kv_row + panel * 64, BLOCK_KV * 128, tile);
    PROBE_TMA_SMEM(K_smem, to, BLOCK_KV * 128, tile);
    tma_load(&K_smem[to], &K_map, &rings.K_full[stage], panel * 64, of.first_col, of.kv_head, of.work.batch);
  }
  turn.next();
}
// The same of V
template <class Sizes>
__device__ __forceinline__ void load_values(const Rings& rings, const TensorMap& V_map, Turn<STAGES>& turn,
                                            const KeyTile& of, const Sizes& z PROBE_REF) {
  const int tile = of.tile, stage = turn.stage;
  T* const V_smem = rings.V_smem;
#ifdef PROBED
  const T* const V_gmem = nullptr;  // only probes name it
  const HeadStart start(z, of.work.batch, of.work.head);
#endif
  PROBE_MARK(load_v, tile);
  barrier_wait(&rings.V_free[stage], turn.parity ^ 1);
  barrier_expect(&rings.V_full[stage], TILE * 2);
  for (int panel = 0; panel < PANELS; ++panel) {
    const int to = stage * TILE + panel * BLOCK_KV * 64;
    PROBE_TMA(V_gmem, start.kv + (long long)of.first_col * z.kv_row + panel * 64, BLOCK_KV * 128, tile);
    PROBE_TMA_SMEM(V_smem, to, BLOCK_KV * 128, tile);
    tma_load(&V_smem[to], &V_map, &rings.V_full[stage], panel * 64, of.first_col, of.kv_head, of.work.batch);
  }
  turn.next();
}

// As `produce` of warp_roles.cuh, in the order of the products: the next tile of K comes before a tile of V, across
// query tiles too. The counter is read while the tiles of a query tile are on their way.
template <class Sizes, class WorkAt>
__device__ __forceinline__ void produce_in_order(const Rings& rings, Turn<Q_STAGES>& Q_turn, const TensorMap& Q_map,
                                                 const TensorMap& K_map, const TensorMap& V_map, int* counter_gmem,
                                                 const Sizes& z, WorkAt work_at PROBE_REF) {
  Turn<STAGES> K_turn, V_turn;
  Work work = work_at(blockIdx.x);
  KeyTile before(-1, work, z);
  NO_UNROLL for (; work.tiles; Q_turn.next()) {
    unsigned taken[1] = {(unsigned)atomic_next(counter_gmem, z.query_tiles - 1)};
    load_queries(rings, Q_map, Q_turn, work, z PROBE_PASS);
    NO_UNROLL for (int tile = 0; tile < work.tiles; ++tile) {
      const KeyTile now(tile, work, z);
      load_keys(rings, K_map, K_turn, now, z PROBE_PASS);
      if (before.tile >= 0) load_values(rings, V_map, V_turn, before, z PROBE_PASS);
      before = now;
    }
    settle(taken);  // the thread waits for the counter only here
    work = work_at(gridDim.x + taken[0]);
  }
  end_work(rings, Q_turn PROBE_PASS);
  load_values(rings, V_map, V_turn, before, z PROBE_PASS);
}

// As hide and softmax_tile, for a tile with hidden keys. A chunk of 32 keys costs nothing if no row of the warp sees
// it, and no comparison if all rows see it.
//   warp_row   the first of the warp's 16 rows. row and col of `at` are this lane's.
template <int N>
__device__ __forceinline__ void softmax_edge(float (&S_rmem)[N], float (&m)[2], float (&l)[2], float (&rescale)[2],
                                             int warp_row, const Fragment& at PROBE_REF) {
  constexpr int CHUNK = 16;  // elements of a lane in 32 keys
  const float to_log2 = at.scale * LOG2_E;
  const int tile = at.tile, first_col = tile * BLOCK_KV, end = at.keys - 1;
  const int all = (CAUSAL ? min(end, warp_row + at.offset) : end) - first_col;        // all rows see the keys to here
  const int some = (CAUSAL ? min(end, warp_row + 15 + at.offset) : end) - first_col;  // some row does
  const int seen[2] = {(CAUSAL ? min(end, at.row + at.offset) : end) - at.col,
                       (CAUSAL ? min(end, at.row + 8 + at.offset) : end) - at.col};
  float tile_max[2] = {-INFINITY, -INFINITY}, base[2], sum[2] = {};
  UNROLL for (int chunk = 0; chunk < N; chunk += CHUNK) {
    if (chunk * 2 > some) continue;
    if (chunk * 2 + 31 > all) {
      UNROLL for (int i = chunk; i < chunk + CHUNK; ++i) {
        if (i / 4 * 8 + i % 2 > seen[i / 2 % 2]) S_rmem[i] = -INFINITY;
      }
    }
    UNROLL for (int i = chunk; i < chunk + CHUNK; i += 2) {
      tile_max[i / 2 % 2] = fmaxf(tile_max[i / 2 % 2], fmaxf(S_rmem[i], S_rmem[i + 1]));
    }
  }
  UNROLL for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const bool row_leader = at.leads && row < at.seq_len;
    tile_max[r] = group_max<4>(tile_max[r]);  // over the four lanes of the row
    if (row_leader) PROBE_VALUE(tile_max, row, tile, at.scale * tile_max[r]);
    const float m_new = SUBTRACT_MAX ? fmaxf(m[r], tile_max[r]) : 0.f;
    if (row_leader) PROBE_VALUE(m, row, tile, at.scale * m_new);
    base[r] = exponent_base(m_new, to_log2);
    rescale[r] = RESCALE ? exp2_approx(__fmul_rn(m[r], to_log2) - base[r]) : 1.f;
    if (row_leader) PROBE_VALUE(rescale, row, tile, rescale[r]);
    m[r] = m_new;
  }
  UNROLL for (int chunk = 0; chunk < N; chunk += CHUNK) {
    if (chunk * 2 > some) {
      UNROLL for (int i = chunk; i < chunk + CHUNK; ++i) S_rmem[i] = 0.f;
      continue;
    }
    UNROLL for (int i = chunk; i < chunk + CHUNK; i += 2) {
      const float minus = -base[i / 2 % 2];
      S_rmem[i] = exp2_approx(fmaf(S_rmem[i], to_log2, minus));
      S_rmem[i + 1] = exp2_approx(fmaf(S_rmem[i + 1], to_log2, minus));
      sum[i / 2 % 2] += S_rmem[i] + S_rmem[i + 1];
    }
  }
  UNROLL for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    l[r] = fmaf(l[r], rescale[r], sum[r]);
    const float total = ROW_TOTAL(l[r]);
    if (at.leads && row < at.seq_len) PROBE_VALUE(l, row, tile, total);
  }
  log_weights(S_rmem, at PROBE_PASS);
}

// As write_rows, through shared memory: the warp packs its 16 rows, one lane requests their copy, and all go on. The
// map leaves out rows past seq_len.
//   O_smem   [PANELS, 16, 64] of this warp, swizzled by 128 bytes
template <int N, class Sizes>
__device__ __forceinline__ void store_rows(const TensorMap& O_map, T* O_smem, float* LSE_gmem, const Work& work,
                                           int warp_row, const float (&O_rmem)[N], const float (&m)[2],
                                           const float (&l)[2], const Sizes& z PROBE_REF) {
  const HeadStart start(z, work.batch, work.head);
  const int lane = threadIdx.x % 32, row = lane % 16;
  float total[2], share[2];
  UNROLL for (int r = 0; r < 2; ++r) {
    total[r] = group_sum<4>(l[r]);
    share[r] = total[r] == 0.f ? 0.f : reciprocal(total[r]);
  }
  tma_store_wait();  // the copy before has read O_smem
  __syncwarp();
  UNROLL for (int group = 0; group < N / 4; group += 2) {  // 16 columns
    const int panel = group / 8, piece = group % 8 + lane / 16;
    unsigned words[4];
    UNROLL for (int i = 0; i < 4; ++i) {
      const int at = 4 * group + 2 * i;
      words[i] = pair<T>(O_rmem[at] * share[i % 2], O_rmem[at + 1] * share[i % 2]);
    }
    store_matrices(&O_smem[panel * 1024 + row * 64 + (piece ^ row % 8) * 8], words);
  }
  fence_shared();
  __syncwarp();
  if (one_lane() && warp_row < z.seq_len) {
#ifdef PROBED
    const T* const O_gmem = nullptr;  // only probes name it
#endif
    UNROLL for (int panel = 0; panel < PANELS; ++panel) {
      PROBE_TMA_STORE(O_gmem, start.q + warp_row * z.q_row + panel * 64, 2048, warp_row);
      tma_store(&O_smem[panel * 1024], &O_map, panel * 64, warp_row, work.head, work.batch);
    }
    tma_store_end();
  }
  // Last, since the fence above waits for all earlier stores of the thread. Lane r of four has row r of the two.
  const int r = lane % 4, lse_row = warp_row + lane / 4 + r * 8;
  if (r < 2 && lse_row < z.seq_len) {
    const float sum = r ? total[1] : total[0];
    PROBE_STORE(LSE_gmem, start.lse + lse_row, 4);
    stg<float>(&LSE_gmem[start.lse + lse_row], sum == 0.f ? -INFINITY : z.scale * (r ? m[1] : m[0]) + logf(sum));
  }
}
