// CUDA C++ for a plain kernel on the CPU: a kernel in NVIDIA's own names, without common.cuh.
//
// The build includes this header before the kernel's text. Each CUDA thread is a fiber of simt.h, and blocks run one
// after another. A __shared__ array is therefore a static. runtime.cpp fills it with NaN before each block.
#pragma once
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <math.h>  // nvcc gives its names outside of std too, such as isfinite
#include <stdlib.h>
#include <type_traits>
#include <utility>
#include "calls.h"
#include "vectors.h"

#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict __restrict__
#define __shared__ static
#define threadIdx simt_thread_idx()
#define blockIdx simt_block_idx()
#define blockDim simt_block_dim()
#define gridDim simt_grid_dim()
constexpr int warpSize = 32;

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  operator uint3() const { return {x, y, z}; }
};

// The build writes these calls after the declarations of __shared__ arrays.
template <class T> SIMT_OWN bool simt_shared_array(const char* name, T& array) {
  using Element = std::remove_cv_t<std::remove_all_extents_t<T>>;
  simt_shared(name, (const void*)&array, sizeof array, sizeof(Element));
  return true;
}

#include "numbers.h"
#include "memory.h"
#include "warp.h"

// The build writes calls of these names at the marks of [watch].
#ifdef SIMT_WATCH
SIMT_OWN inline void SIMT_QUIET(int on) { simt_quiet(on); }
template <class... K> SIMT_OWN void SIMT_WATCH(unsigned number, float value, K... keys) {
  const long long listed[] = {keys..., 0};
  simt_log_value(number, value, listed, sizeof...(keys), SIMT_PC);
}
#endif

// ---- ends, clocks and output ----
#undef assert
#define assert(holds) ((holds) ? (void)0 : simt_stop(__FILE__, __LINE__, "the assertion " #holds " failed"))
#define printf simt_print
#define __trap() simt_stop(__FILE__, __LINE__, "it calls __trap()")
#define exit(code) simt_stop(__FILE__, __LINE__, "the kernel itself ended the process: it calls exit")
#define abort() simt_stop(__FILE__, __LINE__, "the kernel itself ended the process: it calls abort")
inline long long clock64() { return 0; }
inline int simt_clock() { return 0; }
#define clock() simt_clock()  // the C library's clock is another function
inline void __nanosleep(unsigned) { simt_spin(); }
inline void __builtin_assume_(bool) {}
#define __builtin_assume(holds) ((void)0)
#define __assume(holds) ((void)0)

template <class... A, size_t... I>
SIMT_OWN void simt_call(void (*entry)(A...), void** args, std::index_sequence<I...>) {
  entry(*static_cast<std::remove_reference_t<A>*>(args[I])...);
}
template <class... A> SIMT_OWN void simt_call(void (*entry)(A...), void** args) {
  simt_call(entry, args, std::index_sequence_for<A...>{});
}
// Makes an instance callable from Python (ctypes): int launch_<symbol>(Launch*, void** args)
#define SIMT_PLAIN_EXPORT(symbol, ...)                                                                    \
  extern "C" __attribute__((visibility("default"))) int launch_##symbol(void* request, void** args) {     \
    return simt_run(request, [](void** a) { simt_call(&__VA_ARGS__, a); }, args);                         \
  }
