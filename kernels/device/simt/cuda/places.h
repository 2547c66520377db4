// Lines and the log: the place of each machine address, from the build's line table, and the records of a trace
#pragma once

namespace simt {
struct LineRow { uint32_t pc, place; };  // from this address on. A place is file << 20 | line.
struct LogRow {                          // as in kernels/run/plain/log.py
  int64_t offset;
  uint32_t place, block, seq;
  uint16_t thread;
  uint8_t region, what;  // what: kind | log2(bytes) << 4
};

static std::vector<uint32_t> places;  // by address in the module
static size_t line_count;             // 0: not an instrumented build
static const char* const* file_names;
static const char* module_first;

static uint32_t place_of(const void* pc) {
  const size_t at = static_cast<const char*>(pc) - module_first - 1;  // a return address is after its call
  return at < places.size() ? places[at] : 0;
}
static Site site_of_place(uint32_t place) {
  return place ? Site{file_names[place >> 20], place & 0xfffff} : Site{"", 0};
}
static void set_lines(const LineRow* rows, size_t count, const char* const* names) {
  file_names = names, line_count = count;
  places.assign(count ? rows[count - 1].pc + 1 : 0, 0);
  for (size_t i = 0; i + 1 < count; ++i)
    for (uint32_t pc = rows[i].pc; pc < rows[i + 1].pc; ++pc) places[pc] = rows[i].place;
}

static LogRow* log_rows;
static uint64_t log_room, log_count;
static unsigned log_first, log_blocks, block_number;
static char printed[4096];
static size_t printed_bytes;

static void log_access(uint32_t place, int kind, unsigned bytes, unsigned region, int64_t offset, uint32_t& seq) {
  if (!log_rows || block_number - log_first >= log_blocks) return;  // unsigned: an earlier block wraps round
  if (log_count < log_room) {
    const unsigned log2 = 31 - __builtin_clz(bytes | 1);
    log_rows[log_count] = {offset,       place, block_number, seq, (uint16_t)current->linear, (uint8_t)region,
                           (uint8_t)(kind | log2 << 4)};
  }
  ++log_count, ++seq;
}
}  // namespace simt
