// Products of half and of bfloat16 by plain names, and copies in groups, for the rungs on tensor cores. On the GPU each
// is PTX. In the CPU shim (simt/mma.h) it is plain C++.
//
//   mma<T>(C, A, b0, b1)      C += A @ B, T times T added up in fp32. T is half or bfloat16. Lanes hold A, B and C as
//                             in mma_m16n8k16 (ptx.cuh).    HMMA
//   mma<T, 16>(C, A, b0, b1)  the same for half, added up in half: C is rounded to half before and after    HMMA
//   pair<T>(low, high)        two floats, each rounded to the nearest T, in a word, the first in its low half
//
//   cp_async_commit()         closes a group: this thread's copies since the last one
//   cp_async_wait_group<N>()  waits until all but the newest N groups of this thread have landed
#pragma once
#include "common.cuh"
#ifdef __CUDACC__

template <class T> __device__ unsigned pair(float low, float high);
template <> __device__ __forceinline__ unsigned pair<bfloat16>(float low, float high) {
  return bfloat16_pair(low, high);
}
template <> __device__ __forceinline__ unsigned pair<half>(float low, float high) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

template <class T> __device__ void mma(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1);
template <>
__device__ __forceinline__ void mma<bfloat16>(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1) {
  mma_m16n8k16(C, A, b0, b1);
}
template <> __device__ __forceinline__ void mma<half>(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_half_sums(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1) {
  unsigned upper = pair<half>(C[0], C[1]), lower = pair<half>(C[2], C[3]);  // rows lane / 4 and lane / 4 + 8
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
      : "+r"(upper), "+r"(lower) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(b0), "r"(b1));
  C[0] = to_float(half{(unsigned short)upper}), C[1] = to_float(half{(unsigned short)(upper >> 16)});
  C[2] = to_float(half{(unsigned short)lower}), C[3] = to_float(half{(unsigned short)(lower >> 16)});
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
#else
#include "mma.h"
#endif

template <class T, int BITS>
__device__ __forceinline__ void mma(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1) {
  if constexpr (BITS == 16) mma_half_sums(C, A, b0, b1);
  else mma<T>(C, A, b0, b1);
}
