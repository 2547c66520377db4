/*
title = "Illegal"
idea = "stores far outside its buffer."
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
  const size_t far = (size_t)1 << 40;
  PROBE_STORE(O_gmem, far, 4);
  stg<float>(&O_gmem[far], 1.f);
}
