/*
title = "PagedAttention with a shared prefix"
idea = """shared pages are read once for all query heads of their sequences, then each sequence's own pages. The \
prefix is one more partition of every sequence, and the merge is V3's."""
changed_from = "paged_v3"
changed = """a launch before V3's. The columns of a block are the query heads of up to 64 / GROUP sequences, 16 for \
each warp, and every warp reads all tokens."""
costs = """a second launch, and a partial result for each sequence and piece of the prefix. A long prefix of many \
sequences is worth it."""
limits = """as paged_v3, without ALiBi and windows. Sequences with one prefix are neighbours in the batch, and the \
prefix is whole pages."""
source = """Ye et al. 2024, "Cascade Inference", FlashInfer. Juravsky et al. 2024, "Hydragen", arXiv:2402.05099."""
family = "paged"
problem = "cascade"
rung = 7
requires = "sm_90 for cp.async.bulk and mbarrier"
tensor_products = 1
tuned = [{when = "head_dim * C_BYTES <= 128", STAGES = 6}]
constants.STAGES = {default = 3, values = [2, 3, 4, 6], meaning = """\
  stages of 64 tokens in shared memory or on their way"""}
constants.WARPS = {default = 4, values = [4], meaning = "warps that multiply"}
scratch."m_part, l_part" = {shape = ["num_seqs * partitions", "num_heads"], axes = ["slot", "head"]}
scratch.o_part = {shape = ["num_seqs * partitions", "num_heads", "head_dim"], axes = ["slot", "head", "dim"]}

[scratch.arrived]
shape = ["num_seqs", "num_kv_heads"]
axes = ["sequence", "kv_head"]
dtype = "int32"
initial = "restored"

[[launches]]
entry = "paged_cascade_prefix"
item = "range"
blocks_per_item = "num_kv_heads"
grid = ["prefix_ranges * num_kv_heads"]
block = ["32 * WARPS + 32"]
shared_bytes = "STAGES * (32 * WARPS * head_dim * C_BYTES + 144)"
args = [
  "q", "k_cache", "v_cache", "block_tables", "prefix_units", "k_scale", "m_part", "l_part", "o_part", "arrived",
  {struct = [
    "int32 num_kv_heads", "int32 max_blocks_per_seq", "int32 partitions", "int32 0", "float32 scale",
    "float32 soft_cap",
  ]},
]

[[launches]]
entry = "paged_cascade"
item = "range"
blocks_per_item = "num_kv_heads"
grid = ["range_count * num_kv_heads"]
block = ["32 * WARPS + 32"]
shared_bytes = """STAGES * (32 * WARPS * head_dim * C_BYTES + 144) + 16 + 64 * WARPS * ceil_div(GROUP, 8) + 4 * WARPS \
  * GROUP * (head_dim + 4)"""
args = [
  "q", "k_cache", "v_cache", "block_tables", "units", "k_scale", "v_scale", "m_part", "l_part", "o_part", "arrived",
  "o", "lse",
  {struct = [
    "int32 num_kv_heads", "int32 max_blocks_per_seq", "int32 0",
    "int32 unchanged_bytes // (range_count * num_kv_heads * 32 * WARPS * head_dim * C_BYTES)", "float32 scale",
    "float32 soft_cap",
  ]},
]
*/
#include "ranges.cuh"
constexpr int MOST = 0x7fffffff;  // more than any sequence's partial results

// The work list of the prefixes
struct PrefixPages {
  const int* list;
};
__device__ __forceinline__ Pages load_pages(PrefixPages prefix, int unit PROBE_REF) {
  const int* prefix_units_gmem = prefix.list;
  PROBE_LOAD(prefix_units_gmem, 8 * unit, 16, unit);
  return pages_of(ldg<float4>(&prefix_units_gmem[8 * unit]));
}
__device__ __forceinline__ Unit load_unit(PrefixPages prefix, int unit PROBE_REF) {
  const int* prefix_units_gmem = prefix.list;
  const Pages pages = load_pages(prefix, unit PROBE_PASS);
  PROBE_LOAD(prefix_units_gmem, 8 * unit + 4, 16, unit);
  return unit_of(pages, ldg<float4>(&prefix_units_gmem[8 * unit + 4]));
}

