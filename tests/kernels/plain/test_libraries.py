"""CUDA's own libraries in a plain kernel: CUB, cuda::barrier, cuda::pipeline, wmma. Right values in both orders, and
planted mistakes with their lines."""

import ml_dtypes
import numpy as np
import pytest
from alone import Alone, nvidia_takes

CUB = """
#include <cub/cub.cuh>
#define THREADS 160
using Reduce = cub::BlockReduce<float, THREADS>;
__global__ void reduced(const float* x, float* o, int n) {
  __shared__ typename Reduce::TempStorage temp;
  __shared__ float total;
  const float v = threadIdx.x < n ? x[threadIdx.x] : -1e9f;
  const float sum = Reduce(temp).Sum(v, n);  // FIRST
  if (threadIdx.x == 0) total = sum;
  __syncthreads();  // BETWEEN
  const float most = Reduce(temp).Reduce(v, cub::Max());  // SECOND
  __syncthreads();
  float two[2] = {x[threadIdx.x], 2.f * x[threadIdx.x]};
  const float all = Reduce(temp).Sum(two);
  if (threadIdx.x == 0) o[0] = total, o[1] = most, o[2] = all;  // WRITES
  __shared__ cub::WarpReduce<float, 16>::TempStorage warps[THREADS / 16];
  const float part = cub::WarpReduce<float, 16>(warps[threadIdx.x / 16]).Sum(x[threadIdx.x]);
  if (threadIdx.x % 16 == 0) o[3 + threadIdx.x / 16] = part;
}
__global__ void scanned(const float* x, float* o) {
  using Load = cub::BlockLoad<float, THREADS, 4, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<float, THREADS, 4, cub::BLOCK_STORE_TRANSPOSE>;
  using Scan = cub::BlockScan<float, THREADS>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Scan::TempStorage scan;
  } temp;
  float v[4], before[4], total, one;
  Load(temp.load).Load(x, v, 601, 0.f);
  __syncthreads();
  Scan(temp.scan).InclusiveSum(v, v);
  __syncthreads();
  Store(temp.store).Store(o, v, 640);
  __syncthreads();
  Load(temp.load).Load(x, v, 601, 0.f);
  __syncthreads();
  Scan(temp.scan).ExclusiveSum(v, before, total);
  Store(temp.store).Store(o + 640, before);
  __syncthreads();
  Scan(temp.scan).ExclusiveScan(x[threadIdx.x], one, -9.f, cub::Max());
  o[1280 + threadIdx.x] = one;
  o[1440 + threadIdx.x] = total;
}
"""
X = np.random.default_rng(0).standard_normal(640).astype(np.float32)


def reduced(text=CUB):
    return Alone(text, "reduced", {"x": X[:160]}, {"o": ((13,), "float32")}, (np.int32(101),), block=(160,))


def test_cub_reduces_over_a_block_and_over_a_warp():
    x = X[:160].astype(np.float64)
    expected = [x[:101].sum(), x[:101].max(), 3 * x.sum(), *x.reshape(10, 16).sum(1)]
    reduced().agrees({"o": expected}, rtol=1e-5, atol=1e-5)


