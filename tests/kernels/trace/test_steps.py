from collections import Counter

import numpy as np
import pytest
from conftest import one_of_each_kind

from kernels.catalog import KERNELS, current
from kernels.core.request import Request
from kernels.families.lab.patterns import RolesProblem
from kernels.run import execute
from kernels.trace import steps
from kernels.trace.probes import is_probe_line, sites_of


@pytest.mark.parametrize("name", one_of_each_kind(KERNELS))
def test_the_steps_hold_every_record_after_a_mark_once_in_order_with_the_lines_of_the_records(cpu_run, name):
    problem = KERNELS[name].problem_type(seq_len=50) if name in current().of_family("dense") else None
    run = cpu_run(name, problem)
    cut = steps.cut(run.trace, sites_of(run.request))
    frame = run.trace.frame("launch", "block", "thread", "event", "role").assign(step=cut.of_record)
    inside = frame[frame.step >= 0]
    early = current().of_family("sparse", "fusion", "launches")  # a length, or the angles of all heads, before any step
    before = {"load"} if name in early else set()
    assert set(frame[frame.step < 0].event) <= {"tile_begin", *before, *frame.role.dropna()}
    assert sorted(inside.step.unique()) == list(range(len(cut.table)))
    assert all(part.step.is_monotonic_increasing for _, part in inside.groupby(["launch", "block", "thread"]))
    assert cut.table[["launch", "block"]].apply(tuple, axis=1).is_monotonic_increasing
    assert tuple(cut.table.columns) == steps.COLUMNS
    run = cpu_run(name)
    sites = sites_of(run.request)
    cut = steps.cut(run.trace, sites)
    lit = steps.lit_lines(run.trace, cut, sites)
    place = sites.index(run.trace.table)
    for step in range(len(cut.table)):
        logged = Counter(int(n) for n in place[cut.of_record == step] if sites[int(n)].kind not in ("mark", "role"))
        assert set(lit[step]) == {sites[n].place for n in logged}
        assert all(lit[step][sites[n].place] >= count for n, count in logged.items())
        assert set(lit[step].values()) <= set(logged.values())
    source = {file: text.splitlines() for file, text in run.request.kernel.files}
    for file, line in {tuple(place.split(":")) for step in lit for place in step}:
        assert not is_probe_line(source[file][int(line) - 1])


def test_flash_steps_are_load_then_four_phases_a_tile_then_write(cpu_run):
    run = cpu_run("03_flash", KERNELS["03_flash"].problem_type(seq_len=50))
    table = steps.cut(run.trace, sites_of(run.request)).table
    phases = ["load_tile", "scores", "softmax", "output"]
    assert table.phase.tolist() == ["load_q", *phases * 4, "write"]
    assert table.tile.tolist() == [-1, *(t for t in range(4) for _ in phases), -1]
    assert set(table.role) == {""} and set(table.file) == {"03_flash.cu"}


# ---- roles ----


def test_each_role_counts_its_own_steps_and_alone_keeps_its_numbers(cpu_run):
    run = cpu_run("lab_roles", RolesProblem(tiles=3, consumers=2))
    cut = steps.cut(run.trace, sites_of(run.request))
    told = list(zip(cut.table.role, cut.table.phase, cut.table.tile))
    by_tile = [step for t in range(3) for step in (("producer", "copy", t), ("consumer", "sum", t))]
    assert told == [*by_tile, ("consumer", "write", -1)]
    frame = run.trace.frame("warp", "role", "event").assign(step=cut.of_record)
    assert frame[frame.role == "producer"].warp.unique().tolist() == [0]
    assert frame[frame.role == "consumer"].warp.unique().tolist() == [1, 2]
    assert [set(frame[frame.step == n].role) for n in range(len(cut.table))] == [{role} for role, *_ in told]
    # Without roles the consumers' first step would be counted as the producer's.
    run = cpu_run("lab_roles", RolesProblem(tiles=5, tile_size=7, consumers=1))
    cut = steps.cut(run.trace, sites_of(run.request))
    frame = run.trace.frame("role", "event", "tile", "tensor").assign(step=cut.of_record)
    for role, event in (("producer", "store"), ("consumer", "load")):
        mine = frame[(frame.role == role) & (frame.event == event) & (frame.tensor == "X")]
        assert np.array_equal(cut.table.tile[mine.step], mine.tile)


def test_what_all_threads_do_before_and_after_their_roles_is_a_step_of_its_own(small_kernel):
    body = """  const int tile = 0, thread_of = threadIdx.x;
  PROBE_MARK(begin, tile);
  PROBE_VALUE(a, thread_of, 1.f);
  if (threadIdx.x < 32) {
    PROBE_ROLE(left);
    PROBE_MARK(one, tile);
    PROBE_MARK(two, tile);
  } else {
    PROBE_ROLE(right);
    PROBE_MARK(three, tile);
  }
  PROBE_ROLE(both);
  PROBE_MARK(end, tile);
"""
    request = Request(small_kernel(body, threads=64), RolesProblem())
    table = steps.cut(execute.run(request).trace, sites_of(request)).table
    assert table.phase.tolist() == ["begin", "one", "three", "two", "end"]
    assert table.role.tolist() == ["", "left", "right", "left", "both"]


CROSSED = """  const int tile = 1, at = threadIdx.x / 32 * 128;
  if (threadIdx.x < 32) {
    PROBE_ROLE(left);
    PROBE_MARK(begin, tile);
    PROBE_LOAD(S_smem, at + 128, 4, tile);
    PROBE_MARK(end, tile);
    PROBE_STORE(S_smem, at, 4, tile);
  } else {
    PROBE_ROLE(right);
    PROBE_MARK(begin, tile);
    PROBE_LOAD(S_smem, at - 128, 4, tile);
    PROBE_MARK(end, tile);
    PROBE_STORE(S_smem, at, 4, tile);
  }
"""


def test_steps_that_the_rule_does_not_order_are_marked_and_those_before_are_not(small_kernel):
    """Each role first reads what the other role writes last, so the rule allows neither."""
    request = Request(small_kernel(CROSSED, threads=64), RolesProblem())
    cut = steps.cut(execute.run(request).trace, sites_of(request))
    assert cut.table.role.tolist() == ["left", "left", "right", "right"] and cut.unordered == {0, 1, 2, 3}

    def touch(tensor, writes):
        return steps._Touch(tensor, writes, 0, 0, 4)

    reads_b, writes_a = touch("B", False), touch("A", True)
    reads_a, writes_b = touch("A", False), touch("B", True)
    crossed = {1: [reads_b], 2: [writes_a], 4: [reads_a], 5: [writes_b]}
    assert steps._merged([[0, 1, 2], [3, 4, 5]], crossed) == ([0, 3, 1, 2, 4, 5], 2)
    assert steps._merged([[0, 2], [3, 4]], crossed) == ([0, 3, 2, 4], 4)


@pytest.mark.parametrize(
    "name", [n for n, s in KERNELS.items() if any(x.kind == "role" for x in sites_of(Request(s, s.problem_type())))]
)
def test_the_rule_orders_every_step_of_our_kernels(cpu_run, name):
    run = cpu_run(name)
    assert steps.cut(run.trace, sites_of(run.request)).unordered == frozenset()
