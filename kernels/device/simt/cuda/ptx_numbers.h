// Inline PTX on the CPU: registers, arithmetic and conversions. ptx.h has the instructions of memory and of threads.
//
// A register is a 64-bit number with the bits of its type.
#pragma once
#include <limits>
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_fp8.h"

#define SIMT_PTX SIMT_OWN inline
using simt_bits64 = unsigned long long;

template <class T> struct simt_pair {
  T x, y;
};
template <int KIND> struct simt_number_type;
template <> struct simt_number_type<0> { using type = half; };
template <> struct simt_number_type<1> { using type = __nv_bfloat16; };
template <> struct simt_number_type<2> { using type = simt_pair<half>; };
template <> struct simt_number_type<3> { using type = simt_pair<__nv_bfloat16>; };
template <int KIND> using simt_ptx_type = typename simt_number_type<KIND>::type;

template <class T> SIMT_PTX T simt_as(simt_bits64 bits) {
  alignas(T) char held[sizeof(T)];
  memcpy(held, &bits, sizeof(T));
  T value = *reinterpret_cast<T*>(held);
  return value;
}
template <class T> SIMT_PTX simt_bits64 simt_raw(T value) {
  simt_bits64 bits = 0;
  memcpy(&bits, (const void*)&value, sizeof value);
  return bits;
}

// ---- operands ----
template <class T> SIMT_PTX simt_bits64 simt_ptx_in_r(T v) {
  if constexpr (std::is_integral<T>::value || std::is_enum<T>::value) return (unsigned)v;
  else return simt_raw(v);
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_in_l(T v) {
  if constexpr (std::is_integral<T>::value || std::is_enum<T>::value) return (simt_bits64)v;
  else if constexpr (std::is_pointer<T>::value) return reinterpret_cast<uintptr_t>(v);
  else return simt_raw(v);
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_in_n(T v) { return (simt_bits64)(long long)v; }
template <class T> SIMT_PTX simt_bits64 simt_ptx_in_h(T v) {
  if constexpr (std::is_integral<T>::value) return (unsigned short)v;
  else return simt_raw(v);
}
SIMT_PTX simt_bits64 simt_ptx_in_f(float v) { return simt_raw(v); }
SIMT_PTX simt_bits64 simt_ptx_in_d(double v) { return simt_raw(v); }
template <class R> SIMT_PTX std::remove_cv_t<std::remove_reference_t<R>> simt_ptx_out(simt_bits64 bits) {
  using T = std::remove_cv_t<std::remove_reference_t<R>>;
  if constexpr (std::is_integral<T>::value || std::is_enum<T>::value) return (T)bits;
  else return simt_as<T>(bits);
}

// ---- arithmetic ----
// 16-bit floats compute in double and round once. Whole numbers wrap around.
template <class T> struct simt_work { using type = T; };
template <> struct simt_work<half> { using type = double; };
template <> struct simt_work<__nv_bfloat16> { using type = double; };
template <class T, bool WHOLE = std::is_integral<T>::value> struct simt_wrap { using type = T; };
template <class T> struct simt_wrap<T, true> { using type = std::make_unsigned_t<T>; };
template <class T> struct simt_each {
  using W = typename simt_work<T>::type;
  template <class F, class... A> SIMT_OWN static simt_bits64 of(F f, A... bits) {
    return simt_raw<T>((T)f((W)simt_as<T>(bits)...));
  }
};
template <class T> struct simt_each<simt_pair<T>> {
  template <class F, class... A> SIMT_OWN static simt_bits64 of(F f, A... bits) {
    return simt_each<T>::of(f, (bits & 0xffff)...) | simt_each<T>::of(f, (bits >> 16)...) << 16;
  }
};
#define SIMT_QUICK __attribute__((no_sanitize("thread"), no_sanitize("undefined")))
// U: the type of `a` with wrapping arithmetic
#define SIMT_PTX_1(name, result)                                                                              \
  template <class T> SIMT_PTX simt_bits64 simt_ptx_##name(simt_bits64 x) {                                    \
    return simt_each<T>::of([](auto a) SIMT_QUICK {                                                           \
      using U = typename simt_wrap<decltype(a)>::type;                                                        \
      return (decltype(a))(result);                                                                           \
    }, x);                                                                                                    \
  }
#define SIMT_PTX_2(name, result)                                                                              \
  template <class T> SIMT_PTX simt_bits64 simt_ptx_##name(simt_bits64 x, simt_bits64 y) {                     \
    return simt_each<T>::of([](auto a, auto b) SIMT_QUICK {                                                   \
      using U = typename simt_wrap<decltype(a)>::type;                                                        \
      return (decltype(a))(result);                                                                           \
    }, x, y);                                                                                                 \
  }
