"""The backward, tile by tile: its parts against float64 of the same inputs, its keys against the trace and two runs."""

import dataclasses
from functools import cache

import numpy as np
import pandas as pd
import pytest
from conftest import one_of_each_kind

from app.parts import running
from explainers.models import gradient_errors, gradients
from explainers.stories.backward import picture, story, times, walk
from explainers.stories.backward.story import STORY, WORDS
from explainers.story import encoding, probed
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.measure import duels, gradient_duels
from kernels.recordings import tables
from kernels.run import races

ACCEPTED = probed.accepting(STORY, current().kernels)
SMALL = {"seq_len": 80, "num_heads": 1, "causal": True}  # the last tile is smaller than the others


@cache
def made(name):
    spec = ACCEPTED[name]
    problem = spec.problem_type(**SMALL)
    run = running.run(Request(spec, problem, tuple(spec.settings_for(problem).items())))
    return run, walk.walk(run), STORY.stage(run.request, running)


@cache
def exact(name):
    """Each part of the backward in float64, from the inputs of the only head."""
    run, _, _ = made(name)
    q, k, v, o, do = (gradients.values(run, part, 0).astype(np.float64) for part in ("Q", "K", "V", "O", "dO"))
    scale = run.request.problem.sizes["scale"]
    s = scale * q @ k.T
    p = np.exp(np.where(np.triu(np.ones_like(s, bool), 1), -np.inf, s) - gradients.values(run, "LSE", 0)[:, None])
    dp = do @ v.T
    ds = p * (dp - (do * o).sum(axis=1, keepdims=True))
    return {"S": s, "P": p, "dP": dp, "dS": ds, "q": q, "k": k, "do": do, "scale": scale}


def tiles_of(stage):
    """The lines of panels of the picture tile by tile."""
    return next(view for view in stage.views if view.id == "tiles").meta.lines


def near(run):
    return 2e-2 if run.request.problem.dtype != "float32" else 2e-4


def data_of(name):
    run, made_walk, _ = made(name)
    return story.data_of(run, made_walk.steps, {})


EACH = pytest.mark.parametrize("name", one_of_each_kind(ACCEPTED))


@EACH
def test_each_part_is_the_formula_of_its_queries_and_keys_in_its_order_with_the_bytes_of_the_trace(name):
    run, made_walk, stage = made(name)
    due, (whole, *steps) = exact(name), made_walk.steps
    assert {"P", "dS"} <= {part for row in steps for part in row["state"]}
    for row in steps:
        for part in set(gradients.SQUARES) & set(row["state"]):
            tile = row["state"][part]
            cells = np.s_[tile.row : tile.rows[1] + 1, tile.col : tile.cols[1] + 1]
            seen = ~np.isnan(tile.numbers)
            assert seen.any() and np.allclose(
                tile.numbers[seen], due[part][cells][seen], atol=near(run), rtol=near(run)
            )
    of = {"dV": (due["P"], due["do"], 1), "dK": (due["dS"], due["q"], due["scale"])}
    for part, (left, right, factor) in of.items():
        queries, tile = set[int](), None
        for row in steps:
            if part not in row["made"] or part not in row["state"]:
                continue
            queries |= {*range(row["queries"][0], row["queries"][1] + 1)}
            tile, seen = row["state"][part], sorted(queries)
            rows = slice(tile.row, tile.rows[1] + 1)
            grown = factor * left[seen][:, rows].T @ right[seen]
            assert np.allclose(tile.numbers, grown, atol=10 * near(run)), (part, row["tile"])
        assert tile is None or np.allclose(tile.numbers, gradients.values(run, part, 0)[rows], atol=10 * near(run))
    for row, frame in zip(steps, stage.frames[1:]):
        assert len(row["made"]) <= 1 or row["made"] == ["S", "P"] or row["again"]
        for product in gradients.PRODUCTS:
            if product.made in row["made"]:
                assert set(product.reads) & {"P", "dS"} <= set(row["done"]), frame["title"]
        assert all(len(said.split()) <= 25 for said in frame["sentence"].rstrip(".").split(". ")), frame["sentence"]
    assert whole["whole"] and not any(row["whole"] for row in steps)
    first = next(row for row in steps if "P" in row["made"])
    assert (whole["queries"], whole["keys"]) == (first["queries"], first["keys"])
    assert whole["state"]["P"] is first["state"]["P"] and "dS" in whole["state"]
    assert all(entry.values[0] == 0 for entry in stage.state)
    frame = run.trace.frame("event", "space", "tensor", "bytes")
    own = gradients.symbols(run.request)
    for part in ("LSE", "dV", "dK"):
        kind, events = ("load", {"load"}) if part == "LSE" else ("store", {"store"})
        of = frame[(frame.space == "global") & frame.event.astype(str).isin(events)]
        bytes_due = int(of[of.tensor.astype(str).map(own) == part].bytes.sum())
        assert steps[-1]["bytes"].get(f"{part} {kind}", 0) == bytes_due


