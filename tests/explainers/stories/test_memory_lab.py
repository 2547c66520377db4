"""Bank conflicts, coalescing, the memory hierarchy and occupancy: the numbers in the frames, tables and sentences are
those of the run."""

import json

import numpy as np
import pandas as pd
import pytest

from explainers.stories.bank_conflicts import bank_conflicts, bank_costs, bank_walk, padding
from explainers.stories.coalescing import coalescing, sector_costs, sector_walk
from explainers.stories.memory_hierarchy import hierarchy, level_charts, memory_levels
from explainers.stories.occupancy import block_limits, grid_timeline
from explainers.story import encoding, probed, stage
from kernels.build import occupancy
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable, ProblemError
from kernels.families.dense.problem import DenseProblem
from kernels.families.lab.tiles import ColumnsProblem
from kernels.families.paged.problem import PagedProblem
from kernels.measure import timelines
from kernels.measure.hierarchy import Measured
from kernels.measure.hierarchy import recorded as recorded_hierarchy
from kernels.trace.memory import model
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
    story = bank_walk.explain([run], walk_line(run))
    (side,) = story.sides
    assert len(story.frames) == sum(access["wavefronts"] for access in side["accesses"])
    assert story.total == sum(access["alike"] for access in side["accesses"])
    for access in side["accesses"]:
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
            f"Wavefront {frame['wavefront'] + 1} of {side['accesses'][frame['access']]['wavefronts']} serves"
            in frame["sentence"]
        )


def test_the_sentence_tells_a_conflict_from_a_broadcast(cpu_run):
    walk = cpu_run("lab_columns", ColumnsProblem())
    conflict = bank_walk.explain([walk], walk_line(walk))
    assert "wants 32 different words of bank 0, so it takes 32 wavefronts" in conflict.frames[0]["sentence"]
    run = cpu_run("03_flash")
    said = bank_walk.explain([run], read_at(run, "P")).frames[0]["sentence"]
    assert "lanes that want the same word share it: 1 wavefront" in said


def test_padding_k_is_seen_in_the_kernels_own_traces(cpu_run):
    for name in ("02_tiled", "03_flash"):
        table = padding.compare_padding(cpu_run(name), cpu_run(name, settings=(("PAD_K", 4),)))
        k = table[(table.tensor == "K") & (table.kind == "load")].iloc[0]
        assert (k["not padded"], k["padded"], k["at best"]) == (32, 4, 4) and "K_smem" in k["access"]
        others = table[(table.tensor != "K")]
        assert (others["not padded"] == others["padded"]).all()
        assert f"{int(table['wavefronts without'].sum()):,} wavefronts without padding" in padding.padding_sentence(
            table
        )


def test_the_coalescing_tables_count_what_the_lanes_touch(cpu_run):
    run = cpu_run("03_flash", DenseProblem(head_dim=64), (), Scope(1))
    table = sector_costs.by_line(run).set_index("tensor")
    assert (table["used of 32 bytes"] == 32).all() and set(table.index) == {"Q", "K", "V", "O"}
    assert table.loc["K", "sectors a request"] == 16
    story = sector_walk.explain(run)
    first = story.sides[0]["requests"][0]
    assert (first["sectors"], first["used"], first["active"]) == (
        16,
        512,
        32,
    ) and "They touch 16 sectors in 4 lines" in story.frames[0]["sentence"]


def test_the_paged_k_reads_are_counted_by_warp_and_not_by_token(cpu_run):
    table = sector_costs.by_line(cpu_run("paged_v1", PagedProblem((64,)))).set_index("tensor")
    assert (
        table.loc["K", "sectors a request"].max() == 16
    )  # 32 lanes of 16 bytes, side by side thanks to the split by x


