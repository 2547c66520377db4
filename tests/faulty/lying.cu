/*
title = "Lying"
idea = "the probe says one address, the store goes to another."
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
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[1], 1.f);
}
