/*
title = "Stream"
idea = "every thread has several 16-byte loads on their way at once. The bytes that come per second are the bandwidth."
changed_from = "lab_chase"
changed = "as many loads at a time as fit, in place of one."
costs = "a working set that fits in L1, in L2 or in neither shows each one's bandwidth. A copy also writes."
limits = "a working set of whole rounds: a multiple of 64 bytes for every thread of the grid."
source = "McCalpin, \"STREAM: Sustainable Memory Bandwidth in High Performance Computers\", 1995."
family = "lab"
problem = "stream"
rung = 6

[[launches]]
entry = "lab_stream"
grid = ["blocks"]
block = ["threads"]
shared_bytes = "16 * vectors if SPACE == SPACE_SHARED else 0"
args = ["x", "y", "o", "int32 vectors", "int32 passes"]
*/
#include "common.cuh"
#define UNROLL 4  // loads of 16 bytes that a thread has under way at once

// O[thread] = passes * the sum of the thread's numbers of X. A copy is Y = X. Each block has its own part of X.
//   X_gmem  [blocks, vectors, 4]
//   Y_gmem  [blocks, vectors, 4]  written only by a copy, otherwise [1, 1, 1]
//   O_gmem  [blocks, threads]     written by all but a copy, [1, 1] for a copy
// SPACE, a constant of the build, says where X is read: SPACE_THROUGH_L1, SPACE_FROM_L2 (past L1), SPACE_SHARED (from
// shared memory, where it is brought first) or SPACE_COPY (through L1, and written to Y).
extern "C" __global__ void __launch_bounds__(1024) lab_stream(
    const float* X_gmem, float* Y_gmem, float* O_gmem, int vectors, int passes PROBE_PARAM) {
  DYNAMIC_SMEM(float, X_smem);  // [vectors, 4], where SPACE is SPACE_SHARED
  const int thread = threadIdx.x, threads = blockDim.x, tile = blockIdx.x;
  const size_t first = (size_t)blockIdx.x * vectors * 4;
  PROBE_BEGIN();
  if (SPACE == SPACE_SHARED) {
    PROBE_MARK(load_tile, tile);
    for (int i = thread; i < vectors; i += threads) {
      PROBE_LOAD(X_gmem, first + i * 4, 16);
      const float4 x = ldg<float4>(&X_gmem[first + i * 4]);
      PROBE_STORE(X_smem, i * 4, 16);
      sts<float4>(&X_smem[i * 4], x);
    }
    __syncthreads();
  }
  PROBE_MARK(walk, tile);
  float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
  for (int pass = 0; pass < passes; ++pass) {
    for (int i = thread; i < vectors; i += threads * UNROLL) {
      float4 x[UNROLL];
#pragma unroll
      for (int n = 0; n < UNROLL; ++n) {
        const int at = (i + n * threads) * 4;
        if (SPACE == SPACE_SHARED) {
          PROBE_LOAD(X_smem, at, 16);
          x[n] = lds<float4>(&X_smem[at]);
        } else if (SPACE == SPACE_FROM_L2) {
          PROBE_LOAD(X_gmem, first + at, 16);
          x[n] = ldg_l2<float4>(&X_gmem[first + at]);
        } else {
          PROBE_LOAD(X_gmem, first + at, 16);
          x[n] = ldg<float4>(&X_gmem[first + at]);
        }
      }
#pragma unroll
      for (int n = 0; n < UNROLL; ++n) {
        if (SPACE == SPACE_COPY) {
          PROBE_STORE(Y_gmem, first + (i + n * threads) * 4, 16);
          stg<float4>(&Y_gmem[first + (i + n * threads) * 4], x[n]);
        } else {
          total = make_float4(total.x + x[n].x, total.y + x[n].y, total.z + x[n].z, total.w + x[n].w);
        }
      }
    }
  }
  if (SPACE == SPACE_COPY) return;
  PROBE_MARK(write, tile);
  PROBE_STORE(O_gmem, (size_t)blockIdx.x * threads + thread, 4);
  stg<float>(&O_gmem[(size_t)blockIdx.x * threads + thread], add4(total));
}
