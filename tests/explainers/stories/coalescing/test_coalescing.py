"""Coalescing: sectors by line, by request and by layout."""

from explainers.stories.coalescing import sector_walk, story
from explainers.story import stage
from kernels.catalog import KERNELS
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.families.paged.problem import PagedProblem
from kernels.trace.probes import sites_of

LAB_GLOBAL = KERNELS["lab_global"].problem_type
LAYOUTS = LAB_GLOBAL.__dataclass_fields__["layout"].metadata["allowed"]


def test_the_tables_count_what_the_lanes_touch_line_by_line_and_by_warp(cpu_run):
    run = cpu_run("03_flash", DenseProblem(head_dim=64), (), Scope(1))
    table = sector_walk.by_line(run).set_index("tensor")
    assert (table["used of 32 bytes"] == 32).all() and set(table.index) == {"Q", "K", "V", "O"}
    assert table.loc["K", "sectors a request"] == 16
    walk = sector_walk.explain(run)
    first = walk.sides[0]["requests"][0]
    assert (first["sectors"], first["used"], first["active"]) == (
        16,
        512,
        32,
    ) and "The bytes are in 16 sectors, so 512 bytes move." in walk.frames[0]["sentence"]
    table = sector_walk.by_line(cpu_run("paged_v1", PagedProblem((64,)))).set_index("tensor")
    assert (
        table.loc["K", "sectors a request"].max() == 16
    )  # 32 lanes of 16 bytes, side by side thanks to the split by x
    table = sector_walk.by_line(run)
    walk = sector_walk.explain(run, [(f, int(n)) for f, n in zip(table.file, table.line)])
    assert [f["tile"] for f in walk.frames] == sorted(f["tile"] for f in walk.frames)
    assert len({f["tile"] for f in walk.frames}) == len(table)


def test_five_layouts_are_side_by_side_on_one_clock(cpu_run):
    runs = {layout: cpu_run("lab_global", LAB_GLOBAL(layout, 16 if "paged" in layout else 4)) for layout in LAYOUTS}
    table = sector_walk.layouts(runs).set_index("layout")
    assert list(table.index) == list(LAYOUTS)
    assert table.sectors.tolist() == [4, 32, 5, 16, 32] and table["at best"].tolist() == [4, 4, 4, 16, 16]
    assert table["used of 32 bytes"].tolist() == [32, 4, 25.6, 32, 16]
    at = next((s.file, s.line) for s in sites_of(runs["strided"].request) if (s.event, s.space) == ("load", "global"))
    walk = sector_walk.explain_layouts(runs, "strided", at)
    assert len(walk.frames) == 8 and [side["name"] for side in walk.sides] == list(LAYOUTS)
    assert [side["requests"][0]["sectors"] for side in walk.sides] == [4, 32, 5, 16, 32]
    assert walk.frames[0]["sentence"].endswith("row_major: 4 sectors for 128 bytes.")
    made = story.stage_of(walk, runs["strided"], "strided", provenance=stage.provenance(runs["strided"]))
    assert [view.id for view in made.views] == ["layouts", "sectors"] and made.state[0].values[0] == 32


def test_coalescing_opens_on_the_worst_use_of_sectors_and_not_on_the_most_sectors(cpu_run):
    run = cpu_run("01_naive")
    table = sector_walk.by_line(run)
    first = table.iloc[0]
    assert (first.tensor, first["used of 32 bytes"]) == ("P", 4) and first.sectors < table.sectors.max()
    perfect = table["sectors"] == table["sectors at best"]
    assert list(perfect) == sorted(perfect)
    walk = sector_walk.explain(run, [(first.file, int(first.line))])
    assert len(walk.frames) == 1 and walk.sides[0]["requests"][0]["alike"] == 64
    made = story.stage_of(walk, run, provenance=stage.provenance(run))
    assert {s.name: s.values[0] for s in made.state}["use"] == 12.5
    moved = made.questions[0]
    assert moved.options[moved.answer] == "64 bytes: whole sectors"


def test_the_story_opens_on_neighbours_and_then_on_a_stride_and_says_the_used_share(cpu_run):
    assert story.has_ways(KERNELS["lab_global"]) and not story.has_ways(KERNELS["01_naive"])
    runs = {way: cpu_run("lab_global", LAB_GLOBAL(**fields)) for way, fields in story.WAYS.items()}
    walk = sector_walk.explain_ways(runs)
    requests = walk.sides[0]["requests"]
    assert [request["sectors"] for request in requests] == [4, 8, 5, 32]
    assert (
        walk.frames[0]["sentence"]
        == "The lanes read neighbouring elements. Memory sends 4 sectors: every byte is used."
    )
    assert walk.frames[3]["sentence"].endswith("Memory sends 32 sectors: one byte in eight is used.")
    stride, late = sector_walk.WORDS.questions(sector_walk.asked(requests, tuple(runs)), 0)
    assert (stride.options[stride.answer], late.options[late.answer]) == ("Twice as much", "One more sector")
    assert (stride.step, late.step) == (1, 2)
    for question in (stride, late):
        assert [bool(said) for said in question.reasons].count(False) == 1 and not question.reasons[question.answer]
        assert question.covers and f"{requests[question.step]['sectors']} sectors" in question.hides
    said = {
        (128, 128): "every byte is used",
        (5, 10): "half of the bytes are used",
        (3, 4): "three bytes in four are used",
    }
    assert {pair: sector_walk.share_said(*pair) for pair in said} == said
    assert sector_walk.share_said(1, 32) == "about 3% of the bytes are used"
