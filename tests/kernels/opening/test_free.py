"""`open` takes a file without a problem: by a run of its main(), or by its text, a trial run and the answers."""

import json
import re

import numpy as np
import pytest

from explainers.models import generic
from kernels import __main__ as command_line
from kernels import catalog
from kernels.core.dtypes import DTYPES
from kernels.core.request import Request
from kernels.errors import RunError
from kernels.families.free import contents
from kernels.opening import command, ran, smaller
from kernels.opening.describing import initial_of
from kernels.opening.ran import Memory, Ran, RanLaunch
from kernels.opening.trial import reach, size_of
from kernels.opening.uses import is_flag, only_assigned, stores, strides
from kernels.opening.versions import versions_of
from kernels.run import execute

KERNELS = {
    "saxpy": "__global__ void saxpy(int n, float a, const float* x, float* y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = a * x[i] + y[i];\n}\n",
    "gemm": "#define TILE 16\n__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {\n"
    "  __shared__ float As[TILE][TILE], Bs[TILE][TILE];\n"
    "  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;\n  float sum = 0.f;\n"
    "  for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {\n"
    "    int k0 = t * TILE;\n"
    "    As[threadIdx.y][threadIdx.x] = row < M && k0 + threadIdx.x < K ? A[row * K + k0 + threadIdx.x] : 0.f;\n"
    "    Bs[threadIdx.y][threadIdx.x] = col < N && k0 + threadIdx.y < K ? B[(k0 + threadIdx.y) * N + col] : 0.f;\n"
    "    __syncthreads();\n"
    "    for (int k = 0; k < TILE; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];\n"
    "    __syncthreads();\n  }\n  if (row < M && col < N) C[row * N + col] = sum;\n}\n",
    "softmax": "__global__ void softmax(const float* x, float* y, int rows, int cols) {\n"
    "  extern __shared__ float red[];\n  int row = blockIdx.x, t = threadIdx.x;\n  float m = -INFINITY, sum = 0;\n"
    "  for (int j = t; j < cols; j += blockDim.x) m = fmaxf(m, x[row * cols + j]);\n  red[t] = m;\n"
    "  __syncthreads();\n  for (int s = blockDim.x / 2; s > 0; s >>= 1) {\n"
    "    if (t < s) red[t] = fmaxf(red[t], red[t + s]);\n    __syncthreads();\n  }\n  m = red[0];\n"
    "  __syncthreads();\n  for (int j = t; j < cols; j += blockDim.x) sum += expf(x[row * cols + j] - m);\n"
    "  red[t] = sum;\n  __syncthreads();\n  for (int s = blockDim.x / 2; s > 0; s >>= 1) {\n"
    "    if (t < s) red[t] += red[t + s];\n    __syncthreads();\n  }\n"
    "  for (int j = t; j < cols; j += blockDim.x) y[row * cols + j] = expf(x[row * cols + j] - m) / red[0];\n}\n",
    "transpose": "#define TILE 32\n#define ROWS 8\n"
    "__global__ void transpose(float* odata, const float* idata, int width, int height) {\n"
    "  __shared__ float tile[TILE][TILE + 1];\n"
    "  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;\n"
    "  for (int j = 0; j < TILE; j += ROWS) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];\n"
    "  __syncthreads();\n  x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + threadIdx.y;\n"
    "  for (int j = 0; j < TILE; j += ROWS) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];\n}\n",
    "total": "__global__ void total(const float* in, float* out, int n) {\n  __shared__ float s[256];\n"
    "  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n  s[t] = i < n ? in[i] : 0.f;\n  __syncthreads();\n"
    "  for (int k = 128; k > 0; k >>= 1) {\n    if (t < k) s[t] += s[t + k];\n    __syncthreads();\n  }\n"
    "  if (t == 0) atomicAdd(out, s[0]);\n}\n",
}
TRUTHS = {"saxpy": "a * x + y", "gemm": "A @ B", "softmax": "softmax(x)", "transpose": "idata.T", "total": "in_.sum()"}
FOUND = {  # grid, block, shared_bytes, shapes
    "saxpy": (["ceil_div(n, 256)"], [256], 0, {"x": ["n"], "y": ["n"]}),
    "gemm": (
        ["ceil_div(N, 16)", "ceil_div(M, 16)"],
        *([16, 16], 0, {"A": ["M", "K"], "B": ["K", "N"], "C": ["M", "N"]}),
    ),
    "softmax": (["rows"], [256], "4 * 256", {"x": ["rows", "cols"], "y": ["rows", "cols"]}),
    "transpose": (
        ["ceil_div(width, 32)", "ceil_div(height, 32)"],
        *([32, 8], 0, {"odata": ["width", "height"], "idata": ["height", "width"]}),
    ),
    "total": (["ceil_div(n, 256)"], [256], 0, {"in_": ["n"], "out": [1]}),
}


