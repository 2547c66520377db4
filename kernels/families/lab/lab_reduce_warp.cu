/*
title = "Shuffles, one warp"
idea = "one warp adds all numbers: each lane several in its registers, then the lanes by five shuffles. No barrier."
changed_from = "lab_reduce_shuffle"
changed = "a lane reads four neighbours at once, in place of one number. The other warps do nothing."
costs = "one warp hides no waits: its loads, adds and shuffles follow one another."
limits = "one block of 32 to 1,024 numbers, a power of two, one for each thread."
source = "Harris, \"Optimizing Parallel Reduction in CUDA\", NVIDIA, 2007: several numbers for each thread."
family = "lab"
problem = "reduce"
why = [
  "No barrier: no warp waits for another one. But one warp makes all reads and adds, one after another.",
]
waits = ["reads, shuffles"]
rung = 22

[[launches]]
entry = "lab_reduce_warp"
grid = [1]
block = ["numbers"]
shared_bytes = "4 * numbers"
args = ["x", "o", "clocks", "int32 repeats"]
*/
#include "common.cuh"

// O = repeats * the sum of X. The tensors are those of lab_reduce_tree.
extern "C" __global__ void lab_reduce_warp(const float* X_gmem, float* O_gmem, long long* clocks_gmem,
                                           int repeats PROBE_PARAM) {
  DYNAMIC_SMEM(float, S_smem);  // [numbers]
  const int thread = threadIdx.x, lane = thread % 32, numbers = blockDim.x;
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
    if (thread < 32) {
      float sum = 0.f;
      for (int first = 0; first < numbers; first += 128) {
        ++step;
        PROBE_MARK(add, step);
        const int at = thread, other = first + 4 * lane;
        float4 b = make_float4(0.f, 0.f, 0.f, 0.f);
        if (other < numbers) {
          PROBE_LOAD(S_smem, other, 16);
          b = lds<float4>(&S_smem[other]);
        }
        sum += (b.x + b.y) + (b.z + b.w);
        PROBE_VALUE(partial, step, at, other, sum);
      }
      for (int apart = 16; apart > 0; apart /= 2) {
        ++step;
        PROBE_MARK(add, step);
        const int at = thread, other = lane ^ apart;
        sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        PROBE_VALUE(partial, step, at, other, sum);
      }
      if (lane == 0) {
        PROBE_STORE(S_smem, 0, 4);
        sts<float>(&S_smem[0], sum);
      }
      total += sum;
    }
    for (const int last = (numbers + 127) / 128 + 5; step < last;) {  // the other warps pass the same marks
      ++step;
      PROBE_MARK(add, step);
    }
    const long long end = clock_cycles();
    __syncthreads();  // before the next fill
    if (thread > 0) continue;
    PROBE_STORE(clocks_gmem, n, 8);
    stg<long long>(&clocks_gmem[n], end - start);
  }
  if (thread > 0) return;
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[0], total);
}
