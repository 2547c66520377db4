import numpy as np
import pytest

from kernels.errors import ProblemError
from kernels.problem import AttentionProblem


def test_the_same_problem_makes_the_same_inputs():
    first, second = AttentionProblem(seed=5).inputs(), AttentionProblem(seed=5).inputs()
    assert all(np.array_equal(first[name], second[name]) for name in "qkv")
    assert not np.array_equal(first["q"], AttentionProblem(seed=6).inputs()["q"])


def test_scores_have_the_asked_standard_deviation():
    problem = AttentionProblem(seq_len=256, head_dim=128, score_scale=5.0)
    a = problem.inputs()
    assert np.std(a["q"] @ a["k"].swapaxes(2, 3) * problem.scale) == pytest.approx(5.0, rel=0.05)


def test_text_is_read_as_the_field_type():
    problem = AttentionProblem(seq_len="17", causal="true", score_scale="2", head_dim="64")
    assert (problem.seq_len, problem.causal, problem.score_scale, problem.head_dim) == (17, True, 2.0, 64)
    assert problem == AttentionProblem(seq_len=17, causal=True, score_scale=2.0, head_dim=64) and hash(problem)


@pytest.mark.parametrize(("field", "value"), [
    ("seq_len", 0), ("seq_len", -3), ("seq_len", 16385), ("seq_len", 1.5), ("seq_len", "many"), ("seq_len", ""), ("head_dim", 48), ("head_dim", None),
    ("batch", 0), ("heads", 65), ("causal", 2), ("causal", "perhaps"), ("score_scale", 0), ("score_scale", "nan"), ("score_scale", "inf"), ("seed", -1),
    ("seq_len", "1e400"), ("seq_len", [3]),
])
def test_an_impossible_value_is_refused_with_field_and_value(field, value):
    with pytest.raises(ProblemError, match=rf"^{field} is .*must be"):
        AttentionProblem(**{field: value})


def test_causal_halves_the_scores():
    assert AttentionProblem(seq_len=10, heads=1).score_count == 100
    assert AttentionProblem(seq_len=10, heads=1, causal=True).score_count == 55
