/*
title = "Deadlock"
idea = "half the block waits at a barrier, the other half in a shuffle that needs all."
changed = "nothing. It is wrong on purpose."
costs = "nothing worth counting."
limits = "it never gives a result."
source = "the tests of the runtime."
family = "dense"

[[launches]]
entry = "broken"
grid = [1]
block = [64]
args = ["o"]
*/
#include "common.cuh"
extern "C" __global__ void broken(float* O_gmem PROBE_PARAM) {
  PROBE_BEGIN();
  if (threadIdx.x % 2) __syncthreads();
  float v = __shfl_xor_sync(0xffffffffu, 1.f, 1);
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[0], v);
}
