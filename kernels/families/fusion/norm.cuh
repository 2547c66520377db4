/*
[constants.THREADS]
default = 256
values = [64, 128, 256, 512]
meaning = "threads of a block"
*/
// One row of HIDDEN numbers in the registers of a block, its mean square (or mean and variance), and its norm.
#pragma once
#include "rows.cuh"
constexpr int CHUNKS = HIDDEN / X;                        // pieces of 16 bytes in a row
constexpr int PIECES = (CHUNKS + THREADS - 1) / THREADS;  // of one thread
constexpr int WARPS = THREADS / 32;

// The sum over all threads of a block, in every thread. parts_smem [WARPS] is used once.
__device__ __forceinline__ float block_sum(float v, float* parts_smem PROBE_REF) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = group_sum<32>(v);
  if (lane == 0) {
    PROBE_STORE(parts_smem, warp, 4);
    sts<float>(&parts_smem[warp], v);
  }
  __syncthreads();
  float part = 0;
  if (lane < WARPS) {
    PROBE_LOAD(parts_smem, lane, 4);
    part = lds<float>(&parts_smem[lane]);
  }
  return group_sum<32>(part);
}

// Each piece of this thread, the p-th at PIECE of its row
#define FOR_PIECES(p) UNROLL for (int p = 0; p < PIECES; ++p) if (PIECE(p) < CHUNKS)
#define PIECE(p) ((p) * THREADS + (int)threadIdx.x)

// row += residual. The sum is stored too: the next layer adds to it.
__device__ __forceinline__ void add_residual(const T* residual_gmem, T* sum_gmem, int token,
                                             float (&row)[PIECES][X] PROBE_REF) {
  FOR_PIECES(p) {
    const size_t at = (size_t)token * HIDDEN + PIECE(p) * X;
    float residual[X];
    PROBE_LOAD(residual_gmem, at, 16, token);
    unpack(ldg<float4>(&residual_gmem[at]), residual);
    UNROLL for (int e = 0; e < X; ++e) row[p][e] += residual[e];
    PROBE_STORE(sum_gmem, at, 16, token);
    stg<float4>(&sum_gmem[at], pack(row[p]));
  }
}

// y = row / sqrt(mean of row^2 + eps) * weight
__device__ __forceinline__ void rms_norm(const float (&row)[PIECES][X], const T* weight_gmem, T* y_gmem, int token,
                                         float eps, float* parts_smem PROBE_REF) {
  float4 weights[PIECES];  // they come during the sum
  FOR_PIECES(p) {
    PROBE_LOAD(weight_gmem, PIECE(p) * X, 16, token);
    weights[p] = ldg<float4>(&weight_gmem[PIECE(p) * X]);
  }
  float squares = 0;
  UNROLL for (int p = 0; p < PIECES; ++p)
    UNROLL for (int e = 0; e < X; ++e) squares = fmaf(row[p][e], row[p][e], squares);
  const float mean_square = block_sum(squares, parts_smem PROBE_PASS) / HIDDEN;
  PROBE_VALUE(mean_square, token, mean_square);
  const float factor = 1.f / sqrtf(mean_square + eps);
  FOR_PIECES(p) {
    float weight[X], y[X];
    unpack(weights[p], weight);
    UNROLL for (int e = 0; e < X; ++e) y[e] = row[p][e] * factor * weight[e];
    const size_t at = (size_t)token * HIDDEN + PIECE(p) * X;
    PROBE_STORE(y_gmem, at, 16, token);
    stg<float4>(&y_gmem[at], pack(y));
  }
}

// y = (row - mean) / sqrt(variance + eps) * weight + bias. The variance is of the differences from the mean, so a large
// mean takes no digits away.
__device__ __forceinline__ void layer_norm(const float (&row)[PIECES][X], const T* weight_gmem, const T* bias_gmem,
                                           T* y_gmem, int token, float eps, float* parts_smem PROBE_REF) {
  float4 weights[PIECES], biases[PIECES];  // they come during the sums
  FOR_PIECES(p) {
    PROBE_LOAD(weight_gmem, PIECE(p) * X, 16, token);
    weights[p] = ldg<float4>(&weight_gmem[PIECE(p) * X]);
    PROBE_LOAD(bias_gmem, PIECE(p) * X, 16, token);
    biases[p] = ldg<float4>(&bias_gmem[PIECE(p) * X]);
  }
  float sum = 0, squares = 0;
  UNROLL for (int p = 0; p < PIECES; ++p)
    UNROLL for (int e = 0; e < X; ++e) sum += row[p][e];
  const float mean = block_sum(sum, parts_smem PROBE_PASS) / HIDDEN;
  PROBE_VALUE(mean, token, mean);
  UNROLL for (int p = 0; p < PIECES; ++p)
    UNROLL for (int e = 0; e < X; ++e) {
      const float gap = PIECE(p) < CHUNKS ? row[p][e] - mean : 0;
      squares = fmaf(gap, gap, squares);
    }
  const float variance = block_sum(squares, parts_smem + WARPS PROBE_PASS) / HIDDEN;
  PROBE_VALUE(variance, token, variance);
  const float factor = 1.f / sqrtf(variance + eps);
  FOR_PIECES(p) {
    float weight[X], bias[X], y[X];
    unpack(weights[p], weight);
    unpack(biases[p], bias);
    UNROLL for (int e = 0; e < X; ++e) y[e] = (row[p][e] - mean) * factor * weight[e] + bias[e];
    const size_t at = (size_t)token * HIDDEN + PIECE(p) * X;
    PROBE_STORE(y_gmem, at, 16, token);
    stg<float4>(&y_gmem[at], pack(y));
  }
}
