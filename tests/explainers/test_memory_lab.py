"""Bank conflicts, coalescing, the memory hierarchy and occupancy: the numbers in the frames, tables and sentences are
those of the run."""

import json

import numpy as np
import pandas as pd
import pytest

from explainers import bank_conflicts, coalescing, hierarchy
from explainers import occupancy as told
from kernels.build import occupancy
from kernels.catalog import KERNELS
from kernels.core.request import Request, Scope
from kernels.errors import BackendUnavailable, ProblemError
from kernels.families.dense.problem import DenseProblem
from kernels.families.lab.tiles import ColumnsProblem
from kernels.families.paged.problem import PagedProblem
from kernels.memory import model
from kernels.timing import timelines
from kernels.timing.hierarchy import Measured
from kernels.timing.hierarchy import recorded as recorded_hierarchy
from kernels.trace.probes import sites_of

LAB_GLOBAL = KERNELS["lab_global"].problem_type
LAYOUTS = LAB_GLOBAL.__dataclass_fields__["layout"].metadata["allowed"]


def read_at(run, tensor):
    """(file, line) of the first probe of a load of that tensor of shared memory."""
    site = next(s for s in sites_of(run.request) if (s.space, s.event, s.tensor) == ("shared", "load", tensor))
    return site.file, site.line


def walk_line(run):
    return read_at(run, "X")


@pytest.mark.parametrize("settings", [(), (("PAD", 1),), (("WIDTH", 16),), (("WIDTH", 8), ("PAD", 2))])
def test_every_wavefront_serves_each_bank_at_most_once_and_every_lane_is_served(cpu_run, settings):
    run = cpu_run("lab_columns", ColumnsProblem(), settings)
    story = bank_conflicts.explain(run, walk_line(run))
    assert len(story.frames) == sum(access["wavefronts"] for access in story.accesses)
    for access in story.accesses:
        words = dict(settings).get("WIDTH", 4) // 4
        assert sorted((lane, bank) for lane, bank, *_ in access["cells"]) == sorted(
            {(lane, bank) for lane, bank, *_ in access["cells"]}
        )
        assert len(access["cells"]) == 32 * words
        for wavefront in range(access["wavefronts"]):
            served = [(bank, word) for _, bank, w, word, *_ in access["cells"] if w == wavefront]
            assert served and len({bank for bank, _ in served}) == len(set(served))
    for frame in story.frames:
        assert (
            f"Wavefront {frame['wavefront'] + 1} of {story.accesses[frame['access']]['wavefronts']} serves"
            in frame["sentence"]
        )


def test_the_sentence_tells_a_conflict_from_a_broadcast(cpu_run):
    conflict = bank_conflicts.explain(
        cpu_run("lab_columns", ColumnsProblem()), walk_line(cpu_run("lab_columns", ColumnsProblem()))
    )
    assert "wants 32 different words of bank 0, so it takes 32 wavefronts" in conflict.frames[0]["sentence"]
    run = cpu_run("03_flash")
    said = bank_conflicts.explain(run, read_at(run, "P")).frames[0]["sentence"]
    assert "lanes that want the same word share it: 1 wavefront" in said


def test_padding_k_is_seen_in_the_kernels_own_traces(cpu_run):
    for name in ("02_tiled", "03_flash"):
        table = bank_conflicts.compare_padding(cpu_run(name), cpu_run(name, settings=(("PAD_K", 4),)))
        k = table[(table.tensor == "K") & (table.kind == "load")].iloc[0]
        assert (k["not padded"], k["padded"], k["at best"]) == (32, 4, 4) and "K_smem" in k["access"]
        others = table[(table.tensor != "K")]
        assert (others["not padded"] == others["padded"]).all()
        assert (
            f"{int(table['wavefronts without'].sum()):,} wavefronts without padding"
            in bank_conflicts.padding_sentence(table)
        )


def test_the_coalescing_tables_count_what_the_lanes_touch(cpu_run):
    run = cpu_run("03_flash", DenseProblem(head_dim=64), (), Scope(1))
    table = coalescing.by_line(run).set_index("tensor")
    assert (table["used of 32 bytes"] == 32).all() and set(table.index) == {"Q", "K", "V", "O"}
    assert table.loc["K", "sectors a request"] == 16
    story = coalescing.explain(run)
    first = story.requests[0]
    assert (first["sectors"], first["used"], first["active"]) == (
        16,
        512,
        32,
    ) and "They touch 16 sectors in 4 lines" in story.frames[0]["sentence"]


