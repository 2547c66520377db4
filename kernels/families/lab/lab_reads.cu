/*
title = "One address or many"
idea = "the lanes of a warp read one word or up to 32 different ones, from constant memory or from L1."
changed_from = "lab_chase_constant"
changed = "a whole warp follows links, and each link leads to its own word."
costs = "constant memory serves one address at a time. L1 serves a whole line at once."
limits = "one warp and 1,024 words."
source = "NVIDIA, \"CUDA C++ Best Practices Guide\", constant memory."
family = "lab"
problem = "reads"
rung = 11

[constants.SPACE]
default = 0
values = [0, 1]
names = ["Constant memory", "Global memory through L1"]
meaning = "memory of the words: 0: constant, 1: global"

[[launches]]
entry = "lab_reads"
grid = [1]
block = [32]
args = ["n", "o", "clocks", "int32 different", "int32 passes"]
*/
#include "common.cuh"

struct Words {
  int words[1024];  // word w holds w
  __device__ constexpr Words() : words() {
    for (int w = 0; w < 1024; ++w) words[w] = w;
  }
};
__constant__ Words N_const = Words();

// O[lane] = lane % different, after passes * LINKS reads of the word with this number
//   N_gmem       [1024]    word w holds w
//   O_gmem       [32]
//   clocks_gmem  [passes]  cycles of the SM for LINKS reads, each with the address from the read before
// Probes log global and shared memory only, so reads of constant memory have none.
extern "C" __global__ void lab_reads(const int* N_gmem, float* O_gmem, long long* clocks_gmem, int different,
                                     int passes PROBE_PARAM) {
  const int lane = threadIdx.x;
  PROBE_BEGIN();
  int at = lane % different;
  for (int pass = 0; pass < passes; ++pass) {
    PROBE_MARK(walk, pass);
    const long long start = clock_cycles();
#pragma unroll
    for (int link = 0; link < LINKS; ++link) {
#if SPACE == 0
      at = N_const.words[at];
#else
      PROBE_LOAD(N_gmem, at, 4);
      at = ldg<int>(&N_gmem[at]);
#endif
    }
    PROBE_STORE(O_gmem, lane, 4);
    stg<float>(&O_gmem[lane], (float)at);  // waits for the last read
    const long long cycles = clock_cycles() - start;
    if (lane > 0) continue;
    PROBE_STORE(clocks_gmem, pass, 8);
    stg<long long>(&clocks_gmem[pass], cycles);
  }
}
