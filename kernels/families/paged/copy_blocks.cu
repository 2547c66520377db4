/*
title = "Copy on write"
idea = "a shared page is copied whole before one of its owners writes into it (copy on write)."
changed_from = "reshape_and_cache"
changed = "whole pages move, from a list of pairs, so the layout inside a page does not matter."
costs = "every byte of the page is read and written once, for all KV heads, in pieces of 16 bytes."
limits = """fp32 or fp16 storage. HEAD_DIM 64 to 256. BLOCK_SIZE 8, 16, 32. A pair may not write a page that another \
pair reads or writes."""
source = "vLLM's copy_blocks kernel. Kwon et al. 2023, arXiv:2309.06180."
family = "paged"
problem = "copy"
rung = 4

[[launches]]
entry = "copy_blocks"
grid = ["len(copies)"]
block = [128]
args = ["k_cache", "v_cache", "copies", "int32 num_kv_heads"]
item = "pair"
*/
#include "paged.cuh"
constexpr int THREADS = 128;

// K[to] = K[from];  V[to] = V[from]. A block copies the pages of one pair, in K and in V.
//   K_gmem       [num_blocks, num_kv_heads, HEAD_DIM / X, BLOCK_SIZE, X]
//   V_gmem       [num_blocks, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
//   copies_gmem  [pairs, 2], the page to copy from and the page to copy to
extern "C" __global__ void __launch_bounds__(THREADS)
copy_blocks(T* K_gmem, T* V_gmem, const int* copies_gmem, int num_kv_heads PROBE_PARAM) {
  const int pair = blockIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(copy_page, pair);
  PROBE_LOAD(copies_gmem, 2 * pair, 4, pair);
  const int from = ldg<int>(&copies_gmem[2 * pair]);
  PROBE_LOAD(copies_gmem, 2 * pair + 1, 4, pair);
  const int to = ldg<int>(&copies_gmem[2 * pair + 1]);
  const size_t page = (size_t)num_kv_heads * PAGE;
#pragma unroll 1
  for (size_t i = threadIdx.x * X; i < page; i += THREADS * X) {
    PROBE_LOAD(K_gmem, from * page + i, 16, pair);
    const float4 k = ldg<float4>(&K_gmem[from * page + i]);
    PROBE_STORE(K_gmem, to * page + i, 16, pair);
    stg<float4>(&K_gmem[to * page + i], k);
    PROBE_LOAD(V_gmem, from * page + i, 16, pair);
    const float4 v = ldg<float4>(&V_gmem[from * page + i]);
    PROBE_STORE(V_gmem, to * page + i, 16, pair);
    stg<float4>(&V_gmem[to * page + i], v);
  }
}