#define SIMT_PTX_3(name, result)                                                                              \
  template <class T> SIMT_PTX simt_bits64 simt_ptx_##name(simt_bits64 x, simt_bits64 y, simt_bits64 z) {      \
    return simt_each<T>::of([](auto a, auto b, auto c) SIMT_QUICK {                                           \
      using U = typename simt_wrap<decltype(a)>::type;                                                        \
      return (decltype(a))(result);                                                                           \
    }, x, y, z);                                                                                              \
  }
template <class A> SIMT_QUICK inline A simt_extreme(A a, A b, bool larger) {
  if (a != a || b != b) return a != a ? b : a;  // of NaN and a number, the number
  return larger == (a > b) ? a : b;
}
template <class A> SIMT_QUICK inline A simt_quotient(A a, A b, bool rest) {
  if constexpr (std::is_floating_point<A>::value) return a / b;
  else return b == 0 ? (A)-1 : rest ? (A)(a % b) : (A)(a / b);
}
SIMT_PTX_1(neg, -(U)a)
SIMT_PTX_1(abs, std::is_floating_point<U>::value ? (U)std::fabs((double)a) : a < 0 ? -(U)a : (U)a)
SIMT_PTX_1(ex2, std::exp2(a))
SIMT_PTX_1(lg2, std::log2(a))
SIMT_PTX_1(tanh, std::tanh(a))
SIMT_PTX_1(sin, std::sin(a))
SIMT_PTX_1(cos, std::cos(a))
SIMT_PTX_1(rcp, 1 / a)
SIMT_PTX_1(rsqrt, 1 / std::sqrt(a))
SIMT_PTX_1(sqrt, std::sqrt(a))
SIMT_PTX_1(sat, a > 0 ? a < 1 ? a : 1 : 0)
SIMT_PTX_2(add, (U)a + (U)b)
SIMT_PTX_2(sub, (U)a - (U)b)
SIMT_PTX_2(mul, (U)a * (U)b)
SIMT_PTX_2(div, simt_quotient(a, b, false))
SIMT_PTX_2(rem, simt_quotient(a, b, true))
SIMT_PTX_2(max, simt_extreme(a, b, true))
SIMT_PTX_2(min, simt_extreme(a, b, false))
SIMT_PTX_2(max_nan, a != a ? a : b != b ? b : a > b ? a : b)
SIMT_PTX_2(min_nan, a != a ? a : b != b ? b : a < b ? a : b)
SIMT_PTX_2(copysign, std::copysign(b, a))
SIMT_PTX_3(fma, std::fma(a, b, c))
SIMT_PTX_3(mad, std::is_floating_point<U>::value ? (U)std::fma((double)a, (double)b, (double)c) : (U)a * (U)b + (U)c)
#undef SIMT_PTX_1
#undef SIMT_PTX_2
#undef SIMT_PTX_3
#define SIMT_PTX_BITS(name, result)                                                                  \
  template <class T> SIMT_PTX simt_bits64 simt_ptx_##name(simt_bits64 a, simt_bits64 b) {            \
    return simt_raw<T>((T)(result));                                                                 \
  }
