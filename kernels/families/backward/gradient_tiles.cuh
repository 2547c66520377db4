/*
[constants.BLOCK_Q]
default = 128
values = [64, 128]
meaning = "query rows per tile"
[constants.BLOCK_KV]
default = 128
values = [128]
meaning = "keys of a block, 64 for each warpgroup that computes"
[constants.STAGES]
default = 2
values = [2, 3]
meaning = "tiles of Q, and of dO, in shared memory or on their way"
*/
// The parts of Hopper's rungs of the backward pass. A block has BLOCK_KV keys of a KV head, and walks over the query
// tiles that see any key, query head by query head. All tiles of scores are transposed: a warpgroup has 64 keys as
// rows, and the queries as columns. So P^T and dS^T leave the sums of one product as the operand of the next.
#pragma once
#include "backward.cuh"
#include "gradient_blocks.cuh"
#include "hopper_backward.cuh"
#include "mma.cuh"
#define NO_UNROLL _Pragma("unroll 1")
#define LOG2_E 1.44269504f
#define WARPGROUPS (BLOCK_KV / 64)        // consumers. One more warpgroup loads.
#define CONSUMERS (128 * WARPGROUPS)      // their threads
#define THREADS (CONSUMERS + 128)
#define PANELS (HEAD_DIM / 64)
#define Q_TILE (BLOCK_Q * HEAD_DIM)       // elements of a tile of Q, of dO and of sums of dQ
#define KV_TILE (BLOCK_KV * HEAD_DIM)     // elements of a tile of K or V
#define S_TILE (BLOCK_KV * BLOCK_Q)       // elements of a tile of dS
#define STARTS (2 * BLOCK_Q)              // floats of a tile's starting values of S, and of dP
#define HIDDEN -1e30f                     // a score with the weight 0
#ifndef QUERY_HEADS
#define QUERY_HEADS 0  // most query heads of a block, 0: all of its KV head (gradient_parts.cuh)
#endif
#if BF16
using T = bfloat16;
#else
using T = half;
#endif

template <class SizesOrRows> __device__ __forceinline__ int query_tiles(const SizesOrRows& z) {
  return (z.seq_len + BLOCK_Q - 1) / BLOCK_Q;
}
// The number of a query tile of a head, over all heads
template <class SizesOrRows>
__device__ __forceinline__ long long tile_of(int head, int tile, const SizesOrRows& z) {
  return (long long)head * query_tiles(z) + tile;
}
__device__ __forceinline__ int key_tiles(const Sizes& z) { return (z.keys + BLOCK_KV - 1) / BLOCK_KV; }

// The blocks that share a key tile of a KV head
__device__ __forceinline__ int parts_of_head(const Sizes& z) {
  return QUERY_HEADS ? (z.group() + QUERY_HEADS - 1) / QUERY_HEADS : 1;
}

// The keys of a block, and its steps: query tiles that see any key, of each of its query heads. place.kv counts the
// parts of all KV heads.
struct Work {
  int first_key, first_head, first_tile, part_heads, steps;  // the head is counted over all sequences
  __device__ __forceinline__ Work(const Place& place, const Sizes& z)
      : first_key(place.tile * BLOCK_KV), first_head(place.kv * z.group()),
        first_tile(z.first_row(first_key) / BLOCK_Q) {
    if (QUERY_HEADS) {
      const int parts = parts_of_head(z), before = place.kv % parts * QUERY_HEADS;
      first_head = place.kv / parts * z.group() + before, part_heads = min(QUERY_HEADS, z.group() - before);
    }
    steps = (query_tiles(z) - first_tile) * heads(z);
  }
  __device__ __forceinline__ int heads(const Sizes& z) const { return QUERY_HEADS ? part_heads : z.group(); }
};
// Full attention: query head by query head, tile by tile. A causal mask: the last tile of all query heads, which every
// key tile sees, then the tile before. So the blocks of a head need a tile at about the same time, and most find it in
// the L2 cache.
struct Step {
  int head, tile;
  __device__ __forceinline__ Step(const Work& work, const Sizes& z)
      : head(work.first_head), tile(CAUSAL ? query_tiles(z) - 1 : work.first_tile) {}
  __device__ __forceinline__ void next(const Work& work, const Sizes& z) {
    if (CAUSAL) {
      if (++head == work.first_head + work.heads(z)) head = work.first_head, --tile;
    } else {
      if (++tile == query_tiles(z)) ++head, tile = work.first_tile;
    }
  }
};
// The next stage of a ring, and the parity of its barriers' phase
template <int COUNT> struct Turn {
  int stage = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == COUNT) stage = 0, parity ^= 1;
  }
};

