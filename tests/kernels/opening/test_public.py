"""Kinds of public files: programs with huge sizes, torch extensions, derived templates, and versions by an option."""

import json
from types import SimpleNamespace

import pytest

from kernels import __main__ as command_line
from kernels import catalog
from kernels.core.request import Request
from kernels.errors import RunError
from kernels.opening import command, host, smaller
from kernels.opening.filled import initial_of
from kernels.opening.ran import Ran, RanLaunch
from kernels.opening.trial import reach
from kernels.opening.values import value
from kernels.opening.versions import arguments_of, versions_of
from kernels.run import execute
from kernels.run.wrong import products


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("(D < 128) ? 8 : D / 16", 8),
        ("D > 32 ? D > 48 ? 1 : 2 : 3", 1),
        ("W * 4 * 1 + 3 % 2", 129),
        ("1u << 3", 8),
        ("-7 / 2", -3),
        ("!(D == 64 && W != 32)", 1),
        ("D / (W - 32)", None),
        ("D + unknown", None),
        ("(D", None),
        ("D ? 1", None),
        ("1 << 99", None),
        ("9" * 300 + " *" + " 9 *" * 300, None),
        ("0x40 / 2", 32),
        ("010", None),
        ("(" * 99 + "1" + ")" * 99, None),
    ],
)
def test_the_value_of_a_constant_expression(text, number):
    assert value(text, {"D": 64, "W": 32}.get) == number


HUGE = """#define TILE 64
__global__ void f(float* x, int n) { x[n] = 1; }
void go(int block_size, int n) { const int Bc = 32; f<<<n / block_size, block_size>>>(0, Bc); }
int main() {
  int B = 8, T = 1024, C = 768, NH = 12, repeat_times = 2000, kernel_num = 32, threads = 512;
  for (int i = 0; i < repeat_times; ++i) go(threads, B * T * C * NH);
}
"""


def test_repeats_shrink_first_and_numbers_of_tiles_blocks_and_choices_stay():
    found = smaller.shrinking(HUGE)
    assert found.keys() - {"i"} == {"B", "T", "C", "NH", "repeat_times"}
    assert smaller.reduced(found, 1)["repeat_times"] == 2
    tiled = smaller.reduced(found, 4, [64])
    assert (tiled["T"], tiled["C"], tiled["NH"]) == (512, 384, 12)
    small = smaller.reduced(found, 2**20, [256])
    assert small["T"] >= 64 and small["C"] >= 64 and small["B"] == 4 and small["NH"] == 6
    assert smaller.reduced({"n": 384}, 4, [128]) == {"n": 96}  # its tile is not enough: 192 is no multiple either
    assert smaller.reduced({"n": 256}, 2, [128]) == {"n": 128}


def test_a_program_that_ends_at_its_limit_runs_again_and_a_fault_makes_nothing_smaller():
    limits, launch = list[float](), RanLaunch(1, "f", (1,), (1,), 0, (), whole=True, seconds=0.1)

    def slow(text, limit):
        limits.append(limit)
        if "T = 1024" in text:
            raise RunError("it takes too long")
        return Ran((launch,), 0, "")

    _, changed = smaller.runs(HUGE, {"B": 8}, slow)
    assert limits == [smaller.FIRST_SECONDS, smaller.SECONDS]
    assert changed["T"] < 1024 and "B" not in changed and "kernel_num" not in changed
    stopped = Ran((RanLaunch(**{**vars(launch), "whole": False}),), 1, "illegal address")
    assert smaller.runs(HUGE, {}, lambda text, limit: stopped) == (stopped, {})


def test_smaller_numbers_that_do_not_fit_together_give_way_to_more_time():
    limits, late = list[float](), RanLaunch(1, "f", (1,), (1,), 0, (), whole=False, seconds=5.0)

    def run(text, limit):
        limits.append(limit)
        whole = RanLaunch(**{**vars(late), "whole": not limit})
        return Ran((whole,), 0 if "T = 1024" in text else 1, "")

    found, changed = smaller.runs(HUGE, {}, run)
    assert limits == [smaller.FIRST_SECONDS, smaller.SECONDS, 0.0]
    assert found.whole and not changed


