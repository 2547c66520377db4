// The walk of paged_v1 and paged_v2. A block of WARPS warps computes the attention of one query head of one sequence to
// a range of the sequence's tokens: it copies q, walks over the pages of K, takes the softmax, and walks over the pages
// of V.
#pragma once
#include "paged.cuh"
constexpr int THREADS = 32 * WARPS;
constexpr int PARTS = 32 / BLOCK_SIZE;                  // lanes for the dot product of one token
constexpr int V_LANES = BLOCK_SIZE / X;                 // lanes that read one dim of a page of V, X tokens each
constexpr int V_DIMS = 32 / V_LANES;                    // dims that a warp reads at once
constexpr int DIMS = (HEAD_DIM + V_DIMS - 1) / V_DIMS;  // dims that a thread sums

// The tokens that a block attends to, and their pages
struct Context {
  const int* block_tables_gmem;  // [num_seqs, max_blocks]: the page of each BLOCK_SIZE tokens of a sequence
  size_t table;                  // index of the start of the sequence's table
  int num_kv_heads, kv_head;     // KV heads of a page, and the one of the block's query head
  int context_len;               // tokens of the sequence
  int first, end;                // the block attends to the tokens first to end - 1. first starts a page.
};

// q as floats   [HEAD_DIM]
//   Q_gmem  [num_seqs, num_heads, HEAD_DIM]. The query starts at index `query`
//   Q_smem  [HEAD_DIM]
__device__ __forceinline__ void load_q(const T* Q_gmem, size_t query, float* Q_smem PROBE_REF) {
  const int thread = threadIdx.x;
  for (int d = thread; d < HEAD_DIM; d += THREADS) {
    PROBE_LOAD(Q_gmem, query + d, T_BYTES);
    const T q = ldg<T>(&Q_gmem[query + d]);
    PROBE_STORE(Q_smem, d, 4);
    sts<float>(&Q_smem[d], to_float(q));
  }
  __syncthreads();
}

// S = scale * q . K + slope * distance   [end - first]. Each warp takes every WARPS-th page. Returns this thread's
// largest score.
//   K_gmem  [num_blocks, num_kv_heads, HEAD_DIM / X, BLOCK_SIZE, X]
//   Q_smem  [HEAD_DIM]
//   S_smem  [end - first]
__device__ __forceinline__ float walk_k(const T* K_gmem, const Context& context, const float* Q_smem, float* S_smem,
                                        float slope, float scale PROBE_REF) {
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int* block_tables_gmem = context.block_tables_gmem;
  const int first = context.first, end = context.end, blocks = (end + BLOCK_SIZE - 1) / BLOCK_SIZE;
  float m = -INFINITY;
  for (int round = 0; first / BLOCK_SIZE + round * WARPS < blocks; ++round) {
    PROBE_MARK(walk_k, round);
    const int logical = first / BLOCK_SIZE + round * WARPS + warp, slot = lane % BLOCK_SIZE;
    const int token = logical * BLOCK_SIZE + slot;
    if (logical >= blocks) continue;
    PROBE_LOAD(block_tables_gmem, context.table + logical, 4, logical);
    const int physical = ldg<int>(&block_tables_gmem[context.table + logical]);
    const size_t page = ((size_t)physical * context.num_kv_heads + context.kv_head) * PAGE;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int chunk = lane / BLOCK_SIZE; chunk < CHUNKS && token < end; chunk += PARTS) {
      PROBE_LOAD(K_gmem, page + (chunk * BLOCK_SIZE + slot) * X, 16, token);
      const float4 raw = ldg<float4>(&K_gmem[page + (chunk * BLOCK_SIZE + slot) * X]);
      T k[X];
      unpack(raw, k);
      for (int i = 0; i < X; i += 4) {
        PROBE_LOAD(Q_smem, chunk * X + i, 16);
        const float4 q4 = lds<float4>(&Q_smem[chunk * X + i]);
        sum = fma4(q4, make_float4(to_float(k[i]), to_float(k[i + 1]), to_float(k[i + 2]), to_float(k[i + 3])), sum);
      }
    }
    float dot = add4(sum);
    for (int lanes = BLOCK_SIZE; lanes < 32; lanes *= 2) dot += __shfl_xor_sync(0xffffffffu, dot, lanes);
    const float score = fmaf(slope, (float)(token - context.context_len + 1), scale * dot);
    if (lane < BLOCK_SIZE && token < end) {
      PROBE_VALUE(score, token, score);
      PROBE_STORE(S_smem, token - first, 4);
      sts<float>(&S_smem[token - first], score);
    }
    if (token < end) m = fmaxf(m, score);
  }
  return m;
}

