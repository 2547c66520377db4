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

KERNEL = "backward_3_one_loop"  # the one of the stop


@cache
def made(name=KERNEL):
    spec = current().kernels[name]
    problem = spec.problem_type(seq_len=96, num_heads=1)
    run = running.run(Request(spec, problem, tuple(spec.settings_for(problem).items())))
    (view,) = reverse.views(run, walk.walk(run))
    return run, view


def numbers(part, tile):
    _, view = made()
    first, rows, columns, *_ = view.meta["parts"][part]["windows"][tile]
    return view.columns["numbers"][first : first + rows * columns].reshape(rows, columns).astype(np.float64)


@pytest.mark.parametrize("tile", [0, 1])
def test_each_part_is_its_formula_over_the_shown_parts(tile):
    run, _ = made()
    q, k, v, do, s, p, dp, ds, lse, delta = (
        numbers(part, tile) for part in ("Q", "K", "V", "dO", "S", "P", "dP", "dS", "LSE", "delta")
    )
    near = {"atol": 2e-4, "rtol": 2e-4}
    scale = run.request.problem.sizes["scale"]
    assert np.allclose(s, scale * q @ k.T, **near)
    assert np.allclose(p, np.exp(s - lse), **near) and np.allclose(dp, do @ v.T, **near)
    assert np.allclose(delta, (do * numbers("O", tile)).sum(1, keepdims=True), **near)
    assert np.allclose(ds, p * (dp - delta), **near) and np.allclose(numbers("dQ", tile), scale * ds @ k, **near)
    assert [part for part, of in made()[1].meta["parts"].items() if of["scaled"]] == ["S", "dK", "dQ"]
    for part, left, right, factor in (("dV", "P", "dO", 1), ("dK", "dS", "Q", scale)):  # they grow from tile to tile
        own = factor * sum(numbers(left, one).T @ numbers(right, one) for one in range(tile + 1))
        assert np.allclose(numbers(part, tile), own, **near)


def test_the_keys_stay_while_other_queries_come():
    _, view = made()
    parts = view.meta["parts"]
    for part, of in parts.items():
        rows = [window[3] for window in of["windows"]]
        assert (rows[0] == rows[1]) == gradients.along_keys(part), part
    assert view.meta["tile"] == [0] * (len(view.meta["tile"]) - 2) + [1, 1]


def test_a_part_appears_at_the_step_that_makes_it_and_its_inputs_are_there():
    _, view = made()
    parts, steps = view.meta["parts"], view.meta["made"]
    assert [part for made_now in steps for part in made_now] == reverse.ALL_MADE
    for step, part in [(step, part) for step, made_now in enumerate(steps) for part in made_now]:
        assert parts[part]["seen"][step] and not parts[part]["seen"][step - 1]
        assert all(parts[read]["seen"][step] for read in parts[part]["reads"])
    kept = [frame["title"] for frame in view.meta["frames"]].index("What the forward kept")
    assert [part for part, of in parts.items() if of["seen"][kept]] == ["Q", "K", "V", "O", "LSE", "dO"]


def test_there_are_few_steps_each_with_a_short_headline_and_the_lines_that_make_its_part():
    _, view = made()
    frames = view.meta["frames"]
    assert len(frames) <= 11
    for frame, made_now in zip(frames, view.meta["made"]):
        assert len(frame["head"].split()) <= 12 and frame["lines"] or not made_now


def test_making_the_weights_again_costs_less_than_keeping_them():
    price = reverse.priced()
    pairs = reverse.LONG**2
    assert price["kept_us"] == pytest.approx(2 * pairs * 2 / 4261e9 * 1e6, abs=1)  # the rates of the H200's record
    assert price["product"] == pytest.approx(2 * pairs * reverse.WIDE / 761.3e12 * 1e6, abs=0.5)
    assert price["made_us"] < price["kept_us"]
    assert price["made_us"] == price["product"] + price["exp"] and isinstance(price["product"], int)


@pytest.mark.parametrize("tile", [0, 1])
def test_four_numbers_of_a_row_show_how_delta_makes_ds(tile):
    row, *columns = made()[1].meta["bars"][tile]
    p, dp, ds = (numbers(part, tile)[row, columns] for part in ("P", "dP", "dS"))
    assert len(columns) == 4 and sorted(columns) == columns
    assert np.allclose(ds, p * (dp - numbers("delta", tile)[row, 0]), atol=1e-5)
    assert ds.min() < 0 < ds.max() and np.abs(ds).min() > 0.3 * np.abs(ds).max()  # each bar is in sight


def test_the_areas_of_the_first_step_are_the_bytes_of_a_head():
    kept = made()[1].meta["kept"]
    _, square, said = kept["square"]
    sizes = {part: size for part, size, _ in kept["parts"]}
    assert square == 16_384**2 * 2 and said == "537 MB" and sizes["LSE"] == 16_384 * 4
    assert {sizes[part] for part in ("Q", "K", "V", "O")} == {16_384 * 128 * 2}


def test_a_row_shares_its_weight_before_delta_comes_and_products_have_numbers():
    _, view = made()
    phases, parts = view.meta["phases"], view.meta["parts"]
    assert phases.index("share") + 1 == phases.index("mean") == phases.index("score_gradients") - 1
    numbered = {of["product"]: part for part, of in parts.items() if of["product"]}
    assert [numbered[n] for n in (1, 2, 3, 4, 5)] == [p for p in reverse.ALL_MADE if p in numbered.values()]
    assert {*numbered.values()} == {product.made for product in gradients.PRODUCTS}


def test_the_block_walks_over_the_queries_of_all_tiles():
    _, view = made()
    assert view.meta["spans"] == ["0 to 31", "32 to 63", "64 to 95"]


def test_no_text_before_an_answer_has_it():
    run, view = made()
    asked = {question.id: question for question in STORY.stage(run.request, running).questions}
    assert [*asked] == ["recomputed", "products", "registers"]
    frames = view.meta["frames"]
    before = {id: " ".join(f["head"] + f["sentence"] for f in frames[: q.step + 1]) for id, q in asked.items()}
    assert "exp(S -" not in before["recomputed"] and "exp(S −" not in before["recomputed"]
    assert "five" not in before["products"].lower() and "fifth" not in before["products"]
    assert "stay" not in before["registers"] and "registers" not in before["registers"]
    after = {id: view.meta["phases"][question.step + 1] for id, question in asked.items()}
    assert after == {"recomputed": "weights", "products": "values", "registers": "next"}
    shows = {id: view.meta["phases"][question.shows["to"]] for id, question in asked.items()}
    assert shows == {"recomputed": "weights", "products": "queries", "registers": "next"}


@pytest.mark.parametrize("name", ["backward_1_recompute", "backward_6_overlap"])
def test_a_kernel_without_all_parts_of_a_tile_has_no_such_picture(name):
    spec = current().kernels[name]
    problem = spec.problem_type(seq_len=128, num_heads=1)
    run = running.run(Request(spec, problem, tuple(spec.settings_for(problem).items())))
    walked = walk.walk(run)
    logs = any({*reverse.ALL_MADE} - {"delta"} <= row["state"].keys() for row in walked.steps)
    assert bool(reverse.views(run, walked)) == logs
