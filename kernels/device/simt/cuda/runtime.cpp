// The CPU's half of a plain kernel: simt.h runs its threads, and this file adds what an instrumented build reports.
//
// g++ -fsanitize=thread calls a function before each access of the kernel. This file defines these functions. shadow.h
// finds races, unwritten reads and accesses out of bounds. places.h keeps the accesses for a trace, and grid.h parks
// blocks at a grid.sync().
#include "calls.h"
enum class AccessKind { LOAD, STORE, LDMATRIX, CP_ASYNC, CP_ASYNC_L2 };
#include "simt.h"
#undef exit
#undef abort
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#include <algorithm>
#include <vector>
#include <dlfcn.h>
#include "grid.h"

using namespace simt;
extern "C" {
static void begin_products();
}

static void begin_block() {
  settle();  // the last write of the block before
  for (const Region& r : regions) {
    if (r.shared && r.base != shared_memory) memset(const_cast<char*>(r.base), POISON, r.bytes);
    if (r.shared && r.values) memset(r.values, POISON, r.bytes);
  }
  fence_of_block.resize(++block_tag + 1);
  last_atomic = block_barriers = 0;
  block_number = block_idx.x + grid_dim.x * (block_idx.y + grid_dim.y * block_idx.z);
  for (unsigned i = 0; i < threads; ++i) drop_copies(own[i]), own[i] = Own{};
  clocks.clear();
  begin_barriers(), begin_products();
}
static void begin_launch(const Launch& asked) {
  block_tag = std::max(block_tag, (uint32_t)fence_of_block.size() - !fence_of_block.empty());
  launch_first = block_tag + 1;
  quiet_accesses = marks = 0;
  begin_grid();
  pending.p = nullptr;
  for (unsigned i = 0; i < asked.buffer_count && line_count; ++i) {
    const Buffer& b = asked.buffers[i];
    if (!region_at(b.base)) add_region(strdup(b.name), b.base, b.bytes, b.element_bytes, false, true);
  }
  for (Region& r : regions)
    if (r.base == shared_memory) r.bytes = asked.shared_bytes;
  for (Region& r : regions) poison(r);
}
// The values of the tensors go back. A store without a report changed the poison
static void end_launch() {
  hide();
  if (quiet_accesses && !marks) finding(STATIC, 0, 0, ~0u);  // only the calls of marks are quiet
  for (Region& r : regions) {
    if (!r.values) continue;
    char* const base = const_cast<char*>(r.base);
    uint64_t at = 0;
    while (at < r.bytes && (uint8_t)base[at] == POISON) ++at;
    if (!r.shared && at < r.bytes && !failed) finding(UNLOGGED, 0, 0, &r - regions.data()).offset = at;
    if (!r.shared) memcpy(base, r.values, r.bytes);
    free(r.values), r.values = nullptr;
  }
}
static Site site_of(const char* file, unsigned line) { return {file, line}; }

static void collective(void* pc, const char* file, unsigned line) {
  settle();
  own[current->linear].last = place_of(pc);
  at(site_of(file, line));
}

