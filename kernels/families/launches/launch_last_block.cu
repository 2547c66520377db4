/*
title = "The last block merges"
idea = "each query has a counter. The block that counts last adds all parts."
changed_from = "launch_grid_barrier"
changed = "no barrier: each query is merged as soon as its own parts are there."
costs = "an atomic add and two fences per block."
limits = "fp32. HEAD_DIM 32, 64 or 128."
source = "Flash-Decoding, Dao et al. 2023. CUDA C++ Programming Guide, memory fence functions."
family = "launches"
rung = 6
constants."WARPS, PARTITION" = {}  # these and the other empty tables: step.cuh
scratch."m_part, l_part, o_part" = {}

[scratch.arrived]
shape = ["sequences", "num_heads"]
axes = ["sequence", "head"]
dtype = "int32"
initial = "restored"

[[launches]]
entry = "prefill"

[[launches]]
entry = "decode"
item = "partition block"
grid = ["ceil_div(context, PARTITION * WARPS)", "num_heads", "sequences"]
block = ["32 * WARPS"]
shared_bytes = 4
args = [
  "q", "k", "v", "m_part", "l_part", "o_part", "arrived", "o",
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

// m, l and O of each part. The block with a query's last part to come adds the parts.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
decode(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* m_gmem, float* l_gmem, float* o_part_gmem,
       int* arrived_gmem, float* O_gmem, const __grid_constant__ Step z PROBE_PARAM) {
  DYNAMIC_SMEM(int, last_smem);  // 1 if this block is the last of its query
  PROBE_BEGIN();
  const Parts parts = {m_gmem, l_gmem, o_part_gmem};
  const int query = blockIdx.z * gridDim.y + blockIdx.y;
  partials_of(Q_gmem, K_gmem, V_gmem, parts, blockIdx.z, z.context, z PROBE_PASS);
  __syncthreads();
  if (threadIdx.x == 0) {
    const bool last = is_last(&arrived_gmem[query], gridDim.x);
    PROBE_STORE(last_smem, 0, 4);
    sts<int>(&last_smem[0], last);
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  PROBE_LOAD(last_smem, 0, 4);
  if (lds<int>(&last_smem[0])) merge_parts(parts, O_gmem, query, z.context, z PROBE_PASS);
}
