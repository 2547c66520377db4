// The CPU half of device/bulk_store.cuh, with a description of each name there. A box is stored at tma_store_end. With
// `reversed` it is stored at the wait for it.
//
// It stops with a message for:
//   a box outside shared memory, or at an address that does not fit its swizzle
//   a coordinate below 0, which a GPU answers with an illegal instruction
//   a request that no tma_store_end closes
//   a block that ends before its boxes have left shared memory
#pragma once

namespace simt {

struct BoxOut { TensorMap map; int at[4]; unsigned from; Site here; };
constexpr unsigned BOXES_OUT_MAX = 8;
struct BoxesOut { BoxOut boxes[BOXES_OUT_MAX]; unsigned count, closed; };  // of a thread, from the oldest
static BoxesOut boxes_out[THREADS_MAX];

static void store_box(const BoxOut& box) {
  const TensorMap& map = box.map;
  const unsigned width = map.element_bytes;
  unsigned from = box.from;
  for (unsigned n3 = 0; n3 < map.box[3]; ++n3)
    for (unsigned n2 = 0; n2 < map.box[2]; ++n2)
      for (unsigned n1 = 0; n1 < map.box[1]; ++n1)
        for (unsigned n0 = 0; n0 < map.box[0]; ++n0, from += width) {
          const int64_t at[] = {box.at[0] + (int64_t)n0, box.at[1] + (int64_t)n1, box.at[2] + (int64_t)n2,
                                box.at[3] + (int64_t)n3};
          bool inside = true;
          char* to = const_cast<char*>(map.base) + at[0] * width;
          for (unsigned d = 0; d < 4; ++d) inside = inside && at[d] >= 0 && at[d] < map.sizes[d];
          for (unsigned d = 1; d < 4; ++d) to += at[d] * map.strides[d];
          if (inside) memcpy(to, shared_memory + swizzled(from, map.swizzle), width);
        }
}
static void store_boxes(unsigned thread) {
  BoxesOut& out = boxes_out[thread];
  for (unsigned i = 0; i < out.closed; ++i) store_box(out.boxes[i]);
  for (unsigned i = out.closed; i < out.count; ++i) out.boxes[i - out.closed] = out.boxes[i];
  out.count -= out.closed, out.closed = 0;
}
static void (*const begin_without_stores)() = extension.begin;
static void (*const end_without_stores)() = extension.end;
static void begin_block_with_stores() {
  for (BoxesOut& out : boxes_out) out.count = out.closed = 0;
  begin_without_stores();
}
static void end_block_with_stores() {
  for (unsigned i = 0; i < threads && !failed; ++i) {
    const BoxesOut& out = boxes_out[i];
    if (!out.count) continue;
    const Site site = out.boxes[0].here;
    stop("thread %u has left before its tma_store of %s:%u has read shared memory. %s comes first", i,
         base_name(site.file), site.line, out.closed ? "tma_store_wait" : "tma_store_end, then tma_store_wait,");
  }
  end_without_stores();
}
static const bool extended_by_stores =
    (extension.begin = begin_block_with_stores, extension.end = end_block_with_stores, true);
}  // namespace simt

inline void tma_store(const void* smem, const TensorMap* map, int c0, int c1, int c2, int c3, SIMT_HERE) {
  using namespace simt;
  simt::at(here);
  const unsigned bytes = map->box[0] * map->box[1] * map->box[2] * map->box[3] * map->element_bytes;
  const unsigned from = static_cast<const char*>(smem) - shared_memory;
  check_box(*map, from, bytes, true);
  const int at[] = {c0, c1, c2, c3};
  for (const int c : at)
    if (c < 0) die("a tma_store to the coordinates %d, %d, %d, %d. A GPU takes none below 0", c0, c1, c2, c3);
  check_probe(announced_place(*map, at), bytes, TMA_STORE);
  BoxesOut& out = boxes_out[current->linear];
  if (out.count == BOXES_OUT_MAX)
    die("more than %u tma_stores without a tma_store_wait; the shim keeps no more", BOXES_OUT_MAX);
  out.boxes[out.count++] = {*map, {c0, c1, c2, c3}, from, here};
}
inline void tma_store_end() {
  simt::BoxesOut& out = simt::boxes_out[simt::current->linear];
  out.closed = out.count;
  if (!simt::launch->reversed) {
    // The boxes stay on the list, so that a block without a wait is found. Stored twice, they change nothing, unless
    // shared memory changed before the wait, which is an error.
    for (unsigned i = 0; i < out.closed; ++i) simt::store_box(out.boxes[i]);
  }
}
inline void tma_store_wait() { simt::store_boxes(simt::current->linear); }
inline float reciprocal(float v) { return 1.f / v; }
