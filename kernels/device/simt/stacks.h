// The fibers' stacks, each above a guard that no access may touch, and the message of a fatal signal
//
// All launches of a process share the stacks: each gets them from cpu.py and returns them. The guard has the largest
// step of -fstack-clash-protection (64 KiB on Arm), so that no frame jumps over it.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include "invalid.h"

namespace simt {

constexpr size_t STACK_BYTES = 64 * 1024, GUARD_BYTES = 64 * 1024, STACK_STEP = STACK_BYTES + GUARD_BYTES;

static char* stack_of(unsigned thread) { return launch->stacks + thread * STACK_STEP + GUARD_BYTES; }

// At least one stack for each thread. False if the system has no more memory
static bool make_stacks() {
  if (launch->stack_count >= threads) return true;
  if (launch->stacks) munmap(launch->stacks, launch->stack_count * STACK_STEP);
  launch->stacks = nullptr, launch->stack_count = 0;
  void* const made = mmap(nullptr, threads * STACK_STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return false;
  launch->stacks = static_cast<char*>(made), launch->stack_count = threads;
  for (unsigned i = 0; i < threads; ++i)
    if (mprotect(stack_of(i), STACK_BYTES, PROT_READ | PROT_WRITE)) return false;
  return true;
}

// ---- fatal signals ----

constexpr int FATAL[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
constexpr unsigned FATAL_COUNT = sizeof FATAL / sizeof *FATAL;
static struct sigaction handlers_before[FATAL_COUNT];
static stack_t alternate_before;
alignas(64) static char alternate[64 * 1024];
static pthread_t runner;

static const char* signal_text(int signal) {
  switch (signal) {
    case SIGFPE: return "SIGFPE, a division of whole numbers by zero";
    case SIGILL: case SIGTRAP: return "a trap, such as __builtin_trap()";
    case SIGBUS: return "SIGBUS, a plain access to an address that memory cannot serve";
    default: return "SIGSEGV, a plain access outside all memory";
  }
}
// Ends the launch, not the process: the scheduler goes on in its own stack, with a message.
static Site (*site_of_pc)(const void*);  // of an instrumented build
static void on_fatal(int signal, siginfo_t* info, void* context) {
  if (!in_kernel || !pthread_equal(pthread_self(), runner)) {  // not of a kernel: the handler before this one takes it
    for (unsigned i = 0; i < FATAL_COUNT; ++i)
      if (FATAL[i] == signal) sigaction(signal, &handlers_before[i], nullptr);
    return;
  }
  Text text = begin_message(current);
  const char* const at = static_cast<const char*>(info->si_addr);
  const char* const stack = stack_of(current->linear);
  const bool memory = signal == SIGSEGV || signal == SIGBUS;
  if (signal == SIGFPE && traps_invalid && info->si_code == FPE_FLTINV) {
    if (const Site here = site_of_pc ? site_of_pc(info->si_addr) : Site{}; here.line) current->here = here;
    text.add("the first value without a number is %s", invalid_text(context));
    add_place(text, *current, site_of_pc);
    yield();
  }
  if (memory && at >= stack - GUARD_BYTES && at < stack) {
    text.add("stack overflow: the locals and calls of a thread need more than %zu KB. Make arrays smaller, or put them "
             "into shared memory", STACK_BYTES / 1024);
  } else {
    text.add("the kernel itself ended with %s", signal_text(signal));
    if (memory && info->si_addr) text.add(" (address %p: ", info->si_addr), add_outside(text, at), text.add(")");
  }
  add_place(text, *current, false);
  yield();
}
static void catch_fatal() {
  runner = pthread_self();
  stack_t mine{};
  mine.ss_sp = alternate, mine.ss_size = sizeof alternate;
  sigaltstack(&mine, &alternate_before);
  struct sigaction action{};
  action.sa_sigaction = on_fatal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (unsigned i = 0; i < FATAL_COUNT; ++i) sigaction(FATAL[i], &action, &handlers_before[i]);
}
static void release_fatal() {
  for (unsigned i = 0; i < FATAL_COUNT; ++i) sigaction(FATAL[i], &handlers_before[i], nullptr);
  if (!(alternate_before.ss_flags & SS_ONSTACK)) sigaltstack(&alternate_before, nullptr);
}
}  // namespace simt
