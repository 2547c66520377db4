// Decoding over ranges of pages, for paged_v3 and paged_cascade. A block has a range, a chain of units. A unit is
// consecutive pages of one sequence. One warp brings the pages of all units, WARPS warps multiply.
//
// The products run transposed on the tensor cores: S^T [16 tokens, 8 heads] = K @ Q^T and O^T [16 dims, 8 heads] += V^T
// @ P^T. Tokens and dims fill the 16 rows, so that a group of query heads is padded to 8 columns, not to 16 rows. The
// cache has K in the layout of ldmatrix (8 tokens x 16 bytes are 128 neighbouring bytes: no bank conflict), and V is
// transposed already.
//
// A stage of the ring in shared memory holds 16 tokens for each multiplying warp: PAGES whole pages of K, then of V.
#pragma once
#include "mma.cuh"
#include "bulk.cuh"
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")
#define LOG2_E 1.44269504f
#define LN_2 0.693147181f
#if BF16
typedef bfloat16 T;  // of Q and O
#else
typedef half T;
#endif
#if FP8
typedef fp8_e4m3 C;  // of the cache
typedef half M;      // of the operands of products: a half holds every fp8_e4m3
#else
typedef T C;
typedef T M;
#endif

static_assert(sizeof(C) == C_BYTES, "as the problem says");
constexpr int SLAB = HEAD_DIM * BLOCK_SIZE * C_BYTES;   // bytes of one page of one KV head, in K and in V
constexpr int TOKENS = 16 * WARPS;                      // of a stage
constexpr int PAGES = TOKENS / BLOCK_SIZE;              // of a stage
constexpr int ROW = BLOCK_SIZE * C_BYTES;               // bytes from one dim of V to the next
// A page of V comes in PIECES, 16 bytes apart. The eight rows of an ldmatrix come from different pieces and share few
// banks.
constexpr int PIECES = ROW > 32 ? ROW / 32 : 1;
constexpr int PIECE = SLAB / PIECES + 16 * (PIECES > 1);
constexpr int V_SLAB = PIECE * PIECES;
constexpr int STAGE = 2 * PAGES * SLAB + 128;          // the last 128 for the gaps between pieces
static_assert(PAGES * (SLAB + V_SLAB) <= STAGE, "a stage holds its pages");
constexpr int STEPS = HEAD_DIM / 16;                    // products of 16 dims in a score, and rows of 16 dims in O^T
constexpr int THREADS = 32 * WARPS;                     // that multiply. One more warp brings pages.
constexpr int O_ROW = HEAD_DIM + 4;                     // floats from column to column of O_smem
constexpr int PARTS = 8;                                // partial results in one read of a thread of the merge

// Pages [first, first + pages) of a sequence. next: the block's next unit, or -1. The first unit of block b is the unit
// of number b / kv_heads.
struct Pages {
  int seq, first, pages, next;
};
// The rest of a unit. tokens: of the sequence. The unit's result is one of `partitions`, at slot + partition of the
// partial results.
struct Unit : Pages {
  int tokens, slot, partition, partitions;
};
__device__ __forceinline__ int whole_number(float bits) { return (int)__float_as_uint(bits); }
__device__ __forceinline__ Pages pages_of(float4 v) {
  return {whole_number(v.x), whole_number(v.y), whole_number(v.z), whole_number(v.w)};
}
__device__ __forceinline__ Unit unit_of(Pages pages, float4 v) {
  return {pages, whole_number(v.x), whole_number(v.y), whole_number(v.z), whole_number(v.w)};
}
// A work list has its own type, so that a probe can name its tensor.
struct OwnPages {
  const int* list;
};
__device__ __forceinline__ Pages load_pages(OwnPages own, int unit PROBE_REF) {
  const int* units_gmem = own.list;
  PROBE_LOAD(units_gmem, 8 * unit, 16, unit);
  return pages_of(ldg<float4>(&units_gmem[8 * unit]));
}
__device__ __forceinline__ Unit load_unit(OwnPages own, int unit PROBE_REF) {
  const int* units_gmem = own.list;
  const Pages pages = load_pages(own, unit PROBE_PASS);
  PROBE_LOAD(units_gmem, 8 * unit + 4, 16, unit);
  return unit_of(pages, ldg<float4>(&units_gmem[8 * unit + 4]));
}

