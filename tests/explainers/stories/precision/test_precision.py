"""Precision: the parts of an error add up to the kernel's own output, and none is larger than its rounding allows."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import small_tiles

from explainers.stories.online_softmax import online_softmax
from explainers.stories.precision import error_tables, rounding
from explainers.stories.precision import story as page
from explainers.stories.precision.rounding import STAGES, rms
from explainers.story import encoding, picture, probed, stage, terms
from kernels.catalog import KERNELS
from kernels.core import reference
from kernels.core.dtypes import element_type
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import execute
from kernels.trace.trace import Trace

TAKEN = probed.accepting(rounding)
AT = {name: number for number, name in enumerate(STAGES)}
CASES = {  # what both kinds of problem have, and the query tile
    "plain": ({"seq_len": 96, "num_heads": 1}, 1),
    "causal, large scores": ({"seq_len": 100, "num_heads": 2, "causal": True, "score_scale": 5.0}, 2),
    "wide heads": ({"seq_len": 70, "head_dim": 128, "seed": 3}, 0),
    "two sequences, causal": ({"seq_len": 40, "batch": 2, "causal": True, "seed": 4}, 0),
    "very large scores": ({"seq_len": 64, "score_scale": 30.0, "seed": 5}, 0),
}


def _is_float32(spec):
    return spec.problem_type().tensors()[0].dtype == "float32"


TYPES = [
    (name, changes)
    for name, spec in TAKEN.items()
    for changes in ([{}] if _is_float32(spec) else [{"dtype": "float16"}, {"dtype": "bfloat16"}])
]


def run_of(name, changes, tile=0, **settings):
    spec = KERNELS[name]
    problem = spec.problem_type(**{"head_dim": 64, **changes})
    chosen = spec.settings_for(problem, dict(small_tiles(name)) | settings)
    request = Request(spec, problem, tuple(chosen.items()))
    return execute.run(replace(request, scope=Scope(min(tile, picture.tiles_of(request)[1] - 1))))


@pytest.fixture(scope="module")
def made():
    """(kernel, changes, case) -> (Run, Replay), each made once."""
    kept = {}

    def get(name, changes, case):
        key = (name, *changes.values(), case)
        if key not in kept:
            fields, tile = CASES[case]
            run = run_of(name, {**fields, **changes}, tile)
            kept[key] = run, rounding.replay(run)
        return kept[key]

    return get


def _asked():
    """One case of each type of each kernel, another one for the next kernel. Slow tests ask all others."""
    turns = Counter[str]()
    for name, changes in TYPES:
        mine = list(CASES)[turns[str(changes)] % len(CASES)]
        turns[str(changes)] += 1
        for case in CASES:
            marks = () if case == mine else pytest.mark.slow
            yield pytest.param(name, changes, case, id=f"{name}-{changes}-{case}", marks=marks)


every = pytest.mark.parametrize("name, changes, case", list(_asked()))
# Each second kernel without -m slow: `every` has a case of each type of each kernel.
SLOW = {name: [] if number % 2 else [pytest.mark.slow] for number, name in enumerate(TAKEN)}
PLAIN = [pytest.param(name, changes, marks=SLOW[name]) for name, changes in TYPES]


def test_each_case_is_asked_of_a_kernel_of_each_type_and_rows_without_a_key_have_no_error():
    quick = [asked.values for asked in _asked() if not asked.marks]
    for case in CASES:
        assert {str(changes) for _, changes, asked in quick if asked == case} == {str(made) for _, made in TYPES}
    # The first queries of a causal problem with fewer keys than queries.
    run = run_of("06_mma", {"seq_len": 40, "seq_len_kv": 24, "causal": True, "dtype": "float16"})
    replay = rounding.replay(run)
    blind = np.isnan(replay.score[0]).all(1)
    assert blind.sum() == 16 and not np.abs(replay.o[:, blind]).any()


@every
def test_the_parts_add_up_to_the_kernels_own_error_and_none_is_larger_than_its_rounding_allows(
    made, name, changes, case
):
    """The last stage is computed from what was logged; the kernel's own O is at most 1 % of its error away."""
    run, replay = made(name, changes, case)
    o = picture.matrix(run, "O", picture.query_rows(run.request)[0])[slice(*replay.rows)].astype(np.float64)
    error = o - replay.exact
    assert rms(error) > 0
    assert rms(replay.parts.sum(0) - error) <= 0.01 * rms(error)
    assert np.allclose(error - replay.parts.sum(0), replay.left_over, atol=1e-18)
    assert replay.shares.sum() == pytest.approx(1) and replay.ends_there
    request = run.request
    head, first, end = picture.query_rows(request)
    q, k, v = (picture.matrix(run, place, head).astype(np.float64) for place in "QKV")
    scale, rows = request.problem.scale, slice(first, end)
    seen = ~np.isnan(replay.score[0])
    given = np.where(seen, reference.scores(q[rows], k, scale, False), -np.inf)
    weights = reference.softmax(given)
    half = 2.0 ** -element_type(picture.tensor_at(request, "V").dtype).digits
    fp32 = 2.0**-24

    def part(errors, stage):
        return np.abs(np.diff(errors, axis=0, prepend=0.0)[AT[stage]])

    assert max(replay.moved.values()) <= half * max(np.abs(a).max() for a in (q, k, v)) * (half > fp32) * 1.01
    terms = scale * (np.abs(q[rows]) @ np.abs(k).T)  # an fp32 sum of head_dim products, scaled
    assert (part(replay.score, "scores") <= (q.shape[1] + 4) * fp32 * terms)[seen].all()
    # e^x of a score s that was rounded, by an exponential of two units: as many as |s| and m are large
    largest = np.abs(np.where(seen, given, 0)).max() + 1
    drift = (len(replay.edges) * 4 + 16 * largest) * fp32
    assert (part(replay.weight, "exponential") <= 4 * drift * weights + 1e-9)[seen].all()
    moved = part(replay.weight, "weights")
    if half == fp32:
        assert not moved[seen].any()
    else:
        assert moved[seen].any() and (moved <= (1 + 1e-3) * half * weights + 2.0**-24)[seen].all()
    assert part(replay.sum, "sum").max() <= (given.shape[1] + 3 * len(replay.edges)) * fp32
    spread = weights @ np.abs(v)
    assert (part(replay.o, "output") <= (2 * given.shape[1] + 3 * len(replay.edges)) * fp32 * spread + 1e-9).all()
    unit = 2.0 ** -element_type(picture.tensor_at(request, "O").dtype).digits
    o = np.abs(replay.o[-1] + replay.exact)
    assert (part(replay.o, "write") <= (1 + 1e-3) * unit * o + 2.0**-25).all()


