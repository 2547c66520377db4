/*
title = "Attention to a paged cache"
idea = "the block table names the page of each token, so the pages of a sequence may be anywhere."
changed = "nothing, this is an exercise."
costs = "K and V are read once for each query head."
limits = "fp32. The scores of a sequence fit into shared memory."
source = "Kwon et al. 2023, arXiv:2309.06180."
family = "paged"
problem = "decode"

[[launches]]
entry = "paged"
grid = ["num_heads", "num_seqs"]
block = [128]
shared_bytes = "4 * (max_blocks_per_seq * block_size + 128)"
args = ["q", "k_cache", "v_cache", "block_tables", "context_lens", "o", "int32 num_kv_heads",
  "int32 max_blocks_per_seq", "float32 scale"]
item = "query head"
*/
#define THREADS 128
#define PAGE (HEAD_DIM * BLOCK_SIZE)  // numbers of one page of one KV head

// O = softmax(scale * q . K) @ V   [HEAD_DIM] of each head of each sequence. A block computes one head of one sequence.
//   Q, O    [num_seqs, num_heads, HEAD_DIM]
//   K       [pages, num_kv_heads, HEAD_DIM / 4, BLOCK_SIZE, 4]
//   V       [pages, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
//   tables  [num_seqs, max_blocks], the page of each BLOCK_SIZE tokens
//   lens    [num_seqs], the tokens of each sequence
extern "C" __global__ void paged(const float* Q, const float* K, const float* V, const int* tables, const int* lens,
                                 float* O, int num_kv_heads, int max_blocks, float scale) {
  extern __shared__ float smem[];
  float* P = smem;                               // [tokens], first the scores, then the weights
  float* part = smem + max_blocks * BLOCK_SIZE;  // [THREADS]
  const int head = blockIdx.x, seq = blockIdx.y, thread = threadIdx.x, tokens = lens[seq];
  const int kv_head = head / (gridDim.x / num_kv_heads);  // neighbouring query heads share a KV head
  const float* q = Q + (seq * gridDim.x + head) * HEAD_DIM;
  const int* table = tables + seq * max_blocks;

  // S = scale * q . k   [tokens]
  float m = -INFINITY;
  for (int token = thread; token < tokens; token += THREADS) {
    const int page = 0, slot = 0;  // TODO: the page and the slot of the token
    const float* k = K;            // TODO: the start of the page of this KV head
    float s = 0.f;
    for (int d = 0; d < HEAD_DIM; ++d) s = fmaf(q[d], k[(d / 4 * BLOCK_SIZE + slot) * 4 + d % 4], s);
    P[token] = s * scale;
    m = fmaxf(m, P[token]);
  }
  part[thread] = m;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (thread < half) part[thread] = fmaxf(part[thread], part[thread + half]);
    __syncthreads();
  }
  m = part[0];

  // O = exp(S - m) @ V / l. A thread computes one column.
  float l = 0.f, o = 0.f;
  for (int token = 0; token < tokens && thread < HEAD_DIM; ++token) {
    const int page = 0, slot = 0;  // TODO
    const float* v = V;            // TODO
    const float p = expf(P[token] - m);
    l += p;
    o = fmaf(p, v[thread * BLOCK_SIZE + slot], o);
  }
  if (thread < HEAD_DIM) O[(seq * gridDim.x + head) * HEAD_DIM + thread] = o / l;
}
