/*
[constants.WIDTH]
default = 4
values = [4, 8, 16]
meaning = "bytes that a lane reads at once"
[constants.PAD]
default = 0
values = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
  17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
]
meaning = "floats left free after each row of the tile"
[constants.SWIZZLE]
default = 0
values = [0, 1]
meaning = "1: piece c of row r is at place c XOR r"
[constants.MATRICES]
default = 0
values = [0, 1, 2, 4]
meaning = "0: plain loads. Otherwise the number of 8x8 matrices that one ldmatrix reads."
*/
// A tile of 32 rows in shared memory, padded and swizzled by constants of the build, and loads of WIDTH bytes, for the
// lab kernels.
//
//   WIDTH     bytes that a lane moves at once: 4, 8 or 16
//   PAD       floats left free after each row: row r starts at float r * (columns + PAD)
//   SWIZZLE   1: a row's pieces of WIDTH bytes change places. Piece c of row r is at c XOR (r mod pieces). The number
//             of pieces of a row is a power of two.
//   MATRICES  0: plain loads read the tile. 1, 2, 4: ldmatrix reads as many 8x8 matrices (rows of 16 bytes).
#pragma once
#include "common.cuh"
#if WIDTH == 4
typedef float Wide;
#elif WIDTH == 8
typedef float2 Wide;
#else
typedef float4 Wide;
#endif
#define FLOATS (WIDTH / 4)  // of one Wide

// The index of float `column` of `row` in a tile of that many columns
__device__ __forceinline__ int tile_at(int row, int column, int columns) {
  int piece = column / FLOATS;
  if (SWIZZLE) piece ^= row & (columns / FLOATS - 1);
  return row * (columns + PAD) + piece * FLOATS + column % FLOATS;
}

// Float i of a Wide, and the sum of its floats
__device__ __forceinline__ float part(float v, int) { return v; }
__device__ __forceinline__ float part(float2 v, int i) { return i ? v.y : v.x; }
__device__ __forceinline__ float part(float4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
__device__ __forceinline__ float sum(float v) { return v; }
__device__ __forceinline__ float sum(float2 v) { return v.x + v.y; }
__device__ __forceinline__ float sum(float4 v) { return (v.x + v.y) + (v.z + v.w); }
