// Runs the same .cu on the CPU: each CUDA thread is a fiber, __syncthreads and the warp collectives are rendezvous
// points, blocks run one after another. It gives a kernel's results and its probes' records, never a time.
//
// It stops with a message if the GPU would hang or be undefined:
//   a deadlock
//   a collective without a lane of its mask
//   an access outside the launch's buffers or shared memory
//   an access that differs from its probe
// Shared memory starts as NaN. With `reversed`, blocks and threads run in the opposite order, and copies by cp_async
// land at the wait, not at once. If an output changes, the kernel has a race, lacks a wait, or adds in any order.
// report.h writes the messages: block, thread, line, tensor, index. stacks.h catches overflow of a stack and fatal
// signals. invalid.h traps the first NaN. hopper.h adds the names of device/hopper.cuh. Times and clusters are
// missing. One launch at a time per process: state is global, kept out of TLS for speed.
#pragma once
// Headers took half the time of a build. libstdc++ can leave out std::riemann_zeta and similar functions, and has
// std::max in a small header of its own.
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#if __has_include(<bits/stl_algobase.h>)
#include <bits/stl_algobase.h>
#else
#include <algorithm>
#endif
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include "fibers.h"
#include "limit.h"

#define COLD __attribute__((cold, noinline))
#define __global__
#define __constant__ static const
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define DYNAMIC_SMEM(type, name) type* name = reinterpret_cast<type*>(simt::shared_memory)

using std::max;
using std::min;
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline unsigned __float_as_uint(float v) { unsigned u; memcpy(&u, &v, 4); return u; }
inline float __uint_as_float(unsigned u) { float v; memcpy(&v, &u, 4); return v; }

namespace simt {

struct Site { const char* file; unsigned line; };
// The last parameter of every function for kernels: the line of the call
#define SIMT_HERE simt::Site here = {__builtin_FILE(), __builtin_LINE()}

struct Buffer {  // row: its elements along the last axis
  const char* base;
  uint64_t bytes;
  const char* name;
  uint64_t element_bytes, row;
};
struct Launch {  // as in kernels/run/backends/cpu.py
  unsigned grid[3], block[3], shared_bytes, reversed, buffer_count;
  const Buffer* buffers;
  char* stacks;  // from stacks.h, passed from launch to launch
  unsigned stack_count;
  char message[2048];
};

enum class State : uint8_t { READY, AT_BARRIER, AT_WARP, ELSEWHERE, DONE };  // ELSEWHERE: known to the Extension
struct Copy { void* to; const void* from; unsigned bytes, group; Copy* before; };
struct Fiber {
  void* stack_pointer;
  dim3 thread_idx;
  unsigned linear;
  State state;
  unsigned mask;      // the collective of its wait: the lanes,
  int collective;     // the instruction,
  void* argument;     // and this lane's operands
  const void* announced;  // the access of its last probe: address, width, kind
  unsigned announced_bytes;
  AccessKind announced_kind;
  const Site* announced_by;  // the probe, and the number and width of its element
  uint64_t announced_index;
  unsigned announced_element;
  const void* source;  // of the probe before: the source of a copy with two probes
  unsigned source_bytes;
  AccessKind source_kind;
  Copy* copies;     // not landed yet, from the newest
  unsigned groups;  // closed groups of copies
  Site here;          // its last access, barrier or collective. Line 0 after a later probe
  const Site* probe;  // its last probe
};
enum Collective { SHUFFLE = 1, SYNCWARP, LDMATRIX, MMA, VOTE, STORE_MATRICES };
constexpr const char* COLLECTIVE_NAMES[] = {"", "shuffle", "__syncwarp", "ldmatrix", "mma", "vote",
                                           "store_matrices"};
struct Text;
// hopper.h's additions to the scheduler. Without hopper.h all are null.
struct Extension {
  void (*begin)();                           // at the start of a block
  bool (*stuck)();                           // if no thread can go on: makes one READY, or returns false
  void (*explain)(Text&);                    // in a deadlock: the waits of all threads
  void (*end)();                             // all threads of a block have left
  bool (*resume)();                          // after all blocks: a parked block goes on, or false
};

constexpr size_t SHARED_MAX = 227 * 1024;
constexpr unsigned THREADS_MAX = 1024;
static Launch* launch;
static Fiber fibers[THREADS_MAX];
static Fiber* current;
static void* scheduler;  // its saved stack pointer
static unsigned threads, at_barrier, done;
static bool failed, in_kernel, barrier_lines_differ;
static bool parked;  // the block waits for other blocks (Extension::stuck)
static Site barrier_site;  // the line of the first thread at the barrier
static dim3 block_idx, block_dim, grid_dim;
static Extension extension;
static void (*run_children)();  // after a grid: the launches of its kernel (children.h)
alignas(1024) static char shared_memory[SHARED_MAX];
static void (*kernel)(void**);
static void** kernel_args;

static void yield() { simt_switch_stack(&current->stack_pointer, scheduler); }

inline void at(Site here) { current->here = here; }
inline void pass_probe(const Site* probe) {
  const_cast<const Site* volatile&>(current->probe) = probe;  // volatile: an endless loop notes it too
  current->here.line = 0;
}
const char* const KIND_NAMES[] = {"load",    "store",    "ldmatrix", "cp_async", "cp_async_l2", "tma",
                                  "product", "tma_smem", "tma_store"};
inline const char* name_of(AccessKind kind) { return KIND_NAMES[(int)kind]; }
}  // namespace simt
#include "report.h"
#include "stacks.h"
#include "races.h"

