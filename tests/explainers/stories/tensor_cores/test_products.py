"""Tensor cores, product by product: numbers as the trace has them, owners as PTX documents them."""

import re

import numpy as np
import pytest
from conftest import in_turn, small_tiles

from explainers.stories.tensor_cores import fragments, tensor_products
from explainers.stories.tensor_cores import story as page
from explainers.stories.tensor_cores.tensor_products import FORWARD, Product
from explainers.story import axes, encoding, picture, stage
from kernels.catalog import KERNELS, current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import execute
from kernels.trace.probes import sites_of

RUNGS = current().of_family("tensor_cores")
BY_WARP = ("06_mma", "07_swizzle", "08_pipeline")
BY_GROUP = tuple(name for name in RUNGS if name not in BY_WARP)
CASES = {
    "plain": (SixteenBitProblem(), 0),
    "causal bfloat16": (SixteenBitProblem(100, 128, causal=True, dtype="bfloat16"), 1),
    "grouped, other order, more keys": (
        SixteenBitProblem(37, num_heads=4, num_kv_heads=2, seq_len_kv=83, layout="bshd"),
        0,
    ),
}


def run_of(name, problem, scope=0, **settings):
    spec = KERNELS[name]
    chosen = spec.settings_for(problem, dict(small_tiles(name)) | settings)
    return execute.run(Request(spec, problem, tuple(chosen.items()), Scope(scope)))


@pytest.fixture(scope="module", params=in_turn(RUNGS, CASES))
def run(request):
    name, case = request.param
    problem, tile = CASES[case]
    return run_of(name, problem, tile if name in BY_WARP else 0)


@pytest.fixture(scope="module")
def story(run):
    return fragments.explain(run)


def every_sum(story):
    """The sums of all products, and the numbers due at their ends."""
    sums, _, _ = fragments.added_up(story, range(len(story.products)))
    return sums, np.where(np.isnan(sums.due), sums.logged, sums.due)


def logged(run, event, col):
    """(row, second key) -> (value, thread), as the trace's table has them; of o the last tile of each."""
    frame = run.trace.table.to_pandas()
    part = frame[frame.event == event]
    return {(int(r), int(c)): (v, int(t)) for r, c, v, t in zip(part.row, part[col], part.value, part.thread)}


def test_rungs_of_sixteen_bits_broken_builds_long_walks_and_one_query_are_told():
    taken = {name for name, spec in KERNELS.items() if page.STORY.accepts(spec)}
    backward = {name for name, spec in current().of_family("backward").items() if spec.rung > 3}
    assert {*RUNGS, *backward} <= taken and not taken & set(current().of_family("dense"))
    run = run_of("06_mma", SixteenBitProblem(64, num_heads=1, score_scale=5.0), RESCALE=0)
    made = page.stage_of(run, fragments.explain(run), stage.provenance(run), ("It is off.", "bad"))
    assert made.summary == "It is off." and made.tone == "bad"
    story = fragments.explain(run_of("07_swizzle", SixteenBitProblem(512, num_heads=1)))
    assert len(story.products) == tensor_products.MOST and story.left_out == 32 * 16 - tensor_products.MOST
    assert len(story.matrices["K"].value) == 16 * len({p.tile for p in story.products})
    for name in ("06_mma", "09_wgmma"):
        run = run_of(name, SixteenBitProblem(1, seq_len_kv=1))
        story = fragments.explain(run)
        assert story.products and not [q for q in page.questions(story) if q.id == "owner"]
        assert page.stage_of(run, story, stage.provenance(run)).frames


