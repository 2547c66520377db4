/*
[scratch.starts]
axes = ["head", "query_tile", "sum", "start"]
shape = ["batch * num_heads", "ceil_div(seq_len, BLOCK_Q)", 2, "2 * BLOCK_Q"]
[launches.finish]
item = "query rows"
block = [128]
grid = ["ceil_div(seq_len, 64)", "batch * num_heads"]
args = ["dq_sums", "dq", {struct = [
  "int32 num_heads", "int32 seq_len", "int32 q_row", "int32 q_head", "float32 scale"]}]
*/
// The rows before and after Hopper's backward: delta and the starting values of its sums, and the gradients in 16 bits.
#pragma once
#include "gradient_loads.cuh"

// The sizes of Q, O, dO and dQ. Heads are counted over the whole batch.
struct Rows {
  int num_heads, seq_len, q_row, q_head;
  float scale;
  __device__ __forceinline__ long long row(int head, int number) const {
    return (long long)(head / num_heads) * num_heads * seq_len * HEAD_DIM + (long long)(head % num_heads) * q_head +
           (long long)number * q_row;
  }
};

__device__ __forceinline__ float dot_pair(float a, float b, float sum) {
  const unsigned x = __float_as_uint(a), y = __float_as_uint(b);
  sum = fmaf(to_float(T{(unsigned short)x}), to_float(T{(unsigned short)y}), sum);
  return fmaf(to_float(T{(unsigned short)(x >> 16)}), to_float(T{(unsigned short)(y >> 16)}), sum);
}

// Of 64 query rows of a head, by 256 threads: the starting values of S - LSE / scale and of dP - delta, which are
// -LSE / scale and -delta. A row without keys, or after the last, starts S at -1e30, so its weights are 0.
//   starts_gmem   [batch * num_heads, query_tiles, 2, STARTS] each value twice: even, odd, even, odd
__device__ __forceinline__ void prepare_rows(const T* O_gmem, const T* dO_gmem, const float* LSE_gmem,
                                             float* starts_gmem, const Rows& z PROBE_REF) {
  constexpr int LANES = HEAD_DIM / 8;  // of a row. Each lane reads eight neighbouring dims.
  const int lane = threadIdx.x % LANES, first_row = blockIdx.x * 64;
  PROBE_MARK(delta, first_row);
  UNROLL for (int n = 0; n < 64; n += 256 / LANES) {
    const int row = first_row + n + threadIdx.x / LANES, in_tile = row % BLOCK_Q;
    const bool exists = row < z.seq_len;
    float delta = 0.f;
    if (exists) {
      const long long from = z.row(blockIdx.y, row) + 8 * lane;
      PROBE_LOAD(O_gmem, from, 16);
      const float4 o = ldg<float4>(&O_gmem[from]);
      PROBE_LOAD(dO_gmem, from, 16);
      const float4 d = ldg<float4>(&dO_gmem[from]);
      delta = dot_pair(o.x, d.x, dot_pair(o.y, d.y, dot_pair(o.z, d.z, dot_pair(o.w, d.w, 0.f))));
    }
    delta = group_sum<LANES>(delta);
    if (lane >= 4) continue;
    float start = -delta;
    if (lane == 0 && exists) PROBE_VALUE(delta, row, delta);
    if (lane < 2) {
      float lse = -INFINITY;
      if (exists) {
        const long long from = (long long)blockIdx.y * z.seq_len + row;
        PROBE_LOAD(LSE_gmem, from, 4);
        lse = ldg<float>(&LSE_gmem[from]);
      }
      start = lse == -INFINITY ? HIDDEN : -lse / z.scale;
    }
    const long long to = (tile_of(blockIdx.y, row / BLOCK_Q, z) * 2 + lane / 2) * STARTS +
                         in_tile / 2 * 4 + in_tile % 2 + lane % 2 * 2;
    PROBE_STORE(starts_gmem, to, 4);
    stg<float>(&starts_gmem[to], start);
  }
}

