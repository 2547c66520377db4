"""The operators next to torch's attention: a duel on the CPU, and the words of a recorded table."""

import json

import pytest
import torch

from kernels.catalog import current
from kernels.measure import operator_rows
from kernels.measure.meeting import Side
from kernels.ops import operator_duels
from kernels.ops.operator_duels import Case
from kernels.recordings import tables
from kernels.run import workers
from kernels.run.backends import Device

GPU = Device("gpu", "Small GPU", "sm_90a", 232448, "580", 132)
COST = {"warpglass": 20.0, "sdpa_cudnn": 9.0, "warpglass in Python": 28.0}
SMALL = Case("Small", 1, 8, 2, 1, 64, True)


class Done:
    """In place of a job of a worker: the same function, on this CPU."""

    def __init__(self, function, *args, **rest):
        self.made = function(*args, "cpu", 0.0) if args else COST

    def result(self):
        return self.made


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The table of two cases, measured on this CPU."""
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    monkeypatch.setattr(operator_duels, "cases", lambda: [SMALL, Case("Small", 1, 8, 2, 1, 64, False)])
    monkeypatch.setattr(workers, "submit", Done)
    operator_duels.TABLE.record(GPU, anew=True)
    return operator_rows.recorded()


def test_a_duel_judges_ours_and_each_backend_of_torch_and_keeps_the_raw_pairs(recorded):
    rows, where = recorded
    assert list(rows.columns) == list(operator_rows.COLUMNS) and len(rows) == 8
    assert set(rows.status) == {"ok"} and set(rows[rows.peer == "sdpa_cudnn"].peer_status) == {"unavailable"}
    timed = rows[rows.peer == "sdpa_math"]
    assert [len(json.loads(pairs)) for pairs in timed.pairs] == [operator_duels.ROUNDS] * 2
    assert list(timed.backward != "") == [True, False] == list(timed.trains)
    assert where.more["overhead_us"]["warpglass"] == 20 and set(timed["name"]) < {*where.codes} <= {*current().kernels}


def test_a_second_recording_of_the_present_code_measures_nothing(recorded, monkeypatch):
    monkeypatch.setattr(operator_duels, "meet", None)
    assert operator_duels.TABLE.record(GPU)[0].is_file()


def test_an_interrupted_second_recording_keeps_every_case_and_the_next_goes_on(recorded, monkeypatch):
    four = [*operator_duels.cases(), Case("Small", 1, 16, 2, 1, 64, False), Case("Small", 1, 32, 2, 1, 64, False)]
    monkeypatch.setattr(operator_duels, "cases", lambda: four)
    asked = []

    def submit(function, *args, **rest):
        asked.extend(args)
        if args == (four[3],) and asked.count(four[3]) == 1:
            raise KeyboardInterrupt
        return Done(function, *args)

    monkeypatch.setattr(workers, "submit", submit)
    with pytest.raises(KeyboardInterrupt):
        operator_duels.TABLE.record(GPU)
    assert len(operator_rows.recorded()[0]) == 12
    operator_duels.TABLE.record(GPU)
    rows, where = operator_rows.recorded()
    assert asked == [four[2], four[3], four[3]] and len(rows) == 16
    assert where.more["overhead_us"] == COST and {*rows.backward} - {""} < {*where.codes}


def test_cases_of_an_earlier_backward_are_left_out_and_counted(recorded, monkeypatch):
    assert not operator_rows.waiting()
    name = recorded[0].backward.iloc[0]
    monkeypatch.setattr(tables, "changed_code", lambda codes: [name])
    assert not operator_rows.recorded()[0].trains.any()
    said = f"Not shown: 1 of 2 cases, with gradients by an earlier `{name}`. They wait for a new recording."
    assert operator_rows.waiting() == [said] and said in operator_rows.text() and said in operator_rows.sentence()[0]


def test_a_wrong_result_of_ours_gets_no_time():
    exact = (torch.ones(2, dtype=torch.float64),)
    sides = {"warpglass": Side("ok"), "sdpa_flash": Side("ok"), "sdpa_math": Side("ok")}
    made = {"warpglass": (exact[0] + 0.5,), "sdpa_flash": (exact[0] + 1e-3,), "sdpa_math": (exact[0] + 0.1,)}
    operator_duels._judge(sides, made, exact)
    assert [side.status for side in sides.values()] == ["wrong", "ok", "less accurate"]


def test_the_text_shows_losses_next_to_wins(recorded, monkeypatch):
    rows, where = recorded
    slow = rows.assign(peer_us=[30.0, 40, 50, None] * 2, us=[60.0] * 4 + [15.0] * 4)
    slow = slow.assign(ratio=slow.peer_us / slow.us, tokens=[128] * 4 + [2048] * 4)
    monkeypatch.setattr(operator_rows, "recorded", lambda: (slow, where))
    said = operator_rows.text()
    assert "A call is faster than each backend of torch in 1 of 2 cases." in said
    assert "The losses have 128 tokens: 0.50 times the speed." in said
    assert "A tiny call takes 20 us, and 28 us without the compiled launcher." in said
    assert "The backends of torch take: cuDNN 9 us." in said
    assert said.count("\n| Small") == 2 and "| 2.00 |" in said
    (line,) = operator_rows.sentence()
    assert "in 1 of 2 cases (0.50 to 2.00 times as fast). The slower cases have 128 tokens." in line
    monkeypatch.setattr(operator_rows, "recorded", lambda: None)
    assert not operator_rows.sentence() and operator_rows.text() == "No time of the present code is recorded."