@pytest.mark.parametrize("name, changes", PLAIN, ids=lambda v: "".join(map(str, [v])))
def test_stages_are_what_they_say(made, name, changes):
    """Stage by stage against a plain computation over the whole row, without tiles."""
    run, replay = made(name, changes, "plain")
    head, first, end = picture.query_rows(run.request)
    drawn = [
        picture.matrix(replace(run, arrays=run.request.problem.unrounded()), place, head).astype(np.float64)
        for place in "QKV"
    ]
    given = [picture.matrix(run, place, head).astype(np.float64) for place in "QKV"]
    table = run.trace.table.to_pandas()

    def logged(event):
        part = table[table.event == event].drop_duplicates(["row", "col"], keep="last")
        found = np.full(replay.score.shape[1:], np.nan)
        found[part.row.astype(int) - first, part.col.astype(int)] = part.value
        return found

    scores = [reference.scores(q[first:end], k, run.request.problem.scale, False) for q, k, _ in (drawn, given)]
    scores.append(logged("score"))
    values = [drawn[2], given[2], given[2]]
    for number, (s, v) in enumerate(zip(scores, values)):
        weights = reference.softmax(s)
        assert np.allclose(replay.o[number] + replay.exact, weights @ v, atol=1e-14)
        assert np.allclose(replay.score[number], s - scores[0], atol=1e-15)
        assert np.allclose(replay.weight[number], weights - reference.softmax(scores[0]), atol=1e-15)
    m, l = (table[table.event == event].drop_duplicates("row", keep="last").sort_values("row").value for event in "ml")
    told = np.log(l.to_numpy(float)) + m.to_numpy(float)
    exact = np.log(np.exp(scores[0]).sum(1))
    assert np.allclose(replay.sum[AT["sum"], :, -1], np.expm1(told - exact), atol=1e-13)


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks) for name, marks in SLOW.items()])
def test_each_type_has_what_it_rounds(made, name):
    """Inputs and weights are rounded in 16 bits alone; O moves by both, and in bfloat16 eight times as far."""
    if _is_float32(KERNELS[name]):
        sizes = made(name, {}, "plain")[1].sizes
        assert not sizes[AT["inputs"]] and not sizes[AT["weights"]] and sizes[AT["scores"]] > 0
        return
    half, low = (made(name, {"dtype": dtype}, "plain")[1].sizes for dtype in ("float16", "bfloat16"))
    for stage_name in ("inputs", "weights", "write"):
        assert 4 < low[AT[stage_name]] / half[AT[stage_name]] < 16
        assert half[AT[stage_name]] > 100 * half[AT["scores"]]


