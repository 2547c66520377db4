"""The whole grid: its steps are the blocks' begins and ends, in order, and each block is where it ran."""

import json
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from explainers.models import grid, schedules
from explainers.stories.occupancy import timeline as occupancy_timeline
from explainers.stories.occupancy.limits import WORDS
from explainers.story import encoding, stage
from kernels.build import occupancy
from kernels.catalog import KERNELS, current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.families.dense.problem import DenseProblem
from kernels.measure import timelines
from kernels.recordings import run_index


def small(name="03_flash", **fields):
    problem = DenseProblem(**{"seq_len": 64, "num_heads": 2, "head_dim": 32, **fields})
    return Request(KERNELS[name], problem, (("BLOCK_Q", 16), ("BLOCK_KV", 16)), Scope(5))


def check(made, blocks):
    """What holds of any grid: at every step, begun - ended blocks run, and the strip and the sentences say so."""
    first, last = made.columns["first"].astype(int), made.columns["last"].astype(int)
    assert (first < last).all() and first.min() == 0 and last.max() == len(made.frames) - 1
    assert [f["at"] for f in made.frames] == sorted(f["at"] for f in made.frames)
    states = {s.name: list(s.values) for s in made.states}
    for step, frame in enumerate(made.frames):
        running, done = int(((first <= step) & (step < last)).sum()), int((last <= step).sum())
        assert (states["blocks running"][step], states["blocks done"][step]) == (running, done)
        busy = np.unique(made.columns["sm"][(first <= step) & (step < last)])
        assert states["SMs busy"][step] == len(busy)
        assert (f"{running:,} run, {done:,} of {blocks:,} are done." if running else f"{done:,}") in frame["sentence"]
    assert states["blocks done"][-1] == blocks and f"All {blocks:,} are done." in made.frames[-1]["sentence"]
    json.dumps(made.meta), json.dumps(made.frames)


def test_in_launch_order_every_block_begins_in_a_step_of_its_own_and_launches_follow_one_another():
    request = small()
    made = grid.explain(request, schedules.in_launch_order(request.plan, 3, "a GPU"))
    check(made, 8)
    assert len(made.frames) == 9 and made.meta["launches"][0]["rows"] == 2 and made.meta["launches"][0]["cols"] == 4
    begins = [made.columns["block"][made.columns["first"] == step].tolist() for step in range(8)]
    assert begins == [[n] for n in range(8)]
    at = dict(zip(made.columns["block"].astype(int), made.columns["sm"].astype(int)))
    assert at == {n: n % 3 for n in range(8)}
    assert made.frames[5]["sentence"] == (
        "Turn 2: block 2 (head 0, query tile 2) ends and block 5 (head 1, query tile 1) begins on SM 2. "
        "3 run, 3 of 8 are done."
    )
    assert "no timeline of this build is recorded" in made.meta["said"]
    assert made.meta["unit"] == "turn" and "µs" not in json.dumps(made.frames) and made.meta["traced"] == 5
    request = small("01_naive")
    made = grid.explain(request, schedules.in_launch_order(request.plan, 132, "a GPU"))
    check(made, sum(launch.blocks for launch in request.plan.launches))
    assert [f["launch"] for f in made.frames] == sorted(f["launch"] for f in made.frames)
    assert [(lch["entry"], lch["per_item"], lch["rows"] * lch["cols"]) for lch in made.meta["launches"]] == [
        (launch.entry, launch.blocks_per_item, launch.items) for launch in request.plan.launches
    ]
    ends = [made.columns["end"][made.columns["launch"] == n].max() for n in range(3)]
    assert ends == [1, 2, 3]
    assert all(list(f["lines"]) and all("01_naive.cu:" in place for place in f["lines"]) for f in made.frames)


COLUMNS = ["launch", "block", "sm", "start_ns", "end_ns"]


def timeline(rows):
    return timelines.Timeline(small(), pd.DataFrame(rows, None, COLUMNS), 0, 4, "recorded", "a GPU", "2026-11-21")


def test_a_timelines_steps_are_its_moments():
    rows = [(0, 0, 0, 0, 1000), (0, 1, 1, 0, 500), (0, 2, 0, 1000, 4000), (0, 3, 1, 500, 900), (0, 4, 0, 200, 1200)]
    made = grid.explain(small(), schedules.recorded(timeline(rows)))
    check(made, 5)
    assert [f["at"] for f in made.frames] == [0, 0.2, 0.5, 0.9, 1.0, 1.2, 4.0]
    assert made.frames[4]["sentence"] == (
        "1.00 µs: block 0 (head 0, query tile 0) ends after 1.00 µs and block 2 (head 0, query tile 2) begins on "
        "SM 0. 2 run, 3 of 5 are done."
    )
    assert made.frames[0]["sentence"].startswith("0.00 µs: 2 blocks (0 to 1) begin on 2 SMs. 2 run")
    assert made.meta["multiprocessors"] == 2 and made.meta["all"] == 4 and "Recorded on a GPU" in made.meta["said"]
    bars = list(zip(*(made.columns[n] for n in ("sm", "start", "end", "low", "high"))))
    for n, (sm, start, end, low, high) in enumerate(bars):  # bars of a lane that overlap in time lie above one another
        for sm2, start2, end2, low2, high2 in bars[n + 1 :]:
            assert sm != sm2 or end <= start2 or end2 <= start or high <= low2 or high2 <= low


