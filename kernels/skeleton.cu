/*
title = "Scaled copy"
idea = "each thread writes one number of V, times a constant, to O."
changed = "nothing. This is the smallest kernel."
costs = "V is read once and O written once."
limits = "fp32. It is no attention, so the check reports it as wrong."
source = "kernels/first-kernel.md"
family = "dense"

[constants.BLOCK_Q]
default = 16
values = [8, 16, 32]
meaning = "query rows per tile"

[[launches]]
entry = "scaled_copy"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["head_dim", "BLOCK_Q"]
args = ["v", "o", "int32 seq_len", "float32 scale"]
item = "query tile"
*/
#include "common.cuh"

// O = scale * V   V, O: [batch * num_heads, seq_len, HEAD_DIM]
extern "C" __global__ void scaled_copy(const float* V_gmem, float* O_gmem, int seq_len, float scale PROBE_PARAM) {
  const int row = blockIdx.x * BLOCK_Q + threadIdx.y, dim = threadIdx.x;
  if (row >= seq_len) return;
  PROBE_BEGIN();
  PROBE_MARK(write, row);
  const size_t at = ((size_t)blockIdx.y * seq_len + row) * HEAD_DIM + dim;
  PROBE_LOAD(V_gmem, at, 4);
  const float v = ldg<float>(&V_gmem[at]);
  const float o = scale * v;
  PROBE_VALUE(o, row, dim, o);
  PROBE_STORE(O_gmem, at, 4);
  stg<float>(&O_gmem[at], o);
}
