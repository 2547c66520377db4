/*
[constants.WARPS]
default = 4
values = [4, 2, 1, 8]
meaning = "warps per block"
[constants.PARTITION]
default = 128
values = [128, 32, 64, 256]
meaning = "keys of a part, for one warp"
[scratch."m_part, l_part"]
shape = ["sequences", "num_heads", "ceil_div(context, PARTITION)"]
axes = ["sequence", "head", "part"]
[scratch.o_part]
shape = ["sequences", "num_heads", "ceil_div(context, PARTITION)", "head_dim"]
axes = ["sequence", "head", "part", "dim"]
[launches.prefill]
item = "row block"
block = ["32 * WARPS"]
grid = ["ceil_div(prompt, WARPS)", "num_heads"]
args = ["prompt_q", "prompt_k", "prompt_v", "prompt_o", "int32 prompt", "float32 scale"]
[launches.partials]
item = "partition block"
block = ["32 * WARPS"]
grid = ["ceil_div(context, PARTITION * WARPS)", "num_heads", "sequences"]
args = ["q", "k", "v", "m_part", "l_part", "o_part", "int32 0", {struct = [
  "int32 context", "int32 ceil_div(context, PARTITION)", "float32 scale"]}]
[launches.merge]
item = "query block"
block = ["32 * WARPS"]
grid = ["ceil_div(sequences * num_heads, WARPS)"]
args = ["m_part", "l_part", "o_part", "o", "int32 sequences * num_heads", {struct = [
  "int32 context", "int32 ceil_div(context, PARTITION)", "float32 scale"]}]
*/
// The three kernels of a step, as functions that each launch calls. A warp computes one query over a range of keys.
//   prefill      causal attention of the prompt, a warp for each row
//   partials     m, l and O of each part of PARTITION keys, a warp for each part
//   merge_parts  adds the parts of a query: O = sum O_i exp(m_i - m) / sum l_i exp(m_i - m)
// Shapes: Q, O [sequences, heads, HEAD_DIM];  K, V [sequences, heads, keys, HEAD_DIM];  m, l [sequences, heads, parts]
// and o_part [sequences, heads, parts, HEAD_DIM].
#pragma once
#include "launches.cuh"
#define ALL_LANES 0xffffffffu
#define UNROLL _Pragma("unroll")
constexpr int DIMS = HEAD_DIM / 32;  // of a lane: lane, lane + 32, ...

struct Part { float m, l, o[DIMS]; };

// m, l and O of the keys [first, end) for one query, 32 keys at a time: each lane the score of one. BATCH loads of a
// lane are on their way at once.
constexpr int BATCH = 8;
__device__ __forceinline__ Part walk(const float* Q_gmem, const float* K_gmem, const float* V_gmem, size_t query,
                                     size_t keys, int first, int end, float scale PROBE_REF) {
  const int lane = threadIdx.x % 32;
  Part part = {-INFINITY, 0.f, {}};
  _Pragma("unroll 1") for (int start = first; start < end; start += 32) {
    const int count = min(32, end - start);
    const size_t own = keys + start + min(lane, count - 1);  // its key. A lane without one repeats the last
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    _Pragma("unroll 1") for (int d = 0; d < HEAD_DIM; d += 4 * BATCH) {
      float4 k4[BATCH];
      UNROLL for (int i = 0; i < BATCH; ++i) {
        PROBE_LOAD(K_gmem, own * HEAD_DIM + d + 4 * i, 16);
        k4[i] = ldg<float4>(&K_gmem[own * HEAD_DIM + d + 4 * i]);
      }
      UNROLL for (int i = 0; i < BATCH; ++i) {
        PROBE_LOAD(Q_gmem, query * HEAD_DIM + d + 4 * i, 16);
        sum = fma4(ldg<float4>(&Q_gmem[query * HEAD_DIM + d + 4 * i]), k4[i], sum);
      }
    }
    const float score = lane < count ? scale * add4(sum) : -INFINITY;
    const float m = fmaxf(part.m, group_max<32>(score)), rescale = expf(part.m - m), p = expf(score - m);
    part.m = m;
    part.l = fmaf(part.l, rescale, group_sum<32>(p));
    UNROLL for (int i = 0; i < DIMS; ++i) part.o[i] *= rescale;
    _Pragma("unroll 1") for (int key = 0; key < count; key += BATCH) {
      float v[BATCH][DIMS];
      UNROLL for (int n = 0; n < BATCH; ++n) {
        const size_t row = keys + start + min(key + n, count - 1);  // a key past the last one has the weight 0
        UNROLL for (int i = 0; i < DIMS; ++i) {
          PROBE_LOAD(V_gmem, row * HEAD_DIM + i * 32 + lane, 4);
          v[n][i] = ldg<float>(&V_gmem[row * HEAD_DIM + i * 32 + lane]);
        }
      }
      UNROLL for (int n = 0; n < BATCH; ++n) {
        const float weight = __shfl_sync(ALL_LANES, p, key + n);
        UNROLL for (int i = 0; i < DIMS; ++i) part.o[i] = fmaf(weight, v[n][i], part.o[i]);
      }
    }
  }
  return part;
}

