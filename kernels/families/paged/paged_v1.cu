/*
title = "PagedAttention V1"
idea = "K and V are in pages anywhere in a pool. A block table has the page numbers of each sequence."
changed_from = "03_flash"
changed = """one query per sequence. Each page's address comes from the table. The logits of the whole context stay in \
shared memory."""
costs = """a table entry per page, read twice. Shared memory that grows with the context. One block per query head, \
however long the context."""
limits = """one query per sequence. fp32 or fp16 storage, fp32 sums. HEAD_DIM 64 to 256. BLOCK_SIZE 8, 16, 32. Logits \
must fit in shared memory."""
source = "Kwon et al. 2023, \"PagedAttention\", arXiv:2309.06180. Cache layouts of vLLM, csrc/attention."
family = "paged"
problem = "decode"
rung = 1

[constants]
WARPS = {default = 4, values = [1, 2, 4, 8], meaning = "warps per block. Each takes every WARPS-th page."}

[[launches]]
entry = "paged_v1"
grid = ["num_heads", "num_seqs"]
block = ["32 * WARPS"]
shared_bytes = "4 * ((1 + WARPS) * HEAD_DIM + 2 * WARPS + max(context_lens))"
args = [
  "q", "k_cache", "v_cache", "block_tables", "context_lens", "alibi_slopes", "o",
  "int32 num_kv_heads", "int32 max_blocks_per_seq", "float32 scale",
]
item = "query head"
*/
#include "walk.cuh"

// O = softmax(scale * q . K + slope * distance) @ V   [num_seqs, num_heads, HEAD_DIM]. A block computes one query
// head of a sequence over its whole context.
//   Q_gmem, O_gmem     [num_seqs, num_heads, HEAD_DIM]
//   K_gmem             [num_blocks, num_kv_heads, HEAD_DIM / X, BLOCK_SIZE, X]
//   V_gmem             [num_blocks, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
//   block_tables_gmem  [num_seqs, max_blocks]
//   context_lens_gmem  [num_seqs]
//   slopes_gmem        [num_heads]
extern "C" __global__ void __launch_bounds__(THREADS)
paged_v1(const T* Q_gmem, const T* K_gmem, const T* V_gmem, const int* block_tables_gmem, const int* context_lens_gmem,
         const float* slopes_gmem, T* O_gmem, int num_kv_heads, int max_blocks, float scale PROBE_PARAM) {
  const int head = blockIdx.x, seq = blockIdx.y, thread = threadIdx.x;
  const int kv_head = head / (gridDim.x / num_kv_heads);
  const size_t query = ((size_t)seq * gridDim.x + head) * HEAD_DIM, table = (size_t)seq * max_blocks;
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                       // [HEAD_DIM]
  float* O_smem = Q_smem + HEAD_DIM;          // [WARPS, HEAD_DIM]
  float* R_smem = O_smem + WARPS * HEAD_DIM;  // [2, WARPS]
  float* S_smem = R_smem + 2 * WARPS;         // [context_len], first the scores, then the weights
  PROBE_BEGIN();

  PROBE_MARK(load_q, head);
  PROBE_LOAD(context_lens_gmem, seq, 4);
  const int context_len = ldg<int>(&context_lens_gmem[seq]);
  PROBE_LOAD(slopes_gmem, head, 4);
  const float slope = ldg<float>(&slopes_gmem[head]);
  const Context context = {block_tables_gmem, table, num_kv_heads, kv_head, context_len, 0, context_len};
  load_q(Q_gmem, query, Q_smem PROBE_PASS);

  float m = walk_k(K_gmem, context, Q_smem, S_smem, slope, scale PROBE_PASS);
  const float l = softmax(m, context, head, S_smem, R_smem PROBE_PASS);
  if (thread == 0) PROBE_VALUE(m, head, m);
  if (thread == 0) PROBE_VALUE(l, head, l);
  walk_v(V_gmem, context, S_smem, O_smem PROBE_PASS);

  // O = O / l
  PROBE_MARK(write, head);
  for (int dim = thread; dim < HEAD_DIM; dim += THREADS) {
    const float o = sum_warps(O_smem, dim PROBE_PASS) / l;
    PROBE_VALUE(o, dim, o);
    PROBE_STORE(O_gmem, query + dim, T_BYTES);
    stg<T>(&O_gmem[query + dim], from_float<T>(o));
  }
}
