import json
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import KERNELS, of_fp32, small_tiles

from explainers.models import generic, tiling
from explainers.stories.tiling import reuse, traffic
from explainers.stories.tiling import story as story_module
from explainers.story import encoding, glossary, picture
from kernels.core.problem import Work
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.run import execute
from kernels.run.results import Traffic
from kernels.trace import steps
from kernels.trace import steps as cutting
from kernels.trace.kinds import WRITES
from kernels.trace.probes import sites_of

RAGGED = DenseProblem(seq_len=50, causal=True, num_heads=3)
TILED = of_fp32(tiling)


@pytest.fixture(scope="module", params=TILED)
def story(request, cpu_run):
    run = cpu_run(request.param, RAGGED, small_tiles(request.param), Scope(5))  # rows 16 to 31 of head 1
    return run, tiling.explain(run)


def test_bytes_scores_and_outputs_so_far_are_those_of_the_trace(story):
    run, made = story
    frame = run.trace.frame("event", "space", "tensor", "bytes")
    for (tensor, kind), part in frame[frame.space == "global"].groupby(["tensor", "event"], observed=True):
        assert made.frames[-1]["bytes"].get(f"{tensor} {kind}", 0) == part.bytes.sum()
    assert made.rows == (16, 32) and made.head == 1
    s = run.arrays["q"][0, 1, 16:32].astype(float) @ run.arrays["k"][0, 1].astype(float).T * run.request.problem.scale
    seen = np.arange(50)[None, :] <= np.arange(16, 32)[:, None]
    assert np.array_equal(~np.isnan(made.scores), seen)
    assert np.allclose(made.scores[seen], s[seen], rtol=1e-4, atol=1e-5)
    l = run.trace.frame("event", "row", "tile", "value")
    l = (
        l[l.event == "l"].sort_values("tile").groupby("row").value.last().to_numpy()
        if run.request.kernel.rung >= 3
        else np.ones(16)
    )
    assert np.allclose(made.o_values[-1] / l[:, None], run.arrays["o"][0, 1, 16:32], rtol=1e-6)


def test_touched_rectangles_stay_inside_what_is_resident_was_stored_and_blocks_cover_o_once(story):
    run, made = story
    for frame in made.frames:
        for part in frame["touched"]:
            r0, r1, c0, c1 = part["rect"]
            assert 0 <= r0 <= r1 < 50 and 0 <= c0 <= c1 < (50 if part["tensor"] in "SP" else 32)
            if part["tensor"] in "QSPO":
                assert 16 <= r0 <= r1 <= 31
            else:
                assert r1 <= 31  # causal: no key after the last query is read
    stores = run.trace.frame("launch", "block", "event", "space", "tensor", "bytes")
    stores = stores[(stores.space == "shared") & stores.event.isin(WRITES)]
    assert any(f["resident"] for f in made.frames) == bool(len(stores))
    for frame in made.frames:
        for tensor, held in frame["resident"].items():
            mine = stores[(stores.block == frame["block"]) & (stores.tensor == tensor)]
            assert len(mine) and held["bytes"] <= mine.bytes.sum()
        for used in frame["uses"]:
            assert used["rect"] in frame["resident"][used["tensor"]]["rects"]
    _, made = story
    cover = np.zeros((50, 32), int)
    for r0, r1, c0, c1, _ in made.output_blocks:
        cover[r0 : r1 + 1, c0 : c1 + 1] += 1
    assert (cover == 1).all()


