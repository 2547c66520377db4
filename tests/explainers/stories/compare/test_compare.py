from dataclasses import replace

import numpy as np
import pytest
from conftest import small_tiles

from explainers.models import generic, tiling
from explainers.stories.compare import differences, pair_times, reasons, two_kernels
from explainers.stories.compare.reasons import Rates
from explainers.story import encoding, stage
from explainers.story.glossary import PHASES
from kernels.build.occupancy import Occupancy
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.families.lab.tiles import ColumnsProblem
from kernels.families.paged.problem import PagedProblem
from kernels.run import execute
from kernels.trace.memory import traced

PROBLEM = DenseProblem(seq_len=50, num_heads=1)


def frames_of(cpu_run, name, settings=None):
    return tiling.explain(cpu_run(name, PROBLEM, small_tiles(name) if settings is None else settings, Scope(0))).frames


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("03_flash", "08b_three_bfloat16"),
        ("01_naive", "02_tiled"),
        ("01_naive", "03_flash"),
        ("03_flash", "03_flash"),
    ],
)
def test_every_step_of_both_is_there_once_and_in_order(cpu_run, left, right):
    frames_a, frames_b = frames_of(cpu_run, left), frames_of(cpu_run, right)
    done = two_kernels.align(frames_a, frames_b)
    assert len(done.frames) == len(done.a) == len(done.b)
    for side, frames in ((done.a, frames_a), (done.b, frames_b)):
        assert [f for f in side if "waits" not in f["sentence"] and "not begun" not in f["sentence"]] == frames
    for common, a, b in zip(done.frames, done.a, done.b):
        if "alone" not in common["title"]:
            assert common["phase"] == a["phase"] == b["phase"] and a["tile"] == b["tile"]
    alone = [n for n, f in enumerate(done.frames) if "alone" in f["title"]]
    assert bool(alone) == (left != right)
    if right == "08b_three_bfloat16":  # it prefetches while 03 waits
        assert {PHASES[done.b[n]["phase"]] for n in alone} == {"Prefetch K", "Load V"}
        for n in (n for n in alone if n):
            assert done.a[n]["lines"] == {} and done.a[n]["touched"] == [] and "A has done" in done.a[n]["sentence"]


def test_tiles_of_other_sizes_meet_where_they_begin_at_the_same_key(cpu_run):
    done = two_kernels.align(frames_of(cpu_run, "03_flash"), frames_of(cpu_run, "03_flash", (("BLOCK_KV", 32),)))
    for common, a, b in zip(done.frames, done.a, done.b):
        if "alone" not in common["title"] and common["tile"] >= 0:
            assert a["tile"] * 16 == b["tile"] * 32
    # two tiles of 16 keys have no beginning in common with one of 32
    assert sum("A alone" in f["title"] for f in done.frames) >= 2 * 4


def test_steps_are_aligned_by_what_they_do_and_not_by_their_titles(cpu_run):
    """Fault 7: the phase was cut out of the title, from its last dot on."""
    frames = frames_of(cpu_run, "03_flash")
    scores, softmax = (next(f for f in frames if f["phase"] == phase) for phase in ("scores", "softmax"))
    titled = [{**scores, "title": "Tile 0 · Scores · online"}], [{**softmax, "title": "Tile 0 · Softmax · online"}]
    assert len(two_kernels.align(*titled).frames) == 2
    renamed = [{**f, "title": f"{f['title']} · renamed"} for f in frames]
    together = two_kernels.align(frames, renamed)
    assert together.a == frames and together.b == renamed and not any("alone" in f["title"] for f in together.frames)


