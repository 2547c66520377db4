"""The stage of times: its sentences, tables, questions and report."""

import math
import re

import pandas as pd
import pytest

from explainers.models import recorded_times
from explainers.stories.timing import size_charts, story, sweep_rows, timing_tables, wording
from explainers.story import encoding, glossary
from kernels.catalog import current
from kernels.families.dense.problem import DenseProblem
from kernels.families.lab.tiles import TransposeProblem
from kernels.families.paged.ranges import RangesProblem
from kernels.families.sparse.problem import BlockSparseProblem
from kernels.measure import bench, bench_rows
from kernels.recordings import tables


def test_over_a_paged_cache_torch_cudnn_is_labelled_as_a_floor(bench_table):
    """It reads contiguous K and V, and nothing on the page said so."""
    table = bench_table[0]
    found = [sweep for sweep in sweep_rows.sweeps(table).values() if recorded_times.is_paged(sweep[1]["title"])]
    field, fixed = found[0]
    part = sweep_rows.slice_of(table, field, fixed)
    part = pd.concat(
        [part, part[part["name"] == "sdpa_math"].assign(name=recorded_times.FLOOR, label=recorded_times.FLOOR)]
    )
    part = part.drop_duplicates([field, "label"], keep="first").reset_index(drop=True)
    rows = sweep_rows.compared(part, field, sweep_rows.baselines(part, field)[0])
    named = set(timing_tables.figures_table(rows, field).kernel)
    assert "torch cudnn (floor)" in named and "torch math" in named
    _, made = staged(part, field, baseline=recorded_times.FLOOR)
    assert "as torch cudnn (floor)" in made["frames"][0]["sentence"]
    assert "torch cudnn (floor)" in [state["name"] for state in made["state"]]
    meta = made["views"][0]["meta"]
    assert "torch cudnn (floor)" in [name for _, name in meta["legend"]]
    assert meta["note"].endswith(wording.WORDS.say("floor", {}))
    ours = rows[rows.kind == "kernel"].groupby(field).median_us.min()
    floor = rows[rows.label == recorded_times.FLOOR].set_index(field).median_us
    said = timing_tables.floor_sentence(rows, field)
    assert f"faster than our fastest kernel at {(floor < ours).sum()} of {len(floor)} sizes" in said


def _shown_of(part, field):
    return story.Shown(part, field, "A title", "sdpa_efficient", (), {}, ())


def test_sustained_times_are_shown_with_clock_and_power_if_all_have_them(bench_table):
    table = bench_table[0]
    field, fixed = next(iter(sweep_rows.sweeps(table).values()))
    rested = sweep_rows.slice_of(table, field, fixed)
    assert set(rested.state) == {"rested"}
    _, made = staged(rested, field)
    assert made["headline"].startswith("Rested times. ")
    assert "Times are rested." in [block.get("text") for block in story.figures(_shown_of(rested, field))]
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
        table = sweep_rows.prepared(made, where, "recorded")
        for field, fixed in sweep_rows.sweeps(table).values():
            part = sweep_rows.slice_of(table, field, fixed)
            shown = story.Shown(part, field, "", sweep_rows.baselines(part, field)[0], (), {}, ())
            said = [block.get("text", "") for block in story.missing(shown, [])]
            dense = fixed["dtype"] != "float32" and not recorded_times.is_paged(fixed["title"])
            due = wording.not_timed(part["name"]) if dense else []
            assert [text for text in said if "has no row here" in text] == due
    assert "88 MB" in wording.not_timed([])[0] and wording.not_timed(wording.WORDS.table("not_timed")) == []


def test_the_sentence_says_the_ratio_of_the_table(shown):
    _, field, part, compared = shown
    said = timing_tables.sentence(compared, field, "sdpa_efficient")
    largest = part[(part.seq_len == 16384) & (part.status == "ok")].set_index("name")
    ours, base = largest.loc["08b_three_bfloat16"], largest.loc["sdpa_efficient"]
    assert (
        f"{base.median_us / ours.median_us:.3g} times ({base.p10_us / ours.p90_us:.3g} to "
        f"{base.p90_us / ours.p10_us:.3g}) as fast as torch efficient" in said
    )
    assert said.startswith(f"At seq_len 16384, 08b_three_bfloat16 takes {glossary.microseconds(ours.median_us)} (")


def test_without_a_common_size_the_sentence_says_so(shown):
    _, field, _, compared = shown
    assert "no other kernel" in timing_tables.sentence(compared[compared.kind == "peer"], field, "sdpa_efficient")


def test_what_has_no_time_is_listed_with_its_places_and_reason(shown):
    _, _, part, _ = shown
    listed = timing_tables.without_time(part).set_index("name")
    assert (
        listed.loc["FlashAttention-2 (torch flash)"].status == "cannot compute this"
        and "Half" in listed.loc["FlashAttention-2 (torch flash)"].reason
    )
    assert sum(len(re.findall(r"\d+", places)) for places in listed.places) == (part.status != "ok").sum()


