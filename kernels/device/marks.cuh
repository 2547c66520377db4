// Stands in for probe.cuh in the build that notes when each step began: one writer for every MARK_EVERY threads of a
// block, its first, writes the clock and 16 bytes in all at each PROBE_MARK and PROBE_ROLE. The other probes are nothing.
//
// Each writer owns `mark_capacity` records and goes on counting past that, so what was lost is known. Both clocks, the
// multiprocessor's cycles and the common nanoseconds, are noted at the writer's beginning and end: so cycles of every
// multiprocessor can be told in common time.
#pragma once

struct MarkRecord {
  long long clock;  // of its multiprocessor, in cycles
  unsigned site;    // as a ProbeRecord has it
  unsigned keys;    // key 0 | key 1 << 16
};
struct WriterClocks {
  long long start_cycles, end_cycles, start_ns, end_ns, sm;  // all 0: the writer left before PROBE_BEGIN
};

#define PROBE_PARAM , MarkRecord *mark_records, unsigned *mark_counts, WriterClocks *mark_clocks, unsigned mark_capacity
#define PROBE_BEGIN() MarkWriter probe_writer(mark_records, mark_counts, mark_clocks, mark_capacity)
#define PROBE_REF , MarkWriter &probe_writer
#define PROBE_PASS , probe_writer
#define PROBE_MARK(event, ...) probe_writer.put(MARK_HERE, __VA_ARGS__)
#define PROBE_ROLE(name) probe_writer.put(MARK_HERE)
#define PROBE_VALUE(...) ((void)0)
#define PROBE_LOAD(...) ((void)0)
#define PROBE_STORE(...) ((void)0)
#define PROBE_LDMATRIX(...) ((void)0)
#define PROBE_CP_ASYNC(...) ((void)0)
#define PROBE_CP_ASYNC_L2(...) ((void)0)

// As probe_site of probe.cuh.
__device__ constexpr unsigned mark_site(const char* path, unsigned line) {
  const char* name = path;
  for (const char* c = path; *c; ++c)
    if (*c == '/' || *c == '\\') name = c + 1;
  unsigned hash = 2166136261u;
  for (const char* c = name; *c; ++c) hash = (hash ^ (unsigned char)*c) * 16777619u;
  return ((hash ^ hash >> 13 ^ hash >> 26) & 0x1fff) << 18 | line;
}
template <unsigned SITE> struct MarkSite { static constexpr unsigned word = SITE; };  // so that it is a constant
#define MARK_HERE MarkSite<mark_site(__FILE__, __LINE__)>::word

struct MarkWriter {
  MarkRecord* records;  // this writer's
  unsigned* count_out;
  WriterClocks* clocks;
  unsigned capacity, count;
  bool on;

  __device__ __forceinline__ MarkWriter(MarkRecord* all, unsigned* counts, WriterClocks* every_clocks, unsigned cap) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned writers = (blockDim.x * blockDim.y * blockDim.z + MARK_EVERY - 1) / MARK_EVERY;
    const size_t slot = (size_t)block * writers + thread / MARK_EVERY;
    on = thread % MARK_EVERY == 0;
    records = all + slot * cap;
    count_out = counts + slot;
    clocks = every_clocks + slot;
    capacity = cap;
    count = 0;
    if (on) clocks->sm = multiprocessor(), clocks->start_ns = global_time_ns(), clocks->start_cycles = clock_cycles();
  }
  __device__ __forceinline__ ~MarkWriter() {
    if (on) *count_out = count, clocks->end_cycles = clock_cycles(), clocks->end_ns = global_time_ns();
  }
  // A key that is no whole number from 0 to 65,535 sets the site's top bit.
  __device__ __forceinline__ void put(unsigned site, long long a = 0, long long b = 0) {
    if (!on) return;
    const unsigned wrong = (unsigned long long)(a | b) > 0xffff ? 0x80000000u : 0u;
    if (count < capacity) records[count] = MarkRecord{clock_cycles(), site | wrong, (unsigned)a | (unsigned)b << 16};
    ++count;
  }
};
