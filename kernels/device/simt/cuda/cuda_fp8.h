// fp8 on the CPU: e4m3 (no infinity, 448 is the largest) and e5m2. A conversion saturates and rounds to nearest even.
#pragma once
#include "cuda_fp16.h"

// exponent bits, mantissa bits, the largest finite value
template <int EXPONENT, int MANTISSA> float simt_from_fp8(unsigned char bits) {
  const int bias = (1 << (EXPONENT - 1)) - 1, exponent = bits >> MANTISSA & ((1 << EXPONENT) - 1);
  const int mantissa = bits & ((1 << MANTISSA) - 1);
  const float sign = bits & 0x80 ? -1.f : 1.f;
  if (EXPONENT == 4 && (bits & 0x7f) == 0x7f) return CUDART_NAN_F;
  if (EXPONENT == 5 && exponent == 31) return mantissa ? CUDART_NAN_F : sign * CUDART_INF_F;
  if (!exponent) return sign * ldexpf((float)mantissa, 1 - bias - MANTISSA);
  return sign * ldexpf((float)((1 << MANTISSA) + mantissa), exponent - bias - MANTISSA);
}
template <int EXPONENT, int MANTISSA> unsigned char simt_to_fp8(float value) {
  const float largest = EXPONENT == 4 ? 448.f : 57344.f;
  const unsigned char sign = std::signbit(value) ? 0x80 : 0;
  if (value != value) return 0x7f;
  const float size = fminf(fabsf(value), largest);
  unsigned char below = 0;  // the positive codes are in order, so a search finds the one below
  for (int bit = 6; bit >= 0; --bit) {
    const unsigned char tried = below | 1 << bit;
    const float t = simt_from_fp8<EXPONENT, MANTISSA>(tried);
    if (t == t && t <= size) below = tried;
  }
  const float low = simt_from_fp8<EXPONENT, MANTISSA>(below);
  if (low < size) {
    const float middle = (low + simt_from_fp8<EXPONENT, MANTISSA>(below + 1)) / 2;
    below += size > middle || (size == middle && below & 1);
  }
  return sign | below;
}
#define SIMT_FP8(name, E, M)                                                          \
  struct name {                                                                       \
    unsigned char __x;                                                                \
    SIMT_COPIES(name)                                                                 \
    explicit name(float value) : __x(simt_to_fp8<E, M>(value)) {}                     \
    explicit name(half value) : __x(simt_to_fp8<E, M>((float)value)) {}               \
    explicit operator float() const { return simt_from_fp8<E, M>(__x); }              \
    explicit operator half() const { return (half)simt_from_fp8<E, M>(__x); }         \
  };
SIMT_FP8(__nv_fp8_e4m3, 4, 3)
SIMT_FP8(__nv_fp8_e5m2, 5, 2)
#undef SIMT_FP8
typedef unsigned char __nv_fp8_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t, __nv_fp8_interpretation_t kind) {
  return kind == __NV_E4M3 ? simt_to_fp8<4, 3>(value) : simt_to_fp8<5, 2>(value);
}
