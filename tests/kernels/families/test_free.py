"""A kernel without a problem: its comment declares tensors, sizes, contents, and perhaps a truth of one line."""

import pickle

import numpy as np
import pytest

from kernels import catalog
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.tensors import Initial, Role
from kernels.errors import FrontMatterError, ProblemError
from kernels.families.free import contents
from kernels.families.free.problem import FreeProblem
from kernels.families.free.truth import Truth
from kernels.run import execute
from kernels.run.check import check_case
from tests.front import TEXTS

TABLES = """
[sizes]
n = 40
alpha = 2.5

[tensors.x]
shape = ["n + 4"]

[tensors.y]
shape = ["n"]
role = "output"
initial = {ramp = [0, 1]}

[[launches]]
entry = "axpy"
grid = ["ceil_div(n, 32)"]
block = [32]
args = ["float32 alpha", {tensor = "x", offset = 16}, "y", {null = true}, {bytes = "28000000"}]
"""
BODY = """
__global__ void axpy(float alpha, const float* x, float* y, const int* mask, int last) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < last && mask == nullptr) y[i] += alpha * x[i];
}
"""


def _kernel(folder, tables=TABLES, top="", body=BODY):
    path = folder / "mine.cu"
    path.write_text(f'/*\n{TEXTS}family = "free"\n{top}{tables}*/\n{body}')
    return catalog.load_kernel(path)


def _table(**tables):
    return {"sizes": {"n": 6}, "tensors": {"y": {"shape": ["n"], "role": "output"}}, **tables}


def test_its_fields_tensors_and_arguments_come_from_the_comment_and_its_line_of_numpy_judges_it(tmp_path):
    kernel = _kernel(tmp_path, top='truth = "y + alpha * x[4:]"\n')
    problem = kernel.problem_type()
    assert problem.values() == {"seed": 0, "n": 40, "alpha": 2.5}
    assert [(t.name, t.shape, t.role, t.initial) for t in problem.tensors()] == [
        ("x", (44,), Role.INPUT, Initial.GIVEN),
        ("y", (40,), Role.OUTPUT, Initial.GIVEN),
    ]
    assert (problem.inputs()["y"] == np.arange(40)).all()
    verdicts = check_case(kernel, Case(problem), "cpu")
    assert all(verdict.ok and verdict.errors for verdict in verdicts), verdicts
    wrong = _kernel(tmp_path, top='truth = "y + alpha * x[:-4]"\n')
    assert not any(verdict.ok for verdict in check_case(wrong, Case(wrong.problem_type()), "cpu"))


def test_without_a_truth_nobody_compares_the_values_and_faults_are_found(tmp_path):
    kernel = _kernel(tmp_path)
    assert not kernel.problem_type().compared
    assert all(one.ok and not one.errors for one in check_case(kernel, Case(kernel.problem_type()), "cpu"))
    beyond = _kernel(tmp_path, TABLES.replace('"28000000"', '"29000000"'))
    (verdict,) = check_case(beyond, Case(beyond.problem_type()), "cpu")
    assert not verdict.ok
    assert "y[40], and y has 40 elements" in verdict.message


def test_a_kernel_travels_to_a_worker_with_the_class_of_its_problems(tmp_path):
    kernel = _kernel(tmp_path)
    request = Request(kernel, kernel.problem_type(n=8))
    there = pickle.loads(pickle.dumps(request))
    assert there == request
    assert there.problem.problem_type is kernel.problem_type is not FreeProblem
    assert execute.start_arrays(there)["x"].shape == (12,)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"sizes": {"size": 1}}, "sizes.size is 1. It must be a number under a name of your own"),
        ({"sizes": {"n": "6"}}, "sizes.n is '6'. It must be a number"),
        ({"tensors": {"y": {"shape": ["m"]}}}, "cannot evaluate 'm'"),
        ({"tensors": {"y": {"shape": [4], "dtype": "int4"}}}, "tensors.y.dtype is 'int4'. It must be one of float32"),
        ({"tensors": {"y": {"shape": [4], "role": "both"}}}, "tensors.y.role is 'both'. It must be input or output"),
        (
            {"tensors": {"y": {"shape": [4], "initial": "ones"}}},
            "initial is 'ones'. It must be poison, zero or a table",
        ),
        (
            {"tensors": {"y": {"shape": [4], "initial": {"ramp": [1]}}}},
            "initial.ramp is .1.. It must be a list of 2 to 3",
        ),
        ({"tensors": {"y": {"shape": [4], "initial": {"packed": "?"}}}}, "initial.packed cannot be read"),
        ({"truth": {"x": "1"}}, "truth.x is no output. There are y"),
        ({"truth": "y +"}, "is no expression"),
        ({"truth": "y + z"}, "truth.y names 'z'"),
    ],
)
def test_a_mistake_names_the_file_the_key_and_the_remedy(table, said):
    with pytest.raises(FrontMatterError, match=f"mine.cu: .*{said}"):
        FreeProblem.declared("mine.cu", _table(**table))


