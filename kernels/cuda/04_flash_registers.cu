// 04_flash_registers. Idea: each thread works on a tile of scores and outputs in its registers, so a number read from shared memory is used many times.
// Changed from 03_flash: ROWS rows per thread instead of one; rows padded against bank conflicts; K and V copied while the block computes; P kept by its warp.
// Costs: about 200 registers per thread, so few warps at once; longer rows in shared memory.
// Limits: fp32; HEAD_DIM 32, 64 or 128; 16 threads share a row; BLOCK_Q / ROWS * 16 threads per block; no S or P to look at after.
// Source: 03_flash's; thread tiles: Volkov 2010, "Better Performance at Lower Occupancy"; NVIDIA, CUTLASS, "Efficient GEMM in CUDA".
#include "common.cuh"
#define LANES 16                                // threads that share a row
#define THREADS (BLOCK_Q / ROWS * LANES)
#define ROW_STEP (BLOCK_Q / ROWS)               // a thread's rows are ty, ty + ROW_STEP, ...
#define COLS (BLOCK_KV / LANES)                 // its keys are tx, tx + 16, ...
#define DIMS (HEAD_DIM / LANES)                 // its dims are 2 tx, 2 tx + 1, 2 tx + 32, ...
#define STRIDE (HEAD_DIM + PAD)                 // with PAD 4 eight rows' 16 bytes lie in 32 different banks
#define P_STRIDE (PAD ? BLOCK_KV | 16 : BLOCK_KV)  // and a warp's two rows of P in different halves of the banks
#define LOG2_E 1.44269504f                      // e^x = 2^(x log2 e): one instruction of the GPU, where expf is eight
#define UNROLL _Pragma("unroll")                // else an array would not be in registers

