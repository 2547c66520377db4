// 02_tiled. Idea: a block copies tiles of Q, K, V and P into shared memory once, and all its threads read them there.
// Changed from 01_naive: scores and output go through shared tiles; the softmax pass is the same.
// Costs: K and V are still read once for each query tile; S and P still take N x N floats each and go out and back.
// Limits: fp32; HEAD_DIM 32, 64 or 128; BLOCK_Q x BLOCK_KV threads per block, at most 1024.
// Source: Kirk and Hwu, "Programming Massively Parallel Processors", chapter on tiling for memory locality.
#include "common.cuh"
#define THREADS (BLOCK_Q * BLOCK_KV)

// S = scale * Q @ K^T   [seq_len, seq_len]; one block per tile of S
extern "C" __global__ void __launch_bounds__(THREADS)
scores(const float* Q_gmem, const float* K_gmem, float* S_gmem, int seq_len, int causal, float scale PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                         // [BLOCK_Q, HEAD_DIM]
  float* K_smem = Q_smem + BLOCK_Q * HEAD_DIM;  // [BLOCK_KV, HEAD_DIM + PAD_K]
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * BLOCK_KV + tx;
  const int tile = blockIdx.x, first_row = blockIdx.y * BLOCK_Q, first_col = tile * BLOCK_KV;
  const int row = first_row + ty, col = first_col + tx;
  if (causal && first_col >= first_row + BLOCK_Q) return;  // the whole tile lies above the diagonal
  const size_t head = (size_t)blockIdx.z * seq_len;
  PROBE_BEGIN();
  PROBE_MARK(tile_begin, tile);

  PROBE_MARK(load_tile, tile);
  for (int i = thread * 4; i < BLOCK_Q * HEAD_DIM; i += THREADS * 4) {
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_row + i / HEAD_DIM < seq_len) {
      PROBE_LOAD(Q_gmem, (head + first_row) * HEAD_DIM + i, 16);
      q4 = ldg<float4>(&Q_gmem[(head + first_row) * HEAD_DIM + i]);
    }
    PROBE_STORE(Q_smem, i, 16);
    sts<float4>(&Q_smem[i], q4);
  }
  for (int i = thread * 4; i < BLOCK_KV * HEAD_DIM; i += THREADS * 4) {
    float4 k4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_col + i / HEAD_DIM < seq_len) {
      PROBE_LOAD(K_gmem, (head + first_col) * HEAD_DIM + i, 16);
      k4 = ldg<float4>(&K_gmem[(head + first_col) * HEAD_DIM + i]);
    }
    PROBE_STORE(K_smem, i + i / HEAD_DIM * PAD_K, 16);
    sts<float4>(&K_smem[i + i / HEAD_DIM * PAD_K], k4);
  }
  __syncthreads();

  PROBE_MARK(scores, tile);
  float dot = 0.f;
  for (int part = 0; part < HEAD_DIM; part += 32) {  // 32 dims at a time: shorter sums round less
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
  const float score = scale * dot;
  if (row < seq_len && col < seq_len && !(causal && col > row)) {
    PROBE_VALUE(score, row, col, score);
    PROBE_STORE(S_gmem, (head + row) * seq_len + col, 4);
    stg<float>(&S_gmem[(head + row) * seq_len + col], score);
  }
  PROBE_MARK(tile_end, tile);
}