// The shared memory of a block
struct Tiles {
  T *K, *V;                  // [PANELS, BLOCK_KV, 64]
  T *Q, *dO;                 // [STAGES, PANELS, BLOCK_Q, 64]
  T* dS;                     // [DS_STAGES, BLOCK_Q / 64, BLOCK_KV, 64]
  float* sums;               // [WARPGROUPS, 8, 128, 4] a tile of dQ, if the kernel collects it here
  float *S_starts, *dP_starts;  // [STAGES, STARTS]
  Barrier *K_full, *V_full, *Q_full, *dO_full, *stage_free, *dS_full;
  Barrier *turn, *added, *seen;  // of a fixed order: this block's turn, all have added, and that has been seen
  int* number;                   // of the block, if it takes one from a counter
  __device__ __forceinline__ Tiles(T* smem, int dS_stages, int sums_floats) {
    K = smem, V = K + KV_TILE, Q = V + KV_TILE, dO = Q + STAGES * Q_TILE, dS = dO + STAGES * Q_TILE;
    sums = reinterpret_cast<float*>(dS + dS_stages * S_TILE);
    S_starts = sums + sums_floats, dP_starts = S_starts + STAGES * STARTS;
    K_full = reinterpret_cast<Barrier*>(dP_starts + STAGES * STARTS), V_full = K_full + 1, Q_full = V_full + 1;
    dO_full = Q_full + STAGES, stage_free = dO_full + STAGES, dS_full = stage_free + STAGES;
    turn = dS_full + dS_stages, added = turn + 1, seen = added + 1;
    number = reinterpret_cast<int*>(seen + 1);
  }
  // The producer arrives at a full barrier of its tiles, each warp of the consumers at the others.
  __device__ __forceinline__ void init_barriers(int dS_stages, bool in_order) const {
    if (threadIdx.x == 0) {
      barrier_init(K_full, 1), barrier_init(V_full, 1);
      for (int stage = 0; stage < STAGES; ++stage) {
        barrier_init(&Q_full[stage], 1), barrier_init(&dO_full[stage], 1);
        barrier_init(&stage_free[stage], CONSUMERS / 32);
      }
      for (int stage = 0; stage < dS_stages; ++stage) barrier_init(&dS_full[stage], CONSUMERS / 32);
      if (in_order) barrier_init(turn, 1), barrier_init(added, CONSUMERS / 32), barrier_init(seen, 1);
      barrier_init_done();
    }
    __syncthreads();
  }
};
// One lane of the warp arrives for all.
__device__ __forceinline__ void arrive(Barrier* barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

// A lane's part of a transposed tile: keys `key` and `key` + 8, queries from `query` on. Element 4 i + 2 h + e is key h
// of the two, query 8 i + e.
struct Fragment {
  int key, query, keys, seq_len, offset;
  __device__ __forceinline__ Fragment(int warp_key, int tile, const Sizes& z)
      : key(warp_key + threadIdx.x % 32 / 4), query(tile * BLOCK_Q + 2 * (threadIdx.x % 4)), keys(z.keys),
        seq_len(z.seq_len), offset(z.offset) {}
  __device__ __forceinline__ int row_of(int i) const { return query + i / 4 * 8 + i % 2; }  // of element i
  __device__ __forceinline__ int col_of(int i) const { return key + i / 2 % 2 * 8; }
  __device__ __forceinline__ bool sees(int i) const {
    return CAUSAL ? col_of(i) <= row_of(i) + offset : col_of(i) < keys;
  }
};
// The tile's weights of hidden keys become 0. Queries after the last have a starting value of -1e30.
template <int N> __device__ __forceinline__ void hide(float (&S_rmem)[N], const Fragment& at) {
  UNROLL for (int i = 0; i < N; ++i) {
    if (!at.sees(i)) S_rmem[i] = HIDDEN;
  }
}

// Logs every element of existing queries and keys from a copy in a loop that is not unrolled.
template <int N> __device__ __forceinline__ void log_weights(const float (&P_rmem)[N], const Fragment& at PROBE_REF) {
#ifdef PROBED
  float copy[N];
  UNROLL for (int i = 0; i < N; ++i) copy[i] = P_rmem[i];
  NO_UNROLL for (int i = 0; i < N; ++i) {
    const int row = at.row_of(i), col = at.col_of(i);
    const float p = copy[i];
    if (row < at.seq_len && col < at.keys && at.sees(i)) PROBE_VALUE(p, row, col, p);
  }
#endif
}
template <int N>
__device__ __forceinline__ void log_score_gradients(const unsigned (&dS_rmem)[N], const Fragment& at PROBE_REF) {
#ifdef PROBED
  unsigned copy[N];
  UNROLL for (int i = 0; i < N; ++i) copy[i] = dS_rmem[i];
  NO_UNROLL for (int i = 0; i < 2 * N; ++i) {
    const int row = at.row_of(i), col = at.col_of(i);
    const float ds = to_float(T{(unsigned short)(copy[i / 2] >> i % 2 * 16)});
    if (row < at.seq_len && col < at.keys && at.sees(i)) PROBE_VALUE(ds, row, col, ds);
  }
#endif
}

// The starting values of a tile's columns: four neighbours are even, odd, even, odd, as the sums of a lane
//   starts_smem  [STARTS]
template <int N>
__device__ __forceinline__ void take_starts(float (&S_rmem)[N], const float* starts_smem PROBE_REF) {
  UNROLL for (int i = 0; i < N; i += 4) {
    const int at = 4 * i + 4 * (threadIdx.x % 4);
    PROBE_LOAD(starts_smem, at, 16);
    const float4 start = lds<float4>(&starts_smem[at]);
    S_rmem[i] = start.x, S_rmem[i + 1] = start.y, S_rmem[i + 2] = start.z, S_rmem[i + 3] = start.w;
  }
}
// Starts S += rows @ columns^T   [64, BLOCK_Q]: S^T += K @ Q^T, or dP^T += V @ dO^T
__device__ __forceinline__ void start_scores(float (&S_rmem)[BLOCK_Q / 2], unsigned long long rows,
                                             unsigned long long columns) {
  settle(S_rmem);
  product_begin();
  UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
    const int panel = d / 64 * 64, within = d % 64;
    Product<T, BLOCK_Q>::shared(S_rmem, operand_at(rows, (panel * BLOCK_KV + within) * 2),
                                operand_at(columns, (panel * BLOCK_Q + within) * 2), 1);
  }
  product_end();
}
// Starts G = (add ? G : 0) + A @ B   [64, HEAD_DIM]: dV += P^T @ dO, or dK += dS^T @ Q
__device__ __forceinline__ void start_gradient(float (&G_rmem)[HEAD_DIM / 2], unsigned (&A_rmem)[BLOCK_Q / 4],
                                               unsigned long long b, bool add) {
  settle(A_rmem);
  product_begin();
  UNROLL for (int k = 0; k < BLOCK_Q; k += 16) {
    Product<T, HEAD_DIM>::registers(G_rmem, &A_rmem[k / 4], operand_at(b, k * 128), k > 0 || add);
  }
  product_end();
}
// Starts dQ = dS @ K   [64, 64]: half of the dims of 64 queries, or all dims of half of 128 queries
__device__ __forceinline__ void start_queries(float (&dQ_rmem)[32], unsigned long long dS, unsigned long long k) {
  product_begin();
  UNROLL for (int key = 0; key < BLOCK_KV; key += 16) {
    product_turned<T>(dQ_rmem, operand_at(dS, key * 128), operand_at(k, key * 128), key > 0);
  }
  product_end();
}

