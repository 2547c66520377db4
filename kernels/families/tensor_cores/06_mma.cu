/*
title = "FlashAttention on tensor cores"
idea = """a warp's tensor cores multiply 16 x 16 by 16 x 8 numbers in one instruction (mma.sync). ldmatrix brings the \
operands from shared memory into the right lanes."""
changed_from = "05_register_tiles"
changed = """Q, K, V and O have 16 bits, sums 32. The two products are mma.sync. The first product leaves the scores \
in the registers where the second wants the weights."""
costs = """ldmatrix reads eight rows at once, all from the same banks, so it waits eight times. All threads wait \
during the copy of a tile. Weights are rounded to 16 bits."""
limits = "fp16 or bf16. HEAD_DIM 64, 128 or 256. sm_80 or later."
source = """Dao 2023, "FlashAttention-2", arXiv:2307.08691. PTX ISA, sections on mma.m16n8k16 and ldmatrix."""
family = "tensor_cores"
rung = 6
requires = "sm_80 for mma.m16n8k16"
tensor_products = 1
tuned = [{when = "head_dim == 128", BLOCK_KV = 32}]  # O of 32 rows and 128 dims and S of 64 keys spill registers

[[conditions]]
must = "SUM_BITS == 32 or dtype == 'float16'"
message = """The tensor cores add up products of {dtype} only in 32 bits, not in {SUM_BITS}. Choose SUM_BITS=32 or \
  float16."""

[constants]  # meaning and effect: fragments.cuh, common.cuh
"BLOCK_Q, BLOCK_KV, SUBTRACT_MAX, RESCALE, SUM_BITS" = {}

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["BLOCK_Q if BLOCK_Q >= 64 and head_dim < 256 else 2 * BLOCK_Q"]
shared_bytes = "2 * (BLOCK_Q + 2 * BLOCK_KV) * head_dim"
args = ["q", "k", "v", "o", "lse", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
  "int32 kv_row", "int32 kv_head", "float32 scale",
]}]
item = "query tile"
*/
#include "fragments.cuh"
#define PARTS (BLOCK_Q >= 64 && HEAD_DIM < 256 ? 2 : 1)  // a warp has 32 rows or 16. An mma multiplies 16.
#define WARP_ROWS (16 * PARTS)
#define THREADS (BLOCK_Q / WARP_ROWS * 32)
#define TILE (BLOCK_KV * HEAD_DIM)  // elements of a tile of K or V

// The arguments of the kernel apart from its tensors
struct Sizes {
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  float scale;
};

