/*
title = "Residual, then LayerNorm"
idea = """one kernel adds the residual and writes the sum. The next one reads the sum again, takes its mean away and \
divides by its standard deviation."""
changed_from = "add_rms_norm_separate"
changed = "LayerNorm takes the mean away before it divides, and adds a bias."
costs = "the sum makes a round trip through memory, and a second launch has to wait for the first."
limits = "fp32, fp16 or bf16. HIDDEN is a multiple of 8, at most 16,384."
source = """Ba et al. 2016, "Layer Normalization", arXiv:1607.06450."""
family = "fusion"
problem = "layer_norm"
rung = 3
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
entry = "layer_norm_rows"
grid = ["tokens"]
block = ["THREADS"]
args = ["sum", "weight", "bias", "y", "float32 eps"]
shared_bytes = "8 * THREADS // 32"
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

// y = (sum - mean) / sqrt(variance + eps) * weight + bias   [tokens, HIDDEN]. A block has one token.
extern "C" __global__ void __launch_bounds__(THREADS)
layer_norm_rows(const T* sum_gmem, const T* weight_gmem, const T* bias_gmem, T* y_gmem, float eps PROBE_PARAM) {
  DYNAMIC_SMEM(float, parts_smem);  // two rows of one number per warp
  const int token = blockIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(token, token);
  float row[PIECES][X] = {};
  FOR_PIECES(p) {
    const size_t at = (size_t)token * HIDDEN + PIECE(p) * X;
    PROBE_LOAD(sum_gmem, at, 16, token);
    unpack(ldg<float4>(&sum_gmem[at]), row[p]);
  }
  layer_norm(row, weight_gmem, bias_gmem, y_gmem, token, eps, parts_smem PROBE_PASS);
}
