"""The picture `descriptor`: its rule against the products of the CPU shim and against NumPy's layouts; its tiles."""

import random

import numpy as np
import pytest
from alone import Alone
from hand_rules import applied

from app.stories import pipeline as page
from explainers.stories.pipeline import descriptor, marks

CASES = 200
SWIZZLE = (0, 128, 64, 32)  # bytes, by layout type
N, DEPTH = 64, 16  # of the product: columns, and numbers of the sum
SHARED = 32768  # bytes, each 16 of them with their own number
CHUNKS = SHARED // 16  # a half has each number up to 2,048

# Row k of A has a single 1, in column k. So row k of C is what the descriptor of B gives for k.
TEXT = """
#include <cstdint>
__global__ void product(const unsigned long long* descriptors, const int* turned, const unsigned* ones, float* o) {
  extern __shared__ __align__(1024) uint16_t s[];
  const __half* none = nullptr;
  (void)none;
  for (int i = threadIdx.x; i < SHARED / 2; i += 128) s[i] = __half_as_ushort(__int2half_rn(i / 8));
  __syncthreads();
  float D[32];
  for (int n = 0; n < 32; ++n) D[n] = 0;
  unsigned A[4];
  for (int n = 0; n < 4; ++n) A[n] = ones[threadIdx.x * 4 + n];
  const uint64_t b = descriptors[blockIdx.x];
  asm volatile("wgmma.fence.sync.aligned;\\n" ::: "memory");
  if (turned[blockIdx.x])
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {LIST}, {%32, %33, %34, %35}, %36, 0, 1, 1, 1;\\n"
                 : OUTPUTS : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "l"(b));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {LIST}, {%32, %33, %34, %35}, %36, 0, 1, 1, 0;\\n"
                 : OUTPUTS : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;\\n" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;\\n" ::: "memory");
  for (int n = 0; n < 32; ++n) o[(blockIdx.x * 128 + threadIdx.x) * 32 + n] = D[n];
}
"""