def test_the_table_and_the_report_repeat_the_table(shown, bench_table):
    key, field, part, compared = shown
    table = timing_tables.figures_table(compared, field)
    assert len(table) == len(compared) and "recorded, A GPU of a formula" in table["from"][0]
    text = timing_tables.report(compared, part, field, "A title", "sdpa_efficient", [bench_table[1]])
    assert text.startswith("# A title\n") and text.count("\n| ") == len(table) + 2
    assert "## No time" in text and "A GPU of a formula" in text and "Compared with torch efficient." in text
    assert glossary.microseconds(84.72) == "84.72 us" and glossary.microseconds(13937.3) == "13.94 ms"


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_is_recorded_can_be_shown(every):
    """The charts of each sixth sweep, and of all when there is time."""
    for device, (made, where) in bench.recorded().items():
        table = sweep_rows.prepared(made, where, "recorded")
        found = sweep_rows.sweeps(table)
        assert len(set(sweep_rows.titles(table, found).values())) == len(found)
        for field, fixed in list(found.values())[::every]:
            part = sweep_rows.slice_of(table, field, fixed)
            assert not part.duplicated([field, "label"]).any()
            baseline = sweep_rows.baselines(part, field)[0]
            compared = sweep_rows.compared(part, field, baseline)
            for kind in ("latency", "roofline"):
                chart = size_charts.chart(kind, compared, field, baseline, {device: where.roofs}, part)
                assert chart.to_dict()["layer"]


def staged(part, field, baseline="sdpa_efficient", hidden=(), where=None):
    title = "A title"
    shown = story.Shown(part, field, title, baseline, hidden, {"here": where} if where else {}, ())
    return shown, encoding.decode(encoding.encode(story.stage_of(shown, False, [])))


def test_the_clock_goes_over_the_sizes_and_each_sentence_has_that_sizes_times(shown, bench_table):
    _, field, part, _ = shown
    _, made = staged(part, field, where=bench_table[1])
    assert [f["title"] for f in made["frames"]] == [f"{2**n:,} tokens" for n in range(7, 15)]
    times = part[part.status == "ok"].set_index(["name", "seq_len"])
    for frame, size in zip(made["frames"], recorded_times.sizes(part, field)):
        base = times.loc["sdpa_efficient", size]
        fast = times.loc["08b_three_bfloat16", size]
        said = frame["sentence"]
        assert said.startswith(
            f"{size:,.0f} tokens: 08b_three_bfloat16 takes {glossary.microseconds(fast.median_us)}, "
        )
        assert f"torch efficient ({glossary.microseconds(base.median_us)})" in said
        assert said.count(" takes ") == story.SAID
    assert [v["id"] for v in made["views"]] == list(story.CHARTS) and not made["codes"]
    for state in made["state"]:
        assert len(state["values"]) == len(made["frames"])
    fast = times.loc["08b_three_bfloat16", 16384]
    strip = next(s["values"][-1] for s in made["state"] if s["name"] == "08b_three_bfloat16")
    known = (f"{glossary.microseconds(fast.median_us)}", f"{fast.tflops:.3g} TFLOP/s", f"{fast.gb_per_s:,.3g} GB/s")
    assert strip == ", ".join([*known, f"{fast.peak_bytes / 1e6:,.3g} MB"])  # what each picture draws
    steps = made["views"][0]["meta"]["spec"]["datasets"]["steps"]
    assert [(row["step"], row["seq_len"]) for row in steps] == list(enumerate(recorded_times.sizes(part, field), 1))
    assert made["views"][0]["meta"]["at"] == recorded_times.sizes(part, field)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (0.32, 0.3, 0.33, "3.1 times as long"),
        (2.0, 1.9, 2.1, "2.0 times as fast"),
        (1.02, 0.97, 1.05, "1.02 times as fast, within the spread"),
        (1.04, 1.01, 1.06, "1.04 times as fast"),
        (0.0935, 0.09, 0.094, "10.7 times as long"),
    ],
)
def test_a_slower_kernel_takes_times_as_long(ratio, low, high, said):
    assert wording.as_fast(ratio, low, high) == said


def test_a_kernel_slower_than_every_other_takes_times_as_long_in_the_sentence_too(shown):
    _, field, part, _ = shown
    rows = sweep_rows.compared(part[part["name"].isin(["01_naive", "sdpa_efficient"])], field, "sdpa_efficient")
    said = timing_tables.sentence(rows, field, "sdpa_efficient")
    ratio = 1 / rows[(rows["name"] == "01_naive") & (rows.seq_len == 16384)].speedup.iloc[0]
    assert f": {ratio:.3g} times (" in said and "as long as torch efficient" in said


