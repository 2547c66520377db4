"""The ladder: recorded times only, one problem a step, our losses next to our wins."""

import math
from functools import cache

import pytest

from app.course import stop as course
from explainers.stories.timing import rungs
from kernels.catalog import current
from kernels.measure import bench, duels
from kernels.recordings import tables

TAUGHT = {"as_written": ("1 The race", "tiling?stop=as_written"), "banks": ("5 Banks", "bank_conflicts?stop=banks")}


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
        own = own[~own.causal.astype(bool) & own.status.isin(tables.TIMED)]
        for id, us in problem(f"main {tokens}")["us"].items():
            if id == "limit":
                continue
            name, _, dtype = id.partition(" ")
            row, *_ = own[(own.name == name) & (own.dtype == (dtype or own.dtype))].itertuples()  # of the first sweep
            assert row.median_us == us and (name not in here or row.code_hash == here[name])


def test_the_limit_is_the_work_at_the_largest_measured_rate():
    flop = 4 * 4096**2 * 128 * 4 * 16
    assert problem("main 4096")["us"]["limit"] == pytest.approx(flop / 761.3e12 * 1e6, rel=1e-3)


def test_turns_and_work_come_from_duels_and_say_their_state():
    table, _ = duels.recorded()
    met = table[(table.name == "12_optimistic") & (table.peer == "flash_attn_4") & (table.seq_len == 4096)]
    assert problem("work")["us"]["flash_attn_4 float16"] in set(met.sustained_peer_us)
    assert "without pauses" in problem("work")["said"] and problem("work")["tokens"] == "4,096 without pauses"
    assert {"13_short", "sdpa_cudnn float16"} <= problem("turns")["us"].keys()
    assert problem("long")["tokens"] == "16,384, 8 heads of 64, 32 bits"
    assert problem("turns")["tokens"] == "512, 32 texts"
    assert {one["id"] for one in made()[0].meta["problems"] if one["other"]} == {"long", "turns", "work"}
    assert all("with pauses" in one["said"] or one["id"] == "work" for one in made()[0].meta["problems"])


def test_a_step_shows_rows_of_its_problem_only_and_each_rung_is_next_to_the_one_before():
    view, _ = made()
    for shown, frame in zip(view.meta["shown"], view.meta["frames"]):
        times = problem(shown["problem"])["us"]
        assert {shown["rung"], shown["rival"], *shown["seen"]} <= times.keys()
        assert len(frame["head"].split()) <= 12 and len(view.meta["frames"]) <= 12
    ladder = ["01_naive", *ladder_of(problem("main 4096")["us"])]
    assert [*rungs.NEXT_TO] == ladder[1:]
    assert [name for shown in view.meta["shown"] for name in shown["adds"]] == ladder
    for shown in view.meta["shown"][1:-2]:
        last = shown["adds"][-1]
        assert shown["rung"] == last
        assert ladder[ladder.index(last) + 1 :] == [one for one in ladder if one not in shown["seen"]]


def test_a_rival_comes_when_it_is_passed_and_torch_while_it_still_wins():
    us = problem("main 4096")["us"]
    seen = set()
    for shown in made()[0].meta["shown"][:-2]:
        ahead = [id for id in shown["seen"] if id in rungs.RIVALS and us[id] < us[shown["rung"]]]
        assert ahead == (["sdpa_math float32"] if shown["rung"] in {"03_flash", "04_warp_rows"} else [])
        assert {id for id in shown["seen"] if id in rungs.RIVALS} - seen <= {*shown["news"]}
        seen |= {*shown["seen"]}
    assert {*rungs.RIVALS} & us.keys() - seen == {"limit"}


def ladder_of(us):
    return [name for name in rungs.RUNGS if name in us and name not in {"01_naive", *rungs.ASIDE}]


def test_a_kernel_that_is_no_rung_is_in_sight_where_it_is_our_fastest():
    for one in made()[0].meta["problems"]:
        ours = {name: us for name, us in one["us"].items() if name in rungs.RUNGS}
        assert not {*rungs.ASIDE} & ours.keys() - {min(ours, key=ours.get)}
    assert problem("long")["us"]["08b_three_bfloat16"] < problem("long")["us"]["sdpa_math float32"] / 3
    assert "08b_three_bfloat16" not in problem("main 4096")["us"] and "13_short" in problem("main 512")["us"]


def test_one_pass_loses_to_unfused_attention_and_the_picture_says_so():
    view, _ = made()
    us = problem("main 4096")["us"]
    assert us["03_flash"] > us["sdpa_math float32"]
    frame = next(f for f, s in zip(view.meta["frames"], view.meta["shown"]) if s["rung"] == "03_flash")
    assert "torch still wins" in frame["head"]


def test_the_answers_are_those_of_the_times_and_no_step_before_has_them():
    view, asked = made()
    us = problem("main 4096")["us"]
    ladder = ["01_naive", *ladder_of(us)]
    gains = {name: us[a] / us[name] for a, name in zip(ladder, ladder[1:])}
    assert max(gains, key=gains.get) == "04_warp_rows" and asked["largest"].step == 0
    assert asked["largest"].shows == {"row": view.meta["best"]}  # in the first picture: the reader walks on from there
    assert view.meta["shown"][asked["limit"].shows["to"]]["rival"] == "limit"
    assert math.prod(gains.values()) == pytest.approx(us[ladder[0]] / us[ladder[-1]])
    table, _ = bench.recorded()["NVIDIA H200"]
    part = table.query("name == '03_flash' and seq_len == 4096 and num_heads == 8 and head_dim == 64")
    part = part[(part.causal == False) & (part.batch == 1)]  # noqa: E712
    queued, padded = (part[part.settings.str.startswith(f"BLOCK_Q=16 BLOCK_KV=16 PAD_K={pad} ")] for pad in (0, 4))
    alone = queued.median_us.item() / padded.median_us.item()
    assert f"Padding alone gains {alone:.1f} times" in asked["largest"].why and alone**2 > gains["04_warp_rows"]
    limit = asked["limit"]
    chosen = limit.options[limit.answer]
    assert abs(float(chosen.split()[1].rstrip("%")) - 100 * us["limit"] / us[ladder[-1]]) < 12
    assert all("limit" not in shown["seen"] for shown in view.meta["shown"][: limit.step + 1])


