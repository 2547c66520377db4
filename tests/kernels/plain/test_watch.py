"""Marked lines of a plain kernel: the calls in its text, their records, and the page Online softmax."""

from dataclasses import replace
from pathlib import Path

import pytest
from pages import shown_with

from explainers.models import softmax_rows
from explainers.stories.online_softmax import online_softmax
from explainers.story import probed
from kernels.build import CPU, Mode, build
from kernels.build.plain import watching
from kernels.build.plain.edits import cpu_text
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BuildError, FrontMatterError, ProblemError
from kernels.run import execute
from kernels.run.check import check_case

TUTORIALS = Path(__file__).parent / "tutorials"
MARKS = {  # a tutorial -> its marks: at most four lines
    "t01_static_shared": """"for (int j = 0; j < TILE" = "tile = start + j"
"l = l * alpha + p;" = "score[row, col] = s; m[row] = m_new; p[row, col] = p; l[row] = l; rescale[row] = alpha"
""",
    "t02_dynamic_shared": """"m = fmaxf(m, scores[j])" = "score[row, col = j, head = blockIdx.y] = scores[j]"
"m = reduce(m" = "m[row, head = blockIdx.y]"
"l = reduce(l" = "l[row, head = blockIdx.y]"
"sum += scores[j]" = "p[row, col = j, head = blockIdx.y] = scores[j] / l"
""",
    "t03_template": """"for (int j = 0; j < keys" = "tile"
"l = l * alpha + p;" = "score[row, col = j] = s; m[row] = m_new; p[row, col = j]; l[row]"
""",
    "t04_two_launches": """"S[((size_t)blockIdx.z" = "score[row, col, head = blockIdx.z] = sum * scale"
"acc += p" = "p[row, col = j, head = blockIdx.y]"
"acc / l;" = "m[row, head = blockIdx.y]; l[row, head = blockIdx.y]"
""",
    "t05_whole_program": """"m = fmaxf(m, p[j]);" = "score[row, col = j] = p[j]"
"m = cg::reduce" = "m[row]"
"l = cg::reduce" = "l[row]"
"sum += p[j]" = "p[row, col = j] = p[j] / l"
""",
    "t06_half2": """"for (int j = 0; j < visible" = "tile"
"row_sum = row_sum * rescale + p;" = "score[row, col = j] = s; m[row] = new_max; p[row, col = j]; l[row] = row_sum"
""",
    "t07_wmma": """"for (int start = 0" = "tile"
"m = fmaxf(m, s[" = "score[row, col = start + j] = s[lane * 16 + j]"
"l += w;" = "p[row, col = start + j] = w"
"row_sum[lane] = l;" = "m[row]; l[row]; rescale[row] = alpha"
""",
    "t08_cooperative_grid": """"S[i] = causal" = "score[row, col, head] = dot * scale"
"m = block_all_reduce(block, lanes, m" = "m[row = row % n, head = row / n]"
"sum = block_all_reduce(block, lanes, sum" = "l[row = row % n, head = row / n] = sum"
"s[j] /= sum" = "p[row = row % n, col = j, head = row / n] = s[j]"
""",
    "t09_paged_walk": """"for (int token = warp" = "tile"
"acc[i] = acc[i]" = "score[row = 0, col = token, head = sequence * heads + head, walk = warp] = score * scale; \
m[row = 0, head = sequence * heads + head, walk = warp] = softmax.max_value; \
p[row = 0, col = token, head = sequence * heads + head, walk = warp] = weight; \
l[row = 0, head = sequence * heads + head, walk = warp] = softmax.denominator"
""",
    "t10_float4_ldg": """"for (int key = 0" = "tile"
"l = fmaf(l, alpha, p);" = "score[row, col = key] = s; m[row]; p[row, col = key]; l[row]; rescale[row] = alpha"
""",
    "t11_split_k": """"for (int j = begin" = "tile"
"m = newM;" = "score[row = blockIdx.x, col = j, head = blockIdx.z, walk = blockIdx.y] = s; \
m[row = blockIdx.x, head = blockIdx.z, walk = blockIdx.y]; \
p[row = blockIdx.x, col = j, head = blockIdx.z, walk = blockIdx.y]; \
l[row = blockIdx.x, head = blockIdx.z, walk = blockIdx.y]"
""",
    "t12_pipeline": """"for (int j = 0; j < kKeys" = "tile = tile * kKeys + j"
"l = l * alpha + p;" = "score[row, col = key] = s; m[row] = m_new; p[row, col = key]; l[row]"
""",
}
FIELDS = {  # in a link
    "t02_dynamic_shared": "&seq_len=24&at_head=1",
    "t04_two_launches": "&seq_len=24&at_head=1",
    "t06_half2": "&seq_len=48",
    "t07_wmma": "&dtype=bfloat16",
    "t08_cooperative_grid": "&seq_len=24&at_head=1",
    "t09_paged_walk": "&at_batch=2&at_head=3&walk=2",
    "t10_float4_ldg": "&seq_len=48",
    "t11_split_k": "&seq_len=24&at_head=1&walk=1&causal=true",
    "t12_pipeline": "&seq_len=48",
}
RUNNING = ("t01_static_shared", "t03_template", "t06_half2", "t10_float4_ldg", "t12_pipeline")  # their max moves


