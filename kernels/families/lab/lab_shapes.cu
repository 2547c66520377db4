/*
title = "Shapes of a warp's reads"
idea = "the lanes of a warp read a row, a tile or a column of a matrix, through a 2-D texture or from global memory."
changed_from = "lab_chase_texture"
changed = "a 2-D texture in a CUDA array, whose layout keeps neighbours in both directions close together."
costs = "a copy of the matrix into a CUDA array. The texture unit takes the same time for each shape that L1 serves."
limits = "shapes of 32 numbers inside areas of 32 x 32. The matrix has 1,024 columns."
source = "NVIDIA, \"CUDA C++ Programming Guide\", Texture and Surface Memory."
family = "lab"
problem = "shapes"
rung = 12

[constants.SPACE]
default = 0
values = [0, 1]
names = ["2-D texture", "Global memory"]
meaning = "memory of the matrix: 0: a CUDA array, read by texture fetches, 1: global memory, row after row"

[[launches]]
entry = "lab_shapes"
grid = [1]
block = [512]
args = [
  {texture = "x", dimensions = 2}, "x", "o", "clocks", "int32 columns", "int32 areas", "int32 reads", "int32 passes",
]
*/
#include "common.cuh"

// O[thread] = the sum of the thread's numbers in all passes. Each of 16 warps reads in turn one shape in an area.
//   X_texture, X_gmem  [rows, 1024]  areas of 32 x 32, 32 areas in a row
//   O_gmem             [512]
//   clocks_gmem        [passes]      cycles of the SM for `reads` reads of a warp
// A shape has `columns` columns and 32 / columns rows. Probes of loads log global and shared memory only, so a value
// shows the texel of a fetch.
extern "C" __global__ void lab_shapes(cudaTextureObject_t X_texture, const float* X_gmem, float* O_gmem,
                                      long long* clocks_gmem, int columns, int areas, int reads,
                                      int passes PROBE_PARAM) {
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  PROBE_BEGIN();
  float total = 0.f;
  for (int pass = 0; pass < passes; ++pass) {
    __syncthreads();
    const long long start = clock_cycles();
    PROBE_MARK(walk, pass);
#pragma unroll 8
    for (int read = warp; read < reads; read += 16) {
      const int area = read & (areas - 1);  // a power of two
      const int row = area / 32 * 32 + lane / columns, column = area % 32 * 32 + lane % columns;
#if SPACE == 0
      const float x = tex2D<float>(X_texture, column + 0.5f, row + 0.5f);  // logged: texel
#else
      PROBE_LOAD(X_gmem, row * 1024 + column, 4);
      const float x = ldg<float>(&X_gmem[row * 1024 + column]);  // logged: texel
#endif
      PROBE_VALUE(texel, row, column, x);
      total += x;
    }
    PROBE_STORE(O_gmem, thread, 4);
    stg<float>(&O_gmem[thread], total);  // waits for the last read
    __syncthreads();
    const long long cycles = clock_cycles() - start;
    if (thread > 0) continue;
    PROBE_STORE(clocks_gmem, pass, 8);
    stg<long long>(&clocks_gmem[pass], cycles);
  }
}
