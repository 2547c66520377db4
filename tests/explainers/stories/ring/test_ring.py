"""The story of a ring: its steps, copies and merges come from the run, and its times from the recording."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import cpu_run

from explainers.stories.ring import figures, orders, times
from explainers.stories.ring.questions import questions
from explainers.stories.ring.rounds import rounds
from explainers.stories.ring.story import STORY
from explainers.stories.ring.walk import Walk, sent
from explainers.story import encoding, stage
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import RunError
from kernels.families.ring.problem import RingProblem
from kernels.measure import rings

SETTINGS = (("BLOCK_Q", 16), ("BLOCK_KV", 16))


def run_of(*more, **fields):
    problem, settings = RingProblem(**fields), (*SETTINGS, *more)
    plan = Request(KERNELS["ring_attention"], problem, settings).plan
    return cpu_run("ring_attention", problem, settings, Scope.everything(plan))


@pytest.fixture(scope="module", name="plain")
def plain_run():
    return run_of(order="plain")


@pytest.fixture(scope="module", name="zigzag")
def zigzag_run():
    return run_of()


def test_in_plain_causal_order_a_gpu_waits_and_in_zigzag_order_none_does(plain, zigzag):
    assert [one.idle for one in rounds(plain)] == [[], [0], [0, 1], [0, 1, 2]]
    assert [one.idle for one in rounds(zigzag)] == [[], [], [], []]
    assert len({work.pairs for one in rounds(zigzag)[1:] for work in one.works}) == 1


def test_each_gpu_holds_another_part_in_each_step_and_sends_its_bytes(zigzag):
    steps = rounds(zigzag)
    for device in range(4):
        assert [one.works[device].part for one in steps] == [(device - step) % 4 for step in range(4)]
        assert [sent(one, device) for one in steps] == [*[2 * 32 * 64 * 2] * 3, 0]  # K and V, 32 rows of 64 numbers


def test_a_frame_shows_the_pairs_and_the_merge_of_the_trace(zigzag):
    walk = Walk(zigzag)
    met = np.zeros((8, 8), int)
    for frame in walk.frames:
        if frame["kind"] == "products":
            for device in frame["devices"]:
                for row, key in device["cells"]:
                    met[row, key] += 1
    assert np.array_equal(met, np.tri(8, dtype=int))
    device, row, merges = walk.followed
    for merge in merges[1:]:
        before, now, after = merge.m
        assert after == max(before, now)
        assert merge.shares == pytest.approx((np.exp(before - after), np.exp(now - after)), rel=1e-5)
        assert merge.l[2] == pytest.approx(merge.l[0] * merge.shares[0] + merge.l[1] * merge.shares[1], rel=1e-5)
    assert merges[0].shares is None and len(merges) == 4


def test_the_stage_goes_to_the_browser_and_asks_about_work_bytes_and_factor(plain):
    runner = SimpleNamespace(run=lambda request: plain, provenance=stage.provenance, broken=lambda _: ("", ""))
    made = STORY.stage(plain.request, runner)
    assert encoding.decode(encoding.encode(made))["frames"]
    asked = {question.id: question for question in made.questions}
    work = [sum(one.works[device].pairs for one in rounds(plain)) for device in range(4)]
    balance = asked["balance"]
    assert balance.options[balance.answer] == f"GPU {work.index(max(work))}" == "GPU 3"
    assert asked["bytes"].answer == 3 * 8192
    assert {"factor", "hidden"} <= {*asked}
    assert made.views[0].meta["gpus"] == "4 virtual GPUs in plain order"


def test_a_build_that_scales_no_part_says_so_and_asks_for_no_factor():
    walk = Walk(run_of(("SCALE_PARTS", 0), gpus=2, seq_len=32))
    grown = [merge for merge in walk.followed[2] if merge.shares and merge.m[2] > merge.m[0]]
    said = [frame["sentence"] for frame in walk.frames if frame["kind"] == "merge"]
    assert grown and sum("no part is scaled" in sentence for sentence in said) == len(grown)
    assert "factor" not in {question.id for question in questions(walk, [])}


def test_the_table_of_times_starts_with_the_fastest_and_ends_with_ways_without_an_answer():
    table, _ = rings.recorded()
    for _, rows in times.groups(table):
        ways = times._in_order(rows)
        answers = [way["sustained_us"] for way in ways if times._answers(way)]
        assert answers == sorted(answers) and not times._answers(ways[-1]) and times._answers(ways[0])
        last = next(row for row in rows if row["way"] == rings.LAST_RUNG)
        assert times._row(last, rows)["way"] == f"{last['name']} on one GPU"


def test_speedups_are_over_the_fastest_way_on_one_gpu_of_the_same_turns():
    table, _ = rings.recorded()
    (rows,) = (rows for key, rows in times.groups(table) if key == (65536, True, "plain"))
    ring, one, last = (next(row for row in rows if row["way"] == way) for way in (rings.RING, rings.ONE, "last rung"))
    turns = table[table.seq_len.eq(65536) & table.causal & table.way.eq("last rung")].sustained_us
    assert last["sustained_us"] == turns.iloc[1]  # the rung of zigzag's turns is the first
    shown, now = times._row(ring, rows), ring["sustained_us"]
    assert shown["speedup, sustained"] == f"{min(one['sustained_us'], last['sustained_us']) / now:.2f}"
    assert shown["over the same kernel"] == f"{one['sustained_us'] / now:.2f}"
    assert shown["speedup, rested"] == f"{min(one['us'], last['us']) / ring['us']:.2f}"
    assert shown["GPU 0 meanwhile"] == f"{ring['sustained_clock']:.0f} MHz, {ring['sustained_power']:.0f} W"
    assert times._state(1410, 690.3, 0.45, 0.55) == "1410 MHz, 690 W (45% capped, 55% hot)"
    assert times._state(None, None, None, None) == ""


def test_the_first_picture_says_when_a_copy_is_hidden_and_the_last_one_the_recorded_gain(zigzag):
    first, *_, last = Walk(zigzag).frames
    memory, rule = first["figures"]
    assert memory["bars"][0]["value"] > memory["limit"][0] > memory["bars"][1]["value"]
    made = times.rate(True, "zigzag")
    assert made.equal == pytest.approx(2 * made.flops / made.bytes, rel=0.01)  # the mask halves the products
    assert f"about {round(made.equal, -2):,} tokens" in rule["notes"][1] and made.tokens > made.equal
    alone, plain, zigzag_ = (bar["value"] for bar in last["figures"][-1]["bars"])  # of the table with most GPUs
    assert alone > plain > zigzag_ and f"{alone / zigzag_:.2f} times" in last["sentence"]
    assert "1.50 for 2 GPUs: 2.00 against 1.33" in figures.counted(2, [plain, zigzag_])  # (1 + 1/2) / 1 of plain order
    assert [len(walked) for walked in (Walk(run_of(gpus=1, seq_len=64)).frames,)] == [2]


def test_a_picture_names_a_mask_only_where_the_problem_has_one(zigzag):
    assert Walk(zigzag).meta()["masked"] and not Walk(run_of(gpus=1, seq_len=64, causal=False)).meta()["masked"]


def test_heads_over_gpus_send_only_outputs():
    (one,) = rounds(run_of(split="heads", num_heads=2, gpus=2, seq_len=32))
    assert [(move.source, move.target, move.bytes, move.waits) for move in one.moves] == [(1, 0, 32 * 64 * 2, True)]


def test_recorded_copies_hide_behind_products_and_plain_order_leaves_a_gpu_idle():
    table, _ = rings.recorded()
    for (length, causal, order), rows in times.groups(table):
        ring = next(row for row in rows if row["way"] == rings.RING)
        assert times.single(rows)["gpus"] == 1 and len(times.spans(ring)) > 2
        if length == 65536:
            assert times.hidden(ring)[0] > 0.95
            assert (times.busy(ring)["GPU 0"] < 0.6) == (causal and order == "plain")


def test_both_orders_have_equal_pairs_and_only_plain_order_waits(plain, zigzag):
    runner = SimpleNamespace(run=lambda request: {"plain": plain, "zigzag": zigzag}[request.problem.order])
    found = orders.orders(plain.request, rounds(plain), runner)
    assert [(one.name, one.own) for one in found] == [("plain", True), ("zigzag", False)]
    slow, fast = (one.shown for one in found)
    for order in (slow, fast):
        assert sum(map(sum, order["pairs"])) == 128 * 129 // 2
        each = [sum(step[gpu] for step in order["pairs"]) for gpu in range(4)]
        assert order["waits"] == pytest.approx([1 - pairs / order["ends"][-1] for pairs in each])
    assert slow["ends"] == [528, 528 + 1024, 528 + 2048, 528 + 3072] and not any(fast["waits"])
    assert "Under the causal mask, GPU 0 waits 85% of the time in plain order." in orders.result(found)
    assert f"In zigzag order no GPU waits: {3600 / 2064:.2f} times as fast" in orders.result(found)
    assert "GPU 0 waits 85% of the time, if each pair takes equal time" in orders.result(found[:1])


def test_a_summary_says_that_no_gpu_waits_only_if_none_does():
    waits = [SimpleNamespace(name=name, said="", ends=[n], waits=[n / 10, 0]) for n, name in ((5, "a"), (4, "b"))]
    assert "In b order a GPU waits at most 40% of it: 1.25 times as fast" in orders.result(waits)


def test_only_the_gpu_with_the_first_queries_is_asked_about_and_only_if_it_waits_most_of_the_time(plain, zigzag):
    slow, fast = (orders.Order(name, rounds(run), True) for name, run in (("plain", plain), ("zigzag", zigzag)))
    waiting = [one for one in questions(Walk(plain), [slow, fast]) if one.id == "waiting"]
    assert waiting[0].options[waiting[0].answer] == "The mask hides the keys that arrive"
    back = [replace(one, works=tuple(replace(w, rows=w.rows + 32) for w in one.works)) for one in slow.rounds]
    less = [replace(one, works=tuple(replace(w, pairs=9 - (w.device == 0)) for w in one.works)) for one in slow.rounds]
    for other in (back, less):
        made = questions(Walk(plain), [orders.Order("plain", other, True)])
        assert "waiting" not in {one.id for one in made} and max(orders.Order("", other, True).waits) > 0


def test_a_small_factor_and_an_l_of_0_leave_the_derived_o_out(zigzag):
    walk, (device, row, merges) = Walk(zigzag), Walk(zigzag).followed
    made = walk._values(merges[-1], True)
    assert (
        made["output"] == zigzag.arrays[f"o_{device}"][0, 0, row, :16].astype(float).tolist() and len(made["own"]) == 16
    )
    tiny = replace(merges[-1], shares=(1.0, 0.0), l=(1.0, 0.0, 0.0))
    assert walk._values(tiny, True)["own"] == []


def test_a_way_without_a_time_is_left_out(monkeypatch):
    table, where = rings.recorded()
    lost = table.assign(status=table.status.where(table.seq_len != 65536, "failed"))
    lost.loc[lost.seq_len == 65536, "sustained_us"] = np.nan
    monkeypatch.setattr(rings, "recorded", lambda: (lost, where))
    assert [one["tokens"] for one in times.hiding(True, "plain")["lengths"]] == [16384]
    assert times.hiding(False)["lengths"]


def test_an_order_without_a_run_is_left_out(zigzag):
    def run(_):
        raise RunError("not recorded")

    (one,) = orders.orders(zigzag.request, rounds(zigzag), SimpleNamespace(run=run))
    assert one.own and orders.result([one]) == orders.EQUAL
