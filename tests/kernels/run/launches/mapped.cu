/*
title = "Mapped"
idea = """every way to launch at once: a cluster, a tensor map and a struct. Not attention: O = scale * Q + the \
block's rank in its cluster."""
changed = "nothing. It is a test of launches."
costs = "one copy of Q."
limits = "head_dim 32."
source = "CUDA C++ Programming Guide, sections on clusters and on the tensor memory accelerator."
family = "dense"
requires = "sm_90"

[constants.ROWS]
default = 16
values = [16, 32]
meaning = "rows of Q per block"

[[launches]]
entry = "mapped"
grid = ["2 * ceil_div(seq_len, 2 * ROWS)", "batch * num_heads"]
block = ["HEAD_DIM"]
shared_bytes = "4 * ROWS * HEAD_DIM"
args = [
  {map = "q", box = [1, 1, "ROWS", "HEAD_DIM"]}, "o",
  {struct = ["int32 seq_len", "int32 num_heads", "float64 scale"]},
]
item = "rows"
cluster = [2]
*/
#include "common.cuh"
struct alignas(64) Map { unsigned char bytes[128]; };
struct Sizes { int seq_len, num_heads; double scale; };

// Q_map: [batch, num_heads, seq_len, HEAD_DIM], in boxes of ROWS rows;  O_gmem [batch, num_heads, seq_len, HEAD_DIM]
extern "C" __global__ void mapped(const __grid_constant__ Map Q_map, float* O_gmem, Sizes sizes PROBE_PARAM) {
  DYNAMIC_SMEM(float, Q_smem);  // [ROWS, HEAD_DIM]
  __shared__ alignas(8) unsigned long long full;
  const int batch = blockIdx.y / sizes.num_heads, head = blockIdx.y % sizes.num_heads, first = blockIdx.x * ROWS;
  PROBE_BEGIN();
  PROBE_MARK(copy, first);
  const unsigned barrier = (unsigned)__cvta_generic_to_shared(&full), to = (unsigned)__cvta_generic_to_shared(Q_smem);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\n fence.proxy.async.shared::cta;" ::"r"(barrier) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(4 * ROWS * HEAD_DIM)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4, %5}], [%6];"
                 ::"r"(to), "l"(&Q_map), "r"(0), "r"(first), "r"(head), "r"(batch), "r"(barrier) : "memory");
  }
  __syncthreads();
  asm volatile("{\n .reg .pred done;\n again: mbarrier.try_wait.parity.shared.b64 done, [%0], 0;\n"
               " @!done bra again;\n}" ::"r"(barrier) : "memory");
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  for (int row = 0; row < ROWS && first + row < sizes.seq_len; ++row) {
    const size_t at = ((size_t)blockIdx.y * sizes.seq_len + first + row) * HEAD_DIM + threadIdx.x;
    PROBE_STORE(O_gmem, at, 4);
    stg<float>(&O_gmem[at], (float)sizes.scale * Q_smem[row * HEAD_DIM + threadIdx.x] + (float)rank);
  }
}
