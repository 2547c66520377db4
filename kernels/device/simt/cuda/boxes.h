// Copies of boxes of a tensor by a tensor map (cp.async.bulk.tensor), over async.h.
#pragma once

namespace simt {
struct TensorMap {  // as in kernels/run/backends/cpu.py, the innermost dimension first
  const char* base;
  uint64_t strides[5];  // bytes from one element to the next
  unsigned sizes[5], box[5];
  unsigned dimensions, element_bytes, swizzle, unused[7];
};
static_assert(sizeof(TensorMap) == 128, "as large as CUDA's");

// The pieces of a box in shared memory, each of at most 16 bytes, since a swizzle moves these. `load`: outside of the
// tensor a piece is zeros. A store leaves it out.
static std::vector<Piece> pieces_of(const TensorMap& map, const unsigned long long* at, char* smem, bool load) {
  std::vector<Piece> pieces;
  const unsigned width = map.element_bytes, row = map.box[0] * width, span = std::min(16u, row);
  unsigned rows = 1, to = 0;
  for (unsigned d = 1; d < map.dimensions; ++d) rows *= map.box[d];
  const uintptr_t origin = offset_of(smem);
  for (unsigned n = 0; n < rows; ++n) {
    const char* from = map.base;
    bool inside = true;
    for (unsigned d = 1, rest = n; d < map.dimensions; rest /= map.box[d], ++d) {
      const int64_t c = (int)at[d] + (int64_t)(rest % map.box[d]);
      inside = inside && c >= 0 && c < map.sizes[d];
      from += c * (int64_t)map.strides[d];
    }
    for (unsigned byte = 0; byte < row; byte += span, to += span) {
      const uintptr_t offset = origin + to,
          moved = map.swizzle ? offset ^ (offset >> 7 & (map.swizzle / 16 - 1)) << 4 : offset;
      for (unsigned part = 0; part < span; part += width) {
        const int64_t c = (int)at[0] + (int64_t)(byte + part) / width;
        const bool has = inside && c >= 0 && c < map.sizes[0];
        char* const place = smem + (ptrdiff_t)(moved - origin) + part;
        const char* const source = has ? from + c * (int64_t)width : nullptr;
        Piece* const last = part && !pieces.empty() ? &pieces.back() : nullptr;
        if (last && !last->from == !source) last->bytes += width;
        else if (has || load) pieces.push_back({place, source, width});
      }
    }
  }
  return pieces;
}
static TensorMap map_of(const void* p, int dimensions) {
  TensorMap map;
  memcpy(&map, p, sizeof map);
  if ((int)map.dimensions != dimensions)
    die("a box with %d coordinates by a tensor map of %u dimensions", dimensions, map.dimensions);
  return map;
}
}  // namespace simt

extern "C" {
void simt_box_load(void* to, const void* map_at, const unsigned long long* at, int dimensions, void* barrier,
                   const char* file, unsigned line, void* pc) {
  collective(pc, file, line);
  const TensorMap map = map_of(map_at, dimensions);
  unsigned bytes = map.element_bytes;
  for (int d = 0; d < dimensions; ++d) bytes *= map.box[d];
  if (offset_of(to) % 128) die("a box to offset %u of shared memory, which is no multiple of 128", offset_of(to));
  start_bulk(find_barrier(barrier, "a box"), pieces_of(map, at, (char*)to, true), bytes, {file, line}, pc);
}
void simt_box_store(const void* map_at, const unsigned long long* at, int dimensions, const void* from,
    const char* file,
                    unsigned line, void* pc) {
  collective(pc, file, line);
  const TensorMap map = map_of(map_at, dimensions);
  if (offset_of(from) % 128) die("a box from offset %u of shared memory, which is no multiple of 128", offset_of(from));
  for (const Piece& piece : pieces_of(map, at, (char*)from, false)) {
    char* const to = const_cast<char*>(piece.from);
    access(piece.to, piece.bytes, SIMT_READ, pc), settle();
    access(to, piece.bytes, SIMT_WRITE, pc), settle();
    memcpy(value_of(to), value_of(piece.to), piece.bytes);
  }
}
}
