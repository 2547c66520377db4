/*
[constants.BLOCK_Q]
default = 128
values = [16, 32, 64, 128]
meaning = "query rows per tile. A warp has 32 of them if there are 64 or more and heads are below 256, else 16."
[constants.BLOCK_KV]
default = 64
values = [16, 32, 64]
meaning = "keys per tile"
[constants.STAGES]
default = 2
values = [2, 3]
meaning = "tiles of K and V in shared memory or on their way"
[constants.SUBTRACT_MAX]
default = 1
values = [1, 0]
meaning = "subtract the row's max before the exponential"
what_if = "No max subtraction"
effect = """e^score passes the largest fp16, 65,504, once a score passes 11, and the largest bfloat16 once it passes \
88. The row becomes NaN."""
shows_at = 5.0
[constants.SUM_BITS]
default = 32
values = [32, 16]
meaning = "bits in which the tensor cores add products up. 16 is only for fp16."
what_if = "fp16 accumulation"
effect = """each added product rounds scores and O to 11 bits again. Large scores lose their last digits first, and \
lse shows it at once."""
[constants.SWIZZLE]
default = 1
values = [1, 0]
meaning = "whether the pieces of a row change places"
what_if = "No swizzle"
effect = "rows of HEAD_DIM numbers start in the same banks. Nothing is wrong, but every ldmatrix waits eight times."
*/
// Scores and outputs in the registers of a warp's lanes, as mma.sync and wgmma leave them: 16 rows. A lane holds parts
// of two rows, lane / 4 and lane / 4 + 8. Element 4 i + 2 h + e of an array is row h of the two, column
// 8 i + 2 (lane % 4) + e.
#pragma once
#include "mma.cuh"
#define UNROLL _Pragma("unroll")       // for loops over arrays, which otherwise leave the registers
#define NO_UNROLL _Pragma("unroll 1")
// e^x = 2^(x log2 e): one instruction of the GPU, where expf takes eight
#define LOG2_E 1.44269504f
#if BF16
using T = bfloat16;
#else
using T = half;
#endif
#ifdef PROBED
#define ROW_TOTAL(v) group_sum<4>(v)   // four lanes share a row. Before the end only a probe needs their sum.
#else
#define ROW_TOTAL(v) (v)
#endif

// Elements 4 i to 4 i + 3: a lane's part of the 16 x 8 sums of an mma, or of its 16 x 16 operand
template <class Word, int N> __device__ __forceinline__ Word (&four(Word (&r)[N], int i))[4] {
  return reinterpret_cast<Word(&)[4]>(r[4 * i]);
}

// The start of a query head of a sequence, in elements: in Q and O, in K and V, in LSE
struct HeadStart {
  long long q, kv, lse;
  template <class Sizes>
  __device__ __forceinline__ HeadStart(const Sizes& z, int batch, int head)
      : q((long long)batch * z.num_heads * z.seq_len * HEAD_DIM + (long long)head * z.q_head),
        kv((long long)batch * z.kv_heads * z.keys * HEAD_DIM +
           (long long)(head / (z.num_heads / z.kv_heads)) * z.kv_head),
        lse((long long)(batch * z.num_heads + head) * z.seq_len) {}
};

// A lane's part of a tile of scores: rows `row` and `row` + 8 (queries of the head), columns from `col` on (its keys).
// scale: the factor of the scores.
struct Fragment {
  int row, col, tile, seq_len, keys, offset;
  float scale;
  bool leads;  // one of the four lanes of a row logs for it
  template <class Sizes>
  __device__ __forceinline__ Fragment(int warp_row, int tile, const Sizes& z)
      : row(warp_row + threadIdx.x % 32 / 4), col(tile * BLOCK_KV + 2 * (threadIdx.x % 4)), tile(tile),
        seq_len(z.seq_len), keys(z.keys), offset(z.offset), scale(z.scale), leads(threadIdx.x % 4 == 0) {}
  __device__ __forceinline__ int row_of(int i) const { return row + i / 2 % 2 * 8; }        // of element i
  __device__ __forceinline__ int col_of(int i) const { return col + i / 4 * 8 + i % 2; }
  __device__ __forceinline__ bool sees(int i) const {
    return col_of(i) < keys && !(CAUSAL && col_of(i) > row_of(i) + offset);
  }
};

