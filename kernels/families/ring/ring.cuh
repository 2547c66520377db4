/*
[constants.SCALE_PARTS]
default = 1
values = [1, 0]
meaning = "whether a merge brings both parts to one max"
what_if = "Parts added as they are"
effect = "l and O of two parts count against two maxima. The part with the smaller max weighs too much."
[scratch."m_{gpu}, l_{gpu}"]
repeat.gpu = "gpus"
device = "gpu"
shape = ["local_heads", "rows"]
axes = ["head", "query"]
[scratch."o_part_{gpu}"]
repeat.gpu = "gpus"
device = "gpu"
shape = ["local_heads", "rows", "head_dim"]
axes = ["head", "query", "dim"]
*/
// The end of a step on one GPU: the m, l and O of one part of the keys join those of the steps before. Rows that have
// met all their keys are divided by l and written. The other rows wait in global memory, in fp32.
#pragma once
#include "fragments.cuh"

// m, l and O of the rows so far.  M_gmem, L_gmem  [heads, rows];  O_part_gmem  [heads, rows, HEAD_DIM], undivided
struct SoFar {
  float *M_gmem, *L_gmem, *O_part_gmem;
};

// m = max(m_a, m_b);  l = l_a e^(m_a - m) + l_b e^(m_b - m);  O = O_a e^(m_a - m) + O_b e^(m_b - m)
//   O_rmem, m, l    b, of this step. In the end of both. m is not scaled. A lane's l is over its own columns.
//   so_far          a, of the steps before
template <int N>
__device__ __forceinline__ void merge_rows(const SoFar& so_far, const HeadStart& start, float (&O_rmem)[N],
                                           float (&m)[2], float (&l)[2], const Fragment& at PROBE_REF) {
  const float to_log2 = at.scale * LOG2_E;
  const float *const M_gmem = so_far.M_gmem, *const L_gmem = so_far.L_gmem, *const O_part_gmem = so_far.O_part_gmem;
  UNROLL for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const float l_all = group_sum<4>(l[r]);
    if (row >= at.seq_len) continue;
    PROBE_LOAD(M_gmem, start.lse + row, 4);
    const float before = ldg<float>(&M_gmem[start.lse + row]);  // logged: m_before
    PROBE_LOAD(L_gmem, start.lse + row, 4);
    const float l_before = ldg<float>(&L_gmem[start.lse + row]);
    const float m_new = fmaxf(m[r], before), base = exponent_base(m_new, to_log2);
    const float share_before = SCALE_PARTS ? exp2_approx(__fmul_rn(before, to_log2) - base) : 1.f;
    const float share_step = SCALE_PARTS ? exp2_approx(__fmul_rn(m[r], to_log2) - base) : 1.f;
    if (at.leads) {
      PROBE_VALUE(m_before, row, at.scale * before);
      PROBE_VALUE(m_step, row, at.scale * m[r]);
      PROBE_VALUE(share_before, row, share_before);
      PROBE_VALUE(share_step, row, share_step);
      PROBE_VALUE(l_before, row, l_before);
      PROBE_VALUE(l_step, row, l_all);
    }
    m[r] = m_new;  // logged: m_after
    l[r] = at.leads ? fmaf(l_before, share_before, l_all * share_step) : 0.f;  // logged: l_after
    UNROLL for (int i = 2 * r; i < N; i += 4) {
      const int dim = 2 * i - 4 * r + 2 * (threadIdx.x % 4);
      const long long from = start.q + (long long)row * HEAD_DIM + dim;
      PROBE_LOAD(O_part_gmem, from, 8);
      const float2 o_before = ldg<float2>(&O_part_gmem[from]);
      O_rmem[i] = fmaf(o_before.x, share_before, O_rmem[i] * share_step);  // logged: o_after
      O_rmem[i + 1] = fmaf(o_before.y, share_before, O_rmem[i + 1] * share_step);
    }
  }
}

// Logs m, l and O of each row at the end of a step.
template <int N>
__device__ __forceinline__ void log_rows(const float (&O_rmem)[N], const float (&m)[2], const float (&l)[2],
                                         const Fragment& at PROBE_REF) {
#ifdef PROBED
  float copy[N];
  UNROLL for (int i = 0; i < N; ++i) copy[i] = O_rmem[i];
  NO_UNROLL for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const float l_all = group_sum<4>(l[r]);
    if (at.leads && row < at.seq_len) PROBE_VALUE(m_after, row, at.scale * m[r]);
    if (at.leads && row < at.seq_len) PROBE_VALUE(l_after, row, l_all);
  }
  NO_UNROLL for (int i = 0; i < N; ++i) {
    const int row = at.row_of(i), dim = at.col_of(i) - at.tile * BLOCK_KV;
    const float o_after = copy[i];
    if (row < at.seq_len) PROBE_VALUE(o_after, row, dim, o_after);
  }
#endif
}

// Stores m, l and O of the rows from `first` on for the next step.
template <int N>
__device__ __forceinline__ void store_rows(const SoFar& so_far, const HeadStart& start, const float (&O_rmem)[N],
                                           const float (&m)[2], const float (&l)[2], int first,
                                           const Fragment& at PROBE_REF) {
  float *const M_gmem = so_far.M_gmem, *const L_gmem = so_far.L_gmem, *const O_part_gmem = so_far.O_part_gmem;
  UNROLL for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const float l_all = group_sum<4>(l[r]);
    if (row < first || row >= at.seq_len) continue;
    if (at.leads) {
      PROBE_STORE(M_gmem, start.lse + row, 4);
      stg<float>(&M_gmem[start.lse + row], m[r]);
      PROBE_STORE(L_gmem, start.lse + row, 4);
      stg<float>(&L_gmem[start.lse + row], l_all);
    }
    UNROLL for (int i = 2 * r; i < N; i += 4) {
      const int dim = 2 * i - 4 * r + 2 * (threadIdx.x % 4);
      const long long to = start.q + (long long)row * HEAD_DIM + dim;
      const float2 o = make_float2(O_rmem[i], O_rmem[i + 1]);
      PROBE_STORE(O_part_gmem, to, 8);
      stg<float2>(&O_part_gmem[to], o);
    }
  }
}

// The end of a query tile: merges it unless this is the first step, writes the final rows, and stores the others.
//   step    of the kernel's Sizes: merges, final_rows
template <int N, class Sizes>
__device__ __forceinline__ void end_rows(T* O_gmem, float* LSE_gmem, const SoFar& so_far, const HeadStart& start,
                                         float (&O_rmem)[N], float (&m)[2], float (&l)[2], const Sizes& z,
                                         const Fragment& at PROBE_REF) {
  if (z.merges) merge_rows(so_far, start, O_rmem, m, l, at PROBE_PASS);
  log_rows(O_rmem, m, l, at PROBE_PASS);
  if (z.final_rows < z.seq_len) store_rows(so_far, start, O_rmem, m, l, z.final_rows, at PROBE_PASS);
  Fragment done = at;
  done.seq_len = z.final_rows;
  if (z.final_rows) write_rows(O_gmem, LSE_gmem, start, z.q_row, O_rmem, m, l, done PROBE_PASS);
}
