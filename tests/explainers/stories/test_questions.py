"""Every key of the course's questions, against the trace, the problem or float64 by a way of its own."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from conftest import of_fp32
from pages import asked, page_of, right, told

from app import course
from app.stories import STORIES
from app.web import asking
from explainers.models import softmax_rows, tiling
from explainers.stories.bank_conflicts import bank_conflicts, bank_questions, bank_walk
from explainers.stories.block_table import kv_cache, kv_heads, partitions, walk
from explainers.stories.coalescing import sector_walk
from explainers.stories.occupancy import limits
from explainers.stories.occupancy import story as occupancy_story
from explainers.stories.online_softmax import factor_questions, online_softmax, row_questions
from explainers.stories.tiling import tile_questions
from explainers.story import probed
from explainers.story.stage import Provenance
from kernels.catalog import KERNELS
from kernels.core import reference
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.kv_cache.scenarios import PRESETS
from kernels.measure import timelines
from kernels.run import execute, workers
from kernels.trace.kinds import READS

NOWHERE = Provenance("executed", "")
DENSE = list(of_fp32(tiling).values())
PAGED = [spec for spec in KERNELS.values() if walk.accepts(spec)]
PROBLEMS = [{"seq_len": 64, "head_dim": 32}, {"seq_len": 40, "head_dim": 32, "causal": True}]


def first_number(text):
    return int(text.split()[0].replace(",", ""))


def frame_of(run):
    return run.trace.frame("launch", "block", "event", "space", "tensor", "offset", "bytes")


def bytes_of(run, symbol, *events):
    frame = frame_of(run)
    mine = frame[(frame.space == "global") & (frame.tensor == symbol) & frame.event.astype(str).isin(events)]
    return int(mine.bytes.sum())


def builds(spec):
    """Constants of the kernel as it is written, and of each what-if build."""
    broken = [{c.name: next(v for v in c.values if v != c.default)} for c in spec.what_ifs]
    return [{}, *broken]


STORES = ("store",)
DENSE_RUNS = [  # without -m slow, each kernel has one build of one problem, as written and what-ifs in turn
    pytest.param(
        (spec, values, build),
        id=f"{spec.name}-{values['seq_len']}-{'+'.join(build) or 'as written'}",
        marks=[] if (which, n) == (turn % 2, turn // 2 % len(builds(spec))) else [pytest.mark.slow],
    )
    for turn, spec in enumerate(DENSE)
    for which, values in enumerate(PROBLEMS)
    for n, build in enumerate(builds(spec))
]


@pytest.fixture(scope="module", params=DENSE_RUNS)
def dense(request):
    spec, values, build = request.param
    problem = spec.problem_type(**values)
    whole = Request(spec, problem, tuple(build.items()))
    tiles = whole.plan.items // (problem.batch * problem.num_heads)
    run = execute.run(dataclasses.replace(whole, scope=Scope(min(1, tiles - 1))))
    made = tiling.stage_of(run, NOWHERE)
    return run, made, asked(tile_questions.query_tile(run, made))


LOADS = ("load", "tma")


def test_the_query_is_in_shared_memory_for_its_keys(dense):
    run, made, found = dense
    problem, meta = run.request.problem, made.views[0].meta
    assert ("check_q_shared" in found) == any("Q" in frame["resident"] for frame in made.frames)
    if "check_q_shared" not in found:
        return
    asks, rows = found["check_q_shared"], range(meta["row0"], meta["row0"] + meta["rows"])
    keys = [row + 1 if problem.causal else problem.seq_len for row in rows]
    anew = sum(keys) * problem.head_dim * 4
    assert "for many keys" in right(asks) and asks.why.endswith(f"it would be {anew:,}.")
    read = bytes_of(run, "Q", *LOADS)
    copies = read / (len(keys) * problem.head_dim * 4)
    served = f"all {keys[-1]} keys" if copies == 1 else f"the {keys[-1] / copies:.0f} keys of a tile"
    blocks = f"the {copies:.0f} blocks of these queries together read" if copies > 1 else "the block reads"
    assert asks.why.startswith(f"One copy serves {served}: {blocks} {read:,} bytes of Q.")


def test_blocks_that_copy_the_same_queries_are_counted(dense):
    run, made, found = dense
    frame, rows = frame_of(run), made.views[0].meta["rows"]
    kinds = frame.event.astype(str)
    copied = frame[(frame.space == "shared") & (frame.tensor == "Q") & ~kinds.isin(READS)]
    blocks = list(dict.fromkeys(zip(copied.launch, copied.block)))
    assert ("check_q_again" in found) == (len(blocks) > 1)
    if len(blocks) < 2:
        return
    asks, (first, second, *_) = found["check_q_again"], sorted(block for _, block in blocks)
    assert asks.text == f"Block {second} fetches the same queries as block {first}. Why?"
    row = run.request.problem.head_dim * 4
    assert f"So {len(blocks)} blocks copy these queries: {rows * row:,} bytes each" in asks.why
    assert asks.why.endswith(f"{bytes_of(run, 'Q', *LOADS):,} in all.")
    assert made.frames[asks.step]["block"] == second


def test_scores_are_kept_where_the_trace_stores_them(dense):
    run, _, found = dense
    stored = {name: bytes_of(run, name, "store") for name in "SP"}
    asks, keeps = found["never_stored"], any(t.axes[-2:] == ("query", "key") for t in run.request.plan.tensors)
    assert (sum(stored.values()) > 0) == keeps
    assert right(asks).startswith("In global memory" if keeps else "On the chip, only as long")
    if keeps:
        assert f"{stored['S']:,} bytes of S and {stored['P']:,} bytes of P" in asks.why
        assert f"{stored['S']:,}" in asks.hides and "check_never_stored" not in found
    else:
        assert f"{bytes_of(run, 'O', *STORES):,} bytes" in asks.why
        assert right(found["check_never_stored"]) == "The scores S and the weights P"


def test_scores_grow_with_the_square_of_the_context():
    spec = next(
        spec for spec in DENSE if any(t.axes[-2:] == ("query", "key") for t in probed.sample(spec).plan.tensors)
    )
    made = {}
    for tokens in (32, 64):
        request = Request(spec, spec.problem_type(seq_len=tokens, head_dim=32))
        run = execute.run(dataclasses.replace(request, scope=Scope.everything(request.plan)))
        made[tokens] = bytes_of(run, "S", "store")
    run = execute.run(Request(spec, spec.problem_type(seq_len=32, head_dim=32), scope=Scope(0)))
    found = asked(tile_questions.query_tile(run, tiling.stage_of(run, NOWHERE)))
    assert right(found["growth"]) == "Four times as many" and made[64] == 4 * made[32]


def test_each_byte_of_k_is_read_as_often_as_the_trace_has_it(dense):
    run, made, found = dense
    frame = frame_of(run)
    loads = frame[(frame.space == "global") & (frame.tensor == "K") & frame.event.astype(str).isin(LOADS)]
    if "tma" in set(loads.event.astype(str)):
        return  # a box of the copy engine: its bytes beyond the edge do not count
    width = run.request.problem.head_dim * 4
    distinct = len({int(offset) // width for offset in loads.offset}) * width
    times = loads.bytes.sum() / distinct
    said = right(found["k_read"]).split()[0]
    assert said == ("Once:" if times < 1.5 else f"{times:.3g}")
    assert f"{int(loads.bytes.sum()):,} bytes of K" in found["k_read"].why
    strip = next(state for state in made.state if state.name.startswith("each byte of K"))
    assert strip.values[-1] == ("once" if times == 1 else f"{times:.3g} times")
    assert strip.values[-1] in found["k_read"].hides


def test_a_blocks_part_of_the_output_is_what_it_stores(dense):
    run, made, found = dense
    if "grid" not in found:
        assert len({b[0] for b in made.views[0].meta["blocks"]}) == 1
        return
    stores = frame_of(run)
    stores = stores[(stores.space == "global") & (stores.tensor == "O") & stores.event.astype(str).isin(STORES)]
    mine = stores[(stores.launch == stores.launch.max()) & (stores.block == stores.block.min())]
    d, n = run.request.problem.head_dim, run.request.problem.seq_len
    first = mine.offset.to_numpy() // 4
    block, low, high = int(mine.block.iloc[0]), int((first // d % n).min()), int((first // d % n).max())
    assert found["grid"].why.startswith(f"Block {block} makes rows {low} to {high}.")
    assert right(found["grid"]).startswith(f"{made.views[0].meta['blocks'][0][1] + 1} rows")


def test_each_wrong_option_has_a_reason(dense):
    _, _, found = dense
    for question in [found[id] for id in ("never_stored", "k_read", "check_q_shared", "grid") if id in found]:
        assert question.answer == question.reasons.index("")
        assert all(reason for n, reason in enumerate(question.reasons) if n != question.answer)


def row_of(run):
    row = online_softmax.rows_of(run)[0] + 6
    story = online_softmax.explain(run, row)
    ordinary = softmax_rows.is_ordinary(run.request.kernel)
    own = factor_questions.questions(story, ordinary)
    more = row_questions.ordinary_row(story.frames, story.first_wrong, ordinary)
    return row, story, ordinary, asked([*own, *more])


def test_how_often_the_max_rises_is_what_float64_says_of_the_scores(dense):
    run, _, _ = dense
    if not softmax_rows.accepts(run.request.kernel):
        return
    row, story, ordinary, found = row_of(run)
    problem = run.request.problem
    batch, head = online_softmax.rows_of(run)[2]
    q, k = (run.arrays[name][batch, head] for name in "qk")
    keys = row + 1 if problem.causal else problem.seq_len
    scores = reference.scores(q[row : row + 1], k, problem.sizes["scale"], False)[0][:keys]
    if ordinary and story.first_wrong is None:
        assert (
            right(found["before_max"]).startswith("After the last score")
            and f"all {keys} scores" in found["before_max"].why
        )
    if "raises" in found:
        best, rises = -math.inf, []
        for last in story.tiles["last"]:
            top = scores[: last + 1].max()
            if best > -math.inf and np.float32(top) > np.float32(best):
                rises.append(int(scores[: last + 1].argmax()))
            best = top
        assert found["raises"].answer == found["raises"].shows == {"kind": "score", "index": rises[0]}
    for question in found.values():
        if question.kind == "options":
            assert question.reasons.index("") == question.answer and question.reasons.count("") == 1
    assert ("first_wrong" in found) == (story.first_wrong is not None)


def test_a_build_without_rescaling_is_first_wrong_in_the_rescale_factor():
    spec = next(s for s in DENSE if "RESCALE" in {c.name for c in s.what_ifs})
    problem = spec.problem_type(seq_len=64, head_dim=32)
    run = execute.run(Request(spec, problem, (("RESCALE", 0), ("BLOCK_Q", 16), ("BLOCK_KV", 16)), Scope(0)))
    _, _, _, found = row_of(run)
    assert right(found["first_wrong"]) == "the rescale factor" and "rescale" not in found


# ---- paging ----


def first_access(run, access):
    """The records of the traced block's first access at the probe of `access`: a lane each."""
    frame = run.trace.frame("block", "warp", "lane", "seq", "file", "line", "space", "offset")
    mine = frame[
        (frame.space == "shared") & (frame.file.astype(str) == access["file"]) & (frame.line == access["line"])
    ]
    mine = mine[mine.block == mine.block.min()]
    warp = 0 if (mine.warp == 0).any() else mine.warp.min()
    return mine[mine.warp == warp].sort_values("seq", kind="stable").drop_duplicates("lane")