PROGRAM = """#include <cstdio>
#include <cublas_v2.h>
#include <vector>
__global__ void add(float* x) { x[threadIdx.x] += 1; }
int main() {
  float *x, *y, *c, *flush, one = 1, none = 0, got[6];
  cublasHandle_t handle;
  cublasCreate(&handle);
  cudaMalloc(&x, 24), cudaMalloc(&y, 24), cudaMalloc(&c, 24), cudaMalloc(&flush, 1 << 28);
  const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 2, 0, 1, 3};
  cudaMemcpy(x, a, 24, cudaMemcpyHostToDevice), cudaMemcpy(y, b, 24, cudaMemcpyHostToDevice);
  cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 3, &one, x, 2, y, 2, &none, c, 2);  // 2 x 3 by 3 x 2
  cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 2, &one, x, 2, y, 2, &none, c + 4, 1);
  cudaMemcpy(got, c, 20, cudaMemcpyDeviceToHost);
  printf("%g %g %g %g %g\\n", got[0], got[1], got[2], got[3], got[4]);
  for (int n = 0; n < 300000; ++n) cudaMemset(flush, 0, 1 << 28);  // it takes hours if each one writes
  cudaFree(flush);
  for (int n = 0; n < 2; ++n) cudaMemset(y, 0, 24), add<<<1, 6>>>(y);
  cudaMemcpy(got, y, 24, cudaMemcpyDeviceToHost);
  for (int n = 0; n < 200000; ++n) printf("a line of a flood, and no end\\n");
  printf("last %g\\n", got[5]);
}
"""


def test_a_program_multiplies_by_cublas_clears_a_cache_and_floods_its_output():
    found = host.run("mine.cu", PROGRAM)
    lines = found.printed.splitlines()
    assert found.code == 0 and len(found.printed) < 2**18
    assert lines[0] == "12 16 15 18 1" and lines[-1] == "last 1"
    assert len(found.launches) == 1


def test_an_option_of_the_command_line_chooses_the_version():
    text = """enum kind { First = 3, Second, Third };
    __global__ void one(float* x) { x[0] = 1; }
    __global__ void two(float* x) { x[0] = 2; }
    void go(int kind, float* x) {
      switch (kind) { case First: one<<<1, 1>>>(x); break; case Second: two<<<1, 1>>>(x); break; }
    }
    int main(int argc, char** argv) {
      int kind = 3;
      if (checkCmdLineFlag(argc, (const char**)argv, "kind"))
        kind = getCmdLineArgumentInt(argc, (const char**)argv, "kind");
      go(kind, 0);
    }"""
    assert arguments_of(text, versions_of(text, "two")) == ["-kind=4"]
    assert arguments_of(text, versions_of(text, "one")) == ["-kind=3"]


