"""The picture of a row's lanes, and the questions about it, against the records of the trace."""

import numpy as np
import pytest
from conftest import of_fp32, small_tiles

from explainers.models import threads, tiling
from explainers.stories.registers import holder_questions, lanes
from explainers.story import probed
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.trace.probes import sites_of

ROW = 6


@pytest.fixture(scope="module", params=list(of_fp32(tiling)))
def shown(request):
    spec = KERNELS[request.param]
    problem = spec.problem_type(seq_len=64, head_dim=32)
    run = execute.run(Request(spec, problem, small_tiles(request.param), Scope(0)))
    tiles = tiling.explain(run)
    return run, tiles, lanes.explain(run, tiles, threads.explain(run))


def scores_of(run):
    sites = sites_of(run.request)
    frame = run.trace.frame("event", "row", "col", "warp", "lane", "value")
    assert sites
    return frame[frame.event == "score"].drop_duplicates(["row", "col"])


def test_each_score_has_the_thread_of_its_record(shown):
    run, tiles, made = shown
    for score in scores_of(run).itertuples():
        assert made.thread[int(score.row), int(score.col)] == score.warp * 32 + score.lane
    assert (made.thread >= 0).sum() == len(scores_of(run))
    assert [first for first, _ in made.tiles] == sorted(first for first, _ in made.tiles)
    assert ((made.scored >= 0) == (made.thread >= 0)).all()


def test_the_picture_has_a_tile_at_each_step_and_the_logged_weights(shown):
    run, tiles, made = shown
    (view,) = lanes.views(tiles, made, ROW)
    assert (view.kind, view.meta["row"]) == ("lanes", ROW) and len(view.meta["shown"]) == len(tiles.frames)
    assert set(view.meta["shown"]) == set(range(len(made.tiles)))
    frame = run.trace.frame("event", "row", "col", "value")
    weights = frame[(frame.event == "p") & (frame.row == ROW)].drop_duplicates("col", keep="last")
    np.testing.assert_array_equal(made.p[ROW, weights.col.astype(int)], weights.value.astype(np.float32))


def test_the_question_of_the_rows_max_is_about_lanes_of_one_warp(shown):
    run, tiles, made = shown
    found = {q.id: q for q in holder_questions.questions(run, tiles, made, ROW)}
    who = scores_of(run)[scores_of(run).row == ROW][["warp", "lane"]].drop_duplicates()
    stores = any(t.axes[-2:] == ("query", "key") for t in run.request.plan.tensors)
    assert ("row_max" in found) == (len(who) > 1 and who.warp.nunique() == 1 and not stores)
    if "row_max" in found:
        assert found["row_max"].text.startswith(f"{len(who)} lanes hold the scores of row {ROW}.")
    for question in found.values():
        assert question.reasons.index("") == question.answer and question.reasons.count("") == 1


def test_the_weights_are_where_the_trace_stores_them(shown):
    run, tiles, made = shown
    asks = next(q for q in holder_questions.questions(run, tiles, made, ROW) if q.id == "weights")
    frame = run.trace.frame("event", "space", "tensor")
    stored = set(frame[(frame.tensor == "P") & (frame.event == "store")].space.astype(str))
    place = "global memory" if "global" in stored else "shared memory" if stored else "the registers"
    assert place in asks.options[asks.answer]


def test_k_is_read_from_shared_memory_as_often_as_the_trace_has_it(shown):
    run, tiles, made = shown
    found = {q.id: q for q in holder_questions.questions(run, tiles, made, ROW)}
    if "shared_again" not in found:
        return
    frame = run.trace.frame("event", "space", "tensor", "bytes")
    loads = frame[(frame.tensor == "K") & (frame.event == "load")].groupby("space", observed=True).bytes.sum()
    asks = found["shared_again"]
    assert asks.options[asks.answer].split()[0] == f"{loads['shared'] / loads['global']:g}"
    assert f"{int(loads['shared']):,} bytes of K, and the block copied" in asks.why


def test_the_page_opens_on_a_kernel_without_tensor_cores_that_keeps_its_weights_in_registers():
    spec = threads.first(probed.accepting(tiling).values())
    assert threads.keeps_weights(spec) and not spec.tensor_products