def test_other_families_refuse_the_keys_of_a_free_run():
    kind = catalog.find("01_naive").problem_type
    with pytest.raises(FrontMatterError, match="mine.cu: sizes is a key of family free"):
        kind.declared("mine.cu", _table())


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x @ w", [[4.0], [10.0]]),
        ("softmax(x * 0)", [[0.5, 0.5], [0.5, 0.5]]),
        ("where(x > 2, x, -inf)", [[-np.inf, -np.inf], [3.0, 4.0]]),
        ("x.sum(axis=1)[:, 0 * 1] ", None),
        ("(x.T * 2)[0]", [2.0, 6.0]),
        ("x.reshape(4)[1:3]", [2.0, 3.0]),
        ("n", [6.0, 6.0]),
    ],
)
def test_a_line_of_numpy_is_computed_in_float64(text, values):
    tensors = {"x": np.array([[1, 2], [3, 4]], np.float32), "w": np.array([[2], [1]], np.float32)}
    shape = np.shape(values) if values is not None else (2,)
    truth = Truth("mine.cu", (("y", text),), {"y": shape})
    if values is None:
        with pytest.raises(ProblemError, match="truth.y = .* cannot be computed"):
            truth.values(tensors, {"n": 6}, np.float64)
        return
    found = truth.values(tensors, {"n": 6}, np.float64)["y"]
    assert found.dtype == np.float64
    assert (found == np.array(values)).all()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "__import__('os')",
            "(lambda: 1)()",
            "y.__class__",
            "[i for i in y]",
            "y.tofile(1)",
            "'a' * 9",
            "y if y else 1",
        ),
        *("exp.__globals__", "f'{y}'", "y := 1", "9 ** 9 ** 9", "outer(y, y) @ outer(y, y)", "repeat(y, 10 ** 60)"),
    ],
)
def test_a_truth_runs_no_python_and_takes_no_endless_time_or_memory(text):
    many = np.ones(2**17)
    with pytest.raises(ProblemError):
        Truth.check("mine.cu", (("y", text),), {"y"}, {})
        Truth("mine.cu", (("y", text),), {"y": many.shape}).values({"y": many}, {}, np.float64)


@pytest.mark.parametrize(
    ("initial", "values"),
    [
        ({"values": [1, 2]}, [1, 2, 1, 2, 1, 2]),
        ({"ramp": [3, -1]}, [3, 2, 1, 0, -1, -2]),
        ({"ramp": [0, 2, 4]}, [0, 2, 4, 6, 0, 2]),
        ("zero", [0] * 6),
    ],
)
def test_the_first_values_of_a_tensor(initial, values):
    read = contents.read("mine.cu", "initial", initial, "int32")
    assert contents.made(read, (2, 3), "int32", (0, 0)).ravel().tolist() == values


def test_drawn_values_keep_their_kind_and_follow_the_seed():
    def made(key, *numbers, seed=0):
        return contents.made((key, *numbers), (1000,), "int32", (seed, 0))

    assert sorted(made("permutation", 5).tolist()) == list(range(5, 1005))
    rising = made("sorted", 0, 90)
    assert (np.diff(rising) >= 0).all() and (rising[0], rising[-1]) == (0, 90)
    assert set(made("random", -1, 1).tolist()) == {-1, 0, 1}
    assert (made("random", 0, 9) == made("random", 0, 9)).all()
    assert (made("random", 0, 9) != made("random", 0, 9, seed=1)).any()
