"""The ladder: recorded times only, one problem a step, our losses next to our wins."""

import math
from functools import cache

import pytest

from explainers.stories.timing import rungs
from kernels.catalog import current
from kernels.measure import bench, duels

TAUGHT = {"01_naive": "The race", "03_flash": "One pass", "12_optimistic": "Tensor cores"}


@cache
def made():
    (view,), asked = rungs.views(TAUGHT)
    return view, {question.id: question for question in asked}


def problem(id):
    return next(one for one in made()[0].meta["problems"] if one["id"] == id)


def test_every_time_is_a_row_of_the_recording_of_the_present_code():
    table, _ = bench.recorded()["NVIDIA H200"]
    here = {name: spec.code_hash for name, spec in current().kernels.items()}
    for tokens in (512, 1024, 2048, 4096, 8192):
        own = table.query(f"seq_len == {tokens} and batch == 4 and num_heads == 16 and head_dim == 128")
        own = own.query("causal == False and status == 'ok'")
        for id, us in problem(f"main {tokens}")["us"].items():
            if id == "limit":
                continue
            name, _, dtype = id.partition(" ")
            (row,) = own[(own.name == name) & (own.dtype == (dtype or own.dtype))].itertuples()
            assert row.median_us == us and (name not in here or row.code_hash == here[name])


def test_the_limit_is_the_work_at_the_largest_measured_rate():
    flop = 4 * 4096**2 * 128 * 4 * 16
    assert problem("main 4096")["us"]["limit"] == pytest.approx(flop / 761.3e12 * 1e6, rel=1e-3)


def test_turns_and_work_come_from_duels_and_say_their_state():
    table, _ = duels.recorded()
    met = table[(table.name == "12_optimistic") & (table.peer == "flash_attn_4") & (table.seq_len == 4096)]
    assert problem("work")["us"]["flash_attn_4 float16"] in set(met.sustained_peer_us)
    assert "At work" in problem("work")["said"]
    assert {"13_short", "sdpa_cudnn float16"} <= problem("turns")["us"].keys() and "Rested" in problem("turns")["said"]
    assert all(
        "Rested" in one["said"] or "rested" in one["said"] or one["id"] == "work" for one in made()[0].meta["problems"]
    )


def test_a_step_shows_rows_of_its_problem_only_and_each_rung_is_next_to_the_one_before():
    view, _ = made()
    us = problem("main 4096")["us"]
    ladder = [name for name in rungs.NEXT_TO if name in us]
    for shown, frame in zip(view.meta["shown"], view.meta["frames"]):
        times = problem(shown["problem"])["us"]
        assert {shown["rung"], shown["rival"], *shown["seen"]} <= times.keys()
        assert len(frame["head"].split()) <= 12 and len(view.meta["frames"]) <= 20
    ladder = ["01_naive", *ladder]
    for before, name in zip(ladder, ladder[1:]):
        (shown,) = [
            s for s in view.meta["shown"] if s["rung"] == name and len([*s["seen"]]) and s["most"] == us[before] * 1.05
        ]
        assert ladder[ladder.index(name) + 1 :] == [one for one in ladder if one not in shown["seen"]]


def test_one_pass_loses_to_unfused_attention_and_the_picture_says_so():
    view, asked = made()
    us = problem("main 4096")["us"]
    assert us["03_flash"] > us["sdpa_math float32"]
    frame = next(f for f, s in zip(view.meta["frames"], view.meta["shown"]) if s["rung"] == "03_flash")
    assert "unfused still wins" in frame["head"]
    assert f"{us['03_flash'] / us['sdpa_math float32']:.2g} times as long" in asked["unfused"].text
    gain = problem("main 8192")["us"]
    assert f"{gain['sdpa_math float16'] / gain['sdpa_flash float16']:.3g}" == "14.5"
    assert any("14.5 times faster" in frame["head"] for frame in view.meta["frames"])


def test_the_answers_are_those_of_the_times_and_no_step_before_has_them():
    view, asked = made()
    us = problem("main 4096")["us"]
    ladder = [name for name in rungs.NEXT_TO if name in us]
    ladder = ["01_naive", *ladder]
    gains = {name: us[a] / us[name] for a, name in zip(ladder, ladder[1:])}
    assert max(gains, key=gains.get) == "04_warp_rows" and asked["largest"].step == 0
    assert math.prod(gains.values()) == pytest.approx(us[ladder[0]] / us[ladder[-1]])
    limit = asked["limit"]
    chosen = limit.options[limit.answer]
    assert abs(float(chosen.split()[1].rstrip("%")) - 100 * us["limit"] / us[ladder[-1]]) < 12
    assert all("limit" not in shown["seen"] for shown in view.meta["shown"][: limit.step + 1])


def test_a_kernel_without_a_stop_has_the_one_of_the_next_kernel():
    stops = {row["id"]: row["stop"] for row in made()[0].meta["rungs"]}
    assert stops["02_tiled"] == "One pass" and stops["06_mma"] == "Tensor cores" and stops["13_short"] == ""


def test_without_recordings_it_is_left_out(monkeypatch):
    monkeypatch.setattr(rungs, "recorded", list)
    assert rungs.views({}) == ([], [])
