// endless. Idea: never returns.
#include "common.cuh"
extern "C" __global__ void broken(float* O_gmem PROBE_PARAM) {
  PROBE_BEGIN();
  volatile int forever = 1;
  while (forever) {
  }
}
