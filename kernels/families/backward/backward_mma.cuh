/*
[constants.BLOCK_Q]
default = 64
values = [32, 64, 128]
meaning = "queries per tile"
[constants.BLOCK_KV]
default = 128
values = [64, 128]
meaning = "keys per tile. Two warps have 32 of them."
[constants.STAGES]
default = 2
values = [2, 3]
meaning = "tiles of Q and dO in shared memory or on their way"
*/
// The tiles of the backward on mma.sync. A tile of scores is transposed. A warp has 32 of the keys, in two parts of 16,
// and half of the queries. So P and dS leave the first products in the registers where dV and dK want them.
// A lane holds two keys of each part, lane / 4 and lane / 4 + 8. Element 4 i + 2 h + e of an array is row h of the two,
// column 8 i + 2 (lane % 4) + e.
#pragma once
#include "add.cuh"
#include "backward.cuh"
#include "gradient_blocks.cuh"
#include "mma.cuh"
#define NO_UNROLL _Pragma("unroll 1")
#define LOG2_E 1.44269504f
#define WARPS (BLOCK_KV / 16)
#define THREADS (32 * WARPS)
#define Q_TILE (BLOCK_Q * HEAD_DIM)    // elements of a tile of Q or dO
#define KV_TILE (BLOCK_KV * HEAD_DIM)  // elements of a tile of K or V
#define DS_TILE (BLOCK_KV * BLOCK_Q)   // elements of a tile of dS
#define STATS (2 * BLOCK_Q)            // floats of a tile of statistics: LSE in units of log2, then delta
#define KEY_WARPS (BLOCK_KV / 32)      // warps side by side along the keys. The next KEY_WARPS have the other half.
#define HALF_Q (BLOCK_Q / 2)           // queries of a warp's scores
#define HALF_D (HEAD_DIM / 2)          // dims of a warp's sums of dK and dV
// A warp's part of a tile of dQ: 32 queries of QUERY_WARPS groups, and DIMS of the dims
#define QUERY_WARPS (BLOCK_Q / 32)
#define DIMS (HEAD_DIM * QUERY_WARPS / WARPS)
#if BF16
using T = bfloat16;
#else
using T = half;
#endif

// Elements 4 i to 4 i + 3: a lane's part of the 16 x 8 sums of an mma, or of its 16 x 16 operand
template <class Word, int N> __device__ __forceinline__ Word (&four(Word (&r)[N], int i))[4] {
  return reinterpret_cast<Word(&)[4]>(r[4 * i]);
}

// Sums as an operand for the tensor cores: pairs of T, in the order of A
template <int N> __device__ __forceinline__ void pack(unsigned (&to)[N], const float (&from)[2 * N]) {
  UNROLL for (int i = 0; i < N; ++i) to[i] = pair<T>(from[2 * i], from[2 * i + 1]);
}

// The dot product of two pairs of T in words
__device__ __forceinline__ float dot2(float a, float b) {
  const unsigned u = __float_as_uint(a), v = __float_as_uint(b);
  const float low = to_float(T{(unsigned short)u}) * to_float(T{(unsigned short)v});
  return fmaf(to_float(T{(unsigned short)(u >> 16)}), to_float(T{(unsigned short)(v >> 16)}), low);
}

// The index of an element of a tile of Q, dO, K or V, and of dS. The 16-byte pieces of a row change places.
__device__ __forceinline__ int smem_index(int row, int dim) {
  return row * HEAD_DIM + dim / 64 * 64 + (dim % 64 ^ row % 8 * 8);
}
__device__ __forceinline__ int ds_index(int key, int query) {
  return key * BLOCK_Q + query / 64 * 64 + (query % 64 ^ (BLOCK_Q >= 64 ? key % 8 * 8 : key / 2 % 4 * 8));
}

// A lane's part of a tile of scores: keys `col` and `col` + 8, queries from `row` on.
struct Fragment {
  int row, col, tile;
  const Sizes& z;
  __device__ __forceinline__ Fragment(int first_row, int warp_col, int tile, const Sizes& z)
      : row(first_row + 2 * (threadIdx.x % 4)), col(warp_col + threadIdx.x % 32 / 4), tile(tile), z(z) {}
  __device__ __forceinline__ int row_of(int i) const { return row + i / 4 * 8 + i % 2; }  // of element i
  __device__ __forceinline__ int col_of(int i) const { return col + i / 2 % 2 * 8; }
  __device__ __forceinline__ bool sees(int i) const { return z.sees(row_of(i), col_of(i)); }
};