@EACH
def test_one_step_stands_for_all_of_a_later_tile_and_nothing_is_lost(name):
    run, made_walk, stage = made(name)
    again = [row for row in made_walk.steps if row["again"]]
    made_p = [(row["launch"], row["block"]) for row in made_walk.steps if "P" in row["made"] and not row["whole"]]
    assert len(again) == len(made_p) - len(set(made_p)) and len(stage.frames) <= 30
    for row, frame in zip(made_walk.steps, stage.frames):
        assert not row["again"] or "same parts" in frame["sentence"] and f"tile {row['tile']}" in frame["title"]
    table = run.trace.table.to_pandas()
    tiles = {part: table[table.event.astype(str) == event] for event, part in gradients.EVENTS.items() if part == "P"}
    assert {(int(one.launch), int(one.block)) for one in tiles["P"].itertuples()} == {*made_p}
    seen = [row["state"]["P"] for row in made_walk.steps if "P" in row["made"] and not row["whole"]]
    assert sum((~np.isnan(tile.numbers)).sum() for tile in seen) == len(tiles["P"])
    lines = {
        at: sum(row["lines"].get(at, 0) for row in made_walk.steps) for row in made_walk.steps for at in row["lines"]
    }
    assert all(count > 0 for count in lines.values())


PRODUCTS = {"backward_1_recompute": 8, "backward_2_two_loops": 7}  # all others make five


@EACH
def test_the_summary_counts_the_products_and_each_sentence_has_its_reason(name):
    run, _, stage = made(name)
    data = data_of(name)
    assert data["number"] == PRODUCTS.get(name, 5)
    assert ("needs no atomics" in stage.summary) == (data["number"] > 5) == (not gradients.adds(run.request))
    more = f"makes {data['number']}" if data["number"] > 5 else f"takes {data['number'] / 2:g} times the products"
    assert more in stage.summary
    said = " ".join(data["panel"])
    few = gradients.few_terms(run.request)
    assert ("dQ is not deterministic:" in said) == (gradients.any_order(run.request) and not few)
    assert ("From 3 parts on" in said) == (gradients.any_order(run.request) and few)
    assert ("S comes again: 5 products" in said) == (
        data["number"] == 5
    ) and "each tile of S and P is computed again" in said
    assert ("No atomics" in said) == (not gradients.adds(run.request))
    for frame in stage.frames[1:]:
        said = frame["sentence"]
        assert said.startswith("The ") and said.count(". ") == 0, said
        reason = any(one in said for one in ("because", "so that", ", so the tensor"))
        assert reason or said.endswith(("its numbers.", "both sums.")), said
    places = {place for places in data["places"] for place in places}
    shared = {str(site.tensor) for site in run.sites if site.space == "shared"} & {"P", "dS"}
    either = {f"{a}: registers, {b}: shared" for a, b in (("P", "dS"), ("dS", "P")) if b in shared}
    assert "shared memory" in places and places <= {"", "shared memory", "registers", *either}