// The index of an element of a tile in shared memory
__device__ __forceinline__ int smem_index(int row, int dim) { return row * HEAD_DIM + dim; }

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head, and lse, the logarithm of each row's sum.
//   Q_gmem, O_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len]
extern "C" __global__ void __launch_bounds__(THREADS)
flash(const T* Q_gmem, const T* K_gmem, const T* V_gmem, T* O_gmem, float* LSE_gmem,
      const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(T, smem);
  T* Q_smem = smem;                          // [BLOCK_Q, HEAD_DIM]
  T* K_smem = Q_smem + BLOCK_Q * HEAD_DIM;   // [BLOCK_KV, HEAD_DIM]
  T* V_smem = K_smem + TILE;                 // [BLOCK_KV, HEAD_DIM]
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * WARP_ROWS, first_row = blockIdx.x * BLOCK_Q;
  const HeadStart start(z, blockIdx.y / z.num_heads, blockIdx.y % z.num_heads);
  const int seen = CAUSAL ? min(z.keys, min(first_row + BLOCK_Q, z.seq_len) + z.offset) : z.keys;
  const int open = CAUSAL ? min(z.keys, first_row + warp_row + z.offset + 1) : z.keys;  // visible to all its rows
  PROBE_BEGIN();
  auto fragment = [&](int tile, int part) { return Fragment(first_row + warp_row + part * 16, tile, z); };

  PROBE_MARK(load_q, first_row);
  for (int i = threadIdx.x * 8; i < BLOCK_Q * HEAD_DIM; i += THREADS * 8) {
    const int row = i / HEAD_DIM, dim = i % HEAD_DIM, to = smem_index(row, dim);
    float4 q4 = make_float4(0.f, 0.f, 0.f, 0.f);  // eight numbers
    if (first_row + row < z.seq_len) {
      PROBE_LOAD(Q_gmem, start.q + (long long)(first_row + row) * z.q_row + dim, 16);
      q4 = ldg<float4>(&Q_gmem[start.q + (long long)(first_row + row) * z.q_row + dim]);
    }
    PROBE_STORE(Q_smem, to, 16);
    sts<float4>(&Q_smem[to], q4);
  }

  float O_rmem[PARTS][HEAD_DIM / 2] = {}, m[PARTS][2], l[PARTS][2] = {}, rescale[2];
  UNROLL for (int part = 0; part < PARTS; ++part) m[part][0] = m[part][1] = -INFINITY;
  NO_UNROLL for (int tile = 0; tile * BLOCK_KV < seen; ++tile) {
    PROBE_MARK(tile_begin, tile);
    PROBE_MARK(load_tile, tile);
    const int first_col = tile * BLOCK_KV;
    _Pragma("unroll 4") for (int i = threadIdx.x * 8; i < TILE; i += THREADS * 8) {
      const int row = i / HEAD_DIM, dim = i % HEAD_DIM, to = smem_index(row, dim);
      const long long from = start.kv + (long long)(first_col + row) * z.kv_row + dim;
      float4 k4 = make_float4(0.f, 0.f, 0.f, 0.f), v4 = k4;
      if (first_col + row < z.keys) {
        PROBE_LOAD(K_gmem, from, 16);
        k4 = ldg<float4>(&K_gmem[from]);
        PROBE_LOAD(V_gmem, from, 16);
        v4 = ldg<float4>(&V_gmem[from]);
      }
      PROBE_STORE(K_smem, to, 16);
      sts<float4>(&K_smem[to], k4);
      PROBE_STORE(V_smem, to, 16);
      sts<float4>(&V_smem[to], v4);
    }
    __syncthreads();

    // S = Q @ K^T   [WARP_ROWS, BLOCK_KV] of this warp. ldmatrix reads 16 queries x 16 dims and 16 keys x 16 dims.
    PROBE_MARK(scores, tile);
    float S_rmem[PARTS][BLOCK_KV / 2] = {};
    UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
      unsigned Q_rmem[PARTS][4];
      UNROLL for (int part = 0; part < PARTS; ++part) {
        const int from = smem_index(warp_row + part * 16 + lane % 16, d + lane / 16 * 8);
        PROBE_LDMATRIX(Q_smem, from, 16);
        ldmatrix(Q_rmem[part], &Q_smem[from]);
      }
      UNROLL for (int n = 0; n < BLOCK_KV; n += 16) {
        const int from = smem_index(n + lane / 16 * 8 + lane % 8, d + lane / 8 % 2 * 8);
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
      rescale_rows(O_rmem[part], rescale);
    }

    // O += P @ V   [WARP_ROWS, HEAD_DIM]. ldmatrix transposes 16 keys x 16 dims of V.
    PROBE_MARK(output, tile);
    UNROLL for (int n = 0; n < BLOCK_KV; n += 16) {
      UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
        const int from = smem_index(n + lane % 16, d + lane / 16 * 8);
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
    __syncthreads();  // so that no warp overwrites the tiles while another still reads them
    PROBE_MARK(tile_end, tile);
  }

  PROBE_MARK(write, first_row);
  UNROLL for (int part = 0; part < PARTS; ++part) {
    write_rows(O_gmem, LSE_gmem, start, z.q_row, O_rmem[part], m[part], l[part], fragment(0, part) PROBE_PASS);
  }
}
