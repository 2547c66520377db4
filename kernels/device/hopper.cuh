// Hopper's own instructions (sm_90a): bulk copies by tensor maps (TMA), barriers in shared memory (mbarrier), products
// by a warpgroup (wgmma), barriers by number, registers moved between warpgroups. A warpgroup is four neighbouring
// warps, 128 threads. On the GPU each name is PTX. In the CPU shim (simt/hopper.h) it is plain C++: copies land, and
// products are written, only at the wait for them.
//
//   TensorMap                          an argument by value, `const __grid_constant__ TensorMap K_map`: a tensor, a
//                                      box, a swizzle (`{map = ...}` of the front matter)
//   tma_load(smem, map, barrier, c0, c1, c2, c3)   one thread requests a box of a tensor of four dimensions. c0 is the
//                                      innermost coordinate. Elements past the tensor's edges arrive as zeros. The
//                                      box's bytes count towards the barrier's expected bytes.    UTMALDG
//   Barrier                            8 bytes in shared memory. A phase ends when all its arrivals and all its
//                                      expected bytes have come. Then the next phase starts. Parity counts phases.
//   barrier_init(barrier, arrivals)    one thread. Then barrier_init_done() and __syncthreads()    SYNCS
//   barrier_expect(barrier, bytes)     arrives, and adds `bytes` to the expected bytes
//   barrier_arrive(barrier)            arrives
//   barrier_wait(barrier, parity)      waits until the phase of that parity is over. Parity 1 of a new barrier is over.
//
//   Product<T, N>                      T is half or bfloat16, N the columns of the product
//     ::shared(C, a, b, add)           C [64, N] = (add ? C : 0) + A [64, 16] @ B [16, N], both operands in shared
//                                      memory. Their rows run along the summed dimension.    HGMMA
//     ::registers(C, A, b, add)        A from the registers of the warpgroup, in mma_m16n8k16's order. B is [16, N] in
//                                      shared memory, rows of N elements, transposed on the way.
//   C: lane / 4 and lane / 4 + 8 of the warp's 16 rows. Element 4 i + 2 h + e is row h, column 8 i + 2 (lane % 4) + e.
//   product_begin()                    before the first product: all registers are written
//   product_end()                      closes a group of products. They run from here on, in order.
//   product_wait<LEFT>()               waits until at most LEFT groups are not done. Before it, do not touch C, or A in
//                                      registers.
//   operand(smem, leading, stride)     an operand: rows of 128 bytes in groups of eight, swizzled by 128 bytes as TMA
//                                      writes them. stride: bytes from one group of eight rows to the next. leading:
//                                      bytes from 64 elements of a longer row to the next 64.
//   operand_at(operand, bytes)         the operand, so many bytes further
//   settle(array)                      the compiler takes these registers as read and written here
//
//   named_sync(id, threads), named_arrive(id, threads)   barrier `id` of 1 to 15. Its phase ends when `threads` threads
//                                      have come. sync waits for the end.    BAR
//   give_registers<N>(), take_registers<N>()   every warp of the warpgroup has at most (at least) N registers per
//                                      thread from here
//   warp_uniform(v)                    v of lane 0, known to the compiler as equal in all lanes
//   atomic_next(pointer, last)         an int in global memory. It then moves to the next number, and from `last` to 0.
//
// PROBE_TMA(T_gmem, index, bytes, keys...) comes before a tma_load: the first element and the bytes of the box, with
// the bytes past the tensor's edges. T_gmem is the tensor, or a null pointer to its type if a kernel has only its map.
// PROBE_TMA_SMEM(T_smem, index, bytes, keys...) comes after it: the target of the box, in rows of 128 bytes. Their
// eight pieces of 16 bytes are swizzled: piece p of row r is at place p ^ r % 8.
// PROBE_PRODUCT(T_smem, index, bytes, keys...) comes before product_begin: the first element of operand B, and the
// bytes of B for all products up to product_end, 32 N each. One thread of the warpgroup logs it.
#pragma once
#include "common.cuh"
constexpr AccessKind TMA = AccessKind(5), PRODUCT = AccessKind(6), TMA_SMEM = AccessKind(7);
#ifdef PROBED
#define PROBE_TMA(...) probe_writer.access(PROBE_HERE, TMA, __VA_ARGS__)
#define PROBE_TMA_SMEM(...) probe_writer.access(PROBE_HERE, TMA_SMEM, __VA_ARGS__)
#define PROBE_PRODUCT(...) probe_writer.access(PROBE_HERE, PRODUCT, __VA_ARGS__)
#else
#define PROBE_TMA(...) ((void)0)
#define PROBE_TMA_SMEM(...) ((void)0)
#define PROBE_PRODUCT(...) ((void)0)
#endif

#ifdef __CUDACC__
// The start of the block's dynamic shared memory. Rows swizzled by 128 bytes repeat every 1,024.
#define SWIZZLED_SMEM(type, name)                                  \
  extern __shared__ __align__(1024) unsigned char swizzled_smem[]; \
  type* name = reinterpret_cast<type*>(swizzled_smem)
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
struct Barrier { unsigned long long state; };

