/*
title = "One of mine"
idea = "keep a running max m and sum l per row, so softmax needs one pass and S and P never leave the chip."
changed_from = "03_flash"
changed = "nothing yet. It is a copy to start from."
costs = "two more multiplications per row and tile. K and V are still read once for each query tile."
limits = "fp32. HEAD_DIM 32, 64 or 128. BLOCK_Q x BLOCK_KV threads per block, at most 1024. No S or P in memory."
source = "Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, \"FlashAttention\", arXiv:2205.14135."
family = "dense"

[constants.BLOCK_Q]
default = 16
values = [8, 16, 32]
meaning = "query rows per tile"

[constants.BLOCK_KV]
default = 16
values = [8, 16, 32]
meaning = "keys per tile"

[constants.PAD_K]
default = 0
values = [0, 4]
meaning = "floats left free after each row of K_smem, against bank conflicts"

[constants.SUBTRACT_MAX]
default = 1
values = [1, 0]
meaning = "subtract the row's max before the exponential"
what_if = "No max subtraction"
effect = "e^score overflows fp32 once a score passes 88.7, and the row becomes NaN."
shows_at = 30.0

[constants.RESCALE]
default = 1
values = [1, 0]
meaning = "rescale l and O when the max moves"
what_if = "No rescaling"
effect = "after the max rises, earlier parts of l and O still count against the old max, so both come out too large."

[[launches]]
entry = "mine"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["BLOCK_KV", "BLOCK_Q"]
shared_bytes = "4 * ((BLOCK_Q + 2 * BLOCK_KV) * HEAD_DIM + BLOCK_KV * (BLOCK_Q + PAD_K))"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include "common.cuh"
#define THREADS (BLOCK_Q * BLOCK_KV)

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head. A block computes BLOCK_Q rows in a loop over
// tiles of BLOCK_KV keys. A thread computes one score of each tile.
//   Q_gmem, K_gmem, V_gmem, O_gmem  [batch * num_heads, seq_len, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(THREADS)
mine(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* O_gmem, int seq_len, int causal,
      float scale PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                                    // [BLOCK_Q, HEAD_DIM]
  float* K_smem = Q_smem + BLOCK_Q * HEAD_DIM;             // [BLOCK_KV, HEAD_DIM + PAD_K]
  float* V_smem = K_smem + BLOCK_KV * (HEAD_DIM + PAD_K);  // [BLOCK_KV, HEAD_DIM]
  float* P_smem = V_smem + BLOCK_KV * HEAD_DIM;            // [BLOCK_Q, BLOCK_KV]
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * BLOCK_KV + tx;
  const int first_row = blockIdx.x * BLOCK_Q, row = first_row + ty;
  const int keys = causal ? min(first_row + BLOCK_Q, seq_len) : seq_len;
  const size_t head = (size_t)blockIdx.y * seq_len;
  const bool row_leader = tx == 0 && row < seq_len;  // one thread logs for the row
  PROBE_BEGIN();

  PROBE_MARK(load_q, row);
  for (int i = thread * 4; i < BLOCK_Q * HEAD_DIM; i += THREADS * 4) {
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_row + i / HEAD_DIM < seq_len) {
      PROBE_LOAD(Q_gmem, (head + first_row) * HEAD_DIM + i, 16);
      q4 = ldg<float4>(&Q_gmem[(head + first_row) * HEAD_DIM + i]);
    }
    PROBE_STORE(Q_smem, i, 16);
    sts<float4>(&Q_smem[i], q4);
  }

  float m = SUBTRACT_MAX ? -INFINITY : 0.f, l = 0.f;
  float O_rmem[HEAD_DIM / BLOCK_KV] = {};  // the dims of its row that this thread sums: tx, tx + BLOCK_KV, ...
  for (int tile = 0; tile * BLOCK_KV < keys; ++tile) {
    PROBE_MARK(tile_begin, tile);
    PROBE_MARK(load_tile, tile);
    const int first_col = tile * BLOCK_KV, col = first_col + tx;
    for (int i = thread * 4; i < BLOCK_KV * HEAD_DIM; i += THREADS * 4) {
      float4 k4 = make_float4(0.f, 0.f, 0.f, 0.f), v4 = k4;
      if (first_col + i / HEAD_DIM < seq_len) {
        PROBE_LOAD(K_gmem, (head + first_col) * HEAD_DIM + i, 16);
        k4 = ldg<float4>(&K_gmem[(head + first_col) * HEAD_DIM + i]);
        PROBE_LOAD(V_gmem, (head + first_col) * HEAD_DIM + i, 16);
        v4 = ldg<float4>(&V_gmem[(head + first_col) * HEAD_DIM + i]);
      }
      PROBE_STORE(K_smem, i + i / HEAD_DIM * PAD_K, 16);
      sts<float4>(&K_smem[i + i / HEAD_DIM * PAD_K], k4);
      PROBE_STORE(V_smem, i, 16);
      sts<float4>(&V_smem[i], v4);
    }
    __syncthreads();

    // S = scale * Q @ K^T   [BLOCK_Q, BLOCK_KV]
    PROBE_MARK(scores, tile);
    float dot = 0.f;
    for (int part = 0; part < HEAD_DIM; part += 32) {  // 32 dims at a time, because shorter sums round less
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
      for (int d = part; d < part + 32; d += 4) {
        PROBE_LOAD(Q_smem, ty * HEAD_DIM + d, 16);
        const float4 q4 = lds<float4>(&Q_smem[ty * HEAD_DIM + d]);
        PROBE_LOAD(K_smem, tx * (HEAD_DIM + PAD_K) + d, 16);
        const float4 k4 = lds<float4>(&K_smem[tx * (HEAD_DIM + PAD_K) + d]);
        sum = fma4(q4, k4, sum);
      }
      dot += add4(sum);
    }
    const bool seen = col < seq_len && !(causal && col > row);
    const float score = seen ? scale * dot : -INFINITY;
    if (seen && row < seq_len) PROBE_VALUE(score, row, col, score);

    // m_new = max(m, max S);  P = exp(S - m_new);  l = exp(m - m_new) * l + sum P
    PROBE_MARK(softmax, tile);
    const float tile_max = group_max<BLOCK_KV>(score);
    if (row_leader) PROBE_VALUE(tile_max, row, tile, tile_max);
    const float m_new = SUBTRACT_MAX ? fmaxf(m, tile_max) : 0.f;
    if (row_leader) PROBE_VALUE(m, row, tile, m_new);
    const float rescale = RESCALE ? expf(m - m_new) : 1.f;
    if (row_leader) PROBE_VALUE(rescale, row, tile, rescale);
    const float p = expf(score - m_new);
    if (seen && row < seq_len) PROBE_VALUE(p, row, col, p);
    l = fmaf(l, rescale, group_sum<BLOCK_KV>(p));
    if (row_leader) PROBE_VALUE(l, row, tile, l);
    m = m_new;
    PROBE_STORE(P_smem, thread, 4);
    sts<float>(&P_smem[thread], p);
    __syncthreads();

    // O = exp(m - m_new) * O + P @ V   [BLOCK_Q, HEAD_DIM]
    PROBE_MARK(output, tile);
    for (int j = 0; j < HEAD_DIM / BLOCK_KV; ++j) O_rmem[j] *= rescale;
    for (int c = 0; c < BLOCK_KV; ++c) {
      PROBE_LOAD(P_smem, ty * BLOCK_KV + c, 4);
      const float p_col = lds<float>(&P_smem[ty * BLOCK_KV + c]);
      for (int j = 0; j < HEAD_DIM / BLOCK_KV; ++j) {
        PROBE_LOAD(V_smem, c * HEAD_DIM + j * BLOCK_KV + tx, 4);
        O_rmem[j] = fmaf(p_col, lds<float>(&V_smem[c * HEAD_DIM + j * BLOCK_KV + tx]), O_rmem[j]);
      }
    }
    for (int j = 0, dim = tx; j < HEAD_DIM / BLOCK_KV; ++j, dim += BLOCK_KV) {
      if (row < seq_len) PROBE_VALUE(o, row, tile, dim, O_rmem[j]);
    }
    __syncthreads();  // so that no thread overwrites the tiles while another still reads them
    PROBE_MARK(tile_end, tile);
  }

  // O = O / l
  PROBE_MARK(write, row);
  for (int j = 0, dim = tx; j < HEAD_DIM / BLOCK_KV && row < seq_len; ++j, dim += BLOCK_KV) {
    PROBE_STORE(O_gmem, (head + row) * HEAD_DIM + dim, 4);
    stg<float>(&O_gmem[(head + row) * HEAD_DIM + dim], O_rmem[j] / l);
  }
}
