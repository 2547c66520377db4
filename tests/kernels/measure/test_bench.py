"""Sweeps, their figures and what follows from a table. What needs a GPU is in test_timing_on_gpu.py; nothing here
asserts how long anything takes."""

import json
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from kernels import __main__ as cli
from kernels import catalog
from kernels.core.tolerance import OutputError
from kernels.errors import OutOfMemory, ProblemError, RunTimeout, TooLargeError, TraceError
from kernels.families.dense.problem import DenseProblem
from kernels.families.paged import CacheCopyProblem, CascadeProblem, PagedProblem
from kernels.measure import bench, bench_rows, judging, load, peers, protocol, reports, sweeps
from kernels.measure.judging import ROUNDING_TIMES
from kernels.measure.protocol import Point, Timing
from kernels.recordings import tables
from kernels.run import workers

ROOFS = {"copy_gb_per_s": 4000.0, "fp32_tflops": 60.0, "fp16_tflops": 600.0}
WHERE = tables.Provenance("a GPU", "D", "2026-11-21", torch="T", roofs=ROOFS)
PROBLEM = DenseProblem(seq_len=256, head_dim=64, num_heads=2)
FLASH = Point("03_flash", PROBLEM, tuple(catalog.KERNELS["03_flash"].settings_for(PROBLEM).items()))
GOOD = OutputError("o", 1e-7, 1e-7, 3e-7)
HOT = load.Sustained(110.0, 105.0, 130.0, 1500, 690)


def timed(point=FLASH, low=90.0, mid=100.0, high=120.0, **more):
    return Timing(point, "ok", "", 50, mid, low, high, **{"moved_bytes": 2 * 10**6, "error": GOOD, **more})


# ---- sweeps ----


def test_a_sweep_is_the_product_of_its_fields_problem_by_problem():
    fields = [("seq_len", ["128", "256"]), ("causal", ["false", "true"])]
    made = sweeps.points(["03_flash", "08b_three_bfloat16"], fields, with_peers=True)
    assert len(made) == 2 * 2 * (2 + len(peers.SDPA) + len(peers.LIBRARIES)) == len(set(made))
    problems = [point.problem for point in made]
    assert {(p.seq_len, p.causal) for p in problems} == {(128, False), (128, True), (256, False), (256, True)}
    # problem by problem, so that inputs and float64 are made once
    each = len(made) // 4
    assert all(problems[n : n + each] == [problems[n]] * each for n in range(0, len(made), each))
    assert {p.name for p in made} == {"03_flash", "08b_three_bfloat16", *peers.SDPA, *peers.LIBRARIES}


@pytest.mark.parametrize(
    ("names", "fields", "chosen", "words"),
    [
        (["03_flash"], [("colour", ["1"])], [], "03_flash has no field or constant 'colour'"),
        (["03_flash"], [("seq_len", ["-5"])], [], "seq_len is -5. It must be a whole number from 1 to 16384"),
        (["03_flash"], [("seq_len", ["many"])], [], "seq_len is 'many'"),
        (["03_flash"], [("seq_len", ["99999"])], [], "seq_len is 99999"),
        (["03_flash"], [("BLOCK_Q", ["7"])], [], "BLOCK_Q is 7"),
        (["03_flash"], [("width", ["8192"])], [], "num_heads is 128"),
        (["03_flash"], [("seed", list(map(str, range(10_000))))], [], "This sweep has 10,000 points. The limit is 400"),
        (["03_flash"], [("seq_len", ["1"]), ("seq_len", ["2"])], [], "can be swept once"),
        (["paged_v1"], [("width", ["512"])], [], "paged_v1 has no field or constant 'width'"),
        (["99_magic"], [], [], "There is no kernel '99_magic'"),
        (["03_flash"], [], [("head_dim", "48")], "head_dim is 48"),
    ],
)
def test_what_cannot_be_swept_is_refused_with_the_value(names, fields, chosen, words):
    with pytest.raises(ProblemError, match=words.replace("(", r"\(")):
        sweeps.points(names, fields, chosen)


@pytest.mark.parametrize("text", ["seq_len", "seq_len=", "=1,2", "seq_len= , "])
def test_a_sweep_without_field_or_values_is_refused(text):
    with pytest.raises(ProblemError, match="--sweep takes FIELD="):
        sweeps.sweep_field(text)


def test_width_chooses_the_heads_and_what_is_no_whole_number_of_them_is_skipped():
    even, odd = sweeps.points(["03_flash"], [("width", ["768", "700"])])
    assert even.problem.num_heads == 12 and even.problem.head_dim == 64
    assert isinstance(odd, sweeps.Skipped) and "700 is no whole number of heads of 64" in odd.reason
    assert bench_rows.skipped_row(odd)["status"] == "skipped" and bench_rows.skipped_row(odd)["title"] == "Attention"


