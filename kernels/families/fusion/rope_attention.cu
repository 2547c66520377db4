/*
title = "FlashAttention with rotary embedding inside"
idea = """Q is turned when its block loads it. K is turned in shared memory, by the threads that copied it, when its \
tile has come."""
changed_from = "08_pipeline"
changed = """Q and K need no launch before attention that turns them. A thread copies both pieces of a pair of K, so \
it turns them after its own wait, without another barrier."""
costs = """each block turns every key that it sees, so K is turned once for each query tile. With KEYS_TURNED, K comes \
turned from a cache, and only Q is turned here."""
limits = "fp16 or bf16. HEAD_DIM 64 or 128, rotated whole. sm_80 or later."
source = """08_pipeline's. Su et al. 2021, "RoFormer", arXiv:2104.09864."""
family = "fusion"
problem = "rope_attention"
rung = 10
requires = "sm_80 for mma.m16n8k16 and cp.async"
tensor_products = 1

[constants]  # meaning and effect: fragments.cuh, common.cuh
"BLOCK_Q, BLOCK_KV, STAGES, SUBTRACT_MAX, RESCALE, SWIZZLE" = {}
WRONG_PAIRS = {default = 0, values = [0, 1], what_if = "Wrong pairs", meaning = """\
  rotate the pairs of the other convention""", effect = """\
  every pair mixes two numbers that do not belong together. All shapes are right, and the model talks nonsense."""}

[[launches]]
entry = "rope_flash"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["BLOCK_Q if BLOCK_Q >= 64 else 2 * BLOCK_Q"]
shared_bytes = "2 * (BLOCK_Q + 2 * STAGES * BLOCK_KV) * head_dim"
args = ["q", "k", "v", "cos_sin", "o", "lse", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
  "int32 kv_row", "int32 kv_head", "float32 scale",
]}]
item = "query tile"
*/
#define SUM_BITS 32
#include "fragments.cuh"
#define PARTS (BLOCK_Q >= 64 ? 2 : 1)  // a warp has 32 rows or 16. An mma multiplies 16.
#define WARP_ROWS (16 * PARTS)
#define THREADS (BLOCK_Q / WARP_ROWS * 32)
#define TILE (BLOCK_KV * HEAD_DIM)        // elements of a tile of K or V
#define PAIRS (HEAD_DIM / 16)             // pairs of pieces of 16 bytes in a row, which turn together
#define COPY_ROWS (THREADS / PAIRS)       // rows that all threads together copy at once, a pair each
constexpr bool NEIGHBOURING = (NEIGHBOURS != 0) != (WRONG_PAIRS != 0);

// The arguments of the kernel apart from its tensors
struct Sizes {
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  float scale;
};

// The index of an element of a tile in shared memory. The 16-byte pieces of a row change places.
__device__ __forceinline__ int smem_index(int row, int dim) {
  return row * HEAD_DIM + dim / 64 * 64 + (SWIZZLE ? dim % 64 ^ row % 8 * 8 : dim % 64);
}

// The first dim of a piece of a pair: halves d and d + HEAD_DIM / 2, or neighbours
__device__ __forceinline__ int dim_of(int pair, int side) {
  return 8 * (NEIGHBOURING ? 2 * pair + side : pair + side * PAIRS);
}

// The eight turns of a pair of pieces: (a, b) = (a cos - b sin, b cos + a sin), in float32, rounded once
//   cos_sin_gmem  [positions, HEAD_DIM]: HEAD_DIM / 2 cosines, then as many sines
__device__ __forceinline__ void turn(float4 (&raw)[2], const float* cos_sin_gmem, int position, int pair PROBE_REF) {
  const size_t from = (size_t)position * HEAD_DIM + 8 * pair;
  float angles[2][8], v[2][8];
  UNROLL for (int e = 0; e < 16; e += 4) {
    const size_t at = from + e / 8 * (HEAD_DIM / 2) + e % 8;
    PROBE_LOAD(cos_sin_gmem, at, 16);
    const float4 four = ldg<float4>(&cos_sin_gmem[at]);
    float* to = &angles[e / 8][e % 8];
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  }
  UNROLL for (int side = 0; side < 2; ++side) {
    const float words[4] = {raw[side].x, raw[side].y, raw[side].z, raw[side].w};
    UNROLL for (int e = 0; e < 8; ++e)
      v[side][e] = to_float(T{(unsigned short)(__float_as_uint(words[e / 2]) >> 16 * (e % 2))});
  }
  UNROLL for (int n = 0; n < 8; ++n) {
    float& a = NEIGHBOURING ? v[n / 4][2 * n % 8] : v[0][n];
    float& b = NEIGHBOURING ? v[n / 4][2 * n % 8 + 1] : v[1][n];
    const float x = a, y = b;
    a = x * angles[0][n] - y * angles[1][n];
    b = y * angles[0][n] + x * angles[1][n];
  }
  UNROLL for (int side = 0; side < 2; ++side) {
    float words[4];
    UNROLL for (int w = 0; w < 4; ++w) {
      const unsigned low = from_float<T>(v[side][2 * w]).bits, high = from_float<T>(v[side][2 * w + 1]).bits;
      words[w] = __uint_as_float(low | high << 16);
    }
    raw[side] = make_float4(words[0], words[1], words[2], words[3]);
  }
}

