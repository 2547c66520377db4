/*
title = "Split keys with atomics"
idea = "several blocks share a query row. The last one to finish merges their parts."
changed = "nothing."
costs = "the parts go through global memory, and each block makes one atomic."
limits = "fp32."
source = "the tests."
family = "dense"

[constants.NUM_SPLITS]
default = 3
values = [3]
meaning = "blocks of a query row"

[scratch.part_o]
shape = ["batch * num_heads * seq_len", "NUM_SPLITS", "head_dim"]
axes = ["row", "split", "dim"]

[scratch.part_ml]
shape = ["batch * num_heads * seq_len", "NUM_SPLITS", 2]
axes = ["row", "split", "value"]

[scratch.arrived]
shape = ["batch * num_heads * seq_len"]
axes = ["row"]
dtype = "int32"
initial = "zero"

[[launches]]
entry = "split_attention"
grid = ["seq_len", "NUM_SPLITS", "batch * num_heads"]
block = ["head_dim"]
args = ["q", "k", "v", "part_o", "part_ml", "arrived", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "part of a row"
*/
#include <cuda_runtime.h>
#include <cmath>

__device__ float blockSum(float value) {
  __shared__ float warpSums[32];
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  for (int offset = warpSize / 2; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffffu, value, offset);
  if (lane == 0) warpSums[warp] = value;
  __syncthreads();
  float total = 0.0f;
  for (int w = 0; w < blockDim.x / warpSize; ++w) total += warpSums[w];
  __syncthreads();
  return total;
}

// One thread per dim. gridDim.y blocks share the keys of a row.
extern "C" __global__ void split_attention(const float* q, const float* k, const float* v, float* part_o,
                                           float2* part_ml, int* arrived, float* o, int seq_len, int causal,
                                           float scale) {
  const int d = threadIdx.x, dim = blockDim.x, splits = gridDim.y;
  const size_t row = (size_t)blockIdx.z * seq_len + blockIdx.x;
  const float* keys = k + (size_t)blockIdx.z * seq_len * dim;
  const float* values = v + (size_t)blockIdx.z * seq_len * dim;

  const int visible = causal ? blockIdx.x + 1 : seq_len;
  const int chunk = (visible + splits - 1) / splits;
  const int begin = blockIdx.y * chunk, end = min(begin + chunk, visible);

  float m = -INFINITY, l = 0.0f, acc = 0.0f;
  const float mine = q[row * dim + d];
  for (int j = begin; j < end; ++j) {
    const float s = scale * blockSum(mine * keys[j * dim + d]);
    const float newM = fmaxf(m, s), fix = expf(m - newM), p = expf(s - newM);
    l = l * fix + p;
    acc = acc * fix + p * values[j * dim + d];
    m = newM;
  }
  part_o[(row * splits + blockIdx.y) * dim + d] = acc;
  if (d == 0) part_ml[row * splits + blockIdx.y] = make_float2(m, l);

  // The last block of the row adds the parts.
  __threadfence();
  __syncthreads();
  __shared__ bool isLast;
  if (d == 0) isLast = atomicAdd(&arrived[row], 1) == splits - 1;
  __syncthreads();
  if (!isLast) return;

  __threadfence();
  float top = -INFINITY;
  for (int i = 0; i < splits; ++i) top = fmaxf(top, part_ml[row * splits + i].x);
  float sum = 0.0f, norm = 0.0f;
  for (int i = 0; i < splits; ++i) {
    const float2 ml = part_ml[row * splits + i];
    const float weight = expf(ml.x - top);
    sum += weight * part_o[(row * splits + i) * dim + d];
    norm += weight * ml.y;
  }
  o[row * dim + d] = sum / norm;
}
