import json

import numpy as np
import pytest
from conftest import small_tiles

from explainers import online_softmax, row_charts, stories
from kernels.core import reference
from kernels.core.request import Request, Scope
from kernels.families.dense.problem import DenseProblem
from kernels.run import execute

ROWS = stories.accepting(online_softmax)

PROBLEMS = {
    "default": DenseProblem(),
    "ragged": DenseProblem(seq_len=50, causal=True, head_dim=64, num_heads=2, batch=2),
    "one": DenseProblem(seq_len=1),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("name", ROWS)
def test_the_row_of_a_kernel_as_written_is_right_at_every_step(cpu_run, name, problem):
    run = cpu_run(name, problem)
    first, last, (batch, head) = online_softmax.rows_of(run)
    for row in {first, (first + last) // 2, last}:
        story = online_softmax.explain(run, row)
        assert story.first_wrong is None and "agrees with float64" in story.summary
        end = story.frames[-2]
        s = reference.scores(
            run.arrays["q"][batch, head, row][None], run.arrays["k"][batch, head], problem.scale, False
        )[0]
        s = s[: row + 1] if problem.causal else s
        assert end["m"] == pytest.approx(s.max(), rel=1e-5, abs=1e-5)
        assert end["l"] == pytest.approx(np.exp(s - s.max()).sum(), rel=1e-5)
        assert (story.ordinary_m, story.ordinary_l) == pytest.approx((end["m"], end["l"]), rel=1e-5, abs=1e-5)
        assert story.o_values[-1] == pytest.approx(story.o_true, rel=1e-4, abs=1e-6)
        assert len(story.keys) == len(s) and not story.keys.isna().any().any()
        assert story.keys.weight.to_numpy() == pytest.approx(story.keys.weight_true.to_numpy(), rel=1e-4, abs=1e-7)
        assert row_charts.ordinary_chart(story).to_dict()["layer"]


def test_flash_steps_and_sentence_numbers(cpu_run):
    run = cpu_run("03_flash")
    story = online_softmax.explain(run, 6)
    assert [f["group"] for f in story.frames[:6]] == ["scores", "max", "rescale", "weights", "sum", "output"]
    assert len(story.frames) == 4 * 6 + 1
    m = story.tiles.m.to_numpy()
    assert m[1] > m[0] and m[3] > m[2]  # the row was chosen because its max moves
    rise = next(f for f in story.frames if f["tile"] == 3 and f["group"] == "rescale")
    assert (
        rise["sentence"] == f"Tile 3: l and O so far are scaled by e^({m[2]:.4g} - {m[3]:.4g}) = "
        f"{np.exp(float(m[2]) - float(m[3])):.4g}."
    )


def test_each_step_lights_the_line_that_made_its_value(cpu_run):
    run = cpu_run("03_flash")
    source = run.request.kernel.source.splitlines()
    wanted = {
        "scores": "const float score",
        "rescale": "const float rescale",
        "weights": "const float p =",
        "sum": "l = fmaf",
    }
    for frame in online_softmax.explain(run, 6).frames:
        if frame["group"] in wanted:
            places = [place.partition(":") for place in frame["lines"]]
            assert [file for file, _, _ in places] == ["03_flash.cu"]
            assert [source[int(line) - 1].strip().startswith(wanted[frame["group"]]) for _, _, line in places] == [True]


def test_without_rescaling_the_row_goes_wrong_where_the_max_first_moves(cpu_run):
    run = cpu_run("03_flash", DenseProblem(), (("RESCALE", 0),))
    story = online_softmax.explain(run, 6)
    wrong = story.frames[story.first_wrong]
    assert (wrong["tile"], wrong["group"]) == (1, "rescale")
    assert "this build multiplies by 1" in wrong["sentence"]
    assert "goes wrong at step 9, Tile 1" in story.summary and "No rescaling" in story.summary
    assert story.frames[-1]["wrong"] and story.error > 0.01


def test_without_max_subtraction_small_scores_pass_and_large_ones_overflow(cpu_run):
    off = (("SUBTRACT_MAX", 0),)
    assert online_softmax.explain(cpu_run("03_flash", DenseProblem(), off), 6).first_wrong is None
    story = online_softmax.explain(cpu_run("03_flash", DenseProblem(score_scale=60.0), off), 6)
    assert story.first_wrong is not None and story.error == float("inf")
    assert "overflows" in story.summary and "NaN" in story.summary


@pytest.mark.parametrize("quantity", ["m", "l"])
@pytest.mark.parametrize("name", ROWS)
def test_the_chart_shows_the_logged_values_beside_float64(cpu_run, name, quantity):
    story = online_softmax.explain(cpu_run(name), 3)
    spec = row_charts.state_chart(story, quantity, "#clock").to_dict()
    values = [row["value"] for rows in spec["datasets"].values() for row in rows if row.get("source") == "logged"]
    assert set(np.round(values, 4)) == set(np.round(story.tiles[quantity], 4))
    assert spec["params"][0]["bind"]["element"] == "#clock"


def test_rows_are_those_of_the_traced_tile(cpu_run):
    run = cpu_run("03_flash", DenseProblem(seq_len=50, num_heads=2, batch=2), (), Scope(7 + 4))
    assert online_softmax.rows_of(run) == (48, 49, (1, 0))


def test_values_that_the_story_does_not_know_change_nothing(with_more):
    """Fault 3: a value of a new name raised a KeyError."""
    problem = DenseProblem(seq_len=50, causal=True)
    stories_ = [
        online_softmax.explain(execute.run(Request(spec, problem, small_tiles("03_flash"), Scope(1))), 20)
        for spec in (ROWS["03_flash"], with_more)
    ]
    frames = [[{k: v for k, v in f.items() if k != "lines"} for f in story.frames] for story in stories_]
    assert frames[0] == frames[1] and stories_[1].first_wrong is None
    assert online_softmax.accepts(with_more) and row_charts.state_chart(stories_[1], "m", "#clock").to_dict()["layer"]


@pytest.mark.parametrize("name", ROWS)
def test_the_view_says_which_tile_each_key_is_of(cpu_run, name):
    run = cpu_run(name, DenseProblem(seq_len=50), small_tiles(name))
    meta, columns = online_softmax.view(run, online_softmax.explain(run, 3), 3)
    assert meta["tile_of"] == [key // 16 for key in range(50)] and meta["block_kv"] == 16
    assert len(columns["scores"]) == 50 and columns["o"].shape[1] == len(columns["o_true"]) == 32
    json.dumps(meta)
