"""V3 and the shared prefix, step by step: every number against the trace, the problem or float64, by another way."""

from collections import Counter
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from explainers.stories.block_table import ranges
from explainers.stories.block_table.paging import WORDS
from explainers.story import probed
from explainers.story.glossary import phase_title, short
from explainers.story.stage import Provenance
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.kv_cache.scenarios import PRESETS
from kernels.run import execute

SHOWN = probed.accepting(ranges)
WHOLE = next(name for name, spec in SHOWN.items() if not ranges.shares(spec))
PREFIX = next(name for name, spec in SHOWN.items() if ranges.shares(spec))
NAMES = "ABCDEFGH"
CASES = [
    (WHOLE, "one_long", {"ranges": 5}),
    (WHOLE, "churn", {"ranges": 1, "dtype": "bfloat16"}),
    (PREFIX, "shared_prompt", {"ranges": 2, "num_heads": 8, "num_kv_heads": 2}),
]
MORE = [
    (WHOLE, "churn", {}),
    (WHOLE, "one_long", {"ranges": 3, "head_dim": 128, "num_heads": 8}),
    (PREFIX, "shared_prompt", {}),
]


@cache
def run_of(kernel, preset, shape):
    spec, held = KERNELS[kernel], PRESETS[preset].states(16)[-1][0]
    problem = spec.problem_type.of_cache(held, **{"ranges": 4, "num_heads": 4, "num_kv_heads": 2} | dict(shape))
    request = Request(spec, problem)
    return execute.run(replace(request, scope=Scope.everything(request.plan)))


def walk(run, names, sequence, head):
    """What a page has of a query head, with the columns and the words of each step."""
    data = ranges.data_of(run, names, sequence, head)
    frames = WORDS.frames(data["steps"], {**data, "phase_title": phase_title})
    return SimpleNamespace(**data, frames=[{**row, **frame} for row, frame in zip(data["steps"], frames)])


@cache
def stories_of(kernel, preset, shape):
    """The first and the last query head of every sequence."""
    run = run_of(kernel, preset, shape)
    heads = sorted({0, run.request.problem.num_heads - 1})
    return [walk(run, NAMES, n, head) for n in range(run.request.problem.num_seqs) for head in heads]


@pytest.fixture(
    params=[*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in MORE)],
    ids=lambda case: f"{case[0]}-{case[1]}-{'-'.join(map(str, case[2].values()))}",
)
def case(request):
    kernel, preset, shape = request.param
    return kernel, preset, tuple(shape.items())


@pytest.fixture
def run(case):
    return run_of(*case)


@pytest.fixture
def walks(case):
    return stories_of(*case)


def logged(run, event, **keys):
    frame = run.trace.frame()
    frame = frame[frame.event == event]
    for name, value in keys.items():
        frame = frame[frame[name] == value]
    return frame


def test_two_kernels_go_by_a_work_list_and_a_rising_max_scales_the_sum_by_what_the_sentence_says():
    assert {WHOLE, PREFIX} == set(SHOWN)
    risen = 0
    for story in stories_of(WHOLE, "one_long", (("ranges", 3), ("head_dim", 128), ("num_heads", 8))):
        for unit in story.units:
            before = {}
            for tile in unit["tiles"]:
                old, said = before.get(tile["warp"]), story.frames[tile["since"]]["sentence"]
                if old and tile["m"] > old["m"]:
                    risen += 1
                    assert f"= {np.exp(old['m'] - tile['m']):.4g}. Now l is {tile['l']:.4g}" in said
                before[tile["warp"]] = tile
    assert risen > 1


