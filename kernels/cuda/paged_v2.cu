// paged_v2. Idea: the context is cut into partitions, a block for each; a second kernel combines their max, sum and output.
// Changed from paged_v1: a block walks PARTITION tokens and writes its m, l and unnormalised O; paged_v2_reduce rescales and adds them.
// Costs: the partial results go through global memory, and a second launch; worth it where batch x heads is too few blocks for the GPU.
// Limits: as paged_v1, but shared memory depends on PARTITION, not on the context; PARTITION is a multiple of BLOCK_SIZE.
// Source: Kwon et al. 2023, arXiv:2309.06180; vLLM's paged_attention_v2; Dao et al. 2023, "Flash-Decoding".
#include "paged.cuh"
constexpr int THREADS = 32 * WARPS;
constexpr int PARTS = 32 / BLOCK_SIZE;                          // lanes that share a token's dot product
constexpr int V_LANES = BLOCK_SIZE / X;                         // lanes that read one dim of a page of V, X tokens each
constexpr int V_DIMS = 32 / V_LANES;                            // dims that a warp reads at once
constexpr int DIMS = (HEAD_SIZE + V_DIMS - 1) / V_DIMS;         // dims that a thread sums

// m, l [num_seqs, num_heads, partitions] and O_part [num_seqs, num_heads, partitions, HEAD_SIZE]; one block per partition
extern "C" __global__ void __launch_bounds__(THREADS)
paged_v2(const T* Q_gmem, const T* K_gmem, const T* V_gmem, const int* block_tables_gmem, const int* context_lens_gmem,
         const float* slopes_gmem, float* m_gmem, float* l_gmem, float* O_part_gmem, int kv_heads, int max_blocks, float scale PROBE_PARAM) {
  const int partition = blockIdx.x, head = blockIdx.y, seq = blockIdx.z, thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int kv_head = head / (gridDim.y / kv_heads), first = partition * PARTITION;
  const size_t query = (size_t)seq * gridDim.y + head, part = query * gridDim.x + partition, table = (size_t)seq * max_blocks;
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                     // [HEAD_SIZE]
  float* O_smem = Q_smem + HEAD_SIZE;       // [WARPS, HEAD_SIZE]
  float* R_smem = O_smem + WARPS * HEAD_SIZE;  // [2, WARPS], for the block's max and sum
  float* S_smem = R_smem + 2 * WARPS;       // [PARTITION], first the scores, then the weights
  PROBE_BEGIN();

  PROBE_MARK(load_q, head);
  PROBE_LOAD(context_lens_gmem, seq, 4);
  const int context_len = ldg<int>(&context_lens_gmem[seq]);
  if (first >= context_len) return;
  PROBE_LOAD(slopes_gmem, head, 4);
  const float slope = ldg<float>(&slopes_gmem[head]);
  const int end = min(first + PARTITION, context_len), blocks = (end + BLOCK_SIZE - 1) / BLOCK_SIZE;
  for (int d = thread; d < HEAD_SIZE; d += THREADS) {
    PROBE_LOAD(Q_gmem, query * HEAD_SIZE + d, T_BYTES);
    const T q = ldg<T>(&Q_gmem[query * HEAD_SIZE + d]);
    PROBE_STORE(Q_smem, d, 4);
    sts<float>(&Q_smem[d], to_float(q));
  }
  __syncthreads();

  // S = scale * q . K + slope * distance   [PARTITION]; each warp takes every WARPS-th page
  float m = -INFINITY;
  for (int round = 0; first / BLOCK_SIZE + round * WARPS < blocks; ++round) {
    PROBE_MARK(walk_k, round);
    const int logical = first / BLOCK_SIZE + round * WARPS + warp, slot = lane % BLOCK_SIZE, token = logical * BLOCK_SIZE + slot;
    if (logical >= blocks) continue;
    PROBE_LOAD(block_tables_gmem, table + logical, 4, logical);
    const int physical = ldg<int>(&block_tables_gmem[table + logical]);
    const size_t page = ((size_t)physical * kv_heads + kv_head) * PAGE;
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
    const float score = fmaf(slope, (float)(token - context_len + 1), scale * dot);
    if (lane < BLOCK_SIZE && token < end) {
      PROBE_VALUE(score, token, score);
      PROBE_STORE(S_smem, token - first, 4);
      sts<float>(&S_smem[token - first], score);
    }
    if (token < end) m = fmaxf(m, score);
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
  for (int token = first + thread; token < end; token += THREADS) {
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
  if (thread == 0) PROBE_VALUE(m, partition, m);
  if (thread == 0) PROBE_VALUE(l, partition, l);

  // O = P @ V   [HEAD_SIZE]; a lane reads X neighbouring tokens of a dim
  float O_rmem[DIMS] = {};  // stays in registers: every loop over it is unrolled
  for (int round = 0; first / BLOCK_SIZE + round * WARPS < blocks; ++round) {
    PROBE_MARK(walk_v, round);
    const int logical = first / BLOCK_SIZE + round * WARPS + warp, slot = lane % V_LANES * X, token = logical * BLOCK_SIZE + slot;
    if (logical >= blocks) continue;
    PROBE_LOAD(block_tables_gmem, table + logical, 4, logical);
    const int physical = ldg<int>(&block_tables_gmem[table + logical]);
    const size_t page = ((size_t)physical * kv_heads + kv_head) * PAGE;
    const bool whole = token + X <= end;  // else the context ends within these X slots, and the rest is not read
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
      if (dim < HEAD_SIZE && whole) {
        PROBE_LOAD(V_gmem, at, 16, token, dim);
        unpack(ldg<float4>(&V_gmem[at]), v);
      }
      for (int i = 0; i < X; ++i) {
        if (dim >= HEAD_SIZE || whole || token + i >= end) continue;
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

  // m, l and O of this partition, O not yet divided by l
  PROBE_MARK(write_part, partition);
  if (thread == 0) {
    PROBE_STORE(m_gmem, part, 4);
    stg<float>(&m_gmem[part], m);
    PROBE_STORE(l_gmem, part, 4);
    stg<float>(&l_gmem[part], l);
  }
  for (int dim = thread; dim < HEAD_SIZE; dim += THREADS) {
    float o = 0.f;
    for (int w = 0; w < WARPS; ++w) {
      PROBE_LOAD(O_smem, w * HEAD_SIZE + dim, 4);
      o += lds<float>(&O_smem[w * HEAD_SIZE + dim]);
    }
    PROBE_VALUE(o_part, partition, dim, o);
    PROBE_STORE(O_part_gmem, part * HEAD_SIZE + dim, 4);
    stg<float>(&O_part_gmem[part * HEAD_SIZE + dim], o);
  }
}

// m = max m_i;  l = sum l_i exp(m_i - m);  O = sum O_i exp(m_i - m) / l   over the partitions i; one block per query head of a sequence
extern "C" __global__ void __launch_bounds__(THREADS)
paged_v2_reduce(const float* m_gmem, const float* l_gmem, const float* O_part_gmem, const int* context_lens_gmem, T* O_gmem,
                int max_partitions PROBE_PARAM) {
  const int head = blockIdx.x, seq = blockIdx.y, thread = threadIdx.x;
  const size_t query = (size_t)seq * gridDim.x + head;
  DYNAMIC_SMEM(float, W_smem);  // [partitions], exp(m_i - m)
  PROBE_BEGIN();

  PROBE_MARK(combine, head);
  PROBE_LOAD(context_lens_gmem, seq, 4);
  const int partitions = (ldg<int>(&context_lens_gmem[seq]) + PARTITION - 1) / PARTITION;
  float m = -INFINITY, l = 0.f;
  for (int i = 0; i < partitions; ++i) {
    PROBE_LOAD(m_gmem, query * max_partitions + i, 4);
    m = fmaxf(m, ldg<float>(&m_gmem[query * max_partitions + i]));
  }
  for (int partition = 0; partition < partitions; ++partition) {
    PROBE_LOAD(m_gmem, query * max_partitions + partition, 4);
    const float weight = expf(ldg<float>(&m_gmem[query * max_partitions + partition]) - m);
    PROBE_LOAD(l_gmem, query * max_partitions + partition, 4);
    l = fmaf(ldg<float>(&l_gmem[query * max_partitions + partition]), weight, l);
    if (thread != partition % THREADS) continue;
    PROBE_VALUE(weight, partition, weight);
    PROBE_STORE(W_smem, partition, 4);
    sts<float>(&W_smem[partition], weight);
  }
  if (thread == 0) PROBE_VALUE(m_all, head, m);
  if (thread == 0) PROBE_VALUE(l_all, head, l);
  __syncthreads();

  PROBE_MARK(write, head);
  for (int dim = thread; dim < HEAD_SIZE; dim += THREADS) {
    float o = 0.f;
    for (int i = 0; i < partitions; ++i) {
      const size_t at = (query * max_partitions + i) * HEAD_SIZE + dim;
      PROBE_LOAD(O_part_gmem, at, 4);
      const float o_part = ldg<float>(&O_part_gmem[at]);
      PROBE_LOAD(W_smem, i, 4);
      o = fmaf(o_part, lds<float>(&W_smem[i]), o);
    }
    o /= l;
    PROBE_VALUE(o, dim, o);
    PROBE_STORE(O_gmem, query * HEAD_SIZE + dim, T_BYTES);
    stg<T>(&O_gmem[query * HEAD_SIZE + dim], from_float<T>(o));
  }
}
