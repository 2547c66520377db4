// Asynchronous copies on the CPU: __pipeline_memcpy_async, commit and wait
#pragma once

SIMT_OWN inline void simt_copy(void* to, const void* from, size_t bytes, void* pc) {
#ifdef __SANITIZE_THREAD__
  simt_access(from, bytes, SIMT_READ, pc);
  simt_access(to, bytes, SIMT_WRITE, pc);
#endif
  simt_copy_async(to, from, bytes);
}
SIMT_OWN inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  simt_copy(to, from, bytes - zeros, SIMT_PC);
  if (zeros) memset(static_cast<char*>(to) + bytes - zeros, 0, zeros);
}
inline void __pipeline_commit() { simt_copies_commit(); }
inline void __pipeline_wait_prior(unsigned open) { simt_copies_wait(open); }
