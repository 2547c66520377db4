"""The rules of banks and sectors: on worked examples, over whole traces, and on bad input. test_calibration.py holds
them against Nsight Compute's counts."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.families.lab.patterns import RolesProblem
from kernels.run.execute import run
from kernels.trace.kinds import LANE_KINDS
from kernels.trace.memory import model, traced

LANES = range(32)


@pytest.mark.parametrize(
    "addresses, width, op, wanted",
    [
        ([4 * lane for lane in LANES], 4, "load", (1, 1, 0)),
        ([128 * lane for lane in LANES], 4, "load", (32, 1, 31)),
        ([132 * lane for lane in LANES], 4, "load", (1, 1, 0)),
        ([64] * 32, 4, "load", (1, 1, 0)),
        ([8 * lane for lane in LANES], 8, "load", (2, 2, 0)),
        ([16 * lane for lane in LANES], 16, "store", (4, 4, 0)),
        ([16 * (lane // 2) for lane in LANES], 16, "load", (2, 2, 0)),  # n and n^1 alike: the passes merge
        ([16 * (lane // 2) for lane in LANES], 16, "store", (4, 4, 0)),  # a store's do not
        ([128 * lane for lane in LANES], 16, "ldmatrix", (32, 4, 28)),
        ([64] * 32, 4, "cp_async", (32, 1, 31)),  # no sharing
        ([64] * 32, 16, "cp_async_l2", (0, 0, 0)),
        ([None] * 32, 4, "load", (0, 0, 0)),
    ],
)
def test_worked_examples(addresses, width, op, wanted):
    assert model.shared_wavefronts(addresses, width, op)[:3] == wanted


def test_the_banks_tell_broadcasts_from_conflicts_and_sectors_lines_and_useful_bytes_are_counted():
    found = model.shared_wavefronts([0, 0, 128, 4] + [None] * 28, 4, "load")
    assert found.banks == {
        0: (model.Touch(0, 0, 0, (0, 1)), model.Touch(0, 1, 32, (2,))),
        1: (model.Touch(0, 0, 1, (3,)),),
    }
    assert (found.wavefronts, found.conflicts) == (2, 1)
    assert model.global_sectors([4 * lane for lane in LANES], 4) == (4, 1, 128)
    assert model.global_sectors([4 * lane + 4 for lane in LANES], 4) == (5, 2, 128)
    assert model.global_sectors([32 * lane for lane in LANES], 4) == (32, 8, 128)
    assert model.global_sectors([None] * 31 + [16], 16) == (1, 1, 16)
    assert model.global_sectors([0] * 32, 2) == (1, 1, 2)


@pytest.mark.parametrize(
    "addresses, width, op, matrices, says",
    [
        ([2] * 32, 4, "load", 4, "lane 0 has offset 2. An access of 4 bytes needs a multiple of 4"),
        ([-4] * 32, 4, "load", 4, "lane 0 has offset -4"),
        ([0] * 31, 4, "load", 4, "there are 31 addresses. A warp has 32 lanes"),
        ([0] * 32, 3, "load", 4, "width_bytes is 3. For load it must be one of 1, 2, 4, 8 or 16"),
        ([0] * 32, 8, "ldmatrix", 4, "width_bytes is 8. For ldmatrix it must be 16"),
        ([0] * 32, 2, "cp_async", 4, "width_bytes is 2. For cp_async it must be one of 4, 8 or 16"),
        ([0] * 32, 16, "ldmatrix", 3, "matrices is 3. It must be 1, 2 or 4"),
        ([0] * 32, 4, "swap", 4, "op is 'swap'. It must be one of load, store, ldmatrix"),
    ],
)
def test_bad_input_is_refused_with_the_value_and_what_is_allowed(addresses, width, op, matrices, says):
    with pytest.raises(ProblemError, match=says):
        model.shared_wavefronts(addresses, width, op, matrices)


def test_every_kind_costs_by_its_row_and_many_requests_at_once_count_like_one_at_a_time():
    rng = np.random.default_rng(0)
    for width in (1, 2, 4, 8, 16):
        offsets, active = rng.integers(0, 600, (200, 32)) * width, rng.random((200, 32)) < 0.8
        offsets[:50] = offsets[:50, np.arange(32) // 2 * 2]
        addresses = [[int(o) if on else None for o, on in zip(*row)] for row in zip(offsets, active)]
        one = [model.shared_wavefronts(row, width, "load") for row in addresses]
        wavefronts, ideal = model.count_wavefronts(offsets, active, width, "load")
        assert wavefronts.tolist() == [w.wavefronts for w in one] and ideal.tolist() == [w.ideal for w in one]
        sectors, lines, used = model.count_sectors(offsets, active, width)
        assert list(zip(sectors, lines, used)) == [model.global_sectors(row, width) for row in addresses]
    # Every lane wants another word of one bank, or all want the same one.
    spread = [128 * lane for lane in LANES]
    for kind in LANE_KINDS:
        if kind.space == "global":
            assert model.global_sectors(spread, 16).sectors == 32
            continue
        wanted = {"merged": (32, 4), "shared": (32, 4), "separate": (32, 32), "bypass": (0, 0)}[kind.rule.value]
        found = model.shared_wavefronts(spread, 16, kind.event), model.shared_wavefronts([64] * 32, 16, kind.event)
        merged = 2 if kind.rule.value == "merged" else wanted[1]
        assert (found[0].wavefronts, found[1].wavefronts) == (wanted[0], merged)


def test_a_trace_gives_each_warps_requests_in_order_with_diverged_lanes_paired(cpu_run):
    found = traced.requests(cpu_run("03_flash", scope=Scope(0, 2)).trace)
    assert (found.table.active == 32).all() and set(found.table.space) == {"shared", "global"}
    k = found.where((found.table.tensor == "K") & (found.table.space == "shared") & (found.table.kind == "load"))
    assert len(k.table) == 2 * 4 * 8 * 8  # blocks x key tiles x warps x (HEAD_DIM / 4)
    assert set(k.costs.wavefronts) == {32} and set(k.costs.ideal) == {4}
    ragged = cpu_run("03_flash", replace(cpu_run().request.problem, seq_len=50), (), Scope(3))
    loads = traced.requests(ragged.trace, "global")
    q = loads.where(loads.table.tensor == "Q")
    assert q.table.active.tolist() == [16]  # rows 48 and 49 of the last query tile: 64 floats, 16 lanes of 16 bytes


@pytest.mark.parametrize(
    "settings, wanted",
    [
        ((), 32),
        ((("PAD", 1),), 1),
        ((("PAD", 2),), 2),
        ((("SWIZZLE", 1),), 1),
        ((("WIDTH", 16),), 32),
        ((("WIDTH", 16), ("PAD", 4)), 4),
        ((("WIDTH", 16), ("MATRICES", 4), ("SWIZZLE", 1)), 4),
    ],
)
def test_padding_and_swizzle_make_the_wavefronts_fall(cpu_run, settings, wanted):
    costs = traced.requests(cpu_run("lab_columns", None, settings).trace, "shared").costs
    assert set(costs[costs.kind != "store"].wavefronts) == {wanted}


def test_requests_say_file_and_line_and_are_summed_by_them(cpu_run):
    """Two probes on the same line of two files are two."""
    made = cpu_run("paged_v1")
    found = traced.requests(made.trace)
    assert tuple(found.table.columns) == traced.COLUMNS
    assert set(found.table.file) == {name for name, text in made.request.kernel.files if "_gmem, " in text} - {
        "probe.cuh"
    }
    sums = found.by_line
    assert not sums.duplicated(["launch", "file", "line"]).any() and sums.requests.sum() == len(found.table)
    assert sums.sectors.sum() == found.costs.sectors.sum() > 0


def test_lanes_are_paired_by_site_where_two_files_share_a_line_number(small_kernel):
    """The header's load stands on the line of the kernel's store: by line alone each lane would pass it twice."""
    load = "  PROBE_LOAD(S_smem, i, 4);\n  return lds<float>(&S_smem[i]);\n}\n"
    head = "__device__ __forceinline__ float get(const float* S_smem, int i PROBE_REF) {\n"
    body = "  const int i = threadIdx.x;\n  PROBE_STORE(S_smem, i, 4);\n  sts<float>(&S_smem[i], 1.f);\n"
    body += "  get(S_smem, i PROBE_PASS);"
    line = small_kernel(body).source.splitlines().index("  PROBE_STORE(S_smem, i, 4);") + 1
    header = "\n" * (line - 2) + head + load
    made = run(Request(small_kernel(body, above='#include "get.cuh"', threads=32, get=header), RolesProblem()))
    table = traced.requests(made.trace).table
    assert table[["file", "line", "kind", "active"]].values.tolist() == [
        ["small.cu", line, "store", 32],
        ["get.cuh", line, "load", 32],
    ]
