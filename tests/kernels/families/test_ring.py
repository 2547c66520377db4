"""Attention over several GPUs: every pair of a query and a key meets once, and the merges match float64."""

from itertools import product

import numpy as np
import pytest
from conftest import cpu_run

from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.families.ring.problem import RingProblem

SETTINGS = (("BLOCK_Q", 16), ("BLOCK_KV", 16))


@pytest.mark.parametrize(
    ("gpus", "causal", "order"), [*product((1, 2, 3, 8), (False, True), ("plain", "zigzag"))], ids=str
)
def test_every_query_meets_each_of_its_keys_once(gpus, causal, order):
    problem = RingProblem(8 * gpus, gpus=gpus, causal=causal, order=order)
    met = np.zeros((problem.seq_len, problem.seq_len), int)
    for shares in problem.shares:
        for gpu, share in enumerate(shares):
            rows, keys = problem.row_numbers(gpu), problem.row_numbers(share.part)
            for row in range(share.row_first, share.rows):
                met[rows[row], keys[: min(share.keys, row + share.offset + 1)]] += 1
    assert np.array_equal(met, np.tri(problem.seq_len, dtype=int) if causal else np.ones_like(met))


def test_zigzag_order_gives_every_gpu_equal_work_and_plain_order_does_not():
    def work(order):
        found = [0] * 4
        for step in RingProblem(64, gpus=4, order=order).shares:
            for gpu, one in enumerate(step):
                found[gpu] += sum(min(one.keys, row + one.offset + 1) for row in range(one.row_first, one.rows))
        return found

    assert len(set(work("zigzag"))) == 1
    assert work("plain") == sorted(work("plain")) and work("plain")[0] < work("plain")[-1]


def test_each_merge_is_the_softmax_of_the_keys_so_far():
    problem = RingProblem(32, gpus=2, causal=False, order="plain")
    run = cpu_run("ring_attention", problem, SETTINGS, Scope(0, 1))
    logged = run.trace.frame("launch", "event", "row", "dim", "value")
    q, k, v = (problem.whole.inputs()[name][0, 0].astype(np.float64) for name in "qkv")
    for launch, keys in ((0, problem.row_numbers(0)), (2, np.arange(32))):  # steps 0 and 1 of GPU 0
        mine = logged[(logged.launch == launch) & (logged.row == 5)]
        scores = q[5] @ k[keys].T / 8
        m, l = (float(mine[mine.event == name].value.iloc[0]) for name in ("m_after", "l_after"))
        o = mine[mine.event == "o_after"].sort_values("dim").value.to_numpy()
        weights = np.exp(scores - scores.max())
        assert m == pytest.approx(scores.max(), abs=1e-5)
        assert l == pytest.approx(weights.sum(), rel=1e-5)
        assert o == pytest.approx(weights @ v[keys], abs=4e-3)  # fp16 weights


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"seq_len": 100, "gpus": 3}, "zigzag order cuts it into 6 equal pieces"),
        ({"split": "heads", "num_heads": 3, "gpus": 2}, "3 KV heads, and 2 GPUs need a multiple of 2"),
        ({"num_heads": 4, "num_kv_heads": 3}, "must be a multiple of num_kv_heads"),
    ],
)
def test_unequal_parts_are_refused_with_a_remedy(fields, said):
    with pytest.raises(ProblemError, match=said):
        RingProblem(**fields)
