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
    "no max, large scores": ({"score_scale": 60.0}, [("SUBTRACT_MAX", 0)], {"subtract": False}),
}


def of_rows(run):
    """(scores, V, [(m, l, factor, O) after each tile]) of each row of the run, as the trace has them."""
    table = run.trace.table.to_pandas()
    table["event"] = table.event.astype(str)
    table = table[table.event.isin(["score", "m", "l", "rescale", "o"])]
    for head in range(2):
        for row in range(32):
            own = table[(table.block == head * 4 + row // 8) & (table.row == row)]
            scores = own[own.event == "score"].sort_values("col").value.to_numpy(np.float32)
            each = [
                (
                    *(part[part.event == name].value.iloc[-1] for name in ("m", "l", "rescale")),
                    part[part.event == "o"].sort_values("dim").value.to_numpy(np.float32),
                )
                for _, part in own.groupby(np.where(own.col.notna(), own.col // 8, own.tile))
            ]
            yield scores, picture.matrix(run, "V", head), each


@pytest.mark.parametrize("name", RUNS)
def test_the_rule_under_a_hand_agrees_with_every_row_of_a_run(cpu_run, name):
    fields, constants, how = RUNS[name]
    run = cpu_run("03_flash", DenseProblem(**PROBLEM, **fields), (*SMALL, *constants), Scope(0, 8))
    rows = list(of_rows(run))
    assert len(rows) == 64
    cases = [[scores.tolist(), v.ravel().tolist(), 8, how] for scores, v, _ in rows]
    for (_, _, each), found in zip(rows, applied("onePass", cases), strict=True):
        assert len(each) == len(found) == 4
        for (m, l, factor, o), state in zip(each, found, strict=True):
            for due, value in ((m, state["m"]), (l, state["l"]), (factor, state["factor"]), (o, state["o"])):
                value = np.array(value, dtype=float)
                most = np.abs(due[np.isfinite(due)] if np.ndim(due) else due).max(initial=1.0)
                np.testing.assert_allclose(value, due, rtol=TOLERANCE, atol=TOLERANCE * most)


def test_the_picture_has_the_numbers_of_the_trace(cpu_run):
    run = cpu_run("03_flash", DenseProblem(**PROBLEM), SMALL, Scope(3))
    story = online_softmax.explain(run, 26)
    view = drag.view(run, story, 26, 0)
    weights, o, result = (view.columns[name] for name in ("weights", "o", "result"))
    meta = view.meta
    for tile in range(4):
        assert weights[tile].sum() == pytest.approx(meta["l"][tile], rel=1e-5)
        assert o[tile] == pytest.approx(weights[tile] @ view.columns["v"], abs=1e-5)
        assert not weights[tile, 8 * (tile + 1) :].any()
    assert result == pytest.approx(o[-1] / meta["l"][-1], rel=1e-5)
    assert result == pytest.approx(softmax_rows.of_row(run, 0, 26).o_true, abs=1e-5)
    assert meta["m"] == sorted(meta["m"]) and meta["m"][-1] == view.columns["scores"].max()
    says = [frame["sentence"] for frame in meta["frames"]]
    assert len(says) == 7 and f"= {meta['factor'][2]:.2f}." in says[3] and "34 numbers" in says[5]
    assert max(len(text.split()) for text in says) <= 12


def test_a_question_asks_before_the_step_that_answers_it(cpu_run):
    run = cpu_run("03_flash", DenseProblem(**PROBLEM), SMALL, Scope(3))
    story = online_softmax.explain(run, 26)
    frames = drag.view(run, story, 26, 0).meta["frames"]
    asked = {question.id: question for question in drag.questions_of(story)}
    before = " ".join(frame["sentence"] for frame in frames[: asked["rescale"].step + 1])
    assert "× e^" not in before and "l and O × e^" in frames[asked["rescale"].step + 1]["sentence"]
    factor = drag.view(run, story, 26, 0).meta["factor"][asked["rescale"].step]
    assert short(factor) in asked["rescale"].why and asked["rescale"].reasons.count("") == 1
    assert asked["lift"].answer == pytest.approx(np.exp(-1), rel=1e-4)
    assert "34 numbers" in asked["kept"].why


@pytest.mark.parametrize(
    ("name", "fields"), [("01_naive", {}), ("03_flash", {"seq_len": 30}), ("03_flash", {"seq_len": 96})]
)
def test_a_row_that_no_hand_can_hold_has_no_such_picture(cpu_run, name, fields):
    run = cpu_run(name, DenseProblem(**{**PROBLEM, **fields}), SMALL if name == "03_flash" else ())
    first, _, _ = online_softmax.rows_of(run)
    assert drag.view(run, online_softmax.explain(run, first), first, 0) is None
