/*
[constants.QUERY_HEADS]
default = 0
values = [0, 1, 2, 4, 8, 16]
meaning = "most query heads of a block. 0: all of its KV head. Else each block writes fp32 parts of dK and dV to add up"
[scratch.kv_parts]
axes = ["part", "key_tile", "gradient", "number"]
shape = ["batch * kv_heads * ceil_div(num_heads // kv_heads, QUERY_HEADS) if QUERY_HEADS else 1",
  "ceil_div(keys, BLOCK_KV) if QUERY_HEADS else 1", 2, "BLOCK_KV * head_dim if QUERY_HEADS else 1"]
[launches.add_parts]
item = "keys"
when = "QUERY_HEADS > 0"
dependent = true
block = [128]
grid = ["ceil_div(keys, BLOCK_KV)", "BLOCK_KV * head_dim // 256", "batch * kv_heads"]
args = ["kv_parts", "dk", "dv", {struct = ["int32 num_heads", "int32 kv_heads", "int32 seq_len", "int32 keys",
  "int32 offset", "int32 q_row", "int32 q_head", "int32 kv_row", "int32 kv_head", "float32 scale"]}]
*/
// Parts of dK and dV. Few KV heads with few keys have fewer blocks than a GPU has multiprocessors. So blocks share the
// query heads of a KV head. Each writes its sums of dK and dV in fp32, and the last launch adds the parts in the order
// of the query heads. So these sums have equal bits in every run.
#pragma once
#include "gradient_rows.cuh"
#include "launches.cuh"
#define PART (BLOCK_KV * HEAD_DIM)  // floats of a part of dK, or of dV

// The sums of a block, as its threads hold them
//   parts_gmem  [batch * kv_heads, parts, key_tiles, 2, HEAD_DIM / 8, CONSUMERS, 4]: of dK, then of dV
__device__ __forceinline__ void write_parts(const float (&dK_rmem)[HEAD_DIM / 2], const float (&dV_rmem)[HEAD_DIM / 2],
                                            float* parts_gmem, const Place& place, int first_key,
                                            const Sizes& z PROBE_REF) {
  PROBE_MARK(write_parts, first_key);
  const long long to = ((long long)place.kv * key_tiles(z) + place.tile) * 2 * PART + 4 * (threadIdx.x - 128);
  UNROLL for (int i = 0; i < HEAD_DIM / 2; i += 4) {
    PROBE_STORE(parts_gmem, to + i * CONSUMERS, 16);
    stg<float4>(&parts_gmem[to + i * CONSUMERS],
                make_float4(dK_rmem[i], dK_rmem[i + 1], dK_rmem[i + 2], dK_rmem[i + 3]));
    PROBE_STORE(parts_gmem, to + PART + i * CONSUMERS, 16);
    stg<float4>(&parts_gmem[to + PART + i * CONSUMERS],
                make_float4(dV_rmem[i], dV_rmem[i + 1], dV_rmem[i + 2], dV_rmem[i + 3]));
  }
}

// dK = scale * sum of parts, or dV = sum of parts, four numbers of a tile in each thread: two of a key, and two of the
// eighth key after it. The grid is [key_tiles, 2 * PART / 512, batch * kv_heads].
//
// This launch runs next to `finish`, which lets it start, and which itself starts after the end of `gradients`.
__device__ __forceinline__ void add_key_parts(const float* parts_gmem, T* dK_gmem, T* dV_gmem,
                                              const Sizes& z PROBE_REF) {
  const int of_dV = 2 * blockIdx.y / gridDim.y, first_key = blockIdx.x * BLOCK_KV, parts = parts_of_head(z);
  const int place = blockIdx.y % (gridDim.y / 2) * 128 + threadIdx.x, thread = place % CONSUMERS;
  const int key = first_key + thread / 32 * 16 + thread % 32 / 4, dim = place / CONSUMERS * 8 + thread % 4 * 2;
  const long long tile = 2 * PART, step = key_tiles(z) * tile;
  const long long from = (long long)blockIdx.z * parts * step + blockIdx.x * tile + of_dV * PART + 4 * place;
  PROBE_MARK(add_parts, first_key);
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
  _Pragma("unroll 8") for (int part = 0; part < parts; ++part) {
    PROBE_LOAD(parts_gmem, from + part * step, 16);
    const float4 v = ldg<float4>(&parts_gmem[from + part * step]);
    sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
  }
  const float factor = of_dV ? 1.f : z.scale;
  const unsigned both[2] = {pair<T>(sum.x * factor, sum.y * factor), pair<T>(sum.z * factor, sum.w * factor)};
  const Head head(z, blockIdx.z * z.group());
  UNROLL for (int r = 0; r < 2; ++r) {
    if (key + 8 * r >= z.keys) break;
    const long long to = head.kv + (long long)(key + 8 * r) * z.kv_row + dim;
    if (of_dV) {
      PROBE_STORE(dV_gmem, to, 4);
      stg<float>(&dV_gmem[to], __uint_as_float(both[r]));
    } else {
      PROBE_STORE(dK_gmem, to, 4);
      stg<float>(&dK_gmem[to], __uint_as_float(both[r]));
    }
  }
  wait_for_launch();  // it ends after `finish`
}