def test_five_layouts_side_by_side(cpu_run):
    runs = {layout: cpu_run("lab_global", LAB_GLOBAL(layout, 16 if "paged" in layout else 4)) for layout in LAYOUTS}
    table = sector_costs.layouts(runs).set_index("layout")
    assert list(table.index) == list(LAYOUTS)
    assert table.sectors.tolist() == [4, 32, 5, 16, 32] and table["at best"].tolist() == [4, 4, 4, 16, 16]
    assert table["used of 32 bytes"].tolist() == [32, 4, 25.6, 32, 16]
    assert sector_costs.layouts_chart(sector_costs.layouts(runs)).to_dict()["mark"]["type"] == "bar"


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
    levels = memory_levels.plateaus(table).set_index("level")
    assert levels["textbook cycles"].dropna().tolist() == [1, 20, 28, 200, 400]
    shared = table[(table.space == "shared") & (table.kind == "latency")]
    assert levels.cycles["Shared memory"] == shared.cycles.median() and np.isnan(levels.cycles["Registers"])
    assert list(levels.cycles.dropna()) == sorted(levels.cycles.dropna())
    assert f"{levels.cycles['L2 cache']:.0f} for L2" in hierarchy.sentence(
        memory_levels.plateaus(table), measured.device
    )
    assert (
        hierarchy.sentence(memory_levels.plateaus(table[table.space == "shared"]), "a GPU")
        == "Only a part of a GPU has been measured so far."
    )
    for chart in (level_charts.latency_chart, level_charts.bandwidth_chart):
        assert chart(memory_levels.labelled(table, "recorded")).to_dict()["layer"]
    beside = memory_levels.beside(measured, table[:3])
    assert len(beside) == len(table) + 3 and set(beside.source) == {"measured now", f"recorded, {measured.device}"}
    assert memory_levels.beside(measured, table[:0]).source.unique().tolist() == [f"recorded, {measured.device}"]


def test_each_cache_ends_where_its_figure_does_and_every_step_says_which_level_it_meets():
    table = hierarchy_table()
    (l1, l2) = memory_levels.edges(table)
    assert (l1.level, l1.fits, l1.leaves) == ("L1 cache", 2**17, 2**18)
    assert (l2.level, l2.fits, l2.leaves) == ("L2 cache", 2**25, 2**26)
    met = memory_levels.levels_met(table)
    assert met[2**17] == "it fits the L1" and met[2**18] == met[2**25] == "it fits the L2"
    assert met[2**26] == "it comes from device memory"
    frames = hierarchy.frames(table, {"shared": "a.cu:1", "through_l1": "a.cu:2"})
    assert [f["title"] for f in frames][:2] == ["1 KiB", "2 KiB"] and frames[0]["lines"] == {"a.cu:1": 1, "a.cu:2": 1}
    assert frames[6]["sentence"] == (
        "Working set 64 KiB: 40 cycles a load (20 ns); it fits the L1. "
        "A load that skips the L1 takes 220 cycles and a load from shared memory takes 30 cycles."
    )
    assert frames[-1]["lines"] == {"a.cu:2": 1}


def test_the_stage_of_the_hierarchy_has_the_chains_own_source_and_a_rule_for_every_step():
    measured = Measured(hierarchy_table(), "NVIDIA H200", "580", "2026-11-22", "NVRTC 13.0")
    spec = probed.first(hierarchy)
    assert spec.problem_type is KERNELS["lab_chase"].problem_type
    lines = hierarchy.lines_of(spec)
    texts = {space: spec.source.splitlines()[int(place.split(":")[1]) - 1].strip() for space, place in lines.items()}
    assert {s: t.split("<")[0] for s, t in texts.items()} == {
        "shared": "at = lds",
        "from_l2": "at = ldg_l2",
        "through_l1": "at = ldg",
    }
    shown = memory_levels.labelled(measured.table, "recorded")
    made = encoding.decode(encoding.encode(hierarchy.stage_of(measured, shown, "recorded", spec, [])))
    steps = memory_levels.sizes(measured.table)
    assert len(made["frames"]) == len(steps) and [v["id"] for v in made["views"]] == ["latency", "bandwidth"]
    data = made["views"][0]["meta"]["spec"]["datasets"]
    assert [(row["step"], row["working_set"]) for row in data["steps"]] == list(enumerate(steps, 1))
    assert [row["said"] for row in data["caches"]] == ["L1 measured: 128 KiB", "L2 measured: 32 MiB"]
    assert data["shared"][0]["working_set"] == occupancy.MACHINES["sm_90"].shared_bytes
    farther, holds = made["questions"]
    levels = memory_levels.plateaus(measured.table).set_index("level").cycles
    assert farther["answer"] == round(levels["L2 cache"] / levels["L1 cache"], 1)
    assert holds["options"][holds["answer"]] == "128 KiB" and made["frames"][holds["step"]]["title"] == "128 KiB"
    assert {s["name"] for s in made["state"]} >= {"through L1", "level"}
    for state in made["state"]:
        assert len(state["values"]) == len(steps)


