/*
title = "QK-norm, then rotary embedding, then cache write"
idea = "three kernels, one after another. q goes to memory and back once, k twice."
changed_from = "rope_write_separate"
changed = "each head of q and k is divided by its root mean square first, as in Qwen 3."
costs = "these round trips, and three launches, each of which waits for the one before."
limits = "fp16 or bf16. HEAD_DIM 64 or 128, rotated whole. A negative slot is padding."
source = "Qwen3 Technical Report 2025, arXiv:2505.09388. RMSNorm: arXiv:1910.07467. The cache is vLLM's."
family = "fusion"
problem = "norm_rotary"
rung = 7
tuned = [{when = "tokens >= 512", TOKENS = 8, HEADS = 4}, {when = "tokens >= 4096", TOKENS = 16, HEADS = 8, WARPS = 2}]
constants."TOKENS, HEADS, WARPS, WRONG_PAIRS" = {}  # meaning and effect: rotary.cuh

[scratch.normed]
shape = ["tokens", "num_heads + num_kv_heads", "head_dim"]
axes = ["token", "head", "dim"]
dtype = "dtype"

[scratch.k_rotated]
shape = ["tokens", "num_kv_heads", "head_dim"]
axes = ["token", "kv_head", "dim"]
dtype = "dtype"

[[launches]]
entry = "head_norm"
grid = ["ceil_div(tokens, TOKENS)", "ceil_div(num_heads + num_kv_heads, WARPS)"]
block = ["32 * WARPS"]
args = ["qkv", "qk_weight", "normed", "int32 tokens", "int32 num_heads", "int32 num_kv_heads", "float32 eps"]
item = "head"

[[launches]]
entry = "rope"
grid = ["ceil_div(tokens, TOKENS)", "ceil_div(num_heads + num_kv_heads, WARPS * HEADS)"]
block = ["32 * WARPS"]
args = ["normed", "cos_sin", "positions", "q_rotated", "k_rotated", "int32 tokens", "int32 num_heads",
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

// normed = each head of q and k / sqrt(mean of its square + eps) * weight
//   qkv_gmem     [tokens, num_heads + 2 num_kv_heads, HEAD_DIM]: q, k, v
//   normed_gmem  [tokens, num_heads + num_kv_heads, HEAD_DIM]: q, k
extern "C" __global__ void __launch_bounds__(32 * WARPS)
head_norm(const T* qkv_gmem, const T* qk_weight_gmem, T* normed_gmem, int tokens, int num_heads, int num_kv_heads,
          float eps PROBE_PARAM) {
  PROBE_BEGIN();
  const int number = blockIdx.y * WARPS + threadIdx.x / 32;
  if (number >= num_heads + num_kv_heads) return;
  PROBE_MARK(head, number);
  const Place at = place(tokens);
  const int token = at.token;
  Head head = {};
  FOR_PIECES(s, side) {
    const size_t index = ((size_t)token * (num_heads + 2 * num_kv_heads) + number) * HEAD_DIM + dim_of(at, s, side);
    PROBE_LOAD(qkv_gmem, index, 16, token);
    unpack(ldg<float4>(&qkv_gmem[index]), head.v[s][side]);
  }
  norm_head(qk_weight_gmem, number >= num_heads, eps, at, head PROBE_PASS);
  FOR_PIECES(s, side) {
    const size_t index = ((size_t)token * (num_heads + num_kv_heads) + number) * HEAD_DIM + dim_of(at, s, side);
    PROBE_STORE(normed_gmem, index, 16, token);
    stg<float4>(&normed_gmem[index], pack(head.v[s][side]));
  }
}

// q_rotated, k_rotated = each head of q and k, turned. A warp has HEADS heads of TOKENS tokens.
//   q_rotated_gmem  [tokens, num_heads, HEAD_DIM]
//   k_rotated_gmem  [tokens, num_kv_heads, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(32 * WARPS)
rope(const T* normed_gmem, const float* cos_sin_gmem, const int* positions_gmem, T* q_rotated_gmem, T* k_rotated_gmem,
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
      const size_t index = ((size_t)token * all + number) * HEAD_DIM + dim_of(at, s, side);
      PROBE_LOAD(normed_gmem, index, 16, token);
      unpack(ldg<float4>(&normed_gmem[index]), head.v[s][side]);
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