@EACH
def test_the_cells_of_memory_are_what_the_trace_touches(name):
    run, made_walk, stage = made(name)
    panels = {panel.part: panel for line in tiles_of(stage) for panel in line if panel.kind == "cells"}
    for axis, name in (("query", "queries"), ("key", "keys")):
        cells, length = panels[name], gradients.sizes(run.request)[axis == "key"]
        for row, letters in zip(made_walk.steps, cells.states):
            for place, letter in zip(cells.places, letters):
                part, _, first, _, last = place.replace(",", "").split()
                kinds = {
                    touch["kind"]
                    for touch in row["touched"]
                    if touch["part"] == part and touch["rows"][0] <= int(first) and int(last) <= touch["rows"][1]
                }
                assert (letter == "w") == ("store" in kinds) and (letter == "r") == (kinds == {"load"}), place
        assert max(int(place.split()[-1]) for place in cells.places) == length - 1


def test_a_kernel_that_moves_p_is_not_said_to_keep_it_on_the_chip():
    for name in ("backward_3_one_loop", "backward_4_mma"):
        run, made_walk, _ = made(name)
        last = {**made_walk.steps[-1], "bytes": {**made_walk.steps[-1]["bytes"], "P store": 4}}
        rows = (made_walk.steps, [*made_walk.steps[:-1], last])
        said = [WORDS.say("summary", story.data_of(run, one, {})) for one in rows]
        assert ["times the products" in one for one in said] == [True, False]


@EACH
def test_the_keys_are_those_of_the_trace_and_of_two_runs(name):
    run, made_walk, stage = made(name)
    asked = {question.id: question for question in stage.questions}
    assert {"recomputed", "products"} <= set(asked)
    for question in asked.values():
        assert question.reasons.count("") == 1 and question.reasons[question.answer] == ""
        frames = next(view for view in stage.views if view.id == question.view).meta
        steps = len(frames["frames"] if question.view == "reverse" else stage.frames)
        assert 0 <= question.step <= (question.shows or {"to": question.step})["to"] < steps
    of, again = gradients.tensors(run.request), races.late_outputs(run.request)
    differ = [p for p in ("dV", "dK", "dQ") if run.arrays[of[p].name].tobytes() != again[of[p].name].tobytes()]
    assert differ in ([], ["dQ"]) if gradients.adds(run.request) else not differ
    steps = made_walk.steps
    assert "P load" not in steps[-1]["bytes"] and steps[-1]["bytes"]["LSE load"] > 0
    if asked["recomputed"].view == "tiles":
        before = steps[asked["recomputed"].step]
        assert "P" not in before["made"] and "P" in steps[asked["recomputed"].step + 1]["made"]
    shown = {matrix.datum["tensor"] for matrix in tiles_of(stage)[0][0].matrices}
    assert {question.shows["tensor"] for question in asked.values() if "tensor" in (question.shows or {})} <= shown


