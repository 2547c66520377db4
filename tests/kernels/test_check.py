"""The promise: every kernel, both builds, over the grid of problems, at most twice torch's own error against float64."""

import pytest

from kernels import check
from kernels.catalog import KERNELS

WANTED = {1, 17, 31, 33, 63, 65, 100, 129, 257}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_grid_covers_what_was_promised(kernel):
    problems = [problem for problem, _ in check.grid(kernel)]
    assert len(problems) >= 40
    assert {p.seq_len for p in problems} >= WANTED
    assert {(p.head_dim, p.causal) for p in problems} == {(d, c) for d in (32, 64, 128) for c in (False, True)}
    assert {p.batch for p in problems} >= {1, 2, 3} and {p.heads for p in problems} >= {1, 2, 3, 4}
    assert max(p.score_scale for p in problems) == 30


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_both_builds_agree_with_float64_on_the_cpu(kernel, part):
    for problem, settings in check.grid(kernel)[part::4]:
        for verdict in check.check_problem(kernel, problem, settings, "cpu"):
            assert verdict.ok, verdict


def test_a_wrong_kernel_is_missed():
    problem = check.AttentionProblem()
    verdicts = check.check_problem(KERNELS["03_flash"], problem, (("RESCALE", 0),), "cpu")
    assert [v.ok for v in verdicts] == [False, False]