// The numbers for the tensors
struct Sizes {
  int kv_heads, max_blocks, window;
  int plain;  // stages before the ones that the L2 drops first
  float scale, soft_cap;
};

// The columns of a block's products: the query heads of one KV head of one sequence
struct OneSequence {
  static constexpr int COUNT = GROUP, TILES = (COUNT + 7) / 8;
  int own;
  __device__ __forceinline__ explicit OneSequence(const Unit& u) : own(u.seq) {}
  __device__ __forceinline__ bool valid(int column) const { return column < COUNT; }
  __device__ __forceinline__ int seq(int) const { return own; }
  __device__ __forceinline__ int head(int kv_head, int column) const { return kv_head * GROUP + column; }
  __device__ __forceinline__ int slot(const Unit& u, int) const { return u.slot; }
};

// The block's shared memory after the ring
template <class Columns> struct Shared {
  Barrier full[STAGES], empty[STAGES];
  int last[4];  // 1 if this block is the last of a sequence to arrive
  float m[WARPS * 8 * Columns::TILES], l[WARPS * 8 * Columns::TILES];
  float o[WARPS * Columns::COUNT * O_ROW];
};

// By one thread. Constant addresses make it one instruction for each barrier.
__device__ __forceinline__ void set_up(Barrier* full, Barrier* empty) {
  UNROLL for (int stage = 0; stage < STAGES; ++stage) {
    barrier_init(&full[stage], 1), barrier_init(&empty[stage], THREADS);
  }
  barrier_init_done();
}

