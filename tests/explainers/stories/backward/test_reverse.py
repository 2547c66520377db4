"""The picture in reverse: each part of a tile is its formula over its inputs, and no step shows it early."""

from functools import cache

import numpy as np
import pytest

from app.parts import running
from explainers.models import gradients
from explainers.stories.backward import reverse, walk
from explainers.stories.backward.story import STORY
from kernels.catalog import current
from kernels.core.request import Request

KERNEL, SEED = "backward_3_one_loop", 1711  # of the stop


@cache
def made(name=KERNEL):
    spec = current().kernels[name]
    problem = spec.problem_type(seq_len=96, num_heads=1, causal=True, seed=SEED)
    run = running.run(Request(spec, problem, tuple(spec.settings_for(problem).items())))
    (view,) = reverse.views(run, walk.walk(run))
    return run, view


def test_the_bars_are_a_whole_row_of_few_keys_and_each_number_is_its_formula():
    _, view = made()
    row = view.meta["row"]
    s, p, dp, ds = (np.array(row[part], dtype=np.float64) for part in ("S", "P", "dP", "dS"))
    assert len(row["keys"]) == row["of"] == row["query"] + 1 and row["keys"] == [*range(row["of"])]  # causal
    near = {"atol": 2e-4, "rtol": 2e-4}
    assert np.allclose(p, np.exp(s - row["LSE"]), **near) and p.sum() == pytest.approx(1, abs=1e-5)
    assert row["delta"] == pytest.approx(p @ dp, abs=1e-4) and np.allclose(ds, p * (dp - row["delta"]), **near)
    assert ds.min() < 0 < ds.max() and ds.sum() == pytest.approx(0, abs=1e-4) and p.min() > 0.1  # each is in sight


def test_the_numbers_of_a_row_are_right_by_hand():
    row = made()[1].meta["row"]
    p, dp, ds = (np.array(row[part], dtype=np.float64) for part in ("P", "dP", "dS"))
    less = np.round(dp, 2) - np.round(row["delta"], 2)  # as shown
    assert [*np.round(np.round(p, 4) * less, 2)] == [*np.round(ds, 2)]
    assert np.round(np.round(p, 4) @ np.round(dp, 2), 2) == np.round(row["delta"], 2)
    assert np.round(p, 2).sum() == pytest.approx(1) and np.round(ds, 2).sum() == pytest.approx(0)
    assert dp.min() > 0  # a loss above zero


def test_a_row_of_many_keys_says_so():
    spec = current().kernels[KERNEL]
    problem = spec.problem_type(seq_len=96, num_heads=1)
    run = running.run(Request(spec, problem, tuple(spec.settings_for(problem).items())))
    (view,) = reverse.views(run, walk.walk(run))
    row = view.meta["row"]
    assert len(row["keys"]) == 4 and row["of"] == 96 and sum(row["P"]) < 1


def test_a_part_of_the_map_is_made_once_after_its_inputs():
    _, view = made()
    parts, steps = view.meta["parts"], view.meta["made"]
    shown = [part for made_now in steps for part in made_now]
    assert [part for part in shown if part not in ("dO", "LSE")] == reverse.ALL_MADE
    for step, part in [(step, part) for step, made_now in enumerate(steps) for part in made_now]:
        assert parts[part]["made"] == (-1 if part in ("S", "P") else step)
        assert all(parts[read]["made"] <= step for read in parts[part]["reads"])
    assert [part for part, of in parts.items() if of["made"] < 0] == ["Q", "K", "V", "S", "P", "O"]


def test_there_are_few_steps_each_with_a_short_headline_and_the_lines_that_make_its_part():
    _, view = made()
    frames, phases = view.meta["frames"], view.meta["phases"]
    assert len(frames) == len(phases) == 11
    for frame, phase in zip(frames, phases):
        assert len(frame["head"].split()) <= 12
        assert bool(frame["lines"]) == bool({*reverse.MADE[phase]} - {"dO", "LSE"})


