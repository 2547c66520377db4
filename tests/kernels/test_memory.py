"""The rules of banks and sectors: held against Nsight Compute's counts, on worked examples, over whole traces, and on bad input."""

from dataclasses import replace

import numpy as np
import pytest

from kernels import calibration, memory, tables
from kernels.errors import ProblemError
from kernels.execute import Request, Scope
from kernels.lab import AccessProblem, ColumnsProblem

LANES = range(32)
TABLE, WHERE = tables.load(calibration.PATH)


@pytest.mark.parametrize("op", calibration.METRICS)
def test_the_model_equals_every_access_of_the_table_that_ncu_made(op):
    rows = TABLE[TABLE.op == op]
    assert len(rows) >= 60 and "NVIDIA" in WHERE["device"] and WHERE["date"]
    missed = [(row.offsets, row.measured) for row in rows.itertuples() if calibration.modelled(calibration.read_problem(row)) != row.measured]
    assert not missed


def test_the_table_covers_every_width_mask_and_pattern_that_the_rules_speak_of():
    assert len(TABLE) > 3000
    for op in ("shared_load", "shared_store", "global_load", "global_store"):
        assert set(TABLE[TABLE.op == op].width) == set(memory.WIDTHS)
    assert set(TABLE[TABLE.op == "cp_async"].width) == {4, 8, 16} and set(TABLE[TABLE.op == "ldmatrix"].matrices) == {1, 2, 4}
    assert TABLE.offsets.str.contains("-").sum() > 500
    assert TABLE[TABLE.op == "shared_load"].measured.nunique() > 10


