/*
title = "Reduction by a tree"
idea = "threads add pairs of numbers in shared memory, so 256 numbers become one after eight steps and barriers."
changed = "nothing: the first of the reductions. TREE says which thread adds which two words."
costs = "a barrier a step. In 2007, Harris's divergent tree was the slower one: it used the slow remainder %, here &."
limits = "one block of 32 to 1,024 numbers, a power of two, one for each thread."
source = "Harris, \"Optimizing Parallel Reduction in CUDA\", NVIDIA, 2007."
family = "lab"
problem = "reduce"
why = [
  "In most steps, all warps work with few lanes each, and their waits overlap. Then all wait at the step's barrier.",
  "Fewer warps work, but words share banks. A warp's wavefronts follow one another, so the barrier waits longer.",
  "The first threads add words side by side, so no two share a bank. All still wait at each step's barrier.",
]
waits = ["reads, barriers", "banks, barriers", "reads, barriers"]
rung = 20

[constants.TREE]
default = 0
values = [0, 1, 2]
names = ["Tree, divergent", "Tree, not divergent", "Tree, no conflicts"]
meaning = "0: threads at every second, fourth, ... word add. 1: the first threads add these words. 2: the first words."

[[launches]]
entry = "lab_reduce_tree"
grid = [1]
block = ["numbers"]
shared_bytes = "4 * numbers"
args = ["x", "o", "clocks", "int32 repeats"]
*/
#include "common.cuh"

// Cycles on an H100: a load of one warp takes 29 with one wavefront and 2 more for each further one (43 with 8, 90 with
// 32). A step of TREE 0 takes 97. One of TREE 1 takes 103 with one wavefront in a load, and 129 with eight. Nsight
// Compute counts equal wavefronts of loads and of stores in both, but 1.5 times as many in the data pipe of TREE 1.
//
// O = repeats * the sum of X
//   X_gmem       [numbers]  one for each thread
//   O_gmem       [1]
//   clocks_gmem  [repeats]  cycles of the SM from the numbers in shared memory to their sum there
extern "C" __global__ void lab_reduce_tree(const float* X_gmem, float* O_gmem, long long* clocks_gmem,
                                           int repeats PROBE_PARAM) {
  DYNAMIC_SMEM(float, S_smem);  // [numbers]
  const int thread = threadIdx.x, numbers = blockDim.x;
  PROBE_BEGIN();
  float total = 0.f;
  for (int n = 0; n < repeats; ++n) {
    int step = 0;
    PROBE_MARK(fill, step);
    PROBE_LOAD(X_gmem, thread, 4);
    const float x = ldg<float>(&X_gmem[thread]);
    PROBE_STORE(S_smem, thread, 4);
    sts<float>(&S_smem[thread], x);
    PROBE_MARK(meet, step);
    __syncthreads();
    const long long start = clock_cycles();
    for (int active = numbers / 2, near = 1; active > 0; active /= 2, near *= 2) {
      ++step;
      PROBE_MARK(add, step);
      const int apart = TREE == 2 ? active : near;
      const bool adds = TREE == 0 ? (thread & (2 * apart - 1)) == 0 : thread < active;
      const int at = TREE == 1 ? 2 * apart * thread : thread, other = at + apart;
      if (adds) {
        PROBE_LOAD(S_smem, at, 4);
        const float a = lds<float>(&S_smem[at]);
        PROBE_LOAD(S_smem, other, 4);
        const float b = lds<float>(&S_smem[other]);
        PROBE_VALUE(partial, step, at, other, a + b);
        PROBE_STORE(S_smem, at, 4);
        sts<float>(&S_smem[at], a + b);
      }
      PROBE_MARK(meet, step);
      __syncthreads();
    }
    const long long end = clock_cycles();
    if (thread > 0) continue;
    PROBE_LOAD(S_smem, 0, 4);
    total += lds<float>(&S_smem[0]);
    PROBE_STORE(clocks_gmem, n, 8);
    stg<long long>(&clocks_gmem[n], end - start);
  }
  if (thread > 0) return;
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[0], total);
}
