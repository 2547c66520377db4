"""The stage of times: its sentences, tables, questions and report."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from explainers.models.recorded_times import FLOOR
from explainers.stories.timing import charts, story, sweeps
from explainers.stories.timing import shown as tables_of
from explainers.stories.timing.shown import Shown
from explainers.story import encoding, glossary
from kernels.catalog import current
from kernels.families.dense.problem import DenseProblem
from kernels.families.lab.tiles import TransposeProblem
from kernels.families.paged.ranges import RangesProblem
from kernels.families.sparse.problem import BlockSparseProblem
from kernels.measure import bench, bench_rows


def stage_of(shown):
    return encoding.decode(encoding.encode(story.stage_of(shown)))


def test_over_a_paged_cache_torch_cudnn_is_labelled_as_a_floor(bench_table, shown):
    """It reads contiguous K and V, and nothing on the page said so."""
    sweep = next(sweep for sweep in sweeps.of(bench_table[0]).values() if sweep.paged)
    part = sweep.part
    part = pd.concat([part, part[part["name"] == "sdpa_math"].assign(name=FLOOR, label=FLOOR)])
    part = part.drop_duplicates([sweep.field, "label"], keep="first").reset_index(drop=True)
    one = Shown(replace(sweep, part=part), FLOOR, (), {})
    assert {"torch cudnn (floor)", "torch math"} <= {*tables_of.figures_table(one).kernel}
    made = stage_of(one)
    assert "as torch cudnn (floor)" in made["frames"][0]["sentence"]
    assert "torch cudnn (floor)" in [state["name"] for state in made["state"]]
    meta = made["views"][0]["meta"]
    assert "torch cudnn (floor)" in [name for _, name in meta["legend"]]
    assert meta["note"].endswith(sweeps.WORDS.say("floor", {}))
    ours = one.rows[one.rows.kind == "kernel"].groupby(one.field).median_us.min()
    floor = one.rows[one.rows.label == FLOOR].set_index(one.field).median_us
    faster = f"faster than our fastest kernel at {(floor < ours).sum()} of {len(floor)} sizes"
    assert any(faster in said for said in tables_of.sentences(one))
    assert "torch cudnn" in {*tables_of.figures_table(shown).kernel}  # it is no floor of a dense problem
    assert not any("floor" in said for said in tables_of.sentences(shown))


def test_sustained_times_are_shown_with_clock_and_power(shown):
    assert stage_of(shown)["headline"].startswith("Rested times. ")
    assert "Times are rested." in [block.get("text") for block in story.figures(shown)]
    part = shown.sweep.part
    hot = {
        f"sustained_{end}": 1.25 * part[f"{name}_us"]
        for name, end in (("median", "us"), ("p10", "p10_us"), ("p90", "p90_us"))
    }
    part = sweeps.at_work(part.assign(**hot, sustained_clock=1500.0, sustained_power=690.0))
    made = stage_of(replace(shown, sweep=replace(shown.sweep, part=part)))
    said = "Times are sustained: 08b_three_bfloat16 at 1,500 MHz and 690 W, torch efficient at 1,500 MHz and 690 W."
    assert all(frame["sentence"].endswith(said) for frame in made["frames"])
    assert made["headline"].startswith("Sustained times. ")


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_is_recorded_can_be_shown(every):
    """The charts of each sixth sweep, and of all when there is time. A missing FlashAttention has its reason."""
    for made, where in bench.recorded().values():
        found = sweeps.of(sweeps.prepared(made, where, "recorded"))
        assert len({sweep.title for sweep in found.values()}) == len(found)
        for number, sweep in enumerate(found.values()):
            assert not sweep.part.duplicated([sweep.field, "label"]).any()
            one = Shown(sweep, sweep.baselines[0], (), {where.device: where})
            dense = sweep.fixed["dtype"] != "float32" and not sweep.paged
            said = [block.get("text", "") for block in story.missing(one, [])]
            due = sweeps.not_timed(sweep.part["name"]) if dense else []
            assert [text for text in said if "has no row here" in text] == due
            for kind in ("latency", "roofline") if number % every == 0 else ():
                assert charts.chart(one, kind).to_dict()["layer"]
    assert "88 MB" in sweeps.not_timed([])[0] and sweeps.not_timed(sweeps.WORDS.table("not_timed")) == []


def test_the_sentence_says_the_ratio_of_the_table(shown):
    said = tables_of.largest_sentence(shown)
    largest = shown.sweep.timed[shown.sweep.timed.seq_len == 16384].set_index("name")
    ours, base = largest.loc["08b_three_bfloat16"], largest.loc["sdpa_efficient"]
    low, high = base.p10_us / ours.p90_us, base.p90_us / ours.p10_us
    ratio = f"{base.median_us / ours.median_us:.3g} times ({low:.3g} to {high:.3g}) as fast as torch efficient"
    assert said.startswith(f"At seq_len 16384, 08b_three_bfloat16 takes {glossary.microseconds(ours.median_us)} (")
    assert ratio in said
    only = {name for name in shown.sweep.labels if name not in ("01_naive", "sdpa_efficient")}
    slow = replace(shown, hidden=tuple(only))
    ratio = 1 / slow.rows[(slow.rows["name"] == "01_naive") & (slow.rows.seq_len == 16384)].speedup.iloc[0]
    said = tables_of.largest_sentence(slow)
    assert f": {ratio:.3g} times (" in said and "as long as torch efficient" in said
    peers = replace(shown, hidden=tuple(current().of_problem(DenseProblem)))
    assert "no other kernel" in tables_of.largest_sentence(peers)


def test_what_has_no_time_is_listed_with_its_places_and_reason(shown):
    part = shown.sweep.part
    listed = tables_of.without_time(part, shown.field).set_index("name")
    flash = listed.loc["FlashAttention-2 (torch flash)"]
    assert flash.status == "cannot compute this" and "Half" in flash.reason
    assert sum(len(re.findall(r"\d+", places)) for places in listed.places) == (part.status != "ok").sum()
    said = [f"torch says: Query.sizes(): [{n}]" for n in range(len(part))]  # they differ in numbers only
    missing = tables_of.without_time(part.assign(status="unavailable", reason=said), "seq_len")
    assert len(missing) == part.label.nunique() and {*missing.reason} <= {*said}


def test_the_table_and_the_report_repeat_the_table(shown):
    table = tables_of.figures_table(shown)
    assert len(table) == len(shown.rows) and "recorded, A GPU of a formula" in table["from"].iloc[0]
    text = story.report(shown)
    assert text.startswith(f"# {shown.sweep.title}\n") and text.count("\n| ") == len(table) + 2
    assert "## No time" in text and "A GPU of a formula" in text and "Compared with torch efficient." in text


def test_the_clock_goes_over_the_sizes_and_each_sentence_has_that_sizes_times(shown):
    made, sizes = stage_of(shown), shown.sweep.sizes
    assert [f["title"] for f in made["frames"]] == [f"{2**n:,} tokens" for n in range(7, 15)]
    times = shown.sweep.timed.set_index(["name", "seq_len"])
    for frame, size in zip(made["frames"], sizes):
        base, fast = times.loc["sdpa_efficient", size], times.loc["08b_three_bfloat16", size]
        said = frame["sentence"]
        begins = f"{size:,.0f} tokens: 08b_three_bfloat16 takes {glossary.microseconds(fast.median_us)}, "
        assert said.startswith(begins) and said.count(" takes ") == story.SAID
        assert f"torch efficient ({glossary.microseconds(base.median_us)})" in said
    assert [v["id"] for v in made["views"]] == list(story.CHARTS) and not made["codes"]
    assert all(len(state["values"]) == len(made["frames"]) for state in made["state"])
    fast = times.loc["08b_three_bfloat16", 16384]
    strip = next(s["values"][-1] for s in made["state"] if s["name"] == "08b_three_bfloat16")
    known = (f"{glossary.microseconds(fast.median_us)}", f"{fast.tflops:.3g} TFLOP/s", f"{fast.gb_per_s:,.3g} GB/s")
    assert strip == ", ".join([*known, f"{fast.peak_bytes / 1e6:,.3g} MB"])  # what each picture draws
    meta = made["views"][0]["meta"]
    steps = [(row["step"], row["seq_len"]) for row in meta["spec"]["datasets"]["steps"]]
    assert steps == list(enumerate(sizes, 1)) and meta["at"] == sizes


def test_a_size_without_a_time_is_a_gap_and_its_reason_is_in_words(bench_table):
    """03_flash has no time at one size: its rounding is above the limit."""
    table = bench_table[0].copy()
    at = (table["name"] == "03_flash") & (table.seq_len == 1024)
    table.loc[at, ["status", "reason", "max_abs_error"]] = ["wrong", "So small an error is rounding, 1.3 times", 6e-7]
    table.loc[at, ["median_us", "p10_us", "p90_us", "tflops", "gb_per_s", "peak_bytes"]] = None
    one = Shown(next(iter(sweeps.of(table).values())), "sdpa_efficient", (), {})
    data = charts.chart(one, "latency").to_dict()["datasets"]
    line = [row for row in data["points"] if row["line"] == "03_flash"]
    assert [row["seq_len"] for row in line if row["median_us"] is None] == [1024]
    (gap,) = data["gaps"]
    assert (gap["line"], gap["seq_len"], gap["why"]) == ("03_flash", 1024, "rounding above our limit")
    listed = tables_of.without_time(one.sweep.part, one.field).set_index("name").loc["03_flash"]
    assert (listed.status, listed.places) == ("rounding above our limit", "seq_len 1024")
    made = stage_of(one)
    assert made["frames"][3]["sentence"].endswith(". No time: 03_flash (rounding above our limit).")
    assert all("No time" not in made["frames"][n]["sentence"] for n in (0, 1, 2, 4))
    assert next(s for s in made["state"] if s["name"] == "03_flash")["values"][3] == "no time"


def test_the_price_of_a_conflict_is_told_beside_the_kernel_without_padding(constants):
    wanted = {"BLOCK_Q": 16, "BLOCK_KV": 16}.items()
    sweep = next(s for s in sweeps.of(constants).values() if s.field == "PAD_K" and wanted <= s.fixed.items())
    assert sweep.labels == ["02_tiled", "03_flash"] and sweep.sizes == [0, 4] and sweep.baselines[0] == sweeps.ITSELF
    one = Shown(sweep, sweeps.ITSELF, (), {})
    assert [frame["sentence"] for frame in stage_of(one)["frames"]] == [
        "PAD_K 0: 03_flash takes 300 µs. 02_tiled takes 600 µs.",
        "PAD_K 4: 03_flash takes 100 µs, 3.0 times as fast as itself at PAD_K 0. "
        "02_tiled takes 200 µs, 3.0 times as fast as itself at PAD_K 0.",
    ]
    beside = sweep.compared("02_tiled")
    assert beside[beside["name"] == "03_flash"].speedup.tolist() == [2, 2]
    assert not any("Time grows" in said for said in tables_of.sentences(one))


def test_what_has_no_sizes_is_told_by_what_is_its_own_problem_by_problem_the_fastest_first():
    ragged = RangesProblem((1, 17, 5000, 16384) * 2, 32, 8, 128)
    alike = RangesProblem((4096,) * 4, 32, 8, 128, cache_dtype="float8_e4m3")
    blocks, plain = BlockSparseProblem(seq_len=8192, mask="random_blocks", density=0.5), TransposeProblem()
    said = [tables_of.problem_said(p.title, bench_rows.problem_text(p)) for p in (ragged, alike, blocks, plain)]
    sizes = "context_lens 8 of 1 to 16,384, num_heads 32, num_kv_heads 8, head_dim 128"
    assert said[0] == f"Decoding in ranges, paged KV cache: {sizes}" and "context_lens 4 x 4,096" in said[1]
    assert "mask random_blocks" in said[2] and "density 0.5" in said[2] and "window" not in said[2]
    assert said[3] == plain.title
    table, where = bench.recorded()["NVIDIA H200"]
    made = tables_of.without_sizes(sweeps.prepared(table, where, "recorded"))
    assert not made.problem[made.problem != ""].duplicated().any()
    first = int(made.index[made.problem.str.contains("of 1 to 16,384")][0])
    assert made.kernel[first : first + 2].tolist() == ["paged_v3", "FlashInfer tensor cores (HND)"]
