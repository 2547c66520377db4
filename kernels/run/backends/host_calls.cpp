// The host's calls of a run from C++, and their times: the driver's functions, which <<<>>> and cudaGraphLaunch call.
// Each function returns CUDA's error, 0 for none. Times are those of CLOCK_MONOTONIC, in ns.
#include <dlfcn.h>
#include <time.h>

struct Call {
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void** arguments;
};

static long long now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// A function of the driver. Its handles are pointers here.
template <class Function>
static Function* driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return (Function*)dlsym(library, name);
}

static int launch(const Call& call, void* stream) {
  static auto* function = driver<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                                     void**, void**)>("cuLaunchKernel");
  return function(call.function, call.grid[0], call.grid[1], call.grid[2], call.block[0], call.block[1], call.block[2],
                  call.shared_bytes, stream, call.arguments, nullptr);
}

// at: the start and the end of each call
extern "C" int launch_all(const Call* calls, int count, void* stream, long long* at) {
  for (int n = 0; n < count; ++n) {
    at[2 * n] = now();
    const int error = launch(calls[n], stream);
    at[2 * n + 1] = now();
    if (error) return error;
  }
  return 0;
}

extern "C" int launch_graph(void* graph, void* stream, long long* at) {
  static auto* function = driver<int(void*, void*)>("cuGraphLaunch");
  at[0] = now();
  const int error = function(graph, stream);
  at[1] = now();
  return error;
}

// Makes a graph of the calls. stream: not the default one.
// took: ns of the capture, of the instantiation, and of an update to another capture of the calls
extern "C" int make_graph(const Call* calls, int count, void* stream, void** graph, long long* took) {
  static auto* begin = driver<int(void*, int)>("cuStreamBeginCapture_v2");
  static auto* end = driver<int(void*, void**)>("cuStreamEndCapture");
  static auto* instantiate = driver<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags");
  static auto* update = driver<int(void*, void*, void*)>("cuGraphExecUpdate_v2");
  static auto* destroy = driver<int(void*)>("cuGraphDestroy");
  for (int again = 0; again < 2; ++again) {
    void* captured = nullptr;
    long long result[8] = {};  // CUgraphExecUpdateResultInfo
    const long long start = now();
    int error = begin(stream, 0);
    for (int n = 0; n < count && !error; ++n) error = launch(calls[n], stream);
    if (!error) error = end(stream, &captured);
    const long long middle = now();
    if (!error) error = again ? update(*graph, captured, result) : instantiate(graph, captured, 0);
    const long long done = now();
    if (!again) took[0] = middle - start;
    took[1 + again] = done - middle;
    if (!error) error = destroy(captured);
    if (error) return error;
  }
  return 0;
}

extern "C" int destroy_graph(void* graph) {
  static auto* function = driver<int(void*)>("cuGraphExecDestroy");
  return function(graph);
}
