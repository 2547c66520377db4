// Probes log the steps of a kernel. A probe is a macro on a line of its own. The timed build compiles it to nothing. In
// the probed build (-DPROBED) it writes one record of 16 bytes.
//
// Every kernel has these two:
//   PROBE_PARAM      ends the parameter list of a __global__ function, with no comma before it. It adds the buffers of
//                    the records.
//   PROBE_BEGIN();   comes once in a __global__ function, before the first probe of a thread.
//
// Steps and values:
//   PROBE_MARK(event, key);            a step starts. The event is its name. A second key may follow.
//   PROBE_VALUE(event, key, value);    a computed number, under one to four keys. It may be a float, half, bfloat16 or
//                                      fp8_e4m3, and is logged as a float.
//   PROBE_ROLE(name);                  from here on this thread has a role, such as producer. It is at the head of a
//                                      branch that only some warps take. Each role counts its own steps.
//
// Accesses. The access is the statement on the next line. Up to two keys may follow the bytes. A tensor's name ends in
// its space: K_gmem is in global memory, K_smem in shared memory.
//   PROBE_LOAD(K_gmem, index, bytes);          reads `bytes` at &K_gmem[index], with ldg, ldg_l2 or lds.
//   PROBE_STORE(K_gmem, index, bytes);         writes them, with stg or sts.
//   PROBE_LDMATRIX(K_smem, index, 16);         this lane gives the address of a row of the ldmatrix.
//   PROBE_CP_ASYNC(K_smem, index, bytes);      a cp_async writes them. A PROBE_LOAD of its source comes before it.
//   PROBE_CP_ASYNC_L2(K_smem, index, 16);      the same for a cp_async_l2.
//
// A __device__ function with probes, in a header or in the .cu:
//   PROBE_REF        ends its parameter list, with no comma before it.
//   PROBE_PASS       ends the arguments of each call, with no comma before it.
//
// File and line identify a probe. kernels/trace/probes.py reads event, tensor, space, width and the names of the keys
// from the source line. Keys are plain variables with whole numbers from 0 to 65,535. Another number is not cut to fit:
// the record has a flag, and the reader refuses the trace.
//
// Each thread owns `probe_capacity` records, so nothing is atomic and every run writes the same. The count goes on past
// the capacity, so the number of lost records is known.
#pragma once

struct ProbeRecord {
  unsigned long long payload;  // value: float bits | key 2 << 32 | key 3 << 48;  access: byte offset in the tensor
  unsigned site;               // probe_site(file, line)
  unsigned keys;               // key 0 | key 1 << 16
};  // A key out of range: site has its top bit set, payload is that key as a 64-bit number, keys says which key it is.

struct BlockTime {
  long long start, end;  // ns of the GPU's global timer. Both are 0 if the block left before PROBE_BEGIN.
  long long sm;
};

#ifndef PROBED
#ifdef TIMELINE  // a third build: no records, only the time and the multiprocessor of each block
#define PROBE_PARAM , BlockTime *probe_times
#define PROBE_BEGIN() BlockTimer probe_timer(probe_times)
struct BlockTimer {
  BlockTime* time;
  __device__ __forceinline__ BlockTimer(BlockTime* all) {
    time = all + (blockIdx.x + gridDim.x * (blockIdx.y + (size_t)gridDim.y * blockIdx.z));
    if (first_thread()) time->sm = multiprocessor(), time->start = global_time_ns();
  }
  __device__ __forceinline__ ~BlockTimer() {
    if (first_thread()) time->end = global_time_ns();
  }
  static __device__ __forceinline__ bool first_thread() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }
};
#else
#define PROBE_PARAM
#define PROBE_BEGIN() ((void)0)
#endif
#define PROBE_REF
#define PROBE_PASS
#define PROBE_MARK(...) ((void)0)
#define PROBE_VALUE(...) ((void)0)
#define PROBE_ROLE(...) ((void)0)
#define PROBE_LOAD(...) ((void)0)
#define PROBE_STORE(...) ((void)0)
#define PROBE_LDMATRIX(...) ((void)0)
#define PROBE_CP_ASYNC(...) ((void)0)
#define PROBE_CP_ASYNC_L2(...) ((void)0)
#else

#define PROBE_PARAM                                                                                    \
  , ProbeRecord *probe_records, unsigned *probe_counts, unsigned probe_capacity, unsigned probe_first, \
      unsigned probe_blocks
