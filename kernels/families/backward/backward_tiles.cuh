/*
[constants.WARPS]
default = 8
values = [4, 8]
meaning = "warps of a block, which share the 32 rows of a tile"
[constants.PAD]
default = 4
values = [4, 0]
meaning = "floats left free after each row of a tile in shared memory, against bank conflicts"
*/
// The tiles of the fp32 rungs: 32 queries and 32 keys in shared memory, and the products P and dS of both. Rows after
// the last query or key are zeros.
#pragma once
#include "backward.cuh"
#define TILE 32                  // rows, one for each lane of a warp
#define STRIDE (HEAD_DIM + PAD)  // floats per row of a tile. 4 more spread eight rows over all banks.
#define THREADS (32 * WARPS)
#define DIMS (HEAD_DIM / 32)     // dims of a gradient for one lane: every 32nd
#define ROWS (TILE / WARPS)      // rows of a tile for one warp

__device__ __forceinline__ void load_queries(const float* Q_gmem, const float* dO_gmem, float* Q_smem, float* dO_smem,
                                             const Sizes& z, const Head& head, int first_row PROBE_REF) {
  for (int i = threadIdx.x * 4; i < TILE * HEAD_DIM; i += THREADS * 4) {
    const int row = first_row + i / HEAD_DIM, to = i / HEAD_DIM * STRIDE + i % HEAD_DIM;
    const long long from = head.q + (long long)row * z.q_row + i % HEAD_DIM;
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f), do4 = q4;
    if (row < z.seq_len) {
      PROBE_LOAD(Q_gmem, from, 16);
      q4 = ldg<float4>(&Q_gmem[from]);
      PROBE_LOAD(dO_gmem, from, 16);
      do4 = ldg<float4>(&dO_gmem[from]);
    }
    PROBE_STORE(Q_smem, to, 16);
    sts<float4>(&Q_smem[to], q4);
    PROBE_STORE(dO_smem, to, 16);
    sts<float4>(&dO_smem[to], do4);
  }
}

__device__ __forceinline__ void load_keys(const float* K_gmem, float* K_smem, const Sizes& z, const Head& head,
                                          int first_col PROBE_REF) {
  for (int i = threadIdx.x * 4; i < TILE * HEAD_DIM; i += THREADS * 4) {
    const int col = first_col + i / HEAD_DIM, to = i / HEAD_DIM * STRIDE + i % HEAD_DIM;
    const long long from = head.kv + (long long)col * z.kv_row + i % HEAD_DIM;
    float4 k4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (col < z.keys) {
      PROBE_LOAD(K_gmem, from, 16);
      k4 = ldg<float4>(&K_gmem[from]);
    }
    PROBE_STORE(K_smem, to, 16);
    sts<float4>(&K_smem[to], k4);
  }
}

__device__ __forceinline__ void load_values(const float* V_gmem, float* V_smem, const Sizes& z, const Head& head,
                                            int first_col PROBE_REF) {
  for (int i = threadIdx.x * 4; i < TILE * HEAD_DIM; i += THREADS * 4) {
    const int col = first_col + i / HEAD_DIM, to = i / HEAD_DIM * STRIDE + i % HEAD_DIM;
    const long long from = head.kv + (long long)col * z.kv_row + i % HEAD_DIM;
    float4 v4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (col < z.keys) {
      PROBE_LOAD(V_gmem, from, 16);
      v4 = ldg<float4>(&V_gmem[from]);
    }
    PROBE_STORE(V_smem, to, 16);
    sts<float4>(&V_smem[to], v4);
  }
}

// sum += a * b, rounded once. `lost` collects the roundings.
__device__ __forceinline__ void add_product(float& sum, float& lost, float a, float b) {
  const float before = sum;
  sum = fmaf(a, b, before);
  lost += fmaf(a, b, before - sum);
}

// P = exp(scale * Q @ K^T - LSE) of a tile, 0 for hidden keys. A warp computes ROWS keys, each lane a query.
// The error of S - LSE is the relative error of P. Where P is large, S is near LSE: no rounding of a large S may stay.
//   P_rmem  [ROWS] of this lane;  Q_smem, K_smem  [TILE, STRIDE];  LSE_gmem  of all heads
__device__ __forceinline__ void weights(float (&P_rmem)[ROWS], const float* Q_smem, const float* K_smem,
                                        const float* LSE_gmem, const Sizes& z, const Head& head, int first_row,
                                        int first_col PROBE_REF) {
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS, row = first_row + lane;
  float S_rmem[ROWS] = {}, lost[ROWS] = {}, lse = 0.f;
  _Pragma("unroll 2") for (int d = 0; d < HEAD_DIM; d += 4) {
    PROBE_LOAD(Q_smem, lane * STRIDE + d, 16);
    const float4 q4 = lds<float4>(&Q_smem[lane * STRIDE + d]);
    UNROLL for (int r = 0; r < ROWS; ++r) {
      PROBE_LOAD(K_smem, (own + r) * STRIDE + d, 16);
      const float4 k4 = lds<float4>(&K_smem[(own + r) * STRIDE + d]);
      add_product(S_rmem[r], lost[r], q4.x, k4.x), add_product(S_rmem[r], lost[r], q4.y, k4.y);
      add_product(S_rmem[r], lost[r], q4.z, k4.z), add_product(S_rmem[r], lost[r], q4.w, k4.w);
    }
  }
  if (row < z.seq_len) {
    PROBE_LOAD(LSE_gmem, head.row + row, 4);
    lse = ldg<float>(&LSE_gmem[head.row + row]);
  }
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const int col = first_col + own + r;
    const bool seen = z.sees(row, col);
    const float score = z.scale * S_rmem[r];
    const float p = seen ? expf(fmaf(z.scale, S_rmem[r], -lse) + z.scale * lost[r]) : 0.f;
    if (seen) PROBE_VALUE(score, row, col, score);
    if (seen) PROBE_VALUE(p, row, col, p);
    P_rmem[r] = p;
  }
}

