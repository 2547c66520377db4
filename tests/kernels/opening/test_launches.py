"""The launches that a text of the host has, in each form that public files use."""

import pytest

from kernels.errors import ProblemError
from kernels.opening.launches import constants_of, host_launches, host_text
from kernels.opening.names import translated
from kernels.opening.sites import HostLaunch
from kernels.opening.versions import arguments_of, versions_of

KERNELS = """__global__ void add(const float* x, float* y, int n) { y[0] = x[0]; }
__global__ void twice(const float* x, float* y, int n) { y[0] = x[0]; }
template <typename T, int TILE> __global__ void tiled(const T* x, T* y, int n) { y[0] = x[0]; }
"""


def launched(
    body: str, head: str = "", function: str = "void run(const float* x, float* y, int n)"
) -> list[HostLaunch]:
    return host_launches(f"{KERNELS}{head}{function} {{\n{body}\n}}\n")


@pytest.mark.parametrize(
    ("body", "entries"),
    [
        ("void (*kernel)(const float*, float*, int) = &add; kernel<<<4, 64>>>(x, y, n);", ["add"]),
        ("auto kernel = tiled<float, 64>; kernel<<<4, 64>>>(x, y, n);", ["tiled<float, 64>"]),
        ("auto kernel = n > 4 ? add : twice; kernel<<<4, 64>>>(x, y, n);", ["add", "twice"]),
        (
            "void (*kernels[])(const float*, float*, int) = {add, twice}; kernels[n]<<<4, 64>>>(x, y, n);",
            ["add", "twice"],
        ),
        ("(*&add)<<<4, 64>>>(x, y, n);", ["add"]),
        ("void* args[] = {&x, &y, &n}; cudaLaunchKernel((void*)add, 4, 64, args, 0, 0);", ["add"]),
        (
            "void* args[] = {&x, &y, &n}; cudaLaunchKernel((const void*)&tiled<float, 32>, 4, 64, args);",
            ["tiled<float, 32>"],
        ),
        ("cudaLaunchConfig_t c = {}; c.gridDim = 4; c.blockDim = 64; cudaLaunchKernelEx(&c, add, x, y, n);", ["add"]),
        ("cudaLaunchConfig_t c = {4, 64, 0, 0}; cudaLaunchKernelEx(&c, twice, x, y, n);", ["twice"]),
        (
            'AT_DISPATCH_FLOATING_TYPES(t, "add", ([&] { tiled<scalar_t, 8><<<4, 64>>>(x, y, n); }));',
            ["tiled<float, 8>"],
        ),
        ("constexpr int wide = 16; tiled<float, wide><<<4, 64>>>(x, y, n);", ["tiled<float, 16>"]),
        ("tiled<float, (1024 / (4))><<<4, 64>>>(x, y, n);", ["tiled<float, 256>"]),
        ("auto go = [&](auto tile) { tiled<float, tile.value><<<4, 64>>>(x, y, n); };", ["tiled<float, ?>"]),
    ],
)
def test_the_kernel_of_each_form_of_a_launch_is_read(body, entries):
    found = launched(body)
    assert [one.entry for one in found] == entries
    assert {(one.grid, one.block, one.args, one.line) for one in found} == {("4", "64", ("x", "y", "n"), 5)}


def test_a_launch_in_macros_is_read_at_the_line_of_its_use():
    head = (
        "#define LAUNCH(name, type, TILE)   \\\n  name##_kernel<(TILE)> \\\n    <<<grid, block>>>((type*)x, y, n);\n"
        "#define DISPATCH(T) switch (T) { case 32: LAUNCH(soft, float, 32) break; \\\n"
        "  case 64: LAUNCH(soft, float, 64) break; }\n"
        "template <int TILE> __global__ void soft_kernel(const float* x, float* y, int n) { y[0] = x[0]; }\n"
    )
    found = launched("dim3 block(64);\ndim3 grid((n + 31) / 32);\nDISPATCH(n)", head)
    assert [(one.entry, one.line, one.values) for one in found] == [
        ("soft_kernel<32>", 13, (("n", "32"),)),
        ("soft_kernel<64>", 13, (("n", "64"),)),
    ]
    assert {(one.grid, one.block, one.args) for one in found} == {
        ("dim3((n + 31) / 32)", "dim3(64)", ("(float*)x", "y", "n"))
    }


