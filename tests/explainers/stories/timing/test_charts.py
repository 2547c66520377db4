"""The charts of times: the roofline, the ladder, and lines over sizes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from explainers.charts import layers
from explainers.stories.timing import charts, story, sweeps
from explainers.stories.timing.shown import Shown
from explainers.story import glossary
from kernels.catalog import KERNELS, current
from kernels.families.dense.problem import DenseProblem
from kernels.measure import bench


@pytest.fixture(scope="module")
def recorded():
    """part of a sweep's name -> the Shown of the first recorded sweep with it."""
    known = []
    for made, where in bench.recorded().values():
        found = sweeps.of(sweeps.prepared(made, where, "recorded"))
        for key, name in sweeps.names(found).items():
            one = Shown(found[key], found[key].baselines[0], (), {where.device: where})
            known.append((f"{name.kind}: {name.along}", one))
    return lambda wanted: next(one for name, one in known if wanted in name)


def data_of(shown, kind):
    return charts.chart(shown, kind).to_dict()["datasets"]


def marks_of(spec, kind):
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


def domain_of(layer, channel="y"):
    return layer["encoding"][channel]["scale"]["domain"]


def test_the_roofline_says_a_size_once_at_each_place_under_the_lowest_point(shown):
    data = data_of(shown, "roofline")
    said = [row for row in data["sizes"] if row["said_size"] == "16,384"]
    drawn = [row for row in data["points"] if row["said_size"] == "16,384"]
    assert 1 < len(said) < len(drawn)
    for row in said:
        near = [r["tflops"] for r in drawn if abs(np.log(r["intensity"] / row["intensity"])) < 0.1]
        assert row["tflops"] == min(near)
    made = story.made_of_products({"06_mma", "08b_three_bfloat16", "sdpa_efficient"})
    assert made == {6: ["08b_three_bfloat16", "torch efficient"]}


def test_the_roofline_shows_the_datasheets_peaks_apart_from_the_measured_roofs(recorded):
    """The roof of 761 TFLOP/s is a measured product; nothing said that the datasheet states 989."""
    one = recorded("16 bits: tokens")
    (roofs,) = [where.roofs for where in one.where.values()]
    data = data_of(one, "roofline")
    assert {row["said"] for row in data["datasheet"]} == {"datasheet, fp16 or bf16: 989 TFLOP/s"}
    assert {row["said"] for row in data["roofs"]} == {f"fp16 tensor cores: {roofs['fp16_tflops']:.4g} TFLOP/s"}
    for row in data["datasheet"]:
        assert row["tflops"] == pytest.approx(min(4.8 * row["intensity"], 989))
    stated = "Datasheet: 989 TFLOP/s of dense fp16 or bf16, 1,979 TFLOP/s of dense fp8, 4.8 TB/s of HBM3e."
    assert stated in story.provenance(one).said


def test_an_unknown_gpu_has_no_datasheet_and_roofs_have_names_that_do_not_overlap(shown):
    (where,) = shown.where.values()
    assert data_of(shown, "roofline")["datasheet"] == [] and "Datasheet" not in story.provenance(shown).said
    known = replace(shown, where={"here": replace(where, device="NVIDIA H200")})
    spec = charts.chart(known, "roofline").to_dict()
    names = sorted(spec["datasets"]["roof_names"], key=lambda row: row["beside"])
    assert len(names) == len({row["named"] for row in names}) >= 3
    low, high = domain_of(marks_of(spec, "text")[0])
    gaps = np.diff(np.log([row["beside"] for row in names])) / np.log(high / low)
    assert (gaps >= layers.LABEL_GAP - 1e-9).all()