// dS = P * (dO @ V^T - delta) of a tile, in the same places as P
//   dS_rmem, P_rmem  [ROWS] of this lane;  dO_smem, V_smem  [TILE, STRIDE];  DELTA_gmem  of all heads
__device__ __forceinline__ void score_gradients(float (&dS_rmem)[ROWS], const float (&P_rmem)[ROWS],
                                                const float* dO_smem, const float* V_smem, const float* DELTA_gmem,
                                                const Sizes& z, const Head& head, int first_row,
                                                int first_col PROBE_REF) {
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS, row = first_row + lane;
  float dP_rmem[ROWS] = {}, delta = 0.f;
  for (int part = 0; part < HEAD_DIM; part += 32) {
    float4 sum[ROWS] = {};
    _Pragma("unroll 2") for (int d = part; d < part + 32; d += 4) {
      PROBE_LOAD(dO_smem, lane * STRIDE + d, 16);
      const float4 do4 = lds<float4>(&dO_smem[lane * STRIDE + d]);
      UNROLL for (int r = 0; r < ROWS; ++r) {
        PROBE_LOAD(V_smem, (own + r) * STRIDE + d, 16);
        sum[r] = fma4(do4, lds<float4>(&V_smem[(own + r) * STRIDE + d]), sum[r]);
      }
    }
    UNROLL for (int r = 0; r < ROWS; ++r) dP_rmem[r] += add4(sum[r]);
  }
  if (row < z.seq_len) {
    PROBE_LOAD(DELTA_gmem, head.row + row, 4);
    delta = ldg<float>(&DELTA_gmem[head.row + row]);
  }
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const int col = first_col + own + r;
    const float dp = dP_rmem[r], ds = P_rmem[r] * (dp - delta);
    if (z.sees(row, col)) PROBE_VALUE(dp, row, col, dp);
    if (z.sees(row, col)) PROBE_VALUE(ds, row, col, ds);
    dS_rmem[r] = ds;
  }
}

// sums += part. A tile has a sum of its own, because shorter sums round less.
__device__ __forceinline__ void add_tile(float (&sums)[ROWS][DIMS], const float (&part)[ROWS][DIMS]) {
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int j = 0; j < DIMS; ++j) sums[r][j] += part[r][j];
  }
}

// Log the sums of this lane after a tile, from key or query `first` on.
__device__ __forceinline__ void log_dv(const float (&dV_rmem)[ROWS][DIMS], int first, int tile,
                                       const Sizes& z PROBE_REF) {
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int j = 0; j < DIMS; ++j) {
      const int col = first + r, dim = threadIdx.x % 32 + 32 * j;
      if (col < z.keys) PROBE_VALUE(dv, col, tile, dim, dV_rmem[r][j]);
    }
  }
}
__device__ __forceinline__ void log_dk(const float (&dK_rmem)[ROWS][DIMS], int first, int tile,
                                       const Sizes& z PROBE_REF) {
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int j = 0; j < DIMS; ++j) {
      const int col = first + r, dim = threadIdx.x % 32 + 32 * j;
      if (col < z.keys) PROBE_VALUE(dk, col, tile, dim, z.scale * dK_rmem[r][j]);
    }
  }
}
__device__ __forceinline__ void log_dq(const float (&dQ_rmem)[ROWS][DIMS], int first, int tile,
                                       const Sizes& z PROBE_REF) {
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int j = 0; j < DIMS; ++j) {
      const int row = first + r, dim = threadIdx.x % 32 + 32 * j;
      if (row < z.seq_len) PROBE_VALUE(dq, row, tile, dim, z.scale * dQ_rmem[r][j]);
    }
  }
}
__device__ __forceinline__ void log_dq_part(const float (&dQ_rmem)[ROWS][DIMS], int first, int key_tile,
                                            const Sizes& z PROBE_REF) {
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int j = 0; j < DIMS; ++j) {
      const int row = first + r, dim = threadIdx.x % 32 + 32 * j;
      if (row < z.seq_len) PROBE_VALUE(dq_part, row, key_tile, dim, z.scale * dQ_rmem[r][j]);
    }
  }
}
