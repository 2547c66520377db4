"""The sweeps of a table of times: their keys, rows, labels and titles."""

import numpy as np
import pandas as pd

from explainers.charts import palette
from explainers.models import recorded_times
from explainers.stories.timing import sweep_rows, timing_tables
from kernels.catalog import KERNELS, current
from kernels.families.dense.problem import DenseProblem
from kernels.measure import bench, peers


def test_the_sweeps_of_a_table_are_found_with_the_longest_first(bench_table):
    found = sweep_rows.sweeps(bench_table[0])
    assert [field for field, _ in found.values()].count("seq_len") >= 3 and {"batch", "num_heads"} <= {
        field for field, _ in found.values()
    }
    titles = list(sweep_rows.titles(bench_table[0], found).values())
    assert titles[0] == "Attention: seq_len 128 to 16384 at batch 1, num_heads 8, head_dim 64, float32, cold L2"
    assert len(set(titles)) == len(titles) and {title.split(":")[0] for title in titles} == {
        KERNELS[name].problem_type.title for name in ("03_flash", "paged_v1")
    }
    assert any("num_heads 8 to 32 at" in title and "(width 512 to 2048)" in title for title in titles)


def test_a_slice_holds_one_problem_per_size_and_kernel(shown):
    _, field, part, _ = shown
    assert not part.duplicated([field, "label"]).any()
    assert sweep_rows.labels(part) == [*current().of_problem(DenseProblem), "sdpa_math", "sdpa_efficient", "sdpa_cudnn"]
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
        table = sweep_rows.prepared(made, where, "recorded")
        for field, fixed in sweep_rows.sweeps(table).values():
            part = sweep_rows.slice_of(table, field, fixed)
            timed = part[(part.kind == "peer") & (part.status == "ok")]
            if field in sweep_rows.SWEPT and len(timed):
                last = timed[timed[field] == timed[field].max()]
                first = sweep_rows.baselines(part, field)[0]
                assert last[last.label == first].median_us.iloc[0] == last.median_us.min()


def test_only_over_a_paged_cache_torch_cudnn_is_a_floor(shown):
    _, field, part, compared = shown
    assert "torch cudnn" in set(timing_tables.figures_table(compared, field).kernel)
    assert timing_tables.floor_sentence(compared, field) == ""


def test_a_sweep_is_titled_by_its_problem_and_not_by_its_type(bench_table):
    """Fault 4: a dense fp16 sweep was titled "Decoding, paged KV cache"."""
    table = bench_table[0]
    dense = table[table["name"].isin(current().of_problem(DenseProblem))].assign(dtype="float16")
    titles = sweep_rows.titles(dense, sweep_rows.sweeps(dense)).values()
    assert titles and all(title.startswith("Attention: ") and title.endswith(", float16, cold L2") for title in titles)
    both = pd.concat([dense, table.assign(dtype="float16", num_kv_heads=table.num_heads)])
    for field, fixed in sweep_rows.sweeps(both).values():
        assert sweep_rows.slice_of(both, field, fixed).title.nunique() == 1


def test_a_link_of_a_former_version_finds_its_sweep(bench_table):
    found = sweep_rows.sweeps(bench_table[0])
    key = next(iter(found))
    assert sweep_rows.find_sweep(found, key) == key and sweep_rows.find_sweep(found, "seq_len batch=77") is None
    assert (
        sweep_rows.find_sweep(found, "seq_len batch=1 heads=8 kv_heads=8 head_dim=64 causal=False dtype=float32") == key
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


def test_pages_of_other_sizes_are_other_sweeps_and_a_sweep_of_their_own(bench_table):
    """A line of paged_v3 held pages of 8, 16, 32 and 64 slots at one batch."""
    table = bench_table[0]
    paged = table[table.block_size.notna()]
    both = pd.concat([table, paged.assign(block_size=32.0, median_us=1.5 * paged.median_us)], ignore_index=True)
    found = sweep_rows.sweeps(both)
    sizes = {fixed["block_size"] for field, fixed in found.values() if field == "batch" and "paged" in fixed["title"]}
    assert sizes == {16.0, 32.0} and "block_size" in [field for field, _ in found.values()]
    for field, fixed in found.values():
        assert not sweep_rows.slice_of(both, field, fixed).duplicated([field, "label"]).any()
    former = next(key for key, (_, fixed) in found.items() if fixed.get("block_size") == 16.0)
    assert sweep_rows.find_sweep(found, former.replace(" block_size=16", "")) == former


def test_of_flashinfers_two_layouts_the_one_that_is_faster_at_the_end_is_drawn(bench_table):
    table = bench_table[0]
    field, fixed = next(sweep for sweep in sweep_rows.sweeps(table).values() if "paged" in sweep[1]["title"])
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
    assert recorded_times.shown_name(nhd) == "FlashInfer XQA (NHD)"
    assert not set(sweep_rows.colours(["paged_v1", "paged_v2", "paged_v3", *peers.SDPA, nhd]).values()) - {
        *palette.KERNELS,
        *palette.PEERS,
    }


def test_an_l2_that_holds_the_inputs_is_a_sweep_of_its_own(bench_table):
    """Cold and warm points of one kernel at one size shared a line."""
    table = bench_table[0]
    warm = table.assign(l2="warm", **{name: table[name] * 0.9 for name in ("median_us", "p10_us", "p90_us")})
    both = pd.concat([table, warm], ignore_index=True)
    found, before = sweep_rows.sweeps(both), sweep_rows.sweeps(table)
    assert [key for key in found if key in before] == list(before) and len(found) == 2 * len(before)
    titles = sweep_rows.titles(both, found)
    assert len(set(titles.values())) == len(titles)
    for key, (field, fixed) in found.items():
        part = sweep_rows.slice_of(both, field, fixed)
        assert not part.duplicated([field, "label"]).any() and set(part.l2) == {fixed["l2"]}
        assert titles[key].endswith(f"{fixed['l2']} L2")


def test_constants_add_their_own_sweeps_and_leave_the_others_as_they_are(bench_table, constants):
    before, after = sweep_rows.sweeps(bench_table[0]), sweep_rows.sweeps(constants)
    assert list(after)[: len(before)] == list(before)
    for field, fixed in before.values():
        assert set(sweep_rows.slice_of(constants, field, fixed).label) == set(
            sweep_rows.slice_of(bench_table[0], field, fixed).label
        )
    added = [sweep for key, sweep in after.items() if key not in before]
    assert {field for field, _ in added} == {"PAD_K", "BLOCK_Q", "BLOCK_KV"}
    titles = list(sweep_rows.titles(constants, after).values())
    assert len(set(titles)) == len(titles)
    assert any(
        title.startswith("Attention: PAD_K 0 to 4 at seq_len 4096") and "BLOCK_Q 16, BLOCK_KV 16" in title
        for title in titles
    )


def test_over_a_size_of_the_tile_each_padding_is_a_line(constants):
    field, fixed = next(
        s for s in sweep_rows.sweeps(constants).values() if s[0] == "BLOCK_KV" and s[1]["BLOCK_Q"] == 16
    )
    part = sweep_rows.slice_of(constants, field, fixed)
    assert sweep_rows.labels(part) == [f"{name} PAD_K={pad}" for name in ("02_tiled", "03_flash") for pad in (0, 4)]
    assert len(set(sweep_rows.colours(sweep_rows.labels(part)).values())) == 4
    assert recorded_times.sizes(part, field) == [8, 16, 32]
