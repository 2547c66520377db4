/*
title = "Reduction by atomics"
idea = "every thread adds its number to one word of global memory. The L2 cache does the additions, one after another."
changed_from = "lab_reduce_shuffle"
changed = "no partial sums in the block: an atomic add in place of each further step."
costs = "all adds go to one address, in no fixed order. With shuffles, times vary between runs at 512 numbers."
limits = "one block of 32 to 1,024 numbers, a power of two, one for each thread. O starts as zero."
source = "NVIDIA, \"CUDA C++ Programming Guide\", atomic functions. PTX ISA, red."
family = "lab"
problem = "reduce"
why = [
  "Adds queue at one word in L2, one after another. A fence then waits until the last one is done.",
  "Few adds hardly queue. But a fence waits for their way to L2 and back.",
]
waits = ["L2", "L2"]
rung = 23

[constants.SHUFFLES]
default = 0
values = [0, 1]
names = ["Atomics, every thread", "Shuffles, then atomics"]
meaning = "0: every thread adds its number to O. 1: a warp adds up its numbers first, and one lane adds their sum to O."

[[launches]]
entry = "lab_reduce_atomic"
grid = [1]
block = ["numbers"]
shared_bytes = "4 * numbers"
args = ["x", "o", "clocks", "int32 repeats"]
*/
#include "add.cuh"
#include "bulk.cuh"

// O = repeats * the sum of X. The tensors are those of lab_reduce_tree.
extern "C" __global__ void lab_reduce_atomic(const float* X_gmem, float* O_gmem, long long* clocks_gmem,
                                             int repeats PROBE_PARAM) {
  DYNAMIC_SMEM(float, S_smem);  // [numbers]
  const int thread = threadIdx.x, lane = thread % 32;
  PROBE_BEGIN();
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
    for (int apart = 16; SHUFFLES && apart > 0; apart /= 2) {
      ++step;
      PROBE_MARK(add, step);
      const int at = thread, other = thread ^ apart;
      sum += __shfl_xor_sync(0xffffffffu, sum, apart);
      PROBE_VALUE(partial, step, at, other, sum);
    }
    ++step;
    PROBE_MARK(add, step);
    if (!SHUFFLES || lane == 0) {
      const int at = 0, other = thread;
      PROBE_VALUE(partial, step, at, other, sum);
      PROBE_STORE(O_gmem, 0, 4);
      global_add(&O_gmem[0], sum);
    }
    fence_gpu();  // this thread's add is done
    PROBE_MARK(meet, step);
    __syncthreads();
    const long long end = clock_cycles();
    if (thread > 0) continue;
    PROBE_STORE(clocks_gmem, n, 8);
    stg<long long>(&clocks_gmem[n], end - start);
  }
}
