import numpy as np
import pytest
from conftest import small_tiles

from explainers import compare, compare_times, tiling
from explainers.glossary import PHASES
from kernels.catalog import KERNELS
from kernels.core.request import Request, Scope
from kernels.families.dense.problem import DenseProblem
from kernels.run import execute

PROBLEM = DenseProblem(seq_len=50, num_heads=1)


def made(cpu_run, name, settings=None, problem=PROBLEM):
    run = cpu_run(name, problem, small_tiles(name) if settings is None else settings, Scope(0))
    return run, tiling.explain(run).frames


def aligned(cpu_run, a, b):
    (_, frames_a), (_, frames_b) = a, b
    return compare.align(frames_a, frames_b), frames_a, frames_b


def test_a_kernel_beside_itself_steps_together(cpu_run):
    one = made(cpu_run, "03_flash")
    done, frames, _ = aligned(cpu_run, one, one)
    assert done.a == done.b == frames and [f["title"] for f in done.frames] == [f["title"] for f in frames]


@pytest.mark.parametrize(
    ("left", "right"), [("03_flash", "04_flash_registers"), ("01_naive", "02_tiled"), ("01_naive", "03_flash")]
)
def test_every_step_of_both_is_there_once_and_in_order(cpu_run, left, right):
    done, frames_a, frames_b = aligned(cpu_run, made(cpu_run, left), made(cpu_run, right))
    assert len(done.frames) == len(done.a) == len(done.b)
    for side, frames in ((done.a, frames_a), (done.b, frames_b)):
        assert [f for f in side if "waits" not in f["sentence"] and "not begun" not in f["sentence"]] == frames
    for common, a, b in zip(done.frames, done.a, done.b):
        if "alone" not in common["title"]:
            assert common["phase"] == a["phase"] == b["phase"] and a["tile"] == b["tile"]


def test_04_prefetches_while_03_waits(cpu_run):
    done, _, _ = aligned(cpu_run, made(cpu_run, "03_flash"), made(cpu_run, "04_flash_registers"))
    alone = [n for n, f in enumerate(done.frames) if "(B alone)" in f["title"]]
    assert alone and {PHASES[done.b[n]["phase"]] for n in alone} == {"Prefetch K", "Load V"}
    for n in alone:
        assert (
            done.a[n]["lines"] == {}
            and done.a[n]["touched"] == []
            and "A waits after" in done.a[n]["sentence"]
            or n == 0
        )


def test_tiles_of_other_sizes_meet_where_they_begin_at_the_same_key(cpu_run):
    small, large = made(cpu_run, "03_flash"), made(cpu_run, "03_flash", (("BLOCK_KV", 32),))
    done, _, _ = aligned(cpu_run, small, large)
    for common, a, b in zip(done.frames, done.a, done.b):
        if "alone" not in common["title"] and common["tile"] >= 0:
            assert a["tile"] * 16 == b["tile"] * 32
    assert (
        sum("A alone" in f["title"] for f in done.frames) >= 2 * 4
    )  # two tiles of 16 keys have no beginning in common with one of 32


def test_outputs_and_state_are_compared_where_both_logged_them(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name), Scope(1)) for name in ("03_flash", "04_flash_registers")]
    found = compare.outputs(*runs).set_index("what")["largest difference"]
    assert found["O"] == np.abs(runs[0].arrays["o"].astype(float) - runs[1].arrays["o"]).max() < 1e-6
    assert found["m after the last tile"] < 1e-6 and found["l after the last tile"] < 1e-5
    assert (compare.outputs(runs[0], runs[0])["largest difference"] == 0).all()
    state = compare.state(runs[0])
    assert list(state.index) == list(range(16, 32))
    s = runs[0].arrays["q"][0, 0, 16].astype(float) @ runs[0].arrays["k"][0, 0].astype(float).T * PROBLEM.scale
    assert state.m[16] == pytest.approx(s.max(), rel=1e-5) and state.l[16] == pytest.approx(
        np.exp(s - s.max()).sum(), rel=1e-5
    )


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
    assert table.loc["launches"].iloc[0] == "flash: 4 x 1 x 1 blocks of 256 threads" and table.loc["launches"].iloc[
        1
    ].endswith("of 32 threads")
    assert table.loc["bytes of K read, global"]["in words"] == "the same"
    reads = [c["shared wavefronts, reads"] / 16 for c in costs]
    assert table.loc["shared wavefronts, reads, per query"]["in words"] == f"B 1/{reads[0] / reads[1]:.3g} of A"
    assert (
        table.loc["PAD"].iloc[0] == "none"
        and table.loc["PAD"].iloc[1] == "8"
        and table.loc["BLOCK_Q"]["in words"] == "the same"
    )


def test_the_diff_leads_from_one_source_to_the_other():
    text = compare.diff(KERNELS["02_tiled"], KERNELS["03_flash"])
    added = [line[1:] for line in text.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added and set(added) <= set(KERNELS["03_flash"].source.splitlines())


def test_steps_are_aligned_by_what_they_do_and_not_by_their_titles(cpu_run):
    """Fault 7: the phase was cut out of the title, from its last dot on."""
    _, frames = made(cpu_run, "03_flash")
    scores, softmax = (next(f for f in frames if f["phase"] == phase) for phase in ("scores", "softmax"))
    titled = [{**scores, "title": "Tile 0 · Scores · online"}], [{**softmax, "title": "Tile 0 · Softmax · online"}]
    assert len(compare.align(*titled).frames) == 2
    renamed = [{**f, "title": f"{f['title']} · renamed"} for f in frames]
    together = compare.align(frames, renamed)
    assert together.a == frames and together.b == renamed and not any("alone" in f["title"] for f in together.frames)


def test_times_of_both_meet_on_the_same_problem(bench_table):
    table, _ = bench_table
    requests = [Request(KERNELS[name], PROBLEM) for name in ("03_flash", "04_flash_registers")]
    found = compare_times.times(table, requests)
    assert len(found) >= 20
    for r in found.itertuples():
        rows = table[(table.problem == r.problem) & (table.status == "ok")].set_index("name")
        assert r.ratio == pytest.approx(rows.median_us["03_flash"] / rows.median_us["04_flash_registers"])
        assert r.ratio_low <= r.ratio <= r.ratio_high
    largest = found[found.seq_len == 16384]
    assert f"B is {largest.ratio.iloc[0]:.3g} times" in compare_times.times_sentence(largest, ["A", "B"])
    assert compare_times.times_table(found, ["A", "B"]).shape[0] == len(found)
    assert compare_times.ratio_chart(found).to_dict()["layer"]
    assert compare_times.times(table[table.name != "03_flash"], requests).empty
    assert "No problem has a time" in compare_times.times_sentence(found[:0], ["A", "B"])
