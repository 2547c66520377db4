"""The steps at which play can pause are those of the trace."""

import pytest
from conftest import of_fp32

from explainers.models import generic, softmax_rows, tiling
from explainers.stories.bank_conflicts import bank_walk
from explainers.stories.coalescing import sector_walk
from explainers.stories.compare import two_kernels
from explainers.stories.online_softmax import online_softmax
from explainers.story import marks
from kernels.families.dense.problem import DenseProblem
from kernels.families.lab.tiles import ColumnsProblem
from kernels.trace.probes import sites_of

SMALL = DenseProblem(seq_len=32, head_dim=32)


def marked(frames, mark):
    return [n for n, frame in enumerate(frames) if mark in frame["marks"]]


@pytest.mark.parametrize("name", of_fp32(softmax_rows))
def test_m_rises_where_the_trace_logs_a_larger_one(cpu_run, name):
    run = cpu_run(name, DenseProblem())
    story = online_softmax.explain(run, 6)
    table = run.trace.table.to_pandas()
    logged = table[(table.event == "m") & (table.row == 6)].sort_values("seq").value.tolist()
    risen = sum(after > before for before, after in zip(logged, logged[1:]))
    found = marked(story.frames, marks.RISE)
    assert len(found) == risen
    assert all(story.frames[n]["group"] == "max" and story.frames[n]["m"] > story.frames[n]["m_before"] for n in found)
    assert not marked(story.frames, marks.WRONG)


def test_a_wrong_value_spare_sectors_and_a_step_of_one_side_are_marked_and_nothing_else(cpu_run):
    story = online_softmax.explain(cpu_run("03_flash", DenseProblem(), (("RESCALE", 0),)), 6)
    assert marked(story.frames, marks.WRONG) == [n for n, frame in enumerate(story.frames) if frame["wrong"]]
    assert story.first_wrong == marked(story.frames, marks.WRONG)[0]
    story = sector_walk.explain(cpu_run("01_naive", SMALL))
    spare = [n for n, r in enumerate(story.sides[0]["requests"]) if -(-r["used"] // 32) < r["sectors"]]
    assert marked(story.frames, marks.UNCOALESCED) == spare and spare
    a, b = (tiling.explain(cpu_run(name, SMALL)).frames for name in ("03_flash", "08b_three_bfloat16"))
    frames = two_kernels.align(a, b).frames
    assert marked(frames, marks.ALONE) == [n for n, frame in enumerate(frames) if frame["title"].endswith("alone)")]
    assert marked(frames, marks.ALONE)
    run = cpu_run("03_flash", SMALL)
    assert not any(frame.get("marks") for frame in generic.explain(run).frames)
    story = online_softmax.explain(run, online_softmax.rows_of(run)[0])
    assert {mark for frame in story.frames for mark in frame["marks"]} <= set(marks.MARKS)


@pytest.mark.parametrize(("settings", "conflicts"), [((), True), ((("PAD", 1),), False)])
def test_a_conflict_is_marked_once_at_its_first_wavefront(cpu_run, settings, conflicts):
    run = cpu_run("lab_columns", ColumnsProblem(), settings)
    site = next(s for s in sites_of(run.request) if (s.space, s.event, s.tensor) == ("shared", "load", "X"))
    story = bank_walk.explain([run], (site.file, site.line))
    (side,) = story.sides
    found = marked(story.frames, marks.CONFLICT)
    assert len(found) == sum(access["conflicts"] > 0 for access in side["accesses"]) and bool(found) is conflicts
    assert all(story.frames[n]["wavefront"] == 0 for n in found)
