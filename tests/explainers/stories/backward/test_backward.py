"""The backward, tile by tile: its parts against float64 of the same inputs, its keys against the trace and two runs."""

import dataclasses
import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from conftest import one_of_each_kind

from app.parts import running
from explainers.models import gradient_errors, gradients
from explainers.stories.backward import products, sums, tabs, times, walk
from explainers.stories.backward.questions import Seen
from explainers.stories.backward.story import STORY
from explainers.story import encoding, probed
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.measure import duels, gradient_duels
from kernels.recordings import tables
from kernels.recordings.tables import Provenance
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


def state(story, part, at):
    r0, r1, c0, c1, start = story.states[part][at]
    rows, cols = r1 - r0 + 1, c1 - c0 + 1
    return slice(r0, r1 + 1), slice(c0, c1 + 1), story.columns[part][start : start + rows * cols].reshape(rows, cols)


EACH = pytest.mark.parametrize("name", one_of_each_kind(ACCEPTED))


def near(run):
    return 2e-2 if run.request.problem.dtype != "float32" else 2e-4


@EACH
def test_each_part_is_the_formula_of_its_queries_and_keys_in_its_order_with_the_bytes_of_the_trace(name):
    run, story, _ = made(name)
    due = exact(name)
    assert story.states["P"] and story.states["dS"]
    for part in gradients.SQUARES:
        for at in range(len(story.states[part])):
            rows, cols, found = state(story, part, at)
            seen = ~np.isnan(found)
            assert seen.any() and np.allclose(found[seen], due[part][rows, cols][seen], atol=near(run), rtol=near(run))
    of = {"dV": (due["P"], due["do"], 1), "dK": (due["dS"], due["q"], due["scale"])}
    for part, (left, right, factor) in of.items():
        queries, found = set[int](), None
        for frame in story.frames:
            if part not in frame["made"] or not story.states[part]:
                continue
            first, last = frame["queries"]
            queries |= set(range(first, last + 1))
            rows, _, found = state(story, part, frame["state"][part])
            seen = sorted(queries)
            grown = factor * left[seen][:, rows].T @ right[seen]
            assert np.allclose(found, grown, atol=10 * near(run)), (part, frame["title"])
        assert found is None or np.allclose(found, gradients.values(run, part, 0)[rows], atol=10 * near(run))
    _, story, _ = made(name)
    for frame in story.frames[1:]:
        assert len(frame["made"]) <= 1 or frame["made"] == ["S", "P"]
        for product in gradients.PRODUCTS:
            if product.made in frame["made"]:
                assert set(product.reads) & {"P", "dS"} <= set(frame["done"]), frame["title"]
        assert all(len(said.split()) <= 25 for said in frame["sentence"].rstrip(".").split(". ")), frame["sentence"]
    _, story, stage = made(name)
    whole, *steps = story.frames
    assert whole["whole"] and not any(frame["whole"] for frame in steps)
    first = next(frame for frame in steps if "P" in frame["made"])
    assert (whole["queries"], whole["keys"]) == (first["queries"], first["keys"])
    assert whole["state"]["P"] == whole["state"]["dS"] == 0
    assert all(entry.values[0] == 0 for entry in stage.state)
    frame = run.trace.frame("event", "space", "tensor", "bytes")
    own = gradients.symbols(run.request)
    for part in ("LSE", "dV", "dK"):
        kind, events = ("load", {"load"}) if part == "LSE" else ("store", {"store"})
        of = frame[(frame.space == "global") & frame.event.astype(str).isin(events)]
        due = int(of[of.tensor.astype(str).map(own) == part].bytes.sum())
        assert story.frames[-1]["bytes"].get(f"{part} {kind}", 0) == due


PRODUCTS = {"backward_1_recompute": 8, "backward_2_two_loops": 7}  # all others make five


