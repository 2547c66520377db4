// half and half2 on the CPU. half is the compiler's 16-bit float, so plain operators round as on the GPU.
#pragma once
using half = _Float16;
using __half = half;
struct alignas(4) half2 {
  half x, y;
  SIMT_COPIES(half2)
  half2(half x, half y) : x(x), y(y) {}
};
using __half2 = half2;

inline float __half2float(half h) { return (float)h; }
inline half __float2half(float f) { return (half)f; }
inline half __float2half_rn(float f) { return (half)f; }
inline half __float2half_rz(float f) {
  const half near = (half)f;
  unsigned short bits = simt_bits<unsigned short>(near);
  return fabsf((float)near) > fabsf(f) ? simt_bits<half>((unsigned short)(bits - 1)) : near;
}
inline half __double2half(double f) { return (half)f; }
inline half __int2half_rn(int i) { return (half)(float)i; }
inline int __half2int_rn(half h) { return (int)nearbyintf((float)h); }
inline half __ushort_as_half(unsigned short bits) { return simt_bits<half>(bits); }
inline unsigned short __half_as_ushort(half h) { return simt_bits<unsigned short>(h); }
inline half __short_as_half(short bits) { return simt_bits<half>(bits); }
inline short __half_as_short(half h) { return simt_bits<short>(h); }

inline half2 __halves2half2(half a, half b) { return {a, b}; }
inline half2 make_half2(half a, half b) { return {a, b}; }
inline half2 __half2half2(half a) { return {a, a}; }
inline half2 __float2half2_rn(float f) { return {(half)f, (half)f}; }
inline half2 __floats2half2_rn(float a, float b) { return {(half)a, (half)b}; }
inline half2 __float22half2_rn(float2 f) { return {(half)f.x, (half)f.y}; }
inline float2 __half22float2(half2 h) { return {(float)h.x, (float)h.y}; }
inline half __low2half(half2 h) { return h.x; }
inline half __high2half(half2 h) { return h.y; }
inline float __low2float(half2 h) { return (float)h.x; }
inline float __high2float(half2 h) { return (float)h.y; }
inline half2 __lowhigh2highlow(half2 h) { return {h.y, h.x}; }
inline half2 __lows2half2(half2 a, half2 b) { return {a.x, b.x}; }
inline half2 __highs2half2(half2 a, half2 b) { return {a.y, b.y}; }

// Each function of halves, and the same of half2. `f` sees floats: their result is exact before it is rounded once.
#define SIMT_HALF_1(name, name2, f)                                                   \
  inline half name(half h) { const float a = (float)h; return (half)(f); }            \
  inline half2 name2(half2 h) { return {name(h.x), name(h.y)}; }
#define SIMT_HALF_2(name, name2, f)                                                                         \
  inline half name(half h, half i) { const float a = (float)h, b = (float)i; return (half)(f); }            \
  inline half2 name2(half2 h, half2 i) { return {name(h.x, i.x), name(h.y, i.y)}; }
#define SIMT_HALF_IS(name, name2, op)                                                                 \
  inline bool name(half a, half b) { return (float)a op (float)b; }                                   \
  inline half2 name2(half2 a, half2 b) { return {(half)(float)name(a.x, b.x), (half)(float)name(a.y, b.y)}; }
SIMT_HALF_1(hexp, h2exp, expf(a))
SIMT_HALF_1(hexp2, h2exp2, exp2f(a))
SIMT_HALF_1(hlog, h2log, logf(a))
SIMT_HALF_1(hlog2, h2log2, log2f(a))
SIMT_HALF_1(hsqrt, h2sqrt, sqrtf(a))
SIMT_HALF_1(hrsqrt, h2rsqrt, 1.f / sqrtf(a))
SIMT_HALF_1(hrcp, h2rcp, 1.f / a)
SIMT_HALF_1(htanh, h2tanh, tanhf(a))
SIMT_HALF_1(hfloor, h2floor, floorf(a))
SIMT_HALF_1(hceil, h2ceil, ceilf(a))
SIMT_HALF_1(__hneg, __hneg2, -a)
SIMT_HALF_1(__habs, __habs2, fabsf(a))
SIMT_HALF_2(__hadd, __hadd2, a + b)
SIMT_HALF_2(__hsub, __hsub2, a - b)
SIMT_HALF_2(__hmul, __hmul2, a* b)
SIMT_HALF_2(__hdiv, __h2div, a / b)
SIMT_HALF_2(__hmax, __hmax2, fmaxf(a, b))
SIMT_HALF_2(__hmin, __hmin2, fminf(a, b))
SIMT_HALF_IS(__heq, __heq2, ==)
SIMT_HALF_IS(__hne, __hne2, !=)
SIMT_HALF_IS(__hgt, __hgt2, >)
SIMT_HALF_IS(__hge, __hge2, >=)
SIMT_HALF_IS(__hlt, __hlt2, <)
SIMT_HALF_IS(__hle, __hle2, <=)
#undef SIMT_HALF_1
#undef SIMT_HALF_2
#undef SIMT_HALF_IS
inline half __hfma(half a, half b, half c) { return (half)fmaf((float)a, (float)b, (float)c); }
inline half2 __hfma2(half2 a, half2 b, half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline bool __hisnan(half h) { return h != h; }
inline bool __hisinf(half h) { return fabsf((float)h) == CUDART_INF_F; }
inline half2 operator+(half2 a, half2 b) { return __hadd2(a, b); }
inline half2 operator-(half2 a, half2 b) { return __hsub2(a, b); }
inline half2 operator*(half2 a, half2 b) { return __hmul2(a, b); }
inline half2 operator/(half2 a, half2 b) { return __h2div(a, b); }
inline half2& operator+=(half2& a, half2 b) { return a = a + b; }
inline half2& operator*=(half2& a, half2 b) { return a = a * b; }