def test_outputs_and_state_are_compared_where_both_logged_them(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name), Scope(1)) for name in ("03_flash", "08b_three_bfloat16")]
    found = differences.outputs(*runs).set_index("what")["largest difference"]
    assert found["O"] == np.abs(runs[0].arrays["o"].astype(float) - runs[1].arrays["o"]).max() < 1e-6
    assert found["m after the last tile"] < 1e-6 and found["l after the last tile"] < 1e-5
    assert (differences.outputs(runs[0], runs[0])["largest difference"] == 0).all()
    state = differences.state(runs[0])
    assert list(state.index) == list(range(16, 32))
    s = runs[0].arrays["q"][0, 0, 16].astype(float) @ runs[0].arrays["k"][0, 0].astype(float).T * PROBLEM.scale
    assert state.m[16] == pytest.approx(s.max(), rel=1e-5) and state.l[16] == pytest.approx(
        np.exp(s - s.max()).sum(), rel=1e-5
    )


def test_the_words_are_those_of_the_figures(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name)) for name in ("03_flash", "08b_three_bfloat16")]
    traffics = [execute.traffic(run.request) for run in runs]
    costs = [differences.costs(run) for run in runs]
    table = differences.differences(runs, [], [], traffics).set_index("what")
    launches = list(table.loc["launches"])
    assert launches[0] == "flash: 4 x 1 x 1 blocks of 256 threads" and launches[1].endswith("of 32 threads")
    assert table.loc["bytes of K read, global"]["in words"] == "the same"
    reads = [c["shared wavefronts, reads"] / 16 for c in costs]
    assert table.loc["shared wavefronts, reads, per query"]["in words"] == f"B 1/{reads[0] / reads[1]:.3g} of A"
    assert list(table.loc["PAD"])[:2] == ["none", "8"] and table.loc["BLOCK_Q"]["in words"] == "the same"


def test_two_problems_of_one_kernel_are_told_apart_and_their_outputs_are_not_compared(cpu_run):
    runs = [cpu_run("lab_columns", ColumnsProblem(stride=stride)) for stride in (32, 33)]
    requests = [run.request for run in runs]
    table = differences.differences(runs, [], [], [execute.traffic(r) for r in requests]).set_index("what")
    assert list(table.loc["stride"]) == ["32", "33", "differ"]
    errors = [execute.judge(r.max_abs_errors, execute.yardstick(r.request), r.request.problem) for r in runs]
    outputs = differences.outputs(*runs)
    assert outputs.empty and "are not compared" in differences.output_sentence(outputs, runs, errors)
    verdict = pair_times.verdict(outputs, requests, "", "")
    assert verdict.row is None and "A has stride 32 and B stride 33" in verdict.said


def test_a_strip_says_of_how_many_queries_its_amounts_are_where_the_sides_trace_different_numbers(cpu_run):
    def names(*settings):
        runs = [cpu_run("03_flash", PROBLEM, own) for own in settings]
        return [state.name for state in two_kernels.stage_of(runs, stage.provenance(runs[0]), "", "info", []).state]

    told = names((("BLOCK_Q", 16),), (("BLOCK_Q", 32),))
    assert {name.rpartition("(")[2] for name in told} == {"16 queries)", "32 queries)"}
    assert all(("16 queries" in name) == name.startswith("A: ") for name in told)
    assert not any("queries" in name for name in names((), (("BLOCK_KV", 32),)))


def test_a_broken_build_is_never_said_to_agree(cpu_run):
    """It was told "Equal within: O 0.43"."""
    runs = [cpu_run("03_flash", PROBLEM), cpu_run("03_flash", PROBLEM, (("RESCALE", 0),))]
    errors = [execute.judge(r.max_abs_errors, execute.yardstick(r.request), PROBLEM) for r in runs]
    table = differences.outputs(*runs)
    said = differences.output_sentence(table, runs, errors)
    gaps = table.set_index("what")["largest difference"]
    gap = gaps["O"]
    assert gap > 0.01 and gaps["l after the last tile"] > 0.1 and gaps["m after the last tile"] == 0
    assert "agree" not in said and "qual" not in said and f"O {gap:.2g}" in said
    assert said.startswith("B is broken on purpose: no rescaling.")
    harmless = differences.output_sentence(table, runs, errors[:1] * 2)
    assert harmless.startswith("B is built with No rescaling, a what-if. On this problem its output is still right.")
    requests = [run.request for run in runs]
    assert [differences.broken_tone(requests, right) for right in ([True, False], [True, True])] == ["bad", "info"]
    assert differences.output_sentence(differences.outputs(runs[0], runs[0]), runs[:1] * 2, errors[:1] * 2).startswith(
        "A and B agree"
    )
    wrong = [replace(e, allowed=0.0) for e in errors[0]]
    assert "B is off by more than rounding" in differences.output_sentence(table, runs[:1] * 2, [errors[0], wrong])