// S = -inf where the key is hidden from the query
template <int N> __device__ __forceinline__ void hide(float (&S_rmem)[N], const Fragment& at) {
  UNROLL for (int i = 0; i < N; ++i) {
    if (!at.sees(i)) S_rmem[i] = -INFINITY;
  }
}

// Logs every element from a copy in a loop that is not unrolled, so that the probed build stays small.
template <int N> __device__ __forceinline__ void log_scores(const float (&S_rmem)[N], const Fragment& at PROBE_REF) {
#ifdef PROBED
  float copy[N];
  UNROLL for (int i = 0; i < N; ++i) copy[i] = S_rmem[i];
  NO_UNROLL for (int i = 0; i < N; ++i) {
    const int row = at.row_of(i), col = at.col_of(i);
    const float score = at.scale * copy[i];
    if (at.sees(i) && row < at.seq_len) PROBE_VALUE(score, row, col, score);
  }
#endif
}
template <int N> __device__ __forceinline__ void log_weights(const float (&P_rmem)[N], const Fragment& at PROBE_REF) {
#ifdef PROBED
  float copy[N];
  UNROLL for (int i = 0; i < N; ++i) copy[i] = P_rmem[i];
  NO_UNROLL for (int i = 0; i < N; ++i) {
    const int row = at.row_of(i), col = at.col_of(i);
    const float p = copy[i];
    if (at.sees(i) && row < at.seq_len) PROBE_VALUE(p, row, col, p);
  }
#endif
}
template <int N> __device__ __forceinline__ void log_outputs(const float (&O_rmem)[N], const Fragment& at PROBE_REF) {
#ifdef PROBED
  float copy[N];
  const int tile = at.tile;
  UNROLL for (int i = 0; i < N; ++i) copy[i] = O_rmem[i];
  NO_UNROLL for (int i = 0; i < N; ++i) {
    const int row = at.row_of(i), dim = at.col_of(i) - tile * BLOCK_KV;
    const float o = copy[i];
    if (row < at.seq_len) PROBE_VALUE(o, row, tile, dim, o);
  }
#endif
}

// The row's m for exponents, rounded once. If m stays, the factor of the row must be 1 to the last bit, because it is
// applied tile after tile. A row without a key so far has m = -inf, and exp(-inf - -inf) must be 0.
__device__ __forceinline__ float exponent_base(float m, float to_log2) {
  return m == -INFINITY ? 0.f : __fmul_rn(m, to_log2);
}

// m_new = max(m, max S);  P = exp(S - m_new);  l = exp(m - m_new) * l + sum P;  rescale = exp(m - m_new), for two rows
//   S_rmem   [N] Q @ K^T, not yet scaled. It becomes P.
//   m, l     of each row. m is not scaled. A lane's l is the sum over its own columns.
template <int N>
__device__ __forceinline__ void softmax_tile(float (&S_rmem)[N], float (&m)[2], float (&l)[2], float (&rescale)[2],
                                             const Fragment& at PROBE_REF) {
  const float to_log2 = at.scale * LOG2_E;
  const int tile = at.tile;
  UNROLL for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const bool row_leader = at.leads && row < at.seq_len;
    float tile_max = -INFINITY;
    UNROLL for (int i = 2 * r; i < N; i += 4) tile_max = fmaxf(tile_max, fmaxf(S_rmem[i], S_rmem[i + 1]));
    tile_max = group_max<4>(tile_max);  // over the four lanes of the row
    if (row_leader) PROBE_VALUE(tile_max, row, tile, at.scale * tile_max);
    const float m_new = SUBTRACT_MAX ? fmaxf(m[r], tile_max) : 0.f;
    if (row_leader) PROBE_VALUE(m, row, tile, at.scale * m_new);
    const float base = exponent_base(m_new, to_log2);
    rescale[r] = RESCALE ? exp2_approx(__fmul_rn(m[r], to_log2) - base) : 1.f;
    if (row_leader) PROBE_VALUE(rescale, row, tile, rescale[r]);
    float sum = 0.f;
    UNROLL for (int i = 2 * r; i < N; i += 4) {
      S_rmem[i] = exp2_approx(fmaf(S_rmem[i], to_log2, -base));
      S_rmem[i + 1] = exp2_approx(fmaf(S_rmem[i + 1], to_log2, -base));
      sum += S_rmem[i] + S_rmem[i + 1];
    }
    l[r] = fmaf(l[r], rescale[r], sum);
    const float total = ROW_TOTAL(l[r]);
    if (row_leader) PROBE_VALUE(l, row, tile, total);
    m[r] = m_new;
  }
  log_weights(S_rmem, at PROBE_PASS);
}

