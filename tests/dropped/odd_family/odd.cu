/*
title = "Odd"
idea = "a block takes one plot, a warp wide, and adds its light to what is there."
changed = "nothing. It is the first of its family."
costs = "one load and one store of each sample."
limits = "none."
source = "Warpglass's own tests."
family = "odd_family"

[constants.BRIGHT]
default = 1
values = [1, 2]
meaning = "reads of each sample. The last one counts."

[[launches]]
entry = "odd"
grid = ["plots"]
block = [32]
args = ["sun", "gains", "glow", "light", "int32 samples"]
item = "plot"
*/
#include "common.cuh"

// glow = sun * gain   [plots, samples];   light += the sum of a plot's glow   [plots]
//   sun_gmem, glow_gmem [plots, samples];  gains_gmem, light_gmem [plots]
extern "C" __global__ void odd(const bfloat16* sun_gmem, const bfloat16* gains_gmem, bfloat16* glow_gmem,
                               float* light_gmem, int samples PROBE_PARAM) {
  const int plot = blockIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(dawn, plot);
  PROBE_LOAD(gains_gmem, plot, 2);
  const float gain = to_float(ldg<bfloat16>(&gains_gmem[plot]));
  float sum = 0.f;
  for (int look = 0; look < BRIGHT; ++look) {
    sum = 0.f;
    for (int sample = threadIdx.x; sample < samples; sample += 32) {
      PROBE_LOAD(sun_gmem, (size_t)plot * samples + sample, 2);
      const float product = gain * to_float(ldg<bfloat16>(&sun_gmem[(size_t)plot * samples + sample]));
      const bfloat16 shine = to_bfloat16(product);
      PROBE_VALUE(shine, plot, sample, shine);
      PROBE_STORE(glow_gmem, (size_t)plot * samples + sample, 2);
      stg<bfloat16>(&glow_gmem[(size_t)plot * samples + sample], shine);
      sum += product;
    }
  }
  __syncwarp();
  PROBE_MARK(dusk, plot);
  sum = group_sum<32>(sum);
  if (threadIdx.x == 0) {
    PROBE_LOAD(light_gmem, plot, 4);
    const float before = ldg<float>(&light_gmem[plot]);
    PROBE_STORE(light_gmem, plot, 4);
    stg<float>(&light_gmem[plot], before + sum);
  }
}
