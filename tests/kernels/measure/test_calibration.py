"""The rules of memory/model.py against every access that Nsight Compute counted; and what is compared on a GPU."""

import pytest

from kernels import catalog
from kernels.core.request import Request
from kernels.families.lab.accesses import AccessProblem
from kernels.measure import calibration, counters
from kernels.run import execute
from kernels.trace.kinds import KIND, LAB_KINDS, kind_of
from kernels.trace.memory import traced

RECORDED = calibration.recorded()


def read_problem(row):
    """The AccessProblem of a row of the table."""
    offsets = tuple(-1 if o == "-" else int(o) for o in row.offsets.split())
    return AccessProblem(row.op, int(row.width), int(row.matrices), offsets)


@pytest.mark.parametrize("op", calibration.METRICS)
@pytest.mark.parametrize("gpu", RECORDED)
def test_the_model_equals_every_access_of_the_table_that_ncu_made(gpu, op):
    table, where = RECORDED[gpu]
    rows = table[table.op == op]
    assert len(rows) >= 60 and "NVIDIA" in where.device and where.date and where.more["metrics"] == calibration.METRICS
    found = {row.offsets: (calibration.modelled(read_problem(row)), row.measured) for row in rows.itertuples()}
    assert not [offsets for offsets, (modelled, measured) in found.items() if modelled != measured]


def test_the_cases_cover_every_kind_width_mask_and_pattern_that_the_rules_speak_of():
    cases = calibration.cases()
    assert len(cases) > 3000 and len(set(cases)) > 3000
    for kind in LAB_KINDS:
        assert {case.width for case in cases if case.op == kind.name} == set(kind.widths)
    assert {case.matrices for case in cases if case.op == "ldmatrix"} == {1, 2, 4}
    assert sum(-1 in case.offsets for case in cases) > 500
    assert len({calibration.modelled(case) for case in cases if case.op == "shared_load"}) > 10


@pytest.mark.parametrize("gpu", RECORDED)
def test_a_recorded_table_holds_every_case(gpu):
    table, _ = RECORDED[gpu]
    assert {read_problem(row) for row in table.itertuples()} == set(calibration.cases())
    assert (table.modelled == table.measured).all()


def test_a_row_of_the_table_reads_back_as_the_access():
    problem = AccessProblem("shared_load", 8, offsets=(-1, *range(0, 248, 8)))
    written = calibration.write_offsets(problem.offsets)
    assert written.startswith("- 0 8 16")
    row = type("Row", (), {"op": "shared_load", "width": 8, "matrices": 4, "offsets": written})
    assert read_problem(row) == problem


@pytest.mark.parametrize("kind", LAB_KINDS, ids=lambda kind: kind.name)
def test_the_traced_access_is_the_access_asked_for(kind):
    (kernel,) = catalog.current().of_problem(AccessProblem).values()
    width = kind.widths[len(kind.widths) // 2]
    problem = AccessProblem(kind.name, width, 2, tuple(width * (37 * lane % 61) for lane in range(32)))
    costs = traced.requests(execute.run(Request(kernel, problem)).trace).costs
    tensor = "Y" if kind.name == "global_store" else "X"
    mine = costs[(costs.kind == kind.event) & (costs.space == kind.space) & (costs.tensor == tensor)]
    mine = mine[mine.bytes == width] if kind.event != "ldmatrix" else mine
    cost = "sectors" if kind.space == "global" else "wavefronts"
    assert kind_of(kind.event, kind.space) is kind and mine[cost].iloc[0] == calibration.modelled(problem)


def test_every_kernel_with_counter_cases_can_be_asked_about():
    asked = counters.requests()
    assert {request.kernel.family for request in asked} >= set(catalog.current().families) & {"dense", "paged", "lab"}
    assert all(request.backend == "gpu" and request.plan.launches for request in asked)
    (columns,) = (kernel for kernel in catalog.KERNELS.values() if kernel.name == "lab_columns")
    assert {request.kernel for request in counters.requests([columns])} == {columns}


def test_the_derived_counts_are_those_of_the_trace():
    """What `counters` holds against the hardware, by hand: one tile of 32 x 32 floats, 4 warps, in conflict
    everywhere."""
    kernel = catalog.KERNELS["lab_transpose"]
    (row,) = counters.derived(Request(kernel, kernel.problem_type())).itertuples()
    assert (row.launch, row.entry) == (0, "lab_transpose")
    assert row.wavefronts_load == 32 * 32  # each of 32 columns is a 32-way conflict
    assert row.wavefronts_store == 32
    assert row.sectors_load == 32 * 4
    assert row.sectors_store == 32 * 4 + 4 * 2  # the rows of O, and each warp's two clocks
    assert counters.METRICS["wavefronts_load"] == KIND["ldmatrix"].metric