__device__ __forceinline__ void barrier_init(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(Barrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void barrier_wait(Barrier* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni OVER;\nbra.uni AGAIN;\nOVER:\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void tma_load(void* smem, const TensorMap* map, Barrier* barrier, int c0, int c1, int c2,
                                         int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3,%4,%5,%6}], [%2];"
      ::"r"(shared_address(smem)), "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
template <int N> __device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
__device__ __forceinline__ int warp_uniform(int v) { return __shfl_sync(0xffffffffu, v, 0); }
__device__ __forceinline__ int atomic_next(int* p, int last) {
  return atomicInc(reinterpret_cast<unsigned*>(p), last);
}

// Address / 16 in 14 bits, leading / 16 from bit 16, stride / 16 from bit 32, 1 (swizzle of 128 bytes) from bit 62
__device__ __forceinline__ unsigned long long operand(const void* smem, unsigned leading, unsigned stride) {
  return (unsigned long long)((shared_address(smem) & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
         (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}
__device__ __forceinline__ unsigned long long operand_at(unsigned long long operand, int bytes) {
  return operand + (unsigned long long)(bytes >> 4);
}
__device__ __forceinline__ void product_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void product_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void product_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
template <int N> __device__ __forceinline__ void settle(float (&r)[N]) {
  _Pragma("unroll") for (int i = 0; i < N; ++i) asm volatile("" : "+f"(r[i])::"memory");
}
template <int N> __device__ __forceinline__ void settle(unsigned (&r)[N]) {
  _Pragma("unroll") for (int i = 0; i < N; ++i) asm volatile("" : "+r"(r[i])::"memory");
}

// The registers of C as operands of the instruction, eight at a time: %0 to %(N / 2 - 1). After them come A (a
// descriptor, or four registers), the descriptor of B, and whether to add.
#define C8(C, i) "+f"(C[i]), "+f"(C[i + 1]), "+f"(C[i + 2]), "+f"(C[i + 3]), "+f"(C[i + 4]), "+f"(C[i + 5]), \
                 "+f"(C[i + 6]), "+f"(C[i + 7])
#define C32(C, i) C8(C, i), C8(C, i + 8), C8(C, i + 16), C8(C, i + 24)
#define C48(C, i) C32(C, i), C8(C, i + 32), C8(C, i + 40)
#define C64(C, i) C32(C, i), C32(C, i + 32)
#define C128(C, i) C64(C, i), C64(C, i + 64)
#define N8(a, b, c, d, e, f, g, h) "%" #a ",%" #b ",%" #c ",%" #d ",%" #e ",%" #f ",%" #g ",%" #h
#define N32 N8(0,1,2,3,4,5,6,7) "," N8(8,9,10,11,12,13,14,15) "," N8(16,17,18,19,20,21,22,23) "," \
            N8(24,25,26,27,28,29,30,31)
#define N48 N32 "," N8(32,33,34,35,36,37,38,39) "," N8(40,41,42,43,44,45,46,47)
#define N64 N48 "," N8(48,49,50,51,52,53,54,55) "," N8(56,57,58,59,60,61,62,63)
#define N128 N64 "," N8(64,65,66,67,68,69,70,71) "," N8(72,73,74,75,76,77,78,79) "," N8(80,81,82,83,84,85,86,87) "," \
             N8(88,89,90,91,92,93,94,95) "," N8(96,97,98,99,100,101,102,103) "," \
             N8(104,105,106,107,108,109,110,111) "," N8(112,113,114,115,116,117,118,119) "," \
             N8(120,121,122,123,124,125,126,127)

template <class T, int N> struct Product;
#define PRODUCT_OF(T, TYPE, COLUMNS, HALF, i0, i1, i2, i3, i4, i5)                                                    \
  template <> struct Product<T, COLUMNS> {                                                                            \
    static __device__ __forceinline__ void shared(float (&C)[HALF], unsigned long long a, unsigned long long b,       \
                                                  int add) {                                                          \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #i2 ", 0;\n"                                              \
                   "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPE "." TYPE                              \
                   " {" N##HALF "}, %" #i0 ", %" #i1                                                                  \
                   ", add, 1, 1, 0, 0;\n}"                                                                            \
                   : C##HALF(C, 0) : "l"(a), "l"(b), "r"(add));                                                       \
    }                                                                                                                 \
    static __device__ __forceinline__ void registers(float (&C)[HALF], const unsigned* A, unsigned long long b,       \
                                                     int add) {                                                       \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #i5 ", 0;\n"                                              \
                   "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPE "." TYPE                              \
                   " {" N##HALF "}, {%" #i0 ",%" #i1                                                                  \
                   ",%" #i2 ",%" #i3 "}, %" #i4 ", add, 1, 1, 1;\n}"                                                  \
                   : C##HALF(C, 0) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "l"(b), "r"(add));                   \
    }                                                                                                                 \
  };
#define PRODUCTS_OF(T, TYPE)                              \
  PRODUCT_OF(T, TYPE, 64, 32, 32, 33, 34, 35, 36, 37)     \
  PRODUCT_OF(T, TYPE, 96, 48, 48, 49, 50, 51, 52, 53)     \
  PRODUCT_OF(T, TYPE, 128, 64, 64, 65, 66, 67, 68, 69)    \
  PRODUCT_OF(T, TYPE, 256, 128, 128, 129, 130, 131, 132, 133)
PRODUCTS_OF(half, "f16")
PRODUCTS_OF(bfloat16, "bf16")
#else
#include "hopper.h"
#endif
