/*
title = "FlashAttention in register tiles"
idea = "a thread computes several rows at once, so it multiplies every K and V from shared memory several times."
changed_from = "04_warp_rows"
changed = """four rows per thread instead of one: a tile of scores, 4 rows x 8 keys, and one of O, 4 rows x 16 or more \
dims."""
costs = "over a hundred registers per thread, so fewer warps at once. A block needs 128 rows to have four warps."
limits = "fp32. HEAD_DIM 32, 64 or 128. No S or P in memory."
source = "04_warp_rows's. Register tiling as in every dense matrix product since Volkov and Demmel 2008."
family = "dense"
rung = 5

[constants]  # meaning and effect: common.cuh
BLOCK_Q = {default = 128, values = [16, 32, 64, 128]}
BLOCK_KV = {default = 32, values = [16, 32]}
PAD_QK = {}
SUBTRACT_MAX = {}
RESCALE = {}

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["BLOCK_Q if BLOCK_Q >= 32 else 32"]
shared_bytes = "4 * ((BLOCK_Q + BLOCK_KV) * (HEAD_DIM + PAD_QK) + BLOCK_KV * HEAD_DIM)"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include "common.cuh"
#define ROWS (BLOCK_Q >= 32 ? 4 : 2)  // per thread. A block has at least one warp.
#define THREADS (BLOCK_Q / ROWS * 4)
#define STRIDE (HEAD_DIM + PAD_QK)  // floats per row of Q_smem and K_smem. 4 more spread eight rows over all banks.
#define KEYS (BLOCK_KV / 4)      // of a tile and a row, for one lane
#define UNROLL _Pragma("unroll")  // for loops over arrays, which otherwise leave the registers

// sum + a . b over four neighbouring dims
__device__ __forceinline__ float dot4(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// o += p * v over four neighbouring dims
__device__ __forceinline__ void add4(float* o, float p, float4 v) {
  o[0] = fmaf(p, v.x, o[0]), o[1] = fmaf(p, v.y, o[1]), o[2] = fmaf(p, v.z, o[2]), o[3] = fmaf(p, v.w, o[3]);
}

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head. A block computes BLOCK_Q rows in a loop over
// tiles of BLOCK_KV keys. Four neighbouring lanes share ROWS rows, which are THREADS / 4 apart:
// lane t has keys t, t + 4, ... of the tile, and dims 4 t to 4 t + 3 of every 16.
//   Q_gmem, K_gmem, V_gmem, O_gmem  [batch * num_heads, seq_len, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(THREADS)
flash(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* O_gmem, int seq_len, int causal,
      float scale PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                       // [BLOCK_Q, STRIDE]
  float* K_smem = Q_smem + BLOCK_Q * STRIDE;  // [BLOCK_KV, STRIDE]
  float* V_smem = K_smem + BLOCK_KV * STRIDE; // [BLOCK_KV, HEAD_DIM]
  const int thread = threadIdx.x, t = thread % 4, ty = thread / 4;
  const int first_row = blockIdx.x * BLOCK_Q;
  const int keys = causal ? min(first_row + BLOCK_Q, seq_len) : seq_len;
  const size_t head = (size_t)blockIdx.y * seq_len;
  PROBE_BEGIN();

  PROBE_MARK(load_q, first_row);
  for (int i = thread * 4; i < BLOCK_Q * HEAD_DIM; i += THREADS * 4) {
    const int to = i / HEAD_DIM * STRIDE + i % HEAD_DIM;
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_row + i / HEAD_DIM < seq_len) {
      PROBE_LOAD(Q_gmem, (head + first_row) * HEAD_DIM + i, 16);
      q4 = ldg<float4>(&Q_gmem[(head + first_row) * HEAD_DIM + i]);
    }
    PROBE_STORE(Q_smem, to, 16);
    sts<float4>(&Q_smem[to], q4);
  }

  float m[ROWS], l[ROWS] = {}, O_rmem[ROWS][HEAD_DIM / 4] = {};
  UNROLL for (int r = 0; r < ROWS; ++r) m[r] = SUBTRACT_MAX ? -INFINITY : 0.f;
  for (int tile = 0; tile * BLOCK_KV < keys; ++tile) {
    PROBE_MARK(tile_begin, tile);
    PROBE_MARK(load_tile, tile);
    const int first_col = tile * BLOCK_KV;
    for (int i = thread * 4; i < BLOCK_KV * HEAD_DIM; i += THREADS * 4) {
      const int to = i / HEAD_DIM * STRIDE + i % HEAD_DIM;
      float4 k4 = make_float4(0.f, 0.f, 0.f, 0.f), v4 = k4;
      if (first_col + i / HEAD_DIM < seq_len) {
        PROBE_LOAD(K_gmem, (head + first_col) * HEAD_DIM + i, 16);
        k4 = ldg<float4>(&K_gmem[(head + first_col) * HEAD_DIM + i]);
        PROBE_LOAD(V_gmem, (head + first_col) * HEAD_DIM + i, 16);
        v4 = ldg<float4>(&V_gmem[(head + first_col) * HEAD_DIM + i]);
      }
      PROBE_STORE(K_smem, to, 16);
      sts<float4>(&K_smem[to], k4);
      PROBE_STORE(V_smem, i, 16);
      sts<float4>(&V_smem[i], v4);
    }
    __syncthreads();

    // S = scale * Q @ K^T   [ROWS, KEYS] of this lane
    PROBE_MARK(scores, tile);
    float S_rmem[ROWS][KEYS] = {};
    UNROLL for (int part = 0; part < HEAD_DIM; part += 32) {  // 32 dims at a time, because shorter sums round less
      float sum[ROWS][KEYS] = {};
      _Pragma("unroll 2") for (int d = part; d < part + 32; d += 4) {
        float4 q4[ROWS];
        UNROLL for (int r = 0; r < ROWS; ++r) {
          PROBE_LOAD(Q_smem, (r * (THREADS / 4) + ty) * STRIDE + d, 16);
          q4[r] = lds<float4>(&Q_smem[(r * (THREADS / 4) + ty) * STRIDE + d]);
        }
        UNROLL for (int j = 0; j < KEYS; ++j) {
          PROBE_LOAD(K_smem, (4 * j + t) * STRIDE + d, 16);
          const float4 k4 = lds<float4>(&K_smem[(4 * j + t) * STRIDE + d]);
          UNROLL for (int r = 0; r < ROWS; ++r) sum[r][j] = dot4(q4[r], k4, sum[r][j]);
        }
      }
      UNROLL for (int r = 0; r < ROWS; ++r) {
        UNROLL for (int j = 0; j < KEYS; ++j) S_rmem[r][j] += sum[r][j];
      }
    }
    UNROLL for (int r = 0; r < ROWS; ++r) {
      UNROLL for (int j = 0; j < KEYS; ++j) {
        const int row = first_row + r * (THREADS / 4) + ty, col = first_col + 4 * j + t;
        const bool seen = col < seq_len && !(causal && col > row);
        S_rmem[r][j] = seen ? scale * S_rmem[r][j] : -INFINITY;
        if (seen && row < seq_len) PROBE_VALUE(score, row, col, S_rmem[r][j]);
      }
    }

    // m_new = max(m, max S);  P = exp(S - m_new);  l = exp(m - m_new) * l + sum P;  O = exp(m - m_new) * O
    PROBE_MARK(softmax, tile);
    UNROLL for (int r = 0; r < ROWS; ++r) {
      const int row = first_row + r * (THREADS / 4) + ty;
      const bool row_leader = t == 0 && row < seq_len;  // one thread logs for the row
      float tile_max = -INFINITY, tile_sum = 0.f;
      UNROLL for (int j = 0; j < KEYS; ++j) tile_max = fmaxf(tile_max, S_rmem[r][j]);
      tile_max = group_max<4>(tile_max);
      if (row_leader) PROBE_VALUE(tile_max, row, tile, tile_max);
      const float m_new = SUBTRACT_MAX ? fmaxf(m[r], tile_max) : 0.f;
      if (row_leader) PROBE_VALUE(m, row, tile, m_new);
      const float rescale = RESCALE ? expf(m[r] - m_new) : 1.f;
      if (row_leader) PROBE_VALUE(rescale, row, tile, rescale);
      UNROLL for (int j = 0; j < KEYS; ++j) {
        const int col = first_col + 4 * j + t;
        const bool seen = S_rmem[r][j] != -INFINITY;
        S_rmem[r][j] = expf(S_rmem[r][j] - m_new);
        if (seen && row < seq_len) PROBE_VALUE(p, row, col, S_rmem[r][j]);
        tile_sum += S_rmem[r][j];
      }
      l[r] = fmaf(l[r], rescale, group_sum<4>(tile_sum));
      if (row_leader) PROBE_VALUE(l, row, tile, l[r]);
      m[r] = m_new;
      UNROLL for (int i = 0; i < HEAD_DIM / 4; ++i) O_rmem[r][i] *= rescale;
    }

    // O += P @ V   [ROWS, HEAD_DIM / 4] of this lane
    PROBE_MARK(output, tile);
    UNROLL for (int j = 0; j < KEYS; ++j) UNROLL for (int lane = 0; lane < 4; ++lane) {
      const int c = 4 * j + lane;
      float p[ROWS];  // of the lane with the key
      UNROLL for (int r = 0; r < ROWS; ++r) p[r] = __shfl_sync(0xffffffffu, S_rmem[r][j], thread % 32 / 4 * 4 + lane);
      UNROLL for (int i = 0; i < HEAD_DIM / 4; i += 4) {
        PROBE_LOAD(V_smem, c * HEAD_DIM + i * 4 + t * 4, 16);
        const float4 v4 = lds<float4>(&V_smem[c * HEAD_DIM + i * 4 + t * 4]);
        UNROLL for (int r = 0; r < ROWS; ++r) add4(&O_rmem[r][i], p[r], v4);
      }
    }
    UNROLL for (int r = 0; r < ROWS; ++r) {
      UNROLL for (int i = 0; i < HEAD_DIM / 4; ++i) {
        const int row = first_row + r * (THREADS / 4) + ty, dim = i / 4 * 16 + t * 4 + i % 4;
        if (row < seq_len) PROBE_VALUE(o, row, tile, dim, O_rmem[r][i]);
      }
    }
    __syncthreads();  // so that no warp overwrites the tiles while another still reads them
    PROBE_MARK(tile_end, tile);
  }

  // O = O / l
  PROBE_MARK(write, first_row);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    UNROLL for (int i = 0; i < HEAD_DIM / 4; i += 4) {
      const int row = first_row + r * (THREADS / 4) + ty, dim = i * 4 + t * 4;
      if (row < seq_len) {
        const float* o = &O_rmem[r][i];
        PROBE_STORE(O_gmem, (head + row) * HEAD_DIM + dim, 16);
        stg<float4>(&O_gmem[(head + row) * HEAD_DIM + dim],
                    make_float4(o[0] / l[r], o[1] / l[r], o[2] / l[r], o[3] / l[r]));
      }
    }
  }
}
