// paged_v1. Idea: K and V lie in pages anywhere in a pool; a block table says where each page of a sequence is.
// Changed from 03_flash: one query per sequence; each page's address comes from the table; the logits of the whole context stay in shared memory.
// Costs: a table entry per page, read twice; shared memory that grows with the context; one block per query head, however long the context.
// Limits: one query per sequence; fp32 or fp16 storage, fp32 sums; HEAD_SIZE 64 to 256; BLOCK_SIZE 8, 16, 32; logits must fit in shared memory.
// Source: Kwon et al. 2023, "PagedAttention", arXiv:2309.06180; cache layouts of vLLM, csrc/attention.
#include "paged.cuh"
constexpr int THREADS = 32 * WARPS;
constexpr int PARTS = 32 / BLOCK_SIZE;                          // lanes that share a token's dot product
constexpr int V_LANES = BLOCK_SIZE / X;                         // lanes that read one dim of a page of V, X tokens each
constexpr int V_DIMS = 32 / V_LANES;                            // dims that a warp reads at once
constexpr int DIMS = (HEAD_SIZE + V_DIMS - 1) / V_DIMS;         // dims that a thread sums

// O = softmax(scale * q . K + slope * distance) @ V   [num_seqs, num_heads, HEAD_SIZE]; one block per query head of a sequence
extern "C" __global__ void __launch_bounds__(THREADS)
paged_v1(const T* Q_gmem, const T* K_gmem, const T* V_gmem, const int* block_tables_gmem, const int* context_lens_gmem,
         const float* slopes_gmem, T* O_gmem, int kv_heads, int max_blocks, float scale PROBE_PARAM) {
  const int head = blockIdx.x, seq = blockIdx.y, thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int kv_head = head / (gridDim.x / kv_heads);
  const size_t query = ((size_t)seq * gridDim.x + head) * HEAD_SIZE, table = (size_t)seq * max_blocks;
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                     // [HEAD_SIZE]
  float* O_smem = Q_smem + HEAD_SIZE;       // [WARPS, HEAD_SIZE]
  float* R_smem = O_smem + WARPS * HEAD_SIZE;  // [2, WARPS], for the block's max and sum
  float* S_smem = R_smem + 2 * WARPS;       // [context length], first the scores, then the weights
  PROBE_BEGIN();

  PROBE_MARK(load_q, head);
  PROBE_LOAD(context_lens_gmem, seq, 4);
  const int context_len = ldg<int>(&context_lens_gmem[seq]);
  PROBE_LOAD(slopes_gmem, head, 4);
  const float slope = ldg<float>(&slopes_gmem[head]);
  const int blocks = (context_len + BLOCK_SIZE - 1) / BLOCK_SIZE;
  for (int d = thread; d < HEAD_SIZE; d += THREADS) {
    PROBE_LOAD(Q_gmem, query + d, T_BYTES);
    const T q = ldg<T>(&Q_gmem[query + d]);
    PROBE_STORE(Q_smem, d, 4);
    sts<float>(&Q_smem[d], to_float(q));
  }
  __syncthreads();

  // S = scale * q . K + slope * distance   [context length]; each warp takes every WARPS-th page
  float m = -INFINITY;
  for (int round = 0; round * WARPS < blocks; ++round) {
    PROBE_MARK(walk_k, round);
    const int logical = round * WARPS + warp, slot = lane % BLOCK_SIZE, token = logical * BLOCK_SIZE + slot;
    if (logical >= blocks) continue;
    PROBE_LOAD(block_tables_gmem, table + logical, 4, logical);
    const int physical = ldg<int>(&block_tables_gmem[table + logical]);
    const size_t page = ((size_t)physical * kv_heads + kv_head) * PAGE;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int chunk = lane / BLOCK_SIZE; chunk < CHUNKS && token < context_len; chunk += PARTS) {
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
    const float score = fmaf(slope, (float)(token - context_len + 1), scale * dot);
    if (lane < BLOCK_SIZE && token < context_len) {
      PROBE_VALUE(score, token, score);
      PROBE_STORE(S_smem, token, 4);
      sts<float>(&S_smem[token], score);
    }
    if (token < context_len) m = fmaxf(m, score);
  }

  // m = max S;  P = exp(S - m);  l = sum P
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
  for (int token = thread; token < context_len; token += THREADS) {
    PROBE_LOAD(S_smem, token, 4);
    const float p = expf(lds<float>(&S_smem[token]) - m);
    PROBE_VALUE(p, token, p);
    PROBE_STORE(S_smem, token, 4);
    sts<float>(&S_smem[token], p);
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
  if (thread == 0) PROBE_VALUE(m, head, m);
  if (thread == 0) PROBE_VALUE(l, head, l);

  // O = P @ V   [HEAD_SIZE]; a lane reads X neighbouring tokens of a dim
  float O_rmem[DIMS] = {};  // stays in registers: every loop over it is unrolled
  for (int round = 0; round * WARPS < blocks; ++round) {
    PROBE_MARK(walk_v, round);
    const int logical = round * WARPS + warp, slot = lane % V_LANES * X, token = logical * BLOCK_SIZE + slot;
    if (logical >= blocks) continue;
    PROBE_LOAD(block_tables_gmem, table + logical, 4, logical);
    const int physical = ldg<int>(&block_tables_gmem[table + logical]);
    const size_t page = ((size_t)physical * kv_heads + kv_head) * PAGE;
    const bool whole = token + X <= context_len;  // else the context ends within these X slots, and the rest is not read
    float p[X] = {};
    for (int i = 0; i < X; ++i) {
      if (token + i >= context_len) continue;
      PROBE_LOAD(S_smem, token + i, 4);
      p[i] = lds<float>(&S_smem[token + i]);
    }
#pragma unroll
    for (int j = 0, dim = lane / V_LANES; j < DIMS; ++j, dim += V_DIMS) {
      const size_t at = page + dim * BLOCK_SIZE + slot;
      T v[X] = {};
      if (dim < HEAD_SIZE && whole) {
        PROBE_LOAD(V_gmem, at, 16, token, dim);
        unpack(ldg<float4>(&V_gmem[at]), v);
      }
      for (int i = 0; i < X; ++i) {
        if (dim >= HEAD_SIZE || whole || token + i >= context_len) continue;
        PROBE_LOAD(V_gmem, at + i, T_BYTES, token, dim);
        v[i] = ldg<T>(&V_gmem[at + i]);
      }
      for (int i = 0; i < X; ++i) O_rmem[j] = fmaf(p[i], to_float(v[i]), O_rmem[j]);
    }
  }
#pragma unroll
  for (int j = 0, dim = lane / V_LANES; j < DIMS; ++j, dim += V_DIMS) {
    const float sum = group_sum<V_LANES>(O_rmem[j]);
    if (lane % V_LANES || dim >= HEAD_SIZE) continue;
    PROBE_STORE(O_smem, warp * HEAD_SIZE + dim, 4);
    sts<float>(&O_smem[warp * HEAD_SIZE + dim], sum);
  }
  __syncthreads();

  // O = O / l
  PROBE_MARK(write, head);
  for (int dim = thread; dim < HEAD_SIZE; dim += THREADS) {
    float o = 0.f;
    for (int w = 0; w < WARPS; ++w) {
      PROBE_LOAD(O_smem, w * HEAD_SIZE + dim, 4);
      o += lds<float>(&O_smem[w * HEAD_SIZE + dim]);
    }
    o /= l;
    PROBE_VALUE(o, dim, o);
    PROBE_STORE(O_gmem, query + dim, T_BYTES);
    stg<T>(&O_gmem[query + dim], from_float<T>(o));
  }
}
