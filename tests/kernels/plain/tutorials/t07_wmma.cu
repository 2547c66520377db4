/*
title = "wmma"
idea = "a warp multiplies tiles of 16 by 16 numbers with nvcuda::wmma. The softmax goes through shared memory."
changed = "nothing."
costs = "S, P and O go through shared memory once for each tile of keys."
limits = "bf16."
source = "the tests."
family = "tensor_cores"
conditions = [{must = "dtype == 'bfloat16' and layout == 'bhsd'", message = "The kernel reads bfloat16 as [b, h, s, d]."}]

[[launches]]
entry = "wmma_attention<HEAD_DIM>"
grid = ["ceil_div(seq_len, 16)", "batch * num_heads"]
block = [32]
shared_bytes = "4 * 16 * (head_dim + 16) + 2 * 16 * 16 + 3 * 2 * 16 * head_dim"
args = ["q", "k", "v", "o", "lse", "int32 seq_len", "int32 keys", "int32 num_heads // kv_heads", "int32 offset", "int32 causal", "float32 scale"]
item = "query tile"
*/
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

typedef __nv_bfloat16 elem;
__device__ inline elem to_elem(float x) { return __float2bfloat16(x); }

// One warp per tile of 16 queries. head_dim is a multiple of 16.
template <int DIM>
__global__ void wmma_attention(const elem* Q, const elem* K, const elem* V, elem* O, float* L, int nq, int nk,
                               int group, int shift, int causal, float scale) {
  extern __shared__ __align__(32) unsigned char storage[];
  float* acc = (float*)storage;         // [16][DIM]
  float* s = acc + 16 * DIM;            // [16][16]
  elem* p = (elem*)(s + 16 * 16);       // [16][16]
  elem* q_tile = p + 16 * 16;           // [16][DIM]
  elem* k_tile = q_tile + 16 * DIM;     // [16][DIM]
  elem* v_tile = k_tile + 16 * DIM;     // [16][DIM]
  __shared__ float row_max[16], row_sum[16];

  const int lane = threadIdx.x, first = blockIdx.x * 16;
  const size_t q_base = (size_t)blockIdx.y * nq * DIM;
  const size_t kv_base = (size_t)(blockIdx.y / group) * nk * DIM;
  for (int i = lane; i < 16 * DIM; i += 32) {
    const int r = first + i / DIM;
    q_tile[i] = r < nq ? Q[q_base + (size_t)r * DIM + i % DIM] : to_elem(0.f);
    acc[i] = 0.f;
  }
  if (lane < 16) row_max[lane] = -INFINITY, row_sum[lane] = 0.f;
  __syncwarp();

  for (int start = 0; start < nk; start += 16) {
    for (int i = lane; i < 16 * DIM; i += 32) {
      const int r = start + i / DIM;
      const bool inside = r < nk;
      k_tile[i] = inside ? K[kv_base + (size_t)r * DIM + i % DIM] : to_elem(0.f);
      v_tile[i] = inside ? V[kv_base + (size_t)r * DIM + i % DIM] : to_elem(0.f);
    }
    __syncwarp();

    // S = Q K^T
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int d = 0; d < DIM; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, elem, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, elem, wmma::col_major> b;
      wmma::load_matrix_sync(a, q_tile + d, DIM);
      wmma::load_matrix_sync(b, k_tile + d, DIM);
      wmma::mma_sync(c, a, b, c);
    }
    for (int i = 0; i < c.num_elements; i++) c.x[i] *= scale;
    wmma::store_matrix_sync(s, c, 16, wmma::mem_row_major);
    __syncwarp();

    // Half of the warp: one lane per row
    if (lane < 16) {
      const int row = first + lane;
      const int last = causal ? min(nk, row + shift + 1) : nk;
      float m = row_max[lane];
      for (int j = 0; j < 16 && start + j < last; j++) m = fmaxf(m, s[lane * 16 + j]);
      const float alpha = m == -INFINITY ? 1.f : expf(row_max[lane] - m);
      float l = row_sum[lane] * alpha;
      for (int j = 0; j < 16; j++) {
        const float w = start + j < last ? expf(s[lane * 16 + j] - m) : 0.f;
        p[lane * 16 + j] = to_elem(w);
        l += w;
      }
      for (int d = 0; d < DIM; d++) acc[lane * DIM + d] *= alpha;
      row_max[lane] = m;
      row_sum[lane] = l;
    }
    __syncwarp();

    // O += P V
    wmma::fragment<wmma::matrix_a, 16, 16, 16, elem, wmma::row_major> weights;
    wmma::load_matrix_sync(weights, p, 16);
    for (int d = 0; d < DIM; d += 16) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, elem, wmma::row_major> v;
      wmma::load_matrix_sync(o, acc + d, DIM, wmma::mem_row_major);
      wmma::load_matrix_sync(v, v_tile + d, DIM);
      wmma::mma_sync(o, weights, v, o);
      wmma::store_matrix_sync(acc + d, o, DIM, wmma::mem_row_major);
    }
    __syncwarp();
  }

  for (int i = lane; i < 16 * DIM; i += 32) {
    const int r = i / DIM;
    if (first + r < nq) O[q_base + (size_t)(first + r) * DIM + i % DIM] = to_elem(row_sum[r] > 0.f ? acc[i] / row_sum[r] : 0.f);
  }
  if (lane < 16 && first + lane < nq)
    L[(size_t)blockIdx.y * nq + first + lane] = row_sum[lane] > 0.f ? row_max[lane] + logf(row_sum[lane]) : -INFINITY;
}
