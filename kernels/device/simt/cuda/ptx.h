// Inline PTX on the CPU: the build writes calls of these functions in place of asm (build/plain/assembly.py).
//
// Addresses of shared memory are offsets, as on a GPU. simt_ptx_shared turns them into generic ones. A function with
// accesses reports them with its caller's line.
#pragma once
#include "cuda.h"
#include "ptx_numbers.h"

// ---- memory ----
SIMT_PTX simt_bits64 simt_ptx_to_shared(simt_bits64 p) { return simt_shared_offset(reinterpret_cast<const void*>(p)); }
SIMT_PTX simt_bits64 simt_ptx_shared(simt_bits64 offset, SIMT_SITE) {
  return reinterpret_cast<simt_bits64>(simt_shared_pointer((unsigned)offset, file, line, SIMT_PC));
}
SIMT_PTX simt_bits64 simt_ptx_dynamic_bytes() { return simt_dynamic_bytes(); }
SIMT_PTX void simt_ptx_fence() { simt_fence(); }
SIMT_PTX void simt_ptx_spin() { simt_spin(); }
SIMT_PTX void simt_ptx_trap(SIMT_SITE) { simt_stop(file, line, "it executes trap"); }
// ORDER: 0 plain, 1 volatile, 2 strong
template <class T, int N, int ORDER> SIMT_PTX void simt_ptx_load(simt_bits64* out, simt_bits64 at) {
  if (ORDER) simt_spin();
  SIMT_REPORT(reinterpret_cast<const void*>(at), N * sizeof(T), ORDER == 2 ? SIMT_ATOMIC : SIMT_READ);
  alignas(16) char held[N * sizeof(T)];
  memcpy(held, reinterpret_cast<const void*>(at), sizeof held);
  for (int n = 0; n < N; ++n) {
    T value;
    memcpy((void*)&value, held + n * sizeof(T), sizeof(T));
    if constexpr (std::is_signed<T>::value && std::is_integral<T>::value) out[n] = (simt_bits64)(long long)value;
    else out[n] = simt_raw<T>(value);
  }
}
template <class T, int N, int ORDER> SIMT_PTX void simt_ptx_store(simt_bits64 at, const simt_bits64* values) {
  SIMT_REPORT(reinterpret_cast<const void*>(at), N * sizeof(T), ORDER == 2 ? SIMT_ATOMIC : SIMT_WRITE);
  for (int n = 0; n < N; ++n) memcpy(reinterpret_cast<char*>(at) + n * sizeof(T), &values[n], sizeof(T));
}
#define SIMT_PTX_ATOM(name, result)                                                                     \
  template <class T> SIMT_PTX simt_bits64 simt_ptx_atom_##name(simt_bits64 at, simt_bits64 b) {         \
    simt_spin();                                                                                        \
    SIMT_REPORT(reinterpret_cast<const void*>(at), sizeof(T), SIMT_ATOMIC);                             \
    simt_bits64 a = 0;                                                                                  \
    memcpy(&a, reinterpret_cast<const void*>(at), sizeof(T));                                           \
    const simt_bits64 next = result;                                                                    \
    memcpy(reinterpret_cast<void*>(at), &next, sizeof(T));                                              \
    return a;                                                                                           \
  }
SIMT_PTX_ATOM(add, simt_ptx_add<T>(a, b))
SIMT_PTX_ATOM(min, simt_ptx_min<T>(a, b))
SIMT_PTX_ATOM(max, simt_ptx_max<T>(a, b))
SIMT_PTX_ATOM(and, a & b)
SIMT_PTX_ATOM(or, a | b)
SIMT_PTX_ATOM(xor, a ^ b)
SIMT_PTX_ATOM(exch, b)
SIMT_PTX_ATOM(inc, a >= b ? 0 : a + 1)
SIMT_PTX_ATOM(dec, a == 0 || a > b ? b : a - 1)
#undef SIMT_PTX_ATOM
template <class T> SIMT_PTX simt_bits64 simt_ptx_cas(simt_bits64 at, simt_bits64 expected, simt_bits64 b) {
  simt_spin();
  SIMT_REPORT(reinterpret_cast<const void*>(at), sizeof(T), SIMT_ATOMIC);
  simt_bits64 a = 0;
  memcpy(&a, reinterpret_cast<const void*>(at), sizeof(T));
  if (a == expected) memcpy(reinterpret_cast<void*>(at), &b, sizeof(T));
  return a;
}

