// The producer of Hopper's rungs of the backward.
#pragma once
#include "gradient_tiles.cuh"

// The producer: one thread copies K and V, and then Q and dO with their starting values, step by step.
// The starting values come by a tensor map too: racecheck takes a bulk copy of plain bytes for a race with its readers.
//   starts_map  [batch * num_heads, query_tiles, 2, STARTS]
__device__ __forceinline__ void produce(const Tiles& tiles, const TensorMap& Q_map, const TensorMap& K_map,
                                        const TensorMap& V_map, const TensorMap& dO_map, const TensorMap& starts_map,
                                        const Work& work, const Sizes& z PROBE_REF) {
  T *const K_smem = tiles.K, *const V_smem = tiles.V, *const Q_smem = tiles.Q, *const dO_smem = tiles.dO;
  float *const S_starts_smem = tiles.S_starts, *const dP_starts_smem = tiles.dP_starts;
  const int first_key = work.first_key, batch = work.first_head / z.num_heads;
  const int kv = work.first_head % z.num_heads / z.group();
#ifdef PROBED
  const T *const K_gmem = nullptr, *const V_gmem = nullptr, *const Q_gmem = nullptr, *const dO_gmem = nullptr;
  const float* const starts_gmem = nullptr;  // only probes name them
  const long long kv_start = Head(z, work.first_head).kv + (long long)first_key * z.kv_row;
#endif
  PROBE_MARK(load_keys, first_key);
  barrier_expect(tiles.K_full, KV_TILE * 2);
  for (int panel = 0; panel < PANELS; ++panel) {
    const int to = panel * BLOCK_KV * 64;
    PROBE_TMA(K_gmem, kv_start + panel * 64, BLOCK_KV * 128, first_key);
    PROBE_TMA_SMEM(K_smem, to, BLOCK_KV * 128, first_key);
    tma_load(&K_smem[to], &K_map, tiles.K_full, panel * 64, first_key, kv, batch);
  }
  barrier_expect(tiles.V_full, KV_TILE * 2);
  for (int panel = 0; panel < PANELS; ++panel) {
    const int to = panel * BLOCK_KV * 64;
    PROBE_TMA(V_gmem, kv_start + panel * 64, BLOCK_KV * 128, first_key);
    PROBE_TMA_SMEM(V_smem, to, BLOCK_KV * 128, first_key);
    tma_load(&V_smem[to], &V_map, tiles.V_full, panel * 64, first_key, kv, batch);
  }
  Step step(work, z);
  Turn<STAGES> turn;
  NO_UNROLL for (int left = work.steps; left > 0; --left, turn.next(), step.next(work, z)) {
    const int tile = step.tile, stage = turn.stage, head = step.head % z.num_heads, first_row = tile * BLOCK_Q;
#ifdef PROBED
    const long long starts = tile_of(step.head, tile, z) * 2 * STARTS;
    const long long q_start = Head(z, step.head).q + (long long)first_row * z.q_row;
#endif
    PROBE_MARK(prefetch_tile, tile, head);
    barrier_wait(&tiles.stage_free[stage], turn.parity ^ 1);
    barrier_expect(&tiles.Q_full[stage], Q_TILE * 2 + STARTS * 4);
    for (int panel = 0; panel < PANELS; ++panel) {
      const int to = stage * Q_TILE + panel * BLOCK_Q * 64;
      PROBE_TMA(Q_gmem, q_start + panel * 64, BLOCK_Q * 128, tile, head);
      PROBE_TMA_SMEM(Q_smem, to, BLOCK_Q * 128, tile, head);
      tma_load(&Q_smem[to], &Q_map, &tiles.Q_full[stage], panel * 64, first_row, head, batch);
    }
    PROBE_TMA(starts_gmem, starts, 8 * BLOCK_Q, tile, head);
    PROBE_TMA_SMEM(S_starts_smem, stage * STARTS, 8 * BLOCK_Q, tile, head);
    tma_load(&S_starts_smem[stage * STARTS], &starts_map, &tiles.Q_full[stage], 0, 0, tile, step.head);
    barrier_expect(&tiles.dO_full[stage], Q_TILE * 2 + STARTS * 4);
    for (int panel = 0; panel < PANELS; ++panel) {
      const int to = stage * Q_TILE + panel * BLOCK_Q * 64;
      PROBE_TMA(dO_gmem, q_start + panel * 64, BLOCK_Q * 128, tile, head);
      PROBE_TMA_SMEM(dO_smem, to, BLOCK_Q * 128, tile, head);
      tma_load(&dO_smem[to], &dO_map, &tiles.dO_full[stage], panel * 64, first_row, head, batch);
    }
    PROBE_TMA(starts_gmem, starts + STARTS, 8 * BLOCK_Q, tile, head);
    PROBE_TMA_SMEM(dP_starts_smem, stage * STARTS, 8 * BLOCK_Q, tile, head);
    tma_load(&dP_starts_smem[stage * STARTS], &starts_map, &tiles.dO_full[stage], 0, 1, tile, step.head);
  }
}
