"""The lab's bad input, and what is recorded of it on a GPU."""

import numpy as np
import pytest

from kernels import build, catalog, counters, hierarchy, lab, measurements, occupancy, tables
from kernels.backends.cpu import device
from kernels.errors import ProblemError
from kernels.execute import Request, check_possible
from kernels.problem import AttentionProblem


def refused(kernel, problem, settings=()):
    check_possible(Request(catalog.KERNELS[kernel], problem, settings), device())


@pytest.mark.parametrize("make, says", [
    (lambda: lab.ColumnsProblem(0), "stride is 0; it must be a whole number from 1 to 4096"),
    (lambda: lab.GlobalProblem(stride=0), "stride is 0"),
    (lambda: lab.GlobalProblem("paged_split", 4), "width is 4; the paged K cache is split in pieces of 16 bytes"),
    (lambda: lab.AccessProblem("shared_load", 8, offsets=(4,) * 32), "offsets.0. is 4, not a multiple of the width, 8"),
    (lambda: lab.AccessProblem("ldmatrix", 8), "width is 8; for ldmatrix it must be one of 16"),
    (lambda: lab.AccessProblem("ldmatrix", 16, 4, (-1,) * 32), "needs the rows of lanes 0 to 31"),
    (lambda: lab.AccessProblem(offsets=(0,)), "offsets has 1 entries; a warp has 32 lanes"),
    (lambda: refused("lab_columns", lab.ColumnsProblem(32), (("WIDTH", 16), ("PAD", 1))), "132 bytes; an access of 16 bytes must begin at a multiple of 16"),
    (lambda: refused("lab_columns", lab.ColumnsProblem(32), (("MATRICES", 4),)), "WIDTH is 4; an ldmatrix reads rows of 16 bytes"),
    (lambda: refused("lab_columns", lab.ColumnsProblem(24), (("SWIZZLE", 1),)), "holds 24 pieces of 4 bytes; the XOR swizzle needs a power of two"),
    (lambda: refused("lab_columns", lab.ColumnsProblem(4096)), "needs 524,288 bytes of shared memory per block; .* allows 232,448. Choose a smaller stride"),
    (lambda: refused("lab_chase", hierarchy.ChaseProblem("shared", 2**20)), "needs 1,048,576 bytes of shared memory"),
    (lambda: refused("lab_transpose", lab.TransposeProblem(32, 30), (("WIDTH", 16),)), "columns is 30; rows read in pieces of 16 bytes need a multiple of 4"),
    (lambda: build.build(catalog.KERNELS["03_flash"], {}, build.Mode.TIMED, "sm_12"), "arch is 'sm_12'; this NVRTC knows sm_"),
    (lambda: occupancy.machine("sm_12"), "The limits of 'sm_12' are not known here; they are of sm_75, sm_80"),
    (lambda: measurements.timeline(Request(catalog.KERNELS["03_flash"], AttentionProblem())), "a CPU run yields none"),
])
def test_bad_input_is_refused_with_the_reason(make, says):
    with pytest.raises(ProblemError, match=says):
        make()


def test_the_recorded_plateaus_stand_where_the_levels_are_and_the_copy_is_near_the_measured_ceiling():
    table, where = measurements.recorded_table(measurements.HIERARCHY)
    assert "H200" in where["device"] and where["date"] and where["driver"] and "NVRTC" in where["compiler"]
    assert where["sources"] == {name: spec.source_hash for name, spec in catalog.family("hierarchy").items()}
    cycles = table[table.kind == "latency"].groupby("space").apply(lambda part: part.set_index("working_set").cycles)
    assert cycles["shared"].max() < 1.01 * cycles["shared"].min()
    through_l1 = cycles["through_l1"]
    assert 30 < through_l1[4096] < 60 < 200 < through_l1[2**20] < 400 < through_l1[2**28]
    assert np.isclose(table[table.space == "copy"].gb_per_s.max(), 4280, rtol=0.1)  # FACTS.md: 4.28 TB/s
    assert (table.cycles_least <= table.cycles).sum() == (table.kind == "latency").sum()


def test_recorded_cycles_are_the_derived_wavefronts_once_the_banks_set_the_pace():
    table, where = measurements.recorded_table(measurements.CYCLES)
    assert "H200" in where["device"] and where["sources"] == {"lab_columns": catalog.KERNELS["lab_columns"].source_hash}
    bound = table[(table.wavefronts >= 8) & (table.stride >= 8)]
    assert len(bound) >= 15 and np.allclose(bound.cycles, bound.wavefronts, rtol=0.02)
    assert (table.cycles >= table.wavefronts - 0.01).all()


def test_recorded_wavefronts_are_those_of_the_trace():
    table, _ = measurements.recorded_table(measurements.CYCLES)
    for row in table.iloc[::9].itertuples():
        settings = tuple((c.name, int(getattr(row, c.name))) for c in lab.TILE_CONSTANTS)
        assert measurements.wavefronts_per_access(lab.ColumnsProblem(int(row.stride)), settings, "cpu") == row.wavefronts


def test_occupancy_equals_what_the_driver_said_of_every_kernel():
    table, where = tables.load(counters.OCCUPANCY)
    assert "H200" in where["device"] and set(table.kernel) == set(catalog.KERNELS) and len(table) >= 6 * len(catalog.KERNELS)
    for row in table.itertuples():
        assert min(occupancy.limits(row.threads, row.registers, row.shared_bytes, occupancy.MACHINES["sm_90"]).values()) == row.driver, row


@pytest.mark.parametrize("arch", occupancy.MACHINES)
def test_occupancy_is_known_for_every_architecture_and_says_what_limits(arch):
    (found,) = occupancy.occupancy(catalog.KERNELS["03_flash"], AttentionProblem(head_dim=128), (("BLOCK_KV", 32), ("BLOCK_Q", 32)), arch)
    assert found.blocks == min(found.limits.values()) == found.limits[found.limited_by]
    assert found.blocks * found.threads <= 32 * occupancy.MACHINES[arch].warps
    assert found.shared_bytes == 4 * (3 * 32 * 128 + 32 * 32)


def test_another_tile_size_is_a_build_of_its_own():
    kernel, problem = catalog.KERNELS["03_flash"], AttentionProblem(seq_len=256)
    found = occupancy.alternatives(kernel, problem, ())
    assert len(found) == 9
    for settings, result in found:
        assert result == occupancy.occupancy(kernel, problem, settings)[0]
    assert len({result.registers for _, result in found}) > 1


def test_recorded_timelines_are_of_present_sources_and_hold_every_block():
    assert len(measurements.timeline_index()) >= 5
    for entry in measurements.timeline_index().values():
        kernel = catalog.KERNELS[entry["kernel"]]
        request = Request(kernel, kernel.problem_type(**entry["problem"]), tuple(entry["settings"].items()), backend="recorded")
        found = measurements.timeline(request)
        blocks = sum(int(np.prod(launch.grid)) for launch in request.plan.launches)
        assert len(found.table) + found.left == blocks and found.provenance == "recorded" and "H200" in found.device
        assert (found.table.end_ns >= found.table.start_ns).all() and found.table.sm.between(0, found.multiprocessors - 1).all()