def test_the_types_of_the_ladder_draw_the_same_numbers():
    found = rounding.of_each_type(TAKEN.values())
    assert {label: (spec.name, changes) for label, (spec, changes) in found.items()} == {
        "float32": ("03_flash", {}),
        "float32 as 3 bfloat16": ("08b_three_bfloat16", {}),
        "float16": ("06_mma", {"dtype": "float16"}),
        "bfloat16": ("06_mma", {"dtype": "bfloat16"}),
    }
    dense = Request(KERNELS["03_flash"], DenseProblem(seq_len=50, head_dim=64, score_scale=3.0))
    same = SixteenBitProblem(seq_len=50, score_scale=3.0, layout="bshd", dtype="bfloat16")
    low = Request(KERNELS["06_mma"], same)
    assert rounding.same_numbers(dense, low)
    for changes in ({"seed": 1}, {"num_kv_heads": 1}, {"seq_len_kv": 60}, {"scores": "sink"}, {"causal": True}):
        other = Request(KERNELS["06_mma"], SixteenBitProblem(**{**{"seq_len": 50, "score_scale": 3.0}, **changes}))
        assert not rounding.same_numbers(dense, other), changes


# ---- broken on purpose ----


def test_fp16_sums_and_a_missing_rescaling_enter_with_their_own_stages():
    case = {"seq_len": 96, "dtype": "float16"}
    right, broken = (rounding.replay(run_of("06_mma", case, SUM_BITS=bits)) for bits in (32, 16))
    for name in ("scores", "output"):
        assert broken.sizes[AT[name]] > 100 * right.sizes[AT[name]]
    assert broken.ends_there and np.isclose(broken.sizes[AT["inputs"]], right.sizes[AT["inputs"]])
    assert broken.so_far[-1] > 1.1 * right.so_far[-1]
    replay = rounding.replay(run_of("03_flash", {"seq_len": 96, "score_scale": 5.0}, RESCALE=0))
    assert int(np.argmax(np.abs(replay.shares))) == AT["exponential"] and replay.so_far[-1] > 1e-2
    assert replay.ends_there


def test_without_max_subtraction_fp16_weights_overflow_where_they_are_rounded():
    run = run_of("06_mma", {"seq_len": 160, "dtype": "float16", "score_scale": 5.0}, SUBTRACT_MAX=0)
    replay = rounding.replay(run)
    finite = np.isfinite(replay.so_far)
    assert finite[: AT["weights"]].all() and not finite[AT["weights"] :].any()
    story = page.explain(run)
    made = page.stage_of(story, run, stage.provenance(run), ("", ""), [])
    assert made.summary == "O holds NaN or infinity from the step Weights rounded on."
    assert "From here on O holds NaN or infinity." in made.frames[AT["weights"]]["sentence"]
    bars = encoding.decode(encoding.encode(made))["views"][0]["meta"]["lines"][0][1]["bars"]
    assert next(bar for bar in bars if bar["strong"])["text"] in ("NaN", "inf")
    assert "NaN" in page.meaning(replay)