@EACH
def test_the_summary_counts_the_products_and_each_sentence_has_its_reason(name):
    run, story, stage = made(name)
    each = [p for own in products.by_launch(story.frames) for p in own]
    assert len(each) == PRODUCTS.get(name, 5)
    assert ("needs no atomics" in stage.summary) == (len(each) > 5) == (not gradients.adds(run.request))
    more = f"makes {len(each)}" if len(each) > 5 else f"takes {len(each) / 2:g} times the products"
    assert more in stage.summary
    said = " ".join(fact["said"] for fact in stage.views[0].meta["facts"])
    few = gradients.few_terms(run.request)
    assert ("dQ is not deterministic:" in said) == (gradients.any_order(run.request) and not few)
    assert ("From 3 parts on" in said) == (gradients.any_order(run.request) and few)
    assert ("S comes again: 5 products" in said) == (
        len(each) == 5
    ) and "each tile of S and P is computed again" in said
    assert ("No atomics" in said) == (not gradients.adds(run.request))
    for frame in story.frames[1:]:
        said = frame["sentence"]
        assert said.startswith("The ") and said.count(". ") == 0, said
        reason = any(one in said for one in ("because", "so that", ", so the tensor"))
        assert reason or said.endswith(("its numbers.", "both sums.")), said
    meta = stage.views[0].meta
    assert len(meta["launches"]) == len(meta["blocks"]) == len(meta["places"])
    shared = {str(site.tensor) for site in run.sites if site.space == "shared"} & {"P", "dS"}
    found = {place for places in meta["places"] for place in places}
    either = {f"{a}: registers, {b}: shared" for a, b in (("P", "dS"), ("dS", "P")) if b in shared}
    assert "shared memory" in found and found <= {"", "shared memory", "registers", *either}


def test_a_kernel_that_moves_p_is_not_said_to_keep_it_on_the_chip():
    for name in ("backward_3_one_loop", "backward_4_mma"):
        _, story, _ = made(name)
        last = {**story.frames[-1], "bytes": {**story.frames[-1]["bytes"], "P store": 4}}
        said = [products.sentence(frames, "one", True) for frames in (story.frames, [*story.frames[:-1], last])]
        assert ["times the products" in one for one in said] == [True, False]


@EACH
def test_the_keys_are_those_of_the_trace_and_of_two_runs(name):
    run, story, stage = made(name)
    asked = {question.id: question for question in stage.questions}
    assert {"recomputed", "products"} <= set(asked)
    for question in asked.values():
        assert question.reasons.count("") == 1 and question.reasons[question.answer] == ""
        assert 0 <= question.step < len(story.frames)
    of, again = gradients.tensors(run.request), races.late_outputs(run.request)
    differ = [p for p in ("dV", "dK", "dQ") if run.arrays[of[p].name].tobytes() != again[of[p].name].tobytes()]
    assert differ in ([], ["dQ"]) if gradients.adds(run.request) else not differ
    assert ("bits" in asked) == (bool(differ) or not gradients.adds(run.request))
    if "bits" in asked:
        assert asked["bits"].options[asked["bits"].answer] == ("Only dQ" if differ else "None of them")
    assert "P load" not in story.frames[-1]["bytes"] and story.frames[-1]["bytes"]["LSE load"] > 0
    before = story.frames[asked["recomputed"].step]
    assert "P" not in before["made"] and "P" in story.frames[asked["recomputed"].step + 1]["made"]


@EACH
def test_the_terms_of_dq_add_up_to_the_bits_of_both_runs(name):
    run, _, stage = made(name)
    view = next(view for view in stage.views if view.kind == "sums")
    n, d = view.meta["n"], view.meta["d"]
    terms = view.columns["terms"].reshape(-1, n, d)
    assert len(terms) == len(view.meta["tiles"])  # none if the trace of all blocks would be too long
    if not view.meta["adds"]:
        assert np.array_equal(view.columns["once"], view.columns["again"])
        return
    forward, back = np.zeros((2, n, d), np.float32)
    columns = {name: view.columns[name].reshape(terms.shape) for name in ("forward", "back")}
    for n, (term, last) in enumerate(zip(terms, terms[::-1])):
        forward, back = forward + np.nan_to_num(term), back + np.nan_to_num(last)
        for due, found in ((forward, columns["forward"][n]), (back, columns["back"][-1 - n])):
            assert ((due == found) | np.isnan(found)).all()
    assert view.meta["changed"] == (view.columns["once"] != view.columns["again"]).sum()
    assert view.meta["changed"] == (view.columns["bits"] > 0).sum()
    if run.request.problem.dtype == "float32":
        assert np.array_equal(forward, view.columns["once"]) and np.array_equal(back, view.columns["again"])
    elif len(terms):
        assert np.allclose(forward, view.columns["once"], atol=1e-2)


