/*
title = "Paged walk"
idea = "one block per query head walks a block table, and merges its warps at the end."
changed = "nothing."
costs = "a table entry for each page."
limits = "fp32. head_dim 64 or 128, without ALiBi."
source = "the tests."
family = "paged"
problem = "decode"
conditions = [
  {must = "dtype == 'float32' and not alibi", message = "The kernel reads float32, without ALiBi."},
  {must = "head_dim % 32 == 0", message = "The kernel needs a head_dim that 32 divides."},
]

[[launches]]
entry = "decode_kernel<HEAD_DIM, BLOCK_SIZE>"
grid = ["num_seqs", "num_heads"]
block = [128]
args = ["o", "q", "k_cache", "v_cache", "block_tables", "context_lens", "int32 num_kv_heads", "int32 max_blocks_per_seq", "float32 scale"]
item = "query head"
*/
#include <cuda_runtime.h>

struct RunningSoftmax {
  float max_value, denominator;
  __device__ float update(float score, float& weight) {
    const float larger = fmaxf(max_value, score);
    const float correction = expf(max_value - larger);
    weight = expf(score - larger);
    denominator = denominator * correction + weight;
    max_value = larger;
    return correction;
  }
};

constexpr int NUM_WARPS = 4;

// Keys:   [num_pages, kv_heads, HEAD_SIZE / 4, PAGE, 4]
// Values: [num_pages, kv_heads, HEAD_SIZE, PAGE]
template <int HEAD_SIZE, int PAGE>
__global__ void decode_kernel(float* __restrict__ out, const float* __restrict__ query,
                              const float* __restrict__ key_pages, const float* __restrict__ value_pages,
                              const int* __restrict__ page_table, const int* __restrict__ lengths, int kv_heads,
                              int table_stride, float scale) {
  constexpr int PER_LANE = HEAD_SIZE / 32;
  __shared__ float partial_out[NUM_WARPS][HEAD_SIZE];
  __shared__ RunningSoftmax partial[NUM_WARPS];

  const int sequence = blockIdx.x, head = blockIdx.y, heads = gridDim.y;
  const int kv_head = head * kv_heads / heads;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int length = lengths[sequence];
  const int* my_pages = page_table + sequence * table_stride;

  float q[PER_LANE], acc[PER_LANE] = {};
  for (int i = 0; i < PER_LANE; ++i) q[i] = query[(sequence * heads + head) * HEAD_SIZE + lane + 32 * i];

  RunningSoftmax softmax{-1e30f, 0.f};
  for (int token = warp; token < length; token += NUM_WARPS) {
    const int page = my_pages[token / PAGE], slot = token % PAGE;
    const long long base = ((long long)page * kv_heads + kv_head) * HEAD_SIZE * PAGE;
    float score = 0.f;
    for (int i = 0; i < PER_LANE; ++i) {
      const int dim = lane + 32 * i;
      score += q[i] * key_pages[base + (dim / 4 * PAGE + slot) * 4 + dim % 4];
    }
    for (int offset = 16; offset; offset /= 2) score += __shfl_xor_sync(~0u, score, offset);

    float weight;
    const float correction = softmax.update(score * scale, weight);
    for (int i = 0; i < PER_LANE; ++i)
      acc[i] = acc[i] * correction + weight * value_pages[base + (lane + 32 * i) * PAGE + slot];
  }

  for (int i = 0; i < PER_LANE; ++i) partial_out[warp][lane + 32 * i] = acc[i];
  if (lane == 0) partial[warp] = softmax;
  __syncthreads();

  for (int dim = threadIdx.x; dim < HEAD_SIZE; dim += blockDim.x) {
    float largest = partial[0].max_value;
    for (int w = 1; w < NUM_WARPS; ++w) largest = fmaxf(largest, partial[w].max_value);
    float numerator = 0.f, denominator = 0.f;
    for (int w = 0; w < NUM_WARPS; ++w) {
      const float factor = expf(partial[w].max_value - largest);
      numerator += factor * partial_out[w][dim];
      denominator += factor * partial[w].denominator;
    }
    out[(sequence * heads + head) * HEAD_SIZE + dim] = numerator / denominator;
  }
}
