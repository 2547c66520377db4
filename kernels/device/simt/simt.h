// Runs the same .cu on the CPU: each CUDA thread is a fiber, __syncthreads and the warp collectives are rendezvous
// points, blocks run one after another. It gives a kernel's results and its probes' records, never a time.
//
// It stops with a message where the GPU would hang or be undefined: a deadlock, a collective that a lane of its mask
// does not join, an access outside the launch's buffers or shared memory, an access whose probe says something else.
// Shared memory starts as NaN. With `reversed`, threads run in the opposite order, and what cp_async copies lands when
// it is waited for, not at once: an output that changes is a race, or a wait that is missing.
// hopper.h adds what device/hopper.cuh names. Not covered: times, clusters. One launch at a time per process: state is
// global, kept out of TLS for speed.
#pragma once
// Of a build half the time went into headers. libstdc++ can leave out std::riemann_zeta and its like, and has std::max
// in a small header of its own.
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

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define DYNAMIC_SMEM(type, name) type* name = reinterpret_cast<type*>(simt::shared_memory)

using std::max;
using std::min;
struct dim3 { unsigned x = 1, y = 1, z = 1; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline unsigned __float_as_uint(float v) { unsigned u; memcpy(&u, &v, 4); return u; }
inline float __uint_as_float(unsigned u) { float v; memcpy(&v, &u, 4); return v; }

namespace simt {

struct Buffer { const char* base; uint64_t bytes; };
struct Launch {  // mirrored by kernels/run/backends/cpu.py
  unsigned grid[3], block[3], shared_bytes, reversed, buffer_count;
  const Buffer* buffers;
  char message[2048];
};

enum class State : uint8_t { READY, AT_BARRIER, AT_WARP, ELSEWHERE, DONE };  // ELSEWHERE: the Extension knows where
struct Copy { void* to; const void* from; unsigned bytes, group; Copy* before; };
struct Fiber {
  void* stack_pointer;
  char* stack;
  dim3 thread_idx;
  unsigned linear;
  State state;
  unsigned mask;      // the warp collective it waits in: its lanes,
  int collective;     // which instruction,
  void* argument;     // and this lane's operands
  const void* announced;  // the access its last probe logged: where, how wide, of which kind
  unsigned announced_bytes;
  AccessKind announced_kind;
  const void* source;  // the one that the probe before that logged: where a copy of two probes comes from
  unsigned source_bytes;
  AccessKind source_kind;
  Copy* copies;     // that have not landed, the newest
  unsigned groups;  // of copies that are closed
};
enum Collective { SHUFFLE = 1, SYNCWARP, LDMATRIX, MMA, VOTE };
constexpr const char* COLLECTIVE_NAMES[] = {"", "shuffle", "__syncwarp", "ldmatrix", "mma", "vote"};
// What hopper.h adds to the scheduler; without it all are null.
struct Extension {
  void (*begin)();                           // a block begins
  bool (*stuck)();                           // no thread can go on: makes one READY, or says that it cannot
  void (*explain)(char* out, size_t bytes);  // in a deadlock: who waits for what
  void (*end)();                             // all threads of a block have left
};

constexpr size_t STACK_BYTES = 64 * 1024, SHARED_MAX = 227 * 1024;
constexpr unsigned THREADS_MAX = 1024;
static Launch* launch;
static Fiber fibers[THREADS_MAX];
static Fiber* current;
static void* scheduler;  // its saved stack pointer
static unsigned threads, at_barrier, done;
static bool failed;
static dim3 block_idx, block_dim, grid_dim;
static Extension extension;
alignas(1024) static char shared_memory[SHARED_MAX];
static void (*kernel)(void**);
static void** kernel_args;

static void yield() { simt_switch_stack(&current->stack_pointer, scheduler); }

// Ends the launch: the block's place, and of a thread its own, before what is said.
static void say(const Fiber* fiber, const char* format, va_list list) {
  char* out = launch->message;
  char* const end = out + sizeof launch->message;
  out += snprintf(out, end - out, "block (%u, %u, %u)", block_idx.x, block_idx.y, block_idx.z);
  if (fiber)
    out += snprintf(out, end - out, ", thread (%u, %u, %u)", fiber->thread_idx.x, fiber->thread_idx.y,
                    fiber->thread_idx.z);
  out += snprintf(out, end - out, ": ");
  vsnprintf(out, end - out, format, list);
  failed = true;
}
// By the scheduler, of the whole block
static void stop(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void stop(const char* format, ...) {
  va_list list;
  va_start(list, format);
  say(nullptr, format, list);
  va_end(list);
}
// By a thread, of itself
[[noreturn]] static void die(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] static void die(const char* format, ...) {
  va_list list;
  va_start(list, format);
  say(current, format, list);
  va_end(list);
  yield();  // the scheduler does not come back to a failed launch
  abort();
}

// By the alarm, in the thread that runs
static void stop_late() {
  if (!current || failed) return;
  die("the time limit is over. Is a loop endless? Else choose a smaller problem, or raise WARPGLASS_TIME_LIMIT");
}

static void fiber_entry() {
  kernel(kernel_args);
  current->state = State::DONE;
  yield();
  abort();
}

// The lanes of `mask` meet; the last one runs `work` on everyone's operands, and all go on.
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
  for (unsigned l = 0; l < 32; ++l)
    if (mask >> l & 1) fibers[warp + l].state = State::READY;
}

// Its copies of the groups before `end` land, or are forgotten: a thread that ends without a wait is waited for by
// nobody.
static void end_copies(Fiber& fiber, bool land, unsigned end = ~0u) {
  Copy** newest = &fiber.copies;
  while (*newest && (*newest)->group >= end) newest = &(*newest)->before;
  while (Copy* copy = *newest) {
    if (land) memcpy(copy->to, copy->from, copy->bytes);
    *newest = copy->before;
    free(copy);
  }
}

static void run_block() {
  at_barrier = done = 0;
  memset(shared_memory, 0xff, launch->shared_bytes);  // NaN, as float
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& f = fibers[i];
    if (!f.stack) f.stack = static_cast<char*>(malloc(STACK_BYTES));
    char* stack = f.stack;
    f = Fiber{};
    f.stack = stack;
    f.stack_pointer = fresh_stack(stack, STACK_BYTES, fiber_entry);
    f.linear = i;
    f.thread_idx = {i % block_dim.x, i / block_dim.x % block_dim.y, i / (block_dim.x * block_dim.y)};
  }
  if (extension.begin) extension.begin();
  while (done < threads) {
    bool progress = false;
    for (unsigned n = 0; n < threads; ++n) {
      Fiber& f = fibers[launch->reversed ? threads - 1 - n : n];
      if (f.state != State::READY) continue;
      current = &f;
      progress = true;
      simt_switch_stack(&scheduler, f.stack_pointer);
      if (failed) return;
      if (f.state != State::DONE) continue;
      end_copies(f, false);
      ++done;
    }
    if (at_barrier && at_barrier + done == threads) {  // like the hardware, a barrier does not wait for exited threads
      for (unsigned i = 0; i < threads; ++i)
        if (fibers[i].state == State::AT_BARRIER) fibers[i].state = State::READY;
      at_barrier = 0;
      progress = true;
    }
    if (progress || done == threads) continue;
    if (extension.stuck && extension.stuck()) continue;
    if (extension.explain) {
      char who[sizeof launch->message - 256] = "";
      extension.explain(who, sizeof who);
      stop("deadlock: %s%u of %u threads have left", who, done, threads);
      return;
    }
    unsigned stuck = 0;
    while (fibers[stuck].state == State::DONE) ++stuck;
    stop("deadlock: %u of %u threads wait at __syncthreads, %u have left, the rest wait in a warp collective that "
         "never fills; the first that waits is thread %u", at_barrier, threads, done, stuck);
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

// args: a pointer to each argument, as cuLaunchKernel takes them. Returns 0, or 1 with the reason in
// `request->message`.
static int run(Launch* request, void (*entry)(void**), void** args) {
  launch = request;
  kernel = entry;
  kernel_args = args;
  failed = false;
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
  for (unsigned z = 0; z < grid_dim.z; ++z)
    for (unsigned y = 0; y < grid_dim.y; ++y)
      for (unsigned x = 0; x < grid_dim.x; ++x) {
        block_idx = {x, y, z};
        run_block();
        if (failed) return late ? 2 : 1;
      }
  return 0;
}

// ---- accesses: where they may go, and whether the probe before them told the truth ----
const char* const KIND_NAMES[] = {"load", "store", "ldmatrix", "cp_async", "cp_async_l2", "tma", "product", "tma_smem"};
inline const char* name_of(AccessKind kind) { return KIND_NAMES[(int)kind]; }
inline void announce(const void* p, unsigned bytes, AccessKind kind) {
  current->source = current->announced;
  current->source_bytes = current->announced_bytes;
  current->source_kind = current->announced_kind;
  current->announced = p;
  current->announced_bytes = bytes;
  current->announced_kind = kind;
}
inline void check_probe(const void* p, unsigned bytes, AccessKind kind) {
#ifdef PROBED
  if (current->announced != p || current->announced_bytes != bytes || current->announced_kind != kind)
    die("a %s of %u bytes at %p has no probe before it that says so (the last one logged a %s of %u bytes at %p)",
        name_of(kind), bytes, p, name_of(current->announced_kind), current->announced_bytes, current->announced);
  current->announced = nullptr;
#endif
  (void)p, (void)bytes, (void)kind;
}
inline void check_buffer(const void* p, unsigned bytes, AccessKind kind) {
  const char* c = static_cast<const char*>(p);
  for (unsigned i = 0; i < launch->buffer_count; ++i)
    if (c >= launch->buffers[i].base && c + bytes <= launch->buffers[i].base + launch->buffers[i].bytes) {
      if (reinterpret_cast<uintptr_t>(p) % bytes) die("a global access of %u bytes is not aligned to its width", bytes);
      return;
    }
  die("illegal address: a global %s of %u bytes outside every buffer of this launch", name_of(kind), bytes);
}
inline void check_global(const void* p, unsigned bytes, AccessKind kind) {
  check_buffer(p, bytes, kind);
  check_probe(p, bytes, kind);
}
inline void check_shared(const void* p, unsigned bytes, AccessKind kind) {
  const ptrdiff_t at = static_cast<const char*>(p) - shared_memory;
  if (at < 0 || at + bytes > launch->shared_bytes)
    die("illegal address: a shared %s of %u bytes at offset %td; the block has %u bytes", name_of(kind), bytes, at,
        launch->shared_bytes);
  if (at % bytes) die("a shared access of %u bytes at offset %td is not aligned to its width", bytes, at);
  check_probe(p, bytes, kind);
}

struct Shuffle { uint64_t mine, received; unsigned source; };
static void exchange(void** lanes, unsigned mask) {
  for (unsigned l = 0; l < 32; ++l) {
    if (!(mask >> l & 1)) continue;
    Shuffle* s = static_cast<Shuffle*>(lanes[l]);
    s->received = mask >> s->source & 1 ? static_cast<Shuffle*>(lanes[s->source])->mine : s->mine;
  }
}
template <class T> T shuffle(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  Shuffle s{0, 0, source & 31};
  memcpy(&s.mine, &value, sizeof value);
  rendezvous(mask, SHUFFLE, &s, exchange);
  memcpy(&value, &s.received, sizeof value);
  return value;
}

struct Vote { bool mine; unsigned all; };
static void count_votes(void** lanes, unsigned mask) {
  unsigned all = 0;
  for (unsigned l = 0; l < 32; ++l)
    if (mask >> l & 1) all |= (unsigned)static_cast<Vote*>(lanes[l])->mine << l;
  for (unsigned l = 0; l < 32; ++l)
    if (mask >> l & 1) static_cast<Vote*>(lanes[l])->all = all;
}

struct Matrices { const char* row; unsigned count; bool transposed; uint32_t words[4]; };
static void deal_matrices(void** lanes, unsigned) {
  for (unsigned l = 0; l < 32; ++l) {
    Matrices* mine = static_cast<Matrices*>(lanes[l]);
    for (unsigned i = 0; i < mine->count; ++i) {
      uint16_t pair[2];
      for (unsigned n = 0; n < 2; ++n) {
        const unsigned row = mine->transposed ? 2 * (l % 4) + n : l / 4;
        const unsigned column = mine->transposed ? l / 4 : 2 * (l % 4) + n;
        memcpy(&pair[n], static_cast<Matrices*>(lanes[8 * i + row])->row + 2 * column, 2);
      }
      memcpy(&mine->words[i], pair, 4);
    }
  }
}

// The products are exact and the sum is rounded once; a tensor core cuts off bits while it adds.
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

inline void __syncthreads() {
  simt::current->state = simt::State::AT_BARRIER;
  ++simt::at_barrier;
  simt::yield();
}
inline void __syncwarp(unsigned mask = ~0u) { simt::rendezvous(mask, simt::SYNCWARP, nullptr, nullptr); }
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return simt::shuffle(mask, value, simt::current->linear ^ lanes);
}
template <class T> T __shfl_sync(unsigned mask, T value, int source) { return simt::shuffle(mask, value, source); }
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned lanes) {
  const unsigned lane = simt::current->linear & 31;
  return simt::shuffle(mask, value, lane < lanes ? lane : lane - lanes);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned lanes) {
  const unsigned lane = simt::current->linear & 31;
  return simt::shuffle(mask, value, lane + lanes > 31 ? lane : lane + lanes);
}
inline unsigned __ballot_sync(unsigned mask, int holds) {
  simt::Vote vote{holds != 0, 0};
  simt::rendezvous(mask, simt::VOTE, &vote, simt::count_votes);
  return vote.all;
}
inline int __any_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) != 0; }
inline int __all_sync(unsigned mask, int holds) { return __ballot_sync(mask, !holds) == 0; }

