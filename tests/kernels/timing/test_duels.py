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


def test_what_trades_accuracy_for_time_is_run_at_every_value_on_every_kind_of_scores():
    values = {c.name: c.values for c in KERNELS["12_optimistic"].constants}[duels.PRICED]
    assert {(p.scores, p.score_scale) for p in duels.distributions()} == {
        *((kind, 1.0) for kind in ("random", "rising", "sink", "low_rank")),
        ("random", 4.0),
    }
    for problem in duels.problems():
        made = duels.entries(problem)
        tuned = {name: KERNELS[name].settings_for(problem) for name in duels.names()}
        assert all((name, tuned[name]) in made for name in duels.names())
        priced = [chosen[duels.PRICED] for name, chosen in made if name == "12_optimistic"]
        wanted = values if problem in duels.distributions() else [tuned["12_optimistic"][duels.PRICED]]
        assert sorted(priced) == sorted(wanted) and len(made) == len(priced) + 1


@pytest.mark.parametrize("device", tables.recorded(duels.KIND))
def test_what_is_recorded_holds_together(device):
    made, where = tables.recorded(duels.KIND)[device]
    assert where.codes and set(made["name"]) <= set(KERNELS) and (made.peer == duels.PEER).all()
    timed = made[made.status == "ok"]
    assert len(timed) and not timed.duplicated(["name", "problem", "settings"]).any()
    assert ((timed.ratio_low <= timed.ratio) & (timed.ratio <= timed.ratio_high)).all()
    for row in timed.itertuples():
        problem = KERNELS[row.name].problem_type(**json.loads(row.problem))
        assert row.tflops == pytest.approx(problem.work.flops / row.us / 1e6, rel=1e-3)
        assert row.ratio == pytest.approx(row.peer_us / row.us, rel=0.1)
