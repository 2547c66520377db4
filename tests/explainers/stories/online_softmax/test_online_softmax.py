import json
import re

import numpy as np
import pytest
from conftest import in_turn, of_fp32, small_tiles

from explainers.models import generic, softmax_rows, tiling
from explainers.stories.online_softmax import factor_questions, online_softmax, row_charts, row_states
from explainers.story import encoding, picture, stage
from kernels.core import reference
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.run import execute
from kernels.trace import steps
from kernels.trace.probes import sites_of

ROWS = of_fp32(softmax_rows)

PROBLEMS = {
    "default": DenseProblem(),
    "ragged": DenseProblem(seq_len=50, causal=True, head_dim=64, num_heads=2, batch=2),
    "one": DenseProblem(seq_len=1),
}


@pytest.mark.parametrize("pair", in_turn(ROWS, PROBLEMS))
def test_the_row_of_a_kernel_as_written_is_right_at_every_step(cpu_run, pair):
    name, problem = pair[0], PROBLEMS[pair[1]]
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


def test_the_steps_of_flash_have_their_sentences_numbers_and_lines(cpu_run):
    run = cpu_run("03_flash")
    story = online_softmax.explain(run, 6)
    assert [f["group"] for f in story.frames[:6]] == ["scores", "max", "rescale", "weights", "sum", "output"]
    assert len(story.frames) == 4 * 6 + 1
    m = story.tiles.m.to_numpy()
    assert m[1] > m[0] and m[3] > m[2]  # the row was chosen because its max moves
    rise = next(f for f in story.frames if f["tile"] == 3 and f["group"] == "rescale")
    factor = np.exp(float(m[2]) - float(m[3]))
    assert rise["sentence"].startswith(f"The kernel multiplies l and O by {factor:.4g}.")
    assert rise["details"] == f"e^({m[2]:.4g} - {m[3]:.4g}) = {factor:.6g}"
    for frame in story.frames:
        for sentence in frame["sentence"].replace("float64", "").removesuffix(".").split(". "):
            assert len(sentence.split()) <= 25 and len(re.findall(r"\d[\d.]*", sentence)) <= 2
    assert story.frames[-1]["lines"]  # the code pane stays where the row ended
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


def test_the_factor_in_float64_follows_from_the_scores_or_without_max_subtraction_from_its_own_m(cpu_run):
    """It was computed from the kernel's own float32 maxima: 0.946956 where float64 has 0.946955."""
    problem = DenseProblem(seq_len=64, head_dim=32)
    story = online_softmax.explain(cpu_run("03_flash", problem, small_tiles("03_flash")), 6)
    strip = {state.name: state.values for state in row_states.states(story, False, False)}
    at = [n for n, frame in enumerate(story.frames) if frame["group"] == "rescale" and frame["m_before"] is not None]
    due = np.exp(-np.diff(story.tiles.m_true.to_numpy()))
    assert [strip["factor in float64"][n] for n in at] == [f"{factor:.6g}" for factor in due]
    assert strip["rescale factor"][at[0]] == "0.946956" and strip["factor in float64"][at[0]] == "0.946955"
    story = online_softmax.explain(cpu_run("03_flash", DenseProblem(), (("SUBTRACT_MAX", 0),)), 6)
    strip = {state.name: state.values for state in row_states.states(story, False, False)}
    assert set(strip["factor in float64"]) <= {None, "1"}


def test_an_axis_of_sums_too_large_for_separators_has_exponents(cpu_run):
    settings = (*small_tiles("03_flash"), ("SUBTRACT_MAX", 0))
    for scale, form in ((1.0, None), (30.0, "~g")):
        story = online_softmax.explain(cpu_run("03_flash", DenseProblem(score_scale=scale), settings), 6)
        assert story.tiles.l.max() > 1e12 or form is None
        axis = row_charts.state_chart(story, "l").to_dict()["layer"][0]["encoding"]["y"]["axis"]
        assert axis.get("format") == form


