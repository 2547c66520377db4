// The parts of the backward that its rungs share: the sizes, the start of a head, and delta.
//
//   S = scale * Q @ K^T     P = exp(S - LSE)      dP = dO @ V^T     dS = P * (dP - delta)
//   dQ = scale * dS @ K     dK = scale * dS^T @ Q     dV = P^T @ dO     delta = rowsum(dO * O)
#pragma once
#include "common.cuh"
#define UNROLL _Pragma("unroll")  // for loops over arrays, which otherwise leave the registers
#define ALL_LANES 0xffffffffu

// The arguments of a kernel apart from its tensors. Q, O and dQ have the steps q_row and q_head, K and V kv_row and
// kv_head.
struct Sizes {
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  float scale;
  __device__ __forceinline__ bool sees(int row, int col) const {
    return row < seq_len && col < keys && !(CAUSAL && col > row + offset);
  }
  __device__ __forceinline__ int group() const { return num_heads / kv_heads; }  // query heads of a KV head
  // The first query that sees a key
  __device__ __forceinline__ int first_row(int col) const { return CAUSAL ? max(0, col - offset) : 0; }
  // The end of the keys of a query
  __device__ __forceinline__ int end_col(int row) const { return CAUSAL ? min(keys, row + offset + 1) : keys; }
};

// The start of a query head in elements: in Q, O and their gradients, in K and V and theirs, in LSE and delta.
// Heads are counted over the whole batch. The query heads of a KV head are neighbours.
struct Head {
  long long q, kv, row;
  __device__ __forceinline__ Head(const Sizes& z, int head)
      : q((long long)(head / z.num_heads) * z.num_heads * z.seq_len * HEAD_DIM +
          (long long)(head % z.num_heads) * z.q_head),
        kv((long long)(head / z.num_heads) * z.kv_heads * z.keys * HEAD_DIM +
           (long long)(head % z.num_heads / z.group()) * z.kv_head),
        row((long long)head * z.seq_len) {}
};

// delta = rowsum(dO * O) of a query, by a warp
__device__ __forceinline__ void delta_row(const float* O_gmem, const float* dO_gmem, float* DELTA_gmem, const Sizes& z,
                                          const Head& head, int row PROBE_REF) {
  PROBE_MARK(delta, row);
  const int lane = threadIdx.x % 32;
  float sum = 0.f;
  UNROLL for (int dim = lane; dim < HEAD_DIM; dim += 32) {
    const long long from = head.q + (long long)row * z.q_row + dim;
    PROBE_LOAD(O_gmem, from, 4);
    const float o = ldg<float>(&O_gmem[from]);
    PROBE_LOAD(dO_gmem, from, 4);
    sum = fmaf(o, ldg<float>(&dO_gmem[from]), sum);
  }
  sum = group_sum<32>(sum);
  if (lane == 0) {
    PROBE_VALUE(delta, row, sum);
    PROBE_STORE(DELTA_gmem, head.row + row, 4);
    stg<float>(&DELTA_gmem[head.row + row], sum);
  }
}
