"""Answers that pass an exercise without its solution, by hiding accesses from the check. Each is refused."""

import os
from dataclasses import replace

import pytest

from kernels import exercises
from kernels.build import cpp
from kernels.build.plain import toolchain
from kernels.build.plain.toolchain import Toolchain
from kernels.catalog import KERNELS
from kernels.errors import BuildError
from kernels.exercises import grading

ALL = exercises.listed()
ATOMIC, BANKS, SECTORS = "shared_sums", "bank_conflict", "fewer_sectors"
SILENT = '__attribute__((no_sanitize("thread")))'


def head(name, text):
    return ALL[name].start.replace("#define ", f"{text}\n#define ", 1)


def kernels(name, words, text=""):
    start = head(name, text).replace('extern "C" __global__', f'extern "C" {words} __global__')
    return start.replace("__device__ float score", f"{words} __device__ float score")


def loads(text):
    """The start of SECTORS, whose loads of K and V call rd(), a function of the text."""
    start = head(SECTORS, text)
    for name in "KV":
        start = start.replace(f"{name}[head + key * HEAD_DIM + d]", f"rd({name} + head + key * HEAD_DIM + d)")
    return start


def rd(body, before=""):
    return loads(f"{before}\nstatic __device__ float rd(const float* p) {{ {body} }}")


def swapped(name, *edits):
    text = ALL[name].start
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


POINTED = (
    'extern "C" void* {0}(void*, const void*, size_t);\nstatic void* (*volatile by)(void*, const void*, size_t) = {0};'
)
PASTE = "#define P(a, b) a##b\n"
OFF = 'extern "C" void P(sim, t_quiet)(int); static int off_ = (P(sim, t_quiet)(1), 0);'
DECLS = (
    f'{PASTE}#undef __BEGIN_DECLS\n#define __BEGIN_DECLS {OFF} extern "C" {{{{\n{{}}\n'
    '#undef __BEGIN_DECLS\n#define __BEGIN_DECLS extern "C" {{'
)
ADD = ("O_sum[query * head_dim + thread] += o;", "if (thread == 0) l_sum[query] += l;")
FENCED = "atomicAdd(&{0}, 0.f); {0} += {1}; __threadfence(); atomicAdd(&{0}, 0.f);"
TILE = "__shared__ float k_tile[TILE][MAX_DIM], v_tile[TILE][MAX_DIM];"
BODY = "  const int row = blockIdx.x * ROWS + threadIdx.x;\n"

