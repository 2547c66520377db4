"""The problems of the backward: float64 against torch's autograd, the inputs, and the thread orders of its kernels."""

import numpy as np
import pytest
import torch

from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.tolerance import max_abs_error, output_errors
from kernels.families.attention import SCORES
from kernels.families.backward.problem import GradientProblem, SixteenBitGradientProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import execute, races

PROBLEMS = [
    GradientProblem(seq_len=9, head_dim=32),
    GradientProblem(seq_len=9, causal=True, num_heads=4, num_kv_heads=2, layout="bshd", batch=2),
    SixteenBitGradientProblem(seq_len=4, seq_len_kv=11, causal=True, dtype="bfloat16"),
    SixteenBitGradientProblem(seq_len=11, seq_len_kv=4, causal=True, layout="bshd"),
    SixteenBitGradientProblem(seq_len=7, seq_len_kv=12, num_heads=6, num_kv_heads=2),
    *(GradientProblem(seq_len=20, scores=scores, head_dim=128) for scores in SCORES),
]
RUNGS = current().of_family("backward")


def logical(problem, arrays):
    return {name: array if name == "lse" else problem.logical(array) for name, array in arrays.items()}


def autograd(problem):
    """o, and dq, dk, dv by torch's autograd of the definition in float64, with a dense mask."""
    given = {name: torch.tensor(a.astype(np.float64)) for name, a in logical(problem, problem.inputs()).items()}
    q, k, v = leaves = [given[name].requires_grad_() for name in "qkv"]
    group = problem.num_heads // problem.kv_heads
    scores = problem.scale * (q @ k.repeat_interleave(group, 1).transpose(2, 3))
    blind = 0
    if problem.causal:
        blind = max(0, -problem.offset)
        seen = torch.ones(scores.shape[2:], dtype=torch.bool).tril(problem.offset)
        scores = scores.masked_fill(~seen, -torch.inf)
    o = torch.softmax(scores[:, :, blind:], -1) @ v.repeat_interleave(group, 1)
    made = torch.autograd.grad(o, leaves, given["do"][:, :, blind:])
    return o.detach().numpy(), blind, {f"d{name}": a.numpy() for name, a in zip("qkv", made)}


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.size} {p.layout} {p.scores}")
def test_the_truth_is_torch_s_autograd_in_float64_and_torch_s_backward_is_near_it(problem):
    o, blind, made = autograd(problem)
    truth, yardstick, given = problem.truth(), problem.yardstick(), logical(problem, problem.inputs())
    for name, array in logical(problem, truth).items():
        assert max_abs_error(array, made[name]) < 1e-11 * max(1.0, float(np.abs(made[name]).max()))
    assert max_abs_error(given["o"][:, :, blind:], o) < (1e-5 if problem.dtype == "float32" else 0.01)
    assert not given["o"][:, :, :blind].any() and np.isneginf(given["lse"][:, :, :blind]).all()
    for name, array in yardstick.items():
        assert array.dtype == problem.inputs()[name[1:]].dtype and array.shape == truth[name].shape
        largest = float(np.abs(truth[name]).max())
        assert max_abs_error(array, truth[name]) < (2e-4 if problem.dtype == "float32" else 0.02) * max(1.0, largest)


def test_every_tensor_has_the_shape_and_type_of_its_declaration():
    for problem in PROBLEMS:
        arrays = {**problem.inputs(), **problem.yardstick()}
        assert {t.name: t.shape for t in problem.tensors()} == {name: a.shape for name, a in arrays.items()}
        assert {t.name: t.dtype for t in problem.tensors()} == {name: str(a.dtype) for name, a in arrays.items()}


def test_q_k_and_v_are_those_of_the_forward():
    forward = SixteenBitProblem(seq_len=9, layout="bshd", seed=3)
    backward = SixteenBitGradientProblem(seq_len=9, layout="bshd", seed=3)
    assert all(np.array_equal(array, backward.inputs()[name]) for name, array in forward.inputs().items())