def test_a_macro_that_makes_a_function_or_a_kernel_is_read():
    head = (
        "#define KERNEL(name, op) __global__ void name(const float* x, float* y, int n) { y[0] = x[0] op 2; }\n"
        "#define BIND(kind) void run_##kind(torch::Tensor t) { kind<<<1, 32>>>(a, b, c); }\n"
        "KERNEL(halve, /)\nBIND(halve)\nBIND(add)\n"
    )
    assert [(one.entry, one.function, one.line) for one in launched("", head)] == [
        ("halve", "run_halve", 7),
        ("add", "run_add", 8),
    ]


def test_a_template_of_the_host_takes_the_type_of_its_instances_and_of_its_calls():
    body = "tiled<T, 4><<<4, 64>>>(x, y, n);"
    template = "template <class T> void run(const T* x, T* y, int n)"
    assert launched(body, function=template)[0].entry == "tiled<float, 4>"
    text = f"{KERNELS}{template} {{ {body} }}\ntemplate void run<double>(const double*, double*, int);\n"
    assert host_launches(text)[0].entry == "tiled<double, 4>"
    assert host_launches(text + "template void run<float>(const float*, float*, int);\n")[0].entry == "tiled<float, 4>"


def test_a_kernel_that_a_function_of_the_host_gets_as_its_argument_is_read():
    text = (
        f"{KERNELS}template <typename K> void bench(K kernel, int threads) {{ kernel<<<4, threads>>>(x, y, 3); }}\n"
        "int main() { bench(add, 64); bench(&twice, 64); }\n"
    )
    assert [(one.entry, one.function) for one in host_launches(text)] == [("add", "bench"), ("twice", "bench")]
    assert [one.entry for one in versions_of(text).launches] == ["add", "twice"]


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("#if 0\nvoid f() { add<<<1, 32>>>(x, y, n); }\n#endif\n", False),
        ("#ifdef WITH_ADD\nvoid f() { add<<<1, 32>>>(x, y, n); }\n#endif\n", False),
        ("#ifndef GUARD\n#define GUARD\nvoid f() { add<<<1, 32>>>(x, y, n); }\n#endif\n", True),
        ("#define WITH_ADD\n#ifdef WITH_ADD\nvoid f() { add<<<1, 32>>>(x, y, n); }\n#endif\n", True),
        ("#ifdef WITH_ADD\n#else\nvoid f() { add<<<1, 32>>>(x, y, n); }\n#endif\n", True),
        ("#if VERSION > 3\nvoid f() { add<<<1, 32>>>(x, y, n); }\n#endif\n", True),
        ("// void f() { add<<<1, 32>>>(x, y, n); }\n", False),
    ],
)
def test_only_the_active_part_of_a_text_has_launches(text, is_read):
    assert bool(host_launches(KERNELS + text)) == is_read


def test_the_last_dim3_whose_block_holds_the_launch_gives_its_sizes():
    body = "dim3 g(1);\nif (n) { dim3 g(2); add<<<g, 32>>>(x, y, n); }\n{ dim3 g(3); }\nadd<<<g, 64>>>(x, y, n);"
    assert [(one.grid, one.block) for one in launched(body)] == [("dim3(2)", "32"), ("dim3(1)", "64")]


VERSIONS = f"""{KERNELS}
void run1(const float* x, float* y, int n) {{ add<<<4, 64>>>(x, y, n); }}
void run2(const float* x, float* y, int n) {{ add<<<4, 64>>>(x, y, n); tiled<float, 8><<<4, 64>>>(y, y, n); }}
void run(int kind, const float* x, float* y, int n) {{
  switch (kind) {{
    case 1: run1(x, y, n); break;
    case 2: run2(x, y, n); break;
    default: if (n == 32) tiled<float, 32><<<1, n>>>(x, y, n); else tiled<float, 64><<<1, n>>>(x, y, n);
  }}
}}
int main(int argc, char** argv) {{
  run(argc, x, y, 4);
  for (int i = 0; i < 9; ++i) run(argc, x, y, 4);
}}
"""


def test_versions_behind_a_switch_are_a_question_and_entry_answers_it():
    found = versions_of(VERSIONS)
    assert [one.entry for one in found.launches] == ["add"]
    assert found.question == "the version. Choose one with --entry NAME: add, tiled"
    for entry, entries in (
        ("run2", ["add", "tiled<float, 8>"]),
        ("run1", ["add"]),
        ("tiled", ["add", "tiled<float, 8>"]),
        ("tiled<float,64>", ["tiled<float, 64>"]),
    ):
        chosen = versions_of(VERSIONS, entry)
        assert [one.entry for one in chosen.launches] == entries, entry
        assert not chosen.question
    (launch,) = versions_of(VERSIONS, "tiled<float, 32>").launches
    assert dict(launch.values) == {"kind": "default", "n": "32"}