def test_each_rung_has_the_stops_with_its_idea_and_both_queues_have_banks():
    names = {stop.name for stop in course.stops()}
    assert {one for of in rungs.STOP_OF.values() for one in of.split()} <= names
    assert {*rungs.STOP_OF} == {*rungs.RUNGS} - {*rungs.ASIDE}
    ways = {row["id"]: row["ways"] for row in made()[0].meta["rungs"]}
    assert ways["04_warp_rows"] == ways["07_swizzle"] == [TAUGHT["banks"]] and ways["13_short"] == ways["limit"] == []
    assert rungs.STOP_OF["04_warp_rows"].split() == ["banks", "in_registers"]  # its two changes have one time


def test_the_end_gives_each_change_to_one_pile_and_their_factors_multiply_to_the_whole():
    us = problem("main 4096")["us"]
    taught = {stop.name: (f"{stop.number} {stop.title}", stop.name) for stop in course.stops() if not stop.shelf}
    (own,), _ = rungs.views(taught)
    rows = {row["id"]: row for row in own.meta["rungs"] if row["saves"]}
    assert rows.keys() == {*rungs.NEXT_TO} and all(row["ways"] for row in rows.values())
    ladder = ["01_naive", *ladder_of(us)]
    gains = {name: us[before] / us[name] for before, name in zip(ladder, ladder[1:])}
    kinds = {kind: math.prod(gains[r] for r in rows if rows[r]["saves"] == kind) for kind in own.meta["saves"]}
    assert [*sorted(kinds, key=kinds.get)] == ["trips", "work", "waiting"]  # as its headline says
    assert math.prod(kinds.values()) == pytest.approx(us["01_naive"] / us[ladder[-1]])
    assert [one["phase"] for one in own.meta["shown"]][-2:] == ["hand", "end"]
    numbers = {said.split()[0] for said, _ in taught.values()}
    with_riser = {title.split()[0] for row in rows.values() for title, _ in row["ways"]}
    without = ", ".join(sorted(numbers - with_riser - {"12"}, key=int)[:-1])
    assert f"From tensor on, inputs have 16 bits, not 32. Stops {without} and 11 " in own.meta["others"]


def test_the_end_says_that_the_same_change_gains_more_without_the_queue_and_in_the_race():
    said, in_race = made()[0].meta["frames"][-1]["sentence"], made()[0].meta["race"]
    table, _ = bench.recorded()["NVIDIA H200"]
    part = table.query("seq_len == 4096 and num_heads == 8 and head_dim == 64 and batch == 1 and causal == False")

    def of(name, pad):
        own = part[(part.name == name) & part.settings.str.startswith(f"BLOCK_Q=16 BLOCK_KV=16 PAD_K={pad} ", na=False)]
        return own.median_us.item()

    queued, padded = (of("02_tiled", pad) / of("03_flash", pad) for pad in (0, 4))
    assert queued < padded and f"× {queued:.2f} while" in said and f"× {padded:.2f} with padded" in said
    race = problem("main 8192")["us"]
    race = race["unfused float16"] / race["sdpa_flash float16"]
    assert padded < race and f": {race:.1f} times faster" in in_race and "stop 1," in in_race
    part = table.query("seq_len == 8192 and num_heads == 16 and head_dim == 128 and batch == 4 and causal == False")
    held = part[(part.dtype == "float16") & (part.num_kv_heads == 16)].drop_duplicates("name", keep="last")
    held = held.set_index("name").peak_bytes
    assert f"{held['unfused'] / held['sdpa_flash']:.0f} times less memory held" in in_race


def test_a_rival_without_a_time_and_the_memory_of_trips_are_named():
    meta = made()[0].meta
    assert meta["missing"] == "FlashAttention-3: not recorded here" and meta["beside"] in problem("main 4096")["us"]
    table, _ = bench.recorded()["NVIDIA H200"]
    assert not (table.status.isin(tables.TIMED) & (table.name == rungs.MISSING)).any()
    assert {row["id"]: row["where"] for row in meta["rungs"] if row["where"]} == {
        "05_register_tiles": "to shared memory"
    }
    assert next(row["said"] for row in meta["rungs"] if row["id"] == "limit") == "torch matmul, 761 TFLOP/s"


def test_the_limit_says_how_it_was_measured_and_the_times_at_work():
    (said,) = [f["sentence"] for f, s in zip(made()[0].meta["frames"], made()[0].meta["shown"]) if s["phase"] == "hand"]
    assert "with pauses" in said and f"{problem('work')['us']['12_optimistic']:.0f} µs" in said


def test_each_rung_says_what_was_before_and_what_is_now():
    assert {*rungs.TOGETHER} < {*rungs.NEXT_TO}
    for row in made()[0].meta["rungs"]:
        shares = row["id"] in rungs.TOGETHER[1:]  # the first one says what was before all of them
        assert len(row["change"]) == (0 if row["id"] not in rungs.NEXT_TO else 1 if shares else 2)


def test_without_recordings_it_is_left_out(monkeypatch):
    monkeypatch.setattr(rungs, "recorded", list)
    assert rungs.views({}) == ([], [])
