from collections import Counter

import pytest

from explainers import steps
from kernels.catalog import ATTENTION, KERNELS
from kernels.problem import AttentionProblem


@pytest.mark.parametrize("name", KERNELS)
def test_the_steps_hold_every_record_after_a_mark_once_and_in_order(cpu_run, name):
    run = cpu_run(name, AttentionProblem(seq_len=50) if name in ATTENTION else KERNELS[name].problem_type())
    cut = steps.cut(run.trace, run.request.sites)
    frame = run.trace.frame("launch", "block", "thread", "event").assign(step=cut.of_record)
    inside = frame[frame.step >= 0]
    assert set(frame[frame.step < 0].event) <= {"tile_begin"}
    assert sorted(inside.step.unique()) == list(range(len(cut.table)))
    assert all(part.step.is_monotonic_increasing for _, part in inside.groupby(["launch", "block", "thread"]))
    assert cut.table[["launch", "block"]].apply(tuple, axis=1).is_monotonic_increasing


def test_flash_steps_are_load_then_four_phases_a_tile_then_write(cpu_run):
    run = cpu_run("03_flash", AttentionProblem(seq_len=50))
    table = steps.cut(run.trace, run.request.sites).table
    phases = ["load_tile", "scores", "softmax", "output"]
    assert table.phase.tolist() == ["load_q", *phases * 4, "write"]
    assert table.tile.tolist() == [-1, *(t for t in range(4) for _ in phases), -1]


@pytest.mark.parametrize("name", KERNELS)
def test_lit_lines_are_the_code_lines_of_the_records(cpu_run, name):
    run = cpu_run(name, KERNELS[name].problem_type())
    sites = run.request.sites
    cut = steps.cut(run.trace, sites)
    lit = steps.lit_lines(run.trace, cut, sites)
    lines = run.trace.table["line"].to_numpy()
    for step in range(len(cut.table)):
        logged = Counter(sites[line].code_line for line in lines[cut.of_record == step] if sites[line].kind != "mark")
        assert set(lit[step]) == set(logged)
    source = run.request.kernel.source.splitlines()
    assert all("PROBE" not in source[line - 1] for step in lit for line in step)
