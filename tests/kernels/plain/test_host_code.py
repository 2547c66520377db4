"""The device code of a file with host code: what the launched kernels need compiles, and nothing else is read."""

import pytest

from kernels.build import Mode, build
from kernels.build.plain.device import device_text, device_texts
from kernels.catalog import load_kernel
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BuildError
from kernels.run.check import check_case

OPENING = """/*
title = "Copies V"
idea = "a test."
changed = "nothing."
costs = "nothing."
limits = "nothing."
source = "a test"
family = "dense"
problem = "attention"

[[launches]]
entry = "ENTRY"
grid = ["seq_len", "batch * num_heads"]
block = ["head_dim"]
args = ["q", "k", "v", "o", "int32 seq_len", "float32 scale"]
*/
"""
KERNEL = """__global__ void rows(const float* q, const float* k, const float* v, float* o, int seq_len, float scale) {
  const int row = blockIdx.x, d = threadIdx.x, width = blockDim.x;
  const size_t base = (size_t)blockIdx.y * seq_len * width;
  float m = -INFINITY, l = 0.f, acc = 0.f;
  for (int j = 0; j < seq_len; ++j) {
    float s = 0.f;
    for (int e = 0; e < width; ++e) s += q[base + row * width + e] * k[base + j * width + e];
    const float top = LARGER(m, s * scale), a = expf(m - top), p = expf(s * scale - top);
    l = l * a + p, acc = acc * a + p * v[base + j * width + d], m = top;
  }
  o[base + row * width + d] = acc / l;
}
"""
HEADER = """#pragma once
#include <cublas_v2.h>
#define DEVICE_INLINE __device__ __forceinline__
#define CHECKED(call) do { if (call) exit(1); } while (0)
extern cublasHandle_t handle;
void checked(cublasStatus_t status, const char* file);
inline std::vector<float> random_floats(int n) { return std::vector<float>(n); }
DEVICE_INLINE float larger(float a, float b) { return a > b ? a : b; }
"""
PUBLIC = """#include <torch/extension.h>
#include <cub/cub.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <helper_cuda.h>
#include <vector>
#include "../common/own.h"
#include "far/away.h"
#define LARGER(a, b) larger(a, b)
using torch::Tensor;
namespace py = pybind11;
static cudnnHandle_t cudnn;
std::vector<at::Tensor> history;
cudaStream_t stream = nullptr;
struct Options { std::string name; torch::Device device; };
torch::Tensor forward(torch::Tensor q, torch::Tensor k);
#define BINDING(name) torch::Tensor run_##name(torch::Tensor q) { name<<<1, 32>>>(q.data_ptr<float>()); return q; }
BINDING(other)
KERNEL
__global__ void other(const float* q) { typedef cub::BlockReduce<float, 128> Reduce; Reduce::TempStorage held; }
BINDING(rows)
REGISTER_OPERATOR(rows)
template <class T> void launch(T* q) { rows<<<1, 32>>>(q, q, q, q, 1, 1.f); }
template void launch<float>(float*);
std::vector<torch::Tensor> forward_all(const torch::Tensor& q) {
  TORCH_CHECK(q.is_cuda(), "a GPU's");
#ifdef WITH_GRAPHS
  cudaGraph_t graph;
#endif
  return {q};
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
TORCH_LIBRARY(mine, m) { m.def("forward(Tensor q) -> Tensor"); }
"""


def written(folder, text, entry="rows"):
    """The path of a file with the front matter of an entry above a text. A header is next to it."""
    (folder / "own.h").write_text(HEADER)
    path = folder / "mine.cu"
    path.write_text(OPENING.replace("ENTRY", entry) + text.replace("KERNEL\n", KERNEL))
    return path


def test_a_file_with_torch_cub_bindings_and_a_header_of_the_host_passes_the_check(tmp_path):
    kernel = load_kernel(written(tmp_path, PUBLIC))
    assert [name for name, _ in kernel.files] == ["mine.cu", "own.h"]
    verdicts = check_case(kernel, Case(kernel.problem_type(seq_len=24, head_dim=32)), "cpu")
    assert len(verdicts) == 2 and all(v.ok and not v.faults for v in verdicts), [
        (v.message, v.faults) for v in verdicts
    ]
    request = Request(kernel, kernel.problem_type(head_dim=32), (), Scope(), "cpu")
    built = build(kernel, request.defines, Mode.TIMED, "sm_90a")
    assert [fact.entry for fact in built.facts] == ["rows"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "#include <thrust/functional.h>\n"
            + KERNEL.replace("LARGER(m, s * scale)", "thrust::maximum<float>()(m, s)"),
            r"mine.cu line 25: it uses thrust:: of <thrust/functional.h> \(line 17\), which is not among CUDA",
        ),
        (
            '#include "utils/tools.h"\n#include <vector>\n' + KERNEL,
            r"mine.cu line 26: .*LARGER.* was not declared.*No build reads \"utils/tools.h\" \(mine.cu line 17\)\. "
            "If the name is of it, write its definition into the file, or put that header next to the file",
        ),
        (
            "#include <cutlass/cutlass.h>\n" + KERNEL.replace("float m =", "cutlass::half_t h; float m ="),
            "mine.cu line 21: it uses cutlass:: of <cutlass/cutlass.h>",
        ),
    ],
)
def test_a_name_of_a_header_that_is_left_out_is_refused_with_both_lines(tmp_path, text, said):
    kernel = load_kernel(written(tmp_path, text))
    with pytest.raises(BuildError, match=said):
        check_case(kernel, Case(kernel.problem_type(seq_len=8)), "cpu")


def test_no_edit_moves_a_line_and_what_no_launched_kernel_needs_is_blank():
    text = PUBLIC.replace("KERNEL\n", KERNEL)
    (_, device), (_, header) = device_texts((("mine.cu", text), ("own.h", HEADER)), {"rows"})
    assert device.count("\n") == text.count("\n") and header.count("\n") == HEADER.count("\n")
    kept = {line.strip() for line in (device + header).splitlines() if line.strip()}
    assert {line.strip() for line in KERNEL.splitlines()} <= kept
    for word in ("torch::", "cub::", "at::", "cudnn", "std::", "cudaStream_t", "PYBIND", "REGISTER", "checked("):
        assert not any(word in line for line in kept if not line.startswith("#")), word
    assert "#ifdef WITH_GRAPHS" in kept and "#endif" in kept
    assert "DEVICE_INLINE float larger(float a, float b) { return a > b ? a : b; }" in kept


@pytest.mark.parametrize(
    "declared",
    [
        "typedef float real;",
        "using real = float;",
        "struct real { float x; __device__ real(float x) : x(x) {} };",
        "template <class T> struct Of { using type = T; };\ntemplate <> struct Of<float> { using type = float; };\n"
        "using real = Of<float>::type;",
        "enum { FEW = 3 };\nconstexpr int real = FEW;",
        "__constant__ float real[4];",
        "#define MAKE(name) struct name { float x; };\nMAKE(real)",
        "__device__ __host__ inline float real(float x) { return x; }",
        "namespace mine { using real = float; }\nusing mine::real;",
    ],
)
def test_a_declaration_that_a_kernel_needs_stays(declared):
    text = f"{declared}\n__global__ void f(float* o) {{ auto n = sizeof(real); }}\nint main() {{ f<<<1, 1>>>(0); }}\n"
    assert device_text(text, {"f"}).splitlines()[:-1] == text.splitlines()[:-1]
