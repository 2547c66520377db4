// The launches that a GPU refuses: too many threads, and dynamic shared memory above 48 KB without an opt-in
//
// A refused launch leaves an error for cudaGetLastError, and the next calls succeed.
#pragma once
#include <map>

constexpr size_t SIMT_SHARED = 48 << 10, SIMT_MOST_SHARED = 227 << 10;  // of a block: without and with the opt-in
inline std::map<const void*, size_t> simt_opted_in;                     // kernel -> its cudaFuncSetAttribute
inline int simt_refusal;                                                // for cudaGetLastError
enum { SIMT_INVALID_VALUE = 1, SIMT_INVALID_CONFIGURATION = 9 };

inline int simt_opt_in(const void* kernel, size_t bytes) {
  if (bytes > SIMT_MOST_SHARED) return SIMT_INVALID_VALUE;
  return simt_opted_in[kernel] = bytes, 0;
}
inline const char* simt_error_text(int code) {
  switch (code) {
    case 0: return "no error";
    case SIMT_INVALID_VALUE: return "invalid argument";
    case 2: return "out of memory";
    case SIMT_INVALID_CONFIGURATION: return "invalid configuration argument";
    default: return "the launch failed on the CPU";
  }
}
inline bool simt_refuses(int line, const char* name, const void* kernel, size_t blocks, size_t threads, size_t shared) {
  const auto found = simt_opted_in.find(kernel);
  const size_t most = found == simt_opted_in.end() || found->second < SIMT_SHARED ? SIMT_SHARED : found->second;
  if (!blocks || !threads || threads > 1024) simt_refusal = SIMT_INVALID_CONFIGURATION;
  else if (shared > most) simt_refusal = SIMT_INVALID_VALUE;
  else return false;
  const char* const said = simt_error_text(simt_refusal);
  if (shared > most) fprintf(stderr, "line %d: %s needs an opt-in for %zu shared bytes (%s)\n", line, name, shared,
      said);
  else fprintf(stderr, "line %d: %s has %zu blocks of %zu threads (%s)\n", line, name, blocks, threads, said);
  return true;
}
