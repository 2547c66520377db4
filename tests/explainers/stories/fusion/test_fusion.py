"""The ledger of fusion is the trace's, byte for byte, and its questions have the run's numbers."""

from dataclasses import replace
from types import SimpleNamespace

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


def pair_of(name):
    fused = current().kernels[name]
    requests = [
        Request(spec, fused.problem_type(), tuple(spec.settings_for(fused.problem_type()).items()), backend="cpu")
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
        assert traffic.whole and found.totals[side] == table.bytes.sum()
        for row in table.itertuples():
            assert found.bytes(side, row.tensor, "load" if row.kind in READS else "store") == row.bytes
    assert len(found.entries[0]) > len(found.entries[1]) and found.totals[0] > found.totals[1]


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
        moved = [f["bytes"] for f in frames if f["launch"] >= 0 and meta["launches"][f["launch"]]["side"] == side]
        assert sum(moved) == meta["totals"][side] == frames[-1]["so_far"][side] == made.state[side].values[-1]
    stays = next(f for f in frames if f["launch"] == 2 and not f["kind"])
    assert meta["tensors"][stays["tensor"]]["kept"] == "never" and stays["fused_lines"] and not stays["bytes"]
    assert frames[-1]["separate_lines"] and frames[-1]["fused_lines"] == stays["fused_lines"]
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
    asked = {case.key: case for case in chains.cases() if case.fused is spec}
    rows = {key: list(rows_of(case)) for key, case in asked.items()}
    gpu = SimpleNamespace(name="Small GPU", driver="580")
    chains._write(tables.path_of(chains.KIND, gpu.name), gpu, asked, rows)
    pair = pair_of("rope_write")
    times = clock.nearest(pair.request)
    assert times.problem.tokens == 1 and times.problem.dtype == pair.request.problem.dtype
    assert times.us("separate", "graph") == 2 and times.us("fused", "graph") == 1
    made = STORY.stage(pair, RUNNER)
    assert (
        made.questions[-1].id == "graph_gain" and "2.00 times" in made.questions[-1].options[made.questions[-1].answer]
    )
    assert "fusion is 2.00 times as fast as the separate launches, sustained." in made.summary
    assert f"Recorded: {times.problem.size}, {times.problem.dtype}, Small GPU, 20" in made.summary
    assert len(clock.table(clock.all_times(spec))) == 2 * len(rows)
    clock.all_times.cache_clear()


def rows_of(case):
    names = {case.separate.name: (4, 2), case.fused.name: (2, 1), COMPILED: (3, 1.5)}
    for name, times in names.items():
        for mode, us in zip(("stream", "graph"), times):
            spec = current().kernels.get(name)
            made = {"fused": case.fused.name, "name": name, "mode": mode, "us": us, "sustained_us": us, "status": "ok"}
            made |= {"problem": chains.problem_text(case.problem), "spans": "[]", "l2": "hot"}
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


def test_the_sentences_of_the_steps_are_short():
    pair = pair_of("norm_rope_write")
    frames = walk.frames_of(ledger.ledger([run_of(pair.separate), run_of(pair.request)]))
    assert all(len(part.split()) <= 25 for f in frames for part in f["sentence"].split(". "))
