"""Duels: which problems, which kernels, how they are judged, and what is recorded of them."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kernels.catalog import KERNELS
from kernels.errors import PeerUnavailable
from kernels.families.attention import CLIMBS, SCORES
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import duels, judging, meeting, peers
from kernels.recordings import tables


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
    assert {p.scores for p in made} == set(SCORES) >= {"climb_5", "climb_9.5"}
    assert duels.names() == ["11_overlap", "12_optimistic", "13_short"]


def test_what_trades_accuracy_for_time_is_run_at_every_value_on_every_kind_of_scores():
    priced = {c.name: c.values for c in KERNELS["12_optimistic"].constants if c.name in duels.PRICED}
    assert priced and not any(c.name in duels.PRICED for c in KERNELS["11_overlap"].constants)
    assert {(p.scores, p.score_scale) for p in duels.distributions()} == {
        *((kind, 1.0) for kind in SCORES),
        ("random", 4.0),
    }
    for problem in duels.problems():
        made = duels.entries(problem)
        tuned = {name: KERNELS[name].settings_for(problem) for name in duels.names()}
        assert all((name, tuned[name]) in made for name in duels.names())
        mine = [chosen for name, chosen in made if name == "12_optimistic"]
        assert len({*map(str, made)}) == len(made)
        if problem not in duels.distributions():
            assert mine == [tuned["12_optimistic"]]
            continue
        for constant, values in priced.items():
            others = [
                chosen
                for chosen in mine
                if chosen | {constant: tuned["12_optimistic"][constant]} == tuned["12_optimistic"]
            ]
            assert sorted(chosen[constant] for chosen in others) == sorted(values)


# ---- a duel on a GPU of numbers ----

SMALL = SixteenBitProblem(256, 64, num_heads=1)


@pytest.fixture
def arena(monkeypatch):
    """A GPU on which each kernel and peer gives float64's O plus its error, and a turn takes a number of its own.
    name -> (error over the allowed one, us of a rested turn, us of a sustained one)."""
    spec = {"11_overlap": (0.5, 10.0, 12.0), "12_optimistic": (0.5, 8.0, 11.0), "sdpa_cudnn": (0.5, 9.0, 13.0)}
    ran = []

    class Prepared:
        def __init__(self, name, problem):
            self.name, self.problem = name, problem

        def first_run(self):
            made = self.problem.truth()
            allowed = judging.judged(self.problem, {"o": made["o"]})[0].allowed
            made["o"] = made["o"].copy()
            made["o"].reshape(-1)[0] += spec[self.name][0] * allowed
            return made if self.name in KERNELS else {"o": made["o"]}

        def copies(self, count):
            return [lambda: ran.append(self.name)] * count

    def in_turns(each, seconds, rounds, lead=0.0):
        names = []
        for functions in each:
            functions[0]()
            names.append(ran[-1])
        column = 1 if seconds < 0.1 else 2
        times = np.array([[spec[name][column] + turn / 10 for turn in range(rounds)] for name in names])
        return times, [[(1000 + 100 * names.index(name), 600 + column)] * rounds for name in names]

    true = judging._truth
    true.cache_clear()
    monkeypatch.setattr(SixteenBitProblem, "truth", lambda self, on_gpu=False, of=SixteenBitProblem.truth: of(self))
    monkeypatch.setattr(SixteenBitProblem, "yardstick", lambda self, d="cpu", of=SixteenBitProblem.yardstick: of(self))
    monkeypatch.setattr(meeting.gpu, "errors", contextlib.nullcontext)
    monkeypatch.setattr(meeting, "_free", lambda: None)
    monkeypatch.setattr(meeting, "_kernel", lambda problem, name, settings, inputs: Prepared(name, problem))
    monkeypatch.setattr(meeting, "rival", lambda name, problem, inputs: Prepared(name, problem))
    monkeypatch.setattr(meeting.load, "in_turns", in_turns)
    yield spec
    true.cache_clear()


def meet(others=("sdpa_cudnn",)):
    kernels = [(name, KERNELS[name].settings_for(SMALL)) for name in ("11_overlap", "12_optimistic")]
    return pd.DataFrame(meeting.meet(SMALL, kernels, others)).set_index("name")


def test_both_states_have_ratios_clock_power_and_their_raw_pairs(arena):
    row = meet().loc["12_optimistic"]
    assert (row.status, row.peer_status) == ("ok", "ok") and row.output_error <= row.output_allowed
    for prefix, rounds in (("", 5), ("sustained_", 3)):
        pairs = np.array(json.loads(row[f"{prefix}pairs"]))
        assert pairs.shape == (rounds, 2)
        ratios = pairs[:, 1] / pairs[:, 0]
        found = [row[f"{prefix}ratio{end}"] for end in ("", "_low", "_high")]
        assert found == pytest.approx([np.median(ratios), ratios.min(), ratios.max()], abs=1e-3)
        assert [row[f"{prefix}us"], row[f"{prefix}peer_us"]] == pytest.approx(np.median(pairs, 0))
    assert (row.sustained_clock, row.sustained_peer_clock) == (1100, 1200)
    assert (row.sustained_power, row.sustained_peer_power, row.power) == (602, 602, 601)


def test_a_kernel_that_misses_the_rule_gets_no_time(arena):
    arena["12_optimistic"] = (1.05, 8.0, 11.0)
    made = meet()
    row = made.loc["12_optimistic"]
    assert row.status == "wrong" and np.isnan(float(row.us)) and np.isnan(float(row.sustained_ratio))
    assert "A wrong kernel gets no time. 12_optimistic misses float64 by" in row.reason and "is allowed" in row.reason
    assert made.loc["11_overlap"].status == "ok" and made.loc["11_overlap"].ratio > 0


@pytest.mark.parametrize(("share", "status"), [(1.0, "ok"), (2.4, "less accurate"), (50.0, "wrong")])
def test_a_peer_is_judged_by_the_same_rule(arena, share, status):
    arena["sdpa_cudnn"] = (0.99 * share, 9.0, 13.0)
    row = meet().loc["12_optimistic"]
    assert row.peer_status == status and row.status == "ok" and row.us == 8.2
    assert row.peer_max_abs_error / row.allowed_error == pytest.approx(0.99 * share, rel=1e-6)
    assert pd.isna(row.ratio) == (status == "wrong") and pd.isna(row.peer_us) == (status == "wrong")
    assert ("sdpa_cudnn misses float64" in str(row.reason)) == (status != "ok")


def test_the_headline_is_against_the_fastest_accurate_peer_sustained(arena):
    arena["flash_attn_4"] = (0.5, 20.0, 10.0)  # slow when rested, fast at work
    made = meet(("sdpa_cudnn", "flash_attn_4")).reset_index()
    found = duels.headline(made).set_index("name").loc["12_optimistic"]
    assert found.peer == "flash_attn_4" and found.ratio == pytest.approx(10 / 11, abs=0.01) and found.us == 11.1
    arena["flash_attn_4"] = (3.0, 20.0, 10.0)
    made = meet(("sdpa_cudnn", "flash_attn_4")).reset_index()
    assert set(duels.headline(made).peer) == {"sdpa_cudnn"} and set(made.peer_status) == {"ok", "less accurate"}


def test_a_peer_that_cannot_run_is_in_the_table_with_its_reason(arena, monkeypatch):
    def gone(name, problem, inputs):
        raise PeerUnavailable("no such GPU")

    monkeypatch.setattr(meeting, "rival", gone)
    row = meet().loc["11_overlap"]
    assert (row.status, row.peer_status, row.reason) == ("ok", "unavailable", "no such GPU") and row.us == 10.2


def test_the_provenance_says_the_protocol_and_which_peers_are_absent(monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda name: name == "sdpa_cudnn")
    monkeypatch.setattr(duels, "problems", lambda: [SMALL])
    ((case,), said) = duels.TABLE.cases(None, None)
    assert {key[-1] for key in case.keys} == {"sdpa_cudnn"} and len(case.keys) == len(duels.entries(SMALL)) == 3
    assert "is not installed" in said["absent"]["flash_attn_4"] and "sdpa_cudnn" not in said["absent"]
    assert "sustained: 3 rounds of 0.4 s after 0.1 s of load" in said["protocol"]


@pytest.mark.parametrize("scores", CLIMBS)
def test_scores_climb_by_their_step_from_tile_to_tile(scores):
    problem = SixteenBitProblem(512, 64, num_heads=1, scores=scores)
    plain = replace(problem, scores="random").inputs()
    q, k, v = (array.astype(np.float64)[0, 0] for array in problem.inputs().values())
    assert (v == plain["v"][0, 0]).all() and (q[:, 1:] == plain["q"][0, 0][:, 1:]).all()
    steps = np.diff((problem.scale * q @ k.T).reshape(512, 4, 128).mean(2), axis=1)
    assert steps == pytest.approx(CLIMBS[scores], abs=0.6) and steps.mean() == pytest.approx(CLIMBS[scores], abs=0.1)
    assert any(case.problem.scores == scores for case in SixteenBitProblem.check_cases(KERNELS["12_optimistic"]))


@pytest.mark.parametrize("device", tables.recorded(duels.KIND))
def test_what_is_recorded_holds_together(device):
    made, where = tables.recorded(duels.KIND)[device]
    assert where.codes and set(made["name"]) <= set(KERNELS) and set(made.peer) <= set(duels.RIVALS)
    timed = duels.timed(made)
    assert len(timed) and not timed.duplicated(["name", "peer", "problem", "settings"]).any()
    for state in ("", "sustained_"):
        there = timed[timed[f"{state}ratio"].notna()]
        low, ratio, high = (there[f"{state}ratio{end}"] for end in ("_low", "", "_high"))
        assert ((low <= ratio) & (ratio <= high)).all()
    assert (timed.output_error <= timed.output_allowed).all() and set(timed.peer_status) <= {"ok", "less accurate"}
    for row in timed.itertuples():
        for pairs, ratio in ((row.pairs, row.ratio), (row.sustained_pairs, row.sustained_ratio)):
            each = np.array(json.loads(pairs))
            assert np.median(each[:, 1] / each[:, 0]) == pytest.approx(ratio, abs=1e-3)
    for row in timed.itertuples():
        problem = KERNELS[row.name].problem_type(**json.loads(row.problem))
        assert row.tflops == pytest.approx(problem.work.flops / row.us / 1e6, rel=1e-3)
        assert row.ratio == pytest.approx(row.peer_us / row.us, rel=0.15)  # rested rounds differ by up to 20 %
        assert row.sustained_ratio == pytest.approx(row.sustained_peer_us / row.sustained_us, rel=0.05)
