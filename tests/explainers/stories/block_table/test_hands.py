"""The pictures `split` and `sharing`: their rules against plans and runs, and their times against the recordings."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hand_rules import applied

from explainers.stories.block_table import kv_heads, partitions, sharing, split
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.paged.problem import PagedProblem
from kernels.recordings import tables
from kernels.run import execute

V1, V2 = "paged_v1", "paged_v2"


def test_the_times_are_those_of_equal_recorded_problems():
    found = split.recorded(V1, V2)
    made, where = next((made, where) for made, where in tables.recorded("bench").values() if V1 in set(made.name))
    assert found["date"] == where.date and found["device"] in where.device
    rows = (
        made[(made.status == "ok") & made.name.isin([V1, V2])]
        .drop_duplicates(["name", "problem"], keep="last")
        .set_index(["name", "problem"])
    )
    known = {(name, tuple(json.loads(problem)["context_lens"])): us for (name, problem), us in rows.median_us.items()}
    for one in [*found["longer"], *found["more"]]:
        lengths = (one["tokens"],) * one["contexts"]
        assert one["us"] == [known[V1, lengths], known[V2, lengths]]
    assert len({one["contexts"] for one in found["longer"]}) == len({one["tokens"] for one in found["more"]}) == 1
    assert min(len(found["longer"]), len(found["more"])) >= 4
    wins = [one["us"][1] < one["us"][0] for one in [*found["longer"], *found["more"]]]
    assert True in wins and False in wins  # the reader can find both


def test_the_blocks_are_those_of_the_launches_and_every_sm_gets_its_share():
    found = split.recorded(V1, V2)
    for one in [*found["longer"], *found["more"]]:
        lengths = (one["tokens"],) * one["contexts"]
        problem = PagedProblem(context_lens=lengths, num_heads=32, num_kv_heads=8, head_dim=128, dtype="float16")
        settings = {V1: (), V2: (("PARTITION", found["size"]),)}
        for name, blocks in zip((V1, V2), one["blocks"]):
            launch = Request(KERNELS[name], problem, settings[name]).plan.launches[0]
            assert launch.blocks == blocks
    for blocks, each in zip((1, 8, 128, 2048), applied("spread", [[n, 132] for n in (1, 8, 128, 2048)])):
        assert sum(each) == blocks and max(each) - min(each) <= 1


def test_the_rates_are_the_bytes_of_the_blocks_by_the_time_and_the_short_contexts_have_as_many_tokens():
    found = split.recorded(V1, V2)
    long, short = found["long"], found["short"]
    assert long["contexts"] * long["tokens"] == short["contexts"] * short["tokens"]
    for one in [*found["longer"], *found["more"]]:
        numbers = 2 * 32 * 128 * one["tokens"] * one["contexts"]  # of K and V, for each query head
        assert one["rate"] == pytest.approx([2 * numbers / us / 1e6 for us in one["us"]])
        assert one["blocks"][1] == one["blocks"][0] * one["parts"] and max(one["rate"]) <= found["best"]
    grouped = sharing.recorded("paged_v3")  # no rate of the next stop exceeds the ceiling
    for kv, us in grouped["us"].items():
        assert 2 * grouped["contexts"] * grouped["tokens"] * kv * 128 * 2 / us / 1e6 <= found["best"]
    # with one block for each SM the pipe is almost empty, with many it is full
    assert long["rate"][0] < 0.2 * found["best"] and min(long["rate"][1], short["rate"][0]) > 0.9 * found["best"]


def test_v2_is_faster_at_each_place_of_the_slider_where_the_right_answer_says_so():
    found = split.recorded(V1, V2)
    for one in [*found["longer"], *found["more"]]:
        few = one["blocks"][0] < found["short"]["blocks"][0]
        assert (one["us"][1] < one["us"][0]) == (few and one["parts"] > 1)
    assert found["one_part"]["parts"] == 1 and found["one_part"]["us"][1] > found["one_part"]["us"][0]


def test_the_pipe_fills_by_littles_law_close_to_the_recorded_rates():
    found, sms = split.recorded(V1, V2), 132
    asks = split.asks_of(found, sms)
    assert asks["seen"][0] == (128 / sms, found["long"]["rate"][0]) and len(asks["seen"]) == 4
    counts = range(1, asks["most"] + 1)
    fills = applied("asked", [[n, asks, sms, found["best"]] for n in counts])
    for n, fill in zip(counts, fills):
        in_flight = min(n * asks["bytes"], fill["full"])  # of an SM, at a wait of asks["ns"]
        assert fill["rate"] == pytest.approx(sms * in_flight / asks["ns"] / 1000)
        assert fill["share"] == pytest.approx(min(1, n * fill["slot"] / asks["cycles"])) and fill["share"] <= 1
        assert fill["period"] >= asks["cycles"]
    full = [n for n, fill in zip(counts, fills) if fill["share"] == 1]
    assert full == [6, 7, 8] and fills[5]["full"] / asks["bytes"] == pytest.approx(6, rel=0.02)
    for each, rate in asks["seen"]:  # a short context takes time to start
        modelled = min(found["best"], each * fills[0]["rate"])
        assert rate <= modelled < 1.2 * rate


def test_without_recordings_the_steps_are_those_of_the_run():
    problem = PagedProblem(context_lens=(70,), num_heads=4, num_kv_heads=2, head_dim=64, dtype="float32")
    runs = [execute.run(Request(KERNELS[name], problem, of)) for name, of in ((V1, ()), (V2, (("PARTITION", 32),)))]
    data = partitions.data_of(*runs, "A")
    meta = split.view(data, (V1, V2)).meta
    assert meta["phases"] == ["whole", "waits", "asks", "cut", "parts", "merged", "hand"]
    assert all(len(frame["head"].split()) <= 12 for frame in meta["frames"])
    labels = [of["label"] if of else "" for of in meta["provenances"]]
    assert labels == ["recorded", "modelled", "modelled", "recorded", "", "", "recorded"]
    assert [one.id for one in split.questions(data, (V1, V2))] == ["empty_pipe", "merge", "check_split"]
    meta = split.view(data, ("another", V2)).meta
    assert meta["phases"] == ["parts", "merged"] and not meta["longer"]
    assert [(one.id, one.step) for one in split.questions(data, ("another", V2))] == [("merge", 0), ("check_split", 1)]


@pytest.mark.parametrize("kv", [4, 2, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_held_and_the_asked_bytes_are_those_of_a_run(kv, dtype):
    problem = PagedProblem(context_lens=(70,), num_heads=4, num_kv_heads=kv, head_dim=64, dtype=dtype)
    whole = Request(KERNELS[V1], problem)
    found = kv_heads.reads(execute.run(replace(whole, scope=Scope.everything(whole.plan))))
    model = {"layers": 1, "heads": 4, "dim": 64, "item": 4 if dtype == "float32" else 2, "tokens": 70}
    (rule,) = applied("bytesOf", [[model, kv]])
    products = problem.work.flops // 2  # a product and a sum
    assert rule == {"held": found["held"], "asked": found["read"], "group": 4 / kv, "products": products}


def test_each_headline_is_short_and_the_sizes_are_said():
    meta = sharing.view().meta
    timed, v1 = sharing.recorded("paged_v3"), sharing.recorded("paged_v1")
    assert timed["heads"] == v1["heads"] == [8, 32] and timed["us"][32] > 3 * timed["us"][8]
    assert (timed["contexts"], timed["tokens"]) == (v1["contexts"], v1["tokens"])
    assert v1["us"][32] < 2 * v1["us"][8]  # what V1 gains is far less than the bytes that are not kept
    assert [(bar["grouped"], bar["kv"], bar["us"]) for bar in meta["bars"]] == [
        (grouped, kv, of["us"][kv]) for grouped, of in ((False, v1), (True, timed)) for kv in (32, 8)
    ]
    assert meta["phases"] == list(sharing.PHASES) and timed["date"] in meta["times"]
    assert [of["label"] for of in meta["provenances"]] == [*["modelled"] * 5, "recorded", "modelled"]
    assert f"{timed['contexts']} contexts of {timed['tokens']:,} tokens" in meta["problem"]
    assert [meta["heads"] // kv for kv in meta["kv"]] == [1, 4, 4, 4, 4, 4, 4] and "Llama 3 8B" in meta["source"]
    assert all(len(frame["head"].split()) <= 12 for frame in meta["frames"])
    (rule,) = applied("bytesOf", [[{key: meta[key] for key in ("layers", "heads", "dim", "item", "tokens")}, 8]])
    assert rule["held"] == 256 * 2**20 and rule["asked"] == 2**30


@pytest.mark.parametrize("known", ["", "paged_v3"])
def test_the_times_are_those_that_are_recorded(known, monkeypatch):
    recorded = sharing.recorded
    monkeypatch.setattr(sharing, "recorded", lambda kernel: recorded(kernel) if kernel == known else {})
    meta = sharing.view().meta
    assert ("times" in meta["phases"]) == bool(known) == bool(meta["times"])
    assert [bar["grouped"] for bar in meta["bars"]] == [True, True] * bool(known)
    assert len(meta["phases"]) == len(meta["frames"]) == len(meta["provenances"]) == len(meta["kv"])
    assert all(len(frame["head"].split()) <= 12 for frame in meta["frames"])


def test_the_outputs_of_the_parts_make_the_output_of_the_run():
    name = "A"
    runs = []
    for kernel, settings in ((V1, ()), (V2, (("PARTITION", 32),))):
        problem = PagedProblem(context_lens=(70,), num_heads=4, num_kv_heads=2, head_dim=64, dtype="float32")
        runs.append(execute.run(Request(KERNELS[kernel], problem, settings)))
    data = partitions.data_of(*runs, name)
    assert len(data["parts"]) == 3 and all(len(part["output"]) == partitions.SUMS for part in data["parts"])
    merged = sum(np.array(part["output"]) * part["weight"] for part in data["parts"]) / data["v2"]["l"]
    o = runs[1].arrays["o"][0, data["head"]][: partitions.SUMS]
    np.testing.assert_allclose(merged, o, rtol=1e-3, atol=1e-5)