def test_the_diff_leads_from_one_source_to_the_other():
    a, b = KERNELS["02_tiled"], KERNELS["03_flash"]
    parts = differences.diff(a, b)["parts"]
    rows = [row for part in parts for row in part["rows"]]
    assert [left for _, left, _, _ in rows if left is not None] == a.source.splitlines()
    assert [right for _, _, _, right in rows if right is not None] == b.source.splitlines()
    assert [n for n, _, _, _ in rows if n] == list(range(1, len(a.source.splitlines()) + 1))
    for part in parts:
        assert not part["same"] or all(left == right for _, left, _, right in part["rows"])
    folded = [part for part in parts if part["same"]]
    assert folded and all(len(part["rows"]) > 1 for part in folded)
    front = parts[0]
    assert front["folded"].startswith("Front matter: ") and front["rows"][-1][1] == front["rows"][-1][3] == "*/"
    assert not any("folded" in part for part in parts[1:])
    first = next(part for part in parts[1:] if any(row[1] != row[3] for row in part["rows"]))
    assert not first["same"]  # the first change in sight is one of code
    for number, part in enumerate(parts):  # the lines around a change stay
        if part["same"] and number > 0:
            assert all(row[1] == row[3] for row in parts[number - 1]["rows"][-differences.CONTEXT :])


# ---- more than dense fp32 ----


def test_two_paged_kernels_step_side_by_side(cpu_run):
    problem = PagedProblem(context_lens=(40, 5))
    runs = [
        cpu_run(name, problem, settings) for name, settings in (("paged_v1", ()), ("paged_v2", (("PARTITION", 32),)))
    ]
    done = two_kernels.align(*(generic.explain(run).frames for run in runs))
    alone = [f for f in done.frames if "(B alone)" in f["title"]]
    assert alone and any("(" not in f["title"] for f in done.frames)
    for frame, a in zip(done.frames, done.a):
        if "(B alone)" in frame["title"]:
            assert a["touched"] == [] and a["logged"] == [] and frame["lines_a"] == {} and frame["lines_b"]
            assert frame["sentences"][0].startswith("A ")


@pytest.mark.parametrize(
    ("a", "b", "problem", "kind"),
    [
        (("03_flash", ()), ("08b_three_bfloat16", ()), PROBLEM, "matrices"),
        (("paged_v1", ()), ("paged_v2", ()), PagedProblem(context_lens=(40, 5)), "tensors"),
        (("lab_columns", ()), ("lab_columns", (("PAD", 1),)), ColumnsProblem(), "tensors"),
    ],
)
def test_a_stage_has_everything_of_both_sides(cpu_run, a, b, problem, kind):
    runs = [cpu_run(name, problem, settings) for name, settings in (a, b)]
    where = two_kernels.provenance([stage.provenance(run) for run in runs])
    made = two_kernels.stage_of(runs, where, "A verdict.", "info", [])
    assert [(v.kind, v.id, v.side) for v in made.views] == [(kind, kind, 0), (kind, kind, 1)]
    assert [(c.kernel, c.lit, c.side) for c in made.codes] == [(a[0], "lines_a", 0), (b[0], "lines_b", 1)]
    for side, view in enumerate(made.views):
        assert len(view.meta["frames"]) == len(made.frames)
        assert [f["sentences"][side] for f in made.frames] == [f["sentence"] for f in view.meta["frames"]]
    assert all(len(s.values) == len(made.frames) and s.name[0] == "AB"[s.side] for s in made.state)
    read = [s for s in made.state if s.name.endswith("read so far")]
    for run, state in zip(runs, read):  # what is read in the end is all that the traced items read
        table = run.trace.frame("event", "space", "bytes")
        assert state.values[-1] == table[(table.space == "global") & (table.event == "load")].bytes.sum()
    assert where.said.startswith("A: ") and " B: " in where.said
    assert encoding.decode(encoding.encode(made))["summary"] == "A verdict."