def test_the_blocks_named_stored_o_and_flash_reuses_what_naive_reads_again(cpu_run):
    for name in TILED:
        run = cpu_run(name, RAGGED, small_tiles(name), Scope(5))
        frame = run.trace.frame("block", "event", "space", "tensor")
        stored = set(frame[(frame.tensor == "O") & (frame.event == "store")].block)
        named = {block for r0, _, _, _, block in tiling.explain(run).output_blocks if r0 == 16}
        assert stored == named
    requests = [Request(spec, DenseProblem(), small_tiles(spec.name)) for spec in TILED.values()]
    counted = [(request, execute.traffic(request)) for request in requests]
    comparison, reuse = traffic.comparison(counted), traffic.reuse(counted)
    k = comparison[(comparison.tensor == "K")].set_index("kernel").times
    assert k.to_dict() == {spec.title: 64 if spec.name == "01_naive" else 4 for spec in TILED.values()}
    factors = reuse[reuse.tensor == "K"].set_index("kernel").reuse
    assert factors.to_dict() == {spec.title: 1 if spec.name == "01_naive" else 16 for spec in TILED.values()}
    assert "Naive 64 times" in traffic.sentence(counted) and "over all 2 heads" in traffic.sentence(counted)
    assert traffic.chart(counted).to_dict()["data"]


def test_frames_are_json_the_chart_follows_the_clock_and_the_view_has_the_traced_head(story):
    _, made = story
    json.dumps(made.frames)
    for frame in made.frames:
        assert frame["sentence"].endswith(".") and any(c.isdigit() for c in frame["details"])
        for sentence in frame["sentence"].removesuffix(".").split(". "):
            assert len(sentence.split()) <= 25 and len(re.findall(r"\d[\d.,]*", sentence)) <= 2
    spec = traffic.cumulative_chart(*story).to_dict()
    assert spec["params"][0] == {"name": "step", "value": 1}
    rows = next(iter(spec["datasets"].values()))
    assert max(row.get("step", 0) for row in rows) == len(story[1].frames)
    run, made = story
    meta, columns = tiling.view(run, made)
    assert (meta["n"], meta["d"], meta["row0"], meta["rows"], meta["head"]) == (50, 32, 16, 16, 1)
    assert np.array_equal(columns["k"], run.arrays["k"][0, 1]) and np.array_equal(
        columns["o_final"], run.arrays["o"][0, 1, 16:32]
    )
    assert meta["traced"] == [
        t for t in ("Q", "K", "V", "S", "P", "O") if any(b.startswith(f"{t} ") for b in made.frames[-1]["bytes"])
    ]
    json.dumps(meta)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", TILED)
def test_a_reuse_factor_of_a_tile_alone_is_counted_of_that_tile(cpu_run, name, causal):
    """The multiply-adds of all tiles over the loads of one made K's factor 512 times too large."""
    problem = DenseProblem(seq_len=50, causal=causal)
    run = cpu_run(name, problem, small_tiles(name), Scope(5))  # the second tile of the second head
    frame = run.trace.frame("event", "space", "tensor", "bytes")
    part = count_of(run)
    found = traffic.reuse([(run.request, Traffic(part, False))]).set_index("tensor").reuse
    rows = range(*picture.query_rows(run.request)[1:])
    products = sum(row + 1 if causal else 50 for row in rows) * problem.head_dim
    loads = frame[(frame.space == "global") & (frame.event == "load")].groupby("tensor", observed=True).bytes.sum()
    assert set(found.index) == {"Q", "K", "V"}
    for tensor, factor in found.items():
        assert factor == pytest.approx(products / (loads[tensor] / 4))


def test_a_reuse_factor_is_left_out_where_the_pairs_of_a_tile_are_not_known(cpu_run, monkeypatch):
    run = cpu_run("03_flash", DenseProblem(seq_len=50), small_tiles("03_flash"), Scope(5))
    monkeypatch.setattr(DenseProblem, "work", property(lambda problem: Work(1000, 50, {})))
    assert traffic.reuse([(run.request, Traffic(count_of(run), False))]).empty


def count_of(run):
    frame = run.trace.frame("event", "space", "tensor", "bytes").dropna(subset=["space"])
    frame = frame.astype({"event": str, "space": str, "tensor": str}).rename(columns={"event": "kind"})
    grouped = frame.groupby(["tensor", "space", "kind"], as_index=False).bytes
    return grouped.sum().assign(accesses=grouped.count().bytes)


