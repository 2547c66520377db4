// copy_blocks. Idea: a shared page is copied whole before one of its owners writes into it (copy on write).
// Changed from reshape_and_cache: whole pages move, from a list of pairs, so the layout inside a page does not matter.
// Costs: every byte of the page is read and written once, for all KV heads, in pieces of 16 bytes.
// Limits: fp32 or fp16 storage; HEAD_SIZE 64 to 256; BLOCK_SIZE 8, 16, 32; no pair may write a page that another pair reads or writes.
// Source: vLLM's copy_blocks kernel; Kwon et al. 2023, arXiv:2309.06180.
#include "paged.cuh"
constexpr int THREADS = 128;

// K_cache[to] = K_cache[from];  V_cache[to] = V_cache[from]; one block per pair
extern "C" __global__ void __launch_bounds__(THREADS)
copy_blocks(T* K_gmem, T* V_gmem, const int* copies_gmem, int kv_heads PROBE_PARAM) {
  const int pair = blockIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(copy_page, pair);
  PROBE_LOAD(copies_gmem, 2 * pair, 4, pair);
  const int from = ldg<int>(&copies_gmem[2 * pair]);
  PROBE_LOAD(copies_gmem, 2 * pair + 1, 4, pair);
  const int to = ldg<int>(&copies_gmem[2 * pair + 1]);
  const size_t page = (size_t)kv_heads * PAGE;
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
