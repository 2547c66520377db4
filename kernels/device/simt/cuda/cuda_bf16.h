// bfloat16 on the CPU: the upper half of a float, rounded to nearest even
#pragma once
struct __nv_bfloat16 {
  unsigned short __x;
  SIMT_COPIES(__nv_bfloat16)
  template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>> __nv_bfloat16(T value) {
    const unsigned bits = __float_as_uint((float)value);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    __x = nan ? 0x7fff : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  }
  operator float() const { return __uint_as_float((unsigned)__x << 16); }
};
using nv_bfloat16 = __nv_bfloat16;
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  SIMT_COPIES(__nv_bfloat162)
  __nv_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) : x(x), y(y) {}
};
using nv_bfloat162 = __nv_bfloat162;

inline float __bfloat162float(__nv_bfloat16 b) { return b; }
inline __nv_bfloat16 __float2bfloat16(float f) { return f; }
inline __nv_bfloat16 __float2bfloat16_rn(float f) { return f; }
inline __nv_bfloat16 __double2bfloat16(double f) { return (float)f; }
inline __nv_bfloat16 __int2bfloat16_rn(int i) { return (float)i; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return simt_bits<__nv_bfloat16>(bits); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b) { return b.__x; }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {a, b}; }
inline __nv_bfloat162 __float2bfloat162_rn(float f) { return {f, f}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 f) { return {f.x, f.y}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
inline float2 __bfloat1622float2(__nv_bfloat162 b) { return {(float)b.x, (float)b.y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 b) { return b.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 b) { return b.y; }
inline float __low2float(__nv_bfloat162 b) { return b.x; }
inline float __high2float(__nv_bfloat162 b) { return b.y; }

// Between two bfloat16, CUDA's operators round. The compiler's own would give a float.
#define SIMT_BFLOAT16(op, name)                                                                            \
  inline __nv_bfloat16 operator op(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a op (float)b; }      \
  inline __nv_bfloat16& operator op##=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = a op b; }           \
  inline __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) { return a op b; }                           \
  inline __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x op b.x, a.y op b.y}; }
SIMT_BFLOAT16(+, __hadd)
SIMT_BFLOAT16(-, __hsub)
SIMT_BFLOAT16(*, __hmul)
SIMT_BFLOAT16(/, __hdiv)
#undef SIMT_BFLOAT16
inline __nv_bfloat16 operator-(__nv_bfloat16 a) { return -(float)a; }
inline __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return fmaxf(a, b); }
inline __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return fminf(a, b); }
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { return fmaf(a, b, c); }
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __nv_bfloat16 hexp(__nv_bfloat16 a) { return expf(a); }
inline __nv_bfloat16 hsqrt(__nv_bfloat16 a) { return sqrtf(a); }
inline __nv_bfloat16 hrsqrt(__nv_bfloat16 a) { return 1.f / sqrtf(a); }
