/*
title = "Multiply-adds"
idea = """16 chains of fused multiply-adds in each thread's registers, and memory only at the start and the end: the \
fp32 roof."""
changed_from = "lab_stream"
changed = "no repeated reads, only arithmetic."
costs = "nothing but multiply-adds, two operations each. A thread's chains do not wait for one another."
limits = "whole numbers that stay below 2^24, so that every sum is exact and the result can be checked."
source = "Williams, Waterman and Patterson 2009, \"Roofline\". The ceiling is measured, not taken from a datasheet."
family = "lab"
problem = "fma"
rung = 7

[[launches]]
entry = "lab_fma"
grid = ["blocks"]
block = [256]
args = ["a", "o", "int32 passes"]
*/
#include "common.cuh"
#define CHAINS 16

// O[thread] = the sum of CHAINS chains. Chain n starts with x = n. `passes` times x = x * A[0] + A[1 + thread % 16].
//   A_gmem  [17]            the factor, and the terms of 16 neighbouring threads
//   O_gmem  [blocks * 256]  a sum for each thread
extern "C" __global__ void __launch_bounds__(256) lab_fma(const float* A_gmem, float* O_gmem, int passes PROBE_PARAM) {
  const int tile = blockIdx.x, at = blockIdx.x * blockDim.x + threadIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(load_tile, tile);
  PROBE_LOAD(A_gmem, 0, 4);
  const float factor = ldg<float>(&A_gmem[0]);
  PROBE_LOAD(A_gmem, 1 + threadIdx.x % 16, 4);
  const float term = ldg<float>(&A_gmem[1 + threadIdx.x % 16]);
  float x[CHAINS];
#pragma unroll
  for (int n = 0; n < CHAINS; ++n) x[n] = n;
  PROBE_MARK(walk, tile);
#pragma unroll 4
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int n = 0; n < CHAINS; ++n) x[n] = fmaf(x[n], factor, term);
  }
  PROBE_MARK(write, tile);
  float total = 0.f;
#pragma unroll
  for (int n = 0; n < CHAINS; ++n) total += x[n];
  PROBE_STORE(O_gmem, at, 4);
  stg<float>(&O_gmem[at], total);
}
