// A whole program with main() on the CPU: the calls of the CUDA runtime, and launches that note their arguments.
//
// The build writes simt_launch_at in place of kernel<<<...>>>. Each launch adds a line of JSON to the file "launches".
#pragma once
#include <cassert>
#include <cstdarg>
#include <initializer_list>
#include <tuple>
#include <vector>
#include "refusals.h"
#undef printf
#undef exit
#undef abort
#define printf simt_say
#define exit(code) simt_exit(code)
__attribute__((format(printf, 1, 2))) inline int simt_say(const char* format, ...) {
  va_list list;
  va_start(list, format);
  const int n = vfprintf(stdout, format, list);
  va_end(list);
  return n;
}
[[noreturn]] inline void simt_exit(int code) { fflush(nullptr), _Exit(code); }
namespace std { using ::simt_exit; using ::simt_say; using ::simt_clock; }

// ---- memory: an allocation starts with NaN, as its values are undefined on a GPU ----
struct SimtMemory { char* base; size_t bytes; };
inline std::vector<SimtMemory> simt_memory;
inline int simt_failed;
typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorLaunchFailure = 719 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
typedef struct simt_stream* cudaStream_t;
typedef struct simt_event* cudaEvent_t;
template <class T> cudaError_t cudaMalloc(T** p, size_t bytes) {
  char* const made = static_cast<char*>(aligned_alloc(256, (bytes + 511) / 256 * 256));
  if (!made) return cudaErrorMemoryAllocation;
  memset(made, 0xff, bytes);
  simt_memory.push_back({made, bytes});
  *p = reinterpret_cast<T*>(made);
  return cudaSuccess;
}
template <class T> cudaError_t cudaMallocManaged(T** p, size_t bytes, unsigned = 1) { return cudaMalloc(p, bytes); }
template <class T> cudaError_t cudaMallocHost(T** p, size_t bytes) { return *p = (T*)calloc(bytes, 1), cudaSuccess; }
template <class T> cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }
template <class T> cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned) { return cudaMallocHost(p, bytes); }
inline cudaError_t cudaFree(void*) { return simt_failed; }
inline cudaError_t cudaFreeAsync(void*, cudaStream_t) { return simt_failed; }
inline cudaError_t cudaFreeHost(void* p) { return free(p), cudaSuccess; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { return memcpy(to, from,
    bytes), simt_failed; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
    cudaStream_t = 0) { return cudaMemcpy(to, from, bytes, kind); }
inline cudaError_t cudaMemset(void* p, int value, size_t bytes) { return memset(p, value, bytes), simt_failed; }
inline cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t = 0) { return cudaMemset(p,
    value, bytes); }
template <class T> cudaError_t cudaMemcpyToSymbol(T& to, const void* from, size_t bytes, size_t at = 0,
    cudaMemcpyKind = cudaMemcpyDefault) { return memcpy((char*)&to + at, from, bytes), simt_failed; }
template <class T> cudaError_t cudaMemcpyFromSymbol(void* to, const T& from, size_t bytes, size_t at = 0,
    cudaMemcpyKind = cudaMemcpyDefault) { return memcpy(to, (const char*)&from + at, bytes), simt_failed; }

// ---- the device, streams and events: a CPU gives no time ----
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  int major, minor, multiProcessorCount, maxThreadsPerBlock, warpSize, regsPerBlock, maxThreadsPerMultiProcessor;
  int cooperativeLaunch, clockRate, memoryClockRate, memoryBusWidth, l2CacheSize;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {"the CPU", size_t(1) << 30, 49152, 232448, 233472, 9, 0, 4, 1024, 32, 65536, 2048, 1, 1, 1, 1, 1};
  return cudaSuccess;
}
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount, cudaDevAttrMaxSharedMemoryPerBlock,
    cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrCooperativeLaunch, cudaDevAttrWarpSize };
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  const int values[] = {4, 49152, 232448, 1, 32};
  return *value = values[which], cudaSuccess;
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
template <class F> cudaError_t cudaFuncSetAttribute(F kernel, cudaFuncAttribute which, int value) {
  return which == cudaFuncAttributeMaxDynamicSharedMemorySize ? simt_opt_in((const void*)kernel, value) : cudaSuccess;
}
template <class F> cudaError_t cudaFuncSetCacheConfig(F, int) { return cudaSuccess; }
template <class F> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int, size_t) {
    return *blocks = 1, cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return simt_failed ? simt_failed : simt_refusal; }
