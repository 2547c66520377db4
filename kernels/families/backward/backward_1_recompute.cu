/*
title = "Backward, recomputed"
idea = """the forward stored no P, only lse, one number a row. P = exp(S - lse) comes back from Q and K whenever a \
gradient needs it. One launch for each gradient, so each thread adds up its own sums."""
changed = "nothing, this is the baseline of the backward."
costs = """S is computed three times and dP twice: 8 products instead of 5. Every row reads all rows of the other side \
from global memory."""
limits = "fp32. HEAD_DIM 32, 64 or 128."
source = """Dao et al. 2022, "FlashAttention", arXiv:2205.14135, appendix B: the backward recomputes P from the \
statistics of the softmax."""
family = "backward"
rung = 1
scratch.delta = {shape = ["batch", "num_heads", "seq_len"], axes = ["batch", "head", "query"]}

[constants]
WARPS = {default = 8, values = [2, 4, 8], meaning = "rows of a block, a warp for each"}

[[launches]]
entry = "delta"
grid = ["ceil_div(seq_len, WARPS)", "batch * num_heads"]
block = ["32 * WARPS"]
args = ["o", "do", "delta", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
  "int32 kv_row", "int32 kv_head", "float32 scale",
]}]
item = "query tile"

[[launches]]
entry = "value_gradients"
grid = ["ceil_div(keys, WARPS)", "batch * kv_heads"]
block = ["32 * WARPS"]
args = ["q", "k", "lse", "do", "dv", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
  "int32 kv_row", "int32 kv_head", "float32 scale",
]}]
item = "key tile"

[[launches]]
entry = "key_gradients"
grid = ["ceil_div(keys, WARPS)", "batch * kv_heads"]
block = ["32 * WARPS"]
args = ["q", "k", "v", "lse", "do", "delta", "dk", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
  "int32 kv_row", "int32 kv_head", "float32 scale",
]}]
item = "key tile"

[[launches]]
entry = "query_gradients"
grid = ["ceil_div(seq_len, WARPS)", "batch * num_heads"]
block = ["32 * WARPS"]
args = ["q", "k", "v", "lse", "do", "delta", "dq", {struct = [
  "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset", "int32 q_row", "int32 q_head",
  "int32 kv_row", "int32 kv_head", "float32 scale",
]}]
item = "query tile"
*/
#include "backward.cuh"
#define DIMS (HEAD_DIM / 32)  // dims of a gradient for one lane: every 32nd

// P = exp(scale * q . k - lse) of a query and a key
__device__ __forceinline__ float weight(const float* Q_gmem, const float* K_gmem, const float* LSE_gmem, const Sizes& z,
                                        const Head& head, int row, int col PROBE_REF) {
  const long long q = head.q + (long long)row * z.q_row, k = head.kv + (long long)col * z.kv_row;
  float dot = 0.f;
  for (int part = 0; part < HEAD_DIM; part += 32) {  // 32 dims at a time, because shorter sums round less
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int d = part; d < part + 32; d += 4) {
      PROBE_LOAD(Q_gmem, q + d, 16);
      const float4 q4 = ldg<float4>(&Q_gmem[q + d]);
      PROBE_LOAD(K_gmem, k + d, 16);
      sum = fma4(q4, ldg<float4>(&K_gmem[k + d]), sum);
    }
    dot += add4(sum);
  }
  const float score = z.scale * dot;
  PROBE_VALUE(score, row, col, score);
  PROBE_LOAD(LSE_gmem, head.row + row, 4);
  const float p = expf(score - ldg<float>(&LSE_gmem[head.row + row]));
  PROBE_VALUE(p, row, col, p);
  return p;
}

// dS = P * (dP - delta) of a query and a key, with dP = do . v
__device__ __forceinline__ float score_gradient(float p, const float* V_gmem, const float* dO_gmem,
                                                const float* DELTA_gmem, const Sizes& z, const Head& head, int row,
                                                int col PROBE_REF) {
  const long long q = head.q + (long long)row * z.q_row, k = head.kv + (long long)col * z.kv_row;
  float dp = 0.f;
  for (int part = 0; part < HEAD_DIM; part += 32) {
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int d = part; d < part + 32; d += 4) {
      PROBE_LOAD(dO_gmem, q + d, 16);
      const float4 do4 = ldg<float4>(&dO_gmem[q + d]);
      PROBE_LOAD(V_gmem, k + d, 16);
      sum = fma4(do4, ldg<float4>(&V_gmem[k + d]), sum);
    }
    dp += add4(sum);
  }
  PROBE_VALUE(dp, row, col, dp);
  PROBE_LOAD(DELTA_gmem, head.row + row, 4);
  const float ds = p * (dp - ldg<float>(&DELTA_gmem[head.row + row]));
  PROBE_VALUE(ds, row, col, ds);
  return ds;
}

