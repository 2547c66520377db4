// The CPU half of device/launches.cuh. A launch starts after the one before it has ended, so the waits do nothing.
//
// A block at the grid barrier is parked: it keeps its own bytes of the stacks and of shared memory, which all blocks
// share, and goes on after all others have come.
#pragma once
#include <vector>

namespace simt {

constexpr size_t PARKED_MAX = size_t(512) << 20;  // bytes of all parked blocks

struct Parked {
  dim3 block_idx;
  unsigned done;
  std::vector<Fiber> fibers;
  std::vector<char> bytes;  // the stacks in use, then shared memory
};
static std::vector<Parked> waiting, released;
static size_t parked_bytes;
static unsigned blocks_left;

template <class DO> static void for_memory(DO act) {
  for (unsigned i = 0; i < threads; ++i) {
    char* const first = static_cast<char*>(fibers[i].stack_pointer);
    if (fibers[i].state != State::DONE) act(first, size_t(stack_of(i) + STACK_BYTES - first));
  }
  act(shared_memory, launch->shared_bytes);
}
static bool all_at_grid() {
  unsigned at_grid = 0;
  for (unsigned i = 0; i < threads; ++i) at_grid += fibers[i].state == State::ELSEWHERE;
  return at_grid && at_grid + done == threads;
}
static void begin_with_grid() {
  const unsigned block = block_idx.x + grid_dim.x * (block_idx.y + grid_dim.y * block_idx.z);
  if (block == (launch->reversed ? grid_dim.x * grid_dim.y * grid_dim.z - 1 : 0)) {  // the first of a launch
    waiting.clear(), released.clear();
    parked_bytes = blocks_left = 0, parked = false;
  }
}
static bool park() {
  if (!all_at_grid()) return false;
  Parked block{block_idx, done, {fibers, fibers + threads}, {}};
  for_memory([&](char* p, size_t bytes) { block.bytes.insert(block.bytes.end(), p, p + bytes); });
  parked_bytes += block.bytes.size();
  waiting.push_back(std::move(block));
  parked = true;
  if (parked_bytes > PARKED_MAX)
    stop("grid_barrier keeps all blocks in memory, and they need more than %zu MB. Launch fewer blocks",
         PARKED_MAX >> 20);
  return true;
}
static void explain_grid(Text& text) {
  unsigned at_grid = 0;
  for (unsigned i = 0; i < threads; ++i) at_grid += fibers[i].state == State::ELSEWHERE;
  text.add("%u of %u threads wait at grid_barrier, ", at_grid, threads);
}
static void count_end() { ++blocks_left; }
static bool unpark() {
  if (released.empty()) {
    if (waiting.empty()) return false;
    if (blocks_left) {
      stop("deadlock: %zu of %zu blocks wait at grid_barrier, and the others have left. All blocks must come to it",
           waiting.size(), waiting.size() + blocks_left);
      return false;
    }
    released.assign(waiting.rbegin(), waiting.rend());
    waiting.clear();
  }
  const Parked block = std::move(released.back());
  released.pop_back();
  block_idx = block.block_idx, done = block.done;
  at_barrier = 0, parked = false;
  std::copy(block.fibers.begin(), block.fibers.end(), fibers);
  const char* from = block.bytes.data();
  for_memory([&](char* p, size_t bytes) { memcpy(p, from, bytes), from += bytes; });
  parked_bytes -= block.bytes.size();
  for (unsigned i = 0; i < threads; ++i)
    if (fibers[i].state == State::ELSEWHERE) fibers[i].state = State::READY;
  return true;
}
// Unless hopper.h, whose barriers cannot be parked, has extended the scheduler
static const bool extended_by_grid =
    !extension.begin && (extension = {begin_with_grid, park, explain_grid, count_end, unpark}, true);
}  // namespace simt

inline void let_next_launch() {}
inline void wait_for_launch() {}
inline void grid_barrier(int*, SIMT_HERE) {
  simt::at(here);
  if (simt::extension.resume != simt::unpark) simt::die("grid_barrier next to hopper.cuh, which the CPU cannot run");
  simt::current->state = simt::State::ELSEWHERE;
  simt::yield();
}
inline bool is_last(int* arrived, unsigned count, SIMT_HERE) {
  simt::check_buffer(arrived, sizeof *arrived, AccessKind::STORE, here);
  const bool last = (unsigned)*arrived + 1 == count;
  *arrived = last ? 0 : *arrived + 1;
  return last;
}
