// The CPU half of device/bulk.cuh. A bulk copy is a box of one dimension, and lands as the boxes of hopper.h.
#pragma once

inline CacheHint keep_first_to_leave() { return 1; }
inline CacheHint keep_unchanged() { return 2; }
inline void bulk_load(void* smem, const void* gmem, int bytes, Barrier* barrier, CacheHint, SIMT_HERE) {
  using namespace simt;
  at(here);
  Phases& found = find(barrier, "bulk_load");
  const ptrdiff_t to = static_cast<const char*>(smem) - shared_memory;
  const uintptr_t from = reinterpret_cast<uintptr_t>(gmem);
  if (bytes < 16 || (bytes | to | (ptrdiff_t)from) % 16)
    die("a bulk_load of %d bytes to offset %td of shared memory; all must be multiples of 16", bytes, to);
  if (to < 0 || to + bytes > (ptrdiff_t)launch->shared_bytes)
    die("illegal address: a bulk_load of %d bytes to offset %td of shared memory; the block has %u bytes", bytes, to,
        launch->shared_bytes);
  bool inside = false;
  for (unsigned i = 0; i < launch->buffer_count && !inside; ++i) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(launch->buffers[i].base);
    inside = from >= base && from + bytes <= base + launch->buffers[i].bytes;
  }
  if (!inside)
    die("illegal address: a bulk_load of %d bytes from outside every buffer of this launch: %s", bytes,
        outside_of(gmem).text);
  TensorMap map{};  // rows of 16 bytes, one after another
  map.base = static_cast<const char*>(gmem);
  map.strides[0] = 1, map.strides[1] = 16;
  map.sizes[0] = map.box[0] = 16, map.sizes[1] = map.box[1] = bytes / 16;
  map.sizes[2] = map.sizes[3] = map.box[2] = map.box[3] = 1;
  map.dimensions = 4, map.element_bytes = 1;
  check_box_probes(smem, map, {0, 0, 0, 0}, bytes);
  auto* const box = static_cast<Box*>(malloc(sizeof(Box)));
  *box = {map, {0, 0, 0, 0}, (unsigned)to, (unsigned)bytes, nullptr, here};
  Box** last = &found.boxes;
  while (*last) last = &(*last)->next;
  *last = box;
  if (!launch->reversed) land_boxes(found);
}
inline bool one_lane(SIMT_HERE) {
  __syncwarp(~0u, here);
  return simt::current->linear % 32 == 0;
}
inline unsigned transposed(unsigned word) {
  const unsigned lane = simt::current->linear % 32;
  unsigned result = 0;
  for (unsigned e = 0; e < 2; ++e) {
    const unsigned other = __shfl_sync(~0u, word, 4 * (2 * (lane % 4) + e) + lane / 8);
    result |= (other >> lane / 4 % 2 * 16 & 0xffff) << 16 * e;
  }
  return result;
}
inline void fence_gpu() {}
inline unsigned half_pair(unsigned word, int high) {
  const unsigned two = high ? word >> 16 : word;
  const auto half_of = [](unsigned bits) { return to_half(to_float(fp8_e4m3{(unsigned char)bits})).bits; };
  return half_of(two) | (unsigned)half_of(two >> 8) << 16;
}
