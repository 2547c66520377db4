// Hopper's bulk copies from shared to global memory, next to hopper.cuh and bulk.cuh. On the GPU each name is PTX. In
// the CPU shim (simt/bulk_store.h) it is plain C++.
//
//   tma_store(smem, map, c0, c1, c2, c3)   one thread requests the copy of a box, the counterpart of tma_load. c0 is
//                                the innermost coordinate. Elements past the tensor's far edges are not written, and no
//                                coordinate is below 0. Before it, each writing thread calls fence_shared, and a
//                                barrier follows.    UTMASTG
//   tma_store_end()              closes this thread's group of requests    UTMACMDFLUSH
//   tma_store_wait()             waits until all tma_stores of this thread have read shared memory. It comes before the
//                                next write there, and before the end of the block.    DEPBAR
//
// PROBE_TMA_STORE(T_gmem, index, bytes, keys...) comes before a tma_store: the first element and the bytes of the box,
// with the bytes past the tensor's edges.
#pragma once
#include "bulk.cuh"
#include "hopper_backward.cuh"
constexpr AccessKind TMA_STORE = AccessKind(8);
#ifdef PROBED
#define PROBE_TMA_STORE(...) probe_writer.access(PROBE_HERE, TMA_STORE, __VA_ARGS__)
#else
#define PROBE_TMA_STORE(...) ((void)0)
#endif

#ifdef __CUDACC__
__device__ __forceinline__ void tma_store(const void* smem, const TensorMap* map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2,%3,%4,%5}], [%1];"
               ::"l"(map), "r"(shared_address(smem)), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void tma_store_end() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ float reciprocal(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
#else
#include "bulk_store.h"
#endif