def test_times_of_both_meet_on_the_same_problem(bench_table):
    table, _ = bench_table
    requests = [Request(KERNELS[name], PROBLEM) for name in ("03_flash", "08b_three_bfloat16")]
    found = pair_times.times(table, requests)
    assert len(found) >= 20
    for r in found.itertuples():
        rows = table[(table.problem == r.problem) & (table.status == "ok")].set_index("name")
        assert r.ratio == pytest.approx(rows.median_us["03_flash"] / rows.median_us["08b_three_bfloat16"])
        assert r.ratio_low <= r.ratio <= r.ratio_high
    largest = found[found.seq_len == 16384].iloc[0]
    assert f"B is {largest.ratio:.3g} times" in pair_times.ratio_sentence(largest)
    assert pair_times.times_table(found, requests).shape[0] == len(found)
    assert pair_times.ratio_chart(found).to_dict()["layer"]
    assert pair_times.times(table[table.name != "03_flash"], requests).empty
    assert pair_times.range_of(found)["ends"][0]["ratio"] == found.ratio.min()


# ---- the verdict ----

FLASH = [KERNELS[name] for name in ("03_flash", "08b_three_bfloat16")]


def pair_on(problem, a=(), b=()):
    return [Request(kernel, problem, settings) for kernel, settings in zip(FLASH, (a, b))]


def test_a_page_has_one_row_its_own_problem_or_the_longest_of_its_kind(bench_table):
    """A page had three ratios for three problems."""
    table, _ = bench_table
    own = DenseProblem(seq_len=1024, head_dim=64, num_heads=8)
    both = pair_times.times(table, pair_on(own))
    assert pair_times.problem_of(pair_times.of_page(both, own), DenseProblem) == own
    kind = both[(both.head_dim == 64) & ~both.causal]
    row = pair_times.of_page(both, DenseProblem(seq_len=1000, head_dim=64, num_heads=8))
    assert row.median_us == kind.median_us.max() and not row.causal
    causal = pair_times.of_page(both, DenseProblem(seq_len=1000, head_dim=64, causal=True))
    assert causal.median_us == both[both.causal & (both.head_dim == 64)].median_us.max()
    other = pair_times.of_page(both, DenseProblem(seq_len=1000, head_dim=128, causal=True))
    assert other.causal  # no run has both, and a mask is further than a head_dim
    assert pair_times.of_page(both[:0], own) is None


def test_the_verdict_is_of_the_pages_problem_and_names_both_builds(bench_table):
    table, _ = bench_table
    requests = pair_on(DenseProblem(seq_len=1000, head_dim=64, num_heads=8))
    both = pair_times.times(table, requests)
    told = pair_times.verdict(both, requests, "", "")
    assert told.row.Index == pair_times.of_page(both, requests[0].problem).Index and not told.row.causal
    assert f"{told.row.ratio:.3g} times ({told.row.ratio_low:.3g} to {told.row.ratio_high:.3g})" in told.details
    for side, kernel in enumerate(FLASH):
        assert pair_times.build_text(kernel, pair_times.settings_of(told.row, side)) in told.details
    assert "SUBTRACT_MAX" not in told.details and told.tone == "info"
    causal = pair_times.verdict(both, pair_on(DenseProblem(seq_len=1000, causal=True)), "", "")
    assert causal.row.causal and "causal" in causal.said


