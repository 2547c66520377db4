// The CPU half of device/hopper.cuh, with a description of each name there: barriers in shared memory, boxes by TMA,
// barriers by number, and their deadlocks. Products are in warpgroup.h.
//
// A box lands at once. With `reversed` it lands as late as possible: when no thread can go on, and one waits for its
// barrier. The counts of a barrier are kept here. Shared memory has only a word that identifies it.
//
// It stops with a message for:
//   a barrier without barrier_init, or an overwritten one
//   more arrivals or bytes than a barrier expects
//   a tile outside shared memory, or not at the start of a swizzle
//   a barrier by number with different counts of threads
//   a block that ends before its boxes have landed
//   a deadlock, with the waits of all threads
#pragma once

struct TensorMap {  // as in kernels/run/backends/cpu.py, the innermost dimension first
  const char* base;
  uint64_t strides[5];  // bytes from one element to the next
  unsigned sizes[5], box[5];
  unsigned dimensions, element_bytes, swizzle, unused[7];
};
static_assert(sizeof(TensorMap) == 128, "as large as CUDA's");
struct Barrier { unsigned long long state; };
#define SWIZZLED_SMEM(type, name) DYNAMIC_SMEM(type, name)

namespace simt {

// ---- waits ----

enum class For : uint8_t { NOTHING, BARRIER, NUMBER, WARPGROUP };
struct Wait { For what; unsigned which; };
static Wait waits[THREADS_MAX];

static void wait_for(For what, unsigned which) {
  waits[current->linear] = {what, which};
  current->state = State::ELSEWHERE;
  yield();
  waits[current->linear].what = For::NOTHING;
}
static bool waits_for(unsigned thread, For what, unsigned which) {
  return fibers[thread].state == State::ELSEWHERE && waits[thread].what == what && waits[thread].which == which;
}
static void wake(For what, unsigned which) {
  for (unsigned i = 0; i < threads; ++i)
    if (waits_for(i, what, which)) fibers[i].state = State::READY;
}

// ---- barriers in shared memory ----

struct Box { TensorMap map; int at[4]; unsigned to, bytes; Box* next; Site here; };
struct Phases {
  unsigned offset, arrivals;  // its offset in shared memory, and the arrivals of a phase
  unsigned phase, pending;    // finished phases, and missing arrivals of this one
  unsigned expected, came;    // its bytes
  bool usable;                // since barrier_init_done
  Box* boxes;                 // on their way to it, in the order of requests
};
constexpr unsigned BARRIERS_MAX = 256;
constexpr uint64_t BARRIER_WORD = 0x4261727269657200;
static Phases barriers[BARRIERS_MAX];
static unsigned barrier_count;

static const char* name_of(const Phases& barrier) {
  static char name[128];
  snprintf(name, sizeof name,
           "barrier %d, in the order of barrier_init (offset %u of shared memory, phase %u, parity %u)",
           int(&barrier - barriers), barrier.offset, barrier.phase, barrier.phase & 1);
  return name;
}
static unsigned place_of(const Barrier* barrier) {
  const ptrdiff_t at = reinterpret_cast<const char*>(barrier) - shared_memory;
  if (at < 0 || at + 8 > launch->shared_bytes)
    die("illegal address: a barrier at offset %td of shared memory; the block has %u bytes", at, launch->shared_bytes);
  if (at % 8) die("a barrier of 8 bytes at offset %td of shared memory is not aligned to its width", at);
  return at;
}
static Phases& find(const Barrier* barrier, const char* use) {
  const unsigned at = place_of(barrier);
  const uint64_t number = barrier->state - BARRIER_WORD;
  if (number >= barrier_count || barriers[number].offset != at) {
    for (unsigned i = 0; i < barrier_count; ++i)
      if (barriers[i].offset == at) die("%s: something was written over it", name_of(barriers[i]));
    die("%s at offset %u of shared memory, where no barrier was set up. barrier_init, barrier_init_done and "
        "__syncthreads come first", use, at);
  }
  if (!barriers[number].usable) die("%s: %s before barrier_init_done", name_of(barriers[number]), use);
  return barriers[number];
}
static void end_phase_if_over(Phases& barrier) {
  if (barrier.pending) return;
  if (barrier.came > barrier.expected)
    die("%s: %u bytes came, and %u are expected", name_of(barrier), barrier.came, barrier.expected);
  if (barrier.came < barrier.expected) return;
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
  barrier.expected = barrier.came = 0;
  wake(For::BARRIER, &barrier - barriers);
}
static void arrive(Phases& barrier, unsigned bytes) {
  if (!barrier.pending)
    die("%s: it has all its %u arrivals, and this is one more; it waits for bytes, %u of %u came", name_of(barrier),
        barrier.arrivals, barrier.came, barrier.expected);
  barrier.expected += bytes;
  --barrier.pending;
  end_phase_if_over(barrier);
}

// ---- boxes ----

constexpr unsigned swizzled(unsigned at, unsigned swizzle) {
  return swizzle ? at ^ (at >> 7 & (swizzle / 16 - 1)) << 4 : at;
}
static void land(const Box& box) {
  const TensorMap& map = box.map;
  const unsigned width = map.element_bytes, row = map.box[0] * width;
  const int64_t first = max(0, -box.at[0]), end = min<int64_t>(map.box[0], (int64_t)map.sizes[0] - box.at[0]);
  unsigned to = box.to;
  char line[256 * 8];
  for (unsigned n3 = 0; n3 < map.box[3]; ++n3)
    for (unsigned n2 = 0; n2 < map.box[2]; ++n2)
      for (unsigned n1 = 0; n1 < map.box[1]; ++n1) {
        const int64_t at[] = {0, box.at[1] + (int64_t)n1, box.at[2] + (int64_t)n2, box.at[3] + (int64_t)n3};
        bool inside = first < end;
        const char* from = map.base;
        for (unsigned d = 1; d < 4; ++d) {
          inside = inside && at[d] >= 0 && at[d] < map.sizes[d];
          from += at[d] * map.strides[d];
        }
        memset(line, 0, row);
        if (inside) memcpy(line + first * width, from + (box.at[0] + first) * width, (end - first) * width);
        for (unsigned byte = 0; byte < row; byte += 16, to += 16)
          memcpy(shared_memory + swizzled(to, map.swizzle), line + byte, 16);
      }
}
// Boxes on their way land, one after another, until the phase is over
static void land_boxes(Phases& barrier) {
  const unsigned phase = barrier.phase;
  while (barrier.phase == phase && barrier.boxes) {
    Box* const box = barrier.boxes;
    barrier.boxes = box->next;
    land(*box);
    barrier.came += box->bytes;
    free(box);
    end_phase_if_over(barrier);
  }
}
static void check_box(const TensorMap& map, unsigned at, unsigned bytes, bool stores = false) {
  const char *const call = stores ? "tma_store" : "tma_load", *const way = stores ? "from" : "to";
  const unsigned row = map.box[0] * map.element_bytes, unit = map.swizzle ? 8 * map.swizzle : 128;
  if (map.dimensions != 4) die("a tensor map of %u dimensions; %s takes four coordinates", map.dimensions, call);
  if (map.swizzle && row != map.swizzle)
    die("a box with rows of %u bytes and a swizzle of %u; the shim knows swizzled rows that are as long", row,
        map.swizzle);
  if (at > launch->shared_bytes || bytes > launch->shared_bytes - at)
    die("illegal address: a %s of %u bytes %s offset %d of shared memory; the block has %u bytes", call, bytes,
        way, (int)at, launch->shared_bytes);
  if (at % unit)
    die("a %s with a swizzle of %u bytes %s offset %u of shared memory, which is no multiple of %u", call, map.swizzle,
        way, at, unit);
}
// The place of a box in a tensor, as the probe before says it: the address, or only the offset in the tensor (a null
// pointer to its elements)
static const void* announced_place(const TensorMap& map, const int (&c)[4]) {
  uintptr_t offset = 0;
  for (unsigned d = 0; d < 4; ++d) offset += (int64_t)c[d] * map.strides[d];
  const uintptr_t logged = reinterpret_cast<uintptr_t>(current->announced);
  return reinterpret_cast<const void*>(logged == offset ? offset : reinterpret_cast<uintptr_t>(map.base) + offset);
}
// Two probes: of the tensor, then of shared memory
static void check_box_probes(const void* smem, const TensorMap& map, const int (&c)[4], unsigned bytes) {
  check_probe(smem, bytes, TMA_SMEM);
  current->announced = current->source, current->announced_bytes = current->source_bytes;
  current->announced_kind = current->source_kind;
  check_probe(announced_place(map, c), bytes, TMA);
  current->announced_bytes = 0;
}

// ---- barriers by number ----

struct Numbered { unsigned count, arrived; bool came[THREADS_MAX]; };  // of this phase
constexpr unsigned NUMBERS = 16;
static Numbered numbered[NUMBERS];

static void join(int id, int count, const char* call, bool waiting) {
  if (id < 1 || id >= (int)NUMBERS) die("%s with barrier %d; they are numbered 1 to 15", call, id);
  if (count < 32 || count % 32 || count > (int)threads)
    die("%s(%d, %d): a barrier takes whole warps, and no more than the block's %u threads", call, id, count, threads);
  Numbered& barrier = numbered[id];
  if (barrier.arrived && barrier.count != (unsigned)count)
    die("%s(%d, %d): those who came before said %u threads", call, id, count, barrier.count);
  if (barrier.came[current->linear])
    die("%s(%d, %d): this thread has come to the barrier before, and its phase is not over (%u of %u came)", call, id,
        count, barrier.arrived, barrier.count);
  barrier.count = count;
  barrier.came[current->linear] = true;
  if (++barrier.arrived == barrier.count) {
    barrier = Numbered{};
    wake(For::NUMBER, id);
  } else if (waiting) {
    wait_for(For::NUMBER, id);
  }
}
}  // namespace simt
#include "warpgroup.h"

