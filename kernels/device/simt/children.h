// The CPU half of device/children.cuh. The launches of a kernel run after its grid. Nothing orders those into
// cudaStreamFireAndForget: they run in the order of their blocks and threads, after those of the default stream. If
// blocks and threads run in the opposite order, they run last to first, and before those of the default stream.
#pragma once
#include <algorithm>
#include <functional>
#include <tuple>
#include <vector>

enum cudaStream_t { cudaStreamDefault, cudaStreamTailLaunch, cudaStreamFireAndForget };

namespace simt {

struct Child {  // as in kernels/run/backends/cpu.py: a launch of the opening comment
  const char* entry;
  const void* records;  // of its probes, or null
  unsigned grid[3], block[3], shared_bytes, is_launched;
};
struct Queued {
  const char* name;
  dim3 grid, block;
  unsigned shared_bytes;
  cudaStream_t stream;
  unsigned long long by;  // its place by block and thread
  std::function<void()> thread;
};
static std::vector<Child> children;
static std::vector<Queued> queued;

static bool is_left(const Child& child, const char* entry, dim3 grid, dim3 block, size_t shared_bytes) {
  const unsigned *g = child.grid, *b = child.block;
  return !child.is_launched && !strcmp(child.entry, entry) && child.shared_bytes == shared_bytes && g[0] == grid.x &&
         g[1] == grid.y && g[2] == grid.z && b[0] == block.x && b[1] == block.y && b[2] == block.z;
}
// Whether an argument is the pointer to the records
template <class T> bool points_at(const void* records, const T& argument) {
  if constexpr (std::is_pointer_v<T>) return argument == records;
  else return false;
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
static void run_queued_on(cudaStream_t stream) {
  std::vector<Queued> own;
  for (const Queued& child : queued)
    if (child.stream == stream) own.push_back(child);
  if (stream == cudaStreamFireAndForget) {
    std::stable_sort(own.begin(), own.end(), [](const Queued& a, const Queued& b) { return a.by < b.by; });
    if (launch->reversed) std::reverse(own.begin(), own.end());
  }
  for (Queued& child : own)
    if (!failed) run_child(child);
}
static void run_queued() {
  run_queued_on(launch->reversed ? cudaStreamFireAndForget : cudaStreamDefault);
  run_queued_on(launch->reversed ? cudaStreamDefault : cudaStreamFireAndForget);
  run_queued_on(cudaStreamTailLaunch);
  child_name = nullptr;
  for (const Child& child : children) {
    if (failed || child.is_launched) continue;
    Text text{launch->message, sizeof launch->message};
    text.add("its end: it did not launch the child %s with a grid of (%u, %u, %u), which the opening comment lists. "
             "Launch it, or remove it from the comment", child.entry, child.grid[0], child.grid[1], child.grid[2]);
    failed = true;
  }
  queued.clear(), children.clear();
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
    if (child_name) die("a child launches %s. Let the parent launch it", name);
    const std::tuple<P...> values(args...);
    Child* const child = listed(values);
    child->is_launched = 1;
    const unsigned long long blocks = (block_idx.z * grid_dim.y + block_idx.y) * grid_dim.x + block_idx.x;
    queued.push_back({name, grid, block, unsigned(shared_bytes), stream, blocks * THREADS_MAX + current->linear,
                      [entry = entry, values] { std::apply(entry, values); }});
  }
  // The launch of the opening comment, the one of PROBE_CHILD in a build with probes
  Child* listed(const std::tuple<P...>& values) const {
    const Child* like = nullptr;
    for (Child& child : children) {
      if (!is_left(child, name, grid, block, shared_bytes)) continue;
      const auto has = [&](const P&... value) { return (points_at(child.records, value) || ...); };
      if (!child.records || std::apply(has, values)) return &child;
      if (!like) like = &child;
    }
    if (like)
      die("its launch of %s has the PROBE_CHILD of another launch. The first one left with this grid is number %td",
          name, like - children.data());
    die("it launches %s with a grid of (%u, %u, %u), %u threads and %zu bytes of shared memory, and the opening "
        "comment lists no such launch that is left. Give its child this grid", name, grid.x, grid.y, grid.z,
        block.x * block.y * block.z, shared_bytes);
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
