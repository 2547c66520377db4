"""Pipeline: bars, steps and sentences are those of the marks. Times are made up here: what a GPU notes is looked at by
test_timing_on_gpu.py."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from pages import page_of

from app.choices.links import read_link
from app.choices.page import Page
from app.stories import pipeline as page
from app.stories.pipeline import choices as choices
from explainers.stories.pipeline import key_tile_frames, pipeline, writer_questions
from explainers.stories.pipeline import story as shown_pipelines
from explainers.story import encoding, stage
from kernels.build import Mode, builds
from kernels.catalog import KERNELS, current
from kernels.core.request import Request
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import pipeline_files, pipelines
from kernels.recordings import tables
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.results import Marked

COST = {"scores": 120, "softmax": 900, "output": 150, "tile_begin": 30, "wait_q": 500}  # cycles of each step


def made_up(name):
    """Every mark takes its COST, 50 cycles without one; 2 cycles are a nanosecond."""
    spec, problem = KERNELS[name], SixteenBitProblem(300, num_heads=1)
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
def story(overlap):
    return pipeline.explain(overlap)


def test_the_steps_are_the_key_tiles_of_the_first_that_computes(overlap, story):
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
    assert [f["title"] for f in story.frames] == titles
    spans = [frame["span"] for frame in story.frames]
    assert [a for a, _ in spans[1:]] == list(begins.start_ns) and [b for _, b in spans[:-1]] == [
        a for a, _ in spans[1:]
    ]
    assert spans[0][0] == 0 and spans[-1][1] == mine.end_ns.max()


def test_a_step_s_sentence_has_its_longest_phases(story):
    frame = story.frames[1]
    start, end = frame["span"]
    assert frame["sentence"].startswith(
        f"Key tile 0: {end - start:.3g} ns of warpgroup 1, most of it Online softmax (450 ns)"
    )
    inside = story.bars[(story.bars.start_ns < end) & (story.bars.end_ns > start)]
    assert frame["lines"] == inside.place.value_counts().to_dict()


def test_the_picture_has_every_bar_and_what_is_in_flight(overlap, story):
    shown = pipeline.view([story])
    rows, row = shown.meta["rows"], shown.columns["row"].astype(int)
    names = [r["name"] for r in rows]
    flying = [f"{what} in flight" for what in ("Scores", "Output")]
    assert names == ["warpgroup 0, producer", "warpgroup 1, consumer", *flying, "warpgroup 2, consumer", *flying]
    plain = np.array([not rows[r]["flight"] for r in row])
    assert plain.sum() == len(story.bars) and (~plain).sum() == len(story.flight)
    assert (np.diff(row) >= 0).all()
    for r in range(len(rows)):
        start, end = (shown.columns[name][row == r] for name in ("start", "end"))
        assert (np.diff(start) >= 0).all() and (end >= start).all()
        assert rows[r]["flight"] or (start[1:] == end[:-1]).all()
    kinds = {e["name"]: e["kind"] for e in shown.meta["events"]}
    assert kinds["scores"] == "S" and kinds["softmax"] == "P" and kinds["wait_q"] == "wait"
    assert kinds["prefetch_tile"] == "K" and kinds["load_q"] == "Q" and kinds["write"] == "other"
    assert [rows[r]["name"] for r in shown.meta["row_of"].values()] == [f"warpgroup {w}, {role}" for w, role in
        ((0, "producer"), (1, "consumer"), (2, "consumer"))]  # fmt: skip


def test_an_arrow_leads_from_where_a_tile_s_copy_began_to_its_scores(story):
    producer = story.bars[(story.bars.writer == 0) & (story.bars.event == "prefetch_tile")]
    tiles = [frame for frame in story.frames if "ey tile" in frame["title"]]
    scores = story.bars[(story.bars.writer == story.leader) & (story.bars.event == "scores")]
    assert len(tiles) == len(producer) <= len(scores) and sum(bool(f["copied"]) for f in tiles) > len(tiles) / 2
    for frame, copy, score in zip(tiles, producer.itertuples(), scores.itertuples()):
        assert frame["title"].endswith(f"ey tile {copy.tile}") and copy.tile == score.tile
        if copy.start_ns >= score.start_ns:  # in these made-up times
            assert not frame["copied"]
            continue
        assert frame["copied"] == [0, copy.start_ns, story.leader, score.start_ns]
        ahead = pipeline.figure(score.start_ns - copy.start_ns, 3)
        assert f"Its copy began {ahead} ns before its scores." in frame["sentence"]


def test_the_whole_grid_has_every_block_of_the_marks_build(overlap, story):
    drawn = pipeline.whole_grid(story, named=False)
    spans = overlap.writers.groupby("block").agg(sm=("sm", "first"), start=("start_ns", "min"), end=("end_ns", "max"))
    found = dict(zip(drawn.columns["block"].astype(int), zip(*(drawn.columns[n] for n in ("sm", "start", "end")))))
    assert set(found) == set(spans.index)
    for block, row in spans.iterrows():
        assert found[block] == pytest.approx((row.sm, row.start / 1e3, row.end / 1e3), rel=1e-5)
    (launch,) = drawn.meta["launches"]
    assert launch["item"] == "" and launch["cols"] == len(spans)  # its blocks take query tiles as they come
    assert "query tile" not in drawn.meta["frames"][0]["sentence"]
    assert (
        pipeline.whole_grid(pipeline.explain(made_up("08_pipeline")), False).meta["launches"][0]["item"] == "query tile"
    )


def test_what_products_need_of_the_tensor_cores(overlap, story):
    constants, products = overlap.request.constants, story.bars.event.isin(["scores", "output"]).sum()
    flops = 2 * 64 * constants["BLOCK_KV"] * 64 * products
    cycles = (overlap.writers[overlap.writers.block == 0].end_ns.max()) * overlap.mhz / 1e3
    share = flops / 4096 / cycles
    assert pipelines.multiplying(overlap, 0) == pytest.approx(share) and pipelines.resident(overlap, 0) == 1.0
    assert f"the tensor cores busy for {share:.0%} of that at least." in pipeline.summary(story)
    assert f"it would be {share * (1 + overlap.overhead):.1%}." in pipeline.fed_sentences(story)[0]
    assert (
        pipelines.multiplying(
            replace(overlap, request=Request(KERNELS["03_flash"], KERNELS["03_flash"].problem_type())), 0
        )
        is None
    )


def test_two_kernels_stand_on_one_scale(overlap, story):
    beneath = pipeline.explain(made_up("08_pipeline"))
    assert beneath.made.noun == "warp" and beneath.flight.empty
    made = pipeline.stage_of([story, beneath], stage.Provenance("recorded", "Made up."))
    shown = made.views[0]
    assert {r["kernel"] for r in shown.meta["rows"]} == {"11_overlap", "08_pipeline"}
    assert made.frames == story.frames and "11_overlap, block 0" in made.summary and "08_pipeline" in made.summary
    assert f"With marks a run takes {overlap.overhead:.1%} longer." in made.summary
    faster = replace(overlap, marks_ms=0.9)
    assert "takes 10.0% less: it is another build" in pipeline.cost(faster)
    decoded = encoding.decode(encoding.encode(made))
    assert len(decoded["views"][0]["columns"]["start"]) == len(shown.columns["start"])


def test_the_strip_and_the_question_have_the_marks_numbers(story):
    begins, lasts, flight = pipeline.states(story)
    assert lasts.values[1] == round(story.frames[1]["span"][1] - story.frames[1]["span"][0])
    assert begins.values[0] == 0 and flight.values[2].endswith("%")
    question = writer_questions.questions(story)[0]
    assert question.options[question.answer] == "Online softmax"
    table = pipeline.shares_table(story)
    assert table.bars.sum() == (story.bars.event != story.bars.role).sum()
    assert {"Online softmax", "Scores"} <= set(table["at"])


# ---- the page, of made-up recordings ----


@pytest.fixture
def recorded(tmp_path, monkeypatch, overlap):
    page_of("pipeline")  # with every kernel: the page is kept for a catalogue
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    for made in (overlap, made_up("10_warp_roles")):
        request = replace(made.request, backend="gpu")
        pipeline_files.save(replace(made, request=request), pipeline_files._path(request, "made up"))
    monkeypatch.setattr(choices, "recorded", lambda: tuple(pipeline_files.recorded()))
    shown_pipelines.load.cache_clear()
    return {"kernel": "11_overlap", "recorded": 0, "block": 0, "beneath": choices.ALONE, "backend": "recorded"}


def test_the_page_shows_a_recording_alone_and_with_another_beneath(recorded):
    alone = page.STORY.make(page.subject(page_of("pipeline"), recorded, "recorded"))
    assert alone.provenance.label == "recorded" and "made up, 2026-11-23" in alone.provenance.said
    assert choices.possible_beneath(page_of("pipeline"), recorded) == [choices.ALONE, "10_warp_roles"]
    both = page.STORY.make(page.subject(page_of("pipeline"), {**recorded, "beneath": "10_warp_roles"}, "recorded"))
    assert len(both.views[0].meta["rows"]) > len(alone.views[0].meta["rows"]) and both.frames == alone.frames
    look = page.subject(page_of("pipeline"), recorded, "recorded")
    assert json.dumps(stage.plain(page.STORY.parts["shares"](look)))


def test_a_block_that_is_not_recorded_is_told(recorded):
    high = choices.chosen(recorded).said["blocks"] - 1
    state = {**recorded, "block": high + 5, "recorded": 3}
    moved = dict(choices.correct(Page(current(), {"11_overlap": KERNELS["11_overlap"]}), state))
    assert state["block"] == 0 and state["recorded"] == ""
    assert f"blocks 0 to {high} are there" in moved["block"] and "the last of 11_overlap is 0" in moved["recorded"]


def test_where_a_gpu_is_the_chosen_problem_is_measured(recorded, overlap, monkeypatch):
    state, _ = read_link(
        page_of("pipeline"), {"kernel": "11_overlap", "seq_len": "300", "num_heads": "1", "beneath": "10_warp_roles"}
    )
    assert not choices.live(state)  # no GPU is here
    monkeypatch.setattr(choices.workers, "survey", lambda: SimpleNamespace(devices={"gpu": object()}))
    look = page.subject(page_of("pipeline"), state, "gpu")
    assert [r.kernel.name for r in look.requests] == ["11_overlap", "10_warp_roles"]
    assert {(r.backend, r.problem.seq_len) for r in look.requests} == {("gpu", 300)}
    assert choices.last_block(page_of("pipeline"), state) == look.requests[0].plan.launches[0].blocks - 1
    beneath = choices.possible_beneath(page_of("pipeline"), state)
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


def test_what_another_does_meanwhile_is_asked_and_the_answer_is_the_longest_overlap(story):
    asked = {q.id: q for q in writer_questions.questions(story)}
    made = asked["meanwhile"]
    frame = story.frames[made.step]
    spans = story.bars[(story.bars.writer == 1) & (story.bars.event == "softmax")]
    assert made.id in {q.id for q in writer_questions.questions(story)} and made.veils == ("tabs",)
    span = spans[(spans.start_ns >= frame["span"][0]) & (spans.start_ns < frame["span"][1])].iloc[0]
    spent = {}
    for bar in story.bars[story.bars.writer == 2].itertuples():
        shared = min(bar.end_ns, span.end_ns) - max(bar.start_ns, span.start_ns)
        spent[bar.event] = spent.get(bar.event, 0) + max(0, shared)
    longest = max(spent, key=spent.get)
    assert made.options[made.answer] == key_tile_frames.named(longest)
    assert f"for {pipeline.figure(spent[longest], 3)} of these" in made.why


@pytest.mark.parametrize("entry", choices.recorded(), ids=lambda e: f"{e.request.kernel.name}-{e.request.problem.size}")
def test_every_recorded_pipeline_has_its_steps(entry):
    """Every step begins where the one before ends, and the steps are the leader's whole life."""
    found = pipeline.explain(entry.load())
    spans = [frame["span"] for frame in found.frames]
    mine = found.bars[found.bars.writer == found.leader]
    assert [a for a, _ in spans[1:]] == [b for _, b in spans[:-1]]
    assert spans[0][0] == mine.start_ns.iloc[0] and spans[-1][1] == mine.end_ns.iloc[-1]
    assert all(frame["sentence"].startswith(f"{frame['title']}: ") for frame in found.frames)
    tiles = mine.event.isin(["tile_begin", "write"]).sum() if (mine.event == "tile_begin").any() else 0
    assert "Query tile 0" not in found.frames[1 % len(spans)]["title"]
    assert len(spans) in ((tiles, tiles + 1) if tiles else (len(mine),))
    assert encoding.encode(pipeline.stage_of([found], stage.Provenance("recorded", "Made up.")))
