/*
title = "Write new tokens in 8 bits"
idea = """each new key and value is divided by its KV head's scale and rounded to fp8 (e4m3), so a page is half as \
large. Larger values become 448."""
changed_from = "reshape_and_cache"
changed = "a thread writes 16 numbers of 8 bits, and before it copied 8 of 16. The scales are inputs."
costs = """every number is rounded to 4 significant bits. A scale that is too small cuts numbers off, one that is too \
large loses more bits."""
limits = "fp16 or bf16 in, fp8 (e4m3) out. HEAD_DIM 64 or 128. BLOCK_SIZE 16, 32, 64. A negative slot is padding."
source = """vLLM's reshape_and_cache with kv_cache_dtype fp8. Micikevicius et al. 2022, "FP8 Formats for Deep \
Learning", arXiv:2209.05433."""
family = "paged"
problem = "write_fp8"
rung = 6

[[launches]]
entry = "reshape_and_cache_fp8"
grid = ["len(slots)"]
block = [128]
args = ["key", "value", "slots", "k_scale", "v_scale", "k_cache", "v_cache", "int32 num_kv_heads"]
item = "token"
*/
#include "mma.cuh"
#if BF16
typedef bfloat16 T;
#else
typedef half T;
#endif
constexpr int THREADS = 128;
constexpr int X = 16;                        // elements in 16 bytes of the cache
constexpr int CHUNKS = HEAD_DIM / X;
constexpr int PAGE = HEAD_DIM * BLOCK_SIZE;  // elements of one page of one KV head, in K and in V alike

// 16 loaded numbers of 16 bits, each divided by `scale`, as fp8_e4m3
__device__ __forceinline__ void quantise(const float4 (&raw)[2], float scale, fp8_e4m3 (&quantised)[X]) {
  for (int part = 0; part < 2; ++part) {
    const float words[4] = {raw[part].x, raw[part].y, raw[part].z, raw[part].w};
    for (int i = 0; i < 8; ++i) {
      const unsigned word = __float_as_uint(words[i / 2]);
      quantised[8 * part + i] = to_fp8_e4m3(to_float(T{(unsigned short)(word >> 16 * (i % 2))}) / scale);
    }
  }
}

// K[page, :, :, slot, :] = key[token] / k_scale;  V[page, :, :, slot] = value[token] / v_scale. A block writes one
// token.
//   key_gmem, value_gmem  [tokens, num_kv_heads, HEAD_DIM]
//   slots_gmem            [tokens], page * BLOCK_SIZE + slot in the page, negative for padding
//   k_scale_gmem, v_scale_gmem  [num_kv_heads]
//   K_gmem                [num_blocks, num_kv_heads, HEAD_DIM / X, BLOCK_SIZE, X]
//   V_gmem                [num_blocks, num_kv_heads, HEAD_DIM, BLOCK_SIZE]
extern "C" __global__ void __launch_bounds__(THREADS)
reshape_and_cache_fp8(const T* key_gmem, const T* value_gmem, const int* slots_gmem, const float* k_scale_gmem,
                      const float* v_scale_gmem, fp8_e4m3* K_gmem, fp8_e4m3* V_gmem, int num_kv_heads PROBE_PARAM) {
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
    fp8_e4m3 quantised[X];
    PROBE_LOAD(k_scale_gmem, kv_head, 4);
    const float k_scale = ldg<float>(&k_scale_gmem[kv_head]);
    float4 raw[2];
    for (int part = 0; part < 2; ++part) {
      PROBE_LOAD(key_gmem, from + 8 * part, 16, token);
      raw[part] = ldg<float4>(&key_gmem[from + 8 * part]);
    }
    quantise(raw, k_scale, quantised);
    float words[4];
    for (int w = 0; w < 4; ++w) {
      unsigned word = 0;
      for (int e = 0; e < 4; ++e) word |= (unsigned)quantised[4 * w + e].bits << 8 * e;
      words[w] = __uint_as_float(word);
    }
    const float4 k = make_float4(words[0], words[1], words[2], words[3]);
    PROBE_STORE(K_gmem, page + (chunk * BLOCK_SIZE + in_page) * X, 16, token);
    stg<float4>(&K_gmem[page + (chunk * BLOCK_SIZE + in_page) * X], k);
    PROBE_LOAD(v_scale_gmem, kv_head, 4);
    const float v_scale = ldg<float>(&v_scale_gmem[kv_head]);
    for (int part = 0; part < 2; ++part) {
      PROBE_LOAD(value_gmem, from + 8 * part, 16, token);
      raw[part] = ldg<float4>(&value_gmem[from + 8 * part]);
    }
    quantise(raw, v_scale, quantised);
    for (int e = 0; e < X; ++e) {
      PROBE_STORE(V_gmem, page + (chunk * X + e) * BLOCK_SIZE + in_page, 1, token);
      stg<fp8_e4m3>(&V_gmem[page + (chunk * X + e) * BLOCK_SIZE + in_page], quantised[e]);
    }
  }
}
