/*
[constants.STAGES]
default = 2
values = [1, 2]
meaning = "tiles of K, and of V, in shared memory or on their way"
[constants.Q_STAGES]
default = 2
values = [1, 2]
meaning = "query tiles in shared memory or on their way"
[constants.MULTIPROCESSORS]
default = 132
values = [114, 132]
meaning = "most blocks: one for each multiprocessor of an H100 SXM or H200 (132), of an H100 PCIe (114)"
*/
// The parts of Hopper's rungs with warp roles: rings of tiles in shared memory, the producer that fills them, and the
// work that it passes to the consumers. A consumer is a warpgroup of 64 query rows.
#pragma once
#include "wgmma_tiles.cuh"
#define WARPGROUPS (BLOCK_Q / 64)         // consumers. One more warpgroup loads.
#define THREADS (128 * (WARPGROUPS + 1))

// The next stage of a ring, and the parity of its barriers' phase
template <int COUNT> struct Turn {
  int stage = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == COUNT) stage = 0, parity ^= 1;
  }
};

// The shared memory of a block: stages of Q, K and V, each with a full and a free barrier, and the work of each stage
// of Q
struct Rings {
  T* Q_smem;       // [Q_STAGES, PANELS, BLOCK_Q, 64]
  T* K_smem;       // [STAGES, PANELS, BLOCK_KV, 64]
  T* V_smem;       // [STAGES, PANELS, BLOCK_KV, 64]
  Barrier *Q_full, *Q_free, *K_full, *K_free, *V_full, *V_free;
  int* work_smem;  // [Q_STAGES, 4]
  __device__ __forceinline__ explicit Rings(T* smem) {
    Q_smem = smem, K_smem = Q_smem + Q_STAGES * BLOCK_Q * HEAD_DIM, V_smem = K_smem + STAGES * TILE;
    Q_full = reinterpret_cast<Barrier*>(V_smem + STAGES * TILE), Q_free = Q_full + Q_STAGES;
    K_full = Q_free + Q_STAGES, K_free = K_full + STAGES, V_full = K_free + STAGES, V_free = V_full + STAGES;
    work_smem = reinterpret_cast<int*>(V_free + STAGES);
  }
  // The producer arrives at a full barrier, each warp that reads the stage at a free one.
  __device__ __forceinline__ void init_barriers() const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < Q_STAGES; ++stage) {
        barrier_init(&Q_full[stage], 1), barrier_init(&Q_free[stage], 4 * WARPGROUPS);
      }
      for (int stage = 0; stage < STAGES; ++stage) {
        barrier_init(&K_full[stage], 1), barrier_init(&K_free[stage], 4 * WARPGROUPS);
        barrier_init(&V_full[stage], 1), barrier_init(&V_free[stage], 4 * WARPGROUPS);
      }
      barrier_init_done();
    }
    __syncthreads();
  }
};