def test_the_verdict_says_whether_the_stage_shows_what_was_timed(bench_table):
    table, _ = bench_table
    problem = DenseProblem(seq_len=1024, head_dim=64, num_heads=8)
    begun = pair_on(problem)
    row = pair_times.verdict(pair_times.times(table, begun), begun, "", "").row
    timed = pair_on(
        pair_times.problem_of(row, DenseProblem),
        *(tuple(pair_times.settings_of(row, side).items()) for side in (0, 1)),
    )
    again = pair_times.verdict(pair_times.times(table, timed), timed, "", "")
    assert again.row.asked and "As timed" not in again.details and again.row.problem == row.problem
    other = [timed[0], Request(FLASH[1], problem, (("BLOCK_Q", 16),))]
    sets = pair_times.as_timed(row, row, "", DenseProblem)
    assert "As timed sets" in pair_times.verdict(pair_times.times(table, other), other, "", "", sets=sets).details


def test_the_verdict_says_how_many_problems_were_timed_and_their_range(bench_table):
    """The headline was the least favourable of 13 problems, without a note."""
    table, _ = bench_table
    requests = pair_on(DenseProblem(seq_len=1000, head_dim=64, num_heads=8))
    both = pair_times.times(table, requests)
    told = pair_times.verdict(both, requests, "", "")
    low, high = both.ratio.min(), both.ratio.max()
    assert f"Of {len(both)} timed problems, the whole page uses this one." in told.details
    assert f"Over {len(both)} timed problems, B is {low:.3g} to {high:.3g} times as fast as A." in told.said
    longest = both.index == told.row.Index  # the row of the page
    least = both.assign(ratio=both.ratio.where(~longest, low / 2), ratio_low=1.01, ratio_high=99.0)
    least = least.assign(ratio=least.ratio * 2 / low)
    assert ", and B gains least here." in pair_times.verdict(least, requests, "", "").details
    mixed = both.assign(ratio=both.ratio / both.ratio.median())
    assert "A's time over B's goes from" in pair_times.verdict(mixed, requests, "", "").said
    alone = pair_times.verdict(both[longest], requests, "", "")
    assert "timed problems" not in alone.said + alone.details


def test_as_timed_says_what_it_sets_or_why_it_is_off(bench_table):
    table, _ = bench_table
    requests = pair_on(DenseProblem(seq_len=1000, head_dim=64, num_heads=8))
    both = pair_times.times(table, requests)
    row, other = pair_times.nearest(both, requests[0].problem), next(both.itertuples())
    off, same = (pair_times.as_timed(row, *way, DenseProblem) for way in ((None, "nothing can run"), (row, "")))
    assert off == "The button As timed is off: nothing can run" and "nearest" not in same
    assert pair_times.problem_said(other) in pair_times.as_timed(row, other, "", DenseProblem)
    off = pair_times.verdict(both, requests, "", "", sets=off)
    assert "As timed is off: nothing can run." in off.details and "As timed sets" not in off.details


def test_a_spread_that_holds_one_calls_neither_faster(bench_table):
    table, _ = bench_table
    requests = pair_on(DenseProblem(seq_len=1024, head_dim=64, num_heads=8))
    row = pair_times.verdict(pair_times.times(table, requests), requests, "", "").row
    even = row._replace(ratio=1.02, ratio_low=0.97, ratio_high=1.06)
    assert pair_times.is_even(even) and pair_times.ratio_sentence(even).startswith("Neither is faster")
    slower = row._replace(ratio=0.5, ratio_low=0.4, ratio_high=0.6)
    assert "A is 2 times (1.67 to 2.5) as fast as B" in pair_times.ratio_sentence(slower)


def test_without_a_time_nobody_is_called_faster_and_nothing_is_good(bench_table):
    table, _ = bench_table
    requests = pair_on(PROBLEM)
    less = table[table.name != "03_flash"]
    absent = pair_times.absent(less, requests)
    none = pair_times.verdict(pair_times.times(less, requests), requests, "", absent)
    assert none.row is None and none.tone == "info" and "The bench has no time of A, 03_flash." in none.said
    broken = pair_on(PROBLEM, b=(("RESCALE", 0),))
    said = pair_times.verdict(
        pair_times.times(table, broken), broken, differences.broken_sentence(broken, [True, False]), ""
    )
    assert (
        said.row is None and said.tone == "bad" and "B is broken on purpose" in said.said and "as fast" not in said.said
    )
    same = [requests[0], requests[0]]
    assert "the same build" in pair_times.verdict(pair_times.times(table, same), same, "", "").said


