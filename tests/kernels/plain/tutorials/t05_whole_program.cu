/*
title = "Whole program"
idea = "a file with main: its host part stays out of the build."
changed = "nothing."
costs = "K and V are read once for each row."
limits = "fp32. head_dim up to 128."
source = "the tests."
family = "dense"

[[launches]]
entry = "attention_kernel"
grid = ["ceil_div(seq_len, ROWS)", "batch * num_heads"]
block = [32, "ROWS"]
shared_bytes = "4 * ROWS * seq_len"
args = ["q", "k", "v", "o", "int32 seq_len", "int32 head_dim", "int32 causal", "float32 scale"]
item = "query tile"

[constants.ROWS]
default = 2
values = [2]
meaning = "query rows of a block"
*/
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#define CUDA_CHECK(call)                                                        \
  do {                                                                          \
    cudaError_t error = (call);                                                 \
    if (error != cudaSuccess) {                                                 \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

namespace cg = cooperative_groups;
static const int ROWS = 2;

__global__ void attention_kernel(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v,
                                 float *__restrict__ o, int seq_len, int head_dim, int causal, float scale) {
  extern __shared__ float probabilities[];  // [ROWS][seq_len]
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int row = blockIdx.x * ROWS + threadIdx.y;
  if (row >= seq_len) return;
  const size_t base = (size_t)blockIdx.y * seq_len * head_dim;
  float *p = probabilities + threadIdx.y * seq_len;
  const int keys = causal ? row + 1 : seq_len;

  float m = -INFINITY;
  for (int j = warp.thread_rank(); j < keys; j += warp.size()) {
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int d = 0; d < head_dim; d += 4) {
      const float4 a = *reinterpret_cast<const float4 *>(&q[base + row * head_dim + d]);
      const float4 b = *reinterpret_cast<const float4 *>(&k[base + j * head_dim + d]);
      sum.x += a.x * b.x, sum.y += a.y * b.y, sum.z += a.z * b.z, sum.w += a.w * b.w;
    }
    p[j] = (sum.x + sum.y + (sum.z + sum.w)) * scale;
    m = fmaxf(m, p[j]);
  }
  m = cg::reduce(warp, m, cg::greater<float>());
  float l = 0.f;
  for (int j = warp.thread_rank(); j < keys; j += warp.size()) l += p[j] = expf(p[j] - m);
  l = cg::reduce(warp, l, cg::plus<float>());
  warp.sync();
  for (int d = warp.thread_rank(); d < head_dim; d += warp.size()) {
    float sum = 0.f;
    for (int j = 0; j < keys; ++j) sum += p[j] * v[base + j * head_dim + d];
    o[base + row * head_dim + d] = sum / l;
  }
}

void reference(const std::vector<float> &q, std::vector<float> &o) {
  for (size_t i = 0; i < q.size(); ++i) o[i] = q[i];
}

int main() {
  const int n = 128, d = 64, heads = 2;
  std::vector<float> host(n * d * heads, 1.f);
  float *q, *o;
  CUDA_CHECK(cudaMalloc(&q, host.size() * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&o, host.size() * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(q, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
  attention_kernel<<<dim3(n / ROWS, heads), dim3(32, ROWS), ROWS * n * sizeof(float)>>>(q, q, q, o, n, d, 0, 0.125f);
  CUDA_CHECK(cudaDeviceSynchronize());
  printf("done\n");
  return 0;
}