REFUSED = {  # by their text, before any run
    **{
        f"an attribute in {name}": (name, kernels(name, SILENT)) for name in (ATOMIC, BANKS, SECTORS, "missing_barrier")
    },
    "a pasted attribute": (
        ATOMIC,
        kernels(ATOMIC, "H", '#define P(a, b) a##b\n#define H P(__attri, bute__)((P(no_sani, tize)("thread")))'),
    ),
    "a spliced attribute": (ATOMIC, kernels(ATOMIC, '__attri\\\nbute__((no_san\\\nitize("thread")))')),
    "an attribute in C++'s form": (
        SECTORS,
        kernels(SECTORS, "").replace('extern "C"', '[[gnu::no_sanitize_thread]] extern "C"'),
    ),
    "an attribute in digraphs": (SECTORS, head(SECTORS, '<:<:using gnu: no_sanitize("thread"):>:> void f();')),
    "two attributes": (BANKS, kernels(BANKS, "__attribute__((aligned(16), __no_sanitize_thread__))")),
    "an attribute on a second declaration": (BANKS, head(BANKS, f"__device__ void a(); {SILENT} __device__ void a();")),
    "disable_sanitizer_instrumentation": (
        ATOMIC,
        kernels(ATOMIC, "__attribute__((disable_sanitizer_instrumentation))"),
    ),
    "optimize": (ATOMIC, kernels(ATOMIC, '__attribute__((optimize("no-sanitize=thread")))')),
    "a pragma": (SECTORS, head(SECTORS, '#pragma GCC optimize("no-sanitize=thread")')),
    "a pragma by _Pragma": (SECTORS, head(SECTORS, '_Pragma("GCC push_options") _Pragma("GCC optimize(\\"O3\\")")')),
    "a name by a pragma": (SECTORS, head(SECTORS, "#pragma redefine_extname __tsan_read4 simt_clock")),
    "assembly": (SECTORS, rd('float x; __asm__("movss (%1), %0" : "=x"(x) : "r"(p)); return x;')),
    "pasted assembly": (
        SECTORS,
        rd('float x; A(__as, m__)("movss (%1), %0" : "=x"(x) : "r"(p)); return x;', "#define A(a, b) a##b"),
    ),
    "a label of assembly": (
        SECTORS,
        rd(
            "q(1); return *p;",
            '#define A(a, b) a##b\nextern "C" __device__ void q(int) A(as, m)("simt_quiet");',
        ),
    ),
    "a load of the processor": (SECTORS, rd("return __builtin_ia32_loadups(p)[0];")),
    "the compiler's atomics": (ATOMIC, swapped(ATOMIC, (ADD[1], "if (thread == 0) __atomic_load_n((int*)l_sum, 0);"))),
    "#line": (ATOMIC, kernels(ATOMIC, SILENT, '#line 1 "/usr/include/math.h"')),
    "a forged header": (ATOMIC, kernels(ATOMIC, SILENT, '# 1 "/usr/include/math.h" 1 3')),
    "the runtime's switch": (
        BANKS,
        head(BANKS, 'extern "C" void simt_quiet(int);\nstatic int off = (simt_quiet(1), 0);'),
    ),
    "a pasted name of the runtime": (
        BANKS,
        head(
            BANKS,
            '#define P(a, b) a##b\nextern "C" void P(sim, t_quiet)(int);\nstatic int off = (P(sim, t_quiet)(1), 0);',
        ),
    ),
    "the address of the runtime": (
        BANKS,
        head(BANKS, "static void (*quiet)(int) = (void (*)(int))((char*)&simt_thread_idx + 1000);"),
    ),
    "the runtime's namespace": (BANKS, head(BANKS, "namespace simt { extern bool quiet; }")),
    "probes by hand": (SECTORS, head(SECTORS, '#include "common.cuh"')),
    "a search of C": (
        SECTORS,
        rd(
            "unsigned x = 0; for (int i = 0; i < 32; i += 8) for (int b = 0; b < 256; ++b)\n"
            "if (memchr((const char*)p + i / 8, b, 1)) { x |= b << i; break; } return __uint_as_float(x);"
        ),
    ),
    "dlsym": (
        BANKS,
        head(
            BANKS,
            'extern "C" void* dlsym(void*, const char*);\n'
            '__device__ void* f() { return dlsym(0, "PyRun_SimpleString"); }',
        ).replace("float m =", "if (f()) return;\n  float m ="),
    ),
    "a system call": (
        BANKS,
        head(BANKS, 'extern "C" long syscall(long, ...);').replace("float m =", "syscall(39);\n  float m ="),
    ),
    "a thread": (
        BANKS,
        head(BANKS, 'extern "C" int pthread_create(void*, void*, void* (*)(void*), void*);').replace(
            "float m =", "pthread_create(0, 0, 0, 0);\n  float m ="
        ),
    ),
    "sprintf": (
        BANKS,
        head(BANKS, 'extern "C" int sprintf(char*, const char*, ...);').replace(
            "float m =", 'char b[9]; sprintf(b, "%d", 1);\n  float m ='
        ),
    ),
    "memory of its own": (
        BANKS,
        swapped(BANKS, (TILE, TILE + " float* mine = new float[64];\n  if (mine == K) return;")),
    ),
    "a probe of its own": (BANKS, kernels(BANKS, "", 'extern "C" void __tsan_read4(void*);')),
    "a macro in place of a probe": (BANKS, head(BANKS, "#undef SIMT_REPORT\n#define SIMT_REPORT(p, bytes, kind)")),
    "a forged header in a literal": (BANKS, head(BANKS, 'const char* m = R"(\f# 1 "a.h" 1\f# 1 "b.h" 1\f)";' + OFF)),
    "a forged header between lines of Unicode": (
        BANKS,
        head(BANKS, 'const char* m = R"(\u2028# 1 "a.h" 1\u2028# 1 "b.h" 1\u2028)";' + OFF),
    ),
    "a name with a dollar": (
        BANKS,
        head(BANKS, f'[[clang::noinline($R"(")]] void f(); {OFF} [[clang::noinline(")")]] void g();'),
    ),
    "a suffix with a dollar": (
        BANKS,
        head(BANKS, f'const char* operator""_$R(const char*, size_t); auto a = "a"_$R"("; {OFF} auto b = ")";'),
    ),
    **{
        f"a macro of a header, {form}": (BANKS, head(BANKS, DECLS.format(form)))
        for form in ("#/**/include <assert.h>", "%:include <assert.h>")
    },
    "the runtime's source": (BANKS, head(BANKS, '#include "runtime.cpp"')),
    "a macro below the kernel": (
        BANKS,
        head(BANKS, f"{PASTE}#undef SIMT_PLAIN_EXPORT\n#define SIMT_PLAIN_EXPORT(symbol, ...) {OFF}"),
    ),
    "a macro of the launch": (BANKS, head(BANKS, f"{PASTE}#define int {OFF} int")),
    "a macro of the entry": (
        BANKS,
        f"{ALL[BANKS].start}\n{PASTE}#define flash flash, a); }}, args); }} {OFF} int f_(void* request, void** args) "
        "{ return P(sim, t_run)(request, [](void** a) { P(sim, t_call)(&flash\n",
    ),
    "a macro of another build": (
        ATOMIC,
        ALL[ATOMIC].solution.replace(
            "#define TILE",
            "#ifndef __SANITIZE_THREAD__\n"
            "#undef atomicAdd\n#define atomicAdd(p, v) (*(p) += (v))\n#endif\n#define TILE",
        ),
    ),
    "a macro of the compiler": (
        ATOMIC,
        ALL[ATOMIC].solution.replace(
            "#define TILE",
            "#ifndef __GNUG__\n#undef atomicAdd\n#define atomicAdd(p, v) (*(p) += (v))\n#endif\n#define TILE",
        ),
    ),
}

