// For every kernel over a paged KV cache: the storage type T, and the layout of a page of BLOCK_SIZE tokens
//
//   K cache  [num_blocks, num_kv_heads, HEAD_DIM / X, BLOCK_SIZE, X], where X elements of T are 16 bytes
//   V cache  [num_blocks, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
#pragma once
#include "common.cuh"
#if T_BYTES == 2
typedef half T;
#else
typedef float T;
#endif

constexpr int X = 16 / T_BYTES;              // elements in 16 bytes
constexpr int CHUNKS = HEAD_DIM / X;         // pieces of 16 bytes in one token's key
constexpr int PAGE = HEAD_DIM * BLOCK_SIZE;  // elements of one page of one KV head, in K and in V alike

// unpack: the X elements of T of a 16-byte load, one after another
__device__ __forceinline__ void unpack(float4 raw, float (&out)[4]) {
  out[0] = raw.x, out[1] = raw.y, out[2] = raw.z, out[3] = raw.w;
}
__device__ __forceinline__ half half_of(float pair, int which) {
  return half{(unsigned short)(__float_as_uint(pair) >> 16 * which)};
}
__device__ __forceinline__ void unpack(float4 raw, half (&out)[8]) {
  out[0] = half_of(raw.x, 0), out[1] = half_of(raw.x, 1), out[2] = half_of(raw.y, 0), out[3] = half_of(raw.y, 1);
  out[4] = half_of(raw.z, 0), out[5] = half_of(raw.z, 1), out[6] = half_of(raw.w, 0), out[7] = half_of(raw.w, 1);
}
