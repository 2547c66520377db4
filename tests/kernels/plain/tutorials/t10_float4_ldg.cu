/*
title = "float4 and __ldg"
idea = "a group of eight lanes owns a query row. Loads are float4 through the read-only cache."
changed = "nothing."
costs = "K and V are read once for each row."
limits = "fp32."
source = "the tests."
family = "dense"

[[launches]]
entry = "attn_vec4<HEAD_DIM / 32>"
grid = ["ceil_div(seq_len, 16)", "num_heads", "batch"]
block = [128]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include <cuda_runtime.h>
#include <float.h>

#define FETCH_FLOAT4(pointer) (reinterpret_cast<const float4*>(&(pointer))[0])

__device__ __forceinline__ float dot(const float4& a, const float4& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

__device__ __forceinline__ float4 axpy(float a, const float4& x, float b, const float4& y) {
  return make_float4(a * x.x + b * y.x, a * x.y + b * y.y, a * x.z + b * y.z, a * x.w + b * y.w);
}

// 8 lanes per query row, VECS float4 per lane, 16 rows per block
template <unsigned VECS>
__launch_bounds__(128) __global__
void attn_vec4(const float* const q, const float* const k, const float* const v, float* const o, const int seq_len,
               const int causal, const float scale) {
  const unsigned lane = threadIdx.x % 8u;
  const int row = blockIdx.x * 16 + threadIdx.x / 8u;
  const unsigned mask = 0xffu << (threadIdx.x % 32u & ~7u);
  if (row >= seq_len) return;

  const unsigned vec_count = VECS * 8u;
  const size_t head = (size_t)(blockIdx.z * gridDim.y + blockIdx.y) * seq_len * vec_count;
  const float4* q4 = reinterpret_cast<const float4*>(q) + head + row * vec_count;
  const float4* k4 = reinterpret_cast<const float4*>(k) + head;
  const float4* v4 = reinterpret_cast<const float4*>(v) + head;

  float4 query[VECS], out[VECS];
#pragma unroll
  for (unsigned i = 0; i < VECS; i++) {
    query[i] = __ldg(q4 + i * 8u + lane);
    out[i] = {0.f, 0.f, 0.f, 0.f};
  }

  float m = -FLT_MAX, l = 0.f;
  for (int key = 0; key < seq_len; key++) {
    if (causal && key > row) break;
    float s = 0.f;
#pragma unroll
    for (unsigned i = 0; i < VECS; i++) s += dot(query[i], __ldg(&k4[key * vec_count + i * 8u + lane]));
    s += __shfl_down_sync(mask, s, 4, 8);
    s += __shfl_down_sync(mask, s, 2, 8);
    s += __shfl_down_sync(mask, s, 1, 8);
    s = __shfl_sync(mask, s, 0, 8) * scale;

    const float m_before = m;
    m = max(m, s);
    const float alpha = exp2f((m_before - m) * 1.4426950408889634f), p = exp2f((s - m) * 1.4426950408889634f);
    l = fmaf(l, alpha, p);
#pragma unroll
    for (unsigned i = 0; i < VECS; i++) out[i] = axpy(alpha, out[i], p, __ldg(&v4[key * vec_count + i * 8u + lane]));
  }

  float4* o4 = reinterpret_cast<float4*>(o) + head + row * vec_count;
#pragma unroll
  for (unsigned i = 0; i < VECS; i++) o4[i * 8u + lane] = axpy(1.f / l, out[i], 0.f, out[i]);
}
