"""The ledger of fusion is the trace's, byte for byte, and its questions have the run's numbers."""

import json
import re
from dataclasses import asdict, replace
from types import SimpleNamespace

import pandas as pd
import pytest

from explainers.stories.fusion import moves, times
from explainers.stories.fusion.story import STORY, WORDS, Pair, data_of, layer, one_launch
from explainers.story import axes, encoding, stage
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.measure import chains
from kernels.measure.chains import COMPILED
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


def both(pair):
    return [run_of(pair.separate), run_of(pair.request)]


@pytest.mark.parametrize("name", ["add_rms_norm", "rope_write", "norm_rope_write"])
def test_the_bytes_of_the_ledger_are_those_of_the_trace(name):
    runs = both(pair_of(name))
    data = data_of(runs)
    for side, run in zip(moves.SIDES, runs):
        traffic = execute.traffic(run.request)
        assert traffic.whole
        for row in traffic.table[traffic.table.space == "global"].itertuples():
            kind = "load" if row.kind in READS else "store"
            moved = data["moves"]
            own = moved[(moved.side == side) & (moved.tensor == row.tensor) & (moved.kind == kind)]
            assert own.requested.sum() == row.bytes
            assert [*own.bytes] == [touched(run, move) for move in own.itertuples()]
    assert data["launches"]["separate"] > data["launches"]["fused"] and data["before"] > data["after"]


def touched(run, move):
    """The bytes of the trace that a launch touches, one by one."""
    rows = run.trace.frame("launch", "tensor", "event", "offset", "bytes")
    name = next(site.tensor for site in run.sites if site.tensor in (move.tensor, f"{move.tensor}_gmem"))
    rows = rows[
        (rows.launch == move.launch) & (rows.tensor == name) & (rows.event.isin(READS) == (move.kind == "load"))
    ]
    return len({byte for row in rows.itertuples() for byte in range(int(row.offset), int(row.offset + row.bytes))})


def test_a_tensor_between_the_launches_never_goes_to_memory_and_a_kept_output_is_not_read_again():
    for name, kept in (("rope_write", "never"), ("add_rms_norm", "once")):
        pair = pair_of(name)
        data = data_of(both(pair))
        first = data["tensors"].loc[data["saved"][0]]
        size = axes.tensors(pair.separate)[first.name].nbytes
        assert first.kept == kept and first.saved == (2 * size if kept == "never" else size)


def test_the_steps_add_up_to_both_sums_and_the_page_goes_to_the_browser():
    made = encoding.decode(encoding.encode(STORY.stage(pair_of("rope_write"), RUNNER)))
    (table,), (sums, *_) = made["views"][0]["meta"]["lines"]
    for bar in sums["bars"]:
        own = [cell for cell in table["cells"] if cell["datum"]["side"] == bar["datum"]["total"] and not cell["framed"]]
        assert sum(cell["value"] for cell in own) == bar["value"]
        for step, so_far in enumerate(bar["steps"]):
            assert so_far == sum(cell["value"] for cell in own if cell["since"] <= step)
    (kept,) = (cell for cell in table["cells"] if cell["framed"])
    (arrow,) = table["arrows"]
    assert (arrow["row"], arrow["start"], arrow["end"]) == (kept["row"], 0, 1) and kept["column"] == 2
    lines = next(f["fused_lines"] for f in made["frames"] if f["title"] == "cache_write writes K")  # k goes on into K
    stays = [made["frames"][n] for n in kept["now"]]
    assert len(stays) == 2 and all(f["separate_lines"] and f["fused_lines"] == dict.fromkeys(lines, 1) for f in stays)
    saved, fewer = made["questions"][:2]
    assert saved["covers"] == [{"side": "fused"}] and {cell["datum"]["side"] for cell in table["cells"]} > {"fused"}
    assert saved["options"][saved["answer"]] == table["rows"][kept["row"]]["name"]
    separate, fused = (bar["value"] for bar in sums["bars"])
    assert fewer["options"][fewer["answer"]] == f"{separate - fused:,} bytes"


def test_a_kernel_without_separate_launches_is_refused_with_the_remedy():
    refused = [spec for spec in current().kernels.values() if not STORY.accepts(spec)]
    assert refused and all("changed_from" in STORY.refusal(spec) for spec in refused)
    assert {current().separate_of(current().kernels[name]) for name in NAMES} & {
        current().kernels["rope_write_separate"]
    }