def test_what_is_added_up_ends_at_what_the_kernel_logged(run, story):
    """To the last bit: the CPU adds sixteen products and C up and rounds once, as the story says."""
    scores, seen = logged(run, "score", "col"), {"S": 0, "O": 0}
    sums, ends = every_sum(story)
    for product, (_, at, end) in zip(story.products, sums.places):
        if end < 0:
            continue
        wide = product.cols[1] - product.cols[0]
        for row in range(*product.rows)[:: 7 if wide > 8 else 5]:
            for col in range(*product.cols)[:: 13 if wide > 8 else 3]:
                n = (row - product.rows[0]) * wide + col - product.cols[0]
                after, due = sums.c[at + n], ends[end + n]
                if product.c == "S" and (row, col) in scores:
                    assert due == np.float32(story.scale) * after == sums.logged[end + n]
                    assert due == np.float32(scores[row, col][0])
                    seen["S"] += 1
                if product.c == "O":
                    tall = row - story.matrices["O"].row0
                    there = tall < story.after["O"].shape[1] and col < story.after["O"].shape[2]
                    due = story.after["O"][product.tile - story.first_tile, tall, col] if there else np.nan
                    if not np.isnan(due):
                        assert after == due == sums.logged[end + n]
                        seen["O"] += 1
    assert min(seen.values()) > 20


def test_every_score_weight_and_output_belongs_to_the_thread_that_logged_it(run, story):
    unit, operands = (128, "product") if run.request.kernel.name in BY_GROUP else (32, "ldmatrix")
    frame = run.trace.table.to_pandas()
    first = int(frame.thread[frame.event == operands].min()) // unit
    for name, event, col in (("S", "score", "col"), ("P", "p", "col"), ("O", "o", "dim")):
        m, found = story.matrices[name], 0
        for (row, column), (value, thread) in logged(run, event, col).items():
            at = row - m.row0, column - m.col0
            if thread // unit != first or not (0 <= at[1] < m.value.shape[1]):
                continue
            assert m.lane[at] == thread % unit
            if name == "S":
                assert m.value[at] == np.float32(value)
            found += 1
        assert found


