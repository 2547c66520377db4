/*
title = "Reduction by shuffles"
idea = "the lanes of a warp add each other's registers by shuffles: five steps without shared memory or a barrier."
changed_from = "lab_reduce_tree"
changed = "partial sums stay in registers. Shared memory holds one sum for each warp."
costs = "one barrier. With one level, thread 0 then adds the warps' sums one after another."
limits = "one block of 32 to 1,024 numbers, a power of two, one for each thread."
source = "Luitjens, \"Faster Parallel Reductions on Kepler\", NVIDIA Technical Blog, 2014."
family = "lab"
problem = "reduce"
why = [
  "A shuffle passes registers between lanes, without a barrier. Then one thread adds the sums of all warps in turn.",
  "A shuffle passes registers between lanes, without a barrier. Then one warp adds the sums of all warps.",
]
waits = ["shuffles, reads", "shuffles"]
rung = 21

[constants.LEVELS]
default = 2
values = [1, 2]
names = ["Shuffles, one level", "Shuffles, two levels"]
meaning = "1: thread 0 adds the warps' sums. 2: the first warp adds them by shuffles too."

[[launches]]
entry = "lab_reduce_shuffle"
grid = [1]
block = ["numbers"]
shared_bytes = "4 * (numbers + 32)"
args = ["x", "o", "clocks", "int32 repeats"]
*/
#include "common.cuh"

// O = repeats * the sum of X. The tensors are those of lab_reduce_tree.
extern "C" __global__ void lab_reduce_shuffle(const float* X_gmem, float* O_gmem, long long* clocks_gmem,
                                              int repeats PROBE_PARAM) {
  DYNAMIC_SMEM(float, S_smem);  // [numbers], then a sum for each warp
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int numbers = blockDim.x, warps = numbers / 32;
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
    PROBE_LOAD(S_smem, thread, 4);
    float sum = lds<float>(&S_smem[thread]);
    for (int apart = 16; apart > 0; apart /= 2) {
      ++step;
      PROBE_MARK(add, step);
      const int at = thread, other = thread ^ apart;
      sum += __shfl_xor_sync(0xffffffffu, sum, apart);
      PROBE_VALUE(partial, step, at, other, sum);
    }
    if (lane == 0) {
      PROBE_STORE(S_smem, numbers + warp, 4);
      sts<float>(&S_smem[numbers + warp], sum);
    }
    PROBE_MARK(meet, step);
    __syncthreads();
    if (warp == 0) {
      sum = 0.f;
      if (LEVELS == 2) {
        if (lane < warps) {
          PROBE_LOAD(S_smem, numbers + lane, 4);
          sum = lds<float>(&S_smem[numbers + lane]);
        }
        for (int apart = 16; apart > 0; apart /= 2) {
          ++step;
          PROBE_MARK(add, step);
          const int at = thread, other = lane ^ apart;
          sum += __shfl_xor_sync(0xffffffffu, sum, apart);
          PROBE_VALUE(partial, step, at, other, sum);
        }
      } else if (lane == 0) {
        for (int from = 0; from < warps; ++from) {
          ++step;
          PROBE_MARK(add, step);
          const int at = thread, other = 32 * from;  // the lane that stored the sum
          PROBE_LOAD(S_smem, numbers + from, 4);
          sum += lds<float>(&S_smem[numbers + from]);
          PROBE_VALUE(partial, step, at, other, sum);
        }
      }
      if (lane == 0) {
        PROBE_STORE(S_smem, 0, 4);
        sts<float>(&S_smem[0], sum);
      }
    }
    for (const int last = 5 + (LEVELS == 2 ? 5 : warps); step < last;) {  // the other threads pass the same marks
      ++step;
      PROBE_MARK(add, step);
    }
    const long long end = clock_cycles();
    __syncthreads();  // before the next fill
    if (thread > 0) continue;
    total += sum;
    PROBE_STORE(clocks_gmem, n, 8);
    stg<long long>(&clocks_gmem[n], end - start);
  }
  if (thread > 0) return;
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[0], total);
}
