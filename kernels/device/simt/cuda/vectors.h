// CUDA's vector types.
//
// With -fsanitize=thread, the compiler reports no read of a struct that goes from memory straight into an argument. The
// copies of these structs therefore report themselves.
#pragma once

#ifdef __SANITIZE_THREAD__
#define SIMT_COPIES(S)                                \
  S() = default;                                      \
  SIMT_OWN S(const S& other) {                        \
    SIMT_REPORT(&other, sizeof(S), SIMT_READ);        \
    memcpy((void*)this, &other, sizeof(S));           \
  }                                                   \
  SIMT_OWN S& operator=(const S& other) {             \
    SIMT_REPORT(&other, sizeof(S), SIMT_READ);        \
    SIMT_REPORT(this, sizeof(S), SIMT_WRITE);         \
    memcpy((void*)this, &other, sizeof(S));           \
    return *this;                                     \
  }
#else
#define SIMT_COPIES(S) S() = default;
#endif

#define SIMT_VECTORS(T, N)                                                                        \
  struct N##1 { T x; };                                                                           \
  struct alignas(2 * sizeof(T)) N##2 {                                                            \
    T x, y;                                                                                       \
    SIMT_COPIES(N##2)                                                                             \
    N##2(T x, T y = 0) : x(x), y(y) {}                                                            \
  };                                                                                              \
  struct N##3 {                                                                                   \
    T x, y, z;                                                                                    \
    SIMT_COPIES(N##3)                                                                             \
    N##3(T x, T y = 0, T z = 0) : x(x), y(y), z(z) {}                                             \
  };                                                                                              \
  struct alignas(sizeof(T) > 4 ? 16 : 4 * sizeof(T)) N##4 {                                       \
    T x, y, z, w;                                                                                 \
    SIMT_COPIES(N##4)                                                                             \
    N##4(T x, T y = 0, T z = 0, T w = 0) : x(x), y(y), z(z), w(w) {}                              \
  };                                                                                              \
  inline N##1 make_##N##1(T x) { return {x}; }                                                    \
  inline N##2 make_##N##2(T x, T y) { return {x, y}; }                                            \
  inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                                    \
  inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }

SIMT_VECTORS(float, float)
SIMT_VECTORS(double, double)
SIMT_VECTORS(int, int)
SIMT_VECTORS(short, short)
SIMT_VECTORS(unsigned short, ushort)
SIMT_VECTORS(signed char, char)
SIMT_VECTORS(unsigned char, uchar)
SIMT_VECTORS(long, long)
SIMT_VECTORS(unsigned long, ulong)
SIMT_VECTORS(long long, longlong)
SIMT_VECTORS(unsigned long long, ulonglong)
#define uint3 simt_uint3  // calls.h has uint3
#define make_uint3 simt_make_uint3
SIMT_VECTORS(unsigned, uint)
#undef uint3
#undef make_uint3
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
