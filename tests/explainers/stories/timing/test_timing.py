"""Charts, sentences and the report of a table of times: every number is recomputed from the table."""

import dataclasses
import math
import re

import numpy as np
import pandas as pd
import pytest

from explainers.charts import line_ends, palette
from explainers.stories.timing import (
    chart_texts,
    size_charts,
    sweep_rows,
    sweep_search,
    time_sentences,
    timing_stage,
    timing_tables,
    trends,
    wording,
)
from explainers.story import encoding, stage
from kernels.catalog import KERNELS, current
from kernels.core.tolerance import OutputError
from kernels.families.lab.tiles import TransposeProblem
from kernels.families.paged.ranges import RangesProblem
from kernels.families.sparse.problem import BlockSparseProblem
from kernels.measure import bench, bench_rows, peers, sweeps
from kernels.measure.protocol import Timing
from kernels.recordings import tables


@pytest.fixture(scope="module")
def shown(bench_table):
    table, _ = bench_table
    key, (field, fixed) = next(iter(sweep_search.sweeps(table).items()))
    part = sweep_rows.slice_of(table, field, fixed)
    return key, field, part, sweep_rows.compared(part, field, "sdpa_efficient")


def test_the_sweeps_of_a_table_are_found_with_the_longest_first(bench_table):
    found = sweep_search.sweeps(bench_table[0])
    assert [field for field, _ in found.values()].count("seq_len") >= 3 and {"batch", "num_heads"} <= {
        field for field, _ in found.values()
    }
    titles = list(sweep_search.titles(bench_table[0], found).values())
    assert titles[0] == "Attention: seq_len 128 to 16384 at batch 1, num_heads 8, head_dim 64, float32, cold L2"
    assert len(set(titles)) == len(titles) and {title.split(":")[0] for title in titles} == {
        KERNELS[name].problem_type.title for name in ("03_flash", "paged_v1")
    }
    assert any("num_heads 8 to 32 at" in title and "(width 512 to 2048)" in title for title in titles)


def test_a_slice_holds_one_problem_per_size_and_kernel(shown):
    _, field, part, _ = shown
    assert not part.duplicated([field, "label"]).any()
    assert sweep_rows.labels(part) == [*current().of_family("dense"), "sdpa_math", "sdpa_efficient", "sdpa_cudnn"]
    assert len(set(sweep_rows.colours(sweep_rows.labels(part)).values())) == len(sweep_rows.labels(part))


def test_the_default_baseline_is_the_fastest_peer_with_a_right_result(shown):
    """It was "torch efficient", whatever the rows said: 3.8 times where the lead over cuDNN is 1.13."""
    _, field, part, _ = shown
    assert sweep_rows.baselines(part, field)[0] == "sdpa_cudnn"
    wrong = part.assign(status=part.status.mask(part["name"] == "sdpa_cudnn", "wrong"))
    assert sweep_rows.baselines(wrong, field)[0] == "sdpa_efficient"
    kernels = part[part.kind == "kernel"].reset_index(drop=True)
    assert sweep_rows.baselines(kernels, field)[0] == "01_naive"


def test_of_each_recorded_sweep_the_default_baseline_is_the_fastest_peer_at_the_largest_size():
    for made, where in bench.recorded().values():
        table = sweep_search.prepared(made, where, "recorded")
        for field, fixed in sweep_search.sweeps(table).values():
            part = sweep_rows.slice_of(table, field, fixed)
            timed = part[(part.kind == "peer") & (part.status == "ok")]
            if field in sweep_search.SWEPT and len(timed):
                last = timed[timed[field] == timed[field].max()]
                first = sweep_rows.baselines(part, field)[0]
                assert last[last.label == first].median_us.iloc[0] == last.median_us.min()


def test_over_a_paged_cache_torch_cudnn_is_labelled_as_a_floor(bench_table):
    """It reads contiguous K and V, and nothing on the page said so."""
    table = bench_table[0]
    found = [sweep for sweep in sweep_search.sweeps(table).values() if wording.is_paged(sweep[1]["title"])]
    field, fixed = found[0]
    part = sweep_rows.slice_of(table, field, fixed)
    part = pd.concat([part, part[part["name"] == "sdpa_math"].assign(name=wording.FLOOR, label=wording.FLOOR)])
    part = part.drop_duplicates([field, "label"], keep="first").reset_index(drop=True)
    rows = sweep_rows.compared(part, field, sweep_rows.baselines(part, field)[0])
    named = set(timing_tables.figures_table(rows, field).kernel)
    assert "torch cudnn (floor)" in named and "torch math" in named
    _, made = staged(part, field, baseline=wording.FLOOR)
    assert "as torch cudnn (floor)" in made["frames"][0]["sentence"].replace("slower than", "as")
    assert "torch cudnn (floor)" in [state["name"] for state in made["state"]]
    meta = made["views"][0]["meta"]
    assert "torch cudnn (floor)" in [name for _, name in meta["legend"]]
    assert meta["note"].endswith(wording.FLOOR_SAID)
    ours = rows[rows.kind == "kernel"].groupby(field).median_us.min()
    floor = rows[rows.label == wording.FLOOR].set_index(field).median_us
    said = time_sentences.floor_sentence(rows, field)
    assert f"faster than our fastest kernel at {(floor < ours).sum()} of {len(floor)} sizes" in said


