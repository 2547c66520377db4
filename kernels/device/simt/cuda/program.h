// A whole program with main() on the CPU: the calls of the CUDA runtime, and launches that note their arguments.
//
// The build writes simt_launch_at in place of kernel<<<...>>>. Each launch adds a line of JSON to the file "launches".
#pragma once
#include <cassert>
#include <cstdarg>
#include <cxxabi.h>
#include <dlfcn.h>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <sys/time.h>
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
// A call of a library such as cuBLAS, which does not run here. host.py reads this line.
[[noreturn]] inline int simt_library(const char* name, const char* file, int line) {
  const char* last = strrchr(file, '/');
  fprintf(stderr, "\nlibrary call %s in %s line %d\n", name, last ? last + 1 : file, line);
  simt_exit(121);
}
struct SimtLibraryValue {  // a handle or a status of a library
  int value = 0;
  SimtLibraryValue() = default;
  template <class T> SimtLibraryValue(T) {}
  operator int() const { return value; }
};
namespace std { using ::simt_exit; using ::simt_say; using ::simt_clock; }

// ---- memory: an allocation starts with NaN, as its values are undefined on a GPU ----
// filled: the host wrote it by a call. number: of its content in the log, or -1. after: its hash after the last launch.
// set: 1 + the byte of the last cudaMemset of all of it, if nothing has touched it since. -1 if the host may touch it.
struct SimtMemory { char* base; size_t bytes; bool filled; int number; uint64_t after; int set; };
inline std::vector<SimtMemory> simt_memory;
inline void simt_touch(SimtMemory& m) { m.set = m.set < 0 ? -1 : 0; }
inline int simt_failed;
inline bool simt_hidden;  // whether a launch may reach memories that are none of its arguments
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
  simt_memory.push_back({made, bytes, false, -1, 0, 0});
  *p = reinterpret_cast<T*>(made);
  return cudaSuccess;
}
template <class T> cudaError_t cudaMallocManaged(T** p, size_t bytes, unsigned = 1) {
  const cudaError_t failed = cudaMalloc(p, bytes);
  if (!failed) simt_memory.back().set = -1;
  return failed;
}
template <class T> cudaError_t cudaMallocHost(T** p, size_t bytes) { return *p = (T*)calloc(bytes, 1), cudaSuccess; }
template <class T> cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }
template <class T> cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned) { return cudaMallocHost(p, bytes); }
inline cudaError_t cudaFreeHost(void* p) { return free(p), cudaSuccess; }
inline int simt_place(const void* p) {
  for (size_t n = 0; n < simt_memory.size(); ++n)
    if ((const char*)p >= simt_memory[n].base && size_t((const char*)p - simt_memory[n].base) < simt_memory[n].bytes)
      return n;
  return -1;
}
inline void simt_fill(void* p) {
  if (const int n = simt_place(p); n >= 0) simt_memory[n].filled = true, simt_touch(simt_memory[n]);
}
inline cudaError_t cudaFree(void* p) {  // a memory of a launch stays: another one at its place would be another memory
  if (const int n = simt_place(p); n >= 0 && simt_memory[n].number < 0 && p == simt_memory[n].base)
    free(p), simt_memory[n].base = nullptr, simt_memory[n].bytes = 0;
  return simt_failed;
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { return memcpy(to, from,
    bytes), simt_fill(to), simt_failed; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
    cudaStream_t = 0) { return cudaMemcpy(to, from, bytes, kind); }
inline cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  const int n = simt_place(p), set = n >= 0 && p == simt_memory[n].base && bytes >= simt_memory[n].bytes ? 1 +
      (value & 255) : 0;
  if (set && simt_memory[n].set == set && !simt_hidden) return simt_failed;  // programs clear a cache at each repeat
  memset(p, value, bytes), simt_fill(p);
  if (set && !simt_memory[n].set) simt_memory[n].set = set;
  return simt_failed;
}
inline cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t = 0) { return cudaMemset(p,
    value, bytes); }
template <class T> cudaError_t cudaMemcpyToSymbol(T& to, const void* from, size_t bytes, size_t at = 0,
    cudaMemcpyKind = cudaMemcpyDefault) { return memcpy((char*)&to + at, from, bytes), simt_hidden = true,
    simt_failed; }
template <class T> cudaError_t cudaMemcpyFromSymbol(void* to, const T& from, size_t bytes, size_t at = 0,
    cudaMemcpyKind = cudaMemcpyDefault) { return memcpy(to, (const char*)&from + at, bytes), simt_failed; }

