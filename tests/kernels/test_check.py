"""The promise: every kernel, both builds, over the grid of problems, at most twice torch's own error against float64."""

from itertools import product

import pytest

from kernels import check
from kernels.catalog import ATTENTION, CACHE, KERNELS, PAGED
from kernels.paged import BLOCK_SIZES, DTYPES, HEAD_SIZES


@pytest.mark.parametrize("kernel", ATTENTION.values(), ids=ATTENTION)
def test_the_grid_of_attention_covers_what_was_promised(kernel):
    problems = [problem for problem, _ in check.grid(kernel)]
    assert len(problems) >= 40
    assert {p.seq_len for p in problems} >= {1, 17, 31, 33, 63, 65, 100, 129, 257}
    assert {(p.head_dim, p.causal) for p in problems} == {(d, c) for d in (32, 64, 128) for c in (False, True)}
    assert {p.batch for p in problems} >= {1, 2, 3} and {p.heads for p in problems} >= {1, 2, 3, 4}
    assert max(p.score_scale for p in problems) == 30


@pytest.mark.parametrize("kernel", PAGED.values(), ids=PAGED)
def test_the_grid_of_paged_attention_covers_what_was_promised(kernel):
    problems = [problem for problem, _ in check.grid(kernel)]
    assert len(problems) >= 60
    assert {(length - p.block_size) for p in problems for length in p.context_lens} >= {-1, 0, 1}
    assert {length for p in problems for length in p.context_lens} >= {1, 511, 512, 513, 2049}
    assert {(p.head_size, p.block_size, p.dtype) for p in problems} == set(product(HEAD_SIZES, BLOCK_SIZES, DTYPES))
    assert {(p.num_heads, p.num_kv_heads) for p in problems} >= {(8, 2), (32, 8), (4, 4), (4, 1)}
    assert {p.alibi for p in problems} == {False, True} and any(len(set(p.context_lens)) > 2 for p in problems)
    assert {value for constant in kernel.constants for value in constant.values} == {s[1] for _, settings in check.grid(kernel) for s in settings}
    assert any(len(set(p.families)) < p.num_seqs for p in problems if p.families)


@pytest.mark.parametrize("kernel", CACHE.values(), ids=CACHE)
def test_the_grid_of_the_cache_writers_covers_every_layout(kernel):
    assert {(p.head_size, p.block_size, p.dtype) for p, _ in check.grid(kernel)} == set(product(HEAD_SIZES, BLOCK_SIZES, DTYPES))


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


@pytest.mark.parametrize(("name", "right", "wrong"), [
    ("paged_v1", "scale * dot", "scale * dot * 1.001f"), ("paged_v2", "fmaf(o_part, lds<float>(&W_smem[i]), o)", "o + o_part"),
    ("reshape_and_cache", "slot % BLOCK_SIZE", "(slot + 1) % BLOCK_SIZE"), ("copy_blocks", "i < page", "i < page - X"),
])
def test_a_slightly_wrong_paged_kernel_is_missed(variant, name, right, wrong):
    spec = variant(name, right, wrong)
    settings = (("PARTITION", 32),) if name == "paged_v2" else ()
    assert [v.ok for v in check.check_problem(spec, spec.problem_type(), settings, "cpu")] == [False, False]
