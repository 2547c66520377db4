/*
title = "Block-sparse FlashAttention on Hopper"
idea = """the producer walks the list of each block of queries and requests only the tiles on it. The tensor cores and \
the exponentials overlap as in the dense kernel, and full blocks have no mask code."""
changed_from = "11_overlap"
changed = """the producer reads lists. It skips query tiles without blocks, and warps that would be idle write their \
zeros. A pattern of bits masks a partial block. m and l may start with a sink."""
costs = "the lists are read in addition to K and V. A block with one visible pair costs as much as a full one."
limits = """fp16 or bf16. HEAD_DIM 64, 128 or 256. Tiles are the lists' blocks, of 64, 128 or 192 queries and 64 or \
128 keys. Only sm_90a."""
source = "11_overlap's. torch.nn.attention.flex_attention.BlockMask, the origin of these lists."
family = "sparse"
problem = "blocks"
requires = "sm_90a for wgmma"
tensor_products = 1
tuned = [{when = "head_dim == 256", Q_STAGES = 1}]
scratch.counter = {shape = [1], axes = ["count"], dtype = "int32", initial = "restored"}
# constants: meaning and effect in overlap.cuh, warp_roles.cuh, wgmma_tiles.cuh, sparse.cuh, common.cuh
constants."STAGES, Q_STAGES, MULTIPROCESSORS, PING_PONG, SUBTRACT_MAX, RESCALE, V_STRIDE, PATTERNS" = {}

[[conditions]]
must = "block_q >= 64 and block_kv >= 64"
message = """This kernel's tiles have 64, 128 or 192 queries and 64 or 128 keys, not {block_q} and {block_kv}. Choose \
  block_q=128 and block_kv=128, or another kernel."""

[[conditions]]
must = "head_dim < 256 or (block_kv == 64 and block_q < 192 and Q_STAGES == 1)"
message = """Heads of 256 numbers leave room for one stage of at most 128 queries and tiles of 64 keys, not \
  {Q_STAGES}, {block_q} and {block_kv}. Choose block_q=128, block_kv=64 and Q_STAGES=1."""

[[conditions]]
must = "head_dim < 128 or block_q < 192 or block_kv == 64"
message = """Three warpgroups have 152 registers for each thread. With heads of {head_dim} numbers they hold tiles of \
  64 keys, not {block_kv}. Choose block_kv=64 or block_q=128."""

[[launches]]
entry = "flash"
item = "query tile"
grid = ["min(MULTIPROCESSORS, query_blocks * batch * num_heads)"]
block = ["2 * block_q + 128"]
shared_bytes = "2 * (Q_STAGES * block_q + 2 * STAGES * block_kv) * head_dim + 8 * (4 * Q_STAGES + 4 * STAGES)"
args = [
  {map = "q", box = {batch = 1, head = 1, query = "block_q", dim = 64}, swizzle = 128},
  {map = "k", box = {batch = 1, head = 1, key = "block_kv", dim = 64}, swizzle = 128},
  {map = "v", box = {batch = 1, head = 1, key = "block_kv", dim = 64}, swizzle = 128},
  "o", "lse", "counter", "sink", "kv_num_blocks", "kv_indices", "kv_patterns", "full_kv_num_blocks", "full_kv_indices",
  "patterns",
  {struct = [
    "int32 query_blocks * batch * num_heads", "int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys",
    "int32 offset", "int32 q_row", "int32 q_head", "int32 kv_row", "int32 kv_head", "int32 query_blocks",
    "int32 key_blocks", "int32 mask_count", "float32 scale",
  ]},
]
*/
#include "overlap.cuh"
#include "sparse.cuh"

// The arguments of the kernel apart from its tensors
struct Sizes {
  int query_tiles;  // of all heads
  int num_heads, kv_heads, seq_len, keys, offset, q_row, q_head, kv_row, kv_head;
  int query_blocks, key_blocks, mask_count;
  float scale;
};