def test_no_term_of_a_gradient_is_larger_than_its_bound():
    problem = GradientProblem(seq_len=40, num_heads=1, score_scale=5.0)
    given = {name: a.astype(np.float64) for name, a in problem.inputs().items()}
    p = np.exp(problem.scale * given["q"] @ given["k"].swapaxes(2, 3) - given["lse"][..., None])
    dp = given["do"] @ given["v"].swapaxes(2, 3)
    ds = problem.scale * np.abs(p * (dp - (p * dp).sum(-1, keepdims=True))).max()
    terms = {"dq": ds * np.abs(given["k"]).max(), "dk": ds * np.abs(given["q"]).max()}
    bounds = problem.largest_terms()
    assert all(terms[name] <= bounds[name] for name in terms) and np.abs(given["do"]).max() <= bounds["dv"]


@pytest.mark.parametrize("kernel", RUNGS.values(), ids=RUNGS)
def test_a_rung_s_cases_cover_what_was_promised(kernel):
    problems = [case.problem for case in kernel.problem_type.check_cases(kernel)]
    assert len(problems) >= 60
    assert {(p.head_dim, p.causal) for p in problems} >= {(d, c) for d in (64, 128) for c in (False, True)}
    assert {p.num_heads // p.kv_heads for p in problems} >= {1, 2, 3} and any(p.offset for p in problems)
    assert {p.scores for p in problems} == set(SCORES) and {p.layout for p in problems} == {"bhsd", "bshd"}
    if kernel.problem_type is SixteenBitGradientProblem:
        assert {p.dtype for p in problems} == {"float16", "bfloat16"}


@pytest.mark.parametrize("kernel", RUNGS.values(), ids=RUNGS)
def test_only_a_rung_that_adds_by_atomics_differs_between_the_thread_orders(kernel):
    problem = kernel.problem_type(seq_len=100, head_dim=64, num_heads=2, num_kv_heads=1)
    made = Request(kernel, problem, tuple(kernel.settings_for(problem).items()), backend="cpu")
    one, other = execute.run_timed_build(made), races.late_outputs(made)
    equal = {name for name in ("dq", "dk", "dv") if one[name].tobytes() == other[name].tobytes()}
    adds = races.sums_of_blocks(made)
    assert equal >= {"dk", "dv"} and (adds or "dq" in equal)
    for arrays in (one, other):
        errors = execute.largest_errors(problem, arrays)
        assert all(e.ok for e in output_errors(errors, execute.yardstick(made), problem.largest_terms()))


def error_of_the_given_lse(problem):
    """The largest error of dq from exact arithmetic, as O and lse are given in float32."""
    given = {name: a.astype(np.float64) for name, a in problem.inputs().items()}
    p = np.tril(np.exp(problem.scale * given["q"] @ given["k"].swapaxes(2, 3) - given["lse"][..., None]))
    dp = given["do"] @ given["v"].swapaxes(2, 3)
    ds = p * (dp - (given["do"] * given["o"]).sum(-1, keepdims=True))
    return max_abs_error(problem.scale * ds @ given["k"], problem.truth()["dq"])


@pytest.mark.parametrize("name", [name for name, kernel in RUNGS.items() if kernel.problem_type is GradientProblem])
def test_an_fp32_rung_adds_no_error_to_that_of_the_given_lse_at_large_scores(name):
    """Roundings of S cost up to six times as much, and the hunt on a GPU found it."""
    problem = GradientProblem(160, num_heads=1, causal=True, score_scale=8.0, scores="climb_9.5")
    made = Request(RUNGS[name], problem, tuple(RUNGS[name].settings_for(problem).items()), backend="cpu")
    error = execute.largest_errors(problem, execute.run_timed_build(made))["dq"]
    assert error < 1.5 * error_of_the_given_lse(problem)
