// The CPU half of device/hopper_backward.cuh, with a description of each name there. A bulk_add happens at once. With
// `reversed` it happens at the wait for it.
//
// It stops with a message for:
//   a wait for a turn that no earlier block has passed on, because blocks run one after another
//   an access outside the buffers or shared memory
//   a block that ends before its bulk_adds have read shared memory
#pragma once

namespace simt {

struct BulkAdd { float* to; const float* from; unsigned count; Site here; };
constexpr unsigned BULK_ADDS_MAX = 8;
static BulkAdd bulk_adds[THREADS_MAX][BULK_ADDS_MAX];
static unsigned bulk_add_count[THREADS_MAX];

static void run_bulk_adds(unsigned thread) {
  for (unsigned i = 0; i < bulk_add_count[thread]; ++i) {
    const BulkAdd& one = bulk_adds[thread][i];
    for (unsigned n = 0; n < one.count; ++n) one.to[n] += one.from[n];
  }
  bulk_add_count[thread] = 0;
}
static void (*const begin_without_adds)() = extension.begin;
static void (*const end_without_adds)() = extension.end;
static void begin_block_with_adds() {
  memset(bulk_add_count, 0, sizeof bulk_add_count);
  begin_without_adds();
}
static void end_block_with_adds() {
  for (unsigned i = 0; i < threads && !failed; ++i)
    if (bulk_add_count[i])
      stop("thread %u has left before its bulk_add of %s:%u has read shared memory. bulk_add_wait comes first", i,
           base_name(bulk_adds[i][0].here.file), bulk_adds[i][0].here.line);
  end_without_adds();
}
static const bool extended_by_adds =
    (extension.begin = begin_block_with_adds, extension.end = end_block_with_adds, true);

struct MatricesOut { char* row; unsigned words[4]; };
static void collect_matrices(void** lanes, unsigned) {
  for (unsigned l = 0; l < 32; ++l)
    for (unsigned i = 0; i < 4; ++i)
      memcpy(static_cast<MatricesOut*>(lanes[8 * i + l / 4])->row + 4 * (l % 4),
             &static_cast<MatricesOut*>(lanes[l])->words[i], 4);
}
inline void check_shared_place(const void* p, unsigned bytes, const char* use) {
  const ptrdiff_t at = static_cast<const char*>(p) - shared_memory;
  if (!in_shared(p, bytes))
    die("illegal address: %s of %u bytes at offset %td of shared memory; the block has %u bytes", use, bytes, at,
        launch->shared_bytes);
  if (at % 16) die("%s at offset %td of shared memory, which is no multiple of 16", use, at);
}
}  // namespace simt

template <class T>
void product_turned(float (&C)[32], unsigned long long a, unsigned long long b, int add, SIMT_HERE) {
  static_assert(std::is_same<T, half>::value || std::is_same<T, bfloat16>::value, "products of half or bfloat16");
  simt::at(here);
  simt::request_product({a, b, 64, 0, std::is_same<T, half>::value, false, add != 0, true}, C, nullptr);
}
inline void store_matrices(void* smem, const unsigned (&w)[4], SIMT_HERE) {
  simt::at(here);
  simt::check_shared_place(smem, 16, "a row of store_matrices");
  simt::MatricesOut m{static_cast<char*>(smem), {w[0], w[1], w[2], w[3]}};
  simt::rendezvous(~0u, simt::STORE_MATRICES, &m, simt::collect_matrices);
}
inline void fence_shared() {}

inline void global_add(float* gmem, float4 v, SIMT_HERE) {
  simt::check_buffer(gmem, 16, AccessKind::STORE, here);
  gmem[0] += v.x, gmem[1] += v.y, gmem[2] += v.z, gmem[3] += v.w;
}
inline void bulk_add(float* gmem, const float* smem, int bytes, SIMT_HERE) {
  using namespace simt;
  at(here);
  if (bytes < 16 || bytes % 16) die("a bulk_add of %d bytes; it takes a multiple of 16", bytes);
  check_shared_place(smem, bytes, "a bulk_add");
  if (!in_buffer(gmem, bytes) || !aligned(gmem, 16))
    die("illegal address: a bulk_add of %d bytes to no multiple of 16 in a buffer of this launch: %s", bytes,
        outside_of(gmem).text);
  unsigned& count = bulk_add_count[current->linear];
  if (count == BULK_ADDS_MAX)
    die("more than %u bulk_adds without a bulk_add_wait; the shim keeps no more", BULK_ADDS_MAX);
  bulk_adds[current->linear][count++] = {gmem, smem, (unsigned)bytes / 4, here};
  if (!launch->reversed) run_bulk_adds(current->linear);
}
inline void bulk_add_wait() { simt::run_bulk_adds(simt::current->linear); }

inline void wait_for_turn(const int* gmem, int turn, SIMT_HERE) {
  simt::at(here);
  simt::check_buffer(gmem, 4, AccessKind::LOAD, here);
  if (*gmem != turn)
    simt::die("a wait for turn %d, and it is turn %d. Blocks run one after another: only an earlier one can pass it on",
              turn, *gmem);
}
inline void pass_turn(int* gmem, int last, SIMT_HERE) {
  simt::at(here);
  simt::check_buffer(gmem, 4, AccessKind::STORE, here);
  *gmem = *gmem >= last ? 0 : *gmem + 1;
}
