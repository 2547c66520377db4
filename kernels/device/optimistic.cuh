/*
[constants.THRESHOLD]
default = 8192
values = [64, 8192]
meaning = "largest sum of a lane's weights in a row of a tile"
[constants.SHARE]
default = 2
values = [1, 2, 4]
meaning = "a lane's sum above 1 is at most 1/SHARE of its sum so far"
[constants.STREAK]
default = 2
values = [0, 1, 2, 4]
meaning = "tiles in a row that fit after a refusal, before the next skip"
*/
// The weights of a tile without a max of its own, and its log in the probed build
#pragma once
#include "fragments.cuh"

// P = exp(S - m) against the m of the tiles before, whatever the largest score is
//   sum  what the weights of each row add up to over this lane's columns
__device__ __forceinline__ void weigh(unsigned (&P_rmem)[BLOCK_KV / 4], float (&sum)[2],
                                      const float (&S_rmem)[BLOCK_KV / 2], const float (&m)[2], float scale) {
  const float to_log2 = scale * LOG2_E;
  const float base[2] = {exponent_base(m[0], to_log2), exponent_base(m[1], to_log2)};
  sum[0] = sum[1] = 0.f;
  UNROLL for (int i = 0; i < BLOCK_KV / 4; ++i) {
    const float left = exp2_approx(fmaf(S_rmem[2 * i], to_log2, -base[i % 2]));
    const float right = exp2_approx(fmaf(S_rmem[2 * i + 1], to_log2, -base[i % 2]));
    sum[i % 2] += left + right;
    P_rmem[i] = pair<T>(left, right);
  }
}

// The sum of a row's weights that refuses the tile
__device__ __forceinline__ void log_refused(const float (&sum)[2], const Fragment& at PROBE_REF) {
#ifdef PROBED
  const int tile = at.tile;
  for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const float refused = ROW_TOTAL(sum[r]);
    if (at.leads && row < at.seq_len) PROBE_VALUE(refused, row, tile, refused);
  }
#endif
}

// The numbers of a tile with the m of the tiles before: its max, m, a factor of 1, l with the tile, the weights
template <int N>
__device__ __forceinline__ void log_accepted(float (&S_rmem)[N], const float (&m)[2], const float (&l)[2],
                                             const Fragment& at PROBE_REF) {
#ifdef PROBED
  const float to_log2 = at.scale * LOG2_E, rescale = 1.f;
  const int tile = at.tile;
  for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const bool row_leader = at.leads && row < at.seq_len;
    float tile_max = -INFINITY;
    UNROLL for (int i = 2 * r; i < N; i += 4) tile_max = fmaxf(tile_max, fmaxf(S_rmem[i], S_rmem[i + 1]));
    tile_max = group_max<4>(tile_max);
    if (row_leader) PROBE_VALUE(tile_max, row, tile, at.scale * tile_max);
    if (row_leader) PROBE_VALUE(m, row, tile, at.scale * m[r]);
    if (row_leader) PROBE_VALUE(rescale, row, tile, rescale);
    const float total = ROW_TOTAL(l[r]);
    if (row_leader) PROBE_VALUE(l, row, tile, total);
  }
  UNROLL for (int i = 0; i < N; ++i) {
    S_rmem[i] = exp2_approx(fmaf(S_rmem[i], to_log2, -exponent_base(m[i / 2 % 2], to_log2)));
  }
  log_weights(S_rmem, at PROBE_PASS);
#endif
}