CAUGHT = {  # by a run: the kinds of its evidence, of which one is found
    "memcpy by a pointer": (
        SECTORS,
        rd("float x; by(&x, p, 4); return x;", POINTED.format("memcpy")),
        {"global memory"},
    ),
    "memmove by a pointer": (
        SECTORS,
        rd("float x; by(&x, p, 4); return x;", POINTED.format("memmove")),
        {"global memory"},
    ),
    "memcpy of unknown size": (
        SECTORS,
        rd("float x; volatile int n = 4; memcpy(&x, p, n); return x;"),
        {"global memory"},
    ),
    "std::copy": (
        SECTORS,
        rd("float x; std::copy(p, p + 1, &x); return x;", "#include <algorithm>"),
        {"global memory"},
    ),
    "volatile": (SECTORS, rd("return *(const volatile float*)p;"), {"global memory"}),
    "a struct of a row": (
        SECTORS,
        rd(
            "if (d % HEAD_DIM == 0) row = *(const Row*)p; return row.x[d++ % HEAD_DIM];",
            "struct Row { float x[HEAD_DIM]; };",
        )
        .replace("rd(K +", "rd(row_k, d_k, K +")
        .replace("rd(V +", "rd(row_v, d_v, V +")
        .replace("rd(const float* p)", "rd(Row& row, int& d, const float* p)")
        .replace(BODY, BODY + "  Row row_k, row_v; int d_k = 0, d_v = 0;\n"),
        {"global memory"},
    ),
    "a struct as an argument": (
        SECTORS,
        rd(
            "return same(*(const One*)p).x;",
            "struct One { float x; };\nstatic __device__ __noinline__ One same(One one) { return one; }",
        ),
        {"hidden access"},
    ),
    "a struct by a function's address": (
        SECTORS,
        rd(
            "return same(*(const One*)p).x;",
            "struct One { float x; };\nstatic One plain(One one) { return one; }\n"
            "static One (*volatile same)(One) = plain;",
        ).replace("static One plain", "static __device__ One plain"),
        {"hidden access"},
    ),
    "a struct as a result": (
        ATOMIC,
        swapped(
            ATOMIC,
            (ADD[0], "*(One*)&O_sum[query * head_dim + thread] = sum(O_sum[query * head_dim + thread] + o);"),
            (
                "#define TILE",
                "struct One { float x; };\nstatic __device__ __noinline__ One sum(float x) { return {x}; }\n"
                "#define TILE",
            ),
        ),
        {"hidden store", "hidden access", "atomic"},
    ),
    "a static in place of shared memory": (
        BANKS,
        swapped(
            BANKS,
            (
                TILE,
                TILE.replace(
                    "__shared__ float k_tile[TILE][MAX_DIM],", "static float k_tile[TILE][MAX_DIM]; __shared__ float"
                ),
            ),
        ),
        {"static"},
    ),
    "a macro in place of shared memory": (
        BANKS,
        swapped(BANKS, (TILE, TILE.replace("__shared__", "TOGETHER"))).replace(
            "#define ROWS", "#define TOGETHER __shared__\n#define ROWS"
        ),
        {"static"},
    ),
    "shared memory of another name": (
        BANKS,
        head(BANKS, "#undef __shared__\n#define __shared__ static thread_\\\nlocal"),
        {"does not compile", "static", "out of bounds"},
    ),
    "a variable of the program": (
        BANKS,
        swapped(BANKS, (TILE, TILE.replace("k_tile[TILE][MAX_DIM], ", ""))).replace(
            "// O = softmax", "__device__ float k_tile[TILE][MAX_DIM];\n// O = softmax", 1
        ),
        {"static"},
    ),
    "the memory of another thread": (
        BANKS,
        swapped(
            BANKS,
            (
                TILE,
                "__shared__ float v_tile[TILE][MAX_DIM];\n  __shared__ float* at;\n  float mine[TILE * MAX_DIM];\n"
                "  if (threadIdx.x + threadIdx.y == 0) at = mine;\n  __syncthreads();\n"
                "  float (*k_tile)[MAX_DIM] = (float (*)[MAX_DIM])at;",
            ),
        ),
        {"out of bounds"},
    ),
    "a fence and atomics": (
        ATOMIC,
        swapped(
            ATOMIC,
            (ADD[0], FENCED.format("O_sum[query * head_dim + thread]", "o")),
            (ADD[1], "if (thread == 0) { " + FENCED.format("l_sum[query]", "l") + " }"),
        ),
        {"atomic"},
    ),
    "a volatile sum": (ATOMIC, swapped(ATOMIC, (ADD[0], "*(volatile float*)&" + ADD[0])), {"atomic"}),
    "a sum by a template": (
        ATOMIC,
        swapped(
            ATOMIC,
            (ADD[0], "add<4>(O_sum[query * head_dim + thread], o);"),
            (
                "#define TILE",
                "inline namespace a {\n"
                "template <int N> struct Adds {\n"
                "  static __device__ void to(float& s, float v) { Adds<N - 1>::to(s, v); }\n};\n"
                "template <> struct Adds<0> { static __device__ void to(float& s, float v) { s += v; } };\n"
                "template <int N> __device__ void add(float& s, float v) { Adds<N>::to(s, v); }\n}\n#define TILE",
            ),
        ),
        {"atomic"},
    ),
    "an operator": (
        ATOMIC,
        swapped(
            ATOMIC,
            (ADD[0], "Sum{O_sum + query * head_dim + thread} += o;"),
            (
                "#define TILE",
                "struct Sum { float* p; __device__ void operator+=(float v) { *p = *p + v; } };\n#define TILE",
            ),
        ),
        {"atomic"},
    ),
    "atomicAdd by a macro that tells builds apart": (
        ATOMIC,
        ALL[ATOMIC].solution.replace(
            "#define TILE",
            "#define P(a, b) a##b\n#if !P(__SANI, TIZE_THREAD__) && !P(PRO, BED)\n#undef atomicAdd\n"
            "#define atomicAdd(p, v) (*(p) += (v))\n#endif\n#define TILE",
        ),
        {"atomic"},
    ),
    "a macro of a header": (BANKS, head(BANKS, DECLS.format("#include <assert.h>")), {"bank conflict"}),
    "a macro of a quoted header": (BANKS, head(BANKS, DECLS.format('#include "assert.h"')), {"bank conflict"}),
    "atomicAdd by a macro": (
        ATOMIC,
        ALL[ATOMIC].solution.replace(
            "#define TILE", "#undef atomicAdd\n#define atomicAdd(p, v) (*(p) += (v))\n#define TILE"
        ),
        {"atomic"},
    ),
    "main": (ATOMIC, ALL[ATOMIC].start + "\nint main() { return 0; }\n", {"atomic"}),
    "another __global__": (
        ATOMIC,
        head(ATOMIC, "#undef __global__\n#define __global__ __attribute__((noinline))"),
        {"atomic"},
    ),
    "C's own functions replaced": (
        ATOMIC,
        head(
            ATOMIC,
            'extern "C" void* calloc(size_t, size_t) { return 0; }\n'
            'extern "C" int memcmp(const void*, const void*, size_t) { return 0; }',
        ),
        {"atomic"},
    ),
    "a store by mathematics": (
        ATOMIC,
        swapped(ATOMIC, (ADD[0], "modff(O_sum[query * head_dim + thread] + o, &O_sum[query * head_dim + thread]);")),
        {"hidden store", "hidden access", "atomic", "unknown"},
    ),
}


