// Replaces probe.cuh in the marks build, which logs the start of each step. One writer for every MARK_EVERY threads of
// a block, its first, writes the clock and 16 bytes in all at each PROBE_MARK and PROBE_ROLE. Other probes are nothing.
//
// Each writer owns `mark_capacity` records and counts on past that, so the number of lost records is known. It reads
// both clocks at its start and its end: the multiprocessor's cycles and the common nanoseconds. They convert the cycles
// of every multiprocessor to common time.
#pragma once

struct MarkRecord {
  long long clock;  // of its multiprocessor, in cycles
  unsigned site;    // as a ProbeRecord has it
  unsigned keys;    // key 0 | key 1 << 16
};
struct WriterClocks {
  long long start_cycles, end_cycles, start_ns, end_ns, sm;  // all 0 if the writer left before PROBE_BEGIN
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

// Four registers, and no branch at a mark. A branch would separate instructions that ptxas interleaves, and make it
// wait for wgmma. The writer computes the address of its records again at its end.
struct MarkWriter {
  MarkRecord* records;    // this writer's
  unsigned count, room;   // marks so far, and the most to write (0 in a thread without records)
  unsigned* counts;
  WriterClocks* clocks;

  __device__ __forceinline__ MarkWriter(MarkRecord* all, unsigned* all_counts, WriterClocks* all_clocks,
                                        unsigned capacity)
      : count(0), counts(all_counts), clocks(all_clocks) {
    const size_t slot = this_slot();
    records = all + slot * capacity;
    room = writes() ? capacity : 0;
    if (writes()) {
      WriterClocks& c = clocks[slot];
      c.sm = multiprocessor(), c.start_ns = global_time_ns(), c.start_cycles = clock_cycles();
    }
  }
  __device__ __forceinline__ ~MarkWriter() {
    if (!writes()) return;
    const size_t slot = this_slot();
    counts[slot] = count, clocks[slot].end_cycles = clock_cycles(), clocks[slot].end_ns = global_time_ns();
  }
  // A key outside 0 to 65,535 sets the site's top bit.
  template <class A = int, class B = int> __device__ __forceinline__ void put(unsigned site, A a = 0, B b = 0) {
    const bool wrong = sizeof(A) > 4 || sizeof(B) > 4 ? (unsigned long long)((long long)a | (long long)b) > 0xffff
                                                      : ((unsigned)a | (unsigned)b) > 0xffff;
    const unsigned words[2] = {site | (wrong ? 0x80000000u : 0u), (unsigned)a | (unsigned)b << 16};
#ifdef __CUDACC__
    asm volatile(
        "{ .reg .pred fits; .reg .b64 now, site; setp.lt.u32 fits, %1, %2; mov.b64 site, {%3, %4};"
        "  mov.u64 now, %%clock64;  @fits st.global.v2.b64 [%0], {now, site}; }"
        :: "l"(records + count), "r"(count), "r"(room), "r"(words[0]), "r"(words[1]) : "memory");
#else
    if (count < room) records[count] = MarkRecord{clock_cycles(), words[0], words[1]};
#endif
    ++count;
  }

 private:
  static __device__ __forceinline__ unsigned this_thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  static __device__ __forceinline__ bool writes() { return this_thread() % MARK_EVERY == 0; }
  static __device__ __forceinline__ size_t this_slot() {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned writers = (blockDim.x * blockDim.y * blockDim.z + MARK_EVERY - 1) / MARK_EVERY;
    return (size_t)block * writers + this_thread() / MARK_EVERY;
  }
};
