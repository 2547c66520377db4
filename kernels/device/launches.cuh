// Calls between launches, and among the blocks of one launch. In the CPU shim (simt/launches.h) they are plain C++.
//
//   let_next_launch()        the next launch of the stream may start, if dependent and after this call in all blocks
//   wait_for_launch()        in a dependent launch: waits for the end of the launch before it. Its results are visible
//                            only after this call. From sm_90 on.
//   grid_barrier(arrived)    all threads of a cooperative launch, once in a launch. arrived: an int, 0 before and after
//   is_last(arrived, count)  one thread of each of `count` blocks, after a __syncthreads(): true in the last to come,
//                            whose block sees the stores of all. arrived: an int, 0 before and after
#pragma once
#include "common.cuh"
#ifdef __CUDACC__
__device__ __forceinline__ void let_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ unsigned count_up(int* arrived, unsigned last) {
  __threadfence();
  const unsigned before = atomicInc(reinterpret_cast<unsigned*>(arrived), last);
  __threadfence();
  return before;
}
__device__ __forceinline__ bool is_last(int* arrived, unsigned count) {
  return count_up(arrived, count - 1) == count - 1;
}
// Each block counts twice, on its way in and on its way out. The last count is 0 again.
__device__ __forceinline__ void grid_barrier(int* arrived) {
  const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  __syncthreads();
  if (!(threadIdx.x | threadIdx.y | threadIdx.z)) {
    count_up(arrived, 2 * blocks - 1);
    unsigned in = 0;
    while (in < blocks) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(in) : "l"(arrived) : "memory");
    count_up(arrived, 2 * blocks - 1);
  }
  __syncthreads();
}
#else
#include "launches.h"
#endif