namespace simt {

// By the alarm, on the stack of the running thread. In the scheduler it does nothing: the next alarm finds a thread.
static void stop_late() {
  const char* const here = static_cast<const char*>(__builtin_frame_address(0));
  if (!in_kernel || failed) return;
  const char* const stack = stack_of(current->linear);
  if (here < stack || here >= stack + STACK_BYTES) return;
  late = true;
  Text text = begin_message(current);
  text.add("the time limit is over. Is a loop endless? Else choose a smaller problem, or raise WARPGLASS_TIME_LIMIT");
  add_place(text, *current, false);
  yield();
}

static void fiber_entry() {
  kernel(kernel_args);
  current->state = State::DONE;
  yield();
  abort();
}

// The lanes of `mask` meet. The last one runs `work` on all operands, and all go on.
static void rendezvous(unsigned mask, Collective collective, void* argument, void (*work)(void**, unsigned)) {
  const unsigned warp = current->linear & ~31u, lane = current->linear & 31u;
  const unsigned existing = threads - warp >= 32 ? ~0u : (1u << (threads - warp)) - 1;
  mask &= existing;
  if (!(mask >> lane & 1))
    die("lane %u calls a %s whose mask 0x%08x leaves it out", lane, COLLECTIVE_NAMES[collective], mask);
  current->mask = mask;
  current->collective = collective;
  current->argument = argument;
  current->state = State::AT_WARP;
  void* arguments[32] = {};
  for (unsigned l = 0; l < 32; ++l) {
    if (!(mask >> l & 1)) continue;
    const Fiber& other = fibers[warp + l];
    if (other.state == State::DONE)
      die("a %s names lane %u, which has left the kernel", COLLECTIVE_NAMES[collective], l);
    if (other.state != State::AT_WARP || other.mask != mask || other.collective != collective) { yield(); return; }
    arguments[l] = other.argument;
  }
  if (work) work(arguments, mask);
  if (watching) watch_meeting(warp, mask);
  for (unsigned l = 0; l < 32; ++l)
    if (mask >> l & 1) fibers[warp + l].state = State::READY;
}

// Its copies of the groups before `end` land, or are dropped: after a thread without a wait, no other thread waits.
static void end_copies(Fiber& fiber, bool land, unsigned end = ~0u) {
  Copy** newest = &fiber.copies;
  while (*newest && (*newest)->group >= end) newest = &(*newest)->before;
  while (Copy* copy = *newest) {
    if (land) memcpy(copy->to, copy->from, copy->bytes);
    if (land && watching) watch_landing(copy->to, copy->bytes, fiber.linear);
    *newest = copy->before;
    free(copy);
  }
}

// A warp must come to a barrier as a whole: its lanes at one line (PTX: barrier.sync.aligned)
static bool barrier_converges() {
  for (unsigned i = 0; i < threads; ++i) {
    const Fiber& lane = fibers[i];
    if (lane.state != State::AT_BARRIER) continue;
    for (unsigned other = i + 1; other < threads && other % WARP; ++other) {
      if (fibers[other].state != State::AT_BARRIER || same_wait(lane, fibers[other])) continue;
      Text text = begin_message(nullptr);
      text.add("divergent barrier: threads of warp %u come to __syncthreads at different lines. All must come to the "
               "same one", i / WARP);
      add_waits(text);
      return false;
    }
  }
  return true;
}
static void stop_deadlock() {
  Text text = begin_message(nullptr);
  text.add("deadlock: ");
  if (extension.explain) {
    extension.explain(text);
    text.add("%u of %u threads have left", done, threads);
  } else {
    unsigned stuck = 0;
    while (fibers[stuck].state == State::DONE) ++stuck;
    text.add("%u of %u threads wait at __syncthreads, %u have left, the rest wait in a warp collective that never "
             "fills; the first that waits is thread %u", at_barrier, threads, done, stuck);
  }
  add_waits(text);
}

static void start_block() {
  at_barrier = done = 0;
  barrier_lines_differ = false;
  memset(shared_memory, 0xff, launch->shared_bytes);  // NaN, as float
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& f = fibers[i];
    f = Fiber{};
    const unsigned skew = i % 64 * 64;  // so that the stacks do not share the few sets of a cache
    f.stack_pointer = fresh_stack(stack_of(i), STACK_BYTES - skew, fiber_entry);
    f.linear = i;
    f.thread_idx = {i % block_dim.x, i / block_dim.x % block_dim.y, i / (block_dim.x * block_dim.y)};
  }
  if (extension.begin) extension.begin();
  if (watching) watch_start_of_block();
}
// Until all threads have left, or the block is parked
static void run_threads() {
  while (done < threads) {
    bool progress = false;
    for (unsigned n = 0; n < threads; ++n) {
      Fiber& f = fibers[launch->reversed ? threads - 1 - n : n];
      if (f.state != State::READY) continue;
      current = &f;
      progress = true;
      in_kernel = true;
      simt_switch_stack(&scheduler, f.stack_pointer);
      in_kernel = false;
      if (failed) return;
      if (f.state != State::DONE) continue;
      end_copies(f, false);
      ++done;
    }
    if (at_barrier && at_barrier + done == threads) {  // like the hardware, a barrier does not wait for exited threads
      if (barrier_lines_differ && !barrier_converges()) return;
      barrier_lines_differ = false;
      for (unsigned i = 0; i < threads; ++i)
        if (fibers[i].state == State::AT_BARRIER) fibers[i].state = State::READY;
      at_barrier = 0, ++watch_barriers;
      progress = true;
    }
    if (progress || done == threads) continue;
    if (extension.stuck && extension.stuck()) {
      if (parked) return;
      continue;
    }
    stop_deadlock();
    return;
  }
  if (extension.end) extension.end();
}

