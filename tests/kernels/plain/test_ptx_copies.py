"""Asynchronous copies and barriers in inline PTX: right values in both orders, and each missing wait with its lines."""

import re
from dataclasses import replace

import numpy as np
import pytest
from alone import Alone, nvidia_takes

from kernels.core.launch import TensorMap

TEXT = """
#include <cstdint>
using u32 = uint32_t;
#define COMMIT() asm volatile("cp.async.commit_group;\\n" ::)
#define WAIT(n) asm volatile("cp.async.wait_group %0;\\n" ::"n"(n))
#define COPY(to, from, bytes) \\
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2;\\n" ::"r"(to), "l"(from), "n"(bytes))
__device__ __forceinline__ u32 at(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void init(uint64_t* bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");  // INIT
}
__device__ __forceinline__ void wait(uint64_t* bar, u32 parity) {
  asm volatile(  // TRY
      "{\\n"
      ".reg .pred P1;\\n"
      "LAB_WAIT:\\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\\n"
      "@P1 bra DONE;\\n"
      "bra LAB_WAIT;\\n"
      "DONE:\\n"
      "}\\n" ::"r"(at(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void spin(uint64_t* bar, u32 parity) {
  u32 over = 0;
  while (!over)
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                 : "=r"(over) : "r"(at(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void expect(uint64_t* bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(uint64_t* bar) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(at(bar)) : "memory");
}
__device__ __forceinline__ void bulk(void* to, const void* from, u32 bytes, uint64_t* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"  // BULK COPIES
               ::"r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}
"""
STAGES = """
__global__ void stages(const float* x, float* o) {
  __shared__ __align__(16) float s[2][32 * 4];
  const int t = threadIdx.x;
  COPY(at(&s[0][t * 4]), x + t * 4, 16);
  COMMIT();
  float sum = 0.f;
  for (int tile = 0; tile < 4; ++tile) {
    if (tile < 3) {
      COPY(at(&s[(tile + 1) % 2][t * 4]), x + (tile + 1) * 128 + t * 4, 16);  // STAGE COPIES
      COMMIT();
      WAIT(1);
    } else {
      WAIT(0);  // LAST
    }
    __syncthreads();  // AFTER
    for (int e = 0; e < 4; ++e) sum += s[tile % 2][(31 - t) * 4 + e];  // STAGE READS
    __syncthreads();
  }
  o[t] = sum;
}
"""
ROLES = """
__global__ void roles(const float* x, float* o) {
  extern __shared__ __align__(128) float s[];  // [2][64]
  __shared__ uint64_t full[2], empty[2];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0)
    for (int n = 0; n < 2; ++n) init(&full[n], 1), init(&empty[n], 2);
  asm volatile("fence.mbarrier_init.release.cluster;");
  __syncthreads();  // SETUP
  if (warp == 0) {
    if (lane == 0)
      for (int tile = 0; tile < 6; ++tile) {
        const int n = tile % 2;
        wait(&empty[n], (tile / 2 + 1) % 2);
        expect(&full[n], 256);
        bulk(s + n * 64, x + tile * 64, 256, &full[n]);
      }
    return;
  }
  float sum = 0.f;
  for (int tile = 0; tile < 6; ++tile) {
    const int n = tile % 2;
    wait(&full[n], tile / 2 % 2);  // WAITS
    sum += s[n * 64 + (warp - 1) * 32 + lane];  // ROLE READS
    __syncwarp();
    if (lane == 0) arrive(&empty[n]);
  }
  o[(warp - 1) * 32 + lane] = sum;
}
"""
NAMED = """
__global__ void named(const float* x, float* o) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  if (t < 64) {
    s[t] = x[t];  // NAMED WRITES
    asm volatile("bar.arrive 3, 96;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 96;" ::: "memory");  // WAITS
    o[t - 64] = s[t - 64] + s[t - 32];  // NAMED READS
  }
}
"""
OTHERS = """
__global__ void zeros(const float* x, float* o, int n) {
  __shared__ __align__(16) float s[128];
  const int t = threadIdx.x, left = max(0, min(4, n - 4 * t)) * 4;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at(s + 4 * t)), "l"(x + 4 * t), "r"(left));
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  for (int e = 0; e < 4; ++e) o[t + 32 * e] = s[t + 32 * e];
}
__global__ void arrives(const float* x, float* o) {
  __shared__ __align__(16) float s[32];
  __shared__ uint64_t bar;
  const int t = threadIdx.x;
  if (t == 0) init(&bar, 32);
  __syncthreads();
  COPY(at(&s[t]), x + t, 4);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at(&bar)));
  spin(&bar, 0);
  o[t] = s[31 - t];
}
__global__ void tokens(const float* x, float* o) {
  __shared__ float s[64];
  __shared__ uint64_t bar;
  const int t = threadIdx.x;
  if (t == 0) init(&bar, 64);
  __syncthreads();
  s[t] = x[t];
  uint64_t state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at(&bar)) : "memory");
  u32 over = 0;
  while (!over)
    asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                 : "=r"(over) : "r"(at(&bar)), "l"(state) : "memory");
  o[t] = s[63 - t];
}
__global__ void stored(const float* x, float* o) {
  __shared__ __align__(128) float s[64];
  s[threadIdx.x] = 2.f * x[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(o), "r"(at(s)), "r"(256) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}
"""
ALL = TEXT + STAGES + ROLES + NAMED + OTHERS
X = np.random.default_rng(0).standard_normal(512).astype(np.float32)
SUMS = X.reshape(4, 32, 4).sum((0, 2))[::-1]


