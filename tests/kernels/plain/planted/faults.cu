/*
title = "Planted faults"
idea = "small kernels, each with one fault."
changed = "nothing."
costs = "nothing."
limits = "they compute nothing of their problem."
source = "the tests."
family = "lab"
problem = "roles"

[[launches]]
entry = "missing_barrier"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "missing_second_barrier"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "barrier_too_early"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "tree_without_barrier"
grid = [1]
block = [128]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "race_hidden_by_order"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "two_writers"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "float4_alias"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "single_buffer"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "warp_tree_without_syncwarp"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "lanes_exchange"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "blocks_add"
grid = [4]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "blocks_overlap"
grid = [3]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "block_reads_neighbour"
grid = [2]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "missing_atomic"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "uninitialised_tail"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "uninitialised_sum"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "reads_its_output"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "off_by_one"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "wrong_stride"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "negative_index"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "row_overflow"
grid = [1]
block = [8]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "too_little_dynamic"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "misaligned_float4"
grid = [1]
block = [8]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "divergent_barrier"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "barrier_for_some"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "shuffle_without_lanes"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "mask_without_itself"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "endless"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "failed_assertion"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "overflow_of_the_stack"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]
*/
#include <cuda_runtime.h>

// A comment FAULT gives the kind, and marks each line that a report must name.
__global__ void missing_barrier(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];       // FAULT race
  o[threadIdx.x] = s[63 - threadIdx.x];  // FAULT race
}
__global__ void missing_second_barrier(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  float sum = 0.f;
  for (int i = 0; i < tiles; ++i) {
    s[threadIdx.x] = x[i * 64 + threadIdx.x];  // FAULT race
    __syncthreads();
    for (int j = 0; j < 64; ++j) sum += s[j];  // FAULT race
  }
  o[threadIdx.x] = sum;
}
__global__ void barrier_too_early(const float* x, float* o, int tiles) {
  extern __shared__ float s[];
  __syncthreads();
  s[threadIdx.x] = x[threadIdx.x];             // FAULT race
  o[threadIdx.x] = s[(threadIdx.x + 32) % 64];  // FAULT race
}
__global__ void tree_without_barrier(const float* x, float* o, int tiles) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int n = 64; n > 0; n /= 2)
    if (threadIdx.x < n) s[threadIdx.x] += s[threadIdx.x + n];  // FAULT race
  if (threadIdx.x == 0) o[0] = s[0];
}
__global__ void race_hidden_by_order(const float* x, float* o, int tiles) {
  __shared__ float first;
  if (threadIdx.x == 0) first = x[0];  // FAULT race
  o[threadIdx.x] = threadIdx.x < 32 ? 0.f : x[threadIdx.x] + 0.f * first;  // FAULT race
}
__global__ void two_writers(const float* x, float* o, int tiles) {
  __shared__ float s[32];
  s[threadIdx.x % 32] = x[threadIdx.x];  // FAULT race
  __syncthreads();
  o[threadIdx.x] = s[threadIdx.x % 32];
}
__global__ void float4_alias(const float* x, float* o, int tiles) {
  __shared__ float4 s[16];
  float* const flat = reinterpret_cast<float*>(s);
  if (threadIdx.x < 16) s[threadIdx.x] = reinterpret_cast<const float4*>(x)[threadIdx.x];  // FAULT race
  o[threadIdx.x] = flat[threadIdx.x ^ 32];                                                 // FAULT race
}
__global__ void single_buffer(const float* x, float* o, int tiles) {
  __shared__ float s[2][64];
  float sum = 0.f;
  s[0][threadIdx.x] = x[threadIdx.x];
  for (int i = 0; i < tiles; ++i) {
    __syncthreads();
    s[0][threadIdx.x] = x[(i + 1) % 4 * 64 + threadIdx.x];  // FAULT race
    sum += s[0][63 - threadIdx.x];                          // FAULT race
  }
  o[threadIdx.x] = sum;
}
__global__ void warp_tree_without_syncwarp(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x], s[threadIdx.x + 32] = x[threadIdx.x + 32];
  __syncwarp();
  if (threadIdx.x < 16) s[threadIdx.x] += s[threadIdx.x + 16];  // FAULT warp race
  if (threadIdx.x < 8) s[threadIdx.x] += s[threadIdx.x + 8];    // FAULT warp race
  if (threadIdx.x == 0) o[0] = s[0];
}
__global__ void lanes_exchange(const float* x, float* o, int tiles) {
  __shared__ float s[32];
  s[threadIdx.x] = x[threadIdx.x];       // FAULT warp race
  o[threadIdx.x] = s[31 - threadIdx.x];  // FAULT warp race
}
__global__ void blocks_add(const float* x, float* o, int tiles) {
  if (threadIdx.x == 0) o[0] = o[0] * 0.f + x[blockIdx.x];  // FAULT block race
}
__global__ void blocks_overlap(const float* x, float* o, int tiles) {
  o[blockIdx.x * 16 + threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];  // FAULT block race
}
__global__ void block_reads_neighbour(const float* x, float* o, int tiles) {
  o[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x];                // FAULT block race
  const float other = o[(1 - blockIdx.x) * 32 + threadIdx.x];      // FAULT block race
  if (other > 1e30f) o[blockIdx.x * 32 + threadIdx.x] = 0.f;
}
__global__ void missing_atomic(const float* x, float* o, int tiles) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (x[threadIdx.x] > 0.f) count = count + 1;  // FAULT race
  __syncthreads();
  o[threadIdx.x] = count;
}
__global__ void uninitialised_tail(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  if (threadIdx.x < 60) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float sum = 0.f;
  for (int j = 0; j < 64; ++j)
    sum += s[j];  // FAULT unwritten read
  o[threadIdx.x] = sum;
}
__global__ void uninitialised_sum(const float* x, float* o, int tiles) {
  __shared__ float sum;
  if (threadIdx.x < 2) atomicAdd(&sum, x[threadIdx.x]);  // FAULT unwritten read
  __syncthreads();
  o[threadIdx.x] = sum;
}
__global__ void reads_its_output(const float* x, float* o, int tiles) {
  o[threadIdx.x] += x[threadIdx.x];  // FAULT unwritten read
}
__global__ void off_by_one(const float* x, float* o, int tiles) {
  for (int i = threadIdx.x; i <= 64; i += blockDim.x)
    o[i] = x[i];  // FAULT out of bounds
}
__global__ void wrong_stride(const float* x, float* o, int tiles) {
  o[threadIdx.x] = x[threadIdx.x * 5];  // FAULT out of bounds
}
__global__ void negative_index(const float* x, float* o, int tiles) {
  o[threadIdx.x] = x[(int)threadIdx.x - 1];  // FAULT out of bounds
}
__global__ void row_overflow(const float* x, float* o, int tiles) {
  __shared__ float s[8][8];
  for (int c = 0; c < 8; ++c) s[threadIdx.x][c] = x[threadIdx.x * 8 + c];
  __syncthreads();
  float sum = 0.f;
  for (int c = 0; c <= 8; ++c)
    sum += s[threadIdx.x][c];  // FAULT out of bounds
  o[threadIdx.x] = sum;
}
__global__ void too_little_dynamic(const float* x, float* o, int tiles) {
  extern __shared__ float s[];
  s[threadIdx.x + 224] = x[threadIdx.x];  // FAULT out of bounds
  o[threadIdx.x] = s[threadIdx.x + 224];
}
__global__ void misaligned_float4(const float* x, float* o, int tiles) {
  const float4 v = *reinterpret_cast<const float4*>(x + threadIdx.x);  // FAULT misaligned access
  o[threadIdx.x] = v.x + v.w;
}
__global__ void divergent_barrier(const float* x, float* o, int tiles) {
  if (threadIdx.x < 40) {
    __syncthreads();  // FAULT divergent barrier
    o[threadIdx.x] = x[threadIdx.x];
  } else {
    __syncthreads();  // FAULT divergent barrier
    o[threadIdx.x] = 0.f;
  }
}
__global__ void barrier_for_some(const float* x, float* o, int tiles) {
  if (threadIdx.x < 40) __syncthreads();  // FAULT divergent barrier
  o[threadIdx.x] = x[threadIdx.x];
}
__global__ void shuffle_without_lanes(const float* x, float* o, int tiles) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 20) v += __shfl_xor_sync(0xffffffffu, v, 1);  // FAULT deadlock
  __syncthreads();
  o[threadIdx.x] = v;
}
__global__ void mask_without_itself(const float* x, float* o, int tiles) {
  o[threadIdx.x] = __shfl_down_sync(0x0000ffffu, x[threadIdx.x], 1);  // FAULT wrong mask
}
__global__ void endless(const float* x, float* o, int tiles) {
  int i = 0;
  while (i < tiles)
    o[threadIdx.x] = x[i];  // FAULT endless loop
}
__global__ void failed_assertion(const float* x, float* o, int tiles) {
  assert(tiles < 4);  // FAULT failed assertion
  o[threadIdx.x] = x[threadIdx.x];
}
__device__ __noinline__ float deep(float first) {
  float big[20000];
  for (int i = 0; i < 20000; ++i) big[i] = first;
  return big[(int)first & 1];
}
__global__ void overflow_of_the_stack(const float* x, float* o, int tiles) {
  o[threadIdx.x] = deep(x[0]);  // FAULT stack overflow
}
