"""Which thread touches what, held against the trace and against what the kernels' sources say."""

import numpy as np
import pytest
from conftest import of_fp32, one_of_each_family, one_of_each_kind, small_tiles

from explainers.models import threads, tiling
from explainers.stories.registers import holders, lanes
from explainers.story import axes, encoding, probed
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.run import execute
from kernels.trace import steps
from kernels.trace.probes import sites_of

SHOWN = probed.accepting(threads)
DENSE = of_fp32(tiling)


def elements(story, step, thread, plane, kind):
    """The (row, column) of every element that a thread touches."""
    rects = story.rects
    part = rects[(rects.step == step) & (rects.thread == thread) & (rects.plane == plane) & (rects.kind == kind)]
    return {
        (row, col)
        for row0, row1, col0, col1 in part[["row0", "row1", "col0", "col1"]].to_numpy().tolist()
        for row in range(row0, row1 + 1)
        for col in range(col0, col1 + 1)
    }


@pytest.mark.parametrize("name", one_of_each_kind(SHOWN))
def test_every_dense_and_paged_kernel_has_the_picture(cpu_run, name):
    run = cpu_run(name, None, small_tiles(name)) if name in DENSE else cpu_run(name)
    story = threads.explain(run)
    made = threads.view(run, story=story)
    assert len(made.meta["moments"]) == len(steps.cut(run.trace, sites_of(run.request)).table) == len(story.ran)
    firsts = [part for moment in made.meta["moments"] for part in moment["parts"]]
    assert sum(size for *_, size in firsts) == len(made.columns["thread"]) == len(story.rects)
    for moment, (number, _) in zip(made.meta["moments"], enumerate(story.steps.itertuples())):
        for plane, kind, first, size in moment["parts"]:
            part = story.rects[first : first + size]
            assert (part.step == number).all() and (part.plane == made.meta["planes"][plane]["name"]).all()
            assert (part.kind == threads.KINDS[kind]).all()
            row, col = (moment["windows"][name] for name in made.meta["planes"][plane]["windows"])
            assert row[0] <= part.row0.min() and part.row1.max() <= row[1]
            assert col[0] <= part.col0.min() and part.col1.max() <= col[1]
    assert len(encoding.encode(made)) < 10**6


@pytest.mark.parametrize("name", one_of_each_family(SHOWN))
def test_a_thread_ran_the_lines_that_it_logged(cpu_run, name):
    run = cpu_run(name)
    story, sites = threads.explain(run), sites_of(run.request)
    cut = steps.cut(run.trace, sites)
    frame = run.trace.frame("thread").assign(step=cut.of_record, place=sites.index(run.trace.table))
    frame["place"] = [sites[n].place if sites[n].kind in ("value", "access") else "" for n in frame.place]
    frame = frame[(frame.step >= 0) & (frame.place != "")]
    said = frame.groupby(["step", "thread"]).place.agg(set)
    for (step, thread), lines in said.items():
        assert set(story.lines[story.ran[step, thread]]) == lines
    assert (story.ran >= 0).sum() == len(said)


