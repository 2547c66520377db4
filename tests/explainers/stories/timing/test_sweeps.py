"""The sweeps of a table of times: their keys, rows, labels, titles and baselines."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from explainers.charts import palette
from explainers.models import recorded_times
from explainers.stories.timing import sweeps
from kernels.catalog import KERNELS, current
from kernels.families.dense.problem import DenseProblem
from kernels.measure import bench, peers


def test_the_sweeps_of_a_table_are_found_with_the_longest_first(bench_table):
    found = list(sweeps.of(bench_table[0]).values())
    fields, titles = [sweep.field for sweep in found], [sweep.title for sweep in found]
    assert fields.count("seq_len") >= 3 and {"batch", "num_heads"} <= {*fields}
    lengths = [len(sweep.sizes) for sweep in found]
    assert lengths == sorted(lengths, reverse=True)
    assert titles[0] == "Attention: seq_len 128 to 16384 at batch 1, num_heads 8, head_dim 64, float32, cold L2"
    assert len(set(titles)) == len(titles) and {title.split(":")[0] for title in titles} == {
        KERNELS[name].problem_type.title for name in ("03_flash", "paged_v1")
    }
    assert any("num_heads 8 to 32 at" in title and "(width 512 to 2048)" in title for title in titles)
    dense = bench_table[0][bench_table[0]["name"].isin(current().of_problem(DenseProblem))].assign(dtype="float16")
    titles = [sweep.title for sweep in sweeps.of(dense).values()]  # the kind of problem gives the title, not the type
    assert titles and all(title.startswith("Attention: ") and title.endswith(", float16, cold L2") for title in titles)


def test_a_sweep_has_one_problem_for_each_size_and_line_and_a_colour_for_each_line(shown):
    sweep = shown.sweep
    assert not sweep.part.duplicated([sweep.field, "label"]).any() and sweep.part.title.nunique() == 1
    assert sweep.labels == [*current().of_problem(DenseProblem), "sdpa_math", "sdpa_efficient", "sdpa_cudnn"]
    assert len({*sweep.colours.values()}) == len(sweep.labels)


def test_the_default_baseline_is_the_fastest_peer_with_a_right_result(shown):
    """It was "torch efficient", whatever the rows said: 3.8 times where the lead over cuDNN is 1.13."""
    sweep = shown.sweep
    assert sweep.baselines[0] == "sdpa_cudnn"
    wrong = sweep.part.assign(status=sweep.part.status.mask(sweep.part["name"] == "sdpa_cudnn", "wrong"))
    assert replace(sweep, part=wrong).baselines[0] == "sdpa_efficient"
    kernels = sweep.part[sweep.part.kind == "kernel"].reset_index(drop=True)
    assert replace(sweep, part=kernels).baselines[0] == "01_naive"
    for made, where in bench.recorded().values():
        for sweep in sweeps.of(sweeps.prepared(made, where, "recorded")).values():
            timed = sweep.timed[sweep.timed.kind == "peer"]
            if not sweep.of_constant and len(timed):
                last = timed[timed[sweep.field] == timed[sweep.field].max()]
                assert last[last.label == sweep.baselines[0]].median_us.iloc[0] == last.median_us.min()


def test_a_link_of_a_former_version_finds_its_sweep(bench_table):
    found = sweeps.of(bench_table[0])
    key = next(iter(found))
    assert sweeps.find(found, key) == key and sweeps.find(found, "seq_len batch=77") is None
    assert sweeps.find(found, "seq_len batch=1 heads=8 kv_heads=8 head_dim=64 causal=False dtype=float32") == key


def test_colours_follow_from_the_catalogues_order_and_the_peers():
    dense = list(current().of_family("dense"))
    assert list(sweeps.colours([*dense, *peers.PEERS]).values()) == [*palette.KERNELS[: len(dense)], *palette.PEERS]
    paged = [*current().of_family("paged"), *peers.PEERS]
    for labels in (paged, ["03_flash BLOCK_Q=16", "03_flash BLOCK_Q=32", "mine.cu"]):
        assert len({*sweeps.colours(labels).values()}) == len(labels)


def test_pages_of_other_sizes_are_other_sweeps_and_a_sweep_of_their_own(bench_table):
    """A line of paged_v3 held pages of 8, 16, 32 and 64 slots at one batch."""
    table = bench_table[0]
    paged = table[table.block_size.notna()]
    both = pd.concat([table, paged.assign(block_size=32.0, median_us=1.5 * paged.median_us)], ignore_index=True)
    found = sweeps.of(both)
    assert {s.fixed["block_size"] for s in found.values() if s.field == "batch" and s.paged} == {16.0, 32.0}
    assert "block_size" in [sweep.field for sweep in found.values()]
    assert not any(sweep.part.duplicated([sweep.field, "label"]).any() for sweep in found.values())
    former = next(key for key, sweep in found.items() if sweep.fixed.get("block_size") == 16.0)
    assert sweeps.find(found, former.replace(" block_size=16", "")) == former


def test_of_flashinfers_two_layouts_the_one_that_is_faster_at_the_end_is_drawn(bench_table):
    table = bench_table[0]
    key, sweep = next((key, sweep) for key, sweep in sweeps.of(table).items() if sweep.paged)
    one = sweep.timed[sweep.timed["name"] == "paged_v1"].drop(columns="label")
    last = one[sweep.field] == one[sweep.field].max()

    def line(name, at_end, before=1.0, keep=one.index):
        made = one.assign(name=name, kind="peer", median_us=one.median_us * np.where(last, at_end, before))
        return made.loc[keep]

    def drawn(*lines):
        labels = sweeps.of(pd.concat([table, *lines], ignore_index=True))[key].labels
        return [name for name in labels if name in peers.PAGED]

    nhd, hnd = "flashinfer_nhd_xqa", "flashinfer_hnd_xqa"
    assert drawn(line(nhd, 0.5), line(hnd, 0.6, 0.1)) == [nhd]
    assert drawn(line(nhd, 0.6, 0.1), line(hnd, 0.5)) == [hnd]
    assert drawn(line(nhd, 0.5)) == [nhd]
    assert drawn(line(nhd, 0.5), line("flashinfer_hnd_fa3", 2.0)) == ["flashinfer_hnd_fa3", nhd]
    assert drawn(line(nhd, 9.0, 0.1), line(hnd, 0.5, 0.2, one.index[~last])) == [nhd]  # where both have a time
    assert drawn(line(nhd, 0.9), line(hnd, 0.5).assign(status="wrong")) == [nhd]
    assert recorded_times.shown_name(nhd) == "FlashInfer XQA (NHD)"
    colours = {*sweeps.colours(["paged_v1", "paged_v2", "paged_v3", *peers.SDPA, nhd]).values()}
    assert len(colours) == 4 + len(peers.SDPA) and colours <= {*palette.KERNELS, *palette.PEERS}


def test_an_l2_that_holds_the_inputs_is_a_sweep_of_its_own(bench_table):
    """Cold and warm points of one kernel at one size shared a line."""
    table = bench_table[0]
    warm = table.assign(l2="warm", **{name: table[name] * 0.9 for name in ("median_us", "p10_us", "p90_us")})
    found, before = sweeps.of(pd.concat([table, warm], ignore_index=True)), sweeps.of(table)
    assert [key for key in found if key in before] == list(before) and len(found) == 2 * len(before)
    assert len({sweep.title for sweep in found.values()}) == len({*sweeps.names(found).values()}) == len(found)
    for sweep in found.values():
        assert not sweep.part.duplicated([sweep.field, "label"]).any() and {*sweep.part.l2} == {sweep.fixed["l2"]}
        assert sweep.title.endswith(f"{sweep.fixed['l2']} L2")


def test_constants_add_their_own_sweeps_and_leave_the_others_as_they_are(bench_table, constants):
    before, after = sweeps.of(bench_table[0]), sweeps.of(constants)
    assert list(after)[: len(before)] == list(before)
    assert all({*after[key].part.label} == {*sweep.part.label} for key, sweep in before.items())
    assert {sweep.field for key, sweep in after.items() if key not in before} == {"PAD_K", "BLOCK_Q", "BLOCK_KV"}
    titles = [sweep.title for sweep in after.values()]
    assert len({*titles}) == len(titles)
    padded = next(title for title in titles if title.startswith("Attention: PAD_K 0 to 4 at seq_len 4096"))
    assert ", BLOCK_Q 8, BLOCK_KV 8," in padded


def test_over_a_size_of_the_tile_each_padding_is_a_line(constants):
    found = sweeps.of(constants).values()
    sweep = next(sweep for sweep in found if sweep.field == "BLOCK_KV" and sweep.fixed["BLOCK_Q"] == 16)
    assert sweep.labels == [f"{name} PAD_K={pad}" for name in ("02_tiled", "03_flash") for pad in (0, 4)]
    assert len({*sweep.colours.values()}) == 4 and sweep.sizes == [8, 16, 32]


def test_crossings_lie_where_the_lines_meet():
    rows = pd.DataFrame(
        [
            {"label": label, "kind": "kernel", "source": "recorded", "device": "a GPU", "seq_len": n}
            | {f"{name}_us": share * us for name, share in (("p10", 0.99), ("median", 1), ("p90", 1.01))}
            for label, times in (("a", (1, 4, 16)), ("b", (2, 4.5, 8)))
            for n, us in zip((128, 256, 512), times)
        ]
    )
    (found,) = sweeps.crossings(rows, "seq_len").to_dict("records")
    overlapping = rows.assign(p10_us=rows.p10_us.where(rows.seq_len < 512, 1.0))  # at 512 they are not told apart
    assert sweeps.crossings(overlapping, "seq_len").empty
    unclear = rows.assign(p10_us=rows.p10_us.where(rows.seq_len != 256, 1.0))  # the lines go through 256 all the same
    assert sweeps.crossings(unclear, "seq_len").to_dict("records") == [found]
    assert (found["faster"], found["slower"]) == ("b", "a") and 256 < found["seq_len"] < 512
    share = np.log2(found["seq_len"] / 256)
    assert 4 * 4**share == pytest.approx(found["median_us"]) == pytest.approx(4.5 * (8 / 4.5) ** share)


def test_growth_is_the_factor_of_a_doubling(shown):
    memory, time = (sweeps.growth(shown.rows, shown.field, column) for column in ("peak_bytes", "median_us"))
    assert memory["01_naive"] == pytest.approx(4, rel=0.05) and memory["03_flash"] == pytest.approx(2, rel=0.01)
    assert time["03_flash"] == pytest.approx(4, rel=0.05)


def test_sustained_times_count_if_all_have_them(shown):
    rested = shown.sweep.part
    hot = rested.assign(
        sustained_us=1.25 * rested.median_us, sustained_p10_us=rested.p10_us, sustained_p90_us=rested.p90_us
    )
    part, timed = sweeps.at_work(hot), rested.status == "ok"
    assert {*part.state} == {"sustained"} and {*rested.state} == {"rested"}
    assert part.median_us[timed].to_numpy() == pytest.approx(1.25 * rested.median_us[timed].to_numpy())
    assert part.tflops[timed].to_numpy() == pytest.approx(rested.tflops[timed].to_numpy() / 1.25)
    one = hot.assign(sustained_us=hot.sustained_us.mask((hot["name"] == "sdpa_math") & (hot.seq_len == 512)))
    assert {*sweeps.at_work(one).state} == {"rested"}


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (0.32, 0.3, 0.33, "3.1 times as long"),
        (2.0, 1.9, 2.1, "2.0 times as fast"),
        (1.02, 0.97, 1.05, "1.02 times as fast, within the spread"),
        (1.04, 1.01, 1.06, "1.04 times as fast"),
        (0.0935, 0.09, 0.094, "10.7 times as long"),
        (1.004, 0.9, 1.1, "as fast"),
    ],
)
def test_a_slower_kernel_takes_times_as_long(ratio, low, high, said):
    assert sweeps.as_fast(ratio, low, high) == said


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
        ("failed", "its worker died", None, "the run failed"),
    ],
)
def test_why_there_is_no_time(status, reason, error, said):
    allowed = 5e-7 if error else None
    row = pd.Series({"status": status, "reason": reason, "max_abs_error": error, "allowed_error": allowed})
    assert sweeps.why(row) == said
