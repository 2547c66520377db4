"""The story of a ring: its work, copies and merges come from the run, and its times from the recording."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import cpu_run

from explainers.stories.ring import data, times
from explainers.stories.ring.story import STORY
from explainers.story import encoding, stage
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import RunError
from kernels.families.ring.problem import RingProblem
from kernels.measure import rings

SETTINGS = (("BLOCK_Q", 16), ("BLOCK_KV", 16))
SENT = 2 * 32 * 64 * 2  # bytes of K and V: 32 rows of 64 numbers of 16 bits
MEETS = 32 * 32  # pairs of two parts
DIAGONAL = 32 * 33 // 2  # pairs of a part with itself under the mask


def run_of(*more, **fields):
    problem, settings = RingProblem(**fields), (*SETTINGS, *more)
    plan = Request(KERNELS["ring_attention"], problem, settings).plan
    return cpu_run("ring_attention", problem, settings, Scope.everything(plan))


def page_of(*runs):
    """The stage of the first run. The others are its other orders."""
    of = {run.request.problem: run for run in runs}

    def run(request):
        if request.problem not in of:
            raise RunError("not recorded")
        return of[request.problem]

    runner = SimpleNamespace(run=run, provenance=stage.provenance, broken=lambda _: ("", ""))
    return encoding.decode(encoding.encode(STORY.stage(runs[0].request, runner)))


def panels(made, kind, view=0):
    return [panel for line in made["views"][view]["meta"]["lines"] for panel in line if panel["kind"] == kind]


@pytest.fixture(scope="module", name="plain")
def plain_run():
    return run_of(order="plain")


@pytest.fixture(scope="module", name="zigzag")
def zigzag_run():
    return run_of()


@pytest.fixture(scope="module", name="made")
def plain_page(plain, zigzag):
    return page_of(plain, zigzag)


def test_in_plain_causal_order_a_gpu_waits_and_in_zigzag_order_none_does(plain, zigzag):
    slow, fast = (data.tables(run)[0].pivot(index="round", columns="gpu", values="pairs") for run in (plain, zigzag))
    assert slow.to_numpy().tolist() == [
        [DIAGONAL] * 4,
        *([0] * part + [MEETS] * (4 - part) for part in (1, 2, 3)),
    ]
    assert (fast[1:] == MEETS // 2).all(axis=None) and slow.sum(axis=None) == fast.sum(axis=None) == 128 * 129 // 2


def test_each_gpu_holds_another_part_in_each_round_and_sends_its_bytes(zigzag):
    work, copies, pairs = data.tables(zigzag)
    for gpu, own in work.groupby("gpu"):
        assert [*own.part] == [(gpu - step) % 4 for step in range(4)] and [*own.sent] == [*[SENT] * 3, 0]
    assert {(row.source, row.target) for row in copies.itertuples()} == {(gpu, (gpu + 1) % 4) for gpu in range(4)}
    met = np.zeros((128, 128), int)
    np.add.at(met, (pairs["query"], pairs["key"]), 1)
    assert np.array_equal(met, np.tri(128, dtype=int))


def test_both_parts_of_a_merge_add_up(zigzag):
    followed, merges = data.merges(zigzag)
    assert len(merges) == 4 and not merges[0]["factors"]
    for merge in merges[1:]:
        (before, now, after), (earlier, own, total), factors = merge["m"], merge["l"], merge["factors"]
        assert after == max(before, now)
        assert factors == pytest.approx((np.exp(before - after), np.exp(now - after)), rel=1e-5)
        assert total == pytest.approx(earlier * factors[0] + own * factors[1], rel=1e-5)
    output = zigzag.arrays[f"o_{followed['gpu']}"][0, 0, followed["row"], : data.SHOWN].astype(float)
    assert merges[-1]["output"] == output.tolist()
    assert np.array(merges[-1]["o"][2]) / merges[-1]["l"][2] == pytest.approx(output, abs=1e-3)


def test_the_ring_shows_each_part_where_it_is_and_where_it_goes(made):
    (flow,) = panels(made, "flow")
    for step, frame in enumerate(made["frames"][1:-1], 1):
        here = {tuple(item["spots"][step]): item for item in flow["items"] if item["spots"][step]}
        for gpu in range(4):
            part = (gpu - frame["tile"]) % 4
            assert here[gpu, 0]["texts"][-1] == f"{part}"
            if frame["tile"] < 3:
                assert here[gpu, 1]["texts"][-1] == f"{(part - 1) % 4}" and step in here[gpu, 1]["pale"]
        waits = [place["name"] for place in flow["places"] if place["value"][step] == ["waits"]]
        assert waits == [f"GPU {gpu}" for gpu in range(frame["tile"])]
    plain, zigzag = panels(made, "cells")[:2]  # 8 x 8 pieces, the lower half of which meets
    assert (plain["part"], zigzag["part"]) == ("plain", "zigzag")
    for cells in (plain, zigzag):
        end = np.array([*cells["states"][-1]]).reshape(8, 8)
        assert np.array_equal(end == " ", ~np.tri(8, dtype=bool)) and "-" not in end
        assert len(set(cells["states"])) == 4
    assert plain["names"] == [f"GPU {n // 2}" for n in range(8)]
    assert zigzag["names"] == [f"GPU {n}" for n in (0, 1, 2, 3, 3, 2, 1, 0)]


def test_the_orders_have_the_pairs_of_their_runs_and_only_plain_order_waits(made):
    (lanes,) = panels(made, "lanes", 1)
    works = [span for span in lanes["spans"] if not span["hatch"]]
    for n, order in enumerate(("plain", "zigzag")):
        own = [span for span in works if span["datum"]["order"] == order]
        assert sum(span["end"] - span["start"] for span in own) == 128 * 129 // 2
        ends = [lanes["groups"][n]["marked"][step][1] for step in range(len(made["frames"]))]
        assert sorted({*ends})[-1] == max(span["end"] for span in own)
    assert {span["datum"]["order"] for span in lanes["spans"] if span["hatch"]} == {"plain"}
    assert [row["end"] for row in lanes["rows"]][::4] == [f"waits {1 - DIAGONAL / 3600:.0%}", "waits 0%"]
    assert "GPU 0 waits 85% of the time in plain order." in made["summary"]
    assert f"In zigzag order no GPU waits: {3600 / 2064:.2f} times as fast" in made["summary"]


def test_an_order_without_a_run_is_left_out(plain, zigzag):
    assert page_of(zigzag)["summary"] == "All GPUs have equal work in every round, so none waits."
    assert "GPU 0 waits 85% of the time, if each pair takes equal time" in page_of(plain)["summary"]


def test_the_questions_are_answered_by_the_run(made):
    asked = {question["id"]: question for question in made["questions"]}
    assert {*asked} == {"bytes", "balance", "waiting", "factor", "hidden"}
    assert asked["balance"]["options"][asked["balance"]["answer"]] == "GPU 3" and asked["bytes"]["answer"] == 3 * SENT
    assert asked["waiting"]["options"][asked["waiting"]["answer"]] == "The mask hides the keys that arrive"
    factor = asked["factor"]
    (table,) = (one for one in panels(made, "table") if one["shown"] == [factor["step"]])
    (cover,) = factor["covers"]
    covered = [cell for cell in table["cells"] if cover.items() <= cell["datum"].items()]
    said = {float(re.search(r"[\d.e-]+$", cell["tip"])[0]) for cell in covered}
    assert len(said) == 2 and min(said) == pytest.approx(factor["answer"])


def test_a_build_that_scales_no_part_says_so_and_asks_for_no_factor():
    run = run_of(("SCALE_PARTS", 0), gpus=2, seq_len=32)
    made, grown = page_of(run), [m for m in data.merges(run)[1] if m["factors"] and m["m"][2] > m["m"][0]]
    assert grown and sum("no part is scaled" in frame["sentence"] for frame in made["frames"]) == len(grown)
    assert "factor" not in {question["id"] for question in made["questions"]}


def test_heads_over_gpus_send_only_outputs():
    made = page_of(run_of(split="heads", num_heads=2, gpus=2, seq_len=32))
    (flow,) = panels(made, "flow")
    (copy,) = (item for item in flow["items"] if item["way"])
    assert copy["way"] == [[1, 1], [0, 1]] and f"{32 * 64 * 2:,} bytes" in copy["tip"] and not panels(made, "cells")


def test_one_gpu_passes_nothing_on():
    made = page_of(run_of(gpus=1, seq_len=64))
    assert len(made["frames"]) == 2 and not any(item["way"] for item in panels(made, "flow")[0]["items"])
    assert "bytes" not in {question["id"] for question in made["questions"]}


def test_the_first_picture_says_when_a_copy_is_hidden_and_the_last_one_the_recorded_gain(made):
    table, _ = rings.recorded()
    rows = table[table.causal & (table.order == "plain") & (table.seq_len == 65536)].set_index("way").sustained_us
    memory, round_, *gains = panels(made, "bars")[:2] + panels(made, "bars")[2:]
    whole, part, limit = (bar["value"] for bar in memory["bars"])
    assert whole == pytest.approx(131.072) and part == whole / 4 and whole > limit > part
    products, copy = rows["launches"] / 2, rows["copies"] / 1
    assert [bar["value"] for bar in round_["bars"]] == pytest.approx([products, copy])
    equal = 65536 / 2 * copy / products
    said = [line["texts"][0] for panel in panels(made, "lines") for line in panel["lines"]]
    assert any(f"Beyond about {round(equal, -2):,.0f} tokens" in text for text in said)
    alone, plain, zigzag = (bar["value"] for bar in gains[-1]["bars"])  # of the table with most GPUs
    assert alone > plain > zigzag and f"zigzag order is {alone / zigzag:.2f} times" in made["frames"][-1]["sentence"]
    assert any("gives 1.50 for 2 GPUs: 2.00 against 1.33" in text for text in said)  # (1 + 1/2) / 1 of plain order


def test_the_table_of_times_starts_with_the_fastest_and_ends_with_ways_without_an_answer():
    table, _ = rings.recorded()
    for turns in rings.in_turns(table):
        rows = [row for row in times.ways_of(table, turns) if row["status"] == "ok"]
        right = [row["sustained_us"] for row in rows if times.answers(row)]
        assert right == sorted(right) and times.answers(rows[0]) and not times.answers(rows[-1])
        last = next(row for row in rows if row["way"] == rings.LAST_RUNG)
        assert times.way_row(last, rows)["way"] == f"{last['name']} on one GPU"


def test_speedups_are_over_the_fastest_way_on_one_gpu_of_the_same_turns():
    table, _ = rings.recorded()
    turns = next(
        t for t in rings.in_turns(table) if [*t.iloc[0][["seq_len", "order", "causal"]]] == [65536, "plain", True]
    )
    rows = times.ways_of(table, turns)
    ring, one, last = (next(row for row in rows if row["way"] == way) for way in (rings.RING, rings.ONE, "last rung"))
    rungs = table[table.seq_len.eq(65536) & table.causal & table.way.eq("last rung")].sustained_us
    assert last["sustained_us"] == rungs.iloc[1]  # the rung of zigzag's turns is the first
    shown, now = times.way_row(ring, rows), ring["sustained_us"]
    assert shown["speedup, sustained"] == f"{min(one['sustained_us'], last['sustained_us']) / now:.2f}"
    assert shown["over the same kernel"] == f"{one['sustained_us'] / now:.2f}"
    assert shown["speedup, rested"] == f"{min(one['us'], last['us']) / ring['us']:.2f}"
    assert shown["GPU 0 meanwhile"] == f"{ring['sustained_clock']:.0f} MHz, {ring['sustained_power']:.0f} W"
    assert times.gpu_state(1410, 690.3, 0.45, 0.55) == "1410 MHz, 690 W (45% capped, 55% hot)"
    assert times.gpu_state(None, None) == ""
    assert times.shares(ring)[0] > 0.95 and times.multiplies(ring)["GPU 0"] < 0.6


def test_a_way_without_a_time_is_left_out(monkeypatch):
    table, where = rings.recorded()
    lost = table.assign(status=table.status.where(table.seq_len != 65536, "failed"))
    lost.loc[lost.seq_len == 65536, "sustained_us"] = np.nan
    monkeypatch.setattr(rings, "recorded", lambda: (lost, where))
    assert [one["tokens"] for one in times.hiding(True, "plain")["lengths"]] == [16384]
    assert times.hiding(False)["lengths"]
