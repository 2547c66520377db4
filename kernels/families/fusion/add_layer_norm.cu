/*
title = "Residual and LayerNorm in one kernel"
idea = "a row stays in the registers of its block between the addition and the norm, so the sum is never read back."
changed_from = "add_layer_norm_separate"
changed = "one launch in place of two. The sum is written as before, and the norm takes it from registers."
costs = "a row has to fit into the registers of one block."
limits = "fp32, fp16 or bf16. HIDDEN is a multiple of 8, at most 16,384."
source = """add_rms_norm's. Ba et al. 2016, "Layer Normalization", arXiv:1607.06450."""
family = "fusion"
problem = "layer_norm"
rung = 4
tuned = [
  {when = "hidden > 8192 or hidden > 2048 and tokens <= 512", THREADS = 512}, {when = "hidden <= 1024", THREADS = 128}]

[constants]  # meaning: norm.cuh
THREADS = {}

[[launches]]
entry = "add_layer_norm"
grid = ["tokens"]
block = ["THREADS"]
args = ["x", "residual", "weight", "bias", "sum", "y", "float32 eps"]
shared_bytes = "8 * THREADS // 32"
item = "token"
*/
#include "norm.cuh"

// sum = x + residual;  y = (sum - mean) / sqrt(variance + eps) * weight + bias   [tokens, HIDDEN]
// A block has one token.
extern "C" __global__ void __launch_bounds__(THREADS)
add_layer_norm(const T* x_gmem, const T* residual_gmem, const T* weight_gmem, const T* bias_gmem, T* sum_gmem,
               T* y_gmem, float eps PROBE_PARAM) {
  DYNAMIC_SMEM(float, parts_smem);  // two rows of one number per warp
  const int token = blockIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(token, token);
  float row[PIECES][X] = {};
  FOR_PIECES(p) {
    const size_t at = (size_t)token * HIDDEN + PIECE(p) * X;
    PROBE_LOAD(x_gmem, at, 16, token);
    unpack(ldg<float4>(&x_gmem[at]), row[p]);
  }
  add_residual(residual_gmem, sum_gmem, token, row PROBE_PASS);
  layer_norm(row, weight_gmem, bias_gmem, y_gmem, token, eps, parts_smem PROBE_PASS);
}
