// lab_columns. Idea: each lane walks a row of a tile of its own, so that at every step the warp reads a column: the classic bank conflict.
// Changed from nothing: the first of the lab kernels, a plain measuring device for shared memory.
// Costs: a row of 32 floats puts all 32 lanes on one bank, 32 wavefronts an access; one float of padding, or a swizzle, makes it 1.
// Limits: 32 rows; rows that begin at a multiple of WIDTH; a swizzle needs a power of two of pieces; ldmatrix a WIDTH of 16.
// Source: NVIDIA, "CUDA C++ Programming Guide", shared memory of compute capability 5.x and later; rules measured, see kernels/memory.py.
#include "lab.cuh"

// O[row] = repeats * the sum of the row of the tile X   [32, columns]; every warp walks the whole tile
extern "C" __global__ void lab_columns(const float* X_gmem, float* O_gmem, long long* clocks_gmem, int columns, int repeats PROBE_PARAM) {
  DYNAMIC_SMEM(float, X_smem);  // [32, columns + PAD]
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, tile = blockIdx.x;
  PROBE_BEGIN();

  PROBE_MARK(load_tile, tile);
  for (int i = thread; i < 32 * columns; i += blockDim.x) {
    const int at = tile_at(i / columns, i % columns, columns);
    PROBE_LOAD(X_gmem, i, 4);
    const float x = ldg<float>(&X_gmem[i]);
    PROBE_STORE(X_smem, at, 4);
    sts<float>(&X_smem[at], x);
  }
  __syncthreads();

  PROBE_MARK(walk, tile);
  float total[4] = {};  // of this lane's row; with ldmatrix, of rows 8g + lane / 4, every fourth column
  const long long start = clock_cycles();
  for (int n = 0; n < repeats; ++n) {
#if MATRICES
    for (int column = 0; column < columns; column += 4) {
#pragma unroll
      for (int group = 0; group < 4; group += MATRICES) {
        const int at = tile_at(8 * group + lane % (8 * MATRICES), column, columns);
        unsigned words[MATRICES];
        if (lane < 8 * MATRICES) PROBE_LDMATRIX(X_smem, at, 16);
        ldmatrix(words, &X_smem[at]);
        for (int i = 0; i < MATRICES; ++i) total[group + i] += __uint_as_float(words[i]);
      }
    }
#else
#pragma unroll 4
    for (int column = 0; column < columns; column += FLOATS) {
      const int at = tile_at(lane, column, columns);
      PROBE_LOAD(X_smem, at, WIDTH);
      const Wide x = lds<Wide>(&X_smem[at]);
      total[0] += sum(x);
    }
#endif
  }
  const long long end = clock_cycles();

  PROBE_MARK(write, tile);
#if MATRICES
  for (int g = 0; g < 4; ++g) {
    total[g] = group_sum<4>(total[g]);
    if (lane % 4) continue;
    PROBE_STORE(O_gmem, 32 * warp + 8 * g + lane / 4, 4);
    stg<float>(&O_gmem[32 * warp + 8 * g + lane / 4], total[g]);
  }
#else
  PROBE_STORE(O_gmem, thread, 4);
  stg<float>(&O_gmem[thread], total[0]);
#endif
  if (lane > 0) return;
  PROBE_STORE(clocks_gmem, 2 * warp, 8);
  stg<long long>(&clocks_gmem[2 * warp], start);
  PROBE_STORE(clocks_gmem, 2 * warp + 1, 8);
  stg<long long>(&clocks_gmem[2 * warp + 1], end);
}