def test_more_moments_than_steps_are_gathered(monkeypatch):
    monkeypatch.setattr(grid, "MOST", 10)
    rows = [(0, n, n % 4, 7 * n, 7 * n + 29) for n in range(60)]
    made = grid.explain(small(seq_len=480), schedules.recorded(timeline(rows)))
    assert len(made.frames) == 10
    check(made, 60)


def test_a_recorded_build_has_its_timeline():
    found = timelines.recorded()
    if not found:
        pytest.skip("no timeline of the present code is recorded")
    entry = min(found, key=lambda e: e.path.stat().st_size)
    schedule = schedules.schedule_of(entry.request)
    assert schedule.timed and entry.device in schedule.said


def test_an_order_is_dealt_to_this_or_an_assumed_gpu_and_a_preset_has_its_times_in_small_tiles():
    live = schedules.schedule_of(small(seq_len=80), (3, "A GPU of three"))
    assert (
        live.multiprocessors == 3 and not live.timed and "one block on each of the 3 SMs of A GPU of three" in live.said
    )
    assert "One turn" not in live.said
    assumed = schedules.schedule_of(small(seq_len=80))
    assert "each of the 132 SMs of an H200" in assumed.said
    assert "One turn takes all 10 blocks of a launch" in assumed.said
    recorded = [
        (title, name)
        for title, fields in DenseProblem.presets().items()
        for name in ("02_tiled", "03_flash")
        if schedules.schedule_of(small(name, **{"num_heads": 2, **fields})).timed
    ]
    assert [name for _, name in recorded] == ["02_tiled", "03_flash"] and len({title for title, _ in recorded}) == 1


@pytest.mark.parametrize("name", [name for name in current().of_problem(DenseProblem) if run_index.of(KERNELS[name])])
def test_a_grid_without_times_leads_to_one_that_has_them(name):
    offer = grid.view(small(name, seq_len=80), offers=True).meta["recorded"]
    fields = asdict(DenseProblem())
    query = offer["query"]
    assert set(fields) < set(query) and (query["kernel"], query["picture"]) == (name, "grid")
    constants = tuple((n, int(v)) for n, v in query.items() if n in KERNELS[name].settings())
    problem = DenseProblem(seq_len=512, head_dim=64, num_heads=8, causal=True)
    assert all(getattr(problem, n) == json.loads(query[n]) for n in fields)
    request = Request(KERNELS[name], problem, constants)
    assert schedules.schedule_of(request).timed and "recorded" not in grid.view(request, offers=True).meta
    assert "recorded" not in grid.view(small(name, seq_len=80)).meta


def test_the_picture_brings_its_own_clock_and_strip():
    view = grid.view(small())
    assert (view.kind, view.id, view.meta["clock"]) == ("grid", "grid", True)
    made = encoding.decode(encoding.encode(stage.Stage("", [], [view])))["views"][0]
    assert len(made["meta"]["frames"]) == 9 == len(made["meta"]["state"][1]["values"])
    assert made["meta"]["frames"][0]["lines"] and len(made["columns"]["block"]) == 8


def test_every_kernels_grid_can_be_shown():
    for spec in KERNELS.values():
        request = Request(spec, spec.problem_type())
        made = grid.explain(request, schedules.schedule_of(request))
        check(made, len(made.columns["block"]))


# ---- the facts of a timeline ----


def test_the_timelines_facts_are_those_of_its_blocks():
    table = pd.DataFrame(
        [(0, 0, 0, 0, 1000), (0, 1, 1, 0, 500), (0, 2, 0, 1000, 4000), (0, 3, 1, 500, 900)], None, COLUMNS
    )
    request = Request(KERNELS["03_flash"], DenseProblem())
    timeline = timelines.Timeline(request, table, 2, 4, "recorded", "a GPU", "2026-11-21")
    data = occupancy_timeline.data_of(timeline, "a label")
    facts = data["facts"]
    due = {"blocks": 4, "us": 4.0, "at_once": 2, "longest_us": 3.0, "shortest_us": 0.4, "multiprocessors": 2}
    assert due.items() <= facts.items()
    assert np.isclose(facts["tail_us"], 3.1, atol=0.02) and np.isclose(facts["busy"], 4900 / 4000 / 4, atol=0.01)
    said = WORDS.say("timeline", data)
    wanted = ("4 blocks ran on 2 of 4 SMs", "2 more blocks had nothing to do", "8 times the shortest")
    assert all(text in said for text in wanted)


def test_recorded_causal_blocks_differ_more_than_full_ones():
    kernel, problem = KERNELS["03_flash"], DenseProblem(seq_len=2048, head_dim=64, num_heads=8)
    settings, facts = tuple(kernel.settings().items()), []
    for causal in (False, True):
        request = Request(kernel, replace(problem, causal=causal), settings, backend="recorded")
        try:
            facts.append(occupancy_timeline.data_of(timelines.timeline(request), "")["facts"])
        except ProblemError as missing:
            pytest.skip(f"no timeline of the present code is recorded: {missing}")
    full, half = (one["longest_us"] / one["shortest_us"] for one in facts)
    assert half > 10 * full
    assert {one["at_once"] for one in facts} == {132 * occupancy.occupancy(kernel, problem, ())[0].blocks}