def test_the_ladder_has_a_bar_for_each_kernel_and_the_roofs_that_they_have(shown):
    spec, rows = charts.chart(shown, "ladder").to_dict(), shown.rows
    bars, across = spec["datasets"]["bars"], spec["datasets"]["across"]
    last = [bar for bar in bars if bar["step"] == len(shown.sweep.sizes)]
    kernels, peers = list(current().of_problem(DenseProblem)), ["sdpa_math", "sdpa_efficient", "sdpa_cudnn"]
    assert sorted(bar["label"] for bar in last) == sorted([*kernels, *peers])
    for bar in bars:
        if bar["label"] in peers:
            assert bar["idea"] == bar["line"]
            continue
        row = rows[(rows.label == bar["label"]) & (rows[shown.field] == bar[shown.field])].iloc[0]
        assert bar["tflops"] == row.tflops and bar["idea"] == f"{row.label}: {KERNELS[row.label].idea}"
        assert f"{row.roof_percent:.3g} % of {row.roof}" in bar["said_rate"]
    assert {line["said"].split(":")[0] for line in across} == {*rows.roof} - {"copy"}
    assert len({line["level"] for line in across}) == len(across)  # no name lies on another
    order = domain_of(marks_of(spec, "bar")[0])
    assert order == ["", *kernels, "torch math", "torch efficient", "torch cudnn"]


def test_the_ladder_of_a_kernel_that_memory_limits_has_bytes_a_second_and_a_row_for_each_rival(recorded):
    """The names of XQA, tensor cores and cuDNN lay on each other, over TFLOP/s."""
    spec = charts.chart(recorded("Decoding in ranges, paged KV cache: block_size"), "ladder").to_dict()
    bars = [bar for bar in spec["datasets"]["bars"] if bar["step"] == 2]
    assert all(bar["said_rate"] == f"{bar['gb_per_s']:,.4g} GB/s" for bar in bars)
    assert len(bars) >= 7 and {bar["line"] for bar in bars} <= {*domain_of(marks_of(spec, "bar")[0])}
    assert [row["said"] for row in spec["datasets"]["across"]] == ["copy: 4,261 GB/s"]


def test_the_picture_opens_on_ratios_next_to_the_rival_with_losses_beside_wins(recorded):
    """It opened on eleven lines on one logarithmic axis, where all fast ones coincide."""
    one = recorded("16 bits: tokens 512")
    first = story.stage_of(one).views[0]
    assert first.id == "speedup" and "torch math" in first.meta["note"] and "06_mma" in first.meta["note"]
    data, rows = first.meta["spec"]["datasets"], one.rows
    lines = {point["label"] for point in data["points"]}
    assert {"12_optimistic", "11_overlap", "sdpa_cudnn"} <= lines and not lines & {"sdpa_math", "06_mma"}
    best = rows[rows.kind == "kernel"].groupby("seq_len").speedup.max()
    assert best.min() < 1 < best.max() and [row["said"] for row in data["best"]] == [f"{speed:.2f}×" for speed in best]
    low, high = domain_of(next(layer for layer in first.meta["spec"]["layer"] if "y" in layer["encoding"]))
    assert 0.4 < low < best.min() and best.max() < high < 1.5
    far = data_of(recorded("Decoding, paged KV cache: tokens"), "speedup")["points"]
    assert "paged_v2" in {point["label"] for point in far}  # far behind every rival, and still our fastest


def test_block_sizes_are_told_apart_and_no_reason_lies_on_the_data(recorded):
    """torch math at 12 ms flattened the axis. "cannot compute this" was cut at the left edge, and lay over points."""
    one = recorded("block_size")
    made = story.stage_of(one)
    view = next(view for view in made.views if view.id == "latency")
    spec, rows = view.meta["spec"], one.rows
    drawn = {point["label"] for point in spec["datasets"]["points"]}
    assert "paged_v3" in drawn and "sdpa_math" not in drawn and "torch math" in view.meta["note"]
    times = rows[rows.label == "paged_v3"].sort_values("block_size").median_us
    assert [row["said"] for row in spec["datasets"]["best"]] == [glossary.microseconds(us) for us in times]
    low, high = domain_of(spec["layer"][1])
    apart = charts.HEIGHT * abs(np.log(times.iloc[2] / times.iloc[1])) / np.log(high / low)
    assert apart > 4 and high < 3 * low, f"block_size 16 and 32 are {apart:.1f} pixels apart"
    assert not [layer for layer in marks_of(spec, "text") if "angle" in layer["mark"]]
    missing = one.drawn[(one.drawn.status != "ok") & one.drawn.label.isin(drawn)]
    assert len(missing) and "A cross: no time." in view.meta["note"]
    assert all(f"({sweeps.why(row)})" in view.meta["note"] for row in missing.itertuples())
    ratio = sweeps.as_fast(times.iloc[1] / times.iloc[2], name="at block_size 16")
    assert f"That is {ratio}" in made.frames[2]["sentence"]