@EACH
def test_the_terms_of_dq_add_up_to_the_bits_of_both_runs(name):
    run, made_walk, stage = made(name)
    view = next(view for view in stage.views if view.id == "sums")
    of, again = gradients.tensors(run.request)["dQ"], races.late_outputs(run.request)
    once, twice = (
        gradients.values(dataclasses.replace(run, arrays={**run.arrays, of.name: array}), "dQ", 0)
        for array in (run.arrays[of.name], again[of.name])
    )
    panels = [panel for line in view.meta.lines for panel in line]
    chain, cells = panels[0], next(panel for panel in panels if panel.kind == "cells")
    assert (
        f"{(once != twice).sum():,} of" in chain.title[0][0]
        and (view.columns["bits"] > 0).sum() == (once != twice).sum()
    )
    at = tuple(np.unravel_index(int(view.columns["bits"].argmax()), once.shape))
    bits = [f"{array[at].view(np.uint32):032b}" for array in (once, twice)]
    assert "".join(cells.texts) == "".join(bits)
    assert cells.states[0].count("b") == 2 * sum(a != b for a, b in zip(*bits)) == 2 * view.columns["bits"][at]
    _, terms = picture.terms_of(run, 0, running)
    tables_shown = [panel for panel in panels if panel.kind == "table"]
    assert bool(tables_shown) == bool(len(terms))
    if not len(terms):
        return
    shown = np.array([[float(cell.texts[0])] for cell in tables_shown[0].cells if cell.column == 0]).ravel()
    known = terms[:, at[0], at[1]]
    assert np.array_equal(shown.astype(np.float32), known[~np.isnan(known)])
    if not gradients.adds(run.request):
        assert np.array_equal(once, twice)
        return
    forward, back = np.zeros((2, *once.shape), np.float32)
    for term, last in zip(terms, terms[::-1]):
        forward, back = forward + np.nan_to_num(term), back + np.nan_to_num(last)
    if run.request.problem.dtype == "float32":
        assert np.array_equal(forward, once) and np.array_equal(back, twice)
    else:
        assert np.allclose(forward, once, atol=1e-2)


def test_both_orders_are_shown_only_if_they_end_at_the_bits_of_the_two_runs():
    """Each small term is less than half of the last bit of 1."""
    small, one, more = np.float32(2**-24), np.float32(1), np.float32(1 + 2**-23)
    terms = np.array([1, np.nan, small, small], np.float32)
    found = picture.in_both_orders(terms, one, more)
    assert found["from the top"].tolist() == [1, 1, 1, 1]
    assert found["from below"].tolist() == [more, 2**-23, 2**-23, small]
    assert picture.in_both_orders(terms, one, one) == {}


def test_the_terms_of_dq_come_from_the_blocks_of_its_own_head():
    """Under a causal mask, blocks of all heads take turns in the grid."""
    spec = ACCEPTED["backward_4_mma"]
    problem = spec.problem_type(seq_len=130, num_heads=2, causal=True)
    run = running.run(Request(spec, problem, tuple(spec.settings_for(problem).items())))
    for head in (0, 1):
        tiles, terms = picture.terms_of(run, head, running)
        assert tiles == [0, 1]
        assert np.allclose(np.nansum(terms, axis=0), gradients.values(run, "dQ", head), atol=1e-2)


@EACH
def test_every_tab_goes_to_the_browser_and_each_launch_with_gradients_says_its_loops(name):
    run, _, stage = made(name)
    for tab in STORY.parts().values():
        assert encoding.decode(encoding.encode(tab(run.request, running)))
    assert encoding.decode(encoding.encode(stage))["frames"]
    said = [block["text"] for block in story.answers(run.request, running) if " outside, " in block.get("text", "")]
    assert said and any("dV" in one and one.count("keys outside, queries inside") for one in said)


def test_a_fixed_order_of_adds_is_said_and_a_kernel_of_the_forward_is_refused():
    fixed = [spec for spec in ACCEPTED.values() if spec.in_order]
    assert fixed
    for spec in fixed:
        problem = spec.problem_type(**SMALL)
        for value, said in ((0, "Only dQ"), (1, "None with these constants")):
            request = Request(spec, problem, tuple(spec.settings_for(problem, {spec.in_order: value}).items()))
            assert gradients.adds(request) and gradients.any_order(request) is not bool(value)
            names = {"adds": True, "any_order": gradients.any_order(request), "in_turn": ""}
            assert WORDS.say("rule", names).startswith(said)
    forward = [spec for spec in current().kernels.values() if times.is_forward(spec)]
    assert forward and all("dQ" in STORY.refusal(spec) for spec in forward)
    assert all(not times.is_forward(spec) for spec in ACCEPTED.values())


