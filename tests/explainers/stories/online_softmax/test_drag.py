"""The picture `drag`: its rule against runs of 03_flash, and its numbers against the trace."""

import numpy as np
import pytest
from hand_rules import applied

from explainers.models import softmax_rows
from explainers.stories.online_softmax import drag, online_softmax
from explainers.story import picture
from explainers.story.glossary import short
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem

SMALL = (("BLOCK_Q", 8), ("BLOCK_KV", 8))
PROBLEM = {"seq_len": 32, "num_heads": 2, "head_dim": 32}
TOLERANCE = 2e-6  # of the largest value
RUNS = {  # name -> fields, constants, and the rule's switches
    "as written": ({}, [], {}),
    "large scores": ({"score_scale": 60.0}, [], {}),
    "no rescaling": ({}, [("RESCALE", 0)], {"rescale": False}),
    "no max": ({}, [("SUBTRACT_MAX", 0)], {"subtract": False}),
    "causal": ({"causal": True}, [], {}),
    "causal, large scores": ({"causal": True, "score_scale": 60.0}, [], {}),
    "causal, no rescaling": ({"causal": True}, [("RESCALE", 0)], {"rescale": False}),
    "no max, large scores": ({"score_scale": 60.0}, [("SUBTRACT_MAX", 0)], {"subtract": False}),
}


def of_rows(run):
    """(row, scores, V, [(m, l, factor, O) after each tile]) of each row of the run, as the trace has them."""
    table = run.trace.table.to_pandas()
    table["event"] = table.event.astype(str)
    table = table[table.event.isin(["score", "m", "l", "rescale", "o"])]
    for head in range(2):
        for row in range(32):
            own = table[(table.block == head * 4 + row // 8) & (table.row == row)]
            logged = own[own.event == "score"]
            scores = np.random.default_rng(row).normal(0, 9, 32).astype(np.float32)  # a hidden score plays no part
            scores[logged.col.astype(int)] = logged.value
            each = [
                (
                    *(part[part.event == name].value.iloc[-1] for name in ("m", "l", "rescale")),
                    part[part.event == "o"].sort_values("dim").value.to_numpy(np.float32),
                )
                for _, part in own.groupby(np.where(own.col.notna(), own.col // 8, own.tile))
            ]
            yield row, scores, picture.matrix(run, "V", head), each


@pytest.mark.parametrize("name", RUNS)
def test_the_rule_under_a_hand_agrees_with_every_row_of_a_run(cpu_run, name):
    fields, constants, how = RUNS[name]
    run = cpu_run("03_flash", DenseProblem(**PROBLEM, **fields), (*SMALL, *constants), Scope(0, 8))
    rows = list(of_rows(run))
    assert len(rows) == 64
    causal = fields.get("causal", False)
    of_row = [drag.causal_of(run.request, row) if causal else {"seen": 32, "ends": [32] * 4} for row, *_ in rows]
    bounds = [{"seen": one["seen"], "end": one["ends"][row // 8]} for one, (row, *_) in zip(of_row, rows)]
    cases = [[s.tolist(), v.ravel().tolist(), 8, {**how, **end}] for (_, s, v, _), end in zip(rows, bounds)]
    for (row, _, _, each), found in zip(rows, applied("onePass", cases), strict=True):
        assert len(each) == len(found) == (row // 8 + 1 if causal else 4)  # the later tiles are skipped
        for (m, l, factor, o), state in zip(each, found, strict=True):
            for due, value in ((m, state["m"]), (l, state["l"]), (factor, state["factor"]), (o, state["o"])):
                value = np.array(value, dtype=float)
                most = np.abs(due[np.isfinite(due)] if np.ndim(due) else due).max(initial=1.0)
                np.testing.assert_allclose(value, due, rtol=TOLERANCE, atol=TOLERANCE * most)


@pytest.fixture
def row_10(cpu_run):
    """The row of the stop: its run, its story and its view."""
    run = cpu_run("03_flash", DenseProblem(**PROBLEM, seed=42), SMALL, Scope(1))
    story = online_softmax.explain(run, 10)
    return run, story, drag.view(run, story, 10, 0)


def test_the_picture_has_the_numbers_of_the_trace(row_10):
    run, _, view = row_10
    weights, o = (view.columns[name] for name in ("weights", "o"))
    meta = view.meta
    for tile in range(4):
        assert weights[tile].sum() == pytest.approx(meta["l"][tile], rel=1e-5)
        assert o[tile] == pytest.approx(weights[tile] @ view.columns["v"], abs=1e-5)
        assert not weights[tile, 8 * (tile + 1) :].any()
    assert o[-1] / meta["l"][-1] == pytest.approx(softmax_rows.of_row(run, 0, 10).o_true, abs=1e-5)
    assert meta["m"] == sorted(meta["m"]) and meta["m"][-1] == view.columns["scores"].max()
    says = [frame["sentence"] for frame in meta["frames"]]
    assert len(says) == 9 and says[3].endswith(f"× {meta['factor'][2]:.2f}.")
    assert 0.4 < meta["factor"][2] < 0.7 and meta["factor"][1] == meta["factor"][3] == 1  # one rise, and a large one
    assert max(len(text.split()) for text in says) <= 12


def test_a_causal_block_reads_the_tiles_up_to_the_diagonal(row_10):
    run, _, view = row_10
    assert view.meta["causal"] == {"seen": 11, "ends": [8, 16, 24, 32], "own": 1}
    asked = {question.id: question for question in drag.questions_of(run.request, row_10[1], 10)}["causal"]
    assert "10 of 16 tiles" in asked.why and asked.step == 8 and asked.shows == {"causal": True}


def test_a_question_asks_before_the_step_that_answers_it(row_10):
    run, story, view = row_10
    frames = view.meta["frames"]
    asked = {question.id: question for question in drag.questions_of(run.request, story, 10)}["rescale"]
    before = " ".join(frame["sentence"] for frame in frames[: asked.step + 1])
    assert asked.step == 2 and "×" not in before and "× 0.5" in frames[3]["sentence"]
    assert short(view.meta["factor"][2]) in asked.why and asked.reasons.count("") == 1


@pytest.mark.parametrize(
    ("name", "fields"), [("01_naive", {}), ("03_flash", {"seq_len": 30}), ("03_flash", {"seq_len": 96})]
)
def test_a_row_that_no_hand_can_hold_has_no_such_picture(cpu_run, name, fields):
    run = cpu_run(name, DenseProblem(**{**PROBLEM, **fields}), SMALL if name == "03_flash" else ())
    first, _, _ = online_softmax.rows_of(run)
    assert drag.view(run, online_softmax.explain(run, first), first, 0) is None