def test_batch_and_seq_len_of_a_paged_problem_are_its_sequences():
    (point,) = sweeps.points(["paged_v2"], [("batch", ["3"])], [("seq_len", "100"), ("num_kv_heads", "4")])
    assert point.problem.context_lens == (100, 100, 100) and point.problem.num_kv_heads == 4
    sizes = {"seq_len": 100, "batch": 3, "num_heads": 32, "num_kv_heads": 4}
    assert point.problem.bench_columns == {**sizes, "head_dim": 128, "causal": False, "dtype": "float16"}
    assert set(point.problem.bench_columns) == set(bench_rows.SIZES) == set(PROBLEM.bench_columns)
    assert PagedProblem((5, 6)).bench_columns == {}


@pytest.mark.parametrize("field", [("block_size", "8"), ("context_lens", "2000,3000")])
def test_what_follows_from_a_paged_problems_sizes_is_made_anew(field):
    """Not the pages of the problem that the bench begins with: a page of 8 slots needs twice as many of them."""
    (point,) = sweeps.points(["paged_v1"], [], [field])
    problem = point.problem
    assert [len(row) for row in problem.block_tables] == [-(-n // problem.block_size) for n in problem.context_lens]
    assert problem.num_blocks >= sum(map(len, problem.block_tables))


def test_a_kernel_begins_with_its_tuned_constants_and_set_overrules_them():
    large = [("head_dim", "128"), ("num_heads", "32"), ("seq_len", "1024")]
    asked = (large, [], [*large, ("BLOCK_Q", "32")])
    points = [sweeps.points(["08b_three_bfloat16"], [], chosen)[0] for chosen in asked]
    tiles = [dict(point.settings) for point in points]
    assert [(t["BLOCK_Q"], t["BLOCK_KV"]) for t in tiles] == [(128, 32), (64, 64), (32, 32)]
    assert [bench_rows.row(timed(point), ROOFS)["own_settings"] for point in points] == [True, True, False]


def test_peers_are_asked_where_the_problem_says_how_and_nowhere_else():
    dense = {*peers.SDPA, *peers.LIBRARIES}
    for kernel in catalog.KERNELS.values():
        names = {point.name for point in sweeps.points([kernel.name], with_peers=True)}
        due = dense if kernel.family in ("dense", "tensor_cores") else set()
        if kernel.family == "tensor_cores" and kernel.problem_type.bench_default().dtype != "float32":
            due = due | {peers.UNFUSED}
        if kernel.family == "sparse":
            due = {*peers.SDPA, peers.FLEX, "flashinfer"}
        elif "paged_" in kernel.name:
            cascades = {name for name in peers.PAGED if "cascade" in name}
            due = {*peers.SDPA, *peers.PAGED} - (set() if "cascade" in kernel.name else cascades)
        elif kernel.family == "backward":
            due = {"sdpa_flash", "sdpa_efficient", "sdpa_cudnn"}
        assert names == {kernel.name, *due}


# ---- the figures of a row ----


@pytest.mark.parametrize(
    ("name", "matrices", "squares"),
    [("01_naive", 4, 4), ("02_tiled", 4, 4), ("03_flash", 4, 0), ("08b_three_bfloat16", 4, 0)],
)
def test_the_bytes_of_a_plan_are_each_launchs_arrays_once(name, matrices, squares):
    """q, k, v and o once; of the kernels that keep S and P: s written and read, p written and read."""
    problem = DenseProblem(seq_len=256, head_dim=64, num_heads=2, batch=3)
    matrix, square = 4 * 6 * 256 * 64, 4 * 6 * 256 * 256
    plan = catalog.KERNELS[name].plan(problem)
    assert protocol.plan_bytes(plan, {}) == matrices * matrix + squares * square
    assert protocol.plan_bytes(plan, {"q": 1}) == 1 + (matrices - 1) * matrix + squares * square


def test_what_two_launches_read_of_a_cache_between_them_counts_once():
    """The prefix's pages are read by the first launch of paged_cascade, and each sequence's own by the second."""
    spec = catalog.KERNELS["paged_cascade"]
    problem = spec.problem_type((4096,) * 4, 32, 8, 128, 16, "float16", prefix=3072)
    plan, touched = spec.plan(problem), problem.work.touched
    caches = 2 * (3072 + 4 * 1024) * 8 * 128 * 2
    assert sum(touched.values()) == caches
    assert protocol.plan_bytes(plan, touched) - protocol.plan_bytes(plan, touched | dict.fromkeys(touched, 0)) == caches
    assert protocol.plan_bytes(plan, touched) == 32_130_912  # with queries, lists, partial results and outputs
    assert protocol.plan_bytes(plan, touched | {"in no launch": 5}) == 32_130_912


def test_of_a_paged_cache_the_held_tokens_count_each_once():
    shared = {"block_tables": ((0, 1), (0, 2)), "families": (1, 1), "num_blocks": 100}
    problem = PagedProblem((20, 20), 4, 2, 64, 16, "float16", **shared)
    assert problem.work.touched["k_cache"] == (16 + 4 + 4) * 2 * 64 * 2  # the shared page's 16 slots once
    assert problem.work.tokens == 2 and problem.work.flops == 4 * 40 * 4 * 64
    pages = CacheCopyProblem(2, 64, 16, "float32", 8, copies=((1, 5), (3, 0)))
    assert pages.work.touched["v_cache"] == 2 * 2 * 2 * 64 * 16 * 4


def test_a_rows_figures_follow_from_time_flops_and_bytes():
    row = bench_rows.row(timed(peak_bytes=7, clock=(1, 2)), ROOFS)
    flops = 4 * 2 * 256 * 256 * 64
    assert row["tflops"] == pytest.approx(flops / 100e-6 / 1e12, rel=1e-3)
    assert row["tokens_per_s"] == pytest.approx(256 / 100e-6)
    assert row["gb_per_s"] == pytest.approx(20.0) and row["intensity"] == pytest.approx(flops / 2e6, rel=1e-4)
    assert row["roof"] == "fp32 FMA" and row["roof_percent"] == pytest.approx(100 * row["tflops"] / 60, abs=0.01)
    low = bench_rows.row(timed(moved_bytes=10**8), ROOFS)  # below the corner the copy is the roof
    assert low["roof"] == "copy" and low["roof_percent"] == pytest.approx(100 * low["gb_per_s"] / 4000, abs=0.01)
    assert (row["clock_before"], row["clock_after"], row["settings"].split()[0]) == (1, 2, "BLOCK_Q=16")
    assert list(row) == list(bench_rows.COLUMNS)


def test_a_row_says_what_kind_of_problem_it_is_whatever_its_type():
    """A sweep is titled by it: the dtype and the number of KV heads say nothing of pages."""
    titles = {
        name: bench_rows.row(timed(sweeps.points([name])[0]), ROOFS)["title"] for name in ("03_flash", "paged_v1")
    }
    assert titles == {"03_flash": "Attention", "paged_v1": "Decoding, paged KV cache"}


def test_what_has_no_time_has_no_figures():
    row = bench_rows.row(Timing(FLASH, "wrong", "A wrong kernel gets no time.", moved_bytes=5, error=GOOD), ROOFS)
    assert row["status"] == "wrong" and row["tflops"] is None and row["median_us"] is None
    assert "wrong kernel" in row["reason"]
    assert (row["output"], row["max_abs_error"], row["yardstick_error"], row["allowed_error"]) == (
        "o",
        1e-7,
        1e-7,
        3e-7,
    )


def synthetic(times, name="03_flash", **more):
    """Rows at seq_len -> (p10, median, p90)."""

    def point(n):
        problem = DenseProblem(seq_len=n, head_dim=64)
        return Point(name, problem, more.get("settings") or _own(name, problem))

    return [bench_rows.row(timed(point(n), *of, moved_bytes=1000), ROOFS) for n, of in times.items()]


def _own(name, problem):
    return () if name in peers.PEERS else tuple(catalog.KERNELS[name].settings_for(problem).items())


# ---- what follows from a table ----


def test_a_speed_up_is_the_ratio_of_medians_and_its_spread_that_of_the_percentiles():
    rows = synthetic({128: (9, 10, 12), 256: (30, 40, 50)}) + synthetic({128: (4, 5, 8)}, "08b_three_bfloat16")
    made = reports.labelled(bench_rows.table(rows))
    done = reports.speedups(made, "03_flash").set_index(["label", "seq_len"])
    best = done.loc[("08b_three_bfloat16", 128)]
    assert (best.speedup, best.speedup_low, best.speedup_high) == (10 / 5, 9 / 8, 12 / 4)
    assert done.loc[("03_flash", 256)].speedup == 1
    assert np.isnan(
        reports.speedups(made, "08b_three_bfloat16").set_index(["label", "seq_len"]).speedup["03_flash", 256]
    )


def test_a_measured_row_is_compared_with_the_measured_baseline_and_a_recorded_one_with_the_recorded():
    rows = synthetic({128: (9, 10, 12)}) + synthetic({128: (4, 5, 8)}, "08b_three_bfloat16")
    made = reports.labelled(bench_rows.table(rows))
    slower = made.assign(source="recorded", median_us=made.median_us * [2, 1])
    done = reports.speedups(pd.concat([made.assign(source="measured"), slower], ignore_index=True), "03_flash")
    fast = done[done["name"] == "08b_three_bfloat16"]
    assert dict(zip(fast.source, fast.speedup)) == {"measured": 2, "recorded": 4}


def test_several_settings_of_a_kernel_are_told_apart_by_what_differs():
    settings = [(("BLOCK_Q", q), ("PAD_K", 0)) for q in (16, 32)]
    made = bench_rows.table([row for s in settings for row in synthetic({128: (1, 1, 1)}, settings=s)])
    assert list(reports.labelled(made).label) == ["03_flash BLOCK_Q=16", "03_flash BLOCK_Q=32"]


def test_settings_that_a_kernel_chose_for_itself_leave_it_its_name():
    held = [("num_heads", 8), ("head_dim", 64)]
    made = [p for n in (1024, 4096) for p in sweeps.points(["08b_three_bfloat16"], [], [("seq_len", n), *held])]
    assert len({p.settings for p in made}) == 2
    rows = [bench_rows.row(timed(p), ROOFS) for p in made]
    assert set(reports.labelled(bench_rows.table(rows)).label) == {"08b_three_bfloat16"}
    other = bench_rows.row(timed(replace(made[0], settings=made[1].settings)), ROOFS)
    labels = set(reports.labelled(bench_rows.table([*rows, other])).label)
    assert labels == {f"08b_three_bfloat16 {own}" for own in ("BLOCK_Q=64 KEY_GROUPS=2", "BLOCK_Q=128 KEY_GROUPS=1")}


def test_rows_of_a_kernel_in_no_catalogue_are_labelled_by_what_they_carry(tmp_path):
    """A table that another machine wrote of its own kernel has labels here, where there is no such kernel."""
    spec = catalog.KERNELS["08b_three_bfloat16"]
    for name, text in spec.files[1:]:
        (tmp_path / name).write_text(text)
    path = tmp_path / "of_mine.cu"
    path.write_text(spec.source)
    made = [p for n in (1024, 4096) for p in sweeps.points([str(path)], [], [("seq_len", n), ("num_heads", 8)])]
    rows = bench_rows.table([bench_rows.row(timed(p), ROOFS) for p in made])
    path.unlink()
    assert rows.settings.nunique() == 2 and set(reports.labelled(rows).label) == {str(path)}


def test_the_arithmetic_roof_is_that_of_the_arithmetic_used():
    def roof(name):
        problem = DenseProblem(seq_len=4096, head_dim=64)
        row = bench_rows.row(timed(Point(name, problem, _own(name, problem)), moved_bytes=1000), ROOFS)
        reached = ROOFS["fp32_tflops"] if "FMA" in row["roof"] else ROOFS["fp16_tflops"] / 6
        return row["roof"], round(row["roof_percent"] * 1e-2 * reached / row["tflops"], 3)

    assert roof("03_flash") == roof("sdpa_math") == ("fp32 FMA", 1.0)
    assert roof("08b_three_bfloat16") == roof("sdpa_efficient") == ("fp16 tensor cores / 6", 1.0)
    assert bench_rows.arithmetic_roofs(ROOFS, [3])["fp16 tensor cores / 3"] == 200


def test_the_exponent_of_a_power_law_is_found():
    sizes = (128, 256, 512, 1024, 2048, 4096)
    made = reports.labelled(bench_rows.table(synthetic({n: (n**2, 3 * n**2, 4 * n**2) for n in sizes})))
    slope, used = reports.exponents(made)["03_flash"]
    assert slope == pytest.approx(2) and used == 3
    assert not reports.exponents(made[made.seq_len < 1000])


# ---- against a kept set ----


def test_what_became_slower_is_what_even_its_fastest_runs_show():
    before = bench_rows.table(synthetic({128: (9, 10, 12), 256: (9, 10, 12), 512: (9, 10, 12), 1024: (9, 10, 12)}))
    now = synthetic({128: (13, 14, 15), 256: (11, 14, 20), 512: (5, 6, 8)}) + synthetic({2048: (1, 1, 1)})
    gone = DenseProblem(seq_len=1024, head_dim=64)
    fallen = Timing(Point("03_flash", gone, _own("03_flash", gone)), "failed", "It fell.")
    now = [*now[:3], bench_rows.row(fallen, ROOFS), *now[3:]]
    done = reports.against(reports.labelled(bench_rows.table(now)), before)
    assert list(done.change) == ["slower", "same", "faster", "no time"]
    first = done.iloc[0]
    assert (first.ratio, first.ratio_low, first.ratio_high) == (14 / 10, 13 / 12, 15 / 9) and first.kept_us == 10
    said = "\n".join(reports.against_lines(done, WHERE, replace(WHERE, device="another GPU")))
    assert "1 slower, 1 faster, 1 same, 1 no time of 4 points" in said and "this compares GPUs" in said
    (last,) = said.split("Slower beyond the spread:\n")[1].splitlines()
    assert "03_flash at Attention: seq_len 128" in last and "x 1.400 (1.083 to 1.667)" in last
    assert "failed. It fell." in said


def test_settings_that_the_kernel_chose_are_the_same_point_and_those_of_a_person_are_not():
    own = synthetic({1024: (9, 10, 12)}, "08b_three_bfloat16")[0]
    retuned = {**own, "settings": "BLOCK_Q=32 BLOCK_KV=32"}
    assert len(reports.against(reports.labelled(bench_rows.table([retuned])), bench_rows.table([own]))) == 1
    chosen = {**retuned, "own_settings": False}
    assert reports.against(reports.labelled(bench_rows.table([chosen])), bench_rows.table([own])).empty


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_a_kept_set_is_what_out_wrote_in_either_form(tmp_path, suffix):
    made = bench_rows.table(synthetic({128: (1, 2, 3), 256: (2, 3, 4)}))
    path = str(tmp_path / f"t.{suffix}")
    reports.save(made, WHERE, path)
    kept, where = reports.load_kept(path)
    assert where == WHERE and list(reports.against(reports.labelled(made), kept).change) == ["same", "same"]


@pytest.mark.parametrize("text", ["{}", "[]", '{"provenance": {}, "rows": []}', "not JSON", ""])
def test_a_file_that_is_no_kept_set_is_refused(tmp_path, text):
    for suffix in ("csv", "json"):
        path = tmp_path / f"t.{suffix}"
        path.write_text(text)
        with pytest.raises(TraceError, match=path.name):
            reports.load_kept(path)


# ---- the recorded set ----


def test_the_points_that_are_recorded_cover_the_catalogue_the_peers_and_the_sweeps():
    asked = [point for point in bench.recorded_points() if isinstance(point, Point)]
    assert {point.name for point in asked} == {*catalog.KERNELS, *filter(peers.installed, peers.NAMES)} and len(
        asked
    ) == len(set(asked))
    sizes = pd.DataFrame([point.problem.bench_columns for point in asked if point.name in catalog.KERNELS]).dropna()
    fp32 = sizes[sizes.dtype == "float32"]
    assert set(fp32[(fp32.batch == 1) & (fp32.num_heads == 8)].seq_len) >= {2**n for n in range(7, 15)}
    assert set((fp32.num_heads * fp32.head_dim)[fp32.seq_len == 1024]) >= {512, 768, 1024, 2048}
    assert set(fp32.batch) >= {1, 4, 8, 16, 32} and set(fp32.num_heads) >= {8, 12, 16, 32}


def test_every_recorded_time_passed_and_its_figures_follow_from_it():
    for made, where in bench.recorded().values():
        timed_rows = made[made.status == "ok"]
        assert where.roofs and where.torch and where.compiler
        assert (timed_rows.max_abs_error <= timed_rows.allowed_error).all()
        assert ((timed_rows.p10_us <= timed_rows.median_us) & (timed_rows.median_us <= timed_rows.p90_us)).all()
        assert (timed_rows.runs >= protocol.LEAST_RUNS).all()
        at_work = timed_rows[timed_rows.sustained_us.notna()]
        assert (at_work.sustained_p10_us <= at_work.sustained_us).all()
        assert (at_work.sustained_us <= at_work.sustained_p90_us).all()
        coarse, rest = made[made.status == "less accurate"], made[~made.status.isin(["ok", "less accurate"])]
        assert (made[made.status != "ok"].reason.str.len() > 20).all() and rest.median_us.isna().all()
        assert (coarse.max_abs_error <= ROUNDING_TIMES * coarse.allowed_error).all() and set(coarse.kind) <= {"peer"}
        ours = timed_rows[timed_rows.tflops.notna() & timed_rows["name"].isin(list(catalog.KERNELS))]
        for row in ours.itertuples():
            problem = catalog.KERNELS[row.name].problem_type(**json.loads(row.problem))
            assert row.tflops == pytest.approx(problem.work.flops / row.median_us / 1e6, rel=1e-3, abs=1e-4)
            assert row.gb_per_s == pytest.approx(row.bytes / row.median_us / 1e3, abs=0.006)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    return tmp_path


def _write(device, rows):
    return tables.save(bench_rows.table(rows), tables.path_of("bench", device), replace(WHERE, device=device))


def test_rows_of_another_code_are_not_shown(folder):
    now = catalog.KERNELS["08b_three_bfloat16"].code_hash
    rows = [{**synthetic({128: (1, 2, 3)})[0], "code_hash": "of long ago"}]
    rows += [{**row, "code_hash": now} for row in synthetic({128: (1, 2, 3)}, "08b_three_bfloat16")]
    rows += synthetic({128: (1, 2, 3)}, "sdpa_efficient")
    _write("NVIDIA X", rows)
    (kept, where) = bench.recorded()["NVIDIA X"]
    assert set(kept["name"]) == {"08b_three_bfloat16", "sdpa_efficient"} and where.device == "NVIDIA X"
    assert any("03_flash" in reason and "NVIDIA X" in reason for reason in bench.not_recorded())


def test_nothing_recorded_or_a_table_of_another_format_is_said_and_turns_nothing_red(folder):
    assert bench.recorded() == {} and "No times are recorded" in bench.not_recorded()[0]
    (folder / "bench").mkdir()
    (folder / "bench" / "Old.csv").write_text('# {"device": "Old", "driver": "", "date": "2025-01-01"}\nname\n')
    (folder / "bench" / "Torn.csv").write_bytes(b"# {\xff")
    assert bench.recorded() == {}
    assert ["Old.csv has format 1" in reason for reason in bench.not_recorded()] == [True, False]


def test_of_several_gpus_the_newest_table_comes_first(folder):
    for device, date in (("A", "2026-01-01"), ("B", "2026-03-01"), ("C", "2026-02-01")):
        path = tables.path_of("bench", device)
        tables.save(bench_rows.table(synthetic({128: (1, 2, 3)})), path, replace(WHERE, device=device, date=date))
    assert list(bench.recorded()) == ["B", "C", "A"]


def test_what_a_problem_makes_itself_is_not_written():
    placed = CascadeProblem((4096,) * 4, 32, 8, 128, 16, "float16", prefix=1024)
    text = bench_rows.problem_text(placed)
    assert len(text) < 600 and type(placed)(**json.loads(text)) == placed
    given = PagedProblem((20,), block_tables=((3, 1),), num_blocks=5)
    assert json.loads(bench_rows.problem_text(given))["block_tables"] == [[3, 1]]


# ---- taking turns ----


@pytest.fixture
def gpu_of_names(monkeypatch):
    """A GPU on which a run of a point is its name in a list: what was sampled, in order, with its runs. Two points fit
    on it at a time."""
    import contextlib

    sampled, held = [], []

    def ready(point):
        if point.name == "sdpa_math":
            raise protocol.PeerUnavailable("not here")
        if len(held) == 2:
            raise OutOfMemory("no room")
        held.append(point)
        return protocol.Ready(Timing(point, "ok"), [lambda: None], lambda: point.name, 1000.0)

    def time_runs(enqueuers, runs, before=None):
        if before:
            sampled.append((before(), runs))
        return [float(len(sampled))] * runs

    def sample(*a, of=protocol._sampled):
        try:
            return of(*a)
        finally:
            held.clear()

    monkeypatch.setattr(protocol, "WARM_UP", 0.0)
    monkeypatch.setattr(protocol, "_check_size", lambda *a: None)
    monkeypatch.setattr(protocol, "_ready", ready)
    monkeypatch.setattr(protocol, "_sampled", sample)
    monkeypatch.setattr(protocol.gpu, "errors", contextlib.nullcontext)
    monkeypatch.setattr(protocol.load, "sustained", lambda enqueuers, before, once_us: HOT)
    monkeypatch.setattr(protocol.load, "time_runs", time_runs)
    monkeypatch.setattr(protocol.load, "state", lambda: (1, 2, 3))
    return sampled


def test_points_of_a_problem_take_turns_and_who_has_no_room_waits(gpu_of_names):
    names = ("03_flash", "sdpa_math", "sdpa_efficient", "01_naive", "02_tiled")
    made = protocol.measure_in_turns([Point(name, PROBLEM) for name in names])
    assert [timing.point.name for timing in made] == list(names)
    assert [timing.status for timing in made] == ["ok", "unavailable", "ok", "ok", "ok"]
    each = protocol.MOST_RUNS // protocol.TURNS
    pairs = [["03_flash", "sdpa_efficient"], ["01_naive", "02_tiled"]]
    assert gpu_of_names == [(name, each) for pair in pairs for _ in range(protocol.TURNS) for name in pair]
    assert all(timing.runs == protocol.MOST_RUNS for timing in made if timing.status == "ok")
    assert made[0].median_us == 5.0 and made[2].median_us == 6.0  # of turns 1, 3, 5, 7, 9 and 2, 4, 6, 8, 10


def test_a_point_alone_is_sampled_in_one_turn(gpu_of_names):
    assert protocol.measure(Point("03_flash", PROBLEM)).status == "ok"
    assert gpu_of_names == [("03_flash", protocol.MOST_RUNS)]


def test_one_whose_runs_fail_leaves_the_others_their_times(gpu_of_names, monkeypatch):
    def time_runs(enqueuers, runs, before=None, of=protocol.load.time_runs):
        if before and before() == "01_naive":
            raise protocol.RunError("It fell.")
        return of(enqueuers, runs, before)

    monkeypatch.setattr(protocol.load, "sustained", lambda enqueuers, before, once_us: HOT)
    monkeypatch.setattr(protocol.load, "time_runs", time_runs)
    made = protocol.measure_in_turns([Point(name, PROBLEM) for name in ("03_flash", "01_naive", "02_tiled")])
    assert [(timing.status, timing.reason) for timing in made] == [("ok", ""), ("failed", "It fell."), ("ok", "")]
    each = protocol.MOST_RUNS // protocol.TURNS  # 02_tiled waited for room, so it has its turns
    turns = [("02_tiled", each)] * protocol.TURNS
    assert gpu_of_names == [("03_flash", each), ("03_flash", protocol.MOST_RUNS), *turns]


def test_every_time_has_a_sustained_one_and_it_may_be_added_without_turns(gpu_of_names):
    points = [Point(name, PROBLEM) for name in ("03_flash", "sdpa_efficient", "sdpa_math")]
    assert [made.sustained for made in protocol.measure_in_turns(points)] == [HOT, HOT, None]
    gpu_of_names.clear()
    for made in (protocol.measure_in_turns(points, 0), protocol.measure_in_turns(points[:1], 0)):
        assert made[0].sustained == HOT and made[0].median_us is None and made[0].status == "ok"
    assert gpu_of_names == []  # nothing was timed rested


def test_a_large_output_is_judged_in_parts_as_it_would_be_whole(monkeypatch):
    rng = np.random.default_rng(0)
    true = rng.standard_normal((3, 5, 70))
    found = (true + rng.standard_normal(true.shape) / 100).astype(np.float32)
    due = judging.max_abs_error(found, true)
    monkeypatch.setattr(judging, "PART", 64)
    assert judging._largest_error(found, true) == due
    monkeypatch.setattr(judging, "_truth", lambda problem: ({"o": true}, {}, {}))
    assert judging.rms_error(PROBLEM, "o", found) == pytest.approx(np.sqrt(np.square(found - true).mean()))
    found[2, 4, 69] = np.nan  # poison in the last part
    assert np.isnan(judging._largest_error(found, true))


def test_a_row_has_both_states_and_the_bench_prints_both():
    row = bench_rows.row(timed(sustained=HOT), ROOFS)
    assert [row[name] for name in bench_rows.SUSTAINED] == [110.0, 105.0, 130.0, 1500, 690] and row[
        "median_us"
    ] == 100.0
    made = bench_rows.table([row, bench_rows.row(timed(replace(FLASH, cold=False)), ROOFS)])
    hot, rested = [line for line in reports.report_lines(reports.report(made, WHERE)) if " us (" in line]
    assert hot.endswith("sustained 110.00 us (105.00 to 130.00) at 1,500 MHz, 690 W") and "sustained" not in rested


def test_what_finds_no_room_keeps_nothing_until_it_is_tried_again(gpu_of_names, monkeypatch):
    left, kept = [], []

    def ready(point, of=protocol._ready):
        arrays = np.zeros(1)
        left.append(weakref.ref(arrays))
        return of(point)

    def sample(*a, of=protocol._sampled):
        kept.append([there() for there in left if there() is not None])
        return of(*a)

    monkeypatch.setattr(protocol, "_ready", ready)
    monkeypatch.setattr(protocol, "_sampled", sample)
    protocol.measure_in_turns([Point(name, PROBLEM) for name in ("03_flash", "01_naive", "02_tiled")])
    assert kept == [[], []] and len(left) == 4


def test_the_provenance_says_the_turns_of_several_points_and_of_one(monkeypatch):
    monkeypatch.setattr("kernels.build.nvrtc.Toolchain", lambda target: SimpleNamespace(version="C"))
    device = SimpleNamespace(name="a GPU", driver="D", target="sm_90a")
    where = bench.provenance(device, ROOFS, bench_rows.table([]))
    assert where.more["protocol"].endswith(". Several points of one problem take 5 turns, a single one takes 1")


def test_points_of_one_problem_go_to_the_worker_together_and_alone_where_that_fails(monkeypatch):
    asked = sweeps.points(["03_flash", "02_tiled"], [("seq_len", ["128", "256"])])
    alone = []

    def submit(task, group=(), **more):
        if task is protocol.roofs:
            return Done(ROOFS)
        if group[0].problem.seq_len == 256:
            raise RunTimeout("one of them ran past its limit")
        return Done([timed(point) for point in group])

    def one(point, roofs):
        alone.append(point)
        return bench_rows.row(timed(point), roofs)

    monkeypatch.setattr(workers, "submit", submit)
    monkeypatch.setattr(bench, "time_point", one)
    made, _ = bench.time_points(asked)
    assert list(made["name"]) == [point.name for point in asked] and len(made) == 4
    assert [point.problem.seq_len for point in alone] == [256, 256]


# ---- status by what happened ----


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OutOfMemory("words"), "skipped"),
        (TooLargeError("words"), "skipped"),
        (protocol.PeerUnavailable("words"), "unavailable"),
        (protocol.RunError("The kernel failed on the GPU: out of memory, it said"), "failed"),
    ],
)
def test_a_status_follows_from_the_class_of_the_error_and_not_from_its_words(error, status, monkeypatch):
    import contextlib

    def fail(point):
        raise error

    monkeypatch.setattr(protocol, "_check_size", lambda *a: None)
    monkeypatch.setattr(protocol, "_ready", fail)
    monkeypatch.setattr(protocol.gpu, "errors", contextlib.nullcontext)
    made = protocol.measure(FLASH)
    assert (made.status, made.reason) == (status, str(error))


