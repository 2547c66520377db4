/*
title = "Pointer chase"
idea = "each load brings the address of the next, so the time divided by the number of loads is one load's latency."
changed_from = "lab_global"
changed = "one thread, and a ring of cache lines in random order that no prefetcher can guess."
costs = "the latency of the smallest level of the memory that holds the ring."
limits = "one node in each line of 128 bytes. Shared memory holds at most the bytes that a block may have."
source = "Saavedra-Barrera 1992, PhD thesis, Berkeley; for GPUs, Mei and Chu 2017, arXiv:1509.02308."
family = "lab"
problem = "chase"
rung = 5

[[launches]]
entry = "lab_chase"
grid = [1]
block = [1]
shared_bytes = "128 * nodes if SPACE == SPACE_SHARED else 0"
args = ["n", "o", "times", "int32 nodes", "int32 start", "int32 warm_up", "int32 steps"]
*/
#include "common.cuh"
#define NODE 128  // bytes

// O = the node after `warm_up + steps` links from byte `start` on. Only the last `steps` are timed.
//   N_gmem      [nodes, NODE bytes]  a node's first int is the start of the next node, in bytes from N_gmem
//   O_gmem      [1]                  the number of the last node
//   times_gmem  [2]                  duration of the timed links: cycles of the multiprocessor, and ns
// SPACE, a constant of the build, is the memory of the ring: SPACE_THROUGH_L1, SPACE_FROM_L2 (past L1), SPACE_SHARED.
extern "C" __global__ void lab_chase(
    const unsigned char* N_gmem, float* O_gmem, long long* times_gmem, int nodes, int start, int warm_up,
    int steps PROBE_PARAM) {
  DYNAMIC_SMEM(unsigned char, N_smem);  // [nodes, NODE bytes], if SPACE is SPACE_SHARED
  const int tile = blockIdx.x;
  PROBE_BEGIN();
  if (SPACE == SPACE_SHARED) {
    PROBE_MARK(load_tile, tile);
    for (int i = 0; i < nodes * NODE; i += NODE) {
      PROBE_LOAD(N_gmem, i, 4);
      const int next = ldg<int>(&N_gmem[i]);
      PROBE_STORE(N_smem, i, 4);
      sts<int>(&N_smem[i], next);
    }
  }
  unsigned at = start;
  long long cycles = 0, ns = 0;
  PROBE_MARK(walk, tile);
  for (int step = -warm_up; step < steps; ++step) {
    if (step == 0) cycles = clock_cycles(), ns = global_time_ns();
    if (SPACE == SPACE_SHARED) {
      PROBE_LOAD(N_smem, at, 4);
      at = lds<int>(&N_smem[at]);
    } else if (SPACE == SPACE_FROM_L2) {
      PROBE_LOAD(N_gmem, at, 4);
      at = ldg_l2<int>(&N_gmem[at]);
    } else {
      PROBE_LOAD(N_gmem, at, 4);
      at = ldg<int>(&N_gmem[at]);
    }
  }
  cycles = clock_cycles() - cycles, ns = global_time_ns() - ns;
  PROBE_MARK(write, tile);
  PROBE_STORE(times_gmem, 0, 8);
  stg<long long>(&times_gmem[0], cycles);
  PROBE_STORE(times_gmem, 1, 8);
  stg<long long>(&times_gmem[1], ns);
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[0], (float)(at / NODE));
}
