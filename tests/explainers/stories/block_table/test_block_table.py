"""Every number that the block table story says, against the table, the layout and float64."""

import json
import re

import numpy as np
import pytest

from explainers.stories.block_table import kv_cache, walk
from explainers.story import stage
from kernels.catalog import KERNELS
from kernels.core import reference
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.manager import play
from kernels.kv_cache.scenarios import PRESETS, read_events
from kernels.run import execute


def run_of(preset, name="paged_v1", item=1, shuffle=0, settings=(), **shape):
    cache = PRESETS[preset].states(16)[-1][0]
    problem = PagedProblem.of_cache(cache.shuffled(shuffle) if shuffle else cache, **shape)
    return execute.run(Request(KERNELS[name], problem, settings, Scope(item)))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("name", "settings"), [("paged_v1", ()), ("paged_v2", (("PARTITION", 32),))])
@pytest.mark.parametrize("shape", [{}, {"dtype": "float16", "head_dim": 80}], ids=["fp32", "fp16"])
def test_each_walk_step_is_one_page_of_the_table_in_k_then_in_v(preset, name, settings, shape):
    item = 6  # sequence 1, query head 2
    run = run_of(preset, name, item, 5, settings, **shape)
    problem = run.request.problem
    table, length, layout = problem.block_tables[1], problem.context_lens[1], problem.layout
    frames = walk.frames_of(run, "S")
    for phase, tensor in (("walk_k", "K"), ("walk_v", "V")):
        steps = [f for f in frames if f["phase"] == phase]
        assert [f["logical"] for f in steps] == list(range(len(table)))
        for entry, step in enumerate(steps):
            tokens = min(16, length - 16 * entry)
            base = layout.page_offset(table[entry], 1)
            assert (step["page"], step["base"], step["low"]) == (table[entry], base, base)
            assert step["bytes"] == tokens * problem.head_dim * np.dtype(problem.dtype).itemsize
            assert step["entry_offset"] == 4 * (problem.max_blocks_per_seq + entry)
            assert f"ntry {entry} of S's block table names page {table[entry]}." in step["sentence"]
            offsets = {o for o in step["request"] if o is not None}
            assert offsets <= {
                int(o)
                for slot in range(tokens)
                for o in (layout.k_offsets if tensor == "K" else layout.v_offsets)(table[entry], 1, slot)
            }
    assert frames[-1].get("written") and all(f["sentence"].endswith(".") and f["lines"] for f in frames)
    tiles = [f["tile"] for f in frames]
    assert tiles == sorted(tiles) and tiles[0] == 0


def test_scores_and_weights_are_those_of_float64():
    run = run_of("churn", item=9, alibi=True)
    frames, problem = walk.frames_of(run, "F"), run.request.problem
    columns = walk.picture(run, frames, "F", "#000").columns
    k, _ = problem.layout.gather(
        run.arrays["k_cache"], run.arrays["v_cache"], problem.block_tables[2], problem.context_lens[2]
    )
    distance = np.arange(len(k)) - (len(k) - 1)
    s = (
        problem.scale * (k[:, 0].astype(np.float64) @ run.arrays["q"][2, 1].astype(np.float64))
        + problem.slopes[1] * distance
    )
    assert np.allclose(columns["scores"], s, atol=1e-5)
    assert np.allclose(columns["weights"], np.exp(s - s.max()), atol=1e-5)
    softmax = next(f for f in frames if f["phase"] == "softmax")
    assert softmax["m"] == pytest.approx(s.max(), abs=1e-5) and softmax["l"] == pytest.approx(
        np.exp(s - s.max()).sum(), rel=1e-5
    )
    assert np.allclose(
        columns["o"],
        reference.decode_attention(
            run.arrays["q"][2],
            *problem.layout.gather(
                run.arrays["k_cache"], run.arrays["v_cache"], problem.block_tables[2], problem.context_lens[2]
            ),
            problem.scale,
            problem.slopes,
        )[0][1],
        atol=1e-6,
    )


def test_the_partitions_of_v2_are_combined_and_the_split_by_x_is_counted_from_the_logged_lanes():
    frames = walk.frames_of(run_of("churn", "paged_v2", 1, 0, (("PARTITION", 32),)), "D")
    assert [f["title"].split(" · ")[0] for f in frames if f["phase"] == "softmax"] == [
        "Partition 0",
        "Partition 1",
        "Partition 2",
    ]
    assert frames[-2]["phase"] == "combine" and "combines 3 partitions" in frames[-2]["sentence"]
    run = run_of("two_chats")
    frames = walk.frames_of(run, "A")
    table = walk.layouts_table(frames, run)
    assert table["128-byte lines"].tolist()[:2] == [4, 16] and table["32-byte sectors"].tolist()[:2] == [16, 16]
    assert table["loads per 16 bytes"].tolist() == [1, 1, 4] and (table["lanes"] == 32).all()
    assert "4 lines of 128 bytes" in walk.layouts_blocks(frames, run)[0]["text"]


