"""Occupancy: the limits of an SM in words, tables and pictures."""

from dataclasses import asdict

import pandas as pd
from pages import texts_in, wrong_plural

from explainers.stories.occupancy import block_limits, block_questions, grid_timeline
from explainers.story import encoding
from kernels.build import occupancy
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.families.dense.problem import DenseProblem
from kernels.measure import timelines


def test_occupancy_in_words_tables_and_stages():
    kernel, problem = KERNELS["03_flash"], DenseProblem(seq_len=4096, head_dim=64, num_heads=8)
    found = occupancy.occupancy(kernel, problem, ())
    sentence = block_limits.sentence(found[0], occupancy.MACHINES["sm_90"], 132, "an H200")
    assert (
        f"holds {found[0].blocks} blocks of 256 threads" in sentence
        and f"The limit: {found[0].limited_by}." in sentence
    )
    assert f"2,048 blocks make {2048 / (132 * found[0].blocks):.2f} waves" in sentence
    assert block_limits.launches_table(found)["blocks per SM"].tolist() == [found[0].blocks]
    other = block_limits.alternatives_table(occupancy.alternatives(kernel, problem, ()), kernel.settings())
    assert len(other) == 9 and (other.now == "now").sum() == 1
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


def test_one_block_of_one_warp_is_singular_in_each_text():
    """The page showed "holds 1 blocks of 384 threads" for 11_overlap."""
    on = occupancy.MACHINES["sm_90"]
    limits = {"warps": 1, "blocks": 1, "registers": 1, "shared memory": 1}
    for threads, grid in ((384, 5), (32, 1), (1, 200)):
        warps = -(-threads // 32)
        one = occupancy.Occupancy("k", threads, 168, 200_000, grid, limits, 1, warps, 2.0, "registers", grid / 132)
        meta, frames = block_limits.view([one], on, "an H200")
        asked = block_questions.block_limits([one], on, "an H200")
        states = block_limits.states([one], on, frames)
        shown = [meta, frames, [asdict(q) for q in asked], [asdict(s) for s in states]]
        texts = [*texts_in([*shown, block_limits.sentence(one, on, 132, "an H200")])]
        assert any("1 block" in text for text in texts)
        assert not [text for text in texts if wrong_plural(text)]


def test_each_resource_is_a_step_with_its_own_arithmetic():
    on = occupancy.MACHINES["sm_90"]
    found = occupancy.occupancy(KERNELS["01_naive"], DenseProblem(seq_len=512, head_dim=64, num_heads=8), ())
    meta, frames = block_limits.view(found, on, "an H200")
    assert [f["tile"] for f in frames] == [n for n in range(3) for _ in range(5)] and len(meta["launches"]) == 3
    for frame in frames:
        o, launch = found[frame["launch"]], meta["launches"][frame["launch"]]
        assert launch["blocks"] == o.blocks
        if frame["shown"] > len(launch["resources"]):
            assert frame["sentence"] == block_limits.together(o, on, "an H200")
            continue
        resource = launch["resources"][frame["shown"] - 1]
        assert resource["blocks"] == o.limits[resource["name"]]
        assert resource["limit"] == (resource["name"] in o.limiters)
        if resource["name"] != "registers":  # these are held by each fourth of the multiprocessor alone
            assert resource["of"] // resource["each"] == resource["blocks"]
        else:
            assert f"That allows {resource['blocks']} block" in frame["sentence"]
    strip = {s.name: s.values for s in block_limits.states(found, on, frames)}
    assert strip["blocks so far"][4::5] == [o.blocks for o in found]


def test_the_strip_names_a_limit_only_at_the_end_and_the_last_step_has_twice_the_registers():
    """The first step showed "limited by warps" where registers set the limit four steps later."""
    on = occupancy.MACHINES["sm_90"]
    found = occupancy.occupancy(KERNELS["03_flash"], DenseProblem(seq_len=512, head_dim=64, num_heads=8), ())
    _, frames = block_limits.view(found, on, "an H200")
    limit = next(state.values for state in block_limits.states(found, on, frames) if state.name == "limited by")
    set_by = found[0].limited_by
    assert limit == [*(f"not known yet: {n} of 4" for n in range(1, 4)), set_by, set_by, "registers"]
    meta, frames = block_limits.view(found, on, "an H200")
    now, more = meta["launches"]
    assert more["what_if"] and not now["what_if"]
    each = {r["name"]: r["each"] for r in now["resources"]}
    twice = {r["name"]: r for r in more["resources"]}
    assert twice["registers"]["each"] == 2 * each["registers"] and twice["warps"]["each"] == each["warps"]
    assert more["blocks"] == twice["registers"]["blocks"] < now["blocks"]
    assert f"only {more['blocks']} blocks" in frames[-1]["sentence"]


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
    meta, frames = block_limits.view([o], on, "an H200")
    assert {r["name"] for r in meta["launches"][0]["resources"] if r["limit"]} == marked
    assert block_limits.states([o], on, frames)[2].values[4] == "warps and registers"
    assert "Warps and registers are the limit." in frames[4]["sentence"]