inline cudaError_t cudaGetLastError() {
  const int found = cudaPeekAtLastError();
  return simt_failed = simt_refusal = 0, found;
}
inline const char* cudaGetErrorString(cudaError_t code) { return simt_error_text(code); }
inline const char* cudaGetErrorName(cudaError_t code) { return code ? "cudaErrorLaunchFailure" : "cudaSuccess"; }
inline cudaError_t cudaDeviceSynchronize() { return simt_failed; }
inline cudaError_t cudaDeviceReset() { return cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return *stream = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return simt_failed; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = nullptr, cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return simt_failed; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { return *ms = 0.f, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }

// ---- launches ----
struct SimtRequest {  // struct Launch of simt.h
  unsigned grid[3], block[3], shared_bytes, reversed, buffer_count;
  const void* buffers;
  char* stacks;
  unsigned stack_count;
  char message[2048];
};
struct SimtBuffer { const char* base; uint64_t bytes; const char* name; uint64_t element_bytes; };
struct SimtConfig {
  dim3 grid, block;
  size_t shared;
  SimtConfig(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t = nullptr) : grid(grid), block(block),
      shared(shared) {}
};
inline SimtRequest simt_request;
inline FILE* simt_log() {
  static FILE* const log = fopen("launches", "w");
  return log ? log : stderr;
}
template <class T> void simt_note(T* p) {
  for (size_t n = 0; n < simt_memory.size(); ++n) {
    const SimtMemory& m = simt_memory[n];
    const size_t offset = (const char*)p - m.base;
    if ((const char*)p < m.base || offset >= m.bytes) continue;
    bool zero = true;
    for (size_t i = 0; i < m.bytes && zero; ++i) zero = !m.base[i];
    fprintf(simt_log(), "{\"memory\": %zu, \"offset\": %zu, \"bytes\": %zu, \"zero\": %s}", n, offset, m.bytes,
        zero ? "true" : "false");
    return;
  }
  fprintf(simt_log(), "{\"memory\": -1}");
}
template <class T> std::enable_if_t<std::is_arithmetic<T>::value> simt_note(T value) {
  fprintf(simt_log(), "{\"value\": %.17g}", (double)value);
}
template <class T> std::enable_if_t<!std::is_arithmetic<T>::value && !std::is_pointer<T>::value> simt_note(T) {
  fprintf(simt_log(), "{}");
}
inline void simt_note_sizes(int line, const char* entry, const SimtConfig& c) {
  fprintf(simt_log(),
      "{\"line\": %d, \"entry\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %zu, \"args\": [",
          line, entry, c.grid.x, c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z, c.shared);
}
template <class... P> struct SimtLauncher {
  int line;
  const char* name;
  void (*entry)(P...);
  SimtConfig config;
  void operator()(P... values) const {
    simt_note_sizes(line, name, config);
    int n = 0;
    (void)std::initializer_list<int>{(fprintf(simt_log(), n++ ? ", " : ""), simt_note(values), 0)...};
    fprintf(simt_log(), "]}\n");
    fflush(simt_log());
    const dim3 &g = config.grid, &b = config.block;
    const size_t blocks = size_t(g.x) * g.y * g.z, count = size_t(b.x) * b.y * b.z;
    if (simt_refuses(line, name, (const void*)entry, blocks, count, config.shared)) return;
    run(std::tuple<P...>(values...), std::index_sequence_for<P...>{});
  }
  template <size_t... I> void run(std::tuple<P...> values, std::index_sequence<I...>) const {
    static void (*kernel)(P...);
    kernel = entry;
    std::vector<SimtBuffer> buffers;
    for (const SimtMemory& m : simt_memory) buffers.push_back({m.base, m.bytes, "memory", 1});
    void* args[] = {&std::get<I>(values)..., nullptr};
    SimtRequest& r = simt_request;
    const dim3 &g = config.grid, &b = config.block;
    r.grid[0] = g.x, r.grid[1] = g.y, r.grid[2] = g.z, r.block[0] = b.x, r.block[1] = b.y, r.block[2] = b.z;
    r.shared_bytes = config.shared, r.buffer_count = buffers.size(), r.buffers = buffers.data();
    if (!simt_run(&r, [](void** a) { simt_call(kernel, a); }, args)) return;
    simt_failed = cudaErrorLaunchFailure;
    fprintf(stderr, "line %d: %s was stopped at %s\n", line, name, r.message);
  }
};
template <class... P> SimtLauncher<P...> simt_launch_at(int line, const char* name, void (*entry)(P...),
    SimtConfig config) {
  return {line, name, entry, config};
}
template <class... P, size_t... I>
void simt_launch_list(const SimtLauncher<P...>& launcher, void** args, std::index_sequence<I...>) {
  launcher(*static_cast<std::remove_reference_t<P>*>(args[I])...);
}
template <class... P>
cudaError_t simt_launch_array(int line, const char* name, void (*entry)(P...), dim3 grid, dim3 block, void** args,
                              size_t shared = 0, cudaStream_t = nullptr) {
  simt_launch_list(SimtLauncher<P...>{line, name, entry, {grid, block, shared}}, args, std::index_sequence_for<P...>{});
  return cudaPeekAtLastError();
}
