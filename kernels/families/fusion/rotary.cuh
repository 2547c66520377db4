/*
[constants.TOKENS]
default = 4
values = [4, 8, 16]
meaning = "tokens of a warp"
[constants.HEADS]
default = 1
values = [1, 2, 4, 8]
meaning = "heads of a warp, one after another. They share the tokens' cosines and sines."
[constants.WARPS]
default = 1
values = [1, 2, 4]
meaning = "warps of a block. Small blocks spread a small batch over more SMs."
[constants.WRONG_PAIRS]
default = 0
values = [0, 1]
meaning = "rotate the pairs of the other convention"
what_if = "Wrong pairs"
effect = """every pair mixes two numbers that do not belong together. All shapes and sizes are right, and the model \
talks nonsense."""
*/
// Rotary embedding, norm and cache write of heads of TOKENS tokens, in the registers of one warp.
//
// A token's head has PAIRS pairs of pieces of 16 bytes. Both pieces of a pair are in one lane, so a lane rotates alone:
//   halves      dims i and i + HEAD_DIM / 2 turn together: pieces p and p + PAIRS     (GPT-NeoX, Llama in Hugging Face)
//   neighbours  dims 2 i and 2 i + 1 turn together:        pieces 2 p and 2 p + 1     (GPT-J, Llama as published)
// LANES neighbouring lanes share a token. A lane has SHARE pairs.
#pragma once
#include "rows.cuh"
constexpr int LANES = 32 / TOKENS;
constexpr int PAIRS = HEAD_DIM / (2 * X);
constexpr int SHARE = PAIRS < LANES ? 1 : PAIRS / LANES;  // with fewer pairs than lanes, some lanes are idle
constexpr bool NEIGHBOURING = (NEIGHBOURS != 0) != (WRONG_PAIRS != 0);

struct Head { float v[SHARE][2][X]; };  // a lane's share of a head of one token

// The lane's token, its first pair, and whether both exist
struct Place { int token, pair; bool live; };
__device__ __forceinline__ Place place(int tokens) {
  const int lane = threadIdx.x % 32, token = blockIdx.x * TOKENS + lane / LANES;
  return {token, lane % LANES, token < tokens && lane % LANES < PAIRS};
}
// The first dim of a piece of the lane's s-th pair
__device__ __forceinline__ int dim_of(const Place& at, int s, int side) {
  const int pair = at.pair + s * LANES;
  return X * (NEIGHBOURING ? 2 * pair + side : pair + side * PAIRS);
}

// Each piece of the lane's share, if its token exists. `at` is the lane's Place.
#define FOR_PIECES(s, side) \
  if (at.live) UNROLL for (int s = 0; s < SHARE; ++s) UNROLL for (int side = 0; side < 2; ++side)

// head = head / sqrt(mean of head^2 + eps) * weight   (QK-norm)
//   qk_weight_gmem  [2, HEAD_DIM]: of q, of k
__device__ __forceinline__ void norm_head(const T* qk_weight_gmem, int part, float eps, const Place& at,
                                          Head& head PROBE_REF) {
  float squares = 0;
  UNROLL for (int s = 0; s < SHARE; ++s)
    UNROLL for (int side = 0; side < 2; ++side)
      UNROLL for (int e = 0; e < X; ++e) squares = fmaf(head.v[s][side][e], head.v[s][side][e], squares);
  const float factor = 1.f / sqrtf(group_sum<LANES>(squares) / HEAD_DIM + eps);
  FOR_PIECES(s, side) {
    const int index = part * HEAD_DIM + dim_of(at, s, side);
    float weight[X];
    PROBE_LOAD(qk_weight_gmem, index, 16);
    unpack(ldg<float4>(&qk_weight_gmem[index]), weight);
    UNROLL for (int e = 0; e < X; ++e) head.v[s][side][e] *= factor * weight[e];
  }
}

// The cosines and sines of the lane's pairs of dims. Pair i turns by the angle position * theta^(-2 i / HEAD_DIM).
//   cos_sin_gmem    [positions, HEAD_DIM]: HEAD_DIM / 2 cosines, then as many sines
//   positions_gmem  [tokens]
struct Turn { float cosine[SHARE][X], sine[SHARE][X]; };
__device__ __forceinline__ void load_turn(const float* cos_sin_gmem, const int* positions_gmem, const Place& at,
                                          Turn& turn PROBE_REF) {
  if (!at.live) return;
  const int token = at.token;
  PROBE_LOAD(positions_gmem, token, 4, token);
  const int position = ldg<int>(&positions_gmem[token]);
  UNROLL for (int s = 0; s < SHARE; ++s)
    UNROLL for (int e = 0; e < X; e += 4) {
      const size_t index = (size_t)position * HEAD_DIM + (at.pair + s * LANES) * X + e;
      PROBE_LOAD(cos_sin_gmem, index, 16, token);
      const float4 c = ldg<float4>(&cos_sin_gmem[index]);
      turn.cosine[s][e] = c.x, turn.cosine[s][e + 1] = c.y, turn.cosine[s][e + 2] = c.z, turn.cosine[s][e + 3] = c.w;
      PROBE_LOAD(cos_sin_gmem, index + HEAD_DIM / 2, 16, token);
      const float4 d = ldg<float4>(&cos_sin_gmem[index + HEAD_DIM / 2]);
      turn.sine[s][e] = d.x, turn.sine[s][e + 1] = d.y, turn.sine[s][e + 2] = d.z, turn.sine[s][e + 3] = d.w;
    }
}
__device__ __forceinline__ void rotate_head(const Turn& turn, Head& head) {
  UNROLL for (int s = 0; s < SHARE; ++s)
    UNROLL for (int n = 0; n < X; ++n) {
      float& a = NEIGHBOURING ? head.v[s][2 * n / X][2 * n % X] : head.v[s][0][n];
      float& b = NEIGHBOURING ? head.v[s][2 * n / X][2 * n % X + 1] : head.v[s][1][n];
      const float x = a, y = b;
      a = x * turn.cosine[s][n] - y * turn.sine[s][n];
      b = y * turn.cosine[s][n] + x * turn.sine[s][n];
    }
}

