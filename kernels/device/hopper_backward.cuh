// Hopper's instructions for a backward pass, next to hopper.cuh: transposed operands, and sums over
// blocks. On the GPU each name is PTX. In the CPU shim (simt/hopper_backward.h) it is plain C++.
//
//   product_turned<T>(C, a, b, add)   C [64, 64] = (add ? C : 0) + A [64, 16] @ B [16, 64], both in shared memory.
//                                Rows run across the summed dimension: A is stored as [16, 64], and B as it is.  HGMMA
//   store_matrices(smem, words)  four 8x8 matrices of 16-bit elements, the counterpart of ldmatrix. Lane 8 i + r points
//                                at row r of matrix i. Of each matrix a lane holds the two elements in row lane / 4,
//                                columns 2 (lane % 4) and the next.    STSM
//   fence_shared()               orders this thread's earlier stores to shared memory before later products and bulk
//                                copies that read them, its own and those after a barrier    FENCE.VIEW.ASYNC
//
//   global_add(gmem, v)          adds four floats to four neighbours in global memory, each atomically    RED
//   bulk_add(gmem, smem, bytes)  one thread requests: floats of shared memory are added to as many in global memory,
//                                each atomically. Both are at multiples of 16.    UBLKRED
//   bulk_add_wait()              waits until all bulk_adds of this thread have read shared memory
//
//   wait_for_turn(gmem, turn)    waits until the int in global memory is `turn`. Later adds come after it.
//   pass_turn(gmem, last)        the int grows by one, or from `last` to 0, after earlier adds of this thread, and of
//                                threads it met at a barrier
#pragma once
#include "hopper.cuh"

#ifdef __CUDACC__
template <class T>
__device__ void product_turned(float (&C)[32], unsigned long long a, unsigned long long b, int add);
#define PRODUCT_TURNED(T, TYPE)                                                                                    \
  template <>                                                                                                      \
  __device__ __forceinline__ void product_turned<T>(float (&C)[32], unsigned long long a, unsigned long long b,    \
                                                    int add) {                                                     \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"                                                  \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" N32 "}, %32, %33"                \
                 ", add, 1, 1, 1, 1;\n}"                                                                           \
                 : C32(C, 0) : "l"(a), "l"(b), "r"(add));                                                          \
  }
PRODUCT_TURNED(half, "f16")
PRODUCT_TURNED(bfloat16, "bf16")

__device__ __forceinline__ void store_matrices(void* smem, const unsigned (&w)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
               ::"r"(shared_address(smem)), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}
__device__ __forceinline__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void global_add(float* gmem, float4 v) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%2,%3,%4};"
               ::"l"(gmem), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
__device__ __forceinline__ void bulk_add(float* gmem, const float* smem, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
               "cp.async.bulk.commit_group;"
               ::"l"(gmem), "r"(shared_address(smem)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_add_wait() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

__device__ __forceinline__ void wait_for_turn(const int* gmem, int turn) {
  int now;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(gmem) : "memory");
  } while (now != turn);
}
__device__ __forceinline__ void pass_turn(int* gmem, int last) {
  asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(gmem), "r"(last) : "memory");
}
#else
#include "hopper_backward.h"
#endif
