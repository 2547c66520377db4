"""Charts, sentences and the report of a table of times: every number is recomputed from the table."""

import re

import pandas as pd
import pytest

from explainers import palette, timing, timing_charts
from kernels.catalog import KERNELS, of_family
from kernels.timing import bench, compare, peers


@pytest.fixture(scope="module")
def shown(bench_table):
    table, _ = bench_table
    key, (field, fixed) = next(iter(timing.sweeps(table).items()))
    part = timing.slice_of(table, field, fixed)
    return key, field, part, compare.speedups(part, "sdpa_efficient")


def test_the_sweeps_of_a_table_are_found_with_the_longest_first(bench_table):
    found = timing.sweeps(bench_table[0])
    assert [field for field, _ in found.values()].count("seq_len") >= 3 and {"batch", "num_heads"} <= {
        field for field, _ in found.values()
    }
    field, fixed = next(iter(found.values()))
    assert (
        timing.sweep_title(bench_table[0], field, fixed)
        == "Attention: seq_len 128 to 16384 at batch 1, num_heads 8, head_dim 64, float32"
    )
    titles = [timing.sweep_title(bench_table[0], *sweep) for sweep in found.values()]
    assert len(set(titles)) == len(titles) and {title.split(":")[0] for title in titles} == {
        KERNELS[name].problem_type.title for name in ("03_flash", "paged_v1")
    }
    assert any("num_heads 8 to 32 at" in title and "(width 512 to 2048)" in title for title in titles)


def test_a_slice_holds_one_problem_per_size_and_kernel(shown):
    _, field, part, _ = shown
    assert not part.duplicated([field, "label"]).any()
    assert timing.labels(part) == [*of_family("dense"), "sdpa_math", "sdpa_efficient", "sdpa_cudnn"]
    assert len(set(timing.colours(timing.labels(part)).values())) == len(timing.labels(part))


def test_the_sentence_says_the_ratio_of_the_table(shown):
    _, field, part, compared = shown
    said = timing.sentence(compared, field, "sdpa_efficient")
    largest = part[(part.seq_len == 16384) & (part.status == "ok")].set_index("name")
    ours, base = largest.loc["04_flash_registers"], largest.loc["sdpa_efficient"]
    assert (
        f"{base.median_us / ours.median_us:.3g} times ({base.p10_us / ours.p90_us:.3g} to "
        f"{base.p90_us / ours.p10_us:.3g}) as fast" in said
    )
    assert said.startswith(f"At seq_len 16384, 04_flash_registers takes {timing.microseconds(ours.median_us)} (")


def test_without_a_common_size_the_sentence_says_so(shown):
    _, field, _, compared = shown
    assert "no other kernel" in timing.sentence(compared[compared.kind == "peer"], field, "sdpa_efficient")


@pytest.mark.parametrize("kind", timing_charts.CHARTS)
def test_every_chart_holds_the_slices_points_and_draws_their_spread(shown, bench_table, kind):
    _, field, _, compared = shown
    spec = timing_charts.chart(
        kind, compared, field, "sdpa_efficient", {bench_table[1].device: bench_table[1].roofs}
    ).to_dict()
    rows = max(spec["datasets"].values(), key=len)
    assert len(rows) == len(compared)
    drawn = {layer["mark"]["type"] for layer in spec["layer"]}
    assert "point" in drawn and ("rule" in drawn or kind == "memory")
    spread = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule" and "y2" in layer["encoding"]]
    assert bool(spread) == (kind != "memory")  # an allocation has no spread
    assert timing_charts.ALT[kind] and timing_charts.NOTES[kind]


def test_rates_have_the_spread_of_their_times(shown):
    _, field, _, compared = shown
    spec = timing_charts.chart("tflops", compared, field, "sdpa_efficient", {}).to_dict()
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


def test_the_table_and_the_report_repeat_the_table(shown, bench_table):
    key, field, part, compared = shown
    table = timing.figures_table(compared, field)
    assert len(table) == len(compared) and "recorded, A GPU of a formula" in table["from"][0]
    text = timing.report(compared, part, field, "A title", "sdpa_efficient", [bench_table[1]])
    assert text.startswith("# A title\n") and text.count("\n| ") == len(table) + 2
    assert "## No time" in text and "A GPU of a formula" in text and "Speed-ups are against sdpa_efficient" in text
    assert timing.microseconds(84.72) == "84.72 us" and timing.microseconds(13937.3) == "13.94 ms"


def test_measured_and_recorded_points_share_a_chart(shown):
    _, field, part, _ = shown
    now = part.assign(
        source="measured",
        device="this GPU",
        median_us=part.median_us * 2,
        p10_us=part.p10_us * 2,
        p90_us=part.p90_us * 2,
    )
    both = compare.speedups(pd.concat([part, now], ignore_index=True), "sdpa_efficient")
    spec = timing_charts.chart("latency", both, field, "sdpa_efficient", {}).to_dict()
    assert {row["source"] for row in max(spec["datasets"].values(), key=len)} == {"measured", "recorded"}
    assert any(layer["encoding"].get("shape", {}).get("legend") for layer in spec["layer"])


def test_a_sweep_is_titled_by_its_problem_and_not_by_its_type(bench_table):
    """Fault 4: a dense fp16 sweep was titled "Decoding, paged KV cache"."""
    table = bench_table[0]
    dense = table[table["name"].isin(of_family("dense"))].assign(dtype="float16")
    titles = [timing.sweep_title(dense, *sweep) for sweep in timing.sweeps(dense).values()]
    assert titles and all(title.startswith("Attention: ") and title.endswith(", float16") for title in titles)
    both = pd.concat([dense, table.assign(dtype="float16", num_kv_heads=table.num_heads)])
    for field, fixed in timing.sweeps(both).values():
        assert timing.slice_of(both, field, fixed).title.nunique() == 1


def test_a_link_of_a_former_version_finds_its_sweep(bench_table):
    found = timing.sweeps(bench_table[0])
    key = next(iter(found))
    assert timing.find_sweep(found, key) == key and timing.find_sweep(found, "seq_len batch=77") is None
    assert timing.find_sweep(found, "seq_len batch=1 heads=8 kv_heads=8 head_dim=64 causal=False dtype=float32") == key


def test_colours_follow_from_the_catalogues_order_and_the_peers():
    dense = list(of_family("dense"))
    found = timing.colours([*dense, *peers.PEERS])
    assert list(found.values()) == [*palette.KERNELS[: len(dense)], *palette.PEERS]
    for family in ("dense", "paged"):
        names = [*of_family(family), *peers.PEERS]
        assert len(set(timing.colours(names).values())) == len(names) <= len(palette.OKABE_ITO)
    several = timing.colours(["03_flash BLOCK_Q=16", "03_flash BLOCK_Q=32", "mine.cu"])
    assert len(set(several.values())) == 3


def test_whatever_is_recorded_can_be_shown():
    for device, (made, where) in bench.recorded().items():
        table = timing.prepared(made, where, "recorded")
        found = timing.sweeps(table)
        assert len({timing.sweep_title(table, *sweep) for sweep in found.values()}) == len(found)
        for field, fixed in found.values():
            part = timing.slice_of(table, field, fixed)
            assert not part.duplicated([field, "label"]).any()
            compared = compare.speedups(part, timing.labels(part)[0])
            assert timing_charts.chart(
                "roofline", compared, field, timing.labels(part)[0], {device: where.roofs}
            ).to_dict()["layer"]
