// Arithmetic of the programming guide: max and min by value, intrinsics, casts of bits
#pragma once

// By value: std::max takes references, and its reads would have a line of the C++ library.
#define SIMT_EXTREME(name, op)                                                  \
  template <class A, class B> constexpr std::common_type_t<A, B> name(A a, B b) { return a op b ? a : b; }
SIMT_EXTREME(max, >)
SIMT_EXTREME(min, <)
#undef SIMT_EXTREME

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.f, x); }
inline float exp10f(float x) { return powf(10.f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
inline double rsqrt(double x) { return 1. / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.f / cbrtf(x); }
inline float normcdff(float x) { return .5f * erfcf(-x * .70710678f); }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1.f : 0.f; }
inline float fdividef(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frsqrt_rn(float x) { return 1.f / sqrtf(x); }

#define SIMT_ROUNDED(mode)                                                              \
  inline float __fadd_##mode(float a, float b) { return a + b; }                        \
  inline float __fsub_##mode(float a, float b) { return a - b; }                        \
  inline float __fmul_##mode(float a, float b) { return a * b; }                        \
  inline float __fdiv_##mode(float a, float b) { return a / b; }                        \
  inline float __fmaf_##mode(float a, float b, float c) { return fmaf(a, b, c); }       \
  inline float __frcp_##mode(float x) { return 1.f / x; }                               \
  inline float __fsqrt_##mode(float x) { return sqrtf(x); }                             \
  inline double __dadd_##mode(double a, double b) { return a + b; }                     \
  inline double __dmul_##mode(double a, double b) { return a * b; }                     \
  inline double __fma_##mode(double a, double b, double c) { return fma(a, b, c); }     \
  inline float __int2float_##mode(int x) { return (float)x; }                           \
  inline float __uint2float_##mode(unsigned x) { return (float)x; }                     \
  inline float __double2float_##mode(double x) { return (float)x; }
SIMT_ROUNDED(rn)
SIMT_ROUNDED(rz)
SIMT_ROUNDED(ru)
SIMT_ROUNDED(rd)
#undef SIMT_ROUNDED
inline int __float2int_rn(float x) { return (int)nearbyintf(x); }
inline int __float2int_rz(float x) { return (int)x; }
inline int __float2int_rd(float x) { return (int)floorf(x); }
inline int __float2int_ru(float x) { return (int)ceilf(x); }
inline unsigned __float2uint_rn(float x) { return (unsigned)nearbyintf(x); }
inline unsigned __float2uint_rz(float x) { return (unsigned)x; }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __umul24(unsigned a, unsigned b) { return a * b; }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned result = 0;
  for (int n = 0; n < 4; ++n) result |= (unsigned)(bytes >> (selector >> 4 * n & 7) * 8 & 0xff) << 8 * n;
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  shift &= 31;
  return shift ? high << shift | low >> (32 - shift) : high;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  shift &= 31;
  return shift ? low >> shift | high << (32 - shift) : low;
}
inline unsigned __vadd4(unsigned a, unsigned b) {
  unsigned result = 0;
  for (int n = 0; n < 32; n += 8) result |= ((a >> n) + (b >> n) & 0xff) << n;
  return result;
}
inline int __dp4a(int a, int b, int c) {
  for (int n = 0; n < 32; n += 8) c += (int)(signed char)(a >> n) * (signed char)(b >> n);
  return c;
}

template <class To, class From> To simt_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline unsigned __float_as_uint(float v) { return simt_bits<unsigned>(v); }
inline int __float_as_int(float v) { return simt_bits<int>(v); }
inline float __uint_as_float(unsigned v) { return simt_bits<float>(v); }
inline float __int_as_float(int v) { return simt_bits<float>(v); }
inline long long __double_as_longlong(double v) { return simt_bits<long long>(v); }
inline double __longlong_as_double(long long v) { return simt_bits<double>(v); }

#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_PI_F 3.141592654f
