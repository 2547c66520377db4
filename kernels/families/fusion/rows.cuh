// For the fused kernels: the storage type T, and pieces of 16 bytes as floats and back.
#pragma once
#include "common.cuh"
#if T_BYTES == 4
typedef float T;
#elif BF16
typedef bfloat16 T;
#else
typedef half T;
#endif
#define UNROLL _Pragma("unroll")  // for loops over arrays, which otherwise leave the registers

constexpr int X = 16 / T_BYTES;  // elements in 16 bytes

__device__ __forceinline__ void unpack(float4 raw, float (&out)[X]) {
  const float words[4] = {raw.x, raw.y, raw.z, raw.w};
  UNROLL for (int e = 0; e < X; ++e) {
#if T_BYTES == 4
    out[e] = words[e];
#else
    out[e] = to_float(T{(unsigned short)(__float_as_uint(words[e / 2]) >> 16 * (e % 2))});
#endif
  }
}

__device__ __forceinline__ float4 pack(const float (&v)[X]) {
#if T_BYTES == 4
  return make_float4(v[0], v[1], v[2], v[3]);
#else
  float words[4];
  UNROLL for (int w = 0; w < 4; ++w) {
    const unsigned low = from_float<T>(v[2 * w]).bits, high = from_float<T>(v[2 * w + 1]).bits;
    words[w] = __uint_as_float(low | high << 16);
  }
  return make_float4(words[0], words[1], words[2], words[3]);
#endif
}