extern "C" {
uint3 simt_thread_idx() { return {current->thread_idx.x, current->thread_idx.y, current->thread_idx.z}; }
uint3 simt_block_idx() { return {block_idx.x, block_idx.y, block_idx.z}; }
uint3 simt_block_dim() { return {block_dim.x, block_dim.y, block_dim.z}; }
uint3 simt_grid_dim() { return {grid_dim.x, grid_dim.y, grid_dim.z}; }
unsigned simt_rank() { return current->linear; }
char* simt_dynamic_shared() { return shared_memory; }
unsigned simt_shared_offset(const void* p) { return offset_of(p); }
void* simt_shared_pointer(unsigned offset, const char* file, unsigned line, void* pc) {
  if (char* const found = pointer_of(offset)) return found;
  collective(pc, file, line);
  die("illegal address: offset %u is outside of the block's shared memory", offset);
}
unsigned simt_dynamic_bytes() { return launch->shared_bytes; }

void simt_shared(const char* name, const void* array, size_t bytes, size_t element) {
  for (const Region& r : regions)
    if (r.base == array && r.bytes == bytes) return;
  add_region(name, static_cast<const char*>(array), bytes, element, true, false);
  memset(const_cast<void*>(array), POISON, bytes);
  poison(regions.back());
}
void simt_access(const void* p, size_t bytes, int kind, void* pc) { access((char*)p, bytes, kind, pc); }
void simt_leave(void* pc) { own[current->linear].left_at = place_of(pc); }

// ---- barriers and collectives ----
static void wait_for_block(const char* file, unsigned line, void* pc, int predicate, State state) {
  settle();
  Own& me = own[current->linear];
  me.last = place_of(pc), me.predicate = predicate, me.at_barrier = true;
  if (line_count) log_access(me.last, SIMT_BARRIER, 1, ~0u, me.barriers, me.seq);
  const Site here = site_of(file, line);
  at(here);
  current->state = state;
  if (state == State::AT_BARRIER && !at_barrier++) barrier_site = here;
  yield();
  if (me.barriers == block_barriers) open_barrier();
  me.barriers = block_barriers;
}
void simt_barrier(const char* file, unsigned line, void* pc, int predicate, int* found) {
  wait_for_block(file, line, pc, predicate, State::AT_BARRIER);
  if (found) memcpy(found, barrier_votes, sizeof barrier_votes);
}
void simt_syncwarp(unsigned mask, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  rendezvous(mask, SYNCWARP, nullptr, [](void**, unsigned lanes) { order_lanes(lanes); });
}
uint64_t simt_exchange(unsigned mask, uint64_t value, unsigned source, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  Own& me = own[current->linear];
  if (line_count) log_access(me.last, SIMT_SHUFFLE, 1, ~0u, 0, me.seq);
  Shuffle s{value, 0, source & 31};
  rendezvous(mask, SHUFFLE, &s, exchange);
  return s.received;
}
unsigned simt_vote(unsigned mask, int holds, const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  Vote vote{holds != 0, 0};
  rendezvous(mask, VOTE, &vote, count_votes);
  return vote.all;
}
void simt_together(unsigned mask, void* mine, void (*work)(void**, unsigned), const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  struct Part { void* mine; void (*work)(void**, unsigned); } part{mine, work};
  rendezvous(mask, MMA, &part, [](void** parts, unsigned lanes) {
    void* all[32] = {};
    const Part* one = nullptr;
    for (unsigned l = 0; l < 32; ++l)
      if (lanes >> l & 1) one = static_cast<Part*>(parts[l]), all[l] = one->mine;
    together = true, one->work(all, lanes), together = false;
  });
}
void simt_grid_barrier(const char* file, unsigned line, void* pc) {
  wait_for_block(file, line, pc, 0, State::ELSEWHERE);
}
void simt_spin() {
  if (!in_kernel) return;
  if (!(++spins % 64)) settle(), yield();
}
void simt_fence() {
  settle();
  fence_of_block[block_tag] = ++now;
  simt_spin();
}

#include "copies.h"
#include "matrices.h"
#include "products.h"
}
#include "boxes.h"
extern "C" {

// ---- marks ----
void simt_quiet(int on) { quiet = on; }
void simt_log_value(unsigned number, float value, const long long* keys, unsigned count, void* pc) {
  ++marks;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  Own& me = own[current->linear];
  const uint32_t place = place_of(pc);
  log_access(place, SIMT_VALUE, 1, number, bits, me.seq);
  for (unsigned i = 0; i < count; ++i) log_access(place, SIMT_KEY, 1, number, keys[i], me.seq);
}

// ---- output and ends ----
int simt_print(const char* format, ...) {
  for (const char* at = strchr(format, '%'); at; at = strchr(at + 1, '%')) {
    at += 1 + strspn(at + 1, "0123456789.*$+- #hlzjt");
    if (!*at || !strchr("diouxXfFeEgGaAcsp%", *at)) die("printf's format %%%c is not one of CUDA's. Remove it", *at);
  }
  va_list list;
  va_start(list, format);
  const size_t room = sizeof printed - printed_bytes;
  const int wanted = vsnprintf(printed + printed_bytes, room, format, list);
  va_end(list);
  printed_bytes += wanted < 0 ? 0 : (size_t)wanted < room ? wanted : room - 1;
  return wanted;
}
void simt_stop(const char* file, unsigned line, const char* why) {
  at(site_of(file, line));
  die("%s", why);
}

int simt_run(void* request, void (*entry)(void**), void** args) {
  Launch* const asked = static_cast<Launch*>(request);
  extension = Extension{};
  extension.begin = begin_block, extension.end = end_block;
  extension.stuck = stuck_block, extension.resume = resume_block;
  begin_launch(*asked);
  const int code = run(asked, entry, args);
  pending.p = nullptr;
  end_launch();
  return code;
}

// ---- Python's calls ----
#define PYTHON __attribute__((visibility("default")))
// Before the launches of a run: its lines, and no findings. names: of the files
PYTHON void simt_begin(const LineRow* rows, size_t count, const char* const* names) {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&simt_run), &info);
  module_first = static_cast<const char*>(info.dli_fbase);
  set_lines(rows, count, names);
  site_of_pc = [](const void* pc) { return site_of_place(place_of(static_cast<const char*>(pc) + 1)); };
  for (const Region& r : regions) free(r.cells);
  regions.clear(), findings.clear();
  add_region("shared memory", shared_memory, SHARED_MAX, 4, true, false);
  log_rows = nullptr, printed_bytes = 0;
}
// Before a launch: the room for its log, and the blocks of the log
PYTHON void simt_log(LogRow* rows, uint64_t room, unsigned first_block, unsigned blocks) {
  log_rows = rows, log_room = room, log_count = 0, log_first = first_block, log_blocks = blocks;
}
// A tensor of the run. given: 1 if it has values before the first launch
PYTHON void simt_tensor(const char* name, const char* base, uint64_t bytes, unsigned element, int given) {
  add_region(strdup(name), base, bytes, element, false, given);
}
PYTHON uint64_t simt_logged() { return log_count; }
// After the launches: what fits into the caller's memory
// As REGION in kernels/run/plain/launches.py. reach: bytes up to the end of the farthest accessed word
struct RegionRow { char name[120]; uint32_t is_shared, element; uint64_t reach, is_written; };
static void set_reach(const Region& r, RegionRow& out) {
  uint64_t end = 0;
  out.is_written = 0;
  for (uint64_t i = 0; r.cells && i < r.bytes / r.word; ++i) {
    const Cell& c = r.cells[i];
    if (c.write.place) out.is_written = 1;
    if (c.write.place || c.read[0].place || c.read[1].place) end = (i + 1) * r.word;
  }
  out.reach = end;
}
PYTHON unsigned simt_regions(RegionRow* out, unsigned room) {
  const unsigned count = std::min<size_t>(room, regions.size());
  for (unsigned i = 0; i < count; ++i) {
    out[i].is_shared = regions[i].shared, out[i].element = regions[i].element;
    snprintf(out[i].name, sizeof out[i].name, "%s", regions[i].name);
    set_reach(regions[i], out[i]);
  }
  return count;
}
// The races of equal values come last. Returns the number of all findings
PYTHON unsigned simt_found(Finding* out, unsigned room) {
  std::stable_partition(findings.begin(), findings.end(), [](const Finding& f) { return f.kind > BLOCK_RACE || !f.same; });
  if (!findings.empty()) memcpy(out, findings.data(), std::min<size_t>(room, findings.size()) * sizeof *out);
  return findings.size();
}
PYTHON void simt_printed(char* out) { memcpy(out, printed, printed_bytes), out[printed_bytes] = 0; }  // sizeof printed