@pytest.mark.parametrize("kind", [kind for kind in story.CHARTS if kind != "ladder"])
def test_every_chart_holds_the_slices_points_and_draws_their_spread(shown, kind):
    spec = charts.chart(shown, kind).to_dict()
    points = spec["datasets"]["points"]
    assert len(points) == (~shown.rows.label.isin(sweeps.left_out(kind, shown.rows, shown.field))).sum()
    rules = [layer["encoding"] for layer in marks_of(spec, "rule")]
    spread = [encoding for encoding in rules if "y2" in encoding and "x2" not in encoding]
    assert bool(spread) == (kind != "memory")  # an allocation has no spread
    (dots,) = [layer for layer in marks_of(spec, "point") if layer["data"]["name"] == "points"]
    assert len(dots["encoding"]["tooltip"]) == 6
    assert [row["said"].split(" \u00d7")[0] for row in spec["datasets"]["ends"]].count("04_warp_rows") == 1
    assert [p["name"] for p in spec["params"]] == ["step"]
    for row in points if kind == "tflops" else ():
        assert row["tflops_low"] == pytest.approx(row["tflops"] * row["median_us"] / row["p90_us"])
        assert row["tflops_low"] <= row["tflops"] <= row["tflops_high"]


def test_measured_and_recorded_points_share_a_chart_and_roofs_are_of_their_source(shown):
    """Recorded roofs took the place of those that were measured on a GPU of the same name."""
    part, (where,) = shown.sweep.part, shown.where.values()
    slower = {name: 2 * part[name] for name in ("median_us", "p10_us", "p90_us")}
    now = part.assign(source="measured", device="this GPU", **slower)
    sweep = replace(shown.sweep, part=pd.concat([part, now], ignore_index=True))
    higher = replace(where, roofs={name: 2 * value for name, value in where.roofs.items()})
    both = replace(shown, sweep=sweep, where={"recorded": where, sweeps.NOW: higher})
    spec = charts.chart(both, "latency").to_dict()
    assert {row["source"] for row in spec["datasets"]["points"]} == {"measured", "recorded"}
    assert any(layer["encoding"].get("shape", {}).get("legend") for layer in spec["layer"])
    tops = {row["said"] for row in data_of(both, "roofline")["roofs"]}
    for source, entry in both.where.items():
        assert any(f"{entry.roofs['fp32_tflops']:.4g} TFLOP/s, {source}" in said for said in tops), tops
    assert [row["at"] for row in data_of(both, "bandwidth")["fixed"]] == [4231.7, 2 * 4231.7]
    said = story.provenance(both)
    assert said.label == "measured" and "Recorded on A GPU" in said.said and "Measured on A GPU" in said.said


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
    assert layers.decades(low, high) == ticks


def test_names_at_the_lines_ends_keep_their_order_and_do_not_touch():
    bounds, values = (1.0, 1000.0), [1.1, 1.1, 1.2, 500, 990, 999]
    found = layers.spread_out(values, bounds)
    gaps = np.diff(np.log(found))
    assert (gaps > 0.99 * layers.LABEL_GAP * np.log(1000)).all() and found[-1] <= 1000
