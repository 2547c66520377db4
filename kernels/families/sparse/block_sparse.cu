/*
title = "Block-sparse FlashAttention"
idea = """each block of queries has a list of the key blocks that any of its queries sees. Tiles outside the list are \
never loaded, and fully seen tiles need no mask."""
changed_from = "08_pipeline"
changed = """the loop goes over a list in place of all tiles. A pattern of bits masks a partial block, and only \
partial blocks read one. m and l may start with a sink."""
costs = "the lists are read in addition to K and V. A block with one visible pair costs as much as a full one."
limits = """fp16 or bf16. HEAD_DIM 64, 128 or 256. Tiles are the lists' blocks, of 32 to 128 queries and 32 or 64 \
keys. sm_80 or later."""
source = """08_pipeline's. torch.nn.attention.flex_attention.BlockMask, the origin of these lists. Child et al. 2019, \
"Generating Long Sequences with Sparse Transformers", arXiv:1904.10509."""
family = "sparse"
problem = "blocks"
requires = "sm_80 for mma.m16n8k16 and cp.async"
tensor_products = 1

[[conditions]]
must = "block_q <= 128 and block_q >= 16 and block_kv <= 64"
message = """This kernel's tiles have 16 to 128 queries and 32 or 64 keys, not {block_q} and {block_kv}. Choose \
  block_q=128 and block_kv=64, or another kernel."""

[[conditions]]
must = "head_dim < 256 or STAGES * block_kv + block_q <= 256"
message = "Heads of 256 numbers leave no room for {STAGES} stages of {block_kv} keys. Choose STAGES=2 or block_kv=32."

[constants]  # meaning and effect: sparse.cuh, fragments.cuh, common.cuh
"STAGES, SUBTRACT_MAX, RESCALE, PATTERNS" = {}

[[launches]]
entry = "flash"
grid = ["query_blocks", "batch * num_heads"]
block = ["block_q if block_q >= 64 and head_dim < 256 else 2 * block_q"]
shared_bytes = "2 * (block_q + 2 * STAGES * block_kv) * head_dim"
args = ["q", "k", "v", "o", "lse", "sink", "kv_num_blocks", "kv_indices", "kv_patterns", "full_kv_num_blocks",
  "full_kv_indices", "patterns", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
  "int32 kv_row", "int32 kv_head", "int32 query_blocks", "int32 key_blocks", "int32 mask_count", "float32 scale",
]}]
item = "query tile"
*/
#include "sparse.cuh"
#define SUM_BITS 32
#define PARTS (BLOCK_Q >= 64 && HEAD_DIM < 256 ? 2 : 1)  // a warp has 32 rows or 16. An mma multiplies 16.
#define WARP_ROWS (16 * PARTS)
#define THREADS (BLOCK_Q / WARP_ROWS * 32)
#define TILE (BLOCK_KV * HEAD_DIM)        // elements of a tile of K or V
#define COPY_ROWS (THREADS * 8 / HEAD_DIM)  // rows that all threads together copy at once, 16 bytes each

// The arguments of the kernel apart from its tensors
struct Sizes {
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  int query_blocks, key_blocks, mask_count;
  float scale;
};