def _marked(folder, name):
    head, code = (TUTORIALS / f"{name}.cu").read_text().split("*/", 1)
    path = folder / f"{name}.cu"
    path.write_text(f"{head}\n[watch]\n{MARKS[name]}*/{code}")
    return path


def _spec(folder, marks, body, head="t01_static_shared"):
    text = (TUTORIALS / f"{head}.cu").read_text().split("*/", 1)[0]
    signature = "const float* q, const float* k, const float* v, float* o, int n, int d, int causal, float scale"
    path = folder / "marked.cu"
    path.write_text(f'{text}\n[watch]\n{marks}\n*/\nextern "C" __global__ void attention({signature}) {{\n{body}\n}}\n')
    return load_kernel(path)


def _text(spec):
    return cpu_text(spec.source, more=watching.edits(spec, spec.path.name))


@pytest.mark.parametrize(
    ("marks", "body", "call"),
    [
        (
            '"m = 1" = "m[row = n]"',
            "float m; m = 1;",
            "m = 1; simt_quiet(1); simt_watch(0, (float)(m), (long long)(n))",
        ),
        ('"m += j" = "m"', "float m = 0; for (int j = 0; j < n; ++j) m += j;", "{m += j; simt_quiet(1); simt_watch(0,"),
        ('"m = 1" = "m"', "float m = 0; if (n) m = 1; else m = 2;", "simt_quiet(0); } else m = 2;"),
        ('"(n) {" = "m"', "float m = 0; if (n) {\n m = 1; }", "if (n) { simt_quiet(1); simt_watch(0,"),
        (
            '"for (int j" = "tile"',
            "for (int j = 4; j < n; j += 2) o[j] = 0;",
            "{ simt_quiet(1); simt_watch(0, (float)(0), (long long)((j - (4)) / (2))); simt_quiet(0);  o[j] = 0;}",
        ),
    ],
)
def test_a_mark_becomes_a_call_on_its_line(tmp_path, marks, body, call):
    spec = _spec(tmp_path, marks, body)
    assert call in "\n".join(line for line in _text(spec).splitlines() if "simt_watch" in line)
    assert _text(spec).count("\n") == spec.source.count("\n")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("OUT", "the value of a mark has '{'"),
        ("P(sim, t_quiet)(1)", "the name simt_quiet belongs to the CPU's runtime"),
    ],
)
def test_no_value_of_a_mark_silences_the_probes(tmp_path, value, said):
    body = "float m;\n#define P(a, b) a##b\n#define OUT ({ goto end; 0.f; })\nm = 1;\nend: o[0] = 1;"
    spec = _spec(tmp_path, f'"m = 1" = "m = {value}"', body)
    with pytest.raises(BuildError, match=said):
        build(spec, Request(spec, spec.problem_type()).defines, Mode.PROBED, CPU)


def test_a_value_in_a_marked_loop_has_its_number(tmp_path):
    spec = _spec(
        tmp_path,
        '"for (int j" = "tile"\n"m = j" = "m[row = n]"',
        "float m = 0;\nfor (int j = 0; j < n; ++j) {\n  m = j;\n}",
    )
    assert {mark.event: mark.keys for mark in watching.marks(spec)} == {
        "loop": ("tile",),
        "loop_end": (),
        "m": ("row", "tile"),
    }