def test_bytes_memory_gradients_and_a_missing_recording_are_told(monkeypatch):
    request = made(next(iter(ACCEPTED)))[0].request
    rows = story.stored(request, running)[1]["rows"]
    assert rows[0][:3] == [80, "320 bytes", "25.6 kB"] and rows[-1][0] == 65536
    run, _, _ = made(next(iter(ACCEPTED)))
    meta = story.nudge(request, running)[-1]["meta"]
    at = meta["at"]
    largest = np.abs(meta["gradients"]["q"]).max()
    assert abs(meta["gradients"]["q"][at["row"], at["dim"]]) == largest
    assert np.array_equal(meta["gradients"]["v"], gradients.values(run, "dV", 0))
    first = story.memory(request)[-1]["rows"][0]
    own = {part: t.size * t.itemsize for part, t in gradients.tensors(request).items()}
    assert first[1:3] == [
        story.amount(sum(own[part] for part in ("Q", "K", "V", "O", "LSE"))),
        story.amount(sum(own[part] for part in ("dO", "dQ", "dK", "dV"))),
    ]
    monkeypatch.setattr(gradient_duels, "recorded", lambda: None)
    said = times.blocks(request.kernel)[-1]
    assert said["kind"] == "note" and "No recording" in said["text"]


@pytest.mark.parametrize("name", ["backward_1_recompute", "backward_5_hopper", "backward_6_overlap"])
def test_another_tile_and_head_are_traced(name):
    """The block of a KV head walks over both query heads, or each of its blocks over one."""
    spec = ACCEPTED[name]
    problem = dataclasses.replace(spec.problem_type(**SMALL), num_heads=2, num_kv_heads=1)
    request = Request(spec, problem, tuple(spec.settings_for(problem).items()))
    shared = any(launch.heads > 1 for launch in request.plan.launches)
    scope = Scope.everything(request.plan) if shared else request.scope
    run = running.run(dataclasses.replace(request, scope=scope))
    steps = walk.walk(run).steps
    assert {row["head"] for row in steps} == {0, 1}
    scale, met = run.request.problem.sizes["scale"], 0
    for row in steps:
        if "P" not in row["made"]:
            continue
        q, k, lse = (
            gradients.values(run, part, row["head"] * (part != "K")).astype(np.float64) for part in ("Q", "K", "LSE")
        )
        tile = row["state"]["P"]
        cells = np.s_[tile.row : tile.rows[1] + 1, tile.col : tile.cols[1] + 1]
        seen, met = ~np.isnan(tile.numbers), met + 1
        assert np.allclose(tile.numbers[seen], np.exp(scale * q @ k.T - lse[:, None])[cells][seen], atol=near(run))
    assert met >= 2


def test_a_frame_lights_the_lines_of_its_parts():
    run, made_walk, _ = made("backward_1_recompute")
    of_line = {site.place: site for site in run.sites if site.kind in ("access", "value")}
    for frame in made_walk.steps:
        lit = {str(of_line[at].tensor) for at in frame["lines"]}
        if frame["made"] == ["S", "P"] and frame["launch"] > 1:
            assert {"Q", "K", "LSE"} <= lit and not {"V", "dO"} & lit
        if frame["made"] == ["dP"]:
            assert {"V", "dO"} <= lit and not {"Q", "K", "LSE", "DELTA"} & lit
        if frame["made"] == ["dS"]:
            assert "DELTA" in lit and not {"V", "dO", "LSE"} & lit
            assert [t["part"] for t in frame["touched"] if t["kind"] == "load"] == ["delta"]
        if frame["made"] == ["delta"]:
            (first, last), stores = frame["queries"], [at for at in frame["lines"] if of_line[at].event == "store"]
            assert [frame["lines"][at] for at in stores] == [last - first + 1]


