// What the paged kernels share: the storage type, the layout of a page, and sums over a whole block.
//
//   K cache [num_blocks, num_kv_heads, HEAD_SIZE / X, BLOCK_SIZE, X]    X elements of T are 16 bytes
//   V cache [num_blocks, num_kv_heads, HEAD_SIZE, BLOCK_SIZE]
#pragma once
#include "common.cuh"
#if T_BYTES == 2
typedef half T;
#else
typedef float T;
#endif
__device__ __forceinline__ float to_float(float v) { return v; }
template <class To> __device__ __forceinline__ To from_float(float v);
template <> __device__ __forceinline__ float from_float<float>(float v) { return v; }
template <> __device__ __forceinline__ half from_float<half>(float v) { return to_half(v); }

constexpr int X = 16 / T_BYTES;               // elements in 16 bytes
constexpr int CHUNKS = HEAD_SIZE / X;         // pieces of 16 bytes in one token's key
constexpr int PAGE = HEAD_SIZE * BLOCK_SIZE;  // elements of one page of one KV head, in K and in V

// The X elements that a 16-byte load brought
__device__ __forceinline__ void unpack(float4 raw, float (&out)[4]) {
  out[0] = raw.x, out[1] = raw.y, out[2] = raw.z, out[3] = raw.w;
}
__device__ __forceinline__ half half_of(float pair, int which) { return half{(unsigned short)(__float_as_uint(pair) >> 16 * which)}; }
__device__ __forceinline__ void unpack(float4 raw, half (&out)[8]) {
  out[0] = half_of(raw.x, 0), out[1] = half_of(raw.x, 1), out[2] = half_of(raw.y, 0), out[3] = half_of(raw.y, 1);
  out[4] = half_of(raw.z, 0), out[5] = half_of(raw.z, 1), out[6] = half_of(raw.w, 0), out[7] = half_of(raw.w, 1);
}
