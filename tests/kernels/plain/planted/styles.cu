/*
title = "Styles"
idea = "one kernel for each part of CUDA C++ that a test compares with NumPy."
changed = "nothing."
costs = "nothing."
limits = "they compute nothing of their problem."
source = "the tests."
family = "lab"
problem = "roles"

[[launches]]
entry = "half2_sums"
grid = [1]
block = [64]
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "pipelined"
grid = [1]
block = [64]
shared_bytes = 512
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "group_copy"
grid = [1]
block = [64]
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "cooperative"
grid = [1]
block = [64]
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "instance<float, 64>"
grid = [1]
block = [64]
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "fp8_values"
grid = [1]
block = [64]
args = ["x", "o", "int32 tiles"]
*/
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void half2_sums(const float* x, float* o, int tiles) {
  half2 sum = __float2half2_rn(0.f);
  for (int i = 0; i < 2; ++i)
    sum = __hfma2(__floats2half2_rn(x[i * 128 + 2 * threadIdx.x], x[i * 128 + 2 * threadIdx.x + 1]),
                  __float2half2_rn(0.5f), sum);
  o[threadIdx.x] = __half2float(__hadd(__low2half(sum), __high2half(sum)));
}

__global__ void pipelined(const float* x, float* o, int tiles) {
  extern __shared__ __align__(16) float s[];
  const int t = threadIdx.x;
  float sum = 0.f;
  __pipeline_memcpy_async(&s[t], &x[t], 4);
  __pipeline_commit();
  for (int i = 0; i < 4; ++i) {
    if (i + 1 < 4) __pipeline_memcpy_async(&s[(i + 1) % 2 * 64 + t], &x[(i + 1) * 64 + t], 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += s[i % 2 * 64 + 63 - t];
    __syncthreads();
  }
  o[t] = sum;
}

__global__ void group_copy(const float* x, float* o, int tiles) {
  __shared__ __align__(16) float s[64];
  cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, s, x, sizeof(float) * 64);
  cg::wait(block);
  o[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void cooperative(const float* x, float* o, int tiles) {
  cg::grid_group grid = cg::this_grid();
  o[grid.thread_rank()] = x[grid.thread_rank()];
  grid.sync();
  const float other = o[63 - grid.thread_rank()];
  grid.sync();
  o[grid.thread_rank()] += other;
}

template <typename T, int N> __global__ void instance(const T* x, T* o, int tiles) {
  __shared__ T s[N];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = s[N - 1 - threadIdx.x];
}

__global__ void fp8_values(const float* x, float* o, int tiles) {
  const __nv_fp8_e4m3 small(x[threadIdx.x]);
  o[threadIdx.x] = static_cast<float>(small);
}
