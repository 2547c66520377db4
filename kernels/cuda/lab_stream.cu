// lab_stream. Idea: every thread has several 16-byte loads on their way at once, over and over the same bytes: what comes per second is the bandwidth.
// Changed from lab_chase: as much at a time as fits, where that had one load at a time.
// Costs: a working set that fits in L1, in L2 or in neither shows the bandwidth of each; a copy writes as much as it reads.
// Limits: a working set of whole rounds: a multiple of 64 bytes for every thread of the grid.
// Source: McCalpin, "STREAM: Sustainable Memory Bandwidth in High Performance Computers", 1995; NVIDIA's bandwidthTest.
#include "common.cuh"
#define THROUGH_L1 0
#define FROM_L2 1
#define SHARED 2
#define COPY 3
#define UNROLL 4

// O[thread] = passes * the sum of what the thread reads of X; each block has a stretch of X, `vectors` times 16 bytes. COPY: Y = X.
extern "C" __global__ void __launch_bounds__(1024) lab_stream(const float* X_gmem, float* Y_gmem, float* O_gmem, int vectors, int passes PROBE_PARAM) {
  DYNAMIC_SMEM(float, X_smem);
  const int thread = threadIdx.x, threads = blockDim.x, tile = blockIdx.x;
  const size_t first = (size_t)blockIdx.x * vectors * 4;
  PROBE_BEGIN();
  if (SPACE == SHARED) {
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
        if (SPACE == SHARED) {
          PROBE_LOAD(X_smem, at, 16);
          x[n] = lds<float4>(&X_smem[at]);
        } else if (SPACE == FROM_L2) {
          PROBE_LOAD(X_gmem, first + at, 16);
          x[n] = ldg_l2<float4>(&X_gmem[first + at]);
        } else {
          PROBE_LOAD(X_gmem, first + at, 16);
          x[n] = ldg<float4>(&X_gmem[first + at]);
        }
      }
#pragma unroll
      for (int n = 0; n < UNROLL; ++n) {
        if (SPACE == COPY) {
          PROBE_STORE(Y_gmem, first + (i + n * threads) * 4, 16);
          stg<float4>(&Y_gmem[first + (i + n * threads) * 4], x[n]);
        } else {
          total = make_float4(total.x + x[n].x, total.y + x[n].y, total.z + x[n].z, total.w + x[n].w);
        }
      }
    }
  }
  if (SPACE == COPY) return;
  PROBE_MARK(write, tile);
  PROBE_STORE(O_gmem, (size_t)blockIdx.x * threads + thread, 4);
  stg<float>(&O_gmem[(size_t)blockIdx.x * threads + thread], add4(total));
}