def test_cub_loads_scans_and_stores():
    x = np.where(np.arange(640) < 601, X, 0).astype(np.float64)
    sums = x.cumsum()
    highest = np.maximum.accumulate(np.concatenate([[-9], X[:159]]))
    expected = np.concatenate([sums, sums - x, highest, np.full(160, sums[-1])])
    alone = Alone(CUB, "scanned", {"x": X}, {"o": ((1600,), "float32")}, block=(160,))
    alone.agrees({"o": expected}, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reversed_order", [False, True])
def test_a_temporary_storage_that_is_used_again_without_a_barrier_is_a_race_with_both_lines(reversed_order):
    text = CUB.replace("__syncthreads();  // BETWEEN", ";")
    lines = {1 + text[: text.index(f"// {mark}")].count("\n") for mark in ("FIRST", "SECOND")}
    _, faults = reduced(text).probe(reversed_order)
    assert ("race", lines) in [(fault.kind, {*fault.lines}) for fault in faults], faults


def test_a_sum_of_cub_is_nan_in_every_other_thread():
    text = CUB.replace("if (threadIdx.x == 0) o[0] = total, o[1] = most, o[2] = all;  // WRITES", "o[0] = sum;")
    assert np.isnan(reduced(text).run()["o"][0])


COPIES = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void barrier(const float* x, float* o) {
  __shared__ Barrier bar;
  __shared__ alignas(16) float s[64];
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, blockDim.x);
  block.sync();
  float sum = 0.f;
  for (int tile = 0; tile < 4; ++tile) {
    cuda::memcpy_async(block, s, x + tile * 64, cuda::aligned_size_t<16>(sizeof s), bar);  // BARRIER COPIES
    bar.arrive_and_wait();  // BARRIER WAITS
    sum += s[63 - threadIdx.x];  // BARRIER READS
    Barrier::arrival_token token = bar.arrive();
    bar.wait(std::move(token));
  }
  o[threadIdx.x] = sum;
}
__global__ void transaction(const float* x, float* o) {
  __shared__ Barrier bar;
  __shared__ alignas(128) float s[64];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(s, x, cuda::aligned_size_t<16>(sizeof(s)), bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(s));
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  o[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void thread_pipe(const float* x, float* o) {
  __shared__ float s[2][64];
  auto pipe = cuda::make_pipeline();
  const int t = threadIdx.x;
  const auto size = cuda::aligned_size_t<alignof(float)>(sizeof(float));
  float sum = 0.f;
  for (int tile = 0, ahead = 0; tile < 4; ++tile) {
    for (; ahead < 4 && ahead < tile + 2; ++ahead) {
      pipe.producer_acquire();
      cuda::memcpy_async(&s[ahead % 2][t], &x[ahead * 64 + t], size, pipe);  // THREAD COPIES
      pipe.producer_commit();
    }
    pipe.consumer_wait();  // THREAD WAITS
    __syncthreads();
    sum += s[tile % 2][63 - t];  // THREAD READS
    pipe.consumer_release();
    __syncthreads();
  }
  o[t] = sum;
}
__global__ void block_pipe(const float* x, float* o) {
  __shared__ float s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  float sum = 0.f;
  for (int tile = 0, ahead = 0; tile < 4; ++tile) {
    for (; ahead < 4 && ahead < tile + 2; ++ahead) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[ahead % 2], x + ahead * 64, sizeof s[0], pipe);  // BLOCK COPIES
      pipe.producer_commit();
    }
    pipe.consumer_wait();  // BLOCK WAITS
    sum += s[tile % 2][63 - threadIdx.x];  // BLOCK READS
    pipe.consumer_release();
  }
  o[threadIdx.x] = sum;
}
__global__ void role_pipe(const float* x, float* o) {
  __shared__ float s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  const bool produces = threadIdx.x >= 64;
  auto pipe = cuda::make_pipeline(block, &state,
                                  produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  float sum = 0.f;
  for (int tile = 0; tile < 4; ++tile) {
    if (produces) {
      pipe.producer_acquire();
      for (int i = threadIdx.x - 64; i < 64; i += 32)
        cuda::memcpy_async(&s[tile % 2][i], x + tile * 64 + i, sizeof(float), pipe);  // ROLE COPIES
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();  // ROLE WAITS
      sum += s[tile % 2][63 - threadIdx.x];  // ROLE READS
      pipe.consumer_release();
    }
  }
  if (!produces) o[threadIdx.x] = sum;
}
"""
TILES = X[:256].reshape(4, 64).astype(np.float64).sum(0)[::-1]


def copies(name, text=COPIES):
    block = (96,) if name == "role_pipe" else (64,)
    return Alone(text, name, {"x": X[:256]}, {"o": ((64,), "float32")}, block=block)


@pytest.mark.parametrize("name", ["barrier", "transaction", "thread_pipe", "block_pipe", "role_pipe"])
def test_barriers_and_pipelines_give_the_values_of_numpy(name):
    copies(name).agrees({"o": X[63::-1] if name == "transaction" else TILES}, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("barrier", "bar.arrive_and_wait();"),
        ("thread_pipe", "pipe.consumer_wait();"),
        ("block_pipe", "pipe.consumer_wait();"),
        ("role_pipe", "pipe.consumer_wait();"),
    ],
)
@pytest.mark.parametrize("reversed_order", [False, True])
def test_a_missing_wait_names_the_copy_and_the_read(name, waits, reversed_order):
    word = name.split("_")[0].upper()
    text = COPIES.replace(f"{waits}  // {word} WAITS", ";")
    assert text != COPIES
    lines = {1 + text[: text.index(f"// {word} {what}")].count("\n") for what in ("COPIES", "READS")}
    _, faults = copies(name, text).probe(reversed_order)
    first = name == "role_pipe" and not reversed_order  # the readers come before the copy
    assert ("race" if first else "missing wait", lines) in [(fault.kind, {*fault.lines}) for fault in faults], faults


WMMA = """
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
template <class T, class S, class C, int M, int N, int K> __global__ void product(const S* a, const S* b, C* o) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> A;
  wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> B;
  wmma::fragment<wmma::accumulator, M, N, K, C> D;
  wmma::fill_fragment(D, C(0));
  for (int k = 0; k < 32; k += K) {
    wmma::load_matrix_sync(A, a + k, 32);
    wmma::load_matrix_sync(B, b + k, 32);
    wmma::mma_sync(D, A, B, D);
  }
  wmma::store_matrix_sync(o, D, N, wmma::mem_row_major);
}
"""


@pytest.mark.parametrize(
    ("entry", "of", "sums", "shape"),
    [
        ("product<half, half, float, 16, 16, 16>", np.float16, "float32", (16, 16)),
        ("product<half, half, half, 32, 8, 16>", np.float16, "float16", (32, 8)),
        ("product<__nv_bfloat16, __nv_bfloat16, float, 8, 32, 16>", ml_dtypes.bfloat16, "float32", (8, 32)),
        ("product<wmma::precision::tf32, float, float, 16, 16, 8>", np.float32, "float32", (16, 16)),
        ("product<unsigned char, unsigned char, int, 16, 16, 16>", np.uint8, "int32", (16, 16)),
    ],
)
def test_wmma_gives_the_product_of_numpy(entry, of, sums, shape):
    random = np.random.default_rng(3)
    rows, columns = shape
    a, b = (random.integers(0 if of == np.uint8 else -8, 9, (n, 32)).astype(of) for n in (rows, columns))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    Alone(WMMA, entry, {"a": a, "b": b}, {"o": (shape, sums)}).agrees({"o": expected})


def test_nvidias_compiler_takes_the_libraries():
    tf32 = "product<wmma::precision::tf32, float, float, 16, 16, 8>"
    assert nvidia_takes(CUB, "reduced") and nvidia_takes(COPIES, "barrier") and nvidia_takes(WMMA, tf32)
