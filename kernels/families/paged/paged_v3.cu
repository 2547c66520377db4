/*
title = "PagedAttention V3"
idea = """all pages of all sequences form one line, cut into equal ranges, one for each block. One warp of the block \
requests pages by bulk copies, far ahead, and the tensor cores multiply the arrived pages."""
changed_from = "paged_v2"
changed = """a list of work instead of partitions, so that every multiprocessor reads as much as the others. A KV \
head's page is read once for all query heads of its group. The last block to end merges, in the same launch."""
costs = """a plan on the host for every step. Partial results of divided sequences go through global memory. The \
tensor cores' rows are seldom full."""
limits = """one query per sequence. fp16 or bf16, the cache also in fp8 (e4m3). HEAD_DIM 64 or 128. BLOCK_SIZE 8 to \
64. At most 16 query heads for a KV head."""
source = """Kwon et al. 2023, arXiv:2309.06180. FlashInfer, Ye et al. 2025, arXiv:2501.01005 (plan and merge). Dao et \
al. 2023, \"Flash-Decoding\". PTX ISA 8.0, cp.async.bulk, mbarrier, movmatrix."""
family = "paged"
problem = "ranges"
rung = 5
requires = "sm_90 for cp.async.bulk and mbarrier"
tensor_products = 1
tuned = [  # the fastest choice on an H200 has about 96 KB in shared memory or on their way
  {when = "head_dim * C_BYTES <= 128", STAGES = 6},
  {when = "head_dim * C_BYTES <= 128 and GROUP <= 8", WARPS = 8, STAGES = 3}]
constants.WARPS = {default = 4, values = [4, 8], meaning = "warps that multiply. Each takes 16 tokens of a stage."}
constants.STAGES = {default = 3, values = [2, 3, 4, 6, 8], meaning = """\
  stages in shared memory or on their way, with 16 tokens for each of these warps"""}
scratch."m_part, l_part" = {shape = ["max(1, slots)", "num_heads"], axes = ["slot", "head"]}
scratch.o_part = {shape = ["max(1, slots)", "num_heads", "head_dim"], axes = ["slot", "head", "dim"]}

[scratch.arrived]
shape = ["num_seqs", "num_kv_heads"]
axes = ["sequence", "kv_head"]
dtype = "int32"
initial = "restored"

[[conditions]]
must = "WARPS == 4 or GROUP <= 8 or head_dim == 64"
message = """Eight warps leave each thread 168 registers, too few for {GROUP} query heads of {head_dim} numbers. \
  Choose WARPS=4."""

[[launches]]
entry = "paged_v3"
item = "range"
blocks_per_item = "num_kv_heads"
grid = ["range_count * num_kv_heads"]
block = ["32 * WARPS + 32"]
shared_bytes = """STAGES * (32 * WARPS * head_dim * C_BYTES + 144) + 16 + 64 * WARPS * ceil_div(GROUP, 8) + 4 * WARPS \
  * GROUP * (head_dim + 4)"""
args = [
  "q", "k_cache", "v_cache", "block_tables", "units", "alibi_slopes", "k_scale", "v_scale", "m_part", "l_part",
  "o_part", "arrived", "o", "lse",
  {struct = [
    "int32 num_kv_heads", "int32 max_blocks_per_seq", "int32 window",
    "int32 unchanged_bytes // (range_count * num_kv_heads * 32 * WARPS * head_dim * C_BYTES)", "float32 scale",
    "float32 soft_cap",
  ]},
]
*/
#include "ranges.cuh"

// O = softmax(scale * q . K) @ V   [num_seqs, kv_heads * GROUP, HEAD_DIM], and lse, the natural logarithm of each row's
// sum. Block b computes one KV head's part, b % kv_heads, of the range b / kv_heads.
//   Q_gmem, O_gmem        [num_seqs, kv_heads * GROUP, HEAD_DIM];  LSE_gmem  [num_seqs, kv_heads * GROUP]
//   K_gmem                [num_blocks, kv_heads, HEAD_DIM / X, BLOCK_SIZE, X]
//   V_gmem                [num_blocks, kv_heads, HEAD_DIM, BLOCK_SIZE]
//   block_tables_gmem     [num_seqs, max_blocks];  units_gmem  [units, 8], see Unit
//   slopes_gmem           [kv_heads * GROUP];  k_scale_gmem, v_scale_gmem  [kv_heads]
//   m_part_gmem, l_part_gmem  [slots, kv_heads * GROUP];  o_part_gmem  [slots, kv_heads * GROUP, HEAD_DIM]
//   arrived_gmem          [num_seqs, kv_heads], partial results so far, zeros before and after
extern "C" __global__ void __launch_bounds__(THREADS + 32, 1)
paged_v3(const T* Q_gmem, const C* K_gmem, const C* V_gmem, const int* block_tables_gmem, const int* units_gmem,
         const float* slopes_gmem, const float* k_scale_gmem, const float* v_scale_gmem, float* m_part_gmem,
         float* l_part_gmem, float* o_part_gmem, int* arrived_gmem, T* O_gmem, float* LSE_gmem,
         const __grid_constant__ Sizes z PROBE_PARAM) {
  SWIZZLED_SMEM(unsigned char, ring_smem);  // [STAGES, STAGE]
  Shared<OneSequence>& s = *reinterpret_cast<Shared<OneSequence>*>(ring_smem + STAGES * STAGE);
  const int warp = warp_uniform(threadIdx.x / 32), kv_head = blockIdx.x % z.kv_heads, range = blockIdx.x / z.kv_heads;
  PROBE_BEGIN();
  if (warp == WARPS) PROBE_ROLE(producer);
  if (warp < WARPS) PROBE_ROLE(consumer);
  PROBE_MARK(read_list, range);
  const OwnPages list = {units_gmem};
  const Unit u = load_unit(list, range PROBE_PASS);  // it arrives during the setup of the barriers
  if (threadIdx.x == THREADS) set_up(s.full, s.empty);
  __syncthreads();
  if (warp == WARPS) {
    bring_pages(K_gmem, V_gmem, block_tables_gmem, list, z, s.full, s.empty, ring_smem, kv_head, u PROBE_PASS);
    return;
  }
  float k_scale = 1.f, v_scale = 1.f;
#if FP8
  PROBE_LOAD(k_scale_gmem, kv_head, 4);
  k_scale = ldg<float>(&k_scale_gmem[kv_head]);
  PROBE_LOAD(v_scale_gmem, kv_head, 4);
  v_scale = ldg<float>(&v_scale_gmem[kv_head]);
#endif
  const Results out = {m_part_gmem, l_part_gmem, o_part_gmem, arrived_gmem, O_gmem, LSE_gmem};
  multiply(Q_gmem, list, slopes_gmem, z, s, ring_smem, out, kv_head, k_scale, v_scale, u PROBE_PASS);
}