@pytest.fixture
def one_problem(monkeypatch):
    """Each exercise has its first problem only, with the smallest sizes."""

    def found(name):
        told = {
            field: v["from"] if isinstance(v, dict) and "from" in v else v for field, v in ALL[name].problems[0].items()
        }
        return replace(ALL[name], problems=(told | ({"num_heads": 1} if "num_heads" in told else {}),))

    monkeypatch.setattr(grading, "find", found)


@pytest.mark.parametrize("cheat", REFUSED)
def test_a_text_that_hides_accesses_does_not_compile(cheat, one_problem):
    name, text = REFUSED[cheat]
    found = grading.grade(name, text)
    assert [one.kind for one in found.evidence] == ["does not compile"] and not found.accepted
    assert not found.cases


@pytest.mark.parametrize("name", ["simt_quiet", "simt_log_value", "simt_other"])
def test_an_object_file_calls_no_other_function_of_the_runtime(name, tmp_path):
    source, unit = tmp_path / "unit.cpp", tmp_path / "unit.o"
    for called in ("simt_barrier", name):
        source.write_text(f'extern "C" void {called}();\nvoid f() {{ {called}(); }}')
        assert cpp.run([*cpp.cpp_compiler(), "-c", str(source), "-o", str(unit)]).returncode == 0
        if called == name:
            with pytest.raises(BuildError, match=f"calls {name}, which is no function of device code"):
                toolchain.close(KERNELS["03_flash"], unit)
        else:
            toolchain.close(KERNELS["03_flash"], unit)