def test_the_times_come_from_the_nearest_recorded_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    times.recorded.cache_clear()
    spec = current().kernels["rope_write"]
    rows = pd.DataFrame([row for case in chains.cases() if case.fused is spec for row in rows_of(case)])
    gpu = SimpleNamespace(name="Small GPU", driver="580")
    tables.save(rows, tables.path_of(chains.KIND, gpu.name), tables.provenance(gpu))
    pair = pair_of("rope_write")
    near, _ = times.nearest(pair.request)
    assert near["problem"].tokens == 1 and near["problem"].dtype == pair.request.problem.dtype
    assert near["separate"] == 2 and near["fused"] == 1
    made = STORY.stage(pair, RUNNER)
    asked = {question.id: question for question in made.questions}
    gain = asked["graph_gain"]
    assert "2.00 times" in gain.options[gain.answer] and gain.view == made.views[1].id
    ((clock,),) = made.views[1].meta.lines
    covered = [bar.value for bar in clock.bars if bar.datum["time"] == gain.covers[0]["time"]]
    assert clock.key == gain.covers[0]["figure"] and covered[0] / covered[1] == 2
    assert asked["why_faster"].options[asked["why_faster"].answer] == "The saved launch"
    said = "recorded on Small GPU, 20.*, with 1 token, 32 query heads and 8 KV heads of 128, float16"
    assert re.search(said, near["source"]) and "1.00 in place of 2.00 µs (recorded, sustained)" in made.summary
    assert all(re.search(said, asked[name].why) for name in ("why_faster", "graph_gain"))
    bars = made.views[0].meta.lines[1][1]
    assert "2.00 with 1 token, 2.00 with 64" in bars.note and [bar.value for bar in bars.bars] == [2, 1.5, 1]
    gap = made.frames[bars.now[0]]["sentence"]
    assert "rope runs for 0.50 µs. Then no kernel runs for 0.75 µs, until cache_write starts." in gap
    assert len(times.table(spec)) == 2 * rows.problem.nunique()
    times.recorded.cache_clear()


def test_each_chain_has_one_time_on_the_page_and_it_is_the_tables():
    """The picture had sustained times, 3.69, and the chart and a question rested ones, 3.70."""
    pair = pair_of("rope_write", tokens=16, num_heads=32, num_kv_heads=8, head_dim=128)
    made, (near, _) = STORY.stage(pair, RUNNER), times.nearest(pair.request)
    assert pair.request.problem.tokens == near["problem"].tokens == 16
    rows, _ = chains.recorded(pair.request.kernel)
    rows = rows[(rows.problem == chains.problem_text(near["problem"])) & (rows["mode"] == "graph") & (rows.l2 == "hot")]
    bars = made.views[0].meta.lines[1][1].bars
    us = [*rows.set_index("name").sustained_us[[pair.separate.kernel.name, COMPILED, pair.request.kernel.name]]]
    assert [bar.text for bar in bars] == [f"{one:.2f} µs" for one in us]
    asked = [asdict(question) for question in made.questions]
    said = json.dumps([made.summary, made.frames, asked, asdict(made.views[1].meta)], ensure_ascii=False)
    for one in us:
        near_ones = {
            text for text in re.findall(r"(\d+\.\d\d)(?: µs| in place)", said) if abs(float(text) / one - 1) < 0.006
        }
        assert near_ones == {f"{one:.2f}"}, (one, near_ones)
    assert f"{us[0] - us[2]:.2f} µs saved" in made.summary
    for bar in bars:
        sums = sum(float(text) for part in bar.parts for text in (part.text, part.gap))
        assert not bar.parts or sums + bar.parts[0].start == pytest.approx(bar.value, abs=0.03)


def rows_of(case):
    names = {case.separate.name: (4, 2), case.fused.name: (2, 1), COMPILED: (3, 1.5)}
    for name, both_us in names.items():
        for mode, us in zip(("stream", "graph"), both_us):
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
    assert layer()["repeated"] > layer()["attention"] > 0
    tiny = layer(tokens=4, hidden=8, heads=4, kv_heads=2, head_dim=16, tile=2)
    one_key = 2 * 8 * 2 * 16  # flops of k and v of a key in one head
    seen = [2, 4]  # keys that each query tile sees
    assert tiny["repeated"] == (4 * sum(seen) - 2 * 4) * one_key
    assert all(len(part.split()) <= 25 for block in one_launch() for part in block["text"].split(". "))


def test_no_block_needs_the_part_of_another_only_if_none_can_read_it():
    data = data_of(both(pair_of("rope_write")))
    assert data["apart"] and "no block needs" in WORDS.say("reason", data)
    assert "no block needs" not in WORDS.say("reason", data | {"apart": False})