def random_case(number):
    """Fields of a descriptor, whether it is turned, and rows and units of an instruction: all inside shared memory."""
    pick = random.Random(number)
    turned = pick.random() < 0.5
    fields = {name: pick.randrange(most) for name, most in (("start", 512), ("leading", 128), ("stride", 128))}
    return [fields | {"type": pick.randrange(4)}, turned, *((DEPTH, N // 8) if turned else (N, DEPTH // 8))]


def products(cases):
    """The numbers of the 16-byte chunks [case, k, n] that the shim reads for B [k, n] of each descriptor."""
    ones = np.zeros((128, 4, 2), np.float16)
    for t in range(128):
        for n in range(4):
            for e in range(2):
                row, k = t // 32 * 16 + t % 32 // 4 + n % 2 * 8, t % 4 * 2 + e + n // 2 * 8
                ones[t, n, e] = row == k
    text = TEXT.replace("OUTPUTS", ", ".join(f'"+f"(D[{n}])' for n in range(32))).replace("SHARED", str(SHARED))
    text = text.replace("LIST", ", ".join(f"%{n}" for n in range(32)))
    inputs = {
        "descriptors": np.array([int(found["bits"], 2) for _, found in cases], np.uint64).view(np.int64),
        "turned": np.array([turned for (_, turned, *_), _ in cases], np.int32),
        "ones": ones.reshape(-1).view(np.int32),
    }
    outputs = {"o": ((len(cases) * 128 * 32,), "float32")}
    alone = Alone(text, "product", inputs, outputs, grid=(len(cases),), block=(128,), shared=SHARED)
    own = alone.run()["o"].reshape(len(cases), 4, 8, 4, N // 8, 2, 2)  # warp, row, pair of columns, eight, half, column
    return own[:, 0].transpose(0, 4, 1, 3, 2, 5).reshape(len(cases), DEPTH, N)


def test_the_rule_reads_what_the_shim_reads():
    asked = [random_case(number) for number in range(CASES)]
    cases = list(zip(asked, applied("descriptor", asked), strict=True))
    for (fields, turned, *_), found, chunks in (
        (*case, read) for case, read in zip(cases, products(cases), strict=True)
    ):
        places = np.array(found["places"]) // 16
        due = np.repeat(places if turned else places.T, 8, axis=1 if turned else 0)
        np.testing.assert_array_equal(chunks, due, err_msg=f"{fields}, turned {turned}")
    assert {(fields["type"], turned) for (fields, turned, *_), _ in cases} == {(n, t) for n in range(4) for t in (0, 1)}


TILES = [  # rows, dims, turned, chunks of an instruction
    (128, 128, False, 128),
    (192, 64, False, 128),
    (64, 256, False, 128),
    (128, 128, True, 256),
    (96, 64, True, 128),
    (64, 256, True, 512),
]


def layout(rows, columns, swizzle):
    """Where the 16-byte chunks [row, chunk] of a tile are: panels of `swizzle` bytes of each row, one after another,
    with the chunks of a line of 128 bytes exchanged as the bits of its number say."""
    row, unit = np.indices((rows, columns // 8))
    per = max(1, swizzle // 16)
    place = (unit // per * rows + row) * per + unit % per
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    return 16 * (place ^ (place >> 3 & mask))


@pytest.fixture(scope="module")
def operands():
    """(rows, columns, turned, swizzle, step, chunks, found) of each tile, swizzle and instruction of its sum."""
    asked, more = [], []
    for rows, columns, turned, chunks in TILES:
        for swizzle in SWIZZLE:
            for step in range((rows if turned else columns) // DEPTH):
                tile = {"rows": rows, "units": columns // 8, "turned": turned}
                asked.append([tile, swizzle, step, DEPTH if turned else 64])
                more.append((rows, columns, turned, swizzle, step, chunks))
    return [(*case, found) for case, found in zip(more, applied("operand", asked), strict=True)]


def test_the_right_fields_read_each_instruction_of_every_tile_swizzle_and_order(operands):
    for rows, columns, turned, swizzle, step, chunks, found in operands:
        case = f"{rows} x {columns}, turned {turned}, swizzle {swizzle}, step {step}"
        np.testing.assert_array_equal(found["places"], layout(rows, columns, swizzle), err_msg=case)
        assert found["step"] == step, case
        assert found["right"] == (chunks if step == 0 else 0), case


def test_the_offsets_are_those_of_the_isa(operands):
    """PTX ISA, strides of wgmma operands: K-major without a swizzle has the second 16 bytes of a row at the leading
    offset. With one, it ignores the leading offset. MN-major without a swizzle has the next 8 columns at the stride
    offset, and the next eight rows of the sum at the leading offset. With one, it has them the other way round."""
    for rows, columns, turned, swizzle, _, _, found in operands:
        wide = swizzle or 16
        panel, eight = rows * wide, 8 * wide
        leading = {(False, False): panel, (False, True): 16, (True, False): eight, (True, True): panel}
        if turned and swizzle and 2 * columns <= swizzle:
            leading[True, True] = 16  # no second panel
        stride = panel if turned and not swizzle else eight
        assert found["fields"]["leading"] * 16 == leading[turned, swizzle > 0]
        assert found["fields"]["stride"] * 16 == stride


def test_the_bits_are_those_of_our_kernels(operands):
    """wgmma_tiles.cuh: rows_operand has the offsets 16 and 1,024, values_operand BLOCK_KV * 128 and 1,024."""
    bits = {(*case[:5],): int(case[-1]["bits"], 2) for case in operands}
    assert bits[128, 128, False, 128, 0] == 16 >> 4 << 16 | 1024 >> 4 << 32 | 1 << 62
    assert bits[128, 128, True, 128, 0] == 128 * 128 >> 4 << 16 | 1024 >> 4 << 32 | 1 << 62
    assert bits[128, 128, True, 128, 3] - bits[128, 128, True, 128, 0] == 3 * 16 * 128 >> 4  # operand_at(v, k * 128)
    assert bits[128, 128, False, 128, 1] - bits[128, 128, False, 128, 0] == 16 * 2 >> 4


@pytest.fixture(scope="module")
def story():
    return marks.explain(page.of("11_overlap")[0].load())


def test_the_picture_has_the_tiles_of_the_kernels_copies(story):
    (view,) = descriptor.views(story)
    queries, values = view.meta["operands"]
    assert (queries["name"], queries["rows"], queries["columns"], queries["turned"]) == ("Q", 128, 128, False)
    assert (values["name"], values["rows"], values["columns"], values["turned"]) == ("V", 128, 128, True)
    assert view.meta["swizzle"] == 128 and view.meta["phases"] == list(descriptor.PHASES)


def test_a_head_of_one_panel_has_no_step_on_the_leading_offset():
    short = next(entry for entry in page.of("11_overlap") if entry.request.problem.head_dim == 64)
    (view,) = descriptor.views(marks.explain(short.load()))
    assert [phase for phase in descriptor.PHASES if phase not in view.meta["phases"]] == ["leading"]
    assert [one["rows"] for one in view.meta["operands"]] == [192, 96]


def test_the_steps_light_the_lines_that_make_descriptors(story):
    (view,) = descriptor.views(story)
    text = story.made.request.kernel.files[0][1].splitlines()
    lit = [text[int(place.rpartition(":")[2]) - 1] for place in view.meta["frames"][0]["lines"]]
    assert len(lit) == 2 and "rows_operand(&Q_smem" in lit[0] and "values_operand(V_smem)" in lit[1]


def test_its_sentences_are_headlines(story):
    (view,) = descriptor.views(story)
    assert max(len(frame["sentence"].split()) for frame in view.meta["frames"]) <= 12
    assert max(len(text.split()) for text in view.meta["words"].values()) <= 12


@pytest.mark.parametrize("name", ["08_pipeline", "backward_5_hopper"])
def test_a_kernel_without_such_operands_has_no_such_picture(name):
    assert descriptor.views(marks.explain(page.of(name)[0].load())) == []