def test_both_orders_are_shown_only_if_they_end_at_the_bits_of_the_two_runs():
    """Each small term is less than half of the last bit of 1."""
    small, more = np.float32(2**-24), np.float32(1 + 2**-23)
    terms, ones = np.array([1, np.nan, small, small], np.float32).reshape(-1, 1, 1), np.ones((1, 1), np.float32)
    found = sums.in_both_orders(terms, ones, np.full((1, 1), more))
    assert found["forward"].ravel().tolist() == [1, 1, 1, 1]
    assert found["back"].ravel().tolist() == [more, 2**-23, 2**-23, small]
    assert all(np.isnan(part).all() for part in sums.in_both_orders(terms, ones, ones).values())


def test_the_terms_of_dq_come_from_the_blocks_of_its_own_head():
    """Under a causal mask, blocks of all heads take turns in the grid."""
    spec = ACCEPTED["backward_4_mma"]
    problem = spec.problem_type(seq_len=130, num_heads=2, causal=True)
    run = running.run(Request(spec, problem, tuple(spec.settings_for(problem).items())))
    for head in (0, 1):
        tiles, terms = sums._terms(run, head, running)
        assert tiles == [0, 1]
        assert np.allclose(np.nansum(terms, axis=0), gradients.values(run, "dQ", head), atol=1e-2)


@EACH
def test_every_tab_goes_to_the_browser_and_each_launch_with_gradients_says_its_loops(name):
    run, _, stage = made(name)
    for tab in STORY.parts().values():
        assert encoding.decode(encoding.encode(tab(run.request, running)))
    assert encoding.decode(encoding.encode(stage))["frames"]
    run, story, _ = made(name)
    said = tabs._loops(Seen(run, story.frames, {}))
    assert said and all(" outside, " in one for one in said)
    assert any("dV" in one and one.count("keys outside, queries inside") for one in said)


def test_a_fixed_order_of_adds_is_said_and_a_kernel_of_the_forward_is_refused():
    fixed = [spec for spec in ACCEPTED.values() if spec.in_order]
    assert fixed
    for spec in fixed:
        problem = spec.problem_type(**SMALL)
        for value, said in ((0, "Only dQ"), (1, "None with these constants")):
            request = Request(spec, problem, tuple(spec.settings_for(problem, {spec.in_order: value}).items()))
            assert gradients.adds(request) and gradients.any_order(request) is not bool(value)
            assert tabs._deterministic(request, {})[0]["text"].startswith(said)
    forward = [spec for spec in current().kernels.values() if times.is_forward(spec)]
    assert forward and all("dQ" in STORY.refusal(spec) for spec in forward)
    assert all(not times.is_forward(spec) for spec in ACCEPTED.values())


def test_bytes_memory_gradients_and_a_missing_recording_are_told():
    request = made(next(iter(ACCEPTED)))[0].request
    rows = tabs.stored(request)[1]["rows"]
    assert rows[0][:3] == [80, "320 bytes", "25.6 kB"] and rows[-1][0] == 65536
    name = next(iter(ACCEPTED))
    run, story, _ = made(name)
    meta = tabs.nudge(run, story.head)[-1]["meta"]
    at = meta["at"]
    largest = np.abs(meta["gradients"]["q"]).max()
    assert abs(meta["gradients"]["q"][at["row"], at["dim"]]) == largest
    assert np.array_equal(meta["gradients"]["v"], gradients.values(run, "dV", 0))
    said = times.blocks(request, current().kernels, {})[-1]
    assert said["kind"] == "note" and "No recording" in said["text"]
    first = times.memory(request)[-1]["rows"][0]
    own = {part: t.size * t.itemsize for part, t in gradients.tensors(request).items()}
    assert first[1:3] == [
        tabs.amount(sum(own[part] for part in ("Q", "K", "V", "O", "LSE"))),
        tabs.amount(sum(own[part] for part in ("dO", "dQ", "dK", "dV"))),
    ]


