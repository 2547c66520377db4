/*
title = "Ring attention"
idea = """every GPU keeps its queries, and the keys move round a ring of GPUs. Each step computes one part of the keys \
and merges its m, l and O with those of the steps before."""
changed_from = "08_pipeline"
changed = """a launch is one GPU's work in one step. Its rows start at row_first and end with a merge in place of a \
division by l. While it runs, K and V are copied to the next GPU."""
costs = "m, l and O of every row go through global memory once a step, O in fp32."
limits = """fp16 or bf16. HEAD_DIM 64 or 128. sm_80 or later. Equal parts for all GPUs. A step ends when the slowest \
GPU ends it."""
source = """Liu et al. 2023, "Ring Attention with Blockwise Transformers", arXiv:2310.01889. Zigzag order: the \
ring-flash-attention project."""
family = "ring"
rung = 1
requires = "sm_80 for mma.m16n8k16 and cp.async"
tensor_products = 1
# Empty tables: ring.cuh, fragments.cuh, common.cuh
constants."BLOCK_Q, BLOCK_KV, STAGES, SCALE_PARTS, SUBTRACT_MAX, RESCALE, SUM_BITS, SWIZZLE" = {}
scratch."m_{gpu}, l_{gpu}, o_part_{gpu}" = {}  # of the rows so far, on each GPU

[[conditions]]
must = "SUM_BITS == 32 or dtype == 'float16'"
message = """The tensor cores add up products of {dtype} only in 32 bits, not in {SUM_BITS}. Choose SUM_BITS=32 or \
  float16."""

[[copies]]
source = "k_{gpu}{slots[step]}"
target = "k_{(gpu + 1) % gpus}{slots[step + 1]}"
when = "split == 'keys' and step + 1 < gpus"
repeat = {step = "steps", gpu = "gpus"}

[[copies]]
source = "v_{gpu}{slots[step]}"
target = "v_{(gpu + 1) % gpus}{slots[step + 1]}"
when = "split == 'keys' and step + 1 < gpus"
repeat = {step = "steps", gpu = "gpus"}

[[copies]]
source = "o_{gpu}"
target = "o_{gpu}_on_0"
when = "split == 'heads' and gpu > 0"
repeat = {gpu = "gpus"}

[[launches]]
entry = "ring_step"
item = "query tile"
repeat = {step = "steps", gpu = "gpus"}
device = "gpu"
when = "works[step][gpu]"
grid = ["ceil_div(rows - row_first[step][gpu], BLOCK_Q)", "local_heads"]
block = ["BLOCK_Q if BLOCK_Q >= 64 else 2 * BLOCK_Q"]
shared_bytes = "2 * (BLOCK_Q + 2 * STAGES * BLOCK_KV) * head_dim"
args = [
  "q_{gpu}", "k_{gpu}{slots[step]}", "v_{gpu}{slots[step]}", "o_{gpu}", "lse_{gpu}", "m_{gpu}", "l_{gpu}",
  "o_part_{gpu}",
  {struct = [
    "int32 local_heads", "int32 local_kv_heads", "int32 rows", "int32 keys[step][gpu]", "int32 offset[step][gpu]",
    "int32 head_dim", "int32 head_size", "int32 head_dim", "int32 head_size", "int32 row_first[step][gpu]",
    "int32 step > 0", "int32 final_rows[step][gpu]", "float32 scale",
  ]},
]
*/
#include "ring.cuh"
#define PARTS (BLOCK_Q >= 64 ? 2 : 1)  // a warp has 32 rows or 16. An mma multiplies 16.
#define WARP_ROWS (16 * PARTS)
#define THREADS (BLOCK_Q / WARP_ROWS * 32)
#define TILE (BLOCK_KV * HEAD_DIM)        // elements of a tile of K or V
#define COPY_ROWS (THREADS * 8 / HEAD_DIM)  // rows that all threads together copy at once, 16 bytes each

// The arguments of the kernel apart from its tensors
struct Sizes {
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;  // seq_len: rows on this GPU
  int row_first, merges, final_rows;  // the first row, whether an earlier step left m, l and O, rows without more keys
  float scale;
};

// The index of an element of a tile in shared memory. The 16-byte pieces of a row change places.
__device__ __forceinline__ int smem_index(int row, int dim) {
  return row * HEAD_DIM + dim / 64 * 64 + (SWIZZLE ? dim % 64 ^ row % 8 * 8 : dim % 64);
}

// One step on one GPU: S = scale * Q @ K^T for one part of the keys, and the m, l and O of its softmax, merged with
// those of the steps before. Rows without more keys get O / l and lse.
//   Q_gmem, O_gmem  [1, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem  [1, kv_heads, seq_len, HEAD_DIM], `keys` seen
//   LSE_gmem  [1, num_heads, seq_len];  M_gmem, L_gmem, O_part_gmem: ring.cuh
extern "C" __global__ void __launch_bounds__(THREADS)
ring_step(const T* Q_gmem, const T* K_gmem, const T* V_gmem, T* O_gmem, float* LSE_gmem, float* M_gmem, float* L_gmem,
          float* O_part_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(T, smem);
  T* Q_smem = smem;                          // [BLOCK_Q, HEAD_DIM]
  T* K_smem = Q_smem + BLOCK_Q * HEAD_DIM;   // [STAGES, BLOCK_KV, HEAD_DIM]
  T* V_smem = K_smem + STAGES * TILE;        // [STAGES, BLOCK_KV, HEAD_DIM]
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * WARP_ROWS;
  const int first_row = z.row_first + blockIdx.x * BLOCK_Q;
  const HeadStart start(z, 0, blockIdx.y);
  const int seen = CAUSAL ? min(z.keys, min(first_row + BLOCK_Q, z.seq_len) + z.offset) : z.keys;
  const int open = CAUSAL ? min(z.keys, first_row + warp_row + z.offset + 1) : z.keys;  // visible to all its rows
  PROBE_BEGIN();
  auto fragment = [&](int tile, int part) { return Fragment(first_row + warp_row + part * 16, tile, z); };

  // This thread's copies of a tile form a group, empty after the last tile. Rows after the last key are zeros.
  const int copy_row = threadIdx.x * 8 / HEAD_DIM, dim = threadIdx.x * 8 % HEAD_DIM;
  auto fetch = [&](int tile) {
    const int first_col = tile * BLOCK_KV, stage = tile % STAGES * TILE;
    if (first_col < seen) PROBE_MARK(prefetch_tile, tile);
    UNROLL for (int first = 0; first < BLOCK_KV && first_col < seen; first += COPY_ROWS) {
      const int row = first + copy_row, to = stage + smem_index(row, dim);
      const long long from = start.kv + (long long)(first_col + row) * z.kv_row + dim;
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
          mma<T, SUM_BITS>(four(S_rmem[part], n / 8), Q_rmem[part], K_rmem[0], K_rmem[1]);  // logged: score
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
    const SoFar so_far{M_gmem, L_gmem, O_part_gmem};
    end_rows(O_gmem, LSE_gmem, so_far, start, O_rmem[part], m[part], l[part], z, fragment(0, part) PROBE_PASS);
  }
}
