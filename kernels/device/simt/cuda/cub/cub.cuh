// CUB on the CPU: the collectives of a warp and of a block. Their temporary storage is the kernel's, so that a reuse
// without a barrier is a fault as on a GPU. Threads without a valid result get NaN, or bits of ones.
#pragma once

namespace cub {
struct NullType {};
struct Sum { template <class T> T operator()(T a, T b) const { return a + b; } };
struct Max { template <class T> T operator()(T a, T b) const { return a > b ? a : b; } };
struct Min { template <class T> T operator()(T a, T b) const { return a < b ? a : b; } };
enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED };
enum BlockStoreAlgorithm { BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED };

#define SIMT_WHERE const char *file, unsigned line, void *pc
#define SIMT_GIVEN file, line, pc
template <class T> SIMT_OWN T simt_invalid() {
  T value;
  memset((void*)&value, 0xff, sizeof value);
  return value;
}
template <class T> SIMT_OWN void simt_put(T* at, T value, void* pc) {
#ifdef __SANITIZE_THREAD__
  simt_access(at, sizeof(T), SIMT_WRITE, pc);
#endif
  memcpy((void*)at, (const void*)&value, sizeof(T));
}
template <class T> SIMT_OWN T simt_get(const T* at, void* pc) {
#ifdef __SANITIZE_THREAD__
  simt_access(at, sizeof(T), SIMT_READ, pc);
#endif
  T value;
  memcpy((void*)&value, (const void*)at, sizeof(T));
  return value;
}
// Any T from another lane, in parts of at most eight bytes
template <class T> SIMT_OWN T simt_from(T value, unsigned mask, unsigned lane, SIMT_WHERE) {
  uint64_t parts[(sizeof(T) + 7) / 8] = {};
  memcpy(parts, (const void*)&value, sizeof(T));
  for (uint64_t& part : parts) part = simt_exchange(mask, part, lane, SIMT_GIVEN);
  memcpy((void*)&value, parts, sizeof(T));
  return value;
}
// The lanes of the logical warp of `width` lanes, of which `count` have a value
template <class T, class OP> SIMT_OWN T simt_reduce(T value, OP op, unsigned width, unsigned count, SIMT_WHERE) {
  const unsigned lane = simt_rank() & 31, in = lane % width, first = lane - in;
  const unsigned mask = (width == 32 ? ~0u : (1u << width) - 1) << first;
  for (unsigned step = 1; step < width; step *= 2) {
    const T other = simt_from(value, mask, first + (in + step < width ? in + step : in), SIMT_GIVEN);
    if (in % (2 * step) == 0 && in + step < count) value = op(value, other);
  }
  return value;
}
template <class T, class OP> SIMT_OWN T simt_scan(T value, OP op, unsigned width, SIMT_WHERE) {
  const unsigned lane = simt_rank() & 31, in = lane % width, first = lane - in;
  const unsigned mask = (width == 32 ? ~0u : (1u << width) - 1) << first;
  for (unsigned step = 1; step < width; step *= 2) {
    const T other = simt_from(value, mask, in >= step ? lane - step : lane, SIMT_GIVEN);
    if (in >= step) value = op(other, value);
  }
  return value;
}

template <class T, int WIDTH = 32, int ARCH = 0> struct WarpReduce {
  struct TempStorage { char unused; };
  SIMT_OWN explicit WarpReduce(TempStorage&) {}
  template <class OP> SIMT_OWN T Reduce(T value, OP op, int count = WIDTH, SIMT_SITE) {
    const T all = simt_reduce(value, op, WIDTH, count, file, line, SIMT_PC);
    return simt_rank() % WIDTH == 0 ? all : simt_invalid<T>();
  }
  SIMT_OWN T Sum(T value, int count = WIDTH, SIMT_SITE) {
    const T all = simt_reduce(value, cub::Sum(), WIDTH, count, file, line, SIMT_PC);
    return simt_rank() % WIDTH == 0 ? all : simt_invalid<T>();
  }
};
template <class T, int WIDTH = 32, int ARCH = 0> struct WarpScan {
  struct TempStorage { char unused; };
  SIMT_OWN explicit WarpScan(TempStorage&) {}
  template <class OP> SIMT_OWN void InclusiveScan(T value, T& result, OP op, SIMT_SITE) {
    result = simt_scan(value, op, WIDTH, file, line, SIMT_PC);
  }
  SIMT_OWN void InclusiveSum(T value, T& result, SIMT_SITE) {
    result = simt_scan(value, cub::Sum(), WIDTH, file, line, SIMT_PC);
  }
  SIMT_OWN void ExclusiveSum(T value, T& result, SIMT_SITE) {
    result = simt_scan(value, cub::Sum(), WIDTH, file, line, SIMT_PC) - value;
  }
  SIMT_OWN T Broadcast(T value, unsigned lane, SIMT_SITE) {
    return simt_from(value, ~0u, (simt_rank() & 31) / WIDTH * WIDTH + lane, file, line, SIMT_PC);
  }
};

