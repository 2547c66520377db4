"""The duels of the backward: their problems and entries, and a table that goes on after a break."""

from dataclasses import replace

import pytest

from kernels.catalog import current
from kernels.core.problem import Problem
from kernels.errors import RunError
from kernels.families.backward.problem import SixteenBitGradientProblem
from kernels.measure import gradient_duels, peers
from kernels.measure.bench_rows import problem_text, settings_text
from kernels.measure.meeting import COLUMNS
from kernels.recordings import tables
from kernels.run import workers
from kernels.run.backends import Device

GPU = Device("gpu", "Small GPU", "sm_90a", 232448, "580", 132)


def row(problem, name, settings, peer):
    code = current().kernels[name].code_hash
    made = {"name": name, "peer": peer, "status": "ok", "problem": problem_text(problem), "code_hash": code}
    return dict.fromkeys(COLUMNS) | made | {"settings": settings_text(settings.items())}


class Submitted:
    """In place of a worker: the rows of a duel, or a failure."""

    def __init__(self, fails):
        self.asked, self.fails = [], fails

    def __call__(self, function, problem, entries, rivals, **rest):
        self.asked.append(problem)
        self.rows = [row(problem, name, settings, peer) for name, settings in entries for peer in rivals]
        return self

    def result(self):
        if self.asked[-1] == self.fails:
            raise RunError("It failed.")
        return self.rows


def test_the_problems_cover_the_aims_and_every_entry_can_run():
    made = gradient_duels.problems()
    assert {(p.seq_len, p.head_dim, p.causal) for p in made} >= {
        (n, d, c) for n in (4096, 8192, 16384) for d in (64, 128) for c in (False, True)
    }
    assert {p.dtype for p in made} == {"float16", "bfloat16"} and any(p.kv_heads < p.num_heads for p in made)
    assert all(p.batch * p.seq_len * p.num_heads * p.head_dim <= 2**26 for p in made) and not [*Problem.duel_problems()]
    for problem in made:
        entries = gradient_duels.entries(problem)
        assert {s.get("DETERMINISTIC") for n, s in entries if n == "backward_6_overlap"} == {0, 1}
        assert all(current().kernels[name].plan(problem, tuple(s.items())) for name, s in entries)


def test_a_break_loses_one_problem_and_the_next_call_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    asked = [SixteenBitGradientProblem(seq_len=n) for n in (8, 16, 24)]
    monkeypatch.setattr(gradient_duels, "problems", lambda: asked)
    first = Submitted(fails=asked[1])
    monkeypatch.setattr(workers, "submit", first)
    with pytest.raises(RunError, match="1 of 3 problems have no duel. seq_len 16.*It failed. Record them again."):
        gradient_duels.record(GPU)
    again = Submitted(fails=None)
    monkeypatch.setattr(workers, "submit", again)
    (path,) = gradient_duels.record(GPU)
    assert first.asked == asked and again.asked == [asked[1]]
    made, where = gradient_duels.recorded()
    assert path.is_file() and where.device == GPU.name and set(made.peer) == {*peers.BACKWARD}
    assert [*dict.fromkeys(made.problem)] == [problem_text(problem) for problem in asked]
    gradient_duels.record(replace(GPU, driver="581"))
    assert len(again.asked) == 4  # another driver measures all again
