// Asynchronous copies on the CPU: __pipeline_memcpy_async, commit and wait
#pragma once

SIMT_OWN inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  simt_copy_async(to, from, bytes - zeros, zeros, SIMT_PC);
}
inline void __pipeline_commit() { simt_copies_commit(); }
inline void __pipeline_wait_prior(unsigned open) { simt_copies_wait(open); }
