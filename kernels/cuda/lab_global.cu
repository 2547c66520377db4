// lab_global. Idea: one warp reads the same elements from global memory under five layouts; which 32-byte sectors it touches is all that differs.
// Changed from lab_columns: the walk goes over global memory, where sectors count and banks do not.
// Costs: side by side, 32 lanes of 4 bytes touch 4 sectors; a stride of 8 floats or more makes it 32, of which 4 bytes each are used.
// Limits: one warp; the paged layouts hold pieces of 16 bytes, so they need a WIDTH of 16.
// Source: NVIDIA, "CUDA C++ Best Practices Guide", coalesced access; vLLM's layout of the K cache, arXiv:2309.06180.
#define PAD 0
#define SWIZZLE 0
#include "lab.cuh"
#define ROW_MAJOR 0     // lane after lane
#define STRIDED 1       // every stride-th element
#define MISALIGNED 2    // lane after lane, from an element that begins no sector
#define PAGED_SPLIT 3   // K cache [pieces, block_size, 16 bytes]: the same piece of neighbouring tokens lies side by side
#define PAGED_WHOLE 4   // K cache [block_size, pieces, 16 bytes]: each token's key lies in one piece

// O[lane] = the sum of what the lane reads   [32]; element e is WIDTH bytes
extern "C" __global__ void lab_global(const float* X_gmem, float* O_gmem, int steps, int stride, int shift, int block_size PROBE_PARAM) {
  const int lane = threadIdx.x, pieces = steps * 32 / block_size;
  PROBE_BEGIN();

  float total = 0.f;
  for (int step = 0; step < steps; ++step) {
    PROBE_MARK(walk, step);
    const int n = step * 32 + lane, token = n % block_size, piece = n / block_size;
    int at = n;
    if (LAYOUT == STRIDED) at = n * stride;
    if (LAYOUT == MISALIGNED) at = n + shift;
    if (LAYOUT == PAGED_SPLIT) at = piece * block_size + token;
    if (LAYOUT == PAGED_WHOLE) at = token * pieces + piece;
    PROBE_LOAD(X_gmem, (size_t)at * FLOATS, WIDTH);
    const Wide x = ldg<Wide>(&X_gmem[(size_t)at * FLOATS]);
    total += sum(x);
  }
  PROBE_MARK(write, steps);
  PROBE_STORE(O_gmem, lane, 4);
  stg<float>(&O_gmem[lane], total);
}
