// The memory of simt/stacks.h in WebAssembly. It has no guards and no signals: after a trap the page takes a new
// module.
#pragma once
#include "invalid.h"

namespace simt {
constexpr size_t STACK_BYTES = 16 * 1024;  // with FRAMES_BYTES of fibers.h

static char* stack_of(unsigned thread) { return launch->stacks + thread * STACK_BYTES; }
static bool make_stacks() {
  if (launch->stack_count >= threads) return true;
  free(launch->stacks);
  launch->stacks = static_cast<char*>(malloc(threads * STACK_BYTES));
  launch->stack_count = launch->stacks ? threads : 0;
  return launch->stacks;
}
static Site (*site_of_pc)(const void*);
static void catch_fatal() {}
static void release_fatal() {}
}  // namespace simt