def test_occupancy_in_words_and_tables():
    kernel, problem = KERNELS["03_flash"], DenseProblem(seq_len=4096, head_dim=64, num_heads=8)
    found = occupancy.occupancy(kernel, problem, ())
    sentence = block_limits.sentence(found[0], occupancy.MACHINES["sm_90"], 132, "an H200")
    assert (
        f"holds {found[0].blocks} blocks of 256 threads" in sentence
        and f"{found[0].limited_by} are the limit" in sentence
    )
    assert f"2,048 blocks make {2048 / (132 * found[0].blocks):.2f} waves" in sentence
    assert block_limits.launches_table(found)["blocks per SM"].tolist() == [found[0].blocks]
    other = block_limits.alternatives_table(occupancy.alternatives(kernel, problem, ()), kernel.settings())
    assert len(other) == 9 and (other.now == "now").sum() == 1


def test_each_resource_is_a_step_with_its_own_arithmetic():
    on = occupancy.MACHINES["sm_90"]
    found = occupancy.occupancy(KERNELS["01_naive"], DenseProblem(seq_len=512, head_dim=64, num_heads=8), ())
    meta, frames = block_limits.view(found, on, 132, "an H200")
    assert [f["tile"] for f in frames] == [n for n in range(3) for _ in range(5)] and len(meta["launches"]) == 3
    for frame in frames:
        o, launch = found[frame["launch"]], meta["launches"][frame["launch"]]
        assert launch["blocks"] == o.blocks
        if frame["shown"] > len(launch["resources"]):
            assert frame["sentence"] == block_limits.sentence(o, on, 132, "an H200")
            continue
        resource = launch["resources"][frame["shown"] - 1]
        assert resource["blocks"] == o.limits[resource["name"]]
        assert resource["limit"] == (resource["name"] in o.limiters)
        if resource["name"] != "registers":  # these are held by each fourth of the multiprocessor alone
            assert resource["of"] // resource["each"] == resource["blocks"]
        else:
            assert f"= {resource['blocks']} block" in frame["sentence"]
    strip = {s.name: s.values for s in block_limits.states(found, on, frames)}
    assert strip["blocks so far"][4::5] == [o.blocks for o in found]


def test_the_strip_names_a_limit_only_when_no_later_step_can_refute_it():
    """The first step showed "limited by warps" where registers set the limit four steps later."""
    on = occupancy.MACHINES["sm_90"]
    found = occupancy.occupancy(KERNELS["03_flash"], DenseProblem(seq_len=512, head_dim=64, num_heads=8), ())
    _, frames = block_limits.view(found, on, 132, "an H200")
    limit = next(state.values for state in block_limits.states(found, on, frames) if state.name == "limited by")
    assert limit == [*(f"open: {n} of 4 counted" for n in range(1, 4)), *[found[0].limited_by] * 2]