// P = exp(S - m) / l, row by row, m and l the row's max and sum   [seq_len, seq_len]; one warp per row
extern "C" __global__ void softmax(const float* S_gmem, float* P_gmem, int seq_len, int causal PROBE_PARAM) {
  const int row = blockIdx.y * BLOCK_Q + threadIdx.y, lane = threadIdx.x;
  if (row >= seq_len) return;
  const int keys = causal ? row + 1 : seq_len;
  const size_t s = ((size_t)blockIdx.z * seq_len + row) * seq_len;
  PROBE_BEGIN();

  PROBE_MARK(row_max, row);
  float m = -INFINITY;
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {  // all lanes alike, so that the warp stays together
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    m = fmaxf(m, ldg<float>(&S_gmem[s + col]));
  }
  m = SUBTRACT_MAX ? group_max<32>(m) : 0.f;
  if (lane == 0) PROBE_VALUE(m, row, m);

  PROBE_MARK(row_sum, row);
  float l = 0.f;
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {  // all lanes alike, so that the warp stays together
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    l += expf(ldg<float>(&S_gmem[s + col]) - m);
  }
  l = group_sum<32>(l);
  if (lane == 0) PROBE_VALUE(l, row, l);

  PROBE_MARK(divide, row);
  for (int first = 0, col = lane; first < keys; first += 32, col += 32) {  // all lanes alike, so that the warp stays together
    if (col >= keys) break;
    PROBE_LOAD(S_gmem, s + col, 4);
    const float p = expf(ldg<float>(&S_gmem[s + col]) - m) / l;
    PROBE_VALUE(p, row, col, p);
    PROBE_STORE(P_gmem, s + col, 4);
    stg<float>(&P_gmem[s + col], p);
  }
}

// O = P @ V   [seq_len, HEAD_DIM]; one block per BLOCK_Q rows of O, a loop over tiles of V
extern "C" __global__ void __launch_bounds__(THREADS)
output(const float* P_gmem, const float* V_gmem, float* O_gmem, int seq_len, int causal PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float* V_smem = smem;                          // [BLOCK_KV, HEAD_DIM]
  float* P_smem = V_smem + BLOCK_KV * HEAD_DIM;  // [BLOCK_Q, BLOCK_KV]
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * BLOCK_KV + tx;
  const int first_row = blockIdx.y * BLOCK_Q, row = first_row + ty;
  const int row_keys = row < seq_len ? (causal ? row + 1 : seq_len) : 0;
  const int keys = causal ? min(first_row + BLOCK_Q, seq_len) : seq_len;
  const size_t head = (size_t)blockIdx.z * seq_len;
  PROBE_BEGIN();

  float O_rmem[HEAD_DIM / BLOCK_KV] = {};  // this thread's dims of its row: tx, tx + BLOCK_KV, ...
  for (int tile = 0; tile * BLOCK_KV < keys; ++tile) {
    PROBE_MARK(tile_begin, tile);
    PROBE_MARK(load_tile, tile);
    const int first_col = tile * BLOCK_KV;
    for (int i = thread * 4; i < BLOCK_KV * HEAD_DIM; i += THREADS * 4) {
      float4 v4 = make_float4(0.f, 0.f, 0.f, 0.f);
      if (first_col + i / HEAD_DIM < seq_len) {
        PROBE_LOAD(V_gmem, (head + first_col) * HEAD_DIM + i, 16);
        v4 = ldg<float4>(&V_gmem[(head + first_col) * HEAD_DIM + i]);
      }
      PROBE_STORE(V_smem, i, 16);
      sts<float4>(&V_smem[i], v4);
    }
    float p = 0.f;
    if (first_col + tx < row_keys) {
      PROBE_LOAD(P_gmem, (head + row) * seq_len + first_col + tx, 4);
      p = ldg<float>(&P_gmem[(head + row) * seq_len + first_col + tx]);
    }
    PROBE_STORE(P_smem, thread, 4);
    sts<float>(&P_smem[thread], p);
    __syncthreads();

    PROBE_MARK(output, tile);
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
    __syncthreads();  // nobody overwrites the tiles while another thread still reads them
    PROBE_MARK(tile_end, tile);
  }

  PROBE_MARK(write, row);
  for (int j = 0, dim = tx; j < HEAD_DIM / BLOCK_KV && row < seq_len; ++j, dim += BLOCK_KV) {
    PROBE_STORE(O_gmem, (head + row) * HEAD_DIM + dim, 4);
    stg<float>(&O_gmem[(head + row) * HEAD_DIM + dim], O_rmem[j]);
  }
}
