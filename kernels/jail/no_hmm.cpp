// Takes pageable host memory from the GPU, for the process that preloads this library.
// CUDA opens NVIDIA's driver of unified memory with one call of ioctl. Its flags may forbid HMM (and, from driver 610
// on, each other access to pageable memory). The process asks CUDA afterwards whether it worked.
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
constexpr unsigned long kInitialize = 0x30000001;  // UVM_INITIALIZE
struct Initialize {
  uint64_t flags;
  uint32_t status;
};
}  // namespace

extern "C" int ioctl(int descriptor, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  const char* const flags = getenv("WARPGLASS_UVM_FLAGS");
  if (request == kInitialize && argument && flags) static_cast<Initialize*>(argument)->flags |= strtoull(flags, nullptr, 0);
  return static_cast<int>(syscall(SYS_ioctl, descriptor, request, argument));
}
