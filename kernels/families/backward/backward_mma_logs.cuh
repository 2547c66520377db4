// The computed numbers of the backward on mma.sync, for the probes.
#pragma once
#include "backward_mma.cuh"

// Logs a copy of an array in a loop that is not unrolled, so that the probed build stays small.
template <int N, class Log> __device__ __forceinline__ void log_each(const float (&numbers)[N], Log log) {
#ifdef PROBED
  float copy[N];
  UNROLL for (int i = 0; i < N; ++i) copy[i] = numbers[i];
  NO_UNROLL for (int i = 0; i < N; ++i) log(i, copy[i]);
#endif
}
template <int N>
__device__ __forceinline__ void log_scores(const float (&S_rmem)[N], const Fragment& at PROBE_REF) {
  log_each(S_rmem, [&](int i, float number) {
    const int row = at.row_of(i), col = at.col_of(i);
    const float score = at.z.scale * number;
    if (at.sees(i)) PROBE_VALUE(score, row, col, score);
  });
}
template <int N>
__device__ __forceinline__ void log_gradients(const float (&dP_rmem)[N], const Fragment& at PROBE_REF) {
  log_each(dP_rmem, [&](int i, float dp) {
    const int row = at.row_of(i), col = at.col_of(i);
    if (at.sees(i)) PROBE_VALUE(dp, row, col, dp);
  });
}
template <int N>
__device__ __forceinline__ void log_weights(const float (&P_rmem)[N], const float (&dS_rmem)[N],
                                            const Fragment& at PROBE_REF) {
  log_each(P_rmem, [&](int i, float p) {
    const int row = at.row_of(i), col = at.col_of(i);
    if (at.sees(i)) PROBE_VALUE(p, row, col, p);
  });
  log_each(dS_rmem, [&](int i, float ds) {
    const int row = at.row_of(i), col = at.col_of(i);
    if (at.sees(i)) PROBE_VALUE(ds, row, col, ds);
  });
}
template <int N>
__device__ __forceinline__ void log_sums(const float (&dK_rmem)[N], const float (&dV_rmem)[N], const Fragment& at,
                                         int first_dim PROBE_REF) {
  const int tile = at.tile, lane_dim = first_dim + 2 * (threadIdx.x % 4);
  log_each(dK_rmem, [&](int i, float sum) {
    const int col = at.col_of(i), dim = lane_dim + i / 4 * 8 + i % 2;
    const float dk = at.z.scale * sum;
    if (col < at.z.keys) PROBE_VALUE(dk, col, tile, dim, dk);
  });
  log_each(dV_rmem, [&](int i, float dv) {
    const int col = at.col_of(i), dim = lane_dim + i / 4 * 8 + i % 2;
    if (col < at.z.keys) PROBE_VALUE(dv, col, tile, dim, dv);
  });
}
__device__ __forceinline__ void log_query_part(const float (&dQ_rmem)[2][DIMS / 2], int warp_row, int first_dim,
                                               int key_tile, const Sizes& z PROBE_REF) {
  UNROLL for (int part = 0; part < 2; ++part) {
    log_each(dQ_rmem[part], [&](int i, float sum) {
      const int row = warp_row + part * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
      const int dim = first_dim + 2 * (threadIdx.x % 4) + i / 4 * 8 + i % 2;
      const float dq = z.scale * sum;
      if (row < z.seq_len) PROBE_VALUE(dq_part, row, key_tile, dim, dq);
    });
  }
}