@pytest.mark.parametrize(("largest", "words"), [(4e-7, "is rounding, 1.3 times the limit"), (0.5, "plainly wrong")])
def test_rounding_above_the_limit_is_told_from_a_wrong_result_by_the_numbers(largest, words):
    said = judging.missed("sdpa_math", OutputError("o", largest, 1e-7, 3e-7))
    assert words in said and f"misses float64 by {largest:.3g} in o" in said and "torch misses it by 1e-07" in said
    assert "3e-07 is allowed" in said


# ---- the command line ----


class Done:
    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


def test_stopping_keeps_the_points_that_are_done(monkeypatch):
    rows = iter(synthetic({128: (1, 2, 3), 256: (2, 3, 4)}))

    def one(point, roofs):
        try:
            return next(rows)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(workers, "submit", lambda *a, **k: Done(ROOFS))
    monkeypatch.setattr(bench, "time_point", one)
    made, roofs = bench.time_points(sweeps.points(["03_flash"], [("seq_len", ["128", "256", "512", "1024"])]))
    assert list(made.seq_len) == [128, 256] and roofs == ROOFS


def test_a_point_that_fails_does_not_end_the_others(monkeypatch):
    class Late:
        def result(self):
            raise RunTimeout("03_flash ran past its limit")

    monkeypatch.setattr(workers, "submit", lambda *a, **k: Late())
    row = bench.time_point(FLASH, ROOFS)
    assert row["status"] == "failed" and "past its limit" in row["reason"]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_where_nothing_has_a_time_the_reason_is_printed_and_the_exit_is_1(form, monkeypatch, capsys):
    rows = [bench_rows.row(Timing(FLASH, "wrong", "A wrong kernel gets no time.", moved_bytes=5), ROOFS)]
    monkeypatch.setattr(workers, "survey", lambda: SimpleNamespace(pick=lambda backend: None))
    monkeypatch.setattr(bench, "time_points", lambda *a: (bench_rows.table(rows), ROOFS))
    monkeypatch.setattr(bench, "provenance", lambda *a: WHERE)
    assert cli.main(["bench", "03_flash", *form]) == 1
    assert "A wrong kernel gets no time." in capsys.readouterr().out