// A block of X * Y * Z threads with a value of each warp in shared memory
template <class T, int X, int Y, int Z> struct simt_block {
  static constexpr unsigned THREADS = X * Y * Z, WARPS = (THREADS + 31) / 32;
  struct Storage { T of_warp[WARPS]; };
  union TempStorage { Storage kept; char bytes[sizeof(Storage)]; TempStorage() = default; };
  static unsigned lanes() {  // of this thread's warp
    const unsigned left = THREADS - (simt_rank() & ~31u);
    return left < 32 ? left : 32;
  }
};

template <class T, int X, BlockReduceAlgorithm ALGORITHM = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1,
    int ARCH = 0>
struct BlockReduce {
  using Block = simt_block<T, X, Y, Z>;
  using TempStorage = typename Block::TempStorage;
  TempStorage& storage;
  SIMT_OWN explicit BlockReduce(TempStorage& storage) : storage(storage) {}
  template <class OP> SIMT_OWN T all_of(T value, OP op, int count, SIMT_WHERE) {
    const unsigned warp = simt_rank() / 32, first = warp * 32;
    const unsigned own = (int)first < count ? (unsigned)count - first : 0;
    value = simt_reduce(value, op, 32, own < Block::lanes() ? own : Block::lanes(), SIMT_GIVEN);
    if (simt_rank() % 32 == 0) simt_put(&storage.kept.of_warp[warp], value, pc);
    simt_barrier(file, line, pc, 0, nullptr);
    if (simt_rank()) return simt_invalid<T>();
    for (unsigned n = 1; n < Block::WARPS && (int)(32 * n) < count; ++n)
      value = op(value, simt_get(&storage.kept.of_warp[n], pc));
    return value;
  }
  template <class OP> SIMT_OWN T Reduce(T value, OP op, int count = Block::THREADS, SIMT_SITE) {
    return all_of(value, op, count, file, line, SIMT_PC);
  }
  SIMT_OWN T Sum(T value, int count = Block::THREADS, SIMT_SITE) {
    return all_of(value, cub::Sum(), count, file, line, SIMT_PC);
  }
  template <int N, class OP> SIMT_OWN T Reduce(T (&values)[N], OP op, SIMT_SITE) {
    T value = values[0];
    for (int n = 1; n < N; ++n) value = op(value, values[n]);
    return all_of(value, op, Block::THREADS, file, line, SIMT_PC);
  }
  template <int N> SIMT_OWN T Sum(T (&values)[N], SIMT_SITE) {
    T value = values[0];
    for (int n = 1; n < N; ++n) value = value + values[n];
    return all_of(value, cub::Sum(), Block::THREADS, file, line, SIMT_PC);
  }
};