def test_making_the_weights_again_costs_less_than_keeping_them():
    price = reverse.priced()
    pairs = reverse.LONG**2
    assert price["kept_us"] == pytest.approx(2 * pairs * 2 / 4261e9 * 1e6, abs=1)  # the rates of the H200's record
    assert price["product"] == pytest.approx(2 * pairs * reverse.WIDE / 761.3e12 * 1e6, abs=0.5)
    assert price["made_us"] < price["kept_us"]
    assert price["made_us"] == price["product"] + price["exp"] and isinstance(price["product"], int)


def test_the_sizes_of_the_first_steps_are_the_bytes_of_a_head():
    meta = made()[1].meta
    assert meta["sizes"] == {"P": f"{16_384**2 * 2 / 1e6:.0f} MB", "LSE": f"{16_384 * 4 / 1e3:.1f} kB"}
    assert "16,384 queries" in meta["below"]["sizes"] and f"Query {meta['row']['query']} " in meta["below"]["row"]
    assert "537 MB" in meta["price"]["words"]["keep"]
    labels = {phase: of["label"] for phase, of in zip(meta["phases"], meta["provenances"]) if of}
    assert labels == {"price": "modelled", "share": "modelled", "hand": "modelled"}


def test_a_question_has_the_sizes_of_the_picture():
    run, view = made()
    asked = {question.id: question for question in STORY.stage(run.request, running).questions}
    said = {id: " ".join([question.why, *question.reasons]) for id, question in asked.items()}
    assert view.meta["sizes"]["LSE"] in said["recomputed"] and view.meta["sizes"]["P"] in said["recomputed"]
    assert not any("bytes" in text for text in said.values())


def test_the_map_comes_before_a_row_and_products_have_numbers():
    _, view = made()
    phases, parts = view.meta["phases"], view.meta["parts"]
    row = ["values", "grades", "share", "hand", "gradients"]
    assert phases[0] == "map" and phases[phases.index("values") :][: len(row)] == row
    numbered = {of["product"]: part for part, of in parts.items() if of["product"]}
    assert [numbered[n] for n in (1, 2, 3, 4, 5)] == [p for p in reverse.ALL_MADE if p in numbered.values()]
    assert {*numbered.values()} == {product.made for product in gradients.PRODUCTS}


def test_the_block_walks_over_the_queries_of_all_tiles():
    _, view = made()
    assert view.meta["spans"] == ["0 to 31", "32 to 63", "64 to 95"]


def test_no_text_before_an_answer_has_it():
    run, view = made()
    asked = {question.id: question for question in STORY.stage(run.request, running).questions}
    assert [*asked] == ["products", "recomputed", "registers"]
    frames = view.meta["frames"]
    before = {id: " ".join(f["head"] + f["sentence"] for f in frames[: q.step + 1]) for id, q in asked.items()}
    assert "exp(S -" not in before["recomputed"] and "exp(S −" not in before["recomputed"]
    assert "five" not in before["products"].lower() and "fifth" not in before["products"]
    assert "stay" not in before["registers"] and "registers" not in before["registers"]
    after = {id: view.meta["phases"][question.step + 1] for id, question in asked.items()}
    assert after == {"products": "error", "recomputed": "again", "registers": "next"}
    shows = {id: view.meta["phases"][q.shows["to"]] for id, q in asked.items() if q.shows}
    assert shows == {"recomputed": "again", "registers": "next"}


@pytest.mark.parametrize("name", ["backward_1_recompute", "backward_6_overlap"])
def test_a_kernel_without_all_parts_of_a_tile_has_no_such_picture(name):
    spec = current().kernels[name]
    problem = spec.problem_type(seq_len=128, num_heads=1)
    run = running.run(Request(spec, problem, tuple(spec.settings_for(problem).items())))
    walked = walk.walk(run)
    logs = any({*reverse.ALL_MADE} - {"delta"} <= row["state"].keys() for row in walked.steps)
    assert bool(reverse.views(run, walked)) == logs