def _shown_of(part, field):
    return timing_stage.Shown(part, field, "A title", "sdpa_efficient", (), {}, ())


def test_sustained_times_are_shown_with_clock_and_power_if_all_have_them(bench_table):
    table = bench_table[0]
    field, fixed = next(iter(sweep_search.sweeps(table).values()))
    rested = sweep_rows.slice_of(table, field, fixed)
    assert set(rested.state) == {"rested"}
    _, made = staged(rested, field)
    assert made["headline"].startswith("Rested times. ")
    assert "Times are rested." in [block.get("text") for block in timing_stage.figures(_shown_of(rested, field))]
    hot = {f"sustained{end}_us": 1.25 * table[f"{name}_us"] for name, end in sweep_rows._SUSTAINED}
    hot = table.assign(**hot, sustained_clock=1500.0, sustained_power=690.0)
    part = sweep_rows.slice_of(hot, field, fixed)
    timed = part.status == "ok"
    assert set(part.state) == {"sustained"}
    assert part.median_us[timed].to_numpy() == pytest.approx(1.25 * rested.median_us[timed].to_numpy())
    assert part.tflops[timed].to_numpy() == pytest.approx(rested.tflops[timed].to_numpy() / 1.25)
    _, made = staged(part, field)
    said = "Times are sustained: 08b_three_bfloat16 at 1,500 MHz and 690 W, torch efficient at 1,500 MHz and 690 W."
    assert all(frame["sentence"].endswith(said) for frame in made["frames"])
    assert made["headline"].startswith("Sustained times. ")
    one = hot.assign(sustained_us=hot.sustained_us.mask((hot["name"] == "sdpa_math") & (hot.seq_len == 512)))
    assert set(sweep_rows.slice_of(one, field, fixed).state) == {"rested"}


def test_of_dense_16_bit_sweeps_a_missing_flash_attention_has_its_reason(bench_table):
    for made, where in bench.recorded().values():
        table = sweep_search.prepared(made, where, "recorded")
        for field, fixed in sweep_search.sweeps(table).values():
            part = sweep_rows.slice_of(table, field, fixed)
            shown = timing_stage.Shown(part, field, "", sweep_rows.baselines(part, field)[0], (), {}, ())
            said = [block.get("text", "") for block in timing_stage.missing(shown, [])]
            dense = fixed["dtype"] != "float32" and not wording.is_paged(fixed["title"])
            due = wording.not_timed(part["name"]) if dense else []
            assert [text for text in said if "has no row here" in text] == due
    assert "88 MB" in wording.not_timed([])[0] and wording.not_timed(wording.NOT_TIMED) == []


def test_only_over_a_paged_cache_torch_cudnn_is_a_floor(shown):
    _, field, part, compared = shown
    assert "torch cudnn" in set(timing_tables.figures_table(compared, field).kernel)
    assert time_sentences.floor_sentence(compared, field) == ""


def test_the_sentence_says_the_ratio_of_the_table(shown):
    _, field, part, compared = shown
    said = time_sentences.sentence(compared, field, "sdpa_efficient")
    largest = part[(part.seq_len == 16384) & (part.status == "ok")].set_index("name")
    ours, base = largest.loc["08b_three_bfloat16"], largest.loc["sdpa_efficient"]
    assert (
        f"{base.median_us / ours.median_us:.3g} times ({base.p10_us / ours.p90_us:.3g} to "
        f"{base.p90_us / ours.p10_us:.3g}) as fast as torch efficient" in said
    )
    assert said.startswith(f"At seq_len 16384, 08b_three_bfloat16 takes {wording.microseconds(ours.median_us)} (")


def test_without_a_common_size_the_sentence_says_so(shown):
    _, field, _, compared = shown
    assert "no other kernel" in time_sentences.sentence(compared[compared.kind == "peer"], field, "sdpa_efficient")


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
    assert "08b_three_bfloat16 and torch efficient by 6." in chart_texts.note("roofline")