def first_request(run, request, place):
    """Byte offsets of the first request at a probe, of the traced block's first warp there."""
    frame = run.trace.frame("launch", "block", "warp", "lane", "seq", "file", "line", "space", "offset")
    mine = frame[(frame.space == "global") & (frame.file.astype(str) == place[0]) & (frame.line == place[1])]
    mine = mine[(mine.launch == mine.launch.min()) & (mine.block == mine.block.min())]
    warp = 0 if (mine.warp == 0).any() else mine.warp.min()
    found = mine[mine.warp == warp].sort_values("seq", kind="stable").drop_duplicates("lane")
    assert len(found) == request["active"]
    return [int(offset) for offset in found.offset]


@pytest.mark.parametrize("partition", [32, 64])
def test_v2_leaves_a_max_a_sum_and_an_output_of_each_partition(partition):
    whole, cut = (next(s for s in PAGED if accepts(s)) for accepts in (partitions.accepts_whole, partitions.accepts))
    problem = whole.problem_type(context_lens=(150, 20))
    one = execute.run(Request(whole, problem, scope=Scope(1)))
    two = execute.run(Request(cut, problem, ((cut.constant_of("partition").name, partition),), Scope(1)))
    made = partitions.stage_of(one, two, "A", NOWHERE)
    phases = next(view.meta["phases"] for view in made.views if view.id == "split")
    found = asked(made.questions)
    merge, data = found["merge"], partitions.data_of(one, two, "A")
    parts, m = data["parts"], data["v2"]["m"]
    assert f"into {math.ceil(150 / partition)} parts" in merge.text and len(parts) == math.ceil(150 / partition)
    stored = frame_of(two)
    stored = stored[(stored.launch == 0) & (stored.event == "store") & (stored.space == "global")]
    assert right(merge).startswith("Scale each part to one max") and stored.tensor.astype(str).nunique() == 3  # m, l, O
    low = min(parts[:-1], key=lambda part: math.exp(part["m"] - m))
    assert merge.why.endswith(f"{math.exp(low['m'] - m):.3g} for block {low['partition']}.")
    assert phases[merge.shows["to"]] == "merged" and right(found["check_split"]).startswith(
        "Faster if V1 has few blocks for each SM"
    )