@pytest.fixture(scope="module")
def with_gap(bench_table):
    """The first sweep, where 03_flash has no time at one size: its rounding is above the limit."""
    table = bench_table[0].copy()
    at = (table["name"] == "03_flash") & (table.seq_len == 1024)
    table.loc[at, ["status", "reason", "max_abs_error"]] = ["wrong", "So small an error is rounding, 1.3 times", 6e-7]
    table.loc[at, ["median_us", "p10_us", "p90_us", "tflops", "gb_per_s", "peak_bytes"]] = None
    field, fixed = next(iter(sweep_rows.sweeps(table).values()))
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
    part = sweep_rows.slice_of(table, *next(iter(sweep_rows.sweeps(table).values())))
    said = [f"torch says: Query.sizes(): [{n}]" for n in range(len(part))]
    missing = timing_tables.without_time(part.assign(status="unavailable", reason=said), "seq_len")
    assert len(missing) == part.label.nunique() and set(missing.reason) <= set(said)


def test_the_keys_of_the_questions_are_the_tables_numbers(shown):
    _, field, part, _ = shown
    _, made = staged(part, field)
    timed = part[part.status == "ok"].set_index(["name", "seq_len"])
    times, peak = timed.median_us, timed.peak_bytes
    asked = {question["id"]: question for question in made["questions"]}
    assert [q["view"] for q in asked.values()] == ["speedup", "roofline", "latency", "memory"]
    best = min(current().of_problem(DenseProblem), key=lambda name: times[name, 16384])
    speed = times["sdpa_efficient", 16384] / times[best, 16384]
    assert 2**0.5 < speed < 4 and asked["rival"]["options"][asked["rival"]["answer"]] == "It takes about half as long"
    assert best in asked["rival"]["why"] and f"{speed:.1f} times as fast" in asked["rival"]["why"]
    fastest = timed.loc[min(current().of_problem(DenseProblem), key=lambda name: times[name, 16384]), 16384]
    flop = 4 * 8 * 16384**2 * 64  # 8 heads of 64
    roof = 747.2 / 6 if "/ 6" in fastest.roof else 747.2 if "fp16" in fastest.roof else 61.83
    reached = 100 * flop / fastest.median_us / 1e6 / min(roof, fastest.intensity * 4.2317)
    chosen = asked["of_roof"]["options"][asked["of_roof"]["answer"]]
    assert abs(int(chosen.split()[1].rstrip("%")) - reached) <= 10 and f"{reached:.2g}%" in asked["of_roof"]["why"]
    for id, values in (("growth", times), ("memory", peak)):
        question = asked[id]
        name = next(n for n in current().of_problem(DenseProblem) if n in question["text"])
        doubled = (values[name, 16384] / values[name, 2048]) ** (1 / 3)
        words = {1: "As before", 2: "Twice as much", 4: "Four times as much", 8: "Eight times as much"}
        assert question["options"][question["answer"]] == words[2 ** round(math.log2(doubled))]
        assert f"{doubled:.3g} times" in question["why"]


def test_the_price_of_a_conflict_is_told_beside_the_kernel_without_padding(constants):
    found = [
        s
        for s in sweep_rows.sweeps(constants).values()
        if s[0] == "PAD_K" and (s[1]["BLOCK_Q"], s[1]["BLOCK_KV"]) == (16, 16)
    ]
    field, fixed = found[0]
    part = sweep_rows.slice_of(constants, field, fixed)
    assert sweep_rows.labels(part) == ["02_tiled", "03_flash"] and recorded_times.sizes(part, field) == [0, 4]
    assert sweep_rows.baselines(part, field)[0] == sweep_rows.ITSELF
    _, made = staged(part, field, sweep_rows.ITSELF)
    assert made["frames"][0]["sentence"] == "PAD_K 0: 03_flash takes 300 us. 02_tiled takes 600 us."
    assert made["frames"][1]["sentence"] == (
        "PAD_K 4: 03_flash takes 100 us, 3.0 times as fast as itself at PAD_K 0. "
        "02_tiled takes 200 us, 3.0 times as fast as itself at PAD_K 0."
    )
    beside = sweep_rows.compared(part, field, "02_tiled")
    assert beside[beside["name"] == "03_flash"].speedup.tolist() == [2, 2]
    assert timing_tables.exponent_sentence(part, field) == ""


def test_the_recorded_file_is_named_by_what_is_there(bench_table):
    said = story.provenance({"one": bench_table[1], "two": tables.Provenance("This GPU", "D", "now")}, ("two",))
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
    made = timing_tables.without_sizes(sweep_rows.prepared(table, where, "recorded"))
    begins = made.problem[made.problem != ""]
    assert not begins.duplicated().any()
    first = int(made.index[made.problem.str.contains("of 1 to 16,384")][0])
    assert made.kernel[first : first + 2].tolist() == ["paged_v3", "FlashInfer tensor cores (HND)"]