def test_a_recorded_backward_is_next_to_torchs_and_to_the_forward_of_its_sizes():
    table, where = next(iter(tables.recorded(gradient_duels.KIND).values()))
    forward, other = next(iter(tables.recorded(duels.KIND).values()))
    for name in [*dict.fromkeys(table.name), next(iter(ACCEPTED))]:
        found = times.turns(ACCEPTED[name], (table, where), (forward, other))
        rows = pd.DataFrame(found[-1]["rows"], columns=found[-1]["columns"])
        shown = name if name in set(table.name) else found[0]["text"].split()[-1].rstrip(".")
        own = table[(table.name == shown) & (table.peer == "sdpa_cudnn")]
        for row in rows.itertuples(index=False):
            same = own[(own.seq_len == row.tokens) & (own.head_dim == row.head_dim) & (own.dtype == row.type)]
            same = same[same.causal == (row.mask == "causal")]
            assert row.ours in {times.ms(us) for us in same.sustained_us}
        assert any(cell for cell in rows.iloc[:, -1])
        others = [block["text"] for block in found if block.get("text", "").startswith("With ")]
        fixed = table[(table.name == shown) & table.settings.str.contains("DETERMINISTIC=1")]
        assert len(others) == int(len(fixed) > 0)
        if others:  # losses of the fixed order stand next to its wins
            gain = fixed.groupby(times.SHAPE).sustained_ratio.min()
            assert f"in {(gain > 1).sum()} of {len(gain)} shapes: {gain.min():.2f} to" in others[0]


@EACH
def test_the_kernels_error_is_about_that_of_its_roundings(name):
    run, made_walk, _ = made(name)
    due = gradient_errors.replay(run, made_walk.head, gradient_errors.Rounds())
    exact_due = exact(name)
    ds = exact_due["dS"]
    assert np.allclose(due["dQ"], exact_due["scale"] * ds @ exact_due["k"], atol=near(run))
    rounded = gradient_errors.replay(run, made_walk.head, gradient_errors.Rounds(True, True, True, True))
    own, model = (gradient_errors._errors(one, due) for one in (gradient_errors._own(run, made_walk.head), rounded))
    for part in due:
        assert own[part] < 3 * model[part] + 1e-6, part
    assert gradient_errors.blocks(run, made_walk.head)[2]["rows"][-1][0] == gradient_errors.OWN


def test_a_claim_holds_only_with_its_evidence_and_a_kernel_may_wait_for_each_part():
    run, made_walk, _ = made("backward_2_two_loops")
    data, steps = data_of("backward_2_two_loops"), made_walk.steps
    said = [WORDS.say("summary", {**data, "adds": adds}) for adds in (False, True)]
    assert ["needs no atomics" in one for one in said] == [True, False]
    unread = {key: size for key, size in steps[-1]["bytes"].items() if key != "LSE load"}
    without = story.data_of(run, [*steps[:-1], {**steps[-1], "bytes": unread}], {})
    assert data["recomputes"] and not without["recomputes"]
    spec = ACCEPTED["backward_3_one_loop"]
    for length, due in ((32, "has only 1 part."), (64, "has only 2 parts."), (96, "by chance")):
        problem = spec.problem_type(**{**SMALL, "seq_len": length})
        request = Request(spec, problem, tuple(spec.settings_for(problem).items()))
        names = {"compared": True, "differs": False, "any_order": True, "few_terms": gradients.few_terms(request)}
        assert due in WORDS.say("again", names | {"key_tiles": gradients.key_tiles(request)})
    waits = {"whole": False, "first": False, "unread": False, "tile": 0, "sums": ["dV"], "one": "query", "made": []}
    waits |= {"starts": False, "part": "", "phase": "", "any_order": True, "adds": True, "weights": "shared memory"}
    waits |= {
        "launch_name": "launch 1",
        "block": 0,
        "role": "",
        "queries": None,
        "keys": None,
        "moved": [],
        "again": (),
    }
    for part in gradients.MARKS.values():
        (frame,) = WORDS.frames([{**waits, "ready": part, "together": []}], {})
        assert "because" in frame["sentence"] and "registers" not in frame["sentence"]