namespace simt {

// ---- for the scheduler ----

static void forget() {
  barrier_count = 0;
  for (Numbered& barrier : numbered)
    if (barrier.arrived) barrier = Numbered{};
  forget_products();
}
static bool land_what_is_waited_for() {
  for (unsigned n = 0; n < threads; ++n) {
    const unsigned i = launch->reversed ? threads - 1 - n : n;
    const Wait& wait = waits[i];
    if (fibers[i].state != State::ELSEWHERE || wait.what != For::BARRIER || !barriers[wait.which].boxes) continue;
    fibers[i].state = State::READY;  // this thread lands them, so that an error has its name
    return true;
  }
  return false;
}
static void explain(Text& text) {
  for (unsigned b = 0; b < barrier_count; ++b) {
    const auto is = [b](unsigned i) { return waits_for(i, For::BARRIER, b); };
    if (!any_thread(is)) continue;
    add_threads(text, is);
    const Phases& barrier = barriers[b];
    text.add(" at barrier_wait of %s: %u of %u arrivals and %d of %u bytes are missing; ", name_of(barrier),
             barrier.pending, barrier.arrivals, int(barrier.expected - barrier.came), barrier.expected);
  }
  for (unsigned id = 0; id < NUMBERS; ++id) {
    const auto is = [id](unsigned i) { return waits_for(i, For::NUMBER, id); };
    if (!any_thread(is)) continue;
    add_threads(text, is);
    text.add(" at named_sync(%u, %u), to which %u threads came; ", id, numbered[id].count, numbered[id].arrived);
  }
  explain_warpgroups(text);
  const auto at_barrier = [](unsigned i) { return fibers[i].state == State::AT_BARRIER; };
  const auto at_warp = [](unsigned i) { return fibers[i].state == State::AT_WARP; };
  if (any_thread(at_barrier)) add_threads(text, at_barrier), text.add(" at __syncthreads; ");
  if (any_thread(at_warp)) add_threads(text, at_warp), text.add(" in a warp collective that never fills; ");
}
static void end_block() {
  for (unsigned b = 0; b < barrier_count; ++b) {
    if (!barriers[b].boxes || failed) continue;
    const Site site = barriers[b].boxes->here;
    stop("%s: all threads have left, and boxes are still on their way to it. Wait for them; the first is of %s:%u",
         name_of(barriers[b]), base_name(site.file), site.line);
  }
}
static const bool extended = (extension = {forget, land_what_is_waited_for, explain, end_block}, true);
}  // namespace simt