// ---- errors, streams and events: a CPU gives no time. program_api.h has the device ----
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
template <class F> cudaError_t cudaFuncSetAttribute(F kernel, cudaFuncAttribute which, int value) {
  return which == cudaFuncAttributeMaxDynamicSharedMemorySize ? simt_opt_in((const void*)kernel, value) : cudaSuccess;
}
template <class F> cudaError_t cudaFuncSetCacheConfig(F, int) { return cudaSuccess; }
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
#include "program_api.h"

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
// The log: a line for each new launch, before it a line for each memory that it takes and whose content is new, and
// after it the memories that it changed. A launch that changed nothing is not run again on the same content.
enum : size_t { SIMT_KEPT = 3 << 20, SIMT_KEPT_ALL = 24 << 20, SIMT_LOGGED = 48 };  // bytes of contents, launches
// The seconds of all launches. Later ones are noted and not run.
inline const double SIMT_SECONDS = getenv("SIMT_SECONDS") ? atof(getenv("SIMT_SECONDS")) : 20;
inline uint64_t simt_hash(const char* p, size_t bytes) {
  uint64_t sum = bytes, word = 0;
  for (size_t i = 0; i < bytes; i += 8) {
    memcpy(&word, p + i, bytes - i < 8 ? bytes - i : 8);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
  }
  return sum;
}
template <class T> const char* simt_type() { return __PRETTY_FUNCTION__; }
inline void simt_hex(FILE* out, const void* p, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) fprintf(out, "%02x", ((const unsigned char*)p)[i]);
}
inline void simt_content(SimtMemory& m, const char* type) {
  static int count;
  static size_t kept;
  bool fresh = !m.filled;
  for (size_t i = 0; i < m.bytes && fresh; ++i) fresh = m.base[i] == (char)0xff;
  m.number = count++;
  fprintf(simt_log(), "{\"memory\": %d, \"allocation\": %zu, \"bytes\": %zu, \"fresh\": %s, "
      "\"type\": \"%s\", \"data\": \"",
      m.number, size_t(&m - simt_memory.data()), m.bytes, fresh ? "true" : "false", type);
  const size_t most = m.bytes < SIMT_KEPT ? m.bytes : SIMT_KEPT;
  if (!fresh && kept + most <= SIMT_KEPT_ALL) kept += most, simt_hex(simt_log(), m.base, most);
  fprintf(simt_log(), "\"}\n");
}
using SimtPlaces = std::vector<std::pair<int, const char*>>;  // a memory and the type of its pointer
template <class T> void simt_places(SimtPlaces& found, T* p) {
  if (const int n = simt_place((const void*)p); n >= 0) simt_touch(simt_memory[n]),
      found.push_back({n, simt_type<T>()});
}
template <class T> std::enable_if_t<!std::is_pointer<T>::value> simt_places(SimtPlaces&, T) {
  simt_hidden |= !std::is_arithmetic<T>::value;
}
template <class T> std::string simt_said(T* p, bool) {
  char text[160];
  const int n = simt_place((const void*)p);
  if (n < 0) return p ? "{\"memory\": -1}" : "{\"null\": true}";
  const SimtMemory& m = simt_memory[n];
  bool zero = true;
  for (size_t i = 0; i < m.bytes && zero; ++i) zero = !m.base[i];
  snprintf(text, sizeof text, "{\"memory\": %d, \"offset\": %zu, \"bytes\": %zu, \"zero\": %s}", m.number,
      (const char*)p - m.base, m.bytes, zero ? "true" : "false");
  return text;
}
template <class T> std::string simt_bytes(const T& value) {
  char text[3];
  std::string said;
  for (size_t i = 0; i < sizeof(T) && i < 4096; ++i)
    snprintf(text, 3, "%02x", ((const unsigned char*)&value)[i]), said += text;
  return said;
}
template <class T> std::enable_if_t<std::is_arithmetic<T>::value, std::string> simt_said(T value, int) {
  char text[64];
  snprintf(text, sizeof text, "{\"value\": %.17g, \"raw\": \"", (double)value);
  return text + simt_bytes(value) + "\"}";
}
template <class T> std::enable_if_t<!std::is_arithmetic<T>::value && !std::is_pointer<T>::value, std::string>
simt_said(T value, int) { return "{\"raw\": \"" + simt_bytes(value) + "\"}"; }
inline std::string simt_name(void* entry, const char* written) {
  Dl_info info = {};
  int status = 1;
  if (!dladdr(entry, &info) || !info.dli_sname) return written;
  char* const made = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  const std::string name = status ? info.dli_sname : made;
  free(made);
  return name;
}
inline double simt_spent;  // seconds of launches
inline double simt_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
inline std::map<std::string, int> simt_times;
inline std::set<std::pair<std::string, uint64_t>> simt_still;  // launches that leave this content as it is
template <class... P> struct SimtLauncher {
  int line;
  const char* name;
  void (*entry)(P...);
  SimtConfig config;
  void operator()(P... values) const {
    SimtPlaces places;
    (void)std::initializer_list<int>{(simt_places(places, values), 0)...};
    std::string key = header();
    const auto hash = [&] {
      uint64_t sum = 0;
      for (const auto& [n, type] : places) sum = sum * 31 + simt_hash(simt_memory[n].base, simt_memory[n].bytes);
      return sum;
    };
    std::string raw;
    (void)std::initializer_list<int>{(raw += simt_bytes(values), 0)...};
    const uint64_t content = hash();
    const bool logged = !simt_times[key + raw]++ && simt_times.size() <= SIMT_LOGGED;
    if (simt_still.count({key + raw, content})) return;
    if (logged) {
      for (const auto& [n, type] : places) {
        SimtMemory& m = simt_memory[n];
        if (m.number < 0 || simt_hash(m.base, m.bytes) != m.after) simt_content(m, type);
      }
      int n = 0;
      std::string args;
      (void)std::initializer_list<int>{(args += (n++ ? ", " : "") + simt_said(values, 0), 0)...};
      fprintf(simt_log(), "%s%s]}\n", key.c_str(), args.c_str());
      fflush(simt_log());
    }
    std::vector<uint64_t> before;
    for (const auto& [n, type] : places) before.push_back(simt_hash(simt_memory[n].base, simt_memory[n].bytes));
    const double spent = simt_spent;
    const dim3 &g = config.grid, &b = config.block;
    const bool refused = simt_refuses(line, name, (const void*)entry, size_t(g.x) * g.y * g.z, size_t(b.x) * b.y * b.z,
        config.shared);
    const bool whole = refused ||
        (simt_spent < SIMT_SECONDS && run(std::tuple<P...>(values...), std::index_sequence_for<P...>{}));
    if (logged) fprintf(simt_log(), "{\"whole\": %s, \"seconds\": %.3f, \"wrote\": [", whole ? "true" : "false",
        simt_spent - spent);
    const char* comma = "";
    for (size_t i = 0; i < places.size(); ++i) {
      SimtMemory& m = simt_memory[places[i].first];
      m.after = simt_hash(m.base, m.bytes);
      if (logged && m.after != before[i]) fprintf(simt_log(), "%s%d", comma, m.number), comma = ", ";
    }
    if (logged) fprintf(simt_log(), "]}\n"), fflush(simt_log());
    if (!refused && whole && hash() == content) simt_still.insert({key + raw, content});
  }
  std::string header() const {
    char text[256];
    const SimtConfig& c = config;
    snprintf(text, sizeof text, "\"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %zu, \"args\": [",
        c.grid.x, c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z, c.shared);
    return "{\"line\": " + std::to_string(line) + ", \"entry\": \"" + name + "\", \"function\": \"" +
        simt_name((void*)entry, name) + "\", " + text;
  }
  template <size_t... I> bool run(std::tuple<P...> values, std::index_sequence<I...>) const {
    static void (*kernel)(P...);
    kernel = entry;
    std::vector<SimtBuffer> buffers;
    for (const SimtMemory& m : simt_memory) if (m.bytes) buffers.push_back({m.base, m.bytes, "memory", 1});
    void* args[] = {&std::get<I>(values)..., nullptr};
    SimtRequest& r = simt_request;
    const dim3 &g = config.grid, &b = config.block;
    r.grid[0] = g.x, r.grid[1] = g.y, r.grid[2] = g.z, r.block[0] = b.x, r.block[1] = b.y, r.block[2] = b.z;
    r.shared_bytes = config.shared, r.buffer_count = buffers.size(), r.buffers = buffers.data();
    const double start = simt_now(), left = SIMT_SECONDS - simt_spent;
    const itimerval limit = {{0, 20000}, {long(left), long(1e6 * (left - long(left))) + 1}}, none = {};
    setitimer(ITIMER_REAL, &limit, nullptr);
    const int stopped = simt_run(&r, [](void** a) { simt_call(kernel, a); }, args);
    setitimer(ITIMER_REAL, &none, nullptr);
    simt_spent += simt_now() - start;
    if (!stopped) return true;
    if (simt_spent < SIMT_SECONDS) simt_failed = cudaErrorLaunchFailure;
    fprintf(stderr, "line %d: %s was stopped at %s\n", line, name, r.message);
    return false;
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

enum cudaLaunchAttributeID { cudaLaunchAttributeIgnore, cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4, cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributePriority = 8 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  union {
    int cooperative, programmaticStreamSerializationAllowed, priority;
    struct { unsigned x, y, z; } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {  // gridDim and blockDim are macros for a call
  dim3 simt_grid, simt_block;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
  dim3& gridDim { return simt_grid; }
  dim3& blockDim { return simt_block; }
};
inline SimtConfig simt_config(const cudaLaunchConfig_t* c) { return {c->simt_grid, c->simt_block,
    c->dynamicSmemBytes}; }
template <class... P>
cudaError_t simt_launch_array(int line, const char* name, void (*entry)(P...), const cudaLaunchConfig_t* c,
    void** args) {
  return simt_launch_array(line, name, entry, c->simt_grid, c->simt_block, args, c->dynamicSmemBytes);
}
