// The CPU's half of mma.cuh.
#pragma once

template <class T> unsigned pair(float low, float high) {
  return from_float<T>(low).bits | (unsigned)from_float<T>(high).bits << 16;
}

namespace simt {
inline float float_of_half(unsigned bits) { return to_float(half{(unsigned short)bits}); }
}
template <class T> void mma(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1, SIMT_HERE);
template <>
inline void mma<bfloat16>(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1, simt::Site here) {
  mma_m16n8k16(C, A, b0, b1, here);
}
template <> inline void mma<half>(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1, simt::Site here) {
  simt::at(here);
  simt::Mma m{C, A, {b0, b1}};
  simt::rendezvous(~0u, simt::MMA, &m, simt::multiply<simt::float_of_half>);
}
inline void mma_half_sums(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1, SIMT_HERE) {
  for (float& c : C) c = to_float(to_half(c));
  mma<half>(C, A, b0, b1, here);
  for (float& c : C) c = to_float(to_half(c));
}

// With `reversed`, copies land at the wait for their group. Otherwise they have landed already.
inline void cp_async_commit() { ++simt::current->groups; }
template <int N> void cp_async_wait_group() {
  const unsigned closed = simt::current->groups;
  simt::end_copies(*simt::current, true, closed > N ? closed - N : 0);
}
