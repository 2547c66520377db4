"""The ledger of fusion is the trace's, byte for byte, and its questions have the run's numbers."""

import json
import re
from dataclasses import asdict, replace
from types import SimpleNamespace

import pandas as pd
import pytest

from explainers.stories.fusion import clock, ledger, one_launch, walk
from explainers.stories.fusion.story import STORY, Pair
from explainers.story import axes, encoding, stage
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.measure import chains
from kernels.measure.chain_runs import COMPILED
from kernels.recordings import tables
from kernels.run import execute
from kernels.trace.kinds import READS

RUNS: dict = {}
RUNNER = SimpleNamespace(run=lambda request: run_of(request), provenance=stage.provenance)
NAMES = [name for name, spec in current().kernels.items() if STORY.accepts(spec)]


def run_of(request):
    if request not in RUNS:
        RUNS[request] = execute.run(request)
    return RUNS[request]


def pair_of(name, **sizes):
    fused = current().kernels[name]
    problem = fused.problem_type(**sizes)
    requests = [
        Request(spec, problem, tuple(spec.settings_for(problem).items()), backend="cpu")
        for spec in (fused, current().separate_of(fused))
    ]
    return Pair(*(replace(one, scope=Scope.everything(one.plan)) for one in requests))


@pytest.mark.parametrize("name", ["add_rms_norm", "rope_write", "norm_rope_write"])
def test_the_bytes_of_the_ledger_are_those_of_the_trace(name):
    pair = pair_of(name)
    runs = [run_of(pair.separate), run_of(pair.request)]
    found = ledger.ledger(runs)
    for side, run in enumerate(runs):
        traffic = execute.traffic(run.request)
        table = traffic.table[traffic.table.space == "global"]
        assert traffic.whole
        for row in table.itertuples():
            kind = "load" if row.kind in READS else "store"
            own = [m for m in found.moves if (m.side, m.tensor, m.kind) == (side, row.tensor, kind)]
            assert sum(move.requested for move in own) == row.bytes
            assert [move.bytes for move in own] == [touched(run, move) for move in own]
    assert len(found.entries[0]) > len(found.entries[1]) and found.totals[0] > found.totals[1]


def touched(run, move):
    """The bytes of the trace that a launch touches, one by one."""
    rows = run.trace.frame("launch", "tensor", "event", "offset", "bytes")
    name = next(site.tensor for site in run.sites if site.tensor in (move.tensor, f"{move.tensor}_gmem"))
    rows = rows[
        (rows.launch == move.launch) & (rows.tensor == name) & (rows.event.isin(READS) == (move.kind == "load"))
    ]
    return len({byte for row in rows.itertuples() for byte in range(int(row.offset), int(row.offset + row.bytes))})


def test_a_tensor_between_the_launches_never_goes_to_memory_and_a_kept_output_is_not_read_again():
    for name, kept in (("rope_write", ledger.NEVER), ("add_rms_norm", ledger.ONCE)):
        pair = pair_of(name)
        found = ledger.ledger([run_of(pair.separate), run_of(pair.request)])
        (tensor, saved) = next(iter(found.saved.items()))
        size = axes.tensors(pair.separate)[tensor].nbytes
        assert found.kept(tensor) == kept and saved == (2 * size if kept == ledger.NEVER else size)


def test_the_steps_add_up_to_both_sums_and_the_page_goes_to_the_browser():
    made = STORY.stage(pair_of("rope_write"), RUNNER)
    frames, meta = made.frames, made.views[0].meta
    for side in range(2):
        moved = [m for m in meta["moves"] if meta["launches"][m["column"]]["side"] == side]
        assert sum(m["bytes"] for m in moved) == meta["totals"][side] == frames[-1]["so_far"][side]
        for step, frame in enumerate(frames):
            assert frame["so_far"][side] == sum(m["bytes"] for m in moved if m["step"] <= step)
    kept = next(n for n, t in enumerate(meta["tensors"]) if t["kept"] == "never")
    stays = [f for f in frames if f["tensor"] == kept]
    assert [f["cells"] for f in stays] == [[0, 2], [1, 2]] and meta["tensors"][kept]["passed"] == [0, 1]
    lines = next(f["fused_lines"] for f in frames if f["title"] == "cache_write writes K")  # k goes on into K
    assert lines and all(f["separate_lines"] and f["fused_lines"] == dict.fromkeys(lines, 1) for f in stays)
    saved, fewer = made.questions[:2]
    assert saved.covers == [{"launch": 2}]  # the whole fused kernel, so no single ? gives it away
    assert saved.options[saved.answer] in {t["name"] for t in meta["tensors"] if t["kept"] == "never"}
    assert fewer.options[fewer.answer] == f"{meta['totals'][0] - meta['totals'][1]:,} bytes"
    assert encoding.decode(encoding.encode(made))["frames"]


def test_a_kernel_without_separate_launches_is_refused_with_the_remedy():
    refused = [spec for spec in current().kernels.values() if not STORY.accepts(spec)]
    assert refused and all("changed_from" in STORY.refusal(spec) for spec in refused)
    assert {current().separate_of(current().kernels[name]) for name in NAMES} & {
        current().kernels["rope_write_separate"]
    }


