// lying. Idea: the probe says one address, the store goes to another.
#include "common.cuh"
extern "C" __global__ void broken(float* O_gmem PROBE_PARAM) {
  PROBE_BEGIN();
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[1], 1.f);
}
