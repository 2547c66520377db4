"""Inline PTX on the CPU: each instruction gives its value, a fault has its lines, and another one is refused before a
run with its line."""

import re
from pathlib import Path

import numpy as np
import pytest
from alone import Alone, nvidia_takes

from kernels.build import Mode, build
from kernels.build.plain.assembly import RULES
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BuildError
from kernels.opening import host
from kernels.run import execute
from kernels.run.check import check_case

FIRST = Path(__file__).parent / "tutorials" / "t01_static_shared.cu"
PTX = """
__device__ float by_ptx(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
}
__device__ float loaded(const float* at) {
  float y;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(y) : "l"(at));
  return y;
}
#define expf by_ptx
#define __expf by_ptx
"""
A, B, C = 0.75, 2.5, -1.5
I, J, K = 1_000_003, -77, 12
U, V = 0xF00DBEEF, 0x1234
LONG = 0x123456789ABCDEF
HALVES = 0x3E00_4100  # 1.5 above, 2.5 below
FLOAT, WHOLE, BITS = "float", "int", "unsigned"


def f(instruction, *values):
    """An instruction with a float for each value: its result is z."""
    places = ", ".join(f"%{n}" for n in range(len(values) + 1))
    given = ", ".join(f'"f"({value}f)' for value in values)
    return f'float z; asm("{instruction} {places};" : "=f"(z) : {given}); o[N] = z;'


def r(instruction, *values, to="r", by="r"):
    """As f, with whole numbers. The result's bits are z."""
    kind = {"r": "unsigned", "l": "unsigned long long", "h": "unsigned short"}[to]
    letters = by * len(values) if len(by) == 1 else by
    types = {"r": "unsigned", "l": "unsigned long long", "h": "unsigned short", "n": ""}
    places = ", ".join(f"%{n}" for n in range(len(values) + 1))
    given = ", ".join(
        f'"{letter}"({value})' if letter == "n" else f'"{letter}"(({types[letter]}){value}ll)'
        for letter, value in zip(letters, values)
    )
    return f'{kind} z; asm("{instruction} {places};" : "={to}"(z) : {given}); o[N] = (double)z;'


def s32(value):
    return (value + 2**31) % 2**32 - 2**31


def half(bits):
    return float(np.uint16(bits).view(np.float16))