def test_a_recorded_time_is_next_to_the_fastest_forward_of_its_sizes():
    request = made(next(iter(ACCEPTED)))[0].request
    forward = [spec for spec in current().kernels.values() if times.is_forward(spec)][:2]
    sizes = {"seq_len": 4096, "head_dim": 64, "batch": 1, "num_heads": 8, "causal": False, "dtype": "float32"}
    own = {**sizes, "seq_len_kv": 4096, "num_kv_heads": 8}
    rows = [
        {"name": request.kernel.name, "problem": json.dumps(own), "median_us": 900.0, "sustained_us": 1000.0},
        {"name": forward[0].name, "problem": json.dumps(sizes), "median_us": 400.0, "sustained_us": float("nan")},
        {"name": forward[1].name, "problem": json.dumps({**sizes, "seq_len": 512}), "median_us": 1.0},
    ]
    table = pd.DataFrame([{"status": "ok", "peak_bytes": 3e6, **row} for row in rows])
    codes = {spec.name: spec.code_hash for spec in (request.kernel, *forward)}
    recorded = {"H200": (table, Provenance("NVIDIA H200", "580", "2026-11-26", codes=codes))}
    found = times.blocks(request, current().kernels, recorded)[-1]
    assert found["rows"] == [[4096, 64, "no", "float32", "1 ms", "400 us", 2.5, "3 MB"]]
    old = {"H200": (table, Provenance("NVIDIA H200", "580", "2026-11-26", codes={}))}
    assert times.blocks(request, current().kernels, old)[-1]["kind"] == "note"  # of another code


@pytest.mark.parametrize("name", ["backward_1_recompute", "backward_5_hopper", "backward_6_overlap"])
def test_another_tile_and_head_are_traced(name):
    """The block of a KV head walks over both query heads, or each of its blocks over one."""
    spec = ACCEPTED[name]
    problem = dataclasses.replace(spec.problem_type(**SMALL), num_heads=2, num_kv_heads=1)
    request = Request(spec, problem, tuple(spec.settings_for(problem).items()))
    shared = any(launch.heads > 1 for launch in request.plan.launches)
    scope = Scope.everything(request.plan) if shared else request.scope
    run = running.run(dataclasses.replace(request, scope=scope))
    story = walk.walk(run)
    assert {frame["head"] for frame in story.frames} == {0, 1}
    scale, met = run.request.problem.sizes["scale"], 0
    for frame in story.frames:
        if "P" not in frame["made"]:
            continue
        q, k, lse = (
            gradients.values(run, part, frame["head"] * (part != "K")).astype(np.float64) for part in ("Q", "K", "LSE")
        )
        rows, cols, found = state(story, "P", frame["state"]["P"])
        seen, met = ~np.isnan(found), met + 1
        assert np.allclose(found[seen], np.exp(scale * q @ k.T - lse[:, None])[rows, cols][seen], atol=near(run))
    assert met >= 2


def test_a_frame_lights_the_lines_of_its_parts():
    run, story, _ = made("backward_1_recompute")
    of_line = {site.place: site for site in run.sites if site.kind in ("access", "value")}
    for frame in story.frames:
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
    made, where = next(iter(tables.recorded(gradient_duels.KIND).values()))
    forward, other = next(iter(tables.recorded(duels.KIND).values()))
    names = [name for name, spec in current().kernels.items() if times.is_forward(spec)]
    for name in [*dict.fromkeys(made.name), next(iter(ACCEPTED))]:
        spec = ACCEPTED[name]
        found = times.turns(spec, times.Recorded(made, where), times.Recorded(forward, other), names)
        rows = pd.DataFrame(found[-1]["rows"], columns=found[-1]["columns"])
        shown = name if name in set(made.name) else found[0]["text"].split()[-1].rstrip(".")
        own = made[(made.name == shown) & (made.peer == "sdpa_cudnn")]
        for row in rows.itertuples(index=False):
            same = own[(own.seq_len == row.tokens) & (own.head_dim == row.head_dim) & (own.dtype == row.type)]
            same = same[same.causal == (row.mask == "causal")]
            assert row.ours in {times.ms(us) for us in same.sustained_us}
        assert any(cell for cell in rows.iloc[:, -1])
        others = [block["text"] for block in found if block.get("text", "").startswith("With ")]
        fixed = made[(made.name == shown) & made.settings.str.contains("DETERMINISTIC=1")]
        assert len(others) == int(len(fixed) > 0)
        if others:  # losses of the fixed order stand next to its wins
            gain = fixed.groupby(times.SHAPE).sustained_ratio.min()
            assert f"in {(gain > 1).sum()} of {len(gain)} shapes: {gain.min():.2f} to" in others[0]


@EACH
def test_the_kernels_error_is_about_that_of_its_roundings(name):
    run, story, _ = made(name)
    due = gradient_errors.replay(run, story.head, gradient_errors.Rounds())
    exact_due = exact(name)
    ds = exact_due["dS"]
    assert np.allclose(due["dQ"], exact_due["scale"] * ds @ exact_due["k"], atol=near(run))
    rounded = gradient_errors.replay(run, story.head, gradient_errors.Rounds(True, True, True, True))
    own, model = (gradient_errors._errors(one, due) for one in (gradient_errors._own(run, story.head), rounded))
    for part in due:
        assert own[part] < 3 * model[part] + 1e-6, part
    assert gradient_errors.blocks(run, story.head)[2]["rows"][-1][0] == gradient_errors.OWN


