// The kernels of a ragged batch, as functions that each launch calls: partials and merge of step.cuh, but each sequence
// has its own number of keys. Memory has room for z.context keys and z.parts parts of each sequence.
#pragma once
#include "step.cuh"

// m, l and O of one part of PARTITION keys, a warp for each part. Grid: blocks of WARPS parts, num_heads
__device__ __forceinline__ void ragged_partials(const float* Q_gmem, const float* K_gmem, const float* V_gmem,
                                                const Parts& out, int sequence, int length, const Step& z PROBE_REF) {
  const int part = blockIdx.x * WARPS + threadIdx.x / 32, first = part * PARTITION;
  if (first >= length) return;
  PROBE_MARK(part, part);
  float *m_gmem = out.m_gmem, *l_gmem = out.l_gmem, *o_part_gmem = out.o_part_gmem;
  const size_t query = (size_t)sequence * gridDim.y + blockIdx.y, at = query * z.parts + part;
  const int end = min(first + PARTITION, length);
  const Part found = walk(Q_gmem, K_gmem, V_gmem, query, query * z.context, first, end, z.scale PROBE_PASS);
  if (threadIdx.x % 32 == 0) {
    PROBE_VALUE(m, part, found.m);
    PROBE_VALUE(l, part, found.l);
    PROBE_STORE(m_gmem, at, 4);
    stg<float>(&m_gmem[at], found.m);
    PROBE_STORE(l_gmem, at, 4);
    stg<float>(&l_gmem[at], found.l);
  }
  write_row(o_part_gmem, at, found.o, 1.f PROBE_PASS);
}

// One query by one warp, from the parts of its own length
__device__ __forceinline__ void ragged_merge(const Parts& in, float* O_gmem, int query, int length,
                                             const Step& z PROBE_REF) {
  PROBE_MARK(merge, query);
  const float *m_gmem = in.m_gmem, *l_gmem = in.l_gmem, *o_part_gmem = in.o_part_gmem;
  float m = -INFINITY, l = 0.f, o[DIMS] = {};
  for (int part = 0; part * PARTITION < length; ++part) {
    const size_t at = (size_t)query * z.parts + part;
    PROBE_LOAD(m_gmem, at, 4);
    const float m_part = ldg_l2<float>(&m_gmem[at]), m_new = fmaxf(m, m_part);
    PROBE_LOAD(l_gmem, at, 4);
    const float l_part = ldg_l2<float>(&l_gmem[at]), rescale = expf(m - m_new), weight = expf(m_part - m_new);
    m = m_new;
    l = fmaf(l, rescale, weight * l_part);
    UNROLL for (int i = 0; i < DIMS; ++i) {
      PROBE_LOAD(o_part_gmem, at * HEAD_DIM + i * 32 + threadIdx.x % 32, 4);
      o[i] = fmaf(o[i], rescale, weight * ldg_l2<float>(&o_part_gmem[at * HEAD_DIM + i * 32 + threadIdx.x % 32]));
    }
  }
  if (threadIdx.x % 32 == 0) PROBE_VALUE(l_all, query, l);
  write_row(O_gmem, query, o, l PROBE_PASS);
}
