"""wgmma in inline PTX: NumPy's values for each layout of the operands, and planted mistakes."""

import re

import ml_dtypes
import numpy as np
import pytest
from alone import Alone, nvidia_takes

TEXT = """
#include <cstdint>
__device__ uint64_t descriptor(unsigned at, unsigned leading, unsigned stride, uint64_t mode) {
  return (uint64_t)((at & 0x3FFFF) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | mode << 62;
}
__global__ void product(const uint4* a, const uint4* b, const unsigned* registers, unsigned* o) {
  extern __shared__ __align__(1024) uint4 s[];  // the two operands, in the layout of the descriptors
  uint4* const s_b = s + 1024;
  for (int i = threadIdx.x; i < A_BYTES / 16; i += 128) s[i] = a[i];
  for (int i = threadIdx.x; i < B_BYTES / 16; i += 128) s_b[i] = b[i];
  __syncthreads();  // TILES
  unsigned D[COUNT], A[STEPS * 4];
  for (int n = 0; n < STEPS * 4; ++n) A[n] = registers[threadIdx.x * STEPS * 4 + n];
  for (int n = 0; n < COUNT; ++n) D[n] = 0xffffffff;  // NaN
  const unsigned at_a = (unsigned)__cvta_generic_to_shared(s), at_b = (unsigned)__cvta_generic_to_shared(s_b);
  asm volatile("wgmma.fence.sync.aligned;\\n" ::: "memory");  // FENCE
#pragma unroll
  for (int k = 0; k < STEPS; ++k) {
    const uint64_t desc_a = descriptor(at_a + k * A_STEP, A_LEADING, A_STRIDE, A_MODE);
    const uint64_t desc_b = descriptor(at_b + k * B_STEP, B_LEADING, B_STRIDE, B_MODE);
    (void)desc_a;
    asm volatile("{\\n.reg .pred p;\\nsetp.ne.b32 p, %SCALE, 0;\\nwgmma.mma_async.sync.aligned.INSTRUCTION "
                 "{LIST}, FIRST, %DESC_B, pREST;\\n}\\n" : OUTPUTS : INPUTS);  // PRODUCT
  }
  asm volatile("wgmma.commit_group.sync.aligned;\\n" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;\\n" ::: "memory");  // WAIT
  for (int n = 0; n < COUNT; ++n) o[threadIdx.x * COUNT + n] = D[n];
}
"""
TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "s8": np.int8,
}
SUMS = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
N = 64  # columns
SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}


