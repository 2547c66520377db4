"""The kernels round attention: their truths by another way, their cases, and the tensors that fusion leaves out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kernels.catalog import current
from kernels.core.dtypes import element_type
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.families.fusion import (
    AddLayerNormProblem,
    AddNormProblem,
    Fp8RotaryProblem,
    NormRotaryProblem,
    RotaryProblem,
)
from kernels.families.fusion.norm import DTYPES
from kernels.families.fusion.rotary import PAIRS, table, turned
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import check, execute

ALL = current().of_family("fusion")
INSIDE = ALL["rope_attention"]  # its problems are of attention
OURS = {name: spec for name, spec in ALL.items() if spec is not INSIDE}
ROTARY = {name: spec for name, spec in OURS.items() if issubclass(spec.problem_type, RotaryProblem)}
APART = {
    "add_rms_norm": "add_rms_norm_separate",
    "add_layer_norm": "add_layer_norm_separate",
    "rope_write": "rope_write_separate",
    "norm_rope_write": "norm_rope_write_separate",
}


def moved(request, tensor):
    """Bytes that the kernel reads from a tensor in global memory, and bytes that it writes there."""
    table = execute.traffic(request).table
    mine = table[(table["space"] == "global") & (table["tensor"] == tensor)].groupby("kind")["bytes"].sum()
    return int(mine.get("load", 0)), int(mine.get("store", 0))


@pytest.mark.parametrize("kernel", OURS.values(), ids=OURS)
def test_the_cases_cover_types_sizes_phases_and_conventions(kernel):
    cases = list(kernel.problem_type.check_cases(kernel))
    problems = [case.problem for case in cases]
    assert len(problems) >= 60
    chosen = {pair for case in cases for pair in case.settings}
    plain = [c for c in kernel.constants if not c.what_if]
    assert {(c.name, value) for c in plain for value in c.values} <= chosen
    if kernel.name in ROTARY:
        assert {(p.pairs, p.decode, p.dtype) for p in problems} == {
            (pairs, decode, dtype) for pairs in PAIRS for decode in (False, True) for dtype in DTYPES[:2]
        }
        assert {0, 1, 2} <= {p.padding for p in problems}
    else:
        assert {p.dtype for p in problems} == set(DTYPES) and {p.tokens for p in problems} >= {1, 2, 7, 33}
        assert max(abs(p.mean) for p in problems) >= 50 and max(p.spread for p in problems) >= 300


@pytest.mark.parametrize("kind", [AddNormProblem, AddLayerNormProblem])
def test_the_truth_of_a_norm_is_torch_s_in_float64(kind):
    problem = kind(5, 64, spread=3.0, mean=7.0)
    given = {name: torch.from_numpy(array.astype(np.float64)) for name, array in problem.inputs().items()}
    due = problem.torch_normed(given["x"] + given["residual"], given).numpy()
    assert np.allclose(problem.truth()["y"], due, rtol=1e-12)


@pytest.mark.parametrize("pairs", PAIRS)
def test_a_score_of_turned_q_and_k_depends_only_on_their_distance(pairs):
    """The property that the rotation is for: q at position a times k at position b is a function of a - b."""
    rng, angles = np.random.default_rng(0), table(9, 64, 500000.0)
    q, k = (turned(np.tile(rng.standard_normal(64), (9, 1, 1)), angles[:, None], pairs)[:, 0] for _ in range(2))
    scores = q @ k.T
    assert all(np.ptp(np.diagonal(scores, distance)) < 1e-5 for distance in range(-4, 5))
    assert np.ptp(scores[0]) > 0.1


def test_the_two_conventions_are_one_another_with_the_dims_in_another_order():
    x, angles = np.random.default_rng(1).standard_normal((4, 3, 64)), table(4, 64, 10000.0)
    order = np.arange(64).reshape(2, 32).T.ravel()  # the dims of each pair as neighbours
    assert np.allclose(
        turned(x[..., order], angles[:, None], "neighbours"), turned(x, angles[:, None], "halves")[..., order]
    )


@pytest.mark.parametrize("decode", [False, True])
def test_slots_are_distinct_and_padding_has_none(decode):
    problem = RotaryProblem(tokens=40, decode=decode, padding=3)
    slots = problem.inputs()["slots"]
    assert (slots[-3:] == -1).all() and len(set(slots[:-3].tolist())) == 37
    assert slots.max() < problem.layout.num_blocks * problem.block_size


def test_a_turned_key_fits_into_8_bits():
    problem = Fp8RotaryProblem(tokens=50, num_heads=2)
    truth = problem.truth()
    largest = element_type("float8_e4m3").largest
    assert max(np.abs(truth[name]).max() for name in ("k_cache", "v_cache")) <= largest


@pytest.mark.parametrize(("fused", "apart"), APART.items())
def test_fused_kernels_are_right_and_never_touch_the_tensors_between(fused, apart):
    kind = OURS[fused].problem_type
    norms = issubclass(kind, AddNormProblem)
    problem = kind(tokens=3, hidden=64) if norms else kind(tokens=8, num_heads=2, num_kv_heads=1, head_dim=128)
    one, many = (Request(OURS[name], problem, backend="cpu") for name in (fused, apart))
    assert all(verdict.ok for spec in (fused, apart) for verdict in check.check_case(OURS[spec], Case(problem), "cpu"))
    if norms:
        row = 3 * 64 * 2
        assert moved(one, "sum") == (0, row) and moved(many, "sum") == (row, row)
        return
    head = 8 * 128 * 2
    assert moved(one, "qkv") == (4 * head, 0)  # each number is read once
    assert moved(one, "K") == moved(many, "K") == (0, head)
    assert moved(one, "k_rotated") == (0, 0) and moved(many, "k_rotated") == (head, head)
    if kind is NormRotaryProblem:
        assert moved(many, "normed") == (3 * head, 3 * head)


@pytest.mark.parametrize("name", ["rope_write", "norm_rope_write", "rope_write_fp8"])
def test_pairs_of_the_other_convention_are_missed(name):
    case = Case(OURS[name].problem_type(), (("TOKENS", 8), ("WRONG_PAIRS", 1)))
    assert [verdict.ok for verdict in check.check_case(OURS[name], case, "cpu")] == [False, False]


def test_each_number_in_8_bits_is_a_neighbour_of_the_exact_one(cpu_run):
    """The check has one limit for a whole cache, which small numbers would keep by any value."""
    problem = Fp8RotaryProblem(tokens=8, num_heads=1, num_kv_heads=2)
    arrays, truth = cpu_run("rope_write_fp8", problem).arrays, problem.truth()
    for name in ("k_cache", "v_cache"):
        exact = truth[name]
        step = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(exact), 1e-9))), -6) - 3)
        assert (np.abs(arrays[name].astype(np.float64) - exact) <= 0.51 * step).all()


def test_attention_with_rotary_embedding_inside_covers_both_conventions_and_turned_keys():
    problems = [case.problem for case in INSIDE.problem_type.check_cases(INSIDE)]
    assert len(problems) >= 60
    assert {(p.pairs, p.keys_turned) for p in problems} == {
        (pairs, turned) for pairs in PAIRS for turned in (False, True)
    }


@pytest.mark.parametrize("pairs", PAIRS)
def test_only_the_right_convention_is_right_inside_attention(pairs):
    problem = INSIDE.problem_type(40, num_heads=1, causal=True, pairs=pairs)
    right, wrong = (
        [verdict.ok for verdict in check.check_case(INSIDE, Case(problem, (("WRONG_PAIRS", value),)), "cpu")]
        for value in (0, 1)
    )
    assert right == [True, True] and wrong == [False, False]


def test_scores_of_turned_queries_and_keys_depend_on_their_distance_only():
    """A turn of both by the same angle leaves attention as it is: the first key, alone in the past, shows no angle."""
    problem = INSIDE.problem_type(1, seq_len_kv=1, head_dim=64, num_heads=2)
    plain = SixteenBitProblem(1, seq_len_kv=1, head_dim=64, num_heads=2)
    assert np.allclose(problem.truth()["lse"], plain.truth()["lse"], atol=1e-6)
    late = replace(problem, seq_len=2, seq_len_kv=300, seed=3)
    assert not np.allclose(late.truth()["lse"], replace(plain, seq_len=2, seq_len_kv=300, seed=3).truth()["lse"])
    q, k = (late._rounded()[name][0, 0].astype(np.float64) for name in ("q", "k"))
    raw = SixteenBitProblem._rounded(late)
    turns = 500000.0 ** (-np.arange(0, 64, 2) / 64)
    complex_of = {name: raw[name][0, 0].astype(np.float64) for name in ("q", "k")}
    a, b = (x[:, :32] + 1j * x[:, 32:] for x in complex_of.values())
    angle = (np.arange(298, 300)[:, None, None] - np.arange(300)[None, :, None]) * turns
    scores = np.einsum("qd,kd,qkd->qk", a, b.conj(), np.exp(1j * angle)).real
    assert np.allclose(q @ k.T, scores, atol=1e-4)