@pytest.mark.parametrize("name", ["02_tiled", "03_flash"])
def test_padding_k_smem_changes_nothing_of_what_the_block_holds_and_reads(cpu_run, name):
    plain, padded = (
        tiling.explain(cpu_run(name, DenseProblem(seq_len=50), (("PAD_K", pad),), Scope(1))) for pad in (0, 4)
    )
    assert plain.frames == padded.frames


@pytest.mark.parametrize("name", TILED)
def test_the_problem_declares_the_part_of_each_tensor_in_the_picture(name):
    request = Request(TILED[name], RAGGED, small_tiles(name))
    found = picture.places(request)
    assert {at: found[at] for at in found if at in "QKVO"} == {at: at for at in "QKVO"}
    assert set(found) == set(found.values()) <= set("QKVSPO")
    for place, tensor in (("Q", "q"), ("K", "k"), ("V", "v"), ("O", "o")):
        assert picture.tensor_at(request, place).name == tensor


def test_a_tensor_of_another_type_and_a_tensor_that_nothing_knows_are_counted_and_not_drawn(with_more):
    """Fault 3: a new tensor or value in a dense kernel raised a KeyError."""
    run = execute.run(Request(with_more, RAGGED, small_tiles("03_flash"), Scope(5)))
    made = tiling.explain(run)
    assert "lse" not in made.places and "lse" not in {part["tensor"] for f in made.frames for part in f["touched"]}
    assert (
        made.frames[-1]["bytes"]["lse store"] == 2 * 16
        and "writes O rows 16 to 31 (2,048 bytes) and lse (32 bytes)" in made.frames[-1]["details"]
    )
    plain = tiling.explain(execute.run(Request(TILED["03_flash"], RAGGED, small_tiles("03_flash"), Scope(5))))
    known = [f["touched"] for f in made.frames if f["phase"] != "odd_phase"]
    assert known == [f["touched"] for f in plain.frames]
    assert "lse" in tiling.view(run, made)[0]["traced"] and "lse" not in tiling.view(run, made)[0]["places"]
    counted = [(run.request, execute.traffic(run.request))]
    lse = traffic.comparison(counted).set_index("tensor").loc["lse"]
    assert lse.times == 1 and traffic.chart(counted).to_dict()["data"]  # a half for each row, written once
    assert traffic.cumulative_chart(run, made).to_dict()["layer"]


def test_what_no_view_knows_is_in_the_generic_one_under_its_own_name(with_more):
    run = execute.run(Request(with_more, RAGGED, small_tiles("03_flash"), Scope(5)))
    story = generic.explain(run)
    lse = next(t for t in story.tensors if t["name"] == "lse")
    assert (lse["rows"], lse["cols"], lse["row_axis"], lse["col_axis"], lse["dtype"]) == (
        3,
        50,
        "head",
        "query",
        "float16",
    )
    write = story.frames[-1]
    assert {
        "tensor": "lse",
        "kind": "store",
        "bytes": 32,
        "rect": [1, 1, 16, 31],
        "cells": None,
        "elsewhere": 0,
    } in write["touched"]
    novel = next(v for v in story.values if v["event"] == "entropy")
    assert (novel["row_key"], novel["col_key"], novel["row0"], novel["rows"], novel["count"]) == (
        "row",
        "tile",
        16,
        16,
        16 * 2,
    )
    assert (
        novel["cols"] == 2
        and "entropy 16 times" in next(f for f in story.frames if f["phase"] == "odd_phase")["sentence"]
    )
    assert "Tile 1 · odd phase" in [f["title"] for f in tiling.explain(run).frames]
    assert "Tile 1 · odd phase" in [f["title"] for f in generic.explain(run).frames]