def test_the_roofline_shows_the_datasheets_peaks_apart_from_the_measured_roofs():
    """The roof of 761 TFLOP/s is a measured product; nothing said that the datasheet states 989."""
    for made, where in bench.recorded().values():
        table = sweep_search.prepared(made, where, "recorded")
        sweeps_ = sweep_search.sweeps(table).values()
        field, fixed = next(s for s in sweeps_ if s[1]["dtype"] == "float16" and not wording.is_paged(s[1]["title"]))
        part = sweep_rows.slice_of(table, field, fixed)
        one = timing_stage.Shown(part, field, "", "sdpa_cudnn", (), {where.device: where}, ())
        data = timing_stage.charts(one, one.rows, "roofline").to_dict()["datasets"]
        assert {row["said"] for row in data["datasheet"]} == {"datasheet, fp16 or bf16: 989 TFLOP/s"}
        assert {row["said"] for row in data["roofs"]} == {
            f"fp16 tensor cores: {where.roofs['fp16_tflops']:.4g} TFLOP/s"
        }
        for row in data["datasheet"]:
            assert row["tflops"] == pytest.approx(min(4.8 * row["intensity"], 989))
        said = timing_stage.provenance({where.device: where}, ()).said
        assert "Datasheet: 989 TFLOP/s of dense fp16 or bf16, 1,979 TFLOP/s of dense fp8, 4.8 TB/s of HBM3e." in said


def test_an_unknown_gpu_has_no_datasheet_and_roofs_have_names_that_do_not_overlap(shown, bench_table):
    _, field, part, _ = shown
    one = timing_stage.Shown(part, field, "", "sdpa_cudnn", (), {"here": bench_table[1]}, ())
    data = timing_stage.charts(one, one.rows, "roofline").to_dict()["datasets"]
    assert data["datasheet"] == [] and "Datasheet" not in timing_stage.provenance({"here": bench_table[1]}, ()).said
    known = dataclasses.replace(bench_table[1], device="NVIDIA H200")
    one = dataclasses.replace(one, where={"here": known})
    spec = timing_stage.charts(one, one.rows, "roofline").to_dict()
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
    last = [bar for bar in bars if bar["step"] == len(sweep_rows.sizes(part, field))]
    assert [bar["label"] for bar in sorted(last, key=lambda bar: bar["label"])] == list(current().of_family("dense"))
    for bar in bars:
        row = compared[(compared.label == bar["label"]) & (compared[field] == bar[field])].iloc[0]
        assert bar["tflops"] == row.tflops and bar["idea"] == f"{row.label}: {KERNELS[row.label].idea}"
        assert f"{row.roof_percent:.3g} % of {row.roof}" in bar["said_rate"]
    named = {line["said"].split(":")[0] for line in across}
    assert named == {"torch math", "torch efficient", "torch cudnn", *compared.roof} - {"copy"}
    rows = next(layer["encoding"]["y"]["scale"]["domain"] for layer in spec["layer"] if layer["mark"]["type"] == "bar")
    assert rows == ["", *current().of_family("dense")]


@pytest.mark.parametrize("kind", [kind for kind in chart_texts.CHARTS if kind != "ladder"])
def test_every_chart_holds_the_slices_points_and_draws_their_spread(shown, bench_table, kind):
    _, field, _, compared = shown
    spec = size_charts.chart(
        kind, compared, field, "sdpa_efficient", {bench_table[1].device: bench_table[1].roofs}
    ).to_dict()
    rows = spec["datasets"]["points"]
    assert len(rows) == len(compared)
    drawn = {layer["mark"]["type"] for layer in spec["layer"]}
    assert "point" in drawn and ("rule" in drawn or kind == "memory")
    spread = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule" and "y2" in layer["encoding"]]
    spread = [layer for layer in spread if "x2" not in layer["encoding"]]
    assert bool(spread) == (kind != "memory")  # an allocation has no spread
    (tips,) = [layer["encoding"]["tooltip"] for layer in spec["layer"] if _is_point(layer)]
    assert len(tips) == 6
    assert [row["said"].split(" \u00d7")[0] for row in spec["datasets"]["ends"]].count("03_flash") == 1
    assert [p["name"] for p in spec["params"]] == ["step"]
    assert chart_texts.ALT[kind] and chart_texts.note(kind)


def test_rates_have_the_spread_of_their_times(shown):
    _, field, _, compared = shown
    spec = size_charts.chart("tflops", compared, field, "sdpa_efficient", {}).to_dict()
    for row in spec["datasets"]["points"]:
        assert row["tflops_low"] <= row["tflops"] <= row["tflops_high"]
        assert row["tflops_low"] == pytest.approx(row["tflops"] * row["median_us"] / row["p90_us"])


def test_memory_grows_with_the_square_for_naive_and_with_the_length_for_flash(shown):
    _, _, part, _ = shown
    peak = part[part.status == "ok"].pivot_table(index="seq_len", columns="name", values="peak_bytes")
    assert peak["01_naive"][16384] / peak["01_naive"][4096] == pytest.approx(16, rel=0.1)
    assert peak["03_flash"][16384] / peak["03_flash"][4096] == pytest.approx(4, rel=0.01)
    assert peak["08b_three_bfloat16"][16384] == 4 * 8 * 16384 * 64 * 4  # q, k, v and o


def test_what_has_no_time_is_listed_with_its_places_and_reason(shown):
    _, _, part, _ = shown
    listed = timing_tables.without_time(part).set_index("name")
    assert listed.loc["torch flash"].status == "cannot compute this" and "Half" in listed.loc["torch flash"].reason
    assert sum(len(re.findall(r"\d+", places)) for places in listed.places) == (part.status != "ok").sum()