// O = softmax(scale * Q @ K^T) @ V of turned Q and K   [seq_len, HEAD_DIM] of each head, and lse of each row
//   Q_gmem, O_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len];  cos_sin_gmem  [keys, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(THREADS)
rope_flash(const T* Q_gmem, const T* K_gmem, const T* V_gmem, const float* cos_sin_gmem, T* O_gmem, float* LSE_gmem,
           const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(T, smem);
  T* Q_smem = smem;                          // [BLOCK_Q, HEAD_DIM]
  T* K_smem = Q_smem + BLOCK_Q * HEAD_DIM;   // [STAGES, BLOCK_KV, HEAD_DIM]
  T* V_smem = K_smem + STAGES * TILE;        // [STAGES, BLOCK_KV, HEAD_DIM]
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * WARP_ROWS, first_row = blockIdx.x * BLOCK_Q;
  const HeadStart start(z, blockIdx.y / z.num_heads, blockIdx.y % z.num_heads);
  const int seen = CAUSAL ? min(z.keys, min(first_row + BLOCK_Q, z.seq_len) + z.offset) : z.keys;
  const int open = CAUSAL ? min(z.keys, first_row + warp_row + z.offset + 1) : z.keys;  // visible to all its rows
  PROBE_BEGIN();
  auto fragment = [&](int tile, int part) { return Fragment(first_row + warp_row + part * 16, tile, z); };

  // This thread's copies of a tile form a group, empty after the last tile. Rows after the last key are zeros.
  const int copy_row = threadIdx.x / PAIRS, pair = threadIdx.x % PAIRS;
  auto fetch = [&](int tile) {
    const int first_col = tile * BLOCK_KV, stage = tile % STAGES * TILE;
    if (first_col < seen) PROBE_MARK(prefetch_tile, tile);
    UNROLL for (int first = 0; first < BLOCK_KV && first_col < seen; first += COPY_ROWS)
      UNROLL for (int side = 0; side < 2; ++side) {
        const int row = first + copy_row, dim = dim_of(pair, side), to = stage + smem_index(row, dim);
        const long long from = start.kv + (long long)(first_col + row) * z.kv_row + dim;
        if (row >= BLOCK_KV) continue;
        if (first_col + row < z.keys) {
          PROBE_LOAD(K_gmem, from, 16);
          PROBE_CP_ASYNC_L2(K_smem, to, 16);
          cp_async_l2(&K_smem[to], &K_gmem[from]);
          PROBE_LOAD(V_gmem, from, 16);
          PROBE_CP_ASYNC_L2(V_smem, to, 16);
          cp_async_l2(&V_smem[to], &V_gmem[from]);
        } else {
          const float4 zeros = make_float4(0.f, 0.f, 0.f, 0.f);
          PROBE_STORE(K_smem, to, 16);
          sts<float4>(&K_smem[to], zeros);
          PROBE_STORE(V_smem, to, 16);
          sts<float4>(&V_smem[to], zeros);
        }
      }
    cp_async_commit();
  };
  // Turns the pairs of K that this thread has copied.
  auto turn_keys = [&](int tile) {
    UNROLL for (int first = 0; first < BLOCK_KV; first += COPY_ROWS) {
      const int row = first + copy_row, position = tile * BLOCK_KV + row, stage = tile % STAGES * TILE;
      if (row >= BLOCK_KV || position >= z.keys) continue;
      const int to[2] = {stage + smem_index(row, dim_of(pair, 0)), stage + smem_index(row, dim_of(pair, 1))};
      float4 raw[2];
      UNROLL for (int side = 0; side < 2; ++side) {
        PROBE_LOAD(K_smem, to[side], 16);
        raw[side] = lds<float4>(&K_smem[to[side]]);
      }
      turn(raw, cos_sin_gmem, position, pair PROBE_PASS);
      UNROLL for (int side = 0; side < 2; ++side) {
        PROBE_STORE(K_smem, to[side], 16);
        sts<float4>(&K_smem[to[side]], raw[side]);
      }
    }
  };

  PROBE_MARK(load_q, first_row);
  for (int row = copy_row; row < BLOCK_Q; row += COPY_ROWS) {
    float4 raw[2] = {};
    if (first_row + row < z.seq_len) {
      UNROLL for (int side = 0; side < 2; ++side) {
        const long long from = start.q + (long long)(first_row + row) * z.q_row + dim_of(pair, side);
        PROBE_LOAD(Q_gmem, from, 16);
        raw[side] = ldg<float4>(&Q_gmem[from]);
      }
      turn(raw, cos_sin_gmem, max(0, first_row + row + z.offset), pair PROBE_PASS);
    }
    UNROLL for (int side = 0; side < 2; ++side) {
      const int to = smem_index(row, dim_of(pair, side));
      PROBE_STORE(Q_smem, to, 16);
      sts<float4>(&Q_smem[to], raw[side]);
    }
  }

  for (int tile = 0; tile < STAGES - 1; ++tile) fetch(tile);
  // The start of this lane's row of the first 16 dims, in Q and in a tile of K and V. XOR with d gives dim d.
  const int q_lane = smem_index(warp_row + lane % 16, lane / 16 * 8), v_lane = smem_index(lane % 16, lane / 16 * 8);
  const int k_lane = smem_index(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
  float O_rmem[PARTS][HEAD_DIM / 2] = {}, m[PARTS][2], l[PARTS][2] = {}, rescale[2];
  UNROLL for (int part = 0; part < PARTS; ++part) m[part][0] = m[part][1] = -INFINITY;
  NO_UNROLL for (int tile = 0; tile * BLOCK_KV < seen; ++tile) {
    PROBE_MARK(tile_begin, tile);
    const int first_col = tile * BLOCK_KV, stage = tile % STAGES * TILE;
    cp_async_wait_group<STAGES - 2>();  // until this thread's copies of the tile have landed
    if (!KEYS_TURNED) turn_keys(tile);
    __syncthreads();  // the copies of all threads have landed, and all threads are done with the last tile
    fetch(tile + STAGES - 1);  // into the stage of the last tile

    // S = Q @ K^T   [WARP_ROWS, BLOCK_KV] of this warp. ldmatrix reads 16 queries x 16 dims and 16 keys x 16 dims.
    PROBE_MARK(scores, tile);
    float S_rmem[PARTS][BLOCK_KV / 2] = {};
    UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned Q_rmem[PARTS][4];
      UNROLL for (int part = 0; part < PARTS; ++part) {
        const int from = part * 16 * HEAD_DIM + (q_lane ^ d);
        PROBE_LDMATRIX(Q_smem, from, 16);
        ldmatrix(Q_rmem[part], &Q_smem[from]);
      }
      UNROLL for (int n = 0; n < BLOCK_KV; n += 16) {
        const int from = n * HEAD_DIM + ((stage + k_lane) ^ d);
        unsigned K_rmem[4];
        PROBE_LDMATRIX(K_smem, from, 16);
        ldmatrix(K_rmem, &K_smem[from]);
        UNROLL for (int part = 0; part < PARTS; ++part) {
          mma<T, SUM_BITS>(four(S_rmem[part], n / 8), Q_rmem[part], K_rmem[0], K_rmem[1]);
          mma<T, SUM_BITS>(four(S_rmem[part], n / 8 + 1), Q_rmem[part], K_rmem[2], K_rmem[3]);
        }
      }
    }
    UNROLL for (int part = 0; part < PARTS; ++part) {
      if (first_col + BLOCK_KV > open) hide(S_rmem[part], fragment(tile, part));
      log_scores(S_rmem[part], fragment(tile, part) PROBE_PASS);
    }

    PROBE_MARK(softmax, tile);
    unsigned P_rmem[PARTS][BLOCK_KV / 4];
    UNROLL for (int part = 0; part < PARTS; ++part) {
      softmax_tile(S_rmem[part], m[part], l[part], rescale, fragment(tile, part) PROBE_PASS);
      pack(P_rmem[part], S_rmem[part]);
      rescale_moved_rows(O_rmem[part], rescale);
    }

    // O += P @ V   [WARP_ROWS, HEAD_DIM]. ldmatrix transposes 16 keys x 16 dims of V.
    PROBE_MARK(output, tile);
    UNROLL for (int n = 0; n < BLOCK_KV; n += 16) {
      UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
        const int from = n * HEAD_DIM + ((stage + v_lane) ^ d);
        unsigned V_rmem[4];
        PROBE_LDMATRIX(V_smem, from, 16);
        ldmatrix_trans(V_rmem, &V_smem[from]);
        UNROLL for (int part = 0; part < PARTS; ++part) {
          mma<T, SUM_BITS>(four(O_rmem[part], d / 8), four(P_rmem[part], n / 16), V_rmem[0], V_rmem[1]);
          mma<T, SUM_BITS>(four(O_rmem[part], d / 8 + 1), four(P_rmem[part], n / 16), V_rmem[2], V_rmem[3]);
        }
      }
    }
    UNROLL for (int part = 0; part < PARTS; ++part) log_outputs(O_rmem[part], fragment(tile, part) PROBE_PASS);
    PROBE_MARK(tile_end, tile);
  }

  PROBE_MARK(write, first_row);
  UNROLL for (int part = 0; part < PARTS; ++part) {
    write_rows(O_gmem, LSE_gmem, start, z.q_row, O_rmem[part], m[part], l[part], fragment(0, part) PROBE_PASS);
  }
}