def test_nan_is_told_from_never_logged_and_an_element_of_o_is_known_from_its_step_on(variant, cpu_run):
    """Both were NaN in the picture's data: a lost value was drawn as a masked one."""
    old = "PROBE_VALUE(score, row, col, score)"
    spec = variant("03_flash", old, "PROBE_VALUE(score, row, col, col == row ? sqrtf(-1.f) : score)")
    request = Request(spec, DenseProblem(seq_len=50, causal=True), small_tiles("03_flash"), Scope(1))
    run = execute.run(request)
    story = tiling.explain(run)
    columns = tiling.view(run, story)[1]
    keys, rows = np.arange(50), np.arange(16, 32)
    assert (columns["s_logged"] == (keys <= rows[:, None])).all()
    assert (np.isnan(columns["s"]) & columns["s_logged"] == (keys == rows[:, None])).all()
    settings = (*small_tiles("03_flash"), ("SUBTRACT_MAX", 0))
    lost = tiling.explain(cpu_run("03_flash", DenseProblem(score_scale=1000.0), settings))
    assert np.isnan(lost.o_values[-1]).all() and (lost.o_since == 0).all()
    kept = tiling.explain(cpu_run("02_tiled", DenseProblem(), small_tiles("02_tiled")))
    for number, state in enumerate(kept.o_values):
        assert (np.isfinite(state) == (kept.o_since <= number)).all()


@pytest.mark.parametrize("name", ["03_flash", "01_naive"])
def test_the_weights_of_the_picture_are_shares_of_the_largest_one_so_far(name, cpu_run):
    """Only kernels with all scores in global memory know a row's largest score before its first weight."""
    run = cpu_run(name)
    story = tiling.explain(run)
    columns = tiling.view(run, story)[1]
    ends = sorted({frame["scores"][3] for frame in story.frames if frame["scores"]})
    for scores, logged, shares in zip(columns["s"], columns["s_logged"], columns["p"]):
        keys = np.flatnonzero(logged)
        for key in keys:
            end = keys[-1] if name == "01_naive" else next(end for end in ends if end >= key)
            most = max(scores[one] for one in keys if one <= end)
            assert shares[key] == pytest.approx(np.exp(scores[key] - most))


def test_a_step_whose_order_the_rule_does_not_give_is_labelled_and_has_no_meanwhile(cpu_run, monkeypatch):
    run, cut = cpu_run("10_warp_roles"), cutting.cut
    plain = [frame["sentence"] for frame in tiling.explain(run).frames]
    assert any(" Meanwhile, " in sentence for sentence in plain) and not any("Derived order" in s for s in plain)
    monkeypatch.setattr(cutting, "cut", lambda *of: replace(cut(*of), unordered=frozenset({4, 5})))
    for story in (tiling.explain(run), generic.explain(run)):
        said = [frame["sentence"] for frame in story.frames]
        assert [n for n, sentence in enumerate(said) if sentence.endswith(f" {glossary.UNORDERED}")] == [4, 5]
        assert not any(" Meanwhile, " in said[n] for n in (4, 5))


# ---- how often each element of Q is read ----

DENSE = of_fp32(tiling)
CASES = {
    "whole": (DenseProblem(), Scope(1), 16, 32),
    "causal and ragged": (DenseProblem(seq_len=50, causal=True), Scope(3), 48, 50),
    "wide": (DenseProblem(seq_len=40, head_dim=64), Scope(0), 0, 16),
}


def made_of(run):
    (view,) = reuse.views(run, tiling.view(run, tiling.explain(run))[0])
    return {**view.meta, **view.columns}


