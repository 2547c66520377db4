// Asynchronous copies, barriers in shared memory (mbarrier) and barriers by number of a plain kernel.
//
// A copy by a thread (cp.async) lands at once. With `reversed` it lands at the wait for its group. A bulk copy lands at
// once, or with `reversed` when no thread can go on and one waits for its barrier. Until a wait for it, each access of
// its bytes is a fault (Finding ASYNC). After the wait the bytes count as written by the waiting thread.
//
// It stops with a message for:
//   a barrier without mbarrier.init
//   more arrivals or bytes than a phase takes
//   a barrier by number with different counts of threads
//   a bulk copy of a size or to an address that no GPU takes
//   a block that ends before its bulk copies have landed
#pragma once
#include "shadow.h"

namespace simt {

// ---- the written bytes of a copy, in the shadow ----

struct Written { uint32_t region, place, time; int64_t offset; uint64_t bytes; };
// Reports a copy's read and its write, and marks the written bytes as pending
static Written begin_copy(char* to, const char* from, unsigned bytes, unsigned zeros, void* pc) {
  if (bytes) access((char*)from, bytes, SIMT_READ, pc), settle();
  access(to, bytes + zeros, SIMT_WRITE, pc);
  report_pending(false);
  hide();
  const Region* const r = line_count ? region_at(to) : nullptr;
  if (!r) return {};
  const Written made{(uint32_t)(r - regions.data()), place_of(pc), now, to - r->base, bytes + zeros};
  for_written(made, [](Who& who) { who.atomic |= PENDING; });
  return made;
}
// A thread has waited for the copy
static void end_copy(const Written& w, uint32_t time) {
  const uint32_t barriers = own[current->linear].barriers;
  for_written(w, [&](Who& who) { who.atomic &= ~PENDING, who.time = time, who.barriers = barriers; });
}

struct ThreadCopy {  // by cp.async
  char* to;
  const char* from;
  unsigned bytes, zeros, group;
  Written written;
  ThreadCopy* before;
};
static void land(const ThreadCopy& copy) { memcpy(copy.to, copy.from, copy.bytes), memset(copy.to + copy.bytes,
    0, copy.zeros); }
static void start_copy(char* to, const char* from, unsigned bytes, unsigned zeros, void* pc) {
  Own& me = own[current->linear];
  const Written written = begin_copy(to, from, bytes, zeros, pc);
  me.copies = new ThreadCopy{value_of(to), value_of((char*)from), bytes, zeros, me.groups, written, me.copies};
  if (!launch->reversed) land(*me.copies);
}
// Those of the groups before `end` have landed
static void finish_copies(unsigned end) {
  settle();
  ThreadCopy** newest = &own[current->linear].copies;
  while (*newest && (*newest)->group >= end) newest = &(*newest)->before;
  ThreadCopy *oldest_first = nullptr, *next = *newest;
  *newest = nullptr;
  while (ThreadCopy* const copy = next) next = copy->before, copy->before = oldest_first, oldest_first = copy;
  ++now;
  while (ThreadCopy* const copy = oldest_first) {
    oldest_first = copy->before;
    if (launch->reversed) land(*copy);
    end_copy(copy->written, now);
    delete copy;
  }
}
static void drop_copies(Own& of) {
  while (ThreadCopy* const copy = of.copies) of.copies = copy->before, delete copy;
}

// ---- barriers in shared memory ----

struct Piece { char* to; const char* from; unsigned bytes; };  // from null: zeros
struct BulkCopy {
  std::vector<Piece> pieces;
  std::vector<Written> written;
  unsigned bytes, thread, phase;
  uint32_t landed;  // its time, or 0
  Site here;
};
struct MBarrier {
  char* at;
  unsigned arrivals, pending, phase, tests;  // tests: in vain, since a copy has landed
  int64_t expected;  // missing bytes of the phase. Bytes may come before they are expected
  std::vector<BulkCopy> copies;
  Clock clock, done;  // of all arrivals, and of those up to the last phase
  Who set_up;         // mbarrier.init
};
struct Numbered { unsigned count, arrived; std::vector<bool> came; Clock clock; };
struct BlockBarriers {
  std::vector<MBarrier> shared;
  Numbered numbered[16];
};
static BlockBarriers barriers;
enum class For : uint8_t { GRID, SHARED, NUMBER, GROUP };
struct Wait { For what; unsigned which; };
static Wait waits[THREADS_MAX];

static void wait_for(For what, unsigned which) {
  settle();
  waits[current->linear] = {what, which};
  current->state = State::ELSEWHERE;
  yield();
  waits[current->linear] = {For::GRID, 0};
}
static bool waits_for(unsigned thread, For what, unsigned which) {
  return fibers[thread].state == State::ELSEWHERE && waits[thread].what == what && waits[thread].which == which;
}
static void wake(For what, unsigned which) {
  for (unsigned i = 0; i < threads; ++i)
    if (waits_for(i, what, which)) fibers[i].state = State::READY;
}
// Offsets of shared memory, as a GPU's 32-bit addresses: dynamic memory from 0, static arrays behind it.
// act(first, region) sees each static array and its offset, until it returns true.
template <class DO> static void for_statics(DO act) {
  unsigned next = launch->shared_bytes ? SHARED_MAX : 0;
  for (const Region& r : regions) {
    if (!r.shared || r.base == shared_memory) continue;
    next = (next + 127) / 128 * 128 + (uintptr_t)r.base % 128;
    if (act(next, r)) return;
    next += r.bytes;
  }
}
constexpr unsigned NO_OFFSET = 1u << 30;
static unsigned offset_of(const void* p) {
  const char* const c = static_cast<const char*>(p);
  if (c >= shared_memory && c < shared_memory + SHARED_MAX) return c - shared_memory;
  unsigned found = NO_OFFSET, end = NO_OFFSET;
  for_statics([&](unsigned first, const Region& r) {
    if (c == r.base + r.bytes) end = first + r.bytes;
    return uint64_t(c - r.base) < r.bytes && (found = first + (c - r.base), true);
  });
  return found != NO_OFFSET ? found : end;
}
// null: no such byte
static char* pointer_of(unsigned offset) {
  if (offset < launch->shared_bytes) return shared_memory + offset;
  char *found = nullptr, *end = nullptr;
  for_statics([&](unsigned first, const Region& r) {
    if (offset == first + r.bytes) end = const_cast<char*>(r.base) + r.bytes;
    return offset - first < r.bytes && (found = const_cast<char*>(r.base) + (offset - first), true);
  });
  if (!found && !end && offset < SHARED_MAX) return shared_memory + offset;  // the access reports it
  return found ? found : end;
}
static MBarrier& find_barrier(void* at, const char* use) {
  for (MBarrier& one : barriers.shared)
    if (one.at == at) return one;
  settle();
  die("%s of the barrier at offset %u of shared memory, which no thread has set up. mbarrier.init comes first", use,
      offset_of(at));
}
static void end_phase_if_over(MBarrier& barrier) {
  if (barrier.pending || barrier.expected) return;
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
  barrier.done = barrier.clock;
  wake(For::SHARED, &barrier - barriers.shared.data());
}
static void land(MBarrier& barrier, BulkCopy& copy) {
  for (const Piece& piece : copy.pieces)
    piece.from ? memcpy(piece.to, piece.from, piece.bytes) : memset(piece.to, 0, piece.bytes);
  copy.landed = ++now, copy.phase = barrier.phase, barrier.tests = 0;
  barrier.clock.resize(threads);
  barrier.clock[copy.thread] = std::max(barrier.clock[copy.thread], now + 1);
  barrier.expected -= copy.bytes;
  end_phase_if_over(barrier);
}
// A test in vain. A thread that only tests never lets all threads wait, so a copy lands after some tests.
static void count_test(MBarrier& barrier) {
  if (++barrier.tests < 4 * threads) return;
  for (BulkCopy& copy : barrier.copies)
    if (!copy.landed) return land(barrier, copy);
}
// One thread waits for a barrier with copies on their way: they land
static bool land_copies() {
  for (unsigned n = 0; n < threads; ++n) {
    const unsigned i = launch->reversed ? threads - 1 - n : n;
    if (fibers[i].state != State::ELSEWHERE || waits[i].what != For::SHARED) continue;
    MBarrier& barrier = barriers.shared[waits[i].which];
    for (BulkCopy& copy : barrier.copies)
      if (!copy.landed) return land(barrier, copy), true;
  }
  return false;
}
static void explain_waits(Text& text) {
  for (unsigned b = 0; b < barriers.shared.size(); ++b) {
    const auto is = [b](unsigned i) { return waits_for(i, For::SHARED, b); };
    if (!any_thread(is)) continue;
    add_threads(text, is);
    const MBarrier& barrier = barriers.shared[b];
    text.add(" at the mbarrier at offset %u of shared memory, phase %u: %u of %u arrivals and %lld bytes are missing; ",
             offset_of(barrier.at), barrier.phase, barrier.pending, barrier.arrivals, (long long)barrier.expected);
  }
  for (unsigned number = 0; number < 16; ++number) {
    const auto is = [number](unsigned i) { return waits_for(i, For::NUMBER, number); };
    if (!any_thread(is)) continue;
    add_threads(text, is);
    text.add(" at barrier %u, to which %u of %u threads came; ", number, barriers.numbered[number].arrived,
             barriers.numbered[number].count);
  }
  for (unsigned group = 0; group < THREADS_MAX / 128; ++group) {
    const auto is = [group](unsigned i) { return waits_for(i, For::GROUP, group); };
    if (any_thread(is)) add_threads(text, is), text.add(" at wgmma for the rest of their warpgroup; ");
  }
  text.add("%u of %u threads have left", done, threads);
}
static bool any_waits() {
  return any_thread([](unsigned i) { return fibers[i].state == State::ELSEWHERE && waits[i].what != For::GRID; });
}
static void begin_barriers() {
  barriers = BlockBarriers{};
  for (Wait& wait : waits) wait = {For::GRID, 0};
}
static void end_barriers() {
  for (const MBarrier& barrier : barriers.shared)
    for (const BulkCopy& copy : barrier.copies)
      if (!copy.landed && !failed)
        stop("all threads have left, and the bulk copy of %s:%u is still on its way to shared memory. Wait for its "
             "barrier", base_name(copy.here.file), copy.here.line);
}

// ---- bulk copies ----

static void start_bulk(MBarrier& barrier, const std::vector<Piece>& pieces, unsigned bytes, Site here, void* pc) {
  BulkCopy copy{{}, {}, bytes, current->linear, 0, 0, here};
  for (const Piece& piece : pieces) {
    const bool reads = piece.from;
    copy.written.push_back(begin_copy(piece.to, piece.from, reads ? piece.bytes : 0, reads ? 0 : piece.bytes, pc));
    copy.pieces.push_back({value_of(piece.to), reads ? value_of((char*)piece.from) : nullptr, piece.bytes});
  }
  barrier.copies.push_back(std::move(copy));
  if (!launch->reversed) land(barrier, barrier.copies.back());
}
// A thread has seen the end of the barrier's phases before `phase`
static void see_phase(MBarrier& barrier) {
  join(current->linear, barrier.done);
  auto& copies = barrier.copies;
  const auto seen = [&](BulkCopy& copy) {
    if (!copy.landed || copy.phase >= barrier.phase) return false;
    for (const Written& written : copy.written) end_copy(written, copy.landed);
    return true;
  };
  copies.erase(std::remove_if(copies.begin(), copies.end(), seen), copies.end());
}
}  // namespace simt
