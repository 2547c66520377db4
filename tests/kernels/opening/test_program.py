"""A program with main() runs in the jail with its headers, the runtime's calls, and without its libraries."""

import json

import pytest

from kernels import __main__ as command_line
from kernels import catalog
from kernels.core.sources import read_files
from kernels.errors import BuildError, RunError
from kernels.opening import host

KERNELS = """__global__ void twice(const float* x, float* y, int n, int step = 1) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * FACTOR;
}
template <typename T, int TILE> __global__ void tiled(const T* x, T* y, int n) {
  const int i = blockIdx.x * TILE + threadIdx.x;
  if (i < n) y[i] = x[i] + TILE;
}
"""
START = """int main(int argc, char** argv) {
  const int n = 100;
  float host_x[100], host_y[100], *x, *y;
  for (int i = 0; i < n; ++i) host_x[i] = i;
  cudaMalloc(&x, sizeof host_x), cudaMalloc(&y, sizeof host_y);
  cudaMemcpy(x, host_x, sizeof host_x, cudaMemcpyHostToDevice);
"""
END = """
  cudaMemcpy(host_y, y, sizeof host_y, cudaMemcpyDeviceToHost);
  printf("%g\\n", host_y[7]);
  return cudaGetLastError();
}
"""


def ran(tmp_path, body, head="#define FACTOR 2\n", tail="", **headers):
    for name, text in headers.items():
        (tmp_path / f"{name}.h").write_text(text)
    path = tmp_path / "mine.cu"
    path.write_text(f"{head}{KERNELS}{tail}{START}{body}{END}")
    files = read_files(path.resolve(), catalog.DEVICE, catalog.SHIM)
    return host.run(path.name, files[0][1], files[1:])


@pytest.mark.parametrize(
    ("body", "printed", "entries"),
    [
        ("twice<<<2, 64>>>(x, y, n);", "14", ["twice"]),  # without the last argument
        ("void (*k)(const float*, float*, int) = &tiled<float, 64>; k<<<2, 64>>>(x, y, n);", "71", ["k"]),
        (
            "void* list[] = {&x, &y, (void*)&n}; cudaLaunchKernel((void*)tiled<float, 32>, 4, 32, list, 0, 0);",
            *("39", None),
        ),
        (
            "cudaLaunchConfig_t c = {}; c.gridDim = dim3(2); c.blockDim = 64;\n"
            "cudaLaunchKernelEx(&c, twice, x, y, n, 1);",
            "14",
            ["twice"],
        ),
        (
            "cudaLaunchConfig_t c{.gridDim = 2, .blockDim = 64};\ncudaLaunchKernelEx(&c, tiled<float, 64>, x, y, n);",
            *("71", None),
        ),
        ("RUN(2, 64)", "14", ["twice"]),
        (
            "cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); int most, grid, block, sms;\n"
            "cudaEvent_t a, b; float ms;\n"
            "cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);\n"
            "cudaOccupancyMaxPotentialBlockSize(&grid, &block, twice, 0, 64);\n"
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, twice, block, 0);\n"
            "cudaEventCreate(&a), cudaEventCreateWithFlags(&b, cudaEventDisableTiming), cudaEventRecord(a);\n"
            "if (sms == 132 && p.major == 9 && most == 32) twice<<<2, block>>>(x, y, n);\n"
            "cudaEventElapsedTime(&ms, a, b); if (ms == 0.f) cudaProfilerStop();",
            "14",
            ["twice"],
        ),
        (
            "checkCudaErrors(cudaDeviceSynchronize());\n"
            "twice<<<findCudaDevice(argc, (const char**)argv) + 2, 64>>>(x, y, n);",
            *("14", ["twice"]),
        ),
    ],
)
def test_each_form_of_a_launch_runs(tmp_path, body, printed, entries):
    head = "#include <helper_cuda.h>\n#define FACTOR 2\n#define RUN(grid, block) twice<<<grid, block>>>(x, y, n);\n"
    found = ran(tmp_path, body, head)
    assert (found.code, found.printed.strip()) == (0, printed)
    assert len(found.launches) == 1 and (entries is None or [one.entry for one in found.launches] == entries)


def test_headers_next_to_the_file_are_found_by_a_path_in_brackets_and_in_quotes(tmp_path):
    head = '#include "../common/factor.h"\n#include <more.h>\n#include "missing/far.h"\n'
    factor = "#pragma once\n#define FACTOR MORE\n#include <cusparse.h>\nextern cusparseHandle_t handle;\n"
    assert (
        ran(tmp_path, "twice<<<2, 64>>>(x, y, n);", head, factor=factor, more="#define MORE 3\n").printed.strip()
        == "21"
    )