def test_json_has_the_rows_with_their_speed_ups_and_the_provenance():
    said = reports.report_json(
        reports.report(bench_rows.table(synthetic({128: (1, 2, 3)})), replace(WHERE, codes={"a": "1"}))
    )
    (row,) = said["rows"]
    assert {*bench_rows.COLUMNS, "label", "speedup", "speedup_low", "speedup_high"} == set(row)
    assert row["num_heads"] == json.loads(row["problem"])["num_heads"] == 2 and row["clock_before"] is None
    assert {"format", "device", "driver", "date", "torch", "roofs", "codes"} <= set(said["provenance"])
    assert said["baseline"] == "03_flash" and json.dumps(said)


def test_the_printed_report_names_problem_time_and_what_has_none():
    rows = synthetic({128: (9, 10, 12)}) + [bench_rows.row(Timing(FLASH, "failed", "It fell."), ROOFS)]
    said = "\n".join(reports.report_lines(reports.report(bench_rows.table(rows), WHERE)))
    assert "Attention: seq_len 128, batch 1, num_heads 2" in said and "10.00 us (9.00 to 12.00)" in said
    assert "03_flash: failed. It fell." in said and "x 1.000" in said


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["03_flash", "--sweep", "foo=1"], 2, "no field or constant 'foo'"),
        (["03_flash", "--sweep", "seq_len"], 2, "--sweep takes FIELD"),
        (["nope"], 2, "There is no kernel 'nope'"),
        (["--out", "times.txt"], 2, "must end in .csv or .json"),
        (["03_flash", "--sweep", "seed=" + ",".join(map(str, range(10_000)))], 2, "10,000 points"),
        (["03_flash", "--against", "no_such.csv"], 1, "no_such.csv is not a table of measurements"),
    ],
)
def test_bad_sweeps_exit_2(args, code, words, capsys):
    assert cli.main(["bench", *args]) == code
    assert words in capsys.readouterr().err


