// The fibers of simt/fibers.h in WebAssembly, which has no second stack: Emscripten's Asyncify (-sASYNCIFY) moves the
// frames of a CUDA thread into its memory and back. It needs no JavaScript.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#define ASYNCIFY(name) __attribute__((import_module("asyncify"), import_name(#name)))
extern "C" {
ASYNCIFY(start_unwind) void asyncify_start_unwind(void*);
ASYNCIFY(stop_unwind) void asyncify_stop_unwind();
ASYNCIFY(start_rewind) void asyncify_start_rewind(void*);
ASYNCIFY(stop_rewind) void asyncify_stop_rewind();
void* stackSave();
void stackRestore(void*);
}

namespace simt {
constexpr size_t FRAMES_BYTES = 4096;
struct Frames {
  char *next, *end;  // as Asyncify reads them
  void* stack;       // of the locals whose addresses are taken
  void (*entry)();
  bool has_begun;
};
static Frames* running;  // null in the scheduler
static bool rewinding;

// The memory of a thread: Frames, the saved frames, then the stack, which grows down.
inline void* fresh_stack(char* memory, size_t bytes, void (*entry)()) {
  char *const first = memory + sizeof(Frames), *const end = memory + bytes;
  Frames* const frames = reinterpret_cast<Frames*>(memory);
  *frames = {first, first + FRAMES_BYTES, end - reinterpret_cast<uintptr_t>(end) % 16, entry, false};
  return frames;
}
__attribute__((noinline)) static void leave() {
  if (rewinding) {
    rewinding = false;
    asyncify_stop_rewind();
    return;
  }
  running->stack = stackSave();
  asyncify_start_unwind(running);
}
__attribute__((noinline)) static void enter(Frames* frames) {
  void* const own = stackSave();
  running = frames;
  stackRestore(frames->stack);
  if (frames->has_begun) {
    rewinding = true;
    asyncify_start_rewind(frames);
  }
  frames->has_begun = true;
  frames->entry();
  asyncify_stop_unwind();
  running = nullptr;
  stackRestore(own);
}
}  // namespace simt
inline void simt_switch_stack(void**, void* load) {
  if (simt::running) simt::leave();
  else simt::enter(static_cast<simt::Frames*>(load));
}
