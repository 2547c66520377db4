/*
title = "The work list of paged_v3 on the GPU"
idea = "one block makes the list from the contexts' lengths in global memory, so no length goes to the host."
changed_from = "paged_v3"
changed = "the list has a fixed number of rows, so a CUDA graph can hold its launches."
costs = "a launch of one block before the launch of paged_v3."
limits = "the list has one fixed number of ranges. Ranges without pages have empty units."
source = "kernels/kv_cache/work_list.py, which makes the same list on the host."
family = "paged"
problem = "plan"

[[launches]]
entry = "plan_ranges"
item = "list"
grid = [1]
block = [256]
shared_bytes = "4 * (3 * 8 + 8 * 256)"
args = [
  "context_lens", "units",
  {struct = ["int32 sequences", "int32 most_ranges", "int32 block_size", "int32 window", "int32 shortest"]},
]
*/
#include "common.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32, FIELDS = 8;

struct Sizes {
  int sequences, most_ranges, block_size, window, shortest;
};
// A sequence's pages in the line of all pages, and its units
struct Part {
  int offset, pages, first_page, tokens, unit, units, slot, range;
};

// The sums of the values of all earlier threads, and of all threads
//   sums_smem  [3, WARPS]
__device__ __forceinline__ void sums_before(int (&value)[3], int (&total)[3], int* sums_smem PROBE_REF) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int own[3];
  for (int n = 0; n < 3; ++n) {
    own[n] = value[n];
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, value[n], lanes);
      if (lane >= lanes) value[n] += before;
    }
    if (lane == 31) {
      PROBE_STORE(sums_smem, n * WARPS + warp, 4);
      sts<int>(&sums_smem[n * WARPS + warp], value[n]);
    }
  }
  __syncthreads();
  for (int n = 0; n < 3; ++n) {
    int before = 0;
    total[n] = 0;
    for (int w = 0; w < WARPS; ++w) {
      PROBE_LOAD(sums_smem, n * WARPS + w, 4);
      const int sum = lds<int>(&sums_smem[n * WARPS + w]);
      if (w < warp) before += sum;
      total[n] += sum;
    }
    value[n] += before - own[n];
  }
  __syncthreads();
}

__device__ __forceinline__ void store_unit(int* units_gmem, int row, int seq, int first, int pages, int next,
                                           int tokens, int slot, int partition, int partitions PROBE_REF) {
  const float4 low = {__uint_as_float(seq), __uint_as_float(first), __uint_as_float(pages), __uint_as_float(next)};
  const float4 high = {__uint_as_float(tokens), __uint_as_float(slot), __uint_as_float(partition),
                       __uint_as_float(partitions)};
  PROBE_STORE(units_gmem, FIELDS * row, 16, row);
  stg<float4>(&units_gmem[FIELDS * row], low);
  PROBE_STORE(units_gmem, FIELDS * row + 4, 16, row);
  stg<float4>(&units_gmem[FIELDS * row + 4], high);
}

// The units of all sequences: those that open a range in rows 0 to ranges - 1, the others from row most_ranges on.
// A row without a unit has no pages and no partition, so its block only writes a partial result that nobody reads.
//   context_lens_gmem  [sequences];  units_gmem  [most_ranges + sequences, FIELDS]
extern "C" __global__ void __launch_bounds__(THREADS)
plan_ranges(const int* context_lens_gmem, int* units_gmem, const __grid_constant__ Sizes z PROBE_PARAM) {
  DYNAMIC_SMEM(int, smem);
  int *sums_smem = smem, *parts_smem = smem + 3 * WARPS;  // [3, WARPS], [THREADS, 8]
  const int thread = threadIdx.x;
  const int list = blockIdx.x;
  PROBE_BEGIN();
  PROBE_MARK(count_pages, list);
  auto pages_of = [&](int sequence, int& tokens, int& first) {
    tokens = first = 0;
    if (sequence >= z.sequences) return 0;
    PROBE_LOAD(context_lens_gmem, sequence, 4, sequence);
    tokens = max(0, ldg<int>(&context_lens_gmem[sequence]));
    first = z.window ? max(0, tokens - z.window) / z.block_size : 0;
    return (tokens + z.block_size - 1) / z.block_size - first;
  };
  int tokens, first;
  int before[3] = {}, sums[3];
  for (int sequence = thread; sequence < z.sequences; sequence += THREADS) {
    before[0] += pages_of(sequence, tokens, first);
  }
  sums_before(before, sums, sums_smem PROBE_PASS);
  const int total = sums[0];
  const int few = min((long long)z.most_ranges, max(1LL, (long long)total * z.block_size / z.shortest));
  const int ranges = min(few, total);
  // Range r has the pages from cut(r) to cut(r + 1) of the line.
  auto cut = [&](int range) { return (int)((long long)range * total / ranges); };
  auto range_of = [&](int page) { return (int)((((long long)page + 1) * ranges - 1) / total); };

  int done[3] = {};  // pages, units and partial results of earlier sequences
  for (int chunk = 0; chunk < z.sequences; chunk += THREADS) {
    PROBE_MARK(write_units, chunk);
    const int pages = pages_of(chunk + thread, tokens, first);
    int line[3] = {pages, 0, 0};
    sums_before(line, sums, sums_smem PROBE_PASS);
    const int offset = done[0] + line[0], range = pages ? range_of(offset) : 0;
    const int units = pages ? range_of(offset + pages - 1) - range + 1 : 0;
    done[0] += sums[0];
    int of_units[3] = {0, units, units > 1 ? units : 0};
    sums_before(of_units, sums, sums_smem PROBE_PASS);
    const int own[8] = {offset, pages, first, tokens, done[1] + of_units[1], units, done[2] + of_units[2], range};
    done[1] += sums[1], done[2] += sums[2];
    for (int n = 0; n < 8; ++n) {
      PROBE_STORE(parts_smem, 8 * thread + n, 4);
      sts<int>(&parts_smem[8 * thread + n], own[n]);
    }
    __syncthreads();
    const int count = min(THREADS, z.sequences - chunk), lanes = THREADS / count;
    for (int part = thread / lanes; part < count; part += THREADS / lanes) {
      int of[8];
      for (int n = 0; n < 8; ++n) {
        PROBE_LOAD(parts_smem, 8 * part + n, 4);
        of[n] = lds<int>(&parts_smem[8 * part + n]);
      }
      const Part p = {of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7]};
      for (int n = thread % lanes; n < p.units; n += lanes) {
        const int r = p.range + n, start = max(p.offset, cut(r)), end = min(p.offset + p.pages, cut(r + 1));
        const bool opens = start == cut(r);
        const int follower = z.most_ranges + p.unit + n - (r + 1);
        const int next = end < cut(r + 1) ? follower + 1 : -1;
        store_unit(units_gmem, opens ? r : follower, chunk + part, p.first_page + start - p.offset, end - start, next,
                   p.tokens, p.slot, n, p.units PROBE_PASS);
      }
    }
    __syncthreads();
  }
  PROBE_MARK(write_empty, list);
  const int followers = done[1] - ranges, rows = z.most_ranges + z.sequences;
  for (int row = ranges + thread; row < rows; row += THREADS) {
    if (row >= z.most_ranges && row < z.most_ranges + followers) continue;
    store_unit(units_gmem, row, 0, 0, 0, -1, 0, z.most_ranges + z.sequences, 0, 0 PROBE_PASS);
  }
}
