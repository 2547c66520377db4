// Memory accesses of a fixed width. On the GPU each is one PTX instruction, so that the compiler neither widens nor
// merges it, and each counted access is a real one. In the CPU shim (simt/simt.h) it is plain C++ that also checks the
// probe before it. The name at the right is the instruction of the machine code.
//
//   ldg<T>(pointer)         load from global memory                            LDG
//   ldg_l2<T>(pointer)      the same, and L1 does not keep it                  LDG
//   stg<T>(pointer, value)  store to global memory                             STG
//   lds<T>(pointer)         load from shared memory                            LDS
//   sts<T>(pointer, value)  store to shared memory                             STS
// T is unsigned char or fp8_e4m3 (8 bits), half or bfloat16 (16), float or int (32), float2 or long long (64), or
// float4 (128). The pointer must be aligned to it. The bits there may be any bits.
//
//   cp_async<BYTES>(smem, gmem)   a copy of 4, 8 or 16 bytes through L1, without registers               LDGSTS
//   cp_async_l2(smem, gmem)       16 bytes that L1 does not keep                                         LDGSTS.BYPASS
//   cp_async_wait()               waits until this thread's copies have landed
//
//   ldmatrix(words[N], pointer)   N 8x8 matrices of 16-bit elements from shared memory, N = 1, 2 or 4    LDSM
//                                 Lane 8i + r points at row r of matrix i. From each matrix a lane gets the two
//                                 elements in row lane / 4, columns 2 (lane % 4) and the next.
//   ldmatrix_trans(words[4], pointer)   the same, each matrix transposed                                 LDSM.T
//                                 A lane gets column lane / 4, rows 2 (lane % 4) and the next.
//   mma_m16n8k16(C, A, b0, b1)    C += A @ B by the warp's tensor cores, bfloat16 times bfloat16 added up in fp32  HMMA
//                                 With t = lane % 4 a lane holds of C [16, 8]: rows lane / 4 and lane / 4 + 8, columns
//                                 2t and 2t + 1. Of A [16, 16]: the same rows and columns, then both rows 8 columns
//                                 further. Of B [16, 8]: column lane / 4, rows 2t and 2t + 1, then 8 rows further.
//
//   exp2_approx(x)                2^x by the GPU's own instruction, off by at most 2 in the last place   MUFU.EX2
//   clock_cycles(), global_time_ns(), multiprocessor()     time and place. 0 in the CPU shim, which has no time.
#pragma once
#ifdef __CUDACC__

// The register of an fp8_e4m3, because a register of PTX has at least 16 bits
struct Fp8Register {
  unsigned bits;
  __device__ __forceinline__ Fp8Register() {}
  __device__ __forceinline__ Fp8Register(fp8_e4m3 v) : bits(v.bits) {}
  __device__ __forceinline__ operator fp8_e4m3() const { return {(unsigned char)bits}; }
};

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

template <class T> __device__ T ldg(const void* p);
template <class T> __device__ T ldg_l2(const void* p);
template <class T> __device__ void stg(void* p, T v);
template <class T> __device__ T lds(const void* p);
template <class T> __device__ void sts(void* p, T v);

