/*
title = "half2"
idea = "a warp owns a query row, and each lane two neighbouring dims of every 64."
changed = "nothing."
costs = "K and V are read once for each row, as half2."
limits = "fp16."
source = "the tests."
family = "tensor_cores"
conditions = [{must = "dtype == 'float16' and layout == 'bhsd'", message = "The kernel reads float16 as [b, h, s, d]."}]

[[launches]]
entry = "mha_fwd_half2<HEAD_DIM>"
grid = ["ceil_div(seq_len, 4)", "num_heads", "batch"]
block = ["128"]
args = ["q", "k", "v", "o", "lse", "int32 seq_len", "int32 keys", "int32 num_heads // kv_heads", "int32 offset", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include <cuda_fp16.h>
#include <stdint.h>

#define WARP_SIZE 32
#define FULL_MASK 0xffffffff
#define HALF2(x) (*reinterpret_cast<half2 *>(&(x)))
#define CONST_HALF2(x) (*reinterpret_cast<const half2 *>(&(x)))

template <int kWidth = WARP_SIZE>
__device__ __forceinline__ float warp_reduce_sum(float val) {
#pragma unroll
  for (int mask = kWidth >> 1; mask >= 1; mask >>= 1) val += __shfl_xor_sync(FULL_MASK, val, mask);
  return val;
}

// Q, O: [batch, heads, seqlen, D]. K, V: [batch, heads / group, kvlen, D].
template <const int D>
__global__ void mha_fwd_half2(const half *__restrict__ Q, const half *__restrict__ K, const half *__restrict__ V,
                              half *__restrict__ O, float *__restrict__ L, int seqlen, int kvlen, int group, int shift,
                              int causal, float softmax_scale) {
  constexpr int PAIRS = D / 64;
  const int lane = threadIdx.x % WARP_SIZE;
  const int row = blockIdx.x * (blockDim.x / WARP_SIZE) + threadIdx.x / WARP_SIZE;
  if (row >= seqlen) return;

  const int64_t head = blockIdx.z * gridDim.y + blockIdx.y;
  const int64_t kv_head = blockIdx.z * (gridDim.y / group) + blockIdx.y / group;
  const half *q_ptr = Q + (head * seqlen + row) * D;
  const half *k_ptr = K + kv_head * kvlen * D;
  const half *v_ptr = V + kv_head * kvlen * D;

  half2 q_reg[PAIRS];
  float2 o_reg[PAIRS];
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    q_reg[i] = CONST_HALF2(q_ptr[i * 64 + lane * 2]);
    o_reg[i] = make_float2(0.0f, 0.0f);
  }

  const int visible = causal ? min(kvlen, row + shift + 1) : kvlen;
  float row_max = -INFINITY, row_sum = 0.0f;
  for (int j = 0; j < visible; ++j) {
    float partial = 0.0f;
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      const float2 a = __half22float2(q_reg[i]);
      const float2 b = __half22float2(CONST_HALF2(k_ptr[j * D + i * 64 + lane * 2]));
      partial += a.x * b.x + a.y * b.y;
    }
    const float s = warp_reduce_sum(partial) * softmax_scale;
    const float new_max = fmaxf(row_max, s);
    const float rescale = __expf(row_max - new_max);
    const float p = __expf(s - new_max);
    row_sum = row_sum * rescale + p;
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      const float2 v = __half22float2(CONST_HALF2(v_ptr[j * D + i * 64 + lane * 2]));
      o_reg[i].x = o_reg[i].x * rescale + p * v.x;
      o_reg[i].y = o_reg[i].y * rescale + p * v.y;
    }
    row_max = new_max;
  }

  const float inv = row_sum > 0.0f ? __frcp_rn(row_sum) : 0.0f;
  half *o_ptr = O + (head * seqlen + row) * D;
#pragma unroll
  for (int i = 0; i < PAIRS; ++i)
    HALF2(o_ptr[i * 64 + lane * 2]) = __floats2half2_rn(o_reg[i].x * inv, o_reg[i].y * inv);
  if (lane == 0) L[head * seqlen + row] = row_sum > 0.0f ? row_max + __logf(row_sum) : -INFINITY;
}