def test_the_table_and_the_report_repeat_the_table(shown, bench_table):
    key, field, part, compared = shown
    table = timing_tables.figures_table(compared, field)
    assert len(table) == len(compared) and "recorded, A GPU of a formula" in table["from"][0]
    text = timing_tables.report(compared, part, field, "A title", "sdpa_efficient", [bench_table[1]])
    assert text.startswith("# A title\n") and text.count("\n| ") == len(table) + 2
    assert "## No time" in text and "A GPU of a formula" in text and "Compared with torch efficient." in text
    assert wording.microseconds(84.72) == "84.72 us" and wording.microseconds(13937.3) == "13.94 ms"


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


def test_a_sweep_is_titled_by_its_problem_and_not_by_its_type(bench_table):
    """Fault 4: a dense fp16 sweep was titled "Decoding, paged KV cache"."""
    table = bench_table[0]
    dense = table[table["name"].isin(current().of_family("dense"))].assign(dtype="float16")
    titles = sweep_search.titles(dense, sweep_search.sweeps(dense)).values()
    assert titles and all(title.startswith("Attention: ") and title.endswith(", float16, cold L2") for title in titles)
    both = pd.concat([dense, table.assign(dtype="float16", num_kv_heads=table.num_heads)])
    for field, fixed in sweep_search.sweeps(both).values():
        assert sweep_rows.slice_of(both, field, fixed).title.nunique() == 1


def test_a_link_of_a_former_version_finds_its_sweep(bench_table):
    found = sweep_search.sweeps(bench_table[0])
    key = next(iter(found))
    assert sweep_search.find_sweep(found, key) == key and sweep_search.find_sweep(found, "seq_len batch=77") is None
    assert (
        sweep_search.find_sweep(found, "seq_len batch=1 heads=8 kv_heads=8 head_dim=64 causal=False dtype=float32")
        == key
    )


def test_colours_follow_from_the_catalogues_order_and_the_peers():
    dense = list(current().of_family("dense"))
    found = sweep_rows.colours([*dense, *peers.PEERS])
    assert list(found.values()) == [*palette.KERNELS[: len(dense)], *palette.PEERS]
    for family in ("dense", "paged"):
        names = [*current().of_family(family), *peers.PEERS]
        assert len(set(sweep_rows.colours(names).values())) == len(names)
    several = sweep_rows.colours(["03_flash BLOCK_Q=16", "03_flash BLOCK_Q=32", "mine.cu"])
    assert len(set(several.values())) == 3


def test_whatever_is_recorded_can_be_shown():
    for device, (made, where) in bench.recorded().items():
        table = sweep_search.prepared(made, where, "recorded")
        found = sweep_search.sweeps(table)
        assert len(set(sweep_search.titles(table, found).values())) == len(found)
        for field, fixed in found.values():
            part = sweep_rows.slice_of(table, field, fixed)
            assert not part.duplicated([field, "label"]).any()
            baseline = sweep_rows.baselines(part, field)[0]
            compared = sweep_rows.compared(part, field, baseline)
            for kind in ("latency", "roofline"):
                chart = size_charts.chart(kind, compared, field, baseline, {device: where.roofs}, part)
                assert chart.to_dict()["layer"]


def test_pages_of_other_sizes_are_other_sweeps_and_a_sweep_of_their_own(bench_table):
    """A line of paged_v3 held pages of 8, 16, 32 and 64 slots at one batch."""
    table = bench_table[0]
    paged = table[table.block_size.notna()]
    both = pd.concat([table, paged.assign(block_size=32.0, median_us=1.5 * paged.median_us)], ignore_index=True)
    found = sweep_search.sweeps(both)
    sizes = {fixed["block_size"] for field, fixed in found.values() if field == "batch" and "paged" in fixed["title"]}
    assert sizes == {16.0, 32.0} and "block_size" in [field for field, _ in found.values()]
    for field, fixed in found.values():
        assert not sweep_rows.slice_of(both, field, fixed).duplicated([field, "label"]).any()
    former = next(key for key, (_, fixed) in found.items() if fixed.get("block_size") == 16.0)
    assert sweep_search.find_sweep(found, former.replace(" block_size=16", "")) == former


