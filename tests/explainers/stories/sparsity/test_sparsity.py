"""Every number that the sparsity story says, against the mask, the lists, the trace and float64."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from explainers.models import tiling
from explainers.stories.sparsity import (
    block_mask,
    costs,
    mask_walk,
    story,
)
from explainers.stories.sparsity.block_mask import FULL, PARTIAL
from explainers.story import picture, probed
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute

ACCEPTED = [name for name, spec in KERNELS.items() if story.STORY.accepts(spec)]
LISTED = [name for name in ACCEPTED if block_mask.has_lists(probed.sample(KERNELS[name]))]
MASKS = [
    {"mask": "sinks", "window": 192},
    {"mask": "window", "window": 1},
    {"mask": "documents", "seq_len": 200, "documents": (90, 30)},
    {"mask": "drawn", "drawn": ((0, 2), (), (1,)), "causal": False},
    {"mask": "top_blocks", "num_heads": 2},
    {"mask": "random", "density": 0.02, "seq_len": 150},
    {"mask": "sinks", "sink_logits": True},
]


def run_of(name=LISTED[0], item=0, settings=(), **fields):
    problem = KERNELS[name].problem_type(**{"num_heads": 1, **fields})
    return execute.run(Request(KERNELS[name], problem, settings, Scope(item)))


def mask_of(run):
    masks, head = run.request.problem.masks, block_mask.place_of(run.request).head
    return masks[head if len(masks) > 1 else 0].dense()


def test_kernels_are_accepted_by_their_logs_and_a_mask_that_shows_nothing_has_no_lse():
    assert len(LISTED) >= 2 and len(ACCEPTED) > len(LISTED)
    assert not any(tiling.accepts(KERNELS[name]) for name in ACCEPTED)
    assert all(probed.has_masks(KERNELS[name]) for name in ACCEPTED)
    run = run_of(mask="drawn", drawn=(), causal=False, sink_logits=True)
    assert "The lse comes only from the sink." in mask_walk.explain(run, 3).frames[-1]["sentence"]
    assert costs.summary(costs.ledger(run)).endswith("no block is computed, and O is 0.")


def each_mask_of_one():
    """Each mask with each kernel. Without -m slow, with one, another one for the next mask."""
    for number, fields in enumerate(MASKS):
        for turn, name in enumerate(LISTED):
            marks = [] if turn == number % len(LISTED) else pytest.mark.slow
            yield pytest.param(fields, name, id=f"{fields['mask']}-{name}", marks=marks)


@pytest.mark.parametrize(("fields", "name"), each_mask_of_one())
def test_every_entry_is_a_block_of_the_mask_and_its_scores_m_and_l_are_the_rows_own(name, fields):
    first = run_of(name, **fields)
    size = block_mask.room(first.request)
    for item in (0, size.tiles - 1, size.tiles * size.heads - 1):
        run = execute.run(replace(first.request, scope=Scope(item)))
        place, mask = block_mask.place_of(run.request), mask_of(run)
        walk = mask_walk.explain(run, place.first + 3)
        strip = mask[place.first : place.end]
        for column, kind in walk.entries:
            block = strip[:, column * walk.lists.block_kv : (column + 1) * walk.lists.block_kv]
            whole = block.all() and block.shape[1] == walk.lists.block_kv
            assert block.any() and kind == (FULL if whole else PARTIAL)
        columns = {entry.column for entry in walk.entries}
        seen_columns = set(np.flatnonzero(strip.any(0)) // walk.lists.block_kv)
        assert columns == seen_columns and len(columns) == len(walk.entries)
        check_row(run, walk, mask[walk.row])


def check_row(run, walk, sees):
    head, problem = walk.place.head, run.request.problem
    q, k = (picture.matrix(run, at, head).astype(np.float64) for at in "QK")
    due = problem.sizes["scale"] * k @ q[walk.row]
    assert np.array_equal(np.isfinite(walk.scores), sees)
    assert np.allclose(walk.scores[sees], due[sees], atol=2e-3)
    sink = problem.logits[head % problem.num_heads]
    m, l = float(sink), float(np.isfinite(sink))
    for frame, said in list(zip(walk.steps, walk.frames))[1:-1]:
        part = slice(frame["column"] * walk.lists.block_kv, (frame["column"] + 1) * walk.lists.block_kv)
        mine = due[part][sees[part]]
        assert frame["seen"] == len(mine) and (frame["m_before"], frame["l_before"]) == pytest.approx((m, l), rel=2e-3)
        after = max([m, *mine])
        if np.isfinite(after):
            l = l * np.exp(m - after) + np.exp(mine - after).sum()
        m = after
        assert (frame["m"], frame["l"]) == pytest.approx((m, l), rel=2e-3, abs=1e-6)
        assert said["sentence"].startswith(f"Block {frame['column']} is ")
    last = walk.frames[-1]
    if l:
        assert walk.lse == pytest.approx(m + np.log(l), rel=2e-3) and f"{walk.lse:.4g}" in last["sentence"]
    else:
        assert walk.lse == -np.inf and not walk.o.any() and "O = 0 and lse = -inf" in last["sentence"]


@pytest.mark.parametrize("name", LISTED)
def test_a_query_block_without_blocks_says_that_its_rows_are_0_and_lse_is_minus_infinity(name):
    run = run_of(name, 1, mask="drawn", drawn=((0,), (), (1,)), causal=False)
    walk = mask_walk.explain(run, 70)
    assert not walk.entries and len(walk.frames) == 2 and walk.steps[-1]["loaded"] == 0
    assert "64 rows see no key" in walk.frames[0]["sentence"]
    assert walk.frames[1]["sentence"].startswith("Each row saw no key: the kernel writes O = 0 and lse = -inf.")


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_build_without_its_mask_says_what_a_row_sees_and_what_the_kernel_scores(name):
    switch = "PATTERNS" if name in LISTED else "WINDOW"
    run = run_of(name, settings=((switch, 0),), seq_len=100, window=20)
    walk, sees = mask_walk.explain(run, 60), mask_of(run)[60]
    first = next({**one, **said} for one, said in zip(walk.steps, walk.frames) if one["column"] == 0)
    assert first["seen"] == sees[:64].sum() == 20
    scored = 64 if name in LISTED else 61  # a window's own end is no part of the build
    assert (
        f"row 60 sees 20 of its 64 keys, but the kernel scores {scored}. The first scores of row 60"
        in first["sentence"]
    )
    assert "partial" not in {question.id for question in mask_walk.WORDS.questions(walk.data, len(walk.steps) - 1)}


@pytest.mark.parametrize("name", LISTED)
def test_what_lies_past_the_last_key_is_scored_by_a_build_without_patterns_and_is_no_key(name):
    fields = {"seq_len": 100, "mask": "all", "causal": False}
    walk = mask_walk.explain(run_of(name, settings=(("PATTERNS", 0),), **fields), 3)
    assert "sees 36 of its 36 keys, but the kernel scores 64, 28 past the last key." in words(walk.frames)
    whole = mask_walk.explain(run_of(name, **fields), 3)
    assert "partial" not in {question.id for question in mask_walk.WORDS.questions(whole.data, len(whole.steps) - 1)}
    assert "but the kernel" not in words(whole.frames)


@pytest.mark.parametrize("name", ACCEPTED)
def test_m_is_not_called_the_max_where_it_does_not_follow_it(name):
    for sink in (False, True):
        fields = {"seq_len": 100, "window": 100, "causal": False, "sink_logits": sink}
        run = run_of(name, settings=(("SUBTRACT_MAX", 0),), **fields)
        walk = mask_walk.explain(run, 3)
        first, second = ({**one, **said} for one, said in list(zip(walk.steps, walk.frames))[1:3])
        begins = "Row 3's m goes from 0.912 to 0" if sink else "The first scores of row 3 make m 0"
        assert f"{begins}, though the row's max is {first['tile_max']:.4g}" in first["sentence"]
        highest = max(first["tile_max"], second["tile_max"])
        assert f"Row 3's m stays 0, though the row's max is {highest:.4g}, and l grows to" in second["sentence"]


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_mask_is_drawn_from_its_lists_element_for_element(name):
    kind = {"mask": "sinks", "window": 100} if name in LISTED else {"window": 100}
    run = run_of(name, seq_len=300, **kind)
    lists, mask = block_mask.lists_of(run)[0], mask_of(run)
    assert np.array_equal(block_mask.seen_of(lists, 300, 300), mask)
    columns = story.view(run, mask_walk.explain(run, 5)).columns
    bits = columns["elements"].reshape(300, -1).astype(int)[:, :, None] >> np.arange(story.WORD) & 1
    assert np.array_equal(bits.reshape(300, -1)[:, :300], mask)
    assert columns["kinds"].size == lists.kv_indices.size
    block_q, block_kv = lists.block_q, lists.block_kv
    for (row, column), seen in np.ndenumerate(columns["seen"]):
        block = mask[row * block_q : (row + 1) * block_q, column * block_kv : (column + 1) * block_kv]
        assert (seen, columns["pairs"][row, column]) == (block.sum(), block.size)
        assert columns["bytes"][row, column] == block.shape[1] * run.request.problem.head_dim * 4


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("length", [384, 150])
def test_what_the_probes_counted_is_what_the_lists_say_byte_for_byte(name, length):
    kind = {"mask": "sinks"} if name in LISTED else {}
    run = run_of(name, seq_len=length, num_heads=2, num_kv_heads=1, window=70, **kind)
    made, traffic = costs.ledger(run), execute.traffic(run.request)
    problem, mask = run.request.problem, mask_of(run)
    block_q, block_kv = block_mask.sizes(run.request)
    assert traffic.whole and costs.kv_counted(run.request, traffic) == made.bytes
    by_hand = 0
    for first in range(0, length, block_q):
        for column in range(0, length, block_kv):
            if mask[first : first + block_q, column : column + block_kv].any():
                by_hand += min(block_kv, length - column)
    assert made.bytes == by_hand * 2 * problem.head_dim * 2 * problem.num_heads
    walk = mask_walk.explain(run, block_mask.place_of(run.request).first)
    assert sum(walk.loaded) == walk.steps[-1]["loaded"]
    assert walk.loaded == [min(block_kv, length - c * block_kv) * problem.head_dim * 4 for c, _ in walk.entries]
    assert made.seen == mask.sum() * 2
    table = costs.table(made).set_index("")
    assert (
        table["blocks"]["full: executed"] + table["blocks"]["partial: executed, then masked"]
        == made.full + made.partial
    )
    assert table["pairs"]["executed"] + table["pairs"]["skipped"] == table["pairs"]["every block"] == made.dense_pairs
    assert "the same, byte for byte" in words(costs.ledger_blocks(run, traffic, pd.DataFrame({"status": []})))


def words(blocks):
    return json.dumps(blocks)


def test_blocks_that_hold_a_seen_pair_are_counted_and_lists_win_where_they_skip_something():
    run = run_of(mask="random", density=0.02, seq_len=256)
    seen, ways = run.request.problem.masks[0].dense(), costs.ways(run.request)
    row = 2 * run.request.problem.head_dim * 2
    assert (ways[0].pairs, ways[0].bytes) == (seen.sum(), seen.sum() * row)
    for way, size in zip(ways[1:], costs.SIZES):
        parts = [seen[r : r + size, c : c + size].any() for r in range(0, 256, size) for c in range(0, 256, size)]
        assert way.executed == np.mean(parts) and way.pairs == sum(parts) * size * size
        assert way.bytes == sum(parts) * size * row and way.users == size
    shares = [way.executed for way in ways[1:]]
    assert shares == sorted(shares) and ways[0].sectors * 32 >= ways[0].bytes
    for fields, skips in (({"mask": "window", "window": 1}, True), ({"mask": "random", "density": 0.25}, False)):
        run = run_of(seq_len=128, causal=False, **fields)
        said = words(costs.element_blocks(run, pd.DataFrame({"status": []})))
        assert ("lists of blocks win" in said) == skips and ("lists of blocks skip nothing" in said) != skips
    run = run_of(mask="window", window=1, seq_len=64)  # one key in each row: one lane reads at a time
    csr = costs.ways(run.request)[0]
    bytes_of_row = run.request.problem.head_dim * 2
    assert csr.sectors == 64 * (bytes_of_row // costs.VECTOR + bytes_of_row // 32)
    assert mask_walk.explain(run_of(item=5, mask="sinks", window=192), 326).frames[0]["sentence"] == (
        "A query sees a window, the last 192 keys. It also sees the first 4 keys, the sinks. "
        "The list of query block 5 has 5 key blocks: 3 are partial and 2 are full."
    )


@pytest.mark.parametrize("length", [1, 8, 20])
def test_the_smallest_blocks_are_counted_however_short_the_sequence_is(length):
    run = run_of(mask="window", window=1, seq_len=length)
    ways = costs.ways(run.request)
    assert [way.users for way in ways[1:]] == [16, 32][: 1 + (length > 16)]
    said = words(costs.element_blocks(run, pd.DataFrame({"status": []})))
    assert "100.0% have a seen pair" in said and "nan" not in said
    if length == 8:  # one block, of 64 pairs
        assert f"at random, {1 - (7 / 8) ** 64:.1%} would have one" in said


def test_times_are_next_to_the_fastest_dense_one_and_say_which_kernels_add_the_mask():
    run = run_of(mask="window")
    fields = {"mask": "window", "window": 1024, "seq_len": 4096, "num_heads": 8, "head_dim": 64, "causal": True}

    def row(name, us, **more):
        return {"name": name, "title": "t", "status": "ok", "median_us": us, "problem": json.dumps(fields | more)}

    times = pd.DataFrame(
        [row(LISTED[0], 20.0), row("sdpa_math", 300.0), row("sdpa_cudnn", 100.0), row(LISTED[0], 7.0, mask="drawn")]
    ).assign(device="A GPU", date="2026-11-24")
    found = costs.recorded(run.request, times)
    assert list(found.median_us) == [20.0, 100.0, 300.0] and set(found.dense) == {100.0}
    blocks = costs.time_blocks(run.request, times)
    assert blocks[0]["rows"][0][2:] == ["20 µs", "5"] and "A GPU" in blocks[0]["caption"]
    nothing = costs.time_blocks(run_of(mask="strided").request, times)
    assert "No time is recorded with the mask strided." in nothing[0]["text"]
    sizes = {"seq_len": 64, "num_heads": 1, "head_dim": 64, "batch": 1, "causal": True}
    listed = json.dumps(sizes | {"mask": "random", "density": 0.1})
    masked = [{"name": name, "problem": listed} for name in ("csr_attention", "sdpa_math", "flex_attention")]
    dense = [{"name": "01_naive", "dtype": "float32", **sizes}, {"name": "07_async", "dtype": "float16", **sizes}]
    times = pd.DataFrame([*masked, *dense]).assign(status="ok", median_us=[9, 8, 7, 6, 5], device="A GPU", date="now")
    caption = costs.csr_times(times)[0]["caption"]
    assert "SDPA's kernels (torch math) compute every pair and add the mask." in caption
    assert "flex_attention skips blocks in which no pair is seen." in caption
    assert "with a recorded time (float16, float32)" in caption and "flex" not in caption.split("SDPA")[0]


def test_the_keys_of_the_questions_come_from_the_lists_and_the_trace():
    run = run_of(item=5, mask="sinks", window=192)
    walk, sees = mask_walk.explain(run, 326), mask_of(run)
    skipped, partial = mask_walk.WORDS.questions(walk.data, len(walk.steps) - 1)
    block = skipped.shows["col"]
    assert not sees[320:384, 64 * block : 64 * block + 64].any()
    assert skipped.options[skipped.answer] == "It never loads the block"
    assert f"{sum(walk.loaded):,} bytes" in skipped.why and block not in {entry.column for entry in walk.entries}
    first = 64 * partial.shows["col"]
    seen = int(sees[326, first : first + 64].sum())
    assert partial.options[partial.answer] == f"All 64 scores, and then it hides {64 - seen}"
    assert f"sees {seen} of its 64 keys" in partial.text
    for question in (skipped, partial):
        assert [bool(reason) for reason in question.reasons].count(False) == 1
