/*
title = "Rotary embedding, then cache write"
idea = """one kernel (rope, rotary embedding) turns q and k by an angle for the token's position. Another one reads \
the turned k again and writes k and v into the KV cache."""
changed = "each operation is a kernel of its own, as in a library without fusion."
costs = "k makes a round trip through memory, and a second launch has to wait for the first."
limits = "fp16 or bf16. HEAD_DIM 64 or 128, rotated whole. A negative slot is padding."
source = """Su et al. 2021, "RoFormer", arXiv:2104.09864. The cache is vLLM's: Kwon et al. 2023, arXiv:2309.06180."""
family = "fusion"
problem = "rotary"
rung = 5
tuned = [{when = "tokens >= 512", TOKENS = 8, HEADS = 4}, {when = "tokens >= 4096", TOKENS = 16, HEADS = 8, WARPS = 2}]
constants."TOKENS, HEADS, WARPS, WRONG_PAIRS" = {}  # meaning and effect: rotary.cuh

[scratch.k_rotated]
shape = ["tokens", "num_kv_heads", "head_dim"]
axes = ["token", "kv_head", "dim"]
dtype = "dtype"

[[launches]]
entry = "rope"
grid = ["ceil_div(tokens, TOKENS)", "ceil_div(num_heads + num_kv_heads, WARPS * HEADS)"]
block = ["32 * WARPS"]
args = ["qkv", "cos_sin", "positions", "q_rotated", "k_rotated", "int32 tokens", "int32 num_heads",
  "int32 num_kv_heads"]
item = "head"

[[launches]]
entry = "cache_write"
grid = ["ceil_div(tokens, TOKENS)", "ceil_div(2 * num_kv_heads, WARPS)"]
block = ["32 * WARPS"]
args = ["qkv", "k_rotated", "slots", "k_cache", "v_cache", "int32 tokens", "int32 num_heads", "int32 num_kv_heads"]
item = "head"
*/
#include "rotary.cuh"

// q_rotated, k_rotated = each head of q and k, turned. A warp has HEADS heads of TOKENS tokens.
//   q_rotated_gmem  [tokens, num_heads, HEAD_DIM]
//   k_rotated_gmem  [tokens, num_kv_heads, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(32 * WARPS)
rope(const T* qkv_gmem, const float* cos_sin_gmem, const int* positions_gmem, T* q_rotated_gmem, T* k_rotated_gmem,
     int tokens, int num_heads, int num_kv_heads PROBE_PARAM) {
  PROBE_BEGIN();
  const int all = num_heads + num_kv_heads, first = (blockIdx.y * WARPS + threadIdx.x / 32) * HEADS;
  if (first >= all) return;
  const Place at = place(tokens);
  const int token = at.token;
  Turn turn = {};
  load_turn(cos_sin_gmem, positions_gmem, at, turn PROBE_PASS);
  for (int number = first; number < min(first + HEADS, all); ++number) {
    PROBE_MARK(head, number);
    Head head = {};
    FOR_PIECES(s, side) {
      const size_t index = ((size_t)token * (num_heads + 2 * num_kv_heads) + number) * HEAD_DIM + dim_of(at, s, side);
      PROBE_LOAD(qkv_gmem, index, 16, token);
      unpack(ldg<float4>(&qkv_gmem[index]), head.v[s][side]);
    }
    rotate_head(turn, head);
    if (number < num_heads) {
      FOR_PIECES(s, side) {
        const size_t index = ((size_t)token * num_heads + number) * HEAD_DIM + dim_of(at, s, side);
        PROBE_STORE(q_rotated_gmem, index, 16, token);
        stg<float4>(&q_rotated_gmem[index], pack(head.v[s][side]));
      }
    } else {
      FOR_PIECES(s, side) {
        const size_t index = ((size_t)token * num_kv_heads + number - num_heads) * HEAD_DIM + dim_of(at, s, side);
        PROBE_STORE(k_rotated_gmem, index, 16, token);
        stg<float4>(&k_rotated_gmem[index], pack(head.v[s][side]));
      }
    }
  }
}

// k_rotated and v go to their slots of the cache (kernels/kv_cache/layout.py).
extern "C" __global__ void __launch_bounds__(32 * WARPS)
cache_write(const T* qkv_gmem, const T* k_rotated_gmem, const int* slots_gmem, C* K_gmem, C* V_gmem, int tokens,
            int num_heads, int num_kv_heads PROBE_PARAM) {
  PROBE_BEGIN();
  write_cache(qkv_gmem, k_rotated_gmem, slots_gmem, K_gmem, V_gmem, tokens, num_heads, num_kv_heads PROBE_PASS);
}
