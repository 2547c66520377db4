// Barriers, votes and shuffles. The file and line of the call go along.
#pragma once

SIMT_OWN inline void __syncthreads(SIMT_SITE) { simt_barrier(file, line, SIMT_PC, 0, nullptr); }
#define SIMT_BARRIER(name, at)                                \
  SIMT_OWN inline int name(int predicate, SIMT_SITE) {        \
    int found[3];                                             \
    simt_barrier(file, line, SIMT_PC, predicate, found);      \
    return found[at];                                         \
  }
SIMT_BARRIER(__syncthreads_count, 0)
SIMT_BARRIER(__syncthreads_and, 1)
SIMT_BARRIER(__syncthreads_or, 2)
#undef SIMT_BARRIER
SIMT_OWN inline void __syncwarp(unsigned mask = ~0u, SIMT_SITE) { simt_syncwarp(mask, file, line, SIMT_PC); }
SIMT_OWN inline unsigned __ballot_sync(unsigned mask, int holds, SIMT_SITE) {
  return simt_vote(mask, holds, file, line, SIMT_PC);
}
SIMT_OWN inline int __any_sync(unsigned mask, int holds, SIMT_SITE) {
  return simt_vote(mask, holds, file, line, SIMT_PC) != 0;
}
SIMT_OWN inline int __all_sync(unsigned mask, int holds, SIMT_SITE) {
  return simt_vote(mask, !holds, file, line, SIMT_PC) == 0;
}
SIMT_OWN inline unsigned __activemask() { return ~0u; }

template <class T>
SIMT_OWN T simt_shuffle(unsigned mask, T value, unsigned source, const char* file, unsigned line, void* pc) {
  static_assert(sizeof(T) <= 32, "a shuffle moves at most 32 bytes");
  uint64_t words[(sizeof(T) + 7) / 8] = {};
  memcpy(words, &value, sizeof value);
  for (uint64_t& bits : words) bits = simt_exchange(mask, bits, source, file, line, pc);
  memcpy((void*)&value, words, sizeof value);
  return value;
}
// `from` outside the lane's segment of `width` lanes: the lane gets its own value.
#define SIMT_SHUFFLE_OP(name, N, source)                                                                   \
  template <class T> SIMT_OWN T name(unsigned mask, T value, N n, int width = 32, SIMT_SITE) {             \
    const unsigned lane = simt_rank() & 31, first = lane & ~(unsigned)(width - 1), from = source;          \
    const bool inside = from >= first && from < first + width;                                             \
    return simt_shuffle(mask, value, inside ? from : lane, file, line, SIMT_PC);                           \
  }
SIMT_SHUFFLE_OP(__shfl_sync, int, first + ((unsigned)n & (width - 1)))
SIMT_SHUFFLE_OP(__shfl_xor_sync, int, lane ^ (unsigned)n)
SIMT_SHUFFLE_OP(__shfl_up_sync, unsigned, lane - n)
SIMT_SHUFFLE_OP(__shfl_down_sync, unsigned, lane + n)
#undef SIMT_SHUFFLE_OP

// Sums, maxima and so on of whole numbers over the lanes of a mask, as from sm_80
#define SIMT_REDUCE(name, T, start, result)                                                        \
  SIMT_OWN inline T name(unsigned mask, T value, SIMT_SITE) {                                      \
    T all = start;                                                                                 \
    for (unsigned l = 0; l < 32; ++l) {                                                            \
      const T other = simt_shuffle(mask, value, l, file, line, SIMT_PC);                           \
      if (mask >> l & 1) all = result;                                                             \
    }                                                                                              \
    return all;                                                                                    \
  }
SIMT_REDUCE(__reduce_add_sync, int, 0, all + other)
SIMT_REDUCE(__reduce_max_sync, int, INT_MIN, all > other ? all : other)
SIMT_REDUCE(__reduce_min_sync, int, INT_MAX, all < other ? all : other)
#undef SIMT_REDUCE

SIMT_OWN inline void simt_leave_here() { simt_leave(SIMT_PC); }  // the build writes it before a kernel's `return;`