// P = exp(scale * S - LSE) from S - LSE / scale
template <int N> __device__ __forceinline__ void weights(unsigned (&P_rmem)[N / 2], float (&S_rmem)[N], float to_log2) {
  UNROLL for (int i = 0; i < N; i += 2) {
    S_rmem[i] = exp2_approx(__fmul_rn(S_rmem[i], to_log2));
    S_rmem[i + 1] = exp2_approx(__fmul_rn(S_rmem[i + 1], to_log2));
    P_rmem[i / 2] = pair<T>(S_rmem[i], S_rmem[i + 1]);  // logged: p
  }
}
// dS = P * (dP - delta), from the weights in fp32
template <int N>
__device__ __forceinline__ void score_gradients(unsigned (&dS_rmem)[N / 2], const float (&P_rmem)[N],
                                                const float (&dP_rmem)[N]) {
  UNROLL for (int i = 0; i < N; i += 2) {
    dS_rmem[i / 2] = pair<T>(P_rmem[i] * dP_rmem[i], P_rmem[i + 1] * dP_rmem[i + 1]);  // logged: ds
  }
}
// dS^T of this warp's 16 keys to shared memory, in rows of 64 queries, swizzled as TMA writes
//   dS_smem  [BLOCK_Q / 64, BLOCK_KV, 64]
template <int N>
__device__ __forceinline__ void store_score_gradients(T* dS_smem, int warp_row, const unsigned (&dS_rmem)[N]) {
  const int lane = threadIdx.x % 32, row = warp_row + lane % 16;
  UNROLL for (int i = 0; i < N; i += 4) {  // 16 queries, two pieces of 16 bytes
    const int piece = i / 2 % 8 + lane / 16;
    const unsigned words[4] = {dS_rmem[i], dS_rmem[i + 1], dS_rmem[i + 2], dS_rmem[i + 3]};
    store_matrices(&dS_smem[(i / 16 * BLOCK_KV + row) * 64 + (piece ^ row % 8) * 8], words);
  }
}

