// grid.sync() of several blocks: a block that comes to it is parked, and goes on after all others have come.
//
// The blocks share the stacks and the __shared__ arrays. A parked block keeps its own bytes of both.
#pragma once
#include "async.h"

namespace simt {

constexpr size_t PARKED_MAX = size_t(512) << 20;  // bytes of all parked blocks

struct Parked {
  dim3 block_idx;
  uint32_t tag, number;
  unsigned done, barriers;
  uint64_t last_atomic;
  size_t regions;
  std::vector<Fiber> fibers;
  std::vector<Own> own;
  std::vector<char> bytes;       // the stacks in use, then the shared arrays
  std::vector<uint8_t> written;  // of the cells of shared arrays
  BlockBarriers own_barriers;
  std::vector<Clock> clocks;
};
static std::vector<Parked> waiting, released;
static size_t parked_bytes;
static unsigned blocks_left;  // blocks that ended

// The parts of memory that belong to one block
template <class DO> static void for_memory(size_t count, DO act) {
  for (unsigned i = 0; i < threads; ++i) {
    char* const first = static_cast<char*>(fibers[i].stack_pointer);
    if (fibers[i].state != State::DONE) act(first, size_t(stack_of(i) + STACK_BYTES - first));
  }
  for (size_t i = 0; i < count; ++i)
    if (regions[i].shared)
      act(regions[i].values ? regions[i].values : const_cast<char*>(regions[i].base), regions[i].bytes);
}
template <class DO> static void for_cells(size_t count, DO act) {
  for (size_t i = 0; i < count && line_count; ++i)
    for (uint64_t word = 0; regions[i].shared && word < regions[i].bytes / regions[i].word; ++word)
      act(regions[i].cells[word]);
}
static void park() {
  Parked block{block_idx, block_tag, block_number, done, block_barriers, last_atomic, regions.size(), {}, {},
      {}, {}, {}, {}};
  block.fibers.assign(fibers, fibers + threads);
  block.own.assign(own, own + threads);
  for_memory(block.regions, [&](char* p, size_t bytes) { block.bytes.insert(block.bytes.end(), p, p + bytes); });
  for_cells(block.regions, [&](Cell& c) { block.written.push_back(c.written_in == block_tag ? c.written : 0); });
  parked_bytes += block.bytes.size() + block.written.size();
  for (unsigned i = 0; i < threads; ++i) own[i].copies = nullptr;  // the parked block has them
  block.own_barriers = std::move(barriers), block.clocks = std::move(clocks);
  barriers = BlockBarriers{}, clocks.clear();
  waiting.push_back(std::move(block));
}
static void unpark(const Parked& block) {
  block_idx = block.block_idx, block_tag = block.tag, block_number = block.number;
  done = block.done, block_barriers = block.barriers, last_atomic = block.last_atomic;
  at_barrier = 0, parked = false;
  std::copy(block.fibers.begin(), block.fibers.end(), fibers);
  std::copy(block.own.begin(), block.own.end(), own);
  barriers = block.own_barriers, clocks = block.clocks;
  const char* from = block.bytes.data();
  for_memory(block.regions, [&](char* p, size_t bytes) { memcpy(p, from, bytes), from += bytes; });
  const uint8_t* written = block.written.data();
  for_cells(block.regions, [&](Cell& c) { c.written_in = block_tag, c.written = *written++; });
  parked_bytes -= block.bytes.size() + block.written.size();
  for (unsigned i = 0; i < threads; ++i)
    if (fibers[i].state == State::ELSEWHERE) fibers[i].state = State::READY;
}

// No thread of the block can go on. True if all that are left wait for the grid
static bool stuck_block() {
  if (land_copies()) return true;
  extension.explain = any_waits() ? explain_waits : nullptr;
  unsigned at_grid = 0;
  for (unsigned i = 0; i < threads; ++i) at_grid += fibers[i].state == State::ELSEWHERE && waits[i].what == For::GRID;
  if (!at_grid || at_grid + done < threads) return false;
  park();
  parked = true;
  if (parked_bytes > PARKED_MAX)
    stop("grid.sync() keeps all blocks in memory, and they need more than %zu MB. Launch fewer blocks",
         PARKED_MAX >> 20);
  return true;
}
static void (*end_products)();  // products.h
static void end_block() { ++blocks_left, end_barriers(), end_products(); }
// The next block goes on, or false if none is parked
static bool resume_block() {
  if (released.empty()) {
    if (waiting.empty()) return false;
    if (blocks_left) {
      stop("deadlock: %zu of %zu blocks wait at grid.sync(), and the others have left. All blocks must come to it",
           waiting.size(), waiting.size() + blocks_left);
      return false;
    }
    released.assign(waiting.rbegin(), waiting.rend());
    waiting.clear();
    grid_time = now;
  }
  const Parked block = std::move(released.back());
  released.pop_back();
  unpark(block);
  return true;
}
static void begin_grid() {
  waiting.clear(), released.clear();
  parked_bytes = blocks_left = grid_time = 0;
  parked = false;
}
}  // namespace simt
