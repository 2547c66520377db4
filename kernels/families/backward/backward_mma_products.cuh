// The steps of a tile of the backward on mma.sync: products of two parts of 16 rows, P and dS, and their ways through
// shared memory and to dQ.
#pragma once
#include "backward_mma_logs.cuh"

// sums += A @ B   two parts of 16 rows, in the 16 columns from `column` on
template <int N>
__device__ __forceinline__ void multiply(float (&sums)[2][N], int column, const unsigned (&A)[2][4],
                                         const unsigned (&B)[4]) {
  UNROLL for (int part = 0; part < 2; ++part) {
    mma<T>(four(sums[part], column / 8), A[part], B[0], B[1]);
    mma<T>(four(sums[part], column / 8 + 1), A[part], B[2], B[3]);
  }
}

// P = exp(S - LSE) of eight columns, in place of S: two parts of 16 keys
__device__ __forceinline__ void weights(float (&S_rmem)[2][HALF_Q / 2], int i, const float* STATS_smem, int stats,
                                        float to_log2 PROBE_REF) {
  const int query = stats + i * 8 + 2 * (threadIdx.x % 4);
  PROBE_LOAD(STATS_smem, query, 8);
  const float2 lse = lds<float2>(&STATS_smem[query]);
  UNROLL for (int part = 0; part < 2; ++part) {
    UNROLL for (int e = 0; e < 4; ++e) {
      float& s = S_rmem[part][4 * i + e];
      s = exp2_approx(fmaf(s, to_log2, e % 2 ? -lse.y : -lse.x));  // logged: p
    }
  }
}

// dS = P * (dP - delta), in place of dP
__device__ __forceinline__ void score_gradients(const float (&P_rmem)[2][HALF_Q / 2], float (&dP_rmem)[2][HALF_Q / 2],
                                                const float* STATS_smem, int stats PROBE_REF) {
  UNROLL for (int i = 0; i < HALF_Q / 8; ++i) {
    const int query = stats + i * 8 + 2 * (threadIdx.x % 4);
    PROBE_LOAD(STATS_smem, query, 8);
    const float2 delta = lds<float2>(&STATS_smem[query]);
    UNROLL for (int part = 0; part < 2; ++part) {
      UNROLL for (int e = 0; e < 4; ++e) {
        float& dp = dP_rmem[part][4 * i + e];
        dp = P_rmem[part][4 * i + e] * (dp - (e % 2 ? delta.y : delta.x));  // logged: ds
      }
    }
  }
}

// The operand of 16 queries from query n on
__device__ __forceinline__ void take(unsigned (&A)[2][4], const unsigned (&words)[2][HALF_Q / 4], int n) {
  UNROLL for (int i = 0; i < 8; ++i) A[i / 4][i % 4] = words[i / 4][n / 4 + i % 4];
}

// 16 keys of P and dS, HALF_Q queries, from this lane's index on. Word i: key lane / 4 + i % 2 * 8, two queries from
// i / 2 * 8 on.
__device__ __forceinline__ void store_tiles(T* P_smem, T* dS_smem, int to_lane, const unsigned (&P_rmem)[HALF_Q / 4],
                                            const unsigned (&dS_rmem)[HALF_Q / 4] PROBE_REF) {
  UNROLL for (int i = 0; i < HALF_Q / 4; ++i) {
    const int to = (to_lane ^ i / 2 * 8) + i % 2 * 8 * BLOCK_Q;
    PROBE_STORE(P_smem, to, 4);
    sts<int>(&P_smem[to], P_rmem[i]);
    PROBE_STORE(dS_smem, to, 4);
    sts<int>(&dS_smem[to], dS_rmem[i]);
  }
}

// The operands of 16 queries, from this lane's index on
__device__ __forceinline__ void load_tiles(unsigned (&P)[2][4], unsigned (&dS)[2][4], const T* P_smem, const T* dS_smem,
                                           int from_lane PROBE_REF) {
  UNROLL for (int part = 0; part < 2; ++part) {
    const int from = from_lane + part * 16 * BLOCK_Q;
    PROBE_LDMATRIX(P_smem, from, 16);
    ldmatrix(P[part], &P_smem[from]);
    PROBE_LDMATRIX(dS_smem, from, 16);
    ldmatrix(dS[part], &dS_smem[from]);
  }
}

// dQ part = dS @ K   [32, DIMS], from these queries and dims on. ldmatrix transposes 16 keys x 16 queries of dS.
__device__ __forceinline__ void multiply_keys(float (&dQ_rmem)[2][DIMS / 2], const T* dS_smem, const T* K_smem,
                                              int query, int first_dim PROBE_REF) {
  const int lane = threadIdx.x % 32, key_lane = smem_index(lane % 16, lane / 16 * 8);
  UNROLL for (int i = 0; i < DIMS; ++i) dQ_rmem[i / (DIMS / 2)][i % (DIMS / 2)] = 0.f;
  UNROLL for (int n = 0; n < BLOCK_KV; n += 16) {
    unsigned dS_rmem[2][4];
    UNROLL for (int part = 0; part < 2; ++part) {
      const int from = ds_index(n + lane / 16 * 8 + lane % 8, query + part * 16 + lane / 8 % 2 * 8);
      PROBE_LDMATRIX(dS_smem, from, 16);
      ldmatrix_trans(dS_rmem[part], &dS_smem[from]);
    }
    UNROLL for (int d = 0; d < DIMS; d += 16) {
      const int from = n * HEAD_DIM + (key_lane ^ (first_dim + d));
      unsigned K_rmem[4];
      PROBE_LDMATRIX(K_smem, from, 16);
      ldmatrix_trans(K_rmem, &K_smem[from]);
      multiply(dQ_rmem, d, dS_rmem, K_rmem);  // logged: dq_part
    }
  }
}

// Adds four sums of each lane to a tile of dQ, which has this warp's sums from this index on
__device__ __forceinline__ void add_sums(float* SUMS_gmem, const float (&dQ_rmem)[2][DIMS / 2], long long to,
                                         int i PROBE_REF) {
  const float* v = &dQ_rmem[i / (DIMS / 8)][i % (DIMS / 8) * 4];
  PROBE_STORE(SUMS_gmem, to + i * 128, 16);
  global_add(&SUMS_gmem[to + i * 128], make_float4(v[0], v[1], v[2], v[3]));
}
