"""Pipeline: bars, steps and sentences are those of the marks. Times are made up here: what a GPU notes is looked at by
test_timing_on_gpu.py."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from pages import open_page, page_of

from app.choices.links import read_link
from app.choices.page import Page
from app.course import stops
from app.stories import pipeline as page
from explainers.stories.pipeline import marks, schedule
from explainers.stories.pipeline import story as shown_pipelines
from explainers.stories.pipeline.marks import COPIES
from explainers.story import encoding, stage
from explainers.story.glossary import figure
from kernels.build import Mode, builds
from kernels.catalog import KERNELS, current
from kernels.core.request import Request
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import pipeline_bars, pipelines
from kernels.recordings import tables
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.results import Marked

COST = {"scores": 120, "softmax": 900, "output": 150, "tile_begin": 30, "wait_q": 500}  # cycles of each step


def made_up(name, problem=SixteenBitProblem(300, num_heads=1)):  # noqa: B008 - problems do not change
    """Every mark takes its COST, 50 cycles without one; 2 cycles are a nanosecond."""
    spec = KERNELS[name]
    request = Request(spec, problem, tuple(spec.settings_for(problem).items()))
    build, plan, arrays = execute.prepare(request, Mode.MARKS)
    every = builds.mark_every(spec)
    words = {site.word: site.event for site in pipelines.sites_of(request)}
    timed = []
    for found in cpu.launch_marks(build, plan, arrays, every, 512):
        records, clocks = found.records.copy(), found.clocks.copy()
        for slot, n in enumerate(found.counts):
            costs = [COST.get(words[int(word)], 50) for word in records["site"][slot, :n]]
            starts = 1000 + np.concatenate([[0], np.cumsum(costs)])
            records["clock"][slot, :n] = starts[:-1]
            clocks[slot] = (1000, starts[-1], 500, starts[-1] // 2, slot // found.writers)
        timed.append(Marked(found.launch, found.writers, records, found.counts, clocks))
    return pipelines.read(request, timed, every, 1.03, 1.0, "made up", "2026-11-23")


@pytest.fixture(scope="module")
def overlap():
    return made_up("11_overlap")


@pytest.fixture(scope="module")
def long():
    return marks.explain(page.of("11_overlap")[0].load())


@pytest.fixture(scope="module")
def story(overlap):
    return marks.explain(overlap)


def test_the_steps_are_the_key_tiles_of_the_first_that_computes_with_their_times(overlap, story):
    mine = story.bars[story.bars.writer == story.leader]
    assert story.leader == 1 and mine.role.iloc[-1] == "consumer"
    begins = mine[mine.event.isin(["tile_begin", "write"])]
    queries = (mine.event == "write").sum()
    titles, query = ["Before the first tile"], 0
    for bar in begins.itertuples():
        query += bar.event == "tile_begin" and bar.tile == 0
        of = f"Query tile {query}: " if queries > 1 else ""
        what = f"{'k' if of else 'K'}ey tile {bar.tile}" if bar.event == "tile_begin" else f"{'w' if of else 'W'}rite O"
        titles.append(of + what)
    assert [step["title"] for step in story.steps] == titles and story.all_steps == len(titles) <= marks.MOST_STEPS
    spans = [step["span"] for step in story.steps]
    assert [a for a, _ in spans[1:]] == list(begins.start_ns) and [b for _, b in spans[:-1]] == [
        a for a, _ in spans[1:]
    ]
    assert spans[0][0] == 0 and spans[-1][1] == mine.end_ns.max()
    frames = shown_pipelines.stage_of([story]).frames
    frame, (start, end) = frames[1], spans[1]
    assert frame["sentence"].startswith(f"Key tile 0: warpgroup 1 takes {end - start:.3g} ns.")
    assert all(len(said.split()) <= 25 for f in frames for said in re.split(r"(?<=\.) ", f["sentence"]))
    inside = story.bars[(story.bars.start_ns < end) & (story.bars.end_ns > start)]
    assert frame["lines"] == inside.place.value_counts().to_dict()


def test_the_picture_has_every_bar_in_sight_and_what_is_in_flight(overlap, story):
    (panel,) = shown_pipelines.picture([story]).meta.lines[0]
    names = [lane.name for lane in panel.rows]
    flying = [f"{what} in flight" for what in ("Scores", "Output")]
    assert names == ["warpgroup 0, producer", "warpgroup 1, consumer", *flying, "warpgroup 2, consumer", *flying]
    assert story.all_steps == len(story.steps)  # so all bars are in sight
    plain = [span for span in panel.spans if not panel.rows[span.row].thin]
    assert len(plain) == len(story.bars) and len(panel.spans) - len(plain) == len(story.flight)
    for row, lane in enumerate(panel.rows):
        own = [(span.start, span.end) for span in panel.spans if span.row == row]
        assert own == sorted(own) and (lane.thin or all(a[1] == b[0] for a, b in zip(own, own[1:])))
    kinds = {span.datum["event"]: span.datum["kind"] for span in plain}
    assert kinds["scores"] == "S" and kinds["softmax"] == "P" and kinds["wait_q"] == "wait"
    assert kinds["prefetch_tile"] == "K" and kinds["load_q"] == "Q" and kinds["write"] == "other"
    assert {span.datum["event"] for span in plain if span.hatch} == {e for e, kind in kinds.items() if kind == "wait"}
    bar = story.bars[(story.bars.writer == 1) & (story.bars.event == "softmax")].iloc[0]
    (tip,) = (span.tip for span in plain if (span.row, span.start) == (1, bar.start_ns))
    cycles = (bar.end_ns - bar.start_ns) * overlap.mhz / 1000
    assert tip.split("\n") == [
        "11_overlap, warpgroup 1, consumer",
        f"Online softmax, key tile {bar.tile}",
        f"{bar.end_ns - bar.start_ns:,.0f} ns, {cycles:,.0f} cycles, from {bar.start_ns:,.0f} ns on",
    ]


def test_an_arrow_leads_from_where_a_tile_s_copy_began_to_its_scores(story):
    producer = story.bars[(story.bars.writer == 0) & (story.bars.event == "prefetch_tile")]
    tiles = [n for n, step in enumerate(story.steps) if "ey tile" in step["title"]]
    scores = story.bars[(story.bars.writer == story.leader) & (story.bars.event == "scores")]
    frames, (panel,) = shown_pipelines.stage_of([story]).frames, shown_pipelines.picture([story]).meta.lines[0]
    links = {link.now[0]: link for link in panel.links}
    assert len(tiles) == len(producer) <= len(scores) and len(tiles) / 2 < len(links) <= len(tiles)
    for n, copy, score in zip(tiles, producer.itertuples(), scores.itertuples()):
        assert frames[n]["title"].endswith(f"ey tile {copy.tile}") and copy.tile == score.tile
        assert (n in links) == (copy.end_ns < score.start_ns)  # in these made-up times, some are later
        if n in links:
            assert (links[n].start, links[n].end) == ((0, copy.end_ns), (1, score.start_ns))
            ahead = figure(score.start_ns - copy.end_ns, 3)
            assert f"The copy of its keys had started {ahead} ns before its scores." in frames[n]["sentence"]


def test_a_producer_s_long_turn_starts_with_a_wait(long):
    own = long.bars[long.bars.writer == 0]
    drawn = marks.with_waits(own)
    turns, copies, waits = (f[f.event == e] for f, e in
        ((own, "prefetch_tile"), (drawn, "prefetch_tile"), (drawn, marks.WAIT)))  # fmt: skip
    least = (turns.end_ns - turns.start_ns).min()
    assert (copies.end_ns - copies.start_ns).to_numpy() == pytest.approx(least) and len(copies) == len(turns)
    assert waits.end_ns.isin(drawn[drawn.event != marks.WAIT].start_ns).all() and len(waits) >= len(turns) - 2
    whole = (drawn.end_ns - drawn.start_ns).sum()
    assert whole == pytest.approx((own.end_ns - own.start_ns).sum())
    assert marks.with_waits(other := long.bars[long.bars.writer == 1]) is other


def test_the_whole_grid_has_every_block_of_the_marks_build(overlap, story):
    drawn = shown_pipelines.whole_grid(story, named=False)
    spans = overlap.writers.groupby("block").agg(sm=("sm", "first"), start=("start_ns", "min"), end=("end_ns", "max"))
    found = dict(zip(drawn.columns["block"].astype(int), zip(*(drawn.columns[n] for n in ("sm", "start", "end")))))
    assert set(found) == set(spans.index)
    for block, row in spans.iterrows():
        assert found[block] == pytest.approx((row.sm, row.start / 1e3, row.end / 1e3), rel=1e-5)
    (launch,) = drawn.meta["launches"]
    assert launch["item"] == "" and launch["cols"] == len(spans)  # its blocks take query tiles as they come
    assert "query tile" not in drawn.meta["frames"][0]["sentence"]
    assert (
        shown_pipelines.whole_grid(marks.explain(made_up("08_pipeline")), False).meta["launches"][0]["item"]
        == "query tile"
    )


def test_what_products_need_of_the_tensor_cores(overlap, story):
    constants, products = overlap.request.constants, story.bars.event.isin(["scores", "output"]).sum()
    flops = 2 * 64 * constants["BLOCK_KV"] * 64 * products
    cycles = (overlap.writers[overlap.writers.block == 0].end_ns.max()) * overlap.mhz / 1e3
    share = flops / 4096 / cycles
    assert pipeline_bars.multiplying(overlap, 0) == pytest.approx(share) and pipeline_bars.resident(overlap, 0) == 1.0
    summary = shown_pipelines.stage_of([story]).summary
    assert f"The tensor cores work for this block at least {share:.0%} of the time." in summary
    at_work, in_flight, _ = marks.WORDS.parts("shares", shown_pipelines.data_of(story))
    assert f"This share is {share * (1 + overlap.overhead):.1%} without the cost of the marks." in at_work
    assert f"for {pipeline_bars.fed(overlap, 0):.1%} of the time" in in_flight
    assert (
        pipeline_bars.multiplying(
            replace(overlap, request=Request(KERNELS["03_flash"], KERNELS["03_flash"].problem_type())), 0
        )
        is None
    )


def test_two_kernels_are_on_one_scale_and_the_strip_and_the_table_have_the_marks_numbers(overlap, story):
    beneath = marks.explain(made_up("08_pipeline"))
    assert beneath.made.noun == "warp" and beneath.flight.empty
    made = shown_pipelines.stage_of([story, beneath])
    (panel,) = made.views[0].meta.lines[0]
    assert {lane.datum["kernel"] for lane in panel.rows} == {"11_overlap", "08_pipeline"}
    assert made.frames == shown_pipelines.stage_of([story]).frames
    assert "11_overlap: block 0" in made.summary and "08_pipeline" in made.summary
    assert f"Measuring made this run {overlap.overhead:.1%} slower." in made.provenance.said
    faster = shown_pipelines.stage_of([marks.explain(replace(overlap, marks_ms=0.9))])
    assert "is 10.0% faster: it is another build" in faster.provenance.said
    begins, lasts, flight = made.state
    assert lasts.values[1] == round(story.steps[1]["span"][1] - story.steps[1]["span"][0])
    assert begins.values[0] == 0 and flight.values[2].endswith("%")
    table = shown_pipelines.shares_table(story)
    assert table.bars.sum() == (story.bars.event != story.bars.role).sum()
    assert {"Online softmax", "Scores"} <= set(table["at"])


# ---- the page, of made-up recordings ----


@pytest.fixture
def recorded(tmp_path, monkeypatch, overlap):
    page_of("pipeline")  # with every kernel: the page is kept for a catalogue
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    for made in (overlap, made_up("10_warp_roles")):
        request = replace(made.request, backend="gpu")
        path = tmp_path / "pipelines" / f"{request.kernel.name}.parquet"
        pipelines.RECORDINGS.save(replace(made, request=request), path)
    monkeypatch.setattr(page, "recorded", lambda: tuple(pipelines.recorded()))
    shown_pipelines.load.cache_clear()
    chosen = {"kernel": "11_overlap", "recorded": 0, "block": 0, "beneath": page.ALONE, "backend": "recorded"}
    return chosen | {"trace_file": "", "trace_block": 0}


def test_the_page_shows_a_recording_alone_and_with_another_beneath_and_tells_a_missing_block(recorded):
    alone = page.STORY.make(page.subject(page_of("pipeline"), recorded, "recorded"))
    assert alone.provenance.label == "recorded" and "made up, 2026-11-23" in alone.provenance.said
    assert page.possible_beneath(page_of("pipeline"), recorded) == [page.ALONE, "10_warp_roles"]
    both = page.STORY.make(page.subject(page_of("pipeline"), {**recorded, "beneath": "10_warp_roles"}, "recorded"))
    assert len(both.views[0].meta.lines[0][0].rows) > len(alone.views[0].meta.lines[0][0].rows)
    assert both.frames == alone.frames
    look = page.subject(page_of("pipeline"), recorded, "recorded")
    assert json.dumps(stage.plain(page.STORY.parts["shares"](look)))
    high = page.chosen(recorded).said["blocks"] - 1
    state = {**recorded, "block": high + 5, "recorded": 3}
    moved = dict(page.correct(Page(current(), {"11_overlap": KERNELS["11_overlap"]}), state))
    assert state["block"] == 0 and state["recorded"] == ""
    assert (
        f"The recording has blocks 0 to {high}." in moved["block"]
        and "The last of 11_overlap is 0" in moved["recorded"]
    )


def test_where_a_gpu_is_the_chosen_problem_is_measured(recorded, overlap, monkeypatch):
    state, _ = read_link(
        page_of("pipeline"), {"kernel": "11_overlap", "seq_len": "300", "num_heads": "1", "beneath": "10_warp_roles"}
    )
    assert not page.live(state)  # no GPU is here
    monkeypatch.setattr(page.workers, "survey", lambda: SimpleNamespace(devices={"gpu": object()}))
    look = page.subject(page_of("pipeline"), state, "gpu")
    assert [r.kernel.name for r in look.requests] == ["11_overlap", "10_warp_roles"]
    assert {(r.backend, r.problem.seq_len) for r in look.requests} == {("gpu", 300)}
    assert page.last_block(page_of("pipeline"), state) == look.requests[0].plan.launches[0].blocks - 1
    beneath = page.possible_beneath(page_of("pipeline"), state)
    assert {"06_mma", "12_optimistic"} <= set(beneath) and "03_flash" not in beneath and "11_overlap" not in beneath
    told = page.describe(page_of("pipeline"), state)
    assert told["recorded"]["hidden"] and "seq_len" not in told
    asked = []
    monkeypatch.setattr(
        shown_pipelines, "made_here", lambda request: asked.append(request) or replace(overlap, request=request)
    )
    made = page.STORY.make(look)
    assert asked == list(look.requests) and made.provenance.label == "measured"
    assert [v.meta["said"].split(" on ")[0] for v in made.views if v.kind == "grid"] == ["Measured", "Measured"]
    page.STORY.parts["shares"](look)
    assert len(asked) == 2  # what a tab shows is not measured again
    state |= {"backend": "recorded"}
    assert page.subject(page_of("pipeline"), state, "recorded").requests[
        0
    ].backend == "recorded" and "seq_len" in page.describe(page_of("pipeline"), state)


# ---- two warpgroups ----


def test_the_overlap_of_two_warpgroups_is_the_marks_and_each_step_has_the_partners_work(story):
    """Counted in steps of a nanosecond."""
    at = np.arange(0, story.bars.end_ns.max(), 1.0) + 0.5

    def inside(writer, events):
        mine = story.bars[(story.bars.writer == writer) & story.bars.event.isin(events)]
        return np.logical_or.reduce([(mine_.start_ns <= at) & (at < mine_.end_ns) for mine_ in mine.itertuples()])

    softmax = inside(1, ["softmax"])
    shares = marks.during_softmax(story.bars, 1)
    assert shares["products"] == pytest.approx(inside(2, ["scores", "output"])[softmax].mean(), abs=0.01)
    assert shares["softmax"] == pytest.approx(inside(2, ["softmax"])[softmax].mean(), abs=0.01)
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    made = shown_pipelines.stage_of([story])
    assert f"multiplies for {shares['products']:.0%} of the time" in made.summary
    *_, said = marks.WORDS.parts("shares", shown_pipelines.data_of(story))
    assert f"{shares['products']:.1%}" in said and f"in its own softmax for {shares['softmax']:.1%}." in said
    start, end = story.steps[3]["span"]
    mine = marks.softmax_of(story.bars, 1)
    (span,) = mine[(mine.start_ns >= start) & (mine.start_ns < end)].itertuples()
    ns = 0.0
    for bar in story.bars[(story.bars.writer == 2) & story.bars.event.isin(["scores", "output"])].itertuples():
        ns += max(0.0, min(bar.end_ns, span.end_ns) - max(bar.start_ns, span.start_ns))
    whole = figure(span.end_ns - span.start_ns, 3)
    assert f"warpgroup 2 multiplies for {figure(ns, 3)} of {whole} ns." in made.frames[3]["sentence"]


def test_the_modelled_schedules():
    """Two warpgroups, products of 100 ns, softmax of 300 ns."""
    model = schedule.Model(2, 100.0, 300.0)
    apart, plain, turns = model.without_turns(), model.in_turns(), model.with_turns()
    assert schedule.period(apart) == 2 * 2 * 100 + 300 and schedule.period(turns) == 4 * 100
    assert schedule.period(plain) == 2 * 100 + 300  # a warpgroup waits for each of its products
    for bars in (apart, plain, turns):
        cores = sorted((b for b in bars if b.row == 2), key=lambda bar: bar.start)
        assert all(a.end <= b.start for a, b in zip(cores, cores[1:]))  # one product, or one of all, at a time
        for row in (0, 1):
            softmax = {b.tile: b for b in bars if b.row == row and b.kind == "softmax"}
            assert len(softmax) == schedule.TILES and all(b.end - b.start == 300 for b in softmax.values())
    cores = [b for b in apart if b.row == 2]
    idle = [b.start - a.end for a, b in zip(cores, cores[1:])]
    assert sum(idle) == pytest.approx(300 * schedule.TILES)  # each softmax of all leaves them without work
    settled = min(b.start for b in turns if b.row == 2 and b.kind == "S" and b.tile == schedule.SETTLED)
    later = sorted((b for b in turns if b.row == 2 and b.start >= settled), key=lambda bar: bar.start)
    assert all(b.start == a.end for a, b in zip(later, later[1:]))  # without a gap
    outputs = {(b.tile, b.start) for b in turns if b.row == 2 and b.kind == "O"}
    softmax = [b for b in turns if b.row == 0 and b.kind == "softmax" and b.tile]
    assert all(any(t == b.tile - 1 and b.start <= at < b.end for t, at in outputs) for b in softmax)


def test_the_schedule_has_the_models_and_the_marks(overlap, story):
    turns, shown = (view.meta.lines[0][0] for view in schedule.views(story))
    named = [(view.id, view.title) for view in schedule.views(story)]
    assert named == [("schedule", "Idea and run"), ("own_output", "Its own output")]
    assert [group.title for group in turns.groups] == [
        "Without turns (modelled)",
        "In turns (modelled)",
        "This run (recorded)",
    ]
    assert [group.title for group in shown.groups][:2] == [
        "In turns (modelled)",
        "Own output, too, as this kernel (modelled)",
    ]
    mine = [span for span in shown.spans if span.datum["panel"] == 2 and span.datum["row"] == 1]
    due = story.bars[(story.bars.writer == 2) & (story.bars.event == "softmax")]
    assert [(span.start, span.end) for span in mine if span.colour == "P"] == [*zip(due.start_ns, due.end_ns)]
    assert shown.groups[2].begins == [step["span"][0] for step in story.steps]
    rests = {group.title: set(group.said) for group in turns.groups}
    assert rests["Without turns (modelled)"] == {"the tensor cores are at rest"}
    assert rests["In turns (modelled)"] == rests["This run (recorded)"] == set()
    assert schedule.views(marks.explain(made_up("08_pipeline"))) == []
    other = schedule.views(marks.explain(made_up("10_warp_roles")))[0].meta.lines[0][0]
    assert other.groups[0].title == "Without turns, as this kernel (modelled)"


def right(question):
    assert len(question.reasons) == len(question.options) and not question.reasons[question.answer]
    assert all(reason for n, reason in enumerate(question.reasons) if n != question.answer)
    return question.options[question.answer]


def test_every_stop_of_the_course_has_its_questions_and_at_most_20_steps():
    """Each on the recording that its page opens with."""
    for stop in (stop for stop in stops() if stop.story == "pipeline"):
        made = open_page("pipeline?" + "&".join(f"{k}={v}" for k, v in stop.choices.items())).stage
        assert set(stop.questions) <= {question["id"] for question in made.questions}, stop.name
        assert stop.picture in {view["id"] for view in made.views} and len(made.frames) <= 20


def entries():
    """Every recorded pipeline. Without -m slow, the last of each second kernel."""
    last = {entry.request.kernel.name: entry for entry in page.recorded()}
    asked = [*last.values()][::-2]
    for entry in page.recorded():
        name = entry.request.kernel.name
        marks = [] if any(entry is one for one in asked) else pytest.mark.slow
        yield pytest.param(entry, id=f"{name}-{entry.request.problem.size}", marks=marks)


@pytest.mark.parametrize("entry", list(entries()))
def test_every_recorded_pipeline_has_its_steps(entry):
    """Every step begins where the one before ends, and the steps are the leader's whole life."""
    made = entry.load()
    found = marks.explain(made)
    mine = found.bars[found.bars.writer == found.leader]
    steps = marks.steps_of(made, found.bars, found.leader, found.words)
    spans, titles = ([step[name] for step in steps] for name in ("span", "title"))
    assert [a for a, _ in spans[1:]] == [b for _, b in spans[:-1]]
    assert spans[0][0] == mine.start_ns.iloc[0] and spans[-1][1] == mine.end_ns.iloc[-1]
    tiles = mine.event.isin(["tile_begin", "write"]).sum() if (mine.event == "tile_begin").any() else 0
    loops_over_queries = entry.request.problem.gradients
    assert loops_over_queries or "Query tile 0" not in titles[1 % len(spans)]
    if loops_over_queries:  # of one head
        assert len(set(titles)) == len(titles) and not any("ead " in title for title in titles)
    assert len(spans) in ((tiles, tiles + 1) if tiles else (len(mine),))
    assert len(found.steps) <= marks.MOST_STEPS and found.steps[0] == steps[0] and found.steps[-1] == steps[-1]
    stage_ = shown_pipelines.stage_of([found])
    assert all(frame["sentence"].startswith(f"{frame['title']}: ") for frame in stage_.frames)
    assert encoding.encode(stage_) and all(right(question) for question in stage_.questions)
    (panel,) = stage_.views[0].meta.lines[0]
    for step, begin in zip(found.steps, panel.groups[0].begins):  # a window has the whole step
        assert begin <= step["span"][0] and step["span"][1] <= begin + panel.length + 1e-6


