/*
title = "Residual and RMSNorm in one kernel"
idea = "a row stays in the registers of its block between the addition and the norm, so the sum is never read back."
changed_from = "add_rms_norm_separate"
changed = "one launch in place of two. The sum is written as before, and the norm takes it from registers."
costs = "a row has to fit into the registers of one block."
limits = "fp32, fp16 or bf16. HIDDEN is a multiple of 8, at most 16,384."
source = """vLLM's fused_add_rms_norm, which rounds the sum and reads it back. Zhang, Sennrich 2019, "Root Mean Square \
Layer Normalization", arXiv:1910.07467."""
family = "fusion"
problem = "norm"
rung = 2
tuned = [{when = "hidden > 2048", THREADS = 512}, {when = "hidden <= 1024", THREADS = 128}]

[constants]  # meaning: norm.cuh
THREADS = {}

[[launches]]
entry = "add_rms_norm"
grid = ["tokens"]
block = ["THREADS"]
args = ["x", "residual", "weight", "sum", "y", "float32 eps"]
shared_bytes = "4 * THREADS // 32"
item = "token"
*/
#include "norm.cuh"

// sum = x + residual;  y = sum / sqrt(mean of sum^2 + eps) * weight   [tokens, HIDDEN]
// A block has one token.
extern "C" __global__ void __launch_bounds__(THREADS)
add_rms_norm(const T* x_gmem, const T* residual_gmem, const T* weight_gmem, T* sum_gmem, T* y_gmem,
             float eps PROBE_PARAM) {
  DYNAMIC_SMEM(float, parts_smem);  // one number per warp
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
  rms_norm(row, weight_gmem, y_gmem, token, eps, parts_smem PROBE_PASS);
}