def test_a_claim_holds_only_with_its_evidence_and_a_kernel_may_wait_for_each_part():
    _, story, _ = made("backward_2_two_loops")
    said = [products.sentence(story.frames, "one", adds) for adds in (False, True)]
    assert ["needs no atomics" in one for one in said] == [True, False]
    unread = {key: size for key, size in story.frames[-1]["bytes"].items() if key != "LSE load"}
    assert products.recomputes(story.frames) and not products.recomputes([{**story.frames[-1], "bytes": unread}])
    spec = ACCEPTED["backward_3_one_loop"]
    for length, due in ((32, "has only 1 part."), (64, "has only 2 parts."), (96, "by chance")):
        problem = spec.problem_type(**{**SMALL, "seq_len": length})
        request = Request(spec, problem, tuple(spec.settings_for(problem).items()))
        assert due in tabs._deterministic(request, {"dQ": 0})[-1]["text"]
    waits = {"whole": False, "first": False, "unread": False, "tile": 0, "sums": ["dV"], "one": "query", "made": []}
    waits |= {"starts": False, "part": "", "phase": "", "any_order": True, "adds": True, "weights": "shared memory"}
    waits |= {"launch_name": "launch 1", "block": 0, "role": "", "queries": None, "keys": None, "moved": []}
    for part in gradients.MARKS.values():
        (frame,) = products.WORDS.frames([{**waits, "ready": part, "together": []}], {})
        assert "because" in frame["sentence"] and "registers" not in frame["sentence"]


def test_the_first_scores_come_before_all_and_an_add_without_a_probe_is_derived():
    for name in IN_SECTIONS[1:]:
        _, story, _ = made(name)
        adds = [frame for frame in story.frames if frame["phase"] == "add"]
        assert adds and all("store dQ" in one["details"] and "(derived" in one["details"] for one in adds)
    flights = [(f["made"], f["flying"]) for f in story.frames if f["made"] in (["P"], ["dS"]) and f["tile"] == 0]
    assert flights == [(["P"], ["dP"]), (["dS"], ["dV"])]
    late = next(f["flying"] for f in story.frames if f["phase"] == "query_sums")
    assert late == ["S", "dK", "dQ"] and not any(f["flying"] for f in adds)
    early = [frame["sentence"] for frame in story.frames if frame["made"] == ["S"] and frame["tile"] < 0]
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
        story = walk.walk(running.run(dataclasses.replace(whole, scope=scope)))
        keys = {(*f["keys"],) for f in story.frames if "S" in f["made"] and f["keys"] and not f["whole"]}
        assert story.head == head and keys == {(tile * 128, min(129, tile * 128 + 127))}


def test_blocks_that_share_a_kv_head_write_parts_and_the_last_launch_adds_them():
    spec = ACCEPTED["backward_6_overlap"]
    problem = spec.problem_type(seq_len=130, num_heads=4, num_kv_heads=2, causal=True)
    whole = Request(spec, problem, tuple(spec.settings_for(problem).items()))
    first = [gradients.item_of(whole, gradients.KEY_ITEM, head, 1) for head in (0, 1)]
    assert [gradients.head_of(whole, gradients.KEY_ITEM, at) for at in first] == [0, 1]
    scope = Scope(0, 1, ((gradients.KEY_ITEM, first[1], 1), ("keys", gradients.item_of(whole, "keys", 1, 1), 1)))
    run = running.run(dataclasses.replace(whole, scope=scope))
    story = walk.walk(run)
    said = {frame["phase"]: frame["sentence"] for frame in story.frames}
    assert story.head == 2 and {"clear", "write_parts", "add_parts"} <= said.keys() and "write" in said
    assert {(*f["keys"],) for f in story.frames if "S" in f["made"] and not f["whole"]} == {(128, 129)}
    (stored,) = (touch for touch in story.frames[-1]["touched"] if touch["kind"] == "store")
    assert stored["part"] == "dK" and "other heads" in said["write_parts"] and "other heads" in said["add_parts"]
    assert encoding.decode(encoding.encode(STORY.stage(run.request, running)))["frames"]
