/*
title = "Endless"
idea = "waits for a value that nobody writes."
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
  float seen = 0.f;
  while (seen != 12345.f) {
    PROBE_LOAD(O_gmem, 0, 4);
    seen = ldg<float>(&O_gmem[0]);
  }
}