def test_a_what_if_goes_wrong_where_the_max_first_moves_or_is_not_said_to_agree(cpu_run):
    run = cpu_run("03_flash", DenseProblem(), (("RESCALE", 0),))
    story = online_softmax.explain(run, 6)
    wrong = story.frames[story.first_wrong]
    assert (wrong["tile"], wrong["group"]) == (1, "rescale")
    assert "this build multiplies by 1" in wrong["sentence"]
    assert "goes wrong at step 9, Tile 1" in story.summary and "No rescaling" in story.summary
    assert story.frames[-1]["wrong"] and story.error > 0.01
    off = (("SUBTRACT_MAX", 0),)
    story = online_softmax.explain(cpu_run("03_flash", DenseProblem(), off), 6)
    assert story.tone == "info" and "agrees" not in story.summary
    assert story.summary.endswith("It makes no difference in this row.")
    assert row_states.states(story, False, False)[-1].values[-1] == "no difference here"
    assert online_softmax.explain(cpu_run("03_flash"), 6).tone == "good"
    assert online_softmax.explain(cpu_run("03_flash", DenseProblem(), (("RESCALE", 0),)), 6).tone == "bad"


def test_without_max_subtraction_small_scores_pass_and_large_ones_overflow(cpu_run):
    off = (("SUBTRACT_MAX", 0),)
    assert online_softmax.explain(cpu_run("03_flash", DenseProblem(), off), 6).first_wrong is None
    story = online_softmax.explain(cpu_run("03_flash", DenseProblem(score_scale=60.0), off), 6)
    assert story.first_wrong is not None and np.isnan(story.error)
    assert "overflows" in story.summary and "NaN" in story.summary
    sums = [f["sentence"] for f in story.frames if f["group"] == "sum"]
    assert "It should be 7.302e+41, but fp32 ends at 3.4e+38." in sums[0]
    assert not any("nan" in f["sentence"] for f in story.frames)
    named = json.dumps(row_charts.state_chart(story, "l").to_dict()) + json.dumps(
        row_charts.ordinary_chart(story).to_dict()
    )
    assert '"inf"' in named and '"NaN"' in named


def test_nan_and_infinity_of_a_row_are_those_of_the_trace(cpu_run):
    """A NaN that was logged was taken for a dim that was not, and shown as the infinity before it."""
    settings = (*small_tiles("03_flash"), ("SUBTRACT_MAX", 0))
    run = cpu_run("03_flash", DenseProblem(score_scale=60.0), settings)
    story, trace = online_softmax.explain(run, 6), run.trace.frame()
    trace = trace.assign(step=steps.cut(run.trace, sites_of(run.request)).of_record)
    outputs = [frame for frame in story.frames if frame["group"] == "output"]
    assert len(outputs) == 4
    for frame in outputs:
        logged = trace[(trace.step == frame["moment"]) & (trace.event == "o") & (trace.row == 6)].set_index("dim").value
        assert len(logged) == 32
        np.testing.assert_array_equal(story.o_values[frame["o"]], logged.sort_index().to_numpy(np.float32))
    assert np.isnan(story.o_values[1]).sum() == 15 and np.isinf(story.o_values[1]).sum() == 17
    meta = encoding.decode(encoding.encode(online_softmax.view(run, story, 6)))[0]
    assert meta["frames"][-1]["l"] == "inf"  # the browser reads it as infinity, not as NaN


@pytest.mark.parametrize("name", ROWS)
def test_the_strip_has_m_and_l_of_every_step_beside_float64_and_each_frame_knows_its_step(cpu_run, name):
    story, ordinary = online_softmax.explain(cpu_run(name), 6), softmax_rows.is_ordinary(ROWS[name])
    strip = {state.name: state.values for state in row_states.states(story, ordinary, False)}
    running = "" if ordinary else "running "
    for letter, word in (("m", "max"), ("l", "sum")):
        logged, due = strip[f"{running}{word} {letter}"], strip[f"{letter} in float64"]
        assert len(logged) == len(due) == len(story.frames)
        assert [v is None for v in logged] == [v is None for v in due]
        assert all(v == pytest.approx(float(d), rel=1e-4, abs=1e-5) for v, d in zip(logged, due) if v is not None)
    with np.errstate(all="ignore"):
        drawn = online_softmax.counted(story, ordinary)["l"]  # the picture's own
    assert [v for v in strip[f"{running}sum l"] if v is not None] == pytest.approx(drawn[~np.isnan(drawn)], rel=1e-6)
    assert ("rescale factor" in strip) is not ordinary
    for frame, factor in zip(story.frames, strip.get("rescale factor", ())):
        assert (factor is None) is (frame["rescale"] is None)
    assert strip["this row"][-1] == "agrees with float64"
    run = cpu_run(name)
    story = online_softmax.explain(run, 6)
    assert story.steps == sorted(story.steps)
    lit = steps.lit_lines(run.trace, steps.cut(run.trace, sites_of(run.request)), sites_of(run.request))
    assert all(set(frame["lines"]) <= set(lit[step]) for frame, step in zip(story.frames, story.steps))


