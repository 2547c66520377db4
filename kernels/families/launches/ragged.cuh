// The merge of a ragged batch. Each sequence has its own number of keys.
#pragma once
#include "step.cuh"

// O of each query from the parts of its sequence, a warp for each query. Grid: ceil(heads / WARPS) blocks, sequences
__device__ __forceinline__ void merge_ragged(const int* lengths_gmem, const Parts& in, float* O_gmem, int heads,
                                             const Step& z PROBE_REF) {
  const int head = blockIdx.x * WARPS + threadIdx.x / 32, sequence = blockIdx.y;
  if (head >= heads) return;
  PROBE_LOAD(lengths_gmem, sequence, 4);
  merge_parts(in, O_gmem, sequence * heads + head, ldg<int>(&lengths_gmem[sequence]), z PROBE_PASS);
}
