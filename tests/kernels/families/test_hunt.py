"""A hunt for problems on which a Hopper rung or a backward misses the error rule: random shapes, layouts and scores.

Peaked rows are the hard ones. If one weight dominates a row, torch's weight is exactly 1. A kernel that rounds that
weight has one more rounding than torch.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from gpus import judged

from kernels.catalog import KERNELS, current
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.tolerance import worst
from kernels.families.attention import SCORES, UNEVEN
from kernels.families.backward.problem import GradientProblem
from kernels.families.tensor_cores.problem import KINDS, SixteenBitProblem
from kernels.run import execute

RUNGS = ("11_overlap", "12_optimistic", "13_short")
BACKWARD = current().of_family("backward")
FP32_BACKWARD = [name for name, kernel in BACKWARD.items() if kernel.problem_type is GradientProblem]
ON_CPU_BACKWARD = 12  # of each rung
# On a GPU: parts, and problems of all parts. OMP_NUM_THREADS=1 pytest -n 12 runs the parts at once, in half a minute.
# Without the variable, each part has a thread for every processor, and the threads slow each other down.
PARTS, PROBLEMS = 12, 3000
ON_CPU = 120

# They missed while 12_optimistic rounded weights that dominate their row.
MISSED = (
    SixteenBitProblem(257, 64, num_heads=1, dtype="bfloat16", score_scale=2.0, seed=257),
    SixteenBitProblem(512, 128, num_heads=1, causal=True, dtype="bfloat16", score_scale=12.0, seed=522),
)
# They missed while the fp32 rungs of the backward had one sum over all queries of a group: the first one on a GPU, the
# others on a CPU, in a hunt for groups of 4 and 8 heads.
_GRADIENTS = GradientProblem(499, 32, num_heads=4, causal=True, num_kv_heads=1, layout="bshd")
MISSED_BACKWARD = (
    replace(_GRADIENTS, score_scale=0.45916766666499303, seed=2136257205, scores="climb_5"),
    replace(
        _GRADIENTS,
        seq_len=494,
        num_heads=8,
        causal=False,
        score_scale=0.42936519485454344,
        seed=298054161,
        seq_len_kv=54,
        scores="low_rank",
    ),
    replace(_GRADIENTS, seq_len=272, score_scale=0.37008889356296354, seed=772349637, layout="bhsd", scores="sink"),
)
# They missed on a GPU while the fp32 rungs rounded S after each product. On a CPU torch's own error is larger.
_CLIMBS = GradientProblem(593, 128, num_heads=4, causal=True, score_scale=1.8262961014806798, seed=1539829969)
MISSED_ON_A_GPU = (
    replace(_CLIMBS, num_kv_heads=2, scores="climb_9.5"),
    replace(
        _CLIMBS,
        seq_len=1762,
        head_dim=64,
        num_heads=8,
        causal=False,
        score_scale=7.9603053932677525,
        seed=485158653,
        num_kv_heads=2,
        scores="climb_5",
    ),
)


def drawn(number: int, longest: int) -> SixteenBitProblem:
    """Problem `number` of the hunt. Each third is one head of bfloat16 with score_scale 1 to 3, the hardest kind."""
    rng = np.random.default_rng([20261125, number])
    length, keys = (int(n) for n in rng.integers(129, longest, 2))
    head_dim, layout = int(rng.choice([64, 128])), str(rng.choice(["bhsd", "bshd"]))
    causal, seed = bool(rng.integers(2)), int(rng.integers(2**31))
    if number % 3 == 0:
        scale = float(rng.uniform(1, 3))
        return SixteenBitProblem(length, head_dim, 1, 1, causal, "bfloat16", scale, seed, layout=layout)
    kv_heads, group = int(rng.choice([1, 2])), int(rng.choice([1, 2, 4]))
    return SixteenBitProblem(
        length,
        head_dim,
        batch=int(rng.choice([1, 2])),
        num_heads=kv_heads * group,
        causal=causal,
        dtype=str(rng.choice(["float16", "bfloat16"])),
        score_scale=math.exp(rng.uniform(math.log(0.3), math.log(12))),
        seed=seed,
        num_kv_heads=kv_heads,
        seq_len_kv=keys if number % 4 == 0 else 0,
        layout=layout,
        scores=KINDS[number // 3 % len(KINDS)],
    )


def drawn_backward(kind: type[SixteenBitProblem], number: int, longest: int) -> SixteenBitProblem:
    """Gradient problem `number` of the hunt, of a class of the backward family."""
    rng = np.random.default_rng([20261126, number])
    allowed = {name: f.metadata["allowed"] for name, f in fields_of(kind).items()}
    length, keys = (int(n) for n in rng.integers(1, longest, 2))
    kv_heads, group = int(rng.choice([1, 2])), int(rng.choice([1, 2, 4]))
    return kind(
        length,
        allowed["head_dim"][int(rng.integers(len(allowed["head_dim"])))],
        num_heads=kv_heads * group,
        causal=bool(rng.integers(2)),
        dtype=allowed["dtype"][int(rng.integers(len(allowed["dtype"])))],
        score_scale=math.exp(rng.uniform(math.log(0.3), math.log(8))),
        seed=int(rng.integers(2**31)),
        num_kv_heads=kv_heads,
        seq_len_kv=keys if number % 3 == 0 else 0,
        layout=str(rng.choice(["bhsd", "bshd"])),
        scores=SCORES[number % len(SCORES)],
    )


def promised(problem: SixteenBitProblem) -> tuple[str, ...]:
    """The rungs with the promise on a problem. Rows of V of very different size are left to the exact loop: a row's
    largest weight may be rounded in the optimistic one, and may meet the largest row of V (kernels/measuring.md)."""
    return tuple(name for name in RUNGS if problem.scores != UNEVEN or name != "12_optimistic")


def request(name: str, problem: SixteenBitProblem, backend: str) -> Request:
    kernel = KERNELS[name]
    exact = {"OPTIMISTIC": 0} if problem.scores == UNEVEN and "OPTIMISTIC" in kernel.settings() else {}
    return Request(kernel, problem, tuple(kernel.settings_for(problem, exact).items()), backend=backend)


def assert_within_the_rule(problem: SixteenBitProblem, name: str = "12_optimistic") -> None:
    made = request(name, problem, "cpu")
    largest = execute.largest_errors(problem, execute.run_timed_build(made))
    error = worst(execute.judge(largest, execute.yardstick(made), problem))
    assert error.ok, (error, problem)


@pytest.mark.parametrize("problem", MISSED, ids=lambda p: f"{p.size} scale {p.score_scale:g}")
def test_a_row_that_one_weight_dominates_keeps_the_rule(problem):
    assert_within_the_rule(problem)


@pytest.mark.slow
@pytest.mark.parametrize("name", FP32_BACKWARD)
@pytest.mark.parametrize("problem", (*MISSED_BACKWARD, MISSED_ON_A_GPU[0]), ids=lambda p: f"{p.size} {p.scores}")
def test_a_long_sum_over_a_group_keeps_the_rule(problem, name):
    assert_within_the_rule(problem, name)


def test_the_hunt_covers_every_kind_of_scores_type_layout_and_head_dim():
    made = [drawn(number, 778) for number in range(ON_CPU)]
    assert {(p.scores, p.layout) for p in made} == {(s, layout) for s in KINDS for layout in ("bhsd", "bshd")}
    assert {(p.dtype, p.head_dim, p.causal) for p in made} == {
        (t, d, c) for t in ("float16", "bfloat16") for d in (64, 128) for c in (False, True)
    }
    assert max(p.score_scale for p in made) > 8 and any(p.offset for p in made)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ON_CPU))
def test_no_problem_of_a_small_hunt_misses_the_rule_on_the_cpu(number):
    problem = drawn(number, 400)
    assert_within_the_rule(problem, promised(problem)[1])


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(PARTS))
def test_no_problem_of_the_hunt_misses_the_rule_on_a_gpu(part):
    missed = []
    for number in range(part, PROBLEMS, PARTS):
        problem = drawn(number, 3000 if number % 8 == 0 else 778)
        for name in promised(problem):
            error = worst(judged(request(name, problem, "gpu")))
            if not error.ok:
                missed.append((name, problem, error))
    assert not missed


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ON_CPU_BACKWARD))
@pytest.mark.parametrize("name", BACKWARD)
def test_no_problem_of_a_small_hunt_misses_the_rule_in_the_backward_on_the_cpu(name, number):
    assert_within_the_rule(drawn_backward(BACKWARD[name].problem_type, number, 200), name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FP32_BACKWARD)
@pytest.mark.parametrize("problem", MISSED_ON_A_GPU, ids=lambda p: f"{p.size} {p.scores}")
def test_large_scores_keep_the_rule_on_a_gpu(problem, name):
    error = worst(judged(request(name, problem, "gpu")))
    assert error.ok, error


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(PARTS))
def test_no_problem_of_the_hunt_misses_the_rule_in_the_backward_on_a_gpu(part):
    missed = []
    for number in range(part, PROBLEMS // 3, PARTS):
        for name, kernel in BACKWARD.items():
            problem = drawn_backward(kernel.problem_type, number, 2000 if number % 8 == 0 else 600)
            error = worst(judged(request(name, problem, "gpu")))
            if not error.ok:
                missed.append((name, problem, error))
    assert not missed
