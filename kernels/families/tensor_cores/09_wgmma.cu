/*
title = "FlashAttention with Hopper's copies and products"
idea = """one thread requests a whole tile from the copy engine (TMA). A warpgroup multiplies 64 rows in one \
instruction, and the tensor cores fetch its operands from shared memory themselves (wgmma)."""
changed_from = "08_pipeline"
changed = """one thread requests tiles in place of copies by all threads, and a barrier in shared memory counts their \
bytes. Products have 64 rows by four warps, which name tiles and load nothing."""
costs = """all threads wait for each other at the end of every tile, before a request for the next tile but one. \
Products and softmax take turns."""
limits = "fp16 or bf16. HEAD_DIM 64, 128 or 256. Only sm_90a. One block per multiprocessor."
source = """Shah et al. 2024, "FlashAttention-3", arXiv:2407.08608. PTX ISA 8.0, sections on wgmma, mbarrier and \
cp.async.bulk.tensor."""
family = "tensor_cores"
rung = 9
requires = "sm_90a for wgmma"
tensor_products = 1
tuned = [{when = "head_dim == 64 and min(seq_len, keys) >= 2048", BLOCK_Q = 192, BLOCK_KV = 96},  # fit long sequences
  {when = "head_dim == 256", BLOCK_KV = 64}]
constants."BLOCK_Q, BLOCK_KV" = {}  # meaning and effect: wgmma_tiles.cuh, fragments.cuh, common.cuh
constants.STAGES = {values = [1, 2]}
constants."SUBTRACT_MAX, RESCALE, V_STRIDE" = {}

[[conditions]]
must = "head_dim < 256 or (BLOCK_KV == 64 and BLOCK_Q < 192)"
message = """Heads of 256 numbers leave room for tiles of 64 keys and at most 128 queries, not {BLOCK_KV} and \
  {BLOCK_Q}. Choose BLOCK_KV=64 and BLOCK_Q=128."""

[[conditions]]
must = "head_dim < 128 or BLOCK_Q < 192 or BLOCK_KV == 64"
message = """Three warpgroups have 168 registers for each thread. With heads of {head_dim} numbers they hold tiles of \
  64 keys, not {BLOCK_KV}. Choose BLOCK_KV=64 or BLOCK_Q=128."""

[[launches]]
entry = "flash"
grid = ["ceil_div(seq_len, BLOCK_Q)", "batch * num_heads"]
block = ["2 * BLOCK_Q"]
shared_bytes = "2 * (BLOCK_Q + 2 * STAGES * BLOCK_KV) * head_dim + 8 * (1 + 2 * STAGES)"
args = [{map = "q", box = {batch = 1, head = 1, query = "BLOCK_Q", dim = 64}, swizzle = 128},
  {map = "k", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  {map = "v", box = {batch = 1, head = 1, key = "BLOCK_KV", dim = 64}, swizzle = 128},
  "o", "lse", {struct = ["int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys", "int32 offset",
  "int32 q_row", "int32 q_head", "int32 kv_row", "int32 kv_head", "float32 scale"]}]
item = "query tile"
*/
#include "wgmma_tiles.cuh"
#define THREADS (2 * BLOCK_Q)              // a warpgroup for every 64 rows

