// Cooperative groups on the CPU: the block, tiles of a warp, and the grid
#pragma once

namespace cooperative_groups {
struct thread_block {
  SIMT_OWN void sync(SIMT_SITE) const { simt_barrier(file, line, SIMT_PC, 0, nullptr); }
  unsigned thread_rank() const { return simt_rank(); }
  unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  unsigned num_threads() const { return size(); }
  uint3 thread_index() const { return threadIdx; }
  uint3 group_index() const { return blockIdx; }
  dim3 dim_threads() const { return blockDim; }
  dim3 group_dim() const { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

struct grid_group {
  SIMT_OWN void sync(SIMT_SITE) const { simt_grid_barrier(file, line, SIMT_PC); }
  bool is_valid() const { return true; }
  unsigned block_rank() const { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
  unsigned num_blocks() const { return gridDim.x * gridDim.y * gridDim.z; }
  unsigned long long thread_rank() const {
    return (unsigned long long)block_rank() * this_thread_block().size() + simt_rank();
  }
  unsigned long long size() const { return (unsigned long long)num_blocks() * this_thread_block().size(); }
  dim3 group_dim() const { return gridDim; }
};
inline grid_group this_grid() { return {}; }

template <unsigned SIZE, class PARENT = thread_block> struct thread_block_tile {
  static_assert(SIZE >= 1 && SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "a tile has 1, 2, 4, ... or 32 threads");
  unsigned first() const { return simt_rank() & 31 & ~(SIZE - 1); }
  unsigned mask() const { return (SIZE == 32 ? ~0u : (1u << SIZE) - 1) << first(); }
  unsigned thread_rank() const { return simt_rank() % SIZE; }
  static constexpr unsigned size() { return SIZE; }
  static constexpr unsigned num_threads() { return SIZE; }
  unsigned meta_group_rank() const { return simt_rank() / SIZE; }
  unsigned meta_group_size() const { return (this_thread_block().size() + SIZE - 1) / SIZE; }
  SIMT_OWN void sync(SIMT_SITE) const { simt_syncwarp(mask(), file, line, SIMT_PC); }
  // `from` is a lane of the tile. Outside it, the lane gets its own value.
  template <class T> SIMT_OWN T take(T value, unsigned from, const char* file, unsigned line, void* pc) const {
    return simt_shuffle(mask(), value, first() + (from < SIZE ? from : thread_rank()), file, line, pc);
  }
  template <class T> SIMT_OWN T shfl(T value, unsigned from, SIMT_SITE) const {
    return take(value, from % SIZE, file, line, SIMT_PC);
  }
  template <class T> SIMT_OWN T shfl_xor(T value, unsigned lanes, SIMT_SITE) const {
    return take(value, thread_rank() ^ lanes, file, line, SIMT_PC);
  }
  template <class T> SIMT_OWN T shfl_down(T value, unsigned lanes, SIMT_SITE) const {
    return take(value, thread_rank() + lanes, file, line, SIMT_PC);
  }
  template <class T> SIMT_OWN T shfl_up(T value, unsigned lanes, SIMT_SITE) const {
    return take(value, thread_rank() - lanes, file, line, SIMT_PC);
  }
  SIMT_OWN unsigned ballot(int holds, SIMT_SITE) const {
    return simt_vote(mask(), holds, file, line, SIMT_PC) >> first();
  }
  SIMT_OWN int any(int holds, SIMT_SITE) const { return simt_vote(mask(), holds, file, line, SIMT_PC) != 0; }
  SIMT_OWN int all(int holds, SIMT_SITE) const { return simt_vote(mask(), !holds, file, line, SIMT_PC) == 0; }
};
template <unsigned SIZE, class PARENT> thread_block_tile<SIZE, PARENT> tiled_partition(const PARENT&) { return {}; }
template <class GROUP> void sync(const GROUP& group, SIMT_SITE) { group.sync(file, line); }

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct greater { T operator()(T a, T b) const { return a > b ? a : b; } };
template <class T> struct less { T operator()(T a, T b) const { return a < b ? a : b; } };
template <class TILE, class T, class OP> T reduce(const TILE& tile, T value, OP op, SIMT_SITE) {
  for (unsigned n = tile.size() / 2; n > 0; n /= 2) value = op(value, tile.shfl_xor(value, n, file, line));
  return value;
}
}  // namespace cooperative_groups
