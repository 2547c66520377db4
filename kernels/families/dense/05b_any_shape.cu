/*
title = "FlashAttention for any call"
idea = "the kernel takes its steps in memory as arguments, so one build serves grouped heads and both orders."
changed_from = "05_register_tiles"
changed = """indices come from steps between rows and between heads. The causal mask ends at the last key. lse is an \
output, so a backward can recompute the weights. A row without keys has output 0."""
costs = "more integer arithmetic for each address, and a logarithm for each row."
limits = "fp32. HEAD_DIM 32, 64 or 128. No S or P in memory."
source = """05_register_tiles's. Ainslie et al. 2023, "GQA", arXiv:2305.13245. Dao 2023, "FlashAttention-2", \
arXiv:2307.08691 (lse)."""
family = "dense"
problem = "grouped"
rung = 5
tuned = [{when = "head_dim == 128", BLOCK_KV = 16}]  # S of 32 keys and O of 128 dims spill registers

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
args = ["q", "k", "v", "o", "lse", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
  "int32 kv_row", "int32 kv_head", "int32 causal", "float32 scale",
]}]
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

// The arguments of the kernel apart from its tensors. Query i sees the keys up to i + offset if causal.
//   q_row, q_head, kv_row, kv_head  elements from a row to the next, and from a head to the next
struct Sizes {
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head, causal;
  float scale;
};

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head, and lse, the logarithm of each row's sum.
// A block computes BLOCK_Q rows in a loop over tiles of BLOCK_KV keys. Four neighbouring lanes share ROWS rows, which
// are THREADS / 4 apart: lane t has keys t, t + 4, ... of the tile, and dims 4 t to 4 t + 3 of every 16.
//   Q_gmem, O_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len]
extern "C" __global__ void __launch_bounds__(THREADS)
flash(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* O_gmem, float* LSE_gmem,
      const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                       // [BLOCK_Q, STRIDE]
  float* K_smem = Q_smem + BLOCK_Q * STRIDE;  // [BLOCK_KV, STRIDE]
  float* V_smem = K_smem + BLOCK_KV * STRIDE; // [BLOCK_KV, HEAD_DIM]
  const int thread = threadIdx.x, t = thread % 4, ty = thread / 4;
  const int first_row = blockIdx.x * BLOCK_Q;
  const int keys = z.causal ? min(z.keys, min(first_row + BLOCK_Q, z.seq_len) + z.offset) : z.keys;
  const int batch = blockIdx.y / z.num_heads, head = blockIdx.y % z.num_heads;
  const size_t q_start = (size_t)batch * z.num_heads * z.seq_len * HEAD_DIM + (size_t)head * z.q_head;
  const size_t kv_start = (size_t)batch * z.kv_heads * z.keys * HEAD_DIM +
                          (size_t)(head / (z.num_heads / z.kv_heads)) * z.kv_head;
  PROBE_BEGIN();

  PROBE_MARK(load_q, first_row);
  for (int i = thread * 4; i < BLOCK_Q * HEAD_DIM; i += THREADS * 4) {
    const int to = i / HEAD_DIM * STRIDE + i % HEAD_DIM;
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_row + i / HEAD_DIM < z.seq_len) {
      const size_t from = q_start + (size_t)(first_row + i / HEAD_DIM) * z.q_row + i % HEAD_DIM;
      PROBE_LOAD(Q_gmem, from, 16);
      q4 = ldg<float4>(&Q_gmem[from]);
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
      if (first_col + i / HEAD_DIM < z.keys) {
        const size_t from = kv_start + (size_t)(first_col + i / HEAD_DIM) * z.kv_row + i % HEAD_DIM;
        PROBE_LOAD(K_gmem, from, 16);
        k4 = ldg<float4>(&K_gmem[from]);
        PROBE_LOAD(V_gmem, from, 16);
        v4 = ldg<float4>(&V_gmem[from]);
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
        const bool seen = col < z.keys && !(z.causal && col > row + z.offset);
        S_rmem[r][j] = seen ? z.scale * S_rmem[r][j] : -INFINITY;
        if (seen && row < z.seq_len) PROBE_VALUE(score, row, col, S_rmem[r][j]);
      }
    }

    // m_new = max(m, max S);  P = exp(S - m_new);  l = exp(m - m_new) * l + sum P;  O = exp(m - m_new) * O
    PROBE_MARK(softmax, tile);
    UNROLL for (int r = 0; r < ROWS; ++r) {
      const int row = first_row + r * (THREADS / 4) + ty;
      const bool row_leader = t == 0 && row < z.seq_len;  // one thread logs for the row
      float tile_max = -INFINITY, tile_sum = 0.f;
      UNROLL for (int j = 0; j < KEYS; ++j) tile_max = fmaxf(tile_max, S_rmem[r][j]);
      tile_max = group_max<4>(tile_max);
      if (row_leader) PROBE_VALUE(tile_max, row, tile, tile_max);
      const float m_new = SUBTRACT_MAX ? fmaxf(m[r], tile_max) : 0.f;
      if (row_leader) PROBE_VALUE(m, row, tile, m_new);
      const float base = m_new == -INFINITY ? 0.f : m_new;  // the row has seen no key yet
      const float rescale = RESCALE ? expf(m[r] - base) : 1.f;
      if (row_leader) PROBE_VALUE(rescale, row, tile, rescale);
      UNROLL for (int j = 0; j < KEYS; ++j) {
        const int col = first_col + 4 * j + t;
        const bool seen = S_rmem[r][j] != -INFINITY;
        S_rmem[r][j] = expf(S_rmem[r][j] - base);
        if (seen && row < z.seq_len) PROBE_VALUE(p, row, col, S_rmem[r][j]);
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
        if (row < z.seq_len) PROBE_VALUE(o, row, tile, dim, O_rmem[r][i]);
      }
    }
    __syncthreads();  // so that no warp overwrites the tiles while another still reads them
    PROBE_MARK(tile_end, tile);
  }

  // O = O / l, or 0 for a row without keys;  lse = m + log l
  PROBE_MARK(write, first_row);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const int row = first_row + r * (THREADS / 4) + ty;
    const bool seen = l[r] > 0.f;
    const float sum = seen ? l[r] : 1.f;
    UNROLL for (int i = 0; i < HEAD_DIM / 4; i += 4) {
      const int dim = i * 4 + t * 4;
      if (row < z.seq_len) {
        const float* o = &O_rmem[r][i];
        const size_t to = q_start + (size_t)row * z.q_row + dim;
        PROBE_STORE(O_gmem, to, 16);
        stg<float4>(&O_gmem[to], make_float4(o[0] / sum, o[1] / sum, o[2] / sum, o[3] / sum));
      }
    }
    if (t == 0 && row < z.seq_len) {
      const size_t to = (size_t)blockIdx.y * z.seq_len + row;
      PROBE_STORE(LSE_gmem, to, 4);
      stg<float>(&LSE_gmem[to], seen ? m[r] + logf(sum) : -INFINITY);
    }
  }
}
