// nvcuda::wmma on the CPU. A fragment has the layout of mma.m16n8k16: a lane holds rows l / 4 and l / 4 + 8.
//
// The products are exact, and each sum of K products is rounded once. A tensor core cuts off bits of the sum.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda::wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
template <class USE, int M, int N, int K> constexpr int rows_of = std::is_same<USE, matrix_b>::value ? K : M;
template <class USE, int M, int N, int K> constexpr int columns_of = std::is_same<USE, matrix_a>::value ? K : N;

namespace precision {
struct tf32 {};
}  // namespace precision
template <class T> struct simt_held { using type = T; };  // of an element
template <> struct simt_held<precision::tf32> { using type = float; };
inline float __float_to_tf32(float x) {  // 10 bits of mantissa, halves away from zero
  const unsigned bits = simt_bits<unsigned>(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? x : simt_bits<float>((bits + 0x1000u) & ~0x1fffu);
}

template <class USE, int M, int N, int K, class OF, class LAYOUT = void> struct fragment {
  static_assert((M == 16 && N == 16 && (K == 16 || K == 8)) || (M == 32 && N == 8 && K == 16) ||
                    (M == 8 && N == 32 && K == 16) || (M == 8 && N == 8 && K == 4),
                "a fragment is 16x16x16, 32x8x16, 8x32x16, 16x16x8 or 8x8x4");
  using T = typename simt_held<OF>::type;
  using storage_element_type = T;
  static constexpr bool IS_TF32 = std::is_same<OF, precision::tf32>::value;
  static constexpr int ROWS = rows_of<USE, M, N, K>, COLUMNS = columns_of<USE, M, N, K>;
  static constexpr int num_elements = ROWS * COLUMNS / 32;
  using element_type = T;
  T x[num_elements];
  // Element e of a lane: its row and column
  static void place(unsigned lane, int e, int& row, int& column) {
    if (ROWS < 8 || COLUMNS < 8) {
      row = ((int)lane * num_elements + e) / COLUMNS, column = ((int)lane * num_elements + e) % COLUMNS;
      return;
    }
    const int of_rows = ROWS >= 16 ? 2 : 1;  // the lane's rows in a part of 8 columns
    row = lane / 4 + e / 2 % of_rows * 8 + e / 2 / of_rows % (ROWS >= 16 ? ROWS / 16 : 1) * 16;
    column = lane % 4 * 2 + e % 2 + e / 2 / of_rows / (ROWS >= 16 ? ROWS / 16 : 1) * 8;
  }
};
template <class F, class T> void fill_fragment(F& fragment, T value) {
  for (auto& element : fragment.x) element = value;
}
template <class F> size_t simt_index(int e, unsigned stride, bool by_rows) {
  int row, column;
  F::place(simt_rank() & 31, e, row, column);
  return by_rows ? (size_t)row * stride + column : (size_t)column * stride + row;
}
template <class F, class T>
SIMT_OWN void simt_load(F& fragment, const T* from, unsigned stride, bool by_rows, void* pc) {
  for (int e = 0; e < F::num_elements; ++e) {
    const T* const p = from + simt_index<F>(e, stride, by_rows);
#ifdef __SANITIZE_THREAD__
    simt_access(p, sizeof(T), SIMT_READ, pc);
#endif
    memcpy((void*)&fragment.x[e], p, sizeof(T));
  }
}
template <class USE, int M, int N, int K, class T, class LAYOUT>
SIMT_OWN void load_matrix_sync(fragment<USE, M, N, K, T, LAYOUT>& fragment, const typename simt_held<T>::type* from,
                               unsigned stride, SIMT_SITE) {
  simt_syncwarp(~0u, file, line, SIMT_PC);
  simt_load(fragment, from, stride, std::is_same<LAYOUT, row_major>::value, SIMT_PC);
}
template <int M, int N, int K, class T>
SIMT_OWN void load_matrix_sync(fragment<accumulator, M, N, K, T>& fragment, const T* from, unsigned stride,
                               layout_t layout, SIMT_SITE) {
  simt_syncwarp(~0u, file, line, SIMT_PC);
  simt_load(fragment, from, stride, layout == mem_row_major, SIMT_PC);
}
template <int M, int N, int K, class T>
SIMT_OWN void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& fragment, unsigned stride,
                                layout_t layout, SIMT_SITE) {
  using F = std::remove_cv_t<std::remove_reference_t<decltype(fragment)>>;
  for (int e = 0; e < F::num_elements; ++e) {
    T* const p = to + simt_index<F>(e, stride, layout == mem_row_major);
    SIMT_REPORT(p, sizeof(T), SIMT_WRITE);
    memcpy((void*)p, &fragment.x[e], sizeof(T));
  }
  simt_syncwarp(~0u, file, line, SIMT_PC);
}
template <class D, class A, class B, class C> struct simt_product {
  D* d;
  const A* a;
  const B* b;
  const C* c;
};
// A factor's value. The tensor core reads only the upper bits of a tf32
template <class T> double simt_factor(T value, bool is_tf32) {
  if constexpr (std::is_same<T, float>::value)
    return is_tf32 ? simt_bits<float>(simt_bits<unsigned>(value) & ~0x1fffu) : value;
  else return (double)value;
}
template <class T> T simt_sum(double sum, bool clamps) {
  if constexpr (std::is_integral<T>::value)
    return clamps ? (T)fmin(fmax(sum, -0x1p31), 0x1p31 - 1) : (T)(long long)sum;
  else return (T)sum;
}
template <class D, class A, class B, class C>
SIMT_OWN void mma_sync(D& d, const A& a, const B& b, const C& c, bool satf = false, SIMT_SITE) {
  static bool clamps;
  clamps = satf;
  using Lane = simt_product<D, A, B, C>;
  Lane mine{&d, &a, &b, &c};
  constexpr int M = A::ROWS, N = B::COLUMNS, K = A::COLUMNS;
  const auto multiply = [](void** lanes, unsigned) __attribute__((no_sanitize("thread"))) {
    static double left[M][K], right[K][N];
    int row, column;
    for (unsigned l = 0; l < 32; ++l) {
      const Lane& lane = *static_cast<Lane*>(lanes[l]);
      for (int e = 0; e < A::num_elements; ++e)
        A::place(l, e, row, column), left[row][column] = simt_factor(lane.a->x[e], A::IS_TF32);
      for (int e = 0; e < B::num_elements; ++e)
        B::place(l, e, row, column), right[row][column] = simt_factor(lane.b->x[e], B::IS_TF32);
    }
    for (unsigned l = 0; l < 32; ++l) {
      const Lane& lane = *static_cast<Lane*>(lanes[l]);
      for (int e = 0; e < D::num_elements; ++e) {
        D::place(l, e, row, column);
        double sum = (double)lane.c->x[e];
        for (int k = 0; k < K; ++k) sum += left[row][k] * right[k][column];
        lane.d->x[e] = simt_sum<typename D::T>(sum, clamps);
      }
    }
  };
  simt_together(~0u, &mine, multiply, file, line, SIMT_PC);
}
}  // namespace nvcuda::wmma
