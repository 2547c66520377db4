/*
title = "Attention over lists of keys (CSR)"
idea = """a warp computes one row, 32 of its listed keys at a time, each lane the score of one. Then all lanes add up \
the values, each its own dims."""
changed_from = "04_warp_rows"
changed = """no tiles. Each row has a list of its own keys and gathers their K and V from global memory only for \
itself."""
costs = """no other row shares the loads. Every score costs a key and a value from the caches, and a tile of 32 rows \
loads them once."""
limits = "fp32. HEAD_DIM 32, 64 or 128. Any mask that is the same for all heads."
source = """Child et al. 2019, "Generating Long Sequences with Sparse Transformers", arXiv:1904.10509. \
scipy.sparse.csr_array, the origin of indptr and indices."""
family = "sparse"
problem = "csr"

[constants]  # meaning and effect: common.cuh
WARPS = {default = 4, values = [1, 2, 4, 8], meaning = "rows of a block, a warp for each"}
SUBTRACT_MAX = {}
RESCALE = {}

[[launches]]
entry = "csr_attention"
grid = ["ceil_div(seq_len, WARPS)", "batch * num_heads"]
block = ["32 * WARPS"]
args = ["q", "k", "v", "indptr", "indices", "o", "lse", "int32 seq_len", "float32 scale"]
item = "rows of a block"
*/
#include "common.cuh"
#define DIMS (HEAD_DIM / 32)  // dims of O for one lane: every 32nd
#define ALL_LANES 0xffffffffu
#define UNROLL _Pragma("unroll")

// O = softmax(scale * Q @ K^T) @ V over the keys that the row's list names, and lse = m + log l.
//   Q_gmem, K_gmem, V_gmem, O_gmem  [batch * num_heads, seq_len, HEAD_DIM];  LSE_gmem  [batch * num_heads, seq_len]
//   indptr_gmem  [seq_len + 1];  indices_gmem  the keys of row i from indptr[i] to indptr[i + 1]
extern "C" __global__ void __launch_bounds__(32 * WARPS)
csr_attention(const float* Q_gmem, const float* K_gmem, const float* V_gmem, const int* indptr_gmem,
              const int* indices_gmem, float* O_gmem, float* LSE_gmem, int seq_len, float scale PROBE_PARAM) {
  const int lane = threadIdx.x % 32, row = blockIdx.x * WARPS + threadIdx.x / 32;
  const size_t head = (size_t)blockIdx.y * seq_len;
  PROBE_BEGIN();
  if (row >= seq_len) return;
  PROBE_LOAD(indptr_gmem, row, 4);
  const int row_start = ldg<int>(&indptr_gmem[row]);
  PROBE_LOAD(indptr_gmem, row + 1, 4);
  const int row_end = ldg<int>(&indptr_gmem[row + 1]);
  float m = SUBTRACT_MAX ? -INFINITY : 0.f, l = 0.f, O_rmem[DIMS] = {};
  for (int first = row_start; first < row_end; first += 32) {
    const int tile = (first - row_start) / 32, count = min(32, row_end - first);
    PROBE_MARK(tile_begin, tile);

    // score = scale * q . k   of this lane's key
    PROBE_MARK(scores, tile);
    int col = 0;
    float score = -INFINITY;
    if (lane < count) {
      PROBE_LOAD(indices_gmem, first + lane, 4);
      col = ldg<int>(&indices_gmem[first + lane]);
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
      for (int d = 0; d < HEAD_DIM; d += 4) {
        PROBE_LOAD(Q_gmem, (head + row) * HEAD_DIM + d, 16);
        const float4 q4 = ldg<float4>(&Q_gmem[(head + row) * HEAD_DIM + d]);
        PROBE_LOAD(K_gmem, (head + col) * HEAD_DIM + d, 16);
        const float4 k4 = ldg<float4>(&K_gmem[(head + col) * HEAD_DIM + d]);
        sum = fma4(q4, k4, sum);
      }
      score = scale * add4(sum);
      PROBE_VALUE(score, row, col, score);
    }

    // m_new = max(m, max S);  P = exp(S - m_new);  l = exp(m - m_new) * l + sum P
    PROBE_MARK(softmax, tile);
    const float tile_max = group_max<32>(score);
    if (lane == 0) PROBE_VALUE(tile_max, row, tile, tile_max);
    const float m_new = SUBTRACT_MAX ? fmaxf(m, tile_max) : 0.f;
    if (lane == 0) PROBE_VALUE(m, row, tile, m_new);
    const float rescale = RESCALE ? expf(m - m_new) : 1.f;
    if (lane == 0) PROBE_VALUE(rescale, row, tile, rescale);
    const float p = expf(score - m_new);
    if (lane < count) PROBE_VALUE(p, row, col, p);
    l = fmaf(l, rescale, group_sum<32>(p));
    if (lane == 0) PROBE_VALUE(l, row, tile, l);
    m = m_new;

    // O = exp(m - m_new) * O + P @ V   [DIMS] of this lane
    PROBE_MARK(output, tile);
    UNROLL for (int i = 0; i < DIMS; ++i) O_rmem[i] *= rescale;
    for (int key = 0; key < count; ++key) {
      const int listed = __shfl_sync(ALL_LANES, col, key);
      const float weight = __shfl_sync(ALL_LANES, p, key);
      UNROLL for (int i = 0; i < DIMS; ++i) {
        PROBE_LOAD(V_gmem, (head + listed) * HEAD_DIM + i * 32 + lane, 4);
        const float v = ldg<float>(&V_gmem[(head + listed) * HEAD_DIM + i * 32 + lane]);
        O_rmem[i] = fmaf(weight, v, O_rmem[i]);
      }
    }
    UNROLL for (int i = 0; i < DIMS; ++i) {
      const int dim = i * 32 + lane;
      PROBE_VALUE(o, row, tile, dim, O_rmem[i]);
    }
    PROBE_MARK(tile_end, tile);
  }

  // O = O / l. A row without keys has 0.
  PROBE_MARK(write, row);
  UNROLL for (int i = 0; i < DIMS; ++i) {
    PROBE_STORE(O_gmem, (head + row) * HEAD_DIM + i * 32 + lane, 4);
    stg<float>(&O_gmem[(head + row) * HEAD_DIM + i * 32 + lane], l == 0.f ? 0.f : O_rmem[i] / l);
  }
  if (lane == 0) {
    PROBE_STORE(LSE_gmem, head + row, 4);
    stg<float>(&LSE_gmem[head + row], l == 0.f ? -INFINITY : m + logf(l));
  }
}
