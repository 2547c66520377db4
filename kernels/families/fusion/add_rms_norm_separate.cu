/*
title = "Residual, then RMSNorm"
idea = """one kernel adds the residual and writes the sum. The next one reads the sum again and divides it by its root \
mean square."""
changed = "each operation is a kernel of its own, as in a library without fusion."
costs = "the sum makes a round trip through memory, and a second launch has to wait for the first."
limits = "fp32, fp16 or bf16. HIDDEN is a multiple of 8, at most 16,384."
source = """Zhang, Sennrich 2019, "Root Mean Square Layer Normalization", arXiv:1910.07467."""
family = "fusion"
problem = "norm"
rung = 1
tuned = [
  {when = "hidden > 8192 or hidden > 2048 and tokens <= 512", THREADS = 512}, {when = "hidden <= 1024", THREADS = 128}]

[constants]  # meaning: norm.cuh
THREADS = {}

[[launches]]
entry = "add"
grid = ["ceil_div(chunks, THREADS)"]
block = ["THREADS"]
args = ["x", "residual", "sum", "int32 chunks"]

[[launches]]
entry = "rms_norm_rows"
grid = ["tokens"]
block = ["THREADS"]
args = ["sum", "weight", "y", "float32 eps"]
shared_bytes = "4 * THREADS // 32"
item = "token"
*/
#include "norm.cuh"

// sum = x + residual   [tokens, HIDDEN], in pieces of 16 bytes
extern "C" __global__ void __launch_bounds__(THREADS)
add(const T* x_gmem, const T* residual_gmem, T* sum_gmem, int chunks PROBE_PARAM) {
  PROBE_BEGIN();
  const int tile = blockIdx.x;
  PROBE_MARK(add, tile);
  const int piece = tile * THREADS + threadIdx.x;
  if (piece >= chunks) return;
  const size_t at = (size_t)piece * X;
  float a[X], b[X];
  PROBE_LOAD(x_gmem, at, 16);
  unpack(ldg<float4>(&x_gmem[at]), a);
  PROBE_LOAD(residual_gmem, at, 16);
  unpack(ldg<float4>(&residual_gmem[at]), b);
  UNROLL for (int e = 0; e < X; ++e) a[e] += b[e];
  PROBE_STORE(sum_gmem, at, 16);
  stg<float4>(&sum_gmem[at], pack(a));
}

// y = sum / sqrt(mean of sum^2 + eps) * weight   [tokens, HIDDEN]. A block has one token.
extern "C" __global__ void __launch_bounds__(THREADS)
rms_norm_rows(const T* sum_gmem, const T* weight_gmem, T* y_gmem, float eps PROBE_PARAM) {
  DYNAMIC_SMEM(float, parts_smem);  // one number per warp
  const int token = blockIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(token, token);
  float row[PIECES][X] = {};
  FOR_PIECES(p) {
    const size_t at = (size_t)token * HIDDEN + PIECE(p) * X;
    PROBE_LOAD(sum_gmem, at, 16, token);
    unpack(ldg<float4>(&sum_gmem[at]), row[p]);
  }
  rms_norm(row, weight_gmem, y_gmem, token, eps, parts_smem PROBE_PASS);
}