def alone(name, text=ALL):
    sizes = {
        "stages": (X, 32, {"block": (32,)}),
        "roles": (X[:384], 64, {"block": (96,), "shared": 512}),
        "named": (X[:64], 32, {"block": (96,)}),
        "zeros": (X[:101], 128, {"block": (32,), "scalars": (np.int32(101),)}),
        "arrives": (X[:32], 32, {"block": (32,)}),
        "tokens": (X[:64], 64, {"block": (64,)}),
        "stored": (X[:64], 64, {"block": (64,)}),
    }
    given, count, more = sizes[name]
    return Alone(text, name, {"x": given}, {"o": ((count,), "float32")}, **more)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("stages", SUMS),
        ("roles", X[:384].reshape(6, 64).sum(0)),
        ("named", X[:32] + X[32:64]),
        ("zeros", np.concatenate([X[:101], np.zeros(27)])),
        ("arrives", X[31::-1]),
        ("tokens", X[63::-1]),
        ("stored", 2 * X[:64]),
    ],
)
def test_copies_and_barriers_give_the_values_of_numpy(name, expected):
    alone(name).agrees({"o": expected}, rtol=1e-5, atol=1e-5)


FAULTS = [
    ("stages", ("WAIT(0);  // LAST", ";  // LAST"), "missing wait", ("STAGE COPIES", "STAGE READS")),
    ("stages", ("WAIT(1);", "WAIT(2);"), "missing wait", ("STAGE COPIES", "STAGE READS")),
    ("stages", ("__syncthreads();  // AFTER", ";  // AFTER"), "warp race", ("STAGE COPIES", "STAGE READS")),
    (
        "roles",
        ("wait(&full[n], tile / 2 % 2);  // WAITS", ";  // WAITS"),
        "missing wait",
        ("BULK COPIES", "ROLE READS"),
    ),
    ("roles", ("__syncthreads();  // SETUP", ";  // SETUP"), "race", ("INIT", "TRY")),
    (
        "named",
        ('asm volatile("bar.sync 3, 96;" ::: "memory");  // WAITS', ";"),
        "race",
        ("NAMED WRITES", "NAMED READS"),
    ),
]