def test_of_flashinfers_two_layouts_the_one_that_is_faster_at_the_end_is_drawn(bench_table):
    table = bench_table[0]
    field, fixed = next(sweep for sweep in sweep_search.sweeps(table).values() if "paged" in sweep[1]["title"])
    one = sweep_rows.slice_of(table, field, fixed).query("name == 'paged_v1' and status == 'ok'").drop(columns="label")
    last = one[field] == one[field].max()

    def line(name, at_end, before=1.0, keep=one.index):
        made = one.assign(name=name, kind="peer", median_us=one.median_us * np.where(last, at_end, before))
        return made.loc[keep]

    def drawn(*lines):
        names = sweep_rows.labels(sweep_rows.slice_of(pd.concat([table, *lines], ignore_index=True), field, fixed))
        return [name for name in names if name in peers.PAGED]

    nhd, hnd = "flashinfer_nhd_xqa", "flashinfer_hnd_xqa"
    assert drawn(line(nhd, 0.5), line(hnd, 0.6, 0.1)) == [nhd]
    assert drawn(line(nhd, 0.6, 0.1), line(hnd, 0.5)) == [hnd]
    assert drawn(line(nhd, 0.5)) == [nhd]
    assert drawn(line(nhd, 0.5), line("flashinfer_hnd_fa3", 2.0)) == ["flashinfer_hnd_fa3", nhd]
    without_end = one.index[~last]
    assert drawn(line(nhd, 9.0, 0.1), line(hnd, 0.5, 0.2, without_end)) == [nhd]  # where both have a time
    wrong = line(hnd, 0.5).assign(status="wrong")
    assert drawn(line(nhd, 0.9), wrong) == [nhd]
    assert wording.shown_name(nhd) == "FlashInfer XQA (NHD)"
    assert not set(sweep_rows.colours(["paged_v1", "paged_v2", "paged_v3", *peers.SDPA, nhd]).values()) - {
        *palette.KERNELS,
        *palette.PEERS,
    }


def test_an_l2_that_holds_the_inputs_is_a_sweep_of_its_own(bench_table):
    """Cold and warm points of one kernel at one size shared a line."""
    table = bench_table[0]
    warm = table.assign(l2="warm", **{name: table[name] * 0.9 for name in ("median_us", "p10_us", "p90_us")})
    both = pd.concat([table, warm], ignore_index=True)
    found, before = sweep_search.sweeps(both), sweep_search.sweeps(table)
    assert [key for key in found if key in before] == list(before) and len(found) == 2 * len(before)
    titles = sweep_search.titles(both, found)
    assert len(set(titles.values())) == len(titles)
    for key, (field, fixed) in found.items():
        part = sweep_rows.slice_of(both, field, fixed)
        assert not part.duplicated([field, "label"]).any() and set(part.l2) == {fixed["l2"]}
        assert titles[key].endswith(f"{fixed['l2']} L2")


def test_roofs_are_of_their_source_where_two_are_of_one_gpu(shown, bench_table):
    """Recorded roofs took the place of those that were measured on a GPU of the same name."""
    _, field, part, _ = shown
    recorded, higher = bench_table[1], {name: 2 * value for name, value in bench_table[1].roofs.items()}
    where = {"recorded": recorded, "this GPU, now": dataclasses.replace(recorded, roofs=higher)}
    one = timing_stage.Shown(part, field, "A title", "sdpa_efficient", (), where, ("this GPU, now",))
    spec = timing_stage.charts(one, one.rows, "roofline").to_dict()
    tops = {row["said"] for row in spec["datasets"]["roofs"]}
    for source, entry in where.items():
        assert any(f"{entry.roofs['fp32_tflops']:.4g} TFLOP/s, {source}" in said for said in tops), tops
    bounds = timing_stage.charts(one, one.rows, "bandwidth").to_dict()["datasets"]["fixed"]
    assert [row["at"] for row in bounds] == [4231.7, 2 * 4231.7]


# ---- the stage ----


def staged(part, field, baseline="sdpa_efficient", hidden=(), where=None):
    title = "A title"
    shown = timing_stage.Shown(part, field, title, baseline, hidden, {"here": where} if where else {}, ())
    return shown, encoding.decode(encoding.encode(timing_stage.stage_of(shown, False, [])))


def test_the_clock_goes_over_the_sizes_and_each_sentence_has_that_sizes_times(shown, bench_table):
    _, field, part, _ = shown
    _, made = staged(part, field, where=bench_table[1])
    assert [f["title"] for f in made["frames"]] == [f"seq_len {2**n:,}" for n in range(7, 15)]
    times = part[part.status == "ok"].set_index(["name", "seq_len"])
    for frame, size in zip(made["frames"], sweep_rows.sizes(part, field)):
        base = times.loc["sdpa_efficient", size]
        fast, slow = (times.loc[name, size] for name in ("08b_three_bfloat16", "01_naive"))
        said = frame["sentence"]
        assert said.startswith(
            f"seq_len {size:,.0f}: 08b_three_bfloat16 takes {wording.microseconds(fast.median_us)}, "
        )
        assert f"torch efficient ({wording.microseconds(base.median_us)})" in said
        assert (
            f"01_naive {wording.microseconds(slow.median_us)}, {slow.median_us / base.median_us:.1f} times slower"
            in said
        )
    assert [v["id"] for v in made["views"]] == list(chart_texts.CHARTS) and not made["codes"]
    for state in made["state"]:
        assert len(state["values"]) == len(made["frames"])
    fast = times.loc["08b_three_bfloat16", 16384]
    strip = next(s["values"][-1] for s in made["state"] if s["name"] == "08b_three_bfloat16")
    known = (f"{wording.microseconds(fast.median_us)}", f"{fast.tflops:.3g} TFLOP/s", f"{fast.gb_per_s:,.3g} GB/s")
    assert strip == ", ".join([*known, f"{fast.peak_bytes / 1e6:,.3g} MB"])  # what each picture draws
    steps = made["views"][0]["meta"]["spec"]["datasets"]["steps"]
    assert [(row["step"], row["seq_len"]) for row in steps] == list(enumerate(sweep_rows.sizes(part, field), 1))
    assert made["views"][0]["meta"]["at"] == sweep_rows.sizes(part, field)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (0.32, 0.3, 0.33, "3.1 times slower"),
        (2.0, 1.9, 2.1, "2.0 times as fast"),
        (1.02, 0.97, 1.05, "as fast"),
        (1.04, 1.01, 1.06, "1.04 times as fast"),
        (0.0935, 0.09, 0.094, "10.7 times slower"),
    ],
)
def test_slower_is_said_as_slower(ratio, low, high, said):
    assert wording.as_fast(ratio, low, high) == said


