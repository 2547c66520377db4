// Hopper's bulk copies of plain bytes, and their companions: one lane for a request, a policy of the L2, a
// transposition within a warp, and an order among blocks. On the GPU each is PTX. In the CPU shim (simt/bulk.h) it is
// plain C++.
//
//   bulk_load(smem, gmem, bytes, barrier, keep)   one thread requests `bytes` neighbouring bytes, a multiple of 16,
//                                from and to multiples of 16. They count towards the barrier's expected bytes.
//                                UBLKCP
//   keep_first_to_leave(), keep_unchanged()       `keep`: the L2 drops these bytes first, or in its own order
//   one_lane()                   true in one lane of a complete warp, known to the compiler as one lane. Its request is
//                                one instruction, and `lane == 0` becomes a loop over the lanes.    ELECT
//   transposed(word)             each lane holds two 16-bit elements of an 8x8 matrix: row lane / 4, columns
//                                2 (lane % 4) and the next. It gets column lane / 4, rows 2 (lane % 4) and the next.
//                                MOVM
//   fence_gpu()                  orders earlier stores of this thread, and of threads it met at a barrier, before its
//                                later stores, for every block
//   half_pair(fp8 word, high)    two of the four fp8_e4m3 in a word as halves, the lower two or the upper two    F2FP
//
// PROBE_TMA(T_gmem, index, bytes, keys...) and then PROBE_TMA_SMEM(T_smem, index, bytes, keys...) come before a
// bulk_load, as before a tma_load (hopper.cuh).
#pragma once
#include "hopper.cuh"
using CacheHint = unsigned long long;

#ifdef __CUDACC__
__device__ __forceinline__ CacheHint keep_first_to_leave() {
  CacheHint keep;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(keep));
  return keep;
}
__device__ __forceinline__ CacheHint keep_unchanged() {
  CacheHint keep;
  asm volatile("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(keep));
  return keep;
}
__device__ __forceinline__ void bulk_load(void* smem, const void* gmem, int bytes, Barrier* barrier, CacheHint keep) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
      ::"r"(shared_address(smem)), "l"(gmem), "r"(bytes), "r"(shared_address(barrier)), "l"(keep) : "memory");
}
__device__ __forceinline__ bool one_lane() {
  int chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(chosen)::"memory");
  return chosen;
}
__device__ __forceinline__ unsigned transposed(unsigned word) {
  unsigned other;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(other) : "r"(word));
  return other;
}
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ unsigned half_pair(unsigned word, int high) {
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)(high ? word >> 16 : word)));
  return pair;
}
#else
#include "bulk.h"
#endif