def test_a_header_outside_the_folder_is_not_read(tmp_path):
    (tmp_path / "secret.h").write_text("#define FACTOR 5\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    for head in ('#include "../secret.h"\n', f'#include "{"../" * 20}{str(tmp_path)[1:]}/secret.h"\n'):
        with pytest.raises(
            BuildError, match=r"FACTOR.* was not declared.*No build reads \"[./\w-]+secret.h\" \(mine.cu line 1\)"
        ):
            ran(inner, "twice<<<2, 64>>>(x, y, n);", head)
    (inner / "secret.h").symlink_to(tmp_path / "secret.h")
    with pytest.raises(Exception, match="a link to"):
        ran(inner, "twice<<<2, 64>>>(x, y, n);", '#include "../secret.h"\n')


LIBRARY = """#include <cublas_v2.h>
#include <curand.h>
#define FACTOR 2
cublasHandle_t handle;
void multiply(float* x) { cublasSgemv(handle, CUBLAS_OP_N, 4, 4, nullptr, x, 4, x, 1, nullptr, x, 1); }
cudnnStatus_t unused(cudnnTensorDescriptor_t d) { return cudnnActivationForward(d); }
"""


def test_a_program_that_only_prepares_a_library_runs_and_a_call_for_values_is_one_sentence(tmp_path):
    body = "cublasStatus_t status = cublasCreate(&handle);\nif (status != CUBLAS_STATUS_SUCCESS) return 9;\n"
    assert ran(tmp_path, body + "twice<<<2, 64>>>(x, y, n);", LIBRARY).printed.strip() == "14"
    said = "main.. calls cublasSgemv in mine.cu line 5, and this library does not run here"
    with pytest.raises(RunError, match=said):
        ran(tmp_path, body + "multiply(x);\ntwice<<<2, 64>>>(x, y, n);", LIBRARY)
    with pytest.raises(RunError, match="main.. calls curandGenerateUniform in mine.cu line 22"):
        ran(tmp_path, "curandGenerator_t g;\ncurandGenerateUniform(g, x, n);", LIBRARY)


def test_open_goes_on_as_without_main_if_a_library_is_missing(tmp_path, capsys):
    text = (
        "#include <cublas_v2.h>\n"
        "__global__ void rows(const float* q, const float* k, const float* v, float* o, int seq_len, int head_dim) {}\n"
        "int main() {\n  cublasHandle_t h; cublasCreate(&h);\n  cublasDgemm(h, 1);\n"
        "  dim3 grid(seq_len, batch * num_heads);\n  rows<<<grid, head_dim>>>(q, k, v, o, seq_len, head_dim);\n}\n"
    ).replace(
        "  dim3",
        "  int seq_len = 64, batch = 1, num_heads = 2, head_dim = 32; float *q = 0, *k = 0, *v = 0, *o = 0;\n  dim3",
    )
    (tmp_path / "mine.cu").write_text(text)
    assert command_line.main(["open", str(tmp_path / "mine.cu")]) == 0
    said = capsys.readouterr().out
    assert "main() calls cublasDgemm in mine.cu line 5, and this library does not run here" in said
    assert "left out        <cublas_v2.h> (mine.cu line 1)" in said


def test_open_asks_for_the_version_and_says_a_size_with_commas(tmp_path, capsys):
    kernel = (
        "__global__ void NAME(const float* q, const float* k, const float* v, float* o, int seq_len, int head_dim) {\n"
        "  const int i = (blockIdx.y * seq_len + blockIdx.x) * head_dim + threadIdx.x;\n"
        "  o[i] = q[i] * k[i] * v[i];\n}\n"
    )
    (tmp_path / "mine.cu").write_text(kernel.replace("NAME", "one") + kernel.replace("NAME", "two"))
    arguments = ["open", str(tmp_path / "mine.cu"), "--json", "--say", "family=dense"]
    assert command_line.main(arguments) == 1
    assert json.loads(capsys.readouterr().out)["unknown"][0] == "the version. Choose one with --entry NAME: one, two"
    sizes = ["--say", "grid=ceil_div(seq_len, 8), batch * num_heads", "--say", "block=64"]
    assert command_line.main([*arguments, "--entry", "two", *sizes]) == 0
    (launch,) = json.loads(capsys.readouterr().out)["front_matter"]["launches"]
    assert (launch["entry"], launch["grid"]) == ("two", ["ceil_div(seq_len, 8)", "batch * num_heads"])
