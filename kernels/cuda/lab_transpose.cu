// lab_transpose. Idea: a matrix is transposed through a tile in shared memory, so that global memory is read and written along rows.
// Changed from lab_columns: the tile is written out again; the walk down its columns is the same.
// Costs: each element is read and written once in global memory, and once in shared memory; the columns cost conflicts unless padded.
// Limits: fp32; tiles of 32 x 32; a WIDTH that divides the row's length in global memory; padding, swizzle, ldmatrix as in lab_columns.
// Source: Harris, "An Efficient Matrix Transpose in CUDA C/C++", NVIDIA Technical Blog, 2013.
#include "lab.cuh"
#define TILE 32

// O = X^T   [columns, rows]; one block of 32 x 4 threads per tile of X
extern "C" __global__ void lab_transpose(const float* X_gmem, float* O_gmem, long long* clocks_gmem, int rows, int columns PROBE_PARAM) {
  DYNAMIC_SMEM(float, X_smem);  // [TILE, TILE + PAD]
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, warps = blockDim.x / 32;
  const int tile = blockIdx.x + gridDim.x * blockIdx.y;
  const int first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;
  const long long start = clock_cycles();
  PROBE_BEGIN();

  PROBE_MARK(load_tile, tile);
  for (int i = thread * FLOATS; i < TILE * TILE; i += blockDim.x * FLOATS) {
    const int row = i / TILE, column = i % TILE, at = tile_at(row, column, TILE);
    if (first_row + row >= rows || first_column + column >= columns) continue;
    PROBE_LOAD(X_gmem, (size_t)(first_row + row) * columns + first_column + column, WIDTH);
    const Wide x = ldg<Wide>(&X_gmem[(size_t)(first_row + row) * columns + first_column + column]);
    PROBE_STORE(X_smem, at, WIDTH);
    sts<Wide>(&X_smem[at], x);
  }
  __syncthreads();

  PROBE_MARK(walk, tile);
#if MATRICES
  for (int piece = warp * 4; piece < TILE; piece += warps * 4) {
    for (int group = 0; group < TILE; group += 8 * MATRICES) {
      const int at = tile_at(group + lane % (8 * MATRICES), piece, TILE);
      unsigned words[MATRICES];
      if (lane < 8 * MATRICES) PROBE_LDMATRIX(X_smem, at, 16);
      ldmatrix(words, &X_smem[at]);
      for (int i = 0; i < MATRICES; ++i) {
        const int row = first_row + group + 8 * i + lane / 4, column = first_column + piece + lane % 4;
        if (row >= rows || column >= columns) continue;
        PROBE_STORE(O_gmem, (size_t)column * rows + row, 4);
        stg<float>(&O_gmem[(size_t)column * rows + row], __uint_as_float(words[i]));
      }
    }
  }
#else
  for (int piece = warp * FLOATS; piece < TILE; piece += warps * FLOATS) {
    const int row = first_row + lane, at = tile_at(lane, piece, TILE);
    if (row >= rows || first_column + piece >= columns) continue;
    PROBE_LOAD(X_smem, at, WIDTH);
    const Wide x = lds<Wide>(&X_smem[at]);
#pragma unroll
    for (int i = 0; i < FLOATS; ++i) {
      PROBE_STORE(O_gmem, (size_t)(first_column + piece + i) * rows + row, 4);
      stg<float>(&O_gmem[(size_t)(first_column + piece + i) * rows + row], part(x, i));
    }
  }
#endif
  if (lane > 0) return;
  PROBE_STORE(clocks_gmem, 2 * (tile * warps + warp), 8);
  stg<long long>(&clocks_gmem[2 * (tile * warps + warp)], start);
  PROBE_STORE(clocks_gmem, 2 * (tile * warps + warp) + 1, 8);
  stg<long long>(&clocks_gmem[2 * (tile * warps + warp) + 1], clock_cycles());
}
