// endless. Idea: waits for a value that nobody writes.
#include "common.cuh"
extern "C" __global__ void broken(float* O_gmem PROBE_PARAM) {
  PROBE_BEGIN();
  float seen = 0.f;
  while (seen != 12345.f) {
    PROBE_LOAD(O_gmem, 0, 4);
    seen = ldg<float>(&O_gmem[0]);
  }
}