def test_one_warp_of_the_kernel_before_is_shown_on_the_same_scale():
    now, then = (marks.explain(page.of(name)[0].load()) for name in ("08_pipeline", "07_swizzle"))
    made = shown_pipelines.stage_of([now, then])
    (panel,) = next(view for view in made.views if view.id == shown_pipelines.BEFORE).meta.lines[0]
    assert [(group.title, group.note) for group in panel.groups] == [
        ("Before: 07_swizzle", "32 keys a tile"),
        ("Now: 08_pipeline", "64 keys a tile"),
    ]
    for row, story in enumerate((then, now)):
        mine = [span.start for span in panel.spans if span.row == row]
        due = story.bars[story.bars.writer == story.leader].start_ns
        assert len(mine) > 20 and mine == sorted(mine) and set(mine) <= set(due)
    copying = [s.bars[(s.bars.writer == s.leader) & s.bars.event.isin(COPIES)] for s in (then, now)]
    each = [float((bars.end_ns - bars.start_ns).median()) for bars in copying]
    keys = [s.made.request.value_of("key_rows") for s in (then, now)]
    assert f"spends {figure(each[0] * keys[1] / keys[0], 3)} ns on copies" in made.summary


# ---- the backward: a block keeps keys and walks over query tiles ----

WALKS = {
    "each head from its first tile": ([0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2]),
    "each tile for all heads": ([2, 2, 1, 1, 0, 0], [1, 2, 1, 2, 1, 2]),
    "one head from its last tile": ([2, 1, 0], [1, 1, 1]),
}