def test_the_keys_of_the_questions_are_logged_values_and_ordinary_softmax_is_next_to_the_row(cpu_run):
    story = online_softmax.explain(cpu_run("03_flash", None, small_tiles("03_flash")), 6)
    (raises,) = factor_questions.questions(story, False)
    scores = story.keys.score.to_numpy()
    assert scores[raises.answer["index"]] > scores[: story.frames[raises.step]["tile"] * 16].max()
    assert story.frames[raises.step]["group"] == "max"
    assert not factor_questions.questions(online_softmax.explain(cpu_run("02_tiled"), 6), True)
    story = online_softmax.explain(cpu_run("03_flash"), 6)
    table = online_softmax.ordinary_table(story).set_index("")
    assert list(table.index) == ["max m", "sum l", "O, dim 0", "largest error of the row"]
    assert float(table.loc["sum l"].iloc[0]) == pytest.approx(float(table.loc["sum l"].iloc[1]), rel=1e-5)
    assert float(table.loc["O, dim 0"].iloc[1]) == pytest.approx(story.o_true[0], rel=1e-5)
    run = cpu_run("03_flash", DenseProblem(seq_len=50, num_heads=2, batch=2), (), Scope(7 + 4))
    assert online_softmax.rows_of(run) == (48, 49, (1, 0))


def test_the_whole_stage_of_a_row(cpu_run, with_more):
    request = Request(with_more, DenseProblem(seq_len=50), small_tiles("03_flash"), Scope(1))
    run = execute.run(request)
    story = online_softmax.explain(run, 20)
    known = {*tiling.WANTS, *softmax_rows.WANTS}
    odd = generic.other_views(run, picture.places(request), known, story.steps)
    made = encoding.decode(encoding.encode(online_softmax.stage_of(run, story, 20, stage.provenance(run), odd)))
    assert [v["id"] for v in made["views"]] == ["row", "beside"] and made["views"][1]["title"] == "Also: lse, entropy"
    frames = made["views"][1]["meta"]["frames"]
    assert len(frames) == len(made["frames"]) and made["tone"] == "good"
    first = next(n for n, f in enumerate(story.frames) if story.steps[n] >= 3)
    assert made["views"][1]["columns"]["value_0_step"].min() >= first
    assert not generic.other_views(execute.run(Request(ROWS["03_flash"], DenseProblem())), "QKVO", known)


@pytest.mark.parametrize("quantity", ["m", "l"])
@pytest.mark.parametrize("name", ROWS)
def test_the_chart_shows_the_logged_values_beside_float64(cpu_run, name, quantity):
    story = online_softmax.explain(cpu_run(name), 3)
    spec = row_charts.state_chart(story, quantity).to_dict()
    values = [row["value"] for rows in spec["datasets"].values() for row in rows if row.get("source") == "logged"]
    assert set(np.round(values, 4)) == set(np.round(story.tiles[quantity], 4))
    assert spec["params"] == [{"name": "step", "value": 1}]
    at = [row["step"] for rows in spec["datasets"].values() for row in rows if row.get("source") == "logged"]
    group = {"m": "max", "l": "sum"}[quantity]
    assert set(at) - {len(story.frames)} == {n for n, f in enumerate(story.frames, 1) if f["group"] == group}


def test_values_that_the_story_does_not_know_change_nothing(with_more):
    """Fault 3: a value of a new name raised a KeyError."""
    problem = DenseProblem(seq_len=50, causal=True)
    stories_ = [
        online_softmax.explain(execute.run(Request(spec, problem, small_tiles("03_flash"), Scope(1))), 20)
        for spec in (ROWS["03_flash"], with_more)
    ]
    own = ("lines", "moment")  # the other kernel has a line and a step more
    frames = [[{k: v for k, v in f.items() if k not in own} for f in story.frames] for story in stories_]
    assert frames[0] == frames[1] and stories_[1].first_wrong is None
    assert softmax_rows.accepts(with_more) and row_charts.state_chart(stories_[1], "m").to_dict()["layer"]