def test_no_macro_of_the_compiler_differs_between_the_builds():
    """Each build undefines __SANITIZE_THREAD__ above the kernel."""
    found = []
    for instrumented in (False, True):
        made = Toolchain(instrumented)
        options = [option for option in made.options if not option.startswith(("-Wl", "-fuse-ld"))]
        found.append(set(cpp.run([*made.command, *options, "-dM", "-E", "-x", "c++", os.devnull]).stdout.splitlines()))
    assert found[0] ^ found[1] == {"#define __SANITIZE_THREAD__ 1"}


SIMILAR = {"memmove by a pointer", "std::copy", "a struct by a function's address", "a macro in place of shared memory"}
SIMILAR |= {"a volatile sum", "a sum by a template", "an operator", "atomicAdd by a macro"}  # to one that stays
SIMILAR |= {"memcpy of unknown size", "a macro of a header", "a static in place of shared memory"}
SIMILAR |= {"a struct of a row", "a struct as a result"}


@pytest.mark.parametrize("cheat", [pytest.param(c, marks=[pytest.mark.slow] * (c in SIMILAR)) for c in CAUGHT])
def test_a_hidden_access_is_found_by_a_run(cheat, one_problem):
    name, text, kinds = CAUGHT[cheat]
    found = grading.grade(name, text)
    assert not found.accepted and {one.kind for one in found.evidence} & kinds, found


