/*
title = "Planted correct"
idea = "small kernels, each with one idiom."
changed = "nothing."
costs = "nothing."
limits = "they compute nothing of their problem."
source = "the tests."
family = "lab"
problem = "roles"

[[launches]]
entry = "copy"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "grid_stride"
grid = [2]
block = [16]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "reversed"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "dynamic_reversed"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "tree"
grid = [1]
block = [128]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "warp_tree"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "shuffles"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "two_level_sum"
grid = [1]
block = [128]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "double_buffer"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "vectors"
grid = [1]
block = [16]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "by_reference"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "broadcast"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "same_value_by_all"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "shared_atomic"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "histogram"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "early_exit_of_blocks"
grid = [4]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "uniform_branch"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "votes"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "half_of_the_lanes"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "halves"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "bfloat16s"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "bytes_of_one_word"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "groups"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "tile_sync"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "last_block"
grid = [8]
block = [1]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "spin_lock"
grid = [1]
block = [32]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "shared_in_a_template"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "shared_of_the_file"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "structs"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]

[[launches]]
entry = "constants"
grid = [1]
block = [64]
shared_bytes = 1024
args = ["x", "o", "int32 tiles"]
*/
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
namespace cg = cooperative_groups;

__global__ void copy(const float* x, float* o, int tiles) { o[threadIdx.x] = x[threadIdx.x]; }
__global__ void grid_stride(const float* x, float* o, int tiles) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 64; i += gridDim.x * blockDim.x) o[i] = 2.f * x[i];
}
__global__ void reversed(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void dynamic_reversed(const float* x, float* o, int tiles) {
  extern __shared__ __align__(16) unsigned char raw[];
  float* const s = reinterpret_cast<float*>(raw);
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void tree(const float* x, float* o, int tiles) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int n = 64; n > 0; n >>= 1) {
    if (threadIdx.x < n) s[threadIdx.x] += s[threadIdx.x + n];
    __syncthreads();
  }
  if (threadIdx.x == 0) o[0] = s[0];
}
__global__ void warp_tree(const float* x, float* o, int tiles) {
  __shared__ volatile float s[32];
  s[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  for (int n = 16; n > 0; n >>= 1) {
    float sum = 0.f;
    if (threadIdx.x < n) sum = s[threadIdx.x] + s[threadIdx.x + n];
    __syncwarp();
    if (threadIdx.x < n) s[threadIdx.x] = sum;
    __syncwarp();
  }
  if (threadIdx.x == 0) o[0] = s[0];
}
__global__ void shuffles(const float* x, float* o, int tiles) {
  float v = x[threadIdx.x];
  for (int m = 16; m; m >>= 1) v += __shfl_xor_sync(0xffffffffu, v, m);
  o[threadIdx.x] = v;
}
__global__ void two_level_sum(const float* x, float* o, int tiles) {
  __shared__ float warps[4];
  float v = x[threadIdx.x];
  for (int m = 16; m; m >>= 1) v += __shfl_down_sync(0xffffffffu, v, m);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) o[0] = warps[0] + warps[1] + warps[2] + warps[3];
}
__global__ void double_buffer(const float* x, float* o, int tiles) {
  __shared__ float s[2][64];
  float sum = 0.f;
  s[0][threadIdx.x] = x[threadIdx.x];
  for (int i = 0; i < tiles; ++i) {
    __syncthreads();
    if (i + 1 < tiles) s[(i + 1) & 1][threadIdx.x] = x[(i + 1) * 64 + threadIdx.x];
    sum += s[i & 1][63 - threadIdx.x];
  }
  o[threadIdx.x] = sum;
}
__global__ void vectors(const float* x, float* o, int tiles) {
  const float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];
  reinterpret_cast<float4*>(o)[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
}
__global__ void by_reference(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  float& mine = s[threadIdx.x];
  mine = x[threadIdx.x];
  mine *= 2.f;
  auto read = [&](int i) { return s[i]; };
  __syncthreads();
  o[threadIdx.x] = read(threadIdx.x ^ 1);
}
__global__ void broadcast(const float* x, float* o, int tiles) {
  __shared__ float first;
  if (threadIdx.x == 0) first = x[7];
  __syncthreads();
  o[threadIdx.x] = first;
}
__global__ void same_value_by_all(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = s[threadIdx.x] - s[0];
}
__global__ void shared_atomic(const float* x, float* o, int tiles) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (x[threadIdx.x] > 0.f) atomicAdd(&count, 1);
  __syncthreads();
  o[threadIdx.x] = count;
}
__global__ void histogram(const float* x, float* o, int tiles) {
  __shared__ unsigned bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += 64) atomicAdd(&bins[__float_as_uint(x[i]) & 7], 1u);
  __syncthreads();
  if (threadIdx.x < 8) o[threadIdx.x] = bins[threadIdx.x];
}
__global__ void early_exit_of_blocks(const float* x, float* o, int tiles) {
  if (blockIdx.x > 1) return;
  __shared__ float s[32];
  s[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
  __syncthreads();
  o[blockIdx.x * 32 + threadIdx.x] = s[31 - threadIdx.x];
}
__global__ void uniform_branch(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  if (tiles > 2) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
  } else {
    s[threadIdx.x] = 0.f;
    __syncthreads();
  }
  o[threadIdx.x] = s[threadIdx.x ^ 32];
}
__global__ void votes(const float* x, float* o, int tiles) {
  const unsigned positive = __ballot_sync(0xffffffffu, x[threadIdx.x] > 0.f);
  const int all = __syncthreads_count(x[threadIdx.x] > 0.f);
  o[threadIdx.x] = __popc(positive) + 100 * all;
}
__global__ void half_of_the_lanes(const float* x, float* o, int tiles) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 16) v += __shfl_xor_sync(0x0000ffffu, v, 8);
  o[threadIdx.x] = v;
}
__global__ void halves(const float* x, float* o, int tiles) {
  __shared__ half s[64];
  s[threadIdx.x] = __float2half(x[threadIdx.x]), s[threadIdx.x + 32] = __float2half(x[threadIdx.x + 32]);
  __syncthreads();
  const half2 two = reinterpret_cast<const half2*>(s)[threadIdx.x];
  const float2 wide = __half22float2(__hmul2(two, two));
  o[threadIdx.x] = wide.x + wide.y;
}
__global__ void bfloat16s(const float* x, float* o, int tiles) {
  __shared__ __nv_bfloat16 s[64];
  s[threadIdx.x] = __float2bfloat16(x[threadIdx.x]);
  __syncthreads();
  o[threadIdx.x] = __bfloat162float(s[63 - threadIdx.x]);
}
__global__ void bytes_of_one_word(const float* x, float* o, int tiles) {
  __shared__ unsigned char s[64];
  s[threadIdx.x] = x[threadIdx.x] > 0.f;
  __syncthreads();
  o[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void groups(const float* x, float* o, int tiles) {
  __shared__ float s[64];
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<16>(block);
  s[block.thread_rank()] = x[block.thread_rank()];
  block.sync();
  float v = s[63 - block.thread_rank()];
  for (int n = tile.size() / 2; n > 0; n /= 2) v += tile.shfl_xor(v, n);
  o[block.thread_rank()] = v;
}
__global__ void tile_sync(const float* x, float* o, int tiles) {
  __shared__ float s[32];
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  s[threadIdx.x] = x[threadIdx.x];
  tile.sync();
  o[threadIdx.x] = s[threadIdx.x / 8 * 8 + 7 - tile.thread_rank()];
}
__device__ unsigned tickets;
__global__ void last_block(const float* x, float* o, int tiles) {
  o[1 + blockIdx.x] = x[blockIdx.x];
  __threadfence();
  const unsigned ticket = atomicInc(&tickets, gridDim.x - 1);
  if (ticket != gridDim.x - 1) return;
  float sum = 0.f;
  for (int i = 0; i < gridDim.x; ++i) sum += o[1 + i];
  o[0] = sum;
}
__global__ void spin_lock(const float* x, float* o, int tiles) {
  __shared__ int lock;
  __shared__ float sum;
  if (threadIdx.x == 0) lock = 0, sum = 0.f;
  __syncthreads();
  atomicAdd(&sum, x[threadIdx.x]);
  while (atomicCAS(&lock, (int)threadIdx.x, (int)threadIdx.x + 1) != (int)threadIdx.x) {
  }
  __syncthreads();
  o[threadIdx.x] = sum;
}
template <typename T, int N> __device__ T* tile_of() {
  __shared__ T storage[N];
  return storage;
}
__global__ void shared_in_a_template(const float* x, float* o, int tiles) {
  float* const s = tile_of<float, 64>();
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = s[63 - threadIdx.x];
}
__shared__ float outside_functions[64];
__global__ void shared_of_the_file(const float* x, float* o, int tiles) {
  outside_functions[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = outside_functions[63 - threadIdx.x];
}
struct Pair { float sum, largest; };
__global__ void structs(const float* x, float* o, int tiles) {
  __shared__ Pair s[64];
  s[threadIdx.x] = Pair{x[threadIdx.x], fabsf(x[threadIdx.x])};
  __syncthreads();
  const Pair p = s[63 - threadIdx.x];
  o[threadIdx.x] = p.sum + p.largest;
}
__constant__ float weights[4] = {1.f, 2.f, 3.f, 4.f};
__global__ void constants(const float* x, float* o, int tiles) {
  static const float table[2] = {1.f, -1.f};
  float local[4];
  for (int i = 0; i < 4; ++i) local[i] = weights[i] * x[threadIdx.x];
  o[threadIdx.x] = local[tiles & 3] * table[threadIdx.x & 1];
}
