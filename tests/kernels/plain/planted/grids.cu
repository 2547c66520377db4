/*
title = "Grids"
idea = "barriers of a grid of four blocks, and a pipeline of a block."
changed = "nothing."
costs = "nothing."
limits = "they compute nothing of their problem."
source = "the tests."
family = "lab"
problem = "roles"

[[launches]]
entry = "neighbours"
grid = [4]
block = [16]
shared_bytes = 64
args = ["x", "o", "int32 tiles"]
cooperative = true

[[launches]]
entry = "no_barrier"
grid = [4]
block = [16]
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "one_leaves"
grid = [4]
block = [16]
args = ["x", "o", "int32 tiles"]
cooperative = true

[[launches]]
entry = "block_pipeline"
grid = [1]
block = [64]
args = ["x", "o", "int32 tiles"]
*/
#include <cooperative_groups.h>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

// Each block reads its neighbour's values of the phase before. Its own values stay in shared memory.
__global__ void neighbours(const float* x, float* o, int tiles) {
  extern __shared__ float kept[];
  __shared__ float twice[16];
  auto grid = cg::this_grid();
  const int t = threadIdx.x, mine = blockIdx.x * 16 + t, next = (blockIdx.x + 1) % 4 * 16 + t;
  kept[t] = x[mine], twice[t] = 2 * x[mine];
  o[mine] = x[mine];
  grid.sync();
  const float other = o[next];
  grid.sync();
  o[mine] = other + kept[15 - t] + twice[t];
}

__global__ void no_barrier(const float* x, float* o, int tiles) {
  const int t = threadIdx.x;
  o[blockIdx.x * 16 + t] = x[blockIdx.x * 16 + t];
  if (o[(blockIdx.x + 1) % 4 * 16 + t] > 1e30f) o[t] = 0;
}

__global__ void one_leaves(const float* x, float* o, int tiles) {
  if (blockIdx.x == 2) return;
  o[blockIdx.x * 16 + threadIdx.x] = x[threadIdx.x];
  cg::this_grid().sync();
}

__global__ void block_pipeline(const float* x, float* o, int tiles) {
  __shared__ float s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, s[i], x + 64 * i, sizeof(float) * 64, pipe);
    pipe.producer_commit();
  }
  for (int i = 0; i < 2; ++i) {
    pipe.consumer_wait();
    sum += s[i][63 - threadIdx.x];
    pipe.consumer_release();
  }
  o[threadIdx.x] = sum;
}