// Scores of pairs outside the mask become -infinity.
__device__ __forceinline__ void mask(float (&S_rmem)[HALF_Q / 2], const Fragment& at, int first_col) {
  const int lane = threadIdx.x % 32, row = at.row - lane % 4 * 2, col = at.col - lane / 4;
  if (first_col + BLOCK_KV > at.z.keys || (CAUSAL && col + 15 > row + at.z.offset)) {
    UNROLL for (int i = 0; i < HALF_Q / 2; ++i) {
      if (!at.sees(i)) S_rmem[i] = -INFINITY;
    }
  }
}

// Where this lane adds its first four sums of a tile of dQ. The next four follow 128 floats later.
__device__ __forceinline__ long long sums_index(int query_head, int tile, int tiles) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  return ((long long)query_head * tiles + tile) * Q_TILE + (warp * (DIMS / 4) * 32 + lane) * 4;
}

// The statistics of BLOCK_Q queries: LSE * log2 e and delta = rowsum(dO * O). A query without keys, and a row after the
// last query, has LSE infinity, so that its P is 0. HEAD_DIM / 8 lanes compute a row, 16 bytes each.
//   STATS_gmem  [batch, num_heads, query_tiles, 2, BLOCK_Q]
__device__ __forceinline__ void write_statistics(const T* O_gmem, const T* dO_gmem, const float* LSE_gmem,
                                                 float* STATS_gmem, const Sizes& z, int tile, int tiles,
                                                 int query_head PROBE_REF) {
  constexpr int LANES = HEAD_DIM / 8;
  const Head head(z, query_head);
  const long long stats = ((long long)query_head * tiles + tile) * STATS;
  PROBE_MARK(delta, tile);
  for (int i = threadIdx.x / LANES; i < BLOCK_Q; i += THREADS / LANES) {
    const int row = tile * BLOCK_Q + i;
    const long long from = head.q + (long long)row * z.q_row + threadIdx.x % LANES * 8;
    float delta = 0.f, lse = INFINITY;
    if (row < z.seq_len) {
      PROBE_LOAD(O_gmem, from, 16);
      const float4 o = ldg<float4>(&O_gmem[from]);
      PROBE_LOAD(dO_gmem, from, 16);
      const float4 grad = ldg<float4>(&dO_gmem[from]);
      delta = dot2(o.x, grad.x) + dot2(o.y, grad.y) + (dot2(o.z, grad.z) + dot2(o.w, grad.w));
    }
    delta = group_sum<LANES>(delta);
    if (threadIdx.x % LANES) continue;
    if (row < z.seq_len) {
      PROBE_LOAD(LSE_gmem, head.row + row, 4);
      lse = ldg<float>(&LSE_gmem[head.row + row]) * LOG2_E;
      PROBE_VALUE(delta, row, delta);
    }
    PROBE_STORE(STATS_gmem, stats + i, 4);
    stg<float>(&STATS_gmem[stats + i], lse == -INFINITY ? INFINITY : lse);
    PROBE_STORE(STATS_gmem, stats + BLOCK_Q + i, 4);
    stg<float>(&STATS_gmem[stats + BLOCK_Q + i], delta);
  }
}

// A tile of keys and values. Rows after the last are zeros.
__device__ __forceinline__ void load_keys_and_values(const T* K_gmem, const T* V_gmem, T* K_smem, T* V_smem,
                                                     const Sizes& z, const Head& head, int first_col PROBE_REF) {
  for (int i = threadIdx.x * 8; i < KV_TILE; i += THREADS * 8) {
    const int row = i / HEAD_DIM, dim = i % HEAD_DIM, to = smem_index(row, dim);
    const long long from = head.kv + (long long)(first_col + row) * z.kv_row + dim;
    float4 k4 = make_float4(0.f, 0.f, 0.f, 0.f), v4 = k4;  // eight numbers
    if (first_col + row < z.keys) {
      PROBE_LOAD(K_gmem, from, 16);
      k4 = ldg<float4>(&K_gmem[from]);
      PROBE_LOAD(V_gmem, from, 16);
      v4 = ldg<float4>(&V_gmem[from]);
    }
    PROBE_STORE(K_smem, to, 16);
    sts<float4>(&K_smem[to], k4);
    PROBE_STORE(V_smem, to, 16);
    sts<float4>(&V_smem[to], v4);
  }
}

// The tiles of queries of a block: those of its first query head, then those of the next. A head starts at element q.
struct Walk {
  int query_head, tile, first_tile, end_tile;
  long long q;
  __device__ __forceinline__ Walk after(int steps, const Sizes& z) const {
    Walk next = *this;
    for (int i = 0; i < steps; ++i) {
      if (++next.tile == end_tile) next.tile = first_tile, ++next.query_head, next.q += z.q_head;
    }
    return next;
  }
};

