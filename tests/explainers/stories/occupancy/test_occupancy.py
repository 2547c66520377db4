"""Occupancy: the limits of an SM in words, tables and a picture, and the timeline of a grid."""

from dataclasses import asdict, replace

import pandas as pd
from pages import texts_in, wrong_plural

from explainers.stories.occupancy import limits, story
from explainers.story import encoding
from kernels.build import occupancy
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.families.dense.problem import DenseProblem
from kernels.measure import timelines


def stage_of(kernel, problem, found=None):
    build = story.Build(KERNELS[kernel], problem, (), "sm_90a", 132)
    found = found or occupancy.occupancy(build.kernel, problem, ())
    return story.limits_stage(build, found), found


def test_occupancy_in_words_tables_and_stages():
    kernel, problem = KERNELS["03_flash"], DenseProblem(seq_len=4096, head_dim=64, num_heads=8)
    made, found = stage_of("03_flash", problem)
    sentence = next(
        block["text"] for block in {tab.id: tab for tab in made.tabs}["facts"].blocks if block["kind"] == "text"
    )
    assert f"holds {found[0].blocks} blocks of 256 threads" in sentence
    assert f"The limit: {found[0].limited_by}." in sentence
    assert f"2,048 blocks make {2048 / (132 * found[0].blocks):.2f} waves" in sentence
    assert "local memory" not in sentence
    _, heavy = stage_of("03_flash", problem, [replace(found[0], local_bytes=1168)])
    data = limits.data_of(heavy, occupancy.machine("sm_90a"), 132, "an H200")
    said = limits.WORDS.say("launch", {**data, **data["launches"][0]})
    assert "A thread also has 1,168 bytes of local memory, behind L1." in said
    assert limits.launches_table(heavy)["local bytes a thread"].tolist() == [1168]
    assert limits.launches_table(found)["blocks per SM"].tolist() == [found[0].blocks]
    other = limits.alternatives_table(occupancy.alternatives(kernel, problem, ()), kernel.settings())
    assert len(other) == 9 and (other.now == "now").sum() == 1


def test_each_resource_is_a_step_with_its_own_arithmetic():
    made, found = stage_of("01_naive", DenseProblem(seq_len=512, head_dim=64, num_heads=8))
    assert [f["tile"] for f in made.frames] == [n for n in range(3) for _ in range(5)]
    assert len(encoding.encode(made)) < 50_000
    panels = [panel for (panel,) in made.views[0].meta.lines]
    assert [panel.shown for panel in panels] == [[*range(5 * n, 5 * n + 5)] for n in range(3)]
    for number, (o, panel) in enumerate(zip(found, panels)):
        first, last = 5 * number, 5 * number + 4
        for place, (bar, (name, allows)) in enumerate(zip(panel.bars, o.limits.items())):
            each, of = (int(text.replace(",", "")) for text in bar.cells)
            assert bar.name == name.capitalize() and bar.pieces[last] == o.blocks
            assert bar.pieces[first : first + place] == [0] * place  # no count before its step
            assert set(bar.pieces[first + place : last]) == {allows}
            assert abs(bar.steps[last] - o.blocks * each / of) < 1e-9
            assert bar.text[last] == ("a limit" if allows == o.blocks else f"{allows} blocks would fit")
            assert bar.framed == ([last] if allows == o.blocks else [])
            if name != "registers":  # each fourth of the SM alone holds these
                assert of // each == allows
            said = made.frames[first + place]["sentence"]
            assert (f"That allows {allows} block" in said) == (name != "blocks")
        assert f"holds {o.blocks} blocks of {o.entry} at once" in made.frames[last]["sentence"]
    assert made.state[0].values[4::5] == [o.blocks for o in found]


def test_the_strip_names_a_limit_only_at_the_end_and_the_last_step_has_twice_the_registers():
    """The first step showed "limited by warps" where registers set the limit four steps later."""
    made, found = stage_of("03_flash", DenseProblem(seq_len=512, head_dim=64, num_heads=8))
    limit = next(state.values for state in made.state if state.name == "limited by")
    assert limit == [*(f"not known yet: {n} of 4" for n in range(1, 4)), *2 * [found[0].limited_by], "registers"]
    (now,), (more,) = made.views[0].meta.lines
    each = [[int(bar.cells[0].replace(",", "")) for bar in panel.bars] for panel in (now, more)]
    assert each[1] == [each[0][0], each[0][1], 2 * each[0][2], each[0][3]] and more.shown == [5]
    blocks = more.bars[0].pieces[5]
    assert blocks < found[0].blocks and f"only {blocks} blocks" in made.frames[5]["sentence"]
    asked = next(question for question in made.questions if question.id == "registers")
    covered = {**asked.covers[0]}
    assert covered.pop("figure") == more.key and all(covered.items() <= bar.datum.items() for bar in more.bars)
    assert not any(covered.items() <= bar.datum.items() for bar in now.bars)


def test_one_block_of_one_warp_is_singular_in_each_text():
    """The page showed "holds 1 blocks of 384 threads" for 11_overlap."""
    allowed = {"warps": 1, "blocks": 1, "registers": 1, "shared memory": 1}
    for threads, grid in ((384, 5), (32, 1), (1, 200)):
        warps = -(-threads // 32)
        one = occupancy.Occupancy("k", threads, 168, 200_000, grid, allowed, 1, warps, 2.0, "registers", grid / 132)
        made, _ = stage_of("03_flash", DenseProblem(), [one])
        shown = [made.frames, made.tabs[1].blocks, asdict(made.views[0].meta), [asdict(q) for q in made.questions]]
        texts = [*texts_in([*shown, [asdict(state) for state in made.state]])]
        assert any("1 block" in text for text in texts) and not [text for text in texts if wrong_plural(text)]


def test_table_picture_and_words_name_all_that_limit_equally():
    allowed = {"warps": 8, "blocks": 32, "registers": 8, "shared memory": 9}
    o = occupancy.Occupancy("k", 256, 32, 1000, 10, allowed, 8, 64, 100.0, "warps and registers", 0.01)
    made, _ = stage_of("03_flash", DenseProblem(), [o])
    bars = made.views[0].meta.lines[0][0].bars
    assert [bar.datum["resource"] for bar in bars if bar.framed] == ["warps", "registers"]
    assert limits.launches_table([o])["limited by"].tolist() == ["warps and registers"]
    assert made.state[2].values[4] == "warps and registers"
    assert "Warps and registers are the limit." in made.frames[4]["sentence"]


def test_a_timeline_has_a_strip_and_a_source():
    rows = [{"launch": 0, "block": n, "sm": n % 4, "start_ns": 9 * n, "end_ns": 9 * n + 50} for n in range(8)]
    request = Request(KERNELS["03_flash"], DenseProblem())
    recorded = timelines.Timeline(request, pd.DataFrame(rows), 0, 4, "recorded", "a GPU", "2026-11-21")
    drawn = story.timeline_stage(recorded, "a label")
    assert [v.kind for v in drawn.views] == ["grid"] and len(drawn.frames) == len(drawn.state[0].values)
    assert drawn.provenance.label == "recorded" and "a label" in drawn.provenance.said
