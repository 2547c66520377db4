// Shadow memory: for each word, its last write, two reads, and its written bytes.
//
// Two accesses of a word conflict if different threads make them, at least one writes, and not both are atomic. They
// are ordered in six cases:
//   1. A barrier of the block is between them.
//   2. A __syncwarp that names both lanes is between them.
//   3. An earlier launch made one of them.
//   4. A grid.sync() is between them.
//   5. The first block passed a __threadfence after its access, and the second block an atomic after that fence.
//   6. The first thread arrived at a barrier by number or in shared memory, and the second one waited for it.
// The rule does not depend on the order of execution.
//
// The kernel's memory holds poison, and the values are elsewhere (Region::values). A reported access shows its bytes
// until the next but one. An access without a report therefore reads poison, and its store reaches no value.
#pragma once
#include "places.h"

namespace simt {

struct Who {
  uint32_t place, block, time, barriers;
  uint16_t thread;
  uint8_t bytes, atomic;  // a mask of the word's bytes. atomic: 1, or PENDING for a copy that nobody has waited for
};
constexpr uint8_t PENDING = 2;
struct Cell {
  Who write, read[2];     // the last read, and the last one of another warp or block
  uint32_t lanes, since;  // of read[0]'s warp: who read these bytes, and the time of the first of these reads
  uint32_t written_in;  // the block of the written bytes, for shared memory
  uint8_t written;      // a mask of bytes
};
struct Region {
  const char* name;
  const char* base;
  uint64_t bytes;
  unsigned element, word, word_log2;
  bool shared, given;  // given: all bytes have a value before the launch
  Cell* cells;
  char* values;  // the bytes that the kernel's accesses mean, during a launch
};
struct Own {  // of each thread, next to its Fiber
  uint32_t last, left_at, seq, barriers;
  uint32_t seen[32], seen_all;  // until when it is behind each lane of its warp, and behind all of them
  unsigned mask;
  int predicate;
  bool at_barrier;
  struct ThreadCopy* copies;  // not waited for, from the newest (async.h)
  unsigned groups;            // closed groups of copies
};
enum FindingKind { RACE, WARP_RACE, BLOCK_RACE, UNWRITTEN, DIVERGENT, LEFT_EARLY, MISALIGNED, STATIC, UNLOGGED, ASYNC };
struct Finding {  // as in kernels/run/plain/faults.py
  uint32_t kind, place1, place2, region, block1, block2, thread1, thread2, writes, same, count, _;
  int64_t offset;
};

static std::vector<Region> regions;
static std::vector<Finding> findings;
static Own own[THREADS_MAX];
static uint32_t block_tag, launch_first, now, spins;
static uint32_t grid_time;  // of the last grid.sync()
static uint64_t last_atomic;  // the time of this block's last atomic
static std::vector<uint32_t> fence_of_block;
static int barrier_votes[3];
static uint64_t quiet_accesses, marks;  // in a launch
static bool quiet, together;  // together: one lane works for its warp, in the memory of all lanes
static unsigned first_arrived, block_barriers;

COLD static Finding& finding(unsigned kind, uint32_t place1, uint32_t place2, unsigned region) {
  for (Finding& f : findings)
    if (f.kind == kind && f.place1 == place1 && f.place2 == place2 && f.region == region) return ++f.count, f;
  findings.push_back(Finding{kind, place1, place2, region, 0, 0, 0, 0, 0, 1, 1, 0, 0});
  return findings.back();
}
static void add_region(const char* name, const char* base, uint64_t bytes, unsigned element, bool shared, bool given) {
  const unsigned word = element % 4 ? element % 2 ? 1 : 2 : 4;
  regions.push_back({name, base, bytes, element, word, word / 2, shared, given,
                     static_cast<Cell*>(calloc(bytes / word + 1, sizeof(Cell))), nullptr});
}
// place: of the access. A line mostly stays in one region.
static Region* region_at(const char* p, uint32_t place = 0) {
  static uint8_t last_of[256];
  uint8_t& last = last_of[place & 255];
  const unsigned count = regions.size();
  Region* const all = regions.data();
  if (last < count && uint64_t(p - all[last].base) < all[last].bytes) return &all[last];
  for (unsigned i = 0; i < count; ++i)
    if (uint64_t(p - all[i].base) < all[i].bytes) return last = i, &all[i];
  return nullptr;
}

// ---- values and poison ----
constexpr int POISON = 0xff;  // NaN, as float
static struct Shown {
  char *p, *value;
  unsigned bytes;
  bool writes;
} shown[2];  // the last two accesses: one statement reads and writes

static void capture() {
  for (const Shown& one : shown)
    if (one.writes) memcpy(one.value, one.p, one.bytes);
}
// Shows no access. Before another thread runs, and before the runtime itself uses the values
static void hide() {
  capture();
  for (Shown& one : shown) memset(one.p, POISON, one.bytes), one = Shown{};
}
static void show(const Region& r, char* p, unsigned bytes, bool writes) {
  capture();
  const Shown oldest = shown[0], next = shown[1];
  char *const end = oldest.p + oldest.bytes, *const first = std::min(end, std::max(oldest.p, next.p));
  char* const last = std::max(first, std::min(end, next.p + next.bytes));
  memset(oldest.p, POISON, first - oldest.p), memset(last, POISON, end - last);  // all but the bytes of `next`
  shown[0] = next, shown[1] = Shown{p, r.values + (p - r.base), bytes, writes};
  memcpy(p, shown[1].value, bytes);
}
static bool is_shown(const void* p, size_t bytes) {
  return (shown[0].p == p && shown[0].bytes == bytes) || (shown[1].p == p && shown[1].bytes == bytes);
}
static char* value_of(char* p) {
  const Region* const r = region_at(p);
  return r && r->values ? r->values + (p - r->base) : p;
}
static void poison(Region& r) {
  if (r.values || !line_count) return;
  r.values = static_cast<char*>(malloc(r.bytes + 1));
  memcpy(r.values, r.base, r.bytes);
  memset(const_cast<char*>(r.base), POISON, r.bytes);
}

// ---- clocks of threads, for a block with barriers of some of its threads ----
// Until when a thread is behind each thread of its block
using Clock = std::vector<uint32_t>;
static std::vector<Clock> clocks;  // empty in other blocks
static void start_clocks() {
  if (clocks.empty()) clocks.assign(threads, Clock(threads));
}
static void join_clock(Clock& to, const Clock& from) {
  to.resize(threads);
  for (size_t k = 0; k < from.size(); ++k) to[k] = std::max(to[k], from[k]);
}
// What the running thread did, and what it is behind, goes to a barrier
static void arrive_at(Clock& barrier) {
  start_clocks();
  const unsigned me = current->linear, warp = me & ~31u;
  join_clock(barrier, clocks[me]);
  for (unsigned l = 0; l < 32 && warp + l < threads; ++l)
    barrier[warp + l] = std::max(barrier[warp + l], own[me].seen[l]);
  barrier[me] = ++now;
}
static void join(unsigned thread, const Clock& barrier) {
  start_clocks();
  join_clock(clocks[thread], barrier);
}

// ---- conflicts ----
static inline bool ordered(const Who& w, const Who& mine) {
  if (!w.place || w.block < launch_first) return true;
  if (w.atomic & PENDING) return false;
  if (w.time <= grid_time) return true;
  if (w.block != block_tag) return fence_of_block[w.block] > w.time && last_atomic > fence_of_block[w.block];
  if (w.thread == mine.thread || w.barriers < mine.barriers) return true;
  if (!clocks.empty() && clocks[mine.thread][w.thread] > w.time) return true;
  return w.thread / 32 == mine.thread / 32 && own[mine.thread].seen[w.thread % 32] > w.time;
}
// writes: 1 if the second access writes, 2 if the first does
COLD static void report_race(const Who& w, unsigned region, int64_t offset, uint32_t place, unsigned writes,
    bool same) {
  const unsigned kind = w.atomic & PENDING ? ASYNC : w.block != block_tag ? BLOCK_RACE
                        : w.thread / 32 == current->linear / 32 ? WARP_RACE : RACE;
  Finding& f = finding(kind, w.place, place, region);
  if (f.count > 1 && !(f.same && !same)) return;
  f.offset = offset, f.thread1 = w.thread, f.thread2 = current->linear, f.block1 = w.block - launch_first;
  f.block2 = block_tag - launch_first, f.writes = writes, f.same = same;
}
// A write's conflicts wait until its value is in memory: a write of the present value is harmless.
static struct {
  char* p;
  unsigned bytes, age, region;
  int64_t offset;
  uint32_t place;
  const char* value;
  char old[16];
  unsigned count;
  Who conflicts[8];
  unsigned writes[8];
} pending;
static void report_pending(bool may_be_same = true) {
  if (!pending.p) return;
  capture();
  const bool same = may_be_same && pending.bytes <= 16 && !memcmp(pending.old, pending.value, pending.bytes);
  for (unsigned i = 0; i < pending.count; ++i)
    report_race(pending.conflicts[i], pending.region, pending.offset, pending.place, pending.writes[i], same);
  pending.p = nullptr, pending.count = 0;
}
static void settle() { report_pending(), hide(); }

static inline __attribute__((always_inline)) void touch(Region& r, uint64_t word, uint8_t bytes, int kind,
    const Who& me, int64_t offset) {
  Cell& c = r.cells[word];
  const unsigned number = &r - regions.data();
  if (r.shared && c.written_in != block_tag) c.written_in = block_tag, c.written = 0;
  if (kind != SIMT_WRITE && !r.given && (c.written & bytes) != bytes) {
    Finding& f = finding(UNWRITTEN, me.place, 0, number);
    if (f.count == 1) f.offset = offset, f.thread1 = me.thread, f.block1 = block_tag - launch_first;
  }
  const auto conflict = [&](const Who& w, unsigned first_writes) {
    if (!(w.bytes & bytes) || (w.atomic & me.atomic & 1) || (r.shared && w.block != block_tag) || ordered(w,
        me)) return;
    const unsigned writes = first_writes | (kind != SIMT_READ);
    if (kind != SIMT_WRITE) report_race(w, number, offset, me.place, writes, false);
    else if (pending.count < 8) pending.writes[pending.count] = writes, pending.conflicts[pending.count++] = w;
  };
  conflict(c.write, 2);
  if (kind == SIMT_READ) {
    Who& newest = c.read[0];
    const bool elsewhere = newest.block != me.block || newest.thread / 32 != me.thread / 32;
    if (elsewhere) c.read[1] = newest;
    if (elsewhere || newest.barriers != me.barriers || newest.bytes != me.bytes ||
        own[me.thread].seen_all > newest.time)
      c.lanes = 0, c.since = me.time;
    c.lanes |= 1u << me.thread % 32;
    newest = me;
    return;
  }
  Who lane = c.read[0];
  if (lane.block == me.block && lane.thread / 32 == me.thread / 32 && lane.barriers == me.barriers)
    for (uint32_t left = c.lanes & ~(1u << me.thread % 32); left; left &= left - 1) {
      const unsigned l = __builtin_ctz(left);
      if (own[me.thread].seen[l] > c.since) continue;
      lane.thread = (me.thread & ~31u) + l, lane.time = c.since;
      conflict(lane, 0);
      break;
    }
  for (const Who& reader : c.read) conflict(reader, 0);
  c.write = me;
  c.written |= bytes;
}

// ---- accesses ----
// In each section of a library, the kernel's object file comes before this one, and the compiler's first file before
// both. Its constants come before its variables.
asm(".pushsection .data\nsimt_data:\n.popsection\n.pushsection .bss\nsimt_bss:\n.popsection");
extern "C" __attribute__((visibility("hidden"))) char simt_data[], simt_bss[], __bss_start[], __ehdr_start[];
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;  // the first word of the variables
static bool in_own_static(const char* p, unsigned bytes, int kind) {
  const char *const end = p + bytes, *const variables = reinterpret_cast<char*>(&__dso_handle + 1);
  return (p >= variables && end <= simt_data) || (p >= __bss_start && end <= simt_bss) ||
         (kind == SIMT_READ && p >= __ehdr_start && end <= variables);
}
// Outside of a launch, a static's initialiser may write its own stack
static inline __attribute__((always_inline)) bool in_caller(const char* p) {
  return uint64_t(p - static_cast<char*>(__builtin_frame_address(0))) < 1 << 16;
}
COLD static void outside(char* p, unsigned bytes, int kind) {
  const char* const done_by = kind == SIMT_WRITE ? "store" : kind == SIMT_READ ? "load" : "atomic";
  const ptrdiff_t in_dynamic = p - shared_memory;
  if (in_dynamic >= 0 && in_dynamic < (ptrdiff_t)SHARED_MAX)
    die("illegal address: a shared %s of %u bytes at offset %td; the launch gives each block %u bytes of dynamic "
        "shared memory", done_by, bytes, in_dynamic, launch->shared_bytes);
  die("illegal address: a %s of %u bytes outside every buffer of this launch: %s", done_by, bytes, outside_of(p).text);
}
COLD static void outside_array(const char* type, long long index) {
  die("illegal address: index %lld is outside an array of type %s", index, type);
}
COLD static void local_of_another(char* p, int kind, void* pc) {
  const size_t owner = (p - launch->stacks) / STACK_STEP;
  if (owner >= threads) return;
  settle();
  at(site_of_place(place_of(pc)));
  die("illegal address: a %s in the local memory of thread %zu. Threads share values in shared memory",
      kind == SIMT_READ ? "load" : "store", owner);
}
// Forced inline: each hook has its own copy for its number of bytes and its kind.
static inline __attribute__((always_inline)) void access(char* p, unsigned bytes, int kind, void* pc,
    bool in_parts = false) {
  if (!in_kernel && kind != SIMT_READ && !in_own_static(p, bytes, kind) && !in_caller(p)) __builtin_trap();
  if (!in_kernel || failed || !line_count) return;
  if (uint64_t(p - launch->stacks) < uint64_t(launch->stack_count) * STACK_STEP) {
    if (__builtin_expect(!together && uint64_t(p - stack_of(current->linear)) >= STACK_BYTES, 0))
      local_of_another(p, kind, pc);
    return;  // a thread's own variable
  }
  if (__builtin_expect(pending.p && (kind != SIMT_READ || ++pending.age > 1), 0)) report_pending();
  Own& me = own[current->linear];
  const uint32_t place = place_of(pc);
  me.last = place;
  at(site_of_place(place));
  if (kind == SIMT_ATOMIC) last_atomic = now + 1;
  Region* const r = region_at(p, place);
  if (!r) {
    if (!in_own_static(p, bytes, kind)) settle(), outside(p, bytes, kind);
    if (kind != SIMT_READ) finding(STATIC, place, 0, ~0u);
    return;
  }
  const int64_t offset = p - r->base;
  const bool fits = uint64_t(offset) + bytes <= r->bytes;
  if (quiet) {
    ++quiet_accesses;
    if (fits) show(*r, p, bytes, kind != SIMT_READ);
    return;
  }
  unsigned part = bytes;  // a GPU moves a large struct, or one of small members, in parts of at most 16 bytes
  if (fits && (in_parts || bytes > 16 || bytes & (bytes - 1)))
    part = std::min<size_t>(16, (offset | bytes) & -(offset | bytes));
  for (unsigned at = 0; at < bytes; at += part) log_access(place, kind, part, r - regions.data(), offset + at, me.seq);
  if (!fits) settle(), outside(p, bytes, kind);
  show(*r, p, bytes, kind != SIMT_READ);
  if (!in_parts && bytes <= 16 && !(bytes & (bytes - 1)) && reinterpret_cast<uintptr_t>(p) & (bytes - 1)) {
    settle();
    die("a load or store of %u bytes at %s is not aligned to its width", bytes, address_of(p).text);
  }
  if (kind == SIMT_WRITE) {
    pending.p = p, pending.bytes = bytes, pending.age = 0, pending.count = 0;
    pending.offset = offset, pending.place = place, pending.region = r - regions.data();
    pending.value = r->values + offset;
    memcpy(pending.old, p, bytes < 16 ? bytes : 16);
  }
  ++now;
  const unsigned inside = offset & (r->word - 1);
  if (inside + bytes <= r->word || !((inside | bytes) & (r->word - 1))) {  // a part of one word, or whole words
    const unsigned part = bytes < r->word ? bytes : r->word;
    const Who who{place, block_tag, now, me.barriers, (uint16_t)current->linear,
                  (uint8_t)(((1u << part) - 1) << inside), kind == SIMT_ATOMIC};
    const uint64_t first = offset >> r->word_log2, end = first + (bytes > r->word ? bytes >> r->word_log2 : 1);
    for (uint64_t word = first; word < end; ++word) touch(*r, word, who.bytes, kind, who, offset);
    return;
  }
  for (uint64_t first = offset, end = offset + bytes; first < end;) {
    const uint64_t word = first >> r->word_log2, begin = word << r->word_log2, next = begin + r->word;
    const uint64_t last = next < end ? next : end;
    const Who who{place, block_tag, now, me.barriers, (uint16_t)current->linear,
                  (uint8_t)(((1u << (last - first)) - 1) << (first - begin)), kind == SIMT_ATOMIC};
    touch(*r, word, who.bytes, kind, who, offset);
    first = last;
  }
}

// The last writers of the words of a copy, as long as nobody else has written there. at: struct Written of async.h
template <class W, class DO> static void for_written(const W& at, DO act) {
  if (!at.bytes || at.region >= regions.size()) return;
  Region& r = regions[at.region];
  for (uint64_t word = at.offset >> r.word_log2; word <= (at.offset + at.bytes - 1) >> r.word_log2; ++word) {
    Who& who = r.cells[word].write;
    if (who.time == at.time && who.place == at.place && who.block == block_tag) act(who);
  }
}

// ---- order ----
static void order_lanes(unsigned lanes) {
  const unsigned warp = current->linear & ~31u;
  uint32_t seen[32] = {};
  ++now;
  for (unsigned l = 0; l < 32; ++l) {
    if (!(lanes >> l & 1)) continue;
    Own& lane = own[warp + l];
    lane.seen[l] = now;
    for (unsigned k = 0; k < 32; ++k)
      if (lane.seen[k] > seen[k]) seen[k] = lane.seen[k];
  }
  if (!clocks.empty()) {
    Clock all;
    for (unsigned l = 0; l < 32; ++l)
      if (lanes >> l & 1) join_clock(all, clocks[warp + l]);
    for (unsigned l = 0; l < 32; ++l)
      if (lanes >> l & 1) clocks[warp + l] = all;
  }
  for (unsigned l = 0; l < 32; ++l)
    if (lanes >> l & 1) {
      memcpy(own[warp + l].seen, seen, sizeof seen);
      own[warp + l].seen_all = *std::min_element(seen, seen + std::min(32u, threads - warp));
    }
}
static void report_divergence(unsigned kind, uint32_t place1, uint32_t place2, unsigned thread1, unsigned thread2) {
  Finding& f = finding(kind, place1, place2, ~0u);
  if (f.count > 1) return;
  f.thread1 = thread1, f.thread2 = thread2, f.block1 = f.block2 = block_tag - launch_first;
}
// By the first thread that goes on
static void open_barrier() {
  barrier_votes[0] = 0, barrier_votes[1] = 1, barrier_votes[2] = 0;
  unsigned gone = ~0u, here = current->linear;
  for (unsigned i = 0; i < threads; ++i) {
    if (!own[i].at_barrier) {
      if (gone == ~0u || (own[gone].left_at && !own[i].left_at)) gone = i;
      continue;
    }
    const int p = own[i].predicate;
    barrier_votes[0] += p != 0, barrier_votes[1] &= p != 0, barrier_votes[2] |= p != 0;
    if (own[i].last != own[here].last) report_divergence(DIVERGENT, own[here].last, own[i].last, here, i);
    own[i].at_barrier = false;
  }
  if (gone != ~0u) {
    const uint32_t left_at = own[gone].left_at;
    report_divergence(left_at ? LEFT_EARLY : DIVERGENT, own[here].last, left_at ? left_at : own[gone].last, here, gone);
  }
  ++block_barriers;
}
}  // namespace simt
