/*
title = "Column walk"
idea = "each lane walks a row of a tile of its own, so a step of the warp reads a column: the classic bank conflict."
changed = "nothing: the first of the lab kernels, a plain measuring device for shared memory."
costs = "rows of 32 floats put all lanes on one bank, 32 wavefronts an access. Padding or a swizzle reduces it to 1."
limits = "32 rows that start at multiples of WIDTH. A swizzle needs a power of two of pieces. ldmatrix a WIDTH of 16."
source = """NVIDIA, "CUDA C++ Programming Guide", shared memory. Measured rules: kernels/trace/memory/model.py."""
family = "lab"
problem = "columns"
rung = 1

[constants]  # lab.cuh
WIDTH = {}
PAD = {}
SWIZZLE = {}
MATRICES = {}

[[conditions]]
must = "not MATRICES or WIDTH == 16"
message = "WIDTH is {WIDTH}, but an ldmatrix reads rows of 16 bytes. Choose WIDTH 16, or MATRICES 0."
[[conditions]]
must = "4 * stride % WIDTH == 0 and 4 * PAD % WIDTH == 0"
message = """\
  A row of {stride} floats and PAD {PAD} is {4 * (stride + PAD)} bytes. An access of {WIDTH} bytes must start at a \
  multiple of {WIDTH}. Choose a stride and a PAD that are multiples of {WIDTH // 4}."""
[[conditions]]
must = "not SWIZZLE or is_power_of_two(4 * stride // WIDTH)"
message = """\
  A row of {stride} floats holds {4 * stride // WIDTH} pieces of {WIDTH} bytes. The XOR swizzle needs a power of two. \
  Choose another stride or WIDTH."""

[[launches]]
entry = "lab_columns"
grid = [1]
block = ["32 * warps"]
shared_bytes = "4 * 32 * (stride + PAD)"
args = ["x", "o", "clocks", "int32 stride", "int32 repeats"]
*/
#include "lab.cuh"

// O[32 * warp + row] = repeats * the sum of that row of the tile X. Every warp walks the whole tile.
//   X_gmem       [32, columns]  the tile
//   O_gmem       [32 * warps]   a sum for each thread
//   clocks_gmem  [warps, 2]     the multiprocessor's cycle at the start and end of each warp's walk
//   repeats                     number of walks
extern "C" __global__ void lab_columns(
    const float* X_gmem, float* O_gmem, long long* clocks_gmem, int columns, int repeats PROBE_PARAM) {
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
  // total[0] is the sum of this lane's row. With ldmatrix, total[g] sums every fourth column of row 8g + lane / 4.
  float total[4] = {};
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
