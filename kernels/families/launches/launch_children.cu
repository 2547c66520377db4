/*
title = "A parent with children"
idea = "a kernel reads the length of each sequence and launches a grid of exactly this size (dynamic parallelism)."
changed_from = "launch_padded"
changed = "the host launches only the parent. Each sequence has a grid of its own size, and the merge is a tail launch."
costs = "the first child and the last one start microseconds after their call. The host's launches wait in the stream."
limits = "fp32. HEAD_DIM 32, 64 or 128."
source = "CUDA C++ Programming Guide, dynamic parallelism."
family = "launches"
problem = "ragged"
rung = 11
constants."WARPS, PARTITION" = {}  # these and the other empty tables: step.cuh
scratch."m_part, l_part, o_part" = {}

[[launches]]
entry = "parent"
children = ["partials", "merge"]
grid = [1]
block = ["32 * ceil_div(sequences, 32)"]
args = [
  "q", "k", "v", "lengths", "m_part", "l_part", "o_part", "o", "int32 sequences", "int32 num_heads",
  {struct = ["int32 context", "int32 ceil_div(context, PARTITION)", "float32 scale"]},
]

[[launches]]
entry = "partials"
item = "partition block"
repeat = {sequence = "sequences"}
grid = ["ceil_div(lengths[sequence], PARTITION * WARPS)", "num_heads"]
block = ["32 * WARPS"]

[[launches]]
entry = "merge"
item = "query block"
grid = ["ceil_div(num_heads, WARPS)", "sequences"]
block = ["32 * WARPS"]
*/
#include "children.cuh"
#include "ragged.cuh"

// m, l and O of each part of the keys of one sequence
extern "C" __global__ void __launch_bounds__(32 * WARPS)
partials(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* m_gmem, float* l_gmem,
         float* o_part_gmem, int sequence, int length, const __grid_constant__ Step z PROBE_PARAM) {
  PROBE_BEGIN();
  partials_of(Q_gmem, K_gmem, V_gmem, {m_gmem, l_gmem, o_part_gmem}, sequence, length, z PROBE_PASS);
}

// The output of each token from its parts, a warp for each token
extern "C" __global__ void __launch_bounds__(32 * WARPS)
merge(const int* lengths_gmem, float* m_gmem, float* l_gmem, float* o_part_gmem, float* O_gmem, int heads,
      const __grid_constant__ Step z PROBE_PARAM) {
  PROBE_BEGIN();
  merge_ragged(lengths_gmem, {m_gmem, l_gmem, o_part_gmem}, O_gmem, heads, z PROBE_PASS);
}

// A thread for each sequence launches its grid. The first thread also launches the merge, which waits for all grids
extern "C" __global__ void
parent(const float* Q_gmem, const float* K_gmem, const float* V_gmem, const int* lengths_gmem, float* m_gmem,
       float* l_gmem, float* o_part_gmem, float* O_gmem, int sequences, int heads,
       const __grid_constant__ Step z PROBE_PARAM PROBE_CHILDREN) {
  PROBE_BEGIN();
  const int sequence = threadIdx.x;
  if (sequence >= sequences) return;
  PROBE_LOAD(lengths_gmem, sequence, 4);
  const int length = ldg<int>(&lengths_gmem[sequence]), parts = (length + PARTITION - 1) / PARTITION;
  PROBE_MARK(child, sequence);
  partials<<<dim3((parts + WARPS - 1) / WARPS, heads), 32 * WARPS, 0, cudaStreamFireAndForget>>>(
      Q_gmem, K_gmem, V_gmem, m_gmem, l_gmem, o_part_gmem, sequence, length, z PROBE_CHILD(sequence));
  if (sequence == 0)
    merge<<<dim3((heads + WARPS - 1) / WARPS, sequences), 32 * WARPS, 0, cudaStreamTailLaunch>>>(
        lengths_gmem, m_gmem, l_gmem, o_part_gmem, O_gmem, heads, z PROBE_CHILD(sequences));
}