def test_table_chart_picture_and_words_name_all_that_limit_equally():
    limits = {"warps": 8, "blocks": 32, "registers": 8, "shared memory": 9}
    o = occupancy.Occupancy("k", 256, 32, 1000, 10, limits, 8, 64, 100.0, "warps and registers", 0.01)
    on = occupancy.MACHINES["sm_90"]
    chart = block_limits.limits_chart(o).to_dict()
    drawn = next(iter(chart["datasets"].values()))
    marked = {row["resource"] for row in drawn if row["what"] == "the limit"}
    assert marked == {"warps", "registers"} == set(o.limiters)
    for step in range(1, 6):  # a bar stands there once its resource is counted; what limits is marked at the end
        bars = [row for row in drawn if row["from"] <= step < row["to"]]
        assert [bar["resource"] for bar in bars] == list(limits)[:step]
        assert any(bar["what"] == "the limit" for bar in bars) == (step == 5)
    assert block_limits.launches_table([o])["limited by"].tolist() == ["warps and registers"]
    meta, frames = block_limits.view([o], on, 132, "an H200")
    assert {r["name"] for r in meta["launches"][0]["resources"] if r["limit"]} == marked
    assert block_limits.states([o], on, frames)[2].values[-1] == "warps and registers"
    assert "warps and registers are the limit" in frames[-1]["sentence"]


def test_the_stages_of_occupancy():
    kernel, problem = KERNELS["01_naive"], DenseProblem(seq_len=512, head_dim=64, num_heads=8)
    found, on = occupancy.occupancy(kernel, problem, ()), occupancy.MACHINES["sm_90"]
    made = block_limits.stage_of(kernel, found, "sm_90a", on, 132, "an H200", "Checked.")
    assert sum(block["kind"] == "chart" for block in made.side) == 3  # a scale for each launch
    assert len(made.frames) == 15 and len(encoding.encode(made)) < 50_000
    rows = [{"launch": 0, "block": n, "sm": n % 4, "start_ns": 9 * n, "end_ns": 9 * n + 50} for n in range(8)]
    request = Request(KERNELS["03_flash"], DenseProblem())
    timeline = timelines.Timeline(request, pd.DataFrame(rows), 0, 4, "recorded", "a GPU", "2026-11-21")
    drawn = grid_timeline.timeline_stage(timeline, "a label")
    assert [v.kind for v in drawn.views] == ["grid"] and len(drawn.frames) == len(drawn.state[0].values)
    assert drawn.provenance.label == "recorded" and "a label" in drawn.provenance.said
    assert drawn.side[0]["spec"]["params"][0]["name"] == "step"


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
    facts = grid_timeline.timeline_facts(timeline)
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
    said = grid_timeline.timeline_sentence(timeline, facts)
    assert (
        "4 blocks ran on 2 of 4 multiprocessors" in said
        and "2 more blocks had nothing to do" in said
        and "8 times the shortest" in said
    )


def test_recorded_causal_blocks_differ_more_than_full_ones():
    lengths = {}
    for causal in (False, True):
        problem = DenseProblem(seq_len=2048, head_dim=64, num_heads=8, causal=causal)
        request = Request(
            KERNELS["03_flash"], problem, tuple(KERNELS["03_flash"].settings().items()), backend="recorded"
        )
        try:
            lengths[causal] = grid_timeline.timeline_facts(timelines.timeline(request))
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
    story = bank_walk.explain([run], walk_line(run))
    for access in story.sides[0]["accesses"]:
        offsets = [None] * 32
        for lane, _, _, word, *_ in sorted(access["cells"], key=lambda cell: -cell[3]):
            offsets[lane] = 4 * word
        assert model.shared_wavefronts(offsets, 16, "load").wavefronts == access["wavefronts"]