// The operands of a warpgroup: rows of a tile run along the summed dimension, columns across it.
struct ConsumerOperands {
  int K_from;  // the first element of K for this warpgroup's part of dQ
  unsigned long long K_rows, V_rows, Q_rows, dO_rows, Q_columns, dO_columns, K_columns, dS;
  __device__ __forceinline__ ConsumerOperands(const Tiles& tiles, int group) {
    K_rows = operand(&tiles.K[group * 64 * 64], 16, 1024), V_rows = operand(&tiles.V[group * 64 * 64], 16, 1024);
    Q_rows = operand(tiles.Q, 16, 1024), dO_rows = operand(tiles.dO, 16, 1024);
    Q_columns = operand(tiles.Q, BLOCK_Q * 128, 1024), dO_columns = operand(tiles.dO, BLOCK_Q * 128, 1024);
    // Heads of 128: all queries, and half of the dims. Heads of 64: half of the queries, and all dims.
    K_from = HEAD_DIM == 128 ? group * BLOCK_KV * 64 : 0;
    K_columns = operand(&tiles.K[K_from], BLOCK_KV * 128, 1024);
    dS = operand(&tiles.dS[HEAD_DIM == 128 ? 0 : group * BLOCK_KV * 64], BLOCK_KV * 128, 1024);
  }
};
// Whether some query of the tile does not see some key of the block
__device__ __forceinline__ bool has_hidden(const Work& work, int tile, const Sizes& z) {
  const int end = work.first_key + BLOCK_KV;
  return CAUSAL ? end - 1 > tile * BLOCK_Q + z.offset : end > z.keys;
}
// Logs this warpgroup's part of a tile of dQ. A lane has queries `row` and `row` + 8, and pairs of neighbouring dims.
__device__ __forceinline__ void log_query_part(const float (&dQ_rmem)[32], int group, int tile, int first_key,
                                               const Sizes& z PROBE_REF) {
#ifdef PROBED
  const int key_tile = first_key / BLOCK_KV, lane = threadIdx.x % 32, warp_row = threadIdx.x % 128 / 32 * 16;
  const int first_row = tile * BLOCK_Q + (HEAD_DIM == 64 ? group * 64 : 0) + warp_row + lane / 4;
  const int first_dim = (HEAD_DIM == 64 ? 0 : group * 64) + 2 * (lane % 4);
  float copy[32];
  UNROLL for (int i = 0; i < 32; ++i) copy[i] = dQ_rmem[i];
  NO_UNROLL for (int i = 0; i < 32; ++i) {
    const int row = first_row + i / 2 % 2 * 8, dim = first_dim + i / 4 * 8 + i % 2;
    const float dq = z.scale * copy[i];
    if (row < z.seq_len) PROBE_VALUE(dq_part, row, key_tile, dim, dq);
  }
#endif
}
// This warpgroup's part of a tile of dQ to shared memory
//   sums_smem  [WARPGROUPS, 8, 128, 4]
__device__ __forceinline__ void store_sums(float* sums_smem, int group, const float (&dQ_rmem)[32] PROBE_REF) {
  UNROLL for (int i = 0; i < 32; i += 4) {
    const int to = group * 4096 + i * 128 + threadIdx.x % 128 * 4;
    PROBE_STORE(sums_smem, to, 16);
    sts<float4>(&sums_smem[to], make_float4(dQ_rmem[i], dQ_rmem[i + 1], dQ_rmem[i + 2], dQ_rmem[i + 3]));
  }
}