@pytest.mark.parametrize("tiles, heads", WALKS.values(), ids=WALKS)
def test_a_backward_s_heads_are_counted_in_any_order(tiles, heads):
    """A walk back over the tiles of one head was said to be over as many heads."""
    made = SimpleNamespace(walked="query")
    event = pd.Series(["consumer", *["tile_begin", "scores"] * len(tiles), "write"])
    numbers = pd.Series([-1, *np.repeat(tiles, 2), -1])
    assert list(marks._outer(made, event, numbers)) == [0, *np.repeat(heads, 2), 0]


BACKWARD = ("backward_6_overlap", pytest.param("backward_4_mma", marks=pytest.mark.slow))


@pytest.mark.parametrize("name", BACKWARD)
def test_a_backward_s_steps_are_query_tiles_with_all_its_products(name, tmp_path, monkeypatch):
    """Its blocks log products under marks of their own, and not in the first launch. `multiplying` divided by zero."""
    made = made_up(name, KERNELS[name].problem_type(200, 64, num_heads=1))
    assert made.launch == 1 and made.walked == "query" and pipeline_bars.multiplying(made, 0) > 0
    story = marks.explain(made)
    shown = shown_pipelines.stage_of([story])
    assert {"Query tile 0", "Query tile 1"} <= {step["title"] for step in story.steps}
    assert not any("key tile" in frame["sentence"].lower() for frame in shown.frames)
    assert story.words["kept"] == "dK and dV"
    (panel,) = shown.views[0].meta.lines[0]
    assert {"S", "dP"} <= {text.rstrip(" 0123456789") for span in panel.spans for text in span.texts}
    assert not any("softmax" in text.lower() for q in shown.questions for text in (q.text, *q.options))
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    request = replace(made.request, backend="gpu")
    pipelines.RECORDINGS.save(replace(made, request=request), tmp_path / "pipelines" / "one")
    assert (tmp_path / "pipelines" / "one").exists()


def test_products_in_flight_need_no_common_key():
    """The scores of the next tile count steps, and their end counts tiles."""
    frame = pd.DataFrame(
        {"writer": 1, "event": ["scores", "scores_done"], "start_ns": [0.0, 9.0], "end_ns": [1.0, 9.5]}
    )
    frame["n"], frame["tile"] = pd.array([4, None], "Int64"), pd.array([None, 4], "Int64")
    assert pipeline_bars.in_flight(frame).end_ns.tolist() == [9.0]


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.family == "backward"])
def test_a_kernel_without_a_recorded_pipeline_gets_the_nearest_one_with_the_reason(name):
    told = open_page(f"pipeline?kernel={name}&backend=recorded").asked
    if told.link["kernel"] == name:
        pytest.skip("its pipeline is recorded by now")
    near = told.link["kernel"]
    assert f"No pipeline of {name} is recorded, and this machine has no GPU to measure one." in told.told[0]
    assert f"The page shows {near} instead: it marks similar steps." in told.told[0]
    assert KERNELS[near].requires == KERNELS[name].requires
