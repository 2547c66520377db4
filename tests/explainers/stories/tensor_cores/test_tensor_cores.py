"""Tiling and Online softmax of the rungs on tensor cores: 16 bits, grouped heads, both orders in memory, more keys than
queries, boxes by TMA, roles, and the optimistic rule."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import in_turn, small_tiles

from explainers.models import softmax_rows, tiling
from explainers.stories.online_softmax import factor_questions, online_softmax, row_states
from explainers.stories.tiling import traffic
from explainers.story import axes, picture
from kernels.catalog import KERNELS, current
from kernels.core import reference
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import execute
from kernels.run.results import Traffic

RUNGS = [name for name, spec in current().of_family("tensor_cores").items() if spec.problem_type is SixteenBitProblem]
ROLES = [name for name in RUNGS if "PROBE_ROLE" in KERNELS[name].path.read_text()]
LONG = SixteenBitProblem(64, seq_len_kv=1024, num_heads=1, score_scale=0.5)  # so many tiles that few of them raise m
OPTIMISTIC = [name for name in RUNGS if softmax_rows.is_optimistic(KERNELS[name])]
GROUPED = SixteenBitProblem(130, num_heads=2, num_kv_heads=1, seq_len_kv=200, causal=True, layout="bshd")
PROBLEMS = {
    "whole": (SixteenBitProblem(192, num_heads=1), 1),
    "grouped, bshd, more keys": (GROUPED, 4),
    "bfloat16, wide": (SixteenBitProblem(100, head_dim=128, num_heads=1, dtype="bfloat16"), 0),
}


@pytest.fixture(scope="module", params=in_turn(RUNGS, PROBLEMS))
def run(request):
    name, case = request.param
    problem, item = PROBLEMS[case]
    kernel = KERNELS[name]
    settings = tuple(kernel.settings_for(problem, dict(small_tiles(name))).items())
    return execute.run(Request(kernel, problem, settings, Scope(item)))


def test_every_rung_is_shown_shared_tiles_are_refused_and_a_matrix_is_found_in_either_order():
    assert len(RUNGS) == 8 and len(ROLES) == 4 and OPTIMISTIC == ["12_optimistic", "13_short"]
    assert all(tiling.accepts(KERNELS[name]) and softmax_rows.accepts(KERNELS[name]) for name in RUNGS)
    request = Request(KERNELS["10_warp_roles"], SixteenBitProblem(128 * 140, num_heads=1))
    with pytest.raises(ProblemError, match="140 query tiles for 132 blocks of 10_warp_roles"):
        picture.tiles_of(request)
    problem = GROUPED
    k = next(t for t in problem.tensors() if t.name == "k")
    array = problem.inputs()["k"]
    assert np.array_equal(axes.matrix(k, array, 1, 2), problem.logical(array)[0, 0]) and axes.heads(k) == 1


def test_scores_and_matrices_are_those_of_the_query_head(run):
    problem, story = run.request.problem, tiling.explain(run)
    head, first, end = picture.query_rows(run.request)
    q, k = (problem.logical(run.arrays[name])[0].astype(np.float64) for name in "qk")
    due = reference.scores(q[head], k[head // (problem.num_heads // problem.kv_heads)], problem.scale, False)[first:end]
    seen = np.arange(problem.keys) <= np.arange(first, end)[:, None] + problem.offset
    assert (story.logged == (seen if problem.causal else True)).all()
    assert np.allclose(story.scores[story.logged], due[story.logged], atol=1e-4)
    meta, columns = tiling.view(run, tiling.explain(run))
    problem = run.request.problem
    kv = head // (problem.num_heads // problem.kv_heads)
    assert (meta["n"], meta["keys"], meta["offset"]) == (problem.seq_len, problem.keys, problem.offset)
    for name, of in (("q", head), ("k", kv), ("v", kv)):
        assert np.array_equal(columns[name], problem.logical(run.arrays[name])[0, of].astype(np.float32))
    assert np.array_equal(columns["o_final"], problem.logical(run.arrays["o"])[0, head, first:end].astype(np.float32))


def test_what_a_step_reads_is_the_tile_that_it_is_about_and_lies_in_shared_memory(run):
    story, size = tiling.explain(run), run.request.constants["BLOCK_KV"]
    read = []
    for frame in story.frames:
        for used in frame["uses"]:
            assert used["rect"] in frame["resident"][used["tensor"]]["rects"]
            if used["tensor"] in "KV":
                first, last = (row // size for row in used["rect"][:2])
                read.append((used["tensor"], frame["tile"], first, last))
    if read[-2][:2] == ("K", 0):  # 10 and 11 end with a product that nobody reads, of what is still there
        read.pop(-2)
    if read[-1][:2] == ("K", 0):
        read.pop()
    tiles = sorted({int(tile) for tile in np.flatnonzero(story.logged.any(0)) // size})
    assert sorted(set(read)) == [(tensor, tile, tile, tile) for tensor in "KV" for tile in tiles]


def test_bytes_of_global_memory_are_those_of_the_tile(run):
    """Boxes that reach beyond the tensor bring no bytes from there."""
    story, problem = tiling.explain(run), run.request.problem
    _, first, end = picture.query_rows(run.request)
    moved = story.frames[-1]["bytes"]
    keys = min(problem.keys, end + problem.offset) if problem.causal else problem.keys
    size = run.request.constants["BLOCK_KV"]
    fetched = min(problem.keys, -(-keys // size) * size)
    row = 2 * problem.head_dim
    assert moved["Q load"] == moved["O store"] == (end - first) * row
    assert moved["K load"] == moved["V load"] == fetched * row
    counted = traffic.comparison([(run.request, Traffic(execute.traffic(run.request).table, True))])
    whole = counted[(counted.tensor == "O") & (counted.kind == "store")].bytes.item()
    assert whole == run.request.plan.tensor("o").nbytes


def test_a_row_agrees_with_float64_at_every_step(run):
    first = picture.query_rows(run.request)[1]
    for row in (first, first + 9):
        story = online_softmax.explain(run, row)
        assert story.tone == "good", story.summary
        assert [f["group"] for f in story.frames].count("sum") >= len(story.tiles)
        assert story.frames[-1]["l"] == pytest.approx(
            story.ordinary_l * np.exp(story.ordinary_m - story.frames[-1]["m"]), rel=1e-3
        )


@pytest.mark.parametrize("name", ROLES)
def test_each_step_says_what_the_other_role_is_at(name, cpu_run):
    run = cpu_run(name, SixteenBitProblem(256, num_heads=1), small_tiles(name), Scope(1))
    frames = tiling.explain(run).frames
    asks = next(f for f in frames if f["phase"] in ("prefetch_tile", "prefetch") and f["tile"] == 1)
    assert "asks the copy engine (TMA) to bring K rows 64 to 127 (8,192 bytes)" in asks["details"]
    assert "Meanwhile, the consumer is at " in asks["sentence"]
    assert any("consumer, tile 0, scores: has the tensor cores fetch K" in f["details"] for f in frames)


def test_an_optimistic_kernel_says_when_a_tile_is_refused_and_when_its_reference_stays(cpu_run):
    name = OPTIMISTIC[0]
    rising = SixteenBitProblem(256, num_heads=1, scores="rising", score_scale=2.0)
    always = (*small_tiles(name), ("STREAK", 0))
    story = online_softmax.explain(cpu_run(name, rising, always, Scope(1)), 70)
    refused = [f for f in story.frames if f["group"] == "refused"]
    assert story.tone == "good" and [f["tile"] for f in refused] == [1, 2, 3]
    assert all("1/2 of its sum so far" in f["details"] and "8,192" in f["details"] for f in refused)
    careful = online_softmax.explain(cpu_run(name, rising, small_tiles(name), Scope(1)), 70)
    assert careful.tone == "good" and not [f for f in careful.frames if f["group"] == "refused"]
    calm = online_softmax.explain(cpu_run(name, LONG, small_tiles(name), Scope(0)), 6)
    kept = [f["sentence"] for f in calm.frames if f["group"] == "max" and f["tile"] > 0]
    assert calm.tone == "good" and any("The reference m stays" in said and "though" in said for said in kept)
    labels = [state.name for state in row_states.states(calm, False, True)]
    assert labels[:2] == ["reference m", "max in float64"]


def test_a_missing_wait_shows_on_the_cpu_and_a_row_without_a_key_is_refused(cpu_run):
    settings = (*small_tiles("08_pipeline"), ("WAIT", 0))
    run = cpu_run("08_pipeline", SixteenBitProblem(128, num_heads=1), settings, Scope(1))
    story = online_softmax.explain(run, 20)
    assert story.tone == "bad" and "A missing wait: the tile may not have come" in story.summary
    problem = SixteenBitProblem(100, seq_len_kv=40, num_heads=1, causal=True)
    run = cpu_run("06_mma", problem, small_tiles("06_mma"), Scope(3))
    with pytest.raises(ProblemError, match="Row 50 sees no key: its last would be -10. Choose row 60 or later."):
        online_softmax.explain(run, 50)
    assert online_softmax.explain(run, 60).tone == "good"


def test_an_optimistic_row_asks_how_large_a_weight_became():
    """Its key is the largest weight that the run logged in that tile."""
    spec = KERNELS["12_optimistic"]
    settings = spec.settings_for(LONG, dict(small_tiles("12_optimistic")))
    story = online_softmax.explain(execute.run(Request(spec, LONG, tuple(settings.items()))), 6)
    (question,) = factor_questions.questions_of(story, spec)
    tile = story.frames[question.step]["tile"]
    weights = story.keys[story.keys.tile == tile].p
    assert f"The weight is {weights.max():.4g}." in question.why and weights.max() > 1
    assert question.options[question.answer].startswith("It is above 1")
    assert f"In tile {tile} " in question.text and story.frames[question.step]["group"] == "weights"
    assert not factor_questions.questions_of(replace(story, first_wrong=0), spec)