def test_an_unknown_entry_names_the_kernels():
    with pytest.raises(
        ProblemError, match="--entry is 'ad', and the file launches no kernel of this name. Its kernels: add"
    ):
        versions_of(VERSIONS, "ad")


def test_kernels_without_a_launch_are_one_version_only_if_one_reads_what_another_writes():
    assert versions_of(KERNELS).question.endswith("--entry NAME: add, twice, tiled")
    chain = (
        "__global__ void scores(const float* q, const float* k, float* s) {}\n"
        "__global__ void outputs(const float* s, const float* v, float* o) {}\n"
    )
    found = versions_of(chain)
    assert [one.entry for one in found.launches] == ["scores", "outputs"] and not found.question


@pytest.mark.parametrize(
    "macros",
    [
        "#define A(x) B(x) B(x)\n#define B(x) A(x) A(x)\n",
        "".join(f"#define A{n}(x) A{n + 1}(x x x x) A{n + 1}(x x x x)\n" for n in range(12))
        + "#define A12(x) x<<<1, 1>>>(x)\n",
        "#define A(x) A(x) add<<<1, 1>>>(x)\n",
    ],
)
def test_a_bomb_of_macros_ends(macros):
    text = f"{KERNELS}{macros}#define C <<<\nvoid f() {{ A0(x); A(x); add C 1, 1>>>(x); }}\n"
    try:
        assert len(host_text(text)) < 2**20
    except ProblemError as error:
        assert "expand without an end" in str(error)


def test_calls_without_an_end_and_very_many_launches_end():
    text = (
        KERNELS + "void f() { g(); g(); add<<<1, 1>>>(x, y, n); }\nvoid g() { f(); f(); }\nint main() { f(); g(); }\n"
    )
    assert {one.entry for one in host_launches(text)} == {"add"}
    calls = "".join(f"void f{n}() {{ f{n + 1}(); f{n + 1}(); }}\n" for n in range(40))
    text = f"{KERNELS}void f40() {{ add<<<1, 1>>>(x, y, n); }}\n{calls}int main() {{ f0(); }}\n"
    assert len(host_launches(text)) <= 1024


def test_main_gets_the_words_of_the_command_line_that_choose_a_version():
    text = VERSIONS.replace(
        "main(int argc, char** argv) {", "main(int argc, char** argv) {\n  kind = atoi(argv[1]);", 1
    )
    for entry, words in (("run2", ["2"]), ("run1", ["1"]), ("tiled<float,64>", [])):
        assert arguments_of(text, versions_of(text, entry)) == words, entry
    assert arguments_of(VERSIONS, versions_of(VERSIONS, "run1")) == []


def test_a_constant_may_stand_on_others():
    text = (
        "#define WARPS (4U)\n#define THREADS (WARPS * WIDTH)\n#define WIDTH 32 // lanes\n#define OF(x) (x)\n"
        "#define LOOP LOOP + 1\n#define NONE 1 / 0\nconst int N = 1 << 20, M = N / 4;\n"
        "constexpr unsigned int K = -3 + 8;\n__device__ int f() { const int inner = 7; return inner; }\n"
        "void run() { const int host = 9; }\n"
    )
    expected = {"WARPS": 4, "THREADS": 128, "WIDTH": 32, "N": 2**20, "M": 2**18, "K": 5, "inner": 7}
    assert constants_of(text) == expected


@pytest.mark.parametrize(
    ("said", "became"),
    [
        ("(threads <= 32) ? 2 * threads * sizeof(float) : threads * sizeof(float)", "128 * 4"),
        ("threads < 256 ? 1 : 2", "1"),
        ("threads == 128 ? 1 : 2", "1"),
        ("threads > 128 ? 1 : 2", "2"),
        ("n > 128 ? 1 : 2", None),
    ],
)
def test_a_choice_by_two_numbers_is_its_arm(said, became):
    assert translated(said, {"threads": "128", "n": "seq_len"}) == became


def test_the_shared_memory_of_a_template_of_the_host_has_the_size_of_its_type():
    body = "int bytes = (n <= 32) ? 2 * n * sizeof(T) : n * sizeof(T);\ntiled<T, 4><<<4, 64, bytes>>>(x, y, n);"
    (launch,) = launched(body, function="template <class T> void run(const T* x, T* y, int n)")
    assert launch.shared == "(n <= 32) ? 2 * n * sizeof(float) : n * sizeof(float)"