@pytest.mark.skipif("gpu" in workers.survey().devices, reason="this machine has a GPU")
def test_without_a_gpu_bench_exits_3_and_says_what_to_do(capsys):
    assert cli.main(["bench", "03_flash"]) == 3
    assert "No GPU was found" in capsys.readouterr().err


def test_a_written_table_is_read_back_with_its_provenance(tmp_path):
    made = bench_rows.table(synthetic({128: (1, 2, 3)}))
    reports.save(made, WHERE, str(tmp_path / "t.csv"))
    reports.save(made, WHERE, str(tmp_path / "t.json"))
    again, provenance = tables.load(tmp_path / "t.csv")
    assert provenance == WHERE and again.median_us[0] == 2
    assert json.loads((tmp_path / "t.json").read_text())["rows"][0]["median_us"] == 2
    assert isinstance(again, pd.DataFrame) and list(again.columns) == list(bench_rows.COLUMNS)


# ---- the price of a conflict ----


def test_the_price_of_a_padding_is_asked_of_every_kernel_that_has_it_at_every_size_of_its_tiles():
    asked = [point for point in bench.recorded_points() if isinstance(point, Point) and not point.is_peer]
    for name in ("02_tiled", "03_flash"):
        there = {
            tuple(dict(p.settings)[c] for c in ("BLOCK_Q", "BLOCK_KV", "PAD_K"))
            for p in asked
            if p.name == name and p.problem == DenseProblem(seq_len=4096, head_dim=64, num_heads=8)
        }
        assert len(there) == 3 * 3 * 2
    mma = [dict(p.settings)["PAD"] for p in asked if p.name == "08b_three_bfloat16" and p.problem.seq_len == 4096]
    assert {0, 8} <= set(mma)
    assert not {dict(p.settings).get("PAD_K") for p in asked if p.name in ("01_naive", "paged_v1")} - {None}


def test_a_constant_is_swept_only_where_the_kernel_has_those_values():
    spec = catalog.KERNELS["03_flash"]
    assert sweeps.can_sweep(spec, [("seq_len", [128]), ("width", [512]), ("PAD_K", [0, 4])])
    assert not sweeps.can_sweep(spec, [("PAD", [0, 8])]) and not sweeps.can_sweep(spec, [("BLOCK_Q", [16, 128])])


def test_points_that_are_not_recorded_yet_are_counted(folder):
    _write(
        "NVIDIA X",
        [
            {**row, "code_hash": spec.code_hash}
            for spec in [catalog.KERNELS["03_flash"]]
            for row in synthetic({128: (1, 2, 3)})
        ],
    )
    reasons = bench.not_recorded()
    (said,) = [reason for reason in reasons if "points of the present sweeps are not recorded on NVIDIA X" in reason]
    assert "03_flash" in said and "02_tiled" not in said  # of which nothing is recorded: another sentence says so
