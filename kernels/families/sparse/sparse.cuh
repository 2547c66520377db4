/*
[constants.PATTERNS]
default = 1
values = [1, 0]
meaning = "whether the kernel applies a partial block's pattern"
what_if = "No mask in partial blocks"
effect = "a partial block counts whole. Queries see hidden keys, and zeros past the last key."
*/
// The parts of the kernels that skip keys: scores hidden by a mask are -inf and are not logged, a sink's logit, and the
// lists of blocks, by which a block of queries finds its keys.
#pragma once
#include "fragments.cuh"
#define WORDS (BLOCK_KV / 32)  // of a row of a pattern: a bit for each key

// A visible score is not -inf. Weights are logged for visible scores.
template <int N>
__device__ __forceinline__ void log_shown_scores(const float (&S_rmem)[N], const Fragment& at PROBE_REF) {
#ifdef PROBED
  float copy[N];
  UNROLL for (int i = 0; i < N; ++i) copy[i] = S_rmem[i];
  NO_UNROLL for (int i = 0; i < N; ++i) {
    const int row = at.row_of(i), col = at.col_of(i);
    const float score = at.scale * copy[i];
    if (copy[i] != -INFINITY && row < at.seq_len) PROBE_VALUE(score, row, col, score);
  }
#endif
}
template <int N>
__device__ __forceinline__ void log_shown_weights(const float (&P_rmem)[N], const bool (&shown)[N],
                                                  const Fragment& at PROBE_REF) {
#ifdef PROBED
  float copy[N];
  UNROLL for (int i = 0; i < N; ++i) copy[i] = P_rmem[i];
  NO_UNROLL for (int i = 0; i < N; ++i) {
    const int row = at.row_of(i), col = at.col_of(i);
    const float p = copy[i];
    if (shown[i] && row < at.seq_len) PROBE_VALUE(p, row, col, p);
  }
#endif
}

// softmax_tile without a log of hidden scores. A Fragment without keys makes it log no weights.
template <int N>
__device__ __forceinline__ void softmax_shown(float (&S_rmem)[N], float (&m)[2], float (&l)[2], float (&rescale)[2],
                                              const Fragment& at PROBE_REF) {
  log_shown_scores(S_rmem, at PROBE_PASS);
  bool shown[N];
  UNROLL for (int i = 0; i < N; ++i) shown[i] = S_rmem[i] != -INFINITY;
  Fragment quiet = at;
  quiet.keys = 0;
  softmax_tile(S_rmem, m, l, rescale, quiet PROBE_PASS);
  log_shown_weights(S_rmem, shown, at PROBE_PASS);
}

// A row starts with its head's sink, if it has one (-inf: none): m is the logit. l is 1, held by one of four lanes.
__device__ __forceinline__ void start_rows(float (&m)[2], float (&l)[2], float sink, float scale) {
  m[0] = m[1] = sink / scale;
  l[0] = l[1] = sink != -INFINITY && threadIdx.x % 4 == 0 ? 1.f : 0.f;
}

// The list of a block of queries: first the blocks that need a pattern, then the full ones (FlexAttention's order).
//   kv_num_blocks, full_kv_num_blocks               [masks, query_blocks]
//   kv_indices, kv_patterns, full_kv_indices        [masks, query_blocks, key_blocks]
struct List {
  long long row, first;  // index in the counts, and of the first entry
  template <class Sizes> __device__ __forceinline__ List(const Sizes& z, int query_block, int any_head)
      : row((z.mask_count > 1 ? (long long)any_head * z.query_blocks : 0) + query_block), first(row * z.key_blocks) {}
};

// The lane's scores that a pattern shows. The words are shifted, so that the lane's own columns have the same bits in
// every lane.
struct Pattern {
  unsigned words[2][WORDS];  // of rows `row` and `row` + 8 of the block
  __device__ __forceinline__ Pattern(const int* patterns_gmem, int number, int row PROBE_REF) {
    UNROLL for (int r = 0; r < 2; ++r) UNROLL for (int w = 0; w < WORDS; ++w) {
      const long long from = ((long long)number * BLOCK_Q + row + 8 * r) * WORDS + w;
      PROBE_LOAD(patterns_gmem, from, 4);
      words[r][w] = (unsigned)ldg<int>(&patterns_gmem[from]) >> 2 * (threadIdx.x % 4);
    }
  }
  __device__ __forceinline__ bool shows(int i) const {
    return words[i / 2 % 2][i / 4 * 8 / 32] >> (i / 4 * 8 % 32 + i % 2) & 1;
  }
};
template <int N> __device__ __forceinline__ void hide_unseen(float (&S_rmem)[N], const Pattern& pattern) {
  UNROLL for (int i = 0; i < N; ++i) {
    if (!pattern.shows(i)) S_rmem[i] = -INFINITY;
  }
}