@pytest.mark.parametrize(("heads", "stores"), [(4, 4), (4, 2), (8, 2), (4, 1)])
def test_grouped_queries_save_what_the_fewer_heads_do_not_hold(heads, stores):
    spec = next(s for s in PAGED if partitions.accepts_whole(s))
    found = []
    for count in dict.fromkeys((stores, heads, 1)):
        problem = spec.problem_type(num_heads=heads, num_kv_heads=count)
        whole = Request(spec, problem)
        run = execute.run(dataclasses.replace(whole, scope=Scope.everything(whole.plan)))
        found.append(kv_heads.reads(run))
    keys = asked(kv_heads.stage_of(found, NOWHERE).questions)
    saved, same = keys["check_grouped"], keys["same_reads"]
    assert right(saved).endswith("only 1/4 of the bytes")
    assert "kept once for 4 query heads" in saved.why
    assert right(same).startswith("Nothing: each block") and len({one["read"] for one in found}) == 1


@pytest.mark.parametrize("block_size", [8, 16, 32])
@pytest.mark.parametrize("name", PRESETS)
def test_slots_that_are_held_are_those_of_the_pages(name, block_size):
    scenario = PRESETS[name]
    cache = scenario.states(block_size)[-1][0]
    found = asked(kv_cache.stage_of(scenario, block_size, None).questions)
    if not cache.sequences:
        assert not found
        return
    pages = {page for sequence in cache.sequences for page in sequence.table}
    assert first_number(right(found["held"])) == len(pages) * block_size
    longest = max(cache.sequences, key=lambda s: len(s.tokens))
    assert first_number(right(found["which_page"])) == longest.table[(len(longest.tokens) - 1) // block_size]


# ---- the memories ----


@pytest.mark.parametrize("name", [n for n, s in KERNELS.items() if s.family == "lab" and bank_conflicts.accepts(s)])
def test_the_first_wavefront_serves_a_word_of_each_bank(name):
    spec = KERNELS[name]
    run = execute.run(Request(spec, spec.problem_type()))
    story = bank_walk.explain([run])
    found = asked(bank_questions.questions(story))
    if "wavefronts" not in found:
        return
    access = story.sides[0]["accesses"][0]
    request = first_access(run, access)
    assert len(request) == access["active"]
    lane = int(found["bank_of"].text.split()[1])
    byte = int(request[request.lane == lane].offset.iloc[0])
    assert found["bank_of"].answer == {"side": 0, "bank": byte // 4 % 32}
    assert f"wants byte {byte // 4 * 4:,} of" in found["bank_of"].text
    if access["bytes"] <= 4:
        words: dict[int, set[int]] = {}
        for _, bank, _, word, _, _ in access["cells"]:
            words.setdefault(bank, set()).add(word)
        most = max(map(len, words.values()))
        assert access["wavefronts"] == most
        expected = "All at once" if most == 1 else "One word" if len(words) == 1 else "In a few turns"
        assert right(found["wavefronts"]).startswith(expected)


@pytest.mark.parametrize("spec", DENSE, ids=lambda s: s.name)
def test_bytes_that_are_wanted_are_the_different_ones(spec):
    run = execute.run(Request(spec, spec.problem_type(seq_len=64, head_dim=32), scope=Scope(0)))
    table = sector_walk.by_line(run)
    places = list(dict.fromkeys((file, int(line)) for file, line in zip(table.file, table.line)))
    story = sector_walk.explain(run, places)
    requests = story.sides[0]["requests"]
    found = asked(sector_walk.WORDS.questions(sector_walk.asked(requests), 0))
    first = first_request(run, requests[0], places[0])
    assert requests[0]["sectors"] == len({byte // 32 for o in first for byte in range(o, o + requests[0]["bytes"])})
    request = requests[found["moved"].step if "moved" in found else 0]
    touched = {byte for o in request["offsets"] if o >= 0 for byte in range(o, o + request["bytes"])}
    if "moved" in found:
        assert f"want {len(touched):,} different bytes" in found["moved"].text
        assert first_number(right(found["moved"])) == 32 * len({byte // 32 for byte in touched})
    if "unused" in found:
        low, high = found["unused"].answer["byte"]
        assert found["unused"].why.startswith(f"No lane wants bytes {low:,} to {high:,}.")
        sector = set(range(low // 32 * 32, low // 32 * 32 + 32))
        assert sector & touched and sector - touched == set(range(low, high + 1))


@pytest.mark.parametrize("spec", DENSE, ids=lambda s: s.name)
def test_blocks_of_a_multiprocessor_are_those_that_its_scarcest_resource_allows(spec):
    from kernels.build import nvrtc  # noqa: F401  # without it nothing can be compiled
    from kernels.build.occupancy import machine, occupancy

    on = machine("sm_90a")
    found = occupancy(
        spec,
        spec.problem_type(seq_len=4096, head_dim=64, num_heads=8),
        (),
        "sm_90a",
        multiprocessors=on.multiprocessors,
    )
    keys, o = asked(limits.WORDS.questions(limits.data_of(found, on, 132, "an H200"), 4)), found[0]
    assert right(keys["waiting"]) == "It runs another warp" and f"{o.warps} warps" in keys["waiting"].why
    warps = math.ceil(o.threads / 32)
    if "registers" in keys:
        by_registers = 65536 // 4 // (math.ceil(2 * o.registers * 32 / 256) * 256) * 4 // warps
        others = [blocks for name, blocks in o.limits.items() if name != "registers"]
        assert first_number(right(keys["registers"])) == min(by_registers, *others)


def test_a_timelines_keys_are_those_of_its_blocks():
    starts, ends = [0, 0, 10, 400, 450], [300, 500, 420, 700, 600]  # ns
    rows = [
        {"launch": 0, "block": n, "sm": n % 2, "start_ns": start, "end_ns": end}
        for n, (start, end) in enumerate(zip(starts, ends))
    ]
    request = Request(KERNELS["03_flash"], KERNELS["03_flash"].problem_type())
    recorded = timelines.Timeline(request, pd.DataFrame(rows), 0, 4, "recorded", "a GPU", "2026-11-21")
    made = occupancy_story.timeline_stage(recorded, "a label")
    frames, found = made.frames, asked(made.questions)
    at_once = max(sum(a <= ns < b for a, b in zip(starts, ends)) for ns in range(700))
    assert first_number(right(found["at_once"])) == at_once == 3
    assert found["ends_last"].answer == {"launch": 0, "block": 3} and found["ends_last"].step == len(frames) - 1


# ---- what gives an answer away ----

STOPS = dict.fromkeys(stop.story for stop in course.stops() if stop.questions)
VIEWS = [(path, view) for path in STOPS for view in getattr(page_of(path).own.get("view"), "allowed", ())[1:]]


@pytest.mark.parametrize(("path", "view"), VIEWS)  # test_stories.py has the first view
def test_what_says_an_answer_where_it_is_asked_is_veiled(path, view):
    chosen = {"view": view, **({"backend": "cpu"} if page_of(path).kernels else {})}
    made = STORIES[path].make(asking.ask(STORIES[path], chosen, workers.survey()).subject)
    assert not told(asked(made.questions).values(), made)
