/*
title = "Sum by tensor cores"
idea = "a matrix of ones times a matrix of the numbers: one instruction adds 128 numbers into eight sums."
changed_from = "lab_reduce_shuffle"
changed = "the tensor cores of one warp add, and two shuffles are left."
costs = "16 equal rows of sums, of which one is used. Numbers lose all bits that bfloat16 does not hold."
limits = "numbers that bfloat16 holds exactly, such as whole numbers to 256. One block of 32 to 1,024 numbers."
source = "Dakkak et al. 2019, Accelerating Reduction and Scan Using Tensor Core Units, arXiv:1811.09736."
family = "lab"
problem = "reduce"
why = [
  "One warp works, without a barrier. An instruction makes 8 sums of 128 numbers, two shuffles add these.",
]
waits = ["products, shuffles"]
rung = 24
requires = "sm_80 for mma.m16n8k16"

[[launches]]
entry = "lab_reduce_ones"
grid = [1]
block = ["numbers"]
shared_bytes = "4 * numbers"
args = ["x", "o", "clocks", "int32 repeats"]
*/
#include "mma.cuh"

// O = repeats * the sum of X. The tensors are those of lab_reduce_tree.
extern "C" __global__ void lab_reduce_ones(const float* X_gmem, float* O_gmem, long long* clocks_gmem,
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
      // C [16, 8] += 1 [16, 16] @ B [16, 8]. B holds 128 numbers in any order, four of each lane.
      const unsigned one = pair<bfloat16>(1.f, 1.f), ones[4] = {one, one, one, one};
      float C[4] = {};
      for (int first = 0; first < numbers; first += 128) {
        ++step;
        PROBE_MARK(add, step);
        const int at = thread, other = first + 4 * lane;
        float4 b = make_float4(0.f, 0.f, 0.f, 0.f);
        if (other < numbers) {
          PROBE_LOAD(S_smem, other, 16);
          b = lds<float4>(&S_smem[other]);
        }
        mma<bfloat16>(C, ones, pair<bfloat16>(b.x, b.y), pair<bfloat16>(b.z, b.w));
        PROBE_VALUE(partial, step, at, other, C[0] + C[1]);
      }
      float sum = C[0] + C[1];  // of two columns
      for (int apart = 2; apart > 0; apart /= 2) {
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
    for (const int last = (numbers + 127) / 128 + 2; step < last;) {  // the other warps pass the same marks
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