def counted(run, row0, end):
    """[steps of the trace, rows, dims]: how often each element of Q is read, from the offsets alone."""
    width, settings = run.request.problem.head_dim, run.request.constants
    cut = steps.cut(run.trace, sites_of(run.request))
    frame = run.trace.frame().assign(step=cut.of_record)
    frame = frame[(frame.step >= 0) & (frame.tensor == "Q") & frame.event.isin(["load", "ldmatrix"])]
    shared = frame[frame.space == "shared"]
    found = np.zeros((len(cut.table), end - row0, width), int)
    if shared.empty:  # Q is read where it lies, of head 0
        for step, offset, size in zip(frame.step, frame.offset, frame.bytes):
            for element in range(int(offset) // 4, (int(offset) + int(size)) // 4):
                found[step, element // width - row0, element % width] += 1
        return found
    item = 2 if (shared.event == "ldmatrix").any() else 4  # Q in three parts of bfloat16, or as it is
    stride = width + settings.get("PAD", 0) + settings.get("PAD_QK", 0)
    for step, offset, size in zip(shared.step, shared.offset, shared.bytes):
        for at in range(int(offset) // item, (int(offset) + int(size)) // item):
            row, dim = divmod(at, stride)
            if row < end - row0 and dim < width:  # the first of the parts; rows beyond the last query hold no element
                found[step, row, dim] += 1
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", DENSE)
def test_every_read_of_an_element_of_q_is_counted_once(cpu_run, name, case):
    problem, scope, row0, end = CASES[case]
    run = cpu_run(name, problem, small_tiles(name), scope)
    made, truth = made_of(run), counted(run, row0, end)
    assert made["steps"] == [n for n in range(len(truth)) if truth[n].any()] and truth.sum() > 0
    own = truth[made["steps"]]
    assert (made["least"] == own.min(2)).all() and (made["most"] == own.max(2)).all()
    so_far = own.cumsum(0)
    assert (made["so_far_least"] == so_far.min(2)).all() and (made["so_far_most"] == so_far.max(2)).all()
    assert made["read"] == truth.sum((1, 2)).cumsum().tolist()
    frame = run.trace.frame()
    fetched = frame[(frame.space == "global") & (frame.tensor == "Q") & (frame.event == "load")].bytes.sum()
    assert made["fetched"][-1] == fetched


def test_the_words_have_the_numbers_of_both_memories_and_the_picture_is_small(cpu_run):
    flash = made_of(cpu_run("03_flash", DenseProblem(), small_tiles("03_flash"), Scope(1)))
    assert flash["said"][0] == "No lane has read Q yet. The block has fetched 2,048 bytes from global memory."
    assert flash["said"][-1] == (
        "The lanes read each element of Q 64 times from shared memory. The block fetched only 2,048 bytes from global "
        "memory. It would fetch 131,072 without the copy."
    )
    naive = made_of(cpu_run("01_naive", DenseProblem(seq_len=50, causal=True), small_tiles("01_naive"), Scope(3)))
    assert naive["said"][-1] == (
        "The lanes read each element of Q 49 to 50 times, always from global memory: 12,672 bytes."
    )
    run = cpu_run("03_flash", DenseProblem(), small_tiles("03_flash"))
    story = tiling.explain(run)
    (view,) = reuse.views(run, tiling.view(run, story)[0])
    assert (view.kind, view.id) == ("reuse", "reuse") and len(view.meta["said"]) == len(story.frames)
    assert view.meta["tiles"] == [0, 1, 2, 3] and view.columns["least"].shape == (4, 16)
    assert len(encoding.encode(view)) < 10_000


def test_a_causal_block_never_claims_the_keys_that_no_query_of_it_sees(cpu_run):
    """The first tile of 48 queries sees 16 keys. Without tiles, its query i reads keys 0 to i."""
    problem = DenseProblem(seq_len=48, causal=True)
    for name in ("02_tiled", "03_flash"):
        run = cpu_run(name, problem, small_tiles(name), Scope(0))
        story = tiling.explain(run)
        times = f"{glossary.short(sum(range(1, 17)) / 16, 3)} times without tiles"
        said = "A block asks for each byte of K that its queries see once, and " + times
        assert tiling.summary(run, story).startswith(said)
        (strip,) = [one for one in tiling.stage_of(run, None).state if one.name.startswith("each byte of K")]
        assert strip.name == "each byte of K that it sees is asked for" and strip.values[-1] == "once"
        last = cpu_run(name, problem, small_tiles(name), Scope(2))
        assert not tiling.sees_a_part(last) and "each byte of K once" in tiling.summary(last, tiling.explain(last))


def test_a_copied_tile_has_the_reads_of_its_trace_in_picture_and_headline(cpu_run):
    run = cpu_run("02_tiled", DenseProblem(seq_len=48), (), Scope(0))
    story = tiling.explain(run)
    table = run.trace.frame("tensor", "space", "event", "bytes")
    kinds = table.event.astype(str)
    far = table[(table.space == "global") & ~kinds.isin(WRITES)].bytes.sum()
    last = story.frames[-1]
    assert sum(n for key, n in last["bytes"].items() if key.endswith("load")) == far
    scored = [frame for frame in story.frames if frame["scores"]]
    assert all(frame["reads"]["K"] == 16 for frame in scored)
    assert scored[0]["head"] == "One copy of K, 16 reads: a score for each query."
    assert len(story.frames) <= 20


def test_a_headline_has_at_most_twelve_words(story):
    _, found = story
    assert all(1 < len(frame["head"].split()) <= 12 for frame in found.frames)


@pytest.mark.parametrize(("rows", "tiles"), [(8, 6), (16, 3), (32, 2)])
def test_the_reader_chooses_the_height_of_a_tile_and_k_is_read_once_for_each(cpu_run, rows, tiles):
    settings = (("BLOCK_Q", rows),)
    run = cpu_run("02_tiled", DenseProblem(seq_len=48), settings, Scope(0))
    meta, _ = tiling.view(run, tiling.explain(run))
    heights = story_module.hand(run, meta)["heights"]
    assert (heights["name"], heights["values"], heights["now"]) == ("BLOCK_Q", [8, 16, 32], rows)
    assert heights["said"] == f"All query tiles together read K {tiles} times. Without tiles: 48 times."
    counted = execute.traffic(Request(KERNELS["02_tiled"], DenseProblem(seq_len=48, num_heads=1), settings)).table
    reads = counted[(counted.tensor == "K") & (counted.space == "global")].bytes.sum()
    assert reads == tiles * 48 * 32 * 4
    assert meta["frames"][heights["since"]]["reads"]["K"] == rows


def test_a_kernel_without_tiles_offers_no_height(cpu_run):
    run = cpu_run("01_naive", DenseProblem(seq_len=48), (), Scope(0))
    meta, _ = tiling.view(run, tiling.explain(run))
    assert story_module.hand(run, meta) == {}


def test_the_words_name_the_block_that_works_and_begin_with_a_question(cpu_run):
    run = cpu_run("02_tiled", DenseProblem(seq_len=32), (), Scope(0))
    frames = tiling.explain(run).frames
    heads = [frame["head"] for frame in frames]
    assert heads[0] == "16 queries meet each key. How often does their block fetch it?"
    table = run.trace.frame("launch", "block", "tensor", "space", "event", "bytes")
    copied = table[(table.space == "global") & (table.tensor == "Q") & (table.launch == 0)]
    assert copied.groupby("block").bytes.sum().to_dict() == {0: 2048, 1: 2048}
    again = heads.index("Another block copies the same Q again, with the next K.")
    assert (frames[again]["launch"], frames[again]["block"]) == (0, 1) and frames[again - 1]["block"] == 0
    begun = [n for n in range(1, len(frames)) if frames[n]["launch"] != frames[n - 1]["launch"]]
    assert [n for n, head in enumerate(heads) if head.startswith("The next launch ")] == begun and len(begun) == 2
    assert all("A block of the next launch " in frames[n]["sentence"] for n in begun)