def test_every_operand_is_the_input_at_the_address_that_is_told(run, story):
    """Followed backwards: the value at the element of global memory, and the bytes of shared memory, no two alike in a
    tile."""
    view = page.view(run, story)
    for place in "QKV":
        tensor, m = picture.tensor_at(run.request, place), story.matrices[place]
        base, row_step, dim_step, item = view.meta["bases"][place]
        flat = run.arrays[tensor.name].ravel().astype(np.float32)
        known = np.argwhere(m.byte >= 0)
        assert len(known) and item == 2
        for r, c in known[:: max(1, len(known) // 200)]:
            assert m.value[r, c] == flat[base + (m.row0 + r) * row_step + (m.col0 + c) * dim_step]
        tile = m.byte[: run.request.constants["BLOCK_KV"]]
        assert len(np.unique(tile[tile >= 0])) == (tile >= 0).sum()


# ---- the layouts that PTX documents ----


@pytest.mark.parametrize("name", BY_WARP)
def test_fragments_of_mma_m16n8k16_lie_as_ptx_has_them(name):
    """PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": groupID = lane >> 2, threadID = lane % 4.
    a_i: row groupID, + 8 for i 2, 3, 6, 7; col 2 threadID + (i & 1), + 8 from i 4 on. b_i: row 2 threadID + (i & 1), +
    8 from i 2 on; col groupID. c_i: row groupID, + 8 from i 2 on; col 2 threadID + (i & 1)."""
    story, seen = fragments.explain(run_of(name, SixteenBitProblem())), set()
    for product in story.products[:32]:
        seen.add(product.c)
        for part, (m, low, left, high, wide, turned) in page.parts_of(FORWARD[product.c], product).items():
            of = story.matrices[m]
            window = np.s_[low - of.row0 : low - of.row0 + high, left - of.col0 : left - of.col0 + wide]
            lane, register, half = (a[window].T if turned else a[window] for a in (of.lane, of.register, of.half))
            assert lane.shape == {"A": (16, 16), "B": (16, 8), "C": (16, 8)}[part]
            for (i, j), who in np.ndenumerate(lane):
                group, thread = who >> 2, who % 4
                if part == "A":
                    number = 2 * register[i, j] + half[i, j]
                    due = group + 8 * (number in (2, 3, 6, 7)), 2 * thread + (number & 1) + 8 * (number >= 4)
                elif part == "B":
                    number = 2 * register[i, j] + half[i, j]
                    due = 2 * thread + (number & 1) + 8 * (number >= 2), group
                else:
                    number = register[i, j]
                    due = group + 8 * (number >= 2), 2 * thread + (number & 1)
                assert (i, j) == due
    assert seen == {"S", "O"}


@pytest.mark.parametrize("name", BY_WARP)
def test_ldmatrix_hands_out_rows_as_ptx_has_them(name):
    """PTX ISA, ldmatrix: threads 8 i to 8 i + 7 address the rows of matrix i; thread T gets of row T / 4 the elements
    2 (T % 4) and the next, of the transposed matrix the column's."""
    run = run_of(name, SixteenBitProblem())
    story, lines = fragments.explain(run), dict(run.request.kernel.files)
    frame = run.trace.table.to_pandas()
    addressed = set(zip(*(frame[frame.event == "ldmatrix"][c] for c in ("tensor", "lane", "offset"))))
    for place, turned in (("Q", False), ("K", False), ("V", True)):
        m = story.matrices[place]
        for r, c in np.argwhere(m.fetch >= 0)[::7]:
            fetch = story.fetches[m.fetch[r, c]]
            file, line = fetch.place.rsplit(":", 1)
            assert ("ldmatrix_trans" in lines[file].splitlines()[int(line) - 1]) == turned == fetch.transposed
            in_matrix, column = m.by[r, c] % 8, (m.col0 + c) % 8
            expected = (column, in_matrix) if turned else (in_matrix, column)
            assert (m.lane[r, c] // 4, 2 * (m.lane[r, c] % 4) + m.half[r, c]) == expected
            assert (place, int(m.by[r, c]), int(m.byte[r, c] - 2 * column)) in addressed


@pytest.mark.parametrize("name", BY_GROUP)
def test_a_wgmma_has_c_in_registers_and_operands_swizzled_as_ptx_has_them(name):
    """PTX ISA, wgmma m64nNk16: D's row 16 warp + lane / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (lane % 4) + i % 2; A
    from registers as mma's; with the 128-byte swizzle bits 4 to 6 of an address are exclusive-ored with bits 7 to 9."""
    problem = SixteenBitProblem(128, 128)
    story = fragments.explain(run_of(name, problem))
    for matrix, wide in (("S", 64), ("O", 128)):
        m = story.matrices[matrix]
        for (r, c), lane in np.ndenumerate(m.lane):
            i, column = int(m.register[r, c]), c % wide
            assert r == 16 * (lane // 32) + lane % 32 // 4 + 8 * (i // 2 % 2)
            assert column == 8 * (i // 4) + 2 * (lane % 4) + i % 2
    p = story.matrices["P"]
    for (r, c), lane in np.ndenumerate(p.lane):
        number = 2 * p.register[r, c] + p.half[r, c]
        assert r % 16 == lane % 32 // 4 + 8 * (number in (2, 3, 6, 7)) and r // 16 == lane // 32
        assert c % 16 == 2 * (lane % 4) + (number & 1) + 8 * (number >= 4)
    for place, rows in (("K", 64), ("V", 64), ("Q", 64)):
        m = story.matrices[place]
        for (r, c), byte in np.ndenumerate(m.byte[:rows]):
            plain = c // 64 * rows * 128 + r * 128 + c % 64 * 2  # a panel of 64 dims after the other
            assert byte % (len(m.value[:rows]) * 256) == plain ^ (plain >> 7 & 7) << 4


def test_c_is_logged_in_the_order_of_its_registers_and_ldmatrix_waits_without_the_swizzle():
    """The order in which a lane logs what it holds is that of its registers; the story does not go by it."""
    for name in ("07_swizzle", "09_wgmma"):
        run = run_of(name, SixteenBitProblem(64))
        m = fragments.explain(run).matrices["S"]
        frame = run.trace.table.to_pandas()
        part = frame[(frame.event == "score") & (frame.thread == 5)].sort_values("seq")
        size = run.request.constants["BLOCK_KV"]
        for first in range(0, 64, size):
            mine = part[(part.col >= first) & (part.col < first + size)]
            held = [int(m.register[int(r) - m.row0, int(c) - m.col0]) for r, c in zip(mine.row, mine.col)]
            assert held == (list(range(len(held))) if name == "09_wgmma" else [0, 1, 2, 3] * (len(held) // 4))
    cost = {}
    for swizzle in (1, 0):
        story = fragments.explain(run_of("07_swizzle", SixteenBitProblem(32), SWIZZLE=swizzle))
        cost[swizzle] = {f.wavefronts for f in story.fetches}
        assert {f.ideal for f in story.fetches} == {4}
    assert cost == {1: {4}, 0: {32}}


# ---- what-ifs, and what is shown ----


def test_sums_of_16_bits_are_followed_too():
    run = run_of("06_mma", SixteenBitProblem(48), SUM_BITS=16)
    story, scores = fragments.explain(run), logged(run, "score", "col")
    sums, ends = every_sum(story)
    for product, (_, at, end) in zip(story.products, sums.places):
        for row, col in ((0, 0), (9, 3)) if product.c == "S" and end >= 0 else ():
            after, due = sums.c[at + 8 * row + col], ends[end + 8 * row + col]
            assert due == np.float32(scores[product.rows[0] + row, product.cols[0] + col][0])
            assert after == np.float16(after)


def test_each_sum_and_its_error_are_those_of_float64(story):
    """One element of each part, from the operands, term by term."""
    exact, (sums, _) = {}, every_sum(story)
    for product, (before, after, end) in zip(story.products, sums.places):
        kind = story.kinds[product.c]
        row, col = product.rows[0], product.cols[0]
        terms = []
        for n in range(*product.k):
            pair = []
            for letter, at in (("A", (row, n)), ("B", (n, col))):
                m = story.matrices[kind.name(letter)]
                r, c = at[::-1] if letter in kind.turned else at
                inside = r - m.row0 < len(m.value) and c - m.col0 < m.value.shape[1]
                value = float(m.value[r - m.row0, c - m.col0]) if inside else 0.0
                pair.append(0.0 if np.isnan(value) else value)
            terms.append(pair[0] * pair[1])
        start = 0.0 if before < 0 else float(sums.c[before])
        assert sums.c[after] == np.float32(start + sum(terms))
        exact[product.part] = exact.get(product.part, start) + sum(terms)
        if end >= 0 and np.isfinite(sums.logged[end]):
            due = float(sums.logged[end]) - exact[product.part] * (story.scale if kind.scaled else 1)
            assert sums.error[end] == pytest.approx(due, abs=1e-12)


@pytest.mark.parametrize(("name", "broken"), [("08_pipeline", "WAIT"), ("10_warp_roles", "V_STRIDE")])
def test_a_build_that_multiplies_something_else_is_warned_of(name, broken):
    """Its addresses say one thing, its sums another: the picture must not be believed."""
    wrong = next(c for c in KERNELS[name].constants if c.name == broken)
    problem = SixteenBitProblem(100, num_heads=1)
    for value, warned in ((wrong.default, False), (next(v for v in wrong.values if v != wrong.default), True)):
        run = run_of(name, problem, **{broken: value})
        story = fragments.explain(run)
        made = page.stage_of(run, story, stage.provenance(run))
        assert bool(story.wrong) == warned
        assert any("logged something else" in said for said in made.provenance.warnings) == warned


def test_another_warp_a_later_key_tile_and_zeros_past_the_last_key_are_told():
    run = run_of("06_mma", SixteenBitProblem(128, num_heads=1), BLOCK_Q=64)
    assert tensor_products.units(run.request) == ("warp", 2) and fragments.key_tiles(run.request) == 8
    story = fragments.explain(run, 1, 5)
    assert (story.unit, story.first_tile) == (1, 5)
    assert {p.rows for p in story.products} == {(32, 48), (48, 64)} and {p.tile for p in story.products} == {5, 6, 7}
    assert story.left_out == len(fragments.explain(run, 1).products) - len(story.products) > 0
    with pytest.raises(ProblemError, match="key_tile is 8. This query tile has 8 key tiles, counted from 0"):
        fragments.explain(run, 0, 8)
    with pytest.raises(ProblemError, match="warp is 2. This block has products in 2 warps, counted from 0"):
        fragments.explain(run, 2)
    story = fragments.explain(run_of("06_mma", SixteenBitProblem(37, num_heads=1, seq_len_kv=83), scope=2))
    told = [frame["sentence"] for frame in story.frames if "do not exist" in frame["sentence"]]
    assert any("Rows 37 to 47 do not exist and count as zeros." in said for said in told)
    assert any("Keys 83 to 95 do not exist" in said for said in told)
    whole = fragments.explain(run_of("06_mma", SixteenBitProblem(64, num_heads=1)))
    assert not any("do not exist" in frame["sentence"] for frame in whole.frames)


def test_the_stage_and_its_questions(run, story):
    made = encoding.decode(encoding.encode(page.stage_of(run, story, stage.provenance(run))))
    sites = {site.place for site in sites_of(run.request)}
    assert len(made["frames"]) == len(story.steps) <= 12 and all(set(f["lines"]) & sites for f in made["frames"])
    passed = [re.search(r"Since the last step, (\d+) product", f["sentence"]) for f in made["frames"]]
    assert sum(int(one[1]) for one in passed if one) + len(story.steps) == len(story.products)
    lines = {line for frame in made["frames"] for line in frame["lines"]}
    assert lines == {line for product in story.products for line in product.lines}
    owner = next(q for q in made["questions"] if q["id"] == "owner")
    row, col = map(int, re.search(r"S\[(\d+), (\d+)\]\?$", owner["text"]).groups())
    assert owner["options"][owner["answer"]] == f"lane {logged(run, 'score', 'col')[row, col][1] % 32}"
    fetch = [q for q in made["questions"] if q["id"] == "fetch"]
    assert bool(fetch) == (run.request.kernel.name in BY_WARP)
    if fetch:
        cost = story.fetches[story.products[0].b]
        due = "One after the other" if cost.wavefronts > cost.ideal else "All eight at once"
        assert fetch[0]["options"][fetch[0]["answer"]] == due and f"{cost.ideal} is the least" in fetch[0]["why"]
    for question in made["questions"]:
        assert len(question["reasons"]) == len(question["options"])
        assert [bool(said) for said in question["reasons"]].count(False) == 1
        assert not question["reasons"][question["answer"]]
    assert not page.layout_table(story).empty
    assert sum(page.fetches_table(story).get("ldmatrix", [])) == len(story.fetches)


def test_a_row_of_c_is_spread_over_the_lanes_that_logged_it(run, story):
    spread = next(q for q in page.questions(story) if q.id == "spread")
    row = int(re.search(r"row (\d+) of the scores C\?$", spread.text)[1])
    left, right = story.products[0].cols
    lanes = [lane % 32 for (r, c), (_, lane) in logged(run, "score", "col").items() if r == row and left <= c < right]
    words = page.SPOKEN
    each = len(lanes) // len(set(lanes))
    due = f"{words[len(set(lanes))].capitalize()} lanes, {words[each] if each < len(words) else each} scores each"
    assert spread.options[spread.answer] == due and f"Lanes {min(lanes)} to {max(lanes)} hold row {row}." in spread.why
    assert spread.covers == [{"part": "C"}] and spread.shows == {
        "part": "C",
        "i": row - story.products[0].rows[0],
        "j": 0,
    }


def test_questions_sentences_factors_and_bases_are_those_of_the_story(story, run):
    owner = next(q for q in page.questions(story) if q.id == "owner")
    row, col = map(int, re.search(r"S\[(\d+), (\d+)\]\?$", owner.text).groups())
    first = story.products[0]
    assert owner.shows == {"part": "C", "i": row - first.rows[0], "j": col - first.cols[0]}
    (cover,) = owner.covers
    assert cover["i"] == owner.shows["i"] and cover["j"][0] <= owner.shows["j"] <= cover["j"][1]
    asked = [q for q in page.questions(story) if q.id == "swizzle"]
    clash = first.b >= 0 and story.fetches[first.b].wavefronts > story.fetches[first.b].ideal
    assert bool(asked) == clash
    if clash:
        starts = {int(story.matrices["K"].byte[row, 0]) // 4 % 32 for row in range(page.ROWS)}
        assert len(starts) == 1 and asked[0].options[asked[0].answer].startswith("Another order")
        assert {4 * (0 ^ row) for row in range(page.ROWS)} == set(range(0, 32, 4))
    for frame in story.frames:
        for said in re.split(r"(?<=\.) ", frame["sentence"]):
            assert len(said.split()) <= 25, said
    head, _, _ = picture.query_rows(run.request)
    for place in "QKV":
        tensor = picture.tensor_at(run.request, place)
        heads = axes.heads(picture.tensor_at(run.request, "O"))
        flat = np.arange(np.prod(tensor.shape)).reshape(tensor.shape)
        due = axes.matrix(tensor, flat, head, heads)
        base, row_step, dim_step, _ = page.view(run, story).meta["bases"][place]
        assert (due[0, 0], due[1, 0] - due[0, 0], due[0, 1] - due[0, 0]) == (base, row_step, dim_step)


# ---- the pieces of an ldmatrix ----


def story_of(name):
    spec, problem = KERNELS[name], SixteenBitProblem()
    chosen = spec.settings_for(problem, dict(small_tiles(name)))
    return fragments.explain(execute.run(Request(spec, problem, tuple(chosen.items()), Scope(0))))


@pytest.mark.parametrize(("name", "own"), [("06_mma", "In order"), ("07_swizzle", "Swizzled")])
def test_the_own_order_is_the_trace_s_and_its_turns_are_the_wavefronts(name, own):
    story = story_of(name)
    (view,) = page.pieces(story)
    cells, turns = view.meta.lines
    (mine,) = [n for n, one in enumerate(cells) if one.title[0][1] == f"{own}, as in this run"]
    first, k = story.products[0], story.matrices["K"]
    for r in range(8):
        due = [int(k.byte[first.cols[0] - k.row0 + r, 8 * p]) % 128 // 16 for p in range(8)]
        shown = [int(text) for text in cells[mine].texts[8 * r : 8 * r + 8]]
        assert [shown.index(p) for p in range(8)] == due
    fetch = story.fetches[first.b]
    own_turns = turns[mine].lines[0].texts[0]
    assert own_turns.endswith(f"{fetch.wavefronts // fetch.ideal} turn{'s' * (fetch.wavefronts > fetch.ideal)}")
    assert all(one.states[0].count("t") == 8 for one in cells)


def test_the_questions_on_banks_cover_their_answer_and_a_warpgroups_product_has_no_picture_of_them():
    asked = {q.id: q for q in page.questions(story_of("06_mma"))}
    assert {asked["fetch"].view, asked["swizzle"].view} == {"pieces"}
    assert {"part": "Swizzled"} in asked["fetch"].covers and {"turns": 1} in asked["fetch"].covers
    assert asked["swizzle"].covers == [{"part": "Swizzled"}, {"side": 1}]
    story = story_of("09_wgmma")
    assert page.pieces(story) == [] and np.all([p.b < 0 for p in story.products])


def test_a_picture_has_whole_tiles_as_far_as_its_numbers_go():
    """A tile of a warpgroup with heads of 128: 16 products of 64 x 128 numbers each."""
    every = [Product("S", tile, (0, 64), (0, 128), (k, k + 16), ()) for tile in range(9) for k in range(0, 256, 16)]
    shown = tensor_products.of_whole_tiles(every, range(9))
    assert [p.tile for p in shown] == [tile for tile in (0, 1) for _ in range(16)]
    assert tensor_products.of_whole_tiles(every[:1] * 400, [0]) == every[:1] * 400  # the first tile in any case
