/*
title = "Products"
idea = "one kernel for each part of CUDA C++ that a test compares with NumPy."
changed = "nothing."
costs = "nothing."
limits = "they compute nothing of their problem."
source = "the tests."
family = "lab"
problem = "roles"

[[launches]]
entry = "wmma_product"
grid = [1]
block = [32]
args = ["x", "o", "int32 tiles"]
*/
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
using namespace nvcuda;

// The first 64 numbers of X X, with X [16, 16] in half
__global__ void wmma_product(const float* x, float* o, int tiles) {
  __shared__ __align__(32) half a[256];
  __shared__ __align__(32) float c[256];
  for (int i = threadIdx.x; i < 256; i += 32) a[i] = __float2half(x[i]);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, a, 16);
  wmma::mma_sync(sum, left, right, sum);
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 2.0f;
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 64; i += 32) o[i] = c[i];
}