ONE = {  # a statement -> the value of o[N]
    **{
        f(f"{name}.approx.ftz.f32", A): of(A)
        for name, of in {"ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos}.items()
    },
    f("rcp.rn.f32", A): 1 / A,
    f("rsqrt.approx.f32", A): A**-0.5,
    f("sqrt.rn.f32", A): A**0.5,
    f("tanh.approx.f32", A): np.tanh(A),
    f("neg.f32", A): -A,
    f("abs.f32", C): 1.5,
    f("add.rn.f32", A, B): A + B,
    f("sub.f32", A, B): A - B,
    f("mul.ftz.f32", A, B): A * B,
    f("div.full.f32", A, B): A / B,
    f("max.f32", A, C): A,
    f("min.f32", A, C): C,
    f("fma.rn.f32", A, B, C): A * B + C,
    f("fma.rn.sat.f32", A, B, C): A * B + C,
    f("add.sat.f32", A, B): 1.0,
    f("copysign.f32", C, A): -0.75,
    f("cvt.rzi.f32.f32", C): -1.0,
    'int z; asm("cvt.rni.s32.f32 %0, %1;" : "=r"(z) : "f"(2.5f)); o[N] = z;': 2,
    'double z; asm("fma.rn.f64 %0, %1, %2, %3;" : "=d"(z) : "d"(0.1), "d"(3.0), "d"(1.0)); o[N] = z;': 0.1 * 3 + 1,
    r("add.u32", U, V): (U + V) % 2**32,
    r("sub.s32", V, U): (V - U) % 2**32,
    r("mul.lo.s32", I, J): (I * J) % 2**32,
    r("mul.hi.u32", U, I): U * I >> 32,
    r("mul.wide.u32", U, I, to="l"): U * I,
    r("mul.wide.s32", I, J, to="l"): (I * J) % 2**64,
    r("mad.lo.s32", I, J, K): (I * J + K) % 2**32,
    r("mad.wide.u32", U, I, LONG, to="l", by="rrl"): U * I + LONG,
    r("div.s32", I, J): (-(I // 77)) % 2**32,
    r("rem.u32", U, V): U % V,
    r("min.s32", I, J): J % 2**32,
    r("max.u32", I, U): U,
    r("abs.s32", J): 77,
    r("and.b32", U, V): U & V,
    r("or.b32", U, V): U | V,
    r("xor.b32", U, V): U ^ V,
    r("not.b32", U): ~U % 2**32,
    r("shl.b32", U, K): (U << K) % 2**32,
    r("shr.u32", U, K): U >> K,
    r("shr.s32", J, 3): (J >> 3) % 2**32,
    r("shr.u32", U, 40): 0,
    r("popc.b32", U): bin(U).count("1"),
    r("clz.b32", V): 32 - V.bit_length(),
    r("brev.b32", V): int(f"{V:032b}"[::-1], 2),
    r("lop3.b32", U, V, I, "0x96", by="rrrn"): U ^ V ^ I,
    r("prmt.b32", U, V, "0x5410"): 0x1234BEEF,
    r("bfe.u32", U, 8, 12): U >> 8 & 0xFFF,
    r("bfe.s32", U, 28, 4): 0xFFFFFFFF,
    r("bfi.b32", V, U, 4, 8): U & ~0xFF0 | (V & 0xFF) << 4,
    r("shf.l.wrap.b32", U, V, 8): (V << 8 | U >> 24) % 2**32,
    r("shf.r.clamp.b32", U, V, 8): (V << 32 | U) >> 8 & 0xFFFFFFFF,
    r("dp4a.s32.s32", 0x01FF0203, 0x01010101, 7): 1 - 1 + 2 + 3 + 7,
    r("selp.b32", U, V, 1, by="rrr").replace(
        '"selp.b32 %0, %1, %2, %3;"', '"{.reg .pred p; setp.ne.s32 p, %3, 0; selp.b32 %0, %1, %2, p;}"'
    ): U,
    r("cvt.u64.u32", U, to="l"): U,
    r("cvt.s64.s32", J, to="l"): J % 2**64,
    r("cvt.u32.u16", 0x8001, by="h"): 0x8001,
    r("mov.b64", U, V, to="l").replace('"mov.b64 %0, %1, %2;"', '"mov.b64 %0, {%1, %2};"'): V << 32 | U,
    "unsigned z, y; " + 'asm("mov.b64 {%0, %1}, %2;" : "=r"(y), "=r"(z) : "l"(81985529216486895ull)); o[N] = z;': LONG
    >> 32,
    r("add.f16x2", HALVES, HALVES): 0x4200_4500,
    r("fma.rn.f16x2", HALVES, HALVES, HALVES): 0x4380_4860,
    r("max.bf16x2", 0x3F80_4000, 0x4000_3F80): 0x4000_4000,
    'unsigned z; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(z) : "f"(1.5f), "f"(2.5f)); o[N] = z;': HALVES,
    'unsigned z; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(z) : "f"(1.f), "f"(2.f)); o[N] = z;': 0x3F80_4000,
    'unsigned z; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(z) : "f"(1.0009765f)); o[N] = z;': 0x3F802000,
    'unsigned z; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(z) : "h"((unsigned short)0x7E38)); o[N] = z;': 0x5F00_3C00,
}
KERNEL = """
#define EX2(y, x) \\
  asm volatile("ex2.approx.ftz.f32 %0, %1;" \\
               : "=f"(y) : "f"(x))
#define STRING(x) #x
#define RAW(y, x) asm volatile(STRING(ex2.approx) R"(.f32 %0, %1;)" : "=f"(y) : "f"(x))
#define UNUSED() asm volatile("tcgen05.fence::before_thread_sync;")
inline __device__ void never() { asm volatile("tcgen05.fence::before_thread_sync;"); }
__global__ void every(const float* x, float* o, int* kept) {
  __shared__ float s[32];
  const float A = 0.75f, B = 2.5f;
  BODY
}
"""


def _forms():
    """The blocks of ptx_forms.cu -> the value of o[N]."""
    blocks = re.split(r"^// = (.*)$", (Path(__file__).parent / "ptx_forms.cu").read_text(), flags=re.M)[1:]
    return {code: float(value) for value, code in zip(blocks[::2], blocks[1::2])}


TRIED = {**ONE, **_forms()}


def body():
    """The statements of TRIED, with a place in o for each."""
    rows = [f"{{ {code.replace('[N]', f'[{n}]')} __syncthreads(); }}" for n, code in enumerate(TRIED)]
    return re.sub(r"o\[(\d+)\] = ([^;]+);", r"if (!threadIdx.x) o[\1] = \2;", "\n  ".join(rows))


def test_each_accepted_instruction_gives_its_value_on_the_cpu():
    tried = TRIED
    inputs = {"x": np.arange(64, dtype=np.float32)}
    alone = Alone(
        KERNEL.replace("BODY", body()), "every", inputs, {"o": ((len(tried),), "float32"), "kept": ((1,), "int32")}
    )
    expected = np.array([float(value) for value in tried.values()])
    for reversed_order in (False, True):
        values = alone.run(reversed_order)["o"]
        wrong = [(c, v, e) for (c, e), v in zip(tried.items(), values) if not np.isclose(v, e, rtol=1e-6)]
        assert not wrong
    alone.agrees({"o": expected}, rtol=1e-6)


def test_each_accepted_first_word_is_tried():
    files = [path.read_text() for path in sorted(Path(__file__).parent.glob("test_ptx_*.py"))]
    tried = "".join([*files, *ONE, *_forms()])
    assert not [word for word in RULES if not re.search(rf"\b{word}\b[.; ]", tried)]


def test_the_first_tutorial_with_an_exponential_and_a_load_in_ptx_is_right(tmp_path):
    text, load = FIRST.read_text(), "K[head + (start + r) * head_dim + d]"
    assert "expf(" in text and load in text
    path = tmp_path / "mine.cu"
    text = text.replace(load, f"loaded(&{load})").replace("#define TILE 32", f"{PTX}#define TILE 32", 1)
    path.write_text(text)
    kernel = load_kernel(path)
    shown = sample(kernel)
    problem = shown.problem.with_fields(seq_len=40)
    settings = tuple(kernel.settings(shown.settings).items())
    verdicts = check_case(kernel, Case(problem, settings), "cpu")
    assert len(verdicts) == 2 and all(verdict.ok and not verdict.faults for verdict in verdicts), verdicts
    request = Request(kernel, problem, settings, Scope(), "cpu")
    assert "ex2.approx.ftz.f32" in build(kernel, request.defines, Mode.TIMED, "sm_90a").ptx_path.read_text()
    frame = execute.run(request).trace.frame("line", "event", "tensor")
    loads = frame[(frame.event == "load") & (frame.tensor == "K")]
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "ld.global" in each)
    assert set(loads.line) == {line}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ('asm volatile("tcgen05.fence::before_thread_sync;");', "tcgen05.fence::before_thread_sync"),
        ("UNUSED();", "tcgen05.fence::before_thread_sync"),
        ("never();", "tcgen05.fence::before_thread_sync"),
        ('float y; asm("mov.f32 %[to], 0f00000000;" : [to] "=f"(y));', "the operand [to] "),
        ('float y = 1; asm("add.f32 %0, %0, %0;" : "=f"(y) : "0"(y));', 'the constraint "0" of an operand'),
        ('asm(".incbin \\"/etc/passwd\\";");', ".incbin"),
        ('asm volatile("add.rz.f32 %0, %0, %0;" : "+f"(o[0]));', "add.rz.f32"),
        ('unsigned n; asm("mov.u32 %0, %%nosuch;" : "=r"(n));', "mov.u32 with the operand %nosuch"),
        ('unsigned n; asm("mov.b32 %0, %1;" : "=r"(n) : "l"(o));', "mov.b32 with an operand of another type"),
        ('float y = 1; asm("add.f32 %0, %0, %1;" : "+f"(y) : "r"(3));', "add.f32 with an operand of another type"),
        ('float y; asm("cvt.rni.s32.f32 %0, %0;" : "=f"(y));', "cvt.rni.s32.f32 with an operand of another type"),
        ('asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=f"(o[0]) : "r"(1));', "mapa.shared::cluster.u32"),
        ('asm("st.global.f32 [%0], 0f3F800000;" :: "r"(3));', "st.global.f32 with an address of another type"),
    ],
)
def test_other_ptx_is_refused_before_a_run_with_its_line(code, said):
    text = KERNEL.replace("BODY", code)
    line = 1 + KERNEL.partition("void never()" if code == "never();" else "BODY")[0].count("\n")
    alone = Alone(text, "every", {"x": np.zeros(4, np.float32)}, {"o": ((4,), "float32"), "kept": ((1,), "int32")})
    for run in (alone.run, alone.probe):
        with pytest.raises(BuildError) as refused:
            run()
        assert f"mine.cu line {line}: the CPU has no meaning for its inline PTX ({said}" in str(refused.value)