// Over the 16 threads of a row: every other lane of the warp.
__device__ __forceinline__ float row_max(float v) {
  for (int lanes = 2; lanes < 32; lanes *= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, lanes));
  return v;
}
__device__ __forceinline__ float row_sum(float v) {
  for (int lanes = 2; lanes < 32; lanes *= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  return v;
}
__device__ __forceinline__ float element(float4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM]; one block per BLOCK_Q rows of O
extern "C" __global__ void __launch_bounds__(THREADS, 1)
flash(const float* Q_gmem, const float* K_gmem, const float* V_gmem, float* O_gmem, int seq_len, int causal,
      float scale PROBE_PARAM) {
  DYNAMIC_SMEM(float, smem);
  float* Q_smem = smem;                         // [BLOCK_Q, STRIDE]
  float* K_smem = Q_smem + BLOCK_Q * STRIDE;    // [BLOCK_KV, STRIDE]
  float* V_smem = K_smem + BLOCK_KV * STRIDE;   // [BLOCK_KV, HEAD_DIM]
  float* P_smem = V_smem + BLOCK_KV * HEAD_DIM; // [BLOCK_Q, P_STRIDE]
  const int thread = threadIdx.x, tx = thread % 32 / 2, ty = thread / 32 * 2 + thread % 2;  // lanes n and n ^ 1: same keys, next row
  const int first_row = blockIdx.x * BLOCK_Q;
  const int keys = causal ? min(first_row + BLOCK_Q, seq_len) : seq_len;
  const size_t head = (size_t)blockIdx.y * seq_len;
  const KeptAddress Q_rows = kept_address(Q_smem + ty * STRIDE);  // this thread's part of each tile
  const KeptAddress K_rows = kept_address(K_smem + tx * STRIDE);
  const KeptAddress V_dims = kept_address(V_smem + tx * 2);
  const KeptAddress P_rows = kept_address(P_smem + ty * P_STRIDE);
  const KeptAddress P_own = kept_address(P_smem + ty * P_STRIDE + tx);
  PROBE_BEGIN();

  // Copies rows of K or V into shared memory without waiting for them; zeros beyond the last key.
  auto copy_k = [&](int first_col) {
    UNROLL for (int i = thread * 4; i < BLOCK_KV * HEAD_DIM; i += THREADS * 4) {
      const int at = i + i / HEAD_DIM * PAD;
      if (first_col + i / HEAD_DIM < seq_len) {
        PROBE_LOAD(K_gmem, (head + first_col) * HEAD_DIM + i, 16);
        PROBE_CP_ASYNC(K_smem, at, 16);
        cp_async<16>(&K_smem[at], &K_gmem[(head + first_col) * HEAD_DIM + i]);
      } else {
        PROBE_STORE(K_smem, at, 16);
        sts<float4>(&K_smem[at], make_float4(0.f, 0.f, 0.f, 0.f));
      }
    }
  };
  auto copy_v = [&](int first_col) {
    UNROLL for (int i = thread * 4; i < BLOCK_KV * HEAD_DIM; i += THREADS * 4) {
      if (first_col + i / HEAD_DIM < seq_len) {
        PROBE_LOAD(V_gmem, (head + first_col) * HEAD_DIM + i, 16);
        PROBE_CP_ASYNC(V_smem, i, 16);
        cp_async<16>(&V_smem[i], &V_gmem[(head + first_col) * HEAD_DIM + i]);
      } else {
        PROBE_STORE(V_smem, i, 16);
        sts<float4>(&V_smem[i], make_float4(0.f, 0.f, 0.f, 0.f));
      }
    }
  };

  PROBE_MARK(load_q, first_row);
  for (int i = thread * 4; i < BLOCK_Q * HEAD_DIM; i += THREADS * 4) {
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f);
    if (first_row + i / HEAD_DIM < seq_len) {
      PROBE_LOAD(Q_gmem, (head + first_row) * HEAD_DIM + i, 16);
      q4 = ldg<float4>(&Q_gmem[(head + first_row) * HEAD_DIM + i]);
    }
    PROBE_STORE(Q_smem, i + i / HEAD_DIM * PAD, 16);
    sts<float4>(&Q_smem[i + i / HEAD_DIM * PAD], q4);
  }
  PROBE_MARK(prefetch, first_row);
  copy_k(0);

  float m[ROWS], l[ROWS] = {}, O_rmem[ROWS][DIMS] = {};
  UNROLL for (int r = 0; r < ROWS; ++r) m[r] = SUBTRACT_MAX ? -INFINITY : 0.f;
  for (int tile = 0; tile * BLOCK_KV < keys; ++tile) {
    PROBE_MARK(tile_begin, tile);
    const int first_col = tile * BLOCK_KV;
    cp_async_wait();
    __syncthreads();  // K is here, and nobody reads the V of the tile before
    PROBE_MARK(load_tile, tile);
    copy_v(first_col);

    // S = scale * Q @ K^T   [BLOCK_Q, BLOCK_KV]
    PROBE_MARK(scores, tile);
    float S_rmem[ROWS][COLS] = {};
    for (int part = 0; part < HEAD_DIM; part += 16) {  // 16 dims at a time: shorter sums round less
      float sum[ROWS][COLS] = {};
#pragma unroll 4
      for (int d = part; d < part + 16; d += 4) {
        float4 K_rmem[COLS];
        UNROLL for (int c = 0; c < COLS; ++c) {
          PROBE_LOAD(K_smem, (tx + c * LANES) * STRIDE + d, 16);
          K_rmem[c] = lds<float4>(K_rows + c * LANES * STRIDE + d);
        }
        UNROLL for (int r = 0; r < ROWS; ++r) {
          PROBE_LOAD(Q_smem, (ty + r * ROW_STEP) * STRIDE + d, 16);
          const float4 q4 = lds<float4>(Q_rows + r * ROW_STEP * STRIDE + d);
          UNROLL for (int c = 0; c < COLS; ++c) {
            UNROLL for (int i = 0; i < 4; ++i) sum[r][c] = fmaf(element(q4, i), element(K_rmem[c], i), sum[r][c]);
          }
        }
      }
      UNROLL for (int r = 0; r < ROWS; ++r) {
        UNROLL for (int c = 0; c < COLS; ++c) S_rmem[r][c] += sum[r][c];
      }
    }
    UNROLL for (int r = 0; r < ROWS; ++r) {
      UNROLL for (int c = 0; c < COLS; ++c) {
        const int row = first_row + ty + r * ROW_STEP, col = first_col + tx + c * LANES;
        const bool seen = col < seq_len && !(causal && col > row);
        S_rmem[r][c] = seen ? scale * S_rmem[r][c] : -INFINITY;
        if (seen && row < seq_len) PROBE_VALUE(score, row, col, S_rmem[r][c]);
      }
    }
    cp_async_wait();
    __syncthreads();  // V is here, and nobody reads this tile's K any more
    if (first_col + BLOCK_KV < keys) {
      PROBE_MARK(prefetch, tile);
      copy_k(first_col + BLOCK_KV);
    }

    // m_new = max(m, max S);  P = exp(S - m_new);  l = exp(m - m_new) * l + sum P;  O = exp(m - m_new) * O
    PROBE_MARK(softmax, tile);
    UNROLL for (int r = 0; r < ROWS; ++r) {
      const int row = first_row + ty + r * ROW_STEP;
      const bool row_leader = tx == 0 && row < seq_len;  // one thread speaks for the row
      float tile_max = S_rmem[r][0], tile_sum = 0.f;
      UNROLL for (int c = 1; c < COLS; ++c) tile_max = fmaxf(tile_max, S_rmem[r][c]);
      tile_max = row_max(tile_max);
      if (row_leader) PROBE_VALUE(tile_max, row, tile, tile_max);
      const float m_new = SUBTRACT_MAX ? fmaxf(m[r], tile_max) : 0.f;
      if (row_leader) PROBE_VALUE(m, row, tile, m_new);
      const float m_log2 = m_new * LOG2_E;  // rounded once, and the same in every exponent
      const float rescale = RESCALE ? exp2_approx(m[r] * LOG2_E - m_log2) : 1.f;
      if (row_leader) PROBE_VALUE(rescale, row, tile, rescale);
      UNROLL for (int c = 0; c < COLS; ++c) {
        const int col = first_col + tx + c * LANES;
        const bool seen = S_rmem[r][c] != -INFINITY;
        const float p = exp2_approx(fmaf(S_rmem[r][c], LOG2_E, -m_log2));
        if (seen && row < seq_len) PROBE_VALUE(p, row, col, p);
        tile_sum += p;
        PROBE_STORE(P_smem, (ty + r * ROW_STEP) * P_STRIDE + tx + c * LANES, 4);
        sts<float>(P_own + r * ROW_STEP * P_STRIDE + c * LANES, p);
      }
      l[r] = fmaf(l[r], rescale, row_sum(tile_sum));
      if (row_leader) PROBE_VALUE(l, row, tile, l[r]);
      m[r] = m_new;
      UNROLL for (int j = 0; j < DIMS; ++j) O_rmem[r][j] *= rescale;
    }
    __syncwarp();  // a row's weights and its outputs are work of one warp: no other reads its P

    // O = O + P @ V   [BLOCK_Q, HEAD_DIM]
    PROBE_MARK(output, tile);
#pragma unroll 4
    for (int k = 0; k < BLOCK_KV; k += 4) {
      float4 P_rmem[ROWS];
      UNROLL for (int r = 0; r < ROWS; ++r) {
        PROBE_LOAD(P_smem, (ty + r * ROW_STEP) * P_STRIDE + k, 16);
        P_rmem[r] = lds<float4>(P_rows + r * ROW_STEP * P_STRIDE + k);
      }
      UNROLL for (int i = 0; i < 4; ++i) {
        UNROLL for (int j = 0; j < DIMS; j += 2) {
          PROBE_LOAD(V_smem, (k + i) * HEAD_DIM + j * LANES + tx * 2, 8);
          const float2 v2 = lds<float2>(V_dims + k * HEAD_DIM + (i * HEAD_DIM + j * LANES));
          UNROLL for (int r = 0; r < ROWS; ++r) {
            O_rmem[r][j] = fmaf(element(P_rmem[r], i), v2.x, O_rmem[r][j]);
            O_rmem[r][j + 1] = fmaf(element(P_rmem[r], i), v2.y, O_rmem[r][j + 1]);
          }
        }
      }
    }
    UNROLL for (int r = 0; r < ROWS; ++r) {
      UNROLL for (int j = 0; j < DIMS; ++j) {
        const int row = first_row + ty + r * ROW_STEP, dim = j / 2 * 32 + tx * 2 + j % 2;
        if (row < seq_len) PROBE_VALUE(o, row, tile, dim, O_rmem[r][j]);
      }
    }
    PROBE_MARK(tile_end, tile);
  }

  // O = O / l
  PROBE_MARK(write, first_row);
  UNROLL for (int r = 0; r < ROWS; ++r) {
    const int row = first_row + ty + r * ROW_STEP;
    UNROLL for (int j = 0; j < DIMS; j += 2) {
      if (row < seq_len) {
        PROBE_STORE(O_gmem, (head + row) * HEAD_DIM + j * LANES + tx * 2, 8);
        stg<float2>(&O_gmem[(head + row) * HEAD_DIM + j * LANES + tx * 2], make_float2(O_rmem[r][j] / l[r], O_rmem[r][j + 1] / l[r]));
      }
    }
  }
}