// The place of a token in the paged cache: `at` of Layout in kernels/kv_cache/layout.py
#if CACHE_BYTES == 1
typedef fp8_e4m3 C;
#else
typedef T C;
#endif
constexpr int CX = 16 / CACHE_BYTES;  // elements in 16 bytes of the cache

// K[page, kv_head, :, slot, :] = head / scale. A lane's piece of X numbers fills a piece of 16 bytes of the cache, or
// half a piece.
__device__ __forceinline__ void write_key(C* K_gmem, int slot, int kv_head, int kv_heads, float scale, const Place& at,
                                          const Head& head PROBE_REF) {
  if (slot < 0) return;
  const int token = at.token;
  const size_t page = ((size_t)(slot / BLOCK_SIZE) * kv_heads + kv_head) * (HEAD_DIM * BLOCK_SIZE);
  FOR_PIECES(s, side) {
    const int dim = dim_of(at, s, side);
    const size_t index = page + (dim / CX * BLOCK_SIZE + slot % BLOCK_SIZE) * CX + dim % CX;
#if CACHE_BYTES == 1
    unsigned words[2] = {0, 0};
    UNROLL for (int e = 0; e < X; ++e)
      words[e / 4] |= (unsigned)to_fp8_e4m3(head.v[s][side][e] / scale).bits << 8 * (e % 4);
    PROBE_STORE(K_gmem, index, 8, token);
    stg<float2>(&K_gmem[index], make_float2(__uint_as_float(words[0]), __uint_as_float(words[1])));
#else
    PROBE_STORE(K_gmem, index, 16, token);
    stg<float4>(&K_gmem[index], pack(head.v[s][side]));
#endif
  }
}

// V[page, kv_head, :, slot] = head / scale, one number at a time: neighbouring slots are neighbours in memory
__device__ __forceinline__ void write_value(C* V_gmem, int slot, int kv_head, int kv_heads, float scale,
                                            const Place& at, const Head& head PROBE_REF) {
  if (slot < 0) return;
  const int token = at.token;
  const size_t page = ((size_t)(slot / BLOCK_SIZE) * kv_heads + kv_head) * (HEAD_DIM * BLOCK_SIZE);
  FOR_PIECES(s, side) UNROLL for (int e = 0; e < X; ++e) {
    const size_t index = page + (dim_of(at, s, side) + e) * BLOCK_SIZE + slot % BLOCK_SIZE;
    const C value = from_float<C>(CACHE_BYTES == 1 ? head.v[s][side][e] / scale : head.v[s][side][e]);
    PROBE_STORE(V_gmem, index, CACHE_BYTES, token);
    stg<C>(&V_gmem[index], value);
  }
}

// A warp's head of k_rotated or of v, to the slots of its tokens
//   qkv_gmem        [tokens, num_heads + 2 num_kv_heads, HEAD_DIM]
//   k_rotated_gmem  [tokens, num_kv_heads, HEAD_DIM]
//   slots_gmem      [tokens]
__device__ __forceinline__ void write_cache(const T* qkv_gmem, const T* k_rotated_gmem, const int* slots_gmem,
                                            C* K_gmem, C* V_gmem, int tokens, int num_heads,
                                            int num_kv_heads PROBE_REF) {
  const int number = blockIdx.y * WARPS + threadIdx.x / 32;
  if (number >= 2 * num_kv_heads) return;
  PROBE_MARK(head, number);
  const Place at = place(tokens);
  const int token = at.token;
  Head head = {};
  const int kv_head = number % num_kv_heads;
  int slot = -1;
  if (at.live) {
    PROBE_LOAD(slots_gmem, token, 4, token);
    slot = ldg<int>(&slots_gmem[token]);
  }
  if (number < num_kv_heads) {
    FOR_PIECES(s, side) {
      const size_t index = ((size_t)token * num_kv_heads + kv_head) * HEAD_DIM + dim_of(at, s, side);
      PROBE_LOAD(k_rotated_gmem, index, 16, token);
      unpack(ldg<float4>(&k_rotated_gmem[index]), head.v[s][side]);
    }
    write_key(K_gmem, slot, kv_head, num_kv_heads, 1.f, at, head PROBE_PASS);
  } else {
    const size_t row = ((size_t)token * (num_heads + 2 * num_kv_heads) + num_heads + number) * HEAD_DIM;
    FOR_PIECES(s, side) {
      const size_t index = row + dim_of(at, s, side);
      PROBE_LOAD(qkv_gmem, index, 16, token);
      unpack(ldg<float4>(&qkv_gmem[index]), head.v[s][side]);
    }
    write_value(V_gmem, slot, kv_head, num_kv_heads, 1.f, at, head PROBE_PASS);
  }
}
