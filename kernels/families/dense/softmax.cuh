// The softmax of one row of scores, as 01_naive and 02_tiled compute it: a warp reads the row three times.
#pragma once
#include "common.cuh"

// P = exp(S - m) / l   [keys], where m is the largest score of the row and l the sum of exp(S - m).
//   S_gmem, P_gmem  [batch * num_heads, seq_len, seq_len]; the row starts at index s
//   row             the row's query in its head
//   keys            number of keys visible to the query. The rest of the row is neither read nor written.
// Each lane takes every 32nd key. All lanes make the same number of rounds, so that the warp stays together.
__device__ __forceinline__ void softmax_row(const float* S_gmem, float* P_gmem, size_t s, int row, int keys PROBE_REF) {
  const int lane = threadIdx.x;
  PROBE_MARK(row_max, row);
  float m = -INFINITY;
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    m = fmaxf(m, ldg<float>(&S_gmem[s + col]));
  }
  m = SUBTRACT_MAX ? group_max<32>(m) : 0.f;
  if (lane == 0) PROBE_VALUE(m, row, m);

  PROBE_MARK(row_sum, row);
  float l = 0.f;
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    l += expf(ldg<float>(&S_gmem[s + col]) - m);
  }
  l = group_sum<32>(l);
  if (lane == 0) PROBE_VALUE(l, row, l);

  PROBE_MARK(divide, row);
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    const float p = expf(ldg<float>(&S_gmem[s + col]) - m) / l;
    PROBE_VALUE(p, row, col, p);
    PROBE_STORE(P_gmem, s + col, 4);
    stg<float>(&P_gmem[s + col], p);
  }
}
