/*
title = "A simple attention kernel"
idea = "a block computes one row: scores, their max, the softmax, and the product with V."
changed = "nothing, this is an exercise."
costs = "K and V are read once for each row."
limits = "fp32. head_dim 32, 64 or 128. The scores of a row fit into shared memory."
source = "Vaswani et al. 2017, \"Attention Is All You Need\", equation 1."
family = "dense"

[[launches]]
entry = "attention"
grid = ["seq_len", "batch * num_heads"]
block = [128]
shared_bytes = "4 * (seq_len + 128)"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query row"
*/
#define THREADS 128

// O = softmax(scale * Q @ K^T) @ V   [seq_len, head_dim] of each head. A block computes one row.
//   Q, K, V, O  [batch * num_heads, seq_len, head_dim]
extern "C" __global__ void attention(const float* Q, const float* K, const float* V, float* O, int seq_len,
                                     int head_dim, int causal, float scale) {
  extern __shared__ float smem[];
  float* P = smem;               // [seq_len], first the scores, then the weights
  float* part = smem + seq_len;  // [THREADS], a number of each thread
  const int row = blockIdx.x, thread = threadIdx.x;
  const size_t head = (size_t)blockIdx.y * seq_len * head_dim;
  const int keys = causal ? row + 1 : seq_len;

  // 1. S = scale * q . k   [keys]. Each thread takes every THREADS-th key.
  float m = -INFINITY;
  for (int key = thread; key < keys; key += THREADS) {
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) s = fmaf(Q[head + row * head_dim + d], K[head + key * head_dim + d], s);
    P[key] = s * scale;
    m = fmaxf(m, P[key]);
  }

  // 2. m = the largest score of all threads
  // TODO

  // 3. P = exp(S - m), and l = the sum of P
  float l = 0.f;
  // TODO

  // 4. O = P V / l   [head_dim]. Groups of head_dim threads share the keys, and merge their sums.
  // TODO
}