WRAPPED = """#include <torch/extension.h>
template <const int kHeadDim, const int kRows, const int kCols>
__global__ void __launch_bounds__(kRows) attend(half* Q, half* K, half* V, half* O, int QKV_seqlen, int QKV_head) {
  const int row = blockIdx.x * kRows + threadIdx.x;
  if (row >= QKV_seqlen) return;
  for (int d = 0; d < kHeadDim; ++d) O[row * kHeadDim + d] = __hadd(Q[row], __hmul(K[row], V[kCols]));
  O[0] = hexp(O[0]);
}
template <const int kHeadDim, const int kStage>
void launch(torch::Tensor Q, torch::Tensor K, torch::Tensor V, torch::Tensor O) {
  constexpr int kRows = (kHeadDim < 128) ? 64 : 32;
  constexpr int kCols = kHeadDim / (8 * kStage);
  constexpr int Bc = 8 * kCols;
  const int QKV_batch = Q.size(0), QKV_head = Q.size(1), QKV_seqlen = Q.size(2);
  assert(QKV_seqlen % Bc == 0);
  attend<kHeadDim, kRows, kCols><<<dim3(div_ceil(QKV_seqlen, kRows), QKV_batch * QKV_head), kRows>>>(
      reinterpret_cast<half*>(Q.data_ptr()), reinterpret_cast<half*>(K.data_ptr()),
      reinterpret_cast<half*>(V.data_ptr()), reinterpret_cast<half*>(O.data_ptr()), QKV_seqlen, QKV_head);
}
void attention(torch::Tensor Q, torch::Tensor K, torch::Tensor V, torch::Tensor O) {
  const int d = Q.size(3);
  switch (d) {
    case 32: launch<32, 2>(Q, K, V, O); break;
    case 64: launch<64, 2>(Q, K, V, O); break;
    case 128: launch<128, 2>(Q, K, V, O); break;
  }
}
"""


def test_numbers_that_follow_from_a_template_of_the_host_are_those_of_one_instance(tmp_path, capsys):
    path = tmp_path / "mine.cu"
    path.write_text(WRAPPED)
    assert command_line.main(["open", str(path), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["front_matter"]
    (launch,) = made["launches"]
    assert launch["entry"] == "attend<64, 64, 4>"
    assert launch["grid"] == ["ceil_div(seq_len, 64)", "batch * num_heads"] and launch["block"] == [64]
    assert launch["args"][4:] == ["int32 seq_len", "int32 num_heads"]
    assert {"head_dim == 64", "seq_len % 32 == 0"} <= {one["must"] for one in made["conditions"]}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("auto m = torch::full({b, n}, -INFINITY);", "lowest"),
        ("torch::Tensor m = at::full_like(q, -std::numeric_limits<float>::infinity(), opts);", "lowest"),
        ("auto m = torch::empty_like(q); m.fill_(-INFINITY);", "lowest"),
        ("auto m = torch::zeros({b, n}); m = m.to(device);", "zero"),
        ("auto m = torch::empty({b}); m.zero_();", "zero"),
        ("cudaMemset(m, 0, 4 * n);", "zero"),
        ("auto m = torch::full({b, n}, 3.5);", ""),
        ("auto mm = torch::zeros({b});", ""),
        ("// auto m = torch::zeros({b});", ""),
    ],
)
def test_what_the_host_fills_a_memory_with(line, found):
    assert initial_of(f"void f() {{\n  {line}\n}}\n", "m.data_ptr<float>()")[0] == found


TILED = """#include <torch/types.h>
__global__ void forward(const float* Q, const float* K, const float* V, const int N, const int d, const int Tc,
                        const int Tr, const int Bc, const int Br, const float softmax_scale, float* l, float* m,
                        float* O) {
  const int head = blockIdx.x * gridDim.y + blockIdx.y, t = threadIdx.x;
  const float *q = Q + head * N * d, *k = K + head * N * d, *v = V + head * N * d;
  for (int j = 0; j < Tc; ++j)
    for (int i = 0; i < Tr; ++i) {
      const int row = i * Br + t;
      float *o = O + (head * N + row) * d, &top = m[head * N + row], &sum = l[head * N + row];
      for (int c = j * Bc; c < (j + 1) * Bc; ++c) {
        float s = 0;
        for (int x = 0; x < d; ++x) s += q[row * d + x] * k[c * d + x];
        const float next = fmaxf(top, s * softmax_scale), p = expf(s * softmax_scale - next);
        const float before = sum * expf(top - next);
        for (int x = 0; x < d; ++x) o[x] = (o[x] * before + p * v[c * d + x]) / (before + p);
        sum = before + p, top = next;
      }
    }
}
torch::Tensor run(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
  const int Bc = 8, Br = 8;
  const int B = Q.size(0), nh = Q.size(1), N = Q.size(2), d = Q.size(3);
  const int Tc = ceil((float)N / Bc), Tr = ceil((float)N / Br);
  auto O = torch::zeros_like(Q);
  auto l = torch::zeros({B, nh, N});
  auto m = torch::full({B, nh, N}, -INFINITY);
  forward<<<dim3(B, nh), dim3(Bc)>>>(Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(), N, d, Tc, Tr, Bc,
      Br, 1.0 / sqrt(d), l.data_ptr<float>(), m.data_ptr<float>(), O.data_ptr<float>());
  return O;
}
"""


