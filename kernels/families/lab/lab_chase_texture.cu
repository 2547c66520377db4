/*
title = "Pointer chase through a texture"
idea = "the same ring of nodes, but each load is a texture fetch. Since Volta, textures and L1 share one cache."
changed_from = "lab_chase"
changed = "each link is a fetch of a texel by a texture object, not a load."
costs = "the latency of a fetch from the smallest level of the memory that holds the ring."
limits = "one node in each line of 128 bytes. A texture of linear memory has at most 2^27 texels, here 512 MiB."
source = "CUDA C++ Programming Guide, Texture and Surface Memory; Jia et al. 2018, arXiv:1804.06826."
family = "lab"
problem = "chase_texture"
rung = 10

[[launches]]
entry = "lab_chase_texture"
grid = [1]
block = [1]
args = [{texture = "n"}, "o", "times", "int32 start", "int32 warm_up", "int32 steps"]
*/
#include "common.cuh"
#define NODE_TEXELS 32  // of 4 bytes

// O = the node after `warm_up + steps` links from texel `start` on. Only the last `steps` are timed.
//   N_texture   [nodes, NODE_TEXELS]  a node's first texel is the number of the next node's first texel
//   O_gmem      [1]                   the number of the last node
//   times_gmem  [2]                   duration of the timed links: cycles of the SM, and ns
// Probes log loads of global and shared memory, so the walk has no probe of a fetch.
extern "C" __global__ void lab_chase_texture(cudaTextureObject_t N_texture, float* O_gmem, long long* times_gmem,
                                             int start, int warm_up, int steps PROBE_PARAM) {
  const int tile = blockIdx.x;
  PROBE_BEGIN();
  int at = start;
  long long cycles = 0, ns = 0;
  PROBE_MARK(walk, tile);
  for (int step = -warm_up; step < steps; ++step) {
    if (step == 0) cycles = clock_cycles(), ns = global_time_ns();
    at = tex1Dfetch<int>(N_texture, at);
  }
  cycles = clock_cycles() - cycles, ns = global_time_ns() - ns;
  PROBE_MARK(write, tile);
  PROBE_STORE(times_gmem, 0, 8);
  stg<long long>(&times_gmem[0], cycles);
  PROBE_STORE(times_gmem, 1, 8);
  stg<long long>(&times_gmem[1], ns);
  PROBE_STORE(O_gmem, 0, 4);
  stg<float>(&O_gmem[0], (float)(at / NODE_TEXELS));
}
