"""Sweeps, their figures and what follows from a table. What needs a GPU is in test_gpu.py; nothing here asserts how long anything takes."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from kernels import __main__ as cli
from kernels import bench, catalog, measure, peers, tables, workers
from kernels.errors import ProblemError
from kernels.measure import Point, Timing
from kernels.paged import CacheCopyProblem, PagedProblem
from kernels.problem import AttentionProblem

ROOFS = {"copy_gb_per_s": 4000.0, "fp32_tflops": 60.0, "fp16_tflops": 600.0}
FLASH = Point("03_flash", AttentionProblem(seq_len=256, head_dim=64, heads=2), tuple(catalog.KERNELS["03_flash"].settings().items()))


def test_a_sweep_is_the_product_of_its_fields_problem_by_problem():
    made = bench.points(["03_flash", "04_flash_registers"], [("seq_len", ["128", "256"]), ("causal", ["false", "true"])], with_peers=True)
    assert len(made) == 2 * 2 * (2 + len(peers.PEERS)) == len(set(made))
    problems = [point.problem for point in made]
    assert {(p.seq_len, p.causal) for p in problems} == {(128, False), (128, True), (256, False), (256, True)}
    assert all(problems[n:n + 6] == [problems[n]] * 6 for n in range(0, len(made), 6))  # so that inputs and float64 are made once
    assert {p.name for p in made} == {"03_flash", "04_flash_registers", *peers.PEERS}


@pytest.mark.parametrize(("names", "sweeps", "chosen", "words"), [
    (["03_flash"], [("colour", ["1"])], [], "03_flash has no field or constant 'colour'"),
    (["03_flash"], [("seq_len", ["-5"])], [], "seq_len is -5; it must be a whole number from 1 to 16384"),
    (["03_flash"], [("seq_len", ["many"])], [], "seq_len is 'many'"),
    (["03_flash"], [("seq_len", ["99999"])], [], "seq_len is 99999"),
    (["03_flash"], [("BLOCK_Q", ["7"])], [], "BLOCK_Q is 7"),
    (["03_flash"], [("width", ["8192"])], [], "heads is 128"),
    (["03_flash"], [("seed", list(map(str, range(10_000))))], [], "This sweep has 10,000 points; at most 400"),
    (["03_flash"], [("seq_len", ["1"]), ("seq_len", ["2"])], [], "can be swept once"),
    (["paged_v1"], [("width", ["512"])], [], "paged_v1 has no field or constant 'width'"),
    (["99_magic"], [], [], "There is no kernel '99_magic'"),
    (["03_flash"], [], [("head_dim", "48")], "head_dim is 48"),
])
def test_what_cannot_be_swept_is_refused_with_the_value(names, sweeps, chosen, words):
    with pytest.raises(ProblemError, match=words.replace("(", r"\(")):
        bench.points(names, sweeps, chosen)


@pytest.mark.parametrize("text", ["seq_len", "seq_len=", "=1,2", "seq_len= , "])
def test_a_sweep_without_field_or_values_is_refused(text):
    with pytest.raises(ProblemError, match="--sweep takes FIELD="):
        bench.sweep_field(text)


def test_width_chooses_the_heads_and_what_is_no_whole_number_of_them_is_skipped():
    even, odd = bench.points(["03_flash"], [("width", ["768", "700"])])
    assert even.problem.heads == 12 and even.problem.head_dim == 64
    assert isinstance(odd, bench.Skipped) and "700 is no whole number of heads of 64" in odd.reason
    assert bench.skipped_row(odd)["status"] == "skipped"


def test_batch_and_seq_len_of_a_paged_problem_are_its_sequences():
    (point,) = bench.points(["paged_v2"], [("batch", ["3"])], [("seq_len", "100"), ("num_kv_heads", "4")])
    assert point.problem.context_lens == (100, 100, 100) and point.problem.num_kv_heads == 4
    assert bench.sizes(point.problem) == {"seq_len": 100, "batch": 3, "heads": 32, "kv_heads": 4, "head_dim": 128, "causal": False, "dtype": "float16"}
    assert bench.sizes(PagedProblem((5, 6))) == {}


def test_a_kernel_begins_with_its_tuned_constants_and_set_overrules_them():
    large = [("head_dim", "128"), ("heads", "32"), ("seq_len", "1024")]
    tiles = [dict(bench.points(["04_flash_registers"], [], chosen)[0].settings) for chosen in (large, [], [*large, ("BLOCK_Q", "32")])]
    assert [(t["BLOCK_Q"], t["BLOCK_KV"]) for t in tiles] == [(128, 32), (64, 64), (32, 32)]
    assert catalog.KERNELS["04_flash_registers"].tuned(AttentionProblem(head_dim=128)) == {"BLOCK_KV": 32}


@pytest.mark.parametrize(("name", "matrices", "squares"), [("01_naive", 4, 4), ("02_tiled", 4, 4), ("03_flash", 4, 0), ("04_flash_registers", 4, 0)])
def test_the_bytes_of_a_plan_are_each_launchs_arrays_once(name, matrices, squares):
    """q, k, v and o once; of the kernels that keep S and P: s written and read, p written and read."""
    problem = AttentionProblem(seq_len=256, head_dim=64, heads=2, batch=3)
    kernel = catalog.KERNELS[name]
    plan = kernel.plan(problem, kernel.settings())
    nbytes = {key: a.nbytes for key, a in problem.inputs().items()} | {key: 4 * int(np.prod(shape)) for key, shape in plan.written.items()}
    matrix, square = 4 * 6 * 256 * 64, 4 * 6 * 256 * 256
    assert measure.plan_bytes(plan, nbytes) == matrices * matrix + squares * square


def test_of_a_paged_cache_the_held_tokens_count_each_once():
    problem = PagedProblem((20, 20), 4, 2, 64, 16, "float16", block_tables=((0, 1), (0, 2)), families=(1, 1), num_blocks=100)
    assert problem.work.touched["k_cache"] == (16 + 4 + 4) * 2 * 64 * 2  # the shared page's 16 slots once
    assert problem.work.tokens == 2 and problem.work.flops == 4 * 40 * 4 * 64
    pages = CacheCopyProblem(2, 64, 16, "float32", 8, copies=((1, 5), (3, 0)))
    assert pages.work.touched["v_cache"] == 2 * 2 * 2 * 64 * 16 * 4


def test_a_rows_figures_follow_from_time_flops_and_bytes():
    row = bench.row(Timing(FLASH, "ok", "", 50, 100.0, 90.0, 120.0, moved_bytes=2 * 10**6, peak_bytes=7, clock=(1, 2)), ROOFS)
    flops = 4 * 2 * 256 * 256 * 64
    assert row["tflops"] == pytest.approx(flops / 100e-6 / 1e12, rel=1e-3) and row["tokens_per_s"] == pytest.approx(256 / 100e-6)
    assert row["gb_per_s"] == pytest.approx(20.0) and row["intensity"] == pytest.approx(flops / 2e6, rel=1e-4)
    assert row["roof"] == "fp32 FMA" and row["roof_percent"] == pytest.approx(100 * row["tflops"] / 60, abs=0.01)
    low = bench.row(Timing(FLASH, "ok", "", 50, 100.0, 90.0, 120.0, moved_bytes=10**8), ROOFS)  # below the corner the copy is the roof
    assert low["roof"] == "copy" and low["roof_percent"] == pytest.approx(100 * low["gb_per_s"] / 4000, abs=0.01)
    assert (row["clock_before"], row["clock_after"], row["settings"].split()[0]) == (1, 2, "BLOCK_Q=16")
    assert list(row) == list(bench.COLUMNS)


def test_what_has_no_time_has_no_figures():
    row = bench.row(Timing(FLASH, "wrong", "A wrong kernel gets no time.", moved_bytes=5), ROOFS)
    assert row["status"] == "wrong" and row["tflops"] is None and row["median_us"] is None and "wrong kernel" in row["reason"]


def synthetic(times, name="03_flash", **more):
    """Rows at seq_len -> (p10, median, p90)."""
    return [{**bench.row(Timing(Point(name, AttentionProblem(seq_len=n, head_dim=64), more.get("settings", ())), "ok", "", 9, mid, low, high,
                                moved_bytes=1000), ROOFS)} for n, (low, mid, high) in times.items()]


def test_a_speed_up_is_the_ratio_of_medians_and_its_spread_that_of_the_percentiles():
    made = bench.labelled(bench.table(synthetic({128: (9, 10, 12), 256: (30, 40, 50)}) + synthetic({128: (4, 5, 8)}, "04_flash_registers")))
    done = bench.speedups(made, "03_flash").set_index(["label", "seq_len"])
    best = done.loc[("04_flash_registers", 128)]
    assert (best.speedup, best.speedup_low, best.speedup_high) == (10 / 5, 9 / 8, 12 / 4)
    assert done.loc[("03_flash", 256)].speedup == 1
    assert np.isnan(bench.speedups(made, "04_flash_registers").set_index(["label", "seq_len"]).speedup["03_flash", 256])


def test_a_measured_row_is_compared_with_the_measured_baseline_and_a_recorded_one_with_the_recorded():
    made = bench.labelled(bench.table(synthetic({128: (9, 10, 12)}) + synthetic({128: (4, 5, 8)}, "04_flash_registers")))
    slower = made.assign(source="recorded", median_us=made.median_us * [2, 1])
    done = bench.speedups(pd.concat([made.assign(source="measured"), slower], ignore_index=True), "03_flash")
    assert dict(zip(done[done["name"] == "04_flash_registers"].source, done[done["name"] == "04_flash_registers"].speedup)) == {"measured": 2, "recorded": 4}


def test_several_settings_of_a_kernel_are_told_apart_by_what_differs():
    made = bench.table([row for q in (16, 32) for row in synthetic({128: (1, 1, 1)}, settings=(("BLOCK_Q", q), ("PAD_K", 0)))])
    assert list(bench.labelled(made).label) == ["03_flash BLOCK_Q=16", "03_flash BLOCK_Q=32"]


def test_settings_that_a_kernel_chose_for_itself_leave_it_its_name():
    made = [point for n in (1024, 4096) for point in bench.points(["04_flash_registers"], [], [("seq_len", n), ("heads", 8), ("head_dim", 64)])]
    assert len({p.settings for p in made}) == 2
    rows = [bench.row(Timing(p, "ok", "", 9, 2, 1, 3, moved_bytes=1000), ROOFS) for p in made]
    assert set(bench.labelled(bench.table(rows)).label) == {"04_flash_registers"}
    other = bench.row(Timing(replace(made[0], settings=made[1].settings), "ok", "", 9, 2, 1, 3, moved_bytes=1000), ROOFS)
    assert set(bench.labelled(bench.table([*rows, other])).label) == {"04_flash_registers BLOCK_Q=64", "04_flash_registers BLOCK_Q=128"}


def test_the_arithmetic_roof_is_that_of_the_arithmetic_used():
    def roof(name):
        row = bench.row(Timing(Point(name, AttentionProblem(seq_len=4096, head_dim=64)), "ok", "", 9, 1000, 999, 1001, moved_bytes=1000), ROOFS)
        return row["roof"], round(row["roof_percent"] * 1e-2 * (ROOFS["fp32_tflops"] if "FMA" in row["roof"] else ROOFS["fp16_tflops"] / 6) / row["tflops"], 3)
    assert roof("03_flash") == roof("sdpa_math") == ("fp32 FMA", 1.0)
    assert roof("04_flash_registers") == roof("sdpa_efficient") == ("fp16 tensor cores / 6", 1.0)


def test_the_exponent_of_a_power_law_is_found():
    made = bench.labelled(bench.table(synthetic({n: (n**2, 3 * n**2, 4 * n**2) for n in (128, 256, 512, 1024, 2048, 4096)})))
    slope, used = bench.exponents(made)["03_flash"]
    assert slope == pytest.approx(2) and used == 3
    assert not bench.exponents(made[made.seq_len < 1000])


# ---- the recorded set ----


def test_the_recorded_set_covers_the_catalogue_the_peers_and_the_sweeps():
    (made, where), = bench.recorded().values()
    assert "H200" in where["device"] and {"driver", "date", "torch", "compiler", "roofs", "sources", "protocol"} <= set(where)
    assert set(made.name) == {*catalog.KERNELS, *peers.PEERS}
    assert where["sources"] == {name: spec.source_hash for name, spec in catalog.KERNELS.items()}
    timed = made[made.status == "ok"]
    assert set(timed.name) >= set(catalog.KERNELS)
    fp32 = timed[timed.dtype == "float32"]
    assert set(fp32[(fp32.batch == 1) & (fp32.heads == 8)].seq_len) >= {128, 256, 512, 1024, 2048, 4096, 8192, 16384}
    assert set((fp32.heads * fp32.head_dim)[fp32.seq_len == 1024]) >= {512, 768, 1024, 2048}
    assert set(fp32.batch) >= {1, 4, 8, 16, 32} and set(fp32.heads) >= {8, 12, 16, 32}
    assert (made[made.status != "ok"].reason.str.len() > 20).all()


def test_every_recorded_time_passed_and_its_figures_follow_from_it():
    (made, where), = bench.recorded().values()
    timed = made[made.status == "ok"]
    assert (timed.max_abs_error <= 2 * timed.baseline_max_abs_error).all()
    assert ((timed.p10_us <= timed.median_us) & (timed.median_us <= timed.p90_us) & (timed.runs >= measure.LEAST_RUNS)).all()
    sized = timed[timed.tflops.notna()]
    for row in sized.itertuples():
        fields = json.loads(row.problem)
        fields |= {"block_tables": tuple(map(tuple, fields["block_tables"]))} if "block_tables" in fields else {}
        problem = (PagedProblem if "context_lens" in fields else AttentionProblem)(**fields)
        assert row.tflops == pytest.approx(problem.work.flops / row.median_us / 1e6, rel=1e-3, abs=1e-4)
        assert row.gb_per_s == pytest.approx(row.bytes / row.median_us / 1e3, abs=0.006)
    assert (made[made.status != "ok"].median_us.isna()).all()


def test_rows_of_another_source_are_not_shown(tmp_path, monkeypatch):
    made, where = tables.load(bench.path_of("NVIDIA H200"))
    where["sources"]["03_flash"] = "of long ago"
    tables.save(made, tmp_path / "x.csv", where)
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    bench.recorded.cache_clear()
    try:
        (kept, _), = bench.recorded().values()
    finally:
        bench.recorded.cache_clear()
    assert "03_flash" not in set(kept.name) and "04_flash_registers" in set(kept.name)


# ---- the command line ----


class Done:
    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


def test_stopping_keeps_the_points_that_are_done(monkeypatch, capsys):
    rows = iter(synthetic({128: (1, 2, 3), 256: (2, 3, 4)}))

    def one(point, roofs):
        try:
            return next(rows)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(workers, "submit", lambda *a, **k: Done(ROOFS))
    monkeypatch.setattr(cli, "_time_point", one)
    made, roofs = cli._time_points(bench.points(["03_flash"], [("seq_len", ["128", "256", "512", "1024"])]))
    assert list(made.seq_len) == [128, 256] and roofs == ROOFS
    assert "stopped: 2 of 4 points are kept" in capsys.readouterr().err


def test_a_point_that_fails_does_not_end_the_others(monkeypatch):
    from kernels.errors import RunTimeout

    class Late:
        def result(self):
            raise RunTimeout("03_flash ran past its limit")

    monkeypatch.setattr(workers, "submit", lambda *a, **k: Late())
    row = cli._time_point(FLASH, ROOFS)
    assert row["status"] == "failed" and "past its limit" in row["reason"]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_where_nothing_has_a_time_the_reason_is_printed_and_the_exit_is_1(form, monkeypatch, capsys):
    rows = [bench.row(Timing(FLASH, "wrong", "A wrong kernel gets no time.", moved_bytes=5), ROOFS)]
    monkeypatch.setattr(workers, "survey", lambda: SimpleNamespace(pick=lambda backend: None))
    monkeypatch.setattr(cli, "_time_points", lambda points: (bench.table(rows), ROOFS))
    monkeypatch.setattr(bench, "provenance", lambda *a: {"device": "G", "driver": "D", "torch": "T", "date": "2026-11-21", "roofs": ROOFS})
    assert cli.main(["bench", "03_flash", *form]) == 1
    assert "A wrong kernel gets no time." in capsys.readouterr().out


@pytest.mark.parametrize(("args", "code", "words"), [
    (["03_flash", "--sweep", "foo=1"], 2, "no field or constant 'foo'"), (["03_flash", "--sweep", "seq_len"], 2, "--sweep takes FIELD"),
    (["nope"], 2, "There is no kernel 'nope'"), (["--out", "times.txt"], 2, "it must end in .csv or .json"),
    (["03_flash", "--sweep", "seed=" + ",".join(map(str, range(10_000)))], 2, "10,000 points"),
])
def test_bad_sweeps_exit_2(args, code, words, capsys):
    assert cli.main(["bench", *args]) == code
    assert words in capsys.readouterr().err


@pytest.mark.skipif("gpu" in workers.survey().devices, reason="this machine has a GPU")
def test_without_a_gpu_bench_exits_3_and_says_what_to_do(capsys):
    assert cli.main(["bench", "03_flash"]) == 3
    assert "No GPU was found" in capsys.readouterr().err


def test_a_written_table_is_read_back_with_its_provenance(tmp_path):
    made, where = bench.table(synthetic({128: (1, 2, 3)})), {"device": "a GPU", "roofs": ROOFS}
    cli._save_bench(made, where, str(tmp_path / "t.csv"))
    cli._save_bench(made, where, str(tmp_path / "t.json"))
    again, provenance = tables.load(tmp_path / "t.csv")
    assert provenance == where and again.median_us[0] == 2
    assert json.loads((tmp_path / "t.json").read_text())["rows"][0]["median_us"] == 2
    assert isinstance(again, pd.DataFrame) and list(again.columns) == list(bench.COLUMNS)
