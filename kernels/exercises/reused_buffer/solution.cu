/*
title = "A layer norm with two sums in one buffer"
idea = "all warps have read the first sum before a warp writes the second one."
changed = "nothing, this is an exercise."
costs = "four barriers for each row."
limits = "fp32."
source = "pytorch PR 27634. colibri PR 1098. llama.cpp PR 26385."
family = "fusion"
problem = "layer_norm"
conditions = [
  {must = "dtype == 'float32'", message = "It computes in fp32."},
]

[[launches]]
entry = "layer_norm"
grid = ["tokens"]
block = [128]
args = ["x", "residual", "weight", "bias", "sum", "y", "int32 hidden", "float32 eps"]
item = "token"
*/
#define THREADS 128
#define WARPS (THREADS / 32)

// The sum of v over all threads of the block. red: one number for each warp
__device__ float block_sum(float v, float* red) {
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffff, v, step);
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0.f;
  for (int w = 0; w < WARPS; ++w) sum += red[w];
  __syncthreads();  // red is free again
  return sum;
}

// sum = x + residual;  y = (sum - mean) / sqrt(variance + eps) * weight + bias   [tokens, hidden]
// A block computes one row.
extern "C" __global__ void layer_norm(const float* x, const float* residual, const float* weight, const float* bias,
                                      float* sum, float* y, int hidden, float eps) {
  __shared__ float red[WARPS];
  const size_t row = (size_t)blockIdx.x * hidden;

  float part = 0.f;
  for (int d = threadIdx.x; d < hidden; d += THREADS) {
    sum[row + d] = x[row + d] + residual[row + d];
    part += sum[row + d];
  }
  const float mean = block_sum(part, red) / hidden;

  part = 0.f;
  for (int d = threadIdx.x; d < hidden; d += THREADS) part += (sum[row + d] - mean) * (sum[row + d] - mean);
  const float variance = block_sum(part, red) / hidden;

  for (int d = threadIdx.x; d < hidden; d += THREADS)
    y[row + d] = (sum[row + d] - mean) * rsqrtf(variance + eps) * weight[d] + bias[d];
}