// The columns of a warp: 16 query heads of one KV head of neighbouring sequences with a shared prefix. In a unit of a
// prefix, seq is the first sequence and partitions their number. A slot's sequences are `partitions` slots apart.
struct Sharers {
  static constexpr int TILES = 2, COUNT = 8 * TILES;
  int first, base, columns, apart;
  __device__ __forceinline__ Sharers(const Unit& u, int warp, int apart)
      : first(u.seq), base(warp * COUNT), columns(u.partitions * GROUP), apart(apart) {}
  __device__ __forceinline__ bool valid(int column) const { return base + column < columns; }
  __device__ __forceinline__ int seq(int column) const { return first + (base + column) / GROUP; }
  __device__ __forceinline__ int head(int kv_head, int column) const {
    return kv_head * GROUP + (base + column) % GROUP;
  }
  __device__ __forceinline__ int slot(const Unit& u, int column) const {
    return u.slot + (seq(column) - first) * apart;
  }
};

// A warp's columns of a unit, from the registers: o, not divided by l, m and l
__device__ __forceinline__ void write_parts(const Running<Sharers>& r, const Results& out, const Unit& u,
                                            const Sharers& columns, int kv_head, int num_heads PROBE_REF) {
  const int lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4, partition = u.partition;
  float *m_part_gmem = out.m_part_gmem, *l_part_gmem = out.l_part_gmem, *o_part_gmem = out.o_part_gmem;
  PROBE_MARK(write_part, partition);
  UNROLL for (int t = 0; t < Sharers::TILES; ++t) {
    UNROLL for (int h = 0; h < 2; ++h) {
      float l = r.l[t][h];
      UNROLL for (int lanes = 4; lanes < 32; lanes *= 2) l += __shfl_xor_sync(0xffffffffu, l, lanes);
      const int column = 8 * t + 2 * pair + h;
      if (!columns.valid(column)) continue;
      const int sequence = columns.seq(column), head = columns.head(kv_head, column);
      const size_t at = (size_t)(columns.slot(u, column) + partition) * num_heads + head;
      UNROLL for (int i = 0; i < STEPS; ++i) {
        UNROLL for (int n = 0; n < 2; ++n) {
          const int dim = dim_of(16 * i + row + 8 * n);
          const float o_part = r.o[t][i][h + 2 * n];
          PROBE_VALUE(o_part, sequence, head, partition, dim, o_part);
          PROBE_STORE(o_part_gmem, at * HEAD_DIM + dim, 4, sequence, head);
          stg<float>(&o_part_gmem[at * HEAD_DIM + dim], o_part);
        }
      }
      if (row) continue;
      PROBE_VALUE(m, sequence, head, partition, r.m[t][h] * LN_2);
      PROBE_VALUE(l, sequence, head, partition, l);
      PROBE_STORE(m_part_gmem, at, 4, sequence, head);
      stg<float>(&m_part_gmem[at], r.m[t][h]);
      PROBE_STORE(l_part_gmem, at, 4, sequence, head);
      stg<float>(&l_part_gmem[at], l);
    }
  }
}