__device__ __forceinline__ void write_row(float* O_gmem, size_t row, const float (&o)[DIMS], float l PROBE_REF) {
  UNROLL for (int i = 0; i < DIMS; ++i) {
    PROBE_STORE(O_gmem, row * HEAD_DIM + i * 32 + threadIdx.x % 32, 4);
    stg<float>(&O_gmem[row * HEAD_DIM + i * 32 + threadIdx.x % 32], o[i] / l);
  }
}

// Grid: ceil(rows / WARPS) blocks, num_heads
__device__ __forceinline__ void prefill_rows(const float* Q_gmem, const float* K_gmem, const float* V_gmem,
                                             float* O_gmem, int rows, float scale PROBE_REF) {
  const int row = blockIdx.x * WARPS + threadIdx.x / 32;
  if (row >= rows) return;
  PROBE_MARK(prompt_row, row);
  const size_t head = (size_t)blockIdx.y * rows;
  const Part part = walk(Q_gmem, K_gmem, V_gmem, head + row, head, 0, row + 1, scale PROBE_PASS);
  write_row(O_gmem, head + row, part.o, part.l PROBE_PASS);
}

// The numbers of a decoding step. Memory has room for `context` keys and `parts` parts of each sequence.
struct Step { int context, parts; float scale; };
// The results of the parts
struct Parts { float *m_gmem, *l_gmem, *o_part_gmem; };

// The parts of a sequence with `length` keys. Grid: at least ceil(parts / WARPS) blocks, num_heads
__device__ __forceinline__ void partials_of(const float* Q_gmem, const float* K_gmem, const float* V_gmem,
                                            const Parts& out, int sequence, int length, const Step& z PROBE_REF) {
  const int part = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32, first = part * PARTITION;
  if (first >= length) return;
  PROBE_MARK(part, part);
  float *m_gmem = out.m_gmem, *l_gmem = out.l_gmem, *o_part_gmem = out.o_part_gmem;
  const size_t query = (size_t)sequence * gridDim.y + blockIdx.y, at = query * z.parts + part;
  const int end = min(first + PARTITION, length);
  const Part found = walk(Q_gmem, K_gmem, V_gmem, query, query * z.context, first, end, z.scale PROBE_PASS);
  if (lane == 0) {
    PROBE_VALUE(m, part, found.m);
    PROBE_VALUE(l, part, found.l);
    PROBE_STORE(m_gmem, at, 4);
    stg<float>(&m_gmem[at], found.m);
    PROBE_STORE(l_gmem, at, 4);
    stg<float>(&l_gmem[at], found.l);
  }
  UNROLL for (int i = 0; i < DIMS; ++i) {
    PROBE_STORE(o_part_gmem, at * HEAD_DIM + i * 32 + lane, 4);
    stg<float>(&o_part_gmem[at * HEAD_DIM + i * 32 + lane], found.o[i]);
  }
}

// One query of a sequence with `length` keys, by one warp. It reads past L1, because blocks of its launch may have
// written.
__device__ __forceinline__ void merge_parts(const Parts& in, float* O_gmem, int query, int length,
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
