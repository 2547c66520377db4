// The products of cuBLAS that programs call between their launches, on the CPU (program.h): matrices in columns.
//
// Another call for values ends the program with its name (program.py).
#pragma once

enum { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
inline void simt_product(int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
    int ldb, float beta, float* c, int ldc) {
  std::vector<float> column(m);
  for (int j = 0; j < n; ++j) {
    std::fill(column.begin(), column.end(), 0.f);
    for (int p = 0; p < k; ++p) {
      const float factor = tb ? b[j + (size_t)p * ldb] : b[p + (size_t)j * ldb];
      for (int i = 0; i < m; ++i) column[i] += factor * (ta ? a[p + (size_t)i * lda] : a[i + (size_t)p * lda]);
    }
    float* const to = c + (size_t)j * ldc;
    for (int i = 0; i < m; ++i) to[i] = alpha * column[i] + (beta != 0.f ? beta * to[i] : 0.f);
  }
}
template <class H> int cublasSgemmStridedBatched(H, int ta, int tb, int m, int n, int k, const float* alpha,
    const float* a, int lda, long long step_a, const float* b, int ldb, long long step_b, const float* beta, float* c,
    int ldc, long long step_c, int count) {
  for (long long i = 0; i < count; ++i)
    simt_product(ta, tb, m, n, k, *alpha, a + i * step_a, lda, b + i * step_b, ldb, *beta, c + i * step_c, ldc);
  simt_fill(c);
  return 0;
}
template <class H> int cublasSgemm(H handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a,
    int lda, const float* b, int ldb, const float* beta, float* c, int ldc) {
  return cublasSgemmStridedBatched(handle, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}
#define cublasSgemm_v2 cublasSgemm
