"""The problem of the dense kernels: its fields, its inputs, and what it says of itself."""

import numpy as np
import pytest

from kernels.errors import ProblemError
from kernels.families.dense import DenseProblem


def test_the_same_problem_makes_the_same_inputs():
    first, second = DenseProblem(seed=5).inputs(), DenseProblem(seed=5).inputs()
    assert all(np.array_equal(first[name], second[name]) for name in "qkv")
    assert not np.array_equal(first["q"], DenseProblem(seed=6).inputs()["q"])


def test_scores_have_the_asked_standard_deviation():
    problem = DenseProblem(seq_len=256, head_dim=128, score_scale=5.0)
    a = problem.inputs()
    assert np.std(a["q"] @ a["k"].swapaxes(2, 3) * problem.scale) == pytest.approx(5.0, rel=0.05)


def test_text_is_read_as_the_field_type():
    problem = DenseProblem(seq_len="17", causal="true", score_scale="2", head_dim="64")
    assert (problem.seq_len, problem.causal, problem.score_scale, problem.head_dim) == (17, True, 2.0, 64)
    assert problem == DenseProblem(seq_len=17, causal=True, score_scale=2.0, head_dim=64) and hash(problem)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq_len", 0),
        ("seq_len", -3),
        ("seq_len", 16385),
        ("seq_len", 1.5),
        ("seq_len", "many"),
        ("seq_len", ""),
        ("head_dim", 48),
        ("head_dim", None),
        ("batch", 0),
        ("num_heads", 65),
        ("causal", 2),
        ("causal", "perhaps"),
        ("score_scale", 0),
        ("score_scale", "nan"),
        ("score_scale", "inf"),
        ("seed", -1),
        ("seq_len", "1e400"),
        ("seq_len", [3]),
    ],
)
def test_an_impossible_value_is_refused_with_field_and_value(field, value):
    with pytest.raises(ProblemError, match=rf"^{field} is .*must be"):
        DenseProblem(**{field: value})


def test_causal_halves_the_scores():
    assert DenseProblem(seq_len=10, num_heads=1).score_count == 100
    assert DenseProblem(seq_len=10, num_heads=1, causal=True).score_count == 55


def test_a_width_is_a_number_of_heads():
    problem = DenseProblem(head_dim=64)
    assert problem.derived_fields["width"](problem, 512) == {"num_heads": 8}
    with pytest.raises(ProblemError, match="A width of 500 is no whole number of heads of 64"):
        problem.derived_fields["width"](problem, 500)


def test_no_term_of_the_output_is_larger_than_the_largest_v():
    problem = DenseProblem(seq_len=33, causal=True, score_scale=30.0)
    v, term = problem.inputs()["v"], problem.largest_terms()["o"]
    assert term == np.abs(v).max() >= np.abs(problem.truth()["o"]).max()


def test_tensors_inputs_and_truth_agree():
    problem = DenseProblem(seq_len=9, batch=2, num_heads=3)
    arrays = problem.inputs()
    given = [t for t in problem.tensors() if not t.is_written]
    assert {t.name: (t.shape, t.dtype) for t in given} == {n: (a.shape, str(a.dtype)) for n, a in arrays.items()}
    assert [t.name for t in problem.outputs] == ["o"] and problem.truth()["o"].shape == problem.outputs[0].shape
    assert problem.input_bytes == sum(a.nbytes for a in arrays.values())