def test_the_event_sentences_say_what_the_manager_did_and_what_is_wasted():
    states = play(read_events("add S 44, fork A S, append A 6, append S 1, free S, append A 40"), 12, 16)
    said = [frame["sentence"] for frame in kv_cache.cache_frames(states, 128)]
    assert (
        said[1] == "S starts with 44 tokens. Pages 0 to 2 are taken from the free list and become entries 0 to 2 "
        "of S's block table."
    )
    assert said[2] == (
        "A is forked from S: its block table is a copy, 3 entries, and no key or value is copied. The reference count "
        "of pages 0 to 2 "
        "is now 2."
    )
    assert said[3] == (
        "A grows by 6 tokens to 50. Page 2 is shared by 2 sequences, so it is first copied to page 3, and A's entry 2 "
        "becomes 3: copy on "
        "write. Page 4 is taken from the free list and becomes entry 3 of A's block table."
    )
    assert said[4] == "S grows by 1 token to 45. 1 token fits in the slots left of page 2."
    assert said[5] == "S is freed. Page 2 goes to the end of the free list. Pages 0, 1 stay: other sequences hold them."
    assert "14 tokens fit in the slots left of page 4. Pages 5, 6 are taken" in said[6]
    cache = play(read_events("add A 20, fork B A"), 8, 16)[-1][0]
    said = kv_cache.usage_sentence(cache, 100)
    assert "Pages hold 32 slots for 20 tokens. The last pages waste 12 slots, 38%" in said
    assert "160 of 200 slots are empty, 80%. It also stores 20 shared tokens again" in said
    assert re.search("Nothing is held", kv_cache.usage_sentence(play((), 8, 16)[0][0], 100))


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_every_state_of_a_preset_shows_each_page_once_with_its_owners(preset):
    for frame, (cache, _) in zip(kv_cache.cache_frames(preset.states(16), preset.max_len), preset.states(16)):
        assert set(frame["pages"]) | set(frame["free"]) == set(range(cache.num_blocks)) and not set(
            frame["pages"]
        ) & set(frame["free"])
        for page, held in frame["pages"].items():
            assert len(held["owners"]) == cache.ref_counts[page] and 1 <= held["fill"] <= 16
        colours = [s["colour"] for s in frame["sequences"]]
        assert len(set(colours)) == len(colours)
        assert sum(held["fill"] for held in frame["pages"].values()) == frame["usage"]["used"]


def test_a_shuffle_is_compared_bit_for_bit_and_told_as_what_it_is():
    plain, moved = run_of("two_chats"), run_of("two_chats", shuffle=2)
    table = walk.shuffle_table(plain, moved, ["A", "B"])
    assert table["equal bit for bit"].tolist() == ["yes", "yes"] and (table["largest difference of O"] == 0).all()
    assert (table["pages as allocated"] != table["pages shuffled"]).all()
    note = walk.shuffle_blocks(plain, moved, ["A", "B"], 2)[0]
    assert note["tone"] == "good" and "the same output, bit for bit, in every sequence and head." in note["text"]
    moved.arrays["o"][1, 0, 0] += 1e-6
    assert walk.shuffle_table(plain, moved, ["A", "B"])["equal bit for bit"].tolist() == ["yes", "no"]
    moved.arrays["o"][0, 0, 0] += 1
    note = walk.shuffle_blocks(plain, moved, ["A", "B"], 2)[0]
    assert note["tone"] == "bad" and note["text"].endswith("other addresses, and the output differs.")


def test_the_stores_of_reshape_and_cache_are_those_of_the_layout():
    spec = KERNELS["reshape_and_cache"]
    problem = spec.problem_type()
    run = execute.run(Request(spec, problem, (), Scope(0, len(problem.slots))))
    table = kv_cache.addresses_table(run)
    assert table.slot.tolist() == [slot for slot in problem.slots if slot >= 0]
    for row in table.itertuples(index=False):
        assert row[4] == min(problem.layout.k_offsets(row[2], 0, row[3])) and row[6] == min(
            problem.layout.v_offsets(row[2], 0, row[3])
        )
        assert (row[5], row[7]) == (2 * 16, 2 * 64)