def test_a_kernel_slower_than_every_other_is_told_as_slower_in_the_sentence_too(shown):
    _, field, part, _ = shown
    rows = sweep_rows.compared(part[part["name"].isin(["01_naive", "sdpa_efficient"])], field, "sdpa_efficient")
    said = time_sentences.sentence(rows, field, "sdpa_efficient")
    ratio = 1 / rows[(rows["name"] == "01_naive") & (rows.seq_len == 16384)].speedup.iloc[0]
    assert f": {ratio:.3g} times (" in said and "slower than torch efficient" in said


@pytest.fixture(scope="module")
def with_gap(bench_table):
    """The first sweep, where 03_flash has no time at one size: its rounding is above the limit."""
    table = bench_table[0].copy()
    at = (table["name"] == "03_flash") & (table.seq_len == 1024)
    table.loc[at, ["status", "reason", "max_abs_error"]] = ["wrong", "So small an error is rounding, 1.3 times", 6e-7]
    table.loc[at, ["median_us", "p10_us", "p90_us", "tflops", "gb_per_s", "peak_bytes"]] = None
    field, fixed = next(iter(sweep_search.sweeps(table).values()))
    return field, sweep_rows.slice_of(table, field, fixed)


def test_a_size_without_a_time_is_a_gap_and_its_reason_is_in_words(with_gap):
    field, part = with_gap
    rows = sweep_rows.compared(part, field, "sdpa_efficient")
    spec = size_charts.chart("latency", rows, field, "sdpa_efficient", {}, part).to_dict()
    line = [row for row in spec["datasets"]["points"] if row["line"] == "03_flash"]
    assert [row["seq_len"] for row in line if row["median_us"] is None] == [1024]
    (gap,) = spec["datasets"]["gaps"]
    assert (gap["line"], gap["seq_len"], gap["why"]) == ("03_flash", 1024, "rounding above our limit")
    listed = timing_tables.without_time(part, field).set_index("name")
    assert (
        listed.loc["03_flash"].status == "rounding above our limit" and listed.loc["03_flash"].places == "seq_len 1024"
    )
    _, made = staged(part, field)
    assert made["frames"][3]["sentence"].endswith(". No time: 03_flash (rounding above our limit).")
    assert all("No time" not in made["frames"][n]["sentence"] for n in (0, 1, 2, 4))
    assert next(s for s in made["state"] if s["name"] == "03_flash")["values"][3] == "no time"


@pytest.mark.parametrize(
    ("status", "reason", "error", "said"),
    [
        ("wrong", "", 6e-7, "rounding above our limit"),
        ("wrong", "", 0.5, "a wrong result"),
        ("wrong", "It is built broken on purpose (no rescaling).", 0.5, "built broken on purpose"),
        ("unavailable", "torch says so", None, "cannot compute this"),
        ("unavailable", "flashinfer_nhd_xqa: MissingJITCacheError: JIT", None, "not compiled there"),
        ("unavailable", "flashinfer is not installed; pip install it", None, "not installed there"),
        ("unavailable", "FlashInfer's cascade is asked where all share a prefix.", None, "not asked"),
        ("skipped", "too long", None, "not run"),
    ],
)
def test_why_there_is_no_time(status, reason, error, said):
    row = pd.Series(
        {"status": status, "reason": reason, "max_abs_error": error, "allowed_error": 5e-7 if error else None}
    )
    assert wording.why(row) == said


def test_reasons_that_differ_in_numbers_alone_are_one(bench_table):
    table = bench_table[0]
    part = sweep_rows.slice_of(table, *next(iter(sweep_search.sweeps(table).values())))
    said = [f"torch says: Query.sizes(): [{n}]" for n in range(len(part))]
    missing = timing_tables.without_time(part.assign(status="unavailable", reason=said), "seq_len")
    assert len(missing) == part.label.nunique() and set(missing.reason) <= set(said)


