// lab_chase. Idea: each load's address is what the load before it brought, so nothing overlaps and steps / time is the latency of one load.
// Changed from lab_global: one thread, and a ring of cache lines in random order that no prefetcher can guess.
// Costs: while the ring fits in a level of the memory it costs that level's latency, and the next one's once it does not.
// Limits: one node in each line of 128 bytes; shared memory holds at most what a block may have.
// Source: Saavedra-Barrera 1992, PhD thesis, Berkeley; for GPUs, Mei and Chu 2017, arXiv:1509.02308.
#include "common.cuh"
#define THROUGH_L1 0
#define FROM_L2 1
#define SHARED 2
#define NODE 128  // bytes

// O = the node after `warm_up + steps` links from `start`   [1]; only the last `steps` are timed, `times` in cycles and ns
extern "C" __global__ void lab_chase(const unsigned char* N_gmem, float* O_gmem, long long* times_gmem, int nodes, int start, int warm_up, int steps PROBE_PARAM) {
  DYNAMIC_SMEM(unsigned char, N_smem);  // a node's first number is where the next node begins, in bytes
  const int tile = blockIdx.x;
  PROBE_BEGIN();
  if (SPACE == SHARED) {
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
    if (SPACE == SHARED) {
      PROBE_LOAD(N_smem, at, 4);
      at = lds<int>(&N_smem[at]);
    } else if (SPACE == FROM_L2) {
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
