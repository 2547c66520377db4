/*
title = "Uninitialised"
idea = "reads shared memory that nobody wrote."
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
  DYNAMIC_SMEM(float, X_smem);
  PROBE_LOAD(X_smem, threadIdx.x, 4);
  const float v = lds<float>(&X_smem[threadIdx.x]);
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[0], v);
}