def test_attributes_and_pragmas_of_usual_cuda_are_accepted(one_problem):
    usual = """#pragma once
#include <math.h>
struct __align__(16) Four { float x[4]; };
struct __attribute__((aligned(8))) Two { float x[2]; };
template <int N> __device__ __forceinline__ __attribute__((always_inline)) float unused_sum(const float (&x)[N]) {
  float sum = -INFINITY;
  _Pragma("unroll") for (int i = 0; i < N; ++i) sum += __builtin_expect(i > 0, 1) ? x[i] : 0.f;
  return sum;
}
[[nodiscard]] __device__ __noinline__ static float once(const float* __restrict__ p) { assert(p); return *p; }
"""
    text = ALL[BANKS].solution.replace("#define ROWS", usual + "#define ROWS", 1)
    text = text.replace('extern "C" __global__ void', 'extern "C" __global__ void __launch_bounds__(128)')
    text = text.replace(
        "  const int lane =",
        "  [[maybe_unused]] const Four four = {};\n#pragma unroll 2\n  for (int i = 0; i < 2; ++i);\n"
        "  const int lane =",
    )
    found = grading.grade(BANKS, text)
    assert found.accepted, found


# ---- solutions that reach the runtime's own memory, and races behind a check's limits ----
RIGHT = "  O[at] = O_sum[at] / l_sum[query];"
NEAR = "static float mine[4];\nstatic volatile size_t far = 0x2000;\n#define BEYOND ((char*)mine + far)\n"


def beyond(statement, before=""):
    """The solution of ATOMIC with a statement, whose BEYOND is in the runtime's variables."""
    text = ALL[ATOMIC].solution
    assert text.count(RIGHT) == 1
    return text.replace(RIGHT, f"{statement}\n{RIGHT}").replace("#define ", f"{NEAR}{before}\n#define ", 1)


BEYOND = {
    "a store": beyond("*BEYOND = 0;"),
    "a load": beyond("if (*(volatile char*)BEYOND == 77) return;"),
    "a header's store": beyond("std::exchange(*BEYOND, 0);", "#include <utility>"),
    "a header's load": beyond("if (std::accumulate(BEYOND, BEYOND + 1, 0) == 77) return;", "#include <numeric>"),
    "frexp": beyond("volatile double x = 0.; frexp(x, (int*)BEYOND);"),
    "modff by a pointer": beyond("by(0.f, (float*)BEYOND);", "static float (*volatile by)(float, float*) = modff;"),
    "sincosf": beyond("volatile float x = 0.f; sincosf(x, (float*)BEYOND, (float*)BEYOND);"),
}


ALIKE = {"a load", "a header's store", "frexp", "modff by a pointer"}  # to one that stays


@pytest.mark.parametrize("cheat", [pytest.param(c, marks=[pytest.mark.slow] * (c in ALIKE)) for c in BEYOND])
def test_an_access_of_the_runtime_stops_the_kernel(cheat, one_problem):
    found = grading.grade(ATOMIC, BEYOND[cheat])
    assert not found.accepted and [one.kind for one in found.evidence] == ["out of bounds"], found


