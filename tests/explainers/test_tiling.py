import json

import numpy as np
import pytest
from conftest import small_tiles

from explainers import tiling
from kernels import execute
from kernels.catalog import ATTENTION
from kernels.execute import Scope
from kernels.problem import AttentionProblem

RAGGED = AttentionProblem(seq_len=50, causal=True, heads=3)


@pytest.fixture(scope="module", params=ATTENTION)
def story(request, cpu_run):
    run = cpu_run(request.param, RAGGED, small_tiles(request.param), Scope(5))  # rows 16 to 31 of head 1
    return run, tiling.explain(run)


def test_bytes_so_far_end_at_what_the_trace_holds(story):
    run, made = story
    frame = run.trace.frame("event", "space", "tensor", "bytes")
    for (tensor, kind), part in frame[frame.space == "global"].groupby(["tensor", "event"], observed=True):
        assert made.frames[-1]["bytes"].get(f"{tensor} {kind}", 0) == part.bytes.sum()


def test_every_score_of_the_tile_is_the_one_logged_and_no_other(story):
    run, made = story
    assert made.rows == (16, 32) and made.head == 1
    s = run.arrays["q"][0, 1, 16:32].astype(float) @ run.arrays["k"][0, 1].astype(float).T * run.request.problem.scale
    seen = np.arange(50)[None, :] <= np.arange(16, 32)[:, None]
    assert np.array_equal(~np.isnan(made.scores), seen)
    assert np.allclose(made.scores[seen], s[seen], rtol=1e-4, atol=1e-5)


def test_the_last_o_so_far_is_o_before_or_after_the_division(story):
    run, made = story
    l = run.trace.frame("event", "row", "tile", "value")
    l = l[l.event == "l"].sort_values("tile").groupby("row").value.last().to_numpy() if run.request.kernel.rung >= 3 else np.ones(16)
    assert np.allclose(made.o_values[-1] / l[:, None], run.arrays["o"][0, 1, 16:32], rtol=1e-6)


def test_touched_rectangles_stay_inside_their_tensors_and_the_tile(story):
    run, made = story
    for frame in made.frames:
        for part in frame["touched"]:
            r0, r1, c0, c1 = part["rect"]
            assert 0 <= r0 <= r1 < 50 and 0 <= c0 <= c1 < (50 if part["tensor"] in "SP" else 32)
            if part["tensor"] in "QSPO":
                assert 16 <= r0 <= r1 <= 31
            else:
                assert r1 <= 31  # causal: no key after the last query is read


def test_what_is_resident_was_stored_by_this_block(story):
    run, made = story
    stores = run.trace.frame("launch", "block", "event", "space", "tensor", "bytes")
    stores = stores[(stores.space == "shared") & stores.event.isin(tiling.WRITES)]
    assert any(f["resident"] for f in made.frames) == bool(len(stores))
    for frame in made.frames:
        for tensor, held in frame["resident"].items():
            mine = stores[(stores.block == frame["block"]) & (stores.tensor == tensor)]
            assert len(mine) and held["bytes"] <= mine.bytes.sum()
            assert set(frame["uses"]) <= set(frame["resident"])


def test_the_output_blocks_cover_o_once(story):
    _, made = story
    cover = np.zeros((50, 32), int)
    for r0, r1, c0, c1, _ in made.output_blocks:
        cover[r0:r1 + 1, c0:c1 + 1] += 1
    assert (cover == 1).all()


def test_the_blocks_named_are_those_that_stored_o(cpu_run):
    for name in ATTENTION:
        run = cpu_run(name, RAGGED, small_tiles(name), Scope(5))
        frame = run.trace.frame("block", "event", "space", "tensor")
        stored = set(frame[(frame.tensor == "O") & (frame.event == "store")].block)
        named = {block for r0, _, _, _, block in tiling.explain(run).output_blocks if r0 == 16}
        assert stored == named


def test_frames_are_json_and_sentences_carry_numbers(story):
    _, made = story
    json.dumps(made.frames)
    for frame in made.frames:
        assert frame["sentence"].endswith(".") and any(c.isdigit() for c in frame["sentence"])


def test_naive_reads_k_n_times_and_flash_reuses_it():
    problem = AttentionProblem()
    traffics = {spec.title: execute.traffic(execute.Request(spec, problem, small_tiles(spec.name))) for spec in ATTENTION.values()}
    comparison, reuse = tiling.traffic_comparison(traffics, problem), tiling.reuse(traffics, problem)
    k = comparison[(comparison.tensor == "K")].set_index("kernel").times
    assert k.to_dict() == {"Naive": 64, "Tiled": 4, "FlashAttention": 4, "FlashAttention in registers": 4}
    factors = reuse[reuse.tensor == "K"].set_index("kernel").reuse
    assert factors.to_dict() == {"Naive": 1, "Tiled": 16, "FlashAttention": 16, "FlashAttention in registers": 16}
    assert "Naive 64 times" in tiling.traffic_sentence(comparison, problem, True)
    assert tiling.traffic_chart(comparison).to_dict()["data"]


def test_the_chart_follows_the_clock_and_keeps_its_spec_from_step_to_step(story):
    spec = tiling.cumulative_chart(story[1], "#clock").to_dict()
    assert spec["params"][0]["bind"] == {"element": "#clock", "event": "input"}
    rows = next(iter(spec["datasets"].values()))
    assert max(row.get("step", 0) for row in rows) == len(story[1].frames) - 1


@pytest.mark.parametrize("name", ["02_tiled", "03_flash"])
def test_padding_k_smem_changes_nothing_of_what_the_block_holds_and_reads(cpu_run, name):
    plain, padded = (tiling.explain(cpu_run(name, AttentionProblem(seq_len=50), (("PAD_K", pad),), Scope(1))) for pad in (0, 4))
    assert plain.frames == padded.frames
