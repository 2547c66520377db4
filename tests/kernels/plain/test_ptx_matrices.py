"""Matrices and products of a warp in inline PTX: the values of NumPy for each shape, type and layout."""

import ml_dtypes
import numpy as np
import pytest
from alone import Alone, nvidia_takes

LOADED = """
#include <cstdint>
#define LDMATRIX(addr, ...) asm volatile("ldmatrix.sync.aligned.m8n8.xCOUNTTRANS.shared.b16 LIST, [%COUNT];" \\
  : __VA_ARGS__ : "r"(addr))
__global__ void copied(const unsigned* x, unsigned* o) {
  __shared__ __align__(16) unsigned tile[32 * 4];  // 32 rows of eight 16-bit numbers
  for (int i = threadIdx.x; i < 128; i += 32) tile[i] = x[i];
  __syncthreads();
  const uint32_t row = static_cast<uint32_t>(__cvta_generic_to_shared(&tile[(threadIdx.x % (8 * COUNT)) * 4]));
  unsigned r[4] = {0, 0, 0, 0};
  LDMATRIX(row, OUTPUTS);
  for (int n = 0; n < 4; ++n) o[threadIdx.x * 4 + n] = r[n];
}
"""


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_deals_rows_to_lanes(count, trans):
    outputs = ", ".join(f'"=r"(r[{n}])' for n in range(count))
    listed = "{" + ", ".join(f"%{n}" for n in range(count)) + "}"
    text = (
        LOADED.replace("OUTPUTS", outputs).replace("LIST", listed).replace("COUNT", str(count)).replace("TRANS", trans)
    )
    halves = np.random.default_rng(1).integers(0, 2**16, (4, 8, 8)).astype(np.uint16)
    expected = np.zeros((32, 4, 2), np.uint16)
    for lane in range(32):
        for n in range(count):
            matrix = halves[n].T if trans else halves[n]
            expected[lane, n] = matrix[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2]
    alone = Alone(text, "copied", {"x": halves.view(np.int32).ravel()}, {"o": ((128,), "int32")})
    alone.agrees({"o": expected.view(np.int32).ravel()})


STORED = """
__global__ void stored(const unsigned* x, unsigned* o, unsigned* turned) {
  __shared__ __align__(16) unsigned tile[32 * 4];
  const unsigned l = threadIdx.x, row = (unsigned)__cvta_generic_to_shared(&tile[l * 4]);
  for (int i = l; i < 128; i += 32) tile[i] = x[i];
  __syncthreads();
  unsigned r[4], t;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4TRANS.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(r[0]));
  turned[l] = t;
  asm volatile("stmatrix.sync.aligned.m8n8.x2TRANS.shared::cta.b16 [%0], {%1, %2};" ::"r"(row), "r"(r[1]), "r"(r[0]));
  __syncthreads();
  for (int n = 0; n < 4; ++n) o[l * 4 + n] = tile[l * 4 + n];
}
"""


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_stores_what_ldmatrix_loads_and_movmatrix_turns_a_matrix(trans):
    halves = np.random.default_rng(2).integers(0, 2**16, (4, 8, 8)).astype(np.uint16)
    expected = halves[[1, 0, 2, 3]]
    first = halves[0].T if trans else halves[0]
    turned = np.stack([first.T[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2] for lane in range(32)])
    outputs = {"o": ((128,), "int32"), "turned": ((32,), "int32")}
    alone = Alone(STORED.replace("TRANS", trans), "stored", {"x": halves.view(np.int32).ravel()}, outputs)
    alone.agrees({"o": expected.view(np.int32).ravel(), "turned": turned.view(np.int32).ravel()})


PRODUCT = """
__global__ void NAME(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* o) {
  const int l = threadIdx.x;
  unsigned A[NA], B[NB], C[NC];
  for (int n = 0; n < NA; ++n) A[n] = a[l * NA + n];
  for (int n = 0; n < NB; ++n) B[n] = b[l * NB + n];
  for (int n = 0; n < NC; ++n) C[n] = c[l * NC + n];
  asm volatile("mma.sync.aligned.INSTRUCTION {D}, {A}, {B}, {D};" : OUTPUTS : INPUTS);
  for (int n = 0; n < NC; ++n) o[l * NC + n] = C[n];
}
"""
TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
SUMS = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
PRODUCTS = [
    *("m16n8k16.row.col.f32.f16.f16.f32", "m16n8k16.row.col.f16.f16.f16.f16", "m16n8k8.row.col.f32.f16.f16.f32"),
    *("m16n8k8.row.col.f16.f16.f16.f16", "m16n8k16.row.col.f32.bf16.bf16.f32", "m16n8k8.row.col.f32.bf16.bf16.f32"),
    *("m16n8k8.row.col.f32.tf32.tf32.f32", "m16n8k4.row.col.f32.tf32.tf32.f32"),
    *("m16n8k32.row.col.s32.s8.s8.s32", "m16n8k16.row.col.s32.s8.s8.s32", "m16n8k32.row.col.satfinite.s32.u8.s8.s32"),
    *("m16n8k32.row.col.f32.e4m3.e4m3.f32", "m16n8k32.row.col.f32.e5m2.e4m3.f32", "m16n8k32.row.col.f16.e4m3.e4m3.f16"),
]


