// The names that cuda::barrier and cuda::pipeline share
#pragma once

namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
enum class async_contract_fulfillment { none, async };
template <size_t ALIGNMENT> struct aligned_size_t {
  static constexpr size_t align = ALIGNMENT;
  size_t value;
  explicit constexpr aligned_size_t(size_t value) : value(value) {}
  constexpr operator size_t() const { return value; }
};
// Waits for the phase of a token, or of a parity
SIMT_OWN inline void simt_until(void* at, uint64_t phase, int parity, const char* file, unsigned line, void* pc) {
  while (!simt_mbarrier_test(at, phase, parity, 1, file, line, pc)) {
  }
}
}  // namespace cuda
