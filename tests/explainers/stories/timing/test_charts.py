"""The charts of times: the roofline, the ladder, and lines over sizes."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from explainers.charts import line_ends
from explainers.models import recorded_times
from explainers.stories.timing import size_charts, story, sweep_rows, timing_tables, wording
from explainers.story import glossary
from kernels.catalog import KERNELS, current
from kernels.families.dense.problem import DenseProblem
from kernels.measure import bench


def _is_point(layer):
    return layer["mark"]["type"] == "point" and layer["data"]["name"] == "points"


def test_the_roofline_says_a_size_once_at_each_place_under_the_lowest_point(shown, bench_table):
    _, field, _, compared = shown
    roofs = {bench_table[1].device: bench_table[1].roofs}
    data = size_charts.chart("roofline", compared, field, "sdpa_efficient", roofs).to_dict()["datasets"]
    said = [row for row in data["sizes"] if row["said_size"] == "16,384"]
    drawn = [row for row in data["points"] if row["said_size"] == "16,384"]
    assert 1 < len(said) < len(drawn)
    for row in said:
        near = [r["tflops"] for r in drawn if abs(np.log(r["intensity"] / row["intensity"])) < 0.1]
        assert row["tflops"] == min(near)
    shown = {"06_mma", "08b_three_bfloat16", "sdpa_efficient"}
    assert "08b_three_bfloat16 and torch efficient by 6" in story.made_of_products(shown)
    assert story.made_of_products({"06_mma"}) == ""


def test_the_roofline_shows_the_datasheets_peaks_apart_from_the_measured_roofs():
    """The roof of 761 TFLOP/s is a measured product; nothing said that the datasheet states 989."""
    for made, where in bench.recorded().values():
        table = sweep_rows.prepared(made, where, "recorded")
        sweeps_ = sweep_rows.sweeps(table).values()
        field, fixed = next(
            s for s in sweeps_ if s[1]["dtype"] == "float16" and not recorded_times.is_paged(s[1]["title"])
        )
        part = sweep_rows.slice_of(table, field, fixed)
        one = story.Shown(part, field, "", "sdpa_cudnn", (), {where.device: where}, ())
        data = story.charts(one, one.rows, "roofline").to_dict()["datasets"]
        assert {row["said"] for row in data["datasheet"]} == {"datasheet, fp16 or bf16: 989 TFLOP/s"}
        assert {row["said"] for row in data["roofs"]} == {
            f"fp16 tensor cores: {where.roofs['fp16_tflops']:.4g} TFLOP/s"
        }
        for row in data["datasheet"]:
            assert row["tflops"] == pytest.approx(min(4.8 * row["intensity"], 989))
        said = story.provenance({where.device: where}, ()).said
        assert "Datasheet: 989 TFLOP/s of dense fp16 or bf16, 1,979 TFLOP/s of dense fp8, 4.8 TB/s of HBM3e." in said


def test_an_unknown_gpu_has_no_datasheet_and_roofs_have_names_that_do_not_overlap(shown, bench_table):
    _, field, part, _ = shown
    one = story.Shown(part, field, "", "sdpa_cudnn", (), {"here": bench_table[1]}, ())
    data = story.charts(one, one.rows, "roofline").to_dict()["datasets"]
    assert data["datasheet"] == [] and "Datasheet" not in story.provenance({"here": bench_table[1]}, ()).said
    known = dataclasses.replace(bench_table[1], device="NVIDIA H200")
    one = dataclasses.replace(one, where={"here": known})
    spec = story.charts(one, one.rows, "roofline").to_dict()
    names = sorted(spec["datasets"]["roof_names"], key=lambda row: row["beside"])
    assert len(names) == len({row["named"] for row in names}) >= 3
    low, high = next(
        layer["encoding"]["y"]["scale"]["domain"] for layer in spec["layer"] if layer["mark"]["type"] == "text"
    )
    gaps = np.diff(np.log([row["beside"] for row in names])) / np.log(high / low)
    assert (gaps >= line_ends.LABEL_GAP - 1e-9).all()


def test_the_ladder_has_a_bar_for_each_kernel_and_the_roofs_that_they_have(shown, bench_table):
    _, field, part, compared = shown
    roofs = {bench_table[1].device: bench_table[1].roofs}
    spec = size_charts.chart("ladder", compared, field, "sdpa_efficient", roofs, part).to_dict()
    bars, across = spec["datasets"]["bars"], spec["datasets"]["across"]
    last = [bar for bar in bars if bar["step"] == len(recorded_times.sizes(part, field))]
    kernels, peers = list(current().of_problem(DenseProblem)), ["sdpa_math", "sdpa_efficient", "sdpa_cudnn"]
    assert sorted(bar["label"] for bar in last) == sorted([*kernels, *peers])
    for bar in bars:
        if bar["label"] in peers:
            assert bar["idea"] == bar["line"]
            continue
        row = compared[(compared.label == bar["label"]) & (compared[field] == bar[field])].iloc[0]
        assert bar["tflops"] == row.tflops and bar["idea"] == f"{row.label}: {KERNELS[row.label].idea}"
        assert f"{row.roof_percent:.3g} % of {row.roof}" in bar["said_rate"]
    named = {line["said"].split(":")[0] for line in across}
    assert named == {*compared.roof} - {"copy"}
    assert len({line["level"] for line in across}) == len(across)  # no name lies on another
    rows = next(layer["encoding"]["y"]["scale"]["domain"] for layer in spec["layer"] if layer["mark"]["type"] == "bar")
    assert rows == ["", *kernels, "torch math", "torch efficient", "torch cudnn"]


@pytest.fixture(scope="module")
def recorded():
    made, where = bench.recorded()["NVIDIA H200"]
    return sweep_rows.prepared(made, where, "recorded"), where


def staged(recorded, wanted):
    """The Shown of the first recorded sweep with these parts of its name."""
    table, where = recorded
    found = sweep_rows.sweeps(table)
    names = sweep_rows.names(table, found)
    field, fixed = next(found[key] for key, name in names.items() if wanted in f"{name.kind}: {name.along}")
    part = sweep_rows.slice_of(table, field, fixed)
    return story.Shown(part, field, "", sweep_rows.baselines(part, field)[0], (), {where.device: where}, ())


def texts_of(spec, table):
    return [row["said"] for row in spec["datasets"][table]]


def test_the_picture_opens_on_ratios_next_to_the_rival_with_losses_beside_wins(recorded):
    """It opened on eleven lines on one logarithmic axis, where all fast ones coincide."""
    one = staged(recorded, "16 bits: tokens 512")
    first, *_ = story.stage_of(one, False, []).views
    assert first.id == "speedup" and "torch math" in first.meta["note"] and "06_mma" in first.meta["note"]
    data, rows = first.meta["spec"]["datasets"], one.rows
    lines = {point["label"] for point in data["points"]}
    assert {"12_optimistic", "11_overlap", "sdpa_cudnn"} <= lines and not lines & {"sdpa_math", "06_mma"}
    best = rows[rows.kind == "kernel"].groupby("seq_len").speedup.max()
    assert best.min() < 1 < best.max()
    assert texts_of(first.meta["spec"], "best") == [f"{speed:.2f}×" for speed in best]
    scale = next(layer["encoding"]["y"]["scale"] for layer in first.meta["spec"]["layer"] if "y" in layer["encoding"])
    low, high = scale["domain"]
    assert 0.4 < low < best.min() and best.max() < high < 1.5


def test_a_kernel_far_behind_every_rival_stays_among_the_ratios(recorded):
    one = staged(recorded, "Decoding, paged KV cache: tokens")
    spec = story.charts(one, one.rows, "speedup").to_dict()
    assert "paged_v2" in {point["label"] for point in spec["datasets"]["points"]}


def test_block_sizes_are_told_apart_and_no_reason_lies_on_the_data(recorded):
    """torch math at 12 ms flattened the axis. "cannot compute this" was cut at the left edge, and lay over points."""
    one = staged(recorded, "block_size")
    made = story.stage_of(one, False, [])
    view = next(view for view in made.views if view.id == "latency")
    spec, rows = view.meta["spec"], one.rows
    drawn = {point["label"] for point in spec["datasets"]["points"]}
    assert "paged_v3" in drawn and "sdpa_math" not in drawn and "torch math" in view.meta["note"]
    times = rows[rows.label == "paged_v3"].sort_values("block_size").median_us
    assert texts_of(spec, "best") == [glossary.microseconds(us) for us in times]
    low, high = spec["layer"][1]["encoding"]["y"]["scale"]["domain"]
    apart = 400 * abs(np.log(times.iloc[2] / times.iloc[1])) / np.log(high / low)
    assert apart > 4 and high < 3 * low, f"block_size 16 and 32 are {apart:.1f} pixels apart"
    assert not [layer for layer in spec["layer"] if "angle" in layer["mark"] and layer["mark"]["type"] == "text"]
    missing = one.part[(one.part.status != "ok") & one.part.label.isin(drawn)]
    assert len(missing) and "A cross: no time." in view.meta["note"]
    for row in missing.itertuples():
        assert f"({wording.why(row)})" in view.meta["note"]
    said = made.frames[2]["sentence"]
    ratio = times.iloc[1] / times.iloc[2]
    assert f"That is {wording.as_fast(ratio, name='at block_size 16')}" in said


def test_the_ladder_of_a_kernel_that_memory_limits_has_bytes_a_second_and_a_row_for_each_rival(recorded):
    """The names of XQA, tensor cores and cuDNN lay on each other, over TFLOP/s."""
    one = staged(recorded, "Decoding in ranges, paged KV cache: block_size")
    spec = story.charts(one, one.rows, "ladder").to_dict()
    bars = [bar for bar in spec["datasets"]["bars"] if bar["step"] == 2]
    for bar in bars:
        assert bar["said_rate"] == f"{bar['gb_per_s']:,.4g} GB/s"
    domain = next(
        layer["encoding"]["y"]["scale"]["domain"] for layer in spec["layer"] if layer["mark"]["type"] == "bar"
    )
    assert len(bars) >= 7 and {bar["line"] for bar in bars} <= {*domain}
    assert texts_of(spec, "across") == ["copy: 4,261 GB/s"]


@pytest.mark.parametrize("kind", [kind for kind in story.CHARTS if kind != "ladder"])
def test_every_chart_holds_the_slices_points_and_draws_their_spread(shown, bench_table, kind):
    _, field, _, compared = shown
    spec = size_charts.chart(
        kind, compared, field, "sdpa_efficient", {bench_table[1].device: bench_table[1].roofs}
    ).to_dict()
    rows = spec["datasets"]["points"]
    assert len(rows) == (~compared.label.isin(sweep_rows.left_out(kind, compared, field))).sum()
    drawn = {layer["mark"]["type"] for layer in spec["layer"]}
    assert "point" in drawn and ("rule" in drawn or kind == "memory")
    spread = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule" and "y2" in layer["encoding"]]
    spread = [layer for layer in spread if "x2" not in layer["encoding"]]
    assert bool(spread) == (kind != "memory")  # an allocation has no spread
    (tips,) = [layer["encoding"]["tooltip"] for layer in spec["layer"] if _is_point(layer)]
    assert len(tips) == 6
    assert [row["said"].split(" \u00d7")[0] for row in spec["datasets"]["ends"]].count("04_warp_rows") == 1
    assert [p["name"] for p in spec["params"]] == ["step"]
    assert wording.WORDS.table("alt")[kind] and wording.WORDS.table("notes")[kind]


def test_rates_have_the_spread_of_their_times(shown):
    _, field, _, compared = shown
    spec = size_charts.chart("tflops", compared, field, "sdpa_efficient", {}).to_dict()
    for row in spec["datasets"]["points"]:
        assert row["tflops_low"] <= row["tflops"] <= row["tflops_high"]
        assert row["tflops_low"] == pytest.approx(row["tflops"] * row["median_us"] / row["p90_us"])


def test_measured_and_recorded_points_share_a_chart(shown):
    _, field, part, _ = shown
    now = part.assign(
        source="measured",
        device="this GPU",
        median_us=part.median_us * 2,
        p10_us=part.p10_us * 2,
        p90_us=part.p90_us * 2,
    )
    both = sweep_rows.compared(pd.concat([part, now], ignore_index=True), field, "sdpa_efficient")
    spec = size_charts.chart("latency", both, field, "sdpa_efficient", {}).to_dict()
    assert {row["source"] for row in spec["datasets"]["points"]} == {"measured", "recorded"}
    assert any(layer["encoding"].get("shape", {}).get("legend") for layer in spec["layer"])


def test_roofs_are_of_their_source_where_two_are_of_one_gpu(shown, bench_table):
    """Recorded roofs took the place of those that were measured on a GPU of the same name."""
    _, field, part, _ = shown
    recorded, higher = bench_table[1], {name: 2 * value for name, value in bench_table[1].roofs.items()}
    where = {"recorded": recorded, "this GPU, now": dataclasses.replace(recorded, roofs=higher)}
    one = story.Shown(part, field, "A title", "sdpa_efficient", (), where, ("this GPU, now",))
    spec = story.charts(one, one.rows, "roofline").to_dict()
    tops = {row["said"] for row in spec["datasets"]["roofs"]}
    for source, entry in where.items():
        assert any(f"{entry.roofs['fp32_tflops']:.4g} TFLOP/s, {source}" in said for said in tops), tops
    bounds = story.charts(one, one.rows, "bandwidth").to_dict()["datasets"]["fixed"]
    assert [row["at"] for row in bounds] == [4231.7, 2 * 4231.7]


def test_crossings_lie_where_the_lines_meet():
    rows = pd.DataFrame(
        [
            {"label": label, "kind": "kernel", "source": "recorded", "device": "a GPU", "seq_len": n}
            | {f"{name}_us": share * us for name, share in (("p10", 0.99), ("median", 1), ("p90", 1.01))}
            for label, times in (("a", (1, 4, 16)), ("b", (2, 4.5, 8)))
            for n, us in zip((128, 256, 512), times)
        ]
    )
    (found,) = sweep_rows.crossings(rows, "seq_len").to_dict("records")
    overlapping = rows.assign(p10_us=rows.p10_us.where(rows.seq_len < 512, 1.0))  # at 512 they are not told apart
    assert sweep_rows.crossings(overlapping, "seq_len").empty
    unclear = rows.assign(p10_us=rows.p10_us.where(rows.seq_len != 256, 1.0))  # the lines go through 256 all the same
    assert sweep_rows.crossings(unclear, "seq_len").to_dict("records") == [found]
    assert (found["faster"], found["slower"]) == ("b", "a") and 256 < found["seq_len"] < 512
    share = np.log2(found["seq_len"] / 256)
    assert 4 * 4**share == pytest.approx(found["median_us"]) == pytest.approx(4.5 * (8 / 4.5) ** share)
    assert timing_tables.crossing_sentences(rows, "seq_len")[0].startswith("b overtakes a at about")


def test_growth_is_the_factor_of_a_doubling(shown):
    _, field, _, compared = shown
    memory, time = (sweep_rows.growth(compared, field, column) for column in ("peak_bytes", "median_us"))
    assert memory["01_naive"] == pytest.approx(4, rel=0.05) and memory["03_flash"] == pytest.approx(2, rel=0.01)
    assert time["03_flash"] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (13, 213_000, [100, 1000, 10_000, 100_000]),
        (0.07, 2.1, [0.1, 0.2, 0.5, 1, 2]),
        (29, 670, [50, 100, 200, 500]),
        (235, 345, [250, 300]),
    ],
)
def test_the_ticks_of_a_logarithmic_axis_are_decades_and_their_halves_where_those_are_few(low, high, ticks):
    assert line_ends.decades(low, high) == ticks


def test_names_at_the_lines_ends_keep_their_order_and_do_not_touch():
    bounds, values = (1.0, 1000.0), [1.1, 1.1, 1.2, 500, 990, 999]
    found = line_ends.spread_out(values, bounds)
    gaps = np.diff(np.log(found))
    assert (gaps > 0.99 * line_ends.LABEL_GAP * np.log(1000)).all() and found[-1] <= 1000