def _guessed(tmp_path, text, **said):
    path = tmp_path / "mine.cu"
    path.write_text(text)
    return command.free_proposal(path, ((path.name, text),), versions_of(text), said, reach)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_without_a_launch_gets_its_run_from_its_text_and_a_trial(name, tmp_path):
    made = _guessed(tmp_path, KERNELS[name])
    assert not made.questions
    (launch,), (grid, block, shared, shapes) = made.table["launches"], FOUND[name]
    assert (launch["grid"], launch["block"], launch.get("shared_bytes", 0)) == (grid, block, shared)
    assert {tensor: table["shape"] for tensor, table in made.table["tensors"].items()} == shapes
    path = tmp_path / "mine.cu"
    path.write_text(made.text_of(KERNELS[name]).replace('"free"', f'"free"\ntruth = "{TRUTHS[name]}"', 1))
    kernel = catalog.load_kernel(path)
    request = Request(kernel, kernel.problem_type())
    run = execute.run(request)
    assert all(one.ok for one in execute.judge(run.max_abs_errors, execute.yardstick(request), request.problem))


def test_what_the_text_leaves_open_is_at_most_five_questions_with_their_options(tmp_path, capsys):
    text = (
        "template <int BM, int BN, int BK, int TM, int TN>\n"
        "__global__ void tiled(int M, int N, const float* A, float* C, void* rest, short mode) {\n"
        "  __shared__ float s[BM * BK];\n  s[threadIdx.x % BK] = A[blockIdx.x];\n  C[blockIdx.y * N] = s[0];\n}\n"
    )
    path = tmp_path / "tiled.cu"
    path.write_text(text)
    assert command_line.main(["open", str(path), "--write"]) == 1
    asked = [line for line in capsys.readouterr().out.splitlines() if line.startswith("unknown:")]
    assert 1 <= len(asked) <= 5
    assert all("--say" in line for line in asked)
    assert "--say BM=128 --say BN=128 --say BK=8 --say TM=8 --say TN=8" in asked[0]
    assert path.read_text() == text


MAIN = """#include <cstdio>
#include <vector>
__global__ void shift(const float* in, float* out, int n) {
  __shared__ float s[64];
  int i = blockIdx.x * 64 + threadIdx.x;
  s[threadIdx.x] = in[i];
  WAIT
  out[i] = s[(threadIdx.x + 32) % 64] + n;
}
int main() {
  const int n = 256;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = i % 10;
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float)), cudaMalloc(&b, n * sizeof(float));
  cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  for (int k = 0; k < 20; ++k) shift<<<n / 64, 64>>>(a, b, n);
  cudaMemset(a, 0, n * sizeof(float));
  shift<<<n / 128, 64>>>(b + 128, a, 7);
  printf("PASS\\n");
}
"""


