import numpy as np
import pytest
from conftest import small_tiles

from explainers import compare, tiling
from kernels import bench, execute, tables
from kernels.execute import Request, Scope
from kernels.problem import AttentionProblem

PROBLEM = AttentionProblem(seq_len=50, heads=1)


def made(cpu_run, name, settings=None, problem=PROBLEM):
    run = cpu_run(name, problem, small_tiles(name) if settings is None else settings, Scope(0))
    return run, tiling.explain(run).frames


def aligned(cpu_run, a, b):
    (run_a, frames_a), (run_b, frames_b) = a, b
    return compare.align(frames_a, frames_b, (run_a.request, run_b.request)), frames_a, frames_b


def test_a_kernel_beside_itself_steps_together(cpu_run):
    one = made(cpu_run, "03_flash")
    done, frames, _ = aligned(cpu_run, one, one)
    assert done.a == done.b == frames and [f["title"] for f in done.frames] == [f["title"] for f in frames]


@pytest.mark.parametrize(("left", "right"), [("03_flash", "04_flash_registers"), ("01_naive", "02_tiled"), ("01_naive", "03_flash")])
def test_every_step_of_both_is_there_once_and_in_order(cpu_run, left, right):
    done, frames_a, frames_b = aligned(cpu_run, made(cpu_run, left), made(cpu_run, right))
    assert len(done.frames) == len(done.a) == len(done.b)
    for side, frames in ((done.a, frames_a), (done.b, frames_b)):
        assert [f for f in side if "waits" not in f["sentence"] and "not begun" not in f["sentence"]] == frames
    for common, a, b in zip(done.frames, done.a, done.b):
        if "alone" not in common["title"]:
            assert a["title"].split(" · ")[-1] == b["title"].split(" · ")[-1] and a["tile"] == b["tile"]


def test_04_prefetches_while_03_waits(cpu_run):
    done, _, _ = aligned(cpu_run, made(cpu_run, "03_flash"), made(cpu_run, "04_flash_registers"))
    alone = [n for n, f in enumerate(done.frames) if "(B alone)" in f["title"]]
    assert alone and {done.b[n]["title"].split(" · ")[-1] for n in alone} == {"Prefetch K", "Load V"}
    for n in alone:
        assert done.a[n]["lines"] == {} and done.a[n]["touched"] == [] and "A waits after" in done.a[n]["sentence"] or n == 0


def test_tiles_of_other_sizes_meet_where_they_begin_at_the_same_key(cpu_run):
    small, large = made(cpu_run, "03_flash"), made(cpu_run, "03_flash", (("BLOCK_KV", 32),))
    done, _, _ = aligned(cpu_run, small, large)
    for common, a, b in zip(done.frames, done.a, done.b):
        if "alone" not in common["title"] and common["tile"] >= 0:
            assert a["tile"] * 16 == b["tile"] * 32
    assert sum("A alone" in f["title"] for f in done.frames) >= 2 * 4  # two tiles of 16 keys have no beginning in common with one of 32


def test_outputs_and_state_are_compared_where_both_logged_them(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name), Scope(1)) for name in ("03_flash", "04_flash_registers")]
    found = compare.outputs(*runs).set_index("what")["largest difference"]
    assert found["O"] == np.abs(runs[0].arrays["o"].astype(float) - runs[1].arrays["o"]).max() < 1e-6
    assert found["m after the last tile"] < 1e-6 and found["l after the last tile"] < 1e-5
    assert (compare.outputs(runs[0], runs[0])["largest difference"] == 0).all()
    state = compare.state(runs[0])
    assert list(state.index) == list(range(16, 32))
    s = runs[0].arrays["q"][0, 0, 16].astype(float) @ runs[0].arrays["k"][0, 0].astype(float).T * PROBLEM.scale
    assert state.m[16] == pytest.approx(s.max(), rel=1e-5) and state.l[16] == pytest.approx(np.exp(s - s.max()).sum(), rel=1e-5)


def test_a_broken_build_shows_in_the_outputs(cpu_run):
    good, broken = cpu_run("03_flash", PROBLEM), cpu_run("03_flash", PROBLEM, (("RESCALE", 0),))
    found = compare.outputs(good, broken).set_index("what")["largest difference"]
    assert found["O"] > 0.01 and found["l after the last tile"] > 0.1 and found["m after the last tile"] == 0


def test_the_words_are_those_of_the_figures(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name)) for name in ("03_flash", "04_flash_registers")]
    requests = [run.request for run in runs]
    traffics = [execute.traffic(request) for request in requests]
    costs = [compare.costs(run) for run in runs]
    table = compare.differences(requests, [None, None], [None, None], costs, traffics).set_index("what")
    assert table.loc["launches"].iloc[0] == "flash: 4 x 1 x 1 blocks of 256 threads" and table.loc["launches"].iloc[1].endswith("of 32 threads")
    assert table.loc["bytes of K read, global"]["in words"] == "the same"
    reads = [c["shared wavefronts, reads"] / 16 for c in costs]
    assert table.loc["shared wavefronts, reads, per query"]["in words"] == f"B 1/{reads[0] / reads[1]:.3g} of A"
    assert table.loc["PAD"].iloc[0] == "none" and table.loc["PAD"].iloc[1] == "8" and table.loc["BLOCK_Q"]["in words"] == "the same"


def test_the_diff_leads_from_one_source_to_the_other():
    from kernels.catalog import KERNELS

    text = compare.diff(KERNELS["02_tiled"], KERNELS["03_flash"])
    added = [line[1:] for line in text.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added and set(added) <= set(KERNELS["03_flash"].source.splitlines())


def test_recorded_times_of_both_meet_on_the_same_problem():
    table, where = tables.load(bench.path_of("NVIDIA H200"))
    table = table.assign(device=where["device"], date=where["date"], source="recorded")
    found = compare.times(table, [Request(kernel, PROBLEM) for kernel in _kernels()])
    assert len(found) >= 20
    for r in found.itertuples():
        rows = table[(table.problem == r.problem) & (table.status == "ok")].set_index("name")
        assert r.ratio == pytest.approx(rows.median_us["03_flash"] / rows.median_us["04_flash_registers"])
        assert r.ratio_low <= r.ratio <= r.ratio_high
    assert f"B is {found[found.seq_len == 16384].ratio.iloc[0]:.3g} times" in compare.times_sentence(found[found.seq_len == 16384], ["A", "B"])
    assert compare.times_table(found, ["A", "B"]).shape[0] == len(found)
    assert compare.ratio_chart(found).to_dict()["layer"]
    assert compare.times(table[table.name != "03_flash"], [Request(k, PROBLEM) for k in _kernels()]).empty
    assert "No problem has a time" in compare.times_sentence(found[:0], ["A", "B"])


def _kernels():
    from kernels.catalog import KERNELS

    return KERNELS["03_flash"], KERNELS["04_flash_registers"]