template <class T, int X, BlockScanAlgorithm ALGORITHM = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int ARCH = 0>
struct BlockScan {
  using Block = simt_block<T, X, Y, Z>;
  using TempStorage = typename Block::TempStorage;
  TempStorage& storage;
  SIMT_OWN explicit BlockScan(TempStorage& storage) : storage(storage) {}
  // Up to and with this thread. before: all threads before it, if any. total: all of the block
  template <class OP> SIMT_OWN T scan(T value, OP op, T& before, T& total, SIMT_WHERE) {
    const unsigned warp = simt_rank() / 32, lane = simt_rank() % 32;
    T result = simt_scan(value, op, 32, SIMT_GIVEN);
    before = simt_from(result, ~0u, lane ? lane - 1 : lane, SIMT_GIVEN);
    if (lane == Block::lanes() - 1) simt_put(&storage.kept.of_warp[warp], result, pc);
    simt_barrier(file, line, pc, 0, nullptr);
    T earlier = simt_get(&storage.kept.of_warp[0], pc);
    total = earlier;
    for (unsigned n = 1; n < Block::WARPS; ++n) {
      const T of = simt_get(&storage.kept.of_warp[n], pc);
      if (n < warp) earlier = op(earlier, of);
      total = op(total, of);
    }
    if (!warp) return result;
    before = lane ? op(earlier, before) : earlier;
    return op(earlier, result);
  }
  template <int N, class OP>
  SIMT_OWN void items(T (&values)[N], T (&results)[N], OP op, bool inclusive, T& total, SIMT_WHERE) {
    T value = values[0], before;
    for (int n = 1; n < N; ++n) value = op(value, values[n]);
    scan(value, op, before, total, SIMT_GIVEN);
    bool any = simt_rank() > 0;
    for (int n = 0; n < N; ++n, any = true) {
      const T own = values[n];
      if (!inclusive) results[n] = any ? before : T();
      before = any ? op(before, own) : own;
      if (inclusive) results[n] = before;
    }
  }
  SIMT_OWN void InclusiveSum(T value, T& result, SIMT_SITE) {
    T before, total;
    result = scan(value, cub::Sum(), before, total, file, line, SIMT_PC);
  }
  SIMT_OWN void InclusiveSum(T value, T& result, T& total, SIMT_SITE) {
    T before;
    result = scan(value, cub::Sum(), before, total, file, line, SIMT_PC);
  }
  SIMT_OWN void ExclusiveSum(T value, T& result, SIMT_SITE) {
    T before, total;
    scan(value, cub::Sum(), before, total, file, line, SIMT_PC);
    result = simt_rank() ? before : T();
  }
  SIMT_OWN void ExclusiveSum(T value, T& result, T& total, SIMT_SITE) {
    T before;
    scan(value, cub::Sum(), before, total, file, line, SIMT_PC);
    result = simt_rank() ? before : T();
  }
  template <int N> SIMT_OWN void InclusiveSum(T (&values)[N], T (&results)[N], SIMT_SITE) {
    T total;
    items(values, results, cub::Sum(), true, total, file, line, SIMT_PC);
  }
  template <int N> SIMT_OWN void ExclusiveSum(T (&values)[N], T (&results)[N], SIMT_SITE) {
    T total;
    items(values, results, cub::Sum(), false, total, file, line, SIMT_PC);
  }
  template <int N> SIMT_OWN void ExclusiveSum(T (&values)[N], T (&results)[N], T& total, SIMT_SITE) {
    items(values, results, cub::Sum(), false, total, file, line, SIMT_PC);
  }
  template <class OP> SIMT_OWN void InclusiveScan(T value, T& result, OP op, SIMT_SITE) {
    T before, total;
    result = scan(value, op, before, total, file, line, SIMT_PC);
  }
  template <class OP> SIMT_OWN void InclusiveScan(T value, T& result, OP op, T& total, SIMT_SITE) {
    T before;
    result = scan(value, op, before, total, file, line, SIMT_PC);
  }
  template <class OP> SIMT_OWN void ExclusiveScan(T value, T& result, T start, OP op, SIMT_SITE) {
    T before, total;
    scan(value, op, before, total, file, line, SIMT_PC);
    result = simt_rank() ? op(start, before) : start;
  }
};

// The elements of a thread: neighbours, or with `STRIPED` one of each row of a block
template <class T, int X, int N, bool STRIPED> struct simt_moves {
  struct TempStorage { char unused; };
  SIMT_OWN simt_moves() {}
  SIMT_OWN explicit simt_moves(TempStorage&) {}
  static SIMT_OWN int place(int n) { return STRIPED ? n * X + (int)simt_rank() : (int)simt_rank() * N + n; }
};
template <class T, int X, int N, BlockLoadAlgorithm ALGORITHM = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int ARCH = 0>
struct BlockLoad : simt_moves<T, X * Y * Z, N, ALGORITHM == BLOCK_LOAD_STRIPED> {
  using Moves = simt_moves<T, X * Y * Z, N, ALGORITHM == BLOCK_LOAD_STRIPED>;
  using Moves::Moves;
  SIMT_OWN void Load(const T* from, T (&items)[N]) {
    for (int n = 0; n < N; ++n) items[n] = simt_get(from + Moves::place(n), SIMT_PC);
  }
  SIMT_OWN void Load(const T* from, T (&items)[N], int count) {
    for (int n = 0; n < N; ++n)
      if (Moves::place(n) < count) items[n] = simt_get(from + Moves::place(n), SIMT_PC);
  }
  template <class D> SIMT_OWN void Load(const T* from, T (&items)[N], int count, D otherwise) {
    for (int n = 0; n < N; ++n)
      items[n] = Moves::place(n) < count ? simt_get(from + Moves::place(n), SIMT_PC) : (T)otherwise;
  }
};
template <class T, int X, int N, BlockStoreAlgorithm ALGORITHM = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int ARCH = 0>
struct BlockStore : simt_moves<T, X * Y * Z, N, ALGORITHM == BLOCK_STORE_STRIPED> {
  using Moves = simt_moves<T, X * Y * Z, N, ALGORITHM == BLOCK_STORE_STRIPED>;
  using Moves::Moves;
  SIMT_OWN void Store(T* to, T (&items)[N]) {
    for (int n = 0; n < N; ++n) simt_put(to + Moves::place(n), items[n], SIMT_PC);
  }
  SIMT_OWN void Store(T* to, T (&items)[N], int count) {
    for (int n = 0; n < N; ++n)
      if (Moves::place(n) < count) simt_put(to + Moves::place(n), items[n], SIMT_PC);
  }
};
#undef SIMT_WHERE
#undef SIMT_GIVEN
}  // namespace cub
