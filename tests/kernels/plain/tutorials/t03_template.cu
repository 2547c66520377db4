/*
title = "Templates"
idea = "a warp holds one query row; tile sizes are parameters of a template."
changed = "nothing."
costs = "K and V are read once for each row."
limits = "fp32."
source = "the tests."
family = "dense"

[[launches]]
entry = "flash<float, HEAD_DIM, 4>"
grid = ["ceil_div(seq_len, 4)", "batch * num_heads"]
block = [32, 4]
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include <cuda_runtime.h>
#include <stdint.h>

#define FULL_MASK 0xffffffffu
#define DEVICE_INLINE __device__ __forceinline__

namespace {
template <typename T> DEVICE_INLINE T warp_sum(T x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_down_sync(FULL_MASK, x, offset);
  return __shfl_sync(FULL_MASK, x, 0);
}
}  // namespace

template <typename T, int D, int ROWS>
__global__ void __launch_bounds__(32 * ROWS) flash(const T* __restrict__ q, const T* __restrict__ k,
                                                   const T* __restrict__ v, T* __restrict__ o, int seq_len,
                                                   int causal, float scale) {
  static_assert(D % 32 == 0, "a lane holds D / 32 dims");
  constexpr int PER_LANE = D / 32;
  __shared__ T q_rows[ROWS][D];
  const int lane = threadIdx.x, row = blockIdx.x * ROWS + threadIdx.y;
  if (row >= seq_len) return;
  const int64_t base = (int64_t)blockIdx.y * seq_len * D;
  for (int d = lane; d < D; d += 32) q_rows[threadIdx.y][d] = q[base + (int64_t)row * D + d];
  __syncwarp();

  float m = -INFINITY, l = 0.f, acc[PER_LANE] = {};
  const int keys = causal ? row + 1 : seq_len;
  for (int j = 0; j < keys; ++j) {
    const T* const kj = k + base + (int64_t)j * D;
    float part = 0.f;
    for (int d = lane; d < D; d += 32) part += q_rows[threadIdx.y][d] * kj[d];
    const float s = warp_sum(part) * scale;
    const float m_new = fmaxf(m, s), alpha = __expf(m - m_new), p = __expf(s - m_new);
    l = l * alpha + p;
#pragma unroll
    for (int i = 0; i < PER_LANE; ++i) acc[i] = acc[i] * alpha + p * v[base + (int64_t)j * D + lane + 32 * i];
    m = m_new;
  }
  for (int i = 0; i < PER_LANE; ++i) o[base + (int64_t)row * D + lane + 32 * i] = acc[i] / l;
}