def test_a_log_that_is_not_what_was_written_is_told_in_the_stages_around_it():
    run = run_of("06_mma", {"seq_len": 64, "dtype": "bfloat16"})
    arrays = {**run.arrays, "o": run.arrays["o"].copy()}
    first = arrays["o"][0, 0, 0].astype(np.float32)
    arrays["o"][0, 0, 0] = (first * 1.1).astype(arrays["o"].dtype)
    wrong = replace(run, arrays=arrays)
    story = page.explain(wrong)
    assert not story.chosen.ends_there
    made = page.stage_of(story, wrong, stage.provenance(wrong), ("", ""), [])
    assert any("Do not trust its parts" in said for said in made.provenance.warnings)
    # What is logged is taken as it is: a weight that is off shows in the exponential, and O as logged takes it back.
    run = run_of("03_flash", {"seq_len": 64})
    before = rounding.replay(run)
    table = run.trace.table
    mine = pc.and_(pc.equal(table["event"], "p"), pc.fill_null(pc.equal(table["col"], 5), False))
    values = pc.if_else(mine, pc.multiply(table["value"], pa.scalar(1.5, table["value"].type)), table["value"])
    at = table.column_names.index("value")
    changed = Trace(table.set_column(at, "value", values), run.trace.lost)
    after = rounding.replay(replace(run, trace=changed))
    assert after.sizes[AT["exponential"]] > 1e3 * before.sizes[AT["exponential"]]
    assert after.so_far[-1] == pytest.approx(before.so_far[-1])


# ---- the story ----


@pytest.fixture(scope="module")
def four(made):
    """06_mma in fp16, with the other types beside."""
    runs = [made(name, changes, "plain")[0] for name, changes in TYPES if name in ("03_flash", "08b_three_bfloat16")]
    chosen, low = (made("06_mma", {"dtype": dtype}, "plain")[0] for dtype in ("float16", "bfloat16"))
    return chosen, page.explain(chosen, [*runs, low])


def test_the_summary_frames_and_picture_have_the_errors_of_the_replay(four):
    run, story = four
    replay = story.chosen
    made = page.stage_of(story, run, stage.provenance(run), ("", ""), [("float64", "no kernel has it.")])
    assert [frame["phase"] for frame in made.frames] == list(STAGES)
    for number, frame in enumerate(made.frames[1:], 1):
        small = 0 < replay.sizes[number] < 0.02 * replay.so_far[number - 1]
        assert ("hardly moves" if small else error_tables.short(replay.so_far[number])) in frame["sentence"]
    assert error_tables.short(np.abs(replay.o[-1]).max()) in made.frames[-1]["sentence"]
    at = replay.worst_rows()[0] - replay.rows[0]
    assert np.abs(replay.o[-1, at]).max() == np.abs(replay.o[-1]).max()
    lit = [set(frame.get("lines", {})) for frame in made.frames]
    assert not lit[0] and all(lit[1:]) and lit[AT["sum"]] != lit[AT["output"]]
    # The share of the squared error was told as if it were the plain ratio of two squares.
    most = int(np.argmax(replay.shares))
    assert made.summary.endswith(f"The largest part comes from the step “{error_tables.TITLES[STAGES[most]]}”.")
    assert made.state[2].name == "of the squared error, by covariance" and "by covariance" in terms.TERMS
    shown = made.views[0]
    (steps, types), (missing,), maps = shown.meta.lines
    assert [bar.value for bar in steps.bars] == replay.sizes[1:].tolist()
    assert [bar.now for bar in steps.bars] == [[n] for n in range(1, len(STAGES))]
    assert all(f"{one.label}: Scores moves O by {one.sizes[2]:.6g}" in steps.bars[1].tip for one in story.all)
    assert [(bar.name, bar.value, bar.strong) for bar in types.bars] == [
        (one.label, one.so_far[-1], one is replay) for one in story.all
    ]
    assert missing.lines[0].texts == ["float64 is missing: no kernel has it."]
    for panel, errors in zip(maps, (replay.score, replay.weight, replay.sum, replay.o)):
        assert np.array_equal(shown.columns[panel.column][panel.at], errors, equal_nan=True)
        most = np.nanmax(np.abs(errors[-1]))
        assert panel.title[-1][0].endswith(f"up to {error_tables.short(most)}") and panel.title[0][0].endswith("none")
    assert [len(shown.columns[name]) for name in "SPlO"] == [3, 6, 5, 8]  # what a stage leaves as it is goes once
    assert len(encoding.encode(made)) < 1_000_000