@pytest.mark.parametrize(("name", "changed", "kind", "marks"), FAULTS)
@pytest.mark.parametrize("reversed_order", [False, True])
def test_a_missing_wait_is_found_with_the_lines_of_the_copy_and_of_the_read(name, changed, kind, marks, reversed_order):
    text = ALL.replace(*changed)
    assert text != ALL
    lines = {1 + text[: text.index(f"// {mark}")].count("\n") for mark in marks}
    _, faults = alone(name, text).probe(reversed_order)
    found = [(fault.kind, {*fault.lines}) for fault in faults]
    if "INIT" in marks and reversed_order:  # the other warps come first
        assert ("unwritten read", lines - {min(lines)}) in found
    else:
        assert (kind, lines) in found, faults


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("roles", ("&full[n], 256);", "&full[n], 260);"), "deadlock: .* at the mbarrier at offset .* 4 bytes"),
        ("roles", ("init(&empty[n], 2)", "init(&empty[n], 3)"), "1 of 3 arrivals and 0 bytes are missing"),
        ("tokens", ("arrive.shared.b64 %0, [%1];", "arrive.shared.b64 %0, [%1], 65;"), "phase 0 waits for 64 of 64"),
        ("roles", ("init(&full[n], 1),", ""), "which no thread has set up. mbarrier.init comes first"),
        ("roles", ("bulk(s + n * 64,", "bulk(s + n * 64 + 1,"), "must be multiples of 16"),
        ("named", ("bar.sync 3, 96", "bar.sync 3, 64"), "those who came before said 96"),
        ("named", ("bar.arrive 3, 96", "bar.arrive 3, 128"), "no more than the block.s 96 threads"),
        ("named", ("bar.arrive 3, 96", "bar.arrive 4, 96"), "at barrier 3, to which 32 of 96 threads came"),
        ("stages", ("x + t * 4, 16);", "x + t * 4 + 1, 16);"), "not aligned to its width"),
        ("stages", ('"n"(bytes))', '"n"(bytes - 4))'), "cp.async.ca copies 4, 8 or 16 bytes"),
    ],
)
def test_a_wrong_copy_or_barrier_stops_with_its_reason(name, changed, said):
    text = ALL.replace(*changed)
    assert text != ALL
    _, faults = alone(name, text).probe()
    assert any(re.search(said, fault.text) for fault in faults), faults


BOXES = (
    TEXT
    + """
__global__ void boxes(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, float* o) {
  extern __shared__ __align__(1024) float s[];  // [8][32], swizzled
  __shared__ uint64_t bar;
  const int t = threadIdx.x;
  if (t == 0) init(&bar, 1);
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(at(s)), "l"(&from), "r"(32), "r"(-2), "r"(at(&bar)) : "memory");  // BOX COPIES
    expect(&bar, 8 * 32 * 4);
  }
  wait(&bar, 0);  // BOX WAITS
  for (int row = 0; row < 8; ++row) o[row * 32 + t] = s[row * 32 + (t / 4 ^ row) * 4 + t % 4];  // BOX READS
  __syncthreads();
  for (int i = t; i < 256; i += 32) s[i] += 1.f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&to), "r"(0), "r"(4), "r"(at(s)) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""
)


def boxes(text=BOXES):
    x = X[:448].reshape(7, 64)
    alone = Alone(text, "boxes", {"x": x}, {"o": ((8, 32), "float32"), "y": ((10, 32), "float32")}, shared=1024)
    maps = TensorMap("x", (8, 32), 128), TensorMap("y", (8, 32), 128)
    step = replace(alone.plan.launches[0], args=(*maps, "o"))
    alone.plan = replace(alone.plan, launches=(step,))
    return alone, x


def test_boxes_of_a_tensor_come_swizzled_with_zeros_outside_and_go_back():
    alone, x = boxes()
    box = np.zeros((8, 32))
    box[2:] = x[:6, 32:]
    back = np.full((10, 32), np.nan)
    back[4:] = box[:6] + 1  # rows past the end are left out
    alone.agrees({"o": box, "y": back}, rtol=1e-6)


@pytest.mark.parametrize("reversed_order", [False, True])
def test_a_box_without_a_wait_is_found_with_its_line(reversed_order):
    text = BOXES.replace("wait(&bar, 0);  // BOX WAITS", ";")
    lines = {1 + text[: text.index(f"// BOX {what}")].count("\n") for what in ("COPIES", "READS")}
    _, faults = boxes(text)[0].probe(reversed_order)
    # the statement of the copy begins two lines before its end
    assert ("missing wait", {min(lines) - 2, max(lines)}) in [(fault.kind, {*fault.lines}) for fault in faults], faults


def test_nvidias_compiler_takes_the_copies():
    boxed = BOXES.replace("#include <cstdint>", "#include <cuda.h>\n#include <cstdint>")
    assert nvidia_takes(ALL, "stages") and nvidia_takes(boxed, "boxes")