template <class... A, size_t... I>
void call_with(void (*entry)(A...), void** args, std::index_sequence<I...>) {
  entry(*static_cast<std::remove_reference_t<A>*>(args[I])...);
}
template <class... A> void call(void (*entry)(A...), void** args) {
  call_with(entry, args, std::index_sequence_for<A...>{});
}

// All blocks of a grid
static void run_grid() {
  const unsigned blocks = grid_dim.x * grid_dim.y * grid_dim.z;
  for (unsigned n = 0; n < blocks && !failed; ++n) {
    const unsigned block = launch->reversed ? blocks - 1 - n : n;
    block_idx = {block % grid_dim.x, block / grid_dim.x % grid_dim.y, block / (grid_dim.x * grid_dim.y)};
    start_block();
    run_threads();
  }
  while (!failed && extension.resume && extension.resume()) run_threads();
}

// args: a pointer to each argument, as cuLaunchKernel takes them. Returns 0, or 1 with the reason in
// `request->message`.
static int run(Launch* request, void (*entry)(void**), void** args) {
  launch = request;
  kernel = entry;
  kernel_args = args;
  failed = false;
  const unsigned asked = request->reversed;
  request->reversed &= 1;
  const Limit limit(stop_late);
  grid_dim = {request->grid[0], request->grid[1], request->grid[2]};
  block_dim = {request->block[0], request->block[1], request->block[2]};
  threads = block_dim.x * block_dim.y * block_dim.z;
  if (threads > THREADS_MAX || request->shared_bytes > SHARED_MAX) {
    snprintf(request->message, sizeof request->message,
             "%u threads and %u bytes of shared memory per block; the shim allows %u and %zu", threads,
             request->shared_bytes, THREADS_MAX, SHARED_MAX);
    return 1;
  }
  if (!make_stacks()) {
    snprintf(request->message, sizeof request->message,
             "its start: the stacks of %u threads got no memory. End other programs, or choose fewer threads", threads);
    return 1;
  }
  catch_fatal();
  trap_invalid(asked & TRAP_INVALID);
  start_watch(asked & WATCH_RACES && !extension.begin);
  run_grid();
  if (run_children) run_children();
  end_watch();
  trap_invalid(false);
  release_fatal();
  return failed ? late ? 2 : 1 : 0;
}