// One lane of the warp arrives when the warp has read the stage.
__device__ __forceinline__ void release(Barrier* barrier) {
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

// A query tile of a head, and the number of key tiles visible to some of its rows. 0 ends the consumers.
struct Work {
  int first_row, head, batch, tiles;
};
// The work of a query tile. Only the producer divides. The consumers read the result. Past the last number: no tiles.
template <class Sizes>
__device__ __forceinline__ Work work_of(int number, int any_head, int query_tile, const Sizes& z) {
  const int first_row = query_tile * BLOCK_Q;
  const int seen = CAUSAL ? max(1, min(z.keys, min(first_row + BLOCK_Q, z.seq_len) + z.offset)) : z.keys;
  const int tiles = number < z.query_tiles ? (seen + BLOCK_KV - 1) / BLOCK_KV : 0;
  return {first_row, any_head % z.num_heads, any_head / z.num_heads, tiles};
}
// The work of a number: head by head, each from its first query tile to its last
template <class Sizes> __device__ __forceinline__ Work in_order(int number, const Sizes& z) {
  const int count = (z.seq_len + BLOCK_Q - 1) / BLOCK_Q;  // query tiles of a head
  return work_of(number, number / count, number % count, z);
}
// If the mask is causal and blocks take several query tiles, the long ones come first, so that the last ones are short.
// The order goes through `near` heads together: their last query tiles, then the ones before.
template <class Sizes> __device__ __forceinline__ Work longest_first(int number, const Sizes& z) {
  const int count = (z.seq_len + BLOCK_Q - 1) / BLOCK_Q;  // query tiles of a head
  int any_head = number / count, query_tile = number % count;
#ifndef __CUDACC__  // past the last number `heads` may be 0, and only a CPU stops at a division by it
  if (number >= z.query_tiles) return {};
#endif
  if (CAUSAL && z.query_tiles > gridDim.x) {
    const int first_head = number / (count * z.near) * z.near, heads = min(z.near, z.query_tiles / count - first_head);
    const int n = number - first_head * count;
    any_head = first_head + n % heads, query_tile = count - 1 - n / heads;
  }
  return work_of(number, any_head, query_tile, z);
}
// One thread writes the work into the stage that its Q comes to.
__device__ __forceinline__ void write_work(int* work_smem, int stage, const Work& work PROBE_REF) {
  const int fields[4] = {work.first_row, work.head, work.batch, work.tiles};
  for (int i = 0; i < 4; ++i) {
    PROBE_STORE(work_smem, 4 * stage + i, 4);
    sts<int>(&work_smem[4 * stage + i], fields[i]);
  }
}
// The warp reads it by the lane that releases the stage.
__device__ __forceinline__ Work read_work(const int* work_smem, int stage PROBE_REF) {
  int fields[4] = {};
  for (int i = 0; i < 4 && threadIdx.x % 32 == 0; ++i) {
    PROBE_LOAD(work_smem, 4 * stage + i, 4);
    fields[i] = lds<int>(&work_smem[4 * stage + i]);
  }
  UNROLL for (int i = 0; i < 4; ++i) fields[i] = warp_uniform(fields[i]);
  return {fields[0], fields[1], fields[2], fields[3]};
}

// Copies the tile of Q, and writes down the work.
template <class Sizes>
__device__ __forceinline__ void load_queries(const Rings& rings, const TensorMap& Q_map, const Turn<Q_STAGES>& Q_turn,
                                             const Work& work, const Sizes& z PROBE_REF) {
  const int first_row = work.first_row;
  T* const Q_smem = rings.Q_smem;
#ifdef PROBED
  const T* const Q_gmem = nullptr;  // only probes name it
  const HeadStart start(z, work.batch, work.head);
#endif
  PROBE_MARK(load_q, first_row);
  barrier_wait(&rings.Q_free[Q_turn.stage], Q_turn.parity ^ 1);
  write_work(rings.work_smem, Q_turn.stage, work PROBE_PASS);
  barrier_expect(&rings.Q_full[Q_turn.stage], BLOCK_Q * HEAD_DIM * 2);
  for (int panel = 0; panel < PANELS; ++panel) {
    const int to = (Q_turn.stage * PANELS + panel) * BLOCK_Q * 64;
    PROBE_TMA(Q_gmem, start.q + (long long)first_row * z.q_row + panel * 64, BLOCK_Q * 128, first_row);
    PROBE_TMA_SMEM(Q_smem, to, BLOCK_Q * 128, first_row);
    tma_load(&Q_smem[to], &Q_map, &rings.Q_full[Q_turn.stage], panel * 64, first_row, work.head, work.batch);
  }
}

// Copies a tile of K and one of V as soon as their stages are free.
template <class Sizes>
__device__ __forceinline__ void load_tile(const Rings& rings, const TensorMap& K_map, const TensorMap& V_map,
                                          const Turn<STAGES>& turn, int tile, int kv, const Work& work,
                                          const Sizes& z PROBE_REF) {
  const int first_col = tile * BLOCK_KV, stage = turn.stage;
  T *const K_smem = rings.K_smem, *const V_smem = rings.V_smem;
#ifdef PROBED
  const T *const K_gmem = nullptr, *const V_gmem = nullptr;  // only probes name them
  const HeadStart start(z, work.batch, work.head);
#endif
  PROBE_MARK(prefetch_tile, tile);
  barrier_wait(&rings.K_free[stage], turn.parity ^ 1);
  barrier_expect(&rings.K_full[stage], TILE * 2);
  for (int panel = 0; panel < PANELS; ++panel) {
    const int to = stage * TILE + panel * BLOCK_KV * 64;
    PROBE_TMA(K_gmem, start.kv + (long long)first_col * z.kv_row + panel * 64, BLOCK_KV * 128, tile);
    PROBE_TMA_SMEM(K_smem, to, BLOCK_KV * 128, tile);
    tma_load(&K_smem[to], &K_map, &rings.K_full[stage], panel * 64, first_col, kv, work.batch);
  }
  barrier_wait(&rings.V_free[stage], turn.parity ^ 1);
  barrier_expect(&rings.V_full[stage], TILE * 2);
  for (int panel = 0; panel < PANELS; ++panel) {
    const int to = stage * TILE + panel * BLOCK_KV * 64;
    PROBE_TMA(V_gmem, start.kv + (long long)first_col * z.kv_row + panel * 64, BLOCK_KV * 128, tile);
    PROBE_TMA_SMEM(V_smem, to, BLOCK_KV * 128, tile);
    tma_load(&V_smem[to], &V_map, &rings.V_full[stage], panel * 64, first_col, kv, work.batch);
  }
}

// Tells the consumers that no work is left.
__device__ __forceinline__ void end_work(const Rings& rings, const Turn<Q_STAGES>& Q_turn PROBE_REF) {
  const int stage = Q_turn.stage;
  PROBE_MARK(nothing_left, stage);
  barrier_wait(&rings.Q_free[stage], Q_turn.parity ^ 1);
  write_work(rings.work_smem, stage, {} PROBE_PASS);
  barrier_arrive(&rings.Q_full[stage]);
}

// The producer: one thread copies tiles of Q, K and V for query tile after query tile. A block starts with the work of
// its own number and takes the next number from a counter.
//   counter_gmem  [1] query tiles given out after the first of each block. The last one sets it back to 0.
//   work_at       the Work of a number
template <class Sizes, class WorkAt>
__device__ __forceinline__ void produce(const Rings& rings, Turn<Q_STAGES>& Q_turn, const TensorMap& Q_map,
                                        const TensorMap& K_map, const TensorMap& V_map, int* counter_gmem,
                                        const Sizes& z, WorkAt work_at PROBE_REF) {
  Turn<STAGES> turn;
  Work work = work_at(blockIdx.x);
  NO_UNROLL for (; work.tiles; Q_turn.next()) {
    const int next = gridDim.x + atomic_next(counter_gmem, z.query_tiles - 1);
    const int kv = work.head / (z.num_heads / z.kv_heads);
    load_queries(rings, Q_map, Q_turn, work, z PROBE_PASS);
    NO_UNROLL for (int tile = 0; tile < work.tiles; ++tile, turn.next()) {
      load_tile(rings, K_map, V_map, turn, tile, kv, work, z PROBE_PASS);
    }
    work = work_at(next);
  }
  end_work(rings, Q_turn PROBE_PASS);
}