def test_tables_questions_and_the_worst_row_have_the_replays_numbers(four):
    run, story = four
    table = error_tables.types_table(story)
    assert list(table["computes in"]) == [r.label for r in story.all] and table.chosen.sum() == 1
    assert list(table["RMS error of O"]) == [error_tables.short(r.so_far[-1]) for r in story.all]
    parts = error_tables.parts_table(story)
    assert parts.shape == (4, len(STAGES))
    most, types = page.stage_of(story, run, stage.provenance(run), ("", ""), []).questions
    made = story.chosen
    assert most.options[most.answer] == page.ASKED[STAGES[int(np.argmax(made.sizes))]]
    other = next(r for r in story.others if r.label == "bfloat16")
    ratio = other.so_far[-1] / made.so_far[-1]
    assert "bfloat16 in place of float16" in types.text and 4 < ratio < 16
    assert types.options[types.answer] == "It grows about 8 times" and types.reasons[types.answer] == ""
    assert (
        f"{error_tables.short(other.so_far[-1])} in bfloat16, {error_tables.short(made.so_far[-1])} in float16"
        in types.why
    )
    said = [page.meaning(r) for r in story.all]
    assert all("rounds O to bfloat16 next" in s for s in said[:2]) and all("noise" in s for s in said[2:])
    rows = error_tables.worst_rows_table(made)
    assert rows.O.iloc[0] == error_tables.short(np.abs(made.o[-1]).max())
    run, story = four
    said, row = page.lead_sentence(story.chosen)
    assert row == story.chosen.worst_rows()[0] and f"is {row}" in said
    assert f"this is {error_tables.short(online_softmax.explain(run, int(row)).error)}." in said
    plain = next(r for r in story.others if r.label == "float32")
    assert "Online softmax" not in page.lead_sentence(plain)[0]  # where no input is rounded there is one number


def data_of(chart):
    made = chart.to_dict()
    (rows,) = made["datasets"].values()
    return rows


def test_charts_have_the_errors(four, made):
    _, story = four
    replay = story.chosen
    tiles = {
        (r["of"], r["row"] - replay.rows[0], r["key tile"]): r["largest error"]
        for r in data_of(error_tables.tiles(replay))
    }
    for row, tile in ((0, 0), (7, 3), (15, 5)):
        first, end = replay.edges[tile]
        assert tiles["a score", row, tile] == np.abs(replay.score[-1, row, first:end]).max()
        assert tiles["O so far", row, tile] == replay.tile[-1, row, tile]
        assert tiles["l, of itself", row, tile] == abs(replay.sum[-1, row, tile])
    spread = data_of(error_tables.spread(story))
    mine = [r for r in spread if r["computes in"] == "float16" and r["stage"] == len(STAGES)]
    errors = np.abs(replay.o[-1])
    assert len(mine) > 40 and all(np.isclose(r["share"], (errors <= r["error"]).mean()) for r in mine)
    runs = [run_of("06_mma", {"seq_len": 32, "score_scale": scale}) for scale in (1.0, 3.0)]
    table = error_tables.sweep_table("score_scale", [rounding.replay(run) for run in runs])
    lines = data_of(error_tables.sweep("score_scale", table))
    assert [r["relative error"] for r in lines] == list(table["relative error"])
    assert table["RMS error of O"][1] > table["RMS error of O"][0]