def test_a_problem_without_sizes_of_a_bench_meets_the_one_of_nearest_work(bench_table):
    table, _ = bench_table
    problem = PagedProblem(context_lens=(300, 5, 200, 7), num_heads=32, num_kv_heads=8, head_dim=128)
    requests = [Request(KERNELS[name], problem) for name in ("paged_v1", "paged_v2")]
    row = pair_times.nearest(pair_times.times(table, requests), problem)
    flops = [pair_times.problem_of(r, PagedProblem).work.flops for r in pair_times.times(table, requests).itertuples()]
    nearest = min(flops, key=lambda n: abs(np.log2(n / problem.work.flops)))
    assert pair_times.problem_of(row, PagedProblem).work.flops == nearest


# ---- why ----

RATES = Rates(32e12, 8.7e12, (("fp32 FMA", 61e12), ("fp16 tensor cores / 6", 113e12)), 132, 64)


def held(blocks, threads, per_multiprocessor):
    return (Occupancy("flash", threads, 40, 0, blocks, {}, per_multiprocessor, 8, 50.0, "registers", 1.0),)


def test_figures_are_those_of_the_trace(cpu_run):
    problem = DenseProblem(seq_len=64, head_dim=64, num_heads=1)
    run = cpu_run("03_flash", problem, small_tiles("03_flash"), Scope(2))
    found = reasons.figures(run, None, held(4, 256, 6), 1.0)
    costs = traced.requests(run.trace, space="shared").costs
    assert (
        found.wavefronts == 4 * costs.wavefronts.sum() and found.conflicts == 4 * (costs.wavefronts - costs.ideal).sum()
    )
    assert found.multiply_adds == 2 * 64 * 64 * 64
    each = 64 * 64 * 4  # bytes of Q, K, V or O: Q and O once, K and V for each of four tiles
    assert found.global_bytes == 2 * each + 2 * 4 * each and found.fetched == (each + 2 * 4 * each) / 4
    counted = reasons.figures(run, execute.traffic(run.request), held(4, 256, 6), 3.0)
    assert counted.global_bytes == 3 * found.global_bytes and counted.wavefronts == pytest.approx(3 * found.wavefronts)
    assert found.busy(RATES) == 4 / 132 and found.warps(RATES) == 4 * 8


def test_reasons_stand_in_the_order_of_their_weight_and_what_speaks_against_is_apart(cpu_run):
    problem = DenseProblem(seq_len=64, head_dim=64, num_heads=1)
    runs = [cpu_run(name, problem, small_tiles(name)) for name in ("03_flash", "08b_three_bfloat16")]
    figures = [reasons.figures(run, None, held(blocks, 256, 6), 1e4) for run, blocks in zip(runs, (400, 132))]
    times_us = (1000.0, 100.0)
    found, against = reasons.reasons(figures, RATES, times_us)
    weights = [reason.weight for reason in found if reason.weight is not None]
    assert weights == sorted(weights, reverse=True) and weights[0] > 0 and found[0].what == "wavefronts"
    least = reasons.least_times(figures, RATES)
    assert found[0].weight == pytest.approx(least["wavefronts"][0] - least["wavefronts"][1])
    assert least["wavefronts"][0] == pytest.approx(1e6 * figures[0].wavefronts * 128 / RATES.shared)
    assert all(reason.ratio < 1 for reason in against) and all(reason.ratio > 1 for reason in found)
    assert "warps" in {reason.what for reason in against}  # B has fewer warps at once, and is faster all the same
    assert not {r.what for r in found} & {"bytes"}  # equal tiles fetch the same bytes
    turned = reasons.reasons(figures[::-1], RATES, times_us[::-1])[0]
    assert turned[0].what == "wavefronts"
    said = reasons.unexplained(figures, RATES, times_us, [(1.7, "fp32 FMA"), (50.0, "copy")])
    assert "1.7 % of its roof (fp32 FMA)" in said and "It is 10 times" in said and "The rest is" in said