// The weights for the tensor cores: pairs of T, in the order of A
template <int N> __device__ __forceinline__ void pack(unsigned (&P_rmem)[N], const float (&S_rmem)[2 * N]) {
  UNROLL for (int i = 0; i < N; ++i) P_rmem[i] = pair<T>(S_rmem[2 * i], S_rmem[2 * i + 1]);
}

template <int N> __device__ __forceinline__ void rescale_rows(float (&O_rmem)[N], const float (&rescale)[2]) {
  UNROLL for (int i = 0; i < N; ++i) O_rmem[i] *= rescale[i / 2 % 2];
}

// The same, skipped if every factor of the warp is 1
template <int N> __device__ __forceinline__ void rescale_moved_rows(float (&O_rmem)[N], const float (&rescale)[2]) {
  if (__any_sync(0xffffffffu, rescale[0] != 1.f || rescale[1] != 1.f)) rescale_rows(O_rmem, rescale);
}

// O / l as T, and lse = m + log l, of the warp's existing rows. A row without keys has 0 and -inf.
//   O_gmem, LSE_gmem    of all heads
//   start               row 0 of this head
//   row_step            elements from one row of O to the next
// A lane has two neighbouring columns of every eight. The four lanes of a row exchange theirs, so that each has eight
// neighbours of every 32, and stores them as 16 bytes.
template <int N>
__device__ __forceinline__ void write_rows(T* O_gmem, float* LSE_gmem, const HeadStart& start, long long row_step,
                                           const float (&O_rmem)[N], const float (&m)[2], const float (&l)[2],
                                           const Fragment& at PROBE_REF) {
  const int t = threadIdx.x % 4;
  UNROLL for (int r = 0; r < 2; ++r) {
    const int row = at.row + r * 8;
    const float total = group_sum<4>(l[r]);
    const float share = total == 0.f ? 0.f : 1.f / total;
    UNROLL for (int first = 0; first < N; first += 16) {
      unsigned v[4];  // of columns 8 i + 2 t and the next. In the end of columns 8 t + 2 i and the next
      UNROLL for (int i = 0; i < 4; ++i) {
        v[i] = pair<T>(O_rmem[first + 4 * i + 2 * r] * share, O_rmem[first + 4 * i + 2 * r + 1] * share);
      }
      UNROLL for (int i = 0; i < 4; i += 2) {  // transposes 4 x 4 words: first among neighbouring lanes
        const unsigned other = __shfl_xor_sync(0xffffffffu, t % 2 ? v[i] : v[i + 1], 1);
        (t % 2 ? v[i] : v[i + 1]) = other;
      }
      UNROLL for (int i = 0; i < 2; ++i) {  // then among lanes two apart
        const unsigned other = __shfl_xor_sync(0xffffffffu, t / 2 ? v[i] : v[i + 2], 2);
        (t / 2 ? v[i] : v[i + 2]) = other;
      }
      if (row < at.seq_len) {
        const long long index = start.q + row * row_step + first * 2 + 8 * t;
        const float4 words = make_float4(__uint_as_float(v[0]), __uint_as_float(v[1]), __uint_as_float(v[2]),
                                         __uint_as_float(v[3]));
        PROBE_STORE(O_gmem, index, 16);
        stg<float4>(&O_gmem[index], words);
      }
    }
    if (at.leads && row < at.seq_len) {
      const float lse = total == 0.f ? -INFINITY : at.scale * m[r] + logf(total);
      PROBE_STORE(LSE_gmem, start.lse + row, 4);
      stg<float>(&LSE_gmem[start.lse + row], lse);
    }
  }
}