def swizzled(place, mode):
    return place ^ (place >> 7 & (SWIZZLE[mode] // 16 - 1)) << 4 if mode else place


def stored(matrix, mode, turned):
    """An operand [rows, summed] in shared memory: its bytes, and leading, stride and step of its descriptor."""
    rows, depth = matrix.shape
    width = matrix.itemsize
    swizzle = SWIZZLE[mode]
    if turned:  # units of 16 bytes along the rows
        if swizzle:
            part = swizzle // width  # rows of a part
            leading, stride = depth * swizzle, 8 * swizzle
            step = 2 * stride

            def place(row, k):
                return row // part * leading + k * swizzle + row % part * width
        else:
            leading, stride = 128, depth * 16
            step = 2 * leading

            def place(row, k):
                return row * width // 16 * stride + k // 8 * leading + k % 8 * 16 + row * width % 16
    elif swizzle:  # parts of the summed dimension, one after another
        leading, stride, step = 16, 8 * swizzle, 32

        def place(row, k):
            return k * width // swizzle * rows * swizzle + row * swizzle + k * width % swizzle
    else:
        leading, stride, step = rows * 16, 128, 2 * rows * 16

        def place(row, k):
            return k * width // 16 * leading + row * 16 + k * width % 16

    held = np.zeros(rows * max(depth * width, 0 if turned else swizzle), np.uint8)
    for row in range(rows):
        for k in range(depth):
            at = swizzled(place(row, k), mode)
            held[at : at + width] = matrix[row : row + 1, k].view(np.uint8)
    return held.view(np.int32), leading, stride, step


def registers(matrix, steps):
    """A [64, summed] in the registers of the warpgroup, four for each step."""
    per = 4 // matrix.itemsize
    found = np.zeros((128, steps, 4, per), matrix.dtype)
    for t in range(128):
        for step in range(steps):
            for n in range(4):
                row = t // 32 * 16 + t % 32 // 4 + n % 2 * 8
                k = step * 8 * per + t % 4 * per + n // 2 * 4 * per
                found[t, step, n] = matrix[row, k : k + per]
    return found.reshape(-1).view(np.int32)


def sums_of(words, of):
    """C [64, N] from the registers of the warpgroup."""
    own = words.view(SUMS[of]).reshape(128, N // 8, 2, 2)
    found = np.zeros((64, N))
    for t in range(128):
        for i in range(N // 8):
            for h in range(2):
                found[t // 32 * 16 + t % 32 // 4 + 8 * h, 8 * i + t % 4 * 2 : 8 * i + t % 4 * 2 + 2] = own[t, i, h]
    return found


def made(instruction, a_mode=1, b_mode=1, a_turned=0, b_turned=0, in_registers=False, changed=("", "")):
    depth = int(instruction.split(".")[0].partition("k")[2])
    d, a_type, b_type = instruction.split(".")[1:]
    random = np.random.default_rng(5)
    width = np.dtype(TYPES[a_type]).itemsize
    rows = [SWIZZLE[mode] for mode, turned in ((a_mode, a_turned), (b_mode, b_turned)) if mode and not turned]
    summed = min([*rows, 128]) // width  # as many as a swizzled row has
    steps = summed // depth
    a = random.integers(-8, 9, (64, summed)).astype(TYPES[a_type])
    b = random.integers(-8, 9, (N, summed)).astype(TYPES[b_type])
    held_a, *of_a = stored(a, a_mode, a_turned)
    held_b, *of_b = stored(b, b_mode, b_turned)
    count = N // 4 if d == "f16" else N // 2
    small = width == 2
    first = "{" + ", ".join(f"%{count + n}" for n in range(4)) + "}" if in_registers else f"%{count}"
    given = count + (4 if in_registers else 1)
    rest = "" if a_type == "s8" else ", 1, 1"
    rest += (f", {b_turned}" if in_registers else f", {a_turned}, {b_turned}") if small else ""
    inputs = [f'"r"(A[k * 4 + {n}])' for n in range(4)] if in_registers else ['"l"(desc_a)']
    words = {
        "OUTPUTS": ", ".join(f'"+r"(D[{n}])' for n in range(count)),
        "INPUTS": ", ".join([*inputs, '"l"(desc_b)', '"r"((int)(k > 0))']),
        "INSTRUCTION": instruction,
        "LIST": ", ".join(f"%{n}" for n in range(count)),
        "FIRST": first,
        "%DESC_B": f"%{given}",
        "%SCALE": f"%{given + 1}",
        "pREST": f"p{rest}",
        "COUNT": count,
        "STEPS": steps,
        "A_BYTES": held_a.nbytes,
        "B_BYTES": held_b.nbytes,
        **{
            f"{name}_{what}": value
            for name, of in (("A", of_a), ("B", of_b))
            for what, value in zip(("LEADING", "STRIDE", "STEP"), of)
        },
        "A_MODE": a_mode,
        "B_MODE": b_mode,
    }
    text = TEXT.replace(*changed)
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, str(words[word]))
    inputs = {"a": held_a, "b": held_b, "registers": registers(a, steps)}
    alone = Alone(text, "product", inputs, {"o": ((128 * count,), "int32")}, block=(128,), shared=32768)
    return alone, a.astype(np.float64) @ b.astype(np.float64).T, d


@pytest.mark.parametrize(
    ("instruction", "more"),
    [
        ("m64n64k16.f32.f16.f16", {}),
        ("m64n64k16.f32.bf16.bf16", {"a_mode": 2, "b_mode": 3}),
        ("m64n64k16.f16.f16.f16", {"a_mode": 0, "b_mode": 0}),
        ("m64n64k16.f32.f16.f16", {"a_turned": 1, "b_turned": 1}),
        ("m64n64k16.f32.f16.f16", {"a_mode": 0, "b_mode": 0, "a_turned": 1, "b_turned": 1}),
        ("m64n64k16.f32.bf16.bf16", {"b_turned": 1, "b_mode": 2, "in_registers": True}),
        ("m64n64k8.f32.tf32.tf32", {}),
        ("m64n64k32.f32.e4m3.e4m3", {"a_mode": 2, "b_mode": 2}),
        ("m64n64k32.s32.s8.s8", {"a_mode": 2, "b_mode": 2, "in_registers": True}),
    ],
)
def test_wgmma_gives_the_product_of_numpy(instruction, more):
    alone, expected, of = made(instruction, **more)
    for reversed_order in (False, True):
        found, faults = alone.probe(reversed_order)
        assert not faults, faults
        for outputs in (alone.run(reversed_order), found):
            np.testing.assert_array_equal(sums_of(outputs["o"], of), expected.astype(SUMS[of]))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            ('asm volatile("wgmma.wait_group.sync.aligned 0;\\n" ::: "memory");', ";"),
            "missing wait: the products of mine.cu",
        ),
        (('asm volatile("wgmma.fence.sync.aligned;\\n" ::: "memory");', ";"), "without a wgmma.fence before it"),
        (("__syncthreads();  // TILES", ";"), "line .* writes shared memory.*, and line .* of another warp reads it"),
        (("+ k * B_STEP", "+ k * B_STEP + threadIdx.x / 64 * 16"), "differs between threads of warpgroup 0"),
        (
            ("for (int k = 0; k < STEPS; ++k) {", "for (int k = 0; k < STEPS; ++k) if (threadIdx.x < 64) {"),
            "at wgmma for the rest",
        ),
    ],
)
def test_a_wrong_use_of_wgmma_is_a_fault(changed, said):
    alone, *_ = made("m64n64k16.f32.f16.f16", changed=changed)
    assert changed[0] in TEXT
    _, faults = alone.probe()
    assert any(re.search(said, fault.text) for fault in faults), faults


SHORT = ("m64n64k32.s32.s8.s8", {"a_mode": 2, "b_mode": 2, "in_registers": True})
HALF = ("m64n64k16.f32.f16.f16", {"a_turned": 1, "b_turned": 1})


@pytest.mark.parametrize(("instruction", "more"), [SHORT, HALF])
def test_nvidias_compiler_takes_the_products(instruction, more):
    alone, *_ = made(instruction, **more)
    assert nvidia_takes(alone.spec.files[0][1], "product")
