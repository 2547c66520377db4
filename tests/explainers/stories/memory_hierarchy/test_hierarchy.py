"""The memory hierarchy: plateaus, the ends of the caches, and the stage."""

import numpy as np
import pandas as pd
import pytest

from explainers.models import memory_levels
from explainers.stories.memory_hierarchy import level_charts, story
from explainers.story import encoding, probed
from kernels.build import occupancy
from kernels.catalog import KERNELS
from kernels.errors import BackendUnavailable
from kernels.measure.hierarchy import Measured
from kernels.measure.hierarchy import recorded as recorded_hierarchy

CHAIN = "One thread follows a chain: each load brings the address of the next."


def frames_of(table, lines):
    return story.WORDS.frames(story.steps_of(table, lines), story.data_of(table))


def said_on(table, device):
    return story.WORDS.say("on_device", story.data_of(table) | {"device": device})


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
def test_the_levels_are_medians_of_the_plateaus(measured):
    table = measured.table
    levels = memory_levels.plateaus(table).set_index("level")
    shared = table[(table.space == "shared") & (table.kind == "latency")]
    assert levels.cycles["Shared memory"] == shared.cycles.median() and np.isnan(levels.cycles["Registers"])
    path = levels.cycles[[*memory_levels.LEVELS]].dropna()
    assert list(path) == sorted(path)
    assert f"{levels.cycles['L2 cache']:.0f} in L2 and" in said_on(table, measured.device)
    assert said_on(table[table.space == "shared"], "a GPU") == "Only a part of a GPU has been measured so far."
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
    assert met[2**17] == "in L1" and met[2**18] == met[2**25] == "in L2"
    assert met[2**26] == "in device memory"
    frames = frames_of(table, {"shared": "a.cu:1", "through_l1": "a.cu:2"})
    stairs = ["1 KiB", "32 KiB", "128 KiB", "256 KiB", "32 MiB", "64 MiB", "512 MiB"]  # both ends of each plateau
    assert [f["title"] for f in frames] == [f"{size} of data" for size in stairs]
    assert all(frame["lines"] == {"a.cu:2": 1} for frame in frames)
    why = "All of it fits in L1, the cache of one SM."
    assert (
        frames[0]["sentence"]
        == f"{CHAIN} With 1 KiB of data, a load takes 40 cycles. {why} From shared memory, it takes 30."
    )
    assert frames[1]["sentence"].endswith(f"{why} A load past L1 takes 220.")
    assert frames[2]["sentence"].endswith(f"{why} More data takes longer.")
    assert frames[-1]["sentence"].endswith(
        "the GPU could read 500 kB: to hide the wait, kernels keep as much under way."
    )


def test_sizes_partly_in_l2_name_its_far_half_only_if_they_are_a_plateau():
    table = hierarchy_table()
    chain = (table.kind == "latency") & (table.space == "through_l1")

    def said(cycles):
        changed = table.copy()
        for size, value in cycles.items():
            changed.loc[chain & (table.working_set == size), "cycles"] = value
        return {frame["title"]: frame["sentence"] for frame in frames_of(changed, {})}

    slope, plateau = said({2**26: 300.0, 2**27: 400.0}), said({2**26: 400.0, 2**27: 401.0})
    assert slope["64 MiB of data"].endswith("L2 holds only a part of it, and device memory brings the rest.")
    assert plateau["64 MiB of data"].endswith("Likely, these loads go to the half of L2 that is farther from this SM.")


def test_the_picture_of_bandwidth_has_its_own_steps_with_the_rates_of_its_streams():
    table = hierarchy_table()
    table.loc[table.kind == "bandwidth", "working_set"] += 2**9  # no chain has a size of a stream
    known, steps = memory_levels.bandwidths(table), memory_levels.stairs(table, "bandwidth")
    for size, frame in zip(steps, story.bandwidth_frames(table), strict=True):
        assert f"read {known['through_l1', size]:,.0f} GB/s through L1" in frame["sentence"]
        assert "cycles" not in frame["sentence"]


