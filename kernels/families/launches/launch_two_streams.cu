/*
title = "Two streams"
idea = "prefill and decode do not need each other, so each has a stream and they run at the same time."
changed_from = "launch_one_stream"
changed = "partials and merge are on stream 1."
costs = "both share memory bandwidth and multiprocessors, and events at begin and end order the streams."
limits = "fp32. HEAD_DIM 32, 64 or 128."
source = "CUDA C++ Programming Guide, streams."
family = "launches"
rung = 3
constants."WARPS, PARTITION" = {}  # these and the other empty tables: step.cuh
scratch."m_part, l_part, o_part" = {}

[[launches]]
entry = "prefill"

[[launches]]
entry = "partials"
stream = 1

[[launches]]
entry = "merge"
stream = 1
*/
#include "step.cuh"

// Causal attention of a new prompt
extern "C" __global__ void __launch_bounds__(32 * WARPS)
prefill(const float* prompt_q_gmem, const float* prompt_k_gmem, const float* prompt_v_gmem, float* prompt_o_gmem,
        int rows, float scale PROBE_PARAM) {
  PROBE_BEGIN();
  prefill_rows(prompt_q_gmem, prompt_k_gmem, prompt_v_gmem, prompt_o_gmem, rows, scale PROBE_PASS);
}

// The next token of each running sequence, from each part of its keys
extern "C" __global__ void __launch_bounds__(32 * WARPS)
partials(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* m_gmem, float* l_gmem,
         float* o_part_gmem, int first_sequence, const __grid_constant__ Step z PROBE_PARAM) {
  PROBE_BEGIN();
  partials_of(Q_gmem, K_gmem, V_gmem, {m_gmem, l_gmem, o_part_gmem}, first_sequence + blockIdx.z, z.context,
              z PROBE_PASS);
}

// The output of each token from its parts, a warp for each token
extern "C" __global__ void __launch_bounds__(32 * WARPS)
merge(float* m_gmem, float* l_gmem, float* o_part_gmem, float* O_gmem, int queries,
      const __grid_constant__ Step z PROBE_PARAM) {
  PROBE_BEGIN();
  const int query = blockIdx.x * WARPS + threadIdx.x / 32;
  if (query < queries) merge_parts({m_gmem, l_gmem, o_part_gmem}, O_gmem, query, z.context, z PROBE_PASS);
}