// m = max S;  P = exp(S - m), stored over S;  returns l = sum P   [end - first]
//   m       in: this thread's largest score. out: the largest of the block
//   S_smem  [end - first]
//   R_smem  [2, WARPS], the m and l of each warp
__device__ __forceinline__ float softmax(float& m, const Context& context, int head, float* S_smem,
                                         float* R_smem PROBE_REF) {
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, first = context.first;
  PROBE_MARK(softmax, head);
  m = group_max<32>(m);
  if (lane == 0) {
    PROBE_STORE(R_smem, warp, 4);
    sts<float>(&R_smem[warp], m);
  }
  __syncthreads();
  for (int w = 0; w < WARPS; ++w) {
    PROBE_LOAD(R_smem, w, 4);
    m = fmaxf(m, lds<float>(&R_smem[w]));
  }
  float l = 0.f;
  for (int token = first + thread; token < context.end; token += THREADS) {
    PROBE_LOAD(S_smem, token - first, 4);
    const float p = expf(lds<float>(&S_smem[token - first]) - m);
    PROBE_VALUE(p, token, p);
    PROBE_STORE(S_smem, token - first, 4);
    sts<float>(&S_smem[token - first], p);
    l += p;
  }
  l = group_sum<32>(l);
  if (lane == 0) {
    PROBE_STORE(R_smem, WARPS + warp, 4);
    sts<float>(&R_smem[WARPS + warp], l);
  }
  __syncthreads();
  l = 0.f;
  for (int w = 0; w < WARPS; ++w) {
    PROBE_LOAD(R_smem, WARPS + w, 4);
    l += lds<float>(&R_smem[WARPS + w]);
  }
  return l;
}

// O = P @ V   [WARPS, HEAD_DIM], a row for each warp's pages. A lane reads X neighbouring tokens of a dim.
//   V_gmem  [num_blocks, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
//   S_smem  [end - first], P after softmax
//   O_smem  [WARPS, HEAD_DIM]
__device__ __forceinline__ void walk_v(const T* V_gmem, const Context& context, const float* S_smem,
                                       float* O_smem PROBE_REF) {
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int* block_tables_gmem = context.block_tables_gmem;
  const int first = context.first, end = context.end, blocks = (end + BLOCK_SIZE - 1) / BLOCK_SIZE;
  float O_rmem[DIMS] = {};  // in registers, because every loop over it is unrolled
  for (int round = 0; first / BLOCK_SIZE + round * WARPS < blocks; ++round) {
    PROBE_MARK(walk_v, round);
    const int logical = first / BLOCK_SIZE + round * WARPS + warp, slot = lane % V_LANES * X;
    const int token = logical * BLOCK_SIZE + slot;
    if (logical >= blocks) continue;
    PROBE_LOAD(block_tables_gmem, context.table + logical, 4, logical);
    const int physical = ldg<int>(&block_tables_gmem[context.table + logical]);
    const size_t page = ((size_t)physical * context.num_kv_heads + context.kv_head) * PAGE;
    const bool whole = token + X <= end;  // otherwise the tokens end within these X slots, and the rest is not read
    float p[X] = {};
    for (int i = 0; i < X; ++i) {
      if (token + i >= end) continue;
      PROBE_LOAD(S_smem, token + i - first, 4);
      p[i] = lds<float>(&S_smem[token + i - first]);
    }
#pragma unroll
    for (int j = 0, dim = lane / V_LANES; j < DIMS; ++j, dim += V_DIMS) {
      const size_t at = page + dim * BLOCK_SIZE + slot;
      T v[X] = {};
      if (dim < HEAD_DIM && whole) {
        PROBE_LOAD(V_gmem, at, 16, token, dim);
        unpack(ldg<float4>(&V_gmem[at]), v);
      }
      for (int i = 0; i < X; ++i) {
        if (dim >= HEAD_DIM || whole || token + i >= end) continue;
        PROBE_LOAD(V_gmem, at + i, T_BYTES, token, dim);
        v[i] = ldg<T>(&V_gmem[at + i]);
      }
      for (int i = 0; i < X; ++i) O_rmem[j] = fmaf(p[i], to_float(v[i]), O_rmem[j]);
    }
  }
#pragma unroll
  for (int j = 0, dim = lane / V_LANES; j < DIMS; ++j, dim += V_DIMS) {
    const float sum = group_sum<V_LANES>(O_rmem[j]);
    if (lane % V_LANES || dim >= HEAD_DIM) continue;
    PROBE_STORE(O_smem, warp * HEAD_DIM + dim, 4);
    sts<float>(&O_smem[warp * HEAD_DIM + dim], sum);
  }
  __syncthreads();
}

// One dim of O, summed over the warps   O_smem: [WARPS, HEAD_DIM]
__device__ __forceinline__ float sum_warps(const float* O_smem, int dim PROBE_REF) {
  float o = 0.f;
  for (int w = 0; w < WARPS; ++w) {
    PROBE_LOAD(O_smem, w * HEAD_DIM + dim, 4);
    o += lds<float>(&O_smem[w * HEAD_DIM + dim]);
  }
  return o;
}
