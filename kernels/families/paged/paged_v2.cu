/*
title = "PagedAttention V2"
idea = "the context is cut into partitions, a block for each. A second kernel combines their max, sum and output."
changed_from = "paged_v1"
changed = """a block walks PARTITION tokens and writes its m, l and unnormalised O. paged_v2_reduce rescales and adds \
them."""
costs = """the partial results go through global memory, and a second launch. It pays if batch x heads gives too few \
blocks for the GPU."""
limits = """as paged_v1, but shared memory depends on PARTITION, not on the context. PARTITION is a multiple of \
BLOCK_SIZE."""
source = "Kwon et al. 2023, arXiv:2309.06180. vLLM's paged_attention_v2. Dao et al. 2023, \"Flash-Decoding\"."
family = "paged"
problem = "decode"
rung = 2
constants.WARPS = {default = 4, values = [1, 2, 4, 8], meaning = "warps per block. Each takes every WARPS-th page."}
constants.PARTITION = {default = 512, values = [32, 64, 128, 256, 512, 1024], meaning = """\
  tokens per partition, each walked by a block of its own"""}

[scratch."m_part, l_part"]
shape = ["num_seqs", "num_heads", "ceil_div(max(context_lens), PARTITION)"]
axes = ["sequence", "head", "partition"]

[scratch.o_part]
shape = ["num_seqs", "num_heads", "ceil_div(max(context_lens), PARTITION)", "head_dim"]
axes = ["sequence", "head", "partition", "dim"]

[[launches]]
entry = "paged_v2"
grid = ["ceil_div(max(context_lens), PARTITION)", "num_heads", "num_seqs"]
block = ["32 * WARPS"]
shared_bytes = "4 * ((1 + WARPS) * HEAD_DIM + 2 * WARPS + PARTITION)"
args = ["q", "k_cache", "v_cache", "block_tables", "context_lens", "alibi_slopes", "m_part", "l_part", "o_part",
  "int32 num_kv_heads", "int32 max_blocks_per_seq", "float32 scale"]
item = "query head"
blocks_per_item = "ceil_div(max(context_lens), PARTITION)"

[[launches]]
entry = "paged_v2_reduce"
grid = ["num_heads", "num_seqs"]
block = ["32 * WARPS"]
shared_bytes = "4 * ceil_div(max(context_lens), PARTITION)"
args = ["m_part", "l_part", "o_part", "context_lens", "o", "int32 ceil_div(max(context_lens), PARTITION)"]
item = "query head"
*/
#include "walk.cuh"

// m, l and O of one partition, O not yet divided by l. A block computes one partition of a query head of a
// sequence. It leaves at once if the context ends before the partition starts.
//   Q_gmem             [num_seqs, num_heads, HEAD_DIM]
//   K_gmem             [num_blocks, num_kv_heads, HEAD_DIM / X, BLOCK_SIZE, X]
//   V_gmem             [num_blocks, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
//   block_tables_gmem  [num_seqs, max_blocks]
//   context_lens_gmem  [num_seqs]
//   slopes_gmem        [num_heads]
//   m_gmem, l_gmem     [num_seqs, num_heads, partitions]
//   O_part_gmem        [num_seqs, num_heads, partitions, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(THREADS)
paged_v2(const T* Q_gmem, const T* K_gmem, const T* V_gmem, const int* block_tables_gmem, const int* context_lens_gmem,
         const float* slopes_gmem, float* m_gmem, float* l_gmem, float* O_part_gmem, int num_kv_heads, int max_blocks,
         float scale PROBE_PARAM) {
  const int partition = blockIdx.x, head = blockIdx.y, seq = blockIdx.z, thread = threadIdx.x;
  const int kv_head = head / (gridDim.y / num_kv_heads), first = partition * PARTITION;
  const size_t query = (size_t)seq * gridDim.y + head, part = query * gridDim.x + partition;
  const size_t table = (size_t)seq * max_blocks;
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                       // [HEAD_DIM]
  float* O_smem = Q_smem + HEAD_DIM;          // [WARPS, HEAD_DIM]
  float* R_smem = O_smem + WARPS * HEAD_DIM;  // [2, WARPS]
  float* S_smem = R_smem + 2 * WARPS;         // [PARTITION], first the scores, then the weights
  PROBE_BEGIN();

  PROBE_MARK(load_q, head);
  PROBE_LOAD(context_lens_gmem, seq, 4);
  const int context_len = ldg<int>(&context_lens_gmem[seq]);
  if (first >= context_len) return;
  PROBE_LOAD(slopes_gmem, head, 4);
  const float slope = ldg<float>(&slopes_gmem[head]);
  const int end = min(first + PARTITION, context_len);
  const Context context = {block_tables_gmem, table, num_kv_heads, kv_head, context_len, first, end};
  load_q(Q_gmem, query * HEAD_DIM, Q_smem PROBE_PASS);

  float m = walk_k(K_gmem, context, Q_smem, S_smem, slope, scale PROBE_PASS);
  const float l = softmax(m, context, head, S_smem, R_smem PROBE_PASS);
  if (thread == 0) PROBE_VALUE(m, partition, m);
  if (thread == 0) PROBE_VALUE(l, partition, l);
  walk_v(V_gmem, context, S_smem, O_smem PROBE_PASS);

  PROBE_MARK(write_part, partition);
  if (thread == 0) {
    PROBE_STORE(m_gmem, part, 4);
    stg<float>(&m_gmem[part], m);
    PROBE_STORE(l_gmem, part, 4);
    stg<float>(&l_gmem[part], l);
  }
  for (int dim = thread; dim < HEAD_DIM; dim += THREADS) {
    const float o = sum_warps(O_smem, dim PROBE_PASS);
    PROBE_VALUE(o_part, partition, dim, o);
    PROBE_STORE(O_part_gmem, part * HEAD_DIM + dim, 4);
    stg<float>(&O_part_gmem[part * HEAD_DIM + dim], o);
  }
}

// m = max m_i;  l = sum l_i exp(m_i - m);  O = sum O_i exp(m_i - m) / l   over the partitions i of a sequence. A block
// combines one query head of a sequence.
//   m_gmem, l_gmem     [num_seqs, num_heads, max_partitions]
//   O_part_gmem        [num_seqs, num_heads, max_partitions, HEAD_DIM]
//   context_lens_gmem  [num_seqs]
//   O_gmem             [num_seqs, num_heads, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(THREADS)
paged_v2_reduce(const float* m_gmem, const float* l_gmem, const float* O_part_gmem, const int* context_lens_gmem,
                T* O_gmem, int max_partitions PROBE_PARAM) {
  const int head = blockIdx.x, seq = blockIdx.y, thread = threadIdx.x;
  const size_t query = (size_t)seq * gridDim.x + head;
  DYNAMIC_SMEM(float, W_smem);  // [max_partitions], the weights exp(m_i - m)
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
  for (int dim = thread; dim < HEAD_DIM; dim += THREADS) {
    float o = 0.f;
    for (int i = 0; i < partitions; ++i) {
      const size_t at = (query * max_partitions + i) * HEAD_DIM + dim;
      PROBE_LOAD(O_part_gmem, at, 4);
      const float o_part = ldg<float>(&O_part_gmem[at]);
      PROBE_LOAD(W_smem, i, 4);
      o = fmaf(o_part, lds<float>(&W_smem[i]), o);
    }
    o /= l;
    PROBE_VALUE(o, dim, o);
    PROBE_STORE(O_gmem, query * HEAD_DIM + dim, T_BYTES);
    stg<T>(&O_gmem[query * HEAD_DIM + dim], from_float<T>(o));
  }
}