// ---- the compiler's calls ----
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
char __tsan_atomic8_load(const char* guard, int) { return *guard; }  // of a static array
#define HOOKS(n)                                                                                                \
  void __tsan_read##n(void* p) { access((char*)p, n, SIMT_READ, __builtin_return_address(0)); }                 \
  void __tsan_write##n(void* p) { access((char*)p, n, SIMT_WRITE, __builtin_return_address(0)); }               \
  void __tsan_unaligned_read##n(void* p) { access((char*)p, n, SIMT_READ, __builtin_return_address(0), true); }   \
  void __tsan_unaligned_write##n(void* p) { access((char*)p, n, SIMT_WRITE, __builtin_return_address(0), true); } \
  void __tsan_volatile_read##n(void* p) { simt_spin(); access((char*)p, n, SIMT_READ, __builtin_return_address(0)); } \
  void __tsan_volatile_write##n(void* p) { access((char*)p, n, SIMT_WRITE, __builtin_return_address(0)); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
void __tsan_read_range(void* p, uint64_t n) { access((char*)p, n, SIMT_READ, __builtin_return_address(0)); }
void __tsan_write_range(void* p, uint64_t n) { access((char*)p, n, SIMT_WRITE, __builtin_return_address(0)); }
// C's functions of the kernel (build/plain/toolchain.py renames its calls). A struct's copy has its record already.
static void* copy(void* to, const void* from, size_t n, void* pc) {
  if (n && !is_shown(from, n)) access((char*)from, n, SIMT_READ, pc);
  if (n && !is_shown(to, n)) access((char*)to, n, SIMT_WRITE, pc);
  return memmove(to, from, n);
}
void* simt_memcpy(void* to, const void* from, size_t n) { return copy(to, from, n, __builtin_return_address(0)); }
void* simt_memmove(void* to, const void* from, size_t n) { return copy(to, from, n, __builtin_return_address(0)); }
void* simt_memset(void* to, int byte, size_t n) {
  if (n && !is_shown(to, n)) access((char*)to, n, SIMT_WRITE, __builtin_return_address(0));
  return memset(to, byte, n);
}
// C's functions with a result behind a pointer
static void stores(void* p, unsigned bytes, void* pc) { access((char*)p, bytes, SIMT_WRITE, pc); }
#define STORES(T, end)                                                                                            \
  T simt_frexp##end(T x, int* p) { return stores(p, 4, __builtin_return_address(0)), std::frexp(x, p); }          \
  T simt_modf##end(T x, T* p) { return stores(p, sizeof x, __builtin_return_address(0)), std::modf(x, p); }       \
  T simt_remquo##end(T x, T y, int* p) { return stores(p, 4, __builtin_return_address(0)), std::remquo(x, y, p); } \
  void simt_sincos##end(T x, T* p, T* q) {                                                                        \
    for (T* one : {p, q}) stores(one, sizeof x, __builtin_return_address(0)), *one = one == p ? std::sin(x) : std::cos(x); \
  }
STORES(double, ) STORES(float, f)
struct UbsanType { uint16_t kind, info; char name[1]; };
struct UbsanBounds { const char* file; uint32_t line, column; UbsanType *array, *index; };
// -fsanitize=bounds-strict: an index outside an array of known size
void __ubsan_handle_out_of_bounds(UbsanBounds* at_index, uintptr_t index) {
  if (!in_kernel) return;
  settle();
  at({at_index->file, at_index->line});
  const long long shown = at_index->index->info & 1 ? (long long)(int32_t)index : (long long)index;
  outside_array(at_index->array->name, shown);
}
}
