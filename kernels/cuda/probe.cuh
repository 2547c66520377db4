// Probes: how a kernel says what it did. Compiled to nothing unless PROBED is defined.
//
//   PROBE_BEGIN();                              once per thread, before its first probe
//   PROBE_MARK(event, key, ...);                a step begins
//   PROBE_VALUE(event, key, ..., value);        a float, under up to four keys
//   PROBE_LOAD(T_space, index, bytes, key, ...);   the access on the next line reads `bytes` at &T_space[index]
//   PROBE_STORE(T_space, index, bytes, key, ...);  the access on the next line writes them
//   PROBE_LDMATRIX(T_smem, index, 16, key, ...);   this lane gives a row of the ldmatrix on the next line
//   PROBE_CP_ASYNC(T_smem, index, bytes, key, ...);   the cp.async on the next line writes them; before it a PROBE_LOAD of its source
//
// A probe stands alone on its line, and that line number is its identity: kernels/probes.py reads event, tensor,
// space, width and key names from the same line. Keys are whole numbers from 0 to 65535, named by the variable passed.
// Each thread owns `probe_capacity` records; its count goes on past that, so what was lost is known. No atomics.
#pragma once

struct ProbeRecord {
  unsigned long long payload;  // value: float bits | key 2 << 32 | key 3 << 48;  access: byte offset from the tensor's base
  unsigned line;
  unsigned keys;               // key 0 | key 1 << 16
};

struct BlockTime {
  long long start, end;  // ns of the GPU's global timer; 0 and 0: the block left before PROBE_BEGIN
  long long sm;
};

#ifndef PROBED
#ifdef TIMELINE  // a third build: no records, but when and where each block ran
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
#define PROBE_MARK(...) ((void)0)
#define PROBE_VALUE(...) ((void)0)
#define PROBE_LOAD(...) ((void)0)
#define PROBE_STORE(...) ((void)0)
#define PROBE_LDMATRIX(...) ((void)0)
#define PROBE_CP_ASYNC(...) ((void)0)
#else

#define PROBE_PARAM                                                                                   \
  , ProbeRecord *probe_records, unsigned *probe_counts, unsigned probe_capacity, unsigned probe_first, \
      unsigned probe_blocks
#define PROBE_BEGIN() ProbeWriter probe_writer(probe_records, probe_counts, probe_capacity, probe_first, probe_blocks)
#define PROBE_MARK(event, ...) probe_writer.mark(__LINE__, __VA_ARGS__)
#define PROBE_VALUE(event, ...) probe_writer.value(__LINE__, __VA_ARGS__)
#define PROBE_LOAD(...) probe_writer.access<false>(__LINE__, __VA_ARGS__)
#define PROBE_STORE(...) probe_writer.access<true>(__LINE__, __VA_ARGS__)
#define PROBE_LDMATRIX(...) probe_writer.access<false>(__LINE__, __VA_ARGS__)
#define PROBE_CP_ASYNC(...) probe_writer.access<true>(__LINE__, __VA_ARGS__)

struct ProbeWriter {
  ProbeRecord* records;  // this thread's slots
  unsigned* count_out;
  unsigned capacity, count;
  bool on;

  __device__ __forceinline__ ProbeWriter(ProbeRecord* all, unsigned* counts, unsigned cap, unsigned first, unsigned blocks) {
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
  __device__ __forceinline__ void put(unsigned line, unsigned long long payload, unsigned keys) {
    if (!on) return;
    if (count < capacity) records[count] = ProbeRecord{payload, line, keys};
    ++count;
  }
  __device__ __forceinline__ void mark(unsigned line, unsigned a, unsigned b = 0) { put(line, 0, a | b << 16); }

  static __device__ __forceinline__ unsigned long long bits(float v) { return __float_as_uint(v); }
  __device__ __forceinline__ void value(unsigned line, unsigned a, float v) { put(line, bits(v), a); }
  __device__ __forceinline__ void value(unsigned line, unsigned a, unsigned b, float v) { put(line, bits(v), a | b << 16); }
  __device__ __forceinline__ void value(unsigned line, unsigned a, unsigned b, unsigned c, float v) {
    put(line, bits(v) | (unsigned long long)c << 32, a | b << 16);
  }
  __device__ __forceinline__ void value(unsigned line, unsigned a, unsigned b, unsigned c, unsigned d, float v) {
    put(line, bits(v) | (unsigned long long)(c | d << 16) << 32, a | b << 16);
  }
  template <bool STORE, class T>
  __device__ __forceinline__ void access(unsigned line, const T* base, size_t index, unsigned bytes, unsigned a = 0, unsigned b = 0) {
    put(line, (unsigned long long)(index * sizeof(T)), a | b << 16);
#ifndef __CUDACC__
    simt::announce(base + index, bytes, STORE);  // the shim checks that the access that follows is the one logged
#endif
  }
};
#endif