// Brings the pages of a block's units, stage after stage. It reads the block table 32 entries at a time, and 32 ahead.
//   ring_smem  [STAGES, STAGE] bytes
template <class List>
__device__ __forceinline__ void bring_pages(const C* K_gmem, const C* V_gmem, const int* block_tables_gmem, List list,
                                            const Sizes& z, Barrier* full, Barrier* empty, unsigned char* ring_smem,
                                            int kv_head, Pages u PROBE_REF) {
  const int lane = threadIdx.x % 32;
  CacheHint keep = z.plain ? keep_unchanged() : keep_first_to_leave();
  int stage = 0, parity = 1, plain = z.plain;  // the phase of parity 1 of a new barrier is over
  while (true) {
    const int sequence = u.seq;
    const size_t row = (size_t)sequence * z.max_blocks + u.first;
    auto entry_of = [&](int page) {
      if (page >= u.pages) return 0;
      const int logical = u.first + page;
      PROBE_LOAD(block_tables_gmem, row + page, 4, sequence, logical);
      return ldg<int>(&block_tables_gmem[row + page]);
    };
    int entries = entry_of(lane);
    Pages following = {};
    if (u.next >= 0) following = load_pages(list, u.next PROBE_PASS);
    NO_UNROLL for (int batch = 0; batch < u.pages; batch += 32) {
      const int ahead = entry_of(batch + 32 + lane), end = min(32, u.pages - batch);
      NO_UNROLL for (int first = 0; first < end; first += PAGES) {
        const int count = min(PAGES, end - first), logical = u.first + batch + first;
        int pages[PAGES];
        UNROLL for (int i = 0; i < PAGES; ++i) pages[i] = __shfl_sync(0xffffffffu, entries, first + i);
        PROBE_MARK(prefetch_tile, logical);
        barrier_wait(&empty[stage], parity);
        if (one_lane()) {
          barrier_expect(&full[stage], count * 2 * SLAB);
          UNROLL for (int i = 0; i < PAGES; ++i) {
            if (i >= count) break;
            const size_t at = ((size_t)pages[i] * z.kv_heads + kv_head) * (SLAB / C_BYTES);
            const int entry = logical + i, K_to = stage * STAGE + i * SLAB;
            PROBE_TMA(K_gmem, at, HEAD_DIM * BLOCK_SIZE * C_BYTES, sequence, entry);
            PROBE_TMA_SMEM(ring_smem, K_to, HEAD_DIM * BLOCK_SIZE * C_BYTES, sequence, entry);
            bulk_load(&ring_smem[K_to], &K_gmem[at], SLAB, &full[stage], keep);
            UNROLL for (int piece = 0; piece < PIECES; ++piece) {
              const int V_to = stage * STAGE + PAGES * SLAB + i * V_SLAB + piece * PIECE;
              const size_t from = at + piece * (SLAB / PIECES / C_BYTES);
              PROBE_TMA(V_gmem, from, HEAD_DIM * min(BLOCK_SIZE * C_BYTES, 32), sequence, entry);
              PROBE_TMA_SMEM(ring_smem, V_to, HEAD_DIM * min(BLOCK_SIZE * C_BYTES, 32), sequence, entry);
              bulk_load(&ring_smem[V_to], &V_gmem[from], SLAB / PIECES, &full[stage], keep);
            }
          }
        }
        if (plain && --plain == 0) keep = keep_first_to_leave();
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
      entries = ahead;
    }
    if (u.next < 0) return;
    u = following;
  }
}

// A warp's part of a unit. Lane 4 row + pair has columns 2 pair and 2 pair + 1 of eight, and rows `row` and row + 8 of
// S^T and O^T.
template <class Columns> struct Running {
  unsigned q[Columns::TILES][STEPS][2];  // Q^T
  float o[Columns::TILES][STEPS][4];     // O^T, not divided by l
  float m[Columns::TILES][2];            // the largest score so far, times log2 e
  float l[Columns::TILES][2];            // the sum of the weights, of this lane's tokens
};

template <class Columns> __device__ __forceinline__ void clear(Running<Columns>& r) {
  UNROLL for (int t = 0; t < Columns::TILES; ++t) {
    UNROLL for (int h = 0; h < 2; ++h) {
      r.m[t][h] = -INFINITY, r.l[t][h] = 0.f;
      UNROLL for (int i = 0; i < STEPS; ++i) r.o[t][i][h] = r.o[t][i][h + 2] = 0.f;
    }
  }
}

// The token of 16 in row `row` of S^T. With fp8 a lane of ldmatrix gets four neighbouring tokens of a dim of V: two for
// the first eight rows of the product, two for the others. K's rows have the same order.
__device__ __forceinline__ int token_of(int row) { return FP8 ? row % 8 / 2 * 4 + row / 8 * 2 + row % 2 : row; }
// The dim in row `row` of O^T. Neighbouring rows come from different pieces of V.
__device__ __forceinline__ int dim_of(int row) { return row % PIECES * (HEAD_DIM / PIECES) + row / PIECES; }

// Q^T from global memory, with dims in the order of K's dims in a lane of ldmatrix
template <class Columns>
__device__ __forceinline__ void load_q(unsigned (&q)[Columns::TILES][STEPS][2], const T* Q_gmem, const Columns& columns,
                                       int num_heads, int kv_head PROBE_REF) {
  const int lane = threadIdx.x % 32, pair = lane % 4;
  UNROLL for (int t = 0; t < Columns::TILES; ++t) {
    const int column = 8 * t + lane / 4;
    const bool valid = columns.valid(column);
    const int sequence = valid ? columns.seq(column) : 0, head = valid ? columns.head(kv_head, column) : 0;
    const size_t row = ((size_t)sequence * num_heads + head) * HEAD_DIM;
    UNROLL for (int i = 0; i < STEPS; ++i) {
      UNROLL for (int h = 0; h < 2; ++h) {
        const int dim = 16 * i + (FP8 ? 4 * pair + 2 * h : 8 * h + 2 * pair);
        q[t][i][h] = 0;
        if (!valid) continue;
        PROBE_LOAD(Q_gmem, row + dim, 4, sequence, head);
        const unsigned two = (unsigned)ldg<int>(&Q_gmem[row + dim]);
        q[t][i][h] = FP8 && BF16 ? ::pair<M>(low_float(two), high_float(two)) : two;
      }
    }
  }
}

// 16 tokens of K and V: S^T = K @ Q^T, the online softmax, O^T += V^T @ P^T
//   ring_smem       [STAGES, STAGE] bytes
//   K_at, V_at      bytes at the start of a stage's pages
//   slot, first     number of the first of the 16 in the stage, and in its sequence. Tokens before `window_start` and
//                   from `end` on do not count.
template <class Columns>
__device__ __forceinline__ void add_tokens(Running<Columns>& r, const unsigned char* ring_smem, int K_at, int V_at,
                                           int slot, int first, int window_start, int end, int tokens,
                                           const Columns& columns, int kv_head, float to_log2,
                                           const float (&slope)[Columns::TILES][2], const Sizes& z PROBE_REF) {
  constexpr int TILES = Columns::TILES;
  const int lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4, tile = first / 16;
  PROBE_MARK(scores, tile);
  // An ldmatrix brings one operand of 16-bit numbers, or 8-bit numbers of which half_pair makes two.
  constexpr int OPERANDS = 2 / C_BYTES;
  auto operand_of = [](unsigned (&a)[4], const unsigned (&words)[4], int n) {
    UNROLL for (int i = 0; i < 4; ++i) a[i] = FP8 ? half_pair(words[2 * n + i % 2], i / 2) : words[i];
  };
  const int K_slot = slot + token_of(lane % 16), V_slot = slot + (FP8 ? 0 : lane / 16 * 8);
  const int K_base = K_at + K_slot / BLOCK_SIZE * SLAB + K_slot % BLOCK_SIZE * 16 + lane / 16 * (BLOCK_SIZE * 16);
  const int V_base = V_at + V_slot / BLOCK_SIZE * V_SLAB + V_slot % BLOCK_SIZE * C_BYTES;
  float sums[TILES][2][4] = {};  // two for each tile, so that no product waits for the previous one
  UNROLL for (int i = 0; i < STEPS; i += OPERANDS) {
    const int at = K_base + 2 * i / OPERANDS * (BLOCK_SIZE * 16);
    unsigned k[4];
    PROBE_LDMATRIX(ring_smem, at, 16);
    ldmatrix(k, &ring_smem[at]);
    UNROLL for (int n = 0; n < OPERANDS; ++n) {
      unsigned a[4];
      operand_of(a, k, n);
      UNROLL for (int t = 0; t < TILES; ++t) mma<M>(sums[t][(i + n) % 2], a, r.q[t][i + n][0], r.q[t][i + n][1]);
    }
  }
  const bool whole = first >= window_start && first + 16 <= end;
  float S[TILES][4];
  UNROLL for (int t = 0; t < TILES; ++t) {
    UNROLL for (int i = 0; i < 4; ++i) {
      const int token = first + token_of(row + i / 2 * 8);
      float s = (sums[t][0][i] + sums[t][1][i]) * to_log2;
#if SOFT_CAP
      // cap tanh(s / cap), tanh x = 1 - 2 / (1 + e^2x). s is in units of log 2.
      s = z.soft_cap * LOG2_E * (1.f - 2.f / (1.f + exp2_approx(s * (2.f / z.soft_cap))));
#endif
#if ALIBI
      s = fmaf(slope[t][i % 2], (float)(token - tokens + 1), s);
#endif
      S[t][i] = whole || (token >= window_start && token < end) ? s : -INFINITY;
#ifdef PROBED
      const int column = 8 * t + 2 * pair + i % 2;
      if (token >= window_start && token < end && columns.valid(column)) {
        const int sequence = columns.seq(column), head = columns.head(kv_head, column);
        const float score = s * LN_2;
        PROBE_VALUE(score, sequence, head, token, score);
      }
#endif
    }
  }
  unsigned v[STEPS / OPERANDS][4];
  UNROLL for (int i = 0; i < STEPS / OPERANDS; ++i) {
    const int dims = FP8 ? 32 * i + lane : 16 * i + lane % 16;
    const int at = V_base + dims % PIECES * PIECE + dims / PIECES * ROW;
    PROBE_LDMATRIX(ring_smem, at, 16);
    ldmatrix(v[i], &ring_smem[at]);
  }
  if (first + 16 > end) {  // slots without a token may hold NaN, and 0 * NaN is NaN
    auto keep = [&](int n) { return first + n < end ? (C_BYTES == 2 ? 0xffffu : 0xffu) : 0u; };
    const int own = FP8 ? 4 * pair : 2 * pair;  // this lane's first token. It also has the next, and two later ones.
    const unsigned low = keep(own) | keep(own + 1) << 8 * C_BYTES;
    const unsigned high = FP8 ? low | keep(own + 2) << 16 | keep(own + 3) << 24 : keep(own + 8) | keep(own + 9) << 16;
    UNROLL for (int i = 0; i < STEPS / OPERANDS; ++i) {
      UNROLL for (int n = 0; n < 4; ++n) v[i][n] &= FP8 || n > 1 ? high : low;
    }
  }
  UNROLL for (int t = 0; t < TILES; ++t) {
    const float (&s)[4] = S[t];
    if (t == 0) PROBE_MARK(softmax, tile);
    float p[4];
    UNROLL for (int h = 0; h < 2; ++h) {
      float top = fmaxf(s[h], s[h + 2]);
      UNROLL for (int lanes = 4; lanes < 32; lanes *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
      const float m = fmaxf(r.m[t][h], top), rescale = exp2_approx(r.m[t][h] - m);
      p[h] = exp2_approx(s[h] - m), p[h + 2] = exp2_approx(s[h + 2] - m);
      r.l[t][h] = fmaf(r.l[t][h], rescale, p[h] + p[h + 2]);
      r.m[t][h] = m;
      UNROLL for (int i = 0; i < STEPS; ++i) r.o[t][i][h] *= rescale, r.o[t][i][h + 2] *= rescale;
#ifdef PROBED
      const int column = 8 * t + 2 * pair + h;
      float total = r.l[t][h];
      for (int lanes = 4; lanes < 32; lanes *= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
      if (columns.valid(column)) {
        const int sequence = columns.seq(column), head = columns.head(kv_head, column);
        for (int n = 0; n < 2; ++n) {
          const int token = first + token_of(row + 8 * n);
          const float weight = p[h + 2 * n];
          if (token >= window_start && token < end) PROBE_VALUE(p, sequence, head, token, weight);
        }
        if (row == 0) PROBE_VALUE(warp_m, sequence, head, tile, m * LN_2);
        if (row == 0) PROBE_VALUE(warp_l, sequence, head, tile, total);
      }
#endif
    }
    if (t == 0) PROBE_MARK(output, tile);
    const unsigned b0 = transposed(::pair<M>(p[0], p[1])), b1 = transposed(::pair<M>(p[2], p[3]));
    UNROLL for (int i = 0; i < STEPS; ++i) {
      unsigned a[4];
      operand_of(a, v[i / OPERANDS], i % OPERANDS);
      mma<M>(r.o[t][i], a, b0, b1);
    }
  }
}

// The same for a warp without a visible token among its 16: all warps of a block pass the same marks.
__device__ __forceinline__ void pass_tokens(int tile PROBE_REF) {
  PROBE_MARK(scores, tile);
  PROBE_MARK(softmax, tile);
  PROBE_MARK(output, tile);
}

// ---- results ----

// The tensors for results
//   o_part_gmem  [slots, kv_heads * GROUP, HEAD_DIM];  m_part_gmem, l_part_gmem  [slots, kv_heads * GROUP]
//   arrived_gmem [num_seqs, kv_heads]
struct Results {
  float *m_part_gmem, *l_part_gmem, *o_part_gmem;
  int* arrived_gmem;
  T* O_gmem;
  float* LSE_gmem;
};

#ifdef PROBED
__device__ __forceinline__ void log_part(int sequence, int head, int partition, int dim, float o_part PROBE_REF) {
  PROBE_VALUE(o_part, sequence, head, partition, dim, o_part);
}
__device__ __forceinline__ void log_output(int sequence, int head, int dim, float o PROBE_REF) {
  PROBE_VALUE(o, sequence, head, dim, o);
}
#endif

// Four dims of a query head's output, and the lse of the head with the first dim: O = o v_scale / l
__device__ __forceinline__ void write_output(const Results& out, int sequence, int head, int num_heads, int dim,
                                             float4 o, float m, float l, float v_scale PROBE_REF) {
  T* O_gmem = out.O_gmem;
  float* LSE_gmem = out.LSE_gmem;
  const size_t row = (size_t)sequence * num_heads + head;
  const float share = v_scale / l;
  const float scaled[4] = {o.x * share, o.y * share, o.z * share, o.w * share};
#ifdef PROBED
  for (int n = 0; n < 4; ++n) {
    const int at = dim + n;
    log_output(sequence, head, at, scaled[n] PROBE_PASS);
  }
#endif
  PROBE_STORE(O_gmem, row * HEAD_DIM + dim, 8, sequence, head);
  stg<long long>(&O_gmem[row * HEAD_DIM + dim],
                 words(::pair<T>(scaled[0], scaled[1]), ::pair<T>(scaled[2], scaled[3])));
  if (dim) return;
  PROBE_VALUE(m_all, sequence, head, m * LN_2);
  PROBE_VALUE(l_all, sequence, head, l);
  PROBE_STORE(LSE_gmem, row, 4, sequence, head);
  stg<float>(&LSE_gmem[row], fmaf(m, LN_2, logf(l)));
}

// Four dims of a partial result, and its m and l with the first dim
__device__ __forceinline__ void write_part(const Results& out, size_t at, int sequence, int head, int partition,
                                           int dim, float4 o, float m, float l PROBE_REF) {
  float *m_part_gmem = out.m_part_gmem, *l_part_gmem = out.l_part_gmem, *o_part_gmem = out.o_part_gmem;
#ifdef PROBED
  const float parts[4] = {o.x, o.y, o.z, o.w};
  for (int n = 0; n < 4; ++n) {
    log_part(sequence, head, partition, dim + n, parts[n] PROBE_PASS);
  }
#endif
  PROBE_STORE(o_part_gmem, at * HEAD_DIM + dim, 16, sequence, head);
  stg<float4>(&o_part_gmem[at * HEAD_DIM + dim], o);
  if (dim) return;
  PROBE_STORE(m_part_gmem, at, 4, sequence, head);
  stg<float>(&m_part_gmem[at], m);
  PROBE_STORE(l_part_gmem, at, 4, sequence, head);
  stg<float>(&l_part_gmem[at], l);
}

// m = max m_i;  l = sum l_i 2^(m_i - m);  O = sum O_i 2^(m_i - m) / l   over the partitions i of a sequence, PARTS at a
// time
template <class Columns>
__device__ __forceinline__ void merge(const Results& out, const Unit& u, const Columns& columns, int kv_head,
                                      int num_heads, float v_scale PROBE_REF) {
  const float *m_part_gmem = out.m_part_gmem, *l_part_gmem = out.l_part_gmem, *o_part_gmem = out.o_part_gmem;
  const int sequence = u.seq;
  PROBE_MARK(combine, sequence);
  for (int e = threadIdx.x; e < GROUP * HEAD_DIM / 4; e += THREADS) {
    const int head = kv_head * GROUP + e / (HEAD_DIM / 4), dim = e % (HEAD_DIM / 4) * 4;
    const size_t first_part = (size_t)u.slot * num_heads + head;
    float m = -INFINITY, l = 0.f;
    float4 o = make_float4(0.f, 0.f, 0.f, 0.f);
    NO_UNROLL for (int first = 0; first < u.partitions; first += PARTS) {
      float m_i[PARTS], l_i[PARTS];
      float4 o_i[PARTS];
      UNROLL for (int i = 0; i < PARTS; ++i) {
        m_i[i] = -INFINITY, l_i[i] = 0.f, o_i[i] = make_float4(0.f, 0.f, 0.f, 0.f);
        if (first + i >= u.partitions) continue;
        const int partition = first + i;
        const size_t at = first_part + (size_t)partition * num_heads;
        PROBE_LOAD(m_part_gmem, at, 4, partition);
        m_i[i] = ldg_l2<float>(&m_part_gmem[at]);
        PROBE_LOAD(l_part_gmem, at, 4, partition);
        l_i[i] = ldg_l2<float>(&l_part_gmem[at]);
        PROBE_LOAD(o_part_gmem, at * HEAD_DIM + dim, 16, partition);
        o_i[i] = ldg_l2<float4>(&o_part_gmem[at * HEAD_DIM + dim]);
      }
      float top = m;
      UNROLL for (int i = 0; i < PARTS; ++i) top = fmaxf(top, m_i[i]);
      const float before = exp2_approx(m - top);
      l *= before, o = make_float4(o.x * before, o.y * before, o.z * before, o.w * before), m = top;
      UNROLL for (int i = 0; i < PARTS; ++i) {
        const float weight = exp2_approx(m_i[i] - m);
        l = fmaf(l_i[i], weight, l), o = fma4(make_float4(weight, weight, weight, weight), o_i[i], o);
      }
    }
#ifdef PROBED
    for (int partition = 0; dim == 0 && partition < u.partitions; ++partition) {
      const float weight = exp2_approx(m_part_gmem[first_part + (size_t)partition * num_heads] - m);
      PROBE_VALUE(weight, sequence, head, partition, weight);
    }
#endif
    write_output(out, sequence, head, num_heads, dim, o, m, l, v_scale PROBE_PASS);
  }
}

// Merges the warps' results of a unit: O divided by l if the unit is the whole sequence, otherwise a partial result.
// The block with a sequence's last partial result adds them all in their order, so that every run gives the same.
template <class Columns>
__device__ __forceinline__ void finish(const Running<Columns>& r, Shared<Columns>& s, const Results& out, const Unit& u,
                                       const Columns& columns, int kv_head, int kv_heads, float v_scale PROBE_REF) {
  constexpr int COUNT = Columns::COUNT, WIDTH = 8 * Columns::TILES;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, row = lane / 4, pair = lane % 4;
  const int num_heads = kv_heads * GROUP, partition = u.partition;
  float *m_smem = s.m, *l_smem = s.l, *O_smem = s.o;
  int* last_smem = s.last;
  PROBE_MARK(combine_warps, partition);
  UNROLL for (int t = 0; t < Columns::TILES; ++t) {
    UNROLL for (int h = 0; h < 2; ++h) {
      float l = r.l[t][h];
      UNROLL for (int lanes = 4; lanes < 32; lanes *= 2) l += __shfl_xor_sync(0xffffffffu, l, lanes);
      const int column = 8 * t + 2 * pair + h;
      if (row == 0) {
        PROBE_STORE(m_smem, warp * WIDTH + column, 4);
        sts<float>(&m_smem[warp * WIDTH + column], r.m[t][h]);
        PROBE_STORE(l_smem, warp * WIDTH + column, 4);
        sts<float>(&l_smem[warp * WIDTH + column], l);
      }
      if (column >= COUNT) continue;
      UNROLL for (int i = 0; i < STEPS; ++i) {
        UNROLL for (int n = 0; n < 2; ++n) {
          const int at = (warp * COUNT + column) * O_ROW + dim_of(16 * i + row + 8 * n);
          PROBE_STORE(O_smem, at, 4);
          sts<float>(&O_smem[at], r.o[t][i][h + 2 * n]);
        }
      }
    }
  }
  named_sync(1, THREADS);
  if (u.partitions > 1) PROBE_MARK(write_part, partition);
  if (u.partitions == 1) PROBE_MARK(write, partition);
  for (int e = thread; e < COUNT * HEAD_DIM / 4; e += THREADS) {
    const int column = e / (HEAD_DIM / 4), dim = e % (HEAD_DIM / 4) * 4;
    if (!columns.valid(column)) continue;
    const int sequence = columns.seq(column), head = columns.head(kv_head, column);
    float m_of[WARPS], m = -INFINITY, l = 0.f;
    UNROLL for (int w = 0; w < WARPS; ++w) {
      PROBE_LOAD(m_smem, w * WIDTH + column, 4);
      m_of[w] = lds<float>(&m_smem[w * WIDTH + column]);
      m = fmaxf(m, m_of[w]);
    }
    float4 o = make_float4(0.f, 0.f, 0.f, 0.f);
    UNROLL for (int w = 0; w < WARPS; ++w) {
      const float weight = exp2_approx(m_of[w] - m);  // 0 for a warp without tokens: its m is -inf
      PROBE_LOAD(l_smem, w * WIDTH + column, 4);
      l = fmaf(lds<float>(&l_smem[w * WIDTH + column]), weight, l);
      PROBE_LOAD(O_smem, (w * COUNT + column) * O_ROW + dim, 16);
      const float4 part = lds<float4>(&O_smem[(w * COUNT + column) * O_ROW + dim]);
      o = fma4(make_float4(weight, weight, weight, weight), part, o);
    }
    if (dim == 0) PROBE_VALUE(m, sequence, head, partition, m * LN_2);
    if (dim == 0) PROBE_VALUE(l, sequence, head, partition, l);
    if (u.partitions == 1) {
      write_output(out, sequence, head, num_heads, dim, o, m, l, v_scale PROBE_PASS);
    } else {
      const size_t at = (size_t)(columns.slot(u, column) + partition) * num_heads + head;
      write_part(out, at, sequence, head, partition, dim, o, m, l PROBE_PASS);
    }
  }
  if (u.partitions > 1) {
    named_sync(1, THREADS);
    if (thread == 0) {
      int* arrived_gmem = out.arrived_gmem;
      fence_gpu();  // the barrier and the fence order every thread's stores before the count
      const int before = atomic_next(&arrived_gmem[(size_t)u.seq * kv_heads + kv_head], u.partitions - 1);
      fence_gpu();
      PROBE_STORE(last_smem, 0, 4);
      sts<int>(&last_smem[0], before == u.partitions - 1);
    }
    named_sync(1, THREADS);
    PROBE_LOAD(last_smem, 0, 4);
    if (lds<int>(&last_smem[0])) merge<Columns>(out, u, columns, kv_head, num_heads, v_scale PROBE_PASS);
  }
  if (u.next >= 0) named_sync(1, THREADS);  // the warps have read each other's results: the next unit's may come
}

// ---- a block ----

// The warps that multiply: each takes 16 tokens of every stage.
template <class Columns>
__device__ __forceinline__ void multiply(const T* Q_gmem, OwnPages list, const float* slopes_gmem,
                                         const Sizes& z, Shared<Columns>& s, const unsigned char* ring_smem,
                                         const Results& out, int kv_head, float k_scale, float v_scale,
                                         Unit u PROBE_REF) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, num_heads = z.kv_heads * GROUP;
  const float to_log2 = z.scale * k_scale * LOG2_E;
  Running<Columns> r;
  int stage = 0, parity = 0;
  while (true) {
    const int sequence = u.seq;
    const Columns columns(u);
    PROBE_MARK(load_q, sequence);
    load_q(r.q, Q_gmem, columns, num_heads, kv_head PROBE_PASS);
    Unit following = {};
    if (u.next >= 0) following = load_unit(list, u.next PROBE_PASS);
    float slope[Columns::TILES][2] = {};
#if ALIBI
    UNROLL for (int t = 0; t < Columns::TILES; ++t) {
      UNROLL for (int h = 0; h < 2; ++h) {
        const int column = 8 * t + 2 * (lane % 4) + h, head = columns.head(kv_head, column);
        if (!columns.valid(column)) continue;
        PROBE_LOAD(slopes_gmem, head, 4);
        slope[t][h] = ldg<float>(&slopes_gmem[head]) * LOG2_E;
      }
    }
#endif
    clear(r);
    const int window_start = WINDOW ? max(0, u.tokens - z.window) : 0;
    NO_UNROLL for (int page = 0; page < u.pages; page += PAGES) {
      const int first = (u.first + page) * BLOCK_SIZE + 16 * warp, tile = first / 16;
      const int end = min(u.tokens, (u.first + u.pages) * BLOCK_SIZE);  // of this unit's tokens
      PROBE_MARK(tile_begin, tile);
      barrier_wait(&s.full[stage], parity);
      if (first < end && first + 16 > window_start) {
        add_tokens(r, ring_smem, stage * STAGE, stage * STAGE + PAGES * SLAB, 16 * warp, first, window_start, end,
                   u.tokens, columns, kv_head, to_log2, slope, z PROBE_PASS);
      } else {
        pass_tokens(tile PROBE_PASS);
      }
      barrier_arrive(&s.empty[stage]);  // every lane for itself: its slots may be overwritten
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    finish(r, s, out, u, columns, kv_head, z.kv_heads, v_scale PROBE_PASS);
    if (u.next < 0) return;
    u = following;
  }
}