@pytest.mark.parametrize(
    ("marks", "error", "said"),
    [
        ('"nowhere" = "m"', BuildError, 'watch."nowhere" is on no line'),
        ('"o[" = "m"', BuildError, "is on several lines"),
        ('"for (int j" = "m; l"', BuildError, "a loop has one name"),
        ('"for (int j" = "lane"', FrontMatterError, "no name of a trace's column"),
        ('"o[j]" = "m[row"', FrontMatterError, "is no mark"),
        ('"o[j]" = 3', FrontMatterError, "It must be a text"),
    ],
)
def test_a_mark_that_cannot_be_is_refused(tmp_path, marks, error, said):
    with pytest.raises(error) as refused:
        watching.marks(_spec(tmp_path, marks, "for (int j = 0; j < n; ++j) o[j] = 0;\no[0] = 1;"))
    assert said in str(refused.value)


def test_the_marks_log_steps_and_values_and_change_no_output(tmp_path):
    frames, outputs = [], []
    for path in (TUTORIALS / "t03_template.cu", _marked(tmp_path, "t03_template")):
        kernel = load_kernel(path)
        shown = sample(kernel)
        run = execute.run(Request(kernel, shown.problem, tuple(kernel.settings(shown.settings).items())))
        frames.append(run.trace.frame())
        outputs.append(run.arrays["o"].tobytes())
    plain, marked = frames
    assert outputs[0] == outputs[1]
    assert (marked.space.notna().sum(), "tile" in plain) == (plain.space.notna().sum(), False)
    values = marked[marked.value.notna()]
    assert set(values.event) == {"score", "m", "p", "l"} and values.row.notna().all() and values.tile.notna().all()
    assert (values[values.event == "score"].col == values[values.event == "score"].tile).all()


def _shown(folder, names):
    links = [f"online_softmax?kernel={name}{FIELDS.get(name, '')}" for name in names]
    return dict(zip(names, shown_with(folder, *links)))


WALK = "t11_split_k&seq_len=8&num_heads=1&walk=7"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marked")
    for name in ("t03_template", "t11_split_k"):
        _marked(folder, name)
    return _shown(folder, ["t03_template", WALK])


def _works(name, page):
    assert not page["error"] and not page["told"] and page["choices"]["kernel"] == name
    assert page["summary"].startswith("The row agrees with float64 at every step.")
    assert page["steps"] > 100 if name in RUNNING else page["steps"] >= 5


def test_online_softmax_shows_a_marked_kernel(opened):
    _works("t03_template", opened["t03_template"])


@pytest.mark.slow
def test_online_softmax_shows_each_tutorial_after_marks_on_at_most_four_lines(tmp_path):
    for name in MARKS:
        _marked(tmp_path, name)
        assert MARKS[name].count("\n") <= 4
    for name, page in _shown(tmp_path, list(MARKS)).items():
        _works(name, page)


def test_a_row_without_values_and_an_unknown_walk_are_told(opened, tmp_path):
    path, page = _marked(tmp_path, "t11_split_k"), opened[WALK]
    assert page["told"] == ["walk is 7. This row has the walks 0, 1, 2."] and not page["error"]
    path.write_text(path.read_text().replace("head = blockIdx.z", "head = 5"))
    kernel = load_kernel(path)
    request = Request(kernel, kernel.problem_type(seq_len=8, num_heads=1))
    run = execute.run(replace(request, scope=Scope.everything(request.plan)))
    with pytest.raises(ProblemError, match="The run logged no score, m, p and l of row 6 of head 0"):
        online_softmax.explain(run, 6, 0)


def test_online_softmax_refuses_a_row_with_an_incomplete_mark_and_other_kernels_keep_their_pages(tmp_path):
    path = _marked(tmp_path, "t11_split_k")
    assert not softmax_rows.refusal(load_kernel(path))
    path.write_text(path.read_text().replace("l[row = blockIdx.x, head = blockIdx.z, ", "l[row = blockIdx.x, "))
    assert "does not log l(row, head, walk)" in softmax_rows.refusal(load_kernel(path))
    faulty = _spec(tmp_path, '"nowhere" = "m"', "o[0] = 1;")
    assert probed.values(faulty) == {}
    assert "Mark a line for each in its table [watch]." in probed.without_events(faulty, {"m": ("row",)})


def test_marks_show_the_first_wrong_value_with_its_line(tmp_path):
    file = _marked(tmp_path, "t01_static_shared")
    text = file.read_text().replace("l = l * alpha + p;", "l = l + p;").replace("acc[d] * alpha", "acc[d]")
    file.write_text(text)
    kernel = load_kernel(file)
    reason = check_case(kernel, Case(kernel.problem_type(seq_len=20, head_dim=32, num_heads=1)), "cpu")[0].reason
    assert reason and reason.kind == "rescale" and reason.first
    assert reason.first.name == "l" and text.splitlines()[reason.first.line - 1].strip() == "l = l + p;"