#define PROBE_BEGIN() ProbeWriter probe_writer(probe_records, probe_counts, probe_capacity, probe_first, probe_blocks)
#define PROBE_REF , ProbeWriter &probe_writer
#define PROBE_PASS , probe_writer
#define PROBE_MARK(event, ...) probe_writer.put(PROBE_HERE, 0, __VA_ARGS__)
#define PROBE_VALUE(event, ...) probe_writer.value(PROBE_HERE, __VA_ARGS__)
#define PROBE_ROLE(name) probe_writer.put(PROBE_HERE, 0)
#define PROBE_LOAD(...) probe_writer.access(PROBE_HERE, AccessKind::LOAD, __VA_ARGS__)
#define PROBE_STORE(...) probe_writer.access(PROBE_HERE, AccessKind::STORE, __VA_ARGS__)
#define PROBE_LDMATRIX(...) probe_writer.access(PROBE_HERE, AccessKind::LDMATRIX, __VA_ARGS__)
#define PROBE_CP_ASYNC(...) probe_writer.access(PROBE_HERE, AccessKind::CP_ASYNC, __VA_ARGS__)
#define PROBE_CP_ASYNC_L2(...) probe_writer.access(PROBE_HERE, AccessKind::CP_ASYNC_L2, __VA_ARGS__)

// A site: 13 bits that are a hash (FNV-1a, folded) of the file's name without its folders, above 18 bits of line
// number.
__device__ constexpr unsigned probe_site(const char* path, unsigned line) {
  const char* name = path;
  for (const char* c = path; *c; ++c)
    if (*c == '/' || *c == '\\') name = c + 1;
  unsigned hash = 2166136261u;
  for (const char* c = name; *c; ++c) hash = (hash ^ (unsigned char)*c) * 16777619u;
  return ((hash ^ hash >> 13 ^ hash >> 26) & 0x1fff) << 18 | line;
}
template <unsigned SITE> struct ProbeSite { static constexpr unsigned word = SITE; };  // so that it is a constant
#define PROBE_HERE ProbeSite<probe_site(__FILE__, __LINE__)>::word

struct ProbeWriter {
  ProbeRecord* records;  // this thread's slots
  unsigned* count_out;
  unsigned capacity, count;
  bool on;

  __device__ __forceinline__ ProbeWriter(ProbeRecord* all, unsigned* counts, unsigned cap, unsigned first,
                                         unsigned blocks) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    on = block - first < blocks;  // unsigned: a block before `first` wraps round and is off
    const size_t slot = on ? (size_t)(block - first) * threads + thread : 0;
    records = all + slot * cap;
    count_out = counts + slot;
    capacity = cap;
    count = 0;
  }
  __device__ __forceinline__ ~ProbeWriter() {
    if (on) *count_out = count;
  }
  // Keys are 64-bit numbers here, so that none is cut before the check.
  __device__ __forceinline__ void put(unsigned site, unsigned long long payload, long long a = 0, long long b = 0,
                                      long long c = 0, long long d = 0) {
    if (!on) return;
    unsigned keys = (unsigned)a | (unsigned)b << 16;
    payload |= (unsigned long long)((unsigned)c | (unsigned)d << 16) << 32;
    if ((unsigned long long)(a | b | c | d) > 0xffff) {
      site |= 0x80000000u;
      keys = outside(a) ? 0 : outside(b) ? 1 : outside(c) ? 2 : 3;
      payload = keys == 0 ? a : keys == 1 ? b : keys == 2 ? c : d;
    }
    if (count < capacity) records[count] = ProbeRecord{payload, site, keys};
    ++count;
  }
  static __device__ __forceinline__ bool outside(long long key) { return (unsigned long long)key > 0xffff; }

  template <class V> static __device__ __forceinline__ unsigned bits(V v) { return __float_as_uint(to_float(v)); }
  template <class V> __device__ __forceinline__ void value(unsigned site, long long a, V v) { put(site, bits(v), a); }
  template <class V> __device__ __forceinline__ void value(unsigned site, long long a, long long b, V v) {
    put(site, bits(v), a, b);
  }
  template <class V> __device__ __forceinline__ void value(unsigned site, long long a, long long b, long long c, V v) {
    put(site, bits(v), a, b, c);
  }
  template <class V>
  __device__ __forceinline__ void value(unsigned site, long long a, long long b, long long c, long long d, V v) {
    put(site, bits(v), a, b, c, d);
  }
  template <class T>
  __device__ __forceinline__ void access(unsigned site, AccessKind kind, const T* base, size_t index, unsigned bytes,
                                         long long a = 0, long long b = 0) {
    put(site, (unsigned long long)(index * sizeof(T)), a, b);
#ifndef __CUDACC__
    simt::announce(base + index, bytes, kind);  // the shim compares the next access with this one
#endif
  }
};
#endif