@pytest.mark.parametrize("name", DENSE)
def test_values_and_global_accesses_are_those_of_the_trace(cpu_run, name):
    run = cpu_run(name, DenseProblem(seq_len=50, causal=True), small_tiles(name), Scope(1))
    story = threads.explain(run)
    cut = steps.cut(run.trace, sites_of(run.request))
    frame = run.trace.frame().assign(step=cut.of_record)
    for event, plane, col in (("score", "S", "col"), ("p", "P", "col"), ("o", "O", "dim")):
        part = frame[(frame.event == event) & (frame.step >= 0)]
        for (step, thread), mine in list(part.groupby(["step", "thread"]))[::37]:
            computed = set(zip(mine.row.astype(int), mine[col].astype(int)))
            assert elements(story, step, thread, plane, "computes") == computed
    q = axes.tensors(run.request)["Q"]
    part = frame[(frame.space == "global") & (frame.tensor == "Q") & (frame.step >= 0)]
    for (step, thread), mine in list(part.groupby(["step", "thread"]))[::29]:
        wanted = {
            tuple(int(n) for n in np.unravel_index(int(offset) // 4 + n, q.shape)[-2:])
            for offset, size in zip(mine.offset, mine.bytes)
            for n in range(int(size) // 4)
        }
        assert elements(story, step, thread, "Q", "loads") == wanted


def test_a_lane_reads_what_its_results_are_made_of_as_the_source_says_and_no_zeros_of_a_padded_tile(cpu_run):
    """In the tiled kernels a thread computes one score, from a row of Q and one of K that other threads have copied."""
    for name in ("02_tiled", "03_flash"):
        story = threads.explain(cpu_run(name, DenseProblem(), small_tiles(name), Scope(1)))
        for step in np.flatnonzero(story.steps.phase == "scores"):
            for thread in (0, 37, 255):
                ((row, key),) = elements(story, step, thread, "S", "computes")
                assert elements(story, step, thread, "Q", "reads") == {(row, d) for d in range(32)}
                assert elements(story, step, thread, "K", "reads") == {(key, d) for d in range(32)}
    for step in np.flatnonzero(story.steps.phase == "output"):
        dims = {dim for _, dim in elements(story, step, 37, "O", "computes")}
        keys = {key for _, key in elements(story, step, 37, "P", "reads")}
        assert len(dims) == 2 and len(keys) == 16
        assert elements(story, step, 37, "V", "reads") == {(key, dim) for key in keys for dim in dims}
    # Beyond the last key a tile holds zeros that are no element: seq_len 50 ends within a tile.
    story = threads.explain(cpu_run("03_flash", DenseProblem(seq_len=50), small_tiles("03_flash"), Scope(0)))
    assert story.rects[story.rects.plane == "K"].row1.max() == 49
    last = [n for n in np.flatnonzero(story.steps.phase == "scores") if story.steps.tile[n] == 3][0]
    assert elements(story, last, 1, "K", "reads") == {(49, d) for d in range(32)}
    assert not elements(story, last, 5, "K", "reads")
    # 08b: a thread holds parts of the rows lane / 4 and lane / 4 + 8 of its warp, keys 8 n + 2 t and 8 n + 2 t + 1.
    story = threads.explain(cpu_run("08b_three_bfloat16", DenseProblem(), small_tiles("08b_three_bfloat16"), Scope(1)))
    scores = next(n for n, phase in enumerate(story.steps.phase) if phase == "scores")
    wanted = {(row, key) for row in (17, 25) for key in (2, 3, 10, 11)}
    assert elements(story, scores, 5, "S", "computes") == wanted
    assert holders.holders(story, 18)[scores] == "lanes 8 to 11 of warp 0"
    assert holders.first_held(story, 18) == scores
    flash = threads.explain(cpu_run("03_flash", DenseProblem(), small_tiles("03_flash"), Scope(1)))
    assert holders.holders(flash, 18)[2] == "lanes 0 to 15 of warp 1"


def test_a_paged_lane_is_told_by_tokens_and_dims(cpu_run):
    run = cpu_run("paged_v1")
    story = threads.explain(run)
    assert story.planes["K"] == story.planes["V"] == ("token", "dim")
    frame = run.trace.frame()
    loads = frame[(frame.tensor == "V") & (frame.space == "global") & (frame.thread == 3)]
    walk = next(n for n, phase in enumerate(story.steps.phase) if phase == "walk_v")
    first = loads[loads.bytes == 16].iloc[0]
    mine = elements(story, walk, 3, "V", "loads")
    assert {(int(first.token) + n, int(first.dim)) for n in range(4)} <= mine
    k = next(n for n, phase in enumerate(story.steps.phase) if phase == "walk_k")
    dims = {dim for _, dim in elements(story, k, 3, "K", "loads")}
    assert {dim for _, dim in elements(story, k, 3, "Q", "reads")} == dims


def test_a_problem_without_a_picture_has_its_own_tensors_each_with_its_own_window(cpu_run):
    """lab_transpose: a lane loads an element of X from global memory, and stores the element of O at its mirror."""
    run = cpu_run("lab_transpose")
    story = threads.explain(run)
    made = threads.view(run, story=story)
    assert story.planes["X"] == ("row", "column") and story.planes["O"] == ("column", "row")
    windows = {plane["name"]: plane["windows"] for plane in made.meta["planes"]}
    assert windows["X"] == ["X row", "X column"] and windows["O"] == ["O column", "O row"]
    x = axes.tensors(run.request)["X"]
    frame = run.trace.frame()
    loads = frame[(frame.space == "global") & (frame.tensor == "X") & (frame.thread == 3)]
    assert len(loads)
    wanted = {divmod(int(offset) // 4, x.shape[-1]) for offset in loads.offset}
    assert set().union(*(elements(story, n, 3, "X", "loads") for n in range(len(story.steps)))) == wanted


def test_the_picture_follows_other_frames_finds_weights_in_registers_and_tells_threads_in_words(cpu_run):
    run = cpu_run("03_flash")
    assert threads.view(run, [0, 0, 2, 2, 3]).meta["of_frame"] == [0, 0, 2, 2, 3]
    keeping = [name for name, spec in DENSE.items() if threads.keeps_weights(spec)]
    assert keeping == ["04_warp_rows", "05_register_tiles", "08b_three_bfloat16"]
    assert threads.first(probed.accepting(tiling).values()).name == "04_warp_rows"  # it has no tensor cores
    assert threads.first([spec for name, spec in DENSE.items() if name not in keeping]).name == "03_flash"
    assert holders.lanes([8, 9, 10, 11]) == "lanes 8 to 11 of warp 0"
    assert holders.lanes([*range(32), 33]) == "all lanes of warp 0 and lane 1 of warp 1"
    assert holders.lanes(range(128)) == "all lanes of warps 0 to 3"
    assert holders.spans("key", [2, 3, 10, 11, 20]) == "keys 2 to 3, 10 to 11 and 20"


@pytest.mark.parametrize("name", DENSE)
def test_the_strip_says_what_the_trace_says(cpu_run, name):
    run = cpu_run(name, DenseProblem(), small_tiles(name), Scope(1))
    tiles, story = tiling.explain(run), threads.explain(run)
    held, weights = holders.states(tiles, story, 18)
    assert len(held.values) == len(weights.values) == len(tiles.frames)
    frame, step = run.trace.frame(), holders.first_held(story, 18)
    cut = steps.cut(run.trace, sites_of(run.request))
    of_row = frame[(cut.of_record == step) & frame.event.isin(["score", "p", "o"]) & (frame.row == 18)]
    assert held.values[step] == holders.lanes(of_row.thread.unique())


def test_the_rows_of_every_block_are_those_that_it_writes(cpu_run):
    """A block that is not traced is told by them: the last has fewer, and none does the same as its neighbour."""
    problem = DenseProblem(seq_len=50, causal=True)
    for item in range(8):
        run = cpu_run("03_flash", problem, small_tiles("03_flash"), Scope(item))
        rows, tiles, n = threads.view(run).meta["launches"][0]["rows"]
        frame = run.trace.frame()
        written = frame[(frame.tensor == "O") & (frame.event == "store")]
        head, row = np.divmod(written.offset.to_numpy() // 4 // 32, n)
        first = item % tiles * rows
        assert (set(head), row.min(), row.max()) == ({item // tiles}, first, min(n, first + rows) - 1)
    assert threads.view(cpu_run("paged_v1")).meta["launches"][0]["rows"] is None


@pytest.mark.parametrize("name", ["03_flash", "paged_v1", "paged_v2"])
def test_beside_other_steps_the_picture_has_those_of_the_trace(cpu_run, name):
    run = cpu_run(name)
    (made,) = threads.own_view(run, "threads_v1", "Threads of V1", "lines_v1")
    assert (made.kind, made.id, made.meta["clock"]) == ("threads", "threads_v1", True)
    sites = sites_of(run.request)
    lit = steps.lit_lines(run.trace, steps.cut(run.trace, sites), sites)
    assert [f["lines_v1"] for f in made.meta["frames"]] == lit and len(made.meta["moments"]) == len(lit)
    assert all(f["title"] and f["sentence"] for f in made.meta["frames"])
    assert [len(state["values"]) for state in made.meta["state"]] == [len(lit)] * 5
    assert len(encoding.encode(made)) < 10**6


# ---- the lanes of a row ----

ROW = 6


@pytest.fixture(scope="module", params=list(of_fp32(tiling)))
def shown(request):
    spec = KERNELS[request.param]
    problem = spec.problem_type(seq_len=64, head_dim=32)
    run = execute.run(Request(spec, problem, small_tiles(request.param), Scope(0)))
    tiles = tiling.explain(run)
    return run, tiles, lanes.explain(run, tiles, threads.explain(run))


def scores_of(run):
    frame = run.trace.frame("event", "row", "col", "warp", "lane", "value")
    return frame[frame.event == "score"].drop_duplicates(["row", "col"])


def test_the_picture_has_the_thread_of_each_score_a_tile_at_each_step_and_the_logged_weights(shown):
    run, tiles, made = shown
    for score in scores_of(run).itertuples():
        assert made.thread[int(score.row), int(score.col)] == score.warp * 32 + score.lane
    assert (made.thread >= 0).sum() == len(scores_of(run))
    assert [first for first, _ in made.tiles] == sorted(first for first, _ in made.tiles)
    assert ((made.scored >= 0) == (made.thread >= 0)).all()
    (view,) = lanes.views(tiles, made, ROW)
    assert (view.kind, view.meta["row"]) == ("lanes", ROW) and len(view.meta["shown"]) == len(tiles.frames)
    assert set(view.meta["shown"]) == set(range(len(made.tiles)))
    frame = run.trace.frame("event", "row", "col", "value")
    weights = frame[(frame.event == "p") & (frame.row == ROW)].drop_duplicates("col", keep="last")
    np.testing.assert_array_equal(made.p[ROW, weights.col.astype(int)], weights.value.astype(np.float32))