def test_a_history_has_a_step_for_each_event_and_its_chart_begins_with_the_empty_cache():
    spec = kv_cache.usage_chart(kv_cache.usage_table(PRESETS["churn"].states(16), 96)).to_dict()
    assert spec["params"][0] == {"name": "step", "value": 1} and '"expr": "step - 1"' in json.dumps(spec)
    assert len(spec["datasets"]) == 2
    scenario = PRESETS["churn"]
    made = kv_cache.stage_of(scenario, 16, None)
    played = scenario.states(16)
    assert made.step_choice == "moment" and len(made.frames) == len(played)
    course = {state.name: list(state.values) for state in made.state}
    for name, key in (("slots used", "used"), ("held in pages", "held"), ("slack", "slack")):
        assert course[name] == [cache.usage(scenario.max_len)[key] for cache, _ in played]
    assert course["reserved contiguously"][-1] == 96 * len(played[-1][0].sequences)
    assert course["free pages"] == [len(cache.free) for cache, _ in played]
    (picture,) = made.views
    assert picture.meta.note == [kv_cache.usage_sentence(c, scenario.max_len) for c, _ in played]


def test_the_strip_of_a_walk_says_entry_page_and_byte_and_adds_up_what_is_read():
    run = run_of("churn", item=4)
    made, frames = walk.stage_of(run, "E", "#0098F3", stage.provenance(run)), walk.frames_of(run, "E")
    strip = {state.name: list(state.values) for state in made.state}
    assert [v for v in strip["names"] if v] == [f"page {page}" for page in (13, 2, 3, 4, 1)] * 2
    assert strip["block table"][1] == "entry 0" and strip["first byte"][1] == "106,496 of K"
    softmax = next(n for n, f in enumerate(frames) if f["phase"] == "softmax")
    assert strip["max m"][softmax - 1] is None and strip["max m"][-1] == frames[softmax]["m"]
    assert strip["sum l"][-1] == frames[softmax]["l"]
    frame = run.trace.frame("event", "space", "bytes")
    loads = frame[(frame.event == "load") & (frame.space == "global")].bytes.sum()
    assert strip["read so far"][-1] == loads
    assert [tab.id for tab in made.tabs] == ["layouts"] and made.codes[0].kernel == run.request.kernel.name


@pytest.mark.parametrize("name", ["paged_v1", "paged_v2"])
def test_the_picture_of_a_walk_shows_what_the_problem_holds(name):
    run = run_of("churn", name, item=5, settings=(("PARTITION", 32),) if name == "paged_v2" else ())
    problem, frames = run.request.problem, walk.frames_of(run, "E")
    view = walk.picture(run, frames, "E", "#56B4E9")
    (tables,), (pool,), (k, v, output), bars = view.meta.lines
    table, layout, length = problem.block_tables[1], problem.layout, problem.context_lens[1]
    others = {page for n, row in enumerate(problem.block_tables) if n != 1 for page in row}
    for n, frame in enumerate(frames):
        (row,) = tables.steps[n]
        assert tuple(row.pages) == table and [*row.now] == ([frame["logical"]] if "page" in frame else [])
        assert {page for page, one in enumerate(pool.steps[n]) if one.names == "E"} == set(table)
        assert {page for page, one in enumerate(pool.steps[n]) if one.colours == ["dim"]} == others - set(table)
        assert [page for page, one in enumerate(pool.steps[n]) if one.fresh] == (
            [frame["page"]] if "page" in frame else []
        )
        if "page" not in frame:
            assert not view.meta.ways[n]
            continue
        (down, out), cells = view.meta.ways[n], k if frame["role"] == "k" else v
        assert down == ({"sequence": 0, "entry": frame["logical"], "page": frame["page"]}, {"page": frame["page"]})
        assert out == ({"page": frame["page"]}, {"part": frame["role"].upper()}) and n in cells.shown
        read = set(np.flatnonzero([letter in "rl" for letter in cells.states[n]]) % 16)
        assert read == set(range(frame["tokens"][1] - frame["tokens"][0] + 1))
        if frame["role"] == "k":
            lit = {frame["base"] + 16 * c for c, letter in enumerate(cells.states[n]) if letter == "l"}
            assert lit == {offset for offset in frame["request"] if offset is not None}
    assert sorted([*k.shown, *v.shown, *output.shown]) == [*range(len(frames))]
    for panel in bars:
        assert len(panel.tips) == length
        for token, tip in enumerate(panel.tips):
            for kind, offsets in (("K", layout.k_offsets), ("V", layout.v_offsets)):
                first, second = (int(n) for n in offsets(table[token // 16], 0, token % 16)[:2])
                found = re.search(rf"^{kind}: .* at bytes ([\d,]+), ([\d,]+), ... \(([\d,]+) apart\)$", tip, re.M)
                assert found.groups() == (f"{first:,}", f"{second:,}", f"{second - first:,}")
    seen = [n for panel in bars for n in panel.shown]
    assert set(seen) == set(range(len(frames))) and (len(seen) > len(frames)) == (name == "paged_v2")