def test_the_paged_k_reads_are_counted_by_warp_and_not_by_token(cpu_run):
    table = coalescing.by_line(cpu_run("paged_v1", PagedProblem((64,)))).set_index("tensor")
    assert (
        table.loc["K", "sectors a request"].max() == 16
    )  # 32 lanes of 16 bytes, side by side thanks to the split by x


def test_five_layouts_side_by_side(cpu_run):
    runs = {layout: cpu_run("lab_global", LAB_GLOBAL(layout, 16 if "paged" in layout else 4)) for layout in LAYOUTS}
    table = coalescing.layouts(runs).set_index("layout")
    assert list(table.index) == list(LAYOUTS)
    assert table.sectors.tolist() == [4, 32, 5, 16, 32] and table["at best"].tolist() == [4, 4, 4, 16, 16]
    assert table["used of 32 bytes"].tolist() == [32, 4, 25.6, 32, 16]
    assert coalescing.layouts_chart(coalescing.layouts(runs)).to_dict()["mark"]["type"] == "bar"


def hierarchy_table():
    """A table such as timing.hierarchy records: levels of 30, 40, 220 and 500 cycles, and a stream's GB/s of each."""
    rows = []
    for space, end in (("shared", 2**18), ("through_l1", 2**29), ("from_l2", 2**29)):
        for n in range(10 if space != "from_l2" else 15, 30):
            if 2**n > end:
                break
            at = 30 if space == "shared" else 500 if n > 25 else 220 if n > 17 or space == "from_l2" else 40
            rows.append({"kind": "latency", "space": space, "working_set": 2**n, "cycles": at + n / 100, "ns": at / 2})
            rows.append({"kind": "bandwidth", "space": space, "working_set": 2**n, "gb_per_s": 1e6 / at})
    rows.append({"kind": "bandwidth", "space": "copy", "working_set": 2**29, "gb_per_s": 4200.0})
    table = pd.DataFrame(rows)
    return table.assign(
        **{f"{name}_{end}": table[name] for name in ("cycles", "ns", "gb_per_s") for end in ("least", "most")}
    )


def recorded_measured():
    """What is recorded of the hierarchy, if anything is."""
    try:
        return [recorded_hierarchy()]
    except BackendUnavailable:
        return []


@pytest.mark.parametrize(
    "measured",
    [Measured(hierarchy_table(), "A GPU", "580", "2026-11-22", "NVRTC 13.0"), *recorded_measured()],
    ids=lambda measured: measured.device,
)
def test_the_levels_are_medians_of_the_plateaus_beside_the_textbook(measured):
    table = measured.table
    levels = hierarchy.plateaus(table).set_index("level")
    assert levels["textbook cycles"].dropna().tolist() == [1, 20, 28, 200, 400]
    shared = table[(table.space == "shared") & (table.kind == "latency")]
    assert levels.cycles["Shared memory"] == shared.cycles.median() and np.isnan(levels.cycles["Registers"])
    assert list(levels.cycles.dropna()) == sorted(levels.cycles.dropna())
    assert f"{levels.cycles['L2 cache']:.0f} for L2" in hierarchy.sentence(hierarchy.plateaus(table), measured.device)
    assert (
        hierarchy.sentence(hierarchy.plateaus(table[table.space == "shared"]), "a GPU")
        == "Of a GPU only a part has been measured so far."
    )
    for chart in (hierarchy.latency_chart, hierarchy.bandwidth_chart):
        assert chart(hierarchy.labelled(table, "recorded")).to_dict()["layer"]
    beside = hierarchy.beside(measured, table[:3])
    assert len(beside) == len(table) + 3 and set(beside.source) == {"measured now", f"recorded, {measured.device}"}
    assert hierarchy.beside(measured, table[:0]).source.unique().tolist() == [f"recorded, {measured.device}"]


def test_occupancy_in_words_and_tables():
    kernel, problem = KERNELS["03_flash"], DenseProblem(seq_len=4096, head_dim=64, num_heads=8)
    found = occupancy.occupancy(kernel, problem, ())
    sentence = told.sentence(found[0], occupancy.MACHINES["sm_90"], 132, "an H200")
    assert (
        f"holds {found[0].blocks} blocks of 256 threads" in sentence
        and f"{found[0].limited_by} are the limit" in sentence
    )
    assert f"2,048 blocks make {2048 / (132 * found[0].blocks):.2f} waves" in sentence
    assert told.launches_table(found)["blocks per SM"].tolist() == [found[0].blocks]
    other = told.alternatives_table(occupancy.alternatives(kernel, problem, ()), kernel.settings())
    assert len(other) == 9 and (other.now == "now").sum() == 1