// The partial results of the prefixes: m, l and O of each sequence of a unit over the unit's pages
//   prefix_units_gmem  [units, 8];  the others as in paged_v3. z.window: slots from one sequence to the next
extern "C" __global__ void __launch_bounds__(THREADS + 32, 1)
paged_cascade_prefix(const T* Q_gmem, const C* K_gmem, const C* V_gmem, const int* block_tables_gmem,
                     const int* prefix_units_gmem, const float* k_scale_gmem, float* m_part_gmem, float* l_part_gmem,
                     float* o_part_gmem, int* arrived_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  SWIZZLED_SMEM(unsigned char, ring_smem);  // [STAGES, STAGE]
  Barrier *full = reinterpret_cast<Barrier*>(ring_smem + STAGES * STAGE), *empty = full + STAGES;
  const PrefixPages list = {prefix_units_gmem};
  const int warp = warp_uniform(threadIdx.x / 32), num_heads = z.kv_heads * GROUP;
  const int kv_head = blockIdx.x % z.kv_heads, range = blockIdx.x / z.kv_heads;
  PROBE_BEGIN();
  if (warp == WARPS) PROBE_ROLE(producer);
  if (warp < WARPS) PROBE_ROLE(consumer);
  PROBE_MARK(read_list, range);
  Unit u = load_unit(list, range PROBE_PASS);
  if (threadIdx.x == THREADS) set_up(full, empty);
  __syncthreads();
  if (warp == WARPS) {
    bring_pages(K_gmem, V_gmem, block_tables_gmem, list, z, full, empty, ring_smem, kv_head, u PROBE_PASS);
    return;
  }
  float k_scale = 1.f;
#if FP8
  PROBE_LOAD(k_scale_gmem, kv_head, 4);
  k_scale = ldg<float>(&k_scale_gmem[kv_head]);
#endif
  const Results out = {m_part_gmem, l_part_gmem, o_part_gmem, arrived_gmem, nullptr, nullptr};
  const float to_log2 = z.scale * k_scale * LOG2_E, slope[Sharers::TILES][2] = {};
  Running<Sharers> r;
  int stage = 0, parity = 0;
  while (true) {
    const int sequence = u.seq, members = u.partitions;
    const Sharers columns(u, warp, z.window);
    PROBE_MARK(load_q, sequence);
    load_q(r.q, Q_gmem, columns, num_heads, kv_head PROBE_PASS);
    clear(r);
    NO_UNROLL for (int page = 0; page < u.pages; page += PAGES) {
      const int range_start = (u.first + page) * BLOCK_SIZE, end = (u.first + min(u.pages, page + PAGES)) * BLOCK_SIZE;
      const int tile = range_start / 16;
      PROBE_MARK(tile_begin, tile);
      barrier_wait(&full[stage], parity);
      NO_UNROLL for (int first = range_start; first < end; first += 16) {
        if (columns.valid(0)) {
          add_tokens(r, ring_smem, stage * STAGE, stage * STAGE + PAGES * SLAB, first - range_start, first, 0, end, end,
                     columns, kv_head, to_log2, slope, z PROBE_PASS);
        } else {
          pass_tokens(first / 16 PROBE_PASS);
        }
      }
      barrier_arrive(&empty[stage]);
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    write_parts(r, out, u, columns, kv_head, num_heads PROBE_PASS);
    named_sync(1, THREADS);
    if (threadIdx.x == 0) {
      fence_gpu();
      for (int n = 0; n < members; ++n) atomic_next(&arrived_gmem[(size_t)(sequence + n) * z.kv_heads + kv_head], MOST);
    }
    if (u.next < 0) return;
    u = load_unit(list, u.next PROBE_PASS);
  }
}

// The sequences' own pages, as paged_v3. The last block of a sequence to arrive adds the prefix's partial results too.
extern "C" __global__ void __launch_bounds__(THREADS + 32, 1)
paged_cascade(const T* Q_gmem, const C* K_gmem, const C* V_gmem, const int* block_tables_gmem, const int* units_gmem,
              const float* k_scale_gmem, const float* v_scale_gmem, float* m_part_gmem, float* l_part_gmem,
              float* o_part_gmem, int* arrived_gmem, T* O_gmem, float* LSE_gmem,
              const __grid_constant__ Sizes z PROBE_PARAM) {
  SWIZZLED_SMEM(unsigned char, ring_smem);  // [STAGES, STAGE]
  Shared<OneSequence>& s = *reinterpret_cast<Shared<OneSequence>*>(ring_smem + STAGES * STAGE);
  const int warp = warp_uniform(threadIdx.x / 32), kv_head = blockIdx.x % z.kv_heads, range = blockIdx.x / z.kv_heads;
  PROBE_BEGIN();
  if (warp == WARPS) PROBE_ROLE(producer);
  if (warp < WARPS) PROBE_ROLE(consumer);
  PROBE_MARK(read_list, range);
  const OwnPages list = {units_gmem};
  const Unit u = load_unit(list, range PROBE_PASS);
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
  multiply(Q_gmem, list, nullptr, z, s, ring_smem, out, kv_head, k_scale, v_scale, u PROBE_PASS);
}