@pytest.mark.parametrize("name", ROWS)
def test_the_view_has_the_tile_of_each_key_and_scores_and_output_in_float64(cpu_run, name):
    run = cpu_run(name, DenseProblem(seq_len=50), small_tiles(name))
    meta, columns = online_softmax.view(run, online_softmax.explain(run, 3), 3)
    assert meta["tile_of"] == [key // 16 for key in range(50)] and meta["block_kv"] == 16
    assert len(columns["scores"]) == 50 and columns["o"].shape[1] == len(meta["o_true"]) == 32
    json.dumps(meta)
    run = cpu_run(name, DenseProblem(score_scale=30.0), small_tiles(name))
    story = online_softmax.explain(run, 6)
    meta, _ = online_softmax.view(run, story, 6)
    q, k, v = (run.arrays[n].astype(np.float64)[0, 0] for n in "qkv")
    scores = k @ q[6] / np.sqrt(32)
    weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    assert meta["o_true"] == pytest.approx(weights @ v, rel=1e-11, abs=1e-13)
    due = weights if meta["ordinary"] else np.exp(scores - story.frames[-1]["m"])
    counted = online_softmax.counted(story, meta["ordinary"])
    np.testing.assert_allclose(counted["due"][counted["state"][-1]], due, rtol=1e-11)


def test_what_a_row_counts_at_each_step_follows_from_the_logged_factors(cpu_run):
    """Each factor scales the weights of the tiles before it, and what was logged of l and O before it."""
    story = online_softmax.explain(cpu_run("03_flash"), 6)
    counted, frames = online_softmax.counted(story, False), story.frames
    halved = 0
    for step, frame in enumerate(frames[:-1]):
        factors = [(n, f["tile"], f["rescale"]) for n, f in enumerate(frames[: step + 1]) if f["group"] == "rescale"]
        for key, (p, tile) in enumerate(zip(story.keys.p, story.keys.tile)):
            due = p * np.prod([factor for _, later, factor in factors if later > tile])
            assert counted["weight"][counted["state"][step], key] == pytest.approx(due, rel=1e-12)
        for name, group, found in (("l", "sum", counted["l"][step]), ("o", "output", counted["o_factor"][step])):
            since = max((n for n, f in enumerate(frames[: step + 1]) if f["group"] == group), default=None)
            if since is not None:
                factor = np.prod([one for n, _, one in factors if n > since])
                assert found == pytest.approx((frame["l"] if name == "l" else 1) * factor, rel=1e-12)
                halved += factor < 1
        if frame["o"] >= 0:
            now = story.o_values[frame["o"]] * counted["o_factor"][step]
            np.testing.assert_allclose(counted["o_now"][counted["o_state"][step]], now, rtol=1e-6)
        if frame["group"] in ("sum", "output", "rescale") and frame["l"] is not None:
            seen = counted["weight"][counted["state"][step], : counted["summed"][step]]
            assert seen.sum() == pytest.approx(counted["l"][step], rel=1e-5) and not counted["l_off"][step]
            assert not counted["off"][counted["state"][step], : frame["weighed"]].any()
        if frame["group"] == "rescale" and frame["m_before"] is not None:
            assert counted["is_power"][step]
    assert halved and not counted["o_off"].any()
    np.testing.assert_array_equal(counted["o_now"][counted["o_state"][-1]], story.o_values[-1])


def test_a_max_that_is_wrong_or_nan_is_told_as_wrong_and_one_that_is_not_subtracted_is_said(variant, cpu_run):
    """It was told as if no max were subtracted, and not as wrong."""
    spec = variant(
        "03_flash", "SUBTRACT_MAX ? fmaxf(m, tile_max) : 0.f", "SUBTRACT_MAX ? fmaxf(m, tile_max) + 2.f : 0.f"
    )
    story = online_softmax.explain(execute.run(Request(spec, DenseProblem(), small_tiles("03_flash"))), 6)
    first = next(frame for frame in story.frames if frame["group"] == "max")
    assert first["wrong"] and story.frames[story.first_wrong] is first
    assert f"The running max m is {first['m']:.4g}. It should be {first['m_true']:.4g}." in first["sentence"]
    assert not any("subtracted" in frame["sentence"] for frame in story.frames)
    settings = (*small_tiles("03_flash"), ("SUBTRACT_MAX", 0))
    story = online_softmax.explain(cpu_run("03_flash", DenseProblem(), settings), 6)
    told = [frame for frame in story.frames if frame["group"] == "max"]
    assert all("No max is subtracted: m stays 0." in f["sentence"] and not f["wrong"] for f in told)
    spec = variant("03_flash", "SUBTRACT_MAX ? fmaxf(m, tile_max) : 0.f", "SUBTRACT_MAX ? sqrtf(-1.f) : 0.f")
    story = online_softmax.explain(execute.run(Request(spec, DenseProblem(), small_tiles("03_flash"))), 6)
    first = next(frame for frame in story.frames if frame["group"] == "max")
    assert first["wrong"] and "The running max m is NaN. It should be" in first["sentence"]