// The index of an element of a tile in shared memory. The 16-byte pieces of a row change places.
__device__ __forceinline__ int smem_index(int row, int dim) {
  return row * HEAD_DIM + dim / 64 * 64 + (dim % 64 ^ row % 8 * 8);
}

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head over the blocks of its lists, and lse.
//   Q_gmem, O_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len];  sink_gmem  [num_heads];  lists: sparse.cuh
extern "C" __global__ void __launch_bounds__(THREADS)
flash(const T* Q_gmem, const T* K_gmem, const T* V_gmem, T* O_gmem, float* LSE_gmem, const float* sink_gmem,
      const int* kv_num_blocks_gmem, const int* kv_indices_gmem, const int* kv_patterns_gmem,
      const int* full_kv_num_blocks_gmem, const int* full_kv_indices_gmem, const int* patterns_gmem,
      const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(T, smem);
  T* Q_smem = smem;                          // [BLOCK_Q, HEAD_DIM]
  T* K_smem = Q_smem + BLOCK_Q * HEAD_DIM;   // [STAGES, BLOCK_KV, HEAD_DIM]
  T* V_smem = K_smem + STAGES * TILE;        // [STAGES, BLOCK_KV, HEAD_DIM]
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * WARP_ROWS, first_row = blockIdx.x * BLOCK_Q;
  const int head = blockIdx.y % z.num_heads;
  const HeadStart start(z, blockIdx.y / z.num_heads, head);
  const List list(z, blockIdx.x, blockIdx.y);
  PROBE_BEGIN();
  PROBE_LOAD(kv_num_blocks_gmem, list.row, 4);
  const int partial = ldg<int>(&kv_num_blocks_gmem[list.row]);
  PROBE_LOAD(full_kv_num_blocks_gmem, list.row, 4);
  const int count = partial + ldg<int>(&full_kv_num_blocks_gmem[list.row]);
  PROBE_LOAD(sink_gmem, head, 4);
  const float sink = ldg<float>(&sink_gmem[head]);
  auto fragment = [&](int tile, int part) { return Fragment(first_row + warp_row + part * 16, tile, z); };
  auto entry = [&](int n) {  // the entry's block of keys
    if (n < partial) {
      PROBE_LOAD(kv_indices_gmem, list.first + n, 4);
      return ldg<int>(&kv_indices_gmem[list.first + n]);
    }
    PROBE_LOAD(full_kv_indices_gmem, list.first + n - partial, 4);
    return ldg<int>(&full_kv_indices_gmem[list.first + n - partial]);
  };

  // This thread's copies of the tile of entry n form a group, empty after the last entry. Rows after the last key
  // are zeros.
  const int copy_row = threadIdx.x * 8 / HEAD_DIM, dim = threadIdx.x * 8 % HEAD_DIM;
  auto fetch = [&](int n) {
    const int tile = n < count ? entry(n) : 0;
    const int first_col = tile * BLOCK_KV, stage = n % STAGES * TILE;
    if (n < count) PROBE_MARK(prefetch_tile, tile);
    UNROLL for (int first = 0; first < BLOCK_KV && n < count; first += COPY_ROWS) {
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

  for (int n = 0; n < STAGES - 1; ++n) fetch(n);
  // The start of this lane's row of the first 16 dims, in Q and in a tile of K and V. XOR with d gives dim d.
  const int q_lane = smem_index(warp_row + lane % 16, lane / 16 * 8), v_lane = smem_index(lane % 16, lane / 16 * 8);
  const int k_lane = smem_index(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
  float O_rmem[PARTS][HEAD_DIM / 2] = {}, m[PARTS][2], l[PARTS][2], rescale[2];
  UNROLL for (int part = 0; part < PARTS; ++part) start_rows(m[part], l[part], sink, z.scale);
  NO_UNROLL for (int n = 0; n < count; ++n) {
    const int tile = entry(n), stage = n % STAGES * TILE;
    PROBE_MARK(tile_begin, tile);
    cp_async_wait_group<STAGES - 2>();  // until this thread's copies of the tile have landed
    __syncthreads();  // the copies of all threads have landed, and all threads are done with the last tile
    fetch(n + STAGES - 1);  // into the stage of the last tile

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
      UNROLL for (int key = 0; key < BLOCK_KV; key += 16) {
        const int from = key * HEAD_DIM + ((stage + k_lane) ^ d);
        unsigned K_rmem[4];
        PROBE_LDMATRIX(K_smem, from, 16);
        ldmatrix(K_rmem, &K_smem[from]);
        UNROLL for (int part = 0; part < PARTS; ++part) {
          mma<T, SUM_BITS>(four(S_rmem[part], key / 8), Q_rmem[part], K_rmem[0], K_rmem[1]);
          mma<T, SUM_BITS>(four(S_rmem[part], key / 8 + 1), Q_rmem[part], K_rmem[2], K_rmem[3]);
        }
      }
    }
    if (PATTERNS && n < partial) {
      PROBE_LOAD(kv_patterns_gmem, list.first + n, 4);
      const int number = ldg<int>(&kv_patterns_gmem[list.first + n]);
      UNROLL for (int part = 0; part < PARTS; ++part) {
        hide_unseen(S_rmem[part], Pattern(patterns_gmem, number, warp_row + part * 16 + lane / 4 PROBE_PASS));
      }
    }

    PROBE_MARK(softmax, tile);
    unsigned P_rmem[PARTS][BLOCK_KV / 4];
    UNROLL for (int part = 0; part < PARTS; ++part) {
      softmax_shown(S_rmem[part], m[part], l[part], rescale, fragment(tile, part) PROBE_PASS);
      pack(P_rmem[part], S_rmem[part]);
      rescale_moved_rows(O_rmem[part], rescale);
    }

    // O += P @ V   [WARP_ROWS, HEAD_DIM]. ldmatrix transposes 16 keys x 16 dims of V.
    PROBE_MARK(output, tile);
    UNROLL for (int key = 0; key < BLOCK_KV; key += 16) {
      UNROLL for (int d = 0; d < HEAD_DIM; d += 16) {
        const int from = key * HEAD_DIM + ((stage + v_lane) ^ d);
        unsigned V_rmem[4];
        PROBE_LDMATRIX(V_smem, from, 16);
        ldmatrix_trans(V_rmem, &V_smem[from]);
        UNROLL for (int part = 0; part < PARTS; ++part) {
          mma<T, SUM_BITS>(four(O_rmem[part], d / 8), four(P_rmem[part], key / 16), V_rmem[0], V_rmem[1]);
          mma<T, SUM_BITS>(four(O_rmem[part], d / 8 + 1), four(P_rmem[part], key / 16), V_rmem[2], V_rmem[3]);
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