// One type's accesses: its PTX type, its register, and the operands of a load (value, address) and of a store. Each has
// its own instruction, because the compiler mixes up the source lines of callers behind a second inlined function.
// Accesses of shared memory are volatile. Otherwise ptxas merges four neighbouring loads into one LDS.128 (seen on
// sm_80 and sm_100a), and the count is wrong.
#define PINNED_ACCESS(T, TYPE, REGISTER, LOADED, LOAD_AT, STORED, OUT, IN)                              \
  template <> __device__ __forceinline__ T ldg<T>(const void* p) {                                      \
    REGISTER v;                                                                                         \
    asm volatile("ld.global" TYPE " " LOADED ", " LOAD_AT ";" : OUT : "l"(p) : "memory");               \
    return static_cast<T>(v);                                                                           \
  }                                                                                                     \
  template <> __device__ __forceinline__ T ldg_l2<T>(const void* p) {                                   \
    REGISTER v;                                                                                         \
    asm volatile("ld.global.cg" TYPE " " LOADED ", " LOAD_AT ";" : OUT : "l"(p) : "memory");            \
    return static_cast<T>(v);                                                                           \
  }                                                                                                     \
  template <> __device__ __forceinline__ void stg<T>(void* p, T value) {                                \
    const REGISTER v = value;                                                                           \
    asm volatile("st.global" TYPE " [%0], " STORED ";" ::"l"(p), IN : "memory");                        \
  }                                                                                                     \
  template <> __device__ __forceinline__ T lds<T>(const void* p) {                                      \
    REGISTER v;                                                                                         \
    asm volatile("ld.volatile.shared" TYPE " " LOADED ", " LOAD_AT ";" : OUT : "r"(shared_address(p)) : "memory"); \
    return static_cast<T>(v);                                                                           \
  }                                                                                                     \
  template <> __device__ __forceinline__ void sts<T>(void* p, T value) {                                \
    const REGISTER v = value;                                                                           \
    asm volatile("st.volatile.shared" TYPE " [%0], " STORED ";" ::"r"(shared_address(p)), IN : "memory");   \
  }
#define TWO_OUT "=f"(v.x), "=f"(v.y)
#define TWO_IN "f"(v.x), "f"(v.y)
#define FOUR_OUT TWO_OUT, "=f"(v.z), "=f"(v.w)
#define FOUR_IN TWO_IN, "f"(v.z), "f"(v.w)
PINNED_ACCESS(unsigned char, ".u8", unsigned, "%0", "[%1]", "%1", "=r"(v), "r"(v))
PINNED_ACCESS(fp8_e4m3, ".u8", Fp8Register, "%0", "[%1]", "%1", "=r"(v.bits), "r"(v.bits))
PINNED_ACCESS(half, ".u16", half, "%0", "[%1]", "%1", "=h"(v.bits), "h"(v.bits))
PINNED_ACCESS(bfloat16, ".u16", bfloat16, "%0", "[%1]", "%1", "=h"(v.bits), "h"(v.bits))
PINNED_ACCESS(int, ".s32", int, "%0", "[%1]", "%1", "=r"(v), "r"(v))
PINNED_ACCESS(float, ".f32", float, "%0", "[%1]", "%1", "=f"(v), "f"(v))
PINNED_ACCESS(long long, ".s64", long long, "%0", "[%1]", "%1", "=l"(v), "l"(v))
PINNED_ACCESS(float2, ".v2.f32", float2, "{%0,%1}", "[%2]", "{%1,%2}", TWO_OUT, TWO_IN)
PINNED_ACCESS(float4, ".v4.f32", float4, "{%0,%1,%2,%3}", "[%4]", "{%1,%2,%3,%4}", FOUR_OUT, FOUR_IN)

__device__ __forceinline__ void ldmatrix(unsigned (&w)[1], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(w[0]) : "r"(shared_address(p)) : "memory");
}
__device__ __forceinline__ void ldmatrix(unsigned (&w)[2], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(w[0]), "=r"(w[1]) : "r"(shared_address(p)) : "memory");
}
__device__ __forceinline__ void ldmatrix(unsigned (&w)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(shared_address(p)) : "memory");
}
__device__ __forceinline__ void ldmatrix_trans(unsigned (&w)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(shared_address(p)) : "memory");
}
__device__ __forceinline__ void mma_m16n8k16(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(b0), "r"(b1));
}

template <int BYTES> __device__ __forceinline__ void cp_async(void* smem, const void* gmem) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
               ::"r"(shared_address(smem)), "l"(gmem), "n"(BYTES) : "memory");
}
__device__ __forceinline__ void cp_async_l2(void* smem, const void* gmem) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(smem)), "l"(gmem) : "memory");
}
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ long long clock_cycles() {
  long long t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}
__device__ __forceinline__ long long global_time_ns() {
  long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}
__device__ __forceinline__ int multiprocessor() {
  int sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

#endif