// delta = rowsum(dO * O)   [seq_len] of each head. A warp computes one row.
//   O_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  DELTA_gmem  [batch, num_heads, seq_len]
extern "C" __global__ void __launch_bounds__(32 * WARPS)
delta(const float* O_gmem, const float* dO_gmem, float* DELTA_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  const int row = blockIdx.x * WARPS + threadIdx.x / 32;
  PROBE_BEGIN();
  if (row < z.seq_len) delta_row(O_gmem, dO_gmem, DELTA_gmem, z, Head(z, blockIdx.y), row PROBE_PASS);
}

// dV = P^T @ dO   [keys, HEAD_DIM] of each KV head. A warp computes one key, 32 queries at a time, each lane the weight
// of one. Then all lanes add up the rows of dO, each its own dims.
//   Q_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, dV_gmem  [batch, kv_heads, keys, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(32 * WARPS)
value_gradients(const float* Q_gmem, const float* K_gmem, const float* LSE_gmem, const float* dO_gmem, float* dV_gmem,
                const __grid_constant__ Sizes z PROBE_PARAM) {
  const int lane = threadIdx.x % 32, col = blockIdx.x * WARPS + threadIdx.x / 32;
  PROBE_BEGIN();
  if (col >= z.keys) return;
  float dV_rmem[DIMS] = {};
  for (int query_head = blockIdx.y * z.group(); query_head < (blockIdx.y + 1) * z.group(); ++query_head) {
    const Head head(z, query_head);
    for (int first = z.first_row(col) / 32 * 32; first < z.seq_len; first += 32) {
      const int tile = first / 32, row = first + lane, count = min(32, z.seq_len - first);
      PROBE_MARK(tile_begin, tile);
      PROBE_MARK(weights, tile);
      const float p = z.sees(row, col) ? weight(Q_gmem, K_gmem, LSE_gmem, z, head, row, col PROBE_PASS) : 0.f;

      PROBE_MARK(value_sums, tile);
      for (int i = 0; i < count; ++i) {
        const float p_i = __shfl_sync(ALL_LANES, p, i);
        const long long from = head.q + (long long)(first + i) * z.q_row + lane;
        UNROLL for (int j = 0; j < DIMS; ++j) {
          PROBE_LOAD(dO_gmem, from + 32 * j, 4);
          dV_rmem[j] = fmaf(p_i, ldg<float>(&dO_gmem[from + 32 * j]), dV_rmem[j]);
        }
      }
      UNROLL for (int j = 0, dim = lane; j < DIMS; ++j, dim += 32) {
        PROBE_VALUE(dv, col, tile, dim, dV_rmem[j]);
      }
      PROBE_MARK(tile_end, tile);
    }
  }

  PROBE_MARK(write, col);
  UNROLL for (int j = 0; j < DIMS; ++j) {
    const long long to = Head(z, blockIdx.y * z.group()).kv + (long long)col * z.kv_row + lane + 32 * j;
    PROBE_STORE(dV_gmem, to, 4);
    stg<float>(&dV_gmem[to], dV_rmem[j]);
  }
}

