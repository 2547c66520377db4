// 01_naive. Idea: one thread per score. S and P are written to global memory, and everything is read from there.
// Changed from the rung before: nothing, this is the baseline.
// Costs: K and V are read once for each query row (N times in all), and S and P take N x N floats each.
// Limits: fp32; HEAD_DIM 32, 64 or 128; global memory for 2 N^2 floats per head.
// Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1.
#include "common.cuh"

// S = scale * Q @ K^T   [seq_len, seq_len]
extern "C" __global__ void scores(const float* Q_gmem, const float* K_gmem, float* S_gmem, int seq_len, int causal,
                                  float scale PROBE_PARAM) {
  const int row = blockIdx.y * BLOCK_Q + threadIdx.y;   // query
  const int col = blockIdx.x * BLOCK_KV + threadIdx.x;  // key
  const int tile = blockIdx.x;
  if (row >= seq_len || col >= seq_len || (causal && col > row)) return;
  PROBE_BEGIN();
  PROBE_MARK(tile_begin, tile);
  PROBE_MARK(scores, tile);
  const size_t head = (size_t)blockIdx.z * seq_len;
  const size_t q = (head + row) * HEAD_DIM, k = (head + col) * HEAD_DIM, s = (head + row) * seq_len + col;

  float dot = 0.f;
  for (int part = 0; part < HEAD_DIM; part += 32) {  // 32 dims at a time: shorter sums round less
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int d = part; d < part + 32; d += 4) {
      PROBE_LOAD(Q_gmem, q + d, 16);
      const float4 q4 = ldg<float4>(&Q_gmem[q + d]);
      PROBE_LOAD(K_gmem, k + d, 16);
      const float4 k4 = ldg<float4>(&K_gmem[k + d]);
      sum = fma4(q4, k4, sum);
    }
    dot += add4(sum);
  }
  const float score = scale * dot;
  PROBE_VALUE(score, row, col, score);
  PROBE_STORE(S_gmem, s, 4);
  stg<float>(&S_gmem[s], score);
  PROBE_MARK(tile_end, tile);
}

// P = exp(S - m) / l, row by row, m and l the row's max and sum   [seq_len, seq_len]; one warp per row
extern "C" __global__ void softmax(const float* S_gmem, float* P_gmem, int seq_len, int causal PROBE_PARAM) {
  const int row = blockIdx.y * BLOCK_Q + threadIdx.y, lane = threadIdx.x;
  if (row >= seq_len) return;
  const int keys = causal ? row + 1 : seq_len;
  const size_t s = ((size_t)blockIdx.z * seq_len + row) * seq_len;
  PROBE_BEGIN();

  PROBE_MARK(row_max, row);
  float m = -INFINITY;
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {  // all lanes alike, so that the warp stays together
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    m = fmaxf(m, ldg<float>(&S_gmem[s + col]));
  }
  m = SUBTRACT_MAX ? group_max<32>(m) : 0.f;
  if (lane == 0) PROBE_VALUE(m, row, m);

  PROBE_MARK(row_sum, row);
  float l = 0.f;
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {  // all lanes alike, so that the warp stays together
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    l += expf(ldg<float>(&S_gmem[s + col]) - m);
  }
  l = group_sum<32>(l);
  if (lane == 0) PROBE_VALUE(l, row, l);

  PROBE_MARK(divide, row);
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {  // all lanes alike, so that the warp stays together
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    const float p = expf(ldg<float>(&S_gmem[s + col]) - m) / l;
    PROBE_VALUE(p, row, col, p);
    PROBE_STORE(P_gmem, s + col, 4);
    stg<float>(&P_gmem[s + col], p);
  }
}

// O = P @ V   [seq_len, HEAD_DIM]
extern "C" __global__ void output(const float* P_gmem, const float* V_gmem, float* O_gmem, int seq_len,
                                  int causal PROBE_PARAM) {
  const int row = blockIdx.y * BLOCK_Q + threadIdx.y;
  const int dim = blockIdx.x * BLOCK_KV + threadIdx.x;
  if (row >= seq_len) return;
  const int keys = causal ? row + 1 : seq_len;
  const size_t head = (size_t)blockIdx.z * seq_len;
  const size_t p = (head + row) * seq_len, v = head * HEAD_DIM + dim, o = (head + row) * HEAD_DIM + dim;
  PROBE_BEGIN();

  PROBE_MARK(output, row);
  float sum = 0.f;
  for (int col = 0; col < keys; ++col) {
    PROBE_LOAD(P_gmem, p + col, 4);
    const float p_col = ldg<float>(&P_gmem[p + col]);
    PROBE_LOAD(V_gmem, v + (size_t)col * HEAD_DIM, 4);
    sum = fmaf(p_col, ldg<float>(&V_gmem[v + (size_t)col * HEAD_DIM]), sum);
  }
  PROBE_VALUE(o, row, dim, sum);
  PROBE_STORE(O_gmem, o, 4);
  stg<float>(&O_gmem[o], sum);
}