def test_probes_in_a_header_are_named_by_it(cpu_run):
    run = cpu_run("02_tiled")
    table = sector_costs.by_line(run)
    assert {place.partition(":")[0] for place in table["source line"]} == {"02_tiled.cu", "softmax.cuh"}
    header = table[table.file == "softmax.cuh"].iloc[0]
    story = sector_walk.explain(run, [(header.file, header.line)])
    assert {place for f in story.frames for place in f["lines"]} == {header["source line"]}
    assert "S_gmem" in header.access and json.dumps(story.sides)


def test_an_access_that_takes_no_wavefront_has_a_sentence(cpu_run):
    problem = KERNELS["lab_access"].problem_type
    run = cpu_run("lab_access", problem("cp_async_l2", 16, offsets=tuple(16 * n for n in range(32))))
    story = bank_walk.explain([run])
    past = [a for a in story.sides[0]["accesses"] if a["kind"] == "a cp.async past L1"]
    assert past and all(a["wavefronts"] == 0 for a in past)
    assert any("no wavefront" in f["sentence"] for f in story.frames) and json.dumps(story.sides)


# ---- before and after, on one clock ----


def beside(cpu_run, kernel, problem, settings=()):
    """The story of a walk without remedies and with, and its runs."""
    requests = padding.before_and_after(Request(KERNELS[kernel], problem, settings))
    runs = [cpu_run(kernel, problem, request.settings) for request in requests]
    return bank_walk.explain(runs, walk_line(runs[0])), runs


@pytest.mark.parametrize(
    ("settings", "names", "wavefronts"),
    [
        ((), ["PAD 0", "PAD 1"], [32, 1]),
        ((("PAD", 2),), ["PAD 0", "PAD 2"], [32, 2]),
        ((("SWIZZLE", 1),), ["SWIZZLE 0", "SWIZZLE 1"], [32, 1]),
        ((("WIDTH", 16),), ["PAD 0", "PAD 4"], [32, 4]),
        ((("PAD", 1), ("SWIZZLE", 1)), ["PAD 0, SWIZZLE 0", "PAD 1, SWIZZLE 1"], [32, 2]),
    ],
)
def test_the_plain_tile_stands_beside_the_padded_or_swizzled_one(cpu_run, settings, names, wavefronts):
    story, _ = beside(cpu_run, "lab_columns", ColumnsProblem(), settings)
    assert [side["name"] for side in story.sides] == names
    assert [side["accesses"][0]["wavefronts"] for side in story.sides] == wavefronts
    assert sum(frame["access"] == 0 for frame in story.frames) == 32  # the clock waits for the slower side
    late = next(frame for frame in story.frames if frame["wavefront"] == wavefronts[1])["sentence"]
    assert f"{names[0]}: " in late and f"Done after {wavefronts[1]} wavefront" in late


def test_accesses_that_want_the_same_of_the_banks_are_shown_once_and_counted(cpu_run):
    for settings in ((), (("SWIZZLE", 1),)):
        story, _ = beside(cpu_run, "lab_columns", ColumnsProblem(), settings)
        assert [a["alike"] for a in story.sides[1]["accesses"]] == [32] and story.total == 32
        assert story.frames[0]["title"].startswith("Access 1, and 31 others alike") and not story.left_out
    both, _ = beside(cpu_run, "lab_columns", ColumnsProblem(), (("PAD", 1), ("SWIZZLE", 1)))
    assert len(both.sides[1]["accesses"]) > 1 and len(both.frames) <= bank_walk.SHOWN_STEPS + 32
    assert both.total == 32 and both.left_out > 0


def test_what_padding_leaves_free_is_what_no_lane_ever_touches(cpu_run):
    story, _ = beside(cpu_run, "lab_columns", ColumnsProblem(24), (("PAD", 2),))
    plain, padded = story.sides
    assert (plain["words"], plain["free"]) == (32 * 24, [])
    assert padded["words"] == 31 * 26 + 24 and padded["free"] == [[26 * r + 24, 26 * r + 26] for r in range(31)]


