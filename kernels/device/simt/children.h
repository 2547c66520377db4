// The CPU half of device/children.cuh. The launches of a kernel run after its grid, in order. If blocks and threads run
// in the opposite order, those into cudaStreamFireAndForget run last to first, as nothing orders them.
#pragma once
#include <functional>
#include <tuple>
#include <vector>

enum cudaStream_t { cudaStreamDefault, cudaStreamTailLaunch, cudaStreamFireAndForget };

namespace simt {

struct Child {  // as in kernels/run/backends/cpu.py: a launch of the opening comment
  const char* entry;
  unsigned grid[3], block[3], shared_bytes, is_launched;
};
struct Queued {
  const char* name;
  dim3 grid, block;
  unsigned shared_bytes;
  cudaStream_t stream;
  std::function<void()> thread;
};
static std::vector<Child> children;
static std::vector<Queued> queued;

static bool take_child(const char* entry, dim3 grid, dim3 block, size_t shared_bytes) {
  for (Child& child : children) {
    const unsigned *g = child.grid, *b = child.block;
    if (child.is_launched || strcmp(child.entry, entry) || child.shared_bytes != shared_bytes) continue;
    if (g[0] != grid.x || g[1] != grid.y || g[2] != grid.z) continue;
    if (b[0] != block.x || b[1] != block.y || b[2] != block.z) continue;
    child.is_launched = 1;
    return true;
  }
  return false;
}
static void begin_child(const Queued& child) {
  launch->shared_bytes = child.shared_bytes;
  grid_dim = child.grid, block_dim = child.block;
  threads = block_dim.x * block_dim.y * block_dim.z;
}
static void run_child(Queued& child) {
  void* args[] = {&child.thread};
  kernel = [](void** a) { (*static_cast<std::function<void()>*>(a[0]))(); };
  kernel_args = args;
  launch->shared_bytes = child.shared_bytes, child_name = child.name;
  grid_dim = child.grid, block_dim = child.block, threads = block_dim.x * block_dim.y * block_dim.z;
  if (make_stacks()) run_grid();
  else stop("the stacks of %u threads got no memory. End other programs, or choose fewer threads", threads);
}
static void run_queued() {
  for (cudaStream_t stream : {cudaStreamDefault, cudaStreamFireAndForget, cudaStreamTailLaunch})
    for (size_t n = 0; n < queued.size() && !failed; ++n) {
      const bool last_first = launch->reversed && stream == cudaStreamFireAndForget;
      Queued& child = queued[last_first ? queued.size() - 1 - n : n];
      if (child.stream == stream) run_child(child);
    }
  queued.clear(), children.clear();
  child_name = nullptr;
}
static const bool extended_by_children = (run_children = run_queued, true);

template <class... P> struct ChildLaunch {
  const char* name;
  void (*entry)(P...);
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
  Site here;
  template <class... A> void operator()(A... args) const {
    at(here);
    if (!take_child(name, grid, block, shared_bytes))
      die("it launches %s with a grid of (%u, %u, %u), %u threads and %zu bytes of shared memory, and the opening "
          "comment lists no such launch that is left. Give its child this grid", name, grid.x, grid.y, grid.z,
          block.x * block.y * block.z, shared_bytes);
    const std::tuple<P...> values(args...);
    queued.push_back({name, grid, block, unsigned(shared_bytes), stream,
                      [entry = entry, values] { std::apply(entry, values); }});
  }
};
// The build writes this call in place of name<<<grid, block, shared_bytes, stream>>>
template <class... P>
ChildLaunch<P...> child(const char* name, void (*entry)(P...), dim3 grid, dim3 block, size_t shared_bytes = 0,
                        cudaStream_t stream = cudaStreamDefault, SIMT_HERE) {
  return {name, entry, grid, block, shared_bytes, stream, here};
}
}  // namespace simt

// Called before a launch, with the launches that its kernel may make
extern "C" __attribute__((visibility("default"))) void simt_children(const simt::Child* listed, unsigned count) {
  simt::children.assign(listed, listed + count);
  simt::queued.clear();
}