// ---- accesses: their bounds, and the comparison with the probe before them ----
inline void announce_element(const void* p, unsigned bytes, AccessKind kind, uint64_t index, unsigned element) {
  current->source = current->announced;
  current->source_bytes = current->announced_bytes;
  current->source_kind = current->announced_kind;
  current->announced = p;
  current->announced_bytes = bytes;
  current->announced_kind = kind;
  current->announced_by = current->probe;
  current->announced_index = index;
  current->announced_element = element;
}
// probe.cuh calls announce, and `index` counts elements of type T. Its text is part of the code hash, so it stays.
#define announce(p, bytes, kind) announce_element(p, bytes, kind, index, sizeof(T))
inline bool as_logged(const void* p, unsigned bytes, AccessKind kind) {
#ifdef PROBED
  if (current->announced != p || current->announced_bytes != bytes || current->announced_kind != kind) return false;
  current->announced = nullptr, current->announced_bytes = 0;
#endif
  (void)p, (void)bytes, (void)kind;
  return true;
}
COLD static void refuse_probe(const void* p, unsigned bytes, AccessKind kind) {
  die("a %s of %u bytes at %s has no probe before it that says so (%s)", name_of(kind), bytes, address_of(p).text,
      last_logged().text);
}
inline void check_probe(const void* p, unsigned bytes, AccessKind kind) {
  if (!as_logged(p, bytes, kind)) refuse_probe(p, bytes, kind);
}
inline bool in_buffer(const void* p, unsigned bytes) {
  const char* c = static_cast<const char*>(p);
  for (unsigned i = 0; i < launch->buffer_count; ++i)
    if (c >= launch->buffers[i].base && c + bytes <= launch->buffers[i].base + launch->buffers[i].bytes) return true;
  return false;
}
inline bool aligned(const void* p, unsigned bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }
// Only a refused access notes its line. A store for each access would cost a third of the run time.
COLD static void refuse_global(const void* p, unsigned bytes, AccessKind kind, Site here) {
  at(here);
  if (!in_buffer(p, bytes))
    die("illegal address: a global %s of %u bytes outside every buffer of this launch: %s", name_of(kind), bytes,
        outside_of(p).text);
  if (!aligned(p, bytes))
    die("a global %s of %u bytes at %s is not aligned to its width", name_of(kind), bytes, address_of(p).text);
  refuse_probe(p, bytes, kind);
}
inline void check_buffer(const void* p, unsigned bytes, AccessKind kind, Site here) {
  if (!in_buffer(p, bytes) || !aligned(p, bytes)) refuse_global(p, bytes, kind, here);
}
__forceinline__ void check_global(const void* p, unsigned bytes, AccessKind kind, Site here) {
  if (!in_buffer(p, bytes) || !aligned(p, bytes) || !as_logged(p, bytes, kind)) refuse_global(p, bytes, kind, here);
}
inline bool in_shared(const void* p, unsigned bytes) {
  const ptrdiff_t at = static_cast<const char*>(p) - shared_memory;
  return at >= 0 && at + bytes <= launch->shared_bytes;
}
COLD static void refuse_shared(const void* p, unsigned bytes, AccessKind kind, Site here) {
  at(here);
  const ptrdiff_t offset = static_cast<const char*>(p) - shared_memory;
  if (!in_shared(p, bytes))
    die("illegal address: a shared %s of %u bytes at offset %td; the block has %u bytes%s", name_of(kind), bytes,
        offset, launch->shared_bytes, logged_at(p).text);
  if (offset % bytes)
    die("a shared %s of %u bytes at offset %td is not aligned to its width%s", name_of(kind), bytes, offset,
        logged_at(p).text);
  refuse_probe(p, bytes, kind);
}
__forceinline__ void check_shared(const void* p, unsigned bytes, AccessKind kind, Site here) {
  if (!in_shared(p, bytes) || !aligned(p, bytes) || !as_logged(p, bytes, kind)) refuse_shared(p, bytes, kind, here);
}