def test_crossings_lie_where_the_lines_meet():
    rows = pd.DataFrame(
        [
            {"label": label, "kind": "kernel", "source": "recorded", "device": "a GPU", "seq_len": n}
            | {f"{name}_us": share * us for name, share in (("p10", 0.99), ("median", 1), ("p90", 1.01))}
            for label, times in (("a", (1, 4, 16)), ("b", (2, 4.5, 8)))
            for n, us in zip((128, 256, 512), times)
        ]
    )
    (found,) = trends.crossings(rows, "seq_len").to_dict("records")
    overlapping = rows.assign(p10_us=rows.p10_us.where(rows.seq_len < 512, 1.0))  # at 512 they are not told apart
    assert trends.crossings(overlapping, "seq_len").empty
    assert (found["faster"], found["slower"]) == ("b", "a") and 256 < found["seq_len"] < 512
    share = np.log2(found["seq_len"] / 256)
    assert 4 * 4**share == pytest.approx(found["median_us"]) == pytest.approx(4.5 * (8 / 4.5) ** share)
    assert time_sentences.crossing_sentences(trends.crossings(rows, "seq_len"), "seq_len")[0].startswith(
        "b overtakes a at about"
    )


def test_growth_is_the_factor_of_a_doubling(shown):
    _, field, _, compared = shown
    memory, time = (trends.growth(compared, field, column) for column in ("peak_bytes", "median_us"))
    assert memory["01_naive"] == pytest.approx(4, rel=0.05) and memory["03_flash"] == pytest.approx(2, rel=0.01)
    assert time["03_flash"] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(13, 213_000, [100, 1000, 10_000, 100_000]), (0.07, 2.1, [0.1, 0.2, 0.5, 1, 2]), (29, 670, [50, 100, 200, 500])],
)
def test_the_ticks_of_a_logarithmic_axis_are_decades_and_their_halves_where_those_are_few(low, high, ticks):
    assert line_ends.decades(low, high) == ticks


def test_names_at_the_lines_ends_keep_their_order_and_do_not_touch():
    bounds, values = (1.0, 1000.0), [1.1, 1.1, 1.2, 500, 990, 999]
    found = line_ends.spread_out(values, bounds)
    gaps = np.diff(np.log(found))
    assert (gaps > 0.99 * line_ends.LABEL_GAP * np.log(1000)).all() and found[-1] <= 1000


def test_the_keys_of_the_questions_are_the_tables_numbers(shown):
    _, field, part, _ = shown
    _, made = staged(part, field)
    timed = part[part.status == "ok"].set_index(["name", "seq_len"])
    times, peak = timed.median_us, timed.peak_bytes
    asked = {question["id"]: question for question in made["questions"]}
    assert [q["view"] for q in asked.values()] == ["speedup", "roofline", "latency", "memory"]
    names = [name for name in current().of_family("dense") if times[name, 16384] > times["sdpa_efficient", 16384]]
    nearest = min(names, key=lambda name: times[name, 16384])
    assert nearest in asked["slower"]["text"] and asked["slower"]["tolerance"] == stage.MEASURED
    assert asked["slower"]["answer"] == round(times[nearest, 16384] / times["sdpa_efficient", 16384], 1)
    fastest = timed.loc[min(current().of_family("dense"), key=lambda name: times[name, 16384]), 16384]
    flop = 4 * 8 * 16384**2 * 64  # 8 heads of 64
    roof = 747.2 / 6 if "/ 6" in fastest.roof else 747.2 if "fp16" in fastest.roof else 61.83
    reached = 100 * flop / fastest.median_us / 1e6 / min(roof, fastest.intensity * 4.2317)
    assert asked["of_roof"]["answer"] == pytest.approx(reached, rel=0.01)
    for id, values in (("growth", times), ("memory", peak)):
        question = asked[id]
        name = next(n for n in current().of_family("dense") if n in question["text"])
        doubled = (values[name, 16384] / values[name, 2048]) ** (1 / 3)
        assert question["options"][question["answer"]] == f"{2 ** round(math.log2(doubled))} times"
        assert f"{doubled:.1f}" in question["why"]


# ---- a sweep over a constant ----


@pytest.fixture(scope="module")
def constants(bench_table):
    """Two kernels over the sizes of their tiles and a padding: padded ones take a third of the time."""
    fields = [("BLOCK_Q", [8, 16]), ("BLOCK_KV", [8, 16, 32]), ("PAD_K", [0, 4])]
    made = []
    for point in sweeps.points(["02_tiled", "03_flash"], fields, [("seq_len", 4096)]):
        chosen = dict(point.settings)
        us = (300 if chosen["PAD_K"] == 0 else 100) * (2 if point.name == "02_tiled" else 1) * 16 / chosen["BLOCK_KV"]
        error = OutputError("o", 1e-7, 1e-7, 3e-7)
        made.append(Timing(point, "ok", "", 9, us, 0.9 * us, 1.1 * us, 10, 10**7, error, point.kernel.code_hash))
    where = bench_table[1]
    table = sweep_search.prepared(bench_rows.table(bench_rows.row(t, where.roofs) for t in made), where, "recorded")
    before = bench_table[0]
    again = before["name"].isin(table["name"]) & before.problem.isin(table.problem)  # the point with its own constants
    return pd.concat([before[~again], table], ignore_index=True)


