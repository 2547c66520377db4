/*
title = "Write new tokens"
idea = "each new token's key and value go to the slot that the block manager gave it. K is split by X, V is transposed."
changed_from = "paged_v2"
changed = "nothing is computed. This write fills the pages for the paged kernels."
costs = """a token's key is written in pieces of 16 bytes, its value one number at a time, as its dims are BLOCK_SIZE \
numbers apart."""
limits = """fp32 or fp16 storage, the same in and out. HEAD_DIM 64 to 256. BLOCK_SIZE 8, 16, 32. A negative slot is \
padding."""
source = "vLLM's reshape_and_cache kernel. Kwon et al. 2023, arXiv:2309.06180."
family = "paged"
problem = "write"
rung = 3

[[launches]]
entry = "reshape_and_cache"
grid = ["len(slots)"]
block = [128]
args = ["key", "value", "slots", "k_cache", "v_cache", "int32 num_kv_heads"]
item = "token"
*/
#include "paged.cuh"
constexpr int THREADS = 128;

// K[page, :, :, slot, :] = key[token];  V[page, :, :, slot] = value[token]. A block writes one token.
//   key_gmem, value_gmem  [tokens, num_kv_heads, HEAD_DIM]
//   slots_gmem            [tokens], page * BLOCK_SIZE + slot in the page, negative for padding
//   K_gmem                [num_blocks, num_kv_heads, HEAD_DIM / X, BLOCK_SIZE, X]
//   V_gmem                [num_blocks, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
extern "C" __global__ void __launch_bounds__(THREADS)
reshape_and_cache(const T* key_gmem, const T* value_gmem, const int* slots_gmem, T* K_gmem, T* V_gmem,
                  int num_kv_heads PROBE_PARAM) {
  const int token = blockIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(write_token, token);
  PROBE_LOAD(slots_gmem, token, 4, token);
  const int slot = ldg<int>(&slots_gmem[token]);
  if (slot < 0) return;
  const int physical = slot / BLOCK_SIZE, in_page = slot % BLOCK_SIZE;
  for (int i = threadIdx.x; i < num_kv_heads * CHUNKS; i += THREADS) {
    const int kv_head = i / CHUNKS, chunk = i % CHUNKS;
    const size_t from = ((size_t)token * num_kv_heads + kv_head) * HEAD_DIM + chunk * X;
    const size_t page = ((size_t)physical * num_kv_heads + kv_head) * PAGE;
    PROBE_LOAD(key_gmem, from, 16, token);
    const float4 k = ldg<float4>(&key_gmem[from]);
    PROBE_STORE(K_gmem, page + (chunk * BLOCK_SIZE + in_page) * X, 16, token);
    stg<float4>(&K_gmem[page + (chunk * BLOCK_SIZE + in_page) * X], k);
    PROBE_LOAD(value_gmem, from, 16, token);
    const float4 raw = ldg<float4>(&value_gmem[from]);
    T v[X];
    unpack(raw, v);
    for (int e = 0; e < X; ++e) {
      PROBE_STORE(V_gmem, page + (chunk * X + e) * BLOCK_SIZE + in_page, T_BYTES, token);
      stg<T>(&V_gmem[page + (chunk * X + e) * BLOCK_SIZE + in_page], v[e]);
    }
  }
}