def test_main_gives_launches_contents_and_its_own_word(tmp_path, capsys):
    path = tmp_path / "shift.cu"
    path.write_text(MAIN.replace("WAIT", "__syncthreads();"))
    assert command_line.main(["open", str(path), "--write", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)["front_matter"]
    assert table["main"] == "main() itself ended with exit code 0, and printed 'PASS'."
    assert table["tensors"] == {
        "in_1": {"shape": [256], "dtype": "float32", "role": "input", "initial": {"values": [*map(float, range(10))]}},
        "out_1": {"shape": [256], "dtype": "float32", "role": "output", "initial": "poison"},
        "out_2": {"shape": [256], "dtype": "float32", "role": "output", "initial": "zero"},
    }
    assert [(one["grid"], one["args"]) for one in table["launches"]] == [
        ([4], ["in_1", "out_1", "int32 256"]),
        ([2], [{"tensor": "out_1", "offset": 512}, "out_2", "int32 7"]),
    ]
    assert command_line.main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "no fault found" in said and "printed 'PASS'" in said
    assert command_line.main(["run", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["max_abs_error"] is None


def test_a_race_of_a_program_is_found_and_lit_at_its_step(tmp_path, capsys):
    path = tmp_path / "shift.cu"
    path.write_text(MAIN.replace("WAIT", ""))
    assert command_line.main(["open", str(path), "--write"]) == 0
    assert command_line.main(["check", str(path)]) == 1
    lines = path.read_text().splitlines()
    first = next(n for n, line in enumerate(lines, 1) if "= in[i]" in line)
    second = next(n for n, line in enumerate(lines, 1) if "+ n;" in line)
    assert re.search(
        rf"line {first} writes s\[\d+\], and line {second} of another warp reads it", capsys.readouterr().out
    )
    kernel = catalog.load_kernel(path)
    run = execute.run(Request(kernel, kernel.problem_type()))
    lit = [frame for frame in generic.explain(run).frames if "fault (race)" in frame["sentence"]]
    assert lit
    assert {f"shift.cu:{first}", f"shift.cu:{second}"} <= set(lit[0]["lines"])


@pytest.mark.parametrize(
    ("dtype", "values", "initial"),
    [
        ("float32", [0.0] * 9, "zero"),
        ("float32", [1.5] * 9, {"values": [1.5]}),
        ("float32", [0.5, -0.5] * 40, {"values": [0.5, -0.5]}),
        ("float32", np.arange(100) * 0.25, {"ramp": [0.0, 0.25]}),
        ("int32", np.arange(90) % 30, {"ramp": [0, 1, 30]}),
        ("int32", np.random.default_rng(0).permutation(5000) + 2, {"permutation": [2]}),
        ("int32", np.sort(np.random.default_rng(0).integers(0, 10**6, 5000)), "sorted"),
        ("int32", np.random.default_rng(0).integers(-(10**6), 10**6, 5000), "random"),
        ("float32", np.random.default_rng(0).random(5000) * 3 + 1, "random"),
        ("float16", np.random.default_rng(0).standard_normal(5000), "normal"),
        ("int32", np.random.default_rng(0).integers(-9, 9, 100), "packed"),
    ],
)
def test_a_content_is_kept_exactly_or_in_kind(dtype, values, initial):
    array = np.asarray(values).astype(DTYPES[dtype].numpy)
    found, _ = initial_of(Memory(0, array.nbytes, False, dtype, array))
    read = contents.read("mine.cu", "initial", found, dtype)
    made = contents.made(read, array.shape, dtype, (0, 0))
    if isinstance(initial, dict) and "permutation" not in initial or initial in ("zero", "packed"):
        assert initial == "packed" or found == initial
        assert (made == array).all()
    else:
        assert initial == next(iter(found)) or found == initial
        low, high = array.astype(float).min(), array.astype(float).max()
        spread = max(1e-6, high - low)
        assert abs(made.astype(float).min() - low) < 0.25 * spread
        assert abs(made.astype(float).max() - high) < 0.25 * spread
    assert initial_of(Memory(0, array.nbytes, True, dtype, array[:0]))[0] == "poison"


def test_a_slow_program_runs_with_smaller_numbers_of_the_host():
    text = "#define SIZE (1 << 20)\n__global__ void f(float* x, int n) { x[n] = 1; }\nint main() {\n" + (
        "  const int n = 1 << 20, reps = 3;\n  int rows = 4096;\n  f<<<1, 1>>>(0, n);\n}\n"
    )
    values = {number.name: number.value for number in smaller.numbers_of(text)}
    assert values == {"n": 2**20, "reps": 3, "rows": 4096, "SIZE": 2**20}
    assert smaller.reduced({"n": 2**20, "m": 2**20, "reps": 3}, 10) == {"n": 2**18, "m": 2**18, "reps": 2}
    launch = RanLaunch(6, "f", (1,), (1,), 0, (), whole=True)

    def run(own, limit, slow=2**18):
        size = int(re.search(r"n = (\d+)", own)[1]) if "1 << 20, reps" not in own else 2**20
        return Ran((RanLaunch(**{**vars(launch), "seconds": 6.0 * size / slow}),), 0, "")

    found, changed = smaller.runs(text, {}, run)
    assert found.seconds <= smaller.MOST_SECONDS and changed["n"] < 2**18
    assert smaller.with_values(text, {"n": 64}).count("\n") == text.count("\n")
    whole, none = smaller.runs(text, {}, lambda own, limit: run(text, limit, 2**30))
    assert whole.seconds < smaller.MOST_SECONDS and not none

    def fails(own, limit):
        raise RunError("it needs 40 GiB")

    with pytest.raises(RunError, match="40 GiB"):
        smaller.runs(text, {}, fails)


@pytest.mark.parametrize(
    "line",
    [
        "x",
        '{"line": 1}',
        '{"memory": 3, "allocation": 0, "bytes": 4, "fresh": true, "type": "T = float]", "data": ""}',
        '{"wrote": [], "whole": true, "seconds": 0}',
        '{"line": 1, "entry": "f", "function": "f", "grid": [1], "block": [1], "shared": 0, "args": [{"memory": 9}]}',
    ],
)
def test_a_program_that_writes_into_its_log_is_refused(line):
    with pytest.raises(RunError, match="wrote into the list of its launches"):
        ran.read([line], 0, "")


def test_the_text_tells_how_a_kernel_uses_a_parameter():
    text = (
        "__global__ void f(const float* a, float* b, float* c, float* d, int on, int n) {\n"
        "  b[n] += a[2 * n + on]; float v = c[n]; d[n * 4] = v; if (on && n > 2) d[0] = 1; use(c + 8 * n);\n}\n"
    )
    assert [stores(text, "f", name) for name in "abcd"] == [False, True, True, True]
    assert [stores(text, "f", name, sure=True) for name in "abcd"] == [False, True, False, True]
    assert [only_assigned(text, "f", name) for name in "abcd"] == [False, False, False, True]
    assert set(strides(text, "f", "a")) == {"2", "n"} and set(strides(text, "f", "c")) == {"8", "n"}
    assert not is_flag(text, "f", "n") and not is_flag(text, "f", "on")
    assert is_flag("__global__ void g(int on) { if (on) return; }", "g", "on")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (64 * 96, ("M * N", True)),
        (64 * 96 - 90, ("M * N", False)),
        (128, ("K", True)),
        (256, ("256", True)),
        (1, ("1", True)),
        (96 * 3, ("3 * N", True)),
        (17, ("", False)),
    ],
)
def test_the_simplest_size_explains_a_reach(count, said):
    assert size_of(count, {"M": 64, "N": 96, "K": 128}, {"BINS": 256}) == said