def test_a_kernel_of_a_torch_extension_begins_with_its_hosts_values_and_needs_whole_tiles(tmp_path, capsys):
    path = tmp_path / "mine.cu"
    path.write_text(TILED)
    assert command_line.main(["open", str(path), "--write"]) == 0
    said = capsys.readouterr().out
    assert "torch::full" in said and "it has no guard for a last tile that is not full" in said
    kernel = catalog.load_kernel(path)
    assert dict(kernel.initial) == {"o": "zero"}
    assert {text.name: text.initial for text in kernel.scratch} == {"l": "zero", "m": "lowest"}
    assert "seq_len % 8 == 0" in {one.must for one in kernel.conditions}
    problem = kernel.problem_type().with_fields(seq_len=16, head_dim=32, batch=1, num_heads=2)
    request = Request(kernel, problem)
    run = execute.run(request)
    assert not run.faults
    assert all(one.ok for one in execute.judge(run.max_abs_errors, execute.yardstick(request), problem, True))


def test_a_condition_in_a_comment_is_one_and_a_guard_makes_none(tmp_path, capsys):
    path = tmp_path / "mine.cu"
    path.write_text(
        TILED.replace("const int row = i * Br + t;", "const int row = i * Br + t;\n      if (row >= N) return;")
    )
    assert command_line.main(["open", str(path), "--json"]) == 0
    assert "seq_len %" not in capsys.readouterr().out
    path.write_text(path.read_text().replace("  const int Bc = 8", "  // we assume N % 4 == 0\n  const int Bc = 8"))
    assert command_line.main(["open", str(path), "--json"]) == 0
    assert '"seq_len % 4 == 0"' in capsys.readouterr().out


DISPATCHED = """#include <torch/all.h>
inline __device__ float as_float(half u) { return __half2float(u); }
inline __device__ float as_float(float u) { return u; }
template <typename scalar_t, const uint NUM_THREADS>
__global__ void scale(scalar_t* output, const scalar_t* first, const float* factor, const uint num_tokens,
                      const uint num_heads, const uint head_size) {
  const uint i = blockIdx.x * NUM_THREADS + threadIdx.x, pack = 16 / sizeof(scalar_t), each = head_size / pack;
  if (i >= num_tokens * num_heads * each) return;
  const float f = std::isinf(factor[i / each]) ? 0.f : factor[i / each];
  for (uint n = 0; n < pack; ++n) output[i * pack + n] = as_float(first[i * pack + n]) * f;
}
#define LAUNCH(scalar_t, NUM_THREADS)                                          \\
  scale<scalar_t, NUM_THREADS><<<grid, block>>>(                               \\
      reinterpret_cast<scalar_t*>(output.data_ptr()), (scalar_t*)first.data_ptr(), \\
      factor.data_ptr<float>(), num_tokens, num_heads, head_size);
template <typename scalar_t> void launcher(torch::Tensor& output, torch::Tensor& first, torch::Tensor& factor) {
  constexpr uint NUM_THREADS = 128;
  const uint num_tokens = output.size(0), num_heads = output.size(1), head_size = output.size(2);
  const uint pack = 16 / sizeof(scalar_t), total = num_tokens * num_heads * (head_size / pack);
  dim3 block(NUM_THREADS), grid((total + NUM_THREADS - 1) / NUM_THREADS);
  LAUNCH(scalar_t, NUM_THREADS)
}
#define CALL(scalar_t) launcher<scalar_t>(output, first, factor);
void run(torch::Tensor& output, torch::Tensor& first, torch::Tensor& factor) { CALL(float) }
"""


