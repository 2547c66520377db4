/*
[constants.BLOCK_Q]
meaning = "query rows per tile"
[constants.BLOCK_KV]
meaning = "keys per tile"
[constants.PAD_K]
default = 0
values = [0, 4]
meaning = "floats left free after each row of K_smem, against bank conflicts"
[constants.PAD_QK]
default = 4
values = [0, 4]
meaning = "floats left free after each row of Q_smem and K_smem, against bank conflicts"
[constants.SUBTRACT_MAX]
default = 1
values = [1, 0]
meaning = "subtract the row's max before the exponential"
what_if = "No max subtraction"
effect = "e^score overflows fp32 once a score passes 88.7, and the row becomes NaN."
shows_at = 30.0
[constants.RESCALE]
default = 1
values = [1, 0]
meaning = "rescale l and O when the max moves"
what_if = "No rescaling"
effect = "after the max rises, earlier parts of l and O still count against the old max, so both come out too large."
*/
// Every kernel includes this header: the platform (NVRTC, or the CPU shim), the small number types, accesses of a fixed
// width, probes, and sums and maxima over the lanes of a warp. The constants above are shared by kernels.
#pragma once
// The kind of access in a probe. The CPU shim compares it with the access after the probe.
enum class AccessKind { LOAD, STORE, LDMATRIX, CP_ASYNC, CP_ASYNC_L2 };
#ifdef __CUDACC__
#define INFINITY __int_as_float(0x7f800000)
#define DYNAMIC_SMEM(type, name)                                  \
  extern __shared__ __align__(128) unsigned char dynamic_smem[];  \
  type* name = reinterpret_cast<type*>(dynamic_smem)
#else
#include "simt.h"
#endif
#include "numbers.cuh"
#include "ptx.cuh"
#include "probe.cuh"

// Two words as one, for one store of both
__device__ __forceinline__ long long words(unsigned low, unsigned high) {
  return (long long)((unsigned long long)high << 32 | low);
}

// sum + q . k over four neighbouring dims, fused, in a fixed order: the CPU and the GPU round alike
__device__ __forceinline__ float4 fma4(float4 q, float4 k, float4 sum) {
  return make_float4(fmaf(q.x, k.x, sum.x), fmaf(q.y, k.y, sum.y), fmaf(q.z, k.z, sum.z), fmaf(q.w, k.w, sum.w));
}
__device__ __forceinline__ float add4(float4 v) { return (v.x + v.y) + (v.z + v.w); }

// Over each group of LANES neighbouring lanes. Every lane gets the result. LANES is a power of two up to 32.
template <int LANES> __device__ __forceinline__ float group_max(float v) {
  for (int offset = LANES / 2; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}
template <int LANES> __device__ __forceinline__ float group_sum(float v) {
  for (int offset = LANES / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}