struct Shuffle { uint64_t own, received; unsigned source; };
static void exchange(void** lanes, unsigned mask) {
  for (unsigned l = 0; l < 32; ++l) {
    if (!(mask >> l & 1)) continue;
    Shuffle* s = static_cast<Shuffle*>(lanes[l]);
    s->received = mask >> s->source & 1 ? static_cast<Shuffle*>(lanes[s->source])->own : s->own;
  }
}
template <class T> T shuffle(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  Shuffle s{0, 0, source & 31};
  memcpy(&s.own, &value, sizeof value);
  rendezvous(mask, SHUFFLE, &s, exchange);
  memcpy(&value, &s.received, sizeof value);
  return value;
}

struct Vote { bool own; unsigned all; };
static void count_votes(void** lanes, unsigned mask) {
  unsigned all = 0;
  for (unsigned l = 0; l < 32; ++l)
    if (mask >> l & 1) all |= (unsigned)static_cast<Vote*>(lanes[l])->own << l;
  for (unsigned l = 0; l < 32; ++l)
    if (mask >> l & 1) static_cast<Vote*>(lanes[l])->all = all;
}

struct Matrices { const char* row; unsigned count; bool transposed; uint32_t words[4]; };
static void deal_matrices(void** lanes, unsigned) {
  for (unsigned l = 0; l < 32; ++l) {
    Matrices* own = static_cast<Matrices*>(lanes[l]);
    for (unsigned i = 0; i < own->count; ++i) {
      uint16_t pair[2];
      for (unsigned n = 0; n < 2; ++n) {
        const unsigned row = own->transposed ? 2 * (l % 4) + n : l / 4;
        const unsigned column = own->transposed ? l / 4 : 2 * (l % 4) + n;
        memcpy(&pair[n], static_cast<Matrices*>(lanes[8 * i + row])->row + 2 * column, 2);
      }
      memcpy(&own->words[i], pair, 4);
    }
  }
}

// The products are exact and the sum is rounded once. A tensor core cuts off bits of the sum.
struct Mma { float* c; const unsigned* a; unsigned b[2]; };
inline float float_of_bfloat16(unsigned bits) { return __uint_as_float(bits << 16); }
template <float FLOAT(unsigned)> void multiply(void** lanes, unsigned) {
  float a[16][16], b[16][8];
  for (unsigned l = 0; l < 32; ++l) {
    const Mma& lane = *static_cast<Mma*>(lanes[l]);
    for (unsigned i = 0; i < 8; ++i)
      a[l / 4 + i / 2 % 2 * 8][2 * (l % 4) + i % 2 + i / 4 * 8] = FLOAT(lane.a[i / 2] >> i % 2 * 16 & 0xffff);
    for (unsigned i = 0; i < 4; ++i)
      b[2 * (l % 4) + i % 2 + i / 2 * 8][l / 4] = FLOAT(lane.b[i / 2] >> i % 2 * 16 & 0xffff);
  }
  for (unsigned l = 0; l < 32; ++l) {
    float* c = static_cast<Mma*>(lanes[l])->c;
    for (unsigned i = 0; i < 4; ++i) {
      double sum = c[i];
      for (unsigned k = 0; k < 16; ++k) sum += (double)a[l / 4 + i / 2 * 8][k] * b[k][2 * (l % 4) + i % 2];
      c[i] = (float)sum;
    }
  }
}
}  // namespace simt

