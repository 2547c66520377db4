"""`open` proposes the front matter of an untouched .cu. Its plan is that of the tutorial's own front matter."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import __main__ as command_line
from kernels import catalog
from kernels.core.cases import sample
from kernels.core.problem import Case
from kernels.errors import ProblemError
from kernels.opening import command, host, matching, program, proposal
from kernels.opening.names import multiples_of, translated
from kernels.opening.ran import Argument, RanLaunch
from kernels.opening.versions import versions_of
from kernels.run import execute
from kernels.run.check import check_case

TUTORIALS = sorted((Path(__file__).parents[1] / "plain" / "tutorials").glob("*.cu"))
SAID = {
    "t02_dynamic_shared": {"block": "64", "shared_bytes": "4 * (seq_len + 64)"},
    "t03_template": {"ROWS": "4", "block": "32, 4"},
    "t07_wmma": {"block": "32", "shared_bytes": "4 * 16 * (head_dim + 16) + 2 * 16 * 16 + 3 * 2 * 16 * head_dim"},
    "t08_cooperative_grid": {"grid": "6", "block": "64"},
    "t10_float4_ldg": {"VECS": "HEAD_DIM / 32"},
    "t11_split_k": {
        "grid": "seq_len, 3, batch * num_heads",
        "part_o": "batch * num_heads * seq_len * 3 * head_dim",
        "part_ml": "batch * num_heads * seq_len * 3",
        "arrived": "batch * num_heads * seq_len",
    },
    "t12_pipeline": {"block": "64", "shared_bytes": "2 * 2 * 16 * head_dim * 4"},
}
"""The answers that the text does not give."""


def _bare(path):
    return re.sub(r"\A/\*.*?\*/\n", "", path.read_text(), flags=re.S)


def _proposed(path, text):
    launches = proposal.launches_of(text)
    fit = matching.best(command.problems(), proposal.parameters_of(text, launches))[0]
    return proposal.propose(path, text, fit, launches, SAID.get(path.stem, {}))


def _shown(step):
    args = tuple(
        "scratch" if str(arg) in ("s", "parto", "part_o", "partml", "part_ml") else str(arg) for arg in step.args
    )
    return step.grid, step.block, step.shared_bytes, step.cooperative, args


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_proposal_for_a_tutorial_gives_the_plan_of_its_own_front_matter(path):
    own = catalog.load_kernel(path)
    made = _proposed(path, _bare(path))
    assert not made.questions
    kernel = command._kernel(made, path, _bare(path))
    shown = sample(own)
    theirs, ours = own.plan(shown.problem, shown.settings), kernel.plan(shown.problem)
    assert kernel.problem_type is own.problem_type
    assert [_shown(step) for step in ours.launches] == [_shown(step) for step in theirs.launches]


def test_a_program_runs_whole_and_its_launch_becomes_a_problem(tmp_path, capsys):
    source = tmp_path / "whole.cu"
    source.write_text(_bare(next(path for path in TUTORIALS if "whole" in path.stem)))
    text = source.read_text()
    assert command_line.main(["open", str(source), "--write", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    fields = "--set seq_len=128 --set head_dim=64"
    assert said["commands"] == [f"run {source} {fields}"]
    assert source.read_text().endswith(text)
    assert catalog.load_kernel(source).plain
    assert command_line.main(["open", str(source)]) == 2
    assert "has its front matter already" in capsys.readouterr().err


def test_an_unknown_part_is_a_question_and_nothing_is_written(tmp_path, capsys):
    source = tmp_path / "tiled.cu"
    source.write_text(
        "__global__ void f(const float* q, const float* k, const float* v, float* o, int tiles) {\n"
        "  o[0] = expf(q[0] * k[0]) * v[0];\n}\n"
    )
    assert command_line.main(["open", str(source), "--out", str(tmp_path / "new.cu")]) == 1
    assert "unknown: int tiles of f. Say it with --say tiles=EXPRESSION" in capsys.readouterr().out
    assert not (tmp_path / "new.cu").exists()


@pytest.mark.parametrize(
    ("pointers", "body", "family"),
    [
        ("const float* left, float* right", "right[0] = left[0];", None),
        ("const float* x, float* y", "y[0] = rsqrtf(x[0]);", None),  # no RMSNorm has these two tensors only
        ("const float* x, float* o", "o[0] = x[0];", None),
        ("const float* q, const float* k, const float* v, float* o", "o[0] = q[0] * k[0] * v[0];", None),
        ("const float* q, const float* k, const float* v, float* o", "o[0] = expf(q[0] * k[0]) * v[0];", "dense"),
    ],
)
def test_a_family_fits_by_all_its_inputs_and_the_signs_of_its_text(pointers, body, family):
    text = f"__global__ void f({pointers}) {{ {body} }}"
    fit = command._fit(text, proposal.parameters_of(text, proposal.launches_of(text)), {})
    assert (fit.family if fit else None) == family


def test_an_answer_chooses_the_family_and_one_that_does_not_fit_is_refused():
    text = "__global__ void f(const float* x, float* y) { y[0] = x[0]; }"
    listed = proposal.parameters_of(text, proposal.launches_of(text))
    assert command._fit(text, listed, {"family": "fusion/norm"}).problem == "norm"
    assert command._fit(text, listed, {"family": "free"}) is None
    with pytest.raises(ProblemError, match="family=dense does not fit the pointers float. x, float. y"):
        command._fit(text, listed, {"family": "dense"})


@pytest.mark.parametrize(
    ("said", "became"),
    [
        ("(N + BLOCK - 1) / BLOCK", "ceil_div(seq_len, 32)"),
        ("(N + 31) / 32", "ceil_div(seq_len, 32)"),
        ("(B * H + 3) / 4", "ceil_div(batch * num_heads, 4)"),
        ("cdiv(N, BLOCK)", "ceil_div(seq_len, 32)"),
        ("2 * N * sizeof(float)", "2 * seq_len * 4"),
        ("(unsigned)N", "seq_len"),
        ("unknown + 1", None),
        ("1.f / sqrtf(N)", None),
    ],
)
def test_a_c_expression_becomes_one_of_the_front_matter(said, became):
    assert translated(said, {"N": "seq_len", "BLOCK": "32", "B": "batch", "H": "num_heads"}) == became


def test_launches_are_read_with_templates_variables_and_cooperative_calls():
    text = (
        "template <int D> __global__ void f(float* o) {}\n"
        "__global__ void g(float* o, int n) {}\n"
        "int main() {\n"
        "  dim3 grid((N + 3) / 4, 2);\n"
        "  f<64><<<grid, dim3(32, 4), 16>>>(o);\n"
        "  void* list[] = {&o, &n};\n"
        "  cudaLaunchCooperativeKernel((void*)g, 8, 64, list, 0, 0);\n"
        "}\n"
    )
    one, two = host.host_launches(text)
    assert (one.entry, one.grid, one.block, one.shared, one.args, one.line) == (
        *("f<64>", "dim3((N + 3) / 4, 2)", "dim3(32, 4)", "16"),
        ("o",),
        5,
    )
    assert (two.entry, two.grid, two.block, two.args, two.cooperative) == ("g", "8", "64", ("o", "n"), True)
    assert program.program_text(text).count("\n") == text.count("\n")


def test_a_program_without_an_end_names_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "SECONDS", 1)
    with pytest.raises(Exception, match="takes more than 1 s"):
        host.run("endless.cu", "int main() { for (volatile int i = 0;; ) i = i; }\n")


def test_a_program_that_reads_a_file_outside_the_jail_gets_nothing(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    text = f'#include <cstdio>\nint main() {{ return fopen("{secret}", "r") ? 3 : 4; }}\n'
    assert host.run("reads.cu", text).code == 4


WHOLE = """#include <cmath>
#include <cuda_runtime.h>
#include <ctime>
#include <iostream>
#include <vector>
#define TILE 16
__global__ void products(const float* d_Q, const float* d_K, float* d_S, int N, int D, float scale) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= N || col >= N) return;
  float sum = 0;
  for (int i = 0; i < D; i++) sum += d_Q[(blockIdx.z * N + row) * D + i] * d_K[(blockIdx.z * N + col) * D + i];
  d_S[(blockIdx.z * N + row) * N + col] = sum * scale;
}
__global__ void outputs(float* P, const float* V, float* Out, int N, int D) {
  const int d = threadIdx.x, row = blockIdx.x;
  float* p = P + ((size_t)blockIdx.y * N + row) * N;
  float m = -INFINITY, l = 0, sum = 0;
  for (int j = 0; j < N; j++) m = fmaxf(m, p[j]);
  for (int j = 0; j < N; j++) l += expf(p[j] - m), sum += expf(p[j] - m) * V[((size_t)blockIdx.y * N + j) * D + d];
  Out[((size_t)blockIdx.y * N + row) * D + d] = sum / l;
}
int main() {
  const int B = 1, H = 3, N = 40, D = 32;
  const size_t bytes = sizeof(float) * B * H * N * D;
  std::vector<float> host(B * H * N * D, 0.5f);
  float *dQ, *dK, *dV, *dO, *dS;
  cudaMalloc(&dQ, bytes), cudaMalloc(&dK, bytes), cudaMalloc(&dV, bytes), cudaMalloc(&dO, bytes);
  cudaMalloc(&dS, B * H * N * N * sizeof(float));
  for (float* p : {dQ, dK, dV}) cudaMemcpy(p, host.data(), bytes, cudaMemcpyHostToDevice);
  const clock_t start = clock();
  dim3 block(TILE, TILE);
  dim3 grid((N + TILE - 1) / TILE, (N + TILE - 1) / TILE, B * H);
  products<<<grid, block>>>(dQ, dK, dS, N, D, 1.0f / sqrtf((float)D));
  outputs<<<dim3(N, B * H), D>>>(dS, dV, dO, N, D);
  cudaMemcpy(host.data(), dO, bytes, cudaMemcpyDeviceToHost);
  std::cout << "first " << host[0] << " at " << start << std::endl;
  return std::fabs(host[0] - 0.5f) < 1e-6f ? 0 : 1;
}
"""


def test_a_program_with_two_launches_shares_its_memory_and_passes_the_check(tmp_path, capsys):
    source, made = tmp_path / "mine.cu", tmp_path / "opened.cu"
    source.write_text(WHOLE)
    assert command_line.main(["open", str(source), "--out", str(made), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["commands"] == [f"run {made} --set seq_len=40 --set num_heads=3"]
    table = said["front_matter"]
    assert list(table["scratch"]) == ["s"]
    assert table["launches"][0]["grid"] == ["ceil_div(seq_len, 16)", "ceil_div(seq_len, 16)", "batch * num_heads"]
    kernel = catalog.load_kernel(made)
    problem = kernel.problem_type(seq_len=40, num_heads=3)
    verdicts = check_case(kernel, Case(problem), "cpu")
    assert all(verdict.ok for verdict in verdicts), verdicts


def test_a_tiled_kernel_with_row_sums_is_dense_with_its_tile_counts():
    text = (
        "__global__ void f(const float* Q, const float* K, const float* V, int N, int d, int Tc, int Bc, float* l,\n"
        "                  float* m, float* O) {}\n"
        "int main() {\n"
        "  const int B = 1, nh = 2, Bc = 32, N = 64;\n"
        "  const int Tc = ceil((float) N / Bc);\n"
        "  cudaMalloc(&l, B * nh * N * sizeof(float));\n"
        "  f<<<dim3(B, nh), Bc>>>(Q, K, V, N, d, Tc, Bc, l, m, O);\n"
        "}\n"
    )
    (launch,) = _proposed(Path("f.cu"), text).table["launches"]
    assert launch["grid"] == ["batch", "num_heads"]
    assert launch["block"] == [32]
    assert launch["args"] == [
        *("q", "k", "v", "int32 seq_len", "int32 head_dim", "int32 ceil_div(seq_len, 32)"),
        *("int32 32", "l", "m", "o"),
    ]


HALVES = """#include <cuda_fp16.h>
__global__ void f(const half* q, const half* k, const half* v, half* OUT, int seqlen) { hexp(q[0]); }
"""


def test_an_output_that_no_launch_takes_is_not_judged(tmp_path, capsys):
    for name, kept in (("out", ["o"]), ("nothing", [])):
        source = tmp_path / f"{name}.cu"
        source.write_text(HALVES.replace("OUT", "out"))
        assert command_line.main(["open", str(source), "--write", "--say", "grid=seq_len"]) == 0
        if not kept:
            source.write_text(source.read_text().replace('"o", ', '"q", '))
        kernel = catalog.load_kernel(source)
        problem = kernel.problem_type(seq_len=8, num_heads=1)
        arrays = {tensor.name: np.zeros(tensor.shape) for tensor in problem.tensors()}
        plan = kernel.plan(problem)
        if kept:
            assert list(execute.largest_errors(problem, arrays, plan=plan)) == kept
        else:
            with pytest.raises(ProblemError, match="No launch of the kernel takes an output"):
                execute.largest_errors(problem, arrays, plan=plan)


WALK = """#define TILE 32
__global__ void attention(const float* Q, const float* K, const float* V, float* O, int N, int head_dim, float scale) {
  BODY
  O[threadIdx.x] = expf(Q[0] * K[0]) * V[0];
}
void run() { attention<<<N, 32>>>(q, k, v, o, N, head_dim, scale); }
"""


@pytest.mark.parametrize(
    ("body", "must"),
    [
        ("for (int tile = 0; tile < N / 32; ++tile) {}", ["seq_len % 32 == 0"]),
        ("for (int tile = 0; tile < N / TILE; ++tile) {}", ["seq_len % 32 == 0"]),
        ("for (int key = 0; key < N; key += TILE) {}", ["seq_len % 32 == 0"]),
        ("assert(N % 16 == 0);", ["seq_len % 16 == 0"]),
        ("if (N % TILE != 0) return;", ["seq_len % 32 == 0"]),
        ("for (int tile = 0; tile < (N + TILE - 1) / TILE; ++tile) {}", []),
        ("for (int tile = 0; tile < N / 32 + (N % 32 != 0); ++tile) {}", []),
        ("for (int key = 0; key < N; key += TILE) { if (key + threadIdx.x < N) {} }", []),
        ("for (int key = threadIdx.x; key < N; key += 32) {}", []),
        ("// N / 32 tiles", []),
    ],
)
def test_a_text_without_a_rest_proposes_the_condition_for_multiples(body, must):
    text = WALK.replace("BODY", body)
    fit = command._fit(text, proposal.parameters_of(text, proposal.launches_of(text)), {})
    assert multiples_of(fit, text, {}) == must


WIDTH = """DEFINE
__global__ void rows(const float* q, const float* k, const float* v, float* o, int seq_len, float scale) {
  __shared__ float part[128];
  int row = blockIdx.x, d = threadIdx.x;
  for (int w = T / 2; w > 0; w /= 2) part[d] += part[d + w];
  for (int j = 0; j < seq_len; ++j) part[d] += q[row * W + d] * k[j * W + d] * v[j * W + d];
  o[row * W + d] = expf(part[d] * scale);
}
void run() { rows<<<dim3(seq_len, batch * num_heads), W>>>(q, k, v, o, seq_len, scale); }
"""


@pytest.mark.parametrize("define", ["#define W 64", "#define T 128\n#define W 64", "constexpr int W = 64, T = 128;"])
def test_a_width_in_the_text_is_a_condition_and_a_number_of_the_text_is_none(define):
    """A scale tells no width, and T / 2 of a constant T says nothing about seq_len."""
    text = WIDTH.replace("DEFINE", define).replace("T / 2", "T / 2" if "T" in define else "64")
    made = _proposed(Path("rows.cu"), text)
    assert [one["must"] for one in made.table["conditions"]] == ["not causal", "head_dim == 64"]


def test_a_field_whose_0_means_another_goes_in_as_its_value():
    text = (
        "__global__ void f(const half* q, const half* k, const half* v, half* o, int seq_len_kv, int num_kv_heads) {\n"
        "  o[0] = hexp(q[0] * k[0]) * v[0];\n}\n"
        "void run() { f<<<seq_len, 32>>>(q, k, v, o, seq_len_kv, num_kv_heads); }\n"
    )
    (launch,) = _proposed(Path("f.cu"), text).table["launches"]
    assert launch["args"][-2:] == ["int32 keys", "int32 kv_heads"]


def test_a_grid_over_the_queries_proposes_query_tiles_as_items():
    items = {
        path.stem: [one.get("item", "") for one in _proposed(path, _bare(path)).table["launches"]] for path in TUTORIALS
    }
    tiled = {name for name, found in items.items() if found == ["query tile"]}
    assert tiled >= {
        "t01_static_shared",
        "t02_dynamic_shared",
        "t06_half2",
        "t07_wmma",
        "t10_float4_ldg",
        "t12_pipeline",
    }
    assert tiled.isdisjoint({"t04_two_launches", "t08_cooperative_grid", "t09_paged_walk", "t11_split_k"})


def test_the_problem_of_main_is_that_of_the_instance_that_ran_and_not_the_smallest_one():
    """The text launches flash<D, 16>. Its run names flash<32, 16>, and the proposal flash<HEAD_DIM, 16>."""
    text = (
        "template <int D, int BR> __global__ void flash(const float* Q, const float* K, const float* V, float* O,"
        " float* L, int N, bool causal) { O[0] = expf(Q[0] * K[0]) * V[0]; L[0] = 0; }\n"
        "void run(float* Q, float* K, float* V, float* O, float* L, int N) {\n"
        "  constexpr int D = 32;\n  flash<D, 16><<<4, 16>>>(Q, K, V, O, L, N, true);\n}\n"
    )
    listed = proposal.parameters_of(text, list(versions_of(text, "").launches))
    fit = command._fit(text, listed, {})
    assert fit is not None
    pointers = tuple(Argument(memory=n, bytes=2 * 80 * (32 if n < 4 else 1) * 4) for n in range(5))
    args = (*pointers, Argument(80.0), Argument(1.0))
    ran = RanLaunch(4, "flash<D, 16>", (5, 2), (16,), 0, args, "flash<32, 16>")
    problem = command.problem_of(fit, listed, (ran,), ["flash<HEAD_DIM, 16>"])
    fields = {"seq_len": 80, "num_heads": 2, "head_dim": 32, "causal": True}
    assert problem is not None and fields.items() <= problem.values().items()
    other = replace(ran, args=tuple(replace(one, bytes=one.bytes + 4) for one in pointers) + args[5:])
    assert command.problem_of(fit, listed, (other,), ["flash<HEAD_DIM, 16>"]) is None