def test_the_times_come_from_the_nearest_recorded_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    clock.all_times.cache_clear()
    spec = current().kernels["rope_write"]
    rows = pd.DataFrame([row for case in chains.cases() if case.fused is spec for row in rows_of(case)])
    gpu = SimpleNamespace(name="Small GPU", driver="580")
    tables.save(rows, tables.path_of(chains.KIND, gpu.name), tables.provenance(gpu))
    pair = pair_of("rope_write")
    times = clock.nearest(pair.request)
    assert times.problem.tokens == 1 and times.problem.dtype == pair.request.problem.dtype
    assert times.us("separate", "graph") == 2 and times.us("fused", "graph") == 1
    made = STORY.stage(pair, RUNNER)
    asked = {question.id: question for question in made.questions}
    assert "2.00 times" in asked["graph_gain"].options[asked["graph_gain"].answer]
    assert asked["why_faster"].options[asked["why_faster"].answer] == "The saved launch"
    said = "ecorded on Small GPU, 20.*, with 1 token, 32 query heads and 8 KV heads of 128, float16"
    assert (
        re.search(f"R?{said}", clock.source(times)) and "1.00 in place of 2.00 µs (recorded, sustained)" in made.summary
    )
    assert all(re.search(said, asked[name].why) for name in ("why_faster", "graph_gain"))
    assert "2.00 with 8,192" in clock.shown(clock.alike(clock.all_times(spec)[0])[0])["note"]
    assert made.views[0].meta["time"]["us"] == [2, 1.5, 1]
    gap = next(frame for frame in made.frames if frame["timed"])["sentence"]
    assert "rope runs for 0.50 µs. Then no kernel runs for 0.75 µs, until cache_write starts." in gap
    assert len(clock.table(clock.all_times(spec))) == 2 * len(rows)
    clock.all_times.cache_clear()


def test_each_chain_has_one_time_on_the_page_and_it_is_the_tables():
    """The picture had sustained times, 3.69, and the chart and a question rested ones, 3.70."""
    pair = pair_of("rope_write", tokens=16, num_heads=32, num_kv_heads=8, head_dim=128)
    made, times = STORY.stage(pair, RUNNER), clock.nearest(pair.request)
    assert pair.request.problem.tokens == times.problem.tokens == 16
    rows = times.rows[(times.rows["mode"] == "graph") & (times.rows.l2 == "hot")].set_index("who").sustained_us
    shown = made.views[0].meta["time"]
    assert shown["texts"] == [f"{rows[who]:.2f} µs" for who in ("separate", "compiled", "fused")]
    asked = [asdict(question) for question in made.questions]
    said = json.dumps([made.summary, made.frames, asked, made.views[1].meta, shown["texts"]], ensure_ascii=False)
    for us in rows:
        near = {text for text in re.findall(r"(\d+\.\d\d)(?: µs| in place)", said) if abs(float(text) / us - 1) < 0.006}
        assert near == {f"{us:.2f}"}, (us, near)
    assert f"{rows.separate - rows.fused:.2f} µs saved" in made.summary
    for parts, spans, us in zip(shown["pieces"], shown["spans"], shown["us"]):
        assert not spans or sum(float(text) for part in parts for text in part) + spans[0][0] == pytest.approx(
            us, abs=0.03
        )


def rows_of(case):
    names = {case.separate.name: (4, 2), case.fused.name: (2, 1), COMPILED: (3, 1.5)}
    for name, times in names.items():
        for mode, us in zip(("stream", "graph"), times):
            spec = current().kernels.get(name)
            made = {"fused": case.fused.name, "name": name, "mode": mode, "us": us, "sustained_us": us, "status": "ok"}
            spans = "[[0, 0.5], [1.25, 1.75]]" if name == case.separate.name else "[]"
            made |= {"problem": chains.problem_text(case.problem), "spans": spans, "l2": "hot", "launches": 2}
            if spec:
                settings = chains.settings_text(spec.settings_for(case.problem).items())
                made |= {"code_hash": spec.code_hash, "settings": settings}
            yield dict.fromkeys(chains.COLUMNS) | made
            yield dict.fromkeys(chains.COLUMNS) | made | {"l2": "cold"}


def test_the_products_that_one_launch_would_repeat_exceed_those_of_attention():
    layer = one_launch.LAYER
    assert layer.repeated_flops > layer.attention_flops > 0
    tiny = one_launch.Layer("tiny", tokens=4, hidden=8, num_heads=4, num_kv_heads=2, head_dim=16, tile=2)
    one_key = 2 * 8 * 2 * 16  # flops of k and v of a key in one head
    seen = [2, 4]  # keys that each query tile sees
    assert tiny.repeated_flops == (4 * sum(seen) - 2 * 4) * one_key
    assert all(len(part.split()) <= 25 for said in one_launch.sentences() for part in said.split(". "))


def test_a_size_is_said_for_people():
    problem = current().kernels["add_rms_norm"].problem_type
    assert [clock.size_of(problem(n, 64)) for n in (1, 8192)] == ["1 token, hidden 64", "8,192 tokens, hidden 64"]


def test_no_block_needs_the_part_of_another_only_if_none_can_read_it():
    pair = pair_of("rope_write")
    found = ledger.ledger([run_of(pair.separate), run_of(pair.request)])
    read = next(m for m in found.moves if m.side == 0 and m.tensor in found.saved and m.kind == "load")
    for other in (replace(found, clusters=True), replace(found, moves=(*found.moves, replace(read, side=1)))):
        assert "no block needs" in walk.reason(found) and "no block needs" not in walk.reason(other)


def test_the_sentences_of_the_steps_are_short():
    pair = pair_of("norm_rope_write")
    frames = walk.frames_of(ledger.ledger([run_of(pair.separate), run_of(pair.request)]))
    assert all(len(part.split()) <= 25 for f in frames for part in f["sentence"].split(". "))