// factor * G as T, of rows `row` and `row` + 8. A lane has two neighbouring columns of every eight. The four lanes of a
// row exchange theirs, so that each stores eight neighbours of every 32.
//   store(row, column, four words)
template <int N, class Store>
__device__ __forceinline__ void write_rows(const float (&G_rmem)[N], float factor, int row, Store store) {
  const int t = threadIdx.x % 4;
  UNROLL for (int r = 0; r < 2; ++r) {
    UNROLL for (int first = 0; first < N; first += 16) {
      unsigned v[4];  // of columns 8 i + 2 t and the next. In the end of columns 8 t + 2 i and the next
      UNROLL for (int i = 0; i < 4; ++i) {
        const int at = first + 4 * i + 2 * r;
        v[i] = pair<T>(G_rmem[at] * factor, G_rmem[at + 1] * factor);
      }
      UNROLL for (int i = 0; i < 4; i += 2) {  // transposes 4 x 4 words: first among neighbouring lanes
        const unsigned other = __shfl_xor_sync(0xffffffffu, t % 2 ? v[i] : v[i + 1], 1);
        (t % 2 ? v[i] : v[i + 1]) = other;
      }
      UNROLL for (int i = 0; i < 2; ++i) {  // then among lanes two apart
        const unsigned other = __shfl_xor_sync(0xffffffffu, t / 2 ? v[i] : v[i + 2], 2);
        (t / 2 ? v[i] : v[i + 2]) = other;
      }
      store(row + 8 * r, first * 2 + 8 * t,
            make_float4(__uint_as_float(v[0]), __uint_as_float(v[1]), __uint_as_float(v[2]), __uint_as_float(v[3])));
    }
  }
}

// dQ = scale * sums of 64 query rows of a head, by a warpgroup
//   dQ_sums_gmem  [batch * num_heads, query_tiles, Q_TILE], of 64 rows [HEAD_DIM / 8, 128, 4]: a thread's four sums
__device__ __forceinline__ void finish_rows(const float* dQ_sums_gmem, T* dQ_gmem, const Rows& z PROBE_REF) {
  const int first_row = blockIdx.x * 64, row = first_row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const long long sums = tile_of(blockIdx.y, 0, z) * Q_TILE + (long long)first_row * HEAD_DIM + 4 * threadIdx.x;
  PROBE_MARK(write, first_row);
  float dQ_rmem[HEAD_DIM / 2];
  UNROLL for (int i = 0; i < HEAD_DIM / 2; i += 4) {
    PROBE_LOAD(dQ_sums_gmem, sums + i * 128, 16);
    const float4 four = ldg<float4>(&dQ_sums_gmem[sums + i * 128]);
    dQ_rmem[i] = four.x, dQ_rmem[i + 1] = four.y, dQ_rmem[i + 2] = four.z, dQ_rmem[i + 3] = four.w;
  }
  write_rows(dQ_rmem, z.scale, row, [&](int row, int dim, float4 words) {
    if (row >= z.seq_len) return;
    const long long to = z.row(blockIdx.y, row) + dim;
    PROBE_STORE(dQ_gmem, to, 16);
    stg<float4>(&dQ_gmem[to], words);
  });
}
// dK = scale * sums and dV, of this warp's 16 keys
__device__ __forceinline__ void write_key_gradients(const float (&dK_rmem)[HEAD_DIM / 2],
                                                    const float (&dV_rmem)[HEAD_DIM / 2], T* dK_gmem, T* dV_gmem,
                                                    int any_head, int warp_key, const Sizes& z PROBE_REF) {
  const int key = warp_key + threadIdx.x % 32 / 4;
  const Head head(z, any_head);
  write_rows(dV_rmem, 1.f, key, [&](int key, int dim, float4 words) {
    if (key >= z.keys) return;
    const long long to = head.kv + (long long)key * z.kv_row + dim;
    PROBE_STORE(dV_gmem, to, 16);
    stg<float4>(&dV_gmem[to], words);
  });
  write_rows(dK_rmem, z.scale, key, [&](int key, int dim, float4 words) {
    if (key >= z.keys) return;
    const long long to = head.kv + (long long)key * z.kv_row + dim;
    PROBE_STORE(dK_gmem, to, 16);
    stg<float4>(&dK_gmem[to], words);
  });
}
