// The small floating-point types, and their conversions from and to float. They only store numbers. Arithmetic uses
// float.
//
//   half        16 bits: 5 of exponent, 10 of fraction
//   bfloat16    16 bits: 8 of exponent, 7 of fraction, the upper half of a float
//   fp8_e4m3     8 bits: 4 of exponent, 3 of fraction. Largest 448, no infinity, one NaN of either sign
//
//   to_float(v)        the number as a float, exact. A float stays the same.
//   to_half(f), to_bfloat16(f), to_fp8_e4m3(f)    the nearest number of that type. If two are equally near, the even
//                      one. Past the largest, half and bfloat16 become infinite, and fp8_e4m3 becomes 448.
//   from_float<T>(f)   the same for a T that is float, half, bfloat16 or fp8_e4m3
//   bfloat16_pair(low, high)    two bfloat16 in a word, the first in its low half
//   low_float, high_float       the two as floats again
//
// On the GPU these are PTX instructions if the architecture has one, and plain C++ in the CPU shim. NaN may have
// another sign or payload.
#pragma once
struct half { unsigned short bits; };
struct bfloat16 { unsigned short bits; };
struct fp8_e4m3 { unsigned char bits; };

__device__ __forceinline__ float low_float(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_float(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(bfloat16 v) { return low_float(v.bits); }

#ifdef __CUDACC__
__device__ __forceinline__ float to_float(half v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
}
__device__ __forceinline__ half to_half(float v) {
  half h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(v));
  return h;
}
__device__ __forceinline__ bfloat16 to_bfloat16(float v) {
  bfloat16 b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(v));
  return b;
}
__device__ __forceinline__ unsigned bfloat16_pair(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
#else
// A small type's exponent and fraction, moved to where a float has them, are the number but for the exponent's offset.
// A multiplication puts that right, for subnormal numbers too.
__device__ __forceinline__ float to_float(half v) {
  const bool finite = (v.bits >> 10 & 31) < 31;
  const float f = __uint_as_float((v.bits & 0x7fffu) << 13 | (finite ? 0 : 0x7f800000u)) * (finite ? 0x1p112f : 1.f);
  return v.bits & 0x8000 ? -f : f;
}
// In units of half's last place. A carry goes into the exponent by itself.
__device__ __forceinline__ half to_half(float v) {
  const unsigned sign = std::signbit(v) ? 0x8000 : 0;
  const float size = std::fabs(v);
  if (!(size < 65520.f)) return {(unsigned short)(sign | (size != size ? 0x7e00 : 0x7c00))};
  int exponent = -24;
  if (size > 0) frexpf(size, &exponent);
  const int last_place = std::max(exponent - 11, -24);
  const unsigned steps = (unsigned)nearbyintf(ldexpf(size, -last_place));
  return {(unsigned short)(sign | (((last_place + 24) << 10) + steps))};
}
__device__ __forceinline__ bfloat16 to_bfloat16(float v) {
  const unsigned u = __float_as_uint(v);
  return {(unsigned short)(v != v ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
__device__ __forceinline__ unsigned bfloat16_pair(float low, float high) {
  return to_bfloat16(low).bits | (unsigned)to_bfloat16(high).bits << 16;
}
#endif

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 890
__device__ __forceinline__ float to_float(fp8_e4m3 v) {
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)v.bits));
  return to_float(half{(unsigned short)pair});
}
__device__ __forceinline__ fp8_e4m3 to_fp8_e4m3(float v) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(v));
  return {(unsigned char)pair};
}
#else
__device__ __forceinline__ float to_float(fp8_e4m3 v) {
  const unsigned size = v.bits & 0x7f, sign = (v.bits & 0x80u) << 24;
  if (size == 0x7f) return __uint_as_float(sign | 0x7fc00000u);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(size << 20) * 0x1p120f));
}
__device__ __forceinline__ fp8_e4m3 to_fp8_e4m3(float v) {
  const unsigned sign = __float_as_uint(v) >> 24 & 0x80, size = __float_as_uint(v) & 0x7fffffffu;
  unsigned code;
  if (size > 0x7f800000u) code = 0x7f;       // NaN
  else if (size > 0x43e00000u) code = 0x7e;  // past 448
  else if (size < 0x3c800000u)               // below 2^-6 the steps are 2^-9, like the steps of a float at 2^14
    code = __float_as_uint(__uint_as_float(size) + 16384.f) - __float_as_uint(16384.f);
  else code = ((size + 0x7ffffu + (size >> 20 & 1)) >> 20) - (120 << 3);  // float's exponent is 120 larger
  return {(unsigned char)(sign | code)};
}
#endif

template <class T> __device__ __forceinline__ T from_float(float v);
template <> __device__ __forceinline__ float from_float<float>(float v) { return v; }
template <> __device__ __forceinline__ half from_float<half>(float v) { return to_half(v); }
template <> __device__ __forceinline__ bfloat16 from_float<bfloat16>(float v) { return to_bfloat16(v); }
template <> __device__ __forceinline__ fp8_e4m3 from_float<fp8_e4m3>(float v) { return to_fp8_e4m3(v); }
