"""Duels: which problems, which kernels, and what is recorded of them."""

import json

import pytest

from kernels.catalog import KERNELS
from kernels.timing import duels, tables


def test_the_problems_are_those_of_the_table_and_each_there_once():
    made = duels.problems()
    assert len(set(made)) == len(made)
    square = [p for p in made if p.num_kv_heads == 0 and p.scores == "random" and p.score_scale == 1]
    assert {p.batch * p.seq_len for p in square} == {duels.TOKENS}
    assert {p.num_heads * p.head_dim for p in square} == {duels.WIDTH}
    assert {p.seq_len for p in square} == {512, 1024, 2048, 4096, 8192, 16384}
    assert {(p.head_dim, p.causal, p.dtype) for p in square} == {
        (d, c, t) for d in (64, 128) for c in (False, True) for t in ("float16", "bfloat16")
    }
    assert {p.scores for p in made} == {"random", "rising", "sink", "low_rank"}
    assert duels.names() == ["11_overlap", "12_optimistic"]


@pytest.mark.parametrize("device", tables.recorded(duels.KIND))
def test_what_is_recorded_holds_together(device):
    made, where = tables.recorded(duels.KIND)[device]
    assert where.codes and set(made["name"]) <= set(KERNELS) and (made.peer == duels.PEER).all()
    timed = made[made.status == "ok"]
    assert len(timed) and not timed.duplicated(["name", "problem"]).any()
    assert ((timed.ratio_low <= timed.ratio) & (timed.ratio <= timed.ratio_high)).all()
    for row in timed.itertuples():
        problem = KERNELS[row.name].problem_type(**json.loads(row.problem))
        assert row.tflops == pytest.approx(problem.work.flops / row.us / 1e6, rel=1e-3)
        assert row.ratio == pytest.approx(row.peer_us / row.us, rel=0.1)
