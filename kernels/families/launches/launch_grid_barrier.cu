/*
title = "Cooperative launch with a grid barrier"
idea = "all blocks are on the GPU at one time, so a barrier replaces the second launch of decode and its gap."
changed_from = "launch_one_stream"
changed = "decode is one cooperative launch: the parts, a barrier of all blocks, then the merge."
costs = "all blocks wait for the slowest one, and the grid must fit on the GPU at one time."
limits = "fp32. HEAD_DIM 32, 64 or 128."
source = "CUDA C++ Programming Guide, grid synchronization."
family = "launches"
rung = 5
constants."WARPS, PARTITION" = {}  # these and the other empty tables: step.cuh
scratch."m_part, l_part, o_part" = {}
scratch.arrived = {dtype = "int32", initial = "restored", shape = [1], axes = ["one"]}

[[conditions]]
must = "ceil_div(context, PARTITION * WARPS) * num_heads * sequences <= 1024"
message = "A cooperative launch has at most 1,024 blocks here. Choose fewer sequences or larger parts."

[[launches]]
entry = "prefill"

[[launches]]
entry = "decode"
item = "partition block"
cooperative = true
grid = ["ceil_div(context, PARTITION * WARPS)", "num_heads", "sequences"]
block = ["32 * WARPS"]
args = [
  "q", "k", "v", "m_part", "l_part", "o_part", "arrived", "o", "int32 sequences * num_heads",
  {struct = ["int32 context", "int32 ceil_div(context, PARTITION)", "float32 scale"]},
]
*/
#include "step.cuh"

// Causal attention of a new prompt
extern "C" __global__ void __launch_bounds__(32 * WARPS)
prefill(const float* prompt_q_gmem, const float* prompt_k_gmem, const float* prompt_v_gmem, float* prompt_o_gmem,
        int rows, float scale PROBE_PARAM) {
  PROBE_BEGIN();
  prefill_rows(prompt_q_gmem, prompt_k_gmem, prompt_v_gmem, prompt_o_gmem, rows, scale PROBE_PASS);
}

// Attention over each part of the keys, a barrier of the grid, then the output of each query
extern "C" __global__ void __launch_bounds__(32 * WARPS)
decode(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* m_gmem, float* l_gmem, float* o_part_gmem,
       int* arrived_gmem, float* O_gmem, int queries, const __grid_constant__ Step z PROBE_PARAM) {
  PROBE_BEGIN();
  const Parts parts = {m_gmem, l_gmem, o_part_gmem};
  partials_of(Q_gmem, K_gmem, V_gmem, parts, blockIdx.z, z.context, z PROBE_PASS);
  grid_barrier(arrived_gmem);
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const int blocks = gridDim.x * gridDim.y * gridDim.z;
  for (int query = block + blocks * (threadIdx.x / 32); query < queries; query += blocks * WARPS)
    merge_parts(parts, O_gmem, query, z.context, z PROBE_PASS);
}
