// Memory accesses of a pinned width. On the GPU each is one PTX instruction, so that the compiler neither widens nor
// merges it and a counted access is the access made; in the CPU shim (kernels/simt/simt.h) the same names are plain C++
// that check the probe before them.
//
//   ldg<T>(pointer)         load from global memory       LDG
//   stg<T>(pointer, value)  store to global memory        STG
//   lds<T>(pointer)         load from shared memory       LDS
//   sts<T>(pointer, value)  store to shared memory        STS
// T is half (16 bits), float or int (32), or float4 (128; the pointer must be 16-byte aligned, and what lies there may be
// any 16 bytes). half is only a storage format: to_float and to_half convert, rounding to nearest even.
#pragma once
#ifdef __CUDACC__

struct half { unsigned short bits; };
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

template <class T> struct Access;

template <> struct Access<float> {
  static __device__ __forceinline__ float ldg(const void* p) {
    float v;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
    return v;
  }
  static __device__ __forceinline__ void stg(void* p, float v) {
    asm volatile("st.global.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory");
  }
  static __device__ __forceinline__ float lds(unsigned p) {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(p) : "memory");
    return v;
  }
  static __device__ __forceinline__ void sts(unsigned p, float v) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(p), "f"(v) : "memory");
  }
};

template <> struct Access<int> {
  static __device__ __forceinline__ int ldg(const void* p) {
    int v;
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
  }
};

template <> struct Access<half> {
  static __device__ __forceinline__ half ldg(const void* p) {
    half v;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(v.bits) : "l"(p) : "memory");
    return v;
  }
  static __device__ __forceinline__ void stg(void* p, half v) {
    asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"(v.bits) : "memory");
  }
};

template <> struct Access<float4> {
  static __device__ __forceinline__ float4 ldg(const void* p) {
    float4 v;
    asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p) : "memory");
    return v;
  }
  static __device__ __forceinline__ void stg(void* p, float4 v) {
    asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
  }
  static __device__ __forceinline__ float4 lds(unsigned p) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(p) : "memory");
    return v;
  }
  static __device__ __forceinline__ void sts(unsigned p, float4 v) {
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
  }
};

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

template <class T> __device__ __forceinline__ T ldg(const void* p) { return Access<T>::ldg(p); }
template <class T> __device__ __forceinline__ void stg(void* p, T v) { Access<T>::stg(p, v); }
template <class T> __device__ __forceinline__ T lds(const float* p) { return Access<T>::lds(shared_address(p)); }
template <class T> __device__ __forceinline__ void sts(float* p, T v) { Access<T>::sts(shared_address(p), v); }

#endif
