/*
title = "Sums of several blocks"
idea = "blocks share a row. Each adds its part to the same sums, so each addition is an atomic."
changed = "nothing, this is an exercise."
costs = "an atomic for each column and tile of keys, and two more launches."
limits = "fp32. head_dim is a multiple of 32. Tiles of 32 keys."
source = "CUDA C++ Programming Guide, section \"Atomic Functions\"."
family = "dense"
scratch.m = {shape = ["batch", "num_heads", "seq_len"], axes = ["batch", "head", "query"]}
scratch.l_sum = {shape = ["batch", "num_heads", "seq_len"], axes = ["batch", "head", "query"], initial = "zero"}
scratch.O_sum = {axes = ["batch", "head", "query", "dim"], initial = "zero", shape = [
  "batch", "num_heads", "seq_len", "head_dim"]}

[[launches]]
entry = "largest"
grid = ["seq_len", "batch * num_heads"]
block = [32]
args = ["q", "k", "m", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query row"

[[launches]]
entry = "sums"
grid = ["ceil_div(seq_len, 32)", "seq_len", "batch * num_heads"]
block = ["head_dim"]
args = ["q", "k", "v", "m", "l_sum", "O_sum", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query row"
blocks_per_item = "ceil_div(seq_len, 32)"

[[launches]]
entry = "divide"
grid = ["seq_len", "batch * num_heads"]
block = ["head_dim"]
args = ["l_sum", "O_sum", "o", "int32 seq_len"]
item = "query row"
*/
#define TILE 32  // keys of one block

// scale * q . k
__device__ float score(const float* q, const float* k, int head_dim, float scale) {
  float s = 0.f;
  for (int d = 0; d < head_dim; ++d) s = fmaf(q[d], k[d], s);
  return s * scale;
}

// m = the largest score of each row   [batch * num_heads, seq_len]. A warp computes one row. This kernel is done.
extern "C" __global__ void largest(const float* Q, const float* K, float* m, int seq_len, int head_dim, int causal,
                                   float scale) {
  const int row = blockIdx.x, head = blockIdx.y, keys = causal ? row + 1 : seq_len;
  const size_t first = (size_t)head * seq_len;
  float most = -INFINITY;
  for (int key = threadIdx.x; key < keys; key += 32)
    most = fmaxf(most, score(Q + (first + row) * head_dim, K + (first + key) * head_dim, head_dim, scale));
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, step));
  if (threadIdx.x == 0) m[first + row] = most;
}

// The sums of one row: l_sum = sum of P, and O_sum = P V. A block takes 32 keys, so several blocks share a row.
//   l_sum  [batch * num_heads, seq_len]            zero before the launch
//   O_sum  [batch * num_heads, seq_len, head_dim]  zero before the launch
extern "C" __global__ void sums(const float* Q, const float* K, const float* V, const float* m, float* l_sum,
                                float* O_sum, int seq_len, int causal, float scale) {
  __shared__ float P[TILE];
  const int row = blockIdx.y, thread = threadIdx.x, head_dim = blockDim.x;
  const int first = blockIdx.x * TILE, keys = causal ? row + 1 : seq_len, count = min(TILE, keys - first);
  const size_t head = (size_t)blockIdx.z * seq_len, query = head + row;
  if (count <= 0) return;
  if (thread < count) {
    const float s = score(Q + query * head_dim, K + (head + first + thread) * head_dim, head_dim, scale);
    P[thread] = expf(s - m[query]);
  }
  __syncthreads();

  float l = 0.f, o = 0.f;
  for (int i = 0; i < count; ++i) {
    l += P[i];
    o = fmaf(P[i], V[(head + first + i) * head_dim + thread], o);
  }
  if (thread == 0) atomicAdd(&l_sum[query], l);
  atomicAdd(&O_sum[query * head_dim + thread], o);
}

// O = O_sum / l_sum   [batch * num_heads, seq_len, head_dim]. This kernel is done.
extern "C" __global__ void divide(const float* l_sum, const float* O_sum, float* O, int seq_len) {
  const size_t query = (size_t)blockIdx.y * seq_len + blockIdx.x, at = query * blockDim.x + threadIdx.x;
  O[at] = O_sum[at] / l_sum[query];
}