// The number of blocks in the list of a query tile, and of partial ones. Only the producer and clearing warps read it.
struct Counts {
  int partial, all;
  __device__ __forceinline__ Counts(const int* kv_num_blocks_gmem, const int* full_kv_num_blocks_gmem,
                                    const List& list PROBE_REF) {
    PROBE_LOAD(kv_num_blocks_gmem, list.row, 4);
    partial = ldg<int>(&kv_num_blocks_gmem[list.row]);
    PROBE_LOAD(full_kv_num_blocks_gmem, list.row, 4);
    all = partial + ldg<int>(&full_kv_num_blocks_gmem[list.row]);
  }
};

// O = softmax(scale * Q @ K^T) @ V   [seq_len, HEAD_DIM] of each head over the blocks of its lists, and lse.
//   Q_map, O_gmem  [batch, num_heads, seq_len, HEAD_DIM];  K_map, V_map  [batch, kv_heads, keys, HEAD_DIM]
//   LSE_gmem  [batch, num_heads, seq_len];  counter_gmem  [1] query tiles given out, from 0 to all, then 0 again
//   sink_gmem  [num_heads];  lists: sparse.cuh
extern "C" __global__ void __launch_bounds__(THREADS, 1)
flash(const __grid_constant__ TensorMap Q_map, const __grid_constant__ TensorMap K_map,
      const __grid_constant__ TensorMap V_map, T* O_gmem, float* LSE_gmem, int* counter_gmem,
      const float* sink_gmem, const int* kv_num_blocks_gmem, const int* kv_indices_gmem, const int* kv_patterns_gmem,
      const int* full_kv_num_blocks_gmem, const int* full_kv_indices_gmem, const int* patterns_gmem,
      const __grid_constant__ Sizes z PROBE_PARAM) {
  SWIZZLED_SMEM(T, smem);
  const Rings rings(smem);
  T *const Q_smem = rings.Q_smem, *const K_smem = rings.K_smem, *const V_smem = rings.V_smem;
  const int warpgroup = warp_uniform(threadIdx.x / 128);
  PROBE_BEGIN();
  rings.init_barriers();
  Turn<Q_STAGES> Q_turn;

  auto list_of = [&](int number) { return List(z, number % z.query_blocks, number / z.query_blocks); };

  if (warpgroup == 0 && threadIdx.x >= 32) {  // these three warps write the rows without keys
    if (WARPGROUPS > 1) give_registers<WARPGROUPS == 3 ? 56 : 40>();
    PROBE_ROLE(clearing);
    NO_UNROLL for (int number = blockIdx.x; number < z.query_tiles; number += gridDim.x) {
      const List list = list_of(number);
      if (Counts(kv_num_blocks_gmem, full_kv_num_blocks_gmem, list PROBE_PASS).all) continue;
      const int any_head = number / z.query_blocks, first_row = number % z.query_blocks * BLOCK_Q;
      const HeadStart start(z, any_head / z.num_heads, any_head % z.num_heads);
      PROBE_MARK(write, first_row);
      NO_UNROLL for (int i = (threadIdx.x - 32) * 8; i < BLOCK_Q * HEAD_DIM; i += 96 * 8) {
        const int row = first_row + i / HEAD_DIM;
        const long long to = start.q + (long long)row * z.q_row + i % HEAD_DIM;
        if (row >= z.seq_len) break;
        const float4 zeros = make_float4(0.f, 0.f, 0.f, 0.f);
        PROBE_STORE(O_gmem, to, 16);
        stg<float4>(&O_gmem[to], zeros);
        if (i % HEAD_DIM) continue;
        PROBE_LOAD(sink_gmem, any_head % z.num_heads, 4);
        const float sink = ldg<float>(&sink_gmem[any_head % z.num_heads]);
        PROBE_STORE(LSE_gmem, start.lse + row, 4);
        stg<float>(&LSE_gmem[start.lse + row], sink);
      }
    }
    return;
  }
  if (warpgroup == 0) {
    if (WARPGROUPS > 1) give_registers<WARPGROUPS == 3 ? 56 : 40>();
    if (threadIdx.x > 0) return;
    PROBE_ROLE(producer);
    Turn<STAGES> turn;
    // The work of a number, or of the next one with work: tiles in the lower half, partial ones in the upper
    auto work_at = [&](int number) {
      NO_UNROLL for (; number < z.query_tiles; number = gridDim.x + atomic_next(counter_gmem, z.query_tiles - 1)) {
        const Counts counts(kv_num_blocks_gmem, full_kv_num_blocks_gmem, list_of(number) PROBE_PASS);
        const int any_head = number / z.query_blocks, first_row = number % z.query_blocks * BLOCK_Q;
        const int head = any_head % z.num_heads, batch = any_head / z.num_heads;
        if (counts.all) return Work{first_row, head, batch, counts.all | counts.partial << 16};
      }
      return Work{};
    };
    Work work = work_at(blockIdx.x);
    NO_UNROLL for (; work.tiles; Q_turn.next()) {
      const int next = gridDim.x + atomic_next(counter_gmem, z.query_tiles - 1);
      const int kv = work.head / (z.num_heads / z.kv_heads);
      load_queries(rings, Q_map, Q_turn, work, z PROBE_PASS);
      const List list(z, work.first_row / BLOCK_Q, work.batch * z.num_heads + work.head);
      const int count = work.tiles & 0xffff, partial = work.tiles >> 16;
      auto entry = [&](int n) {  // the entry's block of keys
        if (n < partial) {
          PROBE_LOAD(kv_indices_gmem, list.first + n, 4);
          return ldg<int>(&kv_indices_gmem[list.first + n]);
        }
        PROBE_LOAD(full_kv_indices_gmem, list.first + n - partial, 4);
        return ldg<int>(&full_kv_indices_gmem[list.first + n - partial]);
      };
      int tile = entry(0), following = 0;
      NO_UNROLL for (int n = 0; n < count; ++n, tile = following, turn.next()) {
        if (n + 1 < count) following = entry(n + 1);
        load_tile(rings, K_map, V_map, turn, tile, kv, work, z PROBE_PASS);
      }
      work = work_at(next);
    }
    end_work(rings, Q_turn PROBE_PASS);
    return;
  }

  if (WARPGROUPS > 1) take_registers<WARPGROUPS == 3 ? 152 : 232>();
  PROBE_ROLE(consumer);
  const int group_row = (warpgroup - 1) * 64, warp_row = group_row + threadIdx.x / 32 % 4 * 16;
  const unsigned long long Q_operand = rows_operand(&Q_smem[group_row * 64]);
  const unsigned long long K_operand = rows_operand(K_smem), V_operand = values_operand(V_smem);
  float S_rmem[BLOCK_KV / 2], O_rmem[HEAD_DIM / 2], m[2], l[2], rescale[2];
  unsigned P_rmem[BLOCK_KV / 4];
  Turn<STAGES> K_turn, V_turn;
  auto block_of = [&](const List& list, int partial, int n) {  // the entry's block of keys, only for probes
    return n < partial ? kv_indices_gmem[list.first + n] : full_kv_indices_gmem[list.first + n - partial];
  };
  // S = Q @ K^T   [64, BLOCK_KV] of this warpgroup
  auto multiply_keys = [&](int tile) {
    PROBE_MARK(scores, tile);
    const unsigned long long q = operand_at(Q_operand, Q_turn.stage * BLOCK_Q * HEAD_DIM * 2);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(K_smem, K_turn.stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_scores(S_rmem, q, operand_at(K_operand, K_turn.stage * TILE * 2));
  };
  // O += P @ V   [64, HEAD_DIM]
  auto multiply_values = [&](int tile) {
    PROBE_MARK(output, tile);
    barrier_wait(&rings.V_full[V_turn.stage], V_turn.parity);
    if (threadIdx.x % 128 == 0) PROBE_PRODUCT(V_smem, V_turn.stage * TILE, BLOCK_KV * HEAD_DIM * 2, tile);
    start_outputs(O_rmem, P_rmem, operand_at(V_operand, V_turn.stage * TILE * 2));
  };
  auto start_query_tile = [&]() {
    const Work work = next_work(rings, Q_turn PROBE_PASS);
    if (work.tiles) barrier_wait(&rings.K_full[K_turn.stage], K_turn.parity);
    const List list(z, work.first_row / BLOCK_Q, work.batch * z.num_heads + work.head);
    // Unread after the last query tile, but an `if` would make ptxas wait after every product.
    multiply_keys(work.tiles ? block_of(list, work.tiles >> 16, 0) : 0);
    return work;
  };
  NO_UNROLL for (Work work = start_query_tile(); work.tiles;) {
    const int first_row = work.first_row, count = work.tiles & 0xffff, partial = work.tiles >> 16;
    const List list(z, first_row / BLOCK_Q, work.batch * z.num_heads + work.head);
    auto fragment = [&](int tile) { return Fragment(first_row + warp_row, tile, z); };
    UNROLL for (int i = 0; i < HEAD_DIM / 2; ++i) O_rmem[i] = 0.f;
    PROBE_LOAD(sink_gmem, work.head, 4);
    start_rows(m, l, ldg<float>(&sink_gmem[work.head]), z.scale);
    auto take_scores = [&](int n) {
      const int tile = block_of(list, partial, n);
      PROBE_MARK(scores_done, tile);
      settle(S_rmem);
      release(&rings.K_free[K_turn.stage]), K_turn.next();
      if (PATTERNS && n < partial) {
        PROBE_LOAD(kv_patterns_gmem, list.first + n, 4);
        const int number = ldg<int>(&kv_patterns_gmem[list.first + n]);
        hide_unseen(S_rmem, Pattern(patterns_gmem, number, warp_row + threadIdx.x % 32 / 4 PROBE_PASS));
      }
      PROBE_MARK(softmax, tile);
      softmax_shown(S_rmem, m, l, rescale, fragment(tile) PROBE_PASS);
    };
    auto take_outputs = [&](int n) {
      const int tile = block_of(list, partial, n);
      PROBE_MARK(output_done, tile);
      settle(O_rmem);
      release(&rings.V_free[V_turn.stage]), V_turn.next();
      log_outputs(O_rmem, fragment(tile) PROBE_PASS);
      PROBE_MARK(tile_end, tile);
    };
    const PingPong ping_pong = PingPong::open(PING_PONG, warpgroup, count);
    int tile = block_of(list, partial, 0), before = tile;
    PROBE_MARK(tile_begin, tile);
    product_wait<0>();
    take_scores(0);
    pack(P_rmem, S_rmem);
    NO_UNROLL for (int n = 1; n < count; ++n) {
      before = tile, tile = block_of(list, partial, n);
      PROBE_MARK(tile_begin, tile);
      barrier_wait(&rings.K_full[K_turn.stage], K_turn.parity);
      ping_pong.wait();
      multiply_keys(tile);
      multiply_values(before);
      ping_pong.pass(n + 1 < count);
      product_wait<1>();
      take_scores(n);
      keep_order(S_rmem, &rings.V_full[V_turn.stage], V_turn.parity);
      product_wait<0>();
      take_outputs(n - 1);
      pack(P_rmem, S_rmem);
      rescale_moved_rows(O_rmem, rescale);
    }
    release(&rings.Q_free[Q_turn.stage]), Q_turn.next();
    multiply_values(tile);
    const Work next = start_query_tile();
    product_wait<1>();
    take_outputs(count - 1);

    PROBE_MARK(write, first_row);
    const HeadStart start(z, work.batch, work.head);
    write_rows(O_gmem, LSE_gmem, start, z.q_row, O_rmem, m, l, fragment(0) PROBE_PASS);
    work = next;
  }
  product_wait<0>();
}