// The arguments of the kernel apart from its tensors
struct Sizes {
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  float scale;
};

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head, and lse, the logarithm of each row's sum.
//   Q_map, O_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_map, V_map  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len]
extern "C" __global__ void __launch_bounds__(THREADS, 1)
flash(const __grid_constant__ TensorMap Q_map, const __grid_constant__ TensorMap K_map,
      const __grid_constant__ TensorMap V_map, T* O_gmem, float* LSE_gmem,
      const __grid_constant__ Sizes z PROBE_PARAM) {
  SWIZZLED_SMEM(T, smem);
  T* Q_smem = smem;                          // [PANELS, BLOCK_Q, 64]
  T* K_smem = Q_smem + BLOCK_Q * HEAD_DIM;   // [STAGES, PANELS, BLOCK_KV, 64]
  T* V_smem = K_smem + STAGES * TILE;        // [STAGES, PANELS, BLOCK_KV, 64]
  Barrier* Q_full = reinterpret_cast<Barrier*>(V_smem + STAGES * TILE);
  Barrier *K_full = Q_full + 1, *V_full = K_full + STAGES;  // [STAGES]
  const int group_row = threadIdx.x / 128 * 64, warp_row = threadIdx.x / 32 * 16, first_row = blockIdx.x * BLOCK_Q;
  const int batch = blockIdx.y / z.num_heads, head = blockIdx.y % z.num_heads, kv = head / (z.num_heads / z.kv_heads);
  const HeadStart start(z, batch, head);
  const int seen = CAUSAL ? min(z.keys, min(first_row + BLOCK_Q, z.seq_len) + z.offset) : z.keys;
  const int open = CAUSAL ? min(z.keys, first_row + group_row + z.offset + 1) : z.keys;  // visible to all its rows
  PROBE_BEGIN();
  auto fragment = [&](int tile) { return Fragment(first_row + warp_row, tile, z); };
  if (threadIdx.x == 0) {
    barrier_init(Q_full, 1);
    for (int stage = 0; stage < STAGES; ++stage) barrier_init(&K_full[stage], 1), barrier_init(&V_full[stage], 1);
    barrier_init_done();
  }
  __syncthreads();
#ifdef PROBED
  const T *const Q_gmem = nullptr, *const K_gmem = nullptr, *const V_gmem = nullptr;  // only probes name them
#endif

  // One thread requests a tile, if one is left. Rows after the last key come as zeros.
  auto fetch = [&](int tile) {
    const int first_col = tile * BLOCK_KV, stage = tile % STAGES;
    if (first_col >= seen) return;
    PROBE_MARK(prefetch_tile, tile);
    if (threadIdx.x > 0) return;
    barrier_expect(&K_full[stage], TILE * 2);
    for (int panel = 0; panel < PANELS; ++panel) {
      const int to = stage * TILE + panel * BLOCK_KV * 64;
      PROBE_TMA(K_gmem, start.kv + (long long)first_col * z.kv_row + panel * 64, BLOCK_KV * 128, tile);
      PROBE_TMA_SMEM(K_smem, to, BLOCK_KV * 128, tile);
      tma_load(&K_smem[to], &K_map, &K_full[stage], panel * 64, first_col, kv, batch);
    }
    barrier_expect(&V_full[stage], TILE * 2);
    for (int panel = 0; panel < PANELS; ++panel) {
      const int to = stage * TILE + panel * BLOCK_KV * 64;
      PROBE_TMA(V_gmem, start.kv + (long long)first_col * z.kv_row + panel * 64, BLOCK_KV * 128, tile);
      PROBE_TMA_SMEM(V_smem, to, BLOCK_KV * 128, tile);
      tma_load(&V_smem[to], &V_map, &V_full[stage], panel * 64, first_col, kv, batch);
    }
  };

  PROBE_MARK(load_q, first_row);
  if (threadIdx.x == 0) {
    barrier_expect(Q_full, BLOCK_Q * HEAD_DIM * 2);
    for (int panel = 0; panel < PANELS; ++panel) {
      const int to = panel * BLOCK_Q * 64;
      PROBE_TMA(Q_gmem, start.q + (long long)first_row * z.q_row + panel * 64, BLOCK_Q * 128, first_row);
      PROBE_TMA_SMEM(Q_smem, to, BLOCK_Q * 128, first_row);
      tma_load(&Q_smem[to], &Q_map, Q_full, panel * 64, first_row, head, batch);
    }
  }

  for (int tile = 0; tile < STAGES - 1; ++tile) fetch(tile);
  const unsigned long long Q_operand = rows_operand(&Q_smem[group_row * 64]);
  const unsigned long long K_operand = rows_operand(K_smem), V_operand = values_operand(V_smem);
  float S_rmem[BLOCK_KV / 2], O_rmem[HEAD_DIM / 2] = {}, m[2] = {-INFINITY, -INFINITY}, l[2] = {}, rescale[2];
  unsigned P_rmem[BLOCK_KV / 4];
  barrier_wait(Q_full, 0);
  NO_UNROLL for (int tile = 0; tile * BLOCK_KV < seen; ++tile) {
    PROBE_MARK(tile_begin, tile);
    fetch(tile + STAGES - 1);
    const int stage = tile % STAGES, parity = tile / STAGES % 2;
    const Fragment at = fragment(tile);

    // S = Q @ K^T   [64, BLOCK_KV] of this warpgroup
    PROBE_MARK(scores, tile);
    barrier_wait(&K_full[stage], parity);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(K_smem, stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_scores(S_rmem, Q_operand, operand_at(K_operand, stage * TILE * 2));
    product_wait<0>();
    settle(S_rmem);
    if ((tile + 1) * BLOCK_KV > open) hide(S_rmem, at);
    log_scores(S_rmem, at PROBE_PASS);

    PROBE_MARK(softmax, tile);
    softmax_tile(S_rmem, m, l, rescale, at PROBE_PASS);
    pack(P_rmem, S_rmem);
    rescale_rows(O_rmem, rescale);

    // O += P @ V   [64, HEAD_DIM]
    PROBE_MARK(output, tile);
    barrier_wait(&V_full[stage], parity);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(V_smem, stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_outputs(O_rmem, P_rmem, operand_at(V_operand, stage * TILE * 2));
    product_wait<0>();
    settle(O_rmem);
    log_outputs(O_rmem, at PROBE_PASS);
    __syncthreads();  // so that no tile is overwritten too early
    PROBE_MARK(tile_end, tile);
  }

  PROBE_MARK(write, first_row);
  write_rows(O_gmem, LSE_gmem, start, z.q_row, O_rmem, m, l, fragment(0) PROBE_PASS);
}
