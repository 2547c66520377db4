/*
title = "Rotary embedding and cache write in one kernel"
idea = "k is turned in registers and goes from there straight to its slot in the KV cache."
changed_from = "rope_write_separate"
changed = "one launch in place of two. The turned k is never stored outside the cache."
costs = "each thread needs more registers than in either separate kernel."
limits = "fp16 or bf16. HEAD_DIM 64 or 128, rotated whole. A negative slot is padding."
source = """Su et al. 2021, "RoFormer", arXiv:2104.09864. The cache is vLLM's: Kwon et al. 2023, arXiv:2309.06180."""
family = "fusion"
problem = "rotary"
rung = 6
tuned = [{when = "tokens >= 512", TOKENS = 8, HEADS = 4}, {when = "tokens >= 4096", TOKENS = 16, HEADS = 8, WARPS = 2}]
constants."TOKENS, HEADS, WARPS, WRONG_PAIRS" = {}  # meaning and effect: rotary.cuh

[[launches]]
entry = "rope_write"
grid = ["ceil_div(tokens, TOKENS)", "ceil_div(num_heads + 2 * num_kv_heads, WARPS * HEADS)"]
block = ["32 * WARPS"]
args = ["qkv", "cos_sin", "positions", "slots", "q_rotated", "k_cache", "v_cache",
  "int32 tokens", "int32 num_heads", "int32 num_kv_heads"]
item = "head"
*/
#include "rotary.cuh"

// Each head of q and k is turned. q goes to q_rotated. k and v go to their slots of the cache.
//   qkv_gmem        [tokens, num_heads + 2 num_kv_heads, HEAD_DIM]: q, k, v
//   cos_sin_gmem    [positions, HEAD_DIM]
//   positions_gmem, slots_gmem  [tokens]. A slot is page * BLOCK_SIZE + slot in the page, or negative for padding
//   q_rotated_gmem  [tokens, num_heads, HEAD_DIM]
//   K_gmem, V_gmem  the cache of kernels/kv_cache/layout.py
// A warp has HEADS heads of TOKENS tokens.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
rope_write(const T* qkv_gmem, const float* cos_sin_gmem, const int* positions_gmem, const int* slots_gmem,
           T* q_rotated_gmem, C* K_gmem, C* V_gmem, int tokens, int num_heads, int num_kv_heads PROBE_PARAM) {
  PROBE_BEGIN();
  const int all = num_heads + 2 * num_kv_heads, first = (blockIdx.y * WARPS + threadIdx.x / 32) * HEADS;
  const Place at = place(tokens);
  const int token = at.token;
  Turn turn = {};
  if (first < num_heads + num_kv_heads) load_turn(cos_sin_gmem, positions_gmem, at, turn PROBE_PASS);
  int slot = -1;
  if (first + HEADS > num_heads && at.live) {
    PROBE_LOAD(slots_gmem, token, 4, token);
    slot = ldg<int>(&slots_gmem[token]);
  }
  for (int number = first; number < min(first + HEADS, all); ++number) {
    PROBE_MARK(head, number);
    Head head = {};
    const int part = number < num_heads ? 0 : number < num_heads + num_kv_heads ? 1 : 2;  // q, k or v
    FOR_PIECES(s, side) {
      const size_t index = ((size_t)token * all + number) * HEAD_DIM + dim_of(at, s, side);
      PROBE_LOAD(qkv_gmem, index, 16, token);
      unpack(ldg<float4>(&qkv_gmem[index]), head.v[s][side]);
    }
    if (part < 2) rotate_head(turn, head);
    if (part == 0) {
      FOR_PIECES(s, side) {
        const size_t index = ((size_t)token * num_heads + number) * HEAD_DIM + dim_of(at, s, side);
        PROBE_STORE(q_rotated_gmem, index, 16, token);
        stg<float4>(&q_rotated_gmem[index], pack(head.v[s][side]));
      }
      continue;
    }
    const int kv_number = number - num_heads, kv_head = kv_number % num_kv_heads;
    if (part == 1) write_key(K_gmem, slot, kv_head, num_kv_heads, 1.f, at, head PROBE_PASS);
    else write_value(V_gmem, slot, kv_head, num_kv_heads, 1.f, at, head PROBE_PASS);
  }
}
