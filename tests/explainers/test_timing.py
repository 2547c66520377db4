"""Charts, sentences and the report of the recorded H200 set: every number is recomputed from the file."""

import re

import pandas as pd
import pytest

from explainers import timing
from kernels import bench, tables


@pytest.fixture(scope="module")
def recorded():
    made, where = tables.load(bench.path_of("NVIDIA H200"))
    return timing.prepared(made, where, "recorded"), where


@pytest.fixture(scope="module")
def shown(recorded):
    table, _ = recorded
    key, (field, fixed) = next(iter(timing.sweeps(table).items()))
    part = timing.slice_of(table, field, fixed)
    return key, field, part, bench.speedups(part, "sdpa_efficient")


def test_the_sweeps_of_the_recorded_set_are_found_with_the_longest_first(recorded):
    found = timing.sweeps(recorded[0])
    assert [field for field, _ in found.values()].count("seq_len") >= 3 and {"batch", "heads"} <= {field for field, _ in found.values()}
    field, fixed = next(iter(found.values()))
    assert timing.sweep_title(recorded[0], field, fixed) == "Attention: seq_len 128 to 16384 at batch 1, heads 8, head_dim 64, float32"
    titles = [timing.sweep_title(recorded[0], *sweep) for sweep in found.values()]
    assert len(set(titles)) == len(titles) and any(title.startswith("Decoding") for title in titles)
    assert any("heads 8 to 32 at" in title and "(width 512 to 2048)" in title for title in titles)


def test_a_slice_holds_one_problem_per_size_and_kernel(shown):
    _, field, part, _ = shown
    assert not part.duplicated([field, "label"]).any()
    assert timing.labels(part)[0] == "01_naive" and timing.labels(part)[-1] == "sdpa_efficient"
    assert len(set(timing.colours(timing.labels(part)).values())) == len(timing.labels(part))


def test_the_sentence_says_the_ratio_of_the_file(shown):
    _, field, part, compared = shown
    said = timing.sentence(compared, field, "sdpa_efficient")
    largest = part[(part.seq_len == 16384) & (part.status == "ok")].set_index("name")
    ours, base = largest.loc["04_flash_registers"], largest.loc["sdpa_efficient"]
    assert f"{base.median_us / ours.median_us:.3g} times ({base.p10_us / ours.p90_us:.3g} to {base.p90_us / ours.p10_us:.3g}) as fast" in said
    assert said.startswith(f"At seq_len 16384, 04_flash_registers takes {timing.microseconds(ours.median_us)} (")


def test_without_a_common_size_the_sentence_says_so(shown):
    _, field, _, compared = shown
    assert "no other kernel" in timing.sentence(compared[compared.kind == "peer"], field, "sdpa_efficient")


@pytest.mark.parametrize("kind", timing.CHARTS)
def test_every_chart_holds_the_slices_points_and_draws_their_spread(shown, recorded, kind):
    _, field, _, compared = shown
    spec = timing.chart(kind, compared, field, "sdpa_efficient", {"NVIDIA H200": recorded[1]["roofs"]}).to_dict()
    rows = max(spec["datasets"].values(), key=len)
    assert len(rows) == len(compared)
    drawn = {layer["mark"]["type"] for layer in spec["layer"]}
    assert "point" in drawn and ("rule" in drawn or kind == "memory")
    spread = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule" and "y2" in layer["encoding"]]
    assert bool(spread) == (kind != "memory")  # an allocation has no spread
    assert timing.ALT[kind] and timing.NOTES[kind]


def test_rates_have_the_spread_of_their_times(shown, recorded):
    _, field, _, compared = shown
    spec = timing.chart("tflops", compared, field, "sdpa_efficient", {}).to_dict()
    for row in max(spec["datasets"].values(), key=len):
        assert row["tflops_low"] <= row["tflops"] <= row["tflops_high"]
        assert row["tflops_low"] == pytest.approx(row["tflops"] * row["median_us"] / row["p90_us"])


def test_memory_grows_with_the_square_for_naive_and_with_the_length_for_flash(shown):
    _, _, part, _ = shown
    peak = part[part.status == "ok"].pivot_table(index="seq_len", columns="name", values="peak_bytes")
    assert peak["01_naive"][16384] / peak["01_naive"][4096] == pytest.approx(16, rel=0.1)
    assert peak["03_flash"][16384] / peak["03_flash"][4096] == pytest.approx(4, rel=0.01)
    assert peak["04_flash_registers"][16384] == 4 * 8 * 16384 * 64 * 4  # q, k, v and o


def test_what_has_no_time_is_listed_with_its_places_and_reason(shown):
    _, _, part, _ = shown
    listed = timing.without_time(part).set_index("name")
    assert listed.loc["sdpa_flash"].status == "unavailable" and "Half" in listed.loc["sdpa_flash"].reason
    assert sum(len(re.findall(r"\d+", places)) for places in listed.places) == (part.status != "ok").sum()


def test_the_table_and_the_report_repeat_the_file(shown, recorded):
    key, field, part, compared = shown
    table = timing.figures_table(compared, field)
    assert len(table) == len(compared) and "recorded, NVIDIA H200" in table["from"][0]
    text = timing.report(compared, part, field, "A title", "sdpa_efficient", [recorded[1]])
    assert text.startswith("# A title\n") and text.count("\n| ") == len(table) + 2
    assert "## No time" in text and "NVIDIA H200" in text and "Speed-ups are against sdpa_efficient" in text
    assert timing.microseconds(84.72) == "84.72 us" and timing.microseconds(13937.3) == "13.94 ms"


def test_measured_and_recorded_points_share_a_chart(shown, recorded):
    _, field, part, _ = shown
    now = part.assign(source="measured", device="this GPU", median_us=part.median_us * 2, p10_us=part.p10_us * 2, p90_us=part.p90_us * 2)
    both = bench.speedups(pd.concat([part, now], ignore_index=True), "sdpa_efficient")
    spec = timing.chart("latency", both, field, "sdpa_efficient", {}).to_dict()
    assert {row["source"] for row in max(spec["datasets"].values(), key=len)} == {"measured", "recorded"}
    assert any(layer["encoding"].get("shape", {}).get("legend") for layer in spec["layer"])
