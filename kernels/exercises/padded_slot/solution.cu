/*
title = "Write new tokens into the cache"
idea = "a padded token has the slot -1, and its block writes nothing."
changed = "nothing, this is an exercise."
costs = "each number of K and V is read and written once."
limits = "fp32."
source = "TensorRT-LLM PR 18673. aiter PR 3235. vLLM PR 43869."
family = "paged"
problem = "write"
conditions = [
  {must = "dtype == 'float32'", message = "It copies fp32."},
]

[[launches]]
entry = "write_cache"
grid = ["len(slots)"]
block = [32]
args = ["key", "value", "slots", "k_cache", "v_cache", "int32 num_kv_heads"]
item = "token"
*/
#define PAGE (HEAD_DIM * BLOCK_SIZE)  // numbers of one page of one KV head

// K[page, :, :, slot, :] = key[token];  V[page, :, :, slot] = value[token]. A block writes one token.
//   key, value  [tokens, num_kv_heads, HEAD_DIM]
//   slots       [tokens], page * BLOCK_SIZE + slot in the page, -1 for padding
//   K           [pages, num_kv_heads, HEAD_DIM / 4, BLOCK_SIZE, 4]
//   V           [pages, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
extern "C" __global__ void write_cache(const float* key, const float* value, const int* slots, float* K, float* V,
                                       int num_kv_heads) {
  const int token = blockIdx.x, slot = slots[token];
  if (slot < 0) return;  // padding
  const int page = slot / BLOCK_SIZE, place = slot % BLOCK_SIZE;
  for (int i = threadIdx.x; i < num_kv_heads * HEAD_DIM; i += 32) {
    const int head = i / HEAD_DIM, d = i % HEAD_DIM;
    const int from = token * num_kv_heads * HEAD_DIM + i, to = (page * num_kv_heads + head) * PAGE;
    K[to + (d / 4 * BLOCK_SIZE + place) * 4 + d % 4] = key[from];
    V[to + d * BLOCK_SIZE + place] = value[from];
  }
}