inline void barrier_init(Barrier* barrier, int arrivals, SIMT_HERE) {
  using namespace simt;
  at(here);
  const unsigned offset = place_of(barrier);
  for (unsigned i = 0; i < barrier_count; ++i)
    if (barriers[i].offset == offset) die("%s: barrier_init a second time", name_of(barriers[i]));
  if (arrivals < 1 || arrivals >= 1 << 20)
    die("barrier_init with %d arrivals; a barrier takes 1 to 1,048,575", arrivals);
  if (barrier_count == BARRIERS_MAX)
    die("more than %u barriers in shared memory; the shim knows no more", BARRIERS_MAX);
  barrier->state = BARRIER_WORD + barrier_count;
  barriers[barrier_count++] = {offset, (unsigned)arrivals, 0, (unsigned)arrivals, 0, 0, false, nullptr};
}
inline void barrier_init_done() {
  for (unsigned i = 0; i < simt::barrier_count; ++i) simt::barriers[i].usable = true;
}
inline void barrier_expect(Barrier* barrier, int bytes, SIMT_HERE) {
  simt::at(here);
  simt::Phases& found = simt::find(barrier, "barrier_expect");
  if (bytes < 0 || bytes >= 1 << 20) simt::die("barrier_expect of %d bytes; a phase takes 0 to 1,048,575", bytes);
  simt::arrive(found, bytes);
}
inline void barrier_arrive(Barrier* barrier, SIMT_HERE) {
  simt::at(here);
  simt::arrive(simt::find(barrier, "barrier_arrive"), 0);
}
inline void barrier_wait(Barrier* barrier, int parity, SIMT_HERE) {
  simt::at(here);
  simt::Phases& found = simt::find(barrier, "barrier_wait");
  if (parity & ~1) simt::die("barrier_wait for parity %d; it is 0 or 1", parity);
  while ((found.phase & 1) == (unsigned)parity) {
    simt::wait_for(simt::For::BARRIER, &found - simt::barriers);
    if ((found.phase & 1) == (unsigned)parity) simt::land_boxes(found);
  }
}
inline void tma_load(void* smem, const TensorMap* map, Barrier* barrier, int c0, int c1, int c2, int c3, SIMT_HERE) {
  using namespace simt;
  simt::at(here);
  Phases& found = find(barrier, "tma_load");
  const unsigned bytes = map->box[0] * map->box[1] * map->box[2] * map->box[3] * map->element_bytes;
  const unsigned at = static_cast<char*>(smem) - shared_memory;
  check_box(*map, at, bytes);
  check_box_probes(smem, *map, {c0, c1, c2, c3}, bytes);
  auto* const box = static_cast<Box*>(malloc(sizeof(Box)));
  *box = {*map, {c0, c1, c2, c3}, at, bytes, nullptr, here};
  Box** last = &found.boxes;
  while (*last) last = &(*last)->next;
  *last = box;
  if (!launch->reversed) land_boxes(found);
}

inline void named_sync(int id, int threads, SIMT_HERE) {
  simt::at(here);
  simt::join(id, threads, "named_sync", true);
}
inline void named_arrive(int id, int threads, SIMT_HERE) {
  simt::at(here);
  simt::join(id, threads, "named_arrive", false);
}
inline int warp_uniform(int v, SIMT_HERE) { return __shfl_sync(0xffffffffu, v, 0, here); }
inline int atomic_next(int* p, int last, SIMT_HERE) {
  simt::at(here);
  simt::check_buffer(p, sizeof *p, AccessKind::STORE, here);
  const int before = *p;
  *p = before < last ? before + 1 : 0;
  return before;
}
