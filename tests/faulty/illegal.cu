// illegal. Idea: stores far outside its buffer.
#include "common.cuh"
extern "C" __global__ void broken(float* O_gmem PROBE_PARAM) {
  PROBE_BEGIN();
  const size_t far = (size_t)1 << 40;
  PROBE_STORE(O_gmem, far, 4);
  stg<float>(&O_gmem[far], 1.f);
}