def test_the_timelines_facts_are_those_of_its_blocks():
    table = pd.DataFrame(
        {
            "launch": 0,
            "block": [0, 1, 2, 3],
            "sm": [0, 1, 0, 1],
            "start_ns": [0, 0, 1000, 500],
            "end_ns": [1000, 500, 4000, 900],
        }
    )
    timeline = timelines.Timeline(
        Request(KERNELS["03_flash"], DenseProblem()), table, 2, 4, "recorded", "a GPU", "2026-11-21"
    )
    facts = told.timeline_facts(timeline)
    assert (
        facts["blocks"],
        facts["us"],
        facts["at_once"],
        facts["longest_us"],
        facts["shortest_us"],
        facts["multiprocessors"],
    ) == (4, 4.0, 2, 3.0, 0.4, 2)
    assert np.isclose(facts["tail_us"], 3.1, atol=0.02) and np.isclose(
        facts["busy"], (4000 + 900) / 4000 / 4, atol=0.01
    )
    said = told.timeline_sentence(timeline, facts)
    assert (
        "4 blocks ran on 2 of 4 multiprocessors" in said
        and "2 more blocks had nothing to do" in said
        and "8 times the shortest" in said
    )
    rows = told.timeline_table(timeline)
    for _, part in rows.groupby("sm"):
        for a in part.itertuples():
            for b in part.itertuples():  # bars of one lane that overlap in time lie above one another
                assert (
                    a.block == b.block
                    or a.end_us <= b.start_us
                    or b.end_us <= a.start_us
                    or a.high <= b.low
                    or b.high <= a.low
                )


def test_recorded_causal_blocks_differ_more_than_full_ones():
    lengths = {}
    for causal in (False, True):
        problem = DenseProblem(seq_len=2048, head_dim=64, num_heads=8, causal=causal)
        request = Request(
            KERNELS["03_flash"], problem, tuple(KERNELS["03_flash"].settings().items()), backend="recorded"
        )
        try:
            lengths[causal] = told.timeline_facts(timelines.timeline(request))
        except ProblemError as missing:
            pytest.skip(f"no timeline of the present code is recorded: {missing}")
    assert (
        lengths[True]["longest_us"] / lengths[True]["shortest_us"]
        > 10 * lengths[False]["longest_us"] / lengths[False]["shortest_us"]
    )
    assert (
        lengths[False]["at_once"]
        == lengths[True]["at_once"]
        == 132
        * occupancy.occupancy(KERNELS["03_flash"], DenseProblem(seq_len=2048, head_dim=64, num_heads=8), ())[0].blocks
    )


def test_memory_counts_in_a_story_are_those_of_the_rules(cpu_run):
    run = cpu_run("lab_columns", ColumnsProblem(36), (("WIDTH", 16),))
    story = bank_conflicts.explain(run, walk_line(run))
    for access in story.accesses:
        offsets = [None] * 32
        for lane, _, _, word, *_ in sorted(access["cells"], key=lambda cell: -cell[3]):
            offsets[lane] = 4 * word
        assert model.shared_wavefronts(offsets, 16, "load").wavefronts == access["wavefronts"]


def test_probes_in_a_header_are_named_by_it(cpu_run):
    run = cpu_run("02_tiled")
    table = coalescing.by_line(run)
    assert {place.partition(":")[0] for place in table["source line"]} == {"02_tiled.cu", "softmax.cuh"}
    header = table[table.file == "softmax.cuh"].iloc[0]
    story = coalescing.explain(run, (header.file, header.line))
    assert {place for f in story.frames for place in f["lines"]} == {header["source line"]}
    assert "S_gmem" in header.access and json.dumps(coalescing.view(story))


def test_an_access_that_takes_no_wavefront_has_a_sentence(cpu_run):
    problem = KERNELS["lab_access"].problem_type
    run = cpu_run("lab_access", problem("cp_async_l2", 16, offsets=tuple(16 * n for n in range(32))))
    story = bank_conflicts.explain(run)
    past = [a for a in story.accesses if a["kind"] == "a cp.async past L1"]
    assert past and all(a["wavefronts"] == 0 for a in past)
    assert any("no wavefront" in f["sentence"] for f in story.frames) and json.dumps(bank_conflicts.view(story))