#define threadIdx (simt::current->thread_idx)
#define blockIdx (simt::block_idx)
#define blockDim (simt::block_dim)
#define gridDim (simt::grid_dim)

inline void __syncthreads(SIMT_HERE) {
  simt::at(here);
  simt::current->state = simt::State::AT_BARRIER;
  if (!simt::at_barrier++) simt::barrier_site = here;
  simt::barrier_lines_differ |= here.line != simt::barrier_site.line || here.file != simt::barrier_site.file;
  simt::yield();
}
inline void __syncwarp(unsigned mask = ~0u, SIMT_HERE) {
  simt::at(here);
  simt::rendezvous(mask, simt::SYNCWARP, nullptr, nullptr);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes, SIMT_HERE) {
  simt::at(here);
  return simt::shuffle(mask, value, simt::current->linear ^ lanes);
}
template <class T> T __shfl_sync(unsigned mask, T value, int source, SIMT_HERE) {
  simt::at(here);
  return simt::shuffle(mask, value, source);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned lanes, SIMT_HERE) {
  simt::at(here);
  const unsigned lane = simt::current->linear & 31;
  return simt::shuffle(mask, value, lane < lanes ? lane : lane - lanes);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned lanes, SIMT_HERE) {
  simt::at(here);
  const unsigned lane = simt::current->linear & 31;
  return simt::shuffle(mask, value, lane + lanes > 31 ? lane : lane + lanes);
}
inline unsigned __ballot_sync(unsigned mask, int holds, SIMT_HERE) {
  simt::at(here);
  simt::Vote vote{holds != 0, 0};
  simt::rendezvous(mask, simt::VOTE, &vote, simt::count_votes);
  return vote.all;
}
inline int __any_sync(unsigned mask, int holds, SIMT_HERE) { return __ballot_sync(mask, holds, here) != 0; }
inline int __all_sync(unsigned mask, int holds, SIMT_HERE) { return __ballot_sync(mask, !holds, here) == 0; }

template <class T> __forceinline__ T ldg(const void* p, SIMT_HERE) {
  simt::check_global(p, sizeof(T), AccessKind::LOAD, here);
  if (simt::watching) simt::watch(p, sizeof(T), nullptr, here);
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}
template <class T> __forceinline__ void stg(void* p, T v, SIMT_HERE) {
  simt::check_global(p, sizeof(T), AccessKind::STORE, here);
  if (simt::watching) simt::watch(p, sizeof(T), &v, here);
  memcpy(p, &v, sizeof v);
}
template <class T> T ldg_l2(const void* p, SIMT_HERE) { return ldg<T>(p, here); }
template <class T> __forceinline__ T lds(const void* p, SIMT_HERE) {
  simt::check_shared(p, sizeof(T), AccessKind::LOAD, here);
  if (simt::watching) simt::watch(p, sizeof(T), nullptr, here);
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}
template <class T> __forceinline__ void sts(void* p, T v, SIMT_HERE) {
  simt::check_shared(p, sizeof(T), AccessKind::STORE, here);
  if (simt::watching) simt::watch(p, sizeof(T), &v, here);
  memcpy(p, &v, sizeof v);
}