def test_the_first_scores_come_before_all_and_an_add_without_a_probe_is_derived():
    for name in IN_SECTIONS[1:]:
        _, made_walk, stage = made(name)
        told = list(zip(made_walk.steps, stage.frames))
        adds = [frame["details"] for row, frame in told if row["phase"] == "add" or row["again"]]
        assert adds and all("store dQ" in one and "(derived" in one for one in adds)
    flights = [(row["made"], row["flying"]) for row, _ in told if row["made"] in (["P"], ["dS"]) and row["tile"] == 0]
    assert flights == [(["P"], ["dP"]), (["dS"], ["dV"])]
    late = next(row["flying"] for row, _ in told if row["phase"] == "query_sums")
    assert late == ["S", "dK", "dQ"] and not any(row["flying"] for row, _ in told if row["phase"] == "add")
    early = [frame["sentence"] for row, frame in told if row["made"] == ["S"] and row["tile"] < 0]
    assert "of its first tile" in early[0] and "after the last tile" in early[-1]


IN_SECTIONS = [n for n in ACCEPTED if any(launch.heads for launch in probed.sample(ACCEPTED[n]).plan.launches)]


@pytest.mark.parametrize("name", IN_SECTIONS)
def test_a_chosen_block_has_its_head_and_tile_and_the_first_one_is_never_idle(name):
    spec = ACCEPTED[name]
    problem = spec.problem_type(seq_len=130, num_heads=3, causal=True)
    whole = Request(spec, problem, tuple(spec.settings_for(problem).items()))
    for head, tile in ((0, 0), (2, 1)):
        at = gradients.item_of(whole, gradients.KEY_ITEM, head, tile)
        assert gradients.head_of(whole, gradients.KEY_ITEM, at) == head and gradients.key_tiles(whole) == 2
        scope = Scope(0, 1, ((gradients.KEY_ITEM, at, 1),) if head else ())
        found = walk.walk(running.run(dataclasses.replace(whole, scope=scope)))
        keys = {(*f["keys"],) for f in found.steps if "S" in f["made"] and f["keys"] and not f["whole"]}
        assert found.head == head and keys == {(tile * 128, min(129, tile * 128 + 127))}


def test_blocks_that_share_a_kv_head_write_parts_and_the_last_launch_adds_them():
    spec = ACCEPTED["backward_6_overlap"]
    problem = spec.problem_type(seq_len=130, num_heads=4, num_kv_heads=2, causal=True)
    whole = Request(spec, problem, tuple(spec.settings_for(problem).items()))
    first = [gradients.item_of(whole, gradients.KEY_ITEM, head, 1) for head in (0, 1)]
    assert [gradients.head_of(whole, gradients.KEY_ITEM, at) for at in first] == [0, 1]
    scope = Scope(0, 1, ((gradients.KEY_ITEM, first[1], 1), ("keys", gradients.item_of(whole, "keys", 1, 1), 1)))
    run = running.run(dataclasses.replace(whole, scope=scope))
    found, stage = walk.walk(run), STORY.stage(run.request, running)
    said = {row["phase"]: frame["sentence"] for row, frame in zip(found.steps, stage.frames)}
    assert found.head == 2 and {"clear", "write_parts", "add_parts"} <= said.keys() and "write" in said
    assert {(*f["keys"],) for f in found.steps if "S" in f["made"] and not f["whole"]} == {(128, 129)}
    (stored,) = (touch for touch in found.steps[-1]["touched"] if touch["kind"] == "store")
    assert stored["part"] == "dK" and "other heads" in said["write_parts"] and "other heads" in said["add_parts"]
    assert encoding.decode(encoding.encode(stage))["frames"]