// dK = scale * dS^T @ Q   [keys, HEAD_DIM] of each KV head, as above with dS and Q in place of P and dO
//   Q_gmem, dO_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem, dK_gmem  [batch, kv_heads, keys, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(32 * WARPS)
key_gradients(const float* Q_gmem, const float* K_gmem, const float* V_gmem, const float* LSE_gmem,
              const float* dO_gmem, const float* DELTA_gmem, float* dK_gmem,
              const __grid_constant__ Sizes z PROBE_PARAM) {
  const int lane = threadIdx.x % 32, col = blockIdx.x * WARPS + threadIdx.x / 32;
  PROBE_BEGIN();
  if (col >= z.keys) return;
  float dK_rmem[DIMS] = {};
  for (int query_head = blockIdx.y * z.group(); query_head < (blockIdx.y + 1) * z.group(); ++query_head) {
    const Head head(z, query_head);
    for (int first = z.first_row(col) / 32 * 32; first < z.seq_len; first += 32) {
      const int tile = first / 32, row = first + lane, count = min(32, z.seq_len - first);
      PROBE_MARK(tile_begin, tile);
      PROBE_MARK(score_gradients, tile);
      float ds = 0.f;
      if (z.sees(row, col)) {
        const float p = weight(Q_gmem, K_gmem, LSE_gmem, z, head, row, col PROBE_PASS);
        ds = score_gradient(p, V_gmem, dO_gmem, DELTA_gmem, z, head, row, col PROBE_PASS);
      }

      PROBE_MARK(key_sums, tile);
      for (int i = 0; i < count; ++i) {
        const float ds_i = __shfl_sync(ALL_LANES, ds, i);
        const long long from = head.q + (long long)(first + i) * z.q_row + lane;
        UNROLL for (int j = 0; j < DIMS; ++j) {
          PROBE_LOAD(Q_gmem, from + 32 * j, 4);
          dK_rmem[j] = fmaf(ds_i, ldg<float>(&Q_gmem[from + 32 * j]), dK_rmem[j]);
        }
      }
      UNROLL for (int j = 0, dim = lane; j < DIMS; ++j, dim += 32) {
        PROBE_VALUE(dk, col, tile, dim, z.scale * dK_rmem[j]);
      }
      PROBE_MARK(tile_end, tile);
    }
  }

  PROBE_MARK(write, col);
  UNROLL for (int j = 0; j < DIMS; ++j) {
    const long long to = Head(z, blockIdx.y * z.group()).kv + (long long)col * z.kv_row + lane + 32 * j;
    PROBE_STORE(dK_gmem, to, 4);
    stg<float>(&dK_gmem[to], z.scale * dK_rmem[j]);
  }
}

// dQ = scale * dS @ K   [seq_len, HEAD_DIM] of each head. A warp computes one query, 32 keys at a time.
//   Q_gmem, dO_gmem, dQ_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_gmem, V_gmem  [batch, kv_heads, keys, HEAD_DIM]
extern "C" __global__ void __launch_bounds__(32 * WARPS)
query_gradients(const float* Q_gmem, const float* K_gmem, const float* V_gmem, const float* LSE_gmem,
                const float* dO_gmem, const float* DELTA_gmem, float* dQ_gmem,
                const __grid_constant__ Sizes z PROBE_PARAM) {
  const int lane = threadIdx.x % 32, row = blockIdx.x * WARPS + threadIdx.x / 32;
  const Head head(z, blockIdx.y);
  PROBE_BEGIN();
  if (row >= z.seq_len) return;
  float dQ_rmem[DIMS] = {};
  for (int first = 0; first < z.end_col(row); first += 32) {
    const int tile = first / 32, col = first + lane, count = min(32, z.end_col(row) - first);
    PROBE_MARK(tile_begin, tile);
    PROBE_MARK(score_gradients, tile);
    float ds = 0.f;
    if (z.sees(row, col)) {
      const float p = weight(Q_gmem, K_gmem, LSE_gmem, z, head, row, col PROBE_PASS);
      ds = score_gradient(p, V_gmem, dO_gmem, DELTA_gmem, z, head, row, col PROBE_PASS);
    }

    PROBE_MARK(query_sums, tile);
    for (int i = 0; i < count; ++i) {
      const float ds_i = __shfl_sync(ALL_LANES, ds, i);
      const long long from = head.kv + (long long)(first + i) * z.kv_row + lane;
      UNROLL for (int j = 0; j < DIMS; ++j) {
        PROBE_LOAD(K_gmem, from + 32 * j, 4);
        dQ_rmem[j] = fmaf(ds_i, ldg<float>(&K_gmem[from + 32 * j]), dQ_rmem[j]);
      }
    }
    UNROLL for (int j = 0, dim = lane; j < DIMS; ++j, dim += 32) {
      PROBE_VALUE(dq, row, tile, dim, z.scale * dQ_rmem[j]);
    }
    PROBE_MARK(tile_end, tile);
  }

  PROBE_MARK(write, row);
  UNROLL for (int j = 0; j < DIMS; ++j) {
    const long long to = head.q + (long long)row * z.q_row + lane + 32 * j;
    PROBE_STORE(dQ_gmem, to, 4);
    stg<float>(&dQ_gmem[to], z.scale * dQ_rmem[j]);
  }
}