def test_units_hold_the_pages_once_in_order_each_brought_by_the_block_of_its_list(run, walks):
    problem = run.request.problem
    for story in walks:
        pages = [page["page"] for unit in story.units for page in unit["pages"]]
        used = -(-problem.context_lens[story.sequence] // problem.block_size)
        assert pages == list(problem.block_tables[story.sequence][:used])
        assert [unit["partition"] for unit in story.units] == list(range(len(story.units)))
    for story in walks:
        for unit in story.units:
            whole = story.lists[unit["list"]]
            owner = int(whole.table[unit["number"], 0])
            for page in unit["pages"]:
                copies = logged(run, "tma", launch=unit["list"], sequence=owner, entry=page["entry"])
                copies = copies[copies.block == unit["block"]]
                held = (page["page"] * problem.num_kv_heads + story.kv_head) * problem.layout.page_bytes
                assert set(copies[copies.tensor == "K"].offset) == {held}
                assert int(copies.bytes.sum()) == 2 * problem.layout.page_bytes
                assert story.frames[page["since"]]["bytes"] == 2 * problem.layout.page_bytes


def test_ranges_are_equal_within_a_page_and_hold_every_page_once(run):
    problem, counted = run.request.problem, Counter()
    story = walk(run, NAMES, 0, 0)
    for whole in story.lists:
        lengths = Counter()
        for unit, row in enumerate(whole.table):
            lengths[whole.range_of[unit]] += int(row[2])
            for sequence in whole.sequences(unit):
                counted.update((sequence, entry) for entry in range(row[1], row[1] + row[2]))
        assert len(lengths) == whole.ranges and max(lengths.values()) - min(lengths.values()) <= 1
    used = {
        (sequence, entry): 1
        for sequence, length in enumerate(problem.context_lens)
        for entry in range(-(-length // problem.block_size))
    }
    assert counted == used


def test_scores_sums_and_outputs_are_those_of_float64(run, walks):
    for story in walks:
        assert np.isfinite(story.scores).all()
        scores = story.scores.astype(np.float64)
        for unit in story.units:
            first, end = unit["tokens"]
            _holds(unit, scores[first:end])
            for warp in {tile["warp"] for tile in unit["tiles"]}:
                mine = [tile for tile in unit["tiles"] if tile["warp"] == warp]
                _holds(mine[-1], np.concatenate([scores[t["first"] : t["end"]] for t in mine]))
        _holds(story.merged, scores)
        if len(story.units) > 1:
            total = sum(unit["l"] * unit["weight"] for unit in story.units)
            assert total == pytest.approx(story.merged["l"], rel=1e-5)
    problem = run.request.problem
    exact, truth = list(problem.scores()), problem.truth()
    for story in walks:
        assert np.abs(story.scores - exact[story.sequence][story.head]).max() < 5e-3
        assert np.abs(story.o - truth["o"][story.sequence, story.head]).max() < 2e-2
        assert story.merged["m"] + np.log(story.merged["l"]) == pytest.approx(
            truth["lse"][story.sequence, story.head], abs=2e-3
        )


def _holds(told, scores):
    assert told["m"] == pytest.approx(scores.max(), abs=2e-3)
    assert told["l"] == pytest.approx(np.exp(scores - told["m"]).sum(), rel=2e-3)


def test_sentences_have_the_numbers_of_their_step(run, walks):
    for story in walks:
        assert [frame["tile"] for frame in story.frames] == sorted(frame["tile"] for frame in story.frames)
        for unit in story.units:
            for tile in unit["tiles"]:
                said = story.frames[tile["since"]]["sentence"]
                assert f"warp {tile['warp']} multiplies tokens {tile['first']} to {tile['end'] - 1}" in said
                best = story.scores[tile["first"] : tile["end"]]
                assert f"largest score is {best.max():.4g}, at token {tile['first'] + int(best.argmax())}" in said
            assert f"m = {unit['m']:.4g}" in story.frames[unit["since"]]["sentence"]
        last = story.frames[-1]
        assert last["written"] and f"= {story.merged['l']:.4g}" in last["sentence"]
        if len(story.units) > 1:
            merger = logged(run, "weight", sequence=story.sequence, head=story.head).iloc[0]
            items = run.request.plan.launches[int(merger.launch)].blocks_per_item
            assert last["sentence"].startswith(f"Range {int(merger.block) // items}'s block arrives last")


def test_a_page_of_a_prefix_is_brought_once_for_all_who_share_it():
    run = run_of(PREFIX, "shared_prompt", ())
    problem = run.request.problem
    copies = logged(run, "tma")
    copies = copies[copies.tensor == "K"]
    by_page = Counter(copies.offset // problem.layout.page_bytes // problem.num_kv_heads)
    assert set(by_page.values()) == {problem.num_kv_heads}
    shared = set(problem.block_tables[0]) & set(problem.block_tables[1])
    story = walk(run, NAMES, 1, 0)
    said = [f["sentence"] for f in story.frames if f.get("page") in shared and f["phase"] == "prefetch_tile"]
    assert said and all("read once for 6 query heads, 2 of each of A, B and C" in one for one in said)


def test_the_plan_says_who_shares_which_pages_and_who_shares_none():
    """Two families and one alone; and one whose prefix is listed twice: 16 heads of 5 sequences are 80 columns."""
    spec, families = KERNELS[PREFIX], (1, 1, 2, 2, 3)
    tables = ((0, 1, 2, 3), (0, 1, 4), (5, 6, 7, 8), (5, 6, 7, 9), (10, 11))

    def walked(sequence, lens, **fields):
        problem = spec.problem_type(lens, num_kv_heads=1, head_dim=64, block_size=16, dtype="float16", **fields)
        request = Request(spec, problem)
        run = execute.run(replace(request, scope=Scope.everything(request.plan)))
        return walk(run, NAMES, sequence, problem.num_heads - 1)

    alone = walked(4, (60, 40, 64, 60, 20), num_heads=2, block_tables=tables, families=families, ranges=2)
    said = alone.frames[0]["sentence"]
    assert said.startswith(
        "A and B begin with the same 2 pages. A list of prefixes has them once. C and D begin with the same 3 pages. A "
        "list of prefixes has them once. That list is cut into 2 ranges. What follows, 7 entries of 5 block tables, "
        "end to end, is cut into 2 ranges of 3 to 4 pages"
    )
    assert said.endswith("E's 2 pages are in one.")
    crowd = walked(4, (40, 41, 42, 43, 44), num_heads=16, ranges=1, prefix=32)
    said = crowd.frames[0]["sentence"]
    assert "A, B, C and D begin with the same 2 pages. A list of prefixes has them once. They are listed " in said
    assert "once more for E: a block has columns for 4 sequences of 16 query heads." in said
    assert said.endswith("E's 3 pages are in one and in the prefix's.")
    first, then = (frame["sentence"] for frame in crowd.frames if "so the unit has its m" in frame["sentence"])
    assert "warp 0 has this head's column, so the unit has its m" in first and "only warp 0 had tokens here" in then
    merge = crowd.frames[-1]["sentence"]
    assert "merges the 2 in the same launch, the prefix's from the launch before: m = max m_i" in merge


def test_the_picture_has_every_page_of_the_lists_and_every_token_of_the_sequence_once(run):
    names = NAMES[: run.request.problem.num_seqs]
    made = ranges.stage_of(run, names, ["#000"] * len(names), (1, 0), Provenance("executed", ""))
    story, (*strips, (parts,), (bars,)) = walk(run, names, 1, 0), made.views[0].meta.lines
    for work_list, (strip,) in zip(story.lists, strips):
        pages = [span for span in strip.spans if "cell" in span.datum]
        assert [span.start for span in pages] == list(range(strip.length)) and strip.length == sum(work_list.pages)
        cut = [span for span in strip.spans if "range" in span.datum]
        assert [span.end - span.start for span in cut] == work_list.pages
        asked = [page for unit in story.units if unit["list"] == work_list.launch for page in unit["pages"]]
        mine = [span for span in pages if span.since is not None]
        assert [(span.texts[-1], span.since) for span in mine] == [(str(one["page"]), one["since"]) for one in asked]
        assert all("not brought yet" in span.early_tip and "brought in step" in span.tip for span in mine)
    for key in ("tile", "unit"):
        own = [(span.start, span.end) for span in parts.spans if key in span.datum]
        assert [own[0][0], *(end for _, end in own)] == [*(start for start, _ in own), len(story.scores)]
    for span, unit in zip((span for span in parts.spans if "unit" in span.datum), story.units):
        assert f"m = {short(unit['m'], 9)}, l = {short(unit['l'], 9)}" in span.tip and f"{unit['l']:.3g}" not in str(
            span.early
        )
    since = made.views[0].columns["since"]
    for tile in (tile for unit in story.units for tile in unit["tiles"]):
        assert (since[tile["first"] : tile["end"]] == tile["since"]).all()
        assert bars.framed[tile["since"]] == (tile["first"], tile["end"])


def test_tables_add_up_and_questions_are_of_the_lists_and_the_weights(run):
    names = NAMES[: run.request.problem.num_seqs]
    made, story = (
        ranges.stage_of(run, names, ["#000"] * len(names), (1, 0), Provenance("executed", "")),
        walk(run, names, 1, 0),
    )
    units, merge = (tab.blocks[0] for tab in made.tabs)
    amounts = [row[merge["columns"].index("l_i e^(m_i - m)")] for row in merge["rows"]]
    assert sum(amounts[:-1]) == pytest.approx(amounts[-1]) and amounts[-1] == pytest.approx(story.merged["l"], rel=1e-5)
    assert len(units["rows"]) == sum(len(whole.table) for whole in story.lists)
    assert sum(units["lit"]) == len(story.units)
    found = {question.id: question for question in made.questions}
    own = story.lists[-1]
    longest = max(
        sum(int(row[2]) for n, row in enumerate(own.table) if own.range_of[n] == r) for r in range(own.ranges)
    )
    if question := found.get("longest"):
        assert question.options[question.answer].split(" ")[0] == str(longest)
    if len(story.units) > 1:
        weights = logged(run, "weight", sequence=1, head=0).value
        assert found["weight"].answer == pytest.approx(weights.min(), rel=5e-3)
