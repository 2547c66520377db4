/*
title = "FlashAttention, a warp for its rows"
idea = """four lanes of one warp share a row. They compute its max and sum together and exchange the weights by \
shuffles, so P never leaves the registers."""
changed_from = "03_flash"
changed = """a warp computes eight rows, a lane a quarter of one row's keys and dims. P_smem and one wait per tile are \
gone. All loads from shared memory have 128 bits."""
costs = "more registers per thread. K and V are still read from shared memory again for every row."
limits = "fp32. HEAD_DIM 32, 64 or 128. No S or P in memory."
source = """03_flash's. Volkov 2010, "Better Performance at Lower Occupancy", GTC."""
family = "dense"
rung = 4

[constants]  # meaning and effect: common.cuh
BLOCK_Q = {default = 32, values = [16, 32, 64]}
BLOCK_KV = {default = 32, values = [16, 32]}
PAD_QK = {}
SUBTRACT_MAX = {}
RESCALE = {}

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["4 * BLOCK_Q"]
shared_bytes = "4 * ((BLOCK_Q + BLOCK_KV) * (HEAD_DIM + PAD_QK) + BLOCK_KV * HEAD_DIM)"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include "common.cuh"
#define THREADS (BLOCK_Q * 4)
#define STRIDE (HEAD_DIM + PAD_QK)  // floats per row of Q_smem and K_smem. 4 more spread eight rows over all banks.
#define KEYS (BLOCK_KV / 4)      // of a tile and a row, for one lane
#define UNROLL _Pragma("unroll")  // for loops over arrays, which otherwise leave the registers
#define NO_UNROLL _Pragma("unroll 1")  // for other loops: early reads take registers too

// sum + a . b over four neighbouring dims
__device__ __forceinline__ float dot4(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// o += p * v over four neighbouring dims
__device__ __forceinline__ void add4(float* o, float p, float4 v) {
  o[0] = fmaf(p, v.x, o[0]), o[1] = fmaf(p, v.y, o[1]), o[2] = fmaf(p, v.z, o[2]), o[3] = fmaf(p, v.w, o[3]);
}

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head. A block computes BLOCK_Q rows in a loop over
// tiles of BLOCK_KV keys. Four neighbouring lanes share a row:
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
  const int first_row = blockIdx.x * BLOCK_Q, row = first_row + ty;
  const int keys = causal ? min(first_row + BLOCK_Q, seq_len) : seq_len;
  const size_t head = (size_t)blockIdx.y * seq_len;
  const bool row_leader = t == 0 && row < seq_len;  // one thread logs for the row
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

  float m = SUBTRACT_MAX ? -INFINITY : 0.f, l = 0.f;
  float O_rmem[HEAD_DIM / 4] = {};
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

    // S = scale * Q @ K^T   [1, KEYS] of this lane
    PROBE_MARK(scores, tile);
    float S_rmem[KEYS] = {};
    UNROLL for (int part = 0; part < HEAD_DIM; part += 32) {  // 32 dims at a time, because shorter sums round less
      float sum[KEYS] = {};
      _Pragma("unroll 2") for (int d = part; d < part + 32; d += 4) {
        PROBE_LOAD(Q_smem, ty * STRIDE + d, 16);
        const float4 q4 = lds<float4>(&Q_smem[ty * STRIDE + d]);
        UNROLL for (int j = 0; j < KEYS; ++j) {
          PROBE_LOAD(K_smem, (4 * j + t) * STRIDE + d, 16);
          const float4 k4 = lds<float4>(&K_smem[(4 * j + t) * STRIDE + d]);
          sum[j] = dot4(q4, k4, sum[j]);
        }
      }
      UNROLL for (int j = 0; j < KEYS; ++j) S_rmem[j] += sum[j];
    }
    UNROLL for (int j = 0, col = first_col + t; j < KEYS; ++j, col += 4) {
      const bool seen = col < seq_len && !(causal && col > row);
      S_rmem[j] = seen ? scale * S_rmem[j] : -INFINITY;
      if (seen && row < seq_len) PROBE_VALUE(score, row, col, S_rmem[j]);
    }

    // m_new = max(m, max S);  P = exp(S - m_new);  l = exp(m - m_new) * l + sum P
    PROBE_MARK(softmax, tile);
    float tile_max = -INFINITY, tile_sum = 0.f;
    UNROLL for (int j = 0; j < KEYS; ++j) tile_max = fmaxf(tile_max, S_rmem[j]);
    tile_max = group_max<4>(tile_max);
    if (row_leader) PROBE_VALUE(tile_max, row, tile, tile_max);
    const float m_new = SUBTRACT_MAX ? fmaxf(m, tile_max) : 0.f;
    if (row_leader) PROBE_VALUE(m, row, tile, m_new);
    const float rescale = RESCALE ? expf(m - m_new) : 1.f;
    if (row_leader) PROBE_VALUE(rescale, row, tile, rescale);
    UNROLL for (int j = 0, col = first_col + t; j < KEYS; ++j, col += 4) {
      const bool seen = S_rmem[j] != -INFINITY;
      S_rmem[j] = expf(S_rmem[j] - m_new);
      if (seen && row < seq_len) PROBE_VALUE(p, row, col, S_rmem[j]);
      tile_sum += S_rmem[j];
    }
    l = fmaf(l, rescale, group_sum<4>(tile_sum));
    if (row_leader) PROBE_VALUE(l, row, tile, l);
    m = m_new;

    // O = exp(m - m_new) * O + P @ V   [1, HEAD_DIM / 4] of this lane
    PROBE_MARK(output, tile);
    UNROLL for (int i = 0; i < HEAD_DIM / 4; ++i) O_rmem[i] *= rescale;
    UNROLL for (int j = 0; j < KEYS; ++j) NO_UNROLL for (int lane = 0; lane < 4; ++lane) {
      const int c = 4 * j + lane;
      const float p = __shfl_sync(0xffffffffu, S_rmem[j], thread % 32 / 4 * 4 + lane);  // of the lane with the key
      UNROLL for (int i = 0; i < HEAD_DIM / 4; i += 4) {
        PROBE_LOAD(V_smem, c * HEAD_DIM + i * 4 + t * 4, 16);
        const float4 v4 = lds<float4>(&V_smem[c * HEAD_DIM + i * 4 + t * 4]);
        add4(&O_rmem[i], p, v4);
      }
    }
    UNROLL for (int i = 0; i < HEAD_DIM / 4; ++i) {
      const int dim = i / 4 * 16 + t * 4 + i % 4;
      if (row < seq_len) PROBE_VALUE(o, row, tile, dim, O_rmem[i]);
    }
    __syncthreads();  // so that no warp overwrites the tiles while another still reads them
    PROBE_MARK(tile_end, tile);
  }

  // O = O / l
  PROBE_MARK(write, first_row);
  UNROLL for (int i = 0; i < HEAD_DIM / 4; i += 4) {
    const int dim = i * 4 + t * 4;
    if (row < seq_len) {
      PROBE_STORE(O_gmem, (head + row) * HEAD_DIM + dim, 16);
      stg<float4>(&O_gmem[(head + row) * HEAD_DIM + dim],
                  make_float4(O_rmem[i] / l, O_rmem[i + 1] / l, O_rmem[i + 2] / l, O_rmem[i + 3] / l));
    }
  }
}