template <int N> void ldmatrix(unsigned (&words)[N], const void* p, bool transposed = false, SIMT_HERE) {
  simt::at(here);
  if ((simt::current->linear & 31) < 8 * N) {
    simt::check_shared(p, 16, AccessKind::LDMATRIX, here);
    if (simt::watching) simt::watch(p, 16, nullptr, here);
  }
  simt::Matrices m{static_cast<const char*>(p), N, transposed, {}};
  simt::rendezvous(~0u, simt::LDMATRIX, &m, simt::deal_matrices);
  memcpy(words, m.words, sizeof words);
}
inline void ldmatrix_trans(unsigned (&words)[4], const void* p, SIMT_HERE) { ldmatrix(words, p, true, here); }
inline void mma_m16n8k16(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1, SIMT_HERE) {
  simt::at(here);
  simt::Mma m{C, A, {b0, b1}};
  simt::rendezvous(~0u, simt::MMA, &m, simt::multiply<simt::float_of_bfloat16>);
}
inline float exp2_approx(float x) { return exp2f(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
template <int BYTES, AccessKind KIND = AccessKind::CP_ASYNC> void cp_async(void* smem, const void* gmem, SIMT_HERE) {
  simt::check_shared(smem, BYTES, KIND, here);
  simt::check_buffer(gmem, BYTES, AccessKind::LOAD, here);
  if (simt::watching) simt::watch(gmem, BYTES, nullptr, here), simt::watch_copy(smem, BYTES, here);
  if (!simt::launch->reversed && !simt::watching) {
    memcpy(smem, gmem, BYTES);
    return;
  }
  auto* const copy = static_cast<simt::Copy*>(malloc(sizeof(simt::Copy)));
  *copy = {smem, gmem, BYTES, simt::current->groups, simt::current->copies};
  simt::current->copies = copy;
}
inline void cp_async_l2(void* smem, const void* gmem, SIMT_HERE) {
  cp_async<16, AccessKind::CP_ASYNC_L2>(smem, gmem, here);
}
inline void cp_async_wait() { simt::end_copies(*simt::current, true); }
typedef unsigned long long cudaTextureObject_t;  // the address of its texels, from kernels/run/backends/cpu.py
template <class T> T tex1Dfetch(cudaTextureObject_t texture, long long texel, SIMT_HERE) {
  const T* const p = reinterpret_cast<const T*>(texture) + texel;
  simt::check_buffer(p, sizeof(T), AccessKind::LOAD, here);
  return *p;
}
// The texel of a matrix at (x, y). As on the GPU, a coordinate outside is moved to the edge.
template <class T> T tex2D(cudaTextureObject_t texture, float x, float y, SIMT_HERE) {
  const char* const base = reinterpret_cast<const char*>(texture);
  const simt::Buffer *image = simt::launch->buffers, *const end = image + simt::launch->buffer_count;
  while (image != end && image->base != base) ++image;
  if (image == end) {
    simt::at(here);
    simt::die("the texture 0x%llx of a tex2D is no tensor of this launch. Pass a texture argument on unchanged",
              texture);
  }
  const long long columns = image->row, rows = image->bytes / image->element_bytes / columns;
  const long long column = static_cast<long long>(floorf(fminf(fmaxf(x, 0.f), columns - 1.f)));
  const long long row = static_cast<long long>(floorf(fminf(fmaxf(y, 0.f), rows - 1.f)));
  return tex1Dfetch<T>(texture, row * columns + column, here);
}
inline long long clock_cycles() { return 0; }
inline long long global_time_ns() { return 0; }
inline int multiprocessor() { return 0; }

// A kernel that ends its process would end the worker too. The GPU has none of these calls.
[[noreturn]] inline void simt_end(const char* call, SIMT_HERE) {
  simt::at(here);
  simt::die("the kernel itself ended the process: it calls %s. Return from the kernel instead", call);
}
namespace std { using ::simt_end; }
#define exit(code) simt_end("exit(" #code ")")
#define _Exit(code) simt_end("_Exit(" #code ")")
#define _exit(code) simt_end("_exit(" #code ")")
#define abort() simt_end("abort()")

// unit.cpp writes the table of the lines with probes: a SIMT_PROBE for each
#define SIMT_PROBES_BEGIN static const simt::ProbeText probe_lines[] = {
#define SIMT_PROBE(file, line, text) {file, line, text},
#define SIMT_PROBES_END {}}; static const bool has_probe_lines = (simt::probe_texts = probe_lines, true);

// Makes `entry` callable from Python (ctypes): int launch_<entry>(Launch*, void** args)
#define SIMT_EXPORT(entry)                                                                                     \
  extern "C" __attribute__((visibility("default"))) int launch_##entry(simt::Launch* request, void** args) {    \
    return simt::run(request, [](void** a) { simt::call(entry, a); }, args);                                    \
  }