// ---- asynchronous copies ----
SIMT_PTX void simt_ptx_cp_async(simt_bits64 to, simt_bits64 from, simt_bits64 size, simt_bits64 given, int l2,
    SIMT_SITE) {
  if (l2 ? size != 16 : size != 4 && size != 8 && size != 16)
    simt_stop(file, line, l2 ? "cp.async.cg copies 16 bytes" : "cp.async.ca copies 4, 8 or 16 bytes");
  const simt_bits64 bytes = given < size ? given : size;
  simt_copy_async((void*)to, (const void*)from, bytes, size - bytes, SIMT_PC);
}
SIMT_PTX void simt_ptx_commit() { simt_copies_commit(); }
SIMT_PTX void simt_ptx_wait_group(simt_bits64 open) { simt_copies_wait((unsigned)open); }
SIMT_PTX void simt_ptx_wait_all() { simt_copies_commit(), simt_copies_wait(0); }
SIMT_PTX void simt_ptx_copies_arrive(simt_bits64 barrier, int noinc, SIMT_SITE) {
  simt_copies_arrive((void*)barrier, noinc, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_bulk_load(simt_bits64 to, simt_bits64 from, simt_bits64 bytes, simt_bits64 barrier, SIMT_SITE) {
  simt_bulk_load((void*)to, (const void*)from, (unsigned)bytes, (void*)barrier, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_bulk_store(simt_bits64 to, simt_bits64 from, simt_bits64 bytes, SIMT_SITE) {
  simt_bulk_store((void*)to, (const void*)from, (unsigned)bytes, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_bulk_commit() {}
SIMT_PTX void simt_ptx_bulk_wait(simt_bits64) {}
SIMT_PTX void simt_ptx_box_load(simt_bits64 to, simt_bits64 map, const simt_bits64* at, int dimensions,
    simt_bits64 barrier,
                                SIMT_SITE) {
  simt_box_load((void*)to, (const void*)map, at, dimensions, (void*)barrier, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_box_store(simt_bits64 map, const simt_bits64* at, int dimensions, simt_bits64 from, SIMT_SITE) {
  simt_box_store((const void*)map, at, dimensions, (const void*)from, file, line, SIMT_PC);
}

// ---- barriers ----
SIMT_PTX void simt_ptx_mbarrier_init(simt_bits64 at, simt_bits64 arrivals, SIMT_SITE) {
  simt_mbarrier_init((void*)at, (unsigned)arrivals, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_mbarrier_inval(simt_bits64 at, SIMT_SITE) { simt_mbarrier_init((void*)at, 0, file, line,
    SIMT_PC); }
SIMT_PTX void simt_ptx_mbarrier_expect(simt_bits64 at, simt_bits64 bytes, SIMT_SITE) {
  simt_mbarrier_arrive((void*)at, 0, (unsigned)bytes, file, line, SIMT_PC);
}
SIMT_PTX simt_bits64 simt_ptx_mbarrier_arrive(simt_bits64 at, simt_bits64 count, simt_bits64 bytes, SIMT_SITE) {
  return simt_mbarrier_arrive((void*)at, (unsigned)count, (unsigned)bytes, file, line, SIMT_PC);
}
SIMT_PTX bool simt_ptx_mbarrier_test(simt_bits64 at, simt_bits64 phase, int parity, int waits, SIMT_SITE) {
  return simt_mbarrier_test((void*)at, phase, parity, waits, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_syncwarp(simt_bits64 mask, SIMT_SITE) { simt_syncwarp((unsigned)mask, file, line, SIMT_PC); }
SIMT_PTX void simt_ptx_barrier(simt_bits64 number, simt_bits64 count, int waits, SIMT_SITE) {
  if (!number && !count && waits) return simt_barrier(file, line, SIMT_PC, 0, nullptr);
  simt_named_barrier((unsigned)number, (unsigned)count, waits, file, line, SIMT_PC);
}

// ---- warps ----
SIMT_PTX simt_bits64 simt_ptx_shuffle(int way, simt_bits64 value, simt_bits64 by, simt_bits64 limits, simt_bits64 mask,
                                      bool& inside, SIMT_SITE) {
  const unsigned lane = simt_rank() & 31, segment = limits >> 8 & 31, clamp = limits & 31, n = by & 31;
  const unsigned most = (lane & segment) | (clamp & ~segment), least = lane & segment;
  int from = way == 0 ? (int)((n & ~segment) | least) : way == 1 ? (int)lane - (int)n : way == 2 ? (int)(lane +
      n) : (int)(lane ^ n);
  inside = way == 1 ? from >= (int)most : from <= (int)most;
  if (!inside) from = lane;
  return (unsigned)simt_exchange((unsigned)mask, value, from, file, line, SIMT_PC);
}
SIMT_PTX simt_bits64 simt_ptx_vote(int how, bool holds, simt_bits64 mask, SIMT_SITE) {
  const unsigned all = simt_vote((unsigned)mask, holds, file, line, SIMT_PC);
  return how == 0 ? all == (unsigned)mask : how == 1 ? all != 0 : how == 2 ? all == 0 || all == (unsigned)mask : all;
}
#define SIMT_PTX_REDUX(name, start)                                                                     \
  template <class T> SIMT_PTX simt_bits64 simt_ptx_redux_##name(simt_bits64 value, simt_bits64 mask, SIMT_SITE) { \
    simt_bits64 all = 0;                                                                                \
    bool first = true;                                                                                  \
    for (unsigned l = 0; l < 32; ++l) {                                                                 \
      const simt_bits64 other = simt_exchange((unsigned)mask, value, l, file, line, SIMT_PC);           \
      if (mask >> l & 1) all = first ? (first = false, other) : simt_ptx_##name<T>(all, other);         \
    }                                                                                                   \
    return all;                                                                                         \
  }
SIMT_PTX_REDUX(add, 0)
SIMT_PTX_REDUX(min, 0)
SIMT_PTX_REDUX(max, 0)
SIMT_PTX_REDUX(and, 0)
SIMT_PTX_REDUX(or, 0)
SIMT_PTX_REDUX(xor, 0)
#undef SIMT_PTX_REDUX
SIMT_PTX simt_bits64 simt_ptx_elect(simt_bits64 mask, SIMT_SITE) {
  simt_syncwarp((unsigned)mask, file, line, SIMT_PC);
  return __builtin_ctz((unsigned)mask);
}
SIMT_PTX void simt_ptx_ldmatrix(unsigned* words, int count, int trans, simt_bits64 row, SIMT_SITE) {
  simt_load_matrices(words, count, trans, (const void*)row, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_stmatrix(const unsigned* words, int count, int trans, simt_bits64 row, SIMT_SITE) {
  simt_store_matrices(words, count, trans, (void*)row, file, line, SIMT_PC);
}
SIMT_PTX simt_bits64 simt_ptx_movmatrix(simt_bits64 word, SIMT_SITE) {
  return simt_turn_matrix((unsigned)word, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_mma(simt_bits64* d, const simt_bits64* a, const simt_bits64* b, const simt_bits64* c, int type_a,
                           int type_b, int sums, int depth, int clamps, SIMT_SITE) {
  simt_mma(d, a, b, c, type_a | type_b << 8 | sums << 16 | clamps << 24, depth, file, line, SIMT_PC);
}

// ---- warpgroups ----
// flags: 1 and 2 change the sign of A and B, 4 and 8 say that their rows run across the summed dimension
SIMT_PTX void simt_ptx_wgmma(simt_bits64* d, const simt_bits64* a, simt_bits64 a_at, simt_bits64 b_at, bool adds,
                             int flags, int type_a, int type_b, int sums, int columns, SIMT_SITE) {
  simt_wgmma(d, a, a_at, b_at, flags | adds << 4, type_a | type_b << 8 | sums << 16, columns, file, line, SIMT_PC);
}
SIMT_PTX void simt_ptx_wgmma_fence(SIMT_SITE) { simt_wgmma_fence(file, line, SIMT_PC); }
SIMT_PTX void simt_ptx_wgmma_commit(SIMT_SITE) { simt_wgmma_commit(file, line, SIMT_PC); }
SIMT_PTX void simt_ptx_wgmma_wait(simt_bits64 open, SIMT_SITE) { simt_wgmma_wait((unsigned)open, file, line, SIMT_PC); }