def test_a_kernel_without_padding_or_swizzle_is_shown_alone(cpu_run):
    request = Request(KERNELS["paged_v1"], PagedProblem((64,)))
    assert padding.before_and_after(request) == (request,)
    story = bank_walk.explain([cpu_run("paged_v1", PagedProblem((64,)))])
    assert [side["name"] for side in story.sides] == [""] and "PAD" not in story.frames[0]["sentence"]


def test_the_stage_of_banks_says_what_the_trace_says(cpu_run):
    story, runs = beside(cpu_run, "lab_columns", ColumnsProblem())
    made = bank_conflicts.stage_of(
        story, runs, stage.provenance(runs[0]), "32 and 2 (recorded)", chosen=runs[0].request
    )
    assert encoding.decode(encoding.encode(made))["views"][0]["meta"]["sides"][1]["name"] == "PAD 1"
    said = {state.name: (state.values[0], state.values[-1]) for state in made.state}
    assert said["wavefronts so far, PAD 0"] == (1, 32) and said["wavefronts so far, PAD 1"] == (1, 1)
    assert said["this access takes, PAD 0 and PAD 1"][0] == "32 and 1"
    assert said["conflicts, PAD 0 and PAD 1"][0] == "31 and 0"
    assert said["cycles an access, PAD 0 and PAD 1"][0] == "32 and 2 (recorded)"
    assert [q.answer for q in made.questions] == [32, 1] and made.questions[1].step == 31
    alone = bank_costs.by_line(runs[:1]).set_index("kind")
    assert alone.loc["load", "wavefronts a request"] == 32 and alone.loc["load", "wavefronts"] == 1024


# ---- coalescing: the worst first, and layouts beside one another ----


def test_coalescing_opens_on_the_worst_use_of_sectors_and_not_on_the_most_sectors(cpu_run):
    run = cpu_run("01_naive")
    table = sector_costs.worst_first(sector_costs.by_line(run))
    first = table.iloc[0]
    assert (first.tensor, first["used of 32 bytes"]) == ("P", 4) and first.sectors < table.sectors.max()
    perfect = table["sectors"] == table["sectors at best"]
    assert list(perfect) == sorted(perfect)
    story = sector_walk.explain(run, [(first.file, int(first.line))])
    assert len(story.frames) == 1 and story.sides[0]["requests"][0]["alike"] == story.total
    made = coalescing.stage_of(story, run, stage.provenance(run))
    assert {s.name: s.values[0] for s in made.state}["use"] == 12.5 and made.questions[0].answer == 2


def test_requests_at_every_line_are_stepped_through_line_by_line(cpu_run):
    run = cpu_run("03_flash", DenseProblem(head_dim=64), (), Scope(1))
    table = sector_costs.by_line(run)
    story = sector_walk.explain(run, [(f, int(n)) for f, n in zip(table.file, table.line)])
    assert [f["tile"] for f in story.frames] == sorted(f["tile"] for f in story.frames)
    assert len({f["tile"] for f in story.frames}) == len(table)
    assert story.total == sum(r["alike"] for r in story.sides[0]["requests"])


def test_layouts_stand_beside_one_another_on_one_clock(cpu_run):
    runs = {layout: cpu_run("lab_global", LAB_GLOBAL(layout, 16 if "paged" in layout else 4)) for layout in LAYOUTS}
    at = next((s.file, s.line) for s in sites_of(runs["strided"].request) if (s.event, s.space) == ("load", "global"))
    story = sector_walk.explain_layouts(runs, "strided", at)
    assert len(story.frames) == 8 and [side["name"] for side in story.sides] == list(LAYOUTS)
    assert [side["requests"][0]["sectors"] for side in story.sides] == [4, 32, 5, 16, 32]
    assert story.frames[0]["sentence"].endswith("row_major: 4 sectors for 128 bytes.")
    made = coalescing.stage_of(story, runs["strided"], stage.provenance(runs["strided"]), "strided")
    assert [view.id for view in made.views] == ["layouts", "sectors"] and made.state[0].values[0] == 32