@pytest.mark.parametrize("code", ['int n asm("r1");', "OTHER(x);"])
def test_an_asm_that_is_no_statement_does_not_compile(code):
    text = KERNEL.replace("BODY", code).replace("#define STRING", "#define OTHER(n) int f() asm(#n)\n#define STRING", 1)
    with pytest.raises(BuildError, match=r"mine.cu line \d+: "):
        Alone(text, "every", {"x": np.zeros(4, np.float32)}, {"o": ((4,), "float32"), "kept": ((1,), "int32")}).run()


PROGRAM = """
#include <cstdio>
#define COPY(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\n" ::"r"(to), "l"(from))
__global__ void twice(const float* a, float* b) {
  __shared__ __align__(16) float s[128];
  const int t = threadIdx.x, first = blockIdx.x * 128;
  COPY((unsigned)__cvta_generic_to_shared(&s[4 * t]), a + first + 4 * t);
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  for (int e = t; e < 128; e += 32) b[first + e] = 2.f * s[e];
}
int main() {
  float h[256], *a, *b;
  for (int i = 0; i < 256; ++i) h[i] = i;
  cudaMalloc(&a, sizeof h), cudaMalloc(&b, sizeof h);
  cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
  twice<<<2, 32>>>(a, b);
  cudaMemcpy(h, b, sizeof h, cudaMemcpyDeviceToHost);
  int right = 0;
  for (int i = 0; i < 256; ++i) right += h[i] == 2.f * i;
  printf("%d of 256 right\\n", right);
  return right < 256;
}
"""


def test_a_program_with_ptx_runs_its_main_and_names_the_line_of_what_it_lacks():
    found = host.run("mine.cu", PROGRAM)
    assert found.code == 0 and found.printed == "256 of 256 right\n"
    line = 1 + PROGRAM.partition("cp.async.wait_all")[0].count("\n")
    with pytest.raises(BuildError, match=rf"^mine.cu line {line}: the CPU has no meaning for its inline PTX \(tcgen05"):
        host.run("mine.cu", PROGRAM.replace("cp.async.wait_all", "tcgen05.wait"))


def test_nvidias_compiler_takes_each_tried_instruction():
    text = KERNEL.replace("BODY", body()).replace("tcgen05.fence::before_thread_sync", "membar.cta")
    assert nvidia_takes(text, "every")
