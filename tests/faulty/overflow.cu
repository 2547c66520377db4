/*
title = "Overflow"
idea = "its locals outgrow the stack."
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
  const int tile = threadIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(fill, tile);
  float many[17 * 1024];  // 68 KB, which the thread needs before its first line
  for (int i = 0; i < 17 * 1024; ++i) many[i] = O_gmem[0] + i;
  float sum = 0;
  for (int i = 0; i < 17 * 1024; ++i) sum += many[i * 7 % (17 * 1024)];
  O_gmem[0] = sum;
}
