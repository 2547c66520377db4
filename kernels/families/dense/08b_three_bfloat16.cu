/*
title = "FlashAttention, exact on tensor cores"
idea = """every float is the sum of three bfloat16, so tensor cores multiply in full fp32 accuracy: six products for \
one. Scores, weights and outputs stay in a warp's registers, as in 08_pipeline."""
changed_from = "04_warp_rows"
changed = """a warp has 16 rows, two per thread, and multiplies with mma.sync. While the block computes, the next K \
and V come through registers and are split there. Two groups of warps may share rows, each with its own keys."""
costs = """six products for one, 6 bytes of shared memory for a float, up to 255 registers per thread, so few warps at \
once."""
limits = "fp32. HEAD_DIM 32, 64 or 128. sm_80 or later. No S or P in memory."
source = """03_flash's. Dao 2023, "FlashAttention-2", arXiv:2307.08691. Three bfloat16: Henry, Tang and Heinecke 2019, \
arXiv:1904.06376."""
family = "dense"
rung = 8
requires = "sm_80 for mma.m16n8k16"
tensor_products = 6
tuned = [
  # Larger blocks split K and V less often, if each of an H200's 132 multiprocessors has more than one block.
  {when = "ceil_div(seq_len, 64) * batch * num_heads > 132", BLOCK_Q = 128},
  # Smaller tiles leave registers to wide heads.
  {when = "head_dim == 128", BLOCK_KV = 32},
  # If each has at most one block, twice the warps hide more of their waits.
  {when = "seq_len >= 256 and ceil_div(seq_len, 64) * batch * num_heads <= 132", KEY_GROUPS = 2}]

[constants]  # meaning and effect: common.cuh
BLOCK_Q = {default = 64, values = [16, 32, 64, 128]}
BLOCK_KV = {default = 64, values = [16, 32, 64]}
KEY_GROUPS = {default = 1, values = [1, 2], meaning = "warp groups for the same rows, each with its own key tiles"}
PAD = {default = 8, values = [0, 8], meaning = "bfloat16s left free after each row of a tile, against bank conflicts"}
"SUBTRACT_MAX, RESCALE" = {}

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["2 * BLOCK_Q * KEY_GROUPS"]
shared_bytes = "6 * (BLOCK_Q + 2 * BLOCK_KV * KEY_GROUPS) * (HEAD_DIM + PAD)"  # a float is three bfloat16
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include "common.cuh"
#define GROUP (BLOCK_Q * 2)  // threads: a warp for every 16 query rows
#define THREADS (GROUP * KEY_GROUPS)
#define KEYS (BLOCK_KV * KEY_GROUPS)  // in shared memory at once: a tile for each group
#define COPIES ((KEYS * HEAD_DIM / 4 + THREADS - 1) / THREADS)  // float4 that each thread copies
#define STRIDE (HEAD_DIM + PAD)  // bfloat16s per row. With PAD 8, 16 bytes of each of eight rows fill all 32 banks.
#define LOG2_E 1.44269504f  // e^x = 2^(x log2 e): one instruction, and expf takes eight
#define UNROLL _Pragma("unroll")  // for loops over arrays, which otherwise leave the registers

// Four floats, each as the exact sum of three bfloat16: v = part 0 + part 1 + part 2. Each part holds 8 of the 24 bits.
// The word xy[p] holds part p of x and of y, and zw[p] part p of z and of w.
struct Parts { unsigned xy[3], zw[3]; };
__device__ __forceinline__ Parts split(float4 v) {
  Parts parts;
  UNROLL for (int p = 0; p < 3; ++p) {
    parts.xy[p] = bfloat16_pair(v.x, v.y), parts.zw[p] = bfloat16_pair(v.z, v.w);
    v.x -= low_float(parts.xy[p]), v.y -= high_float(parts.xy[p]);
    v.z -= low_float(parts.zw[p]), v.w -= high_float(parts.zw[p]);
  }
  return parts;
}

// C += A @ B for two neighbouring tiles of 16 rows and 8 columns, A and B in three parts each. Of the nine products of
// parts only six are large enough to count in fp32. The smallest are added first.
//   C  [2, 4], A  [3, 4], B  [3, 4]: what this lane holds of the warp's matrices, as mma_m16n8k16 lays them out
__device__ __forceinline__ void mma_parts(float (*C)[4], const unsigned (&A)[3][4], const unsigned (&B)[3][4]) {
  UNROLL for (int order = 2; order >= 0; --order) {
    UNROLL for (int p = 0; p <= order; ++p) {
      mma_m16n8k16(C[0], A[p], B[order - p][0], B[order - p][1]);
      mma_m16n8k16(C[1], A[p], B[order - p][2], B[order - p][3]);
    }
  }
}

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head. A block computes BLOCK_Q rows, a warp 16,
// in a loop over tiles of BLOCK_KV keys. Group g of its warps takes tiles g, g + KEY_GROUPS, ...
//   Q_gmem, K_gmem, V_gmem, O_gmem  [batch * num_heads, seq_len, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(THREADS, 1)
flash(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* O_gmem, int seq_len, int causal,
      float scale PROBE_PARAM) {
  DYNAMIC_SMEM(bfloat16, smem);
  bfloat16* Q_smem = smem;                           // [3, BLOCK_Q, STRIDE], one part after the other
  bfloat16* K_smem = Q_smem + 3 * BLOCK_Q * STRIDE;  // [3, KEYS, STRIDE]
  bfloat16* V_smem = K_smem + 3 * KEYS * STRIDE;     // [3, KEYS, STRIDE]
  const int thread = threadIdx.x, group = thread / GROUP, lane = thread % 32, t = lane % 4;
  const int first_row = blockIdx.x * BLOCK_Q, warp_row = thread % GROUP / 32 * 16;
  const int keys = causal ? min(first_row + BLOCK_Q, seq_len) : seq_len;
  const size_t head = (size_t)blockIdx.y * seq_len;
  // The start of this lane's row for ldmatrix: of 16 queries x 16 dims of Q, 16 keys x 16 dims of K and V
  const bfloat16* Q_rows = Q_smem + (warp_row + lane % 16) * STRIDE + lane / 16 * 8;
  const bfloat16* K_rows = K_smem + (group * BLOCK_KV + lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 8;
  const bfloat16* V_rows = V_smem + (group * BLOCK_KV + lane % 16) * STRIDE + lane / 16 * 8;
  PROBE_BEGIN();

  // The groups' tiles of K or V on their way from global to shared memory. One phase requests them, a later one splits
  // and stores them. After the last key they hold zeros.
  float4 tile_rmem[COPIES];
  auto fetch_k = [&](int first_col) {
    UNROLL for (int c = 0; c < COPIES; ++c) {
      const int i = (thread + c * THREADS) * 4;
      tile_rmem[c] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (i < KEYS * HEAD_DIM && first_col + i / HEAD_DIM < seq_len) {
        PROBE_LOAD(K_gmem, (head + first_col) * HEAD_DIM + i, 16);
        tile_rmem[c] = ldg<float4>(&K_gmem[(head + first_col) * HEAD_DIM + i]);
      }
    }
  };
  auto fetch_v = [&](int first_col) {
    UNROLL for (int c = 0; c < COPIES; ++c) {
      const int i = (thread + c * THREADS) * 4;
      tile_rmem[c] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (i < KEYS * HEAD_DIM && first_col + i / HEAD_DIM < seq_len) {
        PROBE_LOAD(V_gmem, (head + first_col) * HEAD_DIM + i, 16);
        tile_rmem[c] = ldg<float4>(&V_gmem[(head + first_col) * HEAD_DIM + i]);
      }
    }
  };

  PROBE_MARK(prefetch, first_row);
  fetch_k(0);
  PROBE_MARK(load_q, first_row);
  for (int i = thread * 4; i < BLOCK_Q * HEAD_DIM; i += THREADS * 4) {
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_row + i / HEAD_DIM < seq_len) {
      PROBE_LOAD(Q_gmem, (head + first_row) * HEAD_DIM + i, 16);
      q4 = ldg<float4>(&Q_gmem[(head + first_row) * HEAD_DIM + i]);
    }
    const Parts q = split(q4);
    UNROLL for (int p = 0, at = i / HEAD_DIM * STRIDE + i % HEAD_DIM; p < 3; ++p, at += BLOCK_Q * STRIDE) {
      PROBE_STORE(Q_smem, at, 8);
      sts<long long>(&Q_smem[at], words(q.xy[p], q.zw[p]));
    }
  }

  // A thread holds a part of two of its warp's rows, lane / 4 and lane / 4 + 8: of O the dims 8 j + 2 t and
  // 8 j + 2 t + 1, and of the scores the keys at the same places of the tile.
  float m[2], l[2] = {}, O_rmem[HEAD_DIM / 8][4] = {};
  UNROLL for (int r = 0; r < 2; ++r) m[r] = SUBTRACT_MAX ? -INFINITY : 0.f;
  for (int first_key = 0; first_key < keys; first_key += KEYS) {
    const int first_col = first_key + group * BLOCK_KV, tile = first_col / BLOCK_KV;
    PROBE_MARK(tile_begin, tile);
    PROBE_MARK(load_tile, tile);
    UNROLL for (int c = 0; c < COPIES; ++c) {
      const int i = (thread + c * THREADS) * 4;
      const Parts k = split(tile_rmem[c]);
      UNROLL for (int p = 0, at = i / HEAD_DIM * STRIDE + i % HEAD_DIM; p < 3 && i < KEYS * HEAD_DIM;
                  ++p, at += KEYS * STRIDE) {
        PROBE_STORE(K_smem, at, 8);
        sts<long long>(&K_smem[at], words(k.xy[p], k.zw[p]));
      }
    }
    __syncthreads();  // now K is in shared memory, and no thread still reads the V of the tile before
    fetch_v(first_key);

    // S = scale * Q @ K^T   [BLOCK_Q, BLOCK_KV]
    PROBE_MARK(scores, tile);
    float S_rmem[BLOCK_KV / 8][4] = {};
    for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned Q_rmem[3][4];
      UNROLL for (int p = 0; p < 3; ++p) {
        PROBE_LDMATRIX(Q_smem, Q_rows - Q_smem + p * BLOCK_Q * STRIDE + d, 16);
        ldmatrix(Q_rmem[p], Q_rows + p * BLOCK_Q * STRIDE + d);
      }
      UNROLL for (int n = 0; n < BLOCK_KV / 8; n += 2) {
        unsigned K_rmem[3][4];
        UNROLL for (int p = 0; p < 3; ++p) {
          PROBE_LDMATRIX(K_smem, K_rows - K_smem + (p * KEYS + n * 8) * STRIDE + d, 16);
          ldmatrix(K_rmem[p], K_rows + (p * KEYS + n * 8) * STRIDE + d);
        }
        float sum[2][4] = {};  // of only 16 dims, because tensor cores cut off bits of a sum
        mma_parts(sum, Q_rmem, K_rmem);
        UNROLL for (int i = 0; i < 8; ++i) S_rmem[n + i / 4][i % 4] += sum[i / 4][i % 4];
      }
    }
    if (first_col + BLOCK_KV > (causal ? min(first_row + warp_row + 1, seq_len) : seq_len)) {  // some key is hidden
      UNROLL for (int n = 0; n < BLOCK_KV / 8; ++n) {
        UNROLL for (int i = 0; i < 4; ++i) {
          const int row = first_row + warp_row + lane / 4 + i / 2 * 8, col = first_col + n * 8 + 2 * t + i % 2;
          if (col >= seq_len || (causal && col > row)) S_rmem[n][i] = -INFINITY;
        }
      }
    }
    UNROLL for (int n = 0; n < BLOCK_KV / 8; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) {
        const int row = first_row + warp_row + lane / 4 + i / 2 * 8, col = first_col + n * 8 + 2 * t + i % 2;
        S_rmem[n][i] *= scale;
        if (S_rmem[n][i] != -INFINITY && row < seq_len) PROBE_VALUE(score, row, col, S_rmem[n][i]);
      }
    }
    PROBE_MARK(load_v, tile);
    UNROLL for (int c = 0; c < COPIES; ++c) {
      const int i = (thread + c * THREADS) * 4;
      const Parts v = split(tile_rmem[c]);
      UNROLL for (int p = 0, at = i / HEAD_DIM * STRIDE + i % HEAD_DIM; p < 3 && i < KEYS * HEAD_DIM;
                  ++p, at += KEYS * STRIDE) {
        PROBE_STORE(V_smem, at, 8);
        sts<long long>(&V_smem[at], words(v.xy[p], v.zw[p]));
      }
    }
    __syncthreads();  // now V is in shared memory, and no thread still reads this tile's K
    if (first_key + KEYS < keys) {
      PROBE_MARK(prefetch, tile);
      fetch_k(first_key + KEYS);
    }

    // m_new = max(m, max S);  P = exp(S - m_new);  l = exp(m - m_new) * l + sum P
    PROBE_MARK(softmax, tile);
    float rescale[2];
    UNROLL for (int r = 0; r < 2; ++r) {
      const int row = first_row + warp_row + lane / 4 + r * 8;
      const bool row_leader = t == 0 && row < seq_len;  // one thread logs for the row
      float tile_max = -INFINITY, tile_sum = 0.f;
      UNROLL for (int n = 0; n < BLOCK_KV / 8; ++n) {
        tile_max = fmaxf(tile_max, fmaxf(S_rmem[n][2 * r], S_rmem[n][2 * r + 1]));
      }
      tile_max = group_max<4>(tile_max);  // four threads share the row
      if (row_leader) PROBE_VALUE(tile_max, row, tile, tile_max);
      const float m_new = SUBTRACT_MAX ? fmaxf(m[r], tile_max) : 0.f;
      if (row_leader) PROBE_VALUE(m, row, tile, m_new);
      const bool unseen = KEY_GROUPS > 1 && m_new == -INFINITY;  // the row has no key in this group yet
      const float m_log2 = unseen ? 0.f : m_new * LOG2_E;  // rounded once, so that every exponent has the same
      rescale[r] = RESCALE ? exp2_approx(m[r] * LOG2_E - m_log2) : 1.f;
      if (row_leader) PROBE_VALUE(rescale, row, tile, rescale[r]);
      UNROLL for (int n = 0; n < BLOCK_KV / 8; ++n) {
        UNROLL for (int i = 2 * r; i < 2 * r + 2; ++i) {
          const int col = first_col + n * 8 + 2 * t + i % 2;
          const bool seen = S_rmem[n][i] != -INFINITY;
          S_rmem[n][i] = exp2_approx(fmaf(S_rmem[n][i], LOG2_E, -m_log2));
          if (seen && row < seq_len) PROBE_VALUE(p, row, col, S_rmem[n][i]);
          tile_sum += S_rmem[n][i];
        }
      }
      l[r] = fmaf(l[r], rescale[r], group_sum<4>(tile_sum));
      if (row_leader) PROBE_VALUE(l, row, tile, l[r]);
      m[r] = m_new;
    }

    // O = exp(m - m_new) * O + P @ V   [BLOCK_Q, HEAD_DIM]
    PROBE_MARK(output, tile);
    unsigned P_rmem[BLOCK_KV / 16][3][4];  // mma reads the weights in the lanes of the scores
    UNROLL for (int n = 0; n < BLOCK_KV / 8; ++n) {
      const Parts p4 = split(make_float4(S_rmem[n][0], S_rmem[n][1], S_rmem[n][2], S_rmem[n][3]));
      UNROLL for (int p = 0; p < 3; ++p) {
        P_rmem[n / 2][p][n % 2 * 2] = p4.xy[p], P_rmem[n / 2][p][n % 2 * 2 + 1] = p4.zw[p];
      }
    }
    UNROLL for (int j = 0; j < HEAD_DIM / 8; j += 2) {
      float sum[2][4] = {};
      UNROLL for (int n = 0; n < BLOCK_KV / 16; ++n) {
        unsigned V_rmem[3][4];
        UNROLL for (int p = 0; p < 3; ++p) {
          PROBE_LDMATRIX(V_smem, V_rows - V_smem + (p * KEYS + n * 16) * STRIDE + j * 8, 16);
          ldmatrix_trans(V_rmem[p], V_rows + (p * KEYS + n * 16) * STRIDE + j * 8);
        }
        mma_parts(sum, P_rmem[n], V_rmem);
      }
      UNROLL for (int i = 0; i < 8; ++i) {
        const int row = first_row + warp_row + lane / 4 + i % 4 / 2 * 8, dim = (j + i / 4) * 8 + 2 * t + i % 2;
        O_rmem[j + i / 4][i % 4] = fmaf(O_rmem[j + i / 4][i % 4], rescale[i % 4 / 2], sum[i / 4][i % 4]);
        if (row < seq_len) PROBE_VALUE(o, row, tile, dim, O_rmem[j + i / 4][i % 4]);
      }
    }
    PROBE_MARK(tile_end, tile);
  }

  // One m, l and O of each row: group 0 adds the parts of the others from shared memory, a column for each thread.
  if (KEY_GROUPS > 1) {
    float* O_smem = reinterpret_cast<float*>(smem);  // [KEY_GROUPS - 1, HEAD_DIM / 2 + 4, GROUP]
    constexpr int COLUMN = HEAD_DIM / 2 + 4;
    PROBE_MARK(combine, first_row);
    __syncthreads();  // now no thread still reads K or V
    if (group > 0) {
      float* column = O_smem + (group - 1) * COLUMN * GROUP + thread % GROUP;
      UNROLL for (int i = 0; i < COLUMN; ++i) {
        const float left = i < HEAD_DIM / 2 ? O_rmem[i / 4 % (HEAD_DIM / 8)][i % 4] : i % 4 < 2 ? m[i % 2] : l[i % 2];
        PROBE_STORE(O_smem, column - O_smem + i * GROUP, 4);
        sts<float>(&column[i * GROUP], left);
      }
    }
    __syncthreads();
    if (group > 0) return;
    for (int other = 0; other < KEY_GROUPS - 1; ++other) {
      const float* column = O_smem + other * COLUMN * GROUP + thread;
      float part[COLUMN];
      UNROLL for (int i = 0; i < COLUMN; ++i) {
        PROBE_LOAD(O_smem, column - O_smem + i * GROUP, 4);
        part[i] = lds<float>(&column[i * GROUP]);
      }
      UNROLL for (int r = 0; r < 2; ++r) {
        const float m_other = part[HEAD_DIM / 2 + r], m_new = SUBTRACT_MAX ? fmaxf(m[r], m_other) : 0.f;
        const float own_factor = RESCALE ? exp2_approx((m[r] - m_new) * LOG2_E) : 1.f;
        const float other_factor = RESCALE ? exp2_approx((m_other - m_new) * LOG2_E) : 1.f;
        m[r] = m_new, l[r] = l[r] * own_factor + part[HEAD_DIM / 2 + 2 + r] * other_factor;
        UNROLL for (int j = 0; j < HEAD_DIM / 8; ++j) {
          UNROLL for (int i = 2 * r; i < 2 * r + 2; ++i) {
            O_rmem[j][i] = O_rmem[j][i] * own_factor + part[4 * j + i] * other_factor;
          }
        }
      }
    }
  }

  // O = O / l
  PROBE_MARK(write, first_row);
  UNROLL for (int r = 0; r < 2; ++r) {
    const int row = first_row + warp_row + lane / 4 + r * 8;
    UNROLL for (int j = 0; j < HEAD_DIM / 8; ++j) {
      if (row < seq_len) {
        const float2 o = make_float2(O_rmem[j][2 * r] / l[r], O_rmem[j][2 * r + 1] / l[r]);
        PROBE_STORE(O_gmem, (head + row) * HEAD_DIM + j * 8 + 2 * t, 8);
        stg<float2>(&O_gmem[(head + row) * HEAD_DIM + j * 8 + 2 * t], o);
      }
    }
  }
}
