/*
title = "Pointer chase in constant memory"
idea = "the ring is a `__constant__` array, and a cache of its own holds constants: its levels show as plateaus."
changed_from = "lab_chase"
changed = "the ring is in constant memory, with one node in each 64 bytes. The compiler makes it."
costs = "the latency of the smallest constant cache that holds the ring."
limits = "a program has 64 KiB of constant memory. All lanes of a warp should read one address at a time."
source = "Jia et al. 2018, Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, arXiv:1804.06826."
family = "lab"
problem = "chase_constant"
rung = 9

[[launches]]
entry = "lab_chase_constant"
grid = [1]
block = [1]
args = ["o", "times", "int32 warm_up", "int32 steps"]
*/
#include "common.cuh"
#define NODE 64  // bytes, a line of the first constant cache

// One ring through all NODES, in a random order (Sattolo's shuffle). cached.py makes the same ring.
struct Ring {
  int words[NODES * NODE / 4];  // a node's first word is the start of the next node, in bytes
  __device__ constexpr Ring() : words() {
    for (int n = 0; n < NODES; ++n) words[n * NODE / 4] = n * NODE;
    unsigned long long state = 1;
    for (int last = NODES - 1; last > 0; --last) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const int a = last * (NODE / 4), b = int((state >> 33) % last) * (NODE / 4), link = words[a];
      words[a] = words[b];
      words[b] = link;
    }
  }
};
__constant__ Ring N_const = Ring();

// O = the node after `warm_up + steps` links from node 0 on. Only the last `steps` are timed.
//   O_gmem      [1]  the number of the last node
//   times_gmem  [2]  duration of the timed links: cycles of the SM, and ns
// NODES is a constant of the build. Probes log global and shared memory only, so the walk has no probe of a load.
extern "C" __global__ void lab_chase_constant(float* O_gmem, long long* times_gmem, int warm_up,
                                              int steps PROBE_PARAM) {
  const int tile = blockIdx.x;
  PROBE_BEGIN();
  const unsigned char* const ring = reinterpret_cast<const unsigned char*>(N_const.words);
  int at = threadIdx.x * NODE;  // 0. Lanes with one known address would get ULDC, a load of the whole warp
  long long cycles = 0, ns = 0;
  PROBE_MARK(walk, tile);
  for (int step = -warm_up; step < steps; ++step) {
    if (step == 0) cycles = clock_cycles(), ns = global_time_ns();
    at = *reinterpret_cast<const int*>(ring + at);
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