def test_constants_add_their_own_sweeps_and_leave_the_others_as_they_are(bench_table, constants):
    before, after = sweep_search.sweeps(bench_table[0]), sweep_search.sweeps(constants)
    assert list(after)[: len(before)] == list(before)
    for field, fixed in before.values():
        assert set(sweep_rows.slice_of(constants, field, fixed).label) == set(
            sweep_rows.slice_of(bench_table[0], field, fixed).label
        )
    added = [sweep for key, sweep in after.items() if key not in before]
    assert {field for field, _ in added} == {"PAD_K", "BLOCK_Q", "BLOCK_KV"}
    titles = list(sweep_search.titles(constants, after).values())
    assert len(set(titles)) == len(titles)
    assert any(
        title.startswith("Attention: PAD_K 0 to 4 at seq_len 4096") and "BLOCK_Q 16, BLOCK_KV 16" in title
        for title in titles
    )


def test_the_price_of_a_conflict_is_told_beside_the_kernel_without_padding(constants):
    found = [
        s
        for s in sweep_search.sweeps(constants).values()
        if s[0] == "PAD_K" and (s[1]["BLOCK_Q"], s[1]["BLOCK_KV"]) == (16, 16)
    ]
    field, fixed = found[0]
    part = sweep_rows.slice_of(constants, field, fixed)
    assert sweep_rows.labels(part) == ["02_tiled", "03_flash"] and sweep_rows.sizes(part, field) == [0, 4]
    assert sweep_rows.baselines(part, field)[0] == sweep_rows.ITSELF
    _, made = staged(part, field, sweep_rows.ITSELF)
    assert made["frames"][0]["sentence"] == "PAD_K 0: 03_flash takes 300 us; 02_tiled 600 us."
    assert made["frames"][1]["sentence"] == (
        "PAD_K 4: 03_flash takes 100 us, 3.0 times as fast as itself at PAD_K 0; 02_tiled 200 us, 3.0 times as fast."
    )
    beside = sweep_rows.compared(part, field, "02_tiled")
    assert beside[beside["name"] == "03_flash"].speedup.tolist() == [2, 2]
    assert time_sentences.exponent_sentence(part, field) == ""


def test_over_a_size_of_the_tile_each_padding_is_a_line(constants):
    field, fixed = next(
        s for s in sweep_search.sweeps(constants).values() if s[0] == "BLOCK_KV" and s[1]["BLOCK_Q"] == 16
    )
    part = sweep_rows.slice_of(constants, field, fixed)
    assert sweep_rows.labels(part) == [f"{name} PAD_K={pad}" for name in ("02_tiled", "03_flash") for pad in (0, 4)]
    assert len(set(sweep_rows.colours(sweep_rows.labels(part)).values())) == 4
    assert sweep_rows.sizes(part, field) == [8, 16, 32]


def test_the_recorded_file_is_named_by_what_is_there(bench_table):
    said = timing_stage.provenance({"one": bench_table[1], "two": tables.Provenance("This GPU", "D", "now")}, ("two",))
    assert (
        said.label == "measured"
        and "Recorded on A GPU of a formula" in said.said
        and "Measured on This GPU" in said.said
    )


def test_what_has_no_sizes_is_told_by_what_is_its_own_problem_by_problem_the_fastest_first():
    ragged = RangesProblem((1, 17, 5000, 16384) * 2, 32, 8, 128)
    said = (
        "Decoding in ranges, paged KV cache: context_lens 8 of 1 to 16,384, num_heads 32, num_kv_heads 8, head_dim 128"
    )
    assert timing_tables.problem_said(ragged.title, bench_rows.problem_text(ragged)) == said
    alike = RangesProblem((4096,) * 4, 32, 8, 128, cache_dtype="float8_e4m3")
    assert "context_lens 4 x 4,096" in timing_tables.problem_said(alike.title, bench_rows.problem_text(alike))
    blocks = BlockSparseProblem(seq_len=8192, mask="random_blocks", density=0.5)
    told = timing_tables.problem_said(blocks.title, bench_rows.problem_text(blocks))
    assert "mask random_blocks" in told and "density 0.5" in told and "window" not in told
    with_defaults = TransposeProblem()
    assert (
        timing_tables.problem_said(with_defaults.title, bench_rows.problem_text(with_defaults)) == with_defaults.title
    )
    table, where = bench.recorded()["NVIDIA H200"]
    made = timing_tables.without_sizes(sweep_search.prepared(table, where, "recorded"))
    begins = made.problem[made.problem != ""]
    assert not begins.duplicated().any()
    first = int(made.index[made.problem.str.contains("of 1 to 16,384")][0])
    assert made.kernel[first : first + 2].tolist() == ["paged_v3", "FlashInfer tensor cores (HND)"]
