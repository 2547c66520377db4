/*
title = "One padded grid"
idea = "each sequence gets as many blocks as the longest one. Blocks past its own end return at once."
changed_from = "launch_one_stream"
changed = "the sequences have very different numbers of keys, and no prompt is part of the step."
costs = "a block without keys still has to start and end."
limits = "fp32. HEAD_DIM 32, 64 or 128."
source = "Flash-Decoding, Dao et al. 2023."
family = "launches"
problem = "ragged"
rung = 10
constants."WARPS, PARTITION" = {}  # these and the other empty tables: step.cuh
scratch."m_part, l_part, o_part" = {}

[[launches]]
entry = "partials"
args = [
  "q", "k", "v", "lengths", "m_part", "l_part", "o_part",
  {struct = ["int32 context", "int32 ceil_div(context, PARTITION)", "float32 scale"]},
]

[[launches]]
entry = "merge"
grid = ["ceil_div(num_heads, WARPS)", "sequences"]
args = [
  "lengths", "m_part", "l_part", "o_part", "o", "int32 num_heads",
  {struct = ["int32 context", "int32 ceil_div(context, PARTITION)", "float32 scale"]},
]
*/
#include "ragged.cuh"

// m, l and O of each part of the keys. A block past the end of its sequence does nothing
extern "C" __global__ void __launch_bounds__(32 * WARPS)
partials(const float* Q_gmem, const float* K_gmem, const float* V_gmem, const int* lengths_gmem, float* m_gmem,
         float* l_gmem, float* o_part_gmem, const __grid_constant__ Step z PROBE_PARAM) {
  PROBE_BEGIN();
  const int sequence = blockIdx.z;
  PROBE_LOAD(lengths_gmem, sequence, 4);
  const int length = ldg<int>(&lengths_gmem[sequence]);
  partials_of(Q_gmem, K_gmem, V_gmem, {m_gmem, l_gmem, o_part_gmem}, sequence, length, z PROBE_PASS);
}

// The output of each token from its parts, a warp for each token
extern "C" __global__ void __launch_bounds__(32 * WARPS)
merge(const int* lengths_gmem, float* m_gmem, float* l_gmem, float* o_part_gmem, float* O_gmem, int heads,
      const __grid_constant__ Step z PROBE_PARAM) {
  PROBE_BEGIN();
  merge_ragged(lengths_gmem, {m_gmem, l_gmem, o_part_gmem}, O_gmem, heads, z PROBE_PASS);
}
