"""The dense problem of 16 bits: its masks, layouts and score distributions, and what it says of itself."""

import numpy as np
import pytest

from kernels.core.tolerance import max_abs_error
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.tensor_cores.problem import KINDS, SixteenBitProblem


def straight(problem: SixteenBitProblem) -> tuple[np.ndarray, np.ndarray]:
    """o [batch, head, row, dim] and lse by the definition, one query at a time."""
    q, k, v = (problem.logical(problem.inputs()[name]).astype(np.float64) for name in "qkv")
    o, lse = np.zeros(q.shape), np.full(q.shape[:3], -np.inf)
    for b, h, row in np.ndindex(q.shape[:3]):
        head = h * problem.kv_heads // problem.num_heads
        seen = max(0, min(problem.keys, row + problem.offset + 1)) if problem.causal else problem.keys
        if seen:
            weights = np.exp(problem.scale * (k[b, head, :seen] @ q[b, h, row]))
            o[b, h, row], lse[b, h, row] = weights @ v[b, head, :seen] / weights.sum(), np.log(weights.sum())
    return o, lse


PROBLEMS = [
    SixteenBitProblem(seq_len=9),
    SixteenBitProblem(seq_len=9, causal=True, num_heads=4, num_kv_heads=2, layout="bshd", batch=2, dtype="bfloat16"),
    SixteenBitProblem(seq_len=4, seq_len_kv=11, causal=True),
    SixteenBitProblem(seq_len=11, seq_len_kv=4, causal=True, layout="bshd"),
    *(SixteenBitProblem(seq_len=20, scores=scores, head_dim=128) for scores in KINDS),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.size} {p.layout} {p.scores}")
def test_truth_is_the_definition_and_torch_is_near_it(problem):
    o, lse = straight(problem)
    truth, torch = problem.truth(), problem.yardstick()
    assert max_abs_error(problem.logical(truth["o"]), o) < 1e-13 and max_abs_error(truth["lse"], lse) < 1e-13
    assert max_abs_error(torch["o"], truth["o"]) < 0.02 and max_abs_error(torch["lse"], truth["lse"]) < 1e-4
    for tensor in problem.tensors():
        array = problem.inputs().get(tensor.name, truth.get(tensor.name))
        assert array.shape == tensor.shape
    assert torch["o"].dtype == problem.inputs()["q"].dtype
    assert np.abs(lse[np.isfinite(lse)]).max() <= problem.largest_terms()["lse"]


def test_both_layouts_hold_the_same_numbers():
    one, other = (SixteenBitProblem(seq_len=9, layout=layout) for layout in ("bhsd", "bshd"))
    for name in "qkv":
        assert np.array_equal(one.inputs()[name], other.logical(other.inputs()[name]))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.size} {p.layout} {p.scores}")
def test_the_steps_that_a_kernel_is_told_lead_to_every_element(problem):
    q, sizes = problem.inputs()["q"], problem.sizes
    flat, heads = q.ravel(), problem.num_heads
    for b, h, row, dim in ((0, 0, 1, 3), (problem.batch - 1, heads - 1, problem.seq_len - 1, 5)):
        at = b * heads * problem.seq_len * problem.head_dim + h * sizes["q_head"] + row * sizes["q_row"] + dim
        assert flat[at] == problem.logical(q)[b, h, row, dim]


def test_scores_are_counted_as_the_mask_leaves_them():
    for n, keys in ((9, 9), (4, 11), (11, 4)):
        problem = SixteenBitProblem(seq_len=n, seq_len_kv=keys, causal=True, num_heads=3)
        assert problem.score_count == 3 * sum(max(0, min(keys, i + keys - n + 1)) for i in range(n))


def test_what_cannot_be_is_refused():
    with pytest.raises(ProblemError, match="num_heads is 4 and num_kv_heads 3, and num_heads must be a multiple"):
        SixteenBitProblem(num_heads=4, num_kv_heads=3)
    with pytest.raises(PeerUnavailable, match="starts with the first key"):
        problem = SixteenBitProblem(seq_len=4, seq_len_kv=8, causal=True)
        problem.peer_inputs(problem.inputs())
