/*
title = "Merge the partitions of a context"
idea = "each partition has its own max, so its sums need one factor before they are added."
changed = "nothing, this is an exercise."
costs = "the partial results go through global memory, and a second launch."
limits = "fp32. Partitions of 32 tokens."
source = "Kwon et al. 2023, arXiv:2309.06180. Dao et al. 2023, \"Flash-Decoding\"."
family = "paged"
problem = "decode"
scratch."m_part, l_part" = {axes = ["sequence", "head", "partition"], shape = [
  "num_seqs", "num_heads", "ceil_div(max(context_lens), 32)"]}
scratch.o_part = {axes = ["sequence", "head", "partition", "dim"], shape = [
  "num_seqs", "num_heads", "ceil_div(max(context_lens), 32)", "head_dim"]}

[[launches]]
entry = "partitions"
grid = ["ceil_div(max(context_lens), 32)", "num_heads", "num_seqs"]
block = ["head_dim"]
args = ["q", "k_cache", "v_cache", "block_tables", "context_lens", "m_part", "l_part", "o_part", "int32 num_kv_heads",
  "int32 max_blocks_per_seq", "float32 scale"]
item = "query head"
blocks_per_item = "ceil_div(max(context_lens), 32)"

[[launches]]
entry = "merge"
grid = ["num_heads", "num_seqs"]
block = ["head_dim"]
args = ["m_part", "l_part", "o_part", "context_lens", "o", "int32 ceil_div(max(context_lens), 32)"]
item = "query head"
*/
#define PARTITION 32
#define PAGE (HEAD_DIM * BLOCK_SIZE)  // numbers of one page of one KV head

// m, l and O of one partition of a sequence, O not divided by l. This kernel is done.
extern "C" __global__ void partitions(const float* Q, const float* K, const float* V, const int* tables,
                                      const int* lens, float* m_part, float* l_part, float* O_part, int num_kv_heads,
                                      int max_blocks, float scale) {
  __shared__ float P[PARTITION];
  const int partition = blockIdx.x, head = blockIdx.y, seq = blockIdx.z, thread = threadIdx.x;
  const int first = partition * PARTITION, count = min(PARTITION, lens[seq] - first);
  const int kv_head = head / (gridDim.y / num_kv_heads), query = seq * gridDim.y + head;
  if (count <= 0) return;
  if (thread < count) {
    const int token = first + thread, page = tables[seq * max_blocks + token / BLOCK_SIZE], slot = token % BLOCK_SIZE;
    const float* k = K + (page * num_kv_heads + kv_head) * PAGE;
    float s = 0.f;
    for (int d = 0; d < HEAD_DIM; ++d) s = fmaf(Q[query * HEAD_DIM + d], k[(d / 4 * BLOCK_SIZE + slot) * 4 + d % 4], s);
    P[thread] = s * scale;
  }
  __syncthreads();
  float m = -INFINITY, l = 0.f, o = 0.f;
  for (int i = 0; i < count; ++i) m = fmaxf(m, P[i]);
  for (int i = 0; i < count; ++i) {
    const int token = first + i, page = tables[seq * max_blocks + token / BLOCK_SIZE], slot = token % BLOCK_SIZE;
    const float p = expf(P[i] - m);
    l += p;
    o = fmaf(p, V[(page * num_kv_heads + kv_head) * PAGE + thread * BLOCK_SIZE + slot], o);
  }
  const int at = query * gridDim.x + partition;
  if (thread == 0) m_part[at] = m;
  if (thread == 0) l_part[at] = l;
  O_part[at * HEAD_DIM + thread] = o;
}

// O of a sequence, from its partitions   [HEAD_DIM]. A thread computes one column.
//   m_part, l_part  [num_seqs, num_heads, max_partitions]
//   O_part          [num_seqs, num_heads, max_partitions, HEAD_DIM]
extern "C" __global__ void merge(const float* m_part, const float* l_part, const float* O_part, const int* lens,
                                 float* O, int max_partitions) {
  const int head = blockIdx.x, seq = blockIdx.y, thread = threadIdx.x, query = seq * gridDim.x + head;
  const int first = query * max_partitions, count = (lens[seq] + PARTITION - 1) / PARTITION;
  float m = -INFINITY, l = 0.f, o = 0.f;
  for (int i = 0; i < count; ++i) m = fmaxf(m, m_part[first + i]);
  for (int i = 0; i < count; ++i) {
    const float weight = expf(m_part[first + i] - m);
    l += weight * l_part[first + i];
    o += weight * O_part[(first + i) * HEAD_DIM + thread];
  }
  O[query * HEAD_DIM + thread] = o / l;
}