def test_a_dispatched_kernel_without_the_includes_that_torch_brings(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(DISPATCHED)
    files = ((path.name, DISPATCHED),)
    made = command.free_proposal(path, files, versions_of(DISPATCHED), {}, reach)
    assert not made.questions and made.table["launches"][0]["entry"] == "scale<float, 128>"
    shapes = {name: table["shape"] for name, table in made.table["tensors"].items()}
    assert shapes["output"] == shapes["first"] == ["num_tokens * num_heads * head_size"]
    assert shapes["factor"] == ["num_tokens * num_heads"]


def test_questions_of_a_tiled_kernel_have_guesses(tmp_path, capsys):
    path = tmp_path / "mine.cu"
    path.write_text(
        "constexpr int d = 128, B_r = 8, B_c = 32;\nconstexpr int block_dim_x = 128;\nconstexpr int block_dim_y = 8;\n"
        "__global__ void attend(float* out, float* out_l, float* Q, float* K, float* V, int n, int T_r, int T_c) {\n"
        "  __shared__ float s[B_r][d];\n  const int x = threadIdx.x, y = threadIdx.y, i = blockIdx.x * B_r + y;\n"
        "  for (int j = 0; j < T_c; ++j) s[y][x] = Q[i * d + x] * expf(K[j * B_c * d + x]);\n"
        "  out[i * d + x] = s[y][x] * V[x];\n  out_l[i] = n;\n}\n"
    )
    assert command_line.main(["open", str(path)]) == 1
    asked = [line for line in capsys.readouterr().out.splitlines() if line.startswith("unknown:")]
    assert 1 <= len(asked) <= 5 and all("A guess: --say" in line for line in asked)
    assert any("T_r=ceil_div(seq_len, 8)" in line for line in asked)


@pytest.mark.parametrize(("sums", "line"), [("f16.f16.f16.f16", 4), ("f32.f16.f16.f32", 0)])
def test_products_with_sums_of_16_bits_are_the_reason_of_small_errors(sums, line):
    text = (
        f'#define PRODUCT(d) asm volatile("mma.sync.aligned.m16n8k16.row.col.{sums} {{%0}};" : "=r"(d))\n'
        "__device__ void unused() {}\n__global__ void f(unsigned* x) {\n  PRODUCT(x[0]);\n}\n"
    )
    request = SimpleNamespace(kernel=SimpleNamespace(plain=True, files=(("mine.cu", text),)))
    found = products.reason(request, [SimpleNamespace(share=2.0)])
    assert (found.line if found else 0) == line
    assert products.reason(request, [SimpleNamespace(share=1e6)]) is None


def test_a_header_that_is_not_next_to_the_file_is_one_sentence_if_device_code_needs_it(tmp_path, capsys):
    path = tmp_path / "mine.cu"
    text = (
        '#include "utils.h"\n#include <torch/extension.h>\n'
        "__global__ void f(float* x, int n) {\n  if (threadIdx.x < WIDTH && n < INT_MAX) x[threadIdx.x] = 1;\n}\n"
    )
    path.write_text(text)
    assert command_line.main(["open", str(path)]) == 2
    said = capsys.readouterr().err
    assert "mine.cu includes utils.h, which is not next to it, and device code needs WIDTH (line 4)." in said
    (tmp_path / "utils.h").write_text("#define WIDTH 32\n")
    host.check_headers(((path.name, text), ("utils.h", "#define WIDTH 32\n")))
    host.check_headers(((path.name, text.replace("WIDTH", "width")),))
