// Atomic adds to fp32 numbers in global memory, without their old values. Blocks add in any order, and every order
// rounds otherwise. In the CPU shim (simt/add.h) an add is plain C++, and the probe before it checks it
// as a store.
//
//   global_add(gmem, v)    adds a float to one number, or a float4 to four neighbours, each atomically. A float4 is one
//                          instruction from sm_90 on, else four.    RED
#pragma once
#include "common.cuh"
#ifdef __CUDACC__
__device__ __forceinline__ void global_add(float* gmem, float v) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(gmem), "f"(v) : "memory");
}
__device__ __forceinline__ void global_add(float* gmem, float4 v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%2,%3,%4};"
               ::"l"(gmem), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
#else
  global_add(gmem, v.x), global_add(gmem + 1, v.y), global_add(gmem + 2, v.z), global_add(gmem + 3, v.w);
#endif
}
#else
#include "add.h"
#endif