@pytest.mark.parametrize("addresses, width, op, wanted", [
    ([4 * lane for lane in LANES], 4, "load", (1, 1, 0)),
    ([128 * lane for lane in LANES], 4, "load", (32, 1, 31)),
    ([132 * lane for lane in LANES], 4, "load", (1, 1, 0)),
    ([64] * 32, 4, "load", (1, 1, 0)),
    ([8 * lane for lane in LANES], 8, "load", (2, 2, 0)),
    ([16 * lane for lane in LANES], 16, "store", (4, 4, 0)),
    ([16 * (lane // 2) for lane in LANES], 16, "load", (2, 2, 0)),   # n and n^1 alike: the passes merge
    ([16 * (lane // 2) for lane in LANES], 16, "store", (4, 4, 0)),  # a store's do not
    ([128 * lane for lane in LANES], 16, "ldmatrix", (32, 4, 28)),
    ([64] * 32, 4, "cp_async", (32, 1, 31)),                         # no sharing
    ([64] * 32, 16, "cp_async_l2", (0, 0, 0)),
    ([None] * 32, 4, "load", (0, 0, 0)),
])
def test_worked_examples(addresses, width, op, wanted):
    assert memory.shared_wavefronts(addresses, width, op)[:3] == wanted


def test_the_banks_tell_lanes_and_words_and_broadcasts_from_conflicts():
    found = memory.shared_wavefronts([0, 0, 128, 4] + [None] * 28, 4, "load")
    assert found.banks == {0: (memory.Touch(0, 0, 0, (0, 1)), memory.Touch(0, 1, 32, (2,))), 1: (memory.Touch(0, 0, 1, (3,)),)}
    assert (found.wavefronts, found.conflicts) == (2, 1)


def test_sectors_lines_and_useful_bytes():
    assert memory.global_sectors([4 * lane for lane in LANES], 4) == (4, 1, 128)
    assert memory.global_sectors([4 * lane + 4 for lane in LANES], 4) == (5, 2, 128)
    assert memory.global_sectors([32 * lane for lane in LANES], 4) == (32, 8, 128)
    assert memory.global_sectors([None] * 31 + [16], 16) == (1, 1, 16)
    assert memory.global_sectors([0] * 32, 2) == (1, 1, 2)


@pytest.mark.parametrize("addresses, width, op, matrices, says", [
    ([2] * 32, 4, "load", 4, "lane 0 has offset 2; an access of 4 bytes needs a multiple of 4"),
    ([-4] * 32, 4, "load", 4, "lane 0 has offset -4"),
    ([0] * 31, 4, "load", 4, "there are 31 addresses; a warp has 32 lanes"),
    ([0] * 32, 3, "load", 4, "width_bytes is 3; for load it must be one of 1, 2, 4, 8, 16"),
    ([0] * 32, 8, "ldmatrix", 4, "width_bytes is 8; for ldmatrix it must be 16"),
    ([0] * 32, 16, "ldmatrix", 3, "matrices is 3; it must be 1, 2 or 4"),
    ([0] * 32, 4, "swap", 4, "op is 'swap'; it must be one of load, store, ldmatrix"),
])
def test_bad_input_is_refused_with_the_value_and_what_is_allowed(addresses, width, op, matrices, says):
    with pytest.raises(ProblemError, match=says):
        memory.shared_wavefronts(addresses, width, op, matrices)


def test_counting_many_requests_at_once_gives_what_one_at_a_time_does():
    rng = np.random.default_rng(0)
    for width in memory.WIDTHS:
        offsets, active = rng.integers(0, 600, (200, 32)) * width, rng.random((200, 32)) < 0.8
        offsets[:50] = offsets[:50, np.arange(32) // 2 * 2]
        addresses = [[int(o) if on else None for o, on in zip(*row)] for row in zip(offsets, active)]
        one = [memory.shared_wavefronts(row, width, "load") for row in addresses]
        wavefronts, ideal = memory.count_wavefronts(offsets, active, width, "load")
        assert wavefronts.tolist() == [w.wavefronts for w in one] and ideal.tolist() == [w.ideal for w in one]
        sectors, lines, used = memory.count_sectors(offsets, active, width)
        assert list(zip(sectors, lines, used)) == [memory.global_sectors(row, width) for row in addresses]


def test_a_trace_gives_each_warps_requests_in_order(cpu_run):
    found = memory.requests(cpu_run("03_flash", scope=Scope(0, 2)).trace)
    assert (found.table.active == 32).all() and set(found.table.space) == {"shared", "global"}
    k = found.where((found.table.tensor == "K") & (found.table.space == "shared") & (found.table.kind == "load"))
    assert len(k.table) == 2 * 4 * 8 * 8  # blocks x key tiles x warps x (HEAD_DIM / 4)
    assert set(k.costs.wavefronts) == {32} and set(k.costs.ideal) == {4}


def test_diverged_lanes_are_paired_by_their_occurrence(cpu_run):
    request = Request(cpu_run().request.kernel, cpu_run().request.problem)
    ragged = cpu_run("03_flash", replace(request.problem, seq_len=50), (), Scope(3))
    loads = memory.requests(ragged.trace, "global")
    q = loads.where(loads.table.tensor == "Q")
    assert q.table.active.tolist() == [16]  # rows 48 and 49 of the last query tile: 64 floats, 16 lanes of 16 bytes


@pytest.mark.parametrize("op, width, matrices", [("shared_load", 8, 4), ("shared_store", 16, 4), ("ldmatrix", 16, 2), ("cp_async", 8, 4),
                                                 ("global_load", 2, 4)])
def test_the_traced_access_is_the_access_asked_for(cpu_run, op, width, matrices):
    problem = AccessProblem(op, width, matrices, tuple(width * (37 * lane % 61) for lane in LANES))
    costs = memory.requests(cpu_run("lab_access", problem).trace).costs
    kind = {"shared_load": "load", "shared_store": "store", "global_load": "load"}.get(op, op)
    mine = costs[(costs.kind == kind) & (costs.bytes == width) & (costs.tensor == "X") & (costs.space == ("global" if op == "global_load" else "shared"))]
    assert (mine.sectors if op == "global_load" else mine.wavefronts).iloc[0] == calibration.modelled(problem)


@pytest.mark.parametrize("settings, wanted", [((), 32), ((("PAD", 1),), 1), ((("PAD", 2),), 2), ((("SWIZZLE", 1),), 1), ((("WIDTH", 16),), 32),
                                              ((("WIDTH", 16), ("PAD", 4)), 4), ((("WIDTH", 16), ("MATRICES", 4), ("SWIZZLE", 1)), 4)])
def test_padding_and_swizzle_make_the_wavefronts_fall(cpu_run, settings, wanted):
    costs = memory.requests(cpu_run("lab_columns", ColumnsProblem(), settings).trace, "shared").costs
    assert set(costs[costs.kind != "store"].wavefronts) == {wanted}