def _products():
    """The kernels of all products, and for each its name, types and depth."""
    texts, known = [], []
    for number, instruction in enumerate(PRODUCTS):
        depth = int(instruction.split(".")[0].partition("k")[2])
        d, a, b, _ = instruction.split(".")[-4:]
        width = np.dtype(TYPES[a]).itemsize
        counts = {"NA": 16 * depth * width // 128, "NB": 8 * depth * width // 128, "NC": 2 if d == "f16" else 4}
        places = dict(zip("DAB", (counts["NC"], counts["NA"], counts["NB"])))
        text, at = PRODUCT.replace("NAME", f"product{number}"), 0
        for letter, count in places.items():
            text = text.replace(f"{{{letter}}}", "{" + ", ".join(f"%{n}" for n in range(at, at + count)) + "}")
            at += count
        outputs = ", ".join(f'"+r"(C[{n}])' for n in range(counts["NC"]))
        inputs = ", ".join(f'"r"({name}[{n}])' for name in "AB" for n in range(places[name]))
        for word, value in {"OUTPUTS": outputs, "INPUTS": inputs, "INSTRUCTION": instruction, **counts}.items():
            text = text.replace(word, str(value))
        texts.append(text)
        known.append((instruction, a, b, d, depth))
    return "".join(texts), known


ALL, KNOWN = _products()


def _registers(matrix, rows_first):
    """The registers of the lanes for a matrix in the layout of mma. rows_first: A or C, whose rows go over lane / 4."""
    lines = matrix if rows_first else matrix.T  # [8 or 16, depth]
    per = 4 // lines.itemsize
    halves = len(lines) // 8
    found = np.zeros((32, halves * lines.shape[1] // (4 * per), per), lines.dtype)
    for lane in range(32):
        for n in range(found.shape[1]):
            column = lane % 4 * per + n // halves * 4 * per
            found[lane, n] = lines[lane // 4 + n % halves * 8, column : column + per]
    return found.reshape(-1).view(np.int32)


def _sums(matrix):
    """Registers of C [16, 8]: two neighbouring columns of rows lane / 4 and lane / 4 + 8."""
    found = np.zeros((32, 2, 2), matrix.dtype)
    for lane in range(32):
        for half in range(2):
            found[lane, half] = matrix[lane // 4 + 8 * half, lane % 4 * 2 : lane % 4 * 2 + 2]
    return found.reshape(-1).view(np.int32)


@pytest.mark.parametrize("number", range(len(PRODUCTS)), ids=PRODUCTS)
def test_mma_sync_gives_the_product_of_numpy(number):
    instruction, a_type, b_type, d_type, depth = KNOWN[number]
    random = np.random.default_rng(number)

    def values(shape, of):
        if np.dtype(of).kind in "iu":
            return random.integers(np.iinfo(of).min, np.iinfo(of).max, shape, dtype=of, endpoint=True)
        return (random.integers(-64, 65, shape) / 16).astype(of)  # each product and sum is exact in fp32

    a, b = values((16, depth), TYPES[a_type]), values((depth, 8), TYPES[b_type])
    c = (random.integers(-1000, 1001, (16, 8))).astype(SUMS[d_type])
    expected = (a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)).astype(SUMS[d_type])
    given = {"a": _registers(a, True), "b": _registers(b, False), "c": _sums(c)}
    alone = Alone(ALL, f"product{number}", given, {"o": (given["c"].shape, "int32")})
    alone.agrees({"o": _sums(expected)})


def test_nvidias_compiler_takes_the_products():
    assert nvidia_takes(ALL, "product0") and nvidia_takes(STORED.replace("TRANS", ""), "stored")