def test_the_stage_of_the_hierarchy_has_the_chains_own_source_and_a_rule_for_every_step():
    measured = Measured(hierarchy_table(), "NVIDIA H200", "580", "2026-11-22", "NVRTC 13.0")
    spec = probed.first(story.STORY)
    assert spec.problem_type is KERNELS["lab_chase"].problem_type
    lines = story.lines_of(spec)
    texts = {space: spec.source.splitlines()[int(place.split(":")[1]) - 1].strip() for space, place in lines.items()}
    assert {s: t.split("<")[0] for s, t in texts.items()} == {
        "shared": "at = lds",
        "from_l2": "at = ldg_l2",
        "through_l1": "at = ldg",
    }
    shown = memory_levels.labelled(measured.table, "recorded")
    made = encoding.decode(encoding.encode(story.stage_of(measured, shown, "recorded", spec, [])))
    steps = memory_levels.stairs(measured.table)
    assert len(made["frames"]) == len(steps)
    assert [v["id"] for v in made["views"]] == ["places", "latency", "bandwidth"]
    data = made["views"][1]["meta"]["spec"]["datasets"]
    assert [(row["step"], row["working_set"]) for row in data["steps"]] == list(enumerate(steps, 1))
    assert [row["said"] for row in data["caches"]] == [
        "L1: 128 KiB",
        "L2: 32 MiB",
    ]
    names = ["through L1: 40", "L2: 220", "device memory: 500", "L1 skipped"]
    assert [row["said"] for row in data["levels"]] == names
    assert [row["beyond"] for row in data["levels"]] == [False, True, True, True]
    farther, holds = made["questions"]
    levels = memory_levels.plateaus(measured.table).set_index("level").cycles
    times = round(levels["Device memory"] / levels["Shared memory"])
    assert f"{levels['L1 cache']:.0f} in L1, {levels['L2 cache']:.0f} in L2 and" in made["summary"]
    assert farther["options"][farther["answer"]] == f"About {times} times as long"
    assert holds["options"][holds["answer"]] == "It jumps to the wait for L2" and "128 KiB" in holds["why"]
    sizes = made["views"][0]["meta"]["sizes"]
    assert sizes[holds["shows"]["size"]]["size"] == "256 KiB"
    for question in (farther, holds):
        assert all(bool(said) != (n == question["answer"]) for n, said in enumerate(question["reasons"]))
        assert question["view"] == "places" and question["veils"] == ["strip", "tabs", "headline"]
    assert {s["name"] for s in made["state"]} >= {"this load", "Shared memory", "L1", "L2", "Device memory"}
    for state in made["state"]:
        assert len(state["values"]) == len(steps)


def test_constant_memory_and_textures_have_rows_once_they_are_measured():
    table = hierarchy_table()
    lacking = memory_levels.plateaus(table).level.tolist()
    assert "Texture, up to 128 KiB: not measured yet" in lacking
    assert not {"constant memory", "texture"} & {state.name for state in story.states(table)}
    more = [
        {"kind": "latency", "space": space, "working_set": 2**n, "cycles": cycles, "ns": 10.0}
        for space, cycles in (("constant", 30.0), ("texture", 90.0))
        for n in range(10, 17)
    ]
    found = memory_levels.plateaus(pd.concat([table, pd.DataFrame(more)])).set_index("level").cycles
    assert found["Constant memory, up to 1.5 KiB"] == 30 and found["Texture, up to 128 KiB"] == 90
    shown = {state.name: state.values for state in story.states(pd.concat([table, pd.DataFrame(more)]))}
    assert shown["constant memory"][0] == 30 and shown["texture"][0] == 90


def test_the_names_above_the_lines_keep_away_from_the_axis_and_from_the_lines():
    shown = memory_levels.labelled(hierarchy_table(), "recorded")
    made = level_charts.latency_chart(shown, machine=occupancy.MACHINES["sm_90"]).to_dict()
    top = [layer for layer in made["layer"] if layer["mark"].get("baseline") == "top"]
    texts = [layer for layer in top if layer["mark"].get("style") != "halo"]
    sides = [layer["mark"]["align"] for layer in texts]
    assert sides == ["right", "right", "right"]  # L2, L1 and shared memory: left of their ends
    assert len({layer["mark"]["dy"] for layer in texts}) == 3
    top = next(layer for layer in made["layer"] if layer["mark"]["type"] == "line")["encoding"]["y"]["scale"]["domain"][
        1
    ]
    assert top > 1.9 * shown.cycles.max()