def test_printf_and_a_static_s_initialiser_store_nothing_in_the_runtime(one_problem):
    found = grading.grade(ATOMIC, beyond('printf("%1$*2$d%n", 0, 0, (int*)BEYOND);'))
    assert not found.accepted and "format %n is not one of CUDA's" in found.evidence[0].text, found
    found = grading.grade(ATOMIC, beyond("", "static int off = (*(volatile char*)BEYOND = 0, 0);"))
    assert not found.accepted, found


def test_pointers_of_the_stack_and_lanes_that_met_are_usual(one_problem):
    usual = "int e; float part; frexpf(2.f, &e); modff(1.5f, &part); float s, c; sincosf(part, &s, &c);\n"
    usual += '  if (at == 0) printf("%3d %5.1f %s%%\\n", e, sinf(part) + cosf(part), "text");'
    found = grading.grade(ATOMIC, beyond(usual))
    assert found.accepted, found
    met = "if (thread < 32) { if (part[40] == 7e9f) o = 0.f; __syncwarp(); if (thread == 31) part[40] = o;\n"
    met += (
        "__syncwarp(); if (thread < 2) { if (part[40] == 7e9f) o = 0.f; __syncwarp(3); if (!thread) part[40] = o; } }"
    )
    found = grading.grade(SIMPLE, raced(met))
    assert found.accepted, found


SIMPLE = "simple_attention"
END = "    O[head + row * head_dim + dim] = o / l;\n  }\n"


def raced(statement):
    text = ALL[SIMPLE].solution
    assert text.count(END) == 1
    return text.replace(END, f"{END}  __syncthreads();\n  {statement}\n")


RACES = {
    "many meetings": "if (blockIdx.x + blockIdx.y == 0 && thread < 2) {\n"
    "for (int i = 0; i < 65540; ++i) __syncwarp(3);\n"
    "volatile float* word = part; if (word[(thread + 1) % 2] == 7e9f) o = 0.f; word[thread] = o; }",
    "the last lane": "if (thread == 64 && part[40] == 7e9f) o = 0.f;\n__syncthreads();\n"
    "if (thread < 32) { if (part[40] == 7e9f) o = 0.f; if (thread == 31) part[40] = o + 1.f; }",
    "a lane between two that met": "if (thread < 32) { if (part[40] == 7e9f) o = 0.f;\n"
    "if (thread % 31 == 0) __syncwarp(0x80000001); if (thread == 31) part[40] = o + 1.f; }",
}


@pytest.mark.parametrize("race", RACES)
def test_a_race_within_a_warp_is_found(race, one_problem):
    found = grading.grade(SIMPLE, raced(RACES[race]))
    assert not found.accepted and {one.kind for one in found.evidence} & {"race", "warp race", "barrier"}, found


LOAD = "  float s = 0.f;\n    for (int d = 0; d < head_dim; ++d) s = fmaf(q_rows[warp][d], k_tile[lane][d], s);"


def test_a_loop_of_each_lane_before_the_real_one_hides_no_conflict(one_problem):
    shift = "  if (start == 0) for (int t = 0; t < lane; ++t)\n"
    shift += "    if (ld(k_tile, lane, (t - lane + head_dim) % head_dim) == 1e30f) m = 0.f;\n  "
    ld = (
        "__device__ __forceinline__ float ld(const float (&tile)[TILE][MAX_DIM], int r, int d) { return tile[r][d]; }\n"
    )
    text = swapped(BANKS, (LOAD, shift + LOAD.replace("k_tile[lane][d]", "ld(k_tile, lane, d)")))
    text = text.replace('extern "C" __global__', f'{ld}extern "C" __global__', 1)
    found = grading.grade(BANKS, text)
    assert not found.accepted and {one.kind for one in found.evidence} == {"bank conflict"}, found