template <class T> T ldg(const void* p) {
  simt::check_global(p, sizeof(T), AccessKind::LOAD);
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}
template <class T> void stg(void* p, T v) {
  simt::check_global(p, sizeof(T), AccessKind::STORE);
  memcpy(p, &v, sizeof v);
}
template <class T> T ldg_l2(const void* p) { return ldg<T>(p); }
template <class T> T lds(const void* p) {
  simt::check_shared(p, sizeof(T), AccessKind::LOAD);
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}
template <class T> void sts(void* p, T v) {
  simt::check_shared(p, sizeof(T), AccessKind::STORE);
  memcpy(p, &v, sizeof v);
}

template <int N> void ldmatrix(unsigned (&words)[N], const void* p, bool transposed = false) {
  if ((simt::current->linear & 31) < 8 * N) simt::check_shared(p, 16, AccessKind::LDMATRIX);
  simt::Matrices m{static_cast<const char*>(p), N, transposed, {}};
  simt::rendezvous(~0u, simt::LDMATRIX, &m, simt::deal_matrices);
  memcpy(words, m.words, sizeof words);
}
inline void ldmatrix_trans(unsigned (&words)[4], const void* p) { ldmatrix(words, p, true); }
inline void mma_m16n8k16(float (&C)[4], const unsigned (&A)[4], unsigned b0, unsigned b1) {
  simt::Mma m{C, A, {b0, b1}};
  simt::rendezvous(~0u, simt::MMA, &m, simt::multiply<simt::float_of_bfloat16>);
}
inline float exp2_approx(float x) { return exp2f(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
template <int BYTES, AccessKind KIND = AccessKind::CP_ASYNC> void cp_async(void* smem, const void* gmem) {
  simt::check_shared(smem, BYTES, KIND);
  simt::check_buffer(gmem, BYTES, AccessKind::LOAD);
  if (!simt::launch->reversed) {
    memcpy(smem, gmem, BYTES);
    return;
  }
  auto* const copy = static_cast<simt::Copy*>(malloc(sizeof(simt::Copy)));
  *copy = {smem, gmem, BYTES, simt::current->groups, simt::current->copies};
  simt::current->copies = copy;
}
inline void cp_async_l2(void* smem, const void* gmem) { cp_async<16, AccessKind::CP_ASYNC_L2>(smem, gmem); }
inline void cp_async_wait() { simt::end_copies(*simt::current, true); }
inline long long clock_cycles() { return 0; }
inline long long global_time_ns() { return 0; }
inline int multiprocessor() { return 0; }

// Makes `entry` callable from Python (ctypes): int launch_<entry>(Launch*, void** args)
#define SIMT_EXPORT(entry)                                                                                     \
  extern "C" __attribute__((visibility("default"))) int launch_##entry(simt::Launch* request, void** args) {    \
    return simt::run(request, [](void** a) { simt::call(entry, a); }, args);                                    \
  }