// Requests a tile of Q and dO, and its statistics, into a stage of shared memory. This thread's copies form a group,
// empty after the last query head. Rows after the last query repeat it, and their P is 0.
__device__ __forceinline__ void fetch(const T* Q_gmem, const T* dO_gmem, const float* STATS_gmem, T* Q_smem, T* dO_smem,
                                      float* STATS_smem, const Sizes& z, const Walk& at, int end_head,
                                      int stage PROBE_REF) {
  const int copy_row = threadIdx.x * 8 / HEAD_DIM, dim = threadIdx.x * 8 % HEAD_DIM, tile = at.tile;
  if (at.query_head < end_head) {
    PROBE_MARK(prefetch_tile, tile);
    UNROLL for (int first = 0; first < BLOCK_Q; first += THREADS * 8 / HEAD_DIM) {
      const int row = min(tile * BLOCK_Q + first + copy_row, z.seq_len - 1);
      const int to = stage * Q_TILE + smem_index(copy_row, dim) + first * HEAD_DIM;
      const long long from = at.q + (long long)row * z.q_row + dim;
      PROBE_LOAD(Q_gmem, from, 16);
      PROBE_CP_ASYNC_L2(Q_smem, to, 16);
      cp_async_l2(&Q_smem[to], &Q_gmem[from]);
      PROBE_LOAD(dO_gmem, from, 16);
      PROBE_CP_ASYNC_L2(dO_smem, to, 16);
      cp_async_l2(&dO_smem[to], &dO_gmem[from]);
    }
    if (threadIdx.x < STATS / 4) {
      const long long from = ((long long)at.query_head * at.end_tile + tile) * STATS + threadIdx.x * 4;
      const int to = stage * STATS + threadIdx.x * 4;
      PROBE_LOAD(STATS_gmem, from, 16);
      PROBE_CP_ASYNC_L2(STATS_smem, to, 16);
      cp_async_l2(&STATS_smem[to], &STATS_gmem[from]);
    }
  }
  cp_async_commit();
}

// dK and dV of 32 keys and half of the dims. Pair i: key lane / 4 + i % 2 * 8 of a part, two dims from i / 2 * 8 on.
__device__ __forceinline__ void write_key_gradients(T* dK_gmem, T* dV_gmem, const float (&dK_rmem)[2][HALF_D / 2],
                                                    const float (&dV_rmem)[2][HALF_D / 2], const Sizes& z,
                                                    const Head& head, int first_col, int first_dim PROBE_REF) {
  const int lane = threadIdx.x % 32;
  UNROLL for (int n = 0; n < HALF_D / 2; ++n) {
    const int part = n / (HALF_D / 4), i = n % (HALF_D / 4), col = first_col + part * 16 + lane / 4 + i % 2 * 8;
    const long long to = head.kv + (long long)col * z.kv_row + first_dim + i / 2 * 8 + 2 * (lane % 4);
    if (col >= z.keys) continue;
    PROBE_STORE(dK_gmem, to, 4);
    stg<int>(&dK_gmem[to], pair<T>(z.scale * dK_rmem[part][2 * i], z.scale * dK_rmem[part][2 * i + 1]));
    PROBE_STORE(dV_gmem, to, 4);
    stg<int>(&dV_gmem[to], pair<T>(dV_rmem[part][2 * i], dV_rmem[part][2 * i + 1]));
  }
}

// dQ = scale * sums of a tile. A warp reads the sums in the order in which it added them.
__device__ __forceinline__ void write_query_gradients(const float* SUMS_gmem, T* dQ_gmem, const Sizes& z, int tile,
                                                      int tiles, int query_head PROBE_REF) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long sums = sums_index(query_head, tile, tiles);
  const Head head(z, query_head);
  UNROLL for (int i = 0; i < DIMS / 4; ++i) {
    PROBE_LOAD(SUMS_gmem, sums + i * 128, 16);
    const float4 v = ldg<float4>(&SUMS_gmem[sums + i * 128]);
    const int dim = warp / QUERY_WARPS * DIMS + i % (DIMS / 8) * 8 + 2 * (lane % 4);
    UNROLL for (int h = 0; h < 2; ++h) {
      const int row = tile * BLOCK_Q + warp % QUERY_WARPS * 32 + i / (DIMS / 8) * 16 + lane / 4 + h * 8;
      const long long to = head.q + (long long)row * z.q_row + dim;
      if (row >= z.seq_len) continue;
      PROBE_STORE(dQ_gmem, to, 4);
      stg<int>(&dQ_gmem[to], pair<T>(z.scale * (h ? v.z : v.x), z.scale * (h ? v.w : v.y)));
    }
  }
}