SIMT_PTX_BITS(and, a & b)
SIMT_PTX_BITS(or, a | b)
SIMT_PTX_BITS(xor, a ^ b)
SIMT_PTX_BITS(shl, (unsigned)b < 8 * sizeof(T) ? a << (unsigned)b : 0)
#undef SIMT_PTX_BITS
template <class T> SIMT_PTX simt_bits64 simt_ptx_not(simt_bits64 a) { return simt_raw<T>((T)~a); }
template <class T> SIMT_PTX simt_bits64 simt_ptx_shr(simt_bits64 a, simt_bits64 b) {
  const unsigned by = (unsigned)b < 8 * sizeof(T) ? (unsigned)b : 8 * sizeof(T) - 1;  // the sign fills up
  const T moved = simt_as<T>(a) >> by;
  return simt_raw<T>((unsigned)b < 8 * sizeof(T) || std::is_signed<T>::value ? moved : (T)0);
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_popc(simt_bits64 a) { return __builtin_popcountll(a); }
template <class T> SIMT_PTX simt_bits64 simt_ptx_clz(simt_bits64 a) {
  return a ? __builtin_clzll(a) - (64 - 8 * sizeof(T)) : 8 * sizeof(T);
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_brev(simt_bits64 a) {
  simt_bits64 result = 0;
  for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit) result |= (a >> bit & 1) << (8 * sizeof(T) - 1 - bit);
  return result;
}
template <class T> SIMT_QUICK inline __int128 simt_full(simt_bits64 a, simt_bits64 b) {
  return (__int128)simt_as<T>(a) * simt_as<T>(b);
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_mul_hi(simt_bits64 a, simt_bits64 b) {
  return simt_raw<T>((T)(simt_full<T>(a, b) >> 8 * sizeof(T)));
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_mad_hi(simt_bits64 a, simt_bits64 b, simt_bits64 c) {
  return simt_raw<T>((T)((simt_full<T>(a, b) >> 8 * sizeof(T)) + simt_as<T>(c)));
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_mul_wide(simt_bits64 a, simt_bits64 b) {
  const simt_bits64 product = (simt_bits64)simt_full<T>(a, b);
  return sizeof(T) == 4 ? product : product & 0xffffffffull;
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_mad_wide(simt_bits64 a, simt_bits64 b, simt_bits64 c) {
  const simt_bits64 sum = (simt_bits64)simt_full<T>(a, b) + c;
  return sizeof(T) == 4 ? sum : sum & 0xffffffffull;
}
#define SIMT_PTX_IS(name, holds)                                                                   \
  template <class T> SIMT_PTX bool simt_ptx_##name(simt_bits64 x, simt_bits64 y) {                 \
    using W = typename simt_work<T>::type;                                                         \
    const W a = (W)simt_as<T>(x), b = (W)simt_as<T>(y);                                            \
    const bool nan = a != a || b != b;                                                             \
    (void)nan;                                                                                     \
    return holds;                                                                                  \
  }
SIMT_PTX_IS(eq, a == b)
SIMT_PTX_IS(ne, !nan && a != b)
SIMT_PTX_IS(lt, a < b)
SIMT_PTX_IS(le, a <= b)
SIMT_PTX_IS(gt, a > b)
SIMT_PTX_IS(ge, a >= b)
SIMT_PTX_IS(lo, a < b)
SIMT_PTX_IS(ls, a <= b)
SIMT_PTX_IS(hi, a > b)
SIMT_PTX_IS(hs, a >= b)
SIMT_PTX_IS(equ, nan || a == b)
SIMT_PTX_IS(neu, nan || a != b)
SIMT_PTX_IS(ltu, nan || a < b)
SIMT_PTX_IS(leu, nan || a <= b)
SIMT_PTX_IS(gtu, nan || a > b)
SIMT_PTX_IS(geu, nan || a >= b)
#undef SIMT_PTX_IS

// ---- bits ----
template <class T> SIMT_PTX simt_bits64 simt_ptx_lop3(simt_bits64 a, simt_bits64 b, simt_bits64 c, simt_bits64 table) {
  unsigned result = 0;
  for (unsigned n = 0; n < 8; ++n)
    if (table >> n & 1) result |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
  return result;
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_prmt(simt_bits64 a, simt_bits64 b, simt_bits64 selector) {
  const simt_bits64 bytes = b << 32 | (unsigned)a;
  unsigned result = 0;
  for (unsigned n = 0; n < 4; ++n) {
    const unsigned chosen = selector >> 4 * n & 15;
    const unsigned byte = bytes >> (chosen & 7) * 8 & 0xff;
    result |= (chosen & 8 ? byte & 0x80 ? 0xffu : 0u : byte) << 8 * n;
  }
  return result;
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_bfe(simt_bits64 a, simt_bits64 first, simt_bits64 count) {
  const unsigned at = first & 0xff, bits = count & 0xff, size = 8 * sizeof(T);
  if (!bits) return 0;
  const unsigned top = at + bits - 1 < size ? at + bits - 1 : size - 1;  // the sign's bit
  simt_bits64 result = at < size ? a >> at : 0;
  if (bits < 64) result &= (1ull << bits) - 1;
  if (std::is_signed<T>::value && a >> top & 1 && bits < size) result |= ~0ull << (top >= at ? top - at + 1 : 0);
  return simt_raw<T>((T)result);
}
template <class T>
SIMT_PTX simt_bits64 simt_ptx_bfi(simt_bits64 a, simt_bits64 b, simt_bits64 first, simt_bits64 count) {
  const unsigned at = first & 0xff, bits = count & 0xff;
  if (at >= 8 * sizeof(T)) return b;
  const simt_bits64 mask = (bits < 64 ? (1ull << bits) - 1 : ~0ull) << at;
  return simt_raw<T>((T)((b & ~mask) | (a << at & mask)));
}
SIMT_PTX simt_bits64 simt_ptx_shf_l_wrap(simt_bits64 a, simt_bits64 b, simt_bits64 n) {
  return __funnelshift_l((unsigned)a, (unsigned)b, (unsigned)n);
}
SIMT_PTX simt_bits64 simt_ptx_shf_r_wrap(simt_bits64 a, simt_bits64 b, simt_bits64 n) {
  return __funnelshift_r((unsigned)a, (unsigned)b, (unsigned)n);
}
SIMT_PTX simt_bits64 simt_ptx_shf_l_clamp(simt_bits64 a, simt_bits64 b, simt_bits64 n) {
  return n >= 32 ? (unsigned)a : __funnelshift_l((unsigned)a, (unsigned)b, (unsigned)n);
}
SIMT_PTX simt_bits64 simt_ptx_shf_r_clamp(simt_bits64 a, simt_bits64 b, simt_bits64 n) {
  return n >= 32 ? (unsigned)b : __funnelshift_r((unsigned)a, (unsigned)b, (unsigned)n);
}
template <class T> SIMT_PTX simt_bits64 simt_ptx_dp4a(simt_bits64 a, simt_bits64 b, simt_bits64 c) {
  for (unsigned n = 0; n < 32; n += 8) c += (unsigned)((int)(T)(a >> n) * (int)(T)(b >> n));
  return (unsigned)c;
}

// ---- conversions. ROUND: 0 as C++ does, 1 nearest even, 2 towards zero, 3 down, 4 up; 10 more: to a whole number ----
template <class T> SIMT_QUICK inline double simt_wide(simt_bits64 bits) { return (double)(typename
    simt_work<T>::type)simt_as<T>(bits); }
template <class D> SIMT_QUICK inline D simt_clamped(double x) {
  using L = std::numeric_limits<D>;
  if (x != x) return 0;
  return x <= (double)L::min() ? L::min() : x >= (double)L::max() ? L::max() : (D)x;
}
template <class D, class S, int ROUND> SIMT_PTX simt_bits64 simt_ptx_cvt(simt_bits64 bits) {
  if constexpr (std::is_integral<S>::value && std::is_integral<D>::value) {
    return simt_raw<D>((D)simt_as<S>(bits));
  } else if constexpr (std::is_integral<S>::value) {
    return simt_raw<D>((D)simt_as<S>(bits));
  } else {
    const double x = simt_wide<S>(bits);
    constexpr int WAY = ROUND % 10;
    const double whole = WAY == 1 ? nearbyint(x) : WAY == 2 ? trunc(x) : WAY == 3 ? floor(x) : WAY == 4 ? ceil(x) : x;
    if constexpr (std::is_integral<D>::value) {
      return simt_raw<D>(simt_clamped<D>(whole));
    } else {
      D near = (D)(ROUND > 10 ? whole : x);
      if (ROUND == 2 && fabs((double)near) > fabs(x)) near = simt_as<D>(simt_raw<D>(near) - 1);
      return simt_raw<D>(near);
    }
  }
}
template <class D, class S, int ROUND> SIMT_PTX simt_bits64 simt_ptx_cvt_sat(simt_bits64 bits) {
  if constexpr (std::is_integral<D>::value) {
    return simt_raw<D>(simt_clamped<D>(simt_wide<D>(simt_ptx_cvt<double, S, ROUND>(bits))));
  } else {
    return simt_ptx_sat<D>(simt_ptx_cvt<D, S, ROUND>(bits));
  }
}
SIMT_PTX simt_bits64 simt_ptx_tf32(simt_bits64 bits) {  // 10 bits of mantissa, halves away from zero
  const unsigned all = (unsigned)bits;
  return (all & 0x7f800000u) == 0x7f800000u ? all : (all + 0x1000u) & ~0x1fffu;
}
SIMT_PTX simt_bits64 simt_ptx_pack_f16x2(simt_bits64 high, simt_bits64 low) {
  return simt_raw((half)simt_as<float>(low)) | simt_raw((half)simt_as<float>(high)) << 16;
}
SIMT_PTX simt_bits64 simt_ptx_pack_bf16x2(simt_bits64 high, simt_bits64 low) {
  return simt_raw((__nv_bfloat16)simt_as<float>(low)) | simt_raw((__nv_bfloat16)simt_as<float>(high)) << 16;
}
#define SIMT_PTX_FP8(name, E, M)                                                                             \
  SIMT_PTX simt_bits64 simt_ptx_pack_##name(simt_bits64 high, simt_bits64 low) {                             \
    return simt_to_fp8<E, M>(simt_as<float>(low)) | simt_to_fp8<E, M>(simt_as<float>(high)) << 8;            \
  }                                                                                                          \
  SIMT_PTX simt_bits64 simt_ptx_f16x2_of_##name(simt_bits64 two) {                                           \
    return simt_raw((half)simt_from_fp8<E, M>(two & 0xff)) | simt_raw((half)simt_from_fp8<E,                   \
        M>(two >> 8 & 0xff)) << 16;                                                                            \
  }                                                                                                          \
  SIMT_PTX simt_bits64 simt_ptx_##name##_of_f16x2(simt_bits64 two) {                                         \
    return simt_to_fp8<E, M>((float)simt_as<half>(two)) | simt_to_fp8<E, M>((float)simt_as<half>(two >> 16)) << 8; \
  }
SIMT_PTX_FP8(e4m3x2, 4, 3)
SIMT_PTX_FP8(e5m2x2, 5, 2)
#undef SIMT_PTX_FP8

